"""Saved folders: whole or not there at all, and never mistaken for what they are not."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from matchwood.errors import StorageError
from matchwood.store import storage
from matchwood.store.storage import MANIFEST, VERSION, read_folder, signed, write_folder

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


def test_no_byte_of_any_file_changes_unnoticed(tmp_path: Path) -> None:
    """Headers included: a changed order of bytes, or a space, may read as the same array."""

    def nested(inside: Path) -> None:
        write_folder(inside / "nested", "index", {"x": 0.5}, {"numbers": np.arange(3.0)})

    small = {
        "planned": np.array([7]),
        "empty": ARRAYS["empty"],
        "table": ARRAYS["table"],
        "records": ARRAYS["records"][:2],
    }
    folder = tmp_path / "saved"
    write_folder(folder, "engine", ABOUT, small, also=nested)

    def read() -> None:
        read_folder(folder, "engine")
        read_folder(folder / "nested", "index")

    read()
    for victim in [path for path in folder.rglob("*") if path.is_file()]:
        content = victim.read_bytes()
        damages = [
            content[:at] + bytes([byte ^ (0x2A if byte == ord(" ") else 0x01)]) + content[at + 1 :]
            for at, byte in enumerate(content)  # a line feed for a space, '=' for '<'
        ]
        for damaged in (*damages, content + b" ", content[:-1], b"\xef\xbb\xbf" + content):
            victim.write_bytes(damaged)
            with pytest.raises(StorageError):
                read()
        victim.write_bytes(content)
    read()


def test_what_windows_makes_of_line_ends_is_damage(folder: Path) -> None:
    manifest = folder / MANIFEST
    manifest.write_bytes(manifest.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(StorageError, match="the manifest is damaged"):
        read_folder(folder, "index")


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


# what writers leave behind

WRITER = """
import sys
from pathlib import Path
import numpy as np
from matchwood.errors import StorageError
from matchwood.store.storage import write_folder

def wait(inside):
    print("writing", flush=True)
    sys.stdin.readline()

try:
    write_folder(Path(sys.argv[1]), "index", {}, {"numbers": np.arange(9.0)}, also=wait)
    print("written")
except StorageError:
    print("told")
"""


def a_writer(place: Path) -> subprocess.Popen[str]:
    """A process that is in the middle of writing to the place, until it is sent a line."""
    command = [sys.executable, "-c", WRITER, str(place)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    return writer


def test_the_next_writer_removes_what_a_killed_one_left_and_not_what_a_living_one_writes(tmp_path: Path) -> None:
    living, killed, other = (a_writer(tmp_path / name) for name in ("saved", "saved", "saved-2"))
    for writer in (killed, other):
        writer.kill()
        writer.communicate()
    assert len(list(tmp_path.iterdir())) == 3
    write_folder(tmp_path / "saved", "index", ABOUT, ARRAYS)
    left = sorted(path.name.rsplit(".", 2)[0] for path in tmp_path.iterdir())
    assert left == [".saved", ".saved-2", "saved"]  # of the living one, and of another place
    answer, _ = living.communicate("go on\n")
    assert answer == "told\n"  # it came second
    assert sorted(path.name.rsplit(".", 2)[0] for path in tmp_path.iterdir()) == [".saved-2", "saved"]
    write_folder(tmp_path / "saved-2", "index", {}, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved", "saved-2"]
    assert read_folder(tmp_path / "saved", "index")[0] == ABOUT


def test_a_writer_goes_on_while_others_clean_up(tmp_path: Path) -> None:
    abandoned = tmp_path / "saved"
    living = a_writer(abandoned)
    for _ in range(3):
        write_folder(abandoned, "index", ABOUT, ARRAYS)
        shutil.rmtree(abandoned)
    assert living.communicate("go on\n")[0] == "written\n"
    assert read_folder(abandoned, "index")[1]["numbers"].tolist() == list(range(9))


def test_what_another_thread_writes_is_left_alone(tmp_path: Path) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def wait(inside: Path) -> None:
        reached.set()
        go_on.wait(60)

    def write() -> None:
        write_folder(tmp_path / "saved", "index", {"n": 1}, ARRAYS, also=wait)

    thread = threading.Thread(target=write)
    thread.start()
    assert reached.wait(60)
    write_folder(tmp_path / "saved", "index", {"n": 2}, ARRAYS)
    shutil.rmtree(tmp_path / "saved")
    go_on.set()
    thread.join()
    assert read_folder(tmp_path / "saved", "index")[0] == {"n": 1}


def test_only_abandoned_folders_of_the_same_name_are_removed(tmp_path: Path) -> None:
    ours = f".saved.{uuid4().hex}.tmp"
    kept = [
        f".saved.more.{uuid4().hex}.tmp",
        f".save.{uuid4().hex}.tmp",
        ".saved.mine.tmp",
        f".saved.{uuid4().hex}",
        "x",
    ]
    for name in (ours, *kept):
        (tmp_path / name).mkdir()
    kept += [f".saved.{uuid4().hex}.tmp", f".saved.{uuid4().hex}.tmp"]
    (tmp_path / kept[-2]).write_text("a file")
    (tmp_path / kept[-1]).symlink_to(tmp_path / "x")
    write_folder(tmp_path / "saved", "index", {}, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "saved"])


def test_where_folders_cannot_be_locked_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(storage.fcntl, "flock", refuse)
    (tmp_path / f".saved.{uuid4().hex}.tmp").mkdir()
    write_folder(tmp_path / "saved", "index", ABOUT, {})
    assert read_folder(tmp_path / "saved", "index")[0] == ABOUT
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, removed = storage._lock, []

    def late(folder: Path) -> int:
        if not removed:
            removed.append(folder)
            storage._remove_abandoned(tmp_path / "saved")
        return lock(folder)

    monkeypatch.setattr(storage, "_lock", late)
    write_folder(tmp_path / "saved", "index", ABOUT, ARRAYS)
    assert len(removed) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
