"""`matchwood spark match-subscriptions LAKE --at INSTANT`: subscriptions against events that are alive."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, print_manifest, stage


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "match-subscriptions", "subscriptions against live events")
    parser.add_argument("--at", required=True, help="the instant, as ISO 8601")
    parser.add_argument("-k", type=int, help="the k best events of each subscription; all unless given")
    parser.add_argument("--mode", choices=["all", "any"], default="all")
    parser.add_argument("--scoring", choices=["sum", "max", "priority"], default="sum", help="(default: sum)")
    parser.add_argument(
        "--version", type=int, help="of the index that holds the subscriptions; the newest unless given"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Match the subscriptions of an index version."""
    with opened(options) as (lake, spark):
        from matchwood.spark.pipeline import match_subscriptions_table

        settings = {"k": options.k, "mode": options.mode, "scoring": options.scoring, "at": options.at}
        print_manifest(match_subscriptions_table(lake, spark, index=options.version, **settings))
