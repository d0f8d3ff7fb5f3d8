"""Live events on disk: none that is alive is lost by folding, none that has expired is kept, and a repetition finds the same."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchwood.encode.arrays import make_events
from matchwood.encode.json_lines import stream_json_subscriptions
from matchwood.spark.batches import EventBatch, write_events
from matchwood.spark.changes import compact
from matchwood.spark.codebook import Codebook
from matchwood.spark.lake import Lake
from matchwood.spark.learn_worker import learn_expression
from matchwood.spark.lines import encode_event_lines
from matchwood.spark.live_store import LiveStore
from matchwood.spark.live_worker import LIVE_RECORDS, LiveState, live_records
from matchwood.spark.places import Place, place
from matchwood.spark.stream_files import cached_schema, write_parquet
from matchwood.spark.streaming import MatchStream
from tests.spark.stream_world import ITEMS, events, expected, put
from tests.spark.test_streaming import drained, found, prepared, source


def add(store: LiveStore, batch: int, ends: dict[int, float]) -> None:
    """Events without values, by id; their ends are in seconds."""
    nothing = make_events([0] * (len(ends) + 1), [], [], [])
    events = write_events(EventBatch(np.array(list(ends)), 1e6 * np.array(list(ends.values())), nothing))
    arrays = [*events.columns, pa.nulls(len(ends), pa.string()), pa.array([1] * len(ends), pa.int32())]
    table = pa.Table.from_arrays(arrays, schema=LIVE_RECORDS)
    write_parquet(store.folder / f"{batch:09}" / "00000.parquet", table)


def alive(store: LiveStore, spark: Any, number: int, now: float) -> list[int]:
    table = store.alive(spark, number, now * 1e6)
    return [] if table is None else sorted(row["id"] for row in table.collect())


def test_folding_keeps_what_is_alive_and_a_repetition_finds_the_same(spark: Any, tmp_path: Path) -> None:
    store = LiveStore(place(tmp_path / "live"))
    assert alive(store, spark, 5, 0.0) == []
    add(store, 1, {1: 10.0, 2: 20.0})
    add(store, 3, {3: 15.0})
    add(store, 4, {4: 30.0})
    assert alive(store, spark, 4, 12.0) == [2, 3]
    store.fold(spark, 4, 12e6)
    assert alive(store, spark, 4, 12.0) == [2, 3]  # batch 4 done again
    assert alive(store, spark, 5, 16.0) == [2, 4]
    assert store.folder.names() == ["000000004", "upto-000000003"]
    add(store, 2, {5: 99.0})  # of a folder that a folding cut short did not remove
    assert alive(store, spark, 5, 16.0) == [2, 4]
    store.fold(spark, 6, 25e6)
    assert store.folder.names() == ["upto-000000005"]
    assert alive(store, spark, 6, 25.0) == [4]
    store.fold(spark, 6, 25e6)  # nothing to do
    assert alive(store, spark, 7, 31.0) == []
    (store.folder / "upto-000000006" / "part.parquet").write(b"cut short")
    assert alive(store, spark, 8, 25.0) == [4]


def test_live_events_are_matched_as_the_oracle_says_whatever_the_codebook_learns_meanwhile(tmp_path: Path) -> None:
    """Events arrive in files, each encoded by the codebook of its time; subscriptions with new strings and attributes follow."""
    dice = random.Random(4)
    lake, folder = Lake(tmp_path / "lake"), place(tmp_path / "live")
    book = lake.merge_codebook(Codebook.declare({"price": "number", "item": "string"}))
    records: list[dict[str, Any]] = []
    files: list[Place] = []
    state = LiveState()
    for step in range(8):
        arriving = events(step, 12, seed=3)
        for record in arriving:
            record["until"] = f"1970-01-01T00:00:{dice.randint(step + 1, 12):02}Z"
        records += arriving
        lines = pa.RecordBatch.from_arrays([pa.array([json.dumps(record) for record in arriving])], names=["value"])
        codebook = lake.codebook_path(book.version)
        for part, line_of in encode_event_lines([lines], cached_schema(codebook)):
            table = pa.Table.from_batches([live_records(part, part.ids >= 0, line_of, codebook)])
            files.append(folder / f"{step}.parquet")
            write_parquet(files[-1], table)
        text = f"colour = 'shade {step}' OR item = '{ITEMS[step % 4]}' AND price <= {dice.randint(20, 110)} ^0.5"
        learning = book.schema()
        learn_expression(text, learning)
        book = lake.merge_codebook(book.extended([learning]))
        closed = book.schema()
        (part,) = stream_json_subscriptions([json.dumps({"id": 7, "expression": text})], closed)
        now = step * 1e6
        codebook = lake.codebook_path(book.version)
        for tried in (state, LiveState()):  # one that goes on, one that begins anew
            assert tried.reaches(files, book.version, now)
            tried.advance(files, codebook, now)
            ids, found = tried.matches(part.rows, now, None, "all")
            hits = {(int(e), 7, float(s)) for e, s in zip(ids, found.scores, strict=True)}
            living = [r for r in records if int(r["until"][-3:-1]) > step]
            assert hits == expected({7: text}, living, None)
    assert not state.reaches(files[1:], book.version, now)
    assert not state.reaches(files, book.version, now - 1)


def test_a_stream_lets_go_of_what_nobody_can_ask_for_any_more(
    spark: Any, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matchwood.spark.streaming.CLEAN_EVERY", 2)
    base = prepared(spark, lake, tmp_path)
    instants = iter([0.0, 60.0, 30.0, 180.0, 180.0])  # a clock that is set back once does not bring the expired back
    stream, checkpoint = MatchStream(lake, "tidy", clock=lambda: next(instants)), tmp_path / "checkpoint"
    arriving, changing = source(spark, tmp_path / "in"), source(spark, tmp_path / "changes")
    steps = [events(number, 20, alive=True) for number in range(4)]
    for number, records in enumerate(steps):
        for record in records:
            if "until" in record:
                record["until"] = f"1970-01-01T00:0{number + 1}:00Z"  # each is alive until a minute after its batch
        put(tmp_path / "in", f"{number}.json", records)
        os.utime(
            tmp_path / "in" / f"{number}.json", (1_000 + number, 1_000 + number)
        )  # the source takes the oldest first
    drained(stream, arriving, checkpoint, changes=changing)
    kept = (stream.folder / "live").names()
    assert kept == ["000000003"] or kept == ["000000003", "upto-000000002"]
    assert (stream.folder / "pins").names() == [f"{number:09}.json" for number in (1, 2, 3)]
    change = {"op": "subscribe", "id": 900, "expression": "price >= 0"}
    put(tmp_path / "changes", "0.json", [change])
    drained(stream, arriving, checkpoint, changes=changing)
    late = expected({900: "price >= 0"}, [record for record in steps[3] if "until" in record], None)
    whole = [pair for records in steps for pair in expected(base, records, None)]
    assert late
    assert sorted(found(stream, spark)) == sorted([*whole, *late])
    compact(spark, lake, "tidy", upto=4)
    lake.vacuum("index", keep=1)
    stream.clean(spark, 5)
    assert not (stream.folder / "deltas").names()
    assert lake.manifest("subscriptions").counts["records"] == len(base) + 1
