"""Searches in the forest: which subscriptions cover a given one, and which does it cover.

Upwards (`covers_of`): signatures that are subsets of the query's, by the set-trie; in each tree the points that dominate the
query's, from the most dominating corner on: first the right child, then the left one, each only if its corner dominates.
Downwards (`covered_of`): signatures that are supersets, by a 64-bit filter over all groups; in each tree the dominated points.

Order of equals: of two subscriptions that cover each other, only the one with the smaller id counts as the other's cover. A
search ignores equals whose id is not below the query's `before`, so covers never form a cycle and none covers itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.covering.kernels.forest import (
    COMPARED,
    GROUPS,
    IS_COMPLEX,
    IS_SIBLING,
    NOWHERE,
    SEARCHES,
    SLOT_MASK,
    VISITED,
    rounded_down,
)
from matchwood.covering.kernels.lanes import LANES, all_at_least_8, at_least, at_most, lanes, lowest_bit
from matchwood.covering.kernels.rows import is_complex, is_counted, subscription_covers
from matchwood.covering.kernels.signatures import bloom_of, child_of, is_interval, load_row
from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.store.kernels.rows import NONE, SIBLING


class CoverQuery(NamedTuple):
    """The subscription whose covers, or covered ones, are searched."""

    store: object  # the row store that holds it
    row: int  # the slot of one of its rows
    before: int  # equals count only if their id is smaller


class CoverHits(NamedTuple):
    """Where ids are written: out[begin:end]."""

    out: np.ndarray
    begin: int
    end: int


class CoverQueries(NamedTuple):
    """A batch of queries as Python passes it: subscriptions by their first slots."""

    store: object
    heads: np.ndarray
    before: np.ndarray
    k: int


@helper
def corner_dominates(corners, corner, rounded, stride):
    """Is no coordinate of the corner below the query's? One branch for 8 coordinates: single ones would be mispredicted."""
    holds = True
    for d in range(0, stride, 8):
        holds = holds & all_at_least_8(corners, corner + d, rounded, d)
    return holds


@helper
def aim(forest, g, scratch, n, missing):
    """The query point in the coordinates of group g: the ends of the loaded row, `missing` where it has none. O(items)."""
    group = forest.groups[g]
    first = np.int64(group.first)
    at = np.int64(0)
    i = np.int64(0)
    for j in range(np.int64(group.size)):
        item = forest.items[first + j]
        if not is_interval(item):
            continue
        while i < n and scratch.items[i] < item:
            i += 1
        if i < n and scratch.items[i] == item:
            scratch.query[at], scratch.query[at + 1] = scratch.ends[2 * i], scratch.ends[2 * i + 1]
        else:
            scratch.query[at] = scratch.query[at + 1] = missing
        at += 2
    for d in range(at, np.int64(group.stride)):
        scratch.query[d] = missing


@subroutine
def accept_cover(store, member, query, hits, n):
    """Append the subscription of a row whose hulls contain the query's to out[n] if it is a cover; return the new end."""
    slot = member & SLOT_MASK
    id_ = store.rows[slot].id
    flags = query.store.rows[query.row].flags
    if id_ == query.before and id_ == query.store.rows[query.row].id:
        return n  # itself
    if member & IS_SIBLING and has_hit(hits, n, id_):
        return n
    if member & IS_COMPLEX or flags & SIBLING or is_counted(query.store, query.row):
        if not subscription_covers(store, slot, query.store, query.row):
            return n
    if id_ >= query.before and subscription_covers(query.store, query.row, store, slot):
        return n
    hits.out[n] = id_
    return n + 1


@helper
def has_hit(hits, n, id_):
    for i in range(hits.begin, n):
        if hits.out[i] == id_:
            return True
    return False


@helper
def covers_in_group(forest, store, g, query, hits, n, scratch):
    """Append the covers of the query point in scratch that are in one tree; return the new end."""
    stride = np.int64(forest.groups[g].stride)
    point, rounded, corners, stack = scratch.query, scratch.rounded, forest.corners, scratch.stack
    for d in range(stride):
        rounded[d] = rounded_down(point[d])
    stack[0] = np.int64(forest.groups[g].root)
    depth = np.int64(1)
    visited = np.int64(0)
    while depth > 0 and n < hits.end:
        depth -= 1
        node = forest.nodes[stack[depth]]
        visited += 1
        if node.leaf:
            n = covers_in_leaf(forest, store, stack[depth], query, hits, n, scratch)
            continue
        corner = 2 * node.corners
        if point[np.int64(node.dim)] <= node.split and corner_dominates(corners, corner, rounded, stride):
            stack[depth] = np.int64(node.left)
            depth += 1
        if corner_dominates(corners, corner + stride, rounded, stride):
            stack[depth] = np.int64(node.right)
            depth += 1
    scratch.counters[VISITED] += visited
    return n


@helper
def covers_in_leaf(forest, store, leaf, query, hits, n, scratch):
    """Append the covers of the query point in one leaf; return the new end."""
    node = forest.nodes[leaf]
    width, capacity = np.int64(forest.groups[np.int64(node.group)].width), np.int64(node.capacity)
    count, at = np.int64(node.count), np.int64(0)
    while at < count and n < hits.end:
        scratch.counters[COMPARED] += min(np.int64(LANES), count - at)
        mask = lanes(count - at)
        for d in range(width):
            mask &= at_least(forest.points, node.start + (d + 1) * capacity + at, scratch.query[d])
            if mask == 0:
                break
        while mask != 0 and n < hits.end:
            n = accept_cover(store, forest.words[node.start + at + lowest_bit(mask)], query, hits, n)
            mask &= mask - 1
        at += LANES
    return n


@helper
def next_subset(forest, scratch, size, depth):
    """Go on to the next signature of the trie that is a subset of the loaded one; return its depth, 0 at the end.

    walk[2 * d - 2] and walk[2 * d - 1]: the trie node at depth d, and the item to follow next from it.
    """
    walk = scratch.walk
    while depth > 0:
        t, j = walk[2 * depth - 2], walk[2 * depth - 1]
        while j < size:
            child = child_of(forest, t, scratch.items[j])
            j += 1
            if child != NOWHERE and forest.tries[child].live > 0:
                walk[2 * depth - 1] = j
                walk[2 * depth], walk[2 * depth + 1] = child, j
                return depth + 1
        depth -= 1
    return depth


@helper
def covers_of(forest, store, query, hits, scratch):
    """Write the ids of subscriptions that cover the query's to hits, until it is full; return the end.

    One hash look-up for each pair of a signature that is a subset of the query's and an item that may follow.
    """
    scratch.counters[SEARCHES] += 1
    size = load_row(query.store, query.row, scratch)
    n = hits.begin
    scratch.walk[0], scratch.walk[1] = 0, 0
    depth = np.int64(1)
    while depth > 0 and n < hits.end:
        g = np.int64(forest.tries[scratch.walk[2 * depth - 2]].group)
        if g != np.int64(NONE) and forest.groups[g].root != NONE:
            aim(forest, g, scratch, size, -np.inf)
            n = covers_in_group(forest, store, g, query, hits, n, scratch)
        depth = next_subset(forest, scratch, size, depth)
    return n


@subroutine
def accept_covered(store, member, query, is_plain, hits, n):
    """Append the subscription of a row whose hulls lie in the query's if all of its rows are covered; return the new end."""
    slot = member & SLOT_MASK
    id_ = store.rows[slot].id
    is_sibling = member & IS_SIBLING != 0
    if (is_sibling or query.store.rows[query.row].flags & SIBLING) and has_hit(hits, n, id_):
        return n
    if is_sibling or not is_plain or is_counted(store, slot):
        if not subscription_covers(query.store, query.row, store, slot):
            return n
    hits.out[n] = id_
    return n + 1


@helper
def is_subset(scratch, n, forest, g):
    """Is the loaded signature a subset of the group's?"""
    first, size = np.int64(forest.groups[g].first), np.int64(forest.groups[g].size)
    j = np.int64(0)
    for i in range(n):
        while j < size and forest.items[first + j] < scratch.items[i]:
            j += 1
        if j == size or forest.items[first + j] != scratch.items[i]:
            return False
    return True


@helper
def covered_of(forest, store, query, hits, n, scratch):
    """Append the ids of subscriptions that the query's covers and of which its row covers a row; -1 if `hits` is too short."""
    scratch.counters[SEARCHES] += 1
    size = load_row(query.store, query.row, scratch)
    bloom = bloom_of(scratch.items, size)
    for g in range(forest.counts[GROUPS]):
        group = forest.groups[g]
        if group.bloom & bloom == bloom and group.root != NONE and is_subset(scratch, size, forest, g):
            aim(forest, g, scratch, size, np.inf)
            n = covered_in_group(forest, store, g, query, hits, n, scratch)
            if n == NOWHERE:
                break
    return n


@helper
def covered_in_group(forest, store, g, query, hits, n, scratch):
    """As `covered_of`, in one tree: of an inner node the right child only if the query's coordinate is above the split."""
    width = np.int64(forest.groups[g].width)
    stack = scratch.stack
    is_plain = not is_complex(query.store, query.row)
    stack[0] = np.int64(forest.groups[g].root)
    depth = np.int64(1)
    while depth > 0:
        depth -= 1
        node = forest.nodes[stack[depth]]
        scratch.counters[VISITED] += 1
        if not node.leaf:
            if scratch.query[np.int64(node.dim)] > node.split:
                stack[depth] = np.int64(node.right)
                depth += 1
            stack[depth] = np.int64(node.left)
            depth += 1
            continue
        count, capacity = np.int64(node.count), np.int64(node.capacity)
        scratch.counters[COMPARED] += count
        if n + count > hits.end:
            return NOWHERE
        for i in range(0, count, LANES):
            mask = lanes(count - i)
            for d in range(width):
                mask &= at_most(forest.points, node.start + (d + 1) * capacity + i, scratch.query[d])
                if mask == 0:
                    break
            while mask != 0:
                n = accept_covered(store, forest.words[node.start + i + lowest_bit(mask)], query, is_plain, hits, n)
                mask &= mask - 1
    return n


@kernel
def covered_many(forest, store, queries, first, out, ends, scratch):
    """Write what each query from `first` on covers to `out`, up to ends[i]; return the first query without room."""
    n = np.int64(0)
    for i in range(first, queries.heads.size):
        row = np.int64(queries.heads[i])
        hits = CoverHits(out, n, np.int64(out.size))
        while row != np.int64(NONE) and n != NOWHERE:
            n = covered_of(forest, store, CoverQuery(queries.store, row, queries.before[i]), hits, n, scratch)
            row = np.int64(queries.store.rows[row].next)
        if n == NOWHERE:
            return i
        ends[i] = n
    return queries.heads.size
