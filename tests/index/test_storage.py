"""Saved folders: whole or not there at all, and never mistaken for what they are not."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchwood.errors import StorageError
from matchwood.index import storage
from matchwood.index.storage import MANIFEST, VERSION, read_folder, signed, write_folder

RECORD = np.dtype([("id", "i8"), ("lo", "f4"), ("pad", "u4")])
ARRAYS = {
    "numbers": np.arange(1000.0),
    "records": np.zeros(7, RECORD),
    "empty": np.zeros(0, np.uint32),
    "table": np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2],
}
ABOUT = {"name": "名", "lone": "\ud800", "n": 3, "nested": {"x": [1, 2]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "saved", "index", ABOUT, ARRAYS)
    return tmp_path / "saved"


def changed_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(signed({**manifest, **changes}))


@pytest.mark.parametrize("verify", [False, True])
def test_what_was_written_is_read(folder: Path, verify: bool) -> None:
    about, arrays = read_folder(folder, "index", verify=verify)
    assert about == ABOUT
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


def test_arrays_are_plain_and_writable_and_changes_stay_in_memory(folder: Path) -> None:
    _, arrays = read_folder(folder, "index")
    assert type(arrays["numbers"]) is np.ndarray
    arrays["numbers"][:] = -1
    _, again = read_folder(folder, "index", verify=True)
    assert again["numbers"].tolist() == list(range(1000))


def test_a_folder_is_never_overwritten(folder: Path) -> None:
    with pytest.raises(StorageError, match="exists already; saved folders are never overwritten"):
        write_folder(folder, "index", {}, {})
    assert read_folder(folder, "index")[0] == ABOUT


class StopError(Exception):
    pass


@pytest.mark.parametrize("error", [StopError(), KeyboardInterrupt(), MemoryError()])
def test_a_writer_that_raises_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def fail(inside: Path) -> None:
        assert (inside / "numbers.npy").exists()
        raise error

    with pytest.raises(type(error)):
        write_folder(tmp_path / "saved", "index", ABOUT, ARRAYS, also=fail)
    assert list(tmp_path.iterdir()) == []


def test_what_json_cannot_hold_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_folder(tmp_path / "saved", "index", {"x": object()}, ARRAYS)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fails_is_a_storage_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(StorageError, match=r"could not be written: .*No space left"):
        write_folder(tmp_path / "saved", "index", ABOUT, ARRAYS)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    seen = []
    write_folder(tmp_path / "saved", "index", ABOUT, ARRAYS, also=lambda _: seen.append((tmp_path / "saved").exists()))
    assert seen == [False]
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_of_two_writers_of_one_name_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    def write(n: int) -> str:
        try:
            write_folder(tmp_path / "saved", "index", {"n": n}, ARRAYS)
        except StorageError:
            return "told"
        return f"won {n}"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(write, range(8)))
    (winner,) = [outcome for outcome in outcomes if outcome != "told"]
    assert read_folder(tmp_path / "saved", "index", verify=True)[0] == {"n": int(winner.split()[1])}
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_missing_parents_are_made(tmp_path: Path) -> None:
    write_folder(tmp_path / "a" / "b" / "saved", "index", {}, {})
    assert read_folder(tmp_path / "a" / "b" / "saved", "index") == ({}, {})


def test_a_folder_that_is_not_there_or_has_no_manifest_is_a_storage_error(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(StorageError, match=r"expected a saved folder with a manifest.json, found none"):
            read_folder(path, "index")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", '{"format": "other"}', "\x00", '{"format": "matchwood", "version": 1']
)
def test_a_foreign_or_broken_manifest_is_a_storage_error(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    with pytest.raises(StorageError, match=r"manifest.json: (cannot be read|this is not a folder saved by matchwood)"):
        read_folder(folder, "index")


def test_bytes_that_are_no_text_are_a_storage_error(folder: Path) -> None:
    (folder / MANIFEST).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StorageError, match="cannot be read"):
        read_folder(folder, "index")


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        (VERSION + 1, "a newer matchwood wrote it"),
        (VERSION - 1, "save it again"),
        (None, "save it again"),
        (str(VERSION), "save it again"),
    ],
)
def test_another_version_is_refused_with_the_remedy(folder: Path, version: object, remedy: str) -> None:
    changed_manifest(folder, version=version)
    with pytest.raises(StorageError, match=f"expected format version {VERSION}, got {version!r}; {remedy}"):
        read_folder(folder, "index")


def test_another_kind_is_refused(folder: Path) -> None:
    with pytest.raises(StorageError, match="expected a saved engine, got a saved 'index'"):
        read_folder(folder, "engine")


@pytest.mark.parametrize("changes", [{"about": None}, {"arrays": []}, {"arrays": None}, {"about": [1]}])
def test_a_manifest_with_parts_missing_is_damaged(folder: Path, changes: dict[str, Any]) -> None:
    changed_manifest(folder, **changes)
    with pytest.raises(StorageError, match="the manifest is damaged"):
        read_folder(folder, "index")


def test_an_array_that_is_missing_cut_short_or_of_another_shape_is_a_storage_error(folder: Path) -> None:
    victim = folder / "numbers.npy"
    content = victim.read_bytes()
    for size in (0, 5, 64, 128, len(content) // 2, len(content) - 1):
        victim.write_bytes(content[:size])
        with pytest.raises(StorageError, match=r"numbers.npy"):
            read_folder(folder, "index")
    np.save(victim, np.arange(999.0))
    with pytest.raises(StorageError, match=r"numbers.npy: expected .*1000.*found .*999.*damaged or foreign"):
        read_folder(folder, "index")
    np.save(victim, np.arange(1000))
    with pytest.raises(StorageError, match="damaged or foreign"):
        read_folder(folder, "index")
    victim.unlink()
    with pytest.raises(StorageError, match=r"numbers.npy: cannot be read"):
        read_folder(folder, "index")


def test_no_damage_to_a_header_escapes_as_another_error(folder: Path) -> None:
    victim = folder / "numbers.npy"
    content = victim.read_bytes()
    refused = 0
    for position in range(128):
        for byte in (0x00, 0x27, 0xFF, content[position] ^ 0x01):
            victim.write_bytes(content[:position] + bytes([byte]) + content[position + 1 :])
            try:
                read_folder(folder, "index")
            except StorageError:
                refused += 1
    assert refused > 128


def test_an_archive_or_pickled_objects_in_the_place_of_an_array_are_refused(folder: Path) -> None:
    with (folder / "numbers.npy").open("wb") as file:
        np.savez(file, np.arange(1000.0))
    with pytest.raises(StorageError, match=r"numbers.npy: expected one array"):
        read_folder(folder, "index")
    np.save(folder / "numbers.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(StorageError, match=r"numbers.npy: cannot be read"):
        read_folder(folder, "index")


def test_a_flipped_bit_is_found_unless_nobody_looks(folder: Path) -> None:
    victim = folder / "numbers.npy"
    content = bytearray(victim.read_bytes())
    content[-3] ^= 0x10
    victim.write_bytes(bytes(content))
    read_folder(folder, "index", verify=False)
    with pytest.raises(StorageError, match="damaged"):
        read_folder(folder, "index")


def test_a_folder_may_be_moved_and_removed(folder: Path, tmp_path: Path) -> None:
    _, arrays = read_folder(folder, "index")
    folder.rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "moved")
    assert arrays["numbers"].sum() == 499_500
