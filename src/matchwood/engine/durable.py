"""`Engine.open`: an engine whose every acknowledged change survives a crash.

    FOLDER/journal.db        what has changed (`journal`)
    FOLDER/snapshots/SEQ/    engines as `save` writes them, by the number of their last record
    FOLDER/lock              held by the one process that writes

A call changes the engine in memory, hands its records over in the order of the changes, and returns when they are on
disk. Calls that wait at the same time share one commit: the first takes all records that are there. Another thread may
see a change before it is durable; no caller is told so before.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np

from matchwood.encode.json_text import JsonText, json_event
from matchwood.engine.changing import UNCHANGED, Unchanged
from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.comparing import differences
from matchwood.engine.engine import Engine
from matchwood.engine.ids import Id
from matchwood.engine.journal import Journal
from matchwood.engine.ranking import Match, Ranking
from matchwood.engine.reading import AnyEvent, Place, Source
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.records import (
    Declared,
    Kept,
    Moved,
    Paused,
    Record,
    Resumed,
    Retracted,
    Subscribed,
    Unsubscribed,
    Updated,
    expression_text,
    place_pair,
)
from matchwood.engine.recovery import declare, recover, scoring_of
from matchwood.engine.results import BatchMatches
from matchwood.engine.snapshotting import Snapshotting, prune, snapshot_in_child
from matchwood.engine.subscribing import LoadedTable, _each
from matchwood.engine.tables import drop_expired, note, note_state, schema_of, state_of
from matchwood.errors import JournalError, MatchwoodError, QueryError, StorageError
from matchwood.lang.evaluate import Combine, Mode
from matchwood.lang.event import Event
from matchwood.lang.json_values import to_json
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.planner import AUTO
from matchwood.schema import Schema, instant_key
from matchwood.store.scoring import FUNCTION

SNAPSHOT_EVERY = 100_000
"""Records after which a snapshot is made unless told."""
KEPT_FOR = 60_000_000
"""Microseconds that records stay after a snapshot has made them superfluous: followers read them."""


class Report(NamedTuple):
    """What `verify` found. `problems` is empty if all is well."""

    last: int
    subscriptions: int
    live: int
    snapshots: int
    problems: tuple[str, ...]


class _Group:
    """Records that wait for a commit, in the order of their changes. The first caller that waits commits for all."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.last = journal.last  # of the records handed over
        self._waiting: list[tuple[list[Record], int, dict[str, int], dict[str, Any] | None]] = []
        self._commit = Lock()
        self._error: JournalError | None = None

    def check(self) -> None:
        if self._error is not None:
            raise JournalError(f"this engine refuses changes since one could not be made durable: {self._error}")

    def add(self, records: list[Record], time: int, state: dict[str, int], schema: dict[str, Any] | None) -> int:
        """Hand records over; the caller holds the mutex of the writers. Returns the number of the last."""
        self._waiting.append((records, time, state, schema))
        self.last += len(records)
        return self.last

    def wait(self, seq: int) -> None:
        """Return when the record of this number is on disk."""
        with self._commit:
            if self.journal.last >= seq:
                return
            self.check()
            group, self._waiting = self._waiting, []
            schema = next((part[3] for part in reversed(group) if part[3] is not None), None)

            def also(connection: Any, first: int) -> None:
                note(connection, first, [record for part in group for record in part[0]])
                note_state(connection, group[-1][2], schema)

            try:
                self.journal.write_chunks([(part[0], part[1]) for part in group], also)
            except JournalError as error:
                self._error = error
                raise

    @contextmanager
    def alone(self) -> Iterator[Journal]:
        """A block in which nothing is committed by others."""
        with self._commit:
            yield self.journal


class DurableEngine(Engine):
    """An engine that `Engine.open` has opened: see there. Close it, or use it as a context manager."""

    _group: _Group
    _folder: Path
    _schema_mark: int

    # opening and closing

    @classmethod
    def _open(
        cls,
        folder: str | Path,
        schema: Schema | Mapping[str, str] | None = None,
        *,
        ids: str | type = "int",
        index: str = AUTO,
        scoring: str | Combine | None = None,
        on_bad_value: str = "raise",
        clock: Clock = system_clock,
        limits: Limits = DEFAULT_LIMITS,
        snapshot_every: int | None = SNAPSHOT_EVERY,
        tables: str = "",
    ) -> Self:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        lock = _lock(path)
        try:
            journal = Journal(path, tables=tables)
            chosen = scoring_of(journal, scoring)
            options: dict[str, Any] = {"scoring": chosen, "on_bad_value": on_bad_value, "limits": limits}
            if journal.meta("ids") is None:
                engine = cls(schema, ids=ids, index=index, clock=RecordClock(clock), **options)
                _found(engine, journal, index)
            else:

                def made(saved: Schema, kind: str) -> Engine:
                    return cls(saved, ids=kind, index=index, clock=RecordClock(clock), **options)

                if index != journal.meta("index"):
                    journal.set_meta("index", index)
                recovered, _ = recover(path, journal, made)
                assert isinstance(recovered, cls)
                engine = recovered
                _check_same(engine, schema, ids)
                _keep_scoring(engine, journal)
        except BaseException:
            os.close(lock)
            raise
        engine._folder, engine._lock_handle, engine._group = path, lock, _Group(journal)
        engine._schema_mark = -1
        engine._snapshotting = Snapshotting(path, snapshot_every, engine._after_snapshot)
        return engine

    def close(self) -> None:
        """End writing; what was acknowledged is on disk already. May be repeated."""
        self._snapshotting.stop()
        with self._changes, self._group.alone() as journal:
            journal.close()
            if self._lock_handle is not None:
                os.close(self._lock_handle)
                self._lock_handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise MatchwoodError(
            "a durable engine belongs to one process; in others use Engine.open(FOLDER, mode='follow')"
        )

    @property
    def seq(self) -> int:
        """The number of the last record that is on disk. O(1)."""
        return self._group.journal.last

    # care

    def snapshot(self) -> int:
        """Write a snapshot, by another process, and wait for it; return the number of its last record. Calls go on meanwhile."""
        seq = snapshot_in_child(self._folder)
        self._after_snapshot(seq)
        return seq

    def compact(self) -> int:
        """Make a snapshot and remove the records that it makes superfluous; return how many transactions. Calls go on."""
        before = self.snapshot()
        with self._group.alone() as journal, journal.connection:
            drop_expired(journal.connection, self._now())
        with self._group.alone() as journal:
            removed = journal.trim(before, self._now() + 1)
            journal.checkpoint()
        prune(self._folder, keep=1)
        return removed

    def backup(self, folder: str | Path) -> None:
        """Write a copy that `Engine.open` can open, of the state of this moment, to a new folder. Calls go on."""
        target = Path(folder)
        try:
            target.mkdir(parents=True)
        except FileExistsError:
            raise StorageError(f"{target} exists already; choose a new name for the backup") from None
        self._group.journal.copy_to(target / "journal.db")

    def verify(self) -> Report:
        """Read everything on disk and compare it with this engine. Changes wait meanwhile; matching does not. O(bytes)."""
        with self._changes, self._group.alone() as journal:
            problems = journal.check()
            snapshot_count = 0
            try:

                def made(schema: Schema, ids: str) -> Engine:
                    return Engine(schema, ids=ids, index="scan", clock=RecordClock(self._clock))

                other, _ = recover(self._folder, journal, made)
                problems += differences(self, other)
                snapshot_count = len(list((self._folder / "snapshots").glob("[0-9]*")))
            except MatchwoodError as error:
                problems.append(str(error))
            return Report(journal.last, len(self), len(self._live), snapshot_count, tuple(problems))

    def _after_snapshot(self, seq: int) -> None:
        """Old snapshots and the records before the older one are removed."""
        oldest = prune(self._folder, keep=2)
        with self._group.alone() as journal:
            journal.trim(min(oldest, seq), self._now() - KEPT_FOR)

    def _now(self) -> int:
        return int(instant_key(self._clock()))

    # changes: each is made by `Engine`, and recorded

    @contextmanager
    def _recording(self) -> Iterator[list[Record]]:
        """A block that changes the engine and appends the records of that. Left when they are on disk."""
        records: list[Record] = []
        assert isinstance(self._clock, RecordClock)
        with self._changes:
            self._group.check()
            with self._clock.frozen() as time:
                yield records
                if not records:
                    return
                schema = None
                if self.schema.mark() != self._schema_mark:
                    self._schema_mark, schema = self.schema.mark(), schema_of(self)
                seq = self._group.add(records, time, state_of(self, time), schema)
        self._group.wait(seq)
        self._snapshotting.note(seq)

    def subscribe(
        self,
        expression: Source,
        *,
        id: Id | None = None,
        priority: float = 0.0,
        place: Place | None = None,
        radius: float | None = None,
        until: datetime | str | None = None,
        metadata: object = None,
    ) -> Any:
        """See `Engine.subscribe`."""
        given: dict[str, Any] = {"priority": priority, "place": place, "radius": radius, "until": until}
        with self._recording() as records:
            made = super().subscribe(expression, id=id, metadata=metadata, **given)
            records.append(_subscribed(_plain_id(made), expression, metadata=metadata, **given))
        return made

    def subscribe_many(
        self,
        expressions: Iterable[Source],
        *,
        ids: Iterable[Id] | None = None,
        priority: float | Iterable[float] = 0.0,
        place: Iterable[Place | None] | None = None,
        radius: float | Iterable[float | None] | None = None,
        until: datetime | str | Iterable[datetime | str | None] | None = None,
        metadata: Iterable[object] | None = None,
        progress: Any = None,
    ) -> Any:
        """See `Engine.subscribe_many`."""
        sources = expressions if isinstance(expressions, str | Mapping) else list(expressions)
        count = len(sources)
        given: dict[str, Any] = {
            "priority": priority,
            "place": place,
            "radius": radius,
            "until": until,
            "metadata": metadata,
        }
        if not isinstance(expressions, str | Mapping):
            given = {name: None if value is None else _each(value, count, name) for name, value in given.items()}
        with self._recording() as records:
            made = super().subscribe_many(sources, ids=ids, progress=progress, **given)
            columns = [value if value is not None else [None] * count for value in given.values()]
            for id_, source, *row in zip(made.tolist(), sources, *columns, strict=True):
                records.append(_subscribed(id_, source, **dict(zip(given, row, strict=True))))
        return made

    def subscribe_rows(self, rows: Any) -> None:
        """See `Engine.subscribe_rows`. What is recorded is the normal form as text."""
        with self._recording() as records:
            super().subscribe_rows(rows)
            records.extend(self._as_recorded(np.unique(rows.ids).tolist()))

    def subscribe_table(self, source: object, **options: Any) -> LoadedTable:
        """See `Engine.subscribe_table`. What is recorded is the normal form as text."""
        with self._recording() as records:
            loaded = super().subscribe_table(source, **options)
            records.extend(self._as_recorded(loaded.ids.tolist()))
        return loaded

    def _as_recorded(self, ids: Iterable[Id]) -> Iterator[Subscribed]:
        for id_ in ids:
            known = self.subscription(id_)
            yield _subscribed(
                id_, known.expression, priority=known.priority, until=known.until, metadata=known.metadata
            )

    def unsubscribe_many(self, ids: Iterable[Id]) -> None:
        """See `Engine.unsubscribe_many`."""
        given = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        with self._recording() as records:
            super().unsubscribe_many(given)
            records.extend(Unsubscribed(id=_plain_id(id_)) for id_ in given)

    def update_many(self, changes: Mapping[Id, Mapping[str, Any]]) -> None:
        """See `Engine.update_many`."""
        with self._recording() as records:
            super().update_many(changes)
            records.extend(_updated(id_, asked) for id_, asked in changes.items())

    def set_priority(self, id: Id, priority: float) -> None:
        """See `Engine.set_priority`."""
        with self._recording() as records:
            super().set_priority(id, priority)
            records.append(Updated(id=_plain_id(id), priority=float(priority)))

    def set_until(self, id: Id, until: datetime | str | None) -> None:
        """See `Engine.set_until`."""
        with self._recording() as records:
            super().set_until(id, until)
            records.append(Updated(id=_plain_id(id), until=_instant(until)))

    def pause(self, id: Id) -> None:
        """See `Engine.pause`."""
        with self._recording() as records:
            super().pause(id)
            records.append(Paused(id=_plain_id(id)))

    def resume(self, id: Id) -> None:
        """See `Engine.resume`."""
        with self._recording() as records:
            super().resume(id)
            records.append(Resumed(id=_plain_id(id)))

    def move_many(self, ids: Iterable[Id], places: Iterable[Place]) -> None:
        """See `Engine.move_many`."""
        given: list[Any] = [list(one) if isinstance(one, Iterator) else one for one in (ids, places)]
        with self._recording() as records:
            super().move_many(*given)
            moved = given[0].tolist() if isinstance(given[0], np.ndarray) else given[0]
            for id_, place in zip(moved, given[1], strict=True):
                pair = place_pair(tuple(place) if isinstance(place, np.ndarray) else place)
                assert pair is not None
                records.append(Moved(id=_plain_id(id_), place=pair, expression=self.subscription(id_).expression))

    def publish(
        self,
        event: AnyEvent,
        *,
        until: datetime | str | None = None,
        k: int | None = None,
        mode: Mode | str = Mode.ALL,
        replace: bool = False,
    ) -> Ranking[Match]:
        """See `Engine.publish`. An event without `until` leaves no record."""
        found = self.publish_many([event], until=[until], k=k, mode=mode, replace=replace)
        for error in found.rejected.values():
            raise error
        return Ranking(found.ids, found.scores)

    def publish_many(
        self,
        events: Iterable[AnyEvent],
        *,
        until: datetime | str | Iterable[datetime | str | None] | None = None,
        k: int | None = None,
        mode: Mode | str = Mode.ALL,
        replace: bool = False,
    ) -> BatchMatches:
        """See `Engine.publish_many`. Events without `until` leave no record."""
        if isinstance(events, Event | Mapping | str | bytes) or not isinstance(events, Iterable):
            return super().publish_many(events, until=until, k=k, mode=mode, replace=replace)  # which refuses it
        read = [_repeatable(json_event(event) if isinstance(event, JsonText) else event) for event in events]
        each = list(until) if isinstance(until, Iterable) and not isinstance(until, str) else [until] * len(read)
        with self._recording() as records:
            found = super().publish_many(read, until=each, k=k, mode=mode, replace=replace)
            assert found.event_ids is not None
            for at in np.flatnonzero(found.event_ids >= 0).tolist():
                records.append(_kept(int(found.event_ids[at]), read[at], each[at]))
        return found

    def retract(self, event_id: int) -> None:
        """See `Engine.retract`."""
        with self._recording() as records:
            super().retract(event_id)
            records.append(Retracted(number=int(event_id)))

    def declare(self, attributes: Mapping[str, str], *, closed: bool = False) -> None:
        """Give attributes types, all or none; with `closed` no others are learnt from then on."""
        with self._recording() as records:
            record = Declared(attributes={str(n): str(t) for n, t in attributes.items()}, closed=closed)
            declare(self, record)
            records.append(record)

    _lock_handle: int | None
    _snapshotting: Snapshotting


def _lock(folder: Path) -> int:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StorageError(
            f"{folder} is open for writing in another process; open it with mode='follow' to read"
        ) from None
    return handle


def _found(engine: Engine, journal: Journal, index: str) -> None:
    """Note what an engine is, in a new journal."""
    kind = "int" if engine._subscriptions.names is None else "str"

    def also(connection: Any, _: int) -> None:
        known = (kind, index, engine.scoring)
        connection.execute("INSERT INTO meta VALUES('ids', ?), ('index', ?), ('scoring', ?)", known)
        note_state(connection, state_of(engine, 0), schema_of(engine))

    journal.write([], 0, also)


def _keep_scoring(engine: Engine, journal: Journal) -> None:
    """Note the scoring of an engine, or refuse one that would rank the subscriptions of the folder otherwise than before."""
    kept = journal.meta("scoring")  # None in folders of older releases
    if kept not in (None, engine.scoring) and len(engine):
        advice = (
            "pass the function" if kept == FUNCTION else "open it without scoring=, or remove its subscriptions first"
        )
        raise QueryError(f"the scoring of this folder is {kept!r}, got {engine.scoring!r}; {advice}")
    if kept != engine.scoring:
        journal.set_meta("scoring", engine.scoring)


def _check_same(engine: Engine, schema: Schema | Mapping[str, str] | None, ids: str | type) -> None:
    """Refuse options that contradict what is on disk."""
    kind = "int" if engine._subscriptions.names is None else "str"
    wanted = ids.__name__ if isinstance(ids, type) else ids
    if wanted not in (kind, "int"):
        raise QueryError(f"the ids of this folder are {kind!r}; open it with ids={kind!r}")
    declared = schema if schema is not None else {}
    attributes = declared.attributes if isinstance(declared, Schema) else declared
    for name, type_ in attributes.items():
        known = engine.schema.get(name)
        wanted_type = type_ if isinstance(type_, str) else type_.declared
        if known is None or (known.type is not None and known.declared != wanted_type):
            raise QueryError(f"attribute {name!r} is not a {wanted_type} in this folder; use declare to add attributes")


def _plain_id(id_: Any) -> int | str:
    return str(id_) if isinstance(id_, str) else int(id_)


def _instant(until: object) -> int | None:
    return None if until is None else int(instant_key(until))


def _subscribed(id_: Any, source: object, **given: Any) -> Subscribed:
    return Subscribed(
        id=_plain_id(id_),
        expression=expression_text(source),
        priority=float(given.get("priority") or 0.0),
        place=place_pair(given.get("place")),
        radius=_metres(given.get("radius")),
        until=_instant(given.get("until")),
        metadata=given.get("metadata"),
    )


def _metres(radius: Any) -> float | None:
    return None if radius is None else float(radius)


def _updated(id_: Id, asked: Mapping[str, Any]) -> Updated:
    changes = {n: v for n, v in asked.items() if v is not UNCHANGED and not isinstance(v, Unchanged)}
    made: dict[str, Any] = {}
    if "expression" in changes:
        made["expression"] = expression_text(changes["expression"])
        made["place"] = place_pair(changes.get("place"))
        made["radius"] = _metres(changes.get("radius"))
    if "priority" in changes:
        made["priority"] = float(changes["priority"])
    if "until" in changes:
        made["until"] = _instant(changes["until"])
    if "metadata" in changes:
        made["metadata"] = changes["metadata"]
    return Updated(id=_plain_id(id_), **made)


def _repeatable(event: Event | Mapping[str, object]) -> Event | Mapping[str, object]:
    """An event whose values can be read twice."""
    values = event.values if isinstance(event, Event) else event
    if not isinstance(values, Mapping) or not any(isinstance(value, Iterator) for value in values.values()):
        return event
    read = {name: tuple(value) if isinstance(value, Iterator) else value for name, value in values.items()}
    return dataclasses.replace(event, values=read) if isinstance(event, Event) else read


def _kept(number: int, event: Event | Mapping[str, object], until: object) -> Kept:
    weights: dict[str, float] = {}
    values: dict[str, Any]
    if isinstance(event, Event):
        values = {str(name): to_json(value) for name, value in event.values.items()}
        if event.place is not None:
            lon, lat = place_pair(event.place) or (0.0, 0.0)
            values["place"] = {"lon": lon, "lat": lat}
        weights = {str(name): float(weight) for name, weight in event.weights.items()}
        until = event.until if until is None else until
    else:
        values = {str(name): to_json(value) for name, value in event.items()}
    end = _instant(until)
    assert end is not None
    return Kept(number=number, until=end, values=values, weights=weights)
