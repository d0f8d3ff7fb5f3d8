"""A forest of bucketed k-d trees over rectangles, one tree for each attribute signature (Covering IV-A, IV-C).

Item       what a row asks about a dimension: 2 * dim for an interval, 2 * dim + 1 for absence.
Signature  the ascending items of a row. A row can only be covered by rows whose signature is a subset of its own.
Point      p(s) = (-lo, hi, -lo, hi, ...) over the interval items; one rectangle contains another iff its point dominates.

Layout
    tries[t] -> group, live rows at or below; a set-trie whose edges are `links[(t, item)] -> t'` (open addressing)
    groups[g] -> root node, items[first : first + size], width coordinates, padded to `stride` (a multiple of 8)
    nodes[n]  -> leaf: region [capacity members][width columns of capacity], or inner: split of one coordinate, two children
                 with the corner of each: the coordinatewise maximum of all points below, in float32 rounded up, side by side,
                 so that a search turns back before it touches the child. A bucket of several chunks of 16 points has a corner
                 for each chunk, compared 16 at a time: splits too fine to be nodes
    words / points / corners: one pool, as int64, float64 and float32; regions come from size classes, four to a doubling,
                 with free lists
    places[slot] -> the leaf and the position in it of each row

A member is its slot | IS_COMPLEX (hulls do not decide) | IS_SIBLING. Padding is 0 in records, -inf or +inf in queries.

Invariants (`CoverIndex.check`): left <= split < right; corners dominate all below; counts add up; every row at its place.

Departures from the paper: a subtree that has grown by half and leans by more than 3/4 is built anew (the paper's tree
degenerates under sorted input); corners, which it does not have, leave a quarter of the buckets to compare at 16 dimensions.
An overflow limit of NEVER makes one leaf a signature: the naive scan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.covering_rows import is_complex
from matchwood.kernels.store import ABSENT, CIRCLE, NONE, SIBLING

GROUP = np.dtype(
    [
        ("bloom", "u8"),
        ("scale", "i8"),
        ("root", "u4"),
        ("first", "u4"),
        ("size", "u2"),
        ("width", "u2"),
        ("stride", "u4"),
    ]
)
NODE = np.dtype(
    [
        ("split", "f8"),
        ("start", "i8"),
        ("corners", "i8"),
        ("count", "u4"),
        ("built", "u4"),
        ("capacity", "u4"),
        ("left", "u4"),
        ("right", "u4"),
        ("parent", "u4"),
        ("group", "u4"),
        ("dim", "u2"),
        ("leaf", "u2"),
        ("arranged", "u4"),
        ("pad", "u4"),
    ]
)
TRIE = np.dtype([("group", "u4"), ("live", "u4")])
LINK = np.dtype([("key", "u8"), ("child", "u4"), ("pad", "u4")])
PLACE = np.dtype([("leaf", "u4"), ("at", "u4")])

NO_WHERE = np.int64(-1)
NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
IS_COMPLEX = np.int64(1) << 32
IS_SIBLING = np.int64(1) << 33
SLOT_MASK = np.int64(0xFFFFFFFF)
NEVER = np.int64(1) << 40

# places in `counts`
GROUPS, ITEMS, NODES, FREE_NODE, LIVE_NODES, WORDS, TRIES, LINKS, ROWS, PENDING, OVERFLOW, UNDERFLOW = range(12)
REGIONS = 16  # free list heads of the size classes follow
COUNTS = REGIONS + 8 + 4 * 40

MAX_ITEMS = 1024
CHUNK = 16  # points of a bucket that are compared at once
FRESH = 64  # points appended to a bucket until it is arranged anew
CHUNKS = 16  # chunks of a bucket at most that have corners; larger buckets (equal points, the naive scan) are compared throughout
STACK = 4096
SAMPLE = 63


class Forest(NamedTuple):
    groups: np.ndarray  # GROUP
    items: np.ndarray  # uint32
    nodes: np.ndarray  # NODE
    words: np.ndarray  # int64
    points: np.ndarray  # float64, the same memory as words
    corners: np.ndarray  # float32, the same memory as words
    places: np.ndarray  # PLACE, by slot
    tries: np.ndarray  # TRIE
    links: np.ndarray  # LINK, a power of two long
    counts: np.ndarray  # int64


class Scratch(NamedTuple):
    """Room for one operation: a loaded row, a query point, stacks, and the records of a subtree that is built anew."""

    items: np.ndarray  # uint32, MAX_ITEMS
    ends: np.ndarray  # float64, 2 x MAX_ITEMS: -lo, hi of each item
    query: np.ndarray  # float64, 2 x MAX_ITEMS
    rounded: np.ndarray  # float32, 2 x MAX_ITEMS: the query, rounded down
    turn: np.ndarray  # int64, 2 x MAX_ITEMS: the order in which coordinates are compared, and scratch
    stack: np.ndarray  # int64, 4 x STACK
    members: np.ndarray  # int64
    order: np.ndarray  # int64
    records: np.ndarray  # float64
    sample: np.ndarray  # float64, SAMPLE


@helper
def region_class(size):
    """The class of regions of at least `size` words: exact up to 8, then four classes to a doubling."""
    if size <= 8:
        return size
    e = np.int64(3)
    while (np.int64(2) << e) < size:
        e += 1
    return 8 + (e - 3) * 4 + ((size - (np.int64(1) << e) + (np.int64(1) << (e - 2)) - 1) >> (e - 2))


@helper
def region_size(class_):
    if class_ <= 8:
        return class_
    e = 3 + (class_ - 9) // 4
    return (np.int64(1) << e) + ((class_ - 9) % 4 + 1) * (np.int64(1) << (e - 2))


@helper
def take_region(forest, size):
    """A region of `size` words; the caller has made sure of room. O(1)."""
    if size == 0:
        return np.int64(0)
    class_ = region_class(size)
    start = forest.counts[REGIONS + class_]
    if start == NO_WHERE:
        start = forest.counts[WORDS]
        forest.counts[WORDS] += region_size(class_)
    else:
        forest.counts[REGIONS + class_] = forest.words[start]
    return start


@helper
def free_region(forest, start, size):
    if size > 0:
        class_ = region_class(size)
        forest.words[start] = forest.counts[REGIONS + class_]
        forest.counts[REGIONS + class_] = start


@helper
def take_node(forest, group, parent):
    n = forest.counts[FREE_NODE]
    if n == np.int64(NONE):
        n = forest.counts[NODES]
        forest.counts[NODES] += 1
    else:
        forest.counts[FREE_NODE] = np.int64(forest.nodes[n].left)
    forest.counts[LIVE_NODES] += 1
    node = forest.nodes[n]
    node.group, node.parent = np.uint32(group), np.uint32(parent)
    node.start, node.corners, node.count, node.built, node.capacity, node.arranged = NO_WHERE, NO_WHERE, 0, 0, 0, 0
    node.left, node.right, node.dim, node.leaf, node.split = NONE, NONE, 0, 1, 0.0
    return n


@helper
def free_node(forest, n):
    node = forest.nodes[n]
    node.capacity = 0
    node.left = np.uint32(forest.counts[FREE_NODE])
    node.leaf = 2  # neither leaf nor inner: free
    forest.counts[FREE_NODE] = n
    forest.counts[LIVE_NODES] -= 1


@helper
def has_words(forest, records, stride):
    """Is there room for regions of that many records, corners and rounding included?"""
    return forest.counts[WORDS] + 5 * (records + 64) * (stride + 2) // 2 <= forest.words.size


@helper
def has_room(forest, records, stride):
    """Is there room for any operation that moves up to `records` records?"""
    return has_words(forest, records, stride) and forest.counts[NODES] + 2 * records + 16 <= forest.nodes.size


@helper
def load_row(store, slot, scratch):
    """The row's items, ascending, and the ends of their intervals, into scratch; return how many. O(entries^2), few."""
    items, ends = scratch.items, scratch.ends
    n = np.int64(0)
    start = np.int64(store.rows[slot].start)
    for e in range(np.int64(store.rows[slot].count)):
        entry = store.entries[start + e]
        if entry.kind & CIRCLE:
            continue
        absent = entry.kind == ABSENT
        item = np.uint32(2) * np.uint32(entry.dim) + np.uint32(1 if absent else 0)
        at = n
        while at > 0 and items[at - 1] > item:
            items[at] = items[at - 1]
            ends[2 * at], ends[2 * at + 1] = ends[2 * at - 2], ends[2 * at - 1]
            at -= 1
        items[at] = item
        ends[2 * at], ends[2 * at + 1] = -entry.lo, entry.hi
        n += 1
    return n


@helper
def link_home(links, key):
    h = key * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(31)
    return np.int64(h & np.uint64(links.size - 1))


@helper
def link_key(t, item):
    return (np.uint64(t) << np.uint64(32)) | np.uint64(item)


@helper
def find_link(links, key):
    """Where the edge stands, or the free place where it would go."""
    at = link_home(links, key)
    while links[at].key != key and links[at].key != NO_KEY:
        at = (at + 1) & (links.size - 1)
    return at


@helper
def child_of(forest, t, item):
    """The trie node behind the edge, or -1."""
    link = forest.links[find_link(forest.links, link_key(t, item))]
    return NO_WHERE if link.key == NO_KEY else np.int64(link.child)


@helper
def bloom_of(items, first, n):
    bloom = np.uint64(0)
    for i in range(n):
        bloom |= np.uint64(1) << (np.uint64(items[first + i]) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(58))
    return bloom


@helper
def group_of(forest, scratch, n):
    """The group of the signature loaded in scratch, made if it is new; all trie nodes on the way count one row more."""
    t = np.int64(0)
    forest.tries[t].live += np.uint32(1)
    for i in range(n):
        at = find_link(forest.links, link_key(t, scratch.items[i]))
        link = forest.links[at]
        if link.key == NO_KEY:
            link.key = link_key(t, scratch.items[i])
            link.child = np.uint32(forest.counts[TRIES])
            forest.tries[forest.counts[TRIES]].group = NONE
            forest.tries[forest.counts[TRIES]].live = np.uint32(0)
            forest.counts[TRIES] += 1
            forest.counts[LINKS] += 1
        t = np.int64(link.child)
        forest.tries[t].live += np.uint32(1)
    if forest.tries[t].group == NONE:
        forest.tries[t].group = np.uint32(new_group(forest, scratch, n))
    return np.int64(forest.tries[t].group)


@helper
def new_group(forest, scratch, n):
    g = forest.counts[GROUPS]
    forest.counts[GROUPS] += 1
    group = forest.groups[g]
    group.root, group.first, group.size, group.scale = NONE, np.uint32(forest.counts[ITEMS]), np.uint16(n), NO_WHERE
    width = np.int64(0)
    for i in range(n):
        forest.items[forest.counts[ITEMS] + i] = scratch.items[i]
        if not scratch.items[i] & np.uint32(1):
            width += 2
    forest.counts[ITEMS] += n
    group.width = np.uint16(width)
    group.stride = np.uint32((width + 7) & ~7)
    group.bloom = bloom_of(scratch.items, 0, n)
    return g


@helper
def leave_trie(forest, g):
    """Every trie node on the way to the group counts one row less."""
    group = forest.groups[g]
    t = np.int64(0)
    forest.tries[t].live -= np.uint32(1)
    for i in range(np.int64(group.size)):
        t = child_of(forest, t, forest.items[np.int64(group.first) + i])
        forest.tries[t].live -= np.uint32(1)


@helper
def fill_point(scratch, n, target, stride):
    """The point of the loaded row, padded with 0, at target[0:stride]."""
    at = np.int64(0)
    for i in range(n):
        if not scratch.items[i] & np.uint32(1):
            target[at], target[at + 1] = scratch.ends[2 * i], scratch.ends[2 * i + 1]
            at += 2
    for i in range(at, stride):
        target[i] = 0.0


@helper
def set_leaf_room(forest, n, capacity):
    """Move the leaf's points to a region for `capacity` of them."""
    node = forest.nodes[n]
    width = np.int64(forest.groups[np.int64(node.group)].width)
    start = take_region(forest, capacity * (width + 1))
    old, held, count = node.start, np.int64(node.capacity), np.int64(node.count)
    for d in range(width + 1):
        for i in range(count):
            forest.words[start + d * capacity + i] = forest.words[old + d * held + i]
    if held > 0:
        free_region(forest, old, held * (width + 1))
    node.start, node.capacity = start, np.uint32(capacity)
    set_chunks(forest, n)


@helper
def set_chunks(forest, n):
    """Give the leaf's chunks corners, if it has several and not too many, and take them away otherwise."""
    node = forest.nodes[n]
    width, capacity = np.int64(forest.groups[np.int64(node.group)].width), np.int64(node.capacity)
    if capacity <= CHUNK or capacity > CHUNK * CHUNKS:
        if node.corners != NO_WHERE:
            free_region(forest, node.corners, width * CHUNKS // 2)
            node.corners = NO_WHERE
        return
    if node.corners != NO_WHERE or width == 0:
        return
    corners = take_region(forest, width * CHUNKS // 2)
    node.corners = corners
    for d in range(width):
        for c in range(CHUNKS):
            forest.corners[2 * corners + d * CHUNKS + c] = -np.inf
        column = node.start + (d + 1) * capacity
        for i in range(np.int64(node.count)):
            at = 2 * corners + d * CHUNKS + i // CHUNK
            forest.corners[at] = max(forest.corners[at], rounded_up(forest.points[column + i]))


@helper
def raise_chunk(forest, n, i, width):
    """The corner of the chunk in which point i of the leaf stands dominates it."""
    node = forest.nodes[n]
    if node.corners != NO_WHERE:
        for d in range(width):
            at = 2 * node.corners + d * CHUNKS + i // CHUNK
            value = forest.points[node.start + (d + 1) * np.int64(node.capacity) + i]
            forest.corners[at] = max(forest.corners[at], rounded_up(value))


@helper
def next_capacity(capacity):
    """1, 2, 4, 8, 16, 32, 48 .. 256, then doubling."""
    if capacity == 0:
        return np.int64(1)
    return capacity + CHUNK if CHUNK <= capacity < CHUNK * CHUNKS else 2 * capacity


@helper
def rounded_up(value):
    """The least float32 that is not below the value."""
    near = np.float32(value)
    return near if near >= value else np.nextafter(near, np.float32(np.inf))


@helper
def rounded_down(value):
    """The greatest float32 that is not above the value."""
    near = np.float32(value)
    return near if near <= value else np.nextafter(near, np.float32(-np.inf))


@helper
def corner_at(forest, n):
    """Where in `corners` the corner of node n begins; -1 for a root, which has none."""
    parent = np.int64(forest.nodes[n].parent)
    if parent == np.int64(NONE):
        return NO_WHERE
    above = forest.nodes[parent]
    stride = np.int64(forest.groups[np.int64(above.group)].stride)
    return 2 * above.corners + (0 if np.int64(above.left) == n else stride)


@helper
def raise_corner(corners, corner, records, at, width):
    for d in range(width):
        corners[corner + d] = max(corners[corner + d], rounded_up(records[at + d]))


@kernel
def insert_row(forest, store, slot, scratch):
    """Put one row of the store into its tree. False: no room, nothing was changed. O(depth x stride).

    Leaves in counts[PENDING] the node that should now be built anew (a bucket that overflows, a subtree that leans), or -1.
    """
    counts = forest.counts
    counts[PENDING] = NO_WHERE
    n = load_row(store, slot, scratch)
    if not (
        has_room(forest, 1, 2 * n + 4)
        and counts[GROUPS] < forest.groups.size
        and counts[ITEMS] + n <= forest.items.size
        and counts[TRIES] + n <= forest.tries.size
        and 2 * (counts[LINKS] + n) <= forest.links.size
    ):
        return False
    g = group_of(forest, scratch, n)
    group = forest.groups[g]
    stride, width = np.int64(group.stride), np.int64(group.width)
    fill_point(scratch, n, scratch.query, stride)
    if group.root == NONE:
        group.root = np.uint32(take_node(forest, g, np.int64(NONE)))
    at = np.int64(group.root)
    while True:
        node = forest.nodes[at]
        if node.leaf:
            break
        node.count += np.uint32(1)
        if counts[PENDING] == NO_WHERE and leans(forest, at):
            counts[PENDING] = at
        is_right = scratch.query[np.int64(node.dim)] > node.split
        raise_corner(forest.corners, 2 * node.corners + (stride if is_right else 0), scratch.query, 0, width)
        at = np.int64(node.right) if is_right else np.int64(node.left)
    leaf = forest.nodes[at]
    count = np.int64(leaf.count)
    if count == np.int64(leaf.capacity):
        if not has_words(forest, 2 * count, stride):
            undo_path(forest, np.int64(leaf.parent))
            leave_trie(forest, g)
            return False
        set_leaf_room(forest, at, next_capacity(count))
    forest.words[leaf.start + count] = member_of(store, slot)
    for d in range(width):
        forest.points[leaf.start + (d + 1) * np.int64(leaf.capacity) + count] = scratch.query[d]
    raise_chunk(forest, at, count, width)
    forest.places[slot].leaf, forest.places[slot].at = np.uint32(at), np.uint32(count)
    leaf.count += np.uint32(1)
    counts[ROWS] += 1
    # What is appended since the bucket was arranged makes chunks with loose corners.
    loose = np.int64(leaf.count) >= np.int64(leaf.arranged) + FRESH and CHUNK < np.int64(leaf.count) <= counts[OVERFLOW]
    grown = np.int64(leaf.count) > max(counts[OVERFLOW], 2 * np.int64(leaf.built)) or (
        loose and counts[OVERFLOW] != NEVER
    )
    if counts[PENDING] == NO_WHERE and grown and stride > 0:
        counts[PENDING] = at
    return True


@helper
def member_of(store, slot):
    member = np.int64(slot)
    if is_complex(store, slot):
        member |= IS_COMPLEX
    if store.rows[slot].flags & SIBLING:
        member |= IS_SIBLING
    return member


@helper
def undo_path(forest, at):
    while at != np.int64(NONE):
        forest.nodes[at].count -= np.uint32(1)
        at = np.int64(forest.nodes[at].parent)


@helper
def leans(forest, n):
    """Has the inner node changed by half since it was built, and is one child far heavier than the other?"""
    node = forest.nodes[n]
    count, built = np.int64(node.count), np.int64(node.built)
    if 2 * count < 3 * built + 64 and 2 * count > built:
        return False
    heavier = max(np.int64(forest.nodes[np.int64(node.left)].count), np.int64(forest.nodes[np.int64(node.right)].count))
    return 4 * heavier > 3 * count + 16


@kernel
def delete_row(forest, slot):
    """Take one row out of its tree; its bucket may leave counts[PENDING], as in `insert_row`. O(depth + stride)."""
    counts = forest.counts
    counts[PENDING] = NO_WHERE
    at = np.int64(forest.places[slot].leaf)
    hole = np.int64(forest.places[slot].at)
    leaf = forest.nodes[at]
    g = np.int64(leaf.group)
    group = forest.groups[g]
    last = np.int64(leaf.count) - 1
    if hole != last:
        for d in range(np.int64(group.width) + 1):
            column = leaf.start + d * np.int64(leaf.capacity)
            forest.words[column + hole] = forest.words[column + last]
        forest.places[forest.words[leaf.start + hole] & SLOT_MASK].at = np.uint32(hole)
        raise_chunk(forest, at, hole, np.int64(group.width))
    forest.places[slot].leaf = NONE
    leaf.count -= np.uint32(1)
    counts[ROWS] -= 1
    leave_trie(forest, g)
    above = np.int64(leaf.parent)
    if above == np.int64(NONE):
        if last == 0:
            drop_leaf(forest, at, np.int64(group.width))
            group.root = NONE
        return
    if last < counts[UNDERFLOW] and 4 * (np.int64(forest.nodes[above].count) - 1) <= 3 * counts[OVERFLOW]:
        counts[PENDING] = above
    while above != np.int64(NONE):
        forest.nodes[above].count -= np.uint32(1)
        if leans(forest, above):
            counts[PENDING] = above
        above = np.int64(forest.nodes[above].parent)


@helper
def drop_leaf(forest, n, width):
    node = forest.nodes[n]
    if np.int64(node.capacity) > 0:
        free_region(forest, node.start, np.int64(node.capacity) * (width + 1))
    if node.corners != NO_WHERE:
        free_region(forest, node.corners, width * CHUNKS // 2)
    free_node(forest, n)


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
def insert_many(forest, store, slots, first, scratch):
    """Insert slots[first:]; return the first not inserted. Stops for room, and for a rebuild that scratch is too small for."""
    for i in range(first, slots.size):
        if not insert_row(forest, store, np.int64(slots[i]), scratch):
            return i
        top = forest.counts[PENDING]
        if top != NO_WHERE and not rebuild(forest, top, scratch):
            return i + 1
        forest.counts[PENDING] = NO_WHERE
    return slots.size


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


@kernel
def delete_many(forest, slots, first, scratch):
    """Delete slots[first:]; return the first not deleted. Stops for a rebuild that scratch is too small for."""
    for i in range(first, slots.size):
        delete_row(forest, np.int64(slots[i]))
        top = forest.counts[PENDING]
        if top != NO_WHERE and not rebuild(forest, top, scratch):
            return i + 1
        forest.counts[PENDING] = NO_WHERE
    return slots.size


@kernel
def relink(old, new):
    """Enter every edge of the old table into the new, empty one."""
    for i in range(old.size):
        if old[i].key != NO_KEY:
            at = find_link(new, old[i].key)
            new[at].key, new[at].child = old[i].key, old[i].child
