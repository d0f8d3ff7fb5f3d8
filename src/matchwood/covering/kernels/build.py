"""Building subtrees of the forest from their records and from new rows.

Records are gathered in scratch and split at medians of one coordinate after the other, until they fit leaves that are three
quarters full. Layout and invariants: `kernels.forest`.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.forest import (
    INNER,
    NOWHERE,
    OVERFLOW,
    ROWS,
    SLOT_MASK,
    STACK,
    free_leaf,
    free_node,
    free_region,
    has_room,
    make_empty_leaf,
    raise_corner,
    take_node,
    take_region,
)
from matchwood.covering.kernels.signatures import fill_point, load_row, member_of
from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.store.kernels.rows import NONE


@kernel
def build_subtrees(forest, tops, store, slots, ends, first, scratch):
    """Rebuild the subtrees of tops[first:], and add the new rows slots[ends[i - 1] : ends[i]] to that of tops[i].

    A top may be an empty leaf; a root that stays empty is removed. Return the first top for which scratch or the pools have no
    room. O(n log n x stride).
    """
    for i in range(first, tops.size):
        top = np.int64(tops[i])
        begin = ends[i - 1] if i > 0 else np.int64(0)
        stride = np.int64(forest.groups[np.int64(forest.nodes[top].group)].stride)
        old = np.int64(forest.nodes[top].count)
        count = old + ends[i] - begin
        if count > scratch.members.size or count * stride > scratch.records.size or not has_room(forest, count, stride):
            return i
        gather(forest, top, scratch, stride)
        if count == 0 and forest.nodes[top].parent == NONE:
            forest.groups[np.int64(forest.nodes[top].group)].root = NONE
            free_node(forest, top)
            continue
        for at in range(old, count):
            slot = np.int64(slots[begin + at - old])
            n = load_row(store, slot, scratch)
            fill_point(scratch, n, scratch.records, at * stride)
            scratch.members[at] = member_of(store, slot)
        forest.counts[ROWS] += count - old
        build(forest, top, count, scratch, stride)
    return tops.size


@helper
def build(forest, top, count, scratch, stride):
    """Build the subtree of `top`, a leaf without a region, from the first `count` records of scratch."""
    for i in range(count):
        scratch.order[i] = i
    stack = scratch.stack
    stack[0], stack[1], stack[2] = top, 0, count
    depth = np.int64(1)
    while depth > 0:
        depth -= 1
        n, lo, hi = stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2]
        forest.nodes[n].count = forest.nodes[n].built = np.uint32(hi - lo)
        dim = NOWHERE
        if 4 * (hi - lo) > 3 * forest.counts[OVERFLOW] and depth + 2 < STACK:
            dim = splitting_dim(forest, n, scratch, lo, hi)
        if dim == NOWHERE:
            fill_leaf(forest, n, scratch, lo, hi, stride)
            continue
        middle = make_inner(forest, n, dim, scratch, lo, hi)
        left, right = np.int64(forest.nodes[n].left), np.int64(forest.nodes[n].right)
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
            for i in range(np.int64(node.count)):
                scratch.members[n] = forest.words[node.start + i]
                for d in range(width):
                    column = node.start + (d + 1) * np.int64(node.capacity)
                    scratch.records[n * stride + d] = forest.points[column + i]
                n += 1
            free_leaf(forest, at, width)
        else:
            scratch.stack[depth], scratch.stack[depth + 1] = np.int64(node.left), np.int64(node.right)
            depth += 2
            free_region(forest, node.corners, stride)
        if at != top:
            free_node(forest, at)
    make_empty_leaf(forest, top)


@helper
def coordinate(scratch, i, dim, stride):
    """Coordinate `dim` of the record that is i-th in the order."""
    return scratch.records[scratch.order[i] * stride + dim]


@subroutine
def splitting_dim(forest, n, scratch, lo, hi):
    """The coordinate to split node n by: the next after its parent's in which the records differ; -1 if they are equal."""
    node = forest.nodes[n]
    group = forest.groups[np.int64(node.group)]
    width, stride = np.int64(group.width), np.int64(group.stride)
    dim = np.int64(-1) if node.parent == NONE else np.int64(forest.nodes[np.int64(node.parent)].dim)
    for _ in range(width):
        dim = dim + 1 if dim + 1 < width else np.int64(0)
        value = coordinate(scratch, lo, dim, stride)
        for i in range(lo + 1, hi):
            if coordinate(scratch, i, dim, stride) != value:
                return dim
    return NOWHERE


@helper
def make_inner(forest, n, dim, scratch, lo, hi):
    """Turn a leaf without a region into an inner node with two such leaves; return where the records of the right one begin."""
    node = forest.nodes[n]
    g = np.int64(node.group)
    width, stride = np.int64(forest.groups[g].width), np.int64(forest.groups[g].stride)
    split = split_at(scratch, lo, hi, dim, stride)
    i, middle = lo, hi
    while i < middle:
        if coordinate(scratch, i, dim, stride) <= split:
            i += 1
        else:
            middle -= 1
            scratch.order[i], scratch.order[middle] = scratch.order[middle], scratch.order[i]
    node.leaf = INNER
    node.dim = np.uint16(dim)
    node.split = split
    node.corners = take_region(forest, stride)
    set_corner(forest, 2 * node.corners, scratch, lo, middle, width, stride)
    set_corner(forest, 2 * node.corners + stride, scratch, middle, hi, width, stride)
    left, right = take_node(forest, g, n), take_node(forest, g, n)
    node.left, node.right = np.uint32(left), np.uint32(right)
    return middle


@helper
def split_at(scratch, lo, hi, dim, stride):
    """The median, or the next smaller value if no record lies above the median. Not all records are equal."""
    middle = (lo + hi) >> 1
    select(scratch, lo, hi, middle, dim, stride)
    median, below = coordinate(scratch, middle, dim, stride), -np.inf
    for i in range(lo, hi):
        value = coordinate(scratch, i, dim, stride)
        if value > median:
            return median
        if below < value < median:
            below = value
    return below


@subroutine
def select(scratch, lo, hi, middle, dim, stride):
    """Order lo..hi so that no record before `middle` is below one from there on in coordinate `dim`. O(n) on average."""
    order = scratch.order
    last = hi - 1
    while lo < last:
        pivot = coordinate(scratch, (lo + last) >> 1, dim, stride)
        i, j = lo, last
        while i <= j:
            while coordinate(scratch, i, dim, stride) > pivot:
                i += 1
            while coordinate(scratch, j, dim, stride) < pivot:
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


@subroutine
def set_corner(forest, corner, scratch, lo, hi, width, stride):
    """Compute the corner of the records lo..hi."""
    for d in range(stride):
        forest.corners[corner + d] = -np.inf
    for i in range(lo, hi):
        raise_corner(forest.corners, corner, scratch.records, scratch.order[i] * stride, width)


@helper
def fill_leaf(forest, n, scratch, lo, hi, stride):
    """Give a leaf a region and put the records lo..hi into it."""
    node = forest.nodes[n]
    width = np.int64(forest.groups[np.int64(node.group)].width)
    capacity = hi - lo
    start = take_region(forest, capacity * (width + 1))
    node.start = start
    node.capacity = np.uint32(capacity)
    if capacity <= forest.counts[OVERFLOW]:
        node.built = 0  # above the limit only where the records are equal; then it may double before it is built again
    for i in range(capacity):
        member = scratch.members[scratch.order[lo + i]]
        forest.words[start + i] = member
        place = forest.places[member & SLOT_MASK]
        place.leaf = np.uint32(n)
        place.at = np.uint32(i)
        for d in range(width):
            forest.points[start + (d + 1) * capacity + i] = coordinate(scratch, lo + i, d, stride)
