"""`matchwood spark evaluate LAKE`: a sample of the newest matches against the oracle."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, stage
from matchwood.errors import QueryError


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "evaluate", "a sample of the matches against the oracle")
    parser.add_argument("--events", type=int, default=20, help="the number to sample")
    parser.add_argument(
        "--subscriptions", type=int, default=2_000, help="the number to sample besides those that were reported"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Evaluate; a fault is an error."""
    with opened(options) as (lake, spark):
        from matchwood.spark.pipeline import evaluate_table

        found = evaluate_table(
            lake, spark, sample_events=options.events, sample_subscriptions=options.subscriptions, seed=options.seed
        )
    print(
        f"{found.events} events, {found.judged:,} judgements, {found.matches_per_event:.2f} matches and "
        f"{found.candidates_per_event:,.1f} candidates an event"
    )
    if not found.passed:
        raise QueryError(f"the matches differ from the oracle: {found.faults}")
