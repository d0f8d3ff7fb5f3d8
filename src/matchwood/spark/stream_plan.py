"""The plan of a micro-batch, which driver and workers derive from files.

Before anything else the driver pins a micro-batch: `pins/BATCH.json` holds the index version, the codebook version and the
instant. The pin and immutable folders determine everything else, so a worker can find out by itself what to match. This lets
the streaming query include the matching, planned once; planning it for each micro-batch takes some 75 calls from Python to the
JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from matchwood.errors import StorageError
from matchwood.spark.index_stage import NAME as INDEX
from matchwood.spark.index_stage import IndexVersion, open_index
from matchwood.spark.lake import Lake, checked_name
from matchwood.spark.places import Place
from matchwood.spark.stream_worker import StreamMatching, StreamOptions
from matchwood.spark.task import micro_batch


@dataclass(frozen=True)
class StreamPlan:
    """A stream of a lake and its options. As a function of Arrow batches: the matches of a partition of a micro-batch."""

    lake: Place
    name: str
    options: StreamOptions

    def with_options(self, **changes: Any) -> StreamPlan:
        """The plan with other options."""
        return replace(self, options=replace(self.options, **changes))

    @property
    def folder(self) -> Place:
        """The folder of the stream."""
        return stream_folder(Lake(self.lake), self.name)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        number = micro_batch()
        path = self.pin_path(number)
        try:
            pin = json.loads(path.text())
        except FileNotFoundError:
            raise StorageError(
                f"{path}: micro-batch {number} is not pinned; start the stream with `MatchStream.start`"
            ) from None
        return self.matching(number, pin)(batches)

    def pin_path(self, number: int) -> Place:
        """The file that pins a micro-batch."""
        return self.folder / "pins" / f"{number:09}.json"

    def matching(self, number: int, pin: Mapping[str, Any]) -> StreamMatching:
        """The matching of a micro-batch: the pinned index version and the changes since, up to this micro-batch."""
        index = opened_index(self.lake, int(pin["index"]))
        return StreamMatching(
            folder=self.folder,
            batch=number,
            now=float(pin["now"]),
            codebook=Lake(self.lake).codebook_path(int(pin["codebook"])),
            shards=index.paths(),
            sharding=index.sharding,
            deltas=self.deltas(index.version, number),
            options=self.options,
        )

    def deltas(self, version: int, number: int) -> tuple[Place, ...]:
        """The folders of changes that an index version does not include, up to a micro-batch."""
        first = folded_changes(self.lake, version, self.name)
        return tuple(deltas_between(self.folder, first, number))


def stream_folder(lake: Lake, name: str) -> Place:
    """The folder of a stream of a lake."""
    return lake.root / "streams" / checked_name(name, "stream")


def delta_folder(stream: Place, number: int) -> Place:
    """The folder of the changes of a micro-batch of a stream."""
    return stream / "deltas" / f"{number:09}"


def deltas_between(stream: Place, after: int, upto: int) -> list[Place]:
    """The folders of stored changes after one micro-batch up to another, ascending."""
    numbers = [number for number in numbered(stream / "deltas") if after < number <= upto]
    return [folder for folder in (delta_folder(stream, number) for number in numbers) if (folder / "_done").exists()]


def numbered(folder: Place) -> list[int]:
    """The micro-batches that files or folders in a folder are named by, ascending."""
    names = (name.partition(".")[0] for name in folder.names())
    return sorted(int(name) for name in names if name.isdigit())


@lru_cache(maxsize=4)
def opened_index(lake: Place, version: int) -> IndexVersion:
    """An index version, which never changes, cached by this process."""
    return open_index(Lake(lake), version)


@lru_cache(maxsize=16)
def folded_changes(lake: Place, version: int, name: str) -> int:
    """The last micro-batch of a stream whose changes an index version includes; -1 if none."""
    return int(Lake(lake).manifest(INDEX, version).upstream.get(f"changes of {name}", -1))
