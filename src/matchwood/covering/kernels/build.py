"""Building trees of the forest: a subtree anew from its records, or whole groups in bulk.

Records are gathered in scratch and split at medians of the coordinate that spreads furthest, until they fit buckets three
quarters full; a bucket's own points are arranged in chunks in the same way. Layout and invariants: `kernels.forest`.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.forest import (
    CHUNK,
    CHUNKS,
    GROUPS,
    ITEMS,
    LINKS,
    NO_WHERE,
    OVERFLOW,
    ROWS,
    SAMPLE,
    SLOT_MASK,
    STACK,
    TRIES,
    corner_at,
    free_node,
    free_region,
    has_room,
    next_capacity,
    raise_corner,
    set_chunks,
    take_node,
    take_region,
)
from matchwood.covering.kernels.signatures import fill_point, group_of, load_row, member_of
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE


@kernel
def rebuild(forest, top, scratch):
    """Build the subtree of `top` anew, balanced, its buckets three quarters full at most. O(n log n x stride).

    Return False, with nothing changed, if scratch or the pools have no room for its records.
    """
    stride = np.int64(forest.groups[np.int64(forest.nodes[top].group)].stride)
    count = np.int64(forest.nodes[top].count)
    if count > scratch.members.size or count * stride > scratch.records.size or not has_room(forest, count, stride):
        return False
    gather(forest, top, scratch, stride)
    build(forest, top, count, scratch)
    return True


@kernel
def build(forest, top, count, scratch):
    """Build the subtree of `top`, a leaf without a region, from the first `count` records of scratch."""
    g = np.int64(forest.nodes[top].group)
    stride = np.int64(forest.groups[g].stride)
    for i in range(count):
        scratch.order[i] = i
    if forest.nodes[top].parent == NONE and 4 * count > 3 * forest.counts[OVERFLOW]:
        set_scale(forest, g, scratch, count, stride)
    if corner_at(forest, top) != NO_WHERE:
        set_corner(forest, corner_at(forest, top), scratch, 0, count, stride)
    stack = scratch.stack
    stack[0], stack[1], stack[2] = top, 0, count
    depth = np.int64(1)
    while depth > 0:
        depth -= 1
        n, lo, hi = stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2]
        node = forest.nodes[n]
        node.count = node.built = np.uint32(hi - lo)
        dim = NO_WHERE
        if 4 * (hi - lo) > 3 * forest.counts[OVERFLOW] and 3 * depth + 6 < stack.size:
            dim = widest(forest, g, scratch, lo, hi, stride)
        if dim == NO_WHERE:
            fill_leaf(forest, n, scratch, lo, hi, stride)
            continue
        node.leaf, node.dim = 0, np.uint16(dim)
        node.split = split_at(scratch, lo, hi, dim, stride)
        middle = part(scratch, lo, hi, dim, stride, node.split)
        corners = take_region(forest, stride)
        node.corners = corners
        set_corner(forest, 2 * corners, scratch, lo, middle, stride)
        set_corner(forest, 2 * corners + stride, scratch, middle, hi, stride)
        left, right = take_node(forest, g, n), take_node(forest, g, n)
        forest.nodes[n].left, forest.nodes[n].right = np.uint32(left), np.uint32(right)
        stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2] = left, lo, middle
        depth += 1
        stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2] = right, middle, hi
        depth += 1


@helper
def gather(forest, top, scratch, stride):
    """Copy all records below `top` to scratch and free everything below it; `top` becomes a leaf without a region."""
    n = np.int64(0)
    width = np.int64(forest.groups[np.int64(forest.nodes[top].group)].width)
    scratch.stack[0] = top
    depth = np.int64(1)
    while depth > 0:
        depth -= 1
        at = scratch.stack[depth]
        node = forest.nodes[at]
        if node.leaf:
            capacity = np.int64(node.capacity)
            for i in range(np.int64(node.count)):
                scratch.members[n] = forest.words[node.start + i]
                for d in range(width):
                    scratch.records[n * stride + d] = forest.points[node.start + (d + 1) * capacity + i]
                for d in range(width, stride):
                    scratch.records[n * stride + d] = 0.0
                n += 1
            if capacity > 0:
                free_region(forest, node.start, capacity * (width + 1))
        else:
            scratch.stack[depth], scratch.stack[depth + 1] = np.int64(node.left), np.int64(node.right)
            depth += 2
        if node.corners != NO_WHERE:
            free_region(forest, node.corners, width * CHUNKS // 2 if node.leaf else stride)
        if at != top:
            free_node(forest, at)
    node = forest.nodes[top]
    node.leaf, node.start, node.corners, node.capacity, node.left, node.right = 1, NO_WHERE, NO_WHERE, 0, NONE, NONE


@helper
def spread_of(scratch, lo, hi, dim, stride):
    """(least, greatest) coordinate of some of the records; an even sample of large ranges."""
    step = max(np.int64(1), (hi - lo) // 512)
    least, greatest = np.inf, -np.inf
    for i in range(lo, hi, step):
        value = scratch.records[scratch.order[i] * stride + dim]
        least, greatest = min(least, value), max(greatest, value)
    return least, greatest


@helper
def set_scale(forest, g, scratch, count, stride):
    """Note where each coordinate of the group begins and how far it spreads: spreads are compared in this unit."""
    group = forest.groups[g]
    if group.scale == NO_WHERE:
        group.scale = take_region(forest, 2 * stride)
    for d in range(stride):
        least, greatest = spread_of(scratch, 0, count, d, stride)
        scale = greatest - least
        forest.points[group.scale + d] = scale if 0.0 < scale < np.inf else 1.0
        forest.points[group.scale + stride + d] = least


@helper
def widest(forest, g, scratch, lo, hi, stride):
    """The coordinate that spreads furthest in the group's unit, -1 if all records are equal. Infinite ends come first."""
    best, furthest = NO_WHERE, 0.0
    for d in range(np.int64(forest.groups[g].width)):
        least, greatest = spread_of(scratch, lo, hi, d, stride)
        if not least < greatest:
            continue
        spread = greatest - least
        scale = forest.points[forest.groups[g].scale + d] if forest.groups[g].scale != NO_WHERE else 1.0
        spread = spread / scale if spread < np.inf else 1e300
        if spread > furthest or best == NO_WHERE:
            best, furthest = np.int64(d), spread
    return best


@helper
def split_at(scratch, lo, hi, dim, stride):
    """The median of a sample, lowered if need be so that some record lies above it."""
    sample = scratch.sample
    step = max(np.int64(1), (hi - lo) // SAMPLE)
    n = np.int64(0)
    for i in range(lo, hi, step):
        if n == SAMPLE:
            break
        value = scratch.records[scratch.order[i] * stride + dim]
        at = n
        while at > 0 and sample[at - 1] > value:
            sample[at] = sample[at - 1]
            at -= 1
        sample[at] = value
        n += 1
    split = sample[(n - 1) // 2]
    greatest, below = -np.inf, -np.inf
    for i in range(lo, hi):
        value = scratch.records[scratch.order[i] * stride + dim]
        greatest = max(greatest, value)
    if split < greatest:
        return split
    for i in range(lo, hi):
        value = scratch.records[scratch.order[i] * stride + dim]
        if value < greatest:
            below = max(below, value)
    return below


@helper
def part(scratch, lo, hi, dim, stride, split):
    """Put the records at or below the split first; return where the others begin."""
    order = scratch.order
    i, j = lo, hi
    while i < j:
        if scratch.records[order[i] * stride + dim] <= split:
            i += 1
        else:
            j -= 1
            order[i], order[j] = order[j], order[i]
    return i


@helper
def set_corner(forest, corner, scratch, lo, hi, stride):
    for d in range(stride):
        forest.corners[corner + d] = -np.inf
    for i in range(lo, hi):
        raise_corner(forest.corners, corner, scratch.records, scratch.order[i] * stride, stride)


@helper
def arrange(forest, g, scratch, lo, hi, stride):
    """Order the records of a bucket so that its chunks are what further splits would give, the most dominating first."""
    stack = scratch.stack
    base = np.int64(3 * STACK)
    stack[base], stack[base + 1] = lo, hi
    depth = base + 2
    while depth > base:
        depth -= 2
        begin, end = stack[depth], stack[depth + 1]
        chunks = (end - begin + CHUNK - 1) // CHUNK
        if chunks < 2:
            continue
        dim = widest(forest, g, scratch, begin, end, stride)
        if dim == NO_WHERE:
            continue
        middle = begin + (chunks + 1) // 2 * CHUNK
        select(scratch, begin, end, middle, dim, stride)
        stack[depth], stack[depth + 1], stack[depth + 2], stack[depth + 3] = begin, middle, middle, end
        depth += 4


@helper
def select(scratch, lo, hi, middle, dim, stride):
    """Order lo..hi so that no record before `middle` is below one behind it in coordinate `dim`. O(n) on average."""
    order, records = scratch.order, scratch.records
    last = hi - 1
    while lo < last:
        pivot = records[order[(lo + last) >> 1] * stride + dim]
        i, j = lo, last
        while i <= j:
            while records[order[i] * stride + dim] > pivot:
                i += 1
            while records[order[j] * stride + dim] < pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            lo = i
        else:
            break


@helper
def fill_leaf(forest, n, scratch, lo, hi, stride):
    node = forest.nodes[n]
    width = np.int64(forest.groups[np.int64(node.group)].width)
    count = hi - lo
    node.arranged = np.uint32(count)
    node.built = np.uint32(count if count > forest.counts[OVERFLOW] else 0)  # too many only if they could not be split
    capacity = np.int64(1)
    while capacity < count:
        capacity = next_capacity(capacity)
    start = take_region(forest, capacity * (width + 1))
    node.start, node.capacity = start, np.uint32(capacity)
    if CHUNK < count <= CHUNK * CHUNKS:
        arrange(forest, np.int64(node.group), scratch, lo, hi, stride)
    for i in range(count):
        member = scratch.members[scratch.order[lo + i]]
        forest.words[start + i] = member
        forest.places[member & SLOT_MASK].leaf, forest.places[member & SLOT_MASK].at = np.uint32(n), np.uint32(i)
        for d in range(width):
            forest.points[start + (d + 1) * capacity + i] = scratch.records[scratch.order[lo + i] * stride + d]
    set_chunks(forest, n)


@kernel
def assign_groups(forest, store, slots, first, scratch, groups):
    """groups[i] = the group of slots[i], for slots[first:], each counted in the trie; return the first not done for room."""
    counts = forest.counts
    for i in range(first, slots.size):
        n = load_row(store, np.int64(slots[i]), scratch)
        if (
            counts[GROUPS] == forest.groups.size
            or counts[ITEMS] + n > forest.items.size
            or counts[TRIES] + n > forest.tries.size
            or 2 * (counts[LINKS] + n) > forest.links.size
        ):
            return i
        groups[i] = group_of(forest, scratch, n)
    return slots.size


@kernel
def build_groups(forest, store, slots, groups, first, scratch):
    """Put slots[first:], in runs of equal (assigned) groups, into their trees, each of which is built anew.

    Return the first slot not done, at the begin of a run, if scratch or the pools have no room. O(n log n x stride).
    """
    begin = np.int64(first)
    while begin < slots.size:
        g = np.int64(groups[begin])
        end = begin
        while end < slots.size and groups[end] == groups[begin]:
            end += 1
        group = forest.groups[g]
        stride = np.int64(group.stride)
        there = np.int64(0) if group.root == NONE else np.int64(forest.nodes[np.int64(group.root)].count)
        count = there + end - begin
        if count > scratch.members.size or count * stride > scratch.records.size or not has_room(forest, count, stride):
            return begin
        if group.root == NONE:
            group.root = np.uint32(take_node(forest, g, np.int64(NONE)))
        else:
            gather(forest, np.int64(group.root), scratch, stride)
        for i in range(begin, end):
            at = there + i - begin
            n = load_row(store, np.int64(slots[i]), scratch)
            fill_point(scratch, n, scratch.records[at * stride : (at + 1) * stride], stride)
            scratch.members[at] = member_of(store, np.int64(slots[i]))
        forest.counts[ROWS] += end - begin
        build(forest, np.int64(group.root), count, scratch)
        begin = end
    return begin
