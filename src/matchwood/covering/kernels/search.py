"""Searches in the forest: which subscriptions cover a given one, and which does it cover.

Upwards (`covers_of`): signatures that are subsets of the query's, by the set-trie; in each tree the points that dominate the
query's, from the most dominating corner on: the right child first, always; the left one only if the split is not below the query.
Downwards (`covered_of`): signatures that are supersets, by a 64-bit filter over all groups; in each tree the dominated points.

The order of equals: of two subscriptions that cover each other, only the one of the smaller id counts as the other's cover: a
search with `before` ignores equals whose id is not smaller, so covers never run in a circle and nobody covers itself.

Counters: [nodes visited, points compared, searches].
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.forest import (
    CHUNK,
    CHUNKS,
    GROUPS,
    IS_COMPLEX,
    IS_SIBLING,
    MAX_ITEMS,
    NO_WHERE,
    SLOT_MASK,
    STACK,
    rounded_down,
)
from matchwood.covering.kernels.lanes import (
    LANES,
    all_at_least_8,
    at_least_8,
    at_least_16,
    at_least_32,
    at_most_32,
    corners_at_least_16,
    lowest_bit,
)
from matchwood.covering.kernels.rows import is_complex, row_covers, subscription_covers
from matchwood.covering.kernels.signatures import bloom_of, child_of, load_row
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE, SIBLING, first_slot

VISITED, COMPARED, SEARCHES = 0, 1, 2


@helper
def corner_dominates(corners, corner, rounded, stride):
    """Is no coordinate of the corner below the query's? Without a branch a coordinate, which would be mispredicted."""
    holds = True
    for d in range(0, stride, 8):
        holds = holds & all_at_least_8(corners, corner + d, rounded, d)
    return holds


@helper
def lanes(count):
    """The mask of the first `count` lanes."""
    return (np.int64(1) << min(count, np.int64(LANES))) - 1


@helper
def dominating(points, column, capacity, width, query, turn, count):
    """Which of the next `count` (32 at most) points of a bucket are >= the query everywhere? A bit mask. Stops at none."""
    mask = lanes(count)
    if 8 < count <= 16:
        for i in range(width):
            mask &= at_least_16(points, column + turn[i] * capacity, query[turn[i]])
            if mask == 0:
                break
        return mask
    if count <= 8:
        for i in range(width):
            mask &= at_least_8(points, column + turn[i] * capacity, query[turn[i]])
            if mask == 0:
                break
        return mask
    for i in range(width):
        mask &= at_least_32(points, column + turn[i] * capacity, query[turn[i]])
        if mask == 0:
            break
    return mask


@helper
def dominating_chunks(corners, at, width, rounded, turn, chunks):
    """Which chunks of a bucket have a corner that dominates the query? A bit mask, within `chunks`."""
    for i in range(width):
        chunks &= corners_at_least_16(corners, at + turn[i] * CHUNKS, rounded[turn[i]])
        if chunks == 0:
            break
    return chunks


@helper
def take_turns(forest, g, scratch, width):
    """Round the query for the corners, and order its coordinates: the highest for their spread, which most points miss, first."""
    query, turn, group = scratch.query, scratch.turn, forest.groups[g]
    stride = np.int64(group.stride)
    for d in range(stride):
        scratch.rounded[d] = rounded_down(query[d])
    if group.scale == NO_WHERE or forest.nodes[np.int64(group.root)].leaf:
        for d in range(width):
            turn[d] = d
        return
    for d in range(width):
        height = (query[d] - forest.points[group.scale + stride + d]) / forest.points[group.scale + d]
        scratch.ends[2 * MAX_ITEMS - 1 - d] = height
        at = np.int64(d)
        while at > 0 and scratch.ends[2 * MAX_ITEMS - 1 - turn[at - 1]] < height:
            turn[at] = turn[at - 1]
            at -= 1
        turn[at] = d


@helper
def dominated(points, column, capacity, width, query, count):
    """Which of the next 32 points of a bucket are <= the query everywhere?"""
    mask = lanes(count)
    for d in range(width):
        mask &= at_most_32(points, column + d * capacity, query[d])
        if mask == 0:
            break
    return mask


@helper
def aim(forest, g, scratch, n, missing):
    """The query point in the coordinates of group g: the loaded row's ends, `missing` where it has none. O(items)."""
    group = forest.groups[g]
    first = np.int64(group.first)
    at = np.int64(0)
    i = np.int64(0)
    for j in range(np.int64(group.size)):
        item = forest.items[first + j]
        if item & np.uint32(1):
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


@kernel
def accept_cover(store, member, other, row, before, out, begin, n):
    """Judge a row whose hulls contain those of `row` of the other store; append its subscription to `out` if it is a cover."""
    slot = member & SLOT_MASK
    id_ = store.rows[slot].id
    if id_ == before and id_ == other.rows[row].id:
        return n  # itself
    if member & IS_SIBLING:
        for i in range(begin, n):
            if out[i] == id_:
                return n
    if other.rows[row].flags & SIBLING:
        head = first_slot(store, id_) if member & IS_SIBLING else slot
        if not subscription_covers(store, head, other, first_slot(other, other.rows[row].id)):
            return n
    elif member & IS_COMPLEX and not row_covers(store, slot, other, row):
        return n
    if id_ >= before:
        head = first_slot(store, id_) if member & IS_SIBLING else slot
        narrow = first_slot(other, other.rows[row].id) if other.rows[row].flags & SIBLING else row
        if subscription_covers(other, narrow, store, head):
            return n
    out[n] = id_
    return n + 1


@kernel
def covers_in_group(forest, store, g, other, row, before, scratch, base, out, begin, n, most, counters):
    """Append covers of the query point in scratch from one tree; return the new count, at most `most`."""
    group = forest.groups[g]
    if group.root == NONE:
        return n
    stride, width = np.int64(group.stride), np.int64(group.width)
    points, query, stack, corners, rounded = (
        forest.points,
        scratch.query,
        scratch.stack,
        forest.corners,
        scratch.rounded,
    )
    take_turns(forest, g, scratch, width)
    stack[base] = np.int64(group.root)
    depth = base + 1
    visited = np.int64(0)
    compared = np.int64(0)
    while depth > base and n < most:
        depth -= 1
        node = forest.nodes[stack[depth]]
        visited += 1
        if not node.leaf:
            corner = 2 * node.corners
            if query[np.int64(node.dim)] <= node.split and corner_dominates(corners, corner, rounded, stride):
                stack[depth] = np.int64(node.left)
                depth += 1
            if corner_dominates(corners, corner + stride, rounded, stride):
                stack[depth] = np.int64(node.right)
                depth += 1
            continue
        count, capacity = np.int64(node.count), np.int64(node.capacity)
        step = np.int64(LANES)
        chunks = np.int64(-1)
        if node.corners != NO_WHERE:
            step = np.int64(CHUNK)
            chunks = dominating_chunks(
                corners, 2 * node.corners, width, rounded, scratch.turn, lanes((count + 15) // 16)
            )
        i = -step
        while n < most:
            if step == CHUNK:
                if chunks == 0:
                    break
                i = CHUNK * lowest_bit(chunks)
                chunks &= chunks - 1
            else:
                i += LANES
                if i >= count:
                    break
            size = min(step, count - i)
            compared += size
            mask = dominating(points, node.start + capacity + i, capacity, width, query, scratch.turn, size)
            while mask != 0 and n < most:
                member = forest.words[node.start + i + lowest_bit(mask)]
                n = accept_cover(store, member, other, row, before, out, begin, n)
                mask &= mask - 1
    counters[VISITED] += visited
    counters[COMPARED] += compared
    return n


@kernel
def covers_of(forest, store, other, row, before, k, scratch, out, begin, counters):
    """Write up to k ids of subscriptions that cover that of `row` (any of its rows) to out[begin:]; return the end.

    `out` must have room for k. Signatures with many trees behind them cost one hash look-up a subset that exists.
    """
    counters[SEARCHES] += 1
    size = load_row(other, row, scratch)
    n = begin
    stack = scratch.stack
    stack[0] = 0  # (trie node, next item) in turn; the trees' own stack begins behind STACK
    stack[1] = 0
    depth = np.int64(2)
    while depth > 0 and n < begin + k:
        depth -= 2
        t, i = stack[depth], stack[depth + 1]
        g = np.int64(forest.tries[t].group)
        if g != np.int64(NONE) and forest.groups[g].root != NONE:
            aim(forest, g, scratch, size, -np.inf)
            n = covers_in_group(
                forest, store, g, other, row, before, scratch, 2 * STACK, out, begin, n, begin + k, counters
            )
        for j in range(size - 1, i - 1, -1):
            child = child_of(forest, t, scratch.items[j])
            if child != NO_WHERE and forest.tries[child].live > 0:
                stack[depth], stack[depth + 1] = child, j + 1
                depth += 2
    return n


@kernel
def cover_many(forest, store, other, rows, before, k, first, scratch, out, ends, counters):
    """Covers of rows[first:] of the other store, up to k each, into `out` up to ends[i]; return the first not done (no room)."""
    n = np.int64(0)
    for i in range(first, rows.size):
        most = min(k, np.int64(out.size))
        if n + most > out.size:
            return i
        n = covers_of(forest, store, other, np.int64(rows[i]), before[i], most, scratch, out, n, counters)
        ends[i] = n
    return rows.size


@kernel
def accept_covered(store, member, other, row, is_plain, out, begin, n):
    """Judge a row whose hulls lie in those of `row`; append its subscription if all of its rows are covered."""
    slot = member & SLOT_MASK
    id_ = store.rows[slot].id
    if member & IS_SIBLING or other.rows[row].flags & SIBLING:
        for i in range(begin, n):
            if out[i] == id_:
                return n
    if member & IS_SIBLING:
        if not subscription_covers(other, first_slot(other, other.rows[row].id), store, first_slot(store, id_)):
            return n
    elif not is_plain and not row_covers(other, row, store, slot):
        return n
    out[n] = id_
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


@kernel
def covered_of(forest, store, other, row, scratch, out, begin, n, counters):
    """Append the ids of subscriptions of which `row` covers a row and its subscription all; return the end, -1: out is full."""
    size = load_row(other, row, scratch)
    bloom = bloom_of(scratch.items, 0, size)
    is_plain = not is_complex(other, row)
    points, query, stack = forest.points, scratch.query, scratch.stack
    counters[SEARCHES] += 1
    for g in range(forest.counts[GROUPS]):
        group = forest.groups[g]
        if group.bloom & bloom != bloom or group.root == NONE or not is_subset(scratch, size, forest, g):
            continue
        aim(forest, g, scratch, size, np.inf)
        width = np.int64(group.width)
        stack[0] = np.int64(group.root)
        depth = np.int64(1)
        while depth > 0:
            depth -= 1
            node = forest.nodes[stack[depth]]
            counters[VISITED] += 1
            if not node.leaf:
                if query[np.int64(node.dim)] > node.split:
                    stack[depth] = np.int64(node.right)
                    depth += 1
                stack[depth] = np.int64(node.left)
                depth += 1
                continue
            count, capacity = np.int64(node.count), np.int64(node.capacity)
            counters[COMPARED] += count
            if n + count > out.size:
                return NO_WHERE
            for i in range(0, count, LANES):
                mask = dominated(points, node.start + capacity + i, capacity, width, query, count - i)
                while mask != 0:
                    member = forest.words[node.start + i + lowest_bit(mask)]
                    n = accept_covered(store, member, other, row, is_plain, out, begin, n)
                    mask &= mask - 1
    return n


@kernel
def covered_many(forest, store, other, heads, first, scratch, out, ends, counters):
    """What each subscription of the other store covers, into `out` up to ends[i]; return the first not done (no room)."""
    n = np.int64(0)
    for i in range(first, heads.size):
        row = np.int64(heads[i])
        begin = n
        while row != np.int64(NONE):
            n = covered_of(forest, store, other, row, scratch, out, begin, n, counters)
            if n == NO_WHERE:
                return i
            row = np.int64(other.rows[row].next)
        ends[i] = n
    return heads.size
