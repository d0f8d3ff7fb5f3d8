"""The shards that a worker process keeps mapped between tasks, jobs and micro-batches.

A worker maps the folder of a shard once, in milliseconds. All workers of a machine share its pages in the page cache. Changes
that a worker makes (expired subscriptions, changes of a stream) are copied on write and private to it.

A worker process runs one task at a time, so nothing here is locked.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from matchwood import __version__
from matchwood.encode.arrays import Float64s, Int64s
from matchwood.errors import StorageError
from matchwood.planner.compiling import compile_ahead
from matchwood.spark.expiring import Expiring
from matchwood.spark.places import LocalPlace, Place
from matchwood.spark.shard_files import KIND, folder_bytes, opened_folder
from matchwood.store import storage
from matchwood.store.storage import read_folder, write_folder
from matchwood.structures import Index, load_index

MAX_MAPPED = 512
"""Shards that a worker keeps mapped. Each takes address space and scratch memory, but no copy of the index."""

_mapped: OrderedDict[str, MappedShard] = OrderedDict()


@dataclass(frozen=True)
class Release:
    """The version of the package and of the format of saved folders that a process runs."""

    package: str
    format: int

    @classmethod
    def here(cls) -> Release:
        """The release that this process runs."""
        return cls(__version__, storage.VERSION)

    def check_here(self) -> None:
        """Raise `StorageError` unless this process, a worker, runs the release of its driver."""
        if self != Release.here():
            raise StorageError(
                f"this worker runs {Release.here()}, the driver {self}; install the same version on every machine"
            )

    def __str__(self) -> str:
        return f"matchwood {self.package} (format {self.format})"


def compile_once(name: str, *, scoring: bool = False) -> None:
    """Have the kernels of a structure compiled by one process of this machine; the other workers wait for it.

    With `scoring` those for another scoring than the sum.
    """
    compile_ahead([name], lambda: None, scoring=scoring, urgent=True)


class MappedShard:
    """A mapped shard at an instant: subscriptions that have expired by then are deleted from the worker's copy."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        with opened_folder(folder) as path:
            # Not verified: that would read the whole folder in every worker, whereas mapping reads only the pages that are used.
            _, arrays = read_folder(path, KIND, verify=False)
            self.index: Index = load_index(path / "index", verify=False)
        compile_once(self.index.name)
        self._expiring = Expiring(arrays["expiring_ids"], arrays["expiring_until"])

    def at(self, instant: float | None) -> MappedShard:
        """The shard at an instant (microseconds); None keeps expired subscriptions. An earlier instant maps the shard again."""
        if self._expiring.expired and (instant is None or instant < self._expiring.instant):
            return self._remapped().at(instant)
        if instant is not None:
            self.remove(self._expiring.due(instant))
        return self

    def remove(self, ids: Int64s) -> None:
        """Delete subscriptions from this process's copy; unknown ids are ignored."""
        there = ids[self.index.store.knows(ids)]
        if len(there):
            self.index.delete(there)

    def _remapped(self) -> MappedShard:
        _mapped.pop(str(self.folder), None)
        return mapped_shard(self.folder)


def mapped_shard(folder: Place) -> MappedShard:
    """The shard of a folder, mapped by this process at the first call and O(1) afterwards."""
    key = str(folder)
    found = _mapped.get(key)
    if found is None:
        found = _mapped[key] = MappedShard(folder)
        while len(_mapped) > MAX_MAPPED:
            _mapped.popitem(last=False)
    _mapped.move_to_end(key)
    return found


def save_shard(folder: Place, index: Index, ids: Int64s, until: Float64s, about: dict[str, Any]) -> int:
    """Write a shard: the index, the subscriptions that expire, and the version of the package. Returns its bytes. O(bytes).

    In an object store it is whole when the call returns; only then a manifest may name it.
    """
    if isinstance(folder, LocalPlace):
        _write(folder.path, index, ids, until, about)
        return folder_bytes(folder.path)
    with TemporaryDirectory(prefix="matchwood-") as scratch:
        path = Path(scratch) / folder.name
        _write(path, index, ids, until, about)
        folder.upload(path)
        return folder_bytes(path)


def _write(path: Path, index: Index, ids: Int64s, until: Float64s, about: dict[str, Any]) -> None:
    expiring = np.flatnonzero(np.isfinite(until))
    order = expiring[np.argsort(until[expiring], kind="stable")]
    arrays = {"expiring_ids": ids[order], "expiring_until": until[order]}
    about = {**about, "package": __version__}
    write_folder(path, KIND, about, arrays, also=lambda inside: index.save(inside / "index"))


def check_shard(folder: Place, release: Release) -> None:
    """Raise `StorageError` unless a shard was saved by this release. Reads its manifest only.

    In an object store it is not read: the worker that saved it has compared its release with the driver's.
    """
    if not isinstance(folder, LocalPlace):
        return
    path = folder.path
    try:
        about, _ = read_folder(path, KIND, verify=False)
    except StorageError as error:
        raise error.about("the driver cannot read a shard that a worker has saved") from None
    if about.get("package") != release.package:
        raise StorageError(
            f"{path}: a worker saved this shard with matchwood {about.get('package')}, its driver runs {release}; "
            "install the same version on every machine"
        )
