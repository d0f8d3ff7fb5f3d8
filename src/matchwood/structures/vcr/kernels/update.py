"""Changes of the lists of VCRs. Layout: `kernels.layout`.

    some rows    append_rows, remove_rows: list by list
    all rows     count_entries, lay_out_lists, append_rows: regions fit their lists and are in the order of ids
    many leave   sweep_rows: one pass over all lists

One writer, no reader at the same time. Kernels never grow an array: they stop before a row that needs more room.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.store.kernels.id_table import NONE, home
from matchwood.structures.vcr.kernels.layout import (
    CLASS_SHIFT,
    EMPTY,
    POSITION,
    SIZE,
    Count,
    decompose,
    find_header,
    find_list,
    group_of,
    open_list,
    place_row,
)


@kernel
def place_rows(index, store, slots, positions):
    """Fill the records of positions[i] from the row at slots[i]. O(entries)."""
    for i in range(slots.size):
        place_row(index, store, np.int64(slots[i]), np.int64(positions[i]))


@kernel
def take_positions(index, positions):
    """Fill `positions` with unused ones, free ones first. The caller has made room."""
    counts = index.counts
    for i in range(positions.size):
        p = counts[Count.FREE_POSITION]
        if p == np.int64(NONE):
            p = counts[Count.POSITIONS]
            counts[Count.POSITIONS] += 1
        else:
            counts[Count.FREE_POSITION] = np.int64(index.places[p].flags)
        positions[i] = np.uint32(p)


@helper
def free_region(index, start, class_):
    if class_ > 0:
        index.entries[start] = np.uint32(index.counts[Count.FREE_REGIONS + class_])
        index.counts[Count.FREE_REGIONS + class_] = start


@helper
def reserve_entry(index, header):
    """Make room for one more entry, in a region of twice the size if need be; False if the pool is full."""
    counts = index.counts
    size, class_ = np.int64(header.load & SIZE), np.int64(header.load >> CLASS_SHIFT)
    if size < (np.int64(1) << class_) >> 1:
        return True
    start = counts[Count.FREE_REGIONS + class_ + 1]
    if start != np.int64(NONE):
        counts[Count.FREE_REGIONS + class_ + 1] = np.int64(index.entries[start])
    else:
        start = counts[Count.POOL]
        if start + (np.int64(1) << class_) > index.entries.size:
            return False
        counts[Count.POOL] += np.int64(1) << class_
    old = np.int64(header.start)
    for k in range(size):
        index.entries[start + k] = index.entries[old + k]
    free_region(index, old, class_)
    header.start = np.uint32(start)
    header.load = np.uint32(((class_ + 1) << np.int64(CLASS_SHIFT)) | size)
    return True


@helper
def prefetch_headers(index, pieces, count):
    for q in range(count):
        id_ = pieces[q].id
        prefetch(index.directory, home(index.directory, id_) if index.counts[Count.HASHED] else id_)


@helper
def has_room_for_lists(index, count):
    """Can so many lists more be opened? A hashed directory is at most half full."""
    return index.counts[Count.HASHED] == 0 or 2 * (index.counts[Count.LISTS] + count) <= index.directory.size


@kernel
def append_rows(index, positions, first, pieces):
    """Enter positions[first:] into the lists of their VCRs; return the first not entered (no room) or their number.

    Lists are opened and enlarged first; only then is anything appended, so that a row is in all its lists or in none.
    """
    for r in range(first, positions.size):
        p = np.int64(positions[r])
        n = decompose(index, p, pieces)
        if not has_room_for_lists(index, n):
            return r
        prefetch_headers(index, pieces, n)
        for q in range(n):
            if not reserve_entry(index, open_list(index, pieces[q].id)):
                return r
        for q in range(n):
            piece = pieces[q]
            header = index.directory[find_list(index, piece.id)]
            index.entries[np.int64(header.start) + np.int64(header.load & SIZE)] = piece.entry
            header.load += np.uint32(1)
            index.active[np.int64(piece.corner)] |= piece.bits
        index.positions[np.int64(index.places[p].slot)] = np.uint32(p)
        index.counts[Count.GROUPS + group_of(index, p)] += 1
    return positions.size


@helper
def close_list(index, at):
    """Free the region and the header of an empty list and clear its bit. Headers of a hash table behind it may move. O(1)."""
    directory = index.directory
    header = directory[at]
    free_region(index, np.int64(header.start), np.int64(header.load >> CLASS_SHIFT))
    corner = header.id // index.shapes.size
    bit = header.id - corner * index.shapes.size
    index.active[corner] &= ~(np.uint64(1) << np.uint64(bit))
    index.counts[Count.LISTS] -= 1
    header.id, header.load = EMPTY, np.uint32(0)
    if index.counts[Count.HASHED] == 0:
        return
    mask = directory.size - 1
    hole, probe = at, at
    while True:
        probe = (probe + 1) & mask
        moved = directory[probe]
        if moved.id == EMPTY:
            return
        if ((probe - home(directory, moved.id)) & mask) >= ((probe - hole) & mask):
            target = directory[hole]
            target.id, target.start, target.load = moved.id, moved.start, moved.load
            moved.id = EMPTY
            hole = probe


@helper
def find_entry(entries, start, size, p):
    """Where in a list position p is, which is there. The test of a block of 16 vectorises; a plain search does not."""
    k = np.int64(0)
    while k + 16 <= size:
        block = entries[start + k : start + k + 16]
        found = np.uint32(0)
        for t in range(block.size):
            found |= np.uint32((block[t] & POSITION) == p)
        if found:
            break
        k += 16
    while (entries[start + k] & POSITION) != p:
        k += 1
    return k


@subroutine
def free_position(index, p):
    counts, place = index.counts, index.places[p]
    counts[Count.GROUPS + group_of(index, p)] -= 1
    place.slot, place.flags = NONE, np.uint32(counts[Count.FREE_POSITION])
    counts[Count.FREE_POSITION] = p


@kernel
def remove_rows(index, positions, pieces):
    """Take rows out of their lists, close lists that become empty, free the positions. O(pieces * length of list / 16) a row.

    Headers, then entries are prefetched for all lists of a row: each is a cache miss.
    """
    for r in range(positions.size):
        p = np.int64(positions[r])
        n = decompose(index, p, pieces)
        prefetch_headers(index, pieces, n)
        for q in range(n):
            header = index.directory[find_list(index, pieces[q].id)]
            for k in range(0, np.int64(header.load & SIZE), 16):
                prefetch(index.entries, np.int64(header.start) + k)
        for q in range(n):
            at = find_list(index, pieces[q].id)
            header = index.directory[at]
            start, size = np.int64(header.start), np.int64(header.load & SIZE)
            k = find_entry(index.entries, start, size, np.uint32(p))
            index.entries[start + k] = index.entries[start + size - 1]
            header.load -= np.uint32(1)
            if size == 1:
                close_list(index, at)
        free_position(index, p)


@kernel
def sweep_rows(index, positions):
    """As `remove_rows`, by one pass over all lists: for many rows at once. O(all entries)."""
    for r in range(positions.size):
        free_position(index, np.int64(positions[r]))
    for corner in range(index.active.size):
        bits = index.active[corner]
        while bits != 0:
            at = find_list(index, corner * index.shapes.size + np.int64(trailing_zeros(bits)))
            bits &= bits - np.uint64(1)
            header = index.directory[at]
            start, left = np.int64(header.start), np.int64(0)
            for k in range(np.int64(header.load & SIZE)):
                entry = index.entries[start + k]
                index.entries[start + left] = entry
                if index.places[np.int64(entry & POSITION)].slot != NONE:
                    left += 1
            header.load = np.uint32((header.load & ~SIZE) | np.uint32(left))
            if left == 0:
                close_list(index, at)


@kernel
def count_entries(index, positions, first, pieces):
    """Open the lists of positions[first:] and count their entries in `load`; return the first not counted (no room for its
    lists) or the number of positions. O(pieces)."""
    for r in range(first, positions.size):
        n = decompose(index, np.int64(positions[r]), pieces)
        if not has_room_for_lists(index, n):
            return r
        for q in range(n):
            open_list(index, pieces[q].id).load += np.uint32(1)
            index.active[np.int64(pieces[q].corner)] |= pieces[q].bits
    return positions.size


@kernel
def lay_out_lists(index):
    """Give each list a region for what `load` counts, in the order of ids, and empty it. The pool has room. O(corners)."""
    counts = index.counts
    for corner in range(index.active.size):
        bits = index.active[corner]
        while bits != 0:
            id_ = corner * index.shapes.size + np.int64(trailing_zeros(bits))
            bits &= bits - np.uint64(1)
            header = index.directory[find_list(index, id_)]
            class_ = np.int64(1)
            while (np.int64(1) << (class_ - 1)) < np.int64(header.load):
                class_ += 1
            header.start = np.uint32(counts[Count.POOL])
            header.load = np.uint32(class_ << np.int64(CLASS_SHIFT))
            counts[Count.POOL] += np.int64(1) << (class_ - 1)


@kernel
def rehash_lists(old, new):
    """Enter every header of the old table into the new, empty one. O(old)."""
    for i in range(old.size):
        if old[i].id != EMPTY:
            header = new[find_header(new, old[i].id)]
            header.id, header.start, header.load = old[i].id, old[i].start, old[i].load
