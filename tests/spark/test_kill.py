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
from tests.spark.stream_world import events, expected, put, write_base

FILES, EVENTS_EACH = 24, 300

DRIVER = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from matchwood.spark.lake import Lake
from matchwood.spark.session import local_session
from matchwood.spark.streaming import MatchStream
folder, trigger = Path(sys.argv[1]), sys.argv[2]
spark = local_session(partitions=2, memory="1g", options={"spark.local.dir": str(folder / "local")})
stream = MatchStream(Lake(folder / "lake"), "killed", k=5)
lines = spark.readStream.option("maxFilesPerTrigger", 1)
how = {"availableNow": True} if trigger == "now" else {"processingTime": "100 milliseconds"}
query = stream.start(lines.text(str(folder / "in")), folder / "checkpoint", changes=lines.text(str(folder / "changes")), **how)
query.awaitTermination()
"""


def driver(folder: Path, trigger: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", DRIVER, str(folder), trigger]
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


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_a_stream_whose_driver_and_workers_are_killed_equals_a_batch(spark: Any, tmp_path: Path) -> None:
    dice = random.Random(5)
    base = write_base(tmp_path / "base.jsonl", 200)
    lake = Lake(tmp_path / "lake")
    raw, form = ingest.read_raw(spark, tmp_path / "base.jsonl")
    ingest_table(lake, raw, "subscriptions", form=form)
    index_table(lake, spark)
    (tmp_path / "changes").mkdir()
    (tmp_path / "in").mkdir()
    stream = MatchStream(lake, "killed", k=5)
    killed = {"driver": 0, "worker": 0}
    fed = 0
    while killed["driver"] < 3 or killed["worker"] < 2:
        running = driver(tmp_path, "steady")
        wanted = len(list((stream.folder / "done").glob("*"))) + 1
        deadline = time.time() + 180
        while (
            len(list((stream.folder / "done").glob("*"))) < wanted and running.poll() is None and time.time() < deadline
        ):
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
