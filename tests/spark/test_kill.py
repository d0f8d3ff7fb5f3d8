"""Drivers and workers killed with signal 9 in mid-stream, several times: nothing is lost and nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from matchwood.spark import ingest
from matchwood.spark.lake import Lake
from matchwood.spark.pipeline import index_table, ingest_table
from matchwood.spark.streaming import MatchStream
from tests.spark.stream_world import changes, events, expected, files_of_batches, put, replayed, write_base

FILES, EVENTS_EACH = 24, 300
WORKER_KILLS, DRIVER_KILLS, FILES_A_RUN = 6, 5, 6

DRIVER = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from matchwood.spark.lake import Lake
from matchwood.spark.session import local_session
from matchwood.spark.streaming import MatchStream
folder, trigger = Path(sys.argv[1]), sys.argv[2]
# Without a second number a local master gives up at the first failure of a task; a cluster tries four times.
spark = local_session(master="local[2,4]", partitions=2, memory="1g", options={"spark.local.dir": str(folder / "local")})
stream = MatchStream(Lake(folder / "lake"), "killed", k=int(sys.argv[3]) or None)
lines = spark.readStream.option("maxFilesPerTrigger", 1)
how = {"availableNow": True} if trigger == "now" else {"processingTime": "100 milliseconds"}
changes = lines.text(str(folder / "changes")) if (folder / "changes").exists() else None
query = stream.start(lines.text(str(folder / "in")), folder / "checkpoint", changes=changes, **how)
query.awaitTermination()
"""


def driver(folder: Path, trigger: str, k: int = 5) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", DRIVER, str(folder), trigger, str(k)]
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def workers_of(group: int) -> list[int]:
    """The Python workers among the processes of a driver's group: forks of the daemon, not the daemon itself."""
    found, daemons = [], set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rsplit(")", 1)[1].split()
            command = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if group in (int(stat[2]), int(stat[3])) and b"matchwood.spark.daemon" in command:
            found.append((int(path.name), int(stat[1])))
            daemons.add(int(path.name))
    return [pid for pid, parent in found if parent in daemons]


def prepared(spark: Any, folder: Path, **options: Any) -> tuple[Lake, dict[int, str]]:
    base = write_base(folder / "base.jsonl", 200)
    lake = Lake(folder / "lake")
    raw, form = ingest.read_raw(spark, folder / "base.jsonl")
    ingest_table(lake, raw, "subscriptions", form=form)
    index_table(lake, spark, **options)
    (folder / "in").mkdir()
    return lake, base


def begun(stream: MatchStream) -> int:
    return len((stream.folder / "pins").names())


def done(stream: MatchStream) -> int:
    return len(stream.done())


def rows_of(stream: MatchStream, spark: Any) -> list[tuple[int, int, float]]:
    return sorted((r["event_id"], r["subscription_id"], r["score"]) for r in stream.matches(spark).collect())


def finished(folder: Path, k: int) -> None:
    """Do what is left, without any more harm."""
    last = driver(folder, "now", k)
    assert last.wait() == 0, (folder / "driver.log").read_text()[-3000:]


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_a_stream_whose_workers_die_in_mid_batch_equals_a_batch(spark: Any, tmp_path: Path) -> None:
    """Python workers are killed while a micro-batch runs; the driver lives and tries again."""
    dice = random.Random(6)
    lake, base = prepared(spark, tmp_path, shards=2, by="hash")
    stream = MatchStream(lake, "killed", k=5)
    running = driver(tmp_path, "steady")
    killed = fed = 0
    deadline = time.time() + 600
    try:
        while killed < WORKER_KILLS and running.poll() is None and time.time() < deadline:
            if fed == done(stream):  # the next file, and then harm within its micro-batch
                put(tmp_path / "in", f"{fed:03}.json", events(fed, 4_000))
                fed += 1
                while begun(stream) < fed and running.poll() is None and time.time() < deadline:
                    time.sleep(0.005)
                time.sleep(dice.uniform(0.0, 0.3))
                victims = workers_of(running.pid)
                if victims and done(stream) < fed:
                    for victim in victims:
                        os.kill(victim, signal.SIGKILL)
                    killed += 1
            time.sleep(0.01)
        while done(stream) < fed and running.poll() is None and time.time() < deadline:
            time.sleep(0.1)
        assert running.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert killed == WORKER_KILLS
    published = [record for number in range(fed) for record in events(number, 4_000)]
    assert rows_of(stream, spark) == sorted(expected(base, published, 5))


@pytest.mark.stress
@pytest.mark.timeout(1500)
def test_a_stream_whose_driver_dies_while_subscriptions_change_equals_a_batch(spark: Any, tmp_path: Path) -> None:
    """New subscriptions with new strings, updates and removals come in between; events stay alive for those who come later."""
    dice = random.Random(7)
    (tmp_path / "changes").mkdir()
    lake, base = prepared(spark, tmp_path)
    stream = MatchStream(lake, "killed")
    fed = 0

    def feed() -> None:
        nonlocal fed
        put(tmp_path / "in", f"{fed:03}.json", events(fed, 60, alive=True))
        if fed % 2:
            put(tmp_path / "changes", f"{fed:03}.json", changes(fed, 3, known=200))
        fed += 1

    for _ in range(DRIVER_KILLS):
        running = driver(tmp_path, "steady", k=0)
        wanted, deadline = done(stream) + 1, time.time() + 180
        last = fed + FILES_A_RUN  # a slow start must not pile up more than Spark remembers: the last 100 micro-batches
        while done(stream) < wanted and running.poll() is None and time.time() < deadline:
            if fed < last:
                feed()
            time.sleep(1.0)
        time.sleep(dice.uniform(0.0, 3.0))  # a micro-batch with changes runs several jobs: somewhere within
        assert running.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    feed()
    finished(tmp_path, 0)
    batches = files_of_batches(tmp_path / "checkpoint")
    assert sum(len(files) for files, _ in batches) == fed
    truth = replayed(base, batches)
    assert len({event for event, _, _ in truth}) > 100
    assert rows_of(stream, spark) == truth


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_a_stream_whose_driver_and_workers_are_killed_equals_a_batch(spark: Any, tmp_path: Path) -> None:
    dice = random.Random(5)
    (tmp_path / "changes").mkdir()
    lake, base = prepared(spark, tmp_path)
    stream = MatchStream(lake, "killed", k=5)
    killed = {"driver": 0, "worker": 0}
    fed = 0
    while killed["driver"] < 3 or killed["worker"] < 2:
        running = driver(tmp_path, "steady")
        wanted = len(stream.done()) + 1
        deadline = time.time() + 180
        while len(stream.done()) < wanted and running.poll() is None and time.time() < deadline:
            if fed < FILES:
                put(tmp_path / "in", f"{fed:03}.json", events(fed, EVENTS_EACH))
                fed += 1
            time.sleep(0.3)
        time.sleep(dice.uniform(0.0, 0.5))
        victims = workers_of(running.pid) if killed["worker"] < 2 else []
        if victims:
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            killed["worker"] += 1
            time.sleep(dice.uniform(0.5, 2.0))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        killed["driver"] += 1
        assert killed["driver"] < 12, (tmp_path / "driver.log").read_text()[-3000:]
    for number in range(fed, FILES):
        put(tmp_path / "in", f"{number:03}.json", events(number, EVENTS_EACH))
    for _ in range(3):
        if driver(tmp_path, "now").wait() == 0:
            break
    rows = [(r["event_id"], r["subscription_id"], r["score"]) for r in stream.matches(spark).collect()]
    published = [record for number in range(FILES) for record in events(number, EVENTS_EACH)]
    assert len(rows) == len(set(rows))
    assert set(rows) == expected(base, published, 5)
