"""MO-Tree, event matching (MO-Tree 4.5.2): which buckets an event stabs, which rows there may match, which do.

    event -> ticks -> stabbed cells of each layer -> their combinations -> buckets that hold rows         (tree)
          -> one plane an axis -> 512 rows a line, all planes anded at once -> a few slots               (filter)
          -> rows and entries prefetched, then the exact test of `store.kernels.verify`                         (verification)

In the paper every row of a stabbed bucket is verified. Here planes leave about 2 rows for each that matches: of a million city
squares 75,000 stand in the nodes that are looked at, 650 are verified and 360 match. The paper answers event by event; here
a batch is answered node by node (`kernels.visits`). Readers only.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.candidates import KEY, load_keys, score_single, unload_keys
from matchwood.store.kernels.results import best_first, emit, keep_best, keep_largest
from matchwood.store.kernels.rows import JOINED, SIBLING, SIBLINGS, most_of
from matchwood.store.kernels.verify import ANY, VALUE, load_event, score_row, unload_event
from matchwood.structures.mo_tree.kernels.layout import (
    AXES,
    HEAD_WORDS,
    LAYERS,
    NONE,
    ONE,
    ONES,
    OPEN,
    SLICED,
    VALID,
    cell_of,
    slice_in,
    tick_of,
)
from matchwood.structures.mo_tree.kernels.planes import and_planes, prefetch_planes
from matchwood.structures.mo_tree.kernels.visits import (
    FAR,
    FIRST,
    KEPT,
    MANY,
    SERIES,
    Batch,
    allowed,
    ask,
    ask_everywhere,
    begin_batch,
    find_hits,
    first_number,
    hand_out,
    keep_hit,
    next_number,
    order_hits,
    shift_of,
    sort_asks,
)


class Scratch(State):
    values: np.ndarray = array(VALUE, ndim=2)  # by question and dimension
    keys: np.ndarray = array(KEY, ndim=2)  # by question and dimension
    plain: np.ndarray = array(np.bool_)  # one a question: may its candidates be verified by their keys?
    light: np.ndarray = array(np.bool_)  # one a question: does no row score more than `most_of` says?
    seen: np.ndarray = array(np.uint32)  # one a slot
    begins: np.ndarray = array(
        np.int32
    )  # one an axis of each question: the event's first tick, -1 if it lacks the attribute
    ends: np.ndarray = array(np.int32)  # its last tick
    planes: np.ndarray = array(np.int32)  # its first plane
    lasts: np.ndarray = array(np.int32)  # its last plane
    single: np.ndarray = array(np.bool_)  # one a question: has the event one plane on every axis?
    stabbed: np.ndarray = array(np.int64)  # what the stabbed cells add to the number of a bucket, layer by layer
    slices: np.ndarray = array(np.int64)  # the event's first slice of each stabbed cell
    touched: np.ndarray = array(np.uint64)  # a bit for each slice of the stabbed cell that the event touches
    runs: np.ndarray = array(np.int64)  # where the cells of a layer begin in `stabbed`
    digits: np.ndarray = array(np.int64)  # the cell of each layer that is visited now
    line: np.ndarray = array(np.uint64)  # of a node
    best: np.ndarray = array(np.float64, ndim=2)  # by question: the k best scores found so far, falling
    held: np.ndarray = array(np.int64)  # one a question: how many they are
    worst: np.ndarray = array(np.float64)  # one a question: a row that cannot score as much is none of the k best
    batch: Batch = nested(Batch)


@helper
def load_axes(tree, scratch, values, first):
    """Ticks and planes of the event in `values`, from `first` on; True if it has one plane on every axis. O(axes log cuts)."""
    single = True
    for a in range(tree.counts[AXES]):
        axis = tree.axes[a]
        dim = np.int64(axis.dim)
        null = np.int32(np.int64(axis.plane) + np.int64(axis.slices))
        if dim >= values.size or np.isnan(values[dim].lo):
            scratch.begins[first + a] = np.int32(-1)
            scratch.planes[first + a] = null
            scratch.lasts[first + a] = null
            continue
        begin = tick_of(tree, axis, values[dim].lo)
        end = begin
        if values[dim].hi > values[dim].lo:
            end = tick_of(tree, axis, values[dim].hi)
            single = single and begin == end
        scratch.begins[first + a] = np.int32(begin)
        scratch.ends[first + a] = np.int32(end)
        scratch.planes[first + a] = np.int32(np.int64(axis.plane) + begin)
        scratch.lasts[first + a] = np.int32(np.int64(axis.plane) + end)
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
def stab(tree, scratch, start):
    """The cells of each layer that the event stabs; the whole-domain cell alone for an attribute it lacks. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        begin, end = np.int64(scratch.begins[start + a]), np.int64(scratch.ends[start + a])
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
def mask_of(tree, scratch, a, start):
    """The slices that the event touches, of an axis that is no layer or of the layer's cell that is visited now."""
    if a >= tree.counts[SLICED]:
        return ONES
    if a < tree.counts[LAYERS]:
        return scratch.touched[scratch.digits[a]]
    return touched_bits(tree.axes[a], np.int64(scratch.begins[start + a]), np.int64(scratch.ends[start + a]))


@helper
def ask_stabbed(tree, scratch, question):
    """Let an event ask the buckets of all combinations of cells it stabs; False if there is no room. O(combinations)."""
    layers = tree.counts[LAYERS]
    start = question * tree.counts[AXES]
    stab(tree, scratch, start)
    number = first_number(scratch, layers)
    if number < 0:
        return False
    while number >= 0:
        if tree.directory[number].first != NONE:
            packed = np.uint64(0)
            for a in range(layers):
                packed |= np.uint64(scratch.slices[scratch.digits[a]]) << np.uint64(8 * a)
            masks = mask_of(tree, scratch, 0, start), mask_of(tree, scratch, 1, start)
            ask(scratch.batch, number, question, packed, masks[0], masks[1])
        number = next_number(scratch, layers, number)
    return True


@helper
def ask_events(tree, scratch, events, first, last, how, k):
    """Let events[first:last] ask, as many as there is room for; return how many: at least one, if there is one."""
    batch = scratch.batch
    begin_batch(batch)
    many = min(last - first, allowed(batch, k))
    for q in range(many):
        values = scratch.values[q]
        load_event(values, events, first + q)
        scratch.single[q] = load_axes(tree, scratch, values, q * tree.counts[AXES])
        unload_event(values, events, first + q)
        asked = ask_everywhere(tree, batch, q) if how & ANY else ask_stabbed(tree, scratch, q)
        if not asked:
            many = np.int64(q)
            break
    sort_asks(batch)
    return many


@helper
def enter_bucket(tree, scratch, node, start):
    """Planes of the layers: slices of this bucket's cells; -1 where the event is outside the cell (relaxed matching only)."""
    for a in range(tree.counts[LAYERS]):
        begin, end = np.int64(scratch.begins[start + a]), np.int64(scratch.ends[start + a])
        if begin < 0:
            continue
        axis = tree.axes[a]
        cell = cell_of(tree, axis, np.int64(node.number))
        first, width = np.int64(cell.first), np.int64(cell.width)
        scratch.planes[start + a] = np.int32(np.int64(axis.plane) + slice_in(cell, begin))
        scratch.lasts[start + a] = np.int32(np.int64(axis.plane) + slice_in(cell, end))
        if end < first or begin >= first + width:
            scratch.planes[start + a] = np.int32(-1)


@helper
def enter_slices(tree, scratch, packed, start):
    """As `enter_bucket` for an event of single keys, whose slices of the bucket's cells have been packed."""
    for a in range(tree.counts[LAYERS]):
        slice_ = np.int64((packed >> np.uint64(8 * a)) & np.uint64(255))
        scratch.planes[start + a] = np.int32(np.int64(tree.axes[a].plane) + slice_)


@helper
def and_ranges(tree, scratch, valid, base, words, start):
    """As `and_planes` where the event spans several slices of an axis: their planes are united first."""
    bits, line = tree.bits, scratch.line
    for w in range(words):
        word = bits[valid + w]
        for a in range(tree.counts[SLICED]):
            united = np.uint64(0)
            for plane in range(np.int64(scratch.planes[start + a]), np.int64(scratch.lasts[start + a]) + 1):
                united |= bits[base + plane * words + w]
            word &= united
        line[w] = word


@helper
def or_planes(tree, scratch, valid, base, words, start):
    """Relaxed: rows with a predicate (a zero in its null plane) that may hold, and rows with an entry no plane knows."""
    bits, line = tree.bits, scratch.line
    for w in range(words):
        word = bits[valid + (OPEN - VALID) * words + w]
        for a in range(tree.counts[SLICED]):
            if scratch.begins[start + a] < 0 or scratch.planes[start + a] < 0:
                continue
            axis = tree.axes[a]
            null = bits[base + (np.int64(axis.plane) + np.int64(axis.slices)) * words + w]
            for plane in range(np.int64(scratch.planes[start + a]), np.int64(scratch.lasts[start + a]) + 1):
                word |= bits[base + plane * words + w] & ~null
        line[w] = word & bits[valid + w]


@helper
def filter_visit(tree, scratch, node, visit, how):
    """Leave in scratch.line the rows of a node that may match. O(axes)."""
    start = np.int64(visit.question) * tree.counts[AXES]
    words = np.int64(node.words)
    valid = np.int64(node.start) + np.int64(VALID) * words
    base = np.int64(node.start) + np.int64(HEAD_WORDS) * words
    if how & ANY:
        enter_bucket(tree, scratch, node, start)
        or_planes(tree, scratch, valid, base, words, start)
    elif not scratch.single[np.int64(visit.question)]:
        enter_bucket(tree, scratch, node, start)
        and_ranges(tree, scratch, valid, base, words, start)
    else:
        enter_slices(tree, scratch, visit.packed, start)
        and_planes(tree.bits, valid, base, shift_of(node), scratch.planes, start, tree.counts[SLICED], scratch.line)


@helper
def prefetch_visit(tree, scratch, visit):
    """Ask for the planes of a visit that comes soon; of the layers for those that its question read last."""
    node = tree.nodes[visit.node]
    start = np.int64(visit.question) * tree.counts[AXES]
    words = np.int64(node.words)
    base = np.int64(node.start) + np.int64(HEAD_WORDS) * words
    prefetch(tree.bits, base + (VALID - HEAD_WORDS) * words)
    prefetch_planes(tree.bits, base, shift_of(node), scratch.planes, start, tree.counts[SLICED])


@subroutine
def verify_plain(store, scratch, i, owner, found, k):
    """Verify candidates i, i + 1, ..., the first of them of `owner`, as long as row and event are plain, and keep the hits;
    return the first that is not so, or `found`, and its owner. O(entries).

    Rows are asked for FAR candidates before they are verified, their entries half as many. Of those that cannot be among the
    k best the entries are not read. Whose candidates they are is followed without a branch. The exact test of other rows is not
    called from here: it took registers from this loop.
    """
    ranked = 0 < k <= scratch.best.shape[1]
    several = store.counts[SIBLINGS] > 0
    batch = scratch.batch
    owners, series = batch.owners, batch.series
    n, serial = np.uint64(batch.counts[KEPT]), np.uint64(batch.counts[SERIES])
    at, end, mine = np.uint64(i), np.uint64(found), np.uint64(owner)
    begin = n
    while at < end:
        question = np.uint64(owners[mine].question)
        prefetch(store.rows, np.int64(batch.found[at + np.uint64(FAR)]))
        prefetch_entries(store, scratch, question, np.int64(at) + FAR // 2, ranked)
        slot = np.uint64(batch.found[at])
        row = store.rows[slot]
        holds = False
        if not ranked or not most_of(row) < scratch.worst[question]:
            if not scratch.plain[question]:
                break
            score, holds, kinds = score_single(store, slot, scratch.keys[question])
            if kinds & ~JOINED != 0:
                break
            batch.ids[n], batch.scores[n] = row.id, score
            if several:
                batch.slots[n] = np.uint32(slot) if row.flags & SIBLING else NONE
            if ranked and holds and score > scratch.worst[question] and not row.flags & SIBLING:
                note_score(scratch, np.int64(question), score, k)
        n += np.uint64(holds)
        at += ONE
        series[serial].question, series[serial].end, series[serial].score = owners[mine].question, np.uint32(n), np.nan
        last = at == np.uint64(owners[mine].end)
        mine += np.uint64(last)
        serial += np.uint64(last & (n > begin))
        begin = n if last else begin
    batch.counts[KEPT], batch.counts[SERIES] = np.int64(n), np.int64(serial + np.uint64(n > begin))
    return np.int64(at), np.int64(mine)


@helper
def prefetch_entries(store, scratch, question, i, ranked):
    """Ask for the entries of candidate i, unless it cannot be among the k best of this question; its row has come."""
    row = store.rows[np.uint64(scratch.batch.found[i])]
    if not ranked or not most_of(row) < scratch.worst[question]:
        start = np.int64(row.start)
        prefetch(store.entries, start)  # three lines are six entries; a loop over its lines is slower by a tenth
        prefetch(store.entries, start + 2)
        prefetch(store.entries, start + 4)


@subroutine
def verify_found(scratch, found, known):
    """Verify the candidates that are listed, and keep the hits. O(entries)."""
    store, events, how, combine, k = known
    batch = scratch.batch
    for i in range(min(found, FAR)):
        prefetch(store.rows, np.int64(batch.found[i]))
    for i in range(min(found, FAR // 2)):
        prefetch_entries(store, scratch, 0, i, False)
    i, owner = verify_plain(store, scratch, 0, 0, found, k)
    while i < found:
        question = np.int64(batch.owners[owner].question)
        verify_other(store, scratch, events, question, np.int64(batch.found[i]), how, combine, k)
        owner += np.int64(i + 1 == np.int64(batch.owners[owner].end))
        i, owner = verify_plain(store, scratch, i + 1, owner, found, k)


@helper
def verify_other(store, scratch, events, question, slot, how, combine, k):
    """Verify a row that is not plain, or for an event that is not. O(entries)."""
    row = store.rows[slot]
    score = score_row(store, slot, scratch.values[question], events, how, combine)
    holds, sibling = not np.isnan(score), row.flags & SIBLING
    keep_hit(scratch.batch, row.id, score, np.uint32(slot) if sibling else NONE, question, holds)
    if 0 < k <= scratch.best.shape[1] and holds and score > scratch.worst[question] and not sibling:
        note_score(scratch, question, score, k)


@helper
def note_score(scratch, question, score, k):
    """One of the k best scores so far, of a subscription that has no other row. O(k)."""
    best = scratch.best[question]
    held = scratch.held[question] = keep_largest(best, scratch.held[question], k, score)
    if held == k and scratch.light[question]:
        scratch.worst[question] = best[k - 1]


@helper
def deliver(store, scratch, question, k, out, begin, n, held):
    """The hits of an event that are in hand into its answer; return where it ends, -1 if `out` is full, and how many of the k
    best are held."""
    batch = scratch.batch
    if begin + k > out.ids.size:
        return np.int64(-1), held
    several = store.counts[SIBLINGS] > 0
    for i in range(batch.ends[question], batch.ends[question + 1]):
        hit = np.int64(batch.order[i])
        id_, score, slot = batch.ids[hit], batch.scores[hit], batch.slots[hit] if several else NONE
        if k > 0:
            if score >= (out.scores[begin] if held == k else -np.inf):
                held = keep_best(out, begin, held, k, id_, score, slot != NONE)
        elif slot != NONE:
            n = emit(store, np.int64(slot), score, out, begin, n, scratch.seen)
            if n < 0:
                break
        elif n < out.ids.size:
            out.ids[n] = id_
            out.scores[n] = score
            n += 1
        else:
            return np.int64(-1), held
    return n, held


@helper
def load_events(scratch, events, first, many, how, combine):
    """Spread events[first : first + many], those that ask, over values and keys. O(their entries)."""
    for q in range(many):
        load_event(scratch.values[q], events, first + q)
        single = load_keys(scratch.keys[q], events, first + q)
        scratch.plain[q] = single and combine is None and not how & ANY
        scratch.light[q] = combine is None and not how & ANY and is_light(events, first + q)
        scratch.held[q], scratch.worst[q] = 0, -np.inf


@helper
def is_light(events, e):
    """Is no weight of event e above 1?"""
    light = True
    for i in range(events.offsets[e], events.offsets[e + 1]):
        light &= events.weight[i] <= 1.0
    return light


@helper
def unload_events(scratch, events, first, many):
    for q in range(many):
        unload_event(scratch.values[q], events, first + q)
        unload_keys(scratch.keys[q], events, first + q)


@kernel
def answer_many(tree, store, scratch, events, first, how, combine, k, out, ends, candidates):
    """Every match of events[first:], or for k > 0 the k best, best first; return the first not done (out is full) or all.

    Called again with that event as `first`, it goes on with the hits in hand.
    """
    batch = scratch.batch
    counts = batch.counts
    e, n = first, np.int64(0)
    begin = held = many = np.int64(0)
    whole = True
    begun = False  # with an event alone whose hits do not fit at once
    if first == 0:
        counts[FIRST] = counts[MANY] = 0
    while e < ends.size:
        if not counts[FIRST] <= e < counts[FIRST] + counts[MANY]:
            if not begun:
                many = ask_events(tree, scratch, events, e, ends.size, how, k)
            load_events(scratch, events, e, many, how, combine)
            known = store, events, how, combine, k
            whole = find_hits(
                tree, scratch, e, many, how, k, filter_visit, prefetch_visit, verify_found, known, candidates
            )
            unload_events(scratch, events, e, many)
            if many > 1 and not whole:
                continue
            fits = whole and not begun and n + counts[KEPT] <= out.ids.size
            if fits and k == 0 and store.counts[SIBLINGS] == 0:
                n = hand_out(batch, many, out, n, ends, e)
                e += many
                counts[MANY] = 0
                continue
            order_hits(batch)
        many = max(counts[MANY], 1)
        for q in range(e - counts[FIRST], many):
            if not begun:
                begin, held = n, np.int64(0)
            n, held = deliver(store, scratch, q, k, out, begin, n, held)
            if n < 0:
                return e
            if whole:
                if k > 0:
                    best_first(out, begin, held)
                    n = begin + held
                ends[e] = n
                e += 1
        begun = not whole
    return ends.size
