"""Putting rows into the planes or files of `postings`, and taking them out. One writer.

Kernels stop at a row for which a pool lacks room and return how far they got.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import (
    ABSENT,
    COUNTED,
    JOINED,
    NARROWS,
    PLAIN,
    SET,
    SIBLING,
    count_bounds,
    max_score,
    part_hi,
    part_lo,
    parts_of,
)
from matchwood.store.kernels.rows import WORDS as VALUES  # that an entry of the store can name
from matchwood.structures.postings.kernels.hulls import widen_hulls
from matchwood.structures.postings.kernels.layout import (
    BLOCK,
    DEAD,
    ENTRY_MASK,
    FILED,
    HAVING,
    IS_FILED,
    KEYED,
    KEYS,
    LACKING,
    LIMIT,
    LIVE,
    MEMBERS,
    NO_SECOND,
    NONE,
    PART,
    PLANES,
    POSITIONS,
    SEVERAL,
    UNKNOWN,
    WHOLE,
    WORDS,
    asks_all,
    begins_at,
    cell_of,
    excludes,
    filter_bit,
    pivot_values,
    place_of,
    values_of,
)


@kernel
def count_mentions(postings, store, slots, first):
    """Count for each value how many rows name it in a predicate that may be a pivot. O(values)."""
    table, counts, entries = postings.table, postings.counts, store.entries
    for i in range(first, slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        if 2 * (counts[KEYS] + VALUES * np.int64(row.size)) > table.size:
            return i
        head = np.nan
        for at in range(np.int64(row.count)):
            entry = entries[start + at]
            values = pivot_values(entries, start, at)
            part, _, width = parts_of(entries, start, at)
            dim = np.int64(entry.dim)
            if not entry.kind & JOINED:
                head = entry.lo if values == 1 else np.nan
            for v in range(values):
                key = part_lo(entries, part, width, v)
                if entry.kind == COUNTED and key == head:
                    continue  # the predicate has named it before
                file = table[place_of(table, dim, key)]
                if not file.used:
                    file.key, file.dim, file.used = key, np.uint32(dim), np.uint32(1)
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
def mentions_of(postings, dim, key):
    """How many rows name a value."""
    file = postings.table[place_of(postings.table, dim, key)]
    return np.int64(file.mentions) if file.used else np.int64(1)


@helper
def choose_pivot(postings, store, slot):
    """The entry, or the value of it, that the fewest rows name, -1 if even these are too many. O(values).

    They are never too many if the row asks for a number of values, of which planes know nothing.
    """
    row, entries = store.rows[slot], store.entries
    start, size = np.int64(row.start), np.int64(row.count)
    best, least = np.int64(-1), postings.counts[LIMIT] + 1
    for at in range(size):
        if entries[start + at].kind == COUNTED and pivot_values(entries, start, at) > 0:
            least = np.int64(1) << 62
    for at in range(size):
        values, every = pivot_values(entries, start, at), asks_all(entries, start, at)
        part, _, width = parts_of(entries, start, at)
        mentions = np.int64(0)
        for v in range(values):
            named = mentions_of(postings, np.int64(entries[start + at].dim), part_lo(entries, part, width, v))
            mentions += named
            if every and named < least:
                best, least = np.int64(at) | ((np.int64(v) + 1) << PART), named
            elif mentions >= least:
                break
        if values > 0 and mentions < least and not every:
            best, least = np.int64(at), mentions
    return best


@kernel
def choose_pivots(postings, store, slots, pivots):
    """pivots[i] = the pivot under whose values the row of slots[i] is filed, -1 if it belongs in the planes."""
    for i in range(slots.size):
        pivots[i] = choose_pivot(postings, store, np.int64(slots[i]))


@kernel
def survey(postings, store, slots, mentions, used, others):
    """What axes are chosen from, of the rows of `slots`; return how many records `others` should have room for. O(values).

    mentions[at] counts the rows that name a value of the table, used[dim] those with a predicate on the dimension. Predicates
    that name other things than few values are listed in `others`, interval by interval.
    """
    entries, table = store.entries, postings.table
    n = np.int64(0)
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        for at in range(np.int64(row.count)):
            entry = entries[start + at]
            if entry.kind & NARROWS:
                continue
            dim = np.int64(entry.dim)
            used[dim] += 1
            if entry.kind & ABSENT:
                continue
            values = pivot_values(entries, start, at)
            part, number, width = parts_of(entries, start, at)
            for v in range(number):
                lo = part_lo(entries, part, width, v)
                if values > 0:
                    mentions[place_of(table, dim, lo)] += 1
                    continue
                if n < others.size:
                    other = others[n]
                    other.dim, other.outside = dim, np.int64(1) if excludes(entry) else np.int64(0)
                    other.lo, other.hi = lo, part_hi(entries, part, width, v)
                n += 1
    return n


@kernel
def place_rows(postings, store, slots, pivots, masks, first):
    """Put the rows of `slots` in; their values have been counted. Return how many are in, fewer if a pool is full.

    pivots[i] is the row's pivot, or UNKNOWN. `masks` is scratch, three words for each axis, all zero. Rows of the planes that
    share a word are put in together. If a pool is full in the midst of them, the next call must go on with the same rows: bits
    and lists of their positions have been written, and are written again.
    """
    i = np.int64(first)
    while i < slots.size:
        if pivot_at(postings, store, slots, pivots, i) >= 0:
            if not file_row(postings, store, np.int64(slots[i]), pivots[i]):
                return i
            i += 1
            continue
        position, end = postings.counts[POSITIONS], i
        last = min((position | 63) + 1, postings.slots.size)
        while end < slots.size and position + end - i < last and pivot_at(postings, store, slots, pivots, end) < 0:
            end += 1
        if end == i:
            return i
        clear_planes(postings, store, slots[i:end], masks)
        for j in range(i, end):
            if not put_row(postings, store, np.int64(slots[j]), masks):
                return j
        i = end
    return slots.size


@helper
def pivot_at(postings, store, slots, pivots, i):
    """The pivot of row i, chosen now if it is unknown."""
    if pivots[i] == UNKNOWN:
        pivots[i] = choose_pivot(postings, store, np.int64(slots[i]))
    return pivots[i]


@helper
def file_row(postings, store, slot, pivot):
    """File a row under the values of its pivot; False, and nothing is changed, if there is no room."""
    row, entries, table, counts = store.rows[slot], store.entries, postings.table, postings.counts
    start = np.int64(row.start)
    part, values, width = values_of(entries, start, pivot)
    dim = np.int64(entries[start + (pivot & ENTRY_MASK)].dim)
    needed = np.int64(0)
    for v in range(values):
        file = table[place_of(table, dim, part_lo(entries, part, width, v))]
        if file.size == file.room:
            needed += max(np.int64(1), 2 * np.int64(file.room))
    if counts[FILED] + needed > postings.filed.size:
        return False
    second, score = choose_second(postings, store, slot, pivot), full_score(store, slot)
    flags = SEVERAL if values > 1 else np.uint16(0)
    if is_whole(store, slot, pivot, second):
        flags |= WHOLE
    for v in range(values):
        file = table[place_of(table, dim, part_lo(entries, part, width, v))]
        if file.size == file.room:
            room = max(np.int64(1), 2 * np.int64(file.room))
            begin = counts[FILED]
            for j in range(np.int64(file.size)):
                postings.filed[begin + j] = postings.filed[np.int64(file.start) + j]
            counts[FILED] += room
            file.start, file.room = np.uint32(begin), np.uint32(room)
        posting = postings.filed[np.int64(file.start) + np.int64(file.size)]
        file.size += np.uint32(1)
        posting.slot, posting.flags, posting.score = np.uint32(slot), flags, score
        posting.dim = NO_SECOND
        if second >= 0:
            write_second(posting, entries, start, second)
    postings.homes[slot] = IS_FILED | np.uint32(pivot)
    return True


@helper
def write_second(posting, entries, start, second):
    """Write what is tested before the row of a posting is read: a key, or the hull of an entry."""
    entry = entries[start + (second & ENTRY_MASK)]
    posting.dim, posting.lo, posting.hi = entry.dim, entry.lo, entry.hi
    if second >> PART or pivot_values(entries, start, second) == 1:
        first, _, width = values_of(entries, start, second)
        posting.lo = part_lo(entries, first, width, 0)
        posting.hi = np.float64(filter_bit(np.int64(entry.dim), posting.lo))
        posting.flags |= KEYED


@helper
def is_whole(store, slot, pivot, second):
    """Are the values of the pivot and what is tested second all that the row asks for?"""
    row, entries = store.rows[slot], store.entries
    start = np.int64(row.start)
    if row.flags & SIBLING:
        return False
    if row.count == 2 and entries[start + 1].kind == COUNTED:
        return second >= 0 and asks_for_two(entries, start)
    if entries[start + (pivot & ENTRY_MASK)].kind & ~SET:
        return False
    if second < 0:
        return row.count == 1
    return row.count == 2 and entries[start + (second & ENTRY_MASK)].kind == PLAIN


@helper
def asks_for_two(entries, start):
    """Does a predicate of two entries ask for two values, one of which is its interval, and for nothing else?"""
    head = entries[start]
    if head.kind != PLAIN or head.lo != head.hi or pivot_values(entries, start, 1) != 2:
        return False
    if not asks_all(entries, start, 1) or count_bounds(entries, start, 1)[1] != np.inf:
        return False
    first, _, width = parts_of(entries, start, 1)
    return head.lo == part_lo(entries, first, width, 0) or head.lo == part_lo(entries, first, width, 1)


@helper
def choose_second(postings, store, slot, pivot):
    """What is tested before a filed row is read, as a pivot is given: of the fewest mentions, else any interval; -1 for none.

    Never the one value of the pivot again.
    """
    row, entries = store.rows[slot], store.entries
    start, pivot_at = np.int64(row.start), pivot & ENTRY_MASK
    first, values, width = values_of(entries, start, pivot)
    pivot_dim = entries[start + pivot_at].dim
    pivot_key = part_lo(entries, first, width, 0) if values == 1 else np.nan
    best, least = np.int64(-1), np.int64(1) << 62
    for at in range(np.int64(row.count)):
        entry = entries[start + at]
        values, every = pivot_values(entries, start, at), asks_all(entries, start, at)
        if every or values == 1:
            first, _, width = parts_of(entries, start, at)
            for v in range(values):
                key = part_lo(entries, first, width, v)
                mentions = mentions_of(postings, np.int64(entry.dim), key)
                if mentions < least and not (key == pivot_key and entry.dim == pivot_dim):
                    best, least = np.int64(at) | (((np.int64(v) + 1) << PART) if every else np.int64(0)), mentions
        elif best < 0 and at != pivot_at and not entry.kind & (ABSENT | NARROWS) and not excludes(entry):
            best, least = np.int64(at), np.int64(1) << 40
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
def clear_planes(postings, store, slots, masks):
    """Take the next positions, which are in one word, from all planes of the axes on which their rows have a predicate.

    Rows with NOT IN stay in the planes of cells. O(entries + planes of these axes).
    """
    axes, entries, first = postings.axes, store.entries, postings.counts[POSITIONS]
    for number in range(axes.size):
        masks[3 * number] = masks[3 * number + 1] = np.uint64(0)
    for i in range(slots.size):
        row, bit = store.rows[np.int64(slots[i])], np.uint64(1) << np.uint64((first + i) & 63)
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            entry = entries[at]
            number = axis_at(postings, entry)
            if number >= 0:
                if not entry.kind & ABSENT:
                    masks[3 * number] |= bit
                if not excludes(entry):
                    masks[3 * number + 1] |= bit
    for number in range(axes.size):
        axis, lacking, cells = axes[number], ~masks[3 * number], ~masks[3 * number + 1]
        postings.bits[word_at(postings, first, axis.plane + LACKING)] &= lacking
        if masks[3 * number + 1]:
            at = word_at(postings, first, axis.plane + HAVING)
            for _ in range(HAVING, axis.planes):
                postings.bits[at] &= cells
                at += WORDS


@helper
def axis_at(postings, entry):
    """The number of the axis that an entry is tested on, -1 if it is on none."""
    dim = np.int64(entry.dim)
    if dim >= postings.axis_of.size or entry.kind & NARROWS:
        return np.int64(-1)
    return np.int64(postings.axis_of[dim])


@helper
def note(postings, list_, position):
    """Append a position to a list, once; False if the pool is full."""
    members, size = postings.members, np.int64(list_.size)
    if size > 0 and np.int64(members[np.int64(list_.start) + size - 1]) == position:
        return True
    if list_.size == list_.room:
        begin, room = postings.counts[MEMBERS], max(np.int64(2), 2 * np.int64(list_.room))
        if begin + room > members.size:
            return False
        for j in range(size):
            members[begin + j] = members[np.int64(list_.start) + j]
        postings.counts[MEMBERS] += room
        list_.start, list_.room = np.uint32(begin), np.uint32(room)
    members[np.int64(list_.start) + size] = np.uint32(position)
    list_.size += np.uint32(1)
    return True


@helper
def mark_cells(postings, number, first, last, position, admitted):
    """Admit a position to the cells first..last of an axis, or take it from them; False if the pool is full."""
    base = postings.axes[number].cut + number
    for cell in range(base + first, base + last + 1):
        plane = np.int64(postings.plane_of[cell])
        if plane >= 0:
            write_bit(postings, position, plane, admitted)
        elif not note(postings, postings.lists[2 * cell + (0 if admitted else 1)], position):
            return False
    return True


@helper
def mark_entry(postings, store, start, at, number, position):
    """Write an entry into the planes and lists of its axis; return (was there room?, is the test exact?). O(cells)."""
    entries, axis = store.entries, postings.axes[number]
    outside = excludes(entries[start + at])
    first, parts, width = parts_of(entries, start, at)
    exact = True
    for part in range(parts):
        lo, hi = part_lo(entries, first, width, part), part_hi(entries, first, width, part)
        above = np.nextafter(hi, np.inf)
        low = cell_of(postings, axis, lo)
        high = low if lo == hi else cell_of(postings, axis, hi)
        ends = hi == np.inf or begins_at(postings, axis, high + 1, above)
        exact = exact and ends and begins_at(postings, axis, low, lo)
        if not outside:
            if not mark_cells(postings, number, low, high, position, True):
                return False, False
        elif part + 1 < parts:  # the cells that lie in the gap as a whole
            after = cell_of(postings, axis, above)
            if not begins_at(postings, axis, after, above):
                after += 1
            before = cell_of(postings, axis, part_lo(entries, first, width, part + 1)) - 1
            if not mark_cells(postings, number, after, before, position, False):
                return False, False
            axis.excludes = np.int64(1)
    return True, exact


@helper
def excludes_only(store, start, at):
    """Does the entry exclude keys? The intervals of its predicate lack them, so for a single key it adds nothing."""
    return store.entries[start + at].kind == COUNTED and count_bounds(store.entries, start, at)[1] == 0.0


@helper
def note_exclusion(postings, entry):
    """Mark the axis of an entry: on it, exact positions are exact for single keys only."""
    dim = np.int64(entry.dim)
    number = np.int64(postings.axis_of[dim]) if dim < postings.axis_of.size else np.int64(-1)
    if number >= 0:
        postings.axes[number].excludes = np.int64(1)


@helper
def put_row(postings, store, slot, masks):
    """Give a row the next position, of which the planes have been cleared; False if there is no room. O(its cells)."""
    counts, row = postings.counts, store.rows[slot]
    position, start = counts[POSITIONS], np.int64(row.start)
    exact, excluding = not row.flags & SIBLING, False
    for at in range(np.int64(row.count)):
        entry = store.entries[start + at]
        if excludes_only(store, start, at):
            note_exclusion(postings, entry)
            excluding = True
            continue
        excluding |= excludes(entry) != 0
        number = axis_at(postings, entry)
        if number < 0:
            exact = False
            continue
        if masks[3 * number + 2] == np.uint64(position + 1):
            exact = False  # a second entry of the row on this axis: the planes admit what either of them does
        masks[3 * number + 2] = np.uint64(position + 1)
        if not entry.kind & ABSENT:
            done, is_exact = mark_entry(postings, store, start, at, number, position)
            exact = exact and is_exact
            if not done:
                return False
    postings.hits[position].id, postings.hits[position].score = row.id, full_score(store, slot)
    postings.slots[position] = np.uint32(slot)
    word, bit = position >> 6, np.uint64(1) << np.uint64(position & 63)
    postings.exact[word] = postings.exact[word] | bit if exact else postings.exact[word] & ~bit
    for_lists = postings.exact_for_lists[word]
    postings.exact_for_lists[word] = for_lists | bit if exact and not excluding else for_lists & ~bit
    block, bound = position // BLOCK, bound_of(store, slot)
    if not bound < postings.bounds[block]:  # NaN stays
        postings.bounds[block] = bound
    widen_hulls(postings, store, block, slot)
    write_bit(postings, position, LIVE, True)
    postings.homes[slot] = np.uint32(position)
    counts[POSITIONS] += 1
    return True


@helper
def bound_of(store, slot):
    """An upper bound of the row's score if no weight of the event is above 1."""
    return store.ceilings[slot].full if store.ceilings.size > 0 else max_score(store.rows[slot])


@helper
def full_score(store, slot):
    """The score of a row if every predicate holds and every weight of the event is 1, added up as `score_row` does."""
    row = store.rows[slot]
    score = row.priority
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        if not store.entries[at].kind & JOINED:
            score += store.entries[at].weight
    return score


@kernel
def rank_rows(postings, store, slots, others):
    """Take over the scores of rows whose priorities have changed; return how many rows of the planes must be put in again.

    Those, in `others`, may score more than their block. O(entries, and postings of the values of filed rows).
    """
    n = np.int64(0)
    for i in range(slots.size):
        slot = np.int64(slots[i])
        home, bound = postings.homes[slot], bound_of(store, slot)
        if home & IS_FILED:
            rank_filed(postings, store, slot, np.int64(home & ~IS_FILED))
        elif bound <= postings.bounds[np.int64(home) // BLOCK]:
            postings.hits[np.int64(home)].score = full_score(store, slot)
        else:
            others[n] = slots[i]
            n += 1
    return n


@helper
def rank_filed(postings, store, slot, pivot):
    """Write the score of a filed row into its postings."""
    entries, table, start = store.entries, postings.table, np.int64(store.rows[slot].start)
    part, values, width = values_of(entries, start, pivot)
    dim = np.int64(entries[start + (pivot & ENTRY_MASK)].dim)
    for v in range(values):
        file = table[place_of(table, dim, part_lo(entries, part, width, v))]
        postings.filed[posting_of(postings, file, slot)].score = full_score(store, slot)


@helper
def posting_of(postings, file, slot):
    """Where a file has the posting of a row, which is there. O(file)."""
    at = np.int64(file.start)
    while np.int64(postings.filed[at].slot) != slot:
        at += 1
    return at


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
        part, values, width = values_of(entries, start, pivot)
        dim = np.int64(entries[start + (pivot & ENTRY_MASK)].dim)
        for v in range(values):
            file = table[place_of(table, dim, part_lo(entries, part, width, v))]
            at = posting_of(postings, file, slot)
            file.size -= np.uint32(1)
            postings.filed[at] = postings.filed[np.int64(file.start) + np.int64(file.size)]
