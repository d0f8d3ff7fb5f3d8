"""Index and match on Spark against the oracle and the engine: equal ids, equal scores, to the bit."""

from __future__ import annotations

from typing import Any

import pytest

from matchwood.engine import Engine
from matchwood.errors import QueryError, SchemaError
from matchwood.spark import index_stage
from matchwood.spark.evaluate import evaluate
from matchwood.spark.index_stage import build_index
from matchwood.spark.lake import Lake
from matchwood.spark.match_stage import match_events
from matchwood.structures import VCR
from matchwood.workloads import City
from tests.scorings import FUNCTIONS
from tests.spark.tables import expected, frames, ranked
from tests.worlds import World, a_world, seeded_dice

WORLD_SEED = 11


@pytest.fixture(scope="module")
def world() -> World:
    return a_world(seeded_dice(WORLD_SEED), 120, 60)


SHARDINGS = [{"shards": 1}, {"shards": 3, "by": "hash"}, {"shards": 4, "by": "space"}]


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s.get("by", "one"))
def test_matches_are_those_of_the_oracle_however_they_are_sharded(
    spark: Any, lake: Lake, world: World, sharding: dict[str, Any]
) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook, **sharding)
    for k, mode in ((None, "all"), (3, "all"), (None, "any"), (5, "any")):
        for route in (False, True) if sharding["shards"] > 1 else (False,):
            found = ranked(match_events(events, index, k=k, mode=mode, route=route))
            assert found == expected(world, k=k, mode=mode), (k, mode, route)


@pytest.mark.parametrize("sharding", [SHARDINGS[0], SHARDINGS[2]], ids=["one", "space"])
@pytest.mark.parametrize("scoring", ["max", "priority"])
def test_scorings_by_name_are_those_of_the_oracle(
    spark: Any, lake: Lake, world: World, scoring: str, sharding: dict[str, Any]
) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook, index="scan", **sharding)
    combine = FUNCTIONS[scoring]
    for k, mode, route in ((None, "all", None), (3, "all", True), (2, "any", True)):
        found = match_events(events, index, k=k, mode=mode, route=route, scoring=scoring).localCheckpoint()
        assert ranked(found) == expected(world, k=k, mode=mode, combine=combine), (k, mode, route)
    every = {"k": 2, "mode": "any", "sample_events": 60, "sample_subscriptions": None}
    assert evaluate(found, subscriptions, events, index, scoring=scoring, **every).passed
    assert not evaluate(found, subscriptions, events, index, **every).passed


@pytest.mark.parametrize("scoring", ["mean", max, None])
def test_a_scoring_that_has_no_name_is_refused(spark: Any, lake: Lake, world: World, scoring: Any) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook, index="scan")
    with pytest.raises(QueryError, match=r"expected the name of a scoring, 'sum', 'max', 'priority', got .*in process"):
        match_events(events, index, scoring=scoring)


ADAPTIVE = [
    {"spark.sql.adaptive.enabled": "false"},
    {  # many tiny partitions, which Spark may divide or put together
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "200b",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1b",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.1",
        "spark.sql.shuffle.partitions": "7",
    },
]


@pytest.mark.parametrize("settings", ADAPTIVE, ids=["off", "tiny partitions"])
def test_adaptive_execution_and_a_hot_shard_change_nothing(
    spark: Any, lake: Lake, world: World, settings: dict[str, str]
) -> None:
    hot = World(world.schema, subscriptions=world.subscriptions, events=[*world.events[:6], *[world.events[0]] * 60])
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        subscriptions, events, codebook = frames(spark, hot)
        for sharding in SHARDINGS[1:]:
            index = build_index(subscriptions, lake, codebook, **sharding)
            assert ranked(match_events(events, index, k=3, route=True)) == expected(hot, k=3), sharding
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_the_engine_says_the_same(spark: Any, lake: Lake, world: World) -> None:
    subscriptions, events, codebook = frames(spark, world)
    engine = Engine(world.schema)
    engine.subscribe_rows(world.rows())
    here = engine.top_k_many(world.event_arrays(), 4)
    index = build_index(subscriptions, lake, codebook, shards=2)
    there = ranked(match_events(events, index, k=4, tasks=2))
    for event in range(len(world.events)):
        ids, scores = here.of(event)
        assert there.get(event, []) == list(zip(ids.tolist(), scores.tolist(), strict=True))


def test_subscriptions_are_gone_from_their_until_on(spark: Any, lake: Lake, world: World) -> None:
    ids = list(world.subscriptions)
    until = {id_: 1_000_000.0 * (1 + i % 3) for i, id_ in enumerate(ids) if i % 4}
    subscriptions, events, codebook = frames(spark, world, until=until)
    index = build_index(subscriptions, lake, codebook)
    for second in (1, 2, 1):  # time may go back: another query, another instant
        alive = World(world.schema, events=world.events)
        alive.subscriptions = {
            id_: kept for id_, kept in world.subscriptions.items() if until.get(id_, 1e18) > second * 1e6
        }
        found = ranked(match_events(events, index, k=3, at=f"1970-01-01T00:00:0{second}Z"))
        assert found == expected(alive, k=3)
    assert ranked(match_events(events, index, k=3)) == expected(world, k=3)


def test_a_structure_is_chosen_for_each_shard_and_named_in_the_version(
    spark: Any, lake: Lake, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook, index="auto", shards=2, by="hash")
    assert index.index == "auto"
    assert index.structures == ("scan",)  # few rows: nothing is tried
    assert ranked(match_events(events, index, k=3)) == expected(world, k=3)
    with pytest.raises(QueryError, match="has one option, 'mode'"):
        build_index(subscriptions, lake, codebook, options={"depth": 3})
    rows = City.preset("quick", size=6_000).subscriptions()
    monkeypatch.setattr(index_stage, "planned_index", lambda rows, mode="all": (VCR.build(rows), mode))
    assert index_stage.made_index(rows, "auto", {"mode": "any"}).name == "vcr"


def test_an_empty_table_of_subscriptions_matches_nothing(spark: Any, lake: Lake, world: World) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions.limit(0), lake, codebook, shards=3, by="hash")
    assert match_events(events, index, route=True).count() == 0
    assert match_events(events, index, route=False).count() == 0
    assert match_events(events.limit(0), index).count() == 0


def test_a_missing_or_wrong_column_is_named(spark: Any, lake: Lake, world: World) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook)
    with pytest.raises(SchemaError, match="events: column 'lo' is missing"):
        match_events(events.drop("lo"), index)
    with pytest.raises(SchemaError, match=r"events: column 'id': expected bigint, got string"):
        match_events(events.withColumn("id", events["id"].cast("string")), index)
    with pytest.raises(QueryError, match="expected k to be a whole number >= 1, got 0"):
        match_events(events, index, k=0)
    with pytest.raises(QueryError, match="mode"):
        match_events(events, index, mode="some")


def test_a_null_where_none_may_be_is_named_by_the_worker(spark: Any, lake: Lake, world: World) -> None:
    subscriptions, events, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook)
    with pytest.raises(Exception, match="column 'id' contains a null"):
        match_events(
            events.selectExpr("IF(id = 3, NULL, id) AS id", "until", "dims", "lo", "hi", "weight"), index
        ).count()


def test_events_of_another_codebook_are_refused(spark: Any, lake: Lake, world: World) -> None:
    subscriptions, _, codebook = frames(spark, world)
    index = build_index(subscriptions, lake, codebook)
    _, others, _ = frames(spark, world)
    with pytest.raises(SchemaError, match="ingest subscriptions and events with the same codebook"):
        match_events(others, index)
