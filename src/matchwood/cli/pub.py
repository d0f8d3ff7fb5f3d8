"""`matchwood pub EVENT`: publishes one event, or JSON lines from standard input, to a broker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from matchwood.cli.codes import REJECTED
from matchwood.cli.demo import positive
from matchwood.cli.remote import add_broker, event_of, note, show, with_broker

if TYPE_CHECKING:
    from matchwood.client import Client

_AT_ONCE = 1000


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "pub",
        help="publish events to a broker",
        description="Publish an event: NAME=VALUE pairs, or a JSON object. Without one, JSON lines are read from standard input. "
        "Prints a line for each event: its seq, and how many subscriptions it matched.",
        epilog="Exit codes: 0 if every event was published, 3 if some were rejected, 2 for an error.",
    )
    parser.add_argument(
        "event", nargs="*", metavar="NAME=VALUE", help="e.g. item=phone price=250, or '{\"price\": 250}'"
    )
    parser.add_argument("--id", help="an id: a second event of the same id is not published")
    parser.add_argument("-k", type=positive, metavar="K", help="deliver to the K best subscriptions only")
    parser.add_argument("--until", metavar="INSTANT", help="keep the event alive for later subscriptions")
    parser.add_argument("--wait", action="store_true", help="print the ranking of the subscriptions, too")
    add_broker(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Publish; return the exit code."""

    async def one(mw: Client) -> None:
        event = event_of(options.event)
        show(await mw.publish(event, id=options.id, k=options.k, until=options.until, wait=options.wait))

    async def lines(mw: Client) -> int:
        rejected = 0
        for base, group in _groups():
            answer = await mw.publish_many(group, k=options.k, until=options.until, wait=options.wait)
            for published in answer.events:
                if published is not None:
                    show(published)
            for reject in answer.rejected:
                note(f"line {base + reject.position + 1}: {reject.problem}")
            rejected += len(answer.rejected)
        return REJECTED if rejected else 0

    return with_broker(options, one if options.event else lines)


def _groups() -> Iterator[tuple[int, list[str]]]:
    """The lines of standard input that are not empty, in groups, with the number of those before."""
    lines = (line for line in sys.stdin if line.strip())
    base = 0
    while group := list(islice(lines, _AT_ONCE)):
        yield base, group
        base += len(group)
