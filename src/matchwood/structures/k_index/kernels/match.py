"""The k-index: posting lists of rows in the order of their size, and the conjunction algorithm over them (k-index, III to V).

Layout   rows are numbered (their *ordinal*) by size: the number of dimensions they constrain. Size K owns the
         ordinals sizes[K] : sizes[K + 1]. A dimension's values are cut into cells at `bounds`; list l of a (dimension,
         cell) pair holds, ascending, the ordinals of the rows whose interval meets the cell: postings[lists[l] : lists[l + 1]].
         One more list a dimension holds all its rows, for events whose value spans many cells.
Cells    where a dimension has few distinct keys every key is a cell: the enumeration of the k-index paper. Else
         cells are quantiles, as fine as the postings allow: a continuous domain cannot be enumerated.
Invariant  a row stands in every list whose cell its interval meets, so one that matches an event of n attributes is in K of the n
         lists; a hit is still verified exactly (`KIndex.check`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.candidates import BOUNDARIES, count, count_entries, load_keys, unload_keys, verify_found
from matchwood.store.kernels.results import best_first, offer
from matchwood.store.kernels.rows import ABSENT, CIRCLE
from matchwood.store.kernels.verify import ANY, load_event, score_row, unload_event

FOUND = 4096
NEAR = 2  # an event's value that spans more cells uses the list of the whole dimension

BOUND = np.dtype(
    [("priority", "f8"), ("absent", "f8")]
)  # of one size: largest priority, largest sum of absence weights


class Postings(NamedTuple):
    """The state of a k-index."""

    slots: np.ndarray  # uint32: ordinal -> slot
    sizes: np.ndarray  # int64: size -> first ordinal; one more at the end
    bounds: np.ndarray  # float64: ends of cells, ascending within a dimension
    dimensions: np.ndarray  # int64 [dimensions + 1]: dimension -> its first bound
    lists: np.ndarray  # int64 [lists + 1]; a dimension has one list more than cells, two more than bounds
    heaviest: np.ndarray  # float32 [lists]: largest weight in the list, rounded up
    postings: np.ndarray  # uint32
    absent: np.ndarray  # uint32: ordinals of rows that ask for an absence
    tops: np.ndarray  # BOUND, by size


class Scratch(NamedTuple):
    values: np.ndarray
    seen: np.ndarray
    found: np.ndarray  # uint32 [FOUND + 1]
    heads: np.ndarray  # uint64: ordinal << 32 | list of the event, ascending
    at: np.ndarray  # int64: next posting of each list of the event
    end: np.ndarray  # int64
    bound: np.ndarray  # float64: largest weight of the list times the event's
    work: np.ndarray  # int64: rows verified, heads moved
    keys: np.ndarray  # KEY, one a dimension
    tally: np.ndarray | None  # int64 [TALLY] to count every test; None, and the kernels are compiled without


@helper
def is_listed(store, start, at):
    """Does the entry get postings? The first with an interval on its dimension does."""
    entry = store.entries[at]
    if entry.kind & (ABSENT | CIRCLE):
        return False
    for before in range(start, at):
        other = store.entries[before]
        if other.dim == entry.dim and not other.kind & (ABSENT | CIRCLE):
            return False
    return True


@kernel
def describe_rows(store, slots, size, dim, key, absent):
    """By row: its size, its first dimension and key (rows alike lie together), the sum of its absence weights or -1."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        size[i], dim[i], key[i], absent[i] = 0, 0, 0.0, -1.0
        for at in range(start, start + np.int64(row.count)):
            entry = store.entries[at]
            if entry.kind == ABSENT:
                absent[i] = max(absent[i], 0.0) + entry.weight
            elif is_listed(store, start, at):
                if size[i] == 0:
                    dim[i], key[i] = np.int64(entry.dim), entry.lo
                size[i] += 1


@kernel
def spread_entries(store, slots, places, ordinals, lo, hi, weight):
    """Copy the listed entries of the rows to places[dimension] on, which moves with them: one run a dimension. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        for at in range(start, start + np.int64(row.count)):
            if is_listed(store, start, at):
                entry = store.entries[at]
                to = places[np.int64(entry.dim)]
                places[np.int64(entry.dim)] += 1
                ordinals[to], lo[to], hi[to], weight[to] = np.uint32(i), entry.lo, entry.hi, entry.weight


@kernel
def count_dimensions(store, slots, counts):
    """counts[dimension] += its listed entries."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        for at in range(start, start + np.int64(row.count)):
            if is_listed(store, start, at):
                counts[np.int64(store.entries[at].dim)] += 1


@kernel
def fill_lists(places, first, whole, cell_lo, cell_hi, ordinals, weight, postings, heaviest):
    """Append each row to the lists of its cells and to the list of the whole dimension. O(postings)."""
    for i in range(ordinals.size):
        for cell in range(cell_lo[i], cell_hi[i] + 2):
            list_ = whole if cell == cell_hi[i] + 1 else first + cell
            postings[places[list_]] = ordinals[i]
            places[list_] += 1
            single = np.float32(weight[i])
            if np.float64(single) < weight[i]:
                single = np.nextafter(single, np.float32(np.inf))
            heaviest[list_] = max(heaviest[list_], single)


@helper
def cell_of(index, dim, key):
    """The cell of a key: how many bounds of the dimension are not above it. O(log cells)."""
    first = index.dimensions[dim]
    low, high = first, index.dimensions[dim + 1]
    while low < high:
        middle = (low + high) >> 1
        if index.bounds[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low - first


@helper
def choose_lists(index, scratch, events, e):
    """The lists that the event's values lead to, in scratch; return how many."""
    n = np.int64(0)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim >= index.dimensions.size - 1 or (i > events.offsets[e] and events.dims[i - 1] == events.dims[i]):
            continue
        value = scratch.values[dim]
        first = index.dimensions[dim] + 2 * dim
        whole = index.dimensions[dim + 1] + 2 * dim + 1
        low, high = cell_of(index, dim, value.lo), cell_of(index, dim, value.hi)
        if high - low >= NEAR:
            n = add_list(index, scratch, whole, value.weight, n)
        else:
            for cell in range(low, high + 1):
                n = add_list(index, scratch, first + cell, value.weight, n)
    return n


@helper
def add_list(index, scratch, list_, weight, n):
    if index.lists[list_] == index.lists[list_ + 1]:
        return n
    scratch.at[n], scratch.end[n] = index.lists[list_], index.lists[list_ + 1]
    scratch.bound[n] = np.float64(index.heaviest[list_]) * weight
    return n + 1


@helper
def skip_to(index, scratch, which, ordinal):
    """Move the list to its first posting not below the ordinal: galloping, then halving. O(log skipped)."""
    postings = index.postings
    at, end = scratch.at[which], scratch.end[which]
    step = np.int64(1)
    low = at
    while at < end and np.int64(postings[at]) < ordinal:
        count(scratch.tally, BOUNDARIES, 1)
        low = at + 1
        at += step
        step *= 2
    high = min(at, end)
    while low < high:
        count(scratch.tally, BOUNDARIES, 1)
        middle = (low + high) >> 1
        if np.int64(postings[middle]) < ordinal:
            low = middle + 1
        else:
            high = middle
    scratch.at[which] = low


@helper
def head_of(index, scratch, which, limit):
    """The list's next ordinal with the list's number below it; above all others when it has none left before `limit`."""
    at = scratch.at[which]
    count(scratch.tally, BOUNDARIES, 1)
    ordinal = np.uint64(limit)
    if at < scratch.end[which] and np.int64(index.postings[at]) < limit:
        ordinal = np.uint64(index.postings[at])
    return (ordinal << np.uint64(32)) | np.uint64(which)


@helper
def start_size(index, scratch, lists, first, limit):
    """Bring all lists to the ordinals of one size and sort their heads; return how many have any."""
    for which in range(lists):
        skip_to(index, scratch, which, first)
        scratch.heads[which] = head_of(index, scratch, which, limit)
    return sort_heads(scratch, lists, lists, limit)


@helper
def sort_heads(scratch, active, moved, limit):
    """Sort the heads, all but the first `moved` of which are in order; return how many are not exhausted."""
    heads = scratch.heads
    if moved < active:
        # From the back: what moved is put into the ordered rest.
        for i in range(moved - 1, -1, -1):
            head = heads[i]
            j = i + 1
            while j < active and heads[j] < head:
                heads[j - 1] = heads[j]
                j += 1
            heads[j - 1] = head
    else:
        for i in range(1, active):
            head = heads[i]
            j = i
            while j > 0 and heads[j - 1] > head:
                heads[j] = heads[j - 1]
                j -= 1
            heads[j] = head
    while active > 0 and np.int64(heads[active - 1] >> np.uint64(32)) >= limit:
        active -= 1
    return active


@helper
def next_common(index, scratch, active, needed, limit):
    """Move on to the next ordinal that stands in at least `needed` lists; return (active lists, how many have it, ordinal).

    The conjunction algorithm: the needed-th head is the least ordinal that can be in so many lists, so those before
    it skip there.
    """
    heads = scratch.heads
    while active >= needed:
        pivot = heads[needed - 1] >> np.uint64(32)
        if heads[0] >> np.uint64(32) == pivot:
            having = needed
            while having < active and heads[having] >> np.uint64(32) == pivot:
                having += 1
            return active, having, np.int64(pivot)
        moved = np.int64(0)
        while heads[moved] >> np.uint64(32) < pivot:
            which = np.int64(heads[moved] & np.uint64(0xFFFFFFFF))
            skip_to(index, scratch, which, np.int64(pivot))
            heads[moved] = head_of(index, scratch, which, limit)
            moved += 1
        scratch.work[1] += moved
        active = sort_heads(scratch, active, moved, limit)
    return active, np.int64(0), np.int64(0)


@helper
def step_over(index, scratch, active, having, limit):
    """Move the first `having` lists past their common ordinal; return how many lists are active."""
    for i in range(having):
        which = np.int64(scratch.heads[i] & np.uint64(0xFFFFFFFF))
        scratch.at[which] += 1
        scratch.heads[i] = head_of(index, scratch, which, limit)
    scratch.work[1] += having
    return sort_heads(scratch, active, having, limit)


@helper
def was_taken(index, relaxed, taken, ordinal):
    """Relaxed, rows that ask for an absence came first: is this one of them? `taken` follows the ascending ordinals."""
    if not relaxed:
        return taken, False
    while taken < index.absent.size and np.int64(index.absent[taken]) < ordinal:
        taken += 1
    return taken, taken < index.absent.size and np.int64(index.absent[taken]) == ordinal


@helper
def add_found(index, store, scratch, ordinal, found, single, events, how, combine, out, begin, n):
    """Keep a candidate; a full buffer is verified. Return (found, n)."""
    if found == FOUND:
        scratch.work[0] += found
        n = verify_found(store, scratch, found, single, events, how, combine, out, begin, n)
        found = np.int64(0)
    scratch.found[found] = index.slots[ordinal]
    return found + 1, n


@kernel
def match_many(index, store, scratch, events, first, how, combine, out, ends):
    """Match events[first:]; return the first not done (out is full) or their number. ends[e] is where e's hits end."""
    n = np.int64(0)
    relaxed = how & ANY
    for e in range(first, ends.size):
        begin = n
        found = np.int64(0)
        load_event(scratch.values, events, e)
        single = load_keys(scratch.keys, events, e)
        lists = choose_lists(index, scratch, events, e)
        always = index.sizes[1] if not relaxed else index.absent.size
        for i in range(always):
            ordinal = np.int64(index.absent[i]) if relaxed else i
            found, n = add_found(index, store, scratch, ordinal, found, single, events, how, combine, out, begin, n)
            if n < 0:
                break
        size = np.int64(1)
        while size < index.sizes.size - 1 and n >= 0:
            # Relaxed, one list is enough for rows of any size.
            limit = index.sizes[index.sizes.size - 1 if relaxed else size + 1]
            needed = np.int64(1) if relaxed else size
            if limit > index.sizes[size] and needed <= lists:
                active = start_size(index, scratch, lists, index.sizes[size], limit)
                taken = np.int64(0)
                while n >= 0:
                    active, having, ordinal = next_common(index, scratch, active, needed, limit)
                    if having == 0:
                        break
                    taken, again = was_taken(index, relaxed, taken, ordinal)
                    if not again:
                        found, n = add_found(
                            index, store, scratch, ordinal, found, single, events, how, combine, out, begin, n
                        )
                    active = step_over(index, scratch, active, having, limit)
            size = index.sizes.size if relaxed else size + 1
        if n >= 0:
            scratch.work[0] += found
            n = verify_found(store, scratch, found, single, events, how, combine, out, begin, n)
        unload_event(scratch.values, events, e)
        unload_keys(scratch.keys, events, e)
        if n < 0:
            return e
        ends[e] = n
    return ends.size


@helper
def size_bound(index, scratch, lists, first_size, last_size, needed):
    """No row of these sizes scores higher: largest priority plus the `needed` largest weights among the event's lists.

    `heads` marks the lists that are counted; the next size fills it anew.
    """
    top, absent = -np.inf, 0.0
    for size in range(first_size, last_size):
        top = max(top, index.tops[size].priority)
        absent = max(absent, index.tops[size].absent)
    total = absent
    for which in range(lists):
        scratch.heads[which] = np.uint64(0)
    for _ in range(min(needed, lists)):
        most, where = -1.0, np.int64(0)
        for which in range(lists):
            if not scratch.heads[which] and scratch.bound[which] > most:
                most, where = scratch.bound[which], which
        scratch.heads[where] = np.uint64(1)
        total += most
    return with_slack(top, total)


@helper
def with_slack(top, weights):
    bound = top + weights
    return bound + (abs(top) + weights) * 1e-9


@helper
def offer_ordinal(index, store, scratch, ordinal, events, how, combine, out, begin, held, k):
    scratch.work[0] += 1
    slot = np.int64(index.slots[ordinal])
    count_entries(scratch.tally, store, slot, scratch.values, events, how)
    score = score_row(store, slot, scratch.values, events, how, combine)
    if not np.isnan(score):
        held = offer(store, slot, score, out, begin, held, k)
    return held


@kernel
def top_many(index, store, scratch, events, first, how, combine, k, out, ends):
    """The k best of events[first:], each best first. A size, then a row, is left out if the weights of its lists cannot
    reach the k-th score; return the first event not done (out is full) or their number."""
    n = np.int64(0)
    relaxed = how & ANY
    last = index.sizes.size - 1
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        held = np.int64(0)
        load_event(scratch.values, events, e)
        lists = choose_lists(index, scratch, events, e)
        always = index.sizes[1] if not relaxed else index.absent.size
        for i in range(always):
            ordinal = np.int64(index.absent[i]) if relaxed else i
            held = offer_ordinal(index, store, scratch, ordinal, events, how, combine, out, begin, held, k)
        size = np.int64(1)
        while size < last:
            until = last if relaxed else size + 1
            limit = index.sizes[until]
            needed = np.int64(1) if relaxed else size
            worth = limit > index.sizes[size] and needed <= lists
            if worth and held == k and combine is None:
                bound = size_bound(index, scratch, lists, size, until, lists if relaxed else size)
                worth = bound >= out.scores[begin]
            if worth:
                top, absent = -np.inf, 0.0
                for s in range(size, until):
                    top = max(top, index.tops[s].priority)
                    absent = max(absent, index.tops[s].absent)
                active = start_size(index, scratch, lists, index.sizes[size], limit)
                taken = np.int64(0)
                while True:
                    active, having, ordinal = next_common(index, scratch, active, needed, limit)
                    if having == 0:
                        break
                    weights = absent
                    for i in range(having):
                        weights += scratch.bound[np.int64(scratch.heads[i] & np.uint64(0xFFFFFFFF))]
                    taken, again = was_taken(index, relaxed, taken, ordinal)
                    if not again and (combine is not None or held < k or with_slack(top, weights) >= out.scores[begin]):
                        held = offer_ordinal(index, store, scratch, ordinal, events, how, combine, out, begin, held, k)
                    active = step_over(index, scratch, active, having, limit)
            size = until
        unload_event(scratch.values, events, e)
        best_first(out, begin, held)
        n = begin + held
        ends[e] = n
    return ends.size
