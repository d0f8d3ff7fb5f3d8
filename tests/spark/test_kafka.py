"""Kafka for real: a single broker and Spark's connector from Maven Central; `make kafka` runs it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.maven import fetched

COORDINATES = {
    "broker": [("org.apache.kafka:kafka_2.13:4.1.1", True)],
    # The connector of the newest Spark is not always published; that of the release before works with it.
    "connector": [
        ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", False),
        ("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0", False),
        ("org.apache.kafka:kafka-clients:3.9.1", False),
        ("org.apache.commons:commons-pool2:2.12.1", False),
    ],
}
"""What is fetched from Maven Central, and whether with all it depends on."""
PORT = 29092

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The jars of the broker and of the connector, by Maven coordinates."""
    return {name: fetched(name, wanted, tmp_path_factory.mktemp(name)) for name, wanted in COORDINATES.items()}


@pytest.fixture(scope="module")
def servers(jars: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A KRaft broker of its own."""
    folder = tmp_path_factory.mktemp("kafka")
    settings = folder / "server.properties"
    settings.write_text(
        f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{PORT + 1}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://127.0.0.1:{PORT + 1}\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={folder / 'logs'}\noffsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
        "transaction.state.log.min.isr=1\nnum.partitions=2\n"
    )
    path = ":".join(jars["broker"])
    cluster = "MkU3OEVBNTcwNTJENDM2Qg"
    subprocess.run(
        ["java", "-cp", path, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)],
        check=True,
        capture_output=True,
    )
    log = (folder / "broker.log").open("w")
    broker = subprocess.Popen(["java", "-Xmx512m", "-cp", path, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    deadline = time.time() + 60
    while not listens():
        if time.time() > deadline or broker.poll() is not None:
            pytest.fail(f"the broker did not start: {(folder / 'broker.log').read_text()[-500:]}")
        time.sleep(0.5)
    yield f"127.0.0.1:{PORT}"
    broker.terminate()
    broker.wait(30)
    log.close()


def listens() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", PORT)) == 0


DRIVER = """
import os, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from matchwood.spark import ingest, kafka
from matchwood.spark.lake import Lake
from matchwood.spark.pipeline import index_table, ingest_table
from matchwood.spark.session import local_session
from matchwood.spark.streaming import MatchStream
from tests.spark.stream_world import events
import json
folder, servers, jars, step, crash = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
spark = local_session(partitions=2, memory="1g", options={"spark.jars": jars})
lake = Lake(folder / "lake")
if step == "prepare":
    raw, form = ingest.read_raw(spark, folder / "base.jsonl")
    ingest_table(lake, raw, "subscriptions", form=form)
    index_table(lake, spark)
    rows = [(json.dumps(record),) for number in range(3) for record in events(number, 60)]
    out = spark.createDataFrame(rows, "value string").write.format("kafka")
    out.option("kafka.bootstrap.servers", servers).option("topic", "events").save()
elif step == "run":
    sink = kafka.TopicSink(servers, "matches", folder / "sink")
    def failing(matches, number):
        if number == crash:  # half of it reaches the topic, then the driver is gone
            sink(matches.filter("subscription_id % 2 = 0"), number)
            os.kill(os.getpid(), 9)
        sink(matches, number)
    stream = MatchStream(lake, "kafka", k=5, sink=failing)
    arriving = kafka.lines(spark, servers, "events", {"maxOffsetsPerTrigger": "60"})
    stream.start(arriving, folder / "checkpoint", availableNow=True).awaitTermination()
else:
    rows = kafka.TopicSink(servers, "matches", folder / "sink").read(spark).collect()
    (folder / "found.json").write_text(json.dumps([row["value"] for row in rows]))
spark.stop()
"""


def test_matches_reach_the_topic_once_though_the_driver_is_killed(
    servers: str, jars: dict[str, list[str]], tmp_path: Path
) -> None:
    from tests.spark.stream_world import events, expected, write_base

    base = write_base(tmp_path / "base.jsonl", 60)

    def driver(step: str, crash: int = -1) -> Any:
        command = [sys.executable, "-c", DRIVER, str(tmp_path), servers, ",".join(jars["connector"]), step, str(crash)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)

    done = driver("prepare")
    assert done.returncode == 0, done.stderr[-2000:]
    for crash in (0, 1):
        killed = driver("run", crash)
        assert killed.returncode == -9, (killed.returncode, killed.stderr[-2000:])
    done = driver("run")
    assert done.returncode == 0, done.stderr[-2000:]
    done = driver("read")
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(value) for value in json.loads((tmp_path / "found.json").read_text())]
    rows = [(each["event_id"], each["subscription_id"], each["score"]) for each in found]
    assert len(rows) == len(set(rows))
    assert set(rows) == expected(base, [record for number in range(3) for record in events(number, 60)], 5)
