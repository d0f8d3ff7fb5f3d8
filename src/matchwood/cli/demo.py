"""`matchwood demo`: matches a day of offers with saved searches in a synthetic city.

Runs on Spark, end to end, and writes a report; with `--local` in this process.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("demo", help="match a day of offers with saved searches in a synthetic city")
    parser.add_argument("--subscriptions", type=positive, default=100_000, metavar="N")
    parser.add_argument("--events", type=positive, metavar="N", help="20,000 on Spark, 5,000 in this process")
    parser.add_argument("-k", type=positive, default=10, help="matches to keep for each event, best first")
    parser.add_argument("--index", default="mo-tree", help="the index to use")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--local", action="store_true", help="in this process, without Spark")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="where tables, index and report go")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the demo, on Spark or in this process."""
    if options.local:
        from matchwood.cli import demo_local

        options.events = options.events or 5_000
        demo_local.run(options)
        return
    from matchwood.cli import demo_spark

    options.events = options.events or 20_000
    demo_spark.run(options)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number >= 1, got {text}")
    return number
