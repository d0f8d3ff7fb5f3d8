"""`matchwood spark match LAKE`: the newest events against an index version."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, print_manifest, stage


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "match", "events against an index version")
    parser.add_argument("-k", type=int, help="only the k best matches of each event")
    parser.add_argument("--mode", choices=["all", "any"], default="all")
    parser.add_argument("--scoring", choices=["sum", "max", "priority"], default="sum", help="(default: sum)")
    parser.add_argument("--at", help="the instant, as ISO 8601, at which subscriptions must be alive")
    parser.add_argument("--version", type=int, help="of the index (default: the newest)")
    parser.add_argument("--tasks", type=int, help="the number of tasks to distribute the events to")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Match the newest events."""
    with opened(options) as (lake, spark):
        from matchwood.spark.pipeline import match_table

        settings = {
            "k": options.k,
            "mode": options.mode,
            "scoring": options.scoring,
            "at": options.at,
            "tasks": options.tasks,
        }
        print_manifest(match_table(lake, spark, index=options.version, **settings))
