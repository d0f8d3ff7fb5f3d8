"""Records applied to an engine: each as if at its own time, so that what had expired then has expired now, and types are learnt
in the same order.

What a record holds was accepted once, so it is not measured against limits again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from matchwood.engine.engine import Engine
from matchwood.engine.journal import Chunk
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.records import (
    Declared,
    Kept,
    Moved,
    Passing,
    Paused,
    Record,
    Resumed,
    Retracted,
    Subscribed,
    Unsubscribed,
    Updated,
    instant_of,
)
from matchwood.errors import MatchwoodError, StorageError
from matchwood.lang.event import Event
from matchwood.lang.json_values import of_json
from matchwood.lang.limits import Limits

RUN = 50_000
"""Records that are applied by one call, at most."""
_NO_LIMITS = Limits(max_rows=2**40, max_entries=2**40, max_length=2**40)


class Replaying:
    """Applies chunks in order. Call `finish` after the last one: until then records may wait.

    Changes of one kind that follow each other, also in several chunks, are made by one call, at the time of the first.
    That is the same as one after the other as long as no subscription is named twice and nothing expires meanwhile.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._run: list[Any] = []  # records of one kind
        self._named: set[int | str | None] = set()  # ids and numbers in the run
        self._first = self._time = 0  # number and time of its first record
        self._ends = math.inf  # when the first thing expires that is there or in the run

    def take(self, chunk: Chunk) -> None:
        """Apply the records of a chunk, or let them wait."""
        for number, record in enumerate(chunk.records, chunk.first):
            if isinstance(record, Passing):
                continue
            if not self._continues(record, chunk.time):
                self.finish()
                self._begin(number, chunk.time)
            self._run.append(record)
            self._named.add(_name_of(record))
            until = getattr(record, "until", None)
            if isinstance(until, int):
                self._ends = min(self._ends, until)

    def finish(self) -> None:
        """Apply what waits."""
        run, self._run = self._run, []
        if not run:
            return
        with trusting(self._engine), clock_of(self._engine).frozen(self._time):
            try:
                _APPLY[type(run[0])](self._engine, run)
            except MatchwoodError as error:
                raise StorageError(f"record {self._first} or one after it cannot be applied: {error}") from error

    def _continues(self, record: Record, time: int) -> bool:
        """May the record be applied together with those that wait?"""
        run = self._run
        if not run or type(run[0]) is not type(record) or len(run) >= RUN:
            return False
        name = _name_of(record)
        return time < self._ends and name is not None and name not in self._named

    def _begin(self, number: int, time: int) -> None:
        engine = self._engine
        self._first, self._time = number, time
        self._named.clear()
        self._ends = min(engine._subscriptions.expiry.earliest, engine._live.expiry.earliest)


def _name_of(record: Record) -> int | str | None:
    """The id of the subscription, or the number of the live event, that a record changes."""
    if isinstance(record, Kept | Retracted):
        return record.number
    return getattr(record, "id", None)


@contextmanager
def trusting(engine: Engine) -> Iterator[None]:
    """A block that reads without limits, and takes values of the wrong type as absent."""
    reader = engine._reader
    limits, bad = reader.limits, reader.bad
    reader.limits, reader.bad = _NO_LIMITS, engine.bad_values
    try:
        yield
    finally:
        reader.limits, reader.bad = limits, bad


def clock_of(engine: Engine) -> RecordClock:
    """The clock of an engine that applies records."""
    clock = engine._clock
    assert isinstance(clock, RecordClock)
    return clock


# One function for each kind of record; all call `Engine` itself, whose subclass records what is changed.


def subscribe(engine: Engine, records: list[Subscribed]) -> None:
    """Add subscriptions."""
    if not records:
        return
    has_place = any(record.place is not None for record in records)
    Engine.subscribe_many(
        engine,
        [record.expression for record in records],
        ids=[record.id for record in records],
        priority=[record.priority for record in records],
        place=[None if r.place is None else (r.place[0], r.place[1]) for r in records] if has_place else None,
        radius=[record.radius for record in records] if has_place else None,
        until=[instant_of(r.until) for r in records] if any(r.until is not None for r in records) else None,
        metadata=[r.metadata for r in records] if any(r.metadata is not None for r in records) else None,
    )


def _update(engine: Engine, records: list[Updated]) -> None:
    Engine.update_many(engine, {record.id: changes_of(record) for record in records})


def changes_of(record: Updated) -> dict[str, Any]:
    """The arguments of `update` that a record stands for."""
    changes: dict[str, Any] = {}
    for name in ("expression", "priority", "metadata"):
        value = getattr(record, name)
        if value is not msgspec.UNSET:
            changes[name] = value
    if record.until is not msgspec.UNSET:
        changes["until"] = instant_of(record.until)
    if record.place is not None:
        changes["place"] = (record.place[0], record.place[1])
    if record.radius is not None:
        changes["radius"] = record.radius
    return changes


def _move(engine: Engine, records: list[Moved]) -> None:
    Engine.move_many(engine, [r.id for r in records], [(r.place[0], r.place[1]) for r in records])


def _pause(engine: Engine, records: list[Paused]) -> None:
    for record in records:
        Engine.pause(engine, record.id)


def _resume(engine: Engine, records: list[Resumed]) -> None:
    for record in records:
        Engine.resume(engine, record.id)


def _unsubscribe(engine: Engine, records: list[Unsubscribed]) -> None:
    Engine.unsubscribe_many(engine, [record.id for record in records])


def keep(engine: Engine, records: list[Kept]) -> None:
    """Add live events of different numbers."""
    if not records:
        return
    events = [Event({n: of_json(v) for n, v in r.values.items()}, r.weights, id=r.number) for r in records]
    found = Engine.publish_many(engine, events, until=[instant_of(r.until) for r in records], k=1, replace=True)
    for error in found.rejected.values():
        raise error


def _retract(engine: Engine, records: list[Retracted]) -> None:
    for record in records:
        Engine.retract(engine, record.number)


def _declare(engine: Engine, records: list[Declared]) -> None:
    for record in records:
        declare(engine, record)


def declare(engine: Engine, record: Declared) -> None:
    """Give attributes their types; all or none."""
    with engine._changes, engine._lock.write(), engine.schema.tentatively():
        for name, type_ in record.attributes.items():
            engine.schema.declare(name, type_)
        engine.schema.learn = not record.closed
        engine._live.settle(engine.schema, engine.bad_values)


_APPLY: dict[type[Any], Callable[[Engine, Any], None]] = {
    Subscribed: subscribe,
    Updated: _update,
    Moved: _move,
    Paused: _pause,
    Resumed: _resume,
    Unsubscribed: _unsubscribe,
    Kept: keep,
    Retracted: _retract,
    Declared: _declare,
}
