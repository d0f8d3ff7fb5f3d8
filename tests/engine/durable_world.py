"""Random changes of an engine, the same for every engine of one seed, and a file system that fails or kills when told."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import apsw

from matchwood import Engine, Event, ManualClock, MatchwoodError
from matchwood.engine.comparing import comparable

START = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS: list[dict[str, Any]] = [
    {"age": 3, "plan": "a"},
    {"age": 7, "plan": "b", "new": 2},
    {"age": 7, "place": {"lon": 10.0, "lat": 59.0}},
    {"new": 1},
]

BASE = apsw.vfs_names()[0]
Step = tuple[str, dict[str, Any]]


def steps(seed: int, count: int) -> Iterator[Step]:
    """`count` random changes; some are refused by every engine."""
    rng = random.Random(seed)

    def until() -> str | None:
        return rng.choice([None, None, f"2026-01-01T00:{rng.randrange(1, 40):02d}:00Z"])

    def expression() -> str:
        return rng.choice(
            [
                f"age > {rng.randrange(9)}",
                f"plan IN ('a', '{rng.choice('bcd')}') ^0.5 OR age = {rng.randrange(9)}",
                f"new < {rng.randrange(4)}",
                "new = 'text'",  # refused once `new` is a number
                "age >",
            ]
        )

    for _ in range(count):
        id_ = f"s{rng.randrange(12)}"
        kind = rng.choice(
            "subscribe subscribe many update priority pause resume move remove event retract tick".split()
        )
        if kind in ("subscribe", "update"):
            place = rng.choice([{}, {}, {"place": (10.0, 59.0), "radius": 500.0}])
            yield kind, {"id": id_, "expression": expression(), "until": until(), **place}
        elif kind == "many":
            first = rng.randrange(12)
            yield (
                kind,
                {
                    "ids": [f"s{first}", f"s{first + 1}"],
                    "expressions": [expression(), "age < 4"],
                    "metadata": [1, {"a": None}],
                },
            )
        elif kind == "priority":
            yield kind, {"id": id_, "priority": float(rng.randrange(5))}
        elif kind == "move":
            yield kind, {"id": id_, "place": (10.0 + rng.randrange(3) / 1000, 59.0)}
        elif kind == "event":
            event = Event(rng.choice(EVENTS), id=rng.randrange(6))
            yield kind, {"event": event, "until": until() or "9999-01-01"}
        elif kind == "retract":
            yield kind, {"event_id": rng.randrange(6)}
        elif kind == "tick":
            yield kind, {"seconds": rng.randrange(1, 200)}
        else:
            yield kind, {"id": id_}


def take(engine: Engine, clock: ManualClock, step: Step) -> None:
    """Make a change; one that the engine refuses is none. Errors of the disk are raised."""
    from matchwood.errors import JournalError

    kind, given = step
    calls: dict[str, Callable[..., Any]] = {
        "subscribe": engine.subscribe,
        "many": engine.subscribe_many,
        "update": engine.update,
        "priority": engine.set_priority,
        "pause": engine.pause,
        "resume": engine.resume,
        "move": engine.move,
        "remove": engine.unsubscribe,
        "event": engine.publish,
        "retract": engine.retract,
        "tick": clock.advance,
    }
    try:
        calls[kind](**given)
    except JournalError:
        raise
    except MatchwoodError:
        pass


def answers(engine: Engine) -> Any:
    """Everything a user can see of an engine."""
    known = sorted(engine.subscriptions(), key=lambda s: str(s.id))
    matches = [_matches(engine, event) for event in EVENTS]
    live = {s.id: engine.live(s.id) for s in known}
    return (
        [(one.id, comparable(one)) for one in known],
        matches,
        live,
        {name: a.type for name, a in engine.schema.attributes.items() if a.type},
    )


def _matches(engine: Engine, event: dict[str, Any]) -> Any:
    try:
        return engine.match(event, metadata=True)
    except MatchwoodError as error:
        return str(error)


class Trap:
    """Does something at the nth operation of a kind on a file whose name ends in `suffix`: before it, or after."""

    def __init__(self, operation: str, suffix: str, nth: int, act: Callable[[], None], *, after: bool = False) -> None:
        self.operation, self.suffix, self.left, self.act, self.after = operation, suffix, nth, act, after

    def hit(self, operation: str, name: str) -> bool:
        if operation != self.operation or not name.endswith(self.suffix):
            return False
        self.left -= 1
        return self.left == 0


def kill() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class _File(apsw.VFSFile):
    def __init__(self, trap: Trap, name: Any, flags: Any) -> None:
        super().__init__(BASE, name, flags)
        self._trap, self._name = trap, name.filename() if hasattr(name, "filename") else str(name)

    def _do(self, operation: str, call: Callable[..., Any], *given: Any) -> Any:
        due = self._trap.hit(operation, self._name)
        if due and not self._trap.after:
            self._trap.act()
        found = call(*given)
        if due and self._trap.after:
            self._trap.act()
        return found

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._do("write", super().xWrite, data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._do("sync", super().xSync, flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._do("truncate", super().xTruncate, size)


class _Vfs(apsw.VFS):
    def __init__(self, trap: Trap) -> None:
        self._trap = trap
        super().__init__("trapped", BASE, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> Any:  # noqa: N802
        return _File(self._trap, name, flags)


@contextmanager
def trapped(trap: Trap) -> Iterator[None]:
    """A block in which SQLite's files have this trap."""
    vfs = _Vfs(trap)
    try:
        yield
    finally:
        with suppress(Exception):
            vfs.unregister()


_SET: list[_Vfs] = []


def set_trap(trap: Trap) -> None:
    """Let SQLite's files have this trap from now on."""
    _SET.append(_Vfs(trap))  # one that nothing refers to is unregistered
