"""Streams: what comes out is what a batch over the same input says, also if micro-batches die and are done again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from matchwood.errors import QueryError
from matchwood.spark import ingest
from matchwood.spark.cdc import captured_changes
from matchwood.spark.changes import compact
from matchwood.spark.lake import Lake
from matchwood.spark.pipeline import index_table, ingest_table
from matchwood.spark.streaming import MatchStream, as_lines
from tests.scorings import TYPES, a_scored_world, judged
from tests.spark.stream_world import events, expected, put, write_base


class CrashError(Exception):
    pass


def prepared(spark: Any, lake: Lake, folder: Path, **options: Any) -> dict[int, str]:
    base = write_base(folder / "base.jsonl", 60)
    raw, form = ingest.read_raw(spark, folder / "base.jsonl")
    ingest_table(lake, raw, "subscriptions", form=form)
    index_table(lake, spark, **options)
    return base


def source(spark: Any, folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def drained(stream: MatchStream, arriving: Any, checkpoint: Path, **more: Any) -> None:
    stream.start(arriving, checkpoint, availableNow=True, **more).awaitTermination()


def found(stream: MatchStream, spark: Any) -> list[tuple[int, int, float]]:
    return [(r["event_id"], r["subscription_id"], r["score"]) for r in stream.matches(spark).collect()]


def test_a_stream_finds_what_a_batch_finds_even_if_every_step_crashes_once(
    spark: Any, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = prepared(spark, lake, tmp_path, shards=2, by="hash")
    published = [events(number, 40) for number in range(4)]
    for number, records in enumerate(published):
        put(tmp_path / "in", f"{number}.json", records)
    crashed: set[tuple[int, str]] = set()

    class Failing(MatchStream):
        def write_files(self, matches: Any, number: int) -> None:
            self._crash(number, "before writing")
            super().write_files(matches, number)
            self._crash(number, "after writing")

        def _crash(self, number: int, step: str) -> None:
            if number in (1, 2) and (number, step) not in crashed:
                crashed.add((number, step))
                raise CrashError(step)

    for _ in range(10):
        stream = Failing(lake, "crashing", k=5)
        try:
            drained(stream, source(spark, tmp_path / "in"), tmp_path / "checkpoint")
            break
        except Exception as error:
            if "CrashError" not in str(error):
                raise
    assert len(crashed) == 4
    rows = found(stream, spark)
    assert len(rows) == len(set(rows))
    assert set(rows) == expected(base, [record for records in published for record in records], 5)


def test_changes_take_effect_in_their_micro_batch_and_late_subscribers_find_live_events(
    spark: Any, lake: Lake, tmp_path: Path
) -> None:
    base = prepared(spark, lake, tmp_path)
    stream, checkpoint = MatchStream(lake, "changing"), tmp_path / "checkpoint"
    arriving, changing = source(spark, tmp_path / "in"), source(spark, tmp_path / "changes")
    steps = [events(number, 25, alive=True) for number in range(3)]
    put(tmp_path / "in", "0.json", steps[0])
    drained(stream, arriving, checkpoint, changes=changing)
    first = expected(base, steps[0], None)
    assert set(found(stream, spark)) == first

    changes = [
        {
            "op": "subscribe",
            "id": 900,
            "expression": "item = 'phone' AND colour = 'shade 8'",
        },  # a string new to the codebook
        {"op": "update", "id": 3, "expression": "price >= 0", "seq": 2},
        {"op": "update", "id": 3, "expression": "price < 0", "seq": 1},
        {"op": "unsubscribe", "id": 4},
        {"op": "unsubscribe", "id": 777},
        {"op": "subscribe", "id": 901, "expression": "price >"},
        {"op": "explode", "id": 1},
    ]
    put(tmp_path / "changes", "1.json", changes)
    put(tmp_path / "in", "1.json", steps[1])
    drained(stream, arriving, checkpoint, changes=changing)
    now = {**base, 900: changes[0]["expression"], 3: changes[1]["expression"]}
    del now[4]
    alive = [record for record in steps[0] if "until" in record]
    late = expected({900: now[900], 3: now[3]}, alive, None)
    second = expected(now, steps[1], None)
    assert late
    rows = found(stream, spark)
    assert sorted(rows) == sorted([*first, *late, *second])
    reasons = [row["reason"] for row in stream.rejects(spark).collect()]
    assert len(reasons) == 2
    assert any("expected an op out of" in reason for reason in reasons)

    compacted = compact(spark, lake, "changing", upto=stream.done()[-1])
    assert compacted.counts["subscriptions"] == len(now)
    put(tmp_path / "in", "2.json", steps[2])
    drained(stream, arriving, checkpoint, changes=changing)
    assert sorted(found(stream, spark)) == sorted([*first, *late, *second, *expected(now, steps[2], None)])


def test_lines_that_are_no_events_are_rejected_and_the_others_matched(spark: Any, lake: Lake, tmp_path: Path) -> None:
    base = prepared(spark, lake, tmp_path)
    good = events(0, 10)
    put(tmp_path / "in", "0.json", [*good, {"values": {"price": 3}}, {"id": 5, "values": {"price": "dear"}}])
    with (tmp_path / "in" / "0.json").open("a") as file:
        file.write("no json\n\n")
    stream = MatchStream(lake, "rejecting")
    drained(stream, source(spark, tmp_path / "in"), tmp_path / "checkpoint")
    assert set(found(stream, spark)) == expected(base, good, None)
    assert stream.rejects(spark).count() == 3


def test_a_stream_of_a_table_is_matched_and_its_live_events_are_found_later(
    spark: Any, lake: Lake, tmp_path: Path
) -> None:
    base = prepared(spark, lake, tmp_path)
    published = events(0, 20, alive=True)
    rows = [{"id": r["id"], "until": r.get("until"), **r["values"]} for r in published]
    put(tmp_path / "in", "0.json", rows)
    stream, changing = MatchStream(lake, "table"), source(spark, tmp_path / "changes")
    schema = "id bigint, until string, item string, price double, colour string"
    arriving = spark.readStream.schema(schema).json(str(tmp_path / "in"))
    drained(stream, arriving, tmp_path / "checkpoint", changes=changing)
    first = expected(base, published, None)
    assert set(found(stream, spark)) == first
    put(tmp_path / "changes", "0.json", [{"op": "subscribe", "id": 900, "expression": "price >= 0"}])
    drained(stream, arriving, tmp_path / "checkpoint", changes=changing)
    late = expected({900: "price >= 0"}, [record for record in published if "until" in record], None)
    assert late
    assert sorted(found(stream, spark)) == sorted([*first, *late])


def test_any_table_becomes_lines(spark: Any) -> None:
    table = spark.createDataFrame([(1, 2.5, "a", None)], "id bigint, price double, item string, colour string")
    assert as_lines(table).first()["value"] == '{"id":1,"values":{"price":2.5,"item":"a"}}'


def test_a_change_that_comes_late_or_twice_replaces_no_newer_one(
    spark: Any, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = prepared(spark, lake, tmp_path)
    stream, checkpoint = MatchStream(lake, "ordered"), tmp_path / "checkpoint"
    arriving, changing = source(spark, tmp_path / "in"), source(spark, tmp_path / "changes")
    wanted, all_, none = [], "price >= 0", "price < 0"
    steps = [
        ([(1, 5, "update", all_), (2, 5, "unsubscribe", None)], {1: all_, 2: None}),
        ([(1, 4, "update", none), (2, 4, "update", all_), (3, None, "update", all_)], {1: all_, 2: None, 3: all_}),
        ([(1, 6, "unsubscribe", None), (2, 5, "update", all_), (3, None, "update", none)], {1: None, 2: None, 3: none}),
        ([(1, 5, "update", all_), (2, 7, "subscribe", all_)], {1: None, 2: all_, 3: none}),
    ]
    for number, (changes, now) in enumerate(steps):
        records = [{"op": op, "id": id_, "seq": seq, "expression": text} for id_, seq, op, text in changes]
        put(tmp_path / "changes", f"{number}.json", records)
        put(tmp_path / "in", f"{number}.json", events(number, 10))
        drained(stream, arriving, checkpoint, changes=changing)
        known = {id_: text for id_, text in {**base, **now}.items() if text is not None}
        wanted += expected(known, events(number, 10), None)
        assert sorted(found(stream, spark)) == sorted(wanted), number
        if number == 2:  # the deltas go, their order stays
            compact(spark, lake, "ordered", upto=stream.done()[-1])
            lake.vacuum("index", keep=1)
            stream.clean(spark, stream.done()[-1] + 1)
            assert (stream.folder / "deltas").names() == []


def test_changes_captured_from_a_database_are_changes_of_subscriptions(spark: Any) -> None:
    row = {"key": 7, "query": "price < 30", "priority": "0.5", "other": None}
    records = [
        {"op": "c", "before": None, "after": row, "source": {"lsn": 11, "ts_ms": 5}, "ts_ms": 6},
        {"payload": {"op": "u", "before": row, "after": {**row, "query": "price < 40"}, "source": {"ts_ms": 12}}},
        {"op": "d", "before": {"key": 7}, "after": None, "ts_ms": 13},
        {"op": "t", "source": {"lsn": 14}},
    ]
    lines = [(json.dumps(record),) for record in records]
    table = spark.createDataFrame([*lines, (None,), ("no json",)], "value string").coalesce(1)
    captured = [row["value"] for row in captured_changes(table, names={"id": "key", "expression": "query"}).collect()]
    assert list(map(json.loads, captured[:3])) == [
        {"op": "subscribe", "seq": 11, "id": 7, "expression": "price < 30", "priority": 0.5},
        {"op": "update", "seq": 12, "id": 7, "expression": "price < 40", "priority": 0.5},
        {"op": "unsubscribe", "seq": 13, "id": 7},
    ]
    assert captured[3:] == [lines[3][0], "no json"]  # `MatchStream` rejects them
    numbered = captured_changes(table.limit(2), seq="$.source.ts_ms").collect()
    assert [json.loads(row["value"])["seq"] for row in numbered] == [5, 12]


@pytest.mark.parametrize("scoring", ["max", "priority"])
def test_a_stream_scores_as_its_named_scoring_says(spark: Any, lake: Lake, tmp_path: Path, scoring: str) -> None:
    texts, priorities, values = a_scored_world(11, 24, 30)
    truth = judged(texts, priorities, values, scoring)
    records = [{"id": at, "values": event, "until": "2100-01-01T00:00:00Z"} for at, event in enumerate(values)]
    table = [(at, texts[at], priorities[at]) for at in range(12)]
    raw = spark.createDataFrame(table, "id long, expression string, priority double")
    ingest_table(lake, raw, "subscriptions", schema=TYPES)
    index_table(lake, spark, index="scan")
    stream, changing = MatchStream(lake, "scored", scoring=scoring), source(spark, tmp_path / "changes")
    put(tmp_path / "in", "0.json", records[:20])
    arriving = source(spark, tmp_path / "in")
    drained(stream, arriving, tmp_path / "checkpoint", changes=changing)
    known = {(at, id_, score) for at in range(20) for id_, score in truth[at] if id_ < 12}
    assert set(found(stream, spark)) == known
    later = [{"op": "subscribe", "id": at, "expression": texts[at], "priority": priorities[at]} for at in range(12, 24)]
    put(tmp_path / "changes", "0.json", later)
    put(tmp_path / "in", "1.json", records[20:])
    drained(stream, arriving, tmp_path / "checkpoint", changes=changing)
    rows = found(stream, spark)
    assert len(rows) == len(set(rows))
    assert set(rows) == {(at, id_, score) for at, hits in enumerate(truth) for id_, score in hits}


def test_a_stream_without_changes_takes_the_best_by_its_scoring(spark: Any, lake: Lake, tmp_path: Path) -> None:
    texts, priorities, values = a_scored_world(12, 30, 20)
    table = list(zip(range(30), texts, priorities, strict=True))
    raw = spark.createDataFrame(table, "id long, expression string, priority double")
    ingest_table(lake, raw, "subscriptions", schema=TYPES)
    index_table(lake, spark, index="scan", shards=2, by="hash")
    put(tmp_path / "in", "0.json", [{"id": at, "values": event} for at, event in enumerate(values)])
    stream = MatchStream(lake, "best", k=3, scoring="max")
    drained(stream, source(spark, tmp_path / "in"), tmp_path / "checkpoint")
    best = judged(texts, priorities, values, "max", k=3)
    assert set(found(stream, spark)) == {(at, id_, score) for at, hits in enumerate(best) for id_, score in hits}
    with pytest.raises(QueryError, match="expected the name of a scoring"):
        MatchStream(lake, "best", scoring="mean")
