"""Scripts of their own processes, whose planner finds none of its contenders' kernels compiled, and so compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PRELUDE = """
import os, signal, sys, threading, time
from matchwood import Engine, MatchwoodError
def engine_at_work(least=4200):
    engine = Engine()
    engine.subscribe_many([f"x BETWEEN {i} AND {i + 2}" for i in range(4000)])
    for i in range(4000, least):
        engine.subscribe(f"x BETWEEN {i} AND {i + 2}")
    assert found(engine, 7) == [5, 6, 7]
    return engine
def found(engine, x):
    return [match.id for match in engine.match({"x": x})]
def await_work(engine):
    while not engine._index._background.running:
        found(engine, 7)
def use(engine):
    assert found(engine, 7) == [5, 6, 7]
    new = engine.subscribe("x = 9.5")
    assert found(engine, 9.5) == [8, 9, new]
    engine.unsubscribe(new)
    assert found(engine, 9.5) == [8, 9]
def in_a_child(work, seconds=60):
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(seconds)
            work()
            os._exit(0)
        except BaseException as error:
            print("in the child:", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    return child
def ended(child):
    _, status = os.waitpid(child, 0)
    assert status == 0, f"child: {os.waitstatus_to_exitcode(status)}"
"""
RECORD = """
from pathlib import Path
from matchwood.jit import cache as _cache
paths, path_of = set(), _cache.KernelCache._path
def recorded(self, key):
    path = path_of(self, key)
    if path is not None:
        paths.add(str(path))
    return path
_cache.KernelCache._path = recorded
engine = engine_at_work(4000)
use(engine)
print(*paths, sep="\\n")
"""


@dataclass
class Ended:
    """How a script ended."""

    code: int
    out: str
    errors: str
    lasted: float
    """Seconds from its last word to the end of its process."""


class Machine:
    """A cache of kernels that holds what an engine of few rows needs, and nothing of the planner's contenders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used: list[Path] = []

    def prepare(self) -> Machine:
        """Compile what is needed, if it is not in the usual cache, and note which files it is."""
        done = self._start(PRELUDE + RECORD, dict(os.environ))
        out, errors = done.communicate(timeout=280)
        assert done.returncode == 0, errors
        self._used = [Path(line) for line in out.splitlines()]
        return self

    def start(self, script: str, *, ahead: bool = True) -> subprocess.Popen[str]:
        """Begin a script on a machine of its own."""
        cache = self._folder / f"cache-{time.monotonic_ns()}"
        for path in self._used:
            if path.exists():
                there = cache / "matchwood" / path.parent.name
                there.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, there)
        settings = {"NUMBA_CACHE_DIR": str(cache), "MATCHWOOD_COMPILE_AHEAD": str(int(ahead))}
        return self._start(PRELUDE + script, {**os.environ, **settings})

    def run(self, script: str, *, ahead: bool = True, timeout: float = 120) -> Ended:
        """Run a script; `lasted` counts from the time that it prints last."""
        process = self.start(script, ahead=ahead)
        try:
            out, errors = process.communicate(timeout=timeout)
        finally:
            process.kill()
            process.wait()
        end, last = time.time(), (out.split() or ["0"])[-1]
        return Ended(process.returncode, out, errors, end - float(last) if last.replace(".", "").isdigit() else 0.0)

    def compilers(self) -> list[int]:
        """The processes that compile for scripts of this machine."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            except OSError:
                continue
            if b"matchwood.planner.warm" in line and str(self._folder).encode() in environment:
                found.append(int(process.name))
        return found

    def _start(self, script: str, environment: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
