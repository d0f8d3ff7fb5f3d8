"""Derived attributes of many events at once: what is computed from a column of values.

A function is called once for each distinct value of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import INTERVAL, Events, Float64s, Int64s, make_events
from matchwood.encode.flat import Entries
from matchwood.schema import Attribute
from matchwood.schema.deriving import derived_keys


def derived_entries(
    source: Attribute, record: Int64s, which: Int64s, values: Sequence[Any], weight: Float64s, *, register: bool
) -> Entries:
    """The entries of everything that is derived from an attribute: record[i], ascending, has the value values[which[i]].

    The values are texts of strings, and keys of anything else; `weight` is by record. O(values + entries log entries).
    """
    found = [derived_keys(source, (value,), register) for value in values]
    size = np.array([len(pairs) for pairs in found], np.int64)
    starts = np.concatenate([[0], np.cumsum(size)])
    flat = np.array([pair for pairs in found for pair in pairs], np.float64).reshape(-1, 2)
    counts = size[which]
    owner: Int64s = np.repeat(record, counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat(starts[which], counts) + within
    dims, keys = flat[at, 0].astype(np.uint16), flat[at, 1]
    if len(record) > 1 and not (record[1:] > record[:-1]).all():  # lists: the values of one event are united
        order = np.lexsort((keys, dims, owner))
        owner, dims, keys = owner[order], dims[order], keys[order]
        new = np.ones(len(owner), np.bool_)
        new[1:] = (owner[1:] != owner[:-1]) | (dims[1:] != dims[:-1]) | (keys[1:] != keys[:-1])
        owner, dims, keys = owner[new], dims[new], keys[new]
    kinds: NDArray[np.uint8] = np.full(len(owner), INTERVAL, np.uint8)
    return Entries(owner, dims, kinds, keys, keys, weight[owner])


def derived_of_keys(source: Attribute, entries: Entries, weight: Float64s, *, register: bool) -> Entries:
    """As `derived_entries`, from the keys of an attribute that is not a string; ranges have no derived values."""
    single = entries.lo == entries.hi
    values, which = np.unique(entries.lo[single], return_inverse=True)
    return derived_entries(source, entries.record[single], which, values.tolist(), weight, register=register)


def derived_events(events: Events, source: Attribute, derived: Attribute, *, register: bool) -> Events:
    """What is derived from an attribute of events that are encoded already, as events that have nothing else.

    The strings of the source must be registered; those of the result are with `register`.
    """
    mine = (events.dims == source.dims[0]) & (events.lo == events.hi)
    owner = np.repeat(np.arange(events.size), np.diff(events.offsets))[mine]
    weight = np.ones(events.size)
    weight[owner] = events.weight[mine]
    keys, which = np.unique(events.lo[mine], return_inverse=True)
    values: list[Any] = keys.tolist()
    if source.symbols is not None:
        values = [source.symbols.text(int(key)) for key in values]
    only = replace(source, derived=(derived,))
    entries = derived_entries(only, owner, which, values, weight, register=register)
    offsets = np.searchsorted(entries.record, np.arange(events.size + 1))
    return make_events(offsets, entries.dims, entries.lo, entries.hi, entries.weight)


def with_entries(events: Events, parts: Sequence[Entries]) -> Events:
    """The events with further entries, whose records are positions of events. O(entries log entries)."""
    if not parts:
        return events
    owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
    record = np.concatenate([owner, *(part.record for part in parts)])
    order = np.argsort(record, kind="stable")
    own = (events.dims, events.lo, events.hi, events.weight)
    added = [(part.dims, part.lo, part.hi, part.weight) for part in parts]
    columns = [np.concatenate(column)[order] for column in zip(own, *added, strict=True)]
    made = make_events(np.searchsorted(record[order], np.arange(events.size + 1)), *columns)
    made.schema = events.schema
    return made


def merged_events(old: Events, new: Events, dims: Sequence[int]) -> Events:
    """Events with further values; `new` and `dims` say which values of the old ones are replaced. O(values log values)."""
    old_owner = np.repeat(np.arange(old.size), np.diff(old.offsets))
    new_owner = np.repeat(np.arange(new.size), np.diff(new.offsets))
    old_key: Int64s = old_owner << 16 | old.dims
    new_key: Int64s = new_owner << 16 | new.dims
    kept = ~(np.isin(old.dims, np.array(dims, np.uint16)) | np.isin(old_key, new_key))
    key = np.concatenate([old_key[kept], new_key])
    order = np.argsort(key, kind="stable")  # the values of a list stay in order
    pairs: list[tuple[np.ndarray, np.ndarray]] = list(zip(old[1:], new[1:], strict=True))
    columns = [np.concatenate([a[kept], b])[order] for a, b in pairs]
    offsets = np.searchsorted(key[order] >> 16, np.arange(old.size + 1))
    return make_events(offsets, *columns)
