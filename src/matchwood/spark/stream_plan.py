"""What a stream does with a micro-batch, written down so that a worker can find it out alone.

The driver pins a micro-batch (`pins/BATCH.json`: index version, codebook version, instant) before anything else. What is to be
done then follows from the pin and from immutable folders, on the driver and in a worker alike. So the matching can stand in the
streaming query itself, planned once: put together anew for each micro-batch it costs some 75 calls from Python to the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from matchwood.errors import StorageError
from matchwood.spark.index_stage import NAME as INDEX
from matchwood.spark.index_stage import IndexVersion, open_index
from matchwood.spark.lake import Lake, checked_name
from matchwood.spark.stream_worker import StreamMatching

BATCH_ID = "streaming.sql.batchId"
"""The property by which Spark tells a task of which micro-batch it is."""


@dataclass(frozen=True)
class StreamPlan:
    """A stream of a lake, and how it matches. As a function of Arrow batches: the matches of a partition of a micro-batch."""

    lake: str
    name: str
    k: int | None
    mode: str
    keep_live: bool
    lines: bool

    @property
    def folder(self) -> Path:
        """Where the stream keeps what it makes."""
        return stream_folder(Lake(self.lake), self.name)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        number = _batch_number()
        path = self.pin_path(number)
        try:
            pin = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StorageError(
                f"{path}: micro-batch {number} is not pinned; its matches were asked for too early"
            ) from None
        return self.matching(number, pin)(batches)

    def pin_path(self, number: int) -> Path:
        """Where it is written down what a micro-batch is to be done with."""
        return self.folder / "pins" / f"{number:09}.json"

    def matching(self, number: int, pin: Mapping[str, Any]) -> StreamMatching:
        """What is done with the events of a micro-batch: against the pinned index and the changes since, up to this batch."""
        index = opened_index(self.lake, int(pin["index"]))
        return StreamMatching(
            str(self.folder),
            number,
            str(Lake(self.lake).codebook_path(int(pin["codebook"]))),
            index.paths(),
            index.sharding,
            self.deltas(index.version, number),
            self.k,
            self.mode,
            float(pin["now"]),
            self.keep_live,
            self.lines,
        )

    def deltas(self, version: int, number: int) -> tuple[str, ...]:
        """The folders of changes after those that an index version holds already, up to this batch."""
        first = folded_changes(self.lake, version, self.name)
        found = sorted((self.folder / "deltas").glob("[0-9]*/_done"))
        return tuple(str(path.parent) for path in found if first < int(path.parent.name) <= number)


def stream_folder(lake: Lake, name: str) -> Path:
    """Where a stream of a lake keeps what it makes."""
    return lake.root / "streams" / checked_name(name, "stream")


@lru_cache(maxsize=4)
def opened_index(lake: str, version: int) -> IndexVersion:
    """An index version, which never changes, kept open by this process."""
    return open_index(Lake(lake), version)


@lru_cache(maxsize=16)
def folded_changes(lake: str, version: int, name: str) -> int:
    """The last micro-batch of a stream whose changes an index version holds; -1 if none."""
    return int(Lake(lake).manifest(INDEX, version).upstream.get(f"changes of {name}", -1))


def _batch_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(BATCH_ID)
    if number is None:
        raise StorageError("this runs in a micro-batch of a stream only; nothing says in which")
    return int(number)
