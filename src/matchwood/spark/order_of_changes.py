"""The order of changes across micro-batches: of several changes of one subscription the one with the highest `seq` holds.

    deltas/BATCH/data      the changes of a micro-batch, with their `seq`
    seqs/upto-BATCH/       the highest `seq` of each subscription in the deltas up to this one, which may have been removed

A change whose `seq` is not higher than one that was applied before is left out: it arrived late, or for the second time. A change
without a `seq` always holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from matchwood.spark.places import Place
from matchwood.spark.stream_plan import deltas_between

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPTO, DONE = "upto-", "_done"


def newer(changes: DataFrame, stream: Place, number: int) -> DataFrame:
    """The changes that no change of an earlier micro-batch overrules. Lazy."""
    known = applied(changes.sparkSession, stream, number - 1)
    if known is None:
        return changes
    known = known.select(fn.col("id").alias("_id"), fn.col("seq").alias("_seq"))
    joined = changes.join(known, fn.col("id") == fn.col("_id"), "left")
    return joined.filter("seq IS NULL OR _seq IS NULL OR seq > _seq").drop("_id", "_seq")


def applied(spark: SparkSession, stream: Place, upto: int) -> DataFrame | None:
    """(id, seq): the highest `seq` of each subscription in the changes up to a micro-batch; None if there are none. Lazy."""
    folded = max((number for number in _folded(stream) if number <= upto), default=-1)
    paths = [(delta / "data").read_by_spark for delta in deltas_between(stream, folded, upto)]
    parts = [spark.read.parquet(*paths).select("id", "seq")] if paths else []
    if folded >= 0:
        parts.append(spark.read.parquet(_folder(stream, folded).read_by_spark))
    if not parts:
        return None
    whole = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    return whole.filter("seq IS NOT NULL").groupBy("id").agg(fn.max("seq").alias("seq"))


def fold(spark: SparkSession, stream: Place, upto: int) -> None:
    """Store the order of the changes up to a micro-batch, so that their deltas can be removed. Runs a job."""
    found = applied(spark, stream, upto)
    if found is None or upto in _folded(stream):
        return
    target = _folder(stream, upto)
    found.coalesce(1).write.mode("overwrite").parquet(target.written_by_spark)
    (target / DONE).write(b"")
    for number in _folded(stream):
        if number < upto:
            (_folder(stream, number) / DONE).remove()
            _folder(stream, number).remove()


def _folder(stream: Place, number: int) -> Place:
    return stream / "seqs" / f"{UPTO}{number:09}"


def _folded(stream: Place) -> list[int]:
    numbers = [int(name.removeprefix(UPTO)) for name in (stream / "seqs").names() if name.startswith(UPTO)]
    return [number for number in numbers if (_folder(stream, number) / DONE).exists()]
