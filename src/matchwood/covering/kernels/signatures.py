"""Signatures of the forest: the items of a row, the set-trie over them, and a group for each signature that occurs.

Terms and layout: `kernels.forest`. A group is made when its signature first appears and is never removed; trie nodes count the
rows at or below them, so that a search skips empty subtrees.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.forest import (
    GROUPS,
    IS_COMPLEX,
    IS_SIBLING,
    ITEMS,
    LINKS,
    NO_KEY,
    NOWHERE,
    TRIES,
    has_group_room,
    take_node,
)
from matchwood.covering.kernels.rows import is_complex
from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.store.kernels.rows import (
    ABSENT,
    COUNTED,
    NARROWS,
    NONE,
    SIBLING,
    count_bounds,
    part_hi,
    part_lo,
    parts_of,
)

HASH = np.uint64(0x9E3779B97F4A7C15)


@helper
def narrow_ends(entries, start, entry, scratch, n):
    """Narrow the ends of an item, one of n, by the sets that the COUNTED entry start + entry needs."""
    first, parts, width = parts_of(entries, start, entry)
    least, _ = count_bounds(entries, start, entry)
    if least == 0.0:
        return
    item = np.uint32(2) * np.uint32(entries[start + entry].dim)
    low, high = (parts - 1, np.int64(0)) if least == np.float64(parts) else (np.int64(0), parts - 1)
    lo, hi = part_lo(entries, first, width, low), part_hi(entries, first, width, high)
    for at in range(n):
        if scratch.items[at] == item:
            scratch.ends[2 * at] = min(scratch.ends[2 * at], -lo)
            scratch.ends[2 * at + 1] = min(scratch.ends[2 * at + 1], hi)


@subroutine
def load_row(store, slot, scratch):
    """Write the items of a row, ascending, and the ends of their intervals to scratch; return the number of items.

    Of a predicate that needs several sets, the largest lower and the smallest upper end: a row that it implies dominates these,
    whichever of the sets lies within the other row's.
    """
    items, ends = scratch.items, scratch.ends
    n = np.int64(0)
    start = np.int64(store.rows[slot].start)
    for e in range(np.int64(store.rows[slot].count)):
        entry = store.entries[start + e]
        if entry.kind == COUNTED:
            narrow_ends(store.entries, start, e, scratch, n)
        if entry.kind & NARROWS:
            continue
        item = np.uint32(2) * np.uint32(entry.dim) + np.uint32(1 if entry.kind == ABSENT else 0)
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
def is_interval(item):
    return item & np.uint32(1) == 0


@helper
def link_key(t, item):
    return (np.uint64(t) << np.uint64(32)) | np.uint64(item)


@helper
def find_link(links, key):
    """The position of the edge, or the free position where it would go."""
    h = key * HASH
    h ^= h >> np.uint64(31)
    at = np.int64(h & np.uint64(links.size - 1))
    while links[at].key != key and links[at].key != NO_KEY:
        at = (at + 1) & (links.size - 1)
    return at


@helper
def child_of(forest, t, item):
    """The trie node behind the edge, or -1."""
    link = forest.links[find_link(forest.links, link_key(t, item))]
    return NOWHERE if link.key == NO_KEY else np.int64(link.child)


@helper
def bloom_of(items, n):
    """One of 64 bits for each item: a signature can only be a subset of those that have all of its bits."""
    bloom = np.uint64(0)
    for i in range(n):
        bloom |= np.uint64(1) << (np.uint64(items[i]) * HASH >> np.uint64(58))
    return bloom


@helper
def group_of(forest, scratch, n):
    """The group of the signature loaded in scratch, made if it is new; all trie nodes on its path count one more row."""
    t = np.int64(0)
    forest.tries[t].live += np.uint32(1)
    for i in range(n):
        key = link_key(t, scratch.items[i])
        link = forest.links[find_link(forest.links, key)]
        if link.key == NO_KEY:
            child = forest.counts[TRIES]
            link.key = key
            link.child = np.uint32(child)
            forest.tries[child].group = NONE
            forest.tries[child].live = np.uint32(0)
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
    group.root = NONE
    group.first = np.uint32(forest.counts[ITEMS])
    group.size = np.uint16(n)
    width = np.int64(0)
    for i in range(n):
        forest.items[forest.counts[ITEMS] + i] = scratch.items[i]
        if is_interval(scratch.items[i]):
            width += 2
    forest.counts[ITEMS] += n
    group.width = np.uint16(width)
    group.stride = np.uint32((width + 7) & ~7)
    group.bloom = bloom_of(scratch.items, n)
    return g


@helper
def root_of(forest, g):
    """The root of the group's tree; an empty leaf if it had none."""
    group = forest.groups[g]
    if group.root == NONE:
        group.root = np.uint32(take_node(forest, g, np.int64(NONE)))
    return np.int64(group.root)


@helper
def leave_trie(forest, g):
    """Let every trie node on the path to the group count one row less."""
    group = forest.groups[g]
    t = np.int64(0)
    forest.tries[t].live -= np.uint32(1)
    for i in range(np.int64(group.size)):
        t = child_of(forest, t, forest.items[np.int64(group.first) + i])
        forest.tries[t].live -= np.uint32(1)


@helper
def fill_point(scratch, n, target, at):
    """Write the point of the loaded row to target[at:]."""
    for i in range(n):
        if is_interval(scratch.items[i]):
            target[at], target[at + 1] = scratch.ends[2 * i], scratch.ends[2 * i + 1]
            at += 2


@helper
def member_of(store, slot):
    member = np.int64(slot)
    if is_complex(store, slot):
        member |= IS_COMPLEX
    if store.rows[slot].flags & SIBLING:
        member |= IS_SIBLING
    return member


@kernel
def assign_groups(forest, store, slots, first, scratch, groups):
    """Set groups[i] to the group of slots[i], for slots[first:], count the rows in the trie, and give each group a root.

    Return the first slot for which there is no room, or the number of slots.
    """
    for i in range(first, slots.size):
        n = load_row(store, np.int64(slots[i]), scratch)
        if not has_group_room(forest, n):
            return i
        groups[i] = group_of(forest, scratch, n)
        root_of(forest, np.int64(groups[i]))
    return slots.size


@kernel
def relink(old, new):
    """Enter every edge of the old table into the new, empty one."""
    for i in range(old.size):
        if old[i].key != NO_KEY:
            at = find_link(new, old[i].key)
            new[at].key, new[at].child = old[i].key, old[i].child
