"""What a user hands to `subscribe`, read into rows; errors name the subscription."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from matchwood.encode.arrays import Rows
from matchwood.encode.objects import RowsBuilder
from matchwood.errors import ExpressionError, MatchwoodError, SubscriptionError
from matchwood.lang.builder import attr
from matchwood.lang.event import PLACE
from matchwood.lang.expression import Expression, all_of
from matchwood.lang.json_form import from_json
from matchwood.lang.parser import parse
from matchwood.lang.rows import Row, normalise
from matchwood.schema import Point, Schema, describe, unwrapped

Source = str | Expression | Mapping[str, Any]
"""A subscription's expression: text, a tree from the builder, or CQL2 JSON."""


class Reader:
    """Sources into rows, under one schema and one limit for the normal form."""

    def __init__(self, schema: Schema, max_rows: int) -> None:
        self.schema = schema
        self.max_rows = max_rows

    def arrays(
        self,
        id_: int,
        source: Source,
        *,
        priority: float = 0.0,
        place: Point | tuple[float, float] | None = None,
        radius: float | None = None,
    ) -> Rows:
        """The arrays of one subscription."""
        number = unwrapped(priority)
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= sys.float_info.max:
            raise SubscriptionError(f"subscription {id_}: expected a finite priority, got {describe(priority)}")
        if (place is None) is not (radius is None):
            raise SubscriptionError(f"subscription {id_}: a place needs a radius, and a radius a place")
        if place is not None and radius is not None:
            try:
                here = attr(PLACE).within(place, radius)
            except MatchwoodError as error:
                raise error.about(f"subscription {id_}") from None
            source = all_of(self.expression(id_, source), here)
        builder = RowsBuilder(self.schema)
        builder.add(id_, float(number), self.rows(id_, source))
        return builder.build()

    def rows(self, id_: int, source: Source) -> tuple[Row, ...]:
        """The rows of one subscription, as objects."""
        expression = self.expression(id_, source)
        try:
            return normalise(expression, self.schema, max_rows=self.max_rows)
        except MatchwoodError as error:
            raise error.about(f"subscription {id_}") from None

    def expression(self, id_: int, source: Source) -> Expression:
        """The tree of one subscription."""
        try:
            if isinstance(source, str):
                return parse(source)
            if isinstance(source, Mapping):
                return from_json(source)
        except MatchwoodError as error:
            raise error.about(f"subscription {id_}") from None
        if isinstance(source, Expression):
            return source
        raise ExpressionError(f"subscription {id_}: expected text, an expression or CQL2 JSON, got {describe(source)}")
