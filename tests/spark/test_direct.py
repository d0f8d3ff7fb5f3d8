"""Plain tables in one line: what the engine says about the same records, with the ids and columns that the tables have."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from matchwood.engine import Engine
from matchwood.errors import QueryError, SchemaError, SubscriptionError
from matchwood.lang.event import Event
from matchwood.spark import close_all, index_subscriptions, match, match_subscriptions
from matchwood.spark.direct import temporary_place
from matchwood.spark.places import place
from tests.scorings import TYPES, a_scored_world, judged

NAMES = ("ann/1", "Bob", "bob", "ćed", "zoë")


def world(dice: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Subscriptions with ids that are strings, of which many tie, and events with ids that are dates."""
    subscriptions = []
    for number in range(60):
        text = f"price <= {dice.randint(10, 100)} AND item = '{dice.choice(('phone', 'sofa'))}'"
        if dice.random() < 0.3:
            text += f" OR size > {dice.randint(1, 9)} ^0.5"
        id_ = f"{dice.choice(NAMES)}-{number}"
        subscriptions.append(
            {"name": id_, "expression": text, "priority": dice.choice((0.0, 0.5)), "owner": number % 7}
        )
    events = []
    for number in range(40):
        values = {"price": float(dice.randint(1, 120)), "item": dice.choice(("phone", "sofa", "desk"))}
        size = dice.choice((None, dice.randint(1, 12)))
        events.append({"day": f"2026-01-{number % 28 + 1:02}/{number}", **values, "size": size, "colour": "red"})
    return subscriptions, events


def engine_of(subscriptions: list[dict[str, Any]]) -> tuple[Engine, list[str]]:
    """An engine whose ids are the positions of the sorted ids, so that ties go to the lower id."""
    ordered = sorted(subscriptions, key=lambda s: s["name"].encode())
    engine = Engine()
    for number, subscription in enumerate(ordered):
        engine.subscribe(subscription["expression"], id=number, priority=subscription["priority"])
    return engine, [subscription["name"] for subscription in ordered]


def values(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("price", "item", "size") if event[name] is not None}


SUBSCRIPTIONS = "name string, expression string, priority double, owner int"
EVENTS = "day string, price double, item string, size int, colour string"


def frames(spark: Any, subscriptions: list[dict[str, Any]], events: list[dict[str, Any]]) -> tuple[Any, Any]:
    return (
        spark.createDataFrame(subscriptions, SUBSCRIPTIONS).repartition(3),
        spark.createDataFrame(events, EVENTS).repartition(3),
    )


@pytest.mark.parametrize("k", [None, 3])
def test_plain_tables_are_matched_as_the_engine_says(spark: Any, k: int | None) -> None:
    subscriptions, events = world(random.Random(5))
    engine, names = engine_of(subscriptions)
    wanted = set()
    for event in events:
        hits = engine.match(values(event)) if k is None else engine.top_k(values(event), k)
        ordered = sorted(hits, key=lambda hit: (-hit.score, hit.id))
        wanted |= {(event["day"], names[hit.id], hit.score, rank) for rank, hit in enumerate(ordered, 1)}
    table, arriving = frames(spark, subscriptions, events)
    found = match(arriving, table, k=k, ids=("day", "name"), event_columns=["colour"], subscription_columns=["owner"])
    assert found.columns == ["event_id", "subscription_id", "score", "rank", "colour", "owner"]
    rows = found.collect()
    assert {tuple(row)[:4] for row in rows} == wanted
    assert len(rows) == len(wanted)
    owners = {subscription["name"]: subscription["owner"] for subscription in subscriptions}
    assert all((row["owner"], row["colour"]) == (owners[row["subscription_id"]], "red") for row in rows)


@pytest.mark.parametrize("scoring", ["max", "priority"])
def test_plain_tables_are_scored_by_the_name_of_a_scoring(spark: Any, scoring: str) -> None:
    texts, priorities, events = a_scored_world(8, 30, 15)
    table = [(at, text, priority) for at, (text, priority) in enumerate(zip(texts, priorities, strict=True))]
    subscriptions = spark.createDataFrame(table, "id long, expression string, priority double")
    rows = [(at, event.get("age"), event.get("plan")) for at, event in enumerate(events)]
    arriving = spark.createDataFrame(rows, "id long, age long, plan string")
    truth = judged(texts, priorities, events, scoring)
    with index_subscriptions(subscriptions, index="scan", schema=TYPES) as index:
        found = match(arriving, index, k=3, scoring=scoring).collect()
        best = [hits[:3] for hits in truth]
        assert {tuple(row) for row in found} == {
            (at, id_, score, rank) for at, hits in enumerate(best) for rank, (id_, score) in enumerate(hits, 1)
        }
        reverse = match_subscriptions(index, arriving, k=2, scoring=scoring).collect()
        pairs: dict[int, list[tuple[float, int]]] = {}
        for at, hits in enumerate(truth):
            for id_, score in hits:
                pairs.setdefault(id_, []).append((-score, at))
        assert {tuple(row) for row in reverse} == {
            (id_, at, -negative, rank)
            for id_, events_ in pairs.items()
            for rank, (negative, at) in enumerate(sorted(events_)[:2], 1)
        }
        with pytest.raises(QueryError, match="expected the name of a scoring"):
            match(arriving, index, scoring=max)


def test_the_reverse_ranks_the_events_of_each_subscription(spark: Any) -> None:
    subscriptions, events = world(random.Random(6))
    engine, names = engine_of(subscriptions)
    pairs: dict[str, list[tuple[float, str]]] = {}
    for event in events:
        for hit in engine.match(values(event)):
            pairs.setdefault(names[hit.id], []).append((-hit.score, event["day"]))
    wanted = {
        (name, day, -score, rank)
        for name, hits in pairs.items()
        for rank, (score, day) in enumerate(sorted(hits)[:2], 1)
    }
    table, arriving = frames(spark, subscriptions, events)
    with index_subscriptions(table, id="name", shards=2, by="hash", index="scan") as index:
        found = match_subscriptions(index, arriving, k=2, ids=("name", "day"))
        assert {tuple(row) for row in found.collect()} == wanted


def test_ranges_are_columns_and_ids_are_numbers_of_any_sign(spark: Any) -> None:
    table = spark.createDataFrame([(-5, 1.0, 9.0), (7, 5.0, None)], "id int, price_lo double, price_hi double")
    events = spark.createDataFrame([(1.5, 6), (2.5, 3), (None, 99)], "id double, price int")
    found = match(events, table, k=1)
    assert [field.dataType.simpleString() for field in found.schema] == ["double", "int", "double", "int"]
    assert sorted(map(tuple, found.collect()), key=str) == [(1.5, -5, 1.0, 1), (2.5, -5, 1.0, 1), (None, 7, 1.0, 1)]


def test_a_place_may_be_two_columns(spark: Any) -> None:
    circles = [("a", "size > 1", 10.0, 50.0, 1_000.0), ("b", "size > 1", 20.0, 50.0, 1_000.0)]
    table = spark.createDataFrame(circles, "id string, expression string, lon double, lat double, radius double")
    events = spark.createDataFrame(
        [(1, 10.001, 50.001, 5), (2, 15.0, 50.0, 5)], "id int, lon double, lat double, size int"
    )
    engine = Engine()
    engine.subscribe("size > 1 AND DWITHIN(place, POINT(10 50), 1000 m)")
    (hit,) = engine.match(Event({"size": 5}, place=(10.001, 50.001)))
    assert [tuple(row) for row in match(events, table).collect()] == [(1, "a", hit.score, 1)]


def test_bad_subscriptions_raise_with_their_ids_or_are_skipped(spark: Any) -> None:
    bad = [("a", "price > 1"), ("b", "price >"), ("a", "price > 2"), (None, "price > 3")]
    table = spark.createDataFrame(bad, "id string, expression string")
    with pytest.raises(SubscriptionError, match=r"(?s)3 bad subscriptions.*'b': .*errors='skip'"):
        index_subscriptions(table)
    with index_subscriptions(table, errors="skip") as index:
        assert index.rejected == 3
        events = spark.createDataFrame([(1, 5.0)], "id int, price double")
        assert [row["subscription_id"] for row in index.match(events).collect()] == ["a"]
    with pytest.raises(QueryError, match="expected 'raise' or 'skip', got 'no'"):
        index_subscriptions(table, errors="no")


def test_columns_that_cannot_be_used_are_named_before_a_job(spark: Any) -> None:
    table = spark.createDataFrame([("a", "price > 1")], "id string, expression string")
    events = spark.createDataFrame([(1, "dear")], "id int, price string")
    with index_subscriptions(table) as index:
        with pytest.raises(SchemaError, match="price"):
            index.match(events)
        with pytest.raises(SchemaError, match="no column is an attribute of the subscriptions, which are price"):
            index.match(events.select("id"))
        with pytest.raises(SchemaError, match="events: column 'day' is missing"):
            index.match(events, id="day")
        with pytest.raises(QueryError, match="index: the index is built already"):
            match(events, index, index="scan")
    with pytest.raises(SchemaError, match="subscriptions: column 'name' is missing"):
        index_subscriptions(table, id="name")


def test_a_closed_index_leaves_nothing_behind_and_those_of_dead_processes_are_removed(
    spark: Any, tmp_path: Path
) -> None:
    table = spark.createDataFrame([("a", "price > 1")], "id string, expression string")
    events = spark.createDataFrame([(1, 5.0)], "id int, price double")
    found = match(events, table, path=tmp_path)
    assert found.count() == found.count() == 1
    assert len(list(tmp_path.iterdir())) == 1
    close_all()
    assert list(tmp_path.iterdir()) == []
    died = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = temporary_place(spark, tmp_path)
    owner = json.loads((left / "owner.json").text())
    (left / "owner.json").write(json.dumps({**owner, "pid": int(died.stdout)}).encode())
    ours = temporary_place(spark, place(tmp_path))
    assert os.listdir(tmp_path) == [ours.name]


def test_a_stream_of_events_gives_a_stream_of_matches(spark: Any, tmp_path: Path) -> None:
    table = spark.createDataFrame([("a", "price > 1"), ("b", "price > 4")], "id string, expression string")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"id": "e", "price": 3}\n{"id": "f", "price": 5}\n')
    arriving = spark.readStream.schema("id string, price double").json(str(tmp_path / "in"))
    found = match(arriving, table, k=5)
    assert found.isStreaming
    query = found.writeStream.format("memory").queryName("direct").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = spark.sql("SELECT event_id, subscription_id FROM direct").collect()
    assert sorted(map(tuple, rows)) == [("e", "a"), ("f", "a"), ("f", "b")]
