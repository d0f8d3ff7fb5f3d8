"""A local Spark session for the command line, the demo and the tests. The library itself never makes one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from matchwood.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
JAVA_OPTIONS = "-XX:+UseParallelGC -Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""The parallel collector has the higher throughput for millions of matches. The other options disable the null and bounds
checks of Arrow for each value; Spark checks for nulls itself."""


def local_session(
    *,
    master: str = "local[2]",
    name: str = "matchwood",
    memory: str = "2g",
    partitions: int = 4,
    options: dict[str, str] | None = None,
) -> SparkSession:
    """A session on this machine, without progress bars, that logs errors only. Its workers are started in the background."""
    problem = java_problem()
    if problem:
        raise UnsupportedError(problem)
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**settings(memory=memory, partitions=partitions), **(options or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _know_format(session)
    warm(session)
    return session


def _know_format(session: SparkSession) -> None:
    """Register the format "matchwood" if Spark does not find it by itself.

    Spark asks an unquoted shell whether there is a Python, and looks for no data sources if the path to it has a space.
    """
    python = os.environ.get("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    if shlex.quote(python) != python:
        from matchwood.spark.source import LakeSource

        session.dataSource.register(LakeSource)


def warm(spark: SparkSession) -> Thread:
    """Start the Python workers of a session in the background, in a job of one small task for each core; `join` waits for it.

    The first job of a session is up to three times as slow as the next ones, since the workers import and load, and the JVM loads
    and compiles, what it needs. A program calls this once it has a session, and reads its input meanwhile.
    """
    context = getattr(spark, "_sc", None)
    tasks = 2 if context is None else max(int(context.defaultParallelism), 1)

    def run() -> None:
        with suppress(Exception):  # the session may end meanwhile, and a job that needs the workers says what is wrong
            spark.range(tasks).repartition(tasks).mapInArrow(_same, "id long").collect()

    thread = Thread(target=run, name="matchwood-warm", daemon=True)
    thread.start()
    return thread


def _same(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


def settings(*, memory: str = "2g", partitions: int = 4) -> dict[str, str]:
    """The settings of a session that runs the pipeline on one machine."""
    return {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Without it a column of a wrong type fails later, with the message `Cannot call the method "getInt"`.
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        # Workers are forked from a process that has imported the indexes.
        "spark.python.daemon.module": "matchwood.spark.daemon",
        # Over TCP a small micro-batch waits for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
        # Below the maximum Spark computes the size of a batch after each record; the limit of 10,000 records still holds.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.log.level": "ERROR",
    }


def java_problem() -> str | None:
    """Why Spark cannot run here, or None: it needs Java 17 or newer, by JAVA_HOME or on the path."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needs = f"Spark needs Java {OLDEST_JAVA} or newer"
    if java is None or not os.path.exists(java):
        return f"{needs}; found none ({'JAVA_HOME=' + home if home else 'no java on the path, no JAVA_HOME'})"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{needs}; {java} could not be run: {error}"
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if found is None:
        return None
    major = int(found[2]) if found[1] == "1" and found[2] else int(found[1])
    return None if major >= OLDEST_JAVA else f"{needs}; {java} is Java {major}; set JAVA_HOME"
