"""BEQ-Tree: leaves of a quadtree with sorted lists of event keys; counting (Guo et al., as described in MO-Tree 3.2 and 6.1.3).

Layout   quads[q]: the point at which a square is quartered and the first of four children, or its leaf.
         leaves[l]: the box of the leaf's events and their number; leaf 0 has those without a place, and its box is everything.
         Run (leaf, dimension) of `keys` and `members`: the leaf's events that have the dimension, as slots of
         `structures.live.kernels.layout`, by rising key, with some room behind them; freed room is chained by powers of two.
         leaf_of[slot] is the leaf of an event.
A row counts, in every leaf that its square meets, the events between its two ends on each dimension: two binary
searches and a walk. Those that are counted for each are candidates: for a row of single intervals they match, for any other the
ends are those of its hulls and the exact test decides. An event is put into, or taken out of, one list of its leaf for each of
its values, and what stands behind it there is moved: this is what makes the BEQ-Tree slow to change.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.distances import PREFETCH_IDS
from matchwood.store.kernels.results import finish_hits, take_event
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.store.kernels.verify import VALUE, score_row
from matchwood.structures.live.kernels.layout import (
    EventCount,
    Parts,
    key_range,
    load_values,
    unload_values,
    value_at,
    value_count,
)

LEAF = np.dtype([("west", "f8"), ("east", "f8"), ("south", "f8"), ("north", "f8"), ("size", "u4"), ("most", "u4")])
QUAD = np.dtype([("x", "f8"), ("y", "f8"), ("children", "u4"), ("leaf", "u4")])
RUN = np.dtype([("start", "u4"), ("size", "u4"), ("room", "u4")])
NONE = np.uint32(0xFFFFFFFF)
NOWHERE = 0  # the leaf of events without a place


class LeafCount(IntEnum):
    """Positions in `Leaves.counts`."""

    END = 0  # of the pool of lists
    DIMENSIONS = 1  # that lists are known for
    X = 2  # the dimensions of the place
    Y = 3
    FREE = 4  # a free list for each power of two follows


COUNTS = LeafCount.FREE + 32
NO_ROOM, NEW_DIMENSION = -1, -2  # why an event could not be placed, if not because its leaf is full


class Leaves(State):
    """The tree."""

    quads: np.ndarray = array(QUAD)
    leaves: np.ndarray = array(LEAF)
    runs: np.ndarray = array(RUN)  # by leaf * dimensions + dimension
    keys: np.ndarray = array(np.float64)
    members: np.ndarray = array(np.uint32)
    leaf_of: np.ndarray = array(np.uint32)  # by slot
    counts: np.ndarray = array(np.int64)  # LeafCount


class LeafScratch(State):
    """What a reader needs."""

    values: np.ndarray = array(VALUE)  # by dimension
    wanted: np.ndarray = array(np.int64)  # the dimensions that the row names
    parts: Parts = nested(Parts)
    seen: np.ndarray = array(np.uint32)  # by slot of an event: where it stands in the answer
    dims: np.ndarray = array(np.int64)  # the hulls of the row's intervals
    lo: np.ndarray = array(np.float64)
    hi: np.ndarray = array(np.float64)
    counters: np.ndarray = array(np.uint16)  # by slot of an event; zeros before and after
    found: np.ndarray = array(np.uint32)  # candidates
    candidates: np.ndarray = array(np.int64)  # how many were counted so far


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
def place_of(tree, live, event):
    """Both coordinates of an event, NaN where it has none."""
    x, y = tree.counts[LeafCount.X], tree.counts[LeafCount.Y]
    return key_range(live, event, x)[0], key_range(live, event, y)[0]


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
    return tree.runs[leaf * tree.counts[LeafCount.DIMENSIONS] + dim]


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
    start = tree.counts[LeafCount.FREE + power]
    if start >= 0:
        tree.counts[LeafCount.FREE + power] = np.int64(np.int32(tree.members[start]))
    elif tree.counts[LeafCount.END] + room <= tree.keys.size:
        start = tree.counts[LeafCount.END]
        tree.counts[LeafCount.END] += room
    else:
        return False
    old = np.int64(run.start)
    for i in range(np.int64(run.size)):
        tree.keys[start + i] = tree.keys[old + i]
        tree.members[start + i] = tree.members[old + i]
    if run.room > 0:
        free = LeafCount.FREE + power_of(np.int64(run.room))
        tree.members[old] = np.uint32(tree.counts[free])
        tree.counts[free] = old
    run.start, run.room = np.uint32(start), np.uint32(room)
    return True


@helper
def make_room(tree, live, event, leaf):
    """Room for one more in every list that the event goes into; 0, or why there is none. O(lists)."""
    for j in range(value_count(event)):
        dim, _ = value_at(live, event, j)
        if dim >= tree.counts[LeafCount.DIMENSIONS]:
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
        event = live.events[slot]
        x, y = place_of(tree, live, event)
        number = leaf_at(tree, x, y)
        leaf = tree.leaves[number]
        if leaf.size >= leaf.most:
            return i, number
        reason = make_room(tree, live, event, number)
        if reason < 0:
            return i, reason
        for j in range(value_count(event)):
            dim, key = value_at(live, event, j)
            put_into(tree, run_at(tree, number, dim), key, slot)
        if number != NOWHERE:
            leaf.west, leaf.east = min(leaf.west, x), max(leaf.east, x)
            leaf.south, leaf.north = min(leaf.south, y), max(leaf.north, y)
        leaf.size += np.uint32(1)
        tree.leaf_of[slot] = np.uint32(number)
    return slots.size, np.int64(0)


@kernel
def remove_events(tree, live, slots):
    """Take events out of the lists of their leaves, which keep their boxes. O(lists) each."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        event, number = live.events[slot], np.int64(tree.leaf_of[slot])
        for j in range(value_count(event)):
            take_out(tree, run_at(tree, number, value_at(live, event, j)[0]), slot)
        tree.leaves[number].size -= np.uint32(1)


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
        if entry.kind & NARROWS:  # its longitude and latitude have been named
            continue
        dim = np.int64(entry.dim)
        scratch.wanted[names] = dim
        names += 1
        score += entry.weight  # an event without weights has ones
        if entry.kind & ABSENT:
            plain = False
            continue
        possible = possible and dim < tree.counts[LeafCount.DIMENSIONS]
        scratch.dims[hulls], scratch.lo[hulls], scratch.hi[hulls] = dim, entry.lo, entry.hi
        hulls += 1
    return names, hulls, possible, plain, score


@helper
def may_hold(tree, leaf, scratch, hulls):
    """May an event of the leaf meet the row's square?"""
    meets = leaf.size > 0
    for i in range(hulls):
        if scratch.dims[i] == tree.counts[LeafCount.X]:
            meets = meets and scratch.lo[i] <= leaf.east and leaf.west <= scratch.hi[i]
        elif scratch.dims[i] == tree.counts[LeafCount.Y]:
            meets = meets and scratch.lo[i] <= leaf.north and leaf.south <= scratch.hi[i]
    return meets


@helper
def count_leaf(tree, number, scratch, hulls, n):
    """Append the events of a leaf that meet all hulls to scratch.found; return the new count. O(events that meet one)."""
    # Ends in variables: the compiler would read them from the scratch at each step, since counters are written meanwhile.
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
        for slot in range(live.counts[EventCount.SLOTS]):
            scratch.found[n] = np.uint32(slot)
            n += np.int64(live.events[slot].id >= 0)
        return n
    for number in range(tree.leaves.size):
        if may_hold(tree, tree.leaves[number], scratch, hulls):
            n = count_leaf(tree, number, scratch, hulls, n)
    return n


@helper
def prefetch_event(live, scratch, i, n):
    """Prefetch the record of a candidate that comes soon, and the values of one that comes sooner."""
    if i + 2 * PREFETCH_IDS < n:
        prefetch(live.events, np.int64(scratch.found[i + 2 * PREFETCH_IDS]))
    if i + PREFETCH_IDS < n:
        prefetch(live.keys, np.int64(live.events[np.int64(scratch.found[i + PREFETCH_IDS])].start))


@kernel
def answer_rows(tree, live, scratch, asked, first, out, ends):
    """As `structures.live.kernels.match.answer_rows`. Readers only."""
    store, slots, groups, now, mode, combine, k = asked
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
            scratch.candidates[0] += found
            for i in range(-PREFETCH_IDS, found):
                prefetch_event(live, scratch, i, found)
                if i < 0 or n < 0:
                    continue
                slot = np.int64(scratch.found[i])
                event, score = live.events[slot], total
                if not plain or event.is_general:
                    load_values(live, event, scratch.values, scratch.parts, scratch.wanted, names)
                    score = score_row(store, row, scratch.values, scratch.parts, mode, combine)
                if now < event.until and not np.isnan(score):
                    n = take_event(scratch.seen, out, begin, n, k, event.id, slot, score, several)
            unload_values(scratch.values, scratch.wanted, names)
        if n < 0:
            return s
        finish_hits(out, begin, n, k)
        ends[s] = n
    return ends.size
