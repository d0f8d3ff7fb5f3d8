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

from matchwood.encode.json_lines import read_json_subscriptions
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.engine import Engine
from matchwood.errors import QueryError, SchemaError, StorageError
from matchwood.lang.event import Event
from matchwood.schema import Schema
from matchwood.spark import ingest
from matchwood.spark.batches import read_events, read_subscriptions
from matchwood.spark.codebook import Codebook
from matchwood.spark.ingest_worker import LINES, MAX_CONTENT, Encoding, encode_batches
from matchwood.spark.lake import Lake
from matchwood.spark.learn_worker import Learning, learn_expression, learn_expressions
from matchwood.spark.pipeline import index_table, ingest_table, match_table
from matchwood.spark.streaming import MatchStream
from tests.spark.stream_world import put
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
            assert len(record["content"]) < MAX_CONTENT + 100


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
    texts += ["S_WITHIN(place, POLYGON((170 0, 190 0, 180 9, 170 0), (179 1, 181 1, 180 2, 179 1))) AND age > 1"]
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
    assert list(plan.codes) == ["a", "b"]
    assert schema.find("x").type == "number"  # the first to say so; the other will be rejected
    assert book.extended([]) is book


PLACES = [
    (1.0, 2.0, 500.0),
    (None, None, None),
    (1.0, None, 5.0),
    (181.0, 0.0, 5.0),
    (1.0, 2.0, 0.0),
    (-74.0, 40.7, 9.0),
]
"""(lon, lat, radius): good, none, half, off the map, no radius, good."""


def placed_table(form: str) -> pa.Table:
    """Subscriptions around places, and some conditions, in a form; nothing declares the place."""
    n = len(PLACES)
    lon, lat, radius = (pa.array(column, pa.float64()) for column in zip(*PLACES, strict=True))
    place = {"lon": lon, "lat": lat, "radius": radius}
    if form == "text":
        return pa.table(
            {"id": range(n), "expression": ["age >= 18", "TRUE", "age = 1", "TRUE", "TRUE", "plan = 'x'"], **place}
        )
    if form == "wide":
        return pa.table({"id": range(n), "age_lo": pa.array([18, None, 1, None, None, None], pa.int64()), **place})
    if form == "list":
        predicates = [[{"attribute": "age", "lo": 18.0}], [], [], [], [], []]
        return pa.table({"id": range(n), "predicates": predicates, **place})
    lines = []
    for i, (x, y, r) in enumerate(PLACES):
        given = {"place": [x, y], "radius": r} if r is not None else {}
        lines.append(json.dumps({"id": i, "expression": "age >= 18", **given}))
    return pa.table({"value": lines})


@pytest.mark.parametrize("form", ["text", "wide", "list", LINES])
def test_places_that_nobody_declared_are_accepted_as_in_one_process(form: str) -> None:
    table = placed_table(form)
    if form == LINES:
        expected = read_json_subscriptions(table["value"].to_pylist(), Schema())
    else:
        expected = encode_subscription_table(table, Schema())
    assert expected.ids.tolist() == [0, 1, 5]
    types = ["point", "number"] if form in ("text", LINES) else ["point"]  # of the others the column itself is refused
    for book in (Codebook.declare(), *(Codebook.declare({"place": type_}) for type_ in types)):
        (learnt,) = Learning(Encoding("subscriptions", book.content, form))(table.to_batches(max_chunksize=2))
        schema = book.extended([Schema.from_json(json.loads(learnt.column(1)[0].as_py()))]).schema()
        schema.learn = False
        encoding = Encoding("subscriptions", json.dumps(schema.to_json()), form)
        found = pa.Table.from_batches(list(encode_batches(encoding, table.to_batches(max_chunksize=2)))).to_pylist()
        good = [record["id"] for record in found if record["reason"] is None]
        assert good == ([1] if schema.find("place").type == "number" else [0, 1, 5])
        assert len(found) == len(PLACES)


def test_places_of_texts_and_of_changes_are_accepted_on_spark(spark: Any, lake: Lake, tmp_path: Path) -> None:
    raw = spark.createDataFrame(placed_table("text").to_pandas().astype(object).where(lambda t: t.notna(), None))
    for form in (None, "text"):
        assert ingest_table(lake, raw.repartition(3), "subscriptions", form=form).counts["records"] == 3
    other = Lake(tmp_path / "other")
    ingest_table(other, spark.createDataFrame([(9, "age >= 0")], "id bigint, expression string"), "subscriptions")
    index_table(other, spark, index="scan")
    changes = [{"op": "subscribe", **record} for record in placed_table("text").to_pylist()]
    put(tmp_path / "changes", "0.json", changes)
    put(tmp_path / "in", "0.json", [{"id": 1, "values": {"age": 20}, "place": [1.0, 2.0]}])
    stream = MatchStream(other, "placed")
    events, changing = (spark.readStream.text(str(tmp_path / name)) for name in ("in", "changes"))
    stream.start(events, tmp_path / "checkpoint", changes=changing, availableNow=True).awaitTermination()
    assert sorted(row["subscription_id"] for row in stream.matches(spark).collect()) == [0, 1, 9]
    assert stream.rejects(spark).count() == 3


def test_a_closed_codebook_learns_strings_so_that_partitions_agree_on_them(spark: Any, lake: Lake) -> None:
    texts = [f"s = 'A{i}'" for i in range(6)] + ["other = 1 AND s = 'B'"]
    raw = spark.createDataFrame(list(enumerate(texts)), "id bigint, expression string").repartition(4)
    made = ingest_table(lake, raw, "subscriptions", schema=Schema({"s": "string"}, learn=False))
    assert made.counts == {"read": 7, "records": 6, "rejected": 1}
    codes = lake.read(spark, "subscriptions").select("lo").collect()
    assert len({row["lo"][0] for row in codes}) == 6
    with pytest.raises(SchemaError, match="column 'age_lo': attribute 'age' is not in the schema"):
        ingest_table(lake, spark.createDataFrame([(1, 2)], "id bigint, age_lo int"), "subscriptions")
    assert lake.versions("subscriptions") == [1]


def test_a_string_that_only_one_worker_knows_is_an_error_and_not_another_string() -> None:
    closed = Schema({"s": "string", "n": "number"}, learn=False)
    closed.key(closed.find("s"), "known")
    good = [{"id": 1, "expression": "s = 'known' AND n = 7"}, {"id": 2, "expression": "s != 'known'"}]
    assert encoded("subscriptions", good, closed)["reason"].null_count == 2
    assert encoded("subscriptions", [{"id": 3, "expression": "s = 'new' AND n ="}], closed).num_rows == 1
    for text in ("s = 'new'", "s != 'new'", "s IN ('known', 'new')"):
        with pytest.raises(StorageError, match=r"attribute 's': the string 'new' is not in the codebook.*has changed"):
            encoded("subscriptions", [*good, {"id": 3, "expression": text}], closed)


def test_a_plain_column_must_be_an_attribute_that_is_declared_or_known(spark: Any, lake: Lake) -> None:
    raw = spark.createDataFrame([(1, "a@b.c", "pro", 18)], "id bigint, email string, plan string, age_lo int")
    with pytest.raises(SchemaError, match=r"column 'email', 'plan': not a column .*drop it, or declare"):
        ingest_table(lake, raw, "subscriptions")
    assert lake.codebook() is None
    wanted = raw.drop("email")
    assert ingest_table(lake, wanted, "subscriptions", schema={"plan": "string"}).counts["records"] == 1
    with pytest.raises(SchemaError, match="column 'email': "):
        ingest_table(lake, raw, "subscriptions")
    again = ingest_table(
        lake, raw, "subscriptions", schema={"email": "string"}
    )  # declares for a lake that has a codebook
    assert again.counts["records"] == 1
    with pytest.raises(SchemaError, match="attribute 'plan' is of type string, but is used as number"):
        ingest_table(lake, wanted, "subscriptions", schema={"plan": "number"})


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
        "A_CONTAINS(terms, ('graph', 'index')) AND A_COUNT(authors, ('Ada', 'Bo')) >= 1",
    ]
    once, each = Schema(), Schema()
    learn_expressions(texts, once)
    for text in texts:
        learn_expression(text, each)
    assert once.to_json() == each.to_json()
    assert list(once.find("item").symbols.codes) == ["size 5", "size 6"]
    assert list(once.find("d 2").symbols.codes) == ["it's 7", "it's 8"]
    assert list(once.find("terms").symbols.codes) == ["graph", "index"]
    assert list(once.find("authors").symbols.codes) == ["Ada", "Bo"]


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
    assert all("an earlier record has the same id" in row["reason"] for row in refused)


def test_of_repeated_ids_a_lake_keeps_the_first_and_rejects_the_others(spark: Any, lake: Lake) -> None:
    # ids 0 to 39 in each of four partitions, in the order of the partitions; one record in ten is bad
    records = [(i % 40, f"age = {i}" if i % 10 else "age =") for i in range(160)]
    raw = spark.createDataFrame(records, "id bigint, expression string").repartition(1).coalesce(1)
    raw = raw.unionByName(spark.createDataFrame([(i, f"age = {1000 + i}") for i in range(40)], raw.schema).coalesce(1))
    made = ingest_table(lake, raw, "subscriptions")
    assert made.counts == {"read": 200, "records": 40, "rejected": 160}
    kept = {row["id"]: row["lo"][0] for row in lake.read(spark, "subscriptions").collect()}
    assert kept == {i: float(i) if i % 10 else 1000.0 + i for i in range(40)}
    reasons = [row["reason"] for row in lake.read(spark, "rejects").collect()]
    assert sum("an earlier record has the same id" in reason for reason in reasons) == 144


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
