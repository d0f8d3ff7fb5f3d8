"""The search of VCR: an event's cells -> the active VCRs that hold them -> their lists -> hits.

An event is looked up at most four times: at its cell (rows with both intervals), in the strips (rows with one) and where they
cross (rows with neither). A look-up walks the distance table from the pivot corner; a corner's active bits and the
table's mask of covering shapes leave the lists to read (`FOUND`), and only then are entries read: the headers of one
event are independent loads that the processor overlaps.

    entry & mask == 0    a sure hit: id and score are copied from hits[position]
    VERIFY               the row store decides
    otherwise            the event is on the border of a rectangle that is all the row asks: boxes[position] decides

`mask` has the sides on whose border cells the event lies. A row without LEFT holds the first key of its first cell, and any row
that of its other cells: so RIGHT and TOP count only for events above the first key of their cell, and rectangles and points of
whole numbers are never verified. An event below the first edge lies in no cell: all that it meets is verified.

Each row is reported once without a mark being kept: of all VCRs of a row that meet the event, the one reports that holds the
lowest, leftmost cell of their intersection, and of those that overlap there the one that was not shifted over its neighbour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.store.kernels.results import best_first, emit, offer
from matchwood.store.kernels.rows import NONE
from matchwood.store.kernels.verify import load_event, score_row, unload_event
from matchwood.structures.vcr.kernels.layout import (
    BOTTOM,
    GROUPS,
    LEFT,
    OVERLAPPED,
    PITCH,
    POSITION,
    POSITIONS,
    RIGHT,
    SIZE,
    TOP,
    VERIFY,
    X_CELLS,
    X_DIM,
    X_POWER,
    Y_CELLS,
    Y_DIM,
    Y_POWER,
    cell_of,
    find_list,
    id_of,
)

FOUND = np.dtype(
    [("start", "u4"), ("size", "u4"), ("x", "i4"), ("y", "i4"), ("width", "u2"), ("height", "u2"), ("mask", "u4")]
)

# places in `Scratch.box`
X_FIRST, X_LAST, Y_FIRST, Y_LAST = 0, 1, 2, 3  # the event's cells
X_MASK, Y_MASK = 4, 5  # RIGHT, TOP if the event lies inside its cell
FORCE, RANGED, WHOLE, UNIT, WEIGHTED = 6, 7, 8, 9, 10
BOX_SIZE = 11


class Scratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    seen: np.ndarray  # uint32, one a slot
    found: np.ndarray  # FOUND, as many as a covering set and its strips can have
    box: np.ndarray  # int64 [BOX_SIZE]
    keys: np.ndarray  # float64 [4]: the event's keys on the two axes, NaN where it has none, and their weights


@helper
def load_axis(values, dim, edges, box, first, mask, flag):
    """Put the event's cells on one axis into the box; return whether it has a value there."""
    if dim >= values.size or np.isnan(values[dim].lo):
        return False
    value = values[dim]
    box[first] = cell_of(edges, value.lo)
    box[first + 1] = cell_of(edges, value.hi)
    box[mask] = 0 if value.lo == edges[box[first]] else np.int64(flag)
    if value.lo != value.hi or value.parts > 1:
        box[RANGED] = 1
    if value.lo < edges[0]:
        box[FORCE] = np.int64(VERIFY)  # below the grid
    if value.weight != 1.0:
        box[WEIGHTED] = 1
    return True


@helper
def add_found(state, found, n, corner, bit, x, y, mask):
    """Note the list of an active VCR."""
    header = state.directory[find_list(state, id_of(state, corner, bit))]
    target = found[n]
    shape = state.shapes[np.int64(bit)]
    target.start, target.size = header.start, header.load & SIZE
    target.x, target.y, target.width, target.height = np.int32(x), np.int32(y), shape.width, shape.height
    target.mask = mask
    prefetch(state.entries, np.int64(header.start))
    return n + 1


@helper
def find_point(state, scratch, x, y, group, n):
    """The lists of the active VCRs that hold cell (x, y): pivot + distance table. In a strip only its own line is walked."""
    counts, box = state.counts, scratch.box
    side_x = np.int64(1) << counts[X_POWER]
    first, step, allowed = np.int64(0), np.int64(1), ~np.uint64(0)
    if group & 1:  # the strip of rows without y: height 1
        first = np.int64(state.distances.size) - side_x
        allowed = (np.uint64(1) << np.uint64(counts[X_POWER] + 1)) - np.uint64(1)
    if group & 2:  # the strip of rows without x: width 1
        first += side_x - 1
        step = side_x
    pivot = x + y * counts[PITCH]
    for t in range(first, state.distances.size, step):
        distance = state.distances[t]
        corner = pivot + np.int64(distance.delta)
        bits = state.active[corner] & distance.mask & allowed
        dx, dy = np.int64(distance.dx), np.int64(distance.dy)
        border = VERIFY
        if dx == 0:
            border |= LEFT
        if dy == 0:
            border |= BOTTOM
        while bits != 0:
            bit = trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            shape = state.shapes[np.int64(bit)]
            mask = border
            if dx + 1 == np.int64(shape.width):
                mask |= np.uint32(box[X_MASK])
            if dy + 1 == np.int64(shape.height):
                mask |= np.uint32(box[Y_MASK])
            n = add_found(state, scratch.found, n, corner, bit, x - dx, y - dy, mask)
    return n


@helper
def find_range(state, scratch, x_first, x_last, y_first, y_last, n):
    """The lists of the active VCRs that meet these cells, all to be verified; -1 if there are more than `found` holds."""
    counts = state.counts
    x_margin = (np.int64(1) << counts[X_POWER]) - 1
    y_margin = (np.int64(1) << counts[Y_POWER]) - 1
    if (x_last - x_first + 1 + x_margin) * (y_last - y_first + 1 + y_margin) > 8 * scratch.found.size:
        return np.int64(-1)
    for y in range(y_first - y_margin, y_last + 1):
        for x in range(x_first - x_margin, x_last + 1):
            corner = x + x_margin + (y + y_margin) * counts[PITCH]
            bits = state.active[corner]
            while bits != 0:
                bit = trailing_zeros(bits)
                bits &= bits - np.uint64(1)
                shape = state.shapes[np.int64(bit)]
                if x + np.int64(shape.width) > x_first and y + np.int64(shape.height) > y_first:
                    if n == scratch.found.size:
                        return np.int64(-1)
                    n = add_found(state, scratch.found, n, corner, bit, x, y, VERIFY)
    return n


@helper
def find_lists(state, scratch, events, e, sums):
    """Load event e and note every list that may hold a hit; return (lists, entries in them)."""
    counts, box, values = state.counts, scratch.box, scratch.values
    load_event(values, events, e)
    box[FORCE] = 0 if sums else np.int64(VERIFY)
    box[RANGED] = box[WHOLE] = box[WEIGHTED] = 0
    box[UNIT] = 1 if sums else 0
    for i in range(events.offsets[e], events.offsets[e + 1]):
        if events.weight[i] != 1.0:
            box[UNIT] = 0
    scratch.keys[0] = scratch.keys[1] = np.nan
    scratch.keys[2] = scratch.keys[3] = 1.0
    has_x = load_axis(values, counts[X_DIM], state.x_edges, box, X_FIRST, X_MASK, RIGHT)
    has_y = load_axis(values, counts[Y_DIM], state.y_edges, box, Y_FIRST, Y_MASK, TOP)
    if has_x:
        scratch.keys[0], scratch.keys[2] = values[counts[X_DIM]].lo, values[counts[X_DIM]].weight
    if has_y:
        scratch.keys[1], scratch.keys[3] = values[counts[Y_DIM]].lo, values[counts[Y_DIM]].weight
    if box[RANGED]:
        box[FORCE] = np.int64(VERIFY)
    n = np.int64(0)
    for group in range(4):
        if counts[GROUPS + group] == 0 or (not has_x and group < 2) or (not has_y and not group & 1):
            continue
        x, y = box[X_FIRST], box[Y_FIRST]
        x_last, y_last = box[X_LAST], box[Y_LAST]
        if group & 2:
            x = x_last = counts[X_CELLS]
        if group & 1:
            y = y_last = counts[Y_CELLS]
        if box[RANGED]:
            n = find_range(state, scratch, x, x_last, y, y_last, n)
            if n < 0:
                break
        else:
            n = find_point(state, scratch, x, y, group, n)
    if n < 0:  # the event meets so many VCRs that looking at every row is cheaper
        box[WHOLE], box[RANGED] = 1, 0
        scratch.found[0].start, scratch.found[0].size = np.uint32(0), np.uint32(counts[POSITIONS])
        scratch.found[0].mask = VERIFY
        n = np.int64(1)
    total = np.int64(0)
    for f in range(n):
        total += np.int64(scratch.found[f].size)
    return n, total


@helper
def meets_first(state, box, found, p):
    """Does this VCR hold the lowest, leftmost cell that row and event share? For a point all VCRs that are found do."""
    place = state.places[p]
    left, bottom = np.int64(place.x), np.int64(place.y)
    # In a strip the event has no cell of its own on that axis: the row's is where they meet.
    x = left if left == state.counts[X_CELLS] else max(left, box[X_FIRST])
    y = bottom if bottom == state.counts[Y_CELLS] else max(bottom, box[Y_FIRST])
    return found.x <= x < np.int64(found.x) + np.int64(found.width) and found.y <= y < np.int64(found.y) + np.int64(
        found.height
    )


@helper
def is_first(place, found, x, y):
    """Of the overlapping VCRs of a row that hold cell (x, y), is this the one to report it? Without a branch.

    On each axis the row is cut from its first cell on into parts of one length (a power of two), and only the last may be
    shifted back: it reports what lies beyond the whole parts, all others all they hold.
    """
    left, bottom = np.int64(place.x), np.int64(place.y)
    x_within, y_within = np.int64(found.width) - 1, np.int64(found.height) - 1
    by_x = (((np.int64(found.x) - left) & x_within) == 0) | (x - left >= (np.int64(place.width) & ~x_within))
    by_y = (((np.int64(found.y) - bottom) & y_within) == 0) | (y - bottom >= (np.int64(place.height) & ~y_within))
    return by_x & by_y


@helper
def holds(box, x_key, y_key):
    """Is the point in the rectangle? An axis that the event lacks (NaN) is one that a row found here does not ask for."""
    return (not x_key < box.x_lo) & (not x_key > box.x_hi) & (not y_key < box.y_lo) & (not y_key > box.y_hi)


@helper
def weighed(rate, keys):
    """The score of a row that asks for its rectangle only, for an event with weights: summed in the row's order."""
    score = rate.priority
    first, second = keys[2], keys[3]
    if rate.y_first != 0:
        first, second = second, first
    if rate.heads > 0:
        score += rate.first * first
    if rate.heads > 1:
        score += rate.second * second
    return score


@helper
def entry_at(state, start, t, force, whole):
    """Entry t of a list, with what the event asks to be verified; without a list the position itself, NONE if it is free."""
    if whole:
        if state.places[t].slot == NONE:
            return NONE
        return np.uint32(t) | VERIFY
    return state.entries[start + t] | force


@helper
def judged(state, store, scratch, events, found, p, combine):
    """The score of a row that is to be verified, NaN if it does not match or another VCR reports it."""
    box = scratch.box
    if box[RANGED] and not meets_first(state, box, found, p):
        return np.nan
    if state.counts[OVERLAPPED] and not box[WHOLE]:
        place = state.places[p]
        if not is_first(place, found, max(box[X_FIRST], np.int64(place.x)), max(box[Y_FIRST], np.int64(place.y))):
            return np.nan
    return score_row(store, np.int64(state.places[p].slot), scratch.values, events, 0, combine)


@kernel
def match_many(state, store, scratch, events, first, combine, out, ends, candidates):
    """Match events[first:]; return the first not done (out may be too small) or their number. ends[e] is where e's hits end."""
    overlapped = state.counts[OVERLAPPED] != 0
    n = np.int64(0)
    for e in range(first, ends.size):
        begin = n
        lists, total = find_lists(state, scratch, events, e, combine is None)
        if begin + total > out.ids.size:
            unload_event(scratch.values, events, e)
            return e
        candidates[0] += total
        force, whole = np.uint32(scratch.box[FORCE]), scratch.box[WHOLE] != 0
        x, y = scratch.box[X_FIRST], scratch.box[Y_FIRST]
        x_key, y_key, weighted = scratch.keys[0], scratch.keys[1], scratch.box[WEIGHTED] != 0
        for f in range(lists):
            found = scratch.found[f]
            mask, start = np.uint64(found.mask), np.uint64(found.start)
            for t in range(np.uint64(found.size)):
                entry = entry_at(state, start, t, force, whole)
                p = np.uint64(entry & POSITION)
                kept = np.int64(1)
                if entry & mask:
                    if entry & VERIFY:
                        if entry == NONE:
                            continue
                        score = judged(state, store, scratch, events, found, p, combine)
                        if not np.isnan(score):
                            n = emit(store, np.int64(state.places[p].slot), score, out, begin, n, scratch.seen)
                        continue
                    kept = np.int64(holds(state.boxes[p], x_key, y_key))
                if overlapped:
                    kept &= np.int64(is_first(state.places[p], found, x, y))
                out.ids[np.uint64(n)] = state.hits[p].id
                out.scores[np.uint64(n)] = weighed(state.rates[p], scratch.keys) if weighted else state.hits[p].score
                n += kept
        unload_event(scratch.values, events, e)
        ends[e] = n
    return ends.size


@kernel
def top_many(state, store, scratch, events, first, combine, k, out, ends, candidates):
    """The k best of events[first:], each best first; return the first event not done (out is full) or their number.

    A row whose score, known beforehand for events of unit weights, is below the k-th so far is not even verified.
    """
    overlapped = state.counts[OVERLAPPED] != 0
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        held = np.int64(0)
        lists, total = find_lists(state, scratch, events, e, combine is None)
        known = scratch.box[UNIT] != 0
        worst = -np.inf
        candidates[0] += total
        force, whole = np.uint32(scratch.box[FORCE]), scratch.box[WHOLE] != 0
        x, y = scratch.box[X_FIRST], scratch.box[Y_FIRST]
        x_key, y_key, weighted = scratch.keys[0], scratch.keys[1], scratch.box[WEIGHTED] != 0
        for f in range(lists):
            found = scratch.found[f]
            mask, start = np.uint64(found.mask), np.uint64(found.start)
            for t in range(np.uint64(found.size)):
                entry = entry_at(state, start, t, force, whole)
                if entry == NONE:
                    continue
                p = np.uint64(entry & POSITION)
                plain = (entry & VERIFY) == 0
                score = weighed(state.rates[p], scratch.keys) if weighted and plain else state.hits[p].score
                if score < worst and (known or plain):
                    continue
                if not plain:
                    score = judged(state, store, scratch, events, found, p, combine)
                    if np.isnan(score):
                        continue
                else:
                    if entry & mask and not holds(state.boxes[p], x_key, y_key):
                        continue
                    if overlapped and not is_first(state.places[p], found, x, y):
                        continue
                held = offer(store, np.int64(state.places[p].slot), score, out, begin, held, k)
                if held == k:
                    worst = out.scores[begin]
        unload_event(scratch.values, events, e)
        best_first(out, begin, held)
        n = begin + held
        ends[e] = n
    return ends.size
