"""`matchwood spark cover LAKE`: which subscriptions are covered by which."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, print_manifest, stage


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "cover", "which subscriptions are covered by which")
    parser.add_argument("--table", default="subscriptions", help="or weighed")
    parser.add_argument("--groups", type=int, default=8, help="tasks that search apart")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Find covers among the newest subscriptions."""
    with opened(options) as (lake, spark):
        from matchwood.spark.pipeline import cover_table

        print_manifest(cover_table(lake, spark, table=options.table, groups=options.groups))
