"""Flat entries: what the readers of tables collect before it is laid out as CSR arrays.

Each column of a table (or each list of structs) gives one `Entries`, ascending by record; `in_order` merges those of several
columns, record by record, in the order of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import ABSENT, INTERVAL, JOINED, MORE, Float64s, Int64s, Rows, make_rows
from matchwood.encode.objects import RowsBuilder, decode_rows
from matchwood.encode.rejects import Bools, Faults
from matchwood.errors import NeverMatchesError
from matchwood.lang.rows import Row, conjunction
from matchwood.schema import Schema


class Entries(NamedTuple):
    """Entries as in `Rows` or `Events` (whose kinds are all INTERVAL), each with the number of its record in the batch."""

    record: Int64s
    dims: NDArray[np.uint16]
    kinds: NDArray[np.uint8]
    lo: Float64s
    hi: Float64s
    weight: Float64s


class IntervalSets(NamedTuple):
    """Interval sets, flat: part i, [lo[i], hi[i]], belongs to set owner[i]; ascending by owner, then by key."""

    owner: Int64s
    lo: Float64s
    hi: Float64s


def canonical(owner: Int64s, lo: Float64s, hi: Float64s) -> IntervalSets:
    """The interval sets of any closed intervals, in the canonical form of `lang.intervals`. O(n log n).

    `reach` is the running maximum of the upper ends of a set. Computed over ranks that increase with the owner, the maxima of all
    sets are one accumulation.
    """
    if not len(owner):
        return IntervalSets(owner, lo, hi)
    order = np.lexsort((hi, lo, owner))
    owner, lo, hi = owner[order], lo[order] + 0.0, hi[order] + 0.0
    new_owner = np.concatenate([[True], owner[1:] != owner[:-1]])
    values, rank = np.unique(hi, return_inverse=True)
    base = np.cumsum(new_owner) * len(values)
    reach = values[np.maximum.accumulate(rank + base) - base]
    begins = new_owner.copy()
    with np.errstate(over="ignore"):  # the next float after the largest is infinity
        begins[1:] |= lo[1:] > np.nextafter(reach[:-1], np.inf)
    ends = np.concatenate([begins[1:], [True]])
    return IntervalSets(owner[begins], lo[begins], reach[ends])


def values_of(sets: IntervalSets, bools: Bools | bool, instants: Bools | bool) -> IntervalSets:
    """The sets in the form of `lang.leaves.values_in`; the masks say which parts are of bools or timestamps. O(parts).

    The ends in a table are values of the type, so none has to be rounded.
    """
    whole = np.broadcast_to(np.logical_or(bools, instants), len(sets.owner))
    if not whole.any():
        return sets
    lo, hi = np.where(bools, np.maximum(sets.lo, 0.0), sets.lo), np.where(bools, np.minimum(sets.hi, 1.0), sets.hi)
    with np.errstate(over="ignore"):
        next_whole = np.maximum(hi[:-1] + 1.0, np.nextafter(hi[:-1], np.inf))
    begins = np.ones(len(lo), np.bool_)
    begins[1:] = (sets.owner[1:] != sets.owner[:-1]) | ~whole[1:] | ~(lo[1:] <= next_whole)
    lo, hi = lo[begins], hi[np.concatenate([begins[1:], [True]])]
    both = np.broadcast_to(bools, len(begins))[begins] & (lo == 0.0) & (hi == 1.0)
    return IntervalSets(sets.owner[begins], np.where(both, -np.inf, lo), np.where(both, np.inf, hi))


def entries_of(
    sets: IntervalSets, record: Int64s, dims: NDArray[np.uint16], weight: Float64s, *, events: bool
) -> Entries:
    """The entries of interval sets; `record`, `dims` and `weight` are by owner.

    In `Rows` the first part of a set is a head with the weight, the others continue it; in `Events` all parts are alike.
    """
    owner = sets.owner
    kinds = np.full(len(owner), INTERVAL, np.uint8)
    if len(owner) == len(record) and (owner[1:] > owner[:-1]).all():  # each set has one part
        return Entries(record, dims, kinds, sets.lo, sets.hi, weight)
    weights = weight[owner]
    if not events and len(owner) > 1:
        more = np.concatenate([[False], owner[1:] == owner[:-1]])
        kinds[more], weights[more] = MORE, 0.0
    return Entries(record[owner], dims[owner], kinds, sets.lo, sets.hi, weights)


def in_order(parts: Sequence[Entries]) -> Entries:
    """The entries of all parts, record by record. O(n log parts), since the stable sort merges ascending runs."""
    if not parts:
        nothing = np.zeros(0)
        return Entries(np.zeros(0, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.uint8), nothing, nothing, nothing)
    if len(parts) == 1:
        return parts[0]
    record = np.concatenate([part.record for part in parts])
    order = np.argsort(record, kind="stable")
    columns: list[Any] = list(zip(*parts, strict=True))[1:]
    return Entries(record[order], *(np.concatenate(column)[order] for column in columns))


def selected(entries: Entries, records: Bools) -> tuple[Int64s, Entries]:
    """The offsets and the entries of the chosen records."""
    counts = np.bincount(entries.record, minlength=len(records))
    offsets = np.concatenate([[0], np.cumsum(counts[records])])
    if not records.all():
        columns: list[Any] = [column[records[entries.record]] for column in entries]
        entries = Entries(*columns)
    return offsets, entries


def rows_of(entries: Entries, ids: Int64s, priority: Float64s, chosen: Bools) -> Rows:
    """The rows of the chosen records."""
    offsets, columns = selected(entries, chosen)
    return make_rows(ids[chosen], priority[chosen], offsets, *columns[1:])


def with_joined(entries: Entries, at: Int64s, latitude: NDArray[np.uint16]) -> Entries:
    """The entries with all latitudes inserted after each longitude in `at`; `latitude` is the dimension, by entry."""
    joined: list[Any] = [entries.record[at], latitude[at], JOINED, -np.inf, np.inf, 0.0]
    before: list[Any] = list(entries)
    columns = [np.insert(column, at + 1, new) for column, new in zip(before, joined, strict=True)]
    return Entries(*columns)


def repeating(entries: Entries, n: int) -> Bools:
    """Which of the n records have more than one predicate on an attribute. O(n log n), O(n) if dimensions ascend."""
    heads = (entries.kinds == INTERVAL) | (entries.kinds == ABSENT)
    key = (entries.record[heads].astype(np.uint32 if n <= 65_536 else np.int64) << 16) | entries.dims[heads]
    if not (key[1:] > key[:-1]).all():
        key = np.sort(key)
    twice = np.zeros(n, np.bool_)
    twice[key[1:][key[1:] == key[:-1]] >> 16] = True
    return twice


def merged_rows(
    entries: Entries, which: Bools, ids: Int64s, priority: Float64s, schema: Schema, faults: Faults
) -> dict[int, Row]:
    """The rows of records with several predicates on one attribute, intersected; records that can never match fail."""
    merged: dict[int, Row] = {}
    drafts = decode_rows(rows_of(entries, ids, priority, which), schema)
    for record, draft in zip(np.flatnonzero(which).tolist(), drafts, strict=True):
        try:
            merged[record] = conjunction(draft.predicates)
        except NeverMatchesError as error:
            faults.add(record, error)
    return merged


def with_rows(rows: Rows, records: Int64s, replaced: dict[int, Row], schema: Schema) -> Rows:
    """`rows`, one for each of `records`, with the rows of some records replaced. O(entries)."""
    if not replaced:
        return rows
    at = np.flatnonzero(np.isin(records, list(replaced)))
    builder = RowsBuilder(schema)
    for i in at.tolist():
        builder.add(int(rows.ids[i]), float(rows.priority[i]), [replaced[int(records[i])]])
    new = builder.build()
    starts, stops = rows.offsets[:-1].copy(), rows.offsets[1:].copy()
    shift = rows.offsets[-1]
    starts[at], stops[at] = new.offsets[:-1] + shift, new.offsets[1:] + shift
    lengths = stops - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    source = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    pairs: list[Any] = list(zip(rows[3:], new[3:], strict=True))
    columns = [np.concatenate(pair)[source] for pair in pairs]
    return make_rows(rows.ids, rows.priority, offsets, *columns)
