"""Folders of flat arrays: one `.npy` a field and a manifest, written whole or not at all, never changed afterwards.

A folder is written under a temporary name beside its place, flushed to disk and renamed: a reader sees the whole folder or none,
and a writer that dies leaves only the temporary one. Arrays are read by memory map, copy on write, so that loading costs
milliseconds, processes share the pages, and a change in memory never reaches the disk.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from matchwood.errors import StorageError

FORMAT = "matchwood"
VERSION = 1
MANIFEST = "manifest.json"


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
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        temporary.mkdir(parents=True)
        files = {name: _write_array(temporary / f"{name}.npy", array) for name, array in arrays.items()}
        if also is not None:
            also(temporary)
        manifest = {"format": FORMAT, "version": VERSION, "kind": kind, "about": dict(about), "arrays": files}
        with (temporary / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(
                manifest, file, indent=1
            )  # in ASCII: a lone surrogate, which Python's strings may hold, has no UTF-8
            file.flush()
            os.fsync(file.fileno())
        _flush_folder(temporary)
        temporary.rename(path)
        _flush_folder(path.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise StorageError(f"{path}: could not be written: {error}") from error
        raise


def read_folder(path: Path, kind: str, *, verify: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(about, arrays) of a folder of that kind, arrays mapped into memory. `verify` reads everything and checks the checksums."""
    manifest = _read_manifest(path, kind)
    arrays = {}
    for name, expected in manifest["arrays"].items():
        arrays[name] = _read_array(path / f"{name}.npy", expected, verify)
    return manifest["about"], arrays


def _write_array(path: Path, array: np.ndarray) -> dict[str, Any]:
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {
        "dtype": repr(np.lib.format.dtype_to_descr(array.dtype)),
        "shape": list(array.shape),
        "crc32": _checksum(array),
    }


def _read_manifest(path: Path, kind: str) -> dict[str, Any]:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StorageError(f"{path}: expected a saved folder with a {MANIFEST}, found none") from None
    except (OSError, ValueError) as error:
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
    if not isinstance(manifest.get("about"), dict) or not isinstance(manifest.get("arrays"), dict):
        raise StorageError(f"{path / MANIFEST}: the manifest is damaged")
    return manifest


def _read_array(path: Path, expected: object, verify: bool) -> np.ndarray:
    try:
        mapped = np.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # NumPy evaluates the header, so a damaged one may raise nearly anything
        raise StorageError(f"{path}: cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(mapped, np.ndarray):
        raise StorageError(f"{path}: expected one array, found an archive; the file is foreign")
    array = np.asarray(mapped)  # the plain class: compiled code has no type for a memmap
    found: dict[str, Any] = {"dtype": repr(np.lib.format.dtype_to_descr(array.dtype)), "shape": list(array.shape)}
    if verify:
        found["crc32"] = _checksum(array)
    if not isinstance(expected, dict) or any(expected.get(key) != value for key, value in found.items()):
        raise StorageError(f"{path}: expected {expected}, found {found}; the file is damaged or foreign")
    return array


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
