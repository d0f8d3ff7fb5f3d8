"""What a row asks of live events: cells and planes of the tree, and what its intervals are to the values of an event.

    row -> ticks -> the cells of each layer that meet it, and how much of each -> the buckets it asks     `ask_rows`
        -> a pair of planes a predicate: those to rule out, those to let pass                            `load_row`, `enter_cells`
        -> its intervals, whole and by upper halves, if it is plain                                      `load_plain`

Pairs    as many for a row in every bucket, so that no branch depends on where it is: where a cell lies within the row its pair
         stands for nothing, by planes that are read anyway.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.store.kernels.rows import ABSENT, CIRCLE
from matchwood.store.kernels.verify import ANY
from matchwood.structures.live.kernels.halves import ordered
from matchwood.structures.live.kernels.layout import HEAD, MASKED, PLACED, ROUGH, SPREAD
from matchwood.structures.live.kernels.layout import MOST as MOST_PLACES
from matchwood.structures.live.kernels.values import Parts
from matchwood.structures.mo_tree.kernels.layout import (
    AXES,
    HEAD_WORDS,
    LAYERS,
    LINE,
    NONE,
    ONE,
    ONES,
    SLICED,
    STALE,
    VALID,
    axis_number,
    slice_in,
    tick_of,
)
from matchwood.structures.mo_tree.kernels.planes import count_ones
from matchwood.structures.mo_tree.kernels.visits import (
    Batch,
    allowed,
    ask,
    ask_everywhere,
    begin_batch,
    first_number,
    next_number,
    sort_asks,
)

IN_USE, NOBODY = VALID - HEAD_WORDS, STALE - HEAD_WORDS
"""The plane of positions in use and one without a bit, as numbers: they stand before the first plane. No live event is stale."""
LAST_ID = np.iinfo(np.int64).max
HALF = 4  # bits for a number of slices of a layer
PAIRS = np.dtype([("many", "u4"), ("against", "i4"), ("passing", "i4")])
"""How many pairs of planes are read for a question, those of the layers first; which stand for nothing there."""
ASKING = np.dtype(
    [
        ("asked", "u8"),
        ("score", "f8"),
        ("spread", "u8"),
        ("entries", "u4"),
        ("plain", "u4"),
        ("slot", "u4"),
        ("held", "u4"),
        ("words", "u4"),
        ("last", "i8"),
    ]
)
"""A row that asks. If it is plain, `asked` are the dimensions it names, as a mask, and `score` is what it has if it matches; its
intervals are those of its question in `lo`, `hi` and `below`, and `words` of a region may be read. `spread`: SPREAD if an event
that is so can be compared with `bounds`. Where the k best are asked for, `held` of them are known, and a plain event with an id
above `last` is none of them."""


class LiveScratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    wanted: np.ndarray  # int64: the dimensions that a row names
    lo: np.ndarray  # uint64, by question: the intervals of plain rows, as `ordered` numbers
    hi: np.ndarray
    below: np.ndarray  # uint64: the bits of a mask below the dimension's
    bounds: np.ndarray  # uint32, by question: see `load_spread`
    rows: np.ndarray  # ASKING, one a question
    firsts: np.ndarray  # int64, by question: the complements of the k least ids found so far, falling
    seen: np.ndarray  # uint32, one an event: where it stands in the answer
    parts: Parts
    noted: np.ndarray  # uint32: expired events that were met, as regions
    begins: np.ndarray  # int32, one a layer of each question: first tick, -1 for the null cell, -2 for all cells
    ends: np.ndarray  # int32: last tick
    planes: np.ndarray  # int32, see `pairs_of`
    pairs: np.ndarray  # PAIRS, one a question
    stabbed: np.ndarray  # as in `structures.mo_tree.kernels.match.Scratch`
    slices: np.ndarray  # int64, beside `stabbed`: slices of the cell below the row's, and << HALF those above
    runs: np.ndarray
    digits: np.ndarray
    line: np.ndarray  # uint64 [8]
    batch: Batch


@helper
def pairs_of(tree, question):
    """Where the pairs of planes of a question begin: one a layer, then one a predicate on another axis."""
    return 2 * (tree.counts[AXES] + 1) * question


@helper
def load_row(tree, store, slot, scratch, question, how):
    """Ticks of the layers and planes of the other axes; none for relaxed matching, which looks at all events. O(entries)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    layers = tree.counts[LAYERS]
    for a in range(layers):
        scratch.begins[question * layers + a] = np.int32(-2)
    first = pairs_of(tree, question)
    pairs = layers
    for at in range(start, start if how & ANY else start + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, entry.dim)
        if a >= tree.counts[SLICED] or entry.kind & CIRCLE:  # the longitude and latitude of a circle stand before it
            continue
        axis = tree.axes[a]
        begin = np.int64(-1)
        end = np.int64(-1)
        if entry.kind != ABSENT:
            begin, end = tick_of(tree, axis, entry.lo), tick_of(tree, axis, entry.hi)
        if a < layers:
            scratch.begins[question * layers + a] = np.int32(begin)
            scratch.ends[question * layers + a] = np.int32(end)
        else:
            scratch.planes[first + 2 * pairs] = np.int32(against_plane(axis, begin, end))
            scratch.planes[first + 2 * pairs + 1] = np.int32(passing_plane(axis, begin))
            pairs += 1
    close_pairs(scratch, question, first, layers, pairs)


@helper
def against_plane(axis, begin, end):
    """The plane of those above the slices begin..end or without a value; where those without a value are asked for (-1), none."""
    if begin < 0:
        return np.int64(NOBODY)
    return np.int64(axis.plane) + (end if end < np.int64(axis.slices) - 1 else np.int64(axis.slices))


@helper
def passing_plane(axis, begin):
    """The plane of those at or above slice `begin`, or of those without a value (-1); all for 0."""
    if begin == 0:
        return np.int64(IN_USE)
    return np.int64(axis.plane) + (begin - 1 if begin > 0 else np.int64(axis.slices))


@helper
def close_pairs(scratch, question, first, layers, pairs):
    """Note what planes stand for nothing in a pair: of those that are read anyway one of each kind.

    Free positions have ones in all planes, and pass where nobody is ruled out: then the plane of those in use is read.
    """
    against, passing = np.int32(NOBODY), np.int32(IN_USE)
    for i in range(layers, pairs):
        if scratch.planes[first + 2 * i] != np.int32(NOBODY):
            against = scratch.planes[first + 2 * i]
        if scratch.planes[first + 2 * i + 1] != np.int32(IN_USE):
            passing = scratch.planes[first + 2 * i + 1]
    if against == np.int32(NOBODY):
        passing = np.int32(IN_USE)
        scratch.planes[first + 2 * pairs], scratch.planes[first + 2 * pairs + 1] = against, passing
        pairs += 1
    for i in range(layers, pairs):
        if scratch.planes[first + 2 * i] == np.int32(NOBODY):
            scratch.planes[first + 2 * i] = against
        if scratch.planes[first + 2 * i + 1] == np.int32(IN_USE):
            scratch.planes[first + 2 * i + 1] = passing
    mine = scratch.pairs[question]
    mine.many, mine.against, mine.passing = np.uint32(pairs), against, passing


@helper
def load_plain(live, store, slot, scratch, question, how, combine):
    """What a row of single intervals, on dimensions that a mask can name, asks of an event of single values. O(entries)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    plain = row.size == row.count and combine is None and not how & ANY
    asked = np.uint64(0)
    score = row.priority
    for j in range(np.int64(row.count)):
        entry = store.entries[start + j]
        bit = ONE << np.uint64(entry.dim & np.uint16(63))
        plain = plain and entry.kind != ABSENT and np.int64(entry.dim) < MASKED and asked & bit == 0
        asked |= bit
        score += entry.weight  # an event without weights has ones
        scratch.lo[question, j], scratch.hi[question, j] = ordered(entry.lo), ordered(entry.hi)
        scratch.below[question, j] = bit - ONE
    mine = scratch.rows[question]
    mine.asked, mine.score, mine.entries, mine.slot = asked, score, np.uint32(row.count), np.uint32(slot)
    mine.plain, mine.spread = np.uint32(plain), np.uint64(0)
    mine.held, mine.last = np.uint32(0), LAST_ID
    mine.words = np.uint32(words_read(live, asked))
    if plain and asked >> np.uint64(PLACED) == 0:
        mine.spread = SPREAD
        load_spread(live, scratch, question, np.int64(mine.entries))


@helper
def words_read(live, asked):
    """How many words of a region a plain row may read: an event has at most all dimensions below the largest one asked for, and
    not more values than any had. Of a SPREAD event two lines, mostly."""
    if live.counts[MOST_PLACES] <= PLACED:
        return np.int64(2 * LINE)
    for shift in (1, 2, 4, 8, 16, 32):
        asked |= asked >> np.uint64(shift)
    return HEAD + count_ones(asked)


@helper
def load_spread(live, scratch, question, entries):
    """The upper halves of a plain row's intervals, by dimension, as `sift_spread` takes them; all values of others pass.

    A value whose upper half is that of an end is left open, where its lower half matters: inner intervals are without it.
    """
    bounds = scratch.bounds[question]
    for dim in range(PLACED):
        for inner in (0, 2 * PLACED):
            bounds[inner + dim], bounds[inner + PLACED + dim] = np.uint32(0), np.uint32(0xFFFFFFFF)
    for j in range(entries):
        lo, hi, dim = scratch.lo[question, j], scratch.hi[question, j], count_ones(scratch.below[question, j])
        begin, end = lo >> np.uint64(32), hi >> np.uint64(32)
        bounds[dim], bounds[PLACED + dim] = np.uint32(begin), np.uint32(end - begin)
        rough = (live.counts[ROUGH] >> dim) & 1 != 0
        begin += np.uint64(np.uint32(lo) != 0)
        end -= np.uint64(rough & (np.uint32(hi) != np.uint32(0xFFFFFFFF)))
        if begin > end:
            begin = end = np.uint64(0xFFFFFFFF)  # where no number is
        bounds[2 * PLACED + dim], bounds[3 * PLACED + dim] = np.uint32(begin), np.uint32(end - begin)


@helper
def meet_cells(tree, scratch, question):
    """The cells of each layer whose events may match: those the row's ticks meet and the one for spanning values. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        at = question * tree.counts[LAYERS] + a
        begin, end = np.int64(scratch.begins[at]), np.int64(scratch.ends[at])
        cells, ticks = np.int64(axis.cells), np.int64(axis.cuts) + 1
        scratch.runs[a] = n
        scratch.digits[a] = n
        low, high = np.int64(0), cells - 1
        if begin == -1:
            low = cells - 1
        elif begin >= 0:
            low, high = begin * (cells - 2) // ticks, end * (cells - 2) // ticks
        for c in range(low, high + 1):
            scratch.stabbed[n] = c * np.int64(axis.radix)
            scratch.slices[n] = 0
            if begin >= 0:
                cell = tree.cells[np.int64(axis.first_cell) + c]
                beyond = np.int64(axis.slices) - 1 - slice_in(cell, end)
                scratch.slices[n] = slice_in(cell, begin) | beyond << HALF
            n += 1
        if begin >= 0:
            scratch.stabbed[n] = (cells - 2) * np.int64(axis.radix)
            scratch.slices[n] = 0
            n += 1
    scratch.runs[tree.counts[LAYERS]] = n


@helper
def ask_met(tree, scratch, question):
    """Let a row ask the buckets of all combinations of cells that meet it; False if there is no room. O(combinations)."""
    layers = tree.counts[LAYERS]
    meet_cells(tree, scratch, question)
    number = first_number(scratch, layers)
    if number < 0:
        return False
    while number >= 0:
        if tree.directory[number].first != NONE:
            packed = np.uint64(0)
            for a in range(layers):
                packed |= np.uint64(scratch.slices[scratch.digits[a]]) << np.uint64(2 * HALF * a)
            ask(scratch.batch, number, question, packed, ONES, ONES)
        number = next_number(scratch, layers, number)
    return True


@helper
def ask_rows(tree, live, store, slots, scratch, first, last, how, combine, k):
    """Let the rows slots[first:last] ask, as many as there is room for; return how many: at least one, if there is one."""
    begin_batch(scratch.batch)
    many = min(last - first, allowed(scratch.batch, k))
    for q in range(many):
        load_row(tree, store, np.int64(slots[first + q]), scratch, q, how)
        load_plain(live, store, np.int64(slots[first + q]), scratch, q, how, combine)
        asked = ask_everywhere(tree, scratch.batch, q) if how & ANY else ask_met(tree, scratch, q)
        if not asked:
            many = np.int64(q)
            break
    sort_asks(scratch.batch)
    return many


@helper
def enter_cells(tree, scratch, question, packed, first):
    """Write the pairs of the layers in the cells of a bucket, whose slices have been packed: nothing where the row holds all."""
    mine = scratch.pairs[question]
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        slices = np.int64(packed >> np.uint64(2 * HALF * a))
        below, above = slices & ((1 << HALF) - 1), (slices >> HALF) & ((1 << HALF) - 1)
        plane = np.int64(axis.plane)
        last = plane + np.int64(axis.slices) - 1 - above
        scratch.planes[first + 2 * a] = np.int32(last) if above > 0 else mine.against
        scratch.planes[first + 2 * a + 1] = np.int32(plane + below - 1) if below > 0 else mine.passing
