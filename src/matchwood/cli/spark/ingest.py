"""`matchwood spark ingest LAKE subscriptions|events FILES`: raw files to a typed table and its rejects."""

from __future__ import annotations

import argparse

from matchwood.cli.codes import REJECTED
from matchwood.cli.spark.lake import opened, print_manifest, stage
from matchwood.errors import QueryError


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "ingest", "raw files to typed tables; bad rows to rejects")
    parser.add_argument("kind", choices=["subscriptions", "events"])
    parser.add_argument("path", help="a file, a folder or a pattern")
    parser.add_argument("--format", choices=["csv", "jsonl", "parquet"], help="default: by the ending of the name")
    parser.add_argument("--form", choices=["text", "wide", "list"], help="default: by the columns")
    parser.add_argument("--type", action="append", default=[], metavar="NAME=TYPE", help="declare an attribute's type")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ingest, and print the counts of records; return the exit code."""
    declared = {}
    for item in options.type:
        name, equals, type_ = item.partition("=")
        if not equals:
            raise QueryError(f"--type: expected NAME=TYPE, got {item!r}")
        declared[name] = type_
    with opened(options) as (lake, spark):
        from matchwood.schema import Schema
        from matchwood.spark.ingest import read_raw
        from matchwood.spark.pipeline import ingest_table

        raw, form = read_raw(spark, options.path, format=options.format, schema=Schema(declared))
        made = ingest_table(lake, raw, options.kind, form=form or options.form, source=options.path, schema=declared)
        print_manifest(made)
        return REJECTED if made.counts["rejected"] else 0
