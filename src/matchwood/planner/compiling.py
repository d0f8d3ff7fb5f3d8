"""Compiling ahead: another process compiles the kernels of the contenders into the cache on disk.

Compiling takes minutes on a new machine, and holds the locks of the interpreter and of Numba: in the planner's thread it would
slow down every call and delay every fork and the exit. So the thread starts `python -m matchwood.planner.warm NAME` and waits,
while the engine serves with the current structure. When a structure is done, the process leaves a *stamp* beside the kernels,
whose name contains all that decides whether they can be used: sources, versions, processor. If the stamp exists, no process is
started.

The thread compiles itself if the cache is not writable, if there is no interpreter to start, or with MATCHWOOD_COMPILE_AHEAD=0.
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
POLL = 0.05  # seconds between two checks of the process

SPAWNING = threading.Lock()
"""Held while a process is started: a fork at that moment would inherit the pipe that signals the start."""

_failed: set[Path] = set()  # stamps that a process ended without leaving


def compile_ahead(names: Iterable[str], check: Callable[[], None], *, scoring: bool = False) -> None:
    """Compile the kernels of these structures to disk, if that is possible, and wait for it. `check` may raise to stop it."""
    stamps = {name: stamp(name, scoring=scoring) for name in names} if _can_start() else {}
    missing = {n: path for n, path in stamps.items() if path and path not in _failed and not path.exists()}
    for (
        name,
        path,
    ) in missing.items():  # one after the other: compiling takes memory, which a process frees when it ends
        _compile(name, check, scoring=scoring)
        if not path.exists():
            _failed.add(path)


def stamp(name: str, *, scoring: bool = False) -> Path | None:
    """The file that marks the kernels of a structure as compiled; None if there is no cache on disk.

    With `scoring`: the kernels for a scoring function other than the sum.
    """
    folder = cache_folder(_sources(name), str(config.CACHE_DIR), bool(config.BOUNDSCHECK))
    processor = hashlib.sha256(repr(cpu_target.target_context.codegen().magic_tuple()).encode()).hexdigest()[:16]
    return None if folder is None else folder / f"{name}{'-scoring' * scoring}.{processor}.compiled"


@functools.cache
def _sources(name: str) -> str:
    """A fingerprint of all kernels and of the code that decides which of them the structure calls."""
    package = Path(__file__).parents[1]
    known = [".".join(path.relative_to(package).with_suffix("").parts) for path in package.glob("**/kernels/*.py")]
    owners = [sys.modules[INDEXES[name].__module__].__file__, str(Path(__file__).with_name("warm.py"))]
    own = [Path(owner).read_bytes() for owner in owners if owner]
    imports = [f"import matchwood.{module}".encode() for module in sorted(known)]
    return fingerprint(files("matchwood"), b"\n".join([*own, *imports]))


def _can_start() -> bool:
    """Is there an interpreter to start? An application that embeds Python has itself as `sys.executable`."""
    usual = os.path.basename(sys.executable or "").startswith("python") and not getattr(sys, "frozen", False)
    return usual and os.environ.get(VARIABLE) != "0"


def _compile(name: str, check: Callable[[], None], *, scoring: bool) -> None:
    """Run the process and wait for it; an exception while waiting ends it."""
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
    """The process, with the module path of this one; None if it cannot be started."""
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    with contextlib.suppress(OSError), SPAWNING:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "matchwood.planner.warm", *arguments],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must reach only the program, which may continue
        )
    return None
