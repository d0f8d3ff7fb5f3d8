"""Points in the order of the Z-curve, searched for those that dominate a query (Covering IV-D).

Cells     a coordinate is scaled to `bits` binary digits; scaling is monotone, so a larger cell means a larger coordinate
Key       the digits of all coordinates interleaved, most significant first, behind a leading 1; 128 bits in two words (high, low)
Order     blocks of BLOCK keys; `directory` lists the blocks in ascending order of their keys (a B-tree of two levels, where the
          paper has an AVL tree: neighbours on the curve are neighbours in memory). Full blocks split, empty ones are freed
Layout    block b: keys high[b * BLOCK :], low[b * BLOCK :], members[b * BLOCK :] (slots),
          coordinate d at points[(b * width + d) * BLOCK :]

Search    a cell (here: a prefix of the key, refined one digit at a time) is one run of the order. A coordinate whose digits so
          far equal the query's is *tied*; above the query it is decided; below it the cell is left. The upper half is searched
          first, the last point of a run (the extremal one, most likely to dominate) is tried before the run is divided, a cell
          without tied coordinates lies inside the query and is reported whole, and a run of at most RUN points is compared
          point by point.

Invariant (`ZCurve.check`): keys ascend along the directory, and each is the key of its point.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.forest import COMPARED, SEARCHES, VISITED
from matchwood.covering.kernels.lanes import LANES, at_least, lanes, lowest_bit
from matchwood.covering.kernels.search import accept_cover
from matchwood.covering.kernels.signatures import load_row
from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.state import State, array
from matchwood.store.kernels.rows import NONE

BLOCK = 64
RUN = 32
FRAME = 6  # level, tied, begin, end, prefix high, prefix low

# Positions in `counts`
BLOCKS, LISTED, FREE_BLOCK, POINTS, WIDTH, BITS = range(6)


class CoverCurve(State):
    """The state of a `ZCurve`."""

    high: np.ndarray = array(np.uint64)
    low: np.ndarray = array(np.uint64)
    members: np.ndarray = array(np.int64)
    points: np.ndarray = array(np.float64)
    sizes: np.ndarray = array(np.uint32)  # by block; of a free block, the next free one
    directory: np.ndarray = array(np.uint32)
    domain: np.ndarray = array(np.float64)  # 2 x width: least coordinate, cells in a unit
    counts: np.ndarray = array(np.int64)


@helper
def curve_cell(curve, d, value):
    """The cell of one coordinate, 0 .. 2^bits - 1. Monotone; outside the domain the outermost cell."""
    last = np.float64((np.int64(1) << curve.counts[BITS]) - 1)
    scaled = (value - curve.domain[2 * d]) * curve.domain[2 * d + 1]
    return np.uint64(min(max(scaled, 0.0), last)) if scaled == scaled else np.uint64(0)


@helper
def key_of(curve, point):
    """(high, low) of the interleaved digits behind a leading 1. O(width x bits)."""
    high, low = np.uint64(0), np.uint64(1)
    one = np.uint64(1)
    for level in range(curve.counts[BITS] - 1, -1, -1):
        for d in range(curve.counts[WIDTH]):
            digit = (curve_cell(curve, d, point[d]) >> np.uint64(level)) & one
            high = (high << one) | (low >> np.uint64(63))
            low = (low << one) | digit
    return high, low


@helper
def is_less(high_a, low_a, high_b, low_b):
    return high_a < high_b or (high_a == high_b and low_a < low_b)


@subroutine
def lower_bound(curve, high, low, first, last):
    """The place (directory index x BLOCK + offset) of the first key >= (high, low) within blocks first..last of the directory."""
    while first < last:  # the last block whose first key is below the wanted one
        middle = (first + last + 1) >> 1
        at = np.int64(curve.directory[middle]) * BLOCK
        if is_less(curve.high[at], curve.low[at], high, low):
            first = middle
        else:
            last = middle - 1
    if first >= curve.counts[LISTED]:
        return curve.counts[LISTED] * BLOCK
    block = np.int64(curve.directory[first])
    begin, end = np.int64(0), np.int64(curve.sizes[block])
    size = end
    while begin < end:
        middle = (begin + end) >> 1
        if is_less(curve.high[block * BLOCK + middle], curve.low[block * BLOCK + middle], high, low):
            begin = middle + 1
        else:
            end = middle
    return first * BLOCK + begin if begin < size else (first + 1) * BLOCK


@subroutine
def load_point(store, slot, scratch, curve):
    """The row's point into scratch.query, its key as result."""
    n = load_row(store, slot, scratch)
    for i in range(2 * n):
        scratch.query[i] = scratch.ends[i]
    return key_of(curve, scratch.query)


@subroutine
def move_entries(curve, source, i, target, j, n):
    """Copy n entries from place i of one block to place j of another (or the same)."""
    width = curve.counts[WIDTH]
    step, at = (np.int64(1), np.int64(0)) if source != target or j < i else (np.int64(-1), n - 1)
    for _ in range(n):
        a, b = source * BLOCK + i + at, target * BLOCK + j + at
        curve.high[b], curve.low[b], curve.members[b] = curve.high[a], curve.low[a], curve.members[a]
        at += step
    for d in range(width):
        at = np.int64(0) if step > 0 else n - 1
        for _ in range(n):
            a, b = (source * width + d) * BLOCK + i + at, (target * width + d) * BLOCK + j + at
            curve.points[b] = curve.points[a]
            at += step


@helper
def take_block(curve, place):
    """A new, empty block, listed at `place` of the directory."""
    counts = curve.counts
    block = counts[FREE_BLOCK]
    if block == np.int64(NONE):
        block = counts[BLOCKS]
        counts[BLOCKS] += 1
    else:
        counts[FREE_BLOCK] = np.int64(curve.sizes[block])
    curve.sizes[block] = np.uint32(0)
    for i in range(counts[LISTED], place, -1):
        curve.directory[i] = curve.directory[i - 1]
    curve.directory[place] = np.uint32(block)
    counts[LISTED] += 1
    return block


@helper
def insert_point(curve, store, slot, scratch):
    """Enter a row of the store. False: no room, nothing was changed. O(log n + BLOCK x width)."""
    counts = curve.counts
    if counts[LISTED] + 1 >= curve.directory.size or (counts[BLOCKS] + 1) * BLOCK >= curve.high.size:
        return False
    high, low = load_point(store, slot, scratch, curve)
    if counts[LISTED] == 0:
        take_block(curve, np.int64(0))
    place = lower_bound(curve, high, low, np.int64(0), counts[LISTED] - 1)
    listed, at = place // BLOCK, place % BLOCK
    if at == 0 and listed > 0:  # between two blocks: at the end of the former
        listed -= 1
        at = np.int64(curve.sizes[np.int64(curve.directory[listed])])
    block = np.int64(curve.directory[listed])
    if np.int64(curve.sizes[block]) == BLOCK:
        right = take_block(curve, listed + 1)
        half = BLOCK // 2
        move_entries(curve, block, np.int64(half), right, np.int64(0), np.int64(BLOCK - half))
        curve.sizes[block], curve.sizes[right] = np.uint32(half), np.uint32(BLOCK - half)
        if at > half:
            block, at = right, at - half
    size = np.int64(curve.sizes[block])
    move_entries(curve, block, at, block, at + 1, size - at)
    curve.high[block * BLOCK + at], curve.low[block * BLOCK + at] = high, low
    curve.members[block * BLOCK + at] = slot
    for d in range(counts[WIDTH]):
        curve.points[(block * counts[WIDTH] + d) * BLOCK + at] = scratch.query[d]
    curve.sizes[block] += np.uint32(1)
    counts[POINTS] += 1
    return True


@helper
def delete_point(curve, store, slot, scratch):
    """Take out a row that was entered. O(log n + BLOCK x width + equal keys)."""
    counts = curve.counts
    high, low = load_point(store, slot, scratch, curve)
    place = lower_bound(curve, high, low, np.int64(0), counts[LISTED] - 1)
    listed, at = place // BLOCK, place % BLOCK
    while True:
        block = np.int64(curve.directory[listed])
        if at == np.int64(curve.sizes[block]):
            listed += 1
            at = np.int64(0)
        elif curve.members[block * BLOCK + at] == slot:
            break
        else:
            at += 1
    size = np.int64(curve.sizes[block])
    move_entries(curve, block, at + 1, block, at, size - at - 1)
    curve.sizes[block] -= np.uint32(1)
    counts[POINTS] -= 1
    if size == 1:
        for i in range(listed, counts[LISTED] - 1):
            curve.directory[i] = curve.directory[i + 1]
        counts[LISTED] -= 1
        curve.sizes[block] = np.uint32(counts[FREE_BLOCK])
        counts[FREE_BLOCK] = block


@helper
def run_length(curve, begin, end):
    """The number of points of the run, RUN + 1 if there are more than RUN."""
    first, last = begin // BLOCK, end // BLOCK
    length = end - begin
    if last == first + 1:
        length = np.int64(curve.sizes[np.int64(curve.directory[first])]) - begin % BLOCK + end % BLOCK
    return min(length, np.int64(RUN + 1))


@subroutine
def compare_run(curve, store, begin, end, is_inside, query, hits, n, scratch):
    """Append the covers among the points of the run; `is_inside`: all of them dominate. Return the new end of the hits."""
    width = curve.counts[WIDTH]
    listed, at = begin // BLOCK, begin % BLOCK
    while listed * BLOCK + at < end and n < hits.end:
        block = np.int64(curve.directory[listed])
        stop = np.int64(curve.sizes[block]) if listed < end // BLOCK else end % BLOCK
        while at < stop and n < hits.end:
            mask = lanes(stop - at)
            if not is_inside:
                scratch.counters[COMPARED] += min(stop - at, np.int64(LANES))
                for d in range(width):
                    mask &= at_least(curve.points, (block * width + d) * BLOCK + at, scratch.query[d])
                    if mask == 0:
                        break
            while mask != 0 and n < hits.end:
                n = accept_cover(store, curve.members[block * BLOCK + at + lowest_bit(mask)], query, hits, n)
                mask &= mask - 1
            at += LANES
        listed += 1
        at = np.int64(0)
    return n


@helper
def covers_on_curve(curve, store, query, hits, scratch):
    """Write the ids of subscriptions that cover the query's to hits, until it is full; return the end."""
    scratch.counters[SEARCHES] += 1
    counts, stack, n = curve.counts, scratch.stack, hits.begin
    if counts[LISTED] == 0:
        return n
    high, low = load_point(query.store, query.row, scratch, curve)
    width, total = counts[WIDTH], counts[BITS] * counts[WIDTH]
    one_high, one_low = bit_at(total)
    depth, start = np.int64(0), np.int64(0)
    put_frame(stack, depth, start, (np.int64(1) << width) - 1, start, counts[LISTED] * BLOCK, one_high, one_low)
    depth += 1
    while depth > 0 and n < hits.end:
        depth -= 1
        level, tied, first, last, prefix_high, prefix_low = frame_at(stack, depth)
        scratch.counters[VISITED] += 1
        if tied == 0 or level == total or run_length(curve, first, last) <= RUN:
            n = compare_run(curve, store, first, last, tied == 0, query, hits, n, scratch)
            continue
        place = total - 1 - level
        bit_high, bit_low = bit_at(place)
        upper_high, upper_low = prefix_high | bit_high, prefix_low | bit_low
        end_block = min(last // BLOCK, counts[LISTED] - 1)
        middle = min(max(lower_bound(curve, upper_high, upper_low, first // BLOCK, end_block), first), last)
        own = np.int64(1) << (level % width)
        is_one = (high & bit_high) | (low & bit_low) != 0
        if first < middle and not (tied & own and is_one):
            if hits.end - hits.begin == 1 and last_dominates(curve, middle, scratch):
                n = compare_run(curve, store, middle - 1, middle, tied == 0, query, hits, n, scratch)
            put_frame(stack, depth, level + 1, tied, first, middle, prefix_high, prefix_low)
            depth += 1
        if middle < last:
            put_frame(stack, depth, level + 1, tied if is_one else tied & ~own, middle, last, upper_high, upper_low)
            depth += 1
    return n


@helper
def bit_at(place):
    """(high, low) of a key with one digit 1."""
    one, zero = np.uint64(1), np.uint64(0)
    if place >= 64:
        return one << np.uint64(place - 64), zero
    return zero, one << np.uint64(place)


@helper
def put_frame(stack, depth, level, tied, begin, end, high, low):
    f = FRAME * depth
    stack[f], stack[f + 1], stack[f + 2], stack[f + 3] = level, tied, begin, end
    stack[f + 4], stack[f + 5] = np.int64(high), np.int64(low)


@helper
def frame_at(stack, depth):
    f = FRAME * depth
    return stack[f], stack[f + 1], stack[f + 2], stack[f + 3], np.uint64(stack[f + 4]), np.uint64(stack[f + 5])


@helper
def last_dominates(curve, end, scratch):
    """Does the last point before `end` dominate the query? Only tried where it is in the same block as the end."""
    at = end % BLOCK
    if at == 0:
        return False
    scratch.counters[COMPARED] += 1
    block, width = np.int64(curve.directory[end // BLOCK]), curve.counts[WIDTH]
    for d in range(width):
        if curve.points[(block * width + d) * BLOCK + at - 1] < scratch.query[d]:
            return False
    return True


@kernel
def insert_points(curve, store, slots, first, scratch):
    """Enter rows of the store from slots[first] on; return the first without room."""
    for i in range(first, slots.size):
        if not insert_point(curve, store, np.int64(slots[i]), scratch):
            return i
    return slots.size


@kernel
def delete_points(curve, store, slots, scratch):
    """Take out rows that were entered."""
    for i in range(slots.size):
        delete_point(curve, store, np.int64(slots[i]), scratch)
