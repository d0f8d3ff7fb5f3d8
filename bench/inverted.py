"""Rows as an inverted file: which rows name which value. The common input of the indexes by hand (`bench.inverted_by_hand`).

    group      a row needs one of its named values in each of its groups: a group is an attribute or, where attributes are many,
               the position of a predicate in its row, rarest first
    named      (group, dimension, key, rank): the row of that rank accepts the value; a key of a range is a cell
    excluded   (dimension, key, rank): `NOT IN`, which an event with this value alone fails
    outside    (dimension, rank): rows with `NOT IN`, which an event without the attribute fails
    absent     (dimension, rank): `IS NULL`
    ranges     [rank, column], if cells do not decide: the ends of the ranges, by rank and ranged dimension

The rank of a row is its position by descending score, then id, so that the first of an answer are the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from matchwood.encode.arrays import ABSENT, CIRCLE, JOINED, MORE, Float64s, Int64s, Rows

MAX_ATTRIBUTES = 16
"""More than these, and groups are positions instead of attributes."""
EXACT_CELLS, COARSE_CELLS = 512, 64


@dataclass(frozen=True)
class Inverted:
    """See the module's text. Lists of records are tuples of columns."""

    ids: Int64s
    groups: int
    needs: Int64s
    """By rank: a bit for each group in which the row names values."""
    named: tuple[Int64s, Int64s, Float64s, Int64s]
    excluded: tuple[Int64s, Float64s, Int64s]
    outside: tuple[Int64s, Int64s]
    absent: tuple[Int64s, Int64s]
    cuts: dict[int, Float64s]
    """By ranged dimension: a key is in cell `searchsorted(cuts, key, "right")`."""
    ranges: tuple[Float64s, Float64s] | None
    ranged: list[int]
    """The dimensions of the columns of `ranges`."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.ids)


def inverted(rows: Rows) -> Inverted:
    """The inverted file of rows of equality, IN, NOT IN, single ranges and IS NULL. O(entries log entries)."""
    if np.isin(rows.kinds, (JOINED, CIRCLE)).any() or len(np.unique(rows.ids)) != rows.size:
        raise SystemExit("an inverted file by hand takes rows without places, one for each subscription")
    about = _Predicates(rows)
    order, ranks = _ranked(rows)
    row = ranks[about.row]
    cuts, ranges, ranged = _ranges(about, row, rows.size)
    entries, keys = _named_entries(about, cuts)
    groups = _groups(about, entries, keys)
    number = int(groups.max(initial=0)) + 1
    needs = np.zeros(rows.size, np.int64)
    named = np.flatnonzero(~about.is_outside & ~about.is_absent)
    np.bitwise_or.at(needs, row[named], np.int64(1) << groups[named])
    last = np.append(about.first, len(rows.lo))[1:] - 1
    gaps = np.setdiff1d(np.flatnonzero(about.is_outside[about.of_entry]), last)
    return Inverted(
        ids=rows.ids[order],
        groups=number,
        needs=needs,
        named=(groups[entries], about.dim[entries], keys, row[entries]),
        excluded=(
            about.dim[about.of_entry[gaps]],
            np.nextafter(rows.hi[gaps], np.inf) + 0.0,
            row[about.of_entry[gaps]],
        ),
        outside=(about.dim[about.is_outside], row[about.is_outside]),
        absent=(about.dim[about.is_absent], row[about.is_absent]),
        cuts=cuts,
        ranges=ranges,
        ranged=ranged,
    )


class _Predicates:
    """The predicates of rows, one after the other."""

    def __init__(self, rows: Rows) -> None:
        heads = rows.kinds != MORE
        self.lo, self.hi = rows.lo, rows.hi
        self.first: Int64s = np.flatnonzero(heads)
        self.of_entry: Int64s = np.cumsum(heads) - 1
        self.row: Int64s = np.repeat(np.arange(rows.size), np.diff(rows.offsets))[self.first]
        self.dim = rows.dims[self.first].astype(np.int64)
        last = np.append(self.first, len(rows.lo))[1:] - 1
        self.is_absent = rows.kinds[self.first] == ABSENT
        self.is_outside = np.isneginf(rows.lo[self.first]) & np.isposinf(rows.hi[last]) & (last > self.first)
        points = np.ones(len(self.first), bool)
        np.logical_and.at(points, self.of_entry, rows.lo == rows.hi)
        named = ~self.is_outside & ~self.is_absent
        self.is_range = named & np.isin(self.dim, self.dim[named & ~points])  # a range may be a point
        if (self.is_range & (last > self.first)).any():
            raise SystemExit("an inverted file by hand takes single ranges, or values, of an attribute")


def _ranked(rows: Rows) -> tuple[Int64s, Int64s]:
    """Rows by descending score, and the rank of each."""
    weights = np.add.reduceat(np.append(rows.weight, 0.0), rows.offsets[:-1]) * (np.diff(rows.offsets) > 0)
    order = np.lexsort((rows.ids, -(rows.priority + weights)))
    ranks = np.empty(rows.size, np.int64)
    ranks[order] = np.arange(rows.size)
    return order, ranks


def _ranges(about: _Predicates, row: Int64s, size: int) -> tuple[dict[int, Float64s], Any, list[int]]:
    """The cuts of each dimension with ranges; the ends of the ranges and their dimensions, if cells do not decide."""
    cuts, coarse = {}, []
    for dim in np.unique(about.dim[about.is_range]).tolist():
        first = about.first[about.is_range & (about.dim == dim)]
        ends = np.unique(np.concatenate([about.lo[first], np.nextafter(about.hi[first], np.inf)]))
        ends = ends[np.isfinite(ends)]
        if len(ends) > EXACT_CELLS:
            ends = ends[np.linspace(0, len(ends) - 1, COARSE_CELLS).astype(np.int64)]
            coarse.append(dim)
        cuts[dim] = ends
    if not coarse:
        return cuts, None, []
    lo, hi = np.full((size, len(coarse)), -np.inf), np.full((size, len(coarse)), np.inf)
    for column, dim in enumerate(coarse):
        mine = np.flatnonzero(about.is_range & (about.dim == dim))
        lo[row[mine], column], hi[row[mine], column] = about.lo[about.first[mine]], about.hi[about.first[mine]]
    return cuts, (lo, hi), coarse


def _named_entries(about: _Predicates, cuts: dict[int, Float64s]) -> tuple[Int64s, Float64s]:
    """(predicate, key) of each value or cell that a predicate names."""
    points = np.flatnonzero(~(about.is_range | about.is_outside | about.is_absent)[about.of_entry])
    owners, keys = [about.of_entry[points]], [about.lo[points]]
    for dim, ends in cuts.items():
        mine = np.flatnonzero(about.is_range & (about.dim == dim))
        low = np.searchsorted(ends, about.lo[about.first[mine]], "right")
        count = np.searchsorted(ends, about.hi[about.first[mine]], "right") - low + 1
        owners.append(np.repeat(mine, count))
        steps = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        keys.append((np.repeat(low, count) + steps).astype(np.float64))
    return np.concatenate(owners), np.concatenate(keys)


def _groups(about: _Predicates, entries: Int64s, keys: Float64s) -> Int64s:
    """The group of each predicate, which name (predicate, key)."""
    groups = np.zeros(len(about.row), np.int64)
    named = np.unique(entries)
    dims = np.unique(about.dim[named])
    if len(dims) <= MAX_ATTRIBUTES:
        groups[named] = np.searchsorted(dims, about.dim[named])
        return groups
    _, value, mentions = np.unique(about.dim[entries] + 1j * keys, return_inverse=True, return_counts=True)
    rows_met = np.bincount(entries, weights=mentions[value])
    order = named[np.lexsort((rows_met[named], about.row[named]))]
    begins = np.flatnonzero(np.diff(about.row[order], prepend=-1))
    groups[order] = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return groups
