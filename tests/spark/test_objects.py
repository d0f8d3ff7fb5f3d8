"""Conditions on lists of objects on Spark: every path says what the engine says, which is what plain logic says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchwood import Engine
from matchwood.errors import NeverMatchesError
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from matchwood.spark import (
    Lake,
    MatchStream,
    evaluate_table,
    index_subscriptions,
    index_table,
    ingest_table,
    match_table,
    register,
)
from matchwood.spark.codebook import Codebook
from matchwood.spark.event_schemas import event_schema
from matchwood.spark.learn_worker import learn_expressions
from tests.nested_worlds import LATER, a_tree, an_event, met
from tests.spark.stream_world import put

Found = set[tuple[int, int, float]]
PART_TYPE = "sku: string, qty: int, user: struct<age: int>, gift: boolean"
ITEMS = f"array<struct<{PART_TYPE}, parts: array<struct<{PART_TYPE}>>>>"
EVENTS = f"id bigint, n int, unknown array<struct<x: int>>, items {ITEMS}, more {ITEMS}"


def element(given: dict[str, Any] | None) -> dict[str, Any] | None:
    """An element as a struct, in which all fields are there."""
    if given is None:
        return None
    user = given.get("user") or ({"age": given["user.age"]} if "user.age" in given else None)
    found = {"sku": given.get("sku"), "qty": given.get("qty"), "user": user, "gift": given.get("gift")}
    return found | ({"parts": [element(part) for part in given["parts"]]} if "parts" in given else {"parts": None})


def record(id_: int, event: dict[str, Any]) -> dict[str, Any]:
    lists = {name: event.get(name) for name in ("items", "more")}
    wide = {name: [given] if isinstance(given, dict) else given for name, given in lists.items()}
    columns = {name: None if given is None else [element(each) for each in given] for name, given in wide.items()}
    return {"id": id_, "n": event["n"], "unknown": event["unknown"], **columns}


def world(seed: int, subscriptions: int, events: int) -> tuple[list[tuple[int, str]], list[dict[str, Any]], Found]:
    """Texts, events, and (event, subscription, score) of their matches."""
    rng = np.random.default_rng(seed)
    engine, texts, trees = Engine(index="scan"), [], []
    while len(texts) < subscriptions:
        tree = a_tree(rng)
        try:
            engine.subscribe(tree, id=len(texts))
        except NeverMatchesError:
            continue
        texts.append((len(texts), str(tree)))
        trees.append(tree)
    made = [an_event(rng) for _ in range(events)]
    found = {(at, int(m.id), m.score) for at, event in enumerate(made) for m in engine.match(event)}
    plain = {(at, id_) for at, event in enumerate(made) for id_, tree in enumerate(trees) if met(tree, event)}
    assert {pair[:2] for pair in found} == plain
    assert plain
    return texts, made, found


def triples(matches: Any) -> Found:
    return {(row["event_id"], row["subscription_id"], row["score"]) for row in matches.collect()}


def test_plain_tables_and_table_functions_match_lists_of_objects(spark: Any, lake: Lake) -> None:
    texts, events, expected = world(3, 60, 80)
    raw = spark.createDataFrame(texts, "id bigint, expression string").repartition(3)
    table = spark.createDataFrame([record(at, event) for at, event in enumerate(events)], EVENTS).repartition(3)
    with index_subscriptions(raw, index="scan") as index:
        assert triples(index.match(table)) == expected
        kept = index.match(table, k=2, event_columns=["items"]).filter("rank = 1 AND items IS NOT NULL").first()
        assert kept["items"] == table.filter(f"id = {kept['event_id']}").first()["items"]
        assert triples(index.match_subscriptions(table)) == expected
    ingest_table(lake, raw, "subscriptions")
    index_table(lake, spark, index="mo-tree")
    register(spark)
    table.createOrReplaceTempView("with_items")
    assert triples(spark.sql(f"SELECT * FROM matchwood_match(TABLE(with_items), index => '{lake.root}')")) == expected


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_stages_match_lists_of_objects(spark: Any, lake: Lake, form: str) -> None:
    texts, events, expected = world(4, 50, 60)
    raw = spark.createDataFrame(texts, "id bigint, expression string").repartition(3)
    assert ingest_table(lake, raw, "subscriptions").counts["rejected"] == 0
    if form == "table":
        table = spark.createDataFrame([record(at, event) for at, event in enumerate(events)], EVENTS)
        made = ingest_table(lake, table.repartition(3), "events")
    else:
        lines = [(json.dumps({"id": at, "values": event}),) for at, event in enumerate(events)]
        made = ingest_table(lake, spark.createDataFrame(lines, "value string").repartition(3), "events", form="json")
    assert made.counts["rejected"] == 0
    index_table(lake, spark, index="scan", shards=2, by="hash")
    match_table(lake, spark)
    assert triples(lake.read(spark, "matches")) == expected
    assert evaluate_table(lake, spark, sample_events=60).passed


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_stream_matches_lists_of_objects_also_by_conditions_that_come_later(
    spark: Any, lake: Lake, tmp_path: Path, form: str
) -> None:
    texts, events, expected = world(5, 40, 30)
    first = 8
    ingest_table(lake, spark.createDataFrame(texts[:first], "id bigint, expression string"), "subscriptions")
    index_table(lake, spark, index="scan")
    stream = MatchStream(lake, "objects")
    columns = f"{EVENTS}, until string"

    def run() -> None:
        changes = spark.readStream.text(str(tmp_path / "changes"))
        folder = str(tmp_path / "in")
        arriving = spark.readStream.text(folder) if form == "json" else spark.readStream.schema(columns).json(folder)
        stream.start(arriving, tmp_path / "checkpoint", changes=changes, availableNow=True).awaitTermination()

    def publish(begin: int, end: int) -> None:
        chosen = [(at, events[at]) for at in range(begin, end)]
        lines = [{"id": at, "values": event, "until": f"{LATER}T00:00:00Z"} for at, event in chosen]
        rows = [{**record(at, event), "until": f"{LATER}T00:00:00Z"} for at, event in chosen]
        put(tmp_path / "in", f"{begin}.json", lines if form == "json" else rows)

    (tmp_path / "changes").mkdir()
    publish(0, 20)
    run()
    begun = {(at, id_, score) for at, id_, score in expected if at < 20 and id_ < first}
    assert triples(stream.matches(spark)) == begun
    new = [{"op": "subscribe", "id": id_, "expression": text} for id_, text in texts[first:]]
    put(tmp_path / "changes", "0.json", new)
    publish(20, 30)
    run()
    found = stream.matches(spark)
    assert triples(found) == expected
    assert found.count() == len(expected)


def test_of_conditions_that_use_a_name_in_two_ways_those_of_the_earlier_partition_stay() -> None:
    learnt = []
    for texts in (["ANY(items, sku = 'a')"], ["ANY(items, sku > 3)", "ANY(items, qty > 1)", "ANY(items, qty > 2)"]):
        schema = Schema()
        learn_expressions(texts, schema)
        learnt.append(schema)
    book = Codebook.declare().extended(learnt)
    schema = event_schema(book.content)
    hidden = schema.get("CONDITIONS\x1fitems")
    assert hidden is not None
    assert hidden.symbols is not None
    assert len(hidden.symbols) == 3  # the one that compares sku with a number is left out
    known = len(hidden.symbols)
    normalise(parse("ANY(items, qty > 2)"), schema)
    assert len(hidden.symbols) == known


def test_what_an_attribute_of_another_type_is_computed_to_is_left_out() -> None:
    schemas = [Schema({"x": "number"}), Schema()]
    learn_expressions(["x LIKE 'a%'", "y = 'b'"], schemas[1])
    book = Codebook.declare().extended(schemas)
    assert [(a.name, str(a.type)) for a in book.schema()] == [("x", "number"), ("y", "string")]


def test_a_schema_that_events_have_extended_is_opened_again() -> None:
    content = Codebook.declare({"x": "number"}).content
    first = event_schema(content)
    assert event_schema(content) is first
    first.learn = True
    first.find("new")
    assert event_schema(content) is not first
    assert "new" not in event_schema(content)
