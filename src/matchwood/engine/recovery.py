"""A durable engine from disk: the newest valid snapshot and the records after it, or the tables of what is there now.

Records are applied at their own times, so that what had expired then has expired now, and types are learnt in the same
order. What a record holds was accepted once, so it is not measured against limits again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from matchwood.engine.engine import Engine
from matchwood.engine.journal import Chunk, Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.records import (
    Declared,
    Digested,
    Happened,
    Kept,
    Moved,
    Passing,
    Paused,
    Record,
    Resumed,
    Retracted,
    Stayed,
    Subscribed,
    Unsubscribed,
    Updated,
    instant_of,
)
from matchwood.engine.saving import load_engine
from matchwood.engine.tables import Stored
from matchwood.errors import MatchwoodError, QueryError, StorageError
from matchwood.lang.evaluate import Combine
from matchwood.lang.event import Event
from matchwood.lang.json_values import of_json
from matchwood.lang.limits import Limits
from matchwood.schema import Schema
from matchwood.store.scoring import FUNCTION

LOG = logging.getLogger("matchwood")
SNAPSHOTS = "snapshots"
_NO_LIMITS = Limits(max_rows=2**40, max_entries=2**40, max_length=2**40)

Make = Callable[[Schema, str], Engine]
"""Makes an empty engine for a schema and a kind of ids; its clock is a `RecordClock`."""


def scoring_of(journal: Journal, given: str | Combine | None) -> str | Combine | None:
    """The scoring that is given, or else that of the folder."""
    kept: str | None = journal.meta("scoring")
    if given is None and kept == FUNCTION:
        raise QueryError(
            f"{journal.path.parent}: the scoring is a function, which is not stored; pass scoring=FUNCTION"
        )
    return kept if given is None else given


def snapshots(folder: Path) -> list[tuple[int, Path]]:
    """The snapshots in a folder, newest first, by the number of their last record."""
    found = [path for path in (folder / SNAPSHOTS).glob("*") if path.name.isdigit()]
    return sorted(((int(path.name), path) for path in found), reverse=True)


def recover(folder: Path, journal: Journal, make: Make) -> tuple[Engine, int]:
    """The engine as of the last record, and the number of that record. O(bytes + records since the snapshot)."""
    journal.connection.execute("BEGIN")  # one state, while another process writes
    try:
        journal.refresh()
        return _recover(folder, journal, make)
    finally:
        journal.connection.execute("COMMIT")


def _recover(folder: Path, journal: Journal, make: Make) -> tuple[Engine, int]:
    for seq, path in snapshots(folder):
        if not journal.trimmed_changes <= seq <= journal.last:
            continue
        try:
            engine = load_engine(make, path, verify=True)
        except MatchwoodError as error:
            LOG.warning("snapshot %s is not used: %s", path, error)
            continue
        return engine, replay(engine, journal, seq)
    return rebuild(journal, make)


def replay(engine: Engine, journal: Journal, after: int) -> int:
    """Apply the records after a number; return the number of the last one applied."""
    if journal.trimmed_changes > after:
        raise StorageError(f"{journal.path}: records after {after} have been removed; open the folder again")
    trimmed = journal.trimmed
    for chunk in journal.chunks(after, changes_only=True):
        if chunk.first > max(after, trimmed) + 1:
            raise StorageError(
                f"{journal.path}: records {after + 1} to {chunk.first - 1} are missing; restore a backup"
            )
        if chunk.records:
            apply_chunk(engine, chunk)
        after = chunk.last
    return max(after, trimmed)


def apply_chunk(engine: Engine, chunk: Chunk) -> None:
    """Apply the records of one transaction at their time."""
    with _trusting(engine), _clock(engine).frozen(chunk.time):
        number = chunk.first
        for kind, records in groupby(chunk.records, type):
            several = list(records)
            try:
                _APPLY[kind](engine, several)
            except MatchwoodError as error:
                raise StorageError(f"record {number} or one after it cannot be applied: {error}") from error
            number += len(several)


def rebuild(journal: Journal, make: Make) -> tuple[Engine, int]:
    """The engine from the tables of what is there now."""
    about, state = (json.loads(journal.meta(key) or "{}") for key in ("schema", "state"))
    schema = Schema(about.get("types", {}), learn=about.get("learn", True))
    engine = make(schema, journal.meta("ids") or "int")
    with _trusting(engine), _clock(engine).frozen(state.get("time", 0)):
        execute = journal.connection.execute
        alive = "until IS NULL OR until > ?"
        rows = execute(f"SELECT body FROM subscriptions WHERE {alive} ORDER BY position", (state.get("time", 0),))
        bodies = [row[0] for row in rows]
        stored = [msgspec.json.decode(body, type=Stored) for body in bodies]
        _subscribe(engine, [one.record for one in stored])
        for one in stored:
            if one.paused:
                Engine.pause(engine, one.record.id)
        kept = [row[0] for row in execute("SELECT body FROM live ORDER BY number")]
        _keep(engine, [msgspec.json.decode(body, type=Kept) for body in kept])
    engine._subscriptions.next_id = max(engine._subscriptions.next_id, state.get("next_id", 0))
    engine._live.next_id = max(engine._live.next_id, state.get("next_event", 0))
    return engine, journal.last


@contextmanager
def _trusting(engine: Engine) -> Iterator[None]:
    """A block that reads without limits, and takes values of the wrong type as absent."""
    reader = engine._reader
    limits, bad = reader.limits, reader.bad
    reader.limits, reader.bad = _NO_LIMITS, engine.bad_values
    try:
        yield
    finally:
        reader.limits, reader.bad = limits, bad


def _clock(engine: Engine) -> RecordClock:
    clock = engine._clock
    assert isinstance(clock, RecordClock)
    return clock


# One function for each kind of record; all call `Engine` itself, whose subclass records what is changed.


def _subscribe(engine: Engine, records: list[Subscribed]) -> None:
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
    for record in records:
        Engine.update_many(engine, {record.id: changes_of(record)})


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
    if len({record.id for record in records}) < len(records):  # one after the other
        for record in records:
            _move(engine, [record])
        return
    Engine.move_many(engine, [r.id for r in records], [(r.place[0], r.place[1]) for r in records])


def _pause(engine: Engine, records: list[Paused]) -> None:
    for record in records:
        Engine.pause(engine, record.id)


def _resume(engine: Engine, records: list[Resumed]) -> None:
    for record in records:
        Engine.resume(engine, record.id)


def _unsubscribe(engine: Engine, records: list[Unsubscribed]) -> None:
    Engine.unsubscribe_many(engine, [record.id for record in records])


def _keep(engine: Engine, records: list[Kept]) -> None:
    if not records:
        return
    numbers = [record.number for record in records]
    if len(set(numbers)) < len(numbers):
        for record in records:
            _keep(engine, [record])
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


def _skip(engine: Engine, records: list[Passing]) -> None:
    pass


_APPLY: dict[type[Record], Callable[[Engine, Any], None]] = {
    Subscribed: _subscribe,
    Updated: _update,
    Moved: _move,
    Paused: _pause,
    Resumed: _resume,
    Unsubscribed: _unsubscribe,
    Kept: _keep,
    Retracted: _retract,
    Declared: _declare,
    Happened: _skip,
    Digested: _skip,
    Stayed: _skip,
}
