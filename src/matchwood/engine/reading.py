"""What users pass to an engine (expressions, events, arrays), read into arrays. Errors name the subscription or event."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.encode.checks import check_events
from matchwood.encode.objects import RowsBuilder, decode_rows, encode_events
from matchwood.errors import EventError, ExpressionError, MatchwoodError, SchemaError, SubscriptionError
from matchwood.lang.builder import attr
from matchwood.lang.event import PLACE, Event
from matchwood.lang.expression import Expression, all_of
from matchwood.lang.json_form import from_json
from matchwood.lang.moving import moved
from matchwood.lang.parser import parse
from matchwood.lang.rows import Row, normalise
from matchwood.schema import Point, Schema, describe, point_of, unwrapped

Source = str | Expression | Mapping[str, Any] | bool
"""The expression of a subscription: text, a tree from the builder, or CQL2 JSON, in which `true` and `false` are expressions."""


class Reader:
    """Reads under one schema, with one limit for the size of a normal form."""

    def __init__(self, schema: Schema, max_rows: int) -> None:
        self.schema = schema
        self.max_rows = max_rows

    def subscription(
        self,
        id_: int,
        source: Source,
        *,
        priority: float = 0.0,
        place: Point | tuple[float, float] | None = None,
        radius: float | None = None,
        until: float | None = None,
    ) -> Rows:
        """The arrays of one subscription; `until` is the key of an instant."""
        subject = f"subscription {id_}"
        number = unwrapped(priority)
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= sys.float_info.max:
            raise SubscriptionError(f"{subject}: expected a finite priority, got {describe(priority)}")
        if (place is None) is not (radius is None):
            raise SubscriptionError(f"{subject}: a place needs a radius, and a radius a place")
        if place is not None and radius is not None:
            try:
                here = attr(PLACE).within(place, radius)
            except MatchwoodError as error:
                raise error.about(subject) from None
            source = all_of(self._expression(source, subject), here)
        builder = RowsBuilder(self.schema)
        rows = self.rows(source, subject)
        builder.add(id_, float(number), rows, until=math.inf if until is None else until)
        return builder.build()

    def subscriptions(
        self, sources: Iterable[Source], first: int, progress: Callable[[int], None] | None
    ) -> tuple[Int64s, Rows]:
        """The arrays of several subscriptions, whose ids begin with `first`, and the ids."""
        builder = RowsBuilder(self.schema)
        count = 0
        for source in sources:
            builder.add(first + count, 0.0, self.rows(source, f"subscription {first + count}"))
            count += 1
            if progress is not None and count % 1024 == 0:
                progress(count)
        return np.arange(first, first + count), builder.build()

    def moved(self, before: Rows, place: Point | tuple[float, float]) -> Rows:
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
            return normalise(expression, self.schema, max_rows=self.max_rows)
        except MatchwoodError as error:
            raise error.about(subject) from None

    def events(self, events: Events | Iterable[Event | Mapping[str, object]]) -> Events:
        """The arrays of events; of arrays, the same ones, checked. O(values)."""
        if isinstance(events, Events):
            self.check_schema(events, "events")
            check_events(events)
            return events if events.schema in (None, self.schema) else events.stamped(self.schema)
        if isinstance(events, Event | Mapping | str) or not isinstance(events, Iterable):
            raise EventError(f"expected several events, got {describe(events)}; for a single one use match or top_k")
        with self.schema.tentatively():
            return encode_events(events, self.schema)

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
                return parse(source)
            if isinstance(source, Mapping | bool):
                return from_json(source)
        except MatchwoodError as error:
            raise error.about(subject) from None
        if isinstance(source, Expression):
            return source
        raise ExpressionError(f"{subject}: expected text, an expression or CQL2 JSON, got {describe(source)}")
