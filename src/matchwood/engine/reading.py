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

Source = str | Expression | Mapping[str, Any] | bool
"""A subscription's expression: text, a tree from the builder, or CQL2 JSON, in which `true` and `false` are whole expressions."""


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
            source = all_of(self.expression(source, subject), here)
        builder = RowsBuilder(self.schema)
        builder.add(id_, float(number), self.rows(source, subject))
        return builder.build()

    def query(self, source: Source) -> Rows:
        """The arrays of an expression that is not registered: a question about those that are."""
        builder = RowsBuilder(self.schema)
        builder.add(0, 0.0, self.rows(source, "the expression"))
        return builder.build()

    def rows(self, source: Source, subject: str) -> tuple[Row, ...]:
        """The rows of an expression, as objects; an error names the subject."""
        expression = self.expression(source, subject)
        try:
            return normalise(expression, self.schema, max_rows=self.max_rows)
        except MatchwoodError as error:
            raise error.about(subject) from None

    def expression(self, source: Source, subject: str) -> Expression:
        """The tree of an expression; an error names the subject."""
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
