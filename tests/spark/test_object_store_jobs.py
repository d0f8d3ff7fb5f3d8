"""The whole pipeline on S3 and HDFS, tables by Spark's own connectors; `make objectstores` runs it.

S3 is served by moto, HDFS by a mini cluster; hadoop-aws, the SDK of AWS and the mini cluster come from Maven Central.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from matchwood.spark.session import java_problem
from tests.spark.maven import fetched
from tests.spark.s3_server import BUCKET, s3_server
from tests.spark.stream_world import changes, events, expected, files_of_batches, put, replayed, write_base

pytestmark = [pytest.mark.objectstore, pytest.mark.timeout(1200)]

JARS = Path(pyspark.__file__).parent / "jars"
S3A = [
    ("org.apache.hadoop:hadoop-aws:{}", False),
    ("software.amazon.awssdk:bundle:2.35.4", False),
    ("software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1", False),
    ("org.wildfly.openssl:wildfly-openssl:2.2.5.Final", False),
]
HDFS = [("org.apache.hadoop:hadoop-client-minicluster:{}", False), ("org.junit.jupiter:junit-jupiter-api:5.13.4", True)]

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from matchwood.spark import Lake, MatchStream, compact, index_table, ingest, ingest_table, local_session, match_table
folder, given = Path(sys.argv[1]), json.loads(sys.argv[2])
spark = local_session(partitions=2, memory="1g", options=given["options"])
lake = Lake(given["root"], storage=given["storage"])
for kind in ("subscriptions", "events"):
    raw, form = ingest.read_raw(spark, folder / f"{kind}.jsonl")
    ingest_table(lake, raw, kind, form=form)
index_table(lake, spark, shards=2, by="hash")
match_table(lake, spark, k=5)

def kept(table):
    return [(r["event_id"], r["subscription_id"], r["score"]) for r in table.collect()]

found = {"batch": kept(lake.read(spark, "matches"))}
stream, lines = MatchStream(lake, "s"), spark.readStream.option("maxFilesPerTrigger", 1)
sources = [lines.text(str(folder / name)) for name in ("in", "changes")]
for _ in range(2):
    query = stream.start(sources[0], folder / "checkpoint", changes=sources[1], availableNow=True)
    query.awaitTermination()
found["stream"] = kept(stream.matches(spark))
found["rejects"] = stream.rejects(spark).count()
stream.clean(spark, stream.done()[-1])
found["compacted"] = compact(spark, lake, "s", upto=stream.done()[-1]).counts["subscriptions"]
found["removed"] = lake.vacuum("index", keep=1)
found["versions"] = lake.versions("index")
(folder / "found.json").write_text(json.dumps(found))
spark.stop()
"""


def release() -> str:
    """The version of Hadoop that PySpark comes with."""
    (jar,) = JARS.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def versioned(coordinates: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    return [(coordinate.format(release()), whole) for coordinate, whole in coordinates]


@pytest.fixture
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    jars = fetched("hadoop-aws", versioned(S3A), tmp_path_factory.mktemp("s3a"))
    with s3_server() as storage:
        settings = {
            "endpoint": storage["client_kwargs"]["endpoint_url"], "endpoint.region": "us-east-1", "access.key": "test",
            "secret.key": "test", "path.style.access": "true", "connection.ssl.enabled": "false",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }  # fmt: skip
        options = {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
        yield {"root": f"s3a://{BUCKET}/lake", "storage": storage, "options": {**options, "spark.jars": ",".join(jars)}}


@pytest.fixture
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("hdfs")
    jars = fetched("the mini cluster of HDFS", versioned(HDFS), folder)
    own = ("hadoop-client-api-*", "hadoop-client-runtime-*", "slf4j-api-*", "jcl-over-slf4j-*")
    jars += [str(jar) for name in own for jar in JARS.glob(name)]
    port, http = free_port(), free_port()
    main = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
    command = ["java", f"-Dtest.build.data={folder}", "-cp", ":".join(jars), main]
    with (folder / "log").open("w") as log:
        cluster = subprocess.Popen(
            [*command, "-nomr", "-format", "-nnport", str(port), "-nnhttpport", str(http)], stdout=log, stderr=log,
            cwd=folder, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_for(f"http://127.0.0.1:{http}/webhdfs/v1/?op=LISTSTATUS&user.name=root", cluster, folder / "log")
            storage = {"webhdfs": f"127.0.0.1:{http}", "user": "root"}
            options = {"spark.hadoop.dfs.client.use.datanode.hostname": "false"}
            yield {"root": f"hdfs://127.0.0.1:{port}/lake", "storage": storage, "options": options}
        finally:
            cluster.kill()
            cluster.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, cluster: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.time() + 120
    while time.time() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if cluster.poll() is not None:
                break
            time.sleep(1)
    pytest.fail(f"the cluster did not start: {log.read_text()[-800:]}")


@pytest.mark.parametrize("store", ["s3", "hdfs"])
def test_the_pipeline_gives_what_the_engine_gives(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if problem := java_problem():
        pytest.skip(problem)
    given = request.getfixturevalue(store)
    given["options"]["spark.local.dir"] = str(tmp_path / "local")
    base = write_base(tmp_path / "subscriptions.jsonl", 40)
    batch = events(0, 30)
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(record) + "\n" for record in batch))
    for number in range(3):
        put(tmp_path / "in", f"{number}.json", events(number + 1, 20, alive=True))
        put(tmp_path / "changes", f"{number}.json", changes(number, 5, 40))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "MATCHWOOD_SHARDS": str(tmp_path / "shards")}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1100, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert {tuple(row) for row in found["batch"]} == expected(base, batch, 5)
    assert sorted(map(tuple, found["stream"])) == replayed(base, files_of_batches(tmp_path / "checkpoint"))
    assert found["rejects"] == 0
    assert (found["removed"], found["versions"]) == ([1], [2])
