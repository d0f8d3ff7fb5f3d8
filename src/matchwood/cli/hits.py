"""Printing hits: what `matchwood sub` and `matchwood tail` share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from matchwood.cli.demo import positive

if TYPE_CHECKING:
    from matchwood.client import Hits


def add_ends(parser: argparse.ArgumentParser) -> None:
    """Add the options that say when to stop."""
    parser.add_argument("-n", "--count", type=positive, metavar="N", help="stop after N hits")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="stop after so long")


async def print_hits(hits: Hits, options: argparse.Namespace) -> None:
    """Print hits as lines of JSON, and acknowledge each, until the count or the time is reached."""
    import asyncio

    from matchwood.cli.remote import show

    left = options.count
    async with hits:
        try:
            async with asyncio.timeout(options.timeout):
                async for hit in hits:
                    show(shown(hit))
                    await hit.ack()
                    left = None if left is None else left - 1
                    if left == 0:
                        break
        except TimeoutError:
            pass


def shown(hit: object) -> dict[str, object]:
    """The fields of a hit that say something."""
    names = ("id", "subscription", "seq", "score", "event", "event_id", "metadata", "digest", "left_out")
    fields = {name: getattr(hit, name) for name in names}
    return {name: value for name, value in fields.items() if value not in (None, [], 0) or name in ("seq", "score")}
