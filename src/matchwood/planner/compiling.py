"""Compiling ahead: another process compiles the kernels of parts of an engine into the cache on disk.

Compiling takes a minute on a new machine, and holds the locks of the interpreter and of Numba: in the planner's thread it would
slow down every call and delay every fork and the exit. So the thread starts `python -m matchwood.planner.warm PART` and waits,
while the engine serves with what is compiled. When a part is done, the process leaves a *stamp* beside the kernels, whose name
contains all that decides whether they can be used: sources, versions, processor. If the stamp exists, in the cache or among the
kernels that came compiled (`jit.prebuilt`), no process is started.

The thread compiles itself if the cache is not writable, if there is no interpreter to start, or with MATCHWOOD_COMPILE_AHEAD=0.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from numba.core import config
from numba.core.registry import cpu_target

from matchwood.jit.cache import cache_folder, fingerprint, folder_name
from matchwood.jit.prebuilt import Processor, prebuilt_places
from matchwood.structures import INDEXES

VARIABLE = "MATCHWOOD_COMPILE_AHEAD"
"""The environment variable that, set to 0, leaves compiling to the planner's thread."""
POLL = 0.05  # seconds between two checks of the process
LOG = logging.getLogger("matchwood")

_PACKAGE = Path(__file__).parents[1]

SPAWNING = threading.Lock()
"""Held while a process is started: a fork at that moment would inherit the pipe that signals the start."""

_found: set[tuple[str, bool, str]] = set()  # parts whose stamp was seen, with the cache that was in use
_failed: set[Path] = set()  # stamps that a process ended without leaving
_one_at_a_time = threading.Lock()  # compiling takes memory and a processor


def is_compiled(name: str, *, scoring: bool = False) -> bool:
    """Are the kernels of a part compiled, in the cache or in the package?

    With `scoring`: those for a scoring function other than the sum.
    """
    key = name, scoring, str(config.CACHE_DIR)
    if key not in _found and any(path.exists() for path in _stamps(name, scoring)):
        _found.add(key)
    return key in _found


def is_available(name: str, *, scoring: bool = False) -> bool:
    """Are the kernels of a part compiled, or can no other process compile them, so that there is nothing to wait for?"""
    if is_compiled(name, scoring=scoring) or not _can_start():
        return True
    path = stamp(name, scoring=scoring)
    return path is None or path in _failed


def compile_ahead(
    names: Iterable[str], check: Callable[[], None], *, scoring: bool = False, urgent: bool = False
) -> None:
    """Compile the kernels of these parts to disk, if that is possible, and wait for it. `check` may raise to stop it.

    One after the other, and one at a time in this process: compiling takes memory, which a process frees when it ends.
    At low priority, unless it is urgent.
    """
    options = [*["--nice"] * (not urgent), *["--scoring"] * scoring]
    for name in names:
        if not is_available(name, scoring=scoring):
            with _alone(check):
                if not is_available(name, scoring=scoring):
                    _compile({name: options}, check)


def compile_now(names: Iterable[str], what: str, *, scoring: bool = False) -> None:
    """Compile parts that a call cannot do without, at the same time; the log says what the call waits for. Ctrl-C ends it."""
    missing = [name for name in names if not is_available(name, scoring=scoring)]
    if missing:
        LOG.warning(
            "waiting a few seconds while %s is compiled, once on this machine; `matchwood warm` does it ahead", what
        )
        _compile({name: ["--scoring"] * scoring for name in missing}, lambda: None)


def stamp(name: str, *, scoring: bool = False) -> Path | None:
    """The file that marks the kernels of a part as compiled, in the cache; None if there is no cache on disk."""
    folder = cache_folder(_sources(name), str(config.CACHE_DIR), bool(config.BOUNDSCHECK))
    return None if folder is None else folder / _stamp_name(name, scoring, _processor())


def _stamps(name: str, scoring: bool) -> Iterator[Path]:
    """Where the stamp of a part may be."""
    own = stamp(name, scoring=scoring)
    if own is not None:
        yield own
    for folder, processor in prebuilt_places(folder_name(_sources(name), bool(config.BOUNDSCHECK)), _processor()):
        yield folder / _stamp_name(name, scoring, processor)


def _stamp_name(name: str, scoring: bool, processor: Processor) -> str:
    return f"{name}{'-scoring' * scoring}.{hashlib.sha256(repr(processor).encode()).hexdigest()[:16]}.compiled"


def _processor() -> Processor:
    processor: Processor = cpu_target.target_context.codegen().magic_tuple()
    return processor


@functools.cache
def _sources(name: str) -> str:
    """A fingerprint of all kernels and of the code that decides which of them the part calls."""
    if name in INDEXES:
        owner = sys.modules[INDEXES[name].__module__].__file__ or ""
    else:
        owner = str(_PACKAGE / ("structures/live/index.py" if name.startswith("live") else "covering/cover_index.py"))
    own = [Path(path).read_bytes() for path in (owner, Path(__file__).with_name("exercise.py"))]
    return hashlib.sha256(b"\0".join([_all_kernels().encode(), *own])).hexdigest()[:16]


@functools.cache
def _all_kernels() -> str:
    known = [".".join(path.relative_to(_PACKAGE).with_suffix("").parts) for path in _PACKAGE.glob("**/kernels/*.py")]
    imports = [f"import matchwood.{module}".encode() for module in sorted(known)]
    return fingerprint(files("matchwood"), b"\n".join(imports))


def _can_start() -> bool:
    """Is there an interpreter to start? An application that embeds Python has itself as `sys.executable`."""
    usual = os.path.basename(sys.executable or "").startswith("python") and not getattr(sys, "frozen", False)
    return usual and os.environ.get(VARIABLE) != "0"


@contextlib.contextmanager
def _alone(check: Callable[[], None]) -> Iterator[None]:
    while not _one_at_a_time.acquire(timeout=POLL):
        check()
    try:
        yield
    finally:
        _one_at_a_time.release()


def _compile(options: dict[str, list[str]], check: Callable[[], None]) -> None:
    """Run a process for each part, with these options, and wait for all; an exception while waiting ends them."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name, words in options.items():
            process = _started([f"--parent={os.getpid()}", *words, name])
            if process is not None:
                processes.append(process)
        while any(process.poll() is None for process in processes):
            check()
            time.sleep(POLL)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for name, words in options.items():
        path = stamp(name, scoring="--scoring" in words)
        if path is not None and not path.exists():
            _failed.add(path)


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


def _after_fork() -> None:
    """In a new process: the thread that held the lock does not exist here."""
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
