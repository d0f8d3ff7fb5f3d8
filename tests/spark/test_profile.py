"""Profile and weigh: figures equal those of plain loops, whatever the partitions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from matchwood.encode.arrays import ABSENT, INTERVAL
from matchwood.errors import QueryError, SchemaError
from matchwood.spark.batches import read_subscriptions
from matchwood.spark.codebook import Codebook
from matchwood.spark.profile import EVENTS, SUBSCRIPTIONS, Sketching, Summing, profile
from matchwood.spark.sketch import SIZE, Sketch, selectivity
from matchwood.spark.weigh import AROUND, DEVIATION, Weighing, inverse_frequencies, normal, weigh
from tests.spark.tables import event_table, frames, subscription_table
from tests.worlds import World, a_world, seeded_dice


@pytest.fixture(scope="module")
def world() -> World:
    return a_world(seeded_dice(5), 150, 80)


def profiled(world: World, chunk: int) -> list[dict[str, Any]]:
    parts = []
    for side, table in ((SUBSCRIPTIONS, subscription_table(world)), (EVENTS, event_table(world))):
        for batch in table.to_batches(max_chunksize=chunk):
            parts += list(Sketching(side)([batch]))
    (summed,) = Summing(json.dumps(world.schema.to_json()))(parts)
    return summed.to_pylist()


def test_counts_and_distinct_values_are_exact_while_they_are_few(world: World) -> None:
    rows, events = world.rows(), world.event_arrays()
    for record in profiled(world, 1000):
        dim = record["dimension"]
        asks = {
            int(rows.ids[r])
            for r in range(rows.size)
            for e in range(rows.offsets[r], rows.offsets[r + 1])
            if rows.dims[e] == dim and rows.kinds[e] < ABSENT
        }
        says = {e for e in range(events.size) if dim in events.dims[events.offsets[e] : events.offsets[e + 1]]}
        assert record["attribute"] == world.schema.of_dimension(dim).name
        assert record["subscriptions"] == len(asks)
        assert (record["events"], record["nulls"]) == (len(says), events.size - len(says))
        assert record["distinct_values"] == len(np.unique(events.lo[events.dims == dim]))


def test_the_profile_does_not_depend_on_the_partitions(world: World) -> None:
    assert profiled(world, 1000) == profiled(world, 7)


def test_a_sketch_of_many_values_is_about_right() -> None:
    rng = np.random.default_rng(1)
    n = 100_000
    lo = rng.random(n)
    one = Sketch.of(np.arange(n), 3, lo, lo, lo)
    halves = [
        Sketch.of(np.arange(n)[part], 3, lo[part], lo[part], lo[part]) for part in (slice(0, n // 3), slice(n // 3, n))
    ]
    both = halves[1].merged(halves[0])
    assert np.array_equal(one.key, both.key)
    assert one.different == both.different == pytest.approx(n, rel=0.15)
    assert len(one.lo) == SIZE
    intervals = Sketch.of(np.arange(1000), 3, np.zeros(1000), np.full(1000, 0.3), np.zeros(1000))
    assert selectivity(intervals, one) == pytest.approx(0.3, abs=0.06)


def test_weights_follow_attributes_and_nothing_else_changes(world: World) -> None:
    given = np.full(world.schema.dimensions, np.nan)
    age = world.schema.find("age").dims[0]
    given[age] = 0.5
    (before,) = subscription_table(world).to_batches()
    (after,) = Weighing(given.tobytes(), AROUND, DEVIATION, 7)([before])
    was, now = read_subscriptions(before).rows, read_subscriptions(after).rows
    touched = (was.dims == age) & ((was.kinds == INTERVAL) | (was.kinds == ABSENT))
    assert (now.weight[touched] <= 0.5).all()
    assert abs(now.weight[touched].mean() - 0.4) < 0.02
    assert np.array_equal(now.weight[~touched], was.weight[~touched])
    for column in ("ids", "offsets", "dims", "kinds"):
        assert np.array_equal(getattr(was, column), getattr(now, column))


def test_normal_numbers_are_normal_and_repeatable() -> None:
    ids, dims = np.arange(20_000), np.zeros(20_000, np.int64)
    drawn = normal(ids, dims, 1)
    assert np.array_equal(drawn, normal(ids, dims, 1))
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.std() - 1.0) < 0.03
    assert not np.array_equal(drawn, normal(ids, dims, 2))


def test_profile_and_weigh_on_spark(spark: Any, world: World) -> None:
    subscriptions, events, codebook = frames(spark, world)
    attributes = profile(subscriptions, events, codebook)
    there = {row["dimension"]: row.asDict() for row in attributes.collect()}
    for record in profiled(world, 1000):
        assert there[record["dimension"]] == record
    inverse = inverse_frequencies(attributes)
    assert max(inverse.values()) == 1.0
    weighed = weigh(subscriptions, codebook, inverse, around=AROUND, deviation=DEVIATION)
    assert weighed.count() == len(world.subscriptions)
    assert weighed.schema["dims"].metadata == subscriptions.schema["dims"].metadata
    with pytest.raises(SchemaError, match="not used by any subscription"):
        weigh(subscriptions, codebook, {"nobody": 1.0})
    with pytest.raises(QueryError, match="finite weight"):
        weigh(subscriptions, codebook, {"age": -1.0})


def test_a_codebook_without_a_version_is_damaged() -> None:
    with pytest.raises(Exception, match="damaged"):
        Codebook.from_json({"schema": {}})
