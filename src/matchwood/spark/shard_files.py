"""The files of shards on a machine: those of a local lake as they are, those of an object store in a bounded local cache.

    CACHE/KEY/       a shard, downloaded whole and checked; KEY is a hash of its URI
    CACHE/KEY.lock   locked exclusively by the process that downloads or removes the shard, shared by those that open it

One process of a machine downloads a shard; the others wait for it and map the same files. If the cache exceeds its size, the
shards that were opened longest ago are removed. A process that has mapped a removed shard keeps its pages.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matchwood.errors import StorageError
from matchwood.spark.places import LocalPlace, Place
from matchwood.store.storage import read_folder
from matchwood.structures import load_index

CACHE = "MATCHWOOD_SHARDS"
"""The environment variable that names the folder of the cache; by default one in the folder for temporary files."""
CACHE_BYTES = "MATCHWOOD_SHARDS_BYTES"
"""The environment variable that limits the size of the cache."""
MAX_BYTES = 32 << 30
KIND = "shard"
ATTEMPTS = 2
"""Times that a shard is downloaded whose checksums do not fit."""


@contextmanager
def opened_folder(place: Place) -> Iterator[Path]:
    """The local folder of a shard, which is not removed inside the block. Files that are mapped there stay usable after it."""
    if isinstance(place, LocalPlace):
        yield place.path
        return
    folder = cache_folder() / hashlib.sha256(str(place).encode()).hexdigest()[:32]
    while True:
        with _locked(folder, fcntl.LOCK_SH) as lock:
            if folder.is_dir():
                os.utime(lock)
                yield folder
                return
        _download(place, folder)


def cache_folder() -> Path:
    """The folder of the cache of this user, created if need be."""
    folder = Path(os.environ.get(CACHE) or Path(tempfile.gettempdir()) / f"matchwood-shards-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def evict(limit: int | None = None) -> list[Path]:
    """Remove the shards that were opened longest ago until the cache fits its limit; return their folders."""
    allowed = int(os.environ.get(CACHE_BYTES) or MAX_BYTES) if limit is None else limit
    folders = sorted((path for path in cache_folder().iterdir() if path.is_dir()), key=_last_opened, reverse=True)
    removed = []
    total = 0
    for folder in folders:
        total += folder_bytes(folder)
        if total <= allowed or folder == folders[0]:  # the newest stays, however large
            continue
        try:
            with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
        except BlockingIOError:
            continue  # being opened
    return removed


def folder_bytes(path: Path) -> int:
    """The bytes of a folder on disk."""
    if not path.is_dir():
        raise StorageError(f"{path}: the folder does not exist")
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _download(place: Place, folder: Path) -> None:
    """Download a shard unless another process has done it."""
    with _locked(folder, fcntl.LOCK_EX) as lock:
        if folder.is_dir():
            return
        draft = folder.with_name(f"{folder.name}.tmp")
        for attempt in range(1, ATTEMPTS + 1):
            shutil.rmtree(draft, ignore_errors=True)  # of a process that died
            place.download(draft)
            try:
                _check(draft)
                break
            except StorageError as error:
                shutil.rmtree(draft, ignore_errors=True)
                if attempt == ATTEMPTS:
                    raise error.about(f"{place}: the shard is damaged") from None
        draft.rename(folder)
        os.utime(lock)
    evict()


def _check(folder: Path) -> None:
    """Compare all checksums of a shard."""
    read_folder(folder, KIND)
    load_index(folder / "index")


def _last_opened(folder: Path) -> float:
    lock = folder.with_name(f"{folder.name}.lock")
    return lock.stat().st_mtime if lock.exists() else 0.0


@contextmanager
def _locked(folder: Path, operation: int) -> Iterator[Path]:
    path = folder.with_name(f"{folder.name}.lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, operation)
        yield path
    finally:
        os.close(handle)
