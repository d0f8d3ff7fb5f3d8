"""Folders of flat arrays: one `.npy` a field and a manifest, written whole or not at all, never changed afterwards.

A folder is written under a temporary name beside its place, flushed to disk and renamed: a reader sees the whole folder or none,
and a writer that dies leaves only the temporary one. A writer locks its temporary folder for as long as it lives; the next one
that writes to the same place removes the unlocked ones. Arrays are read by memory map, copy on write, so that
processes share the pages and a change in memory never reaches the disk.

Compiled code trusts the arrays it is given, so a damaged file must not get that far. The manifest holds the size and a checksum
of each file, of the manifest of each folder inside, and of itself, and must read exactly as it was written: a file that is cut
short, changed, swapped or taken from another folder is refused, whichever byte it is. Reading everything costs 0.2 s a gigabyte
(4.6 GB/s, pages in memory); `verify=False` leaves the arrays' contents unread. Checksums guard against
damage, not against malice.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from matchwood.errors import StorageError

FORMAT = "matchwood"
VERSION = 20
MANIFEST = "manifest.json"
SIGNATURE = ',\n "checksum": '
NO_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What a file system answers that cannot lock a folder."""


def write_folder(
    path: Path,
    kind: str,
    about: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    also: Callable[[Path], None] | None = None,
) -> None:
    """Write arrays and a manifest of the given kind to a new folder; `also` may put more into it before it appears. O(bytes)."""
    if path.exists():
        raise StorageError(f"{path} exists already; saved folders are never overwritten: choose a new name")
    try:
        with _draft(path) as temporary:
            files = {name: _write_array(temporary / f"{name}.npy", array) for name, array in arrays.items()}
            if also is not None:
                also(temporary)
            inside = {child.parent.name: _file_checksum(child) for child in temporary.glob(f"*/{MANIFEST}")}
            manifest = {"format": FORMAT, "version": VERSION, "kind": kind, "about": dict(about), "arrays": files}
            with (temporary / MANIFEST).open("wb") as file:
                file.write(signed({**manifest, "folders": inside}).encode())
                file.flush()
                os.fsync(file.fileno())
            _flush_folder(temporary)
            temporary.rename(path)
            _flush_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error}") from error


def read_folder(path: Path, kind: str, *, verify: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(about, arrays) of a folder of that kind, arrays mapped into memory; `StorageError` if it is not as it was written.

    O(bytes); without `verify`, which leaves the contents of arrays unread, O(arrays).
    """
    manifest = _read_manifest(path, kind)
    arrays = {}
    for name, expected in manifest["arrays"].items():
        arrays[name] = _read_array(path / f"{name}.npy", expected, verify)
    return manifest["about"], arrays


def signed(manifest: Mapping[str, Any]) -> str:
    """The text of a manifest, with the checksum of all of it but the checksum itself, which comes last."""
    # In ASCII: a lone surrogate, which Python's strings may hold, has no UTF-8.
    text = json.dumps({key: value for key, value in manifest.items() if key != "checksum"}, indent=1)
    return f"{text[:-2]}{SIGNATURE}{zlib.crc32(text.encode())}\n}}"


def _is_signed(content: bytes) -> bool:
    """Is this what `signed` wrote, to the byte?"""
    text, _, checksum = content.rpartition(SIGNATURE.encode())
    return checksum == b"%d\n}" % zlib.crc32(text + b"\n}")


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, locked, to be renamed to it; an exception removes it. Those of dead writers go first."""
    _remove_abandoned(path)
    temporary, handle = _claimed(path)
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _claimed(path: Path) -> tuple[Path, int | None]:
    """A new temporary folder for `path` and the handle that locks it; None where folders cannot be locked by anybody."""
    while True:
        temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
        temporary.mkdir(parents=True)
        try:
            return temporary, _lock(temporary)
        except (BlockingIOError, FileNotFoundError):
            continue  # another writer saw it before it was locked, and removes it
        except OSError as error:
            if error.errno in NO_LOCKS:
                return temporary, None
            temporary.rmdir()
            raise


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary folders of writers of `path` that are dead: those whose lock is free."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}\.tmp")
    try:
        left = [Path(entry.path) for entry in os.scandir(path.parent) if ours.fullmatch(entry.name)]
    except FileNotFoundError:
        return
    for folder in left:
        try:
            handle = _lock(folder)
        except OSError:  # a living writer has it, another one has just removed it, or it cannot be locked
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _lock(folder: Path) -> int:
    """A handle that locks a folder until it is closed or the process dies. `BlockingIOError`: another has the lock."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(folder)  # it may have been removed between opening and locking
    except BaseException:
        os.close(handle)
        raise
    return handle


def _write_array(path: Path, array: np.ndarray) -> dict[str, Any]:
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {
        "dtype": repr(np.lib.format.dtype_to_descr(array.dtype)),
        "shape": list(array.shape),
        "bytes": path.stat().st_size,
        "crc32": _checksum(path, array),
    }


def _read_manifest(path: Path, kind: str) -> dict[str, Any]:
    try:
        content = (path / MANIFEST).read_bytes()
        manifest = json.loads(content.decode())
    except FileNotFoundError:
        raise StorageError(f"{path}: expected a saved folder with a {MANIFEST}, found none") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path / MANIFEST}: cannot be read: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StorageError(f"{path / MANIFEST}: this is not a folder saved by matchwood")
    version = manifest.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        remedy = "a newer matchwood wrote it: update this one" if newer else "save it again with this version"
        raise StorageError(f"{path}: expected format version {VERSION}, got {version!r}; {remedy}")
    if manifest.get("kind") != kind:
        raise StorageError(f"{path}: expected a saved {kind}, got a saved {manifest.get('kind')!r}")
    if not _is_signed(content):
        raise StorageError(f"{path / MANIFEST}: the manifest is damaged: its checksum does not fit")
    if not all(isinstance(manifest.get(part), dict) for part in ("about", "arrays", "folders")):
        raise StorageError(f"{path / MANIFEST}: the manifest is damaged")
    for folder, checksum in manifest["folders"].items():
        if _file_checksum(path / folder / MANIFEST) != checksum:
            raise StorageError(f"{path / folder}: is not the folder that was saved here; it is damaged or foreign")
    return manifest


def _read_array(path: Path, expected: object, verify: bool) -> np.ndarray:
    try:
        mapped = np.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # NumPy evaluates the header, so a damaged one may raise nearly anything
        raise StorageError(f"{path}: cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(mapped, np.ndarray):
        raise StorageError(f"{path}: expected one array, found an archive; the file is foreign")
    array = np.asarray(mapped)  # the plain class: compiled code has no type for a memmap
    found: dict[str, Any] = {
        "dtype": repr(np.lib.format.dtype_to_descr(array.dtype)),
        "shape": list(array.shape),
        "bytes": path.stat().st_size,
    }
    if verify:
        found["crc32"] = _checksum(path, array)
    if not isinstance(expected, dict) or any(expected.get(key) != value for key, value in found.items()):
        raise StorageError(f"{path}: expected {expected}, found {found}; the file is damaged or foreign")
    return array


def _file_checksum(path: Path) -> int:
    try:
        return zlib.crc32(path.read_bytes())
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error}") from None


def _checksum(path: Path, array: np.ndarray) -> int:
    """The checksum of the whole file: of its header, then of the array that was read from it or written to it."""
    with path.open("rb") as file:
        header = file.read(path.stat().st_size - array.nbytes)
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"", zlib.crc32(header))


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
