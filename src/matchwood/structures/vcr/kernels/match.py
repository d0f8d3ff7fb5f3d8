"""The search of VCR: an event's cells -> the active VCRs that hold them -> their lists -> hits.

An event is looked up at most four times: at its cell (rows with both intervals), in the strips (rows with one) and where they
cross (rows with neither). A look-up walks the distance table from the pivot; the active bits of a corner and the table's mask of
covering shapes give the lists to read. All lists of an event are found before the first is read: their headers are
independent loads, which the processor overlaps.

    entry & mask == 0    a sure hit: id and score are copied from hits[position]
    entry & VERIFY       the row store decides
    otherwise            the event is in a border cell of a row that is a rectangle and nothing else: boxes[position] decides

`mask` has the sides of the VCR whose border cells hold the event. A row without LEFT holds the first key of its first cell, and
every row holds the first keys of its other cells: so RIGHT and TOP count only for events above the first key of their cell, and
whole numbers on a grid of whole numbers are never tested. An event below the first edge is in no cell: all that it finds is
verified.

Each row is reported once, without marks: of all VCRs of a row that meet the event, the one reports that holds the
lowest, leftmost cell of their intersection, and of those that overlap there the one that was not shifted.

A range or a list meets runs of cells on an axis. Only VCRs that hold a cell of a run on both axes are read: those between the
values of a list are not.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.jit.state import State, array
from matchwood.store.kernels.ceilings import ceiling_of
from matchwood.store.kernels.results import finish_hits, keep_best, take_hit
from matchwood.store.kernels.rows import NONE, prefetch_entries
from matchwood.store.kernels.verify import ALL, VALUE, load_event, score_row, unload_event
from matchwood.structures.vcr.kernels.layout import (
    BOTTOM,
    LEFT,
    POSITION,
    RIGHT,
    SIZE,
    TOP,
    VERIFY,
    Count,
    find_list,
    grid_cell,
)

FOUND = np.dtype(
    [("start", "u4"), ("size", "u4"), ("x", "i4"), ("y", "i4"), ("width", "u2"), ("height", "u2"), ("mask", "u4")]
)
"""A list to read, and its VCR."""
SIDE = np.dtype(
    [
        ("key", "f8"),  # NaN if the event lacks the dimension
        ("weight", "f8"),
        ("first", "i8"),  # cell
        ("last", "i8"),  # cell
        ("inside", "u4"),  # RIGHT or TOP if the key is not the first of its cell
        ("force", "u4"),  # VERIFY if the value is not a single key of the grid
        ("is_range", "i8"),  # is the value a range or a list?
        ("runs", "i8"),  # how many runs of cells it meets; 0 unless they have been found
    ]
)
"""An event on one axis."""
RUN = np.dtype([("first", "i4"), ("last", "i4")])
"""Cells first..last of an axis."""
X_STRIP, Y_STRIP = 2, 3
"""Where `VCRScratch.runs` has the strips, behind the event's own runs of x and y."""
SEARCH = np.dtype(
    [
        ("k", "i8"),
        ("begin", "i8"),  # the hits so far are out[begin:end]
        ("end", "i8"),
        ("pending", "i8"),  # rows to be verified
        ("force", "u4"),  # VERIFY if every candidate is to be verified
        ("is_known", "i4"),  # do `hits` have the scores for this event, also of rows that are verified?
        ("is_weighted", "i4"),  # do `hits` have other scores, since the event has weights on the two axes?
        ("is_shared", "i4"),  # may a row be in several of the lists?
    ]
)
"""What holds for all lists of an event."""
EVERY_ROW = np.int64(-1)
"""Returned for an event that meets so many VCRs that verifying every row is cheaper."""
CHUNK = 512
"""Entries read between two checks for room for pending rows."""


class VCRScratch(State):
    """What a search needs beside the index."""

    values: np.ndarray = array(VALUE)  # by dimension
    seen: np.ndarray = array(np.uint32)  # by slot
    search: np.ndarray = array(SEARCH)  # [1]
    sides: np.ndarray = array(SIDE)  # x, y
    runs: np.ndarray = array(RUN, ndim=2)  # of the event on x and y, ascending and apart, then those of the strips
    found: np.ndarray = array(FOUND)  # as many as a covering set and its strips can have
    pending: np.ndarray = array(np.uint32)  # [2 * CHUNK]: positions of rows to be verified
    candidates: np.ndarray = array(np.int64)  # [1]: how many there were


@helper
def load_side(side, values, dim, edges, flag):
    """Locate the event's value on one axis."""
    side.key, side.weight, side.first, side.last = np.nan, 1.0, np.int64(0), np.int64(0)
    side.inside = side.force = np.uint32(0)
    side.is_range = side.runs = np.int64(0)
    if dim >= values.size or np.isnan(values[dim].lo):
        return
    value = values[dim]
    side.key, side.weight = value.lo, value.weight
    side.first, side.last = grid_cell(edges, value.lo), grid_cell(edges, value.hi)
    if value.lo != edges[side.first]:
        side.inside = flag
    if value.lo != value.hi or value.parts > 1:
        side.is_range = np.int64(1)
    if side.is_range or value.lo < edges[0]:
        side.force = VERIFY


@helper
def add_found(index, found, n, corner, bit, x, y, mask):
    """Add the list of an active VCR to those to read; return how many there are."""
    bit = np.int64(bit)
    header = index.directory[find_list(index, corner * index.shapes.size + bit)]
    target, shape = found[n], index.shapes[bit]
    target.start, target.size = header.start, header.load & SIZE
    target.x, target.y, target.width, target.height = np.int32(x), np.int32(y), shape.width, shape.height
    target.mask = mask
    prefetch(index.entries, np.int64(header.start))
    return n + 1


@helper
def find_point(index, scratch, x, y, group, n):
    """Find the active VCRs that hold cell (x, y): pivot + distance table (section 2.3). In a strip, only its own line."""
    counts, sides = index.counts, scratch.sides
    side_x = np.int64(1) << counts[Count.X_POWER]
    first, step, allowed = np.int64(0), np.int64(1), ~np.uint64(0)
    if group & 1:  # rows without y: height 1
        first = np.int64(index.distances.size) - side_x
        allowed = (np.uint64(1) << np.uint64(counts[Count.X_POWER] + 1)) - np.uint64(1)
    if group & 2:  # rows without x: width 1
        first += side_x - 1
        step = side_x
    pivot = x + y * counts[Count.PITCH]
    for t in range(first, index.distances.size, step):
        distance = index.distances[t]
        corner = pivot + np.int64(distance.delta)
        bits = index.active[corner] & distance.mask & allowed
        dx, dy = np.int64(distance.dx), np.int64(distance.dy)
        border = VERIFY
        if dx == 0:
            border |= LEFT
        if dy == 0:
            border |= BOTTOM
        while bits != 0:
            bit = trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            shape = index.shapes[np.int64(bit)]
            mask = border
            if dx + 1 == np.int64(shape.width):
                mask |= sides[0].inside
            if dy + 1 == np.int64(shape.height):
                mask |= sides[1].inside
            n = add_found(index, scratch.found, n, corner, bit, x - dx, y - dy, mask)
    return n


@helper
def find_runs(side, runs, values, events, dim, edges):
    """Find the runs of cells that the event meets on one axis. O(parts log cells)."""
    n = np.int64(0)
    if not np.isnan(side.key):
        value = values[dim]
        for i in range(np.int64(value.first), np.int64(value.first) + np.int64(value.parts)):
            first, last = grid_cell(edges, events.lo[i]), grid_cell(edges, events.hi[i])
            if n > 0 and first <= np.int64(runs[n - 1].last) + 1:
                runs[n - 1].last = np.int32(max(last, np.int64(runs[n - 1].last)))
            else:
                runs[n].first, runs[n].last = np.int32(first), np.int32(last)
                n += 1
    side.runs = n


@helper
def corners_met(runs, count, margin):
    """How many corners of an axis may have a VCR that meets a run."""
    total, before = np.int64(0), -margin - 1
    for r in range(count):
        total += np.int64(runs[r].last) - max(np.int64(runs[r].first) - margin, before + 1) + 1
        before = np.int64(runs[r].last)
    return total


@helper
def find_range(index, found, x_runs, x_count, y_runs, y_count, n):
    """Find the active VCRs that hold a cell of the runs on both axes; EVERY_ROW if there are more than `found` holds.

    A VCR belongs to the first run that does not end before its corner.
    """
    counts = index.counts
    x_margin = (np.int64(1) << counts[Count.X_POWER]) - 1
    y_margin = (np.int64(1) << counts[Count.Y_POWER]) - 1
    if corners_met(x_runs, x_count, x_margin) * corners_met(y_runs, y_count, y_margin) > 8 * found.size:
        return EVERY_ROW
    y_next = -y_margin  # corners below belong to an earlier run
    for r in range(y_count):
        y_first, y_last = np.int64(y_runs[r].first), np.int64(y_runs[r].last)
        for y in range(max(y_next, y_first - y_margin), y_last + 1):
            x_next = -x_margin
            for s in range(x_count):
                x_first, x_last = np.int64(x_runs[s].first), np.int64(x_runs[s].last)
                for x in range(max(x_next, x_first - x_margin), x_last + 1):
                    corner = x + x_margin + (y + y_margin) * counts[Count.PITCH]
                    bits = index.active[corner]
                    while bits != 0:
                        bit = trailing_zeros(bits)
                        bits &= bits - np.uint64(1)
                        shape = index.shapes[np.int64(bit)]
                        if x + np.int64(shape.width) > x_first and y + np.int64(shape.height) > y_first:
                            if n == found.size:
                                return EVERY_ROW
                            n = add_found(index, found, n, corner, bit, x, y, VERIFY)
                x_next = x_last + 1
        y_next = y_last + 1
    return n


@subroutine
def find_in_ranges(index, scratch, events):
    """As `find_lists`, of an event with a range or a list on one of the axes; its sides are loaded."""
    counts, runs = index.counts, scratch.runs
    x_side, y_side = scratch.sides[0], scratch.sides[1]
    find_runs(x_side, runs[0], scratch.values, events, counts[Count.X_DIM], index.x_edges)
    find_runs(y_side, runs[1], scratch.values, events, counts[Count.Y_DIM], index.y_edges)
    runs[X_STRIP, 0].first = runs[X_STRIP, 0].last = np.int32(counts[Count.X_CELLS])
    runs[Y_STRIP, 0].first = runs[Y_STRIP, 0].last = np.int32(counts[Count.Y_CELLS])
    n = np.int64(0)
    for group in range(4):
        x_runs, x_count = (runs[X_STRIP], np.int64(1)) if group & 2 else (runs[0], x_side.runs)
        y_runs, y_count = (runs[Y_STRIP], np.int64(1)) if group & 1 else (runs[1], y_side.runs)
        if counts[Count.GROUPS + group] > 0 and x_count > 0 and y_count > 0:
            n = find_range(index, scratch.found, x_runs, x_count, y_runs, y_count, n)
            if n == EVERY_ROW:
                break
    return n


@subroutine
def find_lists(index, scratch, events):
    """Find the lists that may hold a hit of the loaded event; return how many, or EVERY_ROW."""
    counts = index.counts
    x_side, y_side = scratch.sides[0], scratch.sides[1]
    load_side(x_side, scratch.values, counts[Count.X_DIM], index.x_edges, RIGHT)
    load_side(y_side, scratch.values, counts[Count.Y_DIM], index.y_edges, TOP)
    if x_side.is_range or y_side.is_range:
        return find_in_ranges(index, scratch, events)
    has_x, has_y = not np.isnan(x_side.key), not np.isnan(y_side.key)
    n = np.int64(0)
    for group in range(4):
        if counts[Count.GROUPS + group] == 0 or (not has_x and group < 2) or (not has_y and not group & 1):
            continue
        x = counts[Count.X_CELLS] if group & 2 else x_side.first
        y = counts[Count.Y_CELLS] if group & 1 else y_side.first
        n = find_point(index, scratch, x, y, group, n)
    return n


@helper
def candidate_count(index, scratch, lists):
    """How many entries the lists have."""
    if lists == EVERY_ROW:
        return index.counts[Count.POSITIONS]
    total = np.int64(0)
    for f in range(lists):
        total += np.int64(scratch.found[f].size)
    return total


@helper
def begin_search(index, scratch, events, e, is_sum):
    """What holds for all lists of event e, whose sides are loaded; `is_sum` unless the user has a scoring function."""
    search, x_side, y_side = scratch.search[0], scratch.sides[0], scratch.sides[1]
    search.force = x_side.force | y_side.force if is_sum else VERIFY
    search.is_shared = index.counts[Count.OVERLAPPED] | x_side.is_range | y_side.is_range
    search.is_weighted = x_side.weight != 1.0 or y_side.weight != 1.0
    search.is_known = is_sum
    for i in range(events.offsets[e], events.offsets[e + 1]):
        if events.weight[i] != 1.0:
            search.is_known = False


@helper
def first_shared(side, runs, cell):
    """The first cell, from the given one on, that the event meets on an axis; the given one if there is none, as in a strip."""
    if side.runs <= 1:
        return max(cell, side.first)
    low, high = np.int64(0), side.runs - 1
    while low < high:  # the first run that does not end before the cell
        middle = (low + high) >> 1
        if np.int64(runs[middle].last) < cell:
            low = middle + 1
        else:
            high = middle
    return max(cell, np.int64(runs[low].first))


@helper
def reports(place, found, scratch, overlapped):
    """Of the VCRs of a row that meet the event, is this the one to report it?

    It is the one that holds the first cell that row and event share. On each axis overlapped decomposition cuts a row from its
    first cell on into parts of one length (a power of two), and only the last may be shifted back: that one reports the
    cells beyond the other parts.
    """
    left, bottom = np.int64(place.x), np.int64(place.y)
    x = first_shared(scratch.sides[0], scratch.runs[0], left)
    y = first_shared(scratch.sides[1], scratch.runs[1], bottom)
    width, height = np.int64(found.width), np.int64(found.height)
    from_x, from_y = x - np.int64(found.x), y - np.int64(found.y)
    reported = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    if overlapped:
        by_x = (((np.int64(found.x) - left) & (width - 1)) == 0) | (x - left >= (np.int64(place.width) & -width))
        by_y = (((np.int64(found.y) - bottom) & (height - 1)) == 0) | (y - bottom >= (np.int64(place.height) & -height))
        reported &= by_x & by_y
    return reported


@helper
def box_holds_point(box, x, y):
    """Is the point in the rectangle? A row is not found by an axis that the event lacks (NaN), so that axis holds."""
    return (not x < box.x_lo) & (not x > box.x_hi) & (not y < box.y_lo) & (not y > box.y_hi)


@helper
def weighted_score(rate, sides):
    """The score of a row that is a rectangle and nothing else, for an event with weights; summed in the order of the row."""
    score = rate.priority
    first, second = sides[0].weight, sides[1].weight
    if rate.y_first != 0:
        first, second = second, first
    if rate.heads > 0:
        score += rate.first * first
    if rate.heads > 1:
        score += rate.second * second
    return score


@helper
def copy_hits(index, scratch, found, first, last, out):
    """Take all hits among entries[first:last] of a list, for an event whose hits have known scores and one list each.

    This is most of the work where answers are long: hits are copied without a branch.
    """
    search = scratch.search[0]
    n, pending, force, mask = search.end, search.pending, search.force, found.mask
    x, y = scratch.sides[0].key, scratch.sides[1].key
    for at in range(np.uint64(first), np.uint64(last)):
        entry = index.entries[at] | force
        p = np.uint64(entry & POSITION)
        is_hit = np.int64(1)
        if entry & mask:
            if entry & VERIFY:
                scratch.pending[pending] = np.uint32(p)
                pending += 1
                continue
            is_hit = np.int64(box_holds_point(index.boxes[p], x, y))
        out.ids[np.uint64(n)] = index.hits[p].id
        out.scores[np.uint64(n)] = index.hits[p].score
        n += is_hit
    search.end, search.pending = n, pending


@helper
def choose_hits(index, scratch, found, first, last, out):
    """Take the hits among entries[first:last] of a list, for any event and any k."""
    search, sides, overlapped = scratch.search[0], scratch.sides, index.counts[Count.OVERLAPPED] != 0
    k, begin, n = search.k, search.begin, search.end
    for at in range(np.uint64(first), np.uint64(last)):
        entry = index.entries[at] | search.force
        p = np.uint64(entry & POSITION)
        score = index.hits[p].score
        if search.is_weighted and not entry & VERIFY:
            score = weighted_score(index.rates[p], sides)
        if k > 0 and n - begin == k and score < out.scores[begin] and (search.is_known or not entry & VERIFY):
            continue
        if search.is_shared and not reports(index.places[p], found, scratch, overlapped):
            continue
        if entry & VERIFY:
            scratch.pending[search.pending] = np.uint32(p)
            search.pending += 1
        elif not entry & found.mask or box_holds_point(index.boxes[p], sides[0].key, sides[1].key):
            if k > 0:
                n = begin + keep_best(out, begin, n - begin, k, index.hits[p].id, score, False)
            else:
                out.ids[n], out.scores[n] = index.hits[p].id, score
                n += 1
    search.end = n


@helper
def add_live_rows(index, scratch, first, last):
    """Let all rows at positions [first, last) be verified."""
    search = scratch.search[0]
    for p in range(first, last):
        if index.places[p].slot != NONE:
            scratch.pending[search.pending] = np.uint32(p)
            search.pending += 1


@subroutine
def verify_pending(index, store, scratch, events, combine, out):
    """Verify the pending rows, whose cache lines are prefetched, and take their hits."""
    search, pending = scratch.search[0], scratch.pending
    k, begin, n = search.k, search.begin, search.end
    prunes = k > 0 and search.is_known and store.ceilings.size > 0
    for i in range(search.pending):
        pending[i] = index.places[np.int64(pending[i])].slot
        prefetch(store.rows, np.int64(pending[i]))
    for i in range(search.pending):
        prefetch_entries(store, store.rows[np.int64(pending[i])])
    for i in range(search.pending):
        slot = np.int64(pending[i])
        if prunes and n - begin == k and ceiling_of(store, slot, scratch.values) < out.scores[begin]:
            continue
        score = score_row(store, slot, scratch.values, events, ALL, combine)
        if not np.isnan(score):
            n = take_hit(store, slot, score, out, begin, n, k, scratch.seen)
    search.end, search.pending = n, np.int64(0)


@kernel
def answer_many(index, store, scratch, events, first, combine, k, out, ends):
    """Answer events[first:]: every match (k = 0), or the k best; return the first not answered (out is full) or their number.

    ends[e] is where the hits of event e end.
    """
    search = scratch.search[0]
    search.k, search.pending = k, np.int64(0)
    n = np.int64(0)
    for e in range(first, ends.size):
        load_event(scratch.values, events, e)
        lists = find_lists(index, scratch, events)
        total = candidate_count(index, scratch, lists)
        if n + (k if k > 0 else total) > out.ids.size:
            unload_event(scratch.values, events, e)
            return e
        scratch.candidates[0] += total
        search.begin = search.end = n
        begin_search(index, scratch, events, e, combine is None)
        if lists == EVERY_ROW:
            for at in range(0, total, CHUNK):
                add_live_rows(index, scratch, at, min(at + CHUNK, total))
                verify_pending(index, store, scratch, events, combine, out)
        copies = k == 0 and not search.is_weighted and not search.is_shared
        for f in range(lists):
            found = scratch.found[f]
            start, end = np.int64(found.start), np.int64(found.start) + np.int64(found.size)
            for at in range(start, end, CHUNK):
                if copies:
                    copy_hits(index, scratch, found, at, min(at + CHUNK, end), out)
                else:
                    choose_hits(index, scratch, found, at, min(at + CHUNK, end), out)
                if search.pending > CHUNK:
                    verify_pending(index, store, scratch, events, combine, out)
        verify_pending(index, store, scratch, events, combine, out)
        n = search.end
        finish_hits(out, search.begin, n, k)
        unload_event(scratch.values, events, e)
        ends[e] = n
    return ends.size
