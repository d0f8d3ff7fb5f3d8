"""`matchwood spark profile LAKE`: statistics of every attribute."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, print_manifest, stage


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "profile", "statistics of every attribute")

    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Profile the newest tables."""
    with opened(options) as (lake, spark):
        from matchwood.spark.pipeline import profile_tables

        print_manifest(profile_tables(lake, spark))
