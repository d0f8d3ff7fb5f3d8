"""Live events of a stream, stored as encoded records (`columns.LIVE`), for subscriptions that come later.

    live/BATCH/PARTITION.parquet   the live events of a micro-batch, written by its workers
    live/upto-BATCH/               the live events of all micro-batches up to this one, without expired ones

`fold` writes the events that are still alive to one folder, which counts once its file `_done` exists, and then removes the
folders that it replaces. So the disk holds the events that were alive at the last fold and those that came since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from matchwood.spark.places import Place
from matchwood.spark.stream_plan import numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPTO = "upto-"
DONE = "_done"


class LiveStore:
    """The live events under a folder. The driver is the only writer; workers add the files of the current micro-batch."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder

    def before(self, number: int) -> list[Place]:
        """The folders of the live events of earlier micro-batches."""
        folded = max((upto for upto in self._folded() if upto < number), default=-1)
        plain = [self._plain(batch) for batch in numbered(self.folder) if folded < batch < number]
        return ([self._upto(folded)] if folded >= 0 else []) + plain

    def alive(self, spark: SparkSession, number: int, now: float) -> DataFrame | None:
        """The records of earlier events that are alive at an instant; None if nothing is stored. Lazy."""
        folders = self.before(number)
        if not folders:
            return None
        instant = fn.timestamp_micros(fn.lit(int(max(now, 0.0))))
        return spark.read.parquet(*(folder.read_by_spark for folder in folders)).filter(fn.col("until") > instant)

    def files(self, number: int) -> tuple[Place, ...]:
        """The files of the live events of earlier micro-batches, oldest first."""
        folders = self.before(number)
        return tuple(f / name for f in folders for name in f.names() if name.endswith(".parquet"))

    def fold(self, spark: SparkSession, number: int, now: float) -> None:
        """Merge the folders before a finished micro-batch, without the events that had expired at its instant `now`. Runs a job.

        Neither a repetition of this micro-batch nor a later one needs the events that had expired by then.
        """
        alive = self.alive(spark, number, now)
        if alive is None or self.before(number) == [self._upto(number - 1)]:
            return
        target = self._upto(number - 1)
        alive.write.mode("overwrite").option("compression", "zstd").parquet(target.written_by_spark)
        (target / DONE).write(b"")
        for folded in self._folded():
            if folded < number - 1:
                (self._upto(folded) / DONE).remove()
                self._upto(folded).remove()
        for batch in numbered(self.folder):
            if batch < number:
                self._plain(batch).remove()

    def _folded(self) -> list[int]:
        found = (name.removeprefix(UPTO) for name in self.folder.names() if name.startswith(UPTO))
        return [int(name) for name in found if name.isdigit() and (self._upto(int(name)) / DONE).exists()]

    def _upto(self, number: int) -> Place:
        return self.folder / f"{UPTO}{number:09}"

    def _plain(self, number: int) -> Place:
        return self.folder / f"{number:09}"
