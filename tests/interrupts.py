"""Exceptions raised at every point of a call: at the beginning of every line that it runs in the package, and at every return.

`places(call)` runs the call and lists its points by place in the source; `raised_at(call, point, error)` runs it again and raises
there. Two kinds of lines are left out, since Python raises nothing there by itself: the end of a `with` block, where it gives the
lock back, and a bare `try`. So is the engine's lock, which tests/engine/test_locking.py interrupts where it waits: whoever gives
it back has ended, and has nothing to undo.
"""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import matchwood

PACKAGE = Path(matchwood.__file__).parent
PARTS = ("engine", "structures", "store", "planner", "covering", "schema")
"""What keeps state. Parsing and encoding make new objects only."""
assert all((PACKAGE / part).exists() for part in PARTS), "a part has moved, and would no longer be interrupted"


class _Tracer:
    def __init__(self, target: int | None, error: BaseException | None) -> None:
        self.seen: list[str] = []
        self.where: str | None = None
        self._target, self._error = target, error

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "call" and not _is_watched(frame.f_code.co_filename):
            return None
        if event == "return" and frame.f_code.co_flags & inspect.CO_GENERATOR:
            return self  # one that is dropped ends here, where Python lets no exception out
        if event in ("line", "return") and not _is_left_out(frame, event):
            self.seen.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({event})")
            if len(self.seen) - 1 == self._target and self._error is not None:
                sys.settrace(None)
                self.where = self.seen[-1]
                raise self._error
        return self


@functools.cache
def _is_watched(filename: str) -> bool:
    path = Path(filename)
    return PACKAGE in path.parents and path.relative_to(PACKAGE).parts[0] in PARTS and path.name != "locking.py"


def _is_left_out(frame: FrameType, event: str) -> bool:
    operation = _operations(frame.f_code).get(frame.f_lasti, "") if event == "line" else ""
    if operation in ("LOAD_CONST", "PUSH_EXC_INFO", "WITH_EXCEPT_START", "SWAP"):
        return _is_with(frame.f_code.co_filename, frame.f_lineno)
    return operation == "NOP"


@functools.cache
def _is_with(filename: str, line: int) -> bool:
    return linecache.getline(filename, line).strip().startswith("with ")


@functools.cache
def _operations(code: CodeType) -> dict[int, str]:
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


def places(call: Callable[[], object]) -> dict[str, list[int]]:
    """The points that the call passes, by place in the source."""
    tracer = _Tracer(None, None)
    _run(call, tracer)
    found: dict[str, list[int]] = {}
    for point, place in enumerate(tracer.seen):
        found.setdefault(place, []).append(point)
    return found


def raised_at(call: Callable[[], object], point: int, error: BaseException) -> str | None:
    """Run the call with the exception raised at that point; say where that was, or None if the call ended before."""
    tracer = _Tracer(point, error)
    try:
        _run(call, tracer)
    except BaseException as raised:
        if raised is not error:
            raise
    return tracer.where


def _run(call: Callable[[], object], tracer: _Tracer) -> None:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(before)
