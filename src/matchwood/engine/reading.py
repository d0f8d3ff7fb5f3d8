"""What users pass to an engine (expressions, events, arrays), read into arrays. Errors name the subscription or event."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.ages import with_clock_ages
from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.encode.checks import check_events
from matchwood.encode.event_columns import plain_events
from matchwood.encode.events import EventReader
from matchwood.encode.json_text import JsonText, json_event, loads
from matchwood.encode.objects import RowsBuilder, decode_rows
from matchwood.encode.tables import is_table, read_events
from matchwood.engine.clock import Clock
from matchwood.errors import EventError, ExpressionError, MatchwoodError, SchemaError, SubscriptionError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.builder import attr
from matchwood.lang.event import PLACE, Event
from matchwood.lang.expression import Expression, all_of
from matchwood.lang.json_form import from_json
from matchwood.lang.limits import Limits
from matchwood.lang.moving import moved
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.rows import Row, normalise
from matchwood.schema import Point, Schema, describe, point_of, unwrapped
from matchwood.schema.keys import instant_key

Source = str | Expression | Mapping[str, Any] | bool
"""The expression of a subscription: text, a tree from the builder, or CQL2 JSON, in which `true` and `false` are expressions."""


AnyEvent = Event | Mapping[str, object] | JsonText
"""An event as users pass it: an `Event`, a mapping from attribute to value, or such an object as JSON text."""

ManyEvents = Events | Iterable[AnyEvent] | JsonText | Any
"""Several events: any events one after the other, JSON lines as one text, a table (Arrow, pandas, Polars), or arrays."""

Place = Point | tuple[float, float]


class Described(NamedTuple):
    """A subscription as users describe it; `until` is the key of an instant."""

    source: Source
    priority: float = 0.0
    place: Place | None = None
    radius: float | None = None
    until: float = math.inf


class ReadEvents(NamedTuple):
    """Events that were read: the arrays of those that can be used, the number of all, and the errors of the others."""

    arrays: Events
    total: int
    rejected: dict[int, MatchwoodError]

    def positions(self) -> Int64s:
        """The positions, among all, of those that can be used."""
        return np.delete(np.arange(self.total), list(self.rejected))


class Reader:
    """Reads under one schema, with limits for the size of an expression.

    Values in events that their attributes cannot take are counted in `bad`, and refused if there is none.
    """

    def __init__(self, schema: Schema, limits: Limits, bad: BadValues | None = None, *, clock: Clock) -> None:
        self.schema = schema
        self.clock = clock
        self.limits = limits
        self.bad = bad

    def subscription(self, id_: int, about: Described, subject: str) -> Rows:
        """The arrays of one subscription, of this number; errors name the subject."""
        builder = RowsBuilder(self.schema)
        self._add(builder, id_, about, subject)
        return builder.build()

    def subscriptions(
        self, ids: Sequence[int], all_: Iterable[tuple[Described, str]], progress: Callable[[int], None] | None
    ) -> Rows:
        """The arrays of several subscriptions, of these numbers, each described and with its name for errors."""
        builder = RowsBuilder(self.schema)
        for count, (id_, (about, subject)) in enumerate(zip(ids, all_, strict=True), 1):
            self._add(builder, id_, about, subject)
            if progress is not None and count % 1024 == 0:
                progress(count)
        return builder.build()

    def _add(self, builder: RowsBuilder, id_: int, about: Described, subject: str) -> None:
        source = about.source
        priority = checked_priority(about.priority, subject)
        circle = self._circle(about.place, about.radius, subject)
        if type(source) is str:
            try:
                builder.add_text(id_, priority, source, circle=circle, until=about.until, limits=self.limits)
            except MatchwoodError as error:
                raise error.about(subject) from None
            return
        if circle is not None:
            source = all_of(self._expression(source, subject), circle)
        rows = self.rows(source, subject)
        builder.add(id_, priority, rows, until=about.until)

    def _circle(self, place: Place | None, radius: float | None, subject: str) -> DWithin | None:
        """The condition that the place of the event lies in a circle; None without a place."""
        if place is None and radius is None:
            return None
        if place is None or radius is None:
            raise SubscriptionError(f"{subject}: a place needs a radius, and a radius a place")
        try:
            here = attr(PLACE).within(place, radius)
        except MatchwoodError as error:
            raise error.about(subject) from None
        assert isinstance(here, DWithin)  # since there is a radius
        return here

    def moved(self, before: Rows, place: Place) -> Rows:
        """The arrays of one subscription with its condition on `place` moved there."""
        id_, until = int(before.ids[0]), math.inf if before.until is None else float(before.until[0])
        try:
            rows = moved(decode_rows(before, self.schema), PLACE, point_of(place))
        except MatchwoodError as error:
            raise error.about(f"subscription {id_}") from None
        builder = RowsBuilder(self.schema)
        builder.add(id_, float(before.priority[0]), rows, until=until)
        return builder.build()

    def query(self, source: Source) -> Rows:
        """The arrays of an expression that is only compared with subscriptions."""
        builder = RowsBuilder(self.schema)
        builder.add(0, 0.0, self.rows(source, "the expression"))
        return builder.build()

    def rows(self, source: Source, subject: str) -> tuple[Row, ...]:
        """The rows of an expression as objects; an error names the subject."""
        expression = self._expression(source, subject)
        try:
            return normalise(expression, self.schema, limits=self.limits)
        except MatchwoodError as error:
            raise error.about(subject) from None

    def event(self, event: AnyEvent) -> Events:
        """The arrays of one event. O(values)."""
        reader = EventReader(self.schema, bad=self.bad)
        values = json_event(event) if isinstance(event, JsonText) else event
        if isinstance(values, list | tuple):
            raise EventError(f"expected one event, got {describe(event)}; for several use match_many or top_k_many")
        try:
            reader.add(values)
        except MatchwoodError as error:
            known = event.id if isinstance(event, Event) else None
            raise error.about("the event" if known is None else f"event {known}") from None
        return self.arrived(reader.build())

    def arrived(self, events: Events) -> Events:
        """The events with their ages at this instant. O(1) if no subscription asks for an age."""
        return with_clock_ages(events, self.schema, self.now()) if self.schema.ages else events

    def now(self) -> float:
        """The instant of the clock, in microseconds since 1970."""
        return instant_key(self.clock())

    def events(self, events: ManyEvents, *, register: bool = False) -> ReadEvents:
        """The arrays of the events that can be used, and the errors of the others by position. O(values)."""
        read = self._read_events(events, register=register)
        return read._replace(arrays=self.arrived(read.arrays)) if self.schema.ages else read

    def _read_events(self, events: ManyEvents, *, register: bool) -> ReadEvents:
        if type(events) is list:
            return self._listed(events, register=register)
        if isinstance(events, Events):
            self.check_schema(events, "events")
            check_events(events)
            arrays = events if events.schema in (None, self.schema) else events.stamped(self.schema)
            return ReadEvents(arrays, events.size, {})
        if is_table(events):
            return self._table(events)
        several: Any = events
        if isinstance(events, JsonText):
            several = [line for line in bytes_of(events).splitlines() if line.strip()]
        if isinstance(several, Event | Mapping) or not isinstance(several, Iterable):
            raise EventError(f"expected several events, got {describe(events)}; for a single one use match or top_k")
        return self._listed(list(several), register=register)

    def _listed(self, several: list[Any], *, register: bool) -> ReadEvents:
        plain = plain_events(_parsed(several), self.schema, register=register)
        if plain is not None:
            return ReadEvents(plain, plain.size, {})
        reader, rejected = EventReader(self.schema, register=register, bad=self.bad), {}
        for position, event in enumerate(several):
            try:
                reader.add(json_event(event) if isinstance(event, JsonText) else event)
            except MatchwoodError as error:
                known = event.id if isinstance(event, Event) else None
                rejected[position] = error.about(f"event {position if known is None else known}")
        return ReadEvents(reader.build(), len(several), rejected)

    def _table(self, source: object) -> ReadEvents:
        """The events of a DataFrame or an Arrow table."""
        encoded = read_events(source, self.schema, bad=self.bad)
        rejected: dict[int, MatchwoodError] = {
            r.position: EventError(f"{r.where}: {r.reason}") for r in encoded.rejects
        }
        return ReadEvents(encoded.events, encoded.events.size + len(rejected), rejected)

    def check_schema(self, arrays: Rows | Events, what: str) -> None:
        """Refuse arrays whose dimensions or keys have another meaning here. O(1) if this schema encoded them."""
        difference = None if arrays.schema is None else self.schema.difference(arrays.schema)
        if difference is not None:
            raise SchemaError(
                f"the {what} were encoded under another schema: {difference}; encode them with engine.schema"
            )

    def _expression(self, source: Source, subject: str) -> Expression:
        try:
            if isinstance(source, str):
                return parse(source, limits=self.limits)
            if isinstance(source, Mapping | bool):
                return from_json(source)
        except MatchwoodError as error:
            raise error.about(subject) from None
        if isinstance(source, Expression):
            return source
        raise ExpressionError(f"{subject}: expected text, an expression or CQL2 JSON, got {describe(source)}")


def _parsed(events: list[Any]) -> list[Any]:
    """The values of events that are JSON texts; those of other kinds, and all if a text is no JSON, as they are."""
    if not events or not isinstance(events[0], JsonText):
        return events
    try:
        return [loads(event) if isinstance(event, JsonText) else event for event in events]
    except (ValueError, RecursionError):
        return events


def checked_priority(priority: object, subject: str) -> float:
    """The priority as a float; `SubscriptionError` unless it is a finite number."""
    if type(priority) is float and abs(priority) <= sys.float_info.max:
        return priority
    number = unwrapped(priority)
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= sys.float_info.max:
        raise SubscriptionError(f"{subject}: expected a finite priority, got {describe(priority)}")
    return float(number)


def bytes_of(text: JsonText) -> bytes:
    """A text as bytes, in UTF-8."""
    return text.encode() if isinstance(text, str) else bytes(text)
