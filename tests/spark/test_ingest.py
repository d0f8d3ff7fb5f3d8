"""Ingest: every record is encoded or rejected with its reason, whatever it is and wherever it comes from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

from matchwood.engine import Engine
from matchwood.errors import QueryError, SchemaError
from matchwood.lang.event import Event
from matchwood.schema import Schema
from matchwood.spark import ingest
from matchwood.spark.batches import read_events, read_subscriptions
from matchwood.spark.codebook import Codebook
from matchwood.spark.ingest_worker import (
    LINES,
    MOST_CONTENT,
    Encoding,
    Learning,
    encode_batches,
    learn_expression,
    learn_expressions,
)
from matchwood.spark.lake import Lake
from matchwood.spark.pipeline import index_table, ingest_table, match_table
from tests.spark.tables import ranked

TEXTS = [
    {"id": 1, "expression": "age >= 18 ^0.4 AND plan = 'pro'", "priority": 0.5},
    {"id": 2, "expression": "age < 18 OR plan != 'free'"},
    {"id": 3, "expression": "age >="},
    {"id": 4, "expression": "plan > 'a'"},
    {"id": 1, "expression": "age = 1"},
    {"id": None, "expression": "age = 1"},
    {"id": -5, "expression": "age = 1"},
    {"id": 6, "expression": None},
    {"id": 7, "expression": "age < 1 AND age > 2"},
    {"id": 8, "expression": f"plan = '{'x' * 100_000}' AND"},
    {"id": 9, "expression": "age = 1", "priority": math.inf},
    {"id": 10, "expression": "age IN (30, 40)"},
]
GOOD = {1, 2, 10}
OFFERS = [
    {"id": 0, "age": 30.0, "plan": "pro"},
    {"id": 1, "age": 12.0, "plan": None},
    {"id": 2, "age": None, "plan": "new"},
]


def encoded(kind: Any, records: list[dict[str, Any]], schema: Schema, form: str | None = None) -> pa.Table:
    if form == LINES:
        table = pa.table({"value": [json.dumps(record) for record in records]})
    else:
        table = pa.Table.from_pylist(records)
    encoding = Encoding(kind, json.dumps(schema.to_json()), form)
    return pa.Table.from_batches(list(encode_batches(encoding, table.to_batches(max_chunksize=5))))


@pytest.mark.parametrize("form", [None, LINES])
def test_each_bad_subscription_is_rejected_with_its_reason_and_its_content(form: str | None) -> None:
    records = TEXTS if form is None else [{k: v for k, v in r.items() if v != math.inf} for r in TEXTS]
    table = encoded("subscriptions", records, Schema(), form).to_pylist()
    assert len(table) == len(records)
    good = {record["id"] for record in table if record["reason"] is None}
    assert good == (GOOD if form is None else GOOD | {9})
    for record in table:
        if record["reason"] is not None:
            assert record["reason"]
            assert "expression" in record["content"]
            assert len(record["content"]) < MOST_CONTENT + 100


def test_an_event_without_an_id_is_rejected_with_its_content() -> None:
    for form in (None, LINES):
        records = (
            [{"id": 4, "values": {"a": 1}}, {"values": {"a": 2}}] if form else [{"id": 4, "a": 1}, {"id": None, "a": 2}]
        )
        table = encoded("events", records, Schema(), form)
        good = table.filter(pa.compute.is_null(table["reason"]))
        assert good["id"].to_pylist() == [4]
        (bad,) = table.filter(pa.compute.is_valid(table["reason"])).to_pylist()
        assert "no id" in bad["reason"]
        assert '"a": 2' in bad["content"]


def test_what_is_encoded_reads_back_as_the_arrays_it_was() -> None:
    schema = Schema({"place": "point", "seen": "timestamp", "age": "number"})
    texts = ["age IN (1, 2) AND DWITHIN(place, POINT(1 2), 5 km)", "age IS NULL OR NOT BBOX(place, 0, 0, 1, 1)", "TRUE"]
    table = encoded("subscriptions", [{"id": i, "expression": t} for i, t in enumerate(texts)], schema)
    engine = Engine(schema)
    batch = read_subscriptions(table.select(range(9)).combine_chunks().to_batches()[0])
    engine.subscribe_rows(batch.rows)
    for i, text in enumerate(texts):
        other = Engine(Schema.from_json(schema.to_json()))
        other.subscribe(text, id=i)
        assert engine.subscription(i).expression == other.subscription(i).expression


def test_ranges_lists_weights_and_until_of_events_survive() -> None:
    records = [
        {
            "id": 1,
            "values": {"a": {"min": 1, "max": 2}, "b": [1, 5]},
            "weights": {"a": 0.5},
            "until": "1970-01-01T00:00:01Z",
        },
        {"id": 2, "values": {"a": 3}},
    ]
    table = encoded("events", records, Schema(), LINES)
    ids, until, events = read_events(table.select(range(6)).to_batches()[0])
    assert ids.tolist() == [1, 2]
    assert until.tolist() == [1e6, math.inf]
    assert events.offsets.tolist() == [0, 3, 4]
    assert (events.lo.tolist(), events.hi.tolist()) == ([1, 1, 5, 3], [2, 1, 5, 3])
    assert events.weight.tolist() == [0.5, 1, 1, 1]


def test_partitions_learn_apart_and_their_schemas_are_put_together() -> None:
    book = Codebook.declare({"age": "number"})
    found = []
    for texts in (["plan = 'a' AND x = 1"], ["plan = 'b' AND x = 'text'"]):
        batch = pa.table({"id": range(len(texts)), "expression": texts}).to_batches()
        (learnt,) = Learning(Encoding("subscriptions", book.content))(batch)
        found.append(Schema.from_json(json.loads(learnt.column(1)[0].as_py())))
    schema = book.extended(found).schema()
    plan = schema.find("plan").symbols
    assert plan is not None
    assert plan.texts == ["a", "b"]
    assert schema.find("x").type == "number"  # the first to say so; the other will be rejected
    assert book.extended([]) is book


def test_texts_that_differ_in_numbers_alone_teach_once_and_nothing_is_missed() -> None:
    texts: list[object] = [
        "price <= 99999999999999999999 AND item = 'size 5'",  # refused; the next one, of the same kind, teaches
        "price <= 10 AND item = 'size 5'",
        "price <= 11 AND item = 'size 6'",
        "d1 > 3 AND d2 = 'x'",
        "d1 > 4 AND d3 = 'x'",
        """ "d 1" = 1 OR "d 2" = 'it''s 7' """,
        """ "d 1" = 2 OR "d 2" = 'it''s 8' """,
        "price >",
        None,
        '{"op": "=", "args": [{"property": "colour"}, "red 1"]}',
        '{"op": "=", "args": [{"property": "colour"}, "red 2"]}',
        "BBOX(place, 1, 2, 3, 4)",
    ]
    once, each = Schema(), Schema()
    learn_expressions(texts, once)
    for text in texts:
        learn_expression(text, each)
    assert once.to_json() == each.to_json()
    assert once.find("item").symbols.texts == ["size 5", "size 6"]
    assert once.find("d 2").symbols.texts == ["it's 7", "it's 8"]


def test_from_raw_tables_to_the_engines_answer(spark: Any, lake: Lake) -> None:
    raw = spark.createDataFrame(TEXTS, "id bigint, expression string, priority double").coalesce(1)
    subscribed = ingest_table(lake, raw, "subscriptions")
    assert subscribed.counts == {"read": 12, "records": 3, "rejected": 9}
    published = ingest_table(lake, spark.createDataFrame(OFFERS, "id bigint, age double, plan string"), "events")
    assert published.counts == {"read": 3, "records": 3, "rejected": 0}
    rejects = lake.read(spark, "rejects", subscribed.upstream["rejects"]).collect()
    assert all(row["reason"] and row["content"] and row["source"] for row in rejects)
    index = index_table(lake, spark)
    assert index.counts["subscriptions"] == 3
    made = match_table(lake, spark, k=2)
    assert made.upstream == {"events": published.version, "index": index.version}
    kept = {row["id"]: row for row in TEXTS[:1] + TEXTS[1:2] + TEXTS[11:]}
    assert {row["id"] for row in lake.read(spark, "subscriptions").select("id").collect()} == set(kept)
    engine = Engine()
    for id_, record in kept.items():
        engine.subscribe(record["expression"], id=id_, priority=record.get("priority") or 0.0)
    found = ranked(lake.read(spark, "matches"))
    for offer in OFFERS:
        values = {name: value for name, value in offer.items() if name != "id"}
        assert found.get(offer["id"], []) == [tuple(match) for match in engine.top_k(Event(values), 2)]


def test_an_id_that_two_partitions_hold_is_kept_once(spark: Any) -> None:
    records = [{"id": i % 40, "expression": f"age = {i}"} for i in range(100)]
    raw = spark.createDataFrame(records).repartition(4)
    book = ingest.learn(raw, Codebook.declare(), "subscriptions")
    good, rejects = ingest.split(ingest.encode(raw, book, "subscriptions").localCheckpoint(), "subscriptions", "here")
    assert sorted(row["id"] for row in good.select("id").collect()) == list(range(40))
    refused = rejects.collect()
    assert len(refused) == 60
    assert all("already that of an earlier record" in row["reason"] for row in refused)


def test_files_of_each_format_are_read(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(
        'id,expression,priority\n1,age >= 18,0.5\n2,age < 3,not a number\n3,"age = 1, 2",\n'
    )
    (tmp_path / "s.jsonl").write_text('{"id": 1, "expression": "age >= 18"}\n\n{"id": 2, "expr": "age"}\nnot json\n')
    pa.parquet.write_table(pa.table({"id": [1], "age_lo": [3.0], "age_hi": [None]}), tmp_path / "s.parquet")
    counts = {}
    for name in ("s.csv", "s.jsonl", "s.parquet"):
        lake = Lake(tmp_path / name.replace(".", "-"))
        raw, form = ingest.read_raw(spark, tmp_path / name)
        counts[name] = ingest_table(lake, raw, "subscriptions", form=form, source=name).counts
    assert counts["s.csv"] == {"read": 3, "records": 1, "rejected": 2}
    assert counts["s.jsonl"] == {"read": 3, "records": 1, "rejected": 2}
    assert counts["s.parquet"] == {"read": 1, "records": 1, "rejected": 0}
    with pytest.raises(QueryError, match="expected one of the formats"):
        ingest.read_raw(spark, tmp_path / "s.xml")


def test_columns_that_cannot_be_used_are_named_before_a_job_runs(spark: Any) -> None:
    book = Codebook.declare({"age": "number"})
    with pytest.raises(SchemaError, match="column 'id' is missing"):
        ingest.encode(spark.createDataFrame([(1.0,)], "age double"), book, "events")
    with pytest.raises(SchemaError, match="column 'id': expected integers"):
        ingest.encode(spark.createDataFrame([("1", "TRUE")], "id string, expression string"), book, "subscriptions")
    with pytest.raises(SchemaError, match="column 'age'"):
        ingest.encode(spark.createDataFrame([(1, "x")], "id bigint, age string"), book, "events")


def test_empty_tables_pass_through(spark: Any, lake: Lake) -> None:
    made = ingest_table(lake, spark.createDataFrame([], "id bigint, expression string"), "subscriptions")
    assert made.counts == {"read": 0, "records": 0, "rejected": 0}
    assert lake.read(spark, "subscriptions").count() == 0
