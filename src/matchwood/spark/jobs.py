"""What people see of jobs: names in Spark's web pages, progress bars, and warnings about settings that cost much.

Names are set by the stages themselves. `progress` shows a bar for the jobs of a block, also over Spark Connect.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S = 0.2
WIDTH = 30
_DESCRIPTION, _GROUP = "spark.job.description", "spark.jobGroup.id"
_checked: set[str] = set()
_running: list[str] = []  # what runs now, for the bar


@contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """Name the jobs of a block, in a group of their own unless the caller has set one. Over Connect they get a tag."""
    _running.append(what)
    try:
        with _named(spark, what):
            yield
    finally:
        _running.remove(what)


@contextmanager
def _named(spark: SparkSession, what: str) -> Iterator[None]:
    context = getattr(spark, "_sc", None)
    if context is None:
        tag = f"matchwood: {what.replace(',', ' ')}"
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    before = {name: context.getLocalProperty(name) for name in (_DESCRIPTION, _GROUP)}
    context.setLocalProperty(_DESCRIPTION, f"matchwood: {what}")
    if before[_GROUP] is None:
        context.setLocalProperty(_GROUP, f"matchwood-{uuid.uuid4().hex[:8]}")
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


@contextmanager
def progress(spark: SparkSession, *, file: TextIO | None = None) -> Iterator[None]:
    """Show a bar of the tasks of the jobs that run inside the block, on standard error."""
    bar = _Bar(file or sys.stderr)
    context = getattr(spark, "_sc", None)
    if context is None:
        handler = _connect_handler(bar)
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
            bar.close()
        return
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(context.statusTracker(), bar, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        bar.close()


def _watch(tracker: Any, bar: _Bar, stop: threading.Event) -> None:
    while not stop.wait(INTERVAL_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None and stage.numTasks]
        done, total = sum(stage.numCompletedTasks for stage in running), sum(stage.numTasks for stage in running)
        bar.show(done, total)


def _connect_handler(bar: _Bar) -> Any:
    def handler(stages: Any = (), inflight_tasks: int = 0, operation_id: str | None = None, done: bool = False) -> None:
        tasks = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        bar.show(sum(completed for completed, _ in tasks), sum(count for _, count in tasks))

    return handler


class _Bar:
    """One line that is written over."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._started = time.monotonic()
        self._width = 0

    def show(self, done: int, total: int) -> None:
        if not total:
            return
        what = _running[-1] if _running else ""
        filled = WIDTH * done // total
        seconds = time.monotonic() - self._started
        line = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} tasks, {seconds:.0f} s {what}"
        self._file.write("\r" + line.ljust(self._width))
        self._file.flush()
        self._width = len(line)

    def close(self) -> None:
        if self._width:
            self._file.write("\r" + " " * self._width + "\r")
            self._file.flush()


def session_problems(spark: SparkSession) -> list[str]:
    """Settings of a session that make matching more than a fifth slower, each with the remedy."""

    def value(name: str, default: str) -> str:
        found = spark.conf.get(name, default)
        return default if found is None else str(found)

    found = []
    codec = value("spark.sql.execution.arrow.compression.codec", "none")
    if codec.lower() != "none":
        found.append(f"spark.sql.execution.arrow.compression.codec is {codec}: batches are compressed; set it to none")
    records = int(value("spark.sql.execution.arrow.maxRecordsPerBatch", "10000"))
    if 0 < records < 1_000:
        found.append(f"spark.sql.execution.arrow.maxRecordsPerBatch is {records}: many small batches; set it to 10000")
    if value("spark.python.worker.reuse", "true").lower() == "false":
        found.append(
            "spark.python.worker.reuse is false: every task starts a process and maps the index; set it to true"
        )
    if value("spark.python.daemon.module", "") != "matchwood.spark.daemon":
        found.append(
            "spark.python.daemon.module is not matchwood.spark.daemon: every worker imports and loads kernels; start the "
            "session with matchwood.spark.settings()"
        )
    return found


def warn_about_session(spark: SparkSession) -> None:
    """Warn once for each session about `session_problems`. Over Connect the settings of the server are not looked at."""
    context = getattr(spark, "_sc", None)
    if context is None or context.applicationId in _checked:
        return
    _checked.add(context.applicationId)
    with suppress(ValueError):
        for problem in session_problems(spark):
            warnings.warn(f"matchwood: {problem}", RuntimeWarning, stacklevel=3)
