"""Putting rows into the planes or files of `postings`, and taking them out. One writer.

Kernels stop before a row for which a pool may lack room and return how far they got.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import ABSENT, COUNTED, JOINED, NARROWS, SIBLING, max_score
from matchwood.structures.postings.kernels.layout import (
    BLOCK,
    DEAD,
    EXACT,
    FILED,
    HAVING,
    IS_FILED,
    KEYS,
    LACKING,
    LIMIT,
    LIVE,
    MEMBERS,
    NO_SECOND,
    NONE,
    PLANES,
    POSITIONS,
    WORDS,
    begins_at,
    cell_of,
    excludes,
    parts_of,
    pivot_values,
    place_of,
)


@kernel
def count_mentions(postings, store, slots, first):
    """Count for each value how many rows name it in a predicate that may be a pivot. O(values)."""
    table, counts, entries = postings.table, postings.counts, store.entries
    for i in range(first, slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        if 2 * (counts[KEYS] + np.int64(row.size)) > table.size:
            return i
        for at in range(np.int64(row.count)):
            values = pivot_values(entries, start, at)
            part, _ = parts_of(entries, start, at)
            dim = np.int64(entries[start + at].dim)
            for v in range(part, part + values):
                file = table[place_of(table, dim, entries[v].lo)]
                if not file.used:
                    file.key, file.dim, file.used = entries[v].lo, np.uint32(dim), np.uint32(1)
                    file.start, file.size, file.room, file.mentions = NONE, np.uint32(0), np.uint32(0), np.uint32(0)
                    counts[KEYS] += 1
                file.mentions += np.uint32(1)
    return slots.size


@kernel
def rehash(old, table):
    """Enter the files of a table into the new, empty one. O(cells)."""
    for i in range(old.size):
        if old[i].used:
            table[place_of(table, np.int64(old[i].dim), old[i].key)] = old[i]


@helper
def choose_pivot(postings, store, slot):
    """The entry whose values the fewest rows name, -1 if even these are too many. O(values)."""
    row, entries, table = store.rows[slot], store.entries, postings.table
    start = np.int64(row.start)
    best, least = np.int64(-1), postings.counts[LIMIT] + 1
    for at in range(np.int64(row.count)):
        values = pivot_values(entries, start, at)
        if values == 0:
            continue
        part, _ = parts_of(entries, start, at)
        mentions = np.int64(0)
        for v in range(part, part + values):
            file = table[place_of(table, np.int64(entries[start + at].dim), entries[v].lo)]
            mentions += np.int64(file.mentions) if file.used else np.int64(1)
        if mentions < least:
            best, least = np.int64(at), mentions
    return best


@kernel
def choose_pivots(postings, store, slots, pivots):
    """pivots[i] = the entry under whose values the row of slots[i] is filed, -1 if it belongs in the planes."""
    for i in range(slots.size):
        pivots[i] = choose_pivot(postings, store, np.int64(slots[i]))


@kernel
def place_rows(postings, store, slots, first):
    """Put the rows of `slots` in; their values have been counted. Return how many are in, fewer if a pool is full."""
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        pivot = choose_pivot(postings, store, slot)
        if pivot >= 0:
            if not file_row(postings, store, slot, pivot):
                return i
        elif not put_row(postings, store, slot):
            return i
    return slots.size


@helper
def file_row(postings, store, slot, pivot):
    """File a row under the values of its pivot; False, and nothing is changed, if there is no room."""
    row, entries, table, counts = store.rows[slot], store.entries, postings.table, postings.counts
    start = np.int64(row.start)
    part, values = parts_of(entries, start, pivot)
    dim = np.int64(entries[start + pivot].dim)
    needed = np.int64(0)
    for v in range(part, part + values):
        file = table[place_of(table, dim, entries[v].lo)]
        if file.size == file.room:
            needed += max(np.int64(1), 2 * np.int64(file.room))
    if counts[FILED] + needed > postings.filed.size:
        return False
    second = second_entry(postings, store, slot, pivot)
    for v in range(part, part + values):
        file = table[place_of(table, dim, entries[v].lo)]
        if file.size == file.room:
            room = max(np.int64(1), 2 * np.int64(file.room))
            begin = counts[FILED]
            for j in range(np.int64(file.size)):
                postings.filed[begin + j] = postings.filed[np.int64(file.start) + j]
            counts[FILED] += room
            file.start, file.room = np.uint32(begin), np.uint32(room)
        posting = postings.filed[np.int64(file.start) + np.int64(file.size)]
        file.size += np.uint32(1)
        posting.slot, posting.several, posting.bound = np.uint32(slot), np.uint16(values > 1), max_score(row)
        posting.dim = NO_SECOND
        if second >= 0:
            entry = entries[start + second]
            posting.dim, posting.lo, posting.hi = entry.dim, entry.lo, entry.hi
    postings.homes[slot] = IS_FILED | np.uint32(pivot)
    return True


@helper
def second_entry(postings, store, slot, pivot):
    """The entry that is tested before a filed row is read: that of the fewest mentions, else any interval; -1 for none."""
    row, entries, table = store.rows[slot], store.entries, postings.table
    start = np.int64(row.start)
    best, least = np.int64(-1), np.int64(1) << 62
    for at in range(np.int64(row.count)):
        entry = entries[start + at]
        if at == pivot or entry.kind & (ABSENT | NARROWS) or excludes(entry):
            continue
        mentions = np.int64(1) << 40
        if pivot_values(entries, start, at) == 1:
            mentions = np.int64(table[place_of(table, np.int64(entry.dim), entry.lo)].mentions)
        if mentions < least:
            best, least = np.int64(at), mentions
    return best


@helper
def word_at(postings, position, plane):
    """Where the word of a position in a plane is."""
    block = position // BLOCK
    return (block * postings.counts[PLANES] + plane) * WORDS + ((position >> 6) & (WORDS - 1))


@helper
def write_bit(postings, position, plane, value):
    at, bit = word_at(postings, position, plane), np.uint64(1) << np.uint64(position & 63)
    postings.bits[at] = postings.bits[at] | bit if value else postings.bits[at] & ~bit


@helper
def note(postings, list_, position, is_trial):
    """Append a position to a list, once; return the room of the pool that this takes. A trial changes nothing."""
    members, size = postings.members, np.int64(list_.size)
    if size > 0 and np.int64(members[np.int64(list_.start) + size - 1]) == position:
        return np.int64(0)
    taken = np.int64(0)
    if list_.size == list_.room:
        taken = max(np.int64(2), 2 * np.int64(list_.room))
        if not is_trial:
            begin = postings.counts[MEMBERS]
            for j in range(size):
                members[begin + j] = members[np.int64(list_.start) + j]
            postings.counts[MEMBERS] += taken
            list_.start, list_.room = np.uint32(begin), np.uint32(taken)
    if not is_trial:
        members[np.int64(list_.start) + size] = np.uint32(position)
        list_.size += np.uint32(1)
    return taken


@helper
def mark_cells(postings, number, first, last, position, admitted, is_trial):
    """Admit a position to the cells first..last of an axis, or take it from them; return the room of the pool that this takes."""
    taken = np.int64(0)
    base = postings.axes[number].cut + number
    for cell in range(base + first, base + last + 1):
        plane = np.int64(postings.plane_of[cell])
        if plane < 0:
            taken += note(postings, postings.lists[2 * cell + (0 if admitted else 1)], position, is_trial)
        elif not is_trial:
            write_bit(postings, position, plane, admitted)
    return taken


@helper
def mark_row(postings, store, slot, position, is_trial):
    """Write a row into the planes and lists; return (room of the pool that this takes, is every test exact?)."""
    row, entries = store.rows[slot], store.entries
    start = np.int64(row.start)
    taken, exact = np.int64(0), True
    for at in range(np.int64(row.count)):
        entry = entries[start + at]
        dim = np.int64(entry.dim)
        number = np.int64(postings.axis_of[dim]) if dim < postings.axis_of.size else np.int64(-1)
        if entry.kind == COUNTED and number >= 0 and entries[start + np.int64(entry.more)].hi == 0.0:
            if (
                not is_trial
            ):  # what is excluded is not among the intervals of the predicate, which decide for a single key
                postings.axes[number].excludes = np.int64(1)
            continue
        if number < 0 or entry.kind & NARROWS:
            exact = False
            continue
        axis = postings.axes[number]
        outside = excludes(entry)
        if not is_trial:
            if entry.kind != ABSENT:
                write_bit(postings, position, axis.plane + LACKING, False)
            if not outside:
                for plane in range(axis.plane + HAVING, axis.plane + axis.planes):
                    write_bit(postings, position, plane, False)
        if entry.kind == ABSENT:
            continue
        first, number_of_parts = parts_of(entries, start, at)
        for part in range(first, first + number_of_parts):
            lo, above = entries[part].lo, np.nextafter(entries[part].hi, np.inf)
            low, high = cell_of(postings, axis, lo), cell_of(postings, axis, entries[part].hi)
            ends = entries[part].hi == np.inf or begins_at(postings, axis, high + 1, above)
            exact = exact and ends and begins_at(postings, axis, low, lo)
            if not outside:
                taken += mark_cells(postings, number, low, high, position, True, is_trial)
            elif part + 1 < first + number_of_parts:  # the cells that lie in the gap as a whole
                after = cell_of(postings, axis, above)
                if not begins_at(postings, axis, after, above):
                    after += 1
                before = cell_of(postings, axis, entries[part + 1].lo) - 1
                taken += mark_cells(postings, number, after, before, position, False, is_trial)
                if not is_trial:
                    axis.excludes = np.int64(1)
    return taken, exact


@helper
def put_row(postings, store, slot):
    """Give a row the next position; False, and nothing is changed, if there is no room. O(its cells, and planes of its axes)."""
    counts, row = postings.counts, store.rows[slot]
    position = counts[POSITIONS]
    if position >= postings.slots.size:
        return False
    taken, exact = mark_row(postings, store, slot, position, True)
    if counts[MEMBERS] + taken > postings.members.size:
        return False
    mark_row(postings, store, slot, position, False)
    score = row.priority
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        if not store.entries[at].kind & JOINED:
            score += store.entries[at].weight
    postings.ids[position], postings.scores[position] = row.id, score
    postings.slots[position] = np.uint32(slot)
    postings.flags[position] = EXACT if exact and not row.flags & SIBLING else np.uint8(0)
    block, bound = position // BLOCK, max_score(row)
    if not bound < postings.bounds[block]:  # NaN stays
        postings.bounds[block] = bound
    write_bit(postings, position, LIVE, True)
    postings.homes[slot] = np.uint32(position)
    counts[POSITIONS] += 1
    return True


@kernel
def remove_rows(postings, store, slots):
    """Take the rows of `slots` out, which the store still has. O(postings of their values)."""
    entries, table = store.entries, postings.table
    for i in range(slots.size):
        slot = np.int64(slots[i])
        home = postings.homes[slot]
        postings.homes[slot] = NONE
        if not home & IS_FILED:
            write_bit(postings, np.int64(home), LIVE, False)
            postings.counts[DEAD] += 1
            continue
        start, pivot = np.int64(store.rows[slot].start), np.int64(home & ~IS_FILED)
        part, values = parts_of(entries, start, pivot)
        for v in range(part, part + values):
            file = table[place_of(table, np.int64(entries[start + pivot].dim), entries[v].lo)]
            at = np.int64(file.start)
            while np.int64(postings.filed[at].slot) != slot:
                at += 1
            file.size -= np.uint32(1)
            postings.filed[at] = postings.filed[np.int64(file.start) + np.int64(file.size)]
