"""Clusters of two workers, of which one executor is killed in the middle of a job; `-m stress` runs them."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
spark = local_session(master=sys.argv[2], partitions=4, memory="1g", options=options)
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


@contextmanager
def standalone(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A master and two workers of one core each, as processes of their own; the URL of the master."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, package = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    master = [f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = [
        f"{package}.worker.Worker",
        "--host",
        "127.0.0.1",
        "--webui-port",
        "0",
        "--cores",
        "1",
        "--memory",
        "1200m",
    ]
    with ExitStack() as stack:
        for number, words in enumerate((master, worker, worker)):
            work = ["--work-dir", str(folder / f"work-{number}"), url] if number else []
            log = stack.enter_context((folder / f"{number}.log").open("wb"))
            process = subprocess.Popen([str(program), *words, *work], stdout=log, stderr=log, env=environment)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            _wait_for_port(port)
        yield url


def _wait_for_port(port: int) -> None:
    for _ in range(600):
        with socket.socket() as there:
            if there.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the master of the cluster did not start within a minute")


@pytest.mark.parametrize("kind", ["local-cluster[2,1,1024]", "standalone"])
def test_an_executor_that_is_killed_in_mid_job_changes_nothing(tmp_path: Path, kind: str) -> None:
    if problem := java_problem():
        pytest.skip(problem)
    subscriptions, events = world(random.Random(11))
    for name, records in (("subscriptions", subscriptions), ("events", events)):
        (tmp_path / f"{name}.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with ExitStack() as stack:
        master = stack.enter_context(standalone(tmp_path, environment)) if kind == "standalone" else kind
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), master]
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
