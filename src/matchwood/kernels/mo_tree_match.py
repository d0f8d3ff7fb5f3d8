"""MO-Tree, event matching (MO-Tree 4.5.2): which buckets an event stabs, which rows there may match, which do.

    event -> ticks -> stabbed cells of each layer -> their combinations -> buckets that hold rows         (tree)
          -> one plane an axis -> 512 rows a line, all planes anded at once -> a few slots               (filter)
          -> rows and entries prefetched, then the exact test of `kernels.verify`                         (verification)

In the paper every row of a stabbed bucket is verified. Here planes leave about 2 rows for each that matches: of a million city
squares 100,000 stand in stabbed buckets, 550 are verified and 330 match. Readers only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import (
    AXES,
    HEAD_WORDS,
    LAYERS,
    LINE,
    LINE_ROWS,
    MEMBER_WORDS,
    NODES,
    NONE,
    ONE,
    ONES,
    SLICED,
    cell_of,
    slice_in,
    tick_of,
)
from matchwood.kernels.planes import and_planes
from matchwood.kernels.results import best_first, emit, offer
from matchwood.kernels.store import AHEAD, SIBLING
from matchwood.kernels.verify import ANY, load_event, score_row, unload_event
from matchwood.kernels.verify_plain import has_lists, score_plain

FOUND = 4096


class Scratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    seen: np.ndarray  # uint32, one a slot
    begins: np.ndarray  # int64, one an axis: the event's first tick, -1 if it lacks the attribute
    ends: np.ndarray  # int64: its last tick
    planes: np.ndarray  # int64: its first plane
    lasts: np.ndarray  # int64: its last plane
    stabbed: np.ndarray  # int64: what the stabbed cells add to the number of a bucket, layer by layer
    slices: np.ndarray  # int64: the event's first slice of each stabbed cell
    touched: np.ndarray  # uint64: a bit for each slice of the stabbed cell that the event touches
    runs: np.ndarray  # int64: where the cells of a layer begin in `stabbed`
    digits: np.ndarray  # int64: the cell of each layer that is visited now
    visit: np.ndarray  # uint32: nodes to look at
    entered: np.ndarray  # uint64, one a node to look at: the event's slices of its layers, a byte each
    line: np.ndarray  # uint64 [8]
    found: np.ndarray  # uint32 [FOUND]: candidates, as places in `members`, later as slots


@helper
def load_axes(tree, scratch):
    """Ticks and planes of the loaded event; True if it has one plane on every axis. O(axes log cuts)."""
    single = True
    for a in range(tree.counts[AXES]):
        axis = tree.axes[a]
        dim = np.int64(axis.dim)
        null = np.int64(axis.plane) + np.int64(axis.slices)
        if dim >= scratch.values.size or np.isnan(scratch.values[dim].lo):
            scratch.begins[a] = -1
            scratch.planes[a] = null
            scratch.lasts[a] = null
            continue
        begin = tick_of(tree, axis, scratch.values[dim].lo)
        end = begin
        if scratch.values[dim].hi > scratch.values[dim].lo:
            end = tick_of(tree, axis, scratch.values[dim].hi)
            single = single and begin == end
        scratch.begins[a] = begin
        scratch.ends[a] = end
        scratch.planes[a] = np.int64(axis.plane) + begin
        scratch.lasts[a] = np.int64(axis.plane) + end
    return single


@helper
def touched_bits(axis, begin, end):
    """A bit for each of the slices begin..end, the null bit for -1; all bits where there are no slices."""
    if axis.slices == 0:
        return ONES
    if begin < 0:
        return ONE << np.uint64(axis.slices)
    return (ONES >> np.uint64(63 - (end - begin))) << np.uint64(begin)


@helper
def stab(tree, scratch):
    """The cells of each layer that the event stabs; the whole-domain cell alone for an attribute it lacks. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        begin, end = scratch.begins[a], scratch.ends[a]
        first, cells = np.int64(axis.first_cell), np.int64(axis.cells)
        scratch.runs[a] = n
        scratch.digits[a] = n
        for c in range(cells):
            cell = tree.cells[first + c]
            met = np.int64(cell.first) <= end and begin < np.int64(cell.first) + np.int64(cell.width)
            scratch.stabbed[n] = c
            n += np.int64(met if begin >= 0 else c == cells - 1)
        for i in range(scratch.runs[a], n):
            cell = tree.cells[first + scratch.stabbed[i]]
            low = np.int64(axis.slices) if begin < 0 else begin
            if begin < 0:
                scratch.touched[i] = touched_bits(axis, begin, begin)
            else:
                low, high = slice_in(cell, begin), slice_in(cell, end)
                scratch.touched[i] = touched_bits(axis, low, high)
            scratch.slices[i] = low
            scratch.stabbed[i] *= np.int64(axis.radix)
    scratch.runs[tree.counts[LAYERS]] = n


@helper
def list_bucket(tree, scratch, number, mask_0, mask_1, packed, visits):
    """Append the nodes of a bucket that reach the event's slices of the first two axes; return how many there are now."""
    n = np.int64(tree.directory[number].first)
    while n != np.int64(NONE):
        node = tree.nodes[n]
        scratch.visit[visits] = np.uint32(n)
        scratch.entered[visits] = packed
        visits += np.int64((node.reach_0 & mask_0) != 0) & np.int64((node.reach_1 & mask_1) != 0)
        n = np.int64(node.next)
    return visits


@helper
def mask_of(tree, scratch, a):
    """The slices that the event touches, of an axis that is no layer or of the layer's cell that is visited now."""
    if a >= tree.counts[SLICED]:
        return ONES
    if a < tree.counts[LAYERS]:
        return scratch.touched[scratch.digits[a]]
    return touched_bits(tree.axes[a], scratch.begins[a], scratch.ends[a])


@helper
def list_stabbed(tree, scratch):
    """The nodes of all combinations of stabbed cells, into scratch.visit; return how many. O(combinations + nodes)."""
    layers = tree.counts[LAYERS]
    number = np.int64(0)
    for a in range(layers):
        number += scratch.stabbed[scratch.digits[a]]
    visits = np.int64(0)
    while True:
        if tree.directory[number].first != NONE:
            packed = np.uint64(0)
            for a in range(layers):
                packed |= np.uint64(scratch.slices[scratch.digits[a]]) << np.uint64(8 * a)
            masks = mask_of(tree, scratch, 0), mask_of(tree, scratch, 1)
            visits = list_bucket(tree, scratch, number, masks[0], masks[1], packed, visits)
        number = next_number(scratch, layers, number)
        if number < 0:
            return visits


@helper
def next_number(scratch, layers, number):
    """The next combination of stabbed cells, the last layer's turning fastest; -1 after the last."""
    a = layers - 1
    while a >= 0:
        number -= scratch.stabbed[scratch.digits[a]]
        scratch.digits[a] += 1
        if scratch.digits[a] < scratch.runs[a + 1]:
            return number + scratch.stabbed[scratch.digits[a]]
        scratch.digits[a] = scratch.runs[a]
        number += scratch.stabbed[scratch.digits[a]]
        a -= 1
    return np.int64(-1)


@helper
def list_all(tree, scratch):
    """Every node with rows: relaxed matching cannot leave one out."""
    visits = np.int64(0)
    for n in range(tree.counts[NODES]):
        if tree.nodes[n].words > 0:
            scratch.visit[visits] = np.uint32(n)
            visits += 1
    return visits


@helper
def enter_bucket(tree, scratch, node):
    """Planes of the layers: slices of this bucket's cells; -1 where the event is outside the cell (relaxed matching only)."""
    for a in range(tree.counts[LAYERS]):
        begin, end = scratch.begins[a], scratch.ends[a]
        if begin < 0:
            continue
        axis = tree.axes[a]
        cell = cell_of(tree, axis, np.int64(node.number))
        first, width = np.int64(cell.first), np.int64(cell.width)
        scratch.planes[a] = np.int64(axis.plane) + slice_in(cell, begin)
        scratch.lasts[a] = np.int64(axis.plane) + slice_in(cell, end)
        if end < first or begin >= first + width:
            scratch.planes[a] = -1


@helper
def enter_slices(tree, scratch, packed):
    """As `enter_bucket` for an event of single keys, whose slices of the bucket's cells have been packed."""
    for a in range(tree.counts[LAYERS]):
        scratch.planes[a] = np.int64(tree.axes[a].plane) + np.int64((packed >> np.uint64(8 * a)) & np.uint64(255))


@helper
def and_ranges(tree, scratch, valid, base, words):
    """As `and_planes` where the event spans several slices of an axis: their planes are united first."""
    bits, line = tree.bits, scratch.line
    left = np.uint64(0)
    for w in range(LINE):
        word = bits[valid + w]
        for a in range(tree.counts[SLICED]):
            united = np.uint64(0)
            for plane in range(scratch.planes[a], scratch.lasts[a] + 1):
                united |= bits[base + plane * words + w]
            word &= united
        line[w] = word
        left |= word
    return left != 0


@helper
def or_planes(tree, scratch, valid, base, words):
    """Relaxed: rows with a predicate (a zero in its null plane) that may hold, and rows with an entry no plane knows."""
    bits, line = tree.bits, scratch.line
    left = np.uint64(0)
    for w in range(LINE):
        word = bits[valid + words + w]
        for a in range(tree.counts[SLICED]):
            if scratch.begins[a] < 0 or scratch.planes[a] < 0:
                continue
            axis = tree.axes[a]
            null = bits[base + (np.int64(axis.plane) + np.int64(axis.slices)) * words + w]
            for plane in range(scratch.planes[a], scratch.lasts[a] + 1):
                word |= bits[base + plane * words + w] & ~null
        word &= bits[valid + w]
        line[w] = word
        left |= word
    return left != 0


@helper
def collect(tree, scratch, node, n):
    """Append where the slots of the bits left in scratch.line stand, and ask for them."""
    first = 2 * np.int64(node.start)
    for w in range(np.int64(node.words)):
        word = scratch.line[w]
        while word != 0:
            at = first + w * 64 + np.int64(trailing_zeros(word))
            word &= word - np.uint64(1)
            prefetch(tree.members, at)
            scratch.found[n] = np.uint32(at)
            n += 1
    return n


@helper
def filter_node(tree, scratch, v, visits, how, single):
    """Leave in scratch.line the rows of a node that may match; True if there may be any. O(axes)."""
    node = tree.nodes[np.int64(scratch.visit[v])]
    words = np.int64(node.words)
    valid = np.int64(node.start) + np.int64(MEMBER_WORDS) * words
    base = valid + 2 * words
    if how & ANY:
        return or_planes(tree, scratch, valid, base, words)
    if not single:
        return and_ranges(tree, scratch, valid, base, words)
    after = tree.nodes[np.int64(scratch.visit[min(v + 1, visits - 1)])]
    ahead_words = np.int64(after.words)
    ahead = np.int64(after.start) + np.int64(HEAD_WORDS) * ahead_words
    prefetch(tree.bits, ahead - 2 * ahead_words)
    axes = tree.counts[SLICED]
    return and_planes(tree.bits, valid, base, words, scratch.planes, axes, ahead, ahead_words, scratch.line)


@helper
def prefetch_candidate(tree, store, scratch, i, n):
    """The three steps before candidate i is verified, each as far ahead as memory is away: its slot, its row, its entries."""
    if i + 2 * AHEAD < n:
        slot = tree.members[np.int64(scratch.found[i + 2 * AHEAD])]
        scratch.found[i + 2 * AHEAD] = slot
        prefetch(store.rows, np.int64(slot))
    if 0 <= i + AHEAD < n:
        start = np.int64(store.rows[np.int64(scratch.found[i + AHEAD])].start)
        prefetch(store.entries, start)
        prefetch(store.entries, start + 2)
        prefetch(store.entries, start + 4)


@helper
def list_candidates(tree, scratch, v, visits, how, single):
    """Candidates of the nodes from visit[v] on, as many as there is room for; return the next v and how many."""
    found = np.int64(0)
    packed = ~scratch.entered[v]
    number = np.int64(-1)
    while v < visits and found + LINE_ROWS <= FOUND:
        node = tree.nodes[np.int64(scratch.visit[v])]
        if single and not how & ANY:
            if scratch.entered[v] != packed:
                packed = scratch.entered[v]
                enter_slices(tree, scratch, packed)
        elif np.int64(node.number) != number:
            number = np.int64(node.number)
            enter_bucket(tree, scratch, node)
        if filter_node(tree, scratch, v, visits, how, single):
            found = collect(tree, scratch, node, found)
        v += 1
    return v, found


@helper
def append(row, score, out, n):
    """Append a hit, or nothing for NaN, without a branch; there is room. Return the new count."""
    out.ids[n] = row.id
    out.scores[n] = score
    return n + np.int64(score == score)


@kernel
def answer_many(tree, store, scratch, events, first, how, combine, k, out, ends, candidates):
    """Every match of events[first:], or for k > 0 the k best, best first; return the first not done (out is full) or all."""
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        held = np.int64(0)
        load_event(scratch.values, events, e)
        single = load_axes(tree, scratch)
        plain = combine is None and not how & ANY and not has_lists(events, e)
        if how & ANY:
            visits = list_all(tree, scratch)
        else:
            stab(tree, scratch)
            visits = list_stabbed(tree, scratch)
        v = np.int64(0)
        while v < visits and n >= 0:
            v, found = list_candidates(tree, scratch, v, visits, how, single)
            candidates[0] += found
            for i in range(-2 * AHEAD, found):
                prefetch_candidate(tree, store, scratch, i, found)
                if i < 0 or n < 0:
                    continue
                slot = np.int64(scratch.found[i])
                row = store.rows[slot]
                score = np.nan
                known = False
                if plain and row.size == row.count:
                    score, known = score_plain(store, row, scratch.values)
                if not known:
                    score = score_row(store, slot, scratch.values, events, how, combine)
                if k == 0:
                    if n < out.ids.size and not row.flags & SIBLING:
                        n = append(row, score, out, n)
                    elif not np.isnan(score):
                        n = emit(store, slot, score, out, begin, n, scratch.seen)
                elif score >= (out.scores[begin] if held == k else -np.inf):
                    held = offer(store, slot, score, out, begin, held, k)
        unload_event(scratch.values, events, e)
        if n < 0:
            return e
        if k > 0:
            best_first(out, begin, held)
            n = begin + held
        ends[e] = n
    return ends.size
