"""`matchwood tail [SUBSCRIPTION ...]`: prints the matches of a broker as they happen."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from matchwood.cli.hits import add_ends, print_hits
from matchwood.cli.remote import add_broker, with_broker

if TYPE_CHECKING:
    from matchwood.client import Client


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "tail",
        help="print the matches of a broker as they happen",
        description="Print the matches of these subscriptions, or of all, as lines of JSON. Nothing is acknowledged or changed.",
    )
    parser.add_argument("subscription", nargs="*", help="ids of subscriptions (default: all)")
    parser.add_argument("--after", type=int, metavar="SEQ", help="begin after this position (default: now)")
    parser.add_argument(
        "--shed", action="store_true", help="if this is too slow, leave out the lowest scores and say so"
    )
    add_ends(parser)
    add_broker(parser, patience=30.0)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print until the end."""

    async def work(mw: Client) -> None:
        await print_hits(mw.listen(*options.subscription, after=options.after, shed=options.shed), options)

    return with_broker(options, work)
