"""Live events on disk: none that is alive is lost by folding, none that has expired is kept, and a repetition finds the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from matchwood.spark.changes import compact
from matchwood.spark.lake import Lake
from matchwood.spark.live_store import LiveStore
from matchwood.spark.places import place
from matchwood.spark.streaming import MatchStream
from tests.spark.stream_world import events, expected, put
from tests.spark.test_streaming import drained, found, prepared, source


def add(store: LiveStore, batch: int, ends: dict[str, float]) -> None:
    folder = Path(str(store.folder / f"{batch:09}"))
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"value": list(ends), "until": list(ends.values())}), folder / "00000.parquet")


def alive(store: LiveStore, spark: Any, number: int, now: float) -> list[str]:
    table = store.alive(spark, number, now)
    return [] if table is None else sorted(row["value"] for row in table.collect())


def test_folding_keeps_what_is_alive_and_a_repetition_finds_the_same(spark: Any, tmp_path: Path) -> None:
    store = LiveStore(place(tmp_path / "live"))
    assert alive(store, spark, 5, 0.0) == []
    add(store, 1, {"a": 10.0, "b": 20.0})
    add(store, 3, {"c": 15.0})
    add(store, 4, {"of batch 4 itself": 30.0})
    assert alive(store, spark, 4, 12.0) == ["b", "c"]
    store.fold(spark, 4, 12.0)
    assert alive(store, spark, 4, 12.0) == ["b", "c"]  # batch 4 done again
    assert alive(store, spark, 5, 16.0) == ["b", "of batch 4 itself"]
    assert store.folder.names() == ["000000004", "upto-000000003"]
    add(store, 2, {"a folder that a folding cut short did not remove": 99.0})
    assert alive(store, spark, 5, 16.0) == ["b", "of batch 4 itself"]
    store.fold(spark, 6, 25.0)
    assert store.folder.names() == ["upto-000000005"]
    assert alive(store, spark, 6, 25.0) == ["of batch 4 itself"]
    store.fold(spark, 6, 25.0)  # nothing to do
    assert alive(store, spark, 7, 31.0) == []


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
