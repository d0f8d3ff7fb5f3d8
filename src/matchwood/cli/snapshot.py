"""`matchwood snapshot`: has a broker write a snapshot now, so that its next start is quick. Needs a key of the scope `admin`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from matchwood.cli.remote import add_broker, with_broker

if TYPE_CHECKING:
    from matchwood.client import Client


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "snapshot", help="have a broker write a snapshot now; prints the number of its last record"
    )
    add_broker(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write it."""

    async def work(mw: Client) -> None:
        print(await mw.snapshot())

    return with_broker(options, work)
