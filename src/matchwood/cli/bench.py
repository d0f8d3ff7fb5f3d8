"""`matchwood bench`: measures how many events a broker takes, and how long each waits for its acknowledgement."""

from __future__ import annotations

import argparse
from pathlib import Path

from matchwood.cli.demo import positive
from matchwood.cli.remote import add_broker, with_broker

MAX_SECONDS = 300.0


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "bench",
        help="measure how many events a broker takes",
        description="Publish events for some seconds over several connections; each waits for an acknowledgement before it "
        "sends the next. Prints rate and latency. The events are really published: use a tenant of its own. Only a broker "
        "on this machine is measured, unless --anywhere is given.",
    )
    parser.add_argument("--seconds", type=_seconds, default=5.0, help="how long (default: 5)")
    parser.add_argument(
        "--connections", type=positive, default=16, metavar="N", help="how many at a time (default: 16)"
    )
    parser.add_argument("--batch", type=positive, default=1, metavar="N", help="events in one request (default: 1)")
    parser.add_argument("--events", type=Path, metavar="FILE", help="JSON lines to publish in turn (default: made up)")
    parser.add_argument("--anywhere", action="store_true", help="also a broker on another machine")
    add_broker(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print what was measured."""
    from matchwood.cli.loading import measured, read_lines

    lines = read_lines(options.events)
    return with_broker(options, lambda mw: measured(mw, lines, options))


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"expected at most {MAX_SECONDS:g} s, got {text}")
    return seconds
