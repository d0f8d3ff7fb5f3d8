"""The decorators of compiled code, and the cache on disk behind them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba import cfunc
from numba.core import config
from numba.core.errors import NumbaError

import matchwood
from matchwood.jit import cache
from matchwood.jit.decorators import helper, kernel

PACKAGE = Path(matchwood.__file__).parent


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


# Calls a kernel whose helper is in another file; prints results, hits and misses of the disk cache, and its folder.
PROGRAM = """
import numpy as np
from numba import cfunc
from matchwood.structures.toy.kernels.outer import apply, twice_all

@cfunc("float64(float64, float64)")
def add(a, b):
    return a + b

result = twice_all(np.arange(4.0)), apply(add, np.arange(4.0))
stats = [twice_all.stats, apply.stats]
hits = sum(sum(s.cache_hits.values()) for s in stats)
misses = sum(sum(s.cache_misses.values()) for s in stats)
print(*map(float, result), hits, misses, stats[0].cache_path)
"""

OUTER = """
from matchwood.jit.decorators import kernel
from matchwood.structures.toy.kernels.inner import twice

@kernel
def twice_all(values):
    s = 0.0
    for i in range(len(values)):
        s += twice(values[i])
    return s

@kernel
def apply(combine, values):
    s = 0.0
    for i in range(len(values)):
        s = combine(s, values[i])
    return s
"""

INNER = """
from matchwood.jit.decorators import helper

@helper
def twice(x):
    return x * 2.0
"""


class Installation:
    """A copy of the package with two kernel files of our own, run in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "site" / "matchwood"
        for name in ["geo.py", "encode/arrays.py", "jit/__init__.py", "jit/decorators.py", "jit/cache.py"]:
            (self.package / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PACKAGE / name, self.package / name)
        for name in ["__init__.py", "encode/__init__.py", "structures/toy/kernels/__init__.py"]:
            (self.package / name).parent.mkdir(parents=True, exist_ok=True)
            (self.package / name).touch()
        (self.package / "structures/toy/kernels/outer.py").write_text(OUTER)
        self.write_inner(INNER)

    def write_inner(self, source: str) -> None:
        (self.package / "structures/toy/kernels/inner.py").write_text(source)

    def run(self, program: str = PROGRAM, **environment: str) -> tuple[list[float], int, int, str]:
        """Results, cache hits, cache misses and cache folder of one process."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_", "COV_"))}
        site = str(self.folder / "site")
        defaults = {"PYTHONPATH": site, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(self.folder / "cache")}
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(
            command, env={**inherited, **defaults, **environment}, capture_output=True, text=True, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr
        *results, hits, misses, path = done.stdout.split(maxsplit=4)
        return [float(result) for result in results], int(hits), int(misses), path.strip()


@pytest.fixture
def installation(tmp_path):
    return Installation(tmp_path)


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
    ["structures/toy/kernels/outer.py", "structures/toy/kernels/inner.py", "jit/decorators.py", "jit/cache.py"],
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
