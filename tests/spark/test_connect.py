"""Spark Connect for real: a server of its own, in a process of its own, and every stage through its client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from matchwood.spark.session import java_problem
from tests.spark.stream_world import events, expected, put, write_base

CLIENT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from pyspark.sql import SparkSession
from matchwood.spark import ingest, match, pipeline
from matchwood.spark.lake import Lake
from matchwood.spark.session import settings
from matchwood.spark.changes import compact
from matchwood.spark.streaming import MatchStream
folder, stages = Path(sys.argv[1]), sys.argv[2].split(",")
builder = SparkSession.builder.remote("local[2]")
for key, value in {**settings(memory="1g", partitions=2), "spark.local.dir": str(folder / "local")}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
lake, found = Lake(folder / "lake"), {}

def kept(table):
    return [(r["event_id"], r["subscription_id"], r["score"]) for r in table.collect()]

def ingested(kind):
    raw, form = ingest.read_raw(spark, folder / f"{kind}.jsonl")
    return dict(pipeline.ingest_table(lake, raw, kind, form=form).counts)

def matched(**options):
    made = pipeline.match_table(lake, spark, k=5, **options)
    return kept(lake.read(spark, "matches", made.version))

def streamed(name, changes):
    stream, lines = MatchStream(lake, name, k=5), spark.readStream.option("maxFilesPerTrigger", 1)
    more = {"changes": lines.text(str(folder / "changes"))} if changes else {}
    stream.start(lines.text(str(folder / "in")), folder / name, availableNow=True, **more).awaitTermination()
    return kept(stream.matches(spark))

calls = {
    "ingest": lambda: [ingested(kind) for kind in ("subscriptions", "events")],
    "profile": lambda: pipeline.profile_tables(lake, spark).counts["records"],
    "weigh": lambda: pipeline.weigh_table(lake, spark).counts["records"],
    "cover": lambda: pipeline.cover_table(lake, spark).counts["records"] > 0,
    "index": lambda: pipeline.index_table(lake, spark, shards=2, by="hash").counts["subscriptions"],
    "match": matched,
    "direct": lambda: kept(match(spark.read.json(str(folder / "events.jsonl")).select("id", "values.*"), spark.read.json(
        str(folder / "subscriptions.jsonl")), k=5)),
    "route": lambda: matched(route=True),
    "match_subscriptions": lambda: kept(lake.read(spark, "matches_of_subscriptions", pipeline.match_subscriptions_table(
        lake, spark, at="2026-01-01T00:00:00Z").version)),
    "evaluate": lambda: pipeline.evaluate_table(lake, spark).passed,
    "stream": lambda: streamed("plain", False),
    "stream with changes": lambda: streamed("changing", True),
    "compact": lambda: compact(spark, lake, "changing", upto=9).counts["subscriptions"],
}
for name in stages:
    found[name] = calls[name]()
    (folder / "found.json").write_text(json.dumps(found))
spark.stop()
"""

SHORT = ("direct", "ingest", "index", "match")
ALL = (
    "direct", "ingest", "profile", "weigh", "cover", "index", "match", "route", "match_subscriptions", "evaluate", "stream",
    "stream with changes", "compact",
)  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "stages", [pytest.param(SHORT, id="short"), pytest.param(ALL, id="all", marks=pytest.mark.stress)]
)
def test_stages_over_connect_give_what_the_engine_gives(stages: tuple[str, ...], tmp_path: Path) -> None:
    missing = [name for name in ("grpc", "grpc_status", "google.rpc", "zstandard") if not there(name)]
    if missing:
        pytest.skip(f"Spark Connect's client needs {', '.join(missing)}: pip install 'pyspark[connect]'")
    if problem := java_problem():
        pytest.skip(problem)
    base = write_base(tmp_path / "subscriptions.jsonl", 40)
    batch, arriving = events(0, 30), events(1, 30)
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(record) + "\n" for record in batch))
    put(tmp_path / "in", "0.json", arriving)
    new = {"op": "subscribe", "id": 900, "expression": "price >= 0 AND colour = 'shade 8'"}
    put(tmp_path / "changes", "0.json", [new, {"op": "unsubscribe", "id": 3}])
    # For tests PySpark lets the server choose a free port; the client must find `tests` and the package by itself.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
    command = [sys.executable, "-c", CLIENT, str(tmp_path), ",".join(stages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=580, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert list(found) == list(stages)
    now = {**base, 900: str(new["expression"])}
    del now[3]
    wanted = {
        "match": expected(base, batch, 5),
        "direct": expected(base, batch, 5),
        "route": expected(base, batch, 5),
        "match_subscriptions": expected(base, batch, None),
        "stream": expected(base, arriving, 5),
        "stream with changes": expected(now, arriving, 5),
    }
    for name in set(wanted) & set(found):
        assert sorted(map(tuple, found[name])) == sorted(wanted[name]), name
    assert [counts["records"] for counts in found["ingest"]] == [40, 30]
    assert found["index"] == 40
    assert found.get("compact", 40) == 40
    assert found.get("cover", True)
    assert found.get("evaluate", True)


def there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
