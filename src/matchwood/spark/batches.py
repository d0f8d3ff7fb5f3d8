"""Conversion of Arrow batches of the pipeline's tables to the arrays of `encode` and back. Runs in workers, without a session.

Arrow stores the items of a list column in one flat buffer. They become a NumPy array without a copy if the types agree (float64)
and by one narrowing copy if they do not (dimensions, kinds). NumPy calls such an array read-only, which is another type to Numba:
a kernel would be compiled once more, in the first task of a machine, although none writes its input. So it is called writable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows, make_events, make_rows
from matchwood.errors import SchemaError
from matchwood.spark import columns

MATCHES = columns.arrow_schema(columns.MATCHES)
RANKED = columns.arrow_schema(columns.RANKED)
SUBSCRIPTIONS = columns.arrow_schema(columns.SUBSCRIPTIONS)
EVENTS = columns.arrow_schema(columns.EVENTS)
SHARDED_SUBSCRIPTIONS = columns.arrow_schema(columns.SHARDED_SUBSCRIPTIONS)
ROUTED_EVENTS = columns.arrow_schema(columns.ROUTED_EVENTS)
CENTRES = columns.arrow_schema(columns.CENTRES)


class SubscriptionBatch(NamedTuple):
    """The subscriptions of a batch: an id and an `until` each (microseconds, inf for never), and the rows of all of them."""

    ids: Int64s
    until: Float64s
    rows: Rows


class EventBatch(NamedTuple):
    """The events of a batch: an id and an `until` each (microseconds, inf for never), and their values."""

    ids: Int64s
    until: Float64s
    events: Events


def read_subscriptions(batch: Any) -> SubscriptionBatch:
    """The subscriptions of an Arrow batch. O(entries)."""
    columns.required(batch, columns.SUBSCRIPTIONS, "subscriptions")
    ids = _numbers(batch, "id")
    sizes_at, sizes = _list(batch, "row_sizes")
    rows_each = np.diff(sizes_at)
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    ends, dims = _list(batch, "dims")
    if offsets[-1] != len(dims) or not np.array_equal(offsets[sizes_at], ends):
        raise SchemaError("subscriptions: the sizes in column 'row_sizes' do not add up to the lengths of 'dims'")
    parts = [_entries(batch, name, ends) for name in ("kinds", "lo", "hi", "weight")]
    priority = _numbers(batch, "priority")
    rows = make_rows(np.repeat(ids, rows_each), np.repeat(priority, rows_each), offsets, dims, *parts)
    return SubscriptionBatch(ids, read_until(batch), rows)


def write_subscriptions(batch: SubscriptionBatch) -> Any:
    """The Arrow batch of subscriptions. O(entries)."""
    rows = batch.rows
    heads = first_rows(rows)
    row_at = np.concatenate([heads, [rows.size]])
    entry_at = rows.offsets[row_at]
    arrays = [
        pa.array(batch.ids),
        pa.array(rows.priority[heads]),
        instants(batch.until),
        _lists(row_at, np.diff(rows.offsets).astype(np.int32)),
        _lists(entry_at, rows.dims.astype(np.int32)),
        _lists(entry_at, rows.kinds.astype(np.int8)),
        *(_lists(entry_at, column) for column in (rows.lo, rows.hi, rows.weight)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SUBSCRIPTIONS)


def read_events(batch: Any) -> EventBatch:
    """The events of an Arrow batch. O(entries)."""
    columns.required(batch, columns.EVENTS, "events")
    ends, dims = _list(batch, "dims")
    lo = _entries(batch, "lo", ends)
    hi = _entries(batch, "hi", ends, missing=lo)
    weight = _entries(batch, "weight", ends, missing=np.ones(len(lo)))
    return EventBatch(_numbers(batch, "id"), read_until(batch), make_events(ends, dims, lo, hi, weight))


def write_events(batch: EventBatch) -> Any:
    """The Arrow batch of events; `hi` is empty if no value is a range, `weight` if all weights are 1. O(entries)."""
    events = batch.events
    ends = events.offsets
    has_ranges = bool((events.lo != events.hi).any())
    has_weights = bool((events.weight != 1.0).any())
    empty = _lists(np.zeros(events.size + 1, np.int64), np.zeros(0))
    arrays = [
        pa.array(batch.ids),
        instants(batch.until),
        _lists(ends, events.dims.astype(np.int32)),
        _lists(ends, events.lo),
        _lists(ends, events.hi) if has_ranges else empty,
        _lists(ends, events.weight) if has_weights else empty,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def write_matches(event_ids: Int64s, matches: Matches) -> Any:
    """The Arrow batch of matches that are in rank order. O(matches)."""
    counts = np.diff(matches.offsets)
    rank = np.arange(1, len(matches.ids) + 1) - np.repeat(matches.offsets[:-1], counts)
    arrays = [np.repeat(event_ids, counts), matches.ids, matches.scores, rank.astype(np.int32)]
    return pa.RecordBatch.from_arrays([pa.array(array) for array in arrays], schema=MATCHES)


def write_ranked(event_ids: Int64s, matches: Matches) -> Any:
    """The Arrow batch of matches as lists, one record per event. O(matches)."""
    lists = [_lists(matches.offsets, matches.ids), _lists(matches.offsets, matches.scores)]
    return pa.RecordBatch.from_arrays([pa.array(event_ids), *lists], schema=RANKED)


def read_ranked(batch: Any) -> tuple[Int64s, Matches]:
    """Event ids and the matches of each, from a batch that `write_ranked` made."""
    columns.required(batch, columns.RANKED, "ranked")
    ends, ids = _list(batch, "subscription_ids")
    return _numbers(batch, "event_id"), Matches(ends, ids, _entries(batch, "scores", ends))


def first_rows(rows: Rows) -> Int64s:
    """The position of the first row of each subscription. O(rows)."""
    if not rows.size:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]]))


def with_columns(first: Sequence[Any], batch: Any, schema: Any) -> Any:
    """A batch of this schema: the columns `first`, then those of `batch`, cast where types differ (time zones)."""
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip([*map(pa.array, first), *batch.columns], schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def split_by_first(batch: Any) -> Iterator[tuple[int, Any]]:
    """The records of a batch by the number in its first column (a shard, a group), ascending. O(records x numbers)."""
    numbers = batch.column(0).to_numpy(zero_copy_only=False)
    found = np.unique(numbers).tolist()
    for number in found:
        yield number, batch if len(found) == 1 else batch.filter(pa.array(numbers == number))


def read_until(batch: Any) -> Float64s:
    """The column `until` in microseconds, inf where it is null."""
    column = _column(batch, "until")
    present = column.is_valid().to_numpy(zero_copy_only=False)
    ticks = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).fill_null(0).to_numpy()
    return np.where(present, ticks.astype(np.float64), np.inf)


def instants(until: Float64s) -> Any:
    """Microseconds as an Arrow column of timestamps; infinity becomes null."""
    never = ~np.isfinite(until)
    ticks = np.where(never, 0.0, until).astype(np.int64)
    return pa.array(ticks, pa.int64(), mask=never).cast(pa.timestamp("us", tz="UTC"))


def _column(batch: Any, name: str) -> Any:
    return batch.column(batch.schema.get_field_index(name))


def _numbers(batch: Any, name: str) -> Any:
    return numpy_of(_column(batch, name))


def numpy_of(column: Any) -> Any:
    """The numbers of an Arrow column without nulls, as an array that is not marked as read-only."""
    return np.asarray(_Writable(column.to_numpy(zero_copy_only=False)))


class _Writable:
    """The memory of an array under NumPy's array interface, not marked as read-only."""

    def __init__(self, array: Any) -> None:
        self._owner = array  # NumPy keeps this object, and with it the memory
        described = array.__array_interface__
        self.__array_interface__ = {**described, "data": (described["data"][0], False)}


def _list(batch: Any, name: str) -> tuple[Int64s, Any]:
    """Offsets and items of a list column without nulls."""
    column = _column(batch, name)
    offsets = column.offsets.to_numpy().astype(np.int64)
    items = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    if items.null_count:
        raise SchemaError(f"column {name!r}: a list holds a null; remove it or replace it by a value")
    return offsets - offsets[0], numpy_of(items)


def _entries(batch: Any, name: str, ends: Int64s, missing: Float64s | None = None) -> Any:
    """The items of a list column whose lists are as long as those of `dims`; for an empty list they are taken from `missing`."""
    offsets, items = _list(batch, name)
    if np.array_equal(offsets, ends):
        return items
    given = np.diff(offsets)
    wrong = given != np.diff(ends)
    if missing is None or given[wrong].any():
        raise SchemaError(f"column {name!r}: a list differs in length from the list of the same record in 'dims'")
    if not len(items):
        return missing
    filled = missing.copy()
    filled[np.repeat(~wrong, np.diff(ends))] = items
    return filled


def _lists(offsets: Int64s, items: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(items))
