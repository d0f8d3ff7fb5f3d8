"""BEQ-Tree: leaves of a quadtree with sorted lists of event keys; counting (Guo et al., as described in MO-Tree 3.2 and 6.1.3).

Layout   quads[q]: the point at which a square is quartered and the first of four children, or its leaf.
         leaves[l]: the box of the leaf's events and their number; leaf 0 has those without a place, and its box is everything.
         Run (leaf, dimension) of `keys` and `members`: the leaf's events that have the dimension, as slots of
         `structures.live.kernels.layout`, by rising key, with some room behind them; freed room is chained by powers of two.
         `node` of an event is its leaf.
A row counts, in every leaf that its square meets, the events between its two ends on each dimension: two binary
searches and a walk. Those that are counted for each are candidates: for a row of single intervals they match, for any other the
ends are those of its hulls and the exact test decides. An event is put into, or taken out of, one list of its leaf for each of
its values, and what stands behind it there is moved: this is what makes the BEQ-Tree slow to change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.results import best_first, take_event
from matchwood.store.kernels.rows import ABSENT, AHEAD, CIRCLE
from matchwood.store.kernels.verify import score_row
from matchwood.structures.live.kernels.layout import (
    LOOSE,
    SLOTS,
    UNTIL,
    count_at,
    flags_at,
    id_at,
    let_go,
    slot_of,
)
from matchwood.structures.live.kernels.values import Parts, key_at, load_live, nth_value, unload_row, value_of

LEAF = np.dtype([("west", "f8"), ("east", "f8"), ("south", "f8"), ("north", "f8"), ("size", "u4"), ("most", "u4")])
QUAD = np.dtype([("x", "f8"), ("y", "f8"), ("children", "u4"), ("leaf", "u4")])
RUN = np.dtype([("start", "u4"), ("size", "u4"), ("room", "u4")])
NONE = np.uint32(0xFFFFFFFF)
NOWHERE = 0  # the leaf of events without a place

# places in `counts`
END, DIMENSIONS, X, Y, FREE = (
    0,
    1,
    2,
    3,
    4,
)  # the end of the pool; dimensions known; those of the place; free list heads
COUNTS = FREE + 32

NO_ROOM, NEW_DIMENSION = -1, -2  # why an event could not be placed, if not because its leaf is full


class Leaves(NamedTuple):
    quads: np.ndarray  # QUAD
    leaves: np.ndarray  # LEAF
    runs: np.ndarray  # RUN, by leaf * dimensions + dimension
    keys: np.ndarray  # float64
    members: np.ndarray  # uint32
    counts: np.ndarray  # int64


class LeafScratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    wanted: np.ndarray  # int64: the dimensions that the row names
    parts: Parts
    seen: np.ndarray  # uint32, one an event: where it stands in the answer
    dims: np.ndarray  # int64: the hulls of the row's intervals
    lo: np.ndarray  # float64
    hi: np.ndarray
    counters: np.ndarray  # uint16, one an event; zero before and after
    found: np.ndarray  # uint32, one an event: candidates


@helper
def first_at_least(keys, low, high, key):
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def place_of(tree, live, start):
    """Both coordinates of an event, NaN where it has none."""
    x, y = value_of(live, start, tree.counts[X]), value_of(live, start, tree.counts[Y])
    return key_at(live, start, x) if x >= 0 else np.nan, key_at(live, start, y) if y >= 0 else np.nan


@helper
def leaf_at(tree, x, y):
    """The leaf of a place. O(depth)."""
    if not (np.isfinite(x) and np.isfinite(y)):
        return np.int64(NOWHERE)
    q = np.int64(0)
    while tree.quads[q].children != NONE:
        quad = tree.quads[q]
        q = np.int64(quad.children) + np.int64(x > quad.x) + 2 * np.int64(y > quad.y)
    return np.int64(tree.quads[q].leaf)


@helper
def run_at(tree, leaf, dim):
    return tree.runs[leaf * tree.counts[DIMENSIONS] + dim]


@helper
def power_of(room):
    """The greatest power of two that is not above `room`, as its exponent."""
    power = np.int64(0)
    while (np.int64(2) << power) <= room:
        power += 1
    return power


@helper
def widen(tree, run):
    """Give a full run twice the room, freeing the old; False (and nothing changed) if the pool has none. O(run)."""
    power = power_of(np.int64(run.size)) + 1
    room = np.int64(1) << power
    start = tree.counts[FREE + power]
    if start >= 0:
        tree.counts[FREE + power] = np.int64(np.int32(tree.members[start]))
    elif tree.counts[END] + room <= tree.keys.size:
        start = tree.counts[END]
        tree.counts[END] += room
    else:
        return False
    old = np.int64(run.start)
    for i in range(np.int64(run.size)):
        tree.keys[start + i] = tree.keys[old + i]
        tree.members[start + i] = tree.members[old + i]
    if run.room > 0:
        free = FREE + power_of(np.int64(run.room))
        tree.members[old] = np.uint32(tree.counts[free])
        tree.counts[free] = old
    run.start, run.room = np.uint32(start), np.uint32(room)
    return True


@helper
def make_room(tree, live, start, leaf):
    """Room for one more in every list that the event goes into; 0, or why there is none. O(lists)."""
    for j in range(count_at(live, start)):
        dim, _ = nth_value(live, start, j)
        if dim >= tree.counts[DIMENSIONS]:
            return np.int64(NEW_DIMENSION)
        run = run_at(tree, leaf, dim)
        if run.size == run.room and not widen(tree, run):
            return np.int64(NO_ROOM)
    return np.int64(0)


@helper
def put_into(tree, run, key, slot):
    """Put an event behind those of the list that are not above it. O(list)."""
    keys, members, begin = tree.keys, tree.members, np.int64(run.start)
    at = begin + np.int64(run.size)
    while at > begin and keys[at - 1] > key:
        keys[at] = keys[at - 1]
        members[at] = members[at - 1]
        at -= 1
    keys[at] = key
    members[at] = np.uint32(slot)
    run.size += np.uint32(1)


@helper
def take_out(tree, run, slot):
    """Take an event out of a list. O(list): a binary search for its key waits for more cache lines than the walk."""
    keys, members = tree.keys, tree.members
    at, end = np.int64(run.start), np.int64(run.start) + np.int64(run.size)
    while np.int64(members[at]) != slot:
        at += 1
    for i in range(at, end - 1):
        keys[i] = keys[i + 1]
        members[i] = members[i + 1]
    run.size -= np.uint32(1)


@kernel
def place_events(tree, live, slots, first):
    """Put the events slots[first:] into the lists of their leaves; return the first not placed, or their number, and why.

    That is the number of a leaf that is full, or one of the reasons above. O(lists) each.
    """
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        start = np.int64(live.events[slot].start)
        x, y = place_of(tree, live, start)
        number = leaf_at(tree, x, y)
        leaf = tree.leaves[number]
        if leaf.size >= leaf.most:
            return i, number
        reason = make_room(tree, live, start, number)
        if reason < 0:
            return i, reason
        for j in range(count_at(live, start)):
            dim, place = nth_value(live, start, j)
            put_into(tree, run_at(tree, number, dim), key_at(live, start, place), slot)
        if number != NOWHERE:
            leaf.west, leaf.east = min(leaf.west, x), max(leaf.east, x)
            leaf.south, leaf.north = min(leaf.south, y), max(leaf.north, y)
        leaf.size += np.uint32(1)
        live.events[slot].node = np.uint32(number)
    return slots.size, np.int64(0)


@helper
def remove_event(tree, live, slot):
    """Take an event out of the lists of its leaf, which keeps its box, and out of the store. O(lists)."""
    start, number = np.int64(live.events[slot].start), np.int64(live.events[slot].node)
    for j in range(count_at(live, start)):
        take_out(tree, run_at(tree, number, nth_value(live, start, j)[0]), slot)
    tree.leaves[number].size -= np.uint32(1)
    let_go(live, slot)


@kernel
def remove_events(tree, live, slots):
    """Remove events by slot, each named once. O(lists) each."""
    for i in range(slots.size):
        remove_event(tree, live, np.int64(slots[i]))


@kernel
def remove_one(tree, live, id_):
    """Remove one event by id; False if it is not there."""
    slot = slot_of(live, id_)
    if slot == np.int64(NONE):
        return False
    remove_event(tree, live, slot)
    return True


@helper
def load_row(tree, store, slot, scratch):
    """The dimensions that a row names and the hulls of its intervals. O(entries).

    Return how many there are of both, whether an event may match, whether the hulls are all there is, and the score if they are.
    """
    row = store.rows[slot]
    start = np.int64(row.start)
    plain = row.size == row.count
    possible = True
    score = row.priority
    names = np.int64(0)
    hulls = np.int64(0)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        if entry.kind & CIRCLE:  # its longitude and latitude have been named
            continue
        dim = np.int64(entry.dim)
        scratch.wanted[names] = dim
        names += 1
        score += entry.weight  # an event without weights has ones
        if entry.kind & ABSENT:
            plain = False
            continue
        possible = possible and dim < tree.counts[DIMENSIONS]
        scratch.dims[hulls], scratch.lo[hulls], scratch.hi[hulls] = dim, entry.lo, entry.hi
        hulls += 1
    return names, hulls, possible, plain, score


@helper
def may_hold(tree, leaf, scratch, hulls):
    """May an event of the leaf meet the row's square?"""
    meets = leaf.size > 0
    for i in range(hulls):
        if scratch.dims[i] == tree.counts[X]:
            meets = meets and scratch.lo[i] <= leaf.east and leaf.west <= scratch.hi[i]
        elif scratch.dims[i] == tree.counts[Y]:
            meets = meets and scratch.lo[i] <= leaf.north and leaf.south <= scratch.hi[i]
    return meets


@helper
def count_leaf(tree, number, scratch, hulls, n):
    """Append the events of a leaf that meet all hulls to scratch.found; return the new count. O(events that meet one)."""
    # Ends in variables: read from the scratch at each step, since counters are written meanwhile, they made it twice as slow.
    keys, members, counters, found = tree.keys, tree.members, scratch.counters, scratch.found
    for i in range(hulls):
        lo, hi, run = scratch.lo[i], scratch.hi[i], run_at(tree, number, scratch.dims[i])
        end = np.int64(run.start) + np.int64(run.size)
        m = first_at_least(keys, np.int64(run.start), end, lo)
        while m < end and keys[m] <= hi:
            slot = np.int64(members[m])
            counters[slot] += np.uint16(1)
            if np.int64(counters[slot]) == hulls:
                found[n] = np.uint32(slot)
                n += 1
            m += 1
    for i in range(hulls):
        lo, hi, run = scratch.lo[i], scratch.hi[i], run_at(tree, number, scratch.dims[i])
        end = np.int64(run.start) + np.int64(run.size)
        m = first_at_least(keys, np.int64(run.start), end, lo)
        while m < end and keys[m] <= hi:
            counters[np.int64(members[m])] = np.uint16(0)
            m += 1
    return n


@helper
def list_candidates(tree, live, scratch, hulls):
    """The events that meet all hulls, into scratch.found; every event where there is none. Return how many."""
    n = np.int64(0)
    if hulls == 0:
        for slot in range(live.counts[SLOTS]):
            scratch.found[n] = np.uint32(slot)
            n += np.int64(live.events[slot].node != NONE)
        return n
    for number in range(tree.leaves.size):
        if may_hold(tree, tree.leaves[number], scratch, hulls):
            n = count_leaf(tree, number, scratch, hulls, n)
    return n


@helper
def prefetch_event(live, scratch, i, n):
    """Ask for the record of a candidate that comes soon, and the region of one that comes sooner."""
    if i + 2 * AHEAD < n:
        prefetch(live.events, np.int64(scratch.found[i + 2 * AHEAD]))
    if i + AHEAD < n:
        prefetch(live.keys, np.int64(live.events[np.int64(scratch.found[i + AHEAD])].start))


@kernel
def match_rows(tree, live, store, slots, groups, first, scratch, now, how, combine, k, out, ends, candidates):
    """As `structures.live.kernels.match.match_rows`. Readers only."""
    n = np.int64(0)
    for s in range(first, ends.size):
        if n + k > out.ids.size:
            return s
        begin = n
        several = groups[s + 1] - groups[s] > 1
        for r in range(groups[s], groups[s + 1]):
            row = np.int64(slots[r])
            names, hulls, possible, plain, total = load_row(tree, store, row, scratch)
            plain = plain and combine is None
            found = list_candidates(tree, live, scratch, hulls) if possible else np.int64(0)
            candidates[0] += found
            for i in range(-AHEAD, found):
                prefetch_event(live, scratch, i, found)
                if i < 0 or n < 0:
                    continue
                slot = np.int64(scratch.found[i])
                start = np.int64(live.events[slot].start)
                score = total
                if not plain or flags_at(live, start) & LOOSE:
                    load_live(live, start, scratch, names)
                    score = score_row(store, row, scratch.values, scratch.parts, how, combine)
                if now < live.keys[start + UNTIL] and not np.isnan(score):
                    n = take_event(scratch.seen, out, begin, n, k, id_at(live, start), slot, score, several)
            unload_row(scratch, names)
        if n < 0:
            return s
        if k > 0:
            best_first(out, begin, n - begin)
        ends[s] = n
    return ends.size
