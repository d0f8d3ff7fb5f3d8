"""The work of `matchwood warm`: kernels are compiled into the cache on disk, each part in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

from matchwood.cli.progress import Progress
from matchwood.errors import MatchwoodError
from matchwood.planner import RULES
from matchwood.planner.compiling import compile_ahead, is_compiled, stamp
from matchwood.planner.exercise import LIVE, OTHERS, PARTS
from matchwood.planner.warm import compile_to_disk


def compile_all(*, named: bool) -> None:
    """Compile what `Engine()` uses and, if `named`, what has to be named (other indexes, scoring); say where the kernels are."""
    used = [contender.index for contender in RULES.contenders]
    compile_parts([*used, *OTHERS])
    if named:
        compile_parts([part for part in PARTS if part not in used and part not in OTHERS])
        compile_parts([part for part in PARTS if part not in OTHERS or part == LIVE], scoring=True)
    path = stamp(used[0])
    if path is not None:
        print(f"Everything is compiled, in {path.parents[1]} or in the package.")


def compile_parts(names: Sequence[str], *, scoring: bool = False) -> None:
    """Compile these parts, with a progress bar if there is something to do."""
    missing = [name for name in names if not is_compiled(name, scoring=scoring)]
    if not missing:
        return
    if stamp(missing[0]) is None:
        raise MatchwoodError("no folder for compiled kernels can be written to: set NUMBA_CACHE_DIR to one")
    label = "compiling kernels" + (", scoring" if scoring else "")
    with Progress(label, len(missing)) as bar:
        for done, name in enumerate(missing):
            bar.at(done)
            compile_ahead([name], lambda: None, scoring=scoring, urgent=True)
            compile_to_disk(name, scoring=scoring)  # in this process, if no other one could: it shows the error
