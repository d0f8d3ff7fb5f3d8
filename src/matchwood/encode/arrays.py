"""The arrays that travel between the layers: `Rows`, `Events` and `Matches`, all CSR.

    Rows     row r owns entries offsets[r]:offsets[r+1]; a predicate is one head entry and those that continue it
    Events   event e owns entries offsets[e]:offsets[e+1]; a list value repeats its dimension in adjacent entries
    Matches  event e owns hits offsets[e]:offsets[e+1]

A *dimension* is a column of float64 keys: one an attribute, two (longitude, latitude) a point attribute.

The entry kinds of `Rows`, with what their fields mean:

    INTERVAL  the head of a predicate: its first interval [lo, hi] and its weight
    MORE      another interval of the same dimension, ascending and disjoint; weight 0
    JOINED    the first interval of the latitude of a point predicate whose longitude came before; weight 0
    ABSENT    the head of a predicate that holds where the event lacks the dimension; lo and hi are NaN
    CIRCLE    part of the point predicate before it: centre (lo = lon, hi = lat), `weight` = radius in metres,
              negative where the predicate asks for the outside; dim is the longitude's
    COUNT     part of the predicate before it: of the intervals that follow, the value of the event meets at least `lo` and at
              most `hi` (0 and 0: none of them); weight 0
    PART      an interval of the COUNT before it, ascending and disjoint; weight 0
    REGION    part of the point predicate before it: `lo` = the locations that it accepts (`lang.regions`, 1 to 6); dim is the
              longitude's; hi and weight 0
    RING      a part of the REGION before it: `lo` = its kind (0 shell, 1 hole, 2 line, 3 point), `hi` = the shift of its copy
              (0, 360 or -360); weight 0
    VERTEX    a vertex of the RING before it: lo = lon, hi = lat; weight 0
    GRADE     part of the predicate before it: `weight` counts by the closeness of the value to the best ones, the interval
              [lo, hi], or of a point predicate the place (lo = lon, hi = lat). Two CURVE entries follow
    CURVE     of the GRADE before it: first lo = scale and hi = offset, then lo = the closeness at the scale and hi = the number
              of the curve (`matchwood.decay`); weight 0

CIRCLE, COUNT, REGION and what follows them come after the intervals of their predicate. They only narrow it: what is filtered
by intervals alone has every row that matches. GRADE and CURVE come last. The weights of a predicate, of its head and its grades,
bound what it adds.

The head of a predicate stands first, so `kinds` splits a row into predicates without looking at the schema.
Entries keep the order in which the expression names them: scores are summed in this order, so every system that reads the same
row adds the same floats in the same order and gets the same bits.

The rows of one subscription share its id and are adjacent.

Beside its columns `Rows` may have `schema`, the one that encoded them, and `until`, when each row expires; `Events` may have
`schema`. The encoders set them, and whatever makes arrays of arrays (`take`, `concatenate_rows`, `pick_rows`, ...) keeps them.
A pickle keeps them as well: arrays that another process has encoded with a copy of the schema are where a check is needed most.
They are attributes of a subclass of the tuple of columns: compiled code sees columns only. Arrays made by hand (`make_rows`,
`make_events`) have neither; what their dimensions and keys mean is taken on trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from matchwood.errors import SchemaError

if TYPE_CHECKING:
    from matchwood.schema import Schema

INTERVAL, MORE, JOINED, ABSENT, CIRCLE, COUNT, PART = 0, 1, 2, 3, 4, 5, 6
REGION, RING, VERTEX = 7, 8, 9
GRADE, CURVE = 10, 11
NARROWING = CIRCLE
"""The kinds from here on narrow or grade a predicate whose intervals come before."""
CONTINUING = (MORE, PART, RING, VERTEX, CURVE)
"""The kinds that go on with the entry before."""

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Made = TypeVar("Made", bound="Rows | Events")


class _RowColumns(NamedTuple):
    ids: Int64s  # subscription id of each row, not negative
    priority: Float64s
    offsets: Int64s
    dims: NDArray[np.uint16]
    kinds: NDArray[np.uint8]
    lo: Float64s
    hi: Float64s
    weight: Float64s


class Rows(_RowColumns):
    """Conjunctions, one a row; see the module's text for the layout."""

    schema: Schema | None = None
    """The schema that the rows were encoded under, if an encoder made them."""
    until: Float64s | None = None
    """The key of the instant at which each row's subscription expires, inf for never; None if none does."""

    def stamped(self, schema: Schema | None, until: Float64s | None = None) -> Rows:
        """The same columns with this schema and expiry. O(1)."""
        return _stamped(Rows(*self), schema, until)

    def _replace(self, /, **columns: Any) -> Rows:
        return _stamped(Rows._make({**self._asdict(), **columns}.values()), self.schema, self.until)

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)

    def take(self, start: int, stop: int) -> Rows:
        """Rows start:stop as views (offsets are copied). O(stop - start)."""
        e = slice(self.offsets[start], self.offsets[stop])
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        heads = self.ids[start:stop], self.priority[start:stop], offsets
        rows = Rows(*heads, self.dims[e], self.kinds[e], self.lo[e], self.hi[e], self.weight[e])
        return _stamped(rows, self.schema, None if self.until is None else self.until[start:stop])


class _EventColumns(NamedTuple):
    offsets: Int64s
    dims: NDArray[np.uint16]
    lo: Float64s
    hi: Float64s
    weight: Float64s


class Events(_EventColumns):
    """Events; a value is one entry with lo = hi, a range one with lo < hi, a list adjacent entries of one dimension."""

    schema: Schema | None = None
    """The schema that the events were encoded under, if an encoder made them."""

    def stamped(self, schema: Schema | None) -> Events:
        """The same columns with this schema. O(1)."""
        return _stamped(Events(*self), schema)

    def _replace(self, /, **columns: Any) -> Events:
        return _stamped(Events._make({**self._asdict(), **columns}.values()), self.schema)

    @property
    def size(self) -> int:
        """How many events."""
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)

    def take(self, start: int, stop: int) -> Events:
        """Events start:stop as views (offsets are copied). O(stop - start)."""
        e = slice(self.offsets[start], self.offsets[stop])
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        return _stamped(Events(offsets, self.dims[e], self.lo[e], self.hi[e], self.weight[e]), self.schema)


class Matches(NamedTuple):
    """The hits of a batch of events: subscription ids and scores."""

    offsets: Int64s
    ids: Int64s
    scores: Float64s

    def of(self, event: int) -> tuple[Int64s, Float64s]:
        """Ids and scores of one event of the batch."""
        span = slice(self.offsets[event], self.offsets[event + 1])
        return self.ids[span], self.scores[span]


def make_rows(
    ids: object,
    priority: object,
    offsets: object,
    dims: object,
    kinds: object,
    lo: object,
    hi: object,
    weight: object,
) -> Rows:
    """Rows with every column in its one dtype and contiguous (kernels are compiled for these types only)."""
    return Rows(
        _column(ids, np.int64),
        _column(priority, np.float64),
        _column(offsets, np.int64),
        _column(dims, np.uint16),
        _column(kinds, np.uint8),
        _column(lo, np.float64),
        _column(hi, np.float64),
        _column(weight, np.float64),
    )


def make_events(offsets: object, dims: object, lo: object, hi: object, weight: object = None) -> Events:
    """Events with every column in its one dtype and contiguous; weights default to 1."""
    keys = _column(lo, np.float64)
    weights = np.ones(len(keys)) if weight is None else _column(weight, np.float64)
    return Events(_column(offsets, np.int64), _column(dims, np.uint16), keys, _column(hi, np.float64), weights)


def concatenate_rows(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, one after the other. Raises `SchemaError` if they were encoded under schemas that disagree."""
    if not parts:
        return make_rows([], [], [0], [], [], [], [], [])
    shifts = np.cumsum([0, *(part.offsets[-1] for part in parts[:-1])])
    offsets = np.concatenate([[0], *(part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=True))])
    columns = [np.concatenate(column) for column in zip(*(part[3:] for part in parts), strict=True)]
    ids = np.concatenate([part.ids for part in parts])
    priority = np.concatenate([part.priority for part in parts])
    until = None
    if any(part.until is not None for part in parts):
        until = np.concatenate([np.full(p.size, np.inf) if p.until is None else p.until for p in parts])
    return _stamped(make_rows(ids, priority, offsets, *columns), _common_schema(parts), until)


def concatenate_events(parts: Sequence[Events]) -> Events:
    """The events of all parts, one after the other. Raises `SchemaError` if they were encoded under schemas that disagree."""
    if not parts:
        return make_events([0], [], [], [])
    shifts = np.cumsum([0, *(part.offsets[-1] for part in parts[:-1])])
    offsets = np.concatenate([[0], *(part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=True))])
    columns = [np.concatenate(column) for column in zip(*(part[1:] for part in parts), strict=True)]
    return _stamped(make_events(offsets, *columns), _common_schema(parts))


def _stamped(made: Made, schema: Schema | None, until: Float64s | None = None) -> Made:
    """Arrays just made, with this schema and expiry."""
    if schema is not None:
        made.schema = schema
    if until is not None and isinstance(made, Rows):
        made.until = until
    return made


def _common_schema(parts: Sequence[Rows] | Sequence[Events]) -> Schema | None:
    """The schema that extends those of all parts that have one."""
    common: Schema | None = None
    for schema in (part.schema for part in parts if part.schema is not None):
        if common is None or schema.extends(common):
            common = schema
        elif not common.extends(schema):
            raise SchemaError(
                f"the parts were encoded under different schemas: {common.difference(schema)}; encode them under one"
            )
    return common


def _column(values: object, dtype: type) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=dtype)
