"""JSON lines to arrays: one record per line, from a file or an iterable of lines.

    subscription  {"id": 7, "expression": "age >= 18", "priority": 0.5, "place": [lon, lat], "radius": 500, "until": "2026-..."}
    event         {"id": 7, "values": {"age": 31}, "weights": {"age": 0.4}, "place": [lon, lat], "until": "2026-..."}

With `engine_columns` ids may be strings, and a subscription may have "metadata", any JSON value: an engine keeps both.

An expression is text or CQL2 JSON. A value is a scalar, a list, {"min": 20, "max": 30} for a range (either end may be missing), a
point as GeoJSON or {"lon": ..., "lat": ...}, or {"timestamp": "2026-..."} if the schema does not declare the attribute as one.
Empty lines are skipped. A record with an unknown key is rejected, since a misspelt key would silently change the meaning.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events
from matchwood.encode.event_columns import plain_events
from matchwood.encode.events import EventReader
from matchwood.encode.json_text import loads
from matchwood.encode.objects import ReadRows, RowsBuilder, read_rows
from matchwood.encode.rejects import (
    METADATA,
    NO_ID,
    EncodedEvents,
    EncodedSubscriptions,
    Faults,
    Progress,
    Reject,
    checked_on_error,
)
from matchwood.errors import (
    DuplicateSubscriptionError,
    EventError,
    ExpressionError,
    MatchwoodError,
    SchemaError,
    StorageError,
    SubscriptionError,
)
from matchwood.lang.bad_values import BadValues
from matchwood.lang.event import PLACE, Event
from matchwood.lang.json_values import of_json
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.place_predicates import DWithin
from matchwood.schema import Schema, describe, instant_key, point_of

BATCH_LINES = 16_384

Lines = str | os.PathLike[str] | Iterable[str | bytes]
"""A path, or the lines themselves."""

_SUBSCRIPTION_KEYS = frozenset(("id", "expression", "priority", "place", "radius", "until"))
_ENGINE_KEYS = _SUBSCRIPTION_KEYS | {METADATA}
_EVENT_KEYS = frozenset(("id", "values", "weights", "place", "until"))
_PLAIN_KEYS = frozenset(("id", "values"))
_SCALARS = frozenset((int, float, str, bool, type(None)))


def read_json_subscriptions(source: Lines, schema: Schema, **options: Any) -> EncodedSubscriptions:
    """All subscriptions of the lines; options as for `stream_json_subscriptions`.

    >>> encoded = read_json_subscriptions(['{"id": 1, "expression": "age >= 18"}', "{"], Schema())
    >>> encoded.ids.tolist(), encoded.rejects[0].where
    ([1], 'line 2')
    """
    return EncodedSubscriptions.concatenate(list(stream_json_subscriptions(source, schema, **options)))


def read_json_events(source: Lines, schema: Schema, **options: Any) -> EncodedEvents:
    """All events of the lines; options as for `stream_json_events`."""
    return EncodedEvents.concatenate(list(stream_json_events(source, schema, **options)))


def stream_json_subscriptions(
    source: Lines,
    schema: Schema,
    *,
    on_error: str = "collect",
    limits: Limits = DEFAULT_LIMITS,
    engine_columns: bool = False,
    batch_lines: int = BATCH_LINES,
    progress: Progress | None = None,
) -> Iterator[EncodedSubscriptions]:
    """The subscriptions of the lines, in parts of at most `batch_lines`. O(length), about the cost of parsing."""
    keys = _ENGINE_KEYS if engine_columns else _SUBSCRIPTION_KEYS
    reader = _Reader(source, keys, "a subscription", on_error, progress, string_ids=engine_columns)

    def one(record: Mapping[str, Any]) -> tuple[float, ReadRows, Any]:
        circle = _circle(record)
        if "expression" not in record:
            raise ExpressionError('the key "expression" is missing')
        rows = read_rows(record["expression"], circle, schema, limits)
        return _priority(record), rows, record.get(METADATA)

    for good, rejects in reader.batches(batch_lines, one, DuplicateSubscriptionError, SubscriptionError):
        builder = RowsBuilder(schema)
        for id_, (priority, rows, _), until in zip(good.ids, good.found, good.until, strict=True):
            builder.add_read(id_, priority, rows, until=until)
        metadata = [found[2] for found in good.found] if good.has_metadata else None
        yield EncodedSubscriptions(builder.build(), *good.heads(), rejects, good.names, metadata)


def stream_json_events(
    source: Lines,
    schema: Schema,
    *,
    register: bool = False,
    learn: bool = False,
    bad: BadValues | None = None,
    on_error: str = "collect",
    engine_columns: bool = False,
    batch_lines: int = BATCH_LINES,
    progress: Progress | None = None,
) -> Iterator[EncodedEvents]:
    """The events of the lines, in parts of at most `batch_lines`. O(length).

    With `learn`, the schema learns unknown attributes. With `bad`, values that their attribute cannot take are absent and
    counted there, where they would reject their line.
    """
    reader = _Reader(source, _EVENT_KEYS, "an event", on_error, progress, string_ids=engine_columns)
    events = EventReader(schema, register=register, learn=learn, bad=bad)

    def one(record: Mapping[str, Any]) -> None:
        values = record.get("values")
        plain = type(values) is dict and _SCALARS.issuperset(map(type, values.values()))
        if plain and record.get("weights") is None and record.get("place") is None:
            events.add(values)  # type: ignore[arg-type]  # most events; no object for the event is made
        else:
            events.add(_event(record))

    def plain(values: list[Any]) -> Events | None:
        return None if learn else plain_events(values, schema, register=register)

    for good, rejects in reader.batches(batch_lines, one, EventError, None, undo=events.remove_last, plain=plain):
        arrays = events.take() if good.events is None else good.events
        yield EncodedEvents(arrays, *good.heads(), rejects, good.names)


class _Good:
    """The good records of a batch: what was read from each, and its id, position and `until`."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.names: list[Any] | None = None
        self.has_metadata = False
        self.found: list[Any] = []
        self._positions: list[int] = []
        self.until: list[float] = []
        self.events: Events | None = None
        """All events of the batch, if they were read at once."""

    def add(self, id_: int, name: str | None, position: int, until: float, found: object) -> None:
        if name is not None and self.names is None:
            self.names = [None] * len(self.ids)
        if self.names is not None:
            self.names.append(name)
        self.ids.append(id_)
        self.found.append(found)
        self._positions.append(position)
        self.until.append(until)

    def add_all(self, ids: list[int], positions: list[int]) -> None:
        """Add records that have an id and no `until`, of which nothing else is kept."""
        self.ids += ids
        self._positions += positions
        self.found += [None] * len(ids)
        self.until += [math.inf] * len(ids)

    def heads(self) -> tuple[Any, Any, Any]:
        return np.array(self.ids, np.int64), np.array(self._positions, np.int64), np.array(self.until, np.float64)


class _Reader:
    """Reads lines into records, counts and names them, and collects their errors."""

    def __init__(
        self,
        source: Lines,
        keys: frozenset[str],
        kind: str,
        on_error: str,
        progress: Progress | None,
        *,
        string_ids: bool,
    ) -> None:
        self._source = source
        self._keys = keys
        self._kind = kind
        self._on_error = checked_on_error(on_error)
        self._progress = progress
        self._name = f"{Path(source).name}, " if isinstance(source, str | os.PathLike) else ""
        self._ids = _Ids(string_ids)

    def batches(
        self,
        batch_lines: int,
        one: Callable[[Mapping[str, Any]], object],
        duplicate: type[MatchwoodError],
        id_required: type[MatchwoodError] | None,
        undo: Callable[[], None] | None = None,
        plain: Callable[[list[Any]], Events | None] | None = None,
    ) -> Iterator[tuple[_Good, tuple[Reject, ...]]]:
        """Yield, for each batch, what `one` returns for the good records, and the rejects.

        `undo` takes back the latest call of `one`, whose record is then rejected. `plain` reads the values of all events of
        a batch at once, or gives None; it is tried first.
        """
        total = self._count() if self._progress is not None else 0
        lines = enumerate(self._lines())
        done = 0
        while batch := list(islice(lines, batch_lines)):
            good, faults, ids = _Good(), Faults(), dict[int, int | str | None]()
            is_plain = plain is not None and self._read_plain(batch, plain, good)
            for position, line in () if is_plain else batch:
                if not line.strip():
                    continue
                try:
                    record = self._record(line)
                    ids[position] = id_ = self._ids.read(record, id_required, duplicate)
                    until, found = _until(record), one(record)
                    if self._ids.has(id_):
                        if undo is not None:
                            undo()
                        raise duplicate(f"an earlier record has the same id {id_!r}")
                    number = self._ids.accept(id_)
                except MatchwoodError as error:
                    faults.add(position, error)
                else:
                    good.has_metadata |= record.get(METADATA) is not None
                    good.add(number, id_ if isinstance(id_, str) else None, position, until, found)
            yield good, self._rejects(faults, ids, dict(batch)) if faults.errors else ()
            done += len(batch)
            if self._progress is not None:
                self._progress(done, max(done, total))

    def _read_plain(
        self, batch: list[tuple[int, str | bytes]], plain: Callable[[list[Any]], Events | None], good: _Good
    ) -> bool:
        """Read a batch of events with an id, values and nothing else into `good`; False, and nothing is done, if one differs."""
        try:
            records = [loads(line) for _, line in batch]
        except (ValueError, RecursionError):
            return False
        if set(map(type, records)) != {dict} or set(map(frozenset, records)) != {_PLAIN_KEYS}:
            return False
        ids = [record["id"] for record in records]
        if not self._ids.are_new(ids):
            return False
        good.events = plain([record["values"] for record in records])
        if good.events is None:
            return False
        self._ids.accept_all(ids)
        good.add_all(ids, [position for position, _ in batch])
        return True

    def _rejects(
        self, faults: Faults, ids: Mapping[int, int | str | None], lines: dict[int, str | bytes]
    ) -> tuple[Reject, ...]:
        def line_of(position: int) -> str:
            line = lines[position]
            return (line.decode(errors="replace") if isinstance(line, bytes) else line).rstrip("\r\n")

        return faults.rejects(
            self._on_error,
            position_of=lambda position: position,
            where_of=lambda position: f"{self._name}line {position + 1}",
            id_of=ids.get,
            content_of=line_of,
        )

    def _record(self, line: str | bytes) -> Mapping[str, Any]:
        try:
            record = loads(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"the line is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise StorageError(f"expected {self._kind} as a JSON object, got {describe(record)}")
        if not self._keys.issuperset(record):
            unknown = sorted(set(record) - self._keys)
            raise StorageError(
                f"unknown key {unknown[0]!r}; the keys of {self._kind} are {', '.join(sorted(self._keys))}"
            )
        return record

    def _lines(self) -> Iterator[str | bytes]:
        if not isinstance(self._source, str | os.PathLike):
            yield from self._source
            return
        try:
            with Path(self._source).open("rb") as file:
                yield from file
        except OSError as error:
            raise StorageError(f"{self._source}: cannot be read: {error.strerror}") from None

    def _count(self) -> int:
        """The number of lines of a file; 0 for other sources, whose length is not known before the end."""
        return sum(1 for _ in self._lines()) if isinstance(self._source, str | os.PathLike) else 0


class _Ids:
    """The ids of an input: all integers, or (where they may be) all strings, which are numbered from 0 as they are accepted."""

    def __init__(self, may_be_strings: bool) -> None:
        self._may_be_strings = may_be_strings
        self._kind: type | None = None
        self._seen: set[int | str] = set()

    def read(
        self, record: Mapping[str, Any], required: type[MatchwoodError] | None, error: type[MatchwoodError]
    ) -> int | str | None:
        """The id of a record, None for none."""
        id_: int | str | None = record.get("id")
        if id_ is None and required is None:
            return None
        if type(id_) is int and self._kind is not str and 0 <= id_ < 2**63:
            return id_
        if isinstance(id_, str) and self._may_be_strings and self._kind in (None, str):
            return id_
        if self._kind is str:
            raise (required or error)(f"expected a string as the id, as in the records before, got {describe(id_)}")
        raise (required or error)(f"expected an id from 0 to 2**63 - 1, got {describe(id_)}")

    def are_new(self, ids: list[Any]) -> bool:
        """Are these integers that no accepted record has, all different?"""
        if self._kind is str or set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= 2**63:
            return False
        return len(set(ids)) == len(ids) and self._seen.isdisjoint(ids)

    def has(self, id_: int | str | None) -> bool:
        """Has an accepted record this id?"""
        return id_ in self._seen

    def accept(self, id_: int | str | None) -> int:
        """The number of a good record: its id, if that is an integer."""
        if id_ is None:
            return NO_ID
        self._kind = type(id_)
        self._seen.add(id_)
        return len(self._seen) - 1 if isinstance(id_, str) else id_

    def accept_all(self, ids: list[int]) -> None:
        """As `accept`, of integers that `are_new`."""
        self._kind = int
        self._seen.update(ids)


def _until(record: Mapping[str, Any]) -> float:
    if record.get("until") is None:
        return math.inf
    try:
        return instant_key(record["until"])
    except SchemaError as error:
        raise error.about("until") from None


def _priority(record: Mapping[str, Any]) -> float:
    priority = record.get("priority")
    if priority is None:
        return 0.0
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not abs(priority) <= sys.float_info.max:
        raise SubscriptionError(f"priority: expected a finite number, got {describe(priority)}")
    return float(priority)


def _circle(record: Mapping[str, Any]) -> DWithin | None:
    place, radius = record.get("place"), record.get("radius")
    if place is None and radius is None:
        return None
    if isinstance(radius, bool) or not isinstance(radius, int | float) or place is None:
        raise ExpressionError(
            f'expected both "place" and "radius" (metres), got {describe(place)} and {describe(radius)}'
        )
    if not abs(radius) <= sys.float_info.max:
        raise ExpressionError(f"radius: expected a finite number of metres, got {describe(radius)}")
    try:
        return DWithin(PLACE, centre=point_of(place), radius=float(radius))
    except SchemaError as error:
        raise error.about("place") from None


def _event(record: Mapping[str, Any]) -> Event:
    values, weights = record.get("values", {}), record.get("weights")
    for name, found in (("values", values), ("weights", {} if weights is None else weights)):
        if not isinstance(found, dict):
            raise EventError(f"{name}: expected an object, got {describe(found)}")
    place = record.get("place")
    try:
        point = None if place is None else point_of(place)
    except SchemaError as error:
        raise error.about("place") from None
    if not _SCALARS.issuperset(map(type, values.values())):
        values = {name: of_json(value) for name, value in values.items()}
    return Event(values, weights or {}, place=point)
