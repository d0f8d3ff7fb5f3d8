"""`matchwood spark weigh LAKE`: weights by inverse frequency, or as given."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, print_manifest, stage


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "weigh", "weights by inverse frequency, or as given")
    parser.add_argument(
        "--weight", action="append", default=[], metavar="NAME=NUMBER", help="give an attribute its weight"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Weigh the newest subscriptions."""
    with opened(options) as (lake, spark):
        from matchwood.spark.pipeline import weigh_table

        given = {name: float(number) for name, _, number in (item.partition("=") for item in options.weight)}
        print_manifest(weigh_table(lake, spark, weights=given or None, seed=options.seed))
