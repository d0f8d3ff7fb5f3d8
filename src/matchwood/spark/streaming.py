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
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from matchwood.errors import QueryError, SchemaError, UnsupportedError
from matchwood.index import INDEXES, Capability
from matchwood.schema import instant_key
from matchwood.spark import columns, ingest
from matchwood.spark.codebook import Codebook
from matchwood.spark.index_stage import NAME as INDEX
from matchwood.spark.index_stage import IndexVersion, build_index, open_index
from matchwood.spark.lake import Lake, write_atomically
from matchwood.spark.pipeline import known_codebook
from matchwood.spark.sharding import Sharding
from matchwood.spark.stream_worker import StreamMatching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

OPS = ("subscribe", "update", "unsubscribe")
Sink = Callable[["DataFrame", int], None]
"""Takes the matches of a micro-batch and its number; called again with the same after a crash, and must then leave the same."""
Clock = Callable[[], float]
"""Seconds since 1970."""


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
        self.folder = lake.root / "streams" / name
        self._k, self._mode = k, mode
        self._sink = sink or self.write_files
        self._keep_live = keep_live
        self._clock = clock
        self._with_changes = False
        self._columns = ["value"]
        self._versions: dict[int, IndexVersion] = {}

    def start(
        self, events: DataFrame, checkpoint: str | Path, *, changes: DataFrame | None = None, **trigger: Any
    ) -> StreamingQuery:
        """Start the query. `events` is a stream of lines of JSON in a column `value`, or of a table, one column an attribute,
        which is read column by column and faster. `changes` is a stream of lines.

        `trigger` is Spark's: `processingTime="1 second"`, `availableNow=True`.
        """
        if changes is not None and Capability.UPDATES not in INDEXES[open_index(self.lake).index].capabilities:
            raise UnsupportedError(f"index {open_index(self.lake).index!r} cannot be changed; 'scan' can")
        self._with_changes = changes is not None
        if "value" in events.columns:
            lines = _lines(events, "event")
        else:
            lines = events.select(fn.lit("event").alias("kind"), *events.columns)
        self._columns = lines.columns[1:]
        if changes is not None:
            lines = lines.unionByName(_lines(changes, "change"), allowMissingColumns=True)
        writer = lines.writeStream.foreachBatch(self.process).option("checkpointLocation", str(checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def process(self, batch: DataFrame, number: int) -> None:
        """Do a micro-batch, for the first time or again."""
        pin = self._pin(number)
        for name in ("rejects", "live"):  # of a run that died: a repetition may have fewer partitions
            shutil.rmtree(self.folder / name / f"{number:09}", ignore_errors=True)
        index = self._index(int(pin["index"]))
        matching = self._matching(index, number, float(pin["now"]))
        events = batch
        if self._with_changes:
            batch = batch.persist()
            try:
                events = batch.filter("kind = 'event'")
                found = events.select(*self._columns).mapInArrow(
                    self._changed(batch, number, index, matching), columns.MATCHES
                )
                late = self._late(batch, number, matching)
                self._sink(found if late is None else found.unionByName(late), number)
            finally:
                batch.unpersist()
        else:
            self._sink(events.select(*self._columns).mapInArrow(matching, columns.MATCHES), number)
        write_atomically(self._made("done") / f"{number:09}.json", json.dumps(pin))

    def write_files(self, matches: DataFrame, number: int) -> None:
        """The file sink: a folder a micro-batch, written over if it is there."""
        path = self.folder / "matches" / f"batch={number}"
        matches.write.mode("overwrite").option("compression", "zstd").parquet(str(path))

    def matches(self, spark: SparkSession) -> DataFrame:
        """What the file sink holds: the matches of the micro-batches that are done, with their number in `batch`."""
        done = sorted(int(path.stem) for path in (self.folder / "done").glob("*.json"))
        paths = [str(self.folder / "matches" / f"batch={number}") for number in done]
        if not paths:
            return spark.createDataFrame([], columns.MATCHES).withColumn("batch", fn.lit(0))
        return spark.read.option("basePath", str(self.folder / "matches")).parquet(*paths)

    def rejects(self, spark: SparkSession) -> DataFrame:
        """Lines that were no events, and changes that were none."""
        found = [str(path) for path in (self.folder / "rejects").glob("*/*.parquet")]
        return spark.read.parquet(*found) if found else spark.createDataFrame([], "reason string, content string")

    # inside

    def _pin(self, number: int) -> dict[str, Any]:
        """What the batch is to be done with: as written down when it was first begun."""
        path = self._made("pins") / f"{number:09}.json"
        if not path.exists():
            pin = {"index": self.lake.latest(INDEX), "now": instant_key(_utc(self._clock()))}
            write_atomically(path, json.dumps(pin))
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def _index(self, version: int) -> IndexVersion:
        if version not in self._versions:
            self._versions = {version: open_index(self.lake, version)}
        return self._versions[version]

    def _matching(self, index: IndexVersion, number: int, now: float) -> StreamMatching:
        codebook = known_codebook(self.lake)
        return StreamMatching(
            str(self.folder),
            number,
            str(self.lake.codebook_path(codebook.version)),
            index.paths(),
            index.sharding,
            self._deltas(index, number),
            self._k,
            self._mode,
            now,
            self._keep_live and self._with_changes,
            self._columns == ["value"],
        )

    def _deltas(self, index: IndexVersion, number: int) -> tuple[str, ...]:
        """The folders of changes after those that the index holds already, up to this batch."""
        first = int(self.lake.manifest(INDEX, index.version).upstream.get(f"changes of {self.name}", -1))
        found = sorted((self.folder / "deltas").glob("[0-9]*/_done"))
        return tuple(str(path.parent) for path in found if first < int(path.parent.name) <= number)

    def _changed(self, batch: DataFrame, number: int, index: IndexVersion, matching: StreamMatching) -> StreamMatching:
        """Store the changes of the batch, if there are any; what events are matched with after them."""
        folder = self.folder / "deltas" / f"{number:09}"
        if not (folder / "_done").exists():
            changes = read_changes(batch.filter("kind = 'change'"))
            if changes.isEmpty():
                return matching
            self._store(changes, folder, number)
        return self._matching(index, number, matching.now)

    def _store(self, changes: DataFrame, folder: Path, number: int) -> None:
        book = known_codebook(self.lake)
        upserts = changes.filter(fn.col("op").isin("subscribe", "update")).select(*_TEXT_COLUMNS)
        book = ingest.learn(upserts, book, "subscriptions", form="text")
        self.lake.keep_codebook(book)
        encoded = ingest.encode(upserts, book, "subscriptions", form="text").persist()
        try:
            good, rejects = ingest.split(encoded, "subscriptions", "changes")
            gone = changes.filter("op = 'unsubscribe' AND id IS NOT NULL").select("id")
            delta = good.select(fn.lit("subscribe").alias("op"), *columns.SUBSCRIPTIONS.names).unionByName(
                gone.select(fn.lit("unsubscribe").alias("op"), "id"), allowMissingColumns=True
            )
            shutil.rmtree(folder, ignore_errors=True)
            delta.coalesce(1).write.parquet(str(folder / "data"))
            wrong = changes.filter("op IS NULL OR op NOT IN ('subscribe', 'update', 'unsubscribe') OR id IS NULL")
            reason = fn.lit(f"expected an op out of {', '.join(OPS)} and an id")
            refused = rejects.select("reason", "content").unionByName(
                wrong.select(reason.alias("reason"), fn.col("line").alias("content"))
            )
            refused.coalesce(1).write.mode("overwrite").parquet(str(self.folder / "rejects" / f"changes-{number:09}"))
        finally:
            encoded.unpersist()
        write_atomically(folder / "_done", "")

    def _late(self, batch: DataFrame, number: int, matching: StreamMatching) -> DataFrame | None:
        """New subscriptions of this batch against live events of earlier ones."""
        delta = self.folder / "deltas" / f"{number:09}"
        folders = [path for path in sorted((self.folder / "live").glob("[0-9]*")) if int(path.name) < number]
        if not self._keep_live or not (delta / "_done").exists() or not folders:
            return None
        spark = batch.sparkSession
        alive = spark.read.parquet(*map(str, folders)).filter(fn.col("until") > matching.now).select("value")
        book = known_codebook(self.lake)
        only_new = StreamMatching(
            f"{self.folder}/late",
            number,
            str(self.lake.codebook_path(book.version)),
            {},
            Sharding("hash", 0),
            (str(delta),),
            self._k,
            self._mode,
            matching.now,
            keep_live=False,
        )
        return alive.mapInArrow(only_new, columns.MATCHES)

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
    found = sorted((lake.root / "streams" / name / "deltas").glob("[0-9]*/_done"))
    deltas = [path.parent for path in found if first < int(path.parent.name) <= upto]
    subscriptions = lake.read(spark, table, upstream.get(table))
    for delta in deltas:
        change = spark.read.parquet(str(delta / "data"))
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


def _utc(seconds: float) -> datetime:
    from datetime import UTC

    return datetime.fromtimestamp(seconds, UTC)
