"""Live events as the exact test reads them: the values of a region, one by one or those a row names.

In: `kernels.layout`. Out: keys, and `values` and `parts` as `verify` takes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import trailing_zeros
from matchwood.structures.live.kernels.halves import key_of
from matchwood.structures.live.kernels.layout import (
    HEAD,
    LISTED,
    LOOSE,
    MASKED,
    SPREAD,
    count_at,
    field_at,
    flags_at,
    lower_halves,
    mask_at,
    places_at,
    whole_values,
)
from matchwood.structures.mo_tree.kernels.layout import ONE
from matchwood.structures.mo_tree.kernels.planes import count_ones


class Parts(NamedTuple):
    """The values of one event that a row asks for, as `verify` reads them."""

    lo: np.ndarray
    hi: np.ndarray


@helper
def number_at(live, start, n, i):
    """The value at place i of a SPREAD event of n places, as `ordered` says it."""
    here, near, far = lower_halves(start, n, field_at(live, start))
    upper = live.halves[2 * (start + HEAD) + i]
    lower = live.halves[(near if i < here else far) + i]
    return np.uint64(upper) << np.uint64(32) | np.uint64(lower)


@helper
def key_at(live, start, i):
    """The (lower) key of an event's value at place i."""
    return key_in(live, start, flags_at(live, start), places_at(live, start), i)


@helper
def key_in(live, start, flags, n, i):
    """The same of an event of these flags and n places."""
    if flags & LISTED:
        return live.keys[start + HEAD + i]
    if flags & SPREAD:
        return key_of(number_at(live, start, n, i))
    here, near, far = whole_values(start, n, field_at(live, start))
    return live.keys[(near if i < here else far) + i]


@kernel
def count_values(live, slots, sizes):
    """sizes[i] = how many values the event at slots[i] has."""
    for i in range(slots.size):
        sizes[i] = count_at(live, np.int64(live.events[np.int64(slots[i])].start))


@kernel
def list_values(live, slots, dims, keys):
    """The dimensions and (lower) keys of all values of these events, one after the other; return how many. O(values)."""
    n = np.int64(0)
    for i in range(slots.size):
        start = np.int64(live.events[np.int64(slots[i])].start)
        for j in range(count_at(live, start)):
            dim, place = nth_value(live, start, j)
            dims[n] = np.uint16(dim)
            keys[n] = key_at(live, start, place)
            n += 1
    return n


@helper
def nth_value(live, start, j):
    """The dimension of an event's j-th value, and its place. O(j)."""
    if flags_at(live, start) & LISTED:
        return np.int64(live.keys[start + HEAD + count_at(live, start) + j]), j
    mask = mask_at(live, start)
    for _ in range(j):
        mask &= mask - ONE
    dim = np.int64(trailing_zeros(mask))
    return dim, place_of(live, start, dim)


@helper
def place_of(live, start, dim):
    """The place of a dimension that a plain event has."""
    if flags_at(live, start) & SPREAD:
        return dim
    return count_ones(mask_at(live, start) & ((ONE << np.uint64(dim)) - ONE))


@helper
def value_of(live, start, dim):
    """The place of the event's value of a dimension (of a list's first part), or -1. O(log values)."""
    if not flags_at(live, start) & LISTED:
        has = dim < MASKED and (mask_at(live, start) >> np.uint64(dim)) & ONE
        return place_of(live, start, dim) if has else np.int64(-1)
    n = count_at(live, start)
    dims = start + HEAD + n
    low, high = np.int64(0), n
    while low < high:
        middle = (low + high) >> 1
        if live.keys[dims + middle] < dim:
            low = middle + 1
        else:
            high = middle
    return low if low < n and live.keys[dims + low] == dim else np.int64(-1)


@helper
def last_part(live, start, i):
    """The place of the last part of the list whose first is at place i of a LOOSE event."""
    n = count_at(live, start)
    dims = start + HEAD + n
    while i + 1 < n and live.keys[dims + i + 1] == live.keys[dims + i]:
        i += 1
    return i


@helper
def end_at(live, start, i):
    """The upper key at place i of a LOOSE event."""
    return live.keys[start + HEAD + 2 * count_at(live, start) + i]


@helper
def load_live(live, start, scratch, names):
    """Spread the values that the row names; those the event lacks are absent. O(names log values + parts of lists)."""
    loose = flags_at(live, start) & LOOSE != 0
    filled = np.int64(0)
    for j in range(names):
        dim = scratch.wanted[j]
        value = scratch.values[dim]
        i = value_of(live, start, dim)
        if i < 0:
            value.lo, value.hi, value.weight = np.nan, np.nan, 1.0
            continue
        value.lo = value.hi = key_at(live, start, i)
        value.weight = 1.0
        value.first, value.parts = np.uint32(filled), np.uint32(1)
        scratch.parts.lo[filled] = scratch.parts.hi[filled] = value.lo
        filled += 1
        if loose:
            filled = load_loose(live, start, i, value, scratch, filled - 1)


@helper
def load_loose(live, start, i, value, scratch, filled):
    """Spread a value that may have several parts, from place i on; return how many parts are filled now."""
    last = last_part(live, start, i)
    value.hi = end_at(live, start, last)
    value.weight = live.keys[start + HEAD + 3 * count_at(live, start) + i]
    value.parts = np.uint32(last + 1 - i)
    for part in range(i, last + 1):
        scratch.parts.lo[filled] = key_at(live, start, part)
        scratch.parts.hi[filled] = end_at(live, start, part)
        filled += 1
    return filled


@helper
def unload_row(scratch, names):
    for j in range(names):
        value = scratch.values[scratch.wanted[j]]
        value.lo, value.hi, value.weight = np.nan, np.nan, 1.0
