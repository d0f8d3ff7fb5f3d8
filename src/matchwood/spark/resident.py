"""Resident: shards that a worker keeps mapped from task to task, from job to job, from micro-batch to micro-batch.

A folder is mapped once by a worker process, in milliseconds; the pages are the machine's, shared by all its workers. What a
worker changes (subscriptions that expire, changes of a stream) is private to it, copy on write.

One worker process runs one task at a time, so nothing here is locked.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from matchwood import __version__
from matchwood.encode.arrays import Float64s, Int64s
from matchwood.errors import StorageError
from matchwood.store import storage
from matchwood.store.storage import read_folder, write_folder
from matchwood.structures import Index, load_index

MOST_RESIDENT = 512
"""Shards a worker keeps mapped: address space and a few arrays of scratch each, no copies of the index."""

KIND = "shard"

_residents: OrderedDict[str, Resident] = OrderedDict()


@dataclass(frozen=True)
class Release:
    """What a process runs: the version of the package, and that of the format of saved folders."""

    package: str
    format: int

    @classmethod
    def here(cls) -> Release:
        """What this process runs."""
        return cls(__version__, storage.VERSION)

    def check_here(self) -> None:
        """Raise unless this process, a worker, runs what its driver does."""
        if self != Release.here():
            raise StorageError(
                f"this worker runs {Release.here()}, its driver {self}; install the same version on every machine"
            )

    def __str__(self) -> str:
        return f"matchwood {self.package} (format {self.format})"


class Resident:
    """A mapped shard as of an instant: what has expired by then is deleted from the worker's copy.

    `expiring` holds the subscriptions that have an `until`, in the order in which they go.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        path = Path(folder)
        # Not verified: every worker would read all of it, where mapping takes milliseconds and reads what is used.
        _, arrays = read_folder(path, KIND, verify=False)
        self.index: Index = load_index(path / "index", verify=False)
        self._ids: Int64s = arrays["expiring_ids"]
        self._until: Float64s = arrays["expiring_until"]
        self._gone = 0
        self._instant = -np.inf

    def at(self, instant: float | None) -> Resident:
        """Itself as of the instant (microseconds); None keeps what expires. Time that goes back maps the shard anew."""
        if instant is None:
            return self if self._gone == 0 else self._anew().at(None)
        if instant < self._instant and self._gone:
            return self._anew().at(instant)
        stop = int(np.searchsorted(self._until, instant, side="right"))
        if stop > self._gone:
            self.remove(self._ids[self._gone : stop])
            self._gone = stop
        self._instant = instant
        return self

    def remove(self, ids: Int64s) -> None:
        """Delete those of the subscriptions that are here, from this process's copy."""
        there = ids[self.index.store.knows(ids)]
        if len(there):
            self.index.delete(there)

    def _anew(self) -> Resident:
        _residents.pop(self.folder, None)
        return resident(self.folder)


def resident(folder: str) -> Resident:
    """The shard in that folder, mapped by this process. O(1) but for the first time."""
    found = _residents.get(folder)
    if found is None:
        found = _residents[folder] = Resident(folder)
        while len(_residents) > MOST_RESIDENT:
            _residents.popitem(last=False)
    _residents.move_to_end(folder)
    return found


def save_shard(path: Path, index: Index, ids: Int64s, until: Float64s, about: dict[str, Any]) -> None:
    """Write a shard: the index, when which subscription expires, and who wrote it. Whole or not at all. O(bytes)."""
    expiring = np.flatnonzero(np.isfinite(until))
    order = expiring[np.argsort(until[expiring], kind="stable")]
    arrays = {"expiring_ids": ids[order], "expiring_until": until[order]}
    about = {**about, "package": __version__}
    write_folder(path, KIND, about, arrays, also=lambda inside: index.save(inside / "index"))


def check_shard(path: Path, release: Release) -> None:
    """Raise unless a shard was saved by this release. O(arrays of the folder): contents stay unread."""
    try:
        about, _ = read_folder(path, KIND, verify=False)
    except StorageError as error:
        raise error.about("a worker has saved a shard that its driver cannot read") from None
    if about.get("package") != release.package:
        raise StorageError(
            f"{path}: a worker saved this shard with matchwood {about.get('package')}, its driver runs {release}; "
            "install the same version on every machine"
        )


def folder_bytes(path: Path) -> int:
    """Bytes on disk."""
    if not path.is_dir():
        raise StorageError(f"{path}: there is no such folder")
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
