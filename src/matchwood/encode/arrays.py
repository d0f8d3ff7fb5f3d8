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

The head of a predicate stands first, so `kinds` splits a row into predicates without looking at the schema.
Entries keep the order in which the expression names them: scores are summed in this order, so every system that reads the same
row adds the same floats in the same order and gets the same bits.

The rows of one subscription share its id and are adjacent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INTERVAL, MORE, JOINED, ABSENT, CIRCLE = 0, 1, 2, 3, 4

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


class Rows(NamedTuple):
    """Conjunctions, one a row; see the module's text for the layout."""

    ids: Int64s  # subscription id of each row, not negative
    priority: Float64s
    offsets: Int64s
    dims: NDArray[np.uint16]
    kinds: NDArray[np.uint8]
    lo: Float64s
    hi: Float64s
    weight: Float64s

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
        return Rows(*heads, self.dims[e], self.kinds[e], self.lo[e], self.hi[e], self.weight[e])


class Events(NamedTuple):
    """Events; a value is one entry with lo = hi, a range one with lo < hi, a list adjacent entries of one dimension."""

    offsets: Int64s
    dims: NDArray[np.uint16]
    lo: Float64s
    hi: Float64s
    weight: Float64s

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
        return Events(offsets, self.dims[e], self.lo[e], self.hi[e], self.weight[e])


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
    """The rows of all parts, one after the other."""
    if not parts:
        return make_rows([], [], [0], [], [], [], [], [])
    shifts = np.cumsum([0, *(part.offsets[-1] for part in parts[:-1])])
    offsets = np.concatenate([[0], *(part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=True))])
    columns = [np.concatenate(column) for column in zip(*(part[3:] for part in parts), strict=True)]
    ids = np.concatenate([part.ids for part in parts])
    priority = np.concatenate([part.priority for part in parts])
    return make_rows(ids, priority, offsets, *columns)


def concatenate_events(parts: Sequence[Events]) -> Events:
    """The events of all parts, one after the other."""
    if not parts:
        return make_events([0], [], [], [])
    shifts = np.cumsum([0, *(part.offsets[-1] for part in parts[:-1])])
    offsets = np.concatenate([[0], *(part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=True))])
    return make_events(offsets, *(np.concatenate(column) for column in zip(*(part[1:] for part in parts), strict=True)))


def _column(values: object, dtype: type) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=dtype)
