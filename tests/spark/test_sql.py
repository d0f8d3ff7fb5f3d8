"""SQL over a lake: table functions that match, and a data source that reads."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from matchwood.engine import Engine
from matchwood.spark import Lake, MatchStream, index_table, ingest_table, match, match_table, open_index, register
from tests.spark.stream_world import events, put
from tests.spark.test_direct import values, world


@pytest.fixture(scope="module")
def filled(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[dict[str, Any]], Engine]:
    """A lake with subscriptions, events, an index and matches; its events; and an engine that has the subscriptions."""
    lake = Lake(tmp_path_factory.mktemp("sql") / "lake")
    subscriptions, arriving = world(random.Random(9))
    rows = [(number, s["expression"], s["priority"]) for number, s in enumerate(subscriptions)]
    ingest_table(lake, spark.createDataFrame(rows, "id bigint, expression string, priority double"), "subscriptions")
    table = spark.createDataFrame(arriving, "day string, price double, item string, size int, colour string")
    ingest_table(lake, table.drop("day").selectExpr("monotonically_increasing_id() AS id", "*").coalesce(1), "events")
    index_table(lake, spark, index="scan")
    match_table(lake, spark, k=3)
    table.createOrReplaceTempView("arriving")
    register(spark)
    engine = Engine()
    for id_, text, priority in rows:
        engine.subscribe(text, id=id_, priority=priority)
    return lake, arriving, engine


def test_the_best_matches_come_from_a_table_function(
    spark: Any, filled: tuple[Lake, list[dict[str, Any]], Engine]
) -> None:
    lake, arriving, engine = filled
    best = f"matchwood_top_k(TABLE(arriving), index => '{lake.root}', k => 3, id => 'day')"
    found = spark.sql(f"SELECT event_id, subscription_id, score, rank FROM {best}")
    wanted = {
        (event["day"], hit.id, hit.score, rank)
        for event in arriving
        for rank, hit in enumerate(engine.top_k(values(event), 3), 1)
    }
    assert {tuple(row) for row in found.collect()} == wanted
    cheap = "TABLE(SELECT * FROM arriving WHERE price < 50)"
    counted = spark.sql(f"SELECT count(*) FROM matchwood_match({cheap}, index => '{lake.root}', id => 'day')")
    assert counted.first()[0] == sum(len(engine.match(values(event))) for event in arriving if event["price"] < 50)
    direct = match(spark.table("arriving"), open_index(lake), k=3, ids=("day", "id"))
    assert {tuple(row) for row in direct.collect()} == wanted


def test_scores_are_by_the_scoring_that_is_named(spark: Any, filled: tuple[Lake, list[dict[str, Any]], Engine]) -> None:
    lake, arriving, engine = filled
    bids = Engine(index="scan", scoring="priority")
    for number in range(len(engine)):
        known = engine.subscription(number)
        bids.subscribe(known.expression, id=number, priority=known.priority)
    best = f"matchwood_top_k(TABLE(arriving), index => '{lake.root}', k => 3, id => 'day', scoring => 'priority')"
    wanted = {
        (event["day"], hit.id, hit.score, rank)
        for event in arriving
        for rank, hit in enumerate(bids.top_k(values(event), 3), 1)
    }
    assert {
        tuple(row) for row in spark.sql(f"SELECT event_id, subscription_id, score, rank FROM {best}").collect()
    } == wanted


def test_a_wrong_argument_is_named_before_anything_runs(
    spark: Any, filled: tuple[Lake, list[dict[str, Any]], Engine]
) -> None:
    lake, _, _ = filled
    with pytest.raises(Exception, match="column 'id' is missing"):
        spark.sql(f"SELECT * FROM matchwood_top_k(TABLE(arriving), index => '{lake.root}', k => 3)")
    with pytest.raises(Exception, match="expected k to be a whole number >= 1, got 0"):
        spark.sql(f"SELECT * FROM matchwood_top_k(TABLE(arriving), index => '{lake.root}', k => 0, id => 'day')")
    with pytest.raises(Exception, match="has no published version"):
        spark.sql("SELECT * FROM matchwood_top_k(TABLE(arriving), index => '/nowhere/lake', k => 1, id => 'day')")


def test_a_lake_is_a_data_source(spark: Any, filled: tuple[Lake, list[dict[str, Any]], Engine]) -> None:
    lake, _, _ = filled
    source = spark.read.format("matchwood")
    listed = {(row["table"], row["version"]): row for row in source.load(str(lake.root)).collect()}
    assert sorted(listed) == [
        ("events", 1),
        ("index", 1),
        ("matches", 1),
        ("rejects", 1),
        ("rejects", 2),
        ("subscriptions", 1),
    ]
    assert listed["subscriptions", 1]["records"] == 60
    assert json.loads(listed["matches", 1]["parameters"])["k"] == 3
    assert json.loads(listed["matches", 1]["upstream"]) == {"events": 1, "index": 1}
    for table in ("matches", "subscriptions"):
        read = source.option("table", table).load(str(lake.root))
        own = lake.read(spark, table)
        assert read.columns == own.columns
        assert sorted(map(str, read.collect())) == sorted(map(str, own.collect()))
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW kept USING matchwood OPTIONS (path '{lake.root}', table 'matches', version '1')"
    )
    assert spark.sql("SELECT max(rank) FROM kept").first()[0] == 3
    with pytest.raises(Exception, match="expected the path or URI of a lake"):
        source.load().collect()
    with pytest.raises(Exception, match="version 9 of 'matches' does not exist"):
        source.option("table", "matches").option("version", 9).load(str(lake.root)).collect()


def test_the_matches_of_a_stream_are_read_by_sql(
    spark: Any, filled: tuple[Lake, list[dict[str, Any]], Engine], tmp_path: Path
) -> None:
    lake, _, engine = filled
    records = events(3, 15)
    put(tmp_path / "in", "0.json", records)
    stream = MatchStream(lake, "sql")
    lines = spark.readStream.text(str(tmp_path / "in"))
    stream.start(lines, tmp_path / "checkpoint", availableNow=True).awaitTermination()
    read = spark.read.format("matchwood").option("stream", "sql").load(str(lake.root))
    wanted = {(r["id"], hit.id, hit.score) for r in records for hit in engine.match(r["values"])}
    assert {(r["event_id"], r["subscription_id"], r["score"]) for r in read.collect()} == wanted
    assert {row["batch"] for row in read.collect()} == {0}
