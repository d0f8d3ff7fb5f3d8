"""Kernels that come compiled: a folder laid out like the cache (`jit.cache`), which is only read.

A platform wheel (`make wheel`) carries one, `matchwood/_kernels`, compiled for the processor level x86-64-v3 (AVX2, FMA; nearly
every x86-64 server since 2015). `MATCHWOOD_KERNELS=FOLDER` names another, for example one that a cluster shares;
`MATCHWOOD_KERNELS=0` uses none.

What does not fit is never used: folders and files are named after all that decides the code (sources, versions, compiler
settings, argument types), a file holds its key, which is compared, and the level counts only if this processor has all of its
features and no other processor was chosen by `NUMBA_CPU_NAME` or `NUMBA_CPU_FEATURES`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from llvmlite import binding
from numba.core import config

VARIABLE = "MATCHWOOD_KERNELS"
"""The environment variable that names the folder."""
LEVEL = "x86-64-v3"
LEVEL_FEATURES = frozenset(
    "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave".split()
)

Processor = tuple[str, str, str]
"""Triple, name and features, as in the `magic_tuple` of Numba's code generator."""


def prebuilt_places(name: str, own: Processor) -> Iterator[tuple[Path, Processor]]:
    """The folder of that name, if it came compiled, with each processor whose code runs on this one, which is `own`."""
    given = os.environ.get(VARIABLE)
    folder = (Path(given) if given else Path(__file__).parents[1] / "_kernels") / name
    if folder.is_dir():
        yield folder, own
        if has_level():
            yield folder, (own[0], LEVEL, "")


@functools.cache
def has_level() -> bool:
    """Does this processor have all features of the level, and may they be used?"""
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return False
    try:
        found = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know them on this system
        return False
    return binding.get_process_triple().startswith("x86_64") and all(found.get(f, False) for f in LEVEL_FEATURES)
