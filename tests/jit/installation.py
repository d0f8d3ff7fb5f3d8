"""A copy of `matchwood.jit` with kernels of its own, which tests change and run in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import matchwood

PACKAGE = Path(matchwood.__file__).parent

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
        jit = [f"jit/{name}.py" for name in ("__init__", "cache", "decorators", "linking", "prebuilt", "state")]
        for name in ["geo.py", "encode/arrays.py", *jit]:
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
