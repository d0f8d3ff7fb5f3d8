"""The decorators of compiled code, and the cache on disk behind them."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba import cfunc
from numba.core import config
from numba.core.errors import NumbaError

from matchwood.jit import cache
from matchwood.jit.decorators import helper, kernel
from tests.jit.installation import INNER, PROGRAM


@kernel
def total(values):
    s = 0.0
    for i in range(len(values)):
        s += values[i]
    return s


@helper
def scaled(value):
    return value * 3.0


@kernel
def scaled_total(values):
    s = 0.0
    for i in range(len(values)):
        s += scaled(values[i])
    return s


@kernel
def quotient(a, b):
    return a / b


@kernel
def folded(combine, values):
    s = 0.0
    for i in range(len(values)):
        s = combine(s, values[i])
    return s


@kernel
def allocating(n):
    return np.empty(n)


@cfunc("float64(float64, float64)")
def larger(a, b):
    return max(a, b)


def test_kernels_and_helpers_compute():
    assert total(np.arange(5.0)) == 10.0
    assert scaled_total(np.arange(5.0)) == 30.0


def test_a_division_by_zero_gives_infinity():
    assert quotient(1.0, 0.0) == np.inf


def test_an_allocating_kernel_does_not_compile():
    with pytest.raises(NumbaError):
        allocating(3)


def test_a_kernel_counts_no_references():
    fresh = kernel(total.py_func)
    fresh._cache.disable()  # code that came from disk cannot be inspected
    fresh(np.arange(5.0))
    (code,) = fresh.inspect_llvm().values()
    assert "NRT_incref" not in code
    assert "NRT_decref" not in code


def test_a_kernel_takes_a_compiled_callback():
    assert folded(larger, np.array([1.0, 7.0, 3.0])) == 7.0


def test_a_second_process_finds_every_kernel_on_disk(installation):
    assert installation.run()[:3] == ([12.0, 6.0], 0, 2)
    assert installation.run()[:3] == ([12.0, 6.0], 2, 0)


def test_a_changed_callee_in_another_file_is_noticed(installation):
    _, _, _, before = installation.run()
    installation.write_inner(INNER.replace("2.0", "5.0"))
    results, hits, _, after = installation.run()
    assert results == [30.0, 6.0]
    assert hits == 0
    assert before != after


def outer_fingerprint(installation):
    return cache.fingerprint(
        installation.package, (installation.package / "structures/toy/kernels/outer.py").read_bytes()
    )


@pytest.mark.parametrize(
    "changed",
    [
        "structures/toy/kernels/outer.py",
        "structures/toy/kernels/inner.py",
        "jit/decorators.py",
        "jit/linking.py",
        "jit/cache.py",
    ],
)
def test_a_change_behind_a_kernel_changes_its_fingerprint(installation, changed):
    before = outer_fingerprint(installation)
    assert before == outer_fingerprint(installation)
    with (installation.package / changed).open("a") as source:
        source.write("\n")
    assert outer_fingerprint(installation) != before


def test_a_change_elsewhere_leaves_a_kernel_compiled(installation):
    before = outer_fingerprint(installation)
    (installation.package / "structures/toy/kernels/other.py").write_text("# another structure\n")
    (installation.package / "geo.py").write_text("# not imported\n")
    assert outer_fingerprint(installation) == before


@pytest.mark.parametrize(
    "line",
    [
        "from matchwood.structures.toy.kernels.inner import twice",
        "from matchwood.structures.toy.kernels import inner",
        "from matchwood.structures.toy.kernels import (\n    outer,\n    inner,\n)",
        "import matchwood.structures.toy.kernels.inner",
        "if True:\n    from matchwood.structures.toy.kernels.inner import (\n        twice,\n    )",
    ],
)
def test_every_way_to_import_is_noticed(installation, line):
    before = cache.fingerprint(installation.package, line.encode())
    installation.write_inner(INNER + "\n")
    assert cache.fingerprint(installation.package, line.encode()) != before


def test_without_a_writable_folder_kernels_still_run(installation):
    blocked = installation.folder / "a-file"
    blocked.touch()
    nowhere = str(blocked / "below")
    program = f"import tempfile; tempfile.tempdir = {nowhere!r}\n{PROGRAM}"
    for _ in range(2):
        results, hits, misses, path = installation.run(program, NUMBA_CACHE_DIR=nowhere, XDG_CACHE_HOME=nowhere)
        assert (results, hits, misses, path) == ([12.0, 6.0], 0, 2, "None")


def test_an_unwritable_cache_folder_gives_way_to_the_next(tmp_path, monkeypatch):
    blocked = tmp_path / "a-file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    folder = cache.cache_folder.__wrapped__("f", str(blocked / "below"), False)
    assert folder.parent == tmp_path / "user" / "matchwood"

    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked / "below"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = cache.cache_folder.__wrapped__("f", "", False)
    assert folder.parent.parent == tmp_path


def test_a_temp_folder_that_others_can_write_to_is_refused(tmp_path, monkeypatch):
    blocked = tmp_path / "a-file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = cache._private_temp_folder()
    folder.chmod(0o777)
    assert cache.cache_folder.__wrapped__("f", "", False) is None


def test_bounds_checked_code_has_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "BOUNDSCHECK", None)
    plain = total.stats.cache_path
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    checked = total.stats.cache_path
    assert plain != checked
    assert Path(plain).parent == Path(checked).parent == tmp_path / "matchwood"


def test_bounds_checking_finds_an_index_past_the_end(installation):
    program = """
import numpy as np
from matchwood.jit.decorators import helper, kernel

@helper
def item(values, at):
    return values[at]

@kernel
def item_of(values, at):
    return item(values, at)

try:
    item_of(np.arange(4.0), 7)
    print(0.0, 0, 0, "-")
except IndexError:
    print(1.0, 0, 0, "-")
"""
    assert installation.run(program, NUMBA_BOUNDSCHECK="1")[0] == [1.0]


def test_a_damaged_file_is_compiled_anew(installation):
    _, _, _, path = installation.run()
    for kept in Path(path).iterdir():
        kept.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2])
    assert installation.run()[:3] == ([12.0, 6.0], 0, 2)
    assert installation.run()[:3] == ([12.0, 6.0], 2, 0)


def test_processes_that_start_at_once_share_one_folder(installation):
    with ThreadPoolExecutor(3) as threads:
        runs = list(threads.map(lambda _: installation.run(), range(3)))
    assert [results for results, *_ in runs] == [[12.0, 6.0]] * 3
    kept = list(Path(runs[0][3]).iterdir())
    assert len(kept) == 2  # two kernels; their helper has a folder of its own; no drafts left behind
    assert installation.run()[1:3] == (2, 0)


def test_folders_unused_for_a_month_are_removed(tmp_path):
    old, recent, foreign = tmp_path / "kernels-old", tmp_path / "kernels-recent", tmp_path / "other"
    for folder, days in [(old, 31), (recent, 29), (foreign, 99)]:
        folder.mkdir()
        (folder / "content").touch()
        used = time.time() - days * 86_400
        os.utime(folder, (used, used))
    cache.prune(tmp_path)
    assert not old.exists()
    assert recent.exists()
    assert foreign.exists()


def test_the_caches_of_other_numba_code_stay_where_they_were():
    assert config.CACHE_DIR == os.environ.get("NUMBA_CACHE_DIR", "")
    assert not config.CACHE_LOCATOR_CLASSES
