"""Changes of subscriptions in a stream: stored by micro-batch as deltas, and folded into a new version of the index.

deltas/BATCH/data     the last change of each subscription that the micro-batch names, encoded, unless it is older than an
                      applied one (`order_of_changes`)
deltas/BATCH/_done    written last; a delta without it is ignored
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from matchwood.spark import columns, ingest
from matchwood.spark.index_stage import NAME as INDEX
from matchwood.spark.index_stage import IndexVersion, build_index, open_index
from matchwood.spark.order_of_changes import newer
from matchwood.spark.pipeline import known_codebook
from matchwood.spark.places import Place
from matchwood.spark.stream_plan import delta_folder, deltas_between, stream_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from matchwood.spark.lake import Lake

OPS = ("subscribe", "update", "unsubscribe")
_TEXT_COLUMNS = ("id", "expression", "priority", "until", "lon", "lat", "radius")


def store_changes(lines: DataFrame, lake: Lake, name: str, number: int) -> None:
    """Store the changes of a micro-batch of a stream as a delta, unless it has none or they are stored already."""
    delta = delta_folder(stream_folder(lake, name), number)
    if (delta / "_done").exists() or lines.isEmpty():
        return
    stream = stream_folder(lake, name)
    changes = newer(read_changes(lines), stream, number).persist()
    try:
        _store(changes, lake, stream, number)
    finally:
        changes.unpersist()
    (delta / "_done").write(b"")


def _store(changes: DataFrame, lake: Lake, stream: Place, number: int) -> None:
    upserts = changes.filter(fn.col("op").isin("subscribe", "update")).select(*_TEXT_COLUMNS)
    codebook = lake.merge_codebook(ingest.learn(upserts, known_codebook(lake), "subscriptions", form="text"))
    encoded = ingest.encode(upserts, codebook, "subscriptions", form="text").persist()
    try:
        good, rejects = ingest.split(encoded, "subscriptions", "changes")
        _write_delta(good, changes, delta_folder(stream, number))
        invalid = changes.filter("op IS NULL OR op NOT IN ('subscribe', 'update', 'unsubscribe') OR id IS NULL")
        reason = fn.lit(f"expected an op out of {', '.join(OPS)} and an id")
        rejected = rejects.select("reason", "content").unionByName(
            invalid.select(reason.alias("reason"), fn.col("line").alias("content"))
        )
        target = stream / "rejects" / f"changes-{number:09}"
        rejected.coalesce(1).write.mode("overwrite").parquet(target.written_by_spark)
    finally:
        encoded.unpersist()


def _write_delta(upserts: DataFrame, changes: DataFrame, delta: Place) -> None:
    removed = changes.filter("op = 'unsubscribe' AND id IS NOT NULL").select("id", "seq")
    ordered = upserts.join(changes.filter("op != 'unsubscribe'").select("id", "seq"), "id", "left")
    table = ordered.select(fn.lit("subscribe").alias("op"), *columns.DELTA.names[1:]).unionByName(
        removed.select(fn.lit("unsubscribe").alias("op"), "id", "seq"), allowMissingColumns=True
    )
    table.coalesce(1).write.mode("overwrite").parquet((delta / "data").written_by_spark)


def read_changes(lines: DataFrame) -> DataFrame:
    """Changes as columns, one for each id: of several in a micro-batch the one with the highest `seq`. Lazy."""
    parsed = lines.select(fn.from_json("value", columns.CHANGES).alias("c"), fn.col("value").alias("line")).select(
        "c.*", "line"
    )
    key = fn.coalesce(fn.col("id").cast("string"), fn.col("line"))
    newest = fn.max_by(fn.struct("*"), fn.struct(fn.coalesce("seq", fn.lit(-1)), "line"))
    return parsed.groupBy(key.alias("key")).agg(newest.alias("c")).select("c.*")


def compact(
    spark: SparkSession, lake: Lake, name: str, *, upto: int, table: str = "subscriptions", **options: Any
) -> IndexVersion:
    """Write a version of `table` and of the index that includes the changes of a stream up to a micro-batch.

    A running stream uses the new version from its next micro-batch on. `options` are those of `build_index`.
    """
    current = open_index(lake)
    upstream = lake.manifest(INDEX, current.version).upstream
    first = int(upstream.get(f"changes of {name}", -1))
    subscriptions = lake.read(spark, table, upstream.get(table))
    for delta in deltas_between(stream_folder(lake, name), first, upto):
        change = spark.read.parquet((delta / "data").read_by_spark)
        unchanged = subscriptions.join(fn.broadcast(change.select("id")), "id", "left_anti")
        upserts = change.filter("op != 'unsubscribe'")
        subscriptions = unchanged.select(*columns.SUBSCRIPTIONS.names).unionByName(
            upserts.select(*columns.SUBSCRIPTIONS.names)
        )
    codebook = known_codebook(lake)
    written = lake.write(
        table, codebook.mark(subscriptions), upstream={table: upstream.get(table, 0)}, parameters={"changes": upto}
    )
    sources: Mapping[str, int] = {table: written.version, f"changes of {name}": upto}
    return build_index(
        lake.read(spark, table, written.version), lake, codebook, index=current.index, upstream=sources, **options
    )
