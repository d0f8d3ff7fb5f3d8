"""How the lists of VCRs change: rows enter, leave, are replaced, or are laid out all at once. Layout: `kernels.layout`.

    a few rows   append_rows, remove_positions, replace_rows: list by list
    all rows     activate_rows, count_entries, lay_out_lists, then append_rows: regions fit and lie in the order of ids
    many leave   sweep_positions: one walk over all lists

One writer, no reader at the same time. Nothing grows here: `append_rows` stops before a row that it has no room for.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.store.kernels.id_table import NONE, home
from matchwood.structures.vcr.kernels.layout import (
    EMPTY,
    FREE_POSITION,
    GROUPS,
    HASHED,
    LISTS,
    LIVE,
    POOL,
    POSITION,
    POSITIONS,
    REGIONS,
    SIZE,
    SIZE_BITS,
    decompose,
    find_header,
    find_list,
    group_of,
    id_of,
    locate,
    open_list,
)


@kernel
def locate_rows(state, store, slots, first):
    """Put the rows at positions first, first + 1, ... without entering them into lists. O(entries)."""
    for i in range(slots.size):
        locate(state, store, np.int64(slots[i]), first + i)


@kernel
def take_positions(state, store, slots, taken):
    """Give each slot a position, free ones first; `taken` receives them. The caller has made room. O(entries)."""
    counts = state.counts
    for i in range(slots.size):
        p = counts[FREE_POSITION]
        if p == np.int64(NONE):
            p = counts[POSITIONS]
            counts[POSITIONS] += 1
        else:
            counts[FREE_POSITION] = np.int64(state.places[p].flags)
        slot = np.int64(slots[i])
        locate(state, store, slot, p)
        state.positions[slot] = np.uint32(p)
        counts[GROUPS + group_of(state, p)] += 1
        counts[LIVE] += 1
        taken[i] = np.uint32(p)


@helper
def free_region(state, start, class_):
    if class_ > 0:
        state.entries[start] = np.uint32(state.counts[REGIONS + class_])
        state.counts[REGIONS + class_] = start


@helper
def room_for_one(state, at):
    """See to it that the list has room for one more, moving it to a region twice as large; False if the pool is used up."""
    counts = state.counts
    header = state.directory[at]
    size = np.int64(header.load & SIZE)
    class_ = np.int64(header.load >> SIZE_BITS)
    capacity = (np.int64(1) << class_) >> 1
    if size < capacity:
        return True
    start = counts[REGIONS + class_ + 1]
    if start != np.int64(NONE):
        counts[REGIONS + class_ + 1] = np.int64(state.entries[start])
    else:
        start = counts[POOL]
        if start + (np.int64(1) << class_) > state.entries.size:
            return False
        counts[POOL] += np.int64(1) << class_
    old = np.int64(header.start)
    for k in range(size):
        state.entries[start + k] = state.entries[old + k]
    free_region(state, old, class_)
    header.start = np.uint32(start)
    header.load = np.uint32(((class_ + 1) << 27) | size)
    return True


@helper
def ask_for_header(state, id_):
    if state.counts[HASHED] != 0:
        id_ = home(state.directory, id_)
    prefetch(state.directory, id_)


@kernel
def append_rows(state, positions, first, pieces):
    """Enter positions[first:] into the lists of their VCRs; return the first not entered (no room) or their number.

    Lists are made and widened first; only then is anything appended, so that a row is in all its lists or in none.
    """
    for r in range(first, positions.size):
        n = decompose(state, np.int64(positions[r]), pieces)
        if state.counts[HASHED] != 0 and 2 * (state.counts[LISTS] + n) > state.directory.size:
            return r
        for q in range(n):
            ask_for_header(state, id_of(state, pieces[q].corner, pieces[q].bit))
        for q in range(n):
            at = open_list(state, id_of(state, pieces[q].corner, pieces[q].bit))
            if not room_for_one(state, at):
                return r
        for q in range(n):
            piece = pieces[q]
            header = state.directory[find_list(state, id_of(state, piece.corner, piece.bit))]
            state.entries[np.int64(header.start) + np.int64(header.load & SIZE)] = piece.entry
            header.load += np.uint32(1)
            state.active[np.int64(piece.corner)] |= np.uint64(1) << np.uint64(piece.bit)
    return positions.size


@helper
def close_list(state, at):
    """Give back the region and the header of a list that has become empty; clear its bit. Later headers may move. O(1)."""
    header = state.directory[at]
    free_region(state, np.int64(header.start), np.int64(header.load >> SIZE_BITS))
    corner = header.id // state.shapes.size
    bit = header.id - corner * state.shapes.size
    state.active[corner] &= ~(np.uint64(1) << np.uint64(bit))
    state.counts[LISTS] -= 1
    header.id, header.load = EMPTY, np.uint32(0)
    if state.counts[HASHED] == 0:
        return
    mask = state.directory.size - 1
    hole, probe = at, at
    while True:
        probe = (probe + 1) & mask
        moved = state.directory[probe]
        if moved.id == EMPTY:
            return
        if ((probe - home(state.directory, moved.id)) & mask) >= ((probe - hole) & mask):
            target = state.directory[hole]
            target.id, target.start, target.load = moved.id, moved.start, moved.load
            moved.id = EMPTY
            hole = probe


@helper
def position_in(entries, start, size, p):
    """Where in the list the position stands, which it does. The mask of a block of 16 vectorises; a plain search does not."""
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


@helper
def take_out(state, p, pieces):
    """Take position p out of the lists of its VCRs; lists that become empty go. O(pieces * length of list / 16)."""
    n = decompose(state, p, pieces)
    # Headers, then entries are asked for ahead: each is a cache miss, and one after the other they are most of the time.
    for q in range(n):
        ask_for_header(state, id_of(state, pieces[q].corner, pieces[q].bit))
    for q in range(n):
        at = find_list(state, id_of(state, pieces[q].corner, pieces[q].bit))
        start = np.int64(state.directory[at].start)
        for k in range(0, np.int64(state.directory[at].load & SIZE), 16):
            prefetch(state.entries, start + k)
    for q in range(n):
        at = find_list(state, id_of(state, pieces[q].corner, pieces[q].bit))
        header = state.directory[at]
        start, size = np.int64(header.start), np.int64(header.load & SIZE)
        k = position_in(state.entries, start, size, np.uint32(p))
        state.entries[start + k] = state.entries[start + size - 1]
        header.load -= np.uint32(1)
        if size == 1:
            close_list(state, at)


@helper
def free_position(state, p):
    counts = state.counts
    counts[GROUPS + group_of(state, p)] -= 1
    counts[LIVE] -= 1
    state.places[p].slot = NONE
    state.places[p].flags = np.uint32(counts[FREE_POSITION])
    counts[FREE_POSITION] = p


@kernel
def remove_positions(state, positions, pieces):
    """Take the rows out of their lists and free their positions."""
    for r in range(positions.size):
        p = np.int64(positions[r])
        take_out(state, p, pieces)
        free_position(state, p)


@kernel
def replace_rows(state, store, slots, positions, pieces):
    """Let positions[i] stand for the row at slots[i] instead of another; return how many must be appended again.

    A row whose cells and flags are the old ones is done; the positions of the others have been taken out of their lists and
    are moved to the front of `positions`.
    """
    moved = 0
    for i in range(slots.size):
        p = np.int64(positions[i])
        place = state.places[p]
        x, y, width, height, flags = place.x, place.y, place.width, place.height, place.flags
        locate(state, store, np.int64(slots[i]), p)
        state.positions[np.int64(slots[i])] = np.uint32(p)
        same = place.x == x and place.y == y and place.width == width and place.height == height
        if same and place.flags == flags:
            continue
        new_x, new_y, new_width, new_height, new_flags = place.x, place.y, place.width, place.height, place.flags
        place.x, place.y, place.width, place.height, place.flags = x, y, width, height, flags
        take_out(state, p, pieces)
        state.counts[GROUPS + group_of(state, p)] -= 1
        place.x, place.y, place.width, place.height = new_x, new_y, new_width, new_height
        place.flags = new_flags
        state.counts[GROUPS + group_of(state, p)] += 1
        positions[moved] = np.uint32(p)
        moved += 1
    return moved


@kernel
def sweep_positions(state, positions):
    """As `remove_positions`, by one walk over all lists: for many rows at once. O(all entries)."""
    for r in range(positions.size):
        free_position(state, np.int64(positions[r]))
    for corner in range(state.active.size):
        bits = state.active[corner]
        while bits != 0:
            bit = trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            at = find_list(state, id_of(state, corner, bit))
            header = state.directory[at]
            start, size = np.int64(header.start), np.int64(header.load & SIZE)
            kept = np.int64(0)
            for k in range(size):
                entry = state.entries[start + k]
                state.entries[start + kept] = entry
                if state.places[np.int64(entry & POSITION)].slot != NONE:
                    kept += 1
            header.load = np.uint32((header.load & ~SIZE) | np.uint32(kept))
            if kept == 0:
                close_list(state, at)


@kernel
def activate_rows(state, positions, pieces):
    """Set the bits of all VCRs that these rows are cut into; return the number of pieces. O(pieces)."""
    total = 0
    for r in range(positions.size):
        n = decompose(state, np.int64(positions[r]), pieces)
        for q in range(n):
            state.active[np.int64(pieces[q].corner)] |= np.uint64(1) << np.uint64(pieces[q].bit)
        total += n
    return total


@kernel
def count_entries(state, positions, pieces):
    """Make a header for every active VCR and count its entries in `load`. The directory has room. O(pieces + corners)."""
    for r in range(positions.size):
        n = decompose(state, np.int64(positions[r]), pieces)
        for q in range(n):
            state.directory[open_list(state, id_of(state, pieces[q].corner, pieces[q].bit))].load += np.uint32(1)


@kernel
def lay_out_lists(state):
    """Give each list a region for what `load` counts, in the order of ids, and empty it. The pool has room. O(corners)."""
    counts = state.counts
    for corner in range(state.active.size):
        bits = state.active[corner]
        while bits != 0:
            bit = trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            header = state.directory[find_list(state, id_of(state, corner, bit))]
            class_ = np.int64(1)
            while (np.int64(1) << (class_ - 1)) < np.int64(header.load):
                class_ += 1
            header.start = np.uint32(counts[POOL])
            header.load = np.uint32(class_ << 27)
            counts[POOL] += np.int64(1) << (class_ - 1)


@kernel
def rehash_lists(old, new):
    """Enter every header of the old table into the new, empty one. O(old)."""
    for i in range(old.size):
        if old[i].id != EMPTY:
            header = new[find_header(new, old[i].id)]
            header.id, header.start, header.load = old[i].id, old[i].start, old[i].load
