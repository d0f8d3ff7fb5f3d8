"""Subscription matching (MO-Tree 4.5.1): the live events of each new subscription.

    row -> cells of each layer that meet it -> nodes -> at most two planes a predicate -> a few events -> exact test

As in `structures.mo_tree.kernels.match` the rows of a batch are answered node by node. A row of single intervals is compared
with a plain event without a branch an entry. For any other pair the exact test is that of event matching: the few dimensions
that the row names are spread over `values`, and the row, in a store of its own, is scored by `verify.score_row`. Readers only;
expired events are passed over.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.distances import PREFETCH_CANDIDATES
from matchwood.store.kernels.rows import NARROWS
from matchwood.store.kernels.verify import score_row
from matchwood.structures.live.kernels.layout import load_values, unload_values
from matchwood.structures.live.kernels.query import enter_cells, load_rows, planes_of
from matchwood.structures.mo_tree.kernels.batch import driver, keep_hit, plane_shift
from matchwood.structures.mo_tree.kernels.layout import HEAD_WORDS, LINE, NONE, OPEN, VALID
from matchwood.structures.mo_tree.kernels.planes import and_planes, count_ones, exclude_planes, prefetch_planes


@helper
def unload_rows(scratch, first, count, known):
    """Nothing of a row outlasts its batch."""


@helper
def prefetch_visit(tree, scratch, visit):
    """Prefetch the planes of a visit that are the same in all buckets."""
    node, query = tree.nodes[visit.node], np.int64(visit.query)
    base, first = np.int64(node.start) + HEAD_WORDS * np.int64(node.words), planes_of(tree, query)
    mine = scratch.rows[query]
    prefetch_planes(tree.bits, base, plane_shift(node), scratch.passing, first, np.int64(mine.passing))
    prefetch_planes(tree.bits, base, plane_shift(node), scratch.excluded, first, np.int64(mine.excluded))


@helper
def filter_visit(tree, scratch, node, visit):
    """Leave in scratch.line the events of a node that may match. O(planes)."""
    words = np.int64(node.words)
    valid, base, shift = (
        np.int64(node.start) + VALID * words,
        np.int64(node.start) + HEAD_WORDS * words,
        plane_shift(node),
    )
    first = planes_of(tree, np.int64(visit.query))
    passing, excluded = enter_cells(tree, scratch, visit)
    and_planes(tree.bits, valid, base, shift, scratch.passing, first, passing, scratch.line)
    exclude_planes(tree.bits, base, shift, scratch.excluded, first, excluded, scratch.line)
    if node.opened:  # planes know nothing of general events
        for w in range(words):
            scratch.line[w] |= tree.bits[valid + (OPEN - VALID) * words + w]


@helper
def holds_plain(live, event, scratch, query):
    """Does a plain row hold for a plain event? O(entries), without a branch an entry."""
    row, lo, hi, below = scratch.rows[query], scratch.lo[query], scratch.hi[query], scratch.below[query]
    holds, mask, start = True, event.mask, np.int64(event.start)
    if mask & row.wanted != row.wanted:
        return False
    for j in range(np.int64(row.entries)):
        key = live.keys[start + count_ones(mask & below[j])]
        holds &= (lo[j] <= key) & (key <= hi[j])
    return holds


@subroutine
def score_general(live, event, store, scratch, slot, mode, combine):
    """The score of any row for any event, NaN if it does not match. O(entries log values)."""
    row, names = store.rows[slot], np.int64(0)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        scratch.dims[names] = np.int64(store.entries[at].dim)
        names += np.int64(store.entries[at].kind & NARROWS == 0)  # its longitude and latitude have been named
    load_values(live, event, scratch.values, scratch.parts, scratch.dims, names)
    score = score_row(store, slot, scratch.values, scratch.parts, mode, combine)
    unload_values(scratch.values, scratch.dims, names)
    return score


@helper
def prefetch_event(live, found, i):
    """Prefetch the record of a candidate that comes soon, and the values of one that comes sooner."""
    prefetch(live.events, np.int64(found[i + PREFETCH_CANDIDATES]))
    start = np.int64(live.events[np.int64(found[i + PREFETCH_CANDIDATES // 2])].start)
    prefetch(live.keys, start)
    prefetch(live.keys, start + LINE)


@subroutine
def verify_found(scratch, count, known):
    """Verify the candidates that are listed, and keep the hits. O(entries)."""
    live, store, _, now, mode, combine = known
    batch = scratch.batch
    for i in range(count):
        prefetch_event(live, batch.found, i)
        slot, query = np.int64(batch.found[i]), np.int64(batch.found_by[i])
        event, row = live.events[slot], scratch.rows[query]
        if not now < event.until:
            continue
        if row.is_plain and not event.is_general:
            score, holds = row.score, holds_plain(live, event, scratch, query)
        else:
            score = score_general(live, event, store, scratch, np.int64(row.slot), mode, combine)
            holds = not np.isnan(score)
        keep_hit(batch, query, event.id, score, np.uint32(slot) if row.has_siblings else NONE, holds)


answer = driver(load_rows, unload_rows, filter_visit, prefetch_visit, verify_found)


@kernel
def answer_rows(tree, live, scratch, asked, first, out, ends):
    """The live events of subscriptions first, ..., see `mo_tree.kernels.batch.driver`; `asked` is `event_base.Asked`."""
    store, slots, groups, now, mode, combine, k = asked
    return answer(tree, scratch, groups, first, k, out, ends, (live, store, slots, now, mode, combine))
