"""Rows of subscriptions as Python objects to arrays and back.

`decode_rows` is the inverse, for explanations and `Engine.subscription`. Both are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from matchwood.encode.arrays import ABSENT, CIRCLE, COUNT, GRADE, INTERVAL, JOINED, MORE, NARROWING, REGION, RING, Rows
from matchwood.encode.direct import text_rows
from matchwood.encode.expressions import subscription_rows
from matchwood.encode.row_entries import FIELDS, add_counts, add_entries, add_grades
from matchwood.lang.expression import all_of
from matchwood.lang.grade import Grade
from matchwood.lang.intervals import NOTHING, IntervalSet
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.places import Circle
from matchwood.lang.regions import Kind, Part, Region
from matchwood.lang.row import Absent, Counted, Holds, Placed, Row, RowPredicate
from matchwood.lang.rows import normalise
from matchwood.schema import Point, Schema

_DTYPES = (np.uint16, np.uint8, np.float64, np.float64, np.float64)
"""Of the columns of entries: dim, kind, lo, hi, weight."""
_CHUNK = 50_000
_MANY = 256
"""Intervals of one predicate that are worth a chunk of their own."""


ReadRows = list[list[float]] | tuple[Row, ...]
"""What `read_rows` found: the entries of each row, or rows."""


def read_rows(expression: object, circle: DWithin | None, schema: Schema, limits: Limits = DEFAULT_LIMITS) -> ReadRows:
    """The rows of an expression and a circle, as `subscription_rows`, for `RowsBuilder.add_read`.

    Of a usual text only the entries of its rows are made, which is several times as fast.
    """
    if isinstance(expression, str):
        found = text_rows(expression, schema, limits, circle)
        if found is not None:
            return found
    return subscription_rows(expression, circle, schema, limits)


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
        self._until: list[float] = []
        self._recent: list[float] = []  # dim, kind, lo, hi, weight of each entry that is in no chunk yet
        self._chunks: list[list[Any]] = [[] for _ in _DTYPES]  # of each column
        self._chunked = 0  # entries in chunks

    def add(self, id_: int, priority: float, rows: Sequence[Row], *, until: float = math.inf) -> None:
        """Append one subscription; `until` is the key of the instant at which it expires. O(its entries)."""
        for row in rows:
            for predicate in row.predicates:
                self._append(predicate)
            self._end_row(id_, priority, until)

    def add_text(
        self,
        id_: int,
        priority: float,
        text: str,
        *,
        circle: DWithin | None = None,
        until: float = math.inf,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Append one subscription that is text, and a circle: the same rows and errors as `add` of its normal form, several times
        as fast where it is made of AND, OR and usual predicates on attributes that the schema knows. O(length).

        >>> builder = RowsBuilder(Schema({"age": "number"}))
        >>> builder.add_text(7, 0.0, "age BETWEEN 18 AND 30")
        >>> builder.build().hi.tolist()
        [30.0]
        """
        found: ReadRows | None = text_rows(text, self._schema, limits, circle)
        if found is None:
            tree = parse(text, limits=limits)
            found = normalise(tree if circle is None else all_of(tree, circle), self._schema, limits=limits)
        self.add_read(id_, priority, found, until=until)

    def add_read(self, id_: int, priority: float, found: ReadRows, *, until: float = math.inf) -> None:
        """Append one subscription that `read_rows` has read. O(its entries)."""
        if isinstance(found, list):
            for entries in found:
                self._recent += entries
                self._end_row(id_, priority, until)
        else:
            self.add(id_, priority, found, until=until)

    def build(self) -> Rows:
        """The arrays of all subscriptions added so far. O(entries)."""
        self._end_chunk()
        for chunks, dtype in zip(self._chunks, _DTYPES, strict=True):
            # One column after the other, and in place of its chunks: there is room for all entries once, not twice.
            if len(chunks) != 1:
                chunks[:] = [np.concatenate([np.zeros(0, dtype), *chunks])]
        heads = np.array(self._ids, np.int64), np.array(self._priority, np.float64), np.array(self._offsets, np.int64)
        rows = Rows(*heads, *[chunks[0] for chunks in self._chunks])
        rows.schema = self._schema
        if self._until.count(math.inf) != len(self._until):
            rows.until = np.array(self._until)
        return rows

    def _end_row(self, id_: int, priority: float, until: float) -> None:
        self._ids.append(id_)
        self._priority.append(priority)
        self._until.append(until)
        self._offsets.append(self._chunked + len(self._recent) // FIELDS)
        if len(self._recent) >= _CHUNK:
            self._end_chunk()

    def _append(self, predicate: RowPredicate) -> None:
        attribute = self._schema.find(predicate.attribute)
        if isinstance(predicate, Holds) and predicate.keys.count >= _MANY:
            self._add_many(attribute.dims[0], predicate)
        else:
            add_entries(self._recent, attribute, predicate)

    def _add_many(self, dim: int, predicate: Holds) -> None:
        """The intervals of a predicate as a chunk of their own."""
        self._end_chunk()
        lo, hi = map(np.ascontiguousarray, predicate.keys.arrays())
        dims, kinds, weights = np.full(len(lo), dim, np.uint16), np.full(len(lo), MORE, np.uint8), np.zeros(len(lo))
        kinds[0], weights[0] = INTERVAL, predicate.weight
        self._add_chunk(dims, kinds, lo, hi, weights)
        add_counts(self._recent, dim, predicate)
        add_grades(self._recent, dim, predicate.grades)

    def _end_chunk(self) -> None:
        if self._recent:
            table = np.array(self._recent, np.float64).reshape(-1, FIELDS)
            keys = table[:, 2:].T.copy()  # each row contiguous
            self._add_chunk(table[:, 0].astype(np.uint16), table[:, 1].astype(np.uint8), *keys)
            self._recent.clear()

    def _add_chunk(self, *columns: Any) -> None:
        """Columns of the types `_DTYPES`, contiguous."""
        self._chunked += len(columns[0])
        for chunks, column in zip(self._chunks, columns, strict=True):
            chunks.append(column)


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
        grades = _decoded_grades(rows, head, end)
        end -= 3 * len(grades)
        kinds = rows.kinds[head:end]
        if kinds[0] == ABSENT:
            yield Absent(attribute.name, weight)
        elif JOINED not in kinds:
            yield _decoded_holds(rows, head, end, attribute.name, grades)
        else:
            middle = head + int(np.argmax(kinds == JOINED))
            bends = [e for e in range(middle, end) if rows.kinds[e] == CIRCLE]
            circles = tuple(
                Circle(
                    Point(float(rows.lo[e]), float(rows.hi[e])), abs(float(rows.weight[e])), bool(rows.weight[e] < 0)
                )
                for e in bends
            )
            lat_end = next((e for e in range(middle, end) if rows.kinds[e] >= NARROWING), end)
            lon, lat = _decoded_set(rows, head, middle), _decoded_set(rows, middle, lat_end)
            yield Placed(attribute.name, weight, lon, lat, circles, _decoded_regions(rows, lat_end, end), grades)


def _decoded_regions(rows: Rows, start: int, end: int) -> tuple[Region, ...]:
    starts = [e for e in range(start, end) if rows.kinds[e] == REGION]
    regions = []
    for first, last in zip(starts, [*starts, end][1:], strict=True):
        rings = [e for e in range(first, last) if rows.kinds[e] == RING]
        parts = [
            Part(Kind(int(rows.lo[ring])), _decoded_set(rows, ring + 1, stop).parts, float(rows.hi[ring]))
            for ring, stop in zip(rings, [*rings, last][1:], strict=True)
        ]
        regions.append(Region(tuple(parts), int(rows.lo[first])))
    return tuple(regions)


def _decoded_grades(rows: Rows, head: int, end: int) -> tuple[Grade, ...]:
    """The grades at the end of a predicate."""
    lo, hi, weight = rows.lo, rows.hi, rows.weight
    return tuple(
        Grade(
            float(weight[e]),
            (float(lo[e]), float(hi[e])),
            int(hi[e + 2]),
            float(lo[e + 1]),
            float(hi[e + 1]),
            float(lo[e + 2]),
        )
        for e in range(head, end)
        if rows.kinds[e] == GRADE
    )


def _decoded_holds(rows: Rows, head: int, end: int, name: str, grades: tuple[Grade, ...]) -> Holds:
    """The predicate of a head with its intervals and counts."""
    starts = [e for e in range(head, end) if rows.kinds[e] == COUNT]
    keys = _decoded_set(rows, head, starts[0] if starts else end)
    none, counts = NOTHING, []
    for start, stop in zip(starts, [*starts, end][1:], strict=True):
        parts, least, most = _decoded_set(rows, start + 1, stop), float(rows.lo[start]), float(rows.hi[start])
        if most == 0.0:
            none = parts
        else:
            counts.append(Counted(parts, int(least), most))
    return Holds(name, float(rows.weight[head]), keys, none, tuple(counts), grades)


def _decoded_set(rows: Rows, start: int, stop: int) -> IntervalSet:
    return IntervalSet(tuple(zip(rows.lo[start:stop].tolist(), rows.hi[start:stop].tolist(), strict=True)))
