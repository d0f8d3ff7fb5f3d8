"""`matchwood spark index LAKE`: build and publish a version of the index."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, stage


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "index", "build and publish a version of the index")
    parser.add_argument("--table", default="subscriptions", help="or weighed")
    parser.add_argument("--index", default="auto", help="the index to use; auto tries which is best")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--by", choices=["auto", "hash", "space"], default="auto", help="how to distribute over shards")
    parser.add_argument("--covered", action="store_true", help="keep covered subscriptions apart; run cover first")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Build an index of the newest table."""
    with opened(options) as (lake, spark):
        from matchwood.spark.pipeline import index_table

        kinds = {"index": options.index, "shards": options.shards, "by": options.by}
        made = index_table(lake, spark, table=options.table, covered=options.covered, **kinds)
        print(f"index version {made.version}: {made.index}, {len(made.shards)} shards, {made.bytes:,} bytes")
