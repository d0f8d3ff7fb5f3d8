"""Warm: compile the kernels of parts of an engine into the cache on disk, in this process.

    python -m matchwood.planner.warm [--scoring] [--parent PID] PART...

The planner starts it as a process of its own (`compiling`), and so does `matchwood warm`, once for each part: compiling takes
memory, which a process frees when it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from matchwood.planner.compiling import is_compiled, stamp
from matchwood.planner.exercise import PARTS, exercise

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None  # type: ignore[assignment]

NICENESS = 10
"""Of a process that compiles for another one: the calls of that one come first."""


def main() -> None:
    """Compile the parts that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m matchwood.planner.warm", description="compile kernels to disk")
    parser.add_argument("--scoring", action="store_true", help="for a scoring function other than the sum")
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process is no longer the parent")
    parser.add_argument("--nice", action="store_true", help="let other processes run first")
    parser.add_argument("names", nargs="+", choices=sorted(PARTS), metavar="PART", help="an index, or another part")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        threading.Thread(target=_end_without, args=(arguments.parent,), daemon=True).start()
    if arguments.nice:
        os.nice(NICENESS)
    for name in arguments.names:
        compile_to_disk(name, scoring=arguments.scoring)


def compile_to_disk(name: str, *, scoring: bool = False) -> None:
    """Compile the part and leave the stamp, unless that was done before. Waits if another process is doing it."""
    path = stamp(name, scoring=scoring)
    if path is None:
        return
    with _alone(path.with_suffix(".lock")):
        if not is_compiled(name, scoring=scoring):
            exercise(name, scoring=scoring)
            path.touch()


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock between processes, which ends with the process. Without such locks, kernels may be compiled twice."""
    with path.open("w") as file:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _end_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
