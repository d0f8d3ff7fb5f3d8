"""Evaluate finds every kind of fault, and none where there is none; the way back agrees with the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as fn

from matchwood.lang.event import event_keys
from matchwood.spark.evaluate import evaluate
from matchwood.spark.evaluate_worker import event_of
from matchwood.spark.index_stage import build_index
from matchwood.spark.lake import Lake
from matchwood.spark.live_stage import match_live_events
from matchwood.spark.match_stage import match_events
from tests.spark.tables import expected, frames
from tests.worlds import World, a_world, seeded_dice


@pytest.fixture(scope="module")
def world() -> World:
    return a_world(seeded_dice(21), 80, 40)


def test_events_come_back_from_arrays_as_the_oracle_takes_them(world: World) -> None:
    arrays = world.event_arrays()
    for e, event in enumerate(world.events):
        there, back = event_keys(event, world.schema), event_of(arrays.take(e, e + 1), world.schema)
        assert back.values == there.values
        assert all(back.weight(name) == there.weight(name) for name in there.values)


def test_faults_are_found_and_only_they(spark: Any, lake: Lake, world: World) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook)
    for k in (None, 3):
        good = match_events(events, index, k=k).localCheckpoint()
        every = {"k": k, "sample_events": 40, "sample_subscriptions": None}
        passed = evaluate(good, subscriptions, events, index, **every)
        assert passed.passed, passed.faults
        assert passed.judged == 40 * 80
        assert passed.candidates_per_event > 0
        if k is None:
            continue
        truth = expected(world, k=k)
        event = next(event for event, hits in truth.items() if len(hits) > 2)
        first, second = truth[event][0][0], truth[event][1][0]
        at = (fn.col("event_id") == event) & (fn.col("subscription_id") == first)
        spoilt = {
            "missing": good.filter(~at),
            "score": good.withColumn("score", fn.when(at, fn.col("score") + 1e-9).otherwise(fn.col("score"))),
            "extra": good.unionByName(
                spark.createDataFrame(
                    [(event, 10**6, 0.5, 99)], "event_id bigint, subscription_id bigint, score double, rank int"
                )
            ),
            "rank": good.withColumn(
                "rank",
                fn.when(at, fn.lit(2))
                .when((fn.col("event_id") == event) & (fn.col("subscription_id") == second), fn.lit(1))
                .otherwise(fn.col("rank")),
            ),
        }
        for fault, table in spoilt.items():
            found = evaluate(table, subscriptions, events, index, **every)
            assert fault in {each["fault"] for each in found.faults}, fault
            assert {each["event_id"] for each in found.faults} == {event}


def test_new_subscriptions_find_the_events_that_are_alive(spark: Any, lake: Lake, world: World) -> None:
    rng = np.random.default_rng(3)
    until = [float(u) for u in rng.choice([1e6, 2e6, np.inf], len(world.events))]
    subscriptions, events, codebook = frames(spark, world, event_until=until)
    index = build_index(subscriptions, lake, codebook)
    truth: dict[int, list[tuple[float, int]]] = {}
    for event, hits in expected(world).items():
        if until[event] > 1e6:
            for id_, score in hits:
                truth.setdefault(id_, []).append((-score, event))
    found: dict[int, list[tuple[int, int, float]]] = {}
    for row in match_live_events(index, events, at="1970-01-01T00:00:01Z", k=2).collect():
        found.setdefault(row["subscription_id"], []).append((row["rank"], row["event_id"], row["score"]))
    assert {id_: [(-score, event) for _, event, score in sorted(hits)] for id_, hits in found.items()} == {
        id_: sorted(hits)[:2] for id_, hits in truth.items()
    }
