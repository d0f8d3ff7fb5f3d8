"""Signatures of the forest: the items of a row, the set-trie over them, and a group for each signature that occurs.

Layout and words: `kernels.forest`. A group is made when its signature first appears and is never removed; trie nodes
count the rows at or below them, so that a search passes by what has become empty.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.forest import GROUPS, IS_COMPLEX, IS_SIBLING, ITEMS, LINKS, NO_KEY, NO_WHERE, TRIES
from matchwood.covering.kernels.rows import is_complex
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import ABSENT, CIRCLE, NONE, SIBLING


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
def member_of(store, slot):
    member = np.int64(slot)
    if is_complex(store, slot):
        member |= IS_COMPLEX
    if store.rows[slot].flags & SIBLING:
        member |= IS_SIBLING
    return member


@kernel
def relink(old, new):
    """Enter every edge of the old table into the new, empty one."""
    for i in range(old.size):
        if old[i].key != NO_KEY:
            at = find_link(new, old[i].key)
            new[at].key, new[at].child = old[i].key, old[i].child
