"""Live events of a stream, stored on disk as lines with their `until`, for subscriptions that come later.

    live/BATCH/PARTITION.parquet   the live events of a micro-batch, written by its workers
    live/upto-BATCH/               the live events of all micro-batches up to this one, without expired ones

`fold` writes the events that are still alive to one folder, which becomes visible by a rename, and then removes the folders that
it replaces. So the disk holds the events that were alive at the last fold and those that came since.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from matchwood.spark.paths import read_by_spark, written_by_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPTO = "upto-"


class LiveStore:
    """The live events under a folder. The driver is the only writer; workers add the files of the current micro-batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def before(self, number: int) -> list[Path]:
        """The folders of the live events of earlier micro-batches."""
        folded = max((upto for upto in self._folded() if upto < number), default=-1)
        plain = [self._plain(batch) for batch in self._batches() if folded < batch < number]
        return ([self._upto(folded)] if folded >= 0 else []) + plain

    def alive(self, spark: SparkSession, number: int, now: float) -> DataFrame | None:
        """The lines of earlier events that are alive at an instant; None if nothing is stored. Lazy."""
        folders = self.before(number)
        if not folders:
            return None
        return spark.read.parquet(*map(read_by_spark, folders)).filter(fn.col("until") > now)

    def fold(self, spark: SparkSession, number: int, now: float) -> None:
        """Merge the folders before a finished micro-batch, without the events that had expired at its instant `now`. Runs a job.

        Neither a repetition of this micro-batch nor a later one needs the events that had expired by then.
        """
        alive = self.alive(spark, number, now)
        if alive is None or self.before(number) == [self._upto(number - 1)]:
            return
        draft = self.folder / f".{UPTO}{number - 1:09}"
        alive.write.mode("overwrite").option("compression", "zstd").parquet(written_by_spark(draft))
        draft.rename(self._upto(number - 1))
        for folded in self._folded():
            if folded < number - 1:
                shutil.rmtree(self._upto(folded), ignore_errors=True)
        for batch in self._batches():
            if batch < number:
                shutil.rmtree(self._plain(batch), ignore_errors=True)

    def _folded(self) -> list[int]:
        return [int(path.name.removeprefix(UPTO)) for path in self.folder.glob(f"{UPTO}[0-9]*")]

    def _batches(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.glob("[0-9]*"))

    def _upto(self, number: int) -> Path:
        return self.folder / f"{UPTO}{number:09}"

    def _plain(self, number: int) -> Path:
        return self.folder / f"{number:09}"
