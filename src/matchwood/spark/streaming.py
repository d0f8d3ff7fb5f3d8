"""Streaming: events and changes of subscriptions in one query; every match is written to the sink exactly once.

The steps of a micro-batch, in order:

    pin       record the index version, the codebook version and the instant, so that a repetition uses the same
    changes   store subscribe, update and unsubscribe as a delta, which is in effect from this micro-batch on
    late      match the new subscriptions against the live events of earlier micro-batches
    events    match the events of the micro-batch against the index version and all deltas
    done      mark the micro-batch as done; readers of the file sink ignore the others

Because one query processes both, a pair of event and subscription is found once: by the event if the subscription came first, by
the subscription otherwise. A change takes effect in the micro-batch that contains it, so its delay is at most the interval of the
trigger plus the duration of the micro-batch before.

After a crash Spark repeats the last micro-batch with the same input. Its files are named by its number and replaced as a whole,
so the repetition gives the same result.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from matchwood.errors import SchemaError
from matchwood.schema import instant_key
from matchwood.spark import columns
from matchwood.spark.changes import store_changes
from matchwood.spark.index_stage import NAME as INDEX
from matchwood.spark.index_stage import open_index
from matchwood.spark.lake import Lake
from matchwood.spark.live_store import LiveStore
from matchwood.spark.live_worker import GROUPS, LateMatching
from matchwood.spark.match_worker import named_scoring
from matchwood.spark.order_of_changes import fold
from matchwood.spark.places import place
from matchwood.spark.stream_plan import StreamPlan, delta_folder, folded_changes, numbered, stream_folder
from matchwood.spark.stream_worker import StreamMatching, StreamOptions
from matchwood.structures import Capability
from matchwood.structures.base import check_k

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

Sink = Callable[["DataFrame", int], None]
"""Receives the matches and the number of a micro-batch. Repeated after a crash with the same arguments; must be idempotent."""
Clock = Callable[[], float]
"""Seconds since 1970."""
CLEAN_EVERY = 32
"""Micro-batches between two removals of expired live events and old pins and deltas."""


class MatchStream:
    """A named stream of a lake. `scoring` is the name of one, as in `Engine(scoring=...)`.

    One query at a time may run a stream, always with the same checkpoint.
    """

    def __init__(
        self,
        lake: Lake,
        name: str,
        *,
        k: int | None = None,
        mode: str = "all",
        scoring: str = "sum",
        sink: Sink | None = None,
        keep_live: bool = True,
        clock: Clock = time.time,
    ) -> None:
        if k is not None:
            check_k(k)
        self.lake = lake
        self.name = name
        self.folder = stream_folder(lake, name)
        self._sink = sink or self.write_files
        self._keep_live = keep_live
        self._clock = clock
        self._plan = StreamPlan(
            lake.root, name, StreamOptions(k, mode, keep_live=False, scoring=named_scoring(scoring))
        )
        self._live = LiveStore(self.folder / "live")
        self._with_changes = self._planned = False
        self._columns = ["value"]
        self._now: float | None = None

    def start(
        self, events: DataFrame, checkpoint: str | os.PathLike[str], *, changes: DataFrame | None = None, **trigger: Any
    ) -> StreamingQuery:
        """Start the query. `events` is a stream of lines of JSON in a column `value`, or of a table with a column per attribute,
        which is faster. `changes` is a stream of lines.

        `trigger` holds the arguments of Spark's trigger, such as `processingTime="1 second"` or `availableNow=True`. `checkpoint`
        may be a URI, as a string, of any file system that Spark supports.
        """
        if changes is not None:
            open_index(self.lake).demand(Capability.UPDATES)
        self._with_changes = changes is not None
        lines = _lines(events, "event") if "value" in events.columns else _table(events)
        self._columns = lines.columns[1:]
        self._plan = self._plan.with_options(
            keep_live=self._keep_live and self._with_changes, lines=self._columns == ["value"]
        )
        self._planned = changes is None and not _over_connect(events)
        if changes is not None:
            lines = lines.unionByName(_lines(changes, "change"), allowMissingColumns=True)
        if self._planned:
            lines = lines.select(*self._columns).mapInArrow(self._plan, columns.MATCHES)
        where = checkpoint if isinstance(checkpoint, str) else place(checkpoint, "checkpoint").written_by_spark
        writer = lines.writeStream.foreachBatch(self.process).option("checkpointLocation", where)
        return (writer.trigger(**trigger) if trigger else writer).start()

    def process(self, batch: DataFrame, number: int) -> None:
        """Process a micro-batch, possibly not for the first time."""
        pin = self._pin(number)
        if self._with_changes:
            self._process_with_changes(batch, number, pin)
        elif self._planned:
            self._sink(batch, number)
        else:
            matching = self._plan.matching(number, pin)
            self._sink(batch.select(*self._columns).mapInArrow(matching, columns.MATCHES), number)
        (self.folder / "done" / f"{number:09}.json").write(json.dumps(pin).encode())
        if number % CLEAN_EVERY == CLEAN_EVERY - 1:
            self.clean(batch.sparkSession, number)

    def clean(self, spark: SparkSession, number: int) -> None:
        """Remove what neither a repetition of this micro-batch nor a later one reads: expired live events, old pins, and deltas
        that every index version includes."""
        self._live.fold(spark, number, self._now_of(number))
        included = min((folded_changes(self.lake.root, v, self.name) for v in self.lake.versions(INDEX)), default=-1)
        if included >= 0:
            fold(spark, self.folder, included)
        for batch in numbered(self.folder / "deltas"):
            if batch <= included:
                delta_folder(self.folder, batch).remove()
        for batch in numbered(self.folder / "pins"):
            if batch < number - CLEAN_EVERY:
                self._plan.pin_path(batch).remove()

    def write_files(self, matches: DataFrame, number: int) -> None:
        """The file sink: one folder per micro-batch, replaced by a repetition."""
        target = self.folder / "matches" / f"batch={number}"
        matches.write.mode("overwrite").option("compression", "zstd").parquet(target.written_by_spark)

    def matches(self, spark: SparkSession) -> DataFrame:
        """The content of the file sink: the matches of finished micro-batches, whose number is in the column `batch`."""
        paths = [(self.folder / "matches" / f"batch={number}").read_by_spark for number in self.done()]
        if not paths:
            return spark.createDataFrame([], columns.MATCHES).withColumn("batch", fn.lit(0))
        return spark.read.option("basePath", (self.folder / "matches").written_by_spark).parquet(*paths)

    def done(self) -> list[int]:
        """The finished micro-batches, ascending."""
        return numbered(self.folder / "done")

    def rejects(self, spark: SparkSession) -> DataFrame:
        """Lines that are not valid events or changes, with the reason."""
        folders = [self.folder / "rejects" / name for name in (self.folder / "rejects").names()]
        found = [(f / name).read_by_spark for f in folders for name in f.names() if name.endswith(".parquet")]
        return spark.read.parquet(*found) if found else spark.createDataFrame([], "reason string, content string")

    def _process_with_changes(self, batch: DataFrame, number: int, pin: dict[str, Any]) -> None:
        batch = batch.persist()
        try:
            store_changes(batch.filter("kind = 'change'"), self.lake, self.name, number)
            pin = {**pin, "codebook": self.lake.codebook_version()}  # the changes may contain new strings
            matching = self._plan.matching(number, pin)
            events = batch.filter("kind = 'event'").select(*self._columns)
            found = events.mapInArrow(matching, columns.MATCHES)
            late = self._late(batch.sparkSession, matching)
            self._sink(found if late is None else found.unionByName(late), number)
        finally:
            batch.unpersist()

    def _pin(self, number: int) -> dict[str, Any]:
        """The pin of a micro-batch, recorded when it is first processed. Instants never decrease."""
        path = self._plan.pin_path(number)
        pin: dict[str, Any]
        try:
            pin = json.loads(path.text())
        except FileNotFoundError:
            now = max(instant_key(_utc(self._clock())), self._now_of(number - 1))
            pin = {"index": self.lake.latest(INDEX), "codebook": self.lake.codebook_version(), "now": now}
            path.write(json.dumps(pin).encode())
        else:
            for name in ("rejects", "live"):  # of a failed run: a repetition may have fewer partitions
                (self.folder / name / f"{number:09}").remove()
        self._now = float(pin["now"])
        return pin

    def _now_of(self, number: int) -> float:
        """The instant of the micro-batch that was pinned last."""
        if self._now is None:
            path = self._plan.pin_path(number)
            self._now = float(json.loads(path.text())["now"]) if path.exists() else -math.inf
        return self._now

    def _late(self, spark: SparkSession, matching: StreamMatching) -> DataFrame | None:
        """The matches of new subscriptions of this micro-batch with live events of earlier ones."""
        delta = delta_folder(self.folder, matching.batch)
        if not self._keep_live or not (delta / "_done").exists():
            return None
        files = self._live.files(matching.batch)
        if not files:
            return None
        late = LateMatching(
            self.folder, files, delta, matching.codebook, matching.now, matching.k, matching.mode, matching.scoring
        )
        return spark.range(0, GROUPS, 1, GROUPS).mapInArrow(late, columns.MATCHES)


def as_lines(events: DataFrame) -> DataFrame:
    """A table of events, one column per attribute, as lines of JSON; for numbers, strings, booleans, lists and points. Lazy."""
    heads = [name for name in ("id", "until", "weights", "place") if name in events.columns]
    values = fn.struct(*(name for name in events.columns if name not in heads))
    return events.select(fn.to_json(fn.struct(*heads, values.alias("values"))).alias("value"))


def _lines(stream: DataFrame, kind: str) -> DataFrame:
    if "value" not in stream.columns:
        raise SchemaError(f"{kind}s: column 'value' is missing, found {', '.join(stream.columns)}; `as_lines` makes it")
    line = fn.col("value").cast("string")
    return stream.select(fn.lit(kind).alias("kind"), line.alias("value")).filter(fn.trim("value") != "")


def _table(events: DataFrame) -> DataFrame:
    return events.select(fn.lit("event").alias("kind"), *events.columns)


def _over_connect(table: DataFrame) -> bool:
    """Is this a table of Spark Connect? There a task does not know the number of its micro-batch."""
    return type(table).__module__.startswith("pyspark.sql.connect")


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
