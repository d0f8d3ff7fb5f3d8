"""Streaming: events and changes of subscriptions, in one query, in one order; matches to any sink, each once.

A micro-batch does, in this order:

    pin       which index version, which instant: written down before anything else, so that a replay does the same again
    changes   subscribe, update, unsubscribe: stored as a delta; in effect from this micro-batch on
    late      new subscriptions against the events of earlier batches that are still alive
    events    of this batch, against version and deltas
    done      a mark; readers of the file sink read only what bears it

Since one query does all of it, a pair of event and subscription is found once: by the event if the subscription was there
first, by the subscription otherwise. A change takes effect in the micro-batch that brings it, so its delay is bounded by the
trigger's interval plus the time of the batch before.

After a crash Spark repeats the last micro-batch with the same input. Everything here is named by batch and written whole or
over, so the repetition leaves what the first run would have left.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from matchwood.errors import QueryError, SchemaError
from matchwood.schema import instant_key
from matchwood.spark import columns, ingest
from matchwood.spark.codebook import Codebook
from matchwood.spark.index_stage import NAME as INDEX
from matchwood.spark.index_stage import IndexVersion, build_index, open_index
from matchwood.spark.lake import Lake, write_atomically
from matchwood.spark.live_store import LiveStore
from matchwood.spark.paths import read_by_spark, written_by_spark
from matchwood.spark.pipeline import known_codebook
from matchwood.spark.sharding import Sharding
from matchwood.spark.stream_plan import StreamPlan, folded_changes, stream_folder
from matchwood.spark.stream_worker import StreamMatching
from matchwood.store.locations import local_path
from matchwood.structures import Capability

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

OPS = ("subscribe", "update", "unsubscribe")
Sink = Callable[["DataFrame", int], None]
"""Takes the matches of a micro-batch and its number; called again with the same after a crash, and must then leave the same."""
Clock = Callable[[], float]
"""Seconds since 1970."""
TIDY_EVERY = 32
"""Micro-batches between two cleanings."""


class MatchStream:
    """A named stream of a lake: its folder, and what it does with a micro-batch.

    One query at a time runs a stream; the checkpoint that `start` is given must stay with it.
    """

    def __init__(
        self,
        lake: Lake,
        name: str,
        *,
        k: int | None = None,
        mode: str = "all",
        sink: Sink | None = None,
        keep_live: bool = True,
        clock: Clock = time.time,
    ) -> None:
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise QueryError(f"expected k to be a whole number >= 1, got {k!r}")
        self.lake = lake
        self.name = name
        self.folder = stream_folder(lake, name)
        self._sink = sink or self.write_files
        self._keep_live = keep_live
        self._clock = clock
        self._plan = StreamPlan(str(lake.root), name, k, mode, keep_live=False, lines=True)
        self._live = LiveStore(self.folder / "live")
        self._with_changes = self._planned = False
        self._columns = ["value"]
        self._now: float | None = None

    def start(
        self, events: DataFrame, checkpoint: str | os.PathLike[str], *, changes: DataFrame | None = None, **trigger: Any
    ) -> StreamingQuery:
        """Start the query. `events` is a stream of lines of JSON in a column `value`, or of a table, one column an attribute,
        which is read column by column and faster. `changes` is a stream of lines.

        `trigger` is Spark's: `processingTime="1 second"`, `availableNow=True`. So is `checkpoint`: as a string it may be a URI of
        any file system that Spark knows.
        """
        if changes is not None:
            open_index(self.lake).demand(Capability.UPDATES)
        self._with_changes = changes is not None
        lines = _lines(events, "event") if "value" in events.columns else _table(events)
        self._columns = lines.columns[1:]
        self._plan = replace(
            self._plan, keep_live=self._keep_live and self._with_changes, lines=self._columns == ["value"]
        )
        self._planned = changes is None and not _over_connect(events)
        if changes is not None:
            lines = lines.unionByName(_lines(changes, "change"), allowMissingColumns=True)
        if self._planned:
            lines = lines.select(*self._columns).mapInArrow(self._plan, columns.MATCHES)
        place = checkpoint if isinstance(checkpoint, str) else written_by_spark(local_path(checkpoint, "checkpoint"))
        writer = lines.writeStream.foreachBatch(self.process).option("checkpointLocation", place)
        return (writer.trigger(**trigger) if trigger else writer).start()

    def process(self, batch: DataFrame, number: int) -> None:
        """Do a micro-batch, for the first time or again."""
        pin = self._pin(number)
        if self._with_changes:
            self._with_changes_of(batch, number, pin)
        elif self._planned:
            self._sink(batch, number)
        else:
            matching = self._plan.matching(number, pin)
            self._sink(batch.select(*self._columns).mapInArrow(matching, columns.MATCHES), number)
        write_atomically(self._made("done") / f"{number:09}.json", json.dumps(pin))
        if number % TIDY_EVERY == TIDY_EVERY - 1:
            self.tidy(batch.sparkSession, number)

    def tidy(self, spark: SparkSession, number: int) -> None:
        """Let go of what no micro-batch after this one, nor a repetition of it, can ask for: live events that have expired,
        changes that every index version holds, pins. Done every `TIDY_EVERY` micro-batches."""
        self._live.fold(spark, number, self._now_of(number))
        held = min((folded_changes(str(self.lake.root), v, self.name) for v in self.lake.versions(INDEX)), default=-1)
        for path in (self.folder / "deltas").glob("[0-9]*"):
            if int(path.name) <= held:
                shutil.rmtree(path, ignore_errors=True)
        for path in (self.folder / "pins").glob("*.json"):
            if int(path.stem) < number - TIDY_EVERY:
                path.unlink(missing_ok=True)

    def write_files(self, matches: DataFrame, number: int) -> None:
        """The file sink: a folder a micro-batch, written over if it is there."""
        path = self.folder / "matches" / f"batch={number}"
        matches.write.mode("overwrite").option("compression", "zstd").parquet(written_by_spark(path))

    def matches(self, spark: SparkSession) -> DataFrame:
        """What the file sink holds: the matches of the micro-batches that are done, with their number in `batch`."""
        done = sorted(int(path.stem) for path in (self.folder / "done").glob("*.json"))
        paths = [read_by_spark(self.folder / "matches" / f"batch={number}") for number in done]
        if not paths:
            return spark.createDataFrame([], columns.MATCHES).withColumn("batch", fn.lit(0))
        return spark.read.option("basePath", written_by_spark(self.folder / "matches")).parquet(*paths)

    def rejects(self, spark: SparkSession) -> DataFrame:
        """Lines that were no events, and changes that were none."""
        found = [read_by_spark(path) for path in (self.folder / "rejects").glob("*/*.parquet")]
        return spark.read.parquet(*found) if found else spark.createDataFrame([], "reason string, content string")

    # inside

    def _with_changes_of(self, batch: DataFrame, number: int, pin: dict[str, Any]) -> None:
        batch = batch.persist()
        try:
            self._store_changes(batch, number)
            pin = {**pin, "codebook": self.lake.codebook_version()}  # the changes may have brought new strings
            matching = self._plan.matching(number, pin)
            events = batch.filter("kind = 'event'").select(*self._columns)
            found = events.mapInArrow(matching, columns.MATCHES)
            late = self._late(batch.sparkSession, matching)
            self._sink(found if late is None else found.unionByName(late), number)
        finally:
            batch.unpersist()

    def _pin(self, number: int) -> dict[str, Any]:
        """What the batch is to be done with: as written down when it was first begun. Instants never go back."""
        path = self._plan.pin_path(number)
        if path.exists():
            for name in ("rejects", "live"):  # of a run that died: a repetition may have fewer partitions
                shutil.rmtree(self.folder / name / f"{number:09}", ignore_errors=True)
        else:
            now = max(instant_key(_utc(self._clock())), self._now_of(number - 1))
            pin = {"index": self.lake.latest(INDEX), "codebook": self.lake.codebook_version(), "now": now}
            self._made("pins")
            write_atomically(path, json.dumps(pin))
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self._now = float(found["now"])
        return found

    def _now_of(self, number: int) -> float:
        """The instant of the micro-batch that was begun last."""
        if self._now is None:
            path = self._plan.pin_path(number)
            self._now = float(json.loads(path.read_text(encoding="utf-8"))["now"]) if path.exists() else -math.inf
        return self._now

    def _store_changes(self, batch: DataFrame, number: int) -> None:
        """Store the changes of the batch, if there are any and they are not stored yet."""
        folder = self.folder / "deltas" / f"{number:09}"
        lines = batch.filter("kind = 'change'")
        if not (folder / "_done").exists() and not lines.isEmpty():
            self._store(read_changes(lines), folder, number)

    def _store(self, changes: DataFrame, folder: Path, number: int) -> None:
        book = known_codebook(self.lake)
        upserts = changes.filter(fn.col("op").isin("subscribe", "update")).select(*_TEXT_COLUMNS)
        book = self.lake.merge_codebook(ingest.learn(upserts, book, "subscriptions", form="text"))
        encoded = ingest.encode(upserts, book, "subscriptions", form="text").persist()
        try:
            good, rejects = ingest.split(encoded, "subscriptions", "changes")
            gone = changes.filter("op = 'unsubscribe' AND id IS NOT NULL").select("id")
            delta = good.select(fn.lit("subscribe").alias("op"), *columns.SUBSCRIPTIONS.names).unionByName(
                gone.select(fn.lit("unsubscribe").alias("op"), "id"), allowMissingColumns=True
            )
            shutil.rmtree(folder, ignore_errors=True)
            delta.coalesce(1).write.parquet(written_by_spark(folder / "data"))
            wrong = changes.filter("op IS NULL OR op NOT IN ('subscribe', 'update', 'unsubscribe') OR id IS NULL")
            reason = fn.lit(f"expected an op out of {', '.join(OPS)} and an id")
            refused = rejects.select("reason", "content").unionByName(
                wrong.select(reason.alias("reason"), fn.col("line").alias("content"))
            )
            to = self.folder / "rejects" / f"changes-{number:09}"
            refused.coalesce(1).write.mode("overwrite").parquet(written_by_spark(to))
        finally:
            encoded.unpersist()
        write_atomically(folder / "_done", "")

    def _late(self, spark: SparkSession, matching: StreamMatching) -> DataFrame | None:
        """New subscriptions of this batch against live events of earlier ones."""
        delta = self.folder / "deltas" / f"{matching.batch:09}"
        if not self._keep_live or not (delta / "_done").exists():
            return None
        alive = self._live.alive(spark, matching.batch, matching.now)
        only_new = replace(
            matching,
            stream=f"{self.folder}/late",
            shards={},
            sharding=Sharding("hash", 0),
            deltas=(str(delta),),
            keep_live=False,
            lines=True,
        )
        return None if alive is None else alive.select("value").mapInArrow(only_new, columns.MATCHES)

    def _made(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path


def as_lines(events: DataFrame) -> DataFrame:
    """A table of events, one column an attribute, as lines of JSON; for numbers, strings, booleans, lists and points. Lazy."""
    heads = [name for name in ("id", "until", "weights", "place") if name in events.columns]
    values = fn.struct(*(name for name in events.columns if name not in heads))
    return events.select(fn.to_json(fn.struct(*heads, values.alias("values"))).alias("value"))


def read_changes(lines: DataFrame) -> DataFrame:
    """Changes as columns, one an id: of several in a batch the one of the highest `seq` counts. Lazy."""
    parsed = lines.select(fn.from_json("value", columns.CHANGES).alias("c"), fn.col("value").alias("line")).select(
        "c.*", "line"
    )
    key = fn.coalesce(fn.col("id").cast("string"), fn.col("line"))
    newest = fn.max_by(fn.struct("*"), fn.struct(fn.coalesce("seq", fn.lit(-1)), "line"))
    return parsed.groupBy(key.alias("key")).agg(newest.alias("c")).select("c.*")


def compact(
    spark: SparkSession, lake: Lake, name: str, *, upto: int, table: str = "subscriptions", **options: Any
) -> IndexVersion:
    """A new version of `table` and of the index with the changes of a stream up to a micro-batch; the stream goes on with it.

    `options` are those of `build_index`.
    """
    current = open_index(lake)
    upstream = lake.manifest(INDEX, current.version).upstream
    first = int(upstream.get(f"changes of {name}", -1))
    found = sorted((stream_folder(lake, name) / "deltas").glob("[0-9]*/_done"))
    deltas = [path.parent for path in found if first < int(path.parent.name) <= upto]
    subscriptions = lake.read(spark, table, upstream.get(table))
    for delta in deltas:
        change = spark.read.parquet(read_by_spark(delta / "data"))
        kept = subscriptions.join(fn.broadcast(change.select("id")), "id", "left_anti").select(
            *columns.SUBSCRIPTIONS.names
        )
        subscriptions = kept.unionByName(change.filter("op != 'unsubscribe'").select(*columns.SUBSCRIPTIONS.names))
    book: Codebook = known_codebook(lake)
    made = lake.write(
        table, book.mark(subscriptions), upstream={table: upstream.get(table, 0)}, parameters={"changes": upto}
    )
    came: Mapping[str, int] = {table: made.version, f"changes of {name}": upto}
    return build_index(lake.read(spark, table, made.version), lake, book, index=current.index, upstream=came, **options)


_TEXT_COLUMNS = ("id", "expression", "priority", "until", "lon", "lat", "radius")


def _lines(stream: DataFrame, kind: str) -> DataFrame:
    if "value" not in stream.columns:
        raise SchemaError(
            f"{kind}s: column 'value' is missing; there are {', '.join(stream.columns)}; `as_lines` makes it"
        )
    line = fn.col("value").cast("string")
    return stream.select(fn.lit(kind).alias("kind"), line.alias("value")).filter(fn.trim("value") != "")


def _table(events: DataFrame) -> DataFrame:
    return events.select(fn.lit("event").alias("kind"), *events.columns)


def _over_connect(table: DataFrame) -> bool:
    """Is it of Spark Connect? There a task is not told of which micro-batch it is."""
    return type(table).__module__.startswith("pyspark.sql.connect")


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
