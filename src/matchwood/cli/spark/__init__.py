"""`matchwood spark STAGE`: the pipeline's stages on a lake, one file a verb. A local session unless `--master` says otherwise."""

from __future__ import annotations

import argparse

from matchwood.cli.spark import (
    cover,
    evaluate,
    index,
    ingest,
    match,
    match_subscriptions,
    profile,
    stream,
    vacuum,
    weigh,
)

STAGES = (ingest, profile, weigh, cover, index, match, match_subscriptions, evaluate, stream, vacuum)


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb and, below it, the stages."""
    parser = verbs.add_parser(
        "spark", help="the pipeline on Spark: ingest, profile, weigh, cover, index, match, evaluate, stream"
    )
    stages = parser.add_subparsers(title="stages", required=True, metavar="STAGE")
    for stage in STAGES:
        stage.add_parser(stages)
