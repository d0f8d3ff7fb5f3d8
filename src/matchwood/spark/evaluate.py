"""Evaluate: compare a seeded sample of the matches with the oracle, and count the work of the index.

For the sampled events the oracle judges every reported subscription and a sample of the others (or all of them). Faults are

    extra     reported, but does not match
    missing   matches (and belongs to the k best), but is not reported
    score     reported with a wrong score
    rank      reported in the wrong order
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as fn

from matchwood.spark import columns
from matchwood.spark.codebook import Codebook
from matchwood.spark.evaluate_worker import Counting, Judging
from matchwood.spark.index_stage import IndexVersion
from matchwood.spark.match_stage import planned
from matchwood.spark.match_worker import named_scoring

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAMPLE_EVENTS, SAMPLE_SUBSCRIPTIONS = 20, 2_000


@dataclass(frozen=True)
class Evaluation:
    """The result of a check. `seconds` are the durations of the stages, if they were given."""

    events: int
    judged: int
    faults: tuple[dict[str, Any], ...]
    matches_per_event: float
    candidates_per_event: float
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not self.faults


def evaluate(
    matches: DataFrame,
    subscriptions: DataFrame,
    events: DataFrame,
    index: IndexVersion,
    *,
    k: int | None = None,
    mode: str = "all",
    scoring: str = "sum",
    sample_events: int = SAMPLE_EVENTS,
    sample_subscriptions: int | None = SAMPLE_SUBSCRIPTIONS,
    seed: int = 1,
    seconds: dict[str, float] | None = None,
) -> Evaluation:
    """Check a sample. Runs jobs; the sampled events, at most 20 faults and sums are sent to the driver.

    `sample_subscriptions=None` judges every subscription, which is slow beyond some ten thousand.
    """
    columns.check(matches, columns.MATCHES, "matches")
    sample = sampled(events, seed, sample_events).select(*columns.EVENTS.names).toArrow()
    ids = sample.column("id").to_pylist()
    reported = matches.filter(fn.col("event_id").isin(ids)) if ids else matches.limit(0)
    chosen = to_judge(subscriptions, reported, sample_subscriptions, seed).cache()
    try:
        truth = judged(chosen, sample, index.codebook, mode, scoring)
        found = faults(reported, truth, k).limit(20).collect()
        judgements = chosen.count() * len(ids)
    finally:
        chosen.unpersist()
    work = spent(events.filter(fn.col("id").isin(ids)) if ids else events.limit(0), index, k, mode, scoring)
    total = matches.count() / max(events.count(), 1)
    per_event = work["candidates"] / max(work["events"], 1)
    return Evaluation(len(ids), judgements, tuple(row.asDict() for row in found), total, per_event, seconds or {})


def sampled(table: DataFrame, seed: int, size: int) -> DataFrame:
    """The `size` records with the lowest hashes of id and seed. Lazy."""
    return table.orderBy(fn.xxhash64("id", fn.lit(seed)), "id").limit(size)


def to_judge(subscriptions: DataFrame, reported: DataFrame, sample: int | None, seed: int) -> DataFrame:
    """The reported subscriptions and a sample of all. Lazy."""
    table = subscriptions.select(*columns.SUBSCRIPTIONS.names)
    if sample is None:
        return table
    named = reported.select(fn.col("subscription_id").alias("id")).unionAll(sampled(table, seed, sample).select("id"))
    return table.join(named.distinct(), "id", "left_semi").select(*columns.SUBSCRIPTIONS.names)


def judged(subscriptions: DataFrame, events: pa.Table, codebook: Codebook, mode: str, scoring: str) -> DataFrame:
    """Every pair that matches according to the oracle. Lazy."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as stream:
        stream.write_table(events)
    judging = Judging(codebook.content, sink.getvalue().to_pybytes(), mode, named_scoring(scoring))
    return subscriptions.mapInArrow(judging, columns.PAIRS)


def faults(reported: DataFrame, truth: DataFrame, k: int | None) -> DataFrame:
    """Where what was reported differs from the truth about the subscriptions that were judged. Lazy."""
    both = reported.alias("r").join(truth.alias("t"), ["event_id", "subscription_id"], "full_outer")
    last = reported.groupBy("event_id").agg(
        fn.count("*").alias("hits"), fn.min(fn.struct("score", (-fn.col("subscription_id")).alias("id"))).alias("last")
    )
    both = both.join(fn.broadcast(last), "event_id", "left")
    expected, given = fn.col("t.score"), fn.col("r.score")
    too_low: Column = fn.lit(False)
    if k is not None:
        this = fn.struct(expected.alias("score"), (-fn.col("subscription_id")).alias("id"))
        border = fn.struct(fn.col("last.score").alias("score"), fn.col("last.id").alias("id"))
        too_low = (fn.coalesce("hits", fn.lit(0)) >= k) & (this < border)
    fault = (
        fn.when(expected.isNull(), "extra")
        .when(given.isNull(), fn.when(~too_low, "missing"))
        .when(given != expected, "score")
    )
    compared = both.select(
        "event_id", "subscription_id", fault.alias("fault"), expected.alias("expected"), given.alias("found")
    )
    return compared.filter("fault IS NOT NULL").unionByName(_out_of_order(reported))


def spent(events: DataFrame, index: IndexVersion, k: int | None, mode: str, scoring: str) -> dict[str, int]:
    """The numbers of events, matches and verified rows. Runs a job."""
    counting = Counting(planned(events, index, k, mode, None, scoring))
    work = events.select(*columns.EVENTS.names).mapInArrow(counting, columns.WORK)
    row = work.agg(*(fn.coalesce(fn.sum(name), fn.lit(0)).alias(name) for name in columns.WORK.names)).first()
    assert row is not None
    return {name: int(row[name]) for name in columns.WORK.names}


def _out_of_order(reported: DataFrame) -> DataFrame:
    a, b = reported.alias("a"), reported.alias("b")
    follows = (fn.col("a.event_id") == fn.col("b.event_id")) & (fn.col("b.rank") == fn.col("a.rank") + 1)
    better = (fn.col("b.score") > fn.col("a.score")) | (
        (fn.col("b.score") == fn.col("a.score")) & (fn.col("b.subscription_id") < fn.col("a.subscription_id"))
    )
    return (
        a.join(b, follows)
        .filter(better)
        .select(
            fn.col("b.event_id"),
            fn.col("b.subscription_id"),
            fn.lit("rank").alias("fault"),
            fn.col("a.score").alias("expected"),
            fn.col("b.score").alias("found"),
        )
    )
