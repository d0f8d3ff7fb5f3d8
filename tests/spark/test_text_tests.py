"""Tests and functions of strings on Spark: ingest, index and match say what the engine says, streams included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from matchwood import Engine
from matchwood.errors import NeverMatchesError
from matchwood.spark.lake import Lake
from matchwood.spark.pipeline import index_table, ingest_table, match_table
from matchwood.spark.streaming import MatchStream
from tests.spark.stream_world import put
from tests.text_worlds import a_text, a_tree


def test_a_job_finds_what_the_engine_finds(spark: Any, lake: Lake) -> None:
    rng = np.random.default_rng(8)
    engine = Engine()
    records: list[tuple[int, str]] = []
    while len(records) < 40:
        tree = a_tree(rng, ("x", "CASEI\x1fx"))
        try:
            engine.subscribe(tree, id=len(records))
        except NeverMatchesError:
            continue
        records.append((len(records), str(tree)))
    events = [(number, a_text(rng)) for number in range(60)]
    raw = spark.createDataFrame(records, "id bigint, expression string").repartition(3)
    assert ingest_table(lake, raw, "subscriptions").counts["rejected"] == 0
    ingest_table(lake, spark.createDataFrame(events, "id bigint, x string").repartition(2), "events")
    index_table(lake, spark, index="scan")
    match_table(lake, spark)
    found = {(row["event_id"], row["subscription_id"], row["score"]) for row in lake.read(spark, "matches").collect()}
    expected = {(at, int(m.id), m.score) for at, text in events for m in engine.match({"x": text})}
    assert found == expected
    assert expected


def test_a_stream_finds_live_events_by_tests_that_come_later(spark: Any, lake: Lake, tmp_path: Path) -> None:
    ingest_table(lake, spark.createDataFrame([(0, "x LIKE 'q%'")], "id bigint, expression string"), "subscriptions")
    index_table(lake, spark, index="scan")
    later = "9999-01-01T00:00:00Z"
    put(tmp_path / "in", "0.json", [{"id": 1, "values": {"x": "Alpha"}, "until": later}])
    put(tmp_path / "changes", "0.json", [{"op": "subscribe", "id": 1, "expression": "x = 'Alpha'"}])
    stream = MatchStream(lake, "live")

    def run() -> None:
        events, changes = (spark.readStream.text(str(tmp_path / name)) for name in ("in", "changes"))
        stream.start(events, tmp_path / "checkpoint", changes=changes, availableNow=True).awaitTermination()

    run()
    put(tmp_path / "in", "1.json", [{"id": 2, "values": {"x": "beta"}, "until": later}])
    put(
        tmp_path / "changes",
        "1.json",
        [{"op": "subscribe", "id": 2, "expression": "CASEI(x) LIKE '%A' AND x LIKE '%a'"}],
    )
    run()
    found = {(row["event_id"], row["subscription_id"]) for row in stream.matches(spark).collect()}
    assert found == {(1, 1), (1, 2), (2, 2)}
