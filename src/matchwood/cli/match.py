"""`matchwood match SUBSCRIPTIONS EVENTS`: matches two tables in this process.

A table is Parquet (a file or a folder), CSV, or JSON lines, by the ending of its name (docs/encoding.md describes the forms).
Matches are records of event_id, subscription_id, score and rank: JSON lines on standard output, or the file of `--out`. The id of
an event without one is its position. Subscriptions that have expired now, or at the time of `--at`, are left out. Records that
cannot be read are reported on standard error with the reason, written to the file of `--rejects`, and make the exit code 3.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matchwood.cli.demo import positive


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "match",
        help="match a table of events with a table of subscriptions",
        epilog="Exit codes: 0 if every record was read, 3 if some were rejected (the others are matched), 2 for an error.",
    )
    parser.add_argument("subscriptions", type=Path, help="Parquet, CSV or JSON lines")
    parser.add_argument("events", type=Path, help="Parquet, CSV or JSON lines")
    parser.add_argument("-k", "--top-k", type=positive, metavar="K", help="only the K best matches of each event")
    parser.add_argument("--mode", choices=["all", "any"], default="all", help="which predicates must hold")
    parser.add_argument(
        "--scoring",
        choices=["sum", "max", "priority"],
        default="sum",
        help="how priority and weights make the score (default: sum)",
    )
    parser.add_argument("--index", metavar="NAME", help="the index to use (default: auto)")
    expiry = parser.add_mutually_exclusive_group()
    expiry.add_argument(
        "--at", metavar="INSTANT", help="leave out what has expired at this time, in ISO 8601 (default: now)"
    )
    expiry.add_argument("--include-expired", action="store_true", help="match subscriptions that have expired as well")
    parser.add_argument(
        "--schema", type=Path, metavar="FILE", help='types as JSON: {"age": "number", ...} (default: learnt)'
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column of the subscriptions that is no condition; may be repeated",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="a .parquet or .jsonl file (default: standard output)")
    parser.add_argument(
        "--rejects", type=Path, metavar="FILE", help="write records that cannot be read to this file, as JSON lines"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Match the tables; return the exit code."""
    from matchwood.cli.match_tables import match_tables  # not for --help

    return match_tables(options)
