"""Rows of subscriptions as Python objects to arrays and back.

`decode_rows` is the inverse, for explanations and `Engine.subscription`. Both are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from matchwood.encode.arrays import ABSENT, CIRCLE, INTERVAL, JOINED, MORE, Rows, make_rows
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.places import Circle
from matchwood.lang.row import Absent, Holds, Placed, Row, RowPredicate
from matchwood.schema import Point, Schema

NAN = float("nan")


class RowsBuilder:
    """Collects subscriptions one by one and builds `Rows` from them.

    >>> from matchwood.lang.parser import parse
    >>> from matchwood.lang.rows import normalise
    >>> schema = Schema()
    >>> builder = RowsBuilder(schema)
    >>> builder.add(7, 0.0, normalise(parse("age >= 18"), schema))
    >>> builder.build().ids.tolist()
    [7]
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._ids: list[int] = []
        self._priority: list[float] = []
        self._offsets: list[int] = [0]
        self._entries: list[tuple[int, int, float, float, float]] = []
        self._until: list[float] = []

    def add(self, id_: int, priority: float, rows: Sequence[Row], *, until: float = math.inf) -> None:
        """Append one subscription; `until` is the key of the instant at which it expires. O(its entries)."""
        for row in rows:
            for predicate in row.predicates:
                self._append(predicate)
            self._ids.append(id_)
            self._priority.append(priority)
            self._until.append(until)
            self._offsets.append(len(self._entries))

    def build(self) -> Rows:
        """The arrays of all subscriptions added so far. O(entries)."""
        columns = zip(*self._entries, strict=True) if self._entries else ((),) * 5
        until = None if self._until.count(math.inf) == len(self._until) else np.array(self._until)
        return make_rows(self._ids, self._priority, self._offsets, *columns).stamped(self._schema, until)

    def _append(self, predicate: RowPredicate) -> None:
        attribute = self._schema.find(predicate.attribute)
        if isinstance(predicate, Absent):
            self._entries.append((attribute.dims[0], ABSENT, NAN, NAN, predicate.weight))
        elif isinstance(predicate, Holds):
            self._intervals(attribute.dims[0], INTERVAL, predicate.keys, predicate.weight)
        else:
            lon, lat = attribute.dims
            self._intervals(lon, INTERVAL, predicate.lon, predicate.weight)
            self._intervals(lat, JOINED, predicate.lat, 0.0)
            for circle in predicate.circles:
                radius = -circle.radius if circle.outside else circle.radius
                self._entries.append((lon, CIRCLE, circle.centre.lon, circle.centre.lat, radius))

    def _intervals(self, dim: int, kind: int, keys: IntervalSet, weight: float) -> None:
        (lo, hi), *rest = keys.parts
        self._entries.append((dim, kind, lo, hi, weight))
        self._entries.extend((dim, MORE, lo, hi, 0.0) for lo, hi in rest)


def decode_rows(rows: Rows, schema: Schema) -> list[Row]:
    """The rows as objects, in order. O(entries)."""
    return [
        Row(tuple(_decoded_predicates(rows, int(rows.offsets[r]), int(rows.offsets[r + 1]), schema)))
        for r in range(rows.size)
    ]


def _decoded_predicates(rows: Rows, first: int, last: int, schema: Schema) -> Iterable[RowPredicate]:
    heads = [e for e in range(first, last) if rows.kinds[e] in (INTERVAL, ABSENT)]
    for head, end in zip(heads, [*heads, last][1:], strict=True):
        attribute, weight = schema.of_dimension(int(rows.dims[head])), float(rows.weight[head])
        kinds = rows.kinds[head:end]
        if kinds[0] == ABSENT:
            yield Absent(attribute.name, weight)
        elif JOINED not in kinds:
            yield Holds(attribute.name, weight, _decoded_set(rows, head, end))
        else:
            middle = head + int(np.argmax(kinds == JOINED))
            bends = [e for e in range(middle, end) if rows.kinds[e] == CIRCLE]
            circles = tuple(
                Circle(
                    Point(float(rows.lo[e]), float(rows.hi[e])), abs(float(rows.weight[e])), bool(rows.weight[e] < 0)
                )
                for e in bends
            )
            lat_end = bends[0] if bends else end
            yield Placed(
                attribute.name, weight, _decoded_set(rows, head, middle), _decoded_set(rows, middle, lat_end), circles
            )


def _decoded_set(rows: Rows, start: int, stop: int) -> IntervalSet:
    return IntervalSet(tuple(zip(rows.lo[start:stop].tolist(), rows.hi[start:stop].tolist(), strict=True)))
