"""Compiling ahead: kernels of structures to be tried are compiled by another process, which fills the cache on disk.

Compiling takes minutes on a new machine, and holds the interpreter's lock and Numba's: in the planner's thread it would slow
down every call and delay every fork and the exit. So the thread starts `python -m matchwood.planner.warm NAME` and
waits; the engine serves with what it has. When a structure is done, the process leaves a *stamp* beside the kernels, named by
all that decides whether they can be used: sources, versions, processor. Where the stamp is there no process is started.

Without a cache that can be written to, without an interpreter to start, or with MATCHWOOD_COMPILE_AHEAD=0, the thread compiles.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path

from numba.core import config
from numba.core.registry import cpu_target

from matchwood.jit.cache import cache_folder, fingerprint
from matchwood.structures import INDEXES

VARIABLE = "MATCHWOOD_COMPILE_AHEAD"
"""The environment variable that, set to 0, leaves compiling to the planner's thread."""
POLL = 0.05  # seconds between two looks at the process

SPAWNING = threading.Lock()
"""Held while a process is started: a fork at that moment would inherit the pipe on which its start is awaited."""

_given_up: set[Path] = set()  # stamps that a process of ours ended without leaving


def compile_ahead(names: Iterable[str], check: Callable[[], None], *, scoring: bool = False) -> None:
    """Return when the kernels of these structures are on disk, or cannot be put there. `check` may raise: then all is stopped."""
    stamps = {name: stamp(name, scoring=scoring) for name in names} if _can_start() else {}
    missing = {n: path for n, path in stamps.items() if path and path not in _given_up and not path.exists()}
    for name, path in missing.items():  # one by one: compiling takes memory, which a process gives back when it ends
        _compile(name, check, scoring=scoring)
        if not path.exists():
            _given_up.add(path)


def stamp(name: str, *, scoring: bool = False) -> Path | None:
    """The file that says that the structure's kernels are compiled; None where nothing can be kept on disk.

    With `scoring`: those for a scoring function other than the sum.
    """
    folder = cache_folder(_sources(name), str(config.CACHE_DIR), bool(config.BOUNDSCHECK))
    processor = hashlib.sha256(repr(cpu_target.target_context.codegen().magic_tuple()).encode()).hexdigest()[:16]
    return None if folder is None else folder / f"{name}{'-scoring' * scoring}.{processor}.compiled"


@functools.cache
def _sources(name: str) -> str:
    """A fingerprint of all kernels and of what decides which of them the structure calls."""
    package = Path(__file__).parents[1]
    known = [".".join(path.relative_to(package).with_suffix("").parts) for path in package.glob("**/kernels/*.py")]
    owners = [sys.modules[INDEXES[name].__module__].__file__, str(Path(__file__).with_name("warm.py"))]
    own = [Path(owner).read_bytes() for owner in owners if owner]
    imports = [f"import matchwood.{module}".encode() for module in sorted(known)]
    return fingerprint(files("matchwood"), b"\n".join([*own, *imports]))


def _can_start() -> bool:
    """Is there an interpreter to start? An application that embeds or packs Python names itself as `sys.executable`."""
    usual = os.path.basename(sys.executable or "").startswith("python") and not getattr(sys, "frozen", False)
    return usual and os.environ.get(VARIABLE) != "0"


def _compile(name: str, check: Callable[[], None], *, scoring: bool) -> None:
    """Run the process and wait for it; it ends with the wait."""
    process = _started([f"--parent={os.getpid()}", *["--scoring"] * scoring, name])
    if process is None:
        return
    try:
        while process.poll() is None:
            check()
            time.sleep(POLL)
    finally:
        process.kill()
        process.wait()


def _started(arguments: list[str]) -> subprocess.Popen[bytes] | None:
    """The process, with the modules that this one has; None if it cannot be started."""
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    with contextlib.suppress(OSError), SPAWNING:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "matchwood.planner.warm", *arguments],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the program, which may go on
        )
    return None
