"""A cluster of two executor processes, of which one is killed in the middle of a job; `-m stress` runs it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from matchwood.spark.session import java_problem
from tests.spark.test_direct import engine_of, values, world

pytestmark = [pytest.mark.stress, pytest.mark.timeout(900)]

PROGRAM = """
import json, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from matchwood.spark import local_session, match
folder = Path(sys.argv[1])
options = {
    "spark.speculation": "true", "spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true", "spark.task.maxFailures": "8",
    "spark.local.dir": str(folder / "local"), "spark.executor.memory": "1g",
}
spark = local_session(master="local-cluster[2,1,1024]", partitions=4, memory="1g", options=options)
events = spark.read.json(str(folder / "events.json")).repartition(12)
searches = spark.read.json(str(folder / "subscriptions.json"))

def slowly(batches):
    time.sleep(1.0)
    yield from batches

slow = events.mapInArrow(slowly, events.schema)
found = match(slow, searches, k=3, ids=("day", "name"), path=folder / "index", shards=2, by="hash")
application = spark.sparkContext.applicationId
kills = []

def executors():
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(bytes(1))
            except OSError:
                continue
            if b"--executor-id" in words and application.encode() in words:
                yield int(process.name)

def kill():
    deadline = time.time() + 300
    while time.time() < deadline:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numTasks == 12 and stage.numCompletedTasks >= 2 for stage in stages):
            victim = sorted(executors())[0]
            os.kill(victim, signal.SIGKILL)
            kills.append(victim)
            return
        time.sleep(0.05)

killer = threading.Thread(target=kill)
killer.start()
rows = [(r["event_id"], r["subscription_id"], r["score"], r["rank"]) for r in found.collect()]
killer.join()
(folder / "found.json").write_text(json.dumps({"rows": rows, "kills": len(kills)}))
spark.stop()
"""


def test_an_executor_that_is_killed_in_mid_job_changes_nothing(tmp_path: Path) -> None:
    if problem := java_problem():
        pytest.skip(problem)
    subscriptions, events = world(random.Random(11))
    for name, records in (("subscriptions", subscriptions), ("events", events)):
        (tmp_path / f"{name}.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=850, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["kills"] == 1
    engine, names = engine_of(subscriptions)
    wanted = [
        (event["day"], names[hit.id], hit.score, rank)
        for event in events
        for rank, hit in enumerate(engine.top_k(values(event), 3), 1)
    ]
    assert sorted(map(tuple, found["rows"])) == sorted(wanted)
