"""The common part of the stages: the lake, the session, and printing a manifest."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from matchwood.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from matchwood.spark.lake import Lake


def stage(stages: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help: str) -> argparse.ArgumentParser:
    """A parser with the options of every stage."""
    parser = stages.add_parser(name, help=help)
    parser.add_argument("lake", help="the folder of the lake")
    parser.add_argument("--master", default="local[*]", help="where Spark runs")
    parser.add_argument("--memory", default="2g", help="of the driver")
    return parser


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[tuple[Lake, SparkSession]]:
    """The lake, and a session that ends with the block."""
    if find_spec("pyspark") is None:
        raise UnsupportedError("this needs Spark: pip install 'matchwood[spark]'")
    from matchwood.spark.lake import Lake
    from matchwood.spark.session import local_session

    lake = Lake(options.lake)  # before the session: an unusable folder is an error at once
    spark = local_session(master=options.master, memory=options.memory)
    try:
        yield lake, spark
    finally:
        spark.stop()


def print_manifest(manifest: Any) -> None:
    """Print the name, version and counts of a new table or index in one line."""
    counts = ", ".join(f"{name} {value:,.0f}" for name, value in manifest.counts.items())
    print(f"{manifest.name} version {manifest.version}: {counts}")
