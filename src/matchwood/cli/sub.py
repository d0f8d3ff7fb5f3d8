"""`matchwood sub EXPRESSION`: subscribes at a broker and prints hits as they come."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from matchwood.cli.demo import positive
from matchwood.cli.hits import add_ends, print_hits
from matchwood.cli.remote import add_broker, with_broker

if TYPE_CHECKING:
    from matchwood.client import Client


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "sub",
        help="subscribe at a broker and print hits",
        description="Subscribe, and print each hit as a line of JSON. With --durable the broker keeps hits while nobody "
        "listens, and each is acknowledged when it was printed; without it the subscription ends with the command.",
    )
    parser.add_argument("expression", help="e.g. \"item = 'phone' AND price < 300\"")
    parser.add_argument("--durable", metavar="NAME", help="the name of a durable consumer")
    parser.add_argument("--id", help="the id of the subscription (default: the name of the consumer, or a new one)")
    parser.add_argument("--priority", type=float, default=0.0, metavar="P", help="is added to the score of each match")
    parser.add_argument("--place", type=_place, metavar="LON,LAT", help="with --radius: only events within that circle")
    parser.add_argument("--radius", type=float, metavar="METRES")
    parser.add_argument("--until", metavar="INSTANT", help="the end of the subscription")
    parser.add_argument(
        "--digest",
        nargs=2,
        metavar=("N", "SECONDS"),
        help="at most N hits in each period of SECONDS, best first, as one line",
    )
    add_ends(parser)
    add_broker(parser, patience=30.0)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Subscribe, and print until the end."""
    digest = None if options.digest is None else (positive(options.digest[0]), float(options.digest[1]))

    async def work(mw: Client) -> None:
        hits = mw.subscribe(
            options.expression,
            durable=options.durable,
            id=options.id,
            priority=options.priority,
            place=options.place,
            radius=options.radius,
            until=options.until,
            digest=digest,
        )
        await print_hits(hits, options)

    return with_broker(options, work)


def _place(text: str) -> tuple[float, float]:
    lon, lat = text.split(",")
    return float(lon), float(lat)
