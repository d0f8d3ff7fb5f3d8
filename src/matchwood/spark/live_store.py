"""Live events of a stream, on disk: lines with their `until`, kept for subscriptions that come later, let go of when they expire.

    live/BATCH/PARTITION.parquet   the live events of a micro-batch, written by its workers
    live/upto-BATCH/               those of all micro-batches up to this one that were alive when it was folded

Folding reads what there is, leaves out what has expired and writes the rest as one folder, which appears by a rename; what it
replaces is removed after that, and not read in between. So the disk holds what was alive at the last folding and what came since.
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
    """The live events under a folder. One writer, the driver; workers add files of the micro-batch that is being done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def before(self, number: int) -> list[Path]:
        """The folders that hold the live events of the micro-batches before this one."""
        folded = max((upto for upto in self._folded() if upto < number), default=-1)
        plain = [self._plain(batch) for batch in self._batches() if folded < batch < number]
        return ([self._upto(folded)] if folded >= 0 else []) + plain

    def alive(self, spark: SparkSession, number: int, now: float) -> DataFrame | None:
        """Lines of the events before a micro-batch that are alive at an instant; None if there are no events. Lazy."""
        folders = self.before(number)
        if not folders:
            return None
        return spark.read.parquet(*map(read_by_spark, folders)).filter(fn.col("until") > now)

    def fold(self, spark: SparkSession, number: int, now: float) -> None:
        """Put together what is alive of the micro-batches before this one, which is done and at which it was `now`. Runs a job.

        A repetition of this micro-batch, or any later one, asks for nothing that had expired by then.
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
