"""Live events: kept compactly, and found by id. Every structure of events places what stands here; `kernels.values` reads it.

Layout   events[slot] (12 B) -> a region of `words`, in whole cache lines:
             id, until, mask, about (slot, 29 bits of `count` or `tail`, flags), then the values of a plain event
         `node` and `position` say where the structure has put it; WAITING: nowhere yet. A slot is free where `node` is none.
         It keeps its region, for an event of as many lines; for another that goes to the free ones of its class, chained
         through their first word.
         free[: counts[FREE_SLOTS]] lists the free slots, the next to be given out last.
         mask: the dimensions that the event has; the value of one stands behind as many others as bits are below it. Where an
         event takes an odd number of lines, three say, the last of them stands elsewhere, at line `tail`: regions are read in
         pairs of lines, which memory brings together.
SPREAD   every dimension up to the event's last one has a place, and a value (as a number without sign in the same order,
         `ordered`) stands there in halves of 32 bits: the upper ones of all places, then the lower ones. So a row is compared
         with all upper halves side by side, and mostly needs no more. For events of dimensions below 24 that take no more
         lines that way: their upper halves and what stands before them fill two. counts[ROUGH] has a bit for every dimension
         in which one of them had a lower half that is not zero, as no whole number up to 2^20 has and no code of a string: in
         the others an upper half that equals a row's end tells all.
LISTED   a dimension of 64 or more: n keys as they are (`keys`, the same memory) and their n dimensions, ascending. `count`: n.
LOOSE    (and LISTED): ranges, lists or weights; n upper ends and n weights come after that.
Table    `store.kernels.id_table`, event id -> its region: a region begins a cache line, so its number is a multiple of eight, and
         with the id.
Invariant  every live event is in the table, once (`EventStore.check`). Regions are of one line or an even number, and single ones
         are taken from the end of the pool by two: so all others begin a pair of lines, where the pool does.

With the record of an event, its dimensions and its keys in three arrays, a candidate cost five cache lines instead of three; with
all three in one piece a new subscription waited a seventh longer for its events than with two and one.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import claim, prefetch
from matchwood.jit.state import State, array
from matchwood.store.kernels.id_table import (
    NONE,
    cell_of,
    enter,
    find,
    forget,
    home,
    number_in,
    prefetch_bearer,
    search,
)
from matchwood.store.kernels.rows import AHEAD, EXACT_CLASSES, class_size, size_class
from matchwood.structures.live.kernels.halves import ordered
from matchwood.structures.mo_tree.kernels.layout import LINE, ONE
from matchwood.structures.mo_tree.kernels.planes import count_ones

EVENT = np.dtype([("start", "u4"), ("node", "u4"), ("position", "u4")])
FREE = np.int64(-1)
WAITING = np.uint32(0xFFFFFFFE)
WORD_SHIFT = 0  # the number of an event in the table is the place of its id in `words`

# words of a region before its values
ID, UNTIL, MASK, ABOUT, HEAD = 0, 1, 2, 3, 4
MASKED, PLACED = 64, 24  # dimensions that a mask can name, and those that a SPREAD event can have
HALVES = 2 * LINE  # that a line has room for
LISTED, LOOSE, SPREAD = np.uint64(1), np.uint64(2), np.uint64(4)
NO_DIMENSION = np.uint16(0xFFFF)  # an event whose first one it is would be kept as LOOSE
FLAGS = np.uint64(61)  # where they stand in `about`

# places in `counts`
SLOTS, LIVE, FREE_SLOTS, KEYS, CURSOR, MOST, ROUGH = 0, 1, 2, 3, 4, 5, 6
REGIONS = 8
COUNTS = REGIONS + EXACT_CLASSES + 1 + 32


class Live(State):
    """The state of the kept events, as kernels see it."""

    events: np.ndarray = array(EVENT)  # EVENT
    keys: np.ndarray = array(np.float64)  # float64
    words: np.ndarray = array(np.uint64)  # uint64, the memory of `keys`
    halves: np.ndarray = array(np.uint32)  # uint32, the same
    table: np.ndarray = array(np.uint32)  # uint32, a power of two long
    free: np.ndarray = array(np.uint32)  # uint32, as long as `events`
    counts: np.ndarray = array(np.int64)  # int64


@helper
def id_at(live, start):
    return np.int64(live.words[start])


@helper
def slot_at(live, start):
    return np.int64(live.words[start + ABOUT] & np.uint64(0xFFFFFFFF))


@helper
def field_at(live, start):
    return np.int64((live.words[start + ABOUT] >> np.uint64(32)) & np.uint64(0x1FFFFFFF))


@helper
def flags_at(live, start):
    return live.words[start + ABOUT] >> FLAGS


@helper
def count_at(live, start):
    """How many values the event has, a list counted by its parts."""
    return field_at(live, start) if flags_at(live, start) & LISTED else count_ones(mask_at(live, start))


@helper
def mask_at(live, start):
    """The dimensions of a plain event."""
    return live.words[start + MASK]


@helper
def places_at(live, start):
    """How many places a plain event has."""
    mask = mask_at(live, start)
    if flags_at(live, start) & SPREAD:
        for shift in (1, 2, 4, 8, 16):
            mask |= mask >> np.uint64(shift)
    return count_ones(mask)


@helper
def all_lines(n):
    """How many lines a plain event of n places takes."""
    return (2 * HEAD + 2 * n + HALVES - 1) // HALVES


@helper
def lines_for(flags, n):
    """How many lines the region of an event of n places has, and whether it has one more elsewhere."""
    if flags & LISTED:
        runs = np.int64(4) if flags & LOOSE else np.int64(2)
        lines = (HEAD + runs * n + LINE - 1) // LINE
        return (lines if lines == 1 else (lines + 1) & -2), False
    lines = all_lines(n)
    parted = lines > 1 and lines & 1 == 1
    return lines - np.int64(parted), parted


@helper
def lines_at(live, start):
    """The same of the event in a region, or of the last of a free slot."""
    flags = flags_at(live, start)
    return lines_for(flags, field_at(live, start) if flags & LISTED else places_at(live, start))


@helper
def lower_halves(start, n, tail):
    """How many lower halves of a SPREAD event of n places stand in its region; from where on those, from where on the others (as
    if all stood there)."""
    lines, _ = lines_for(SPREAD, n)
    here = min(n, HALVES * lines - 2 * HEAD - n)
    return here, 2 * (start + HEAD) + n, HALVES * tail - here


@helper
def whole_values(start, n, tail):
    """The same of the values of another plain event."""
    lines, _ = lines_for(np.uint64(0), n)
    here = LINE * lines - HEAD
    return here, start + HEAD, LINE * tail - here


@helper
def slot_of(live, id_):
    """Where the event is kept, or none."""
    cell = live.table[find(live.table, live.words, WORD_SHIFT, id_)]
    return np.int64(NONE) if cell == NONE else slot_at(live, number_in(cell))


@helper
def prefetch_id(live, ids, i):
    """Ask for the cell of an id that comes soon, and for the event that may stand in the cell of one that comes sooner."""
    last = ids.size - 1
    prefetch(live.table, home(live.table, ids[min(i + 2 * AHEAD, last)]))
    prefetch_bearer(live.table, live.words, WORD_SHIFT, ids[min(i + AHEAD, last)])


@kernel
def enter_all(live, table):
    """Enter every live event into the new, empty table. O(slots)."""
    for slot in range(live.counts[SLOTS]):
        if live.events[slot].node != NONE:
            start = np.int64(live.events[slot].start)
            enter(table, id_at(live, start), start)


@kernel
def slots_of_ids(live, ids, slots):
    """slots[i] = where event ids[i] is kept, or none."""
    for i in range(ids.size):
        prefetch_id(live, ids, i)
        slots[i] = np.uint32(slot_of(live, ids[i]))


@helper
def form_of(events, e):
    """How event e must be written: its flags, see the module's text, and how many places it needs. O(entries)."""
    begin, end = np.uint64(events.offsets[e]), np.uint64(events.offsets[e + 1])  # signed places would become gathers
    loose = False
    most, before = np.uint16(0), NO_DIMENSION
    for i in range(begin, end):
        dim = events.dims[i]
        loose |= (events.lo[i] != events.hi[i]) | (events.weight[i] != 1.0) | (dim == before)
        most, before = max(most, dim), dim
    n = np.int64(end - begin)
    if loose:
        return LISTED | LOOSE, n
    if most >= MASKED:
        return LISTED, n
    width = np.int64(most) + 1
    if most < PLACED and all_lines(width) == all_lines(n):
        return SPREAD, width if n > 0 else n
    return np.uint64(0), n


@helper
def write_spread(live, events, e, start, n):
    """Write the values of a SPREAD event of n places, and note which are rough; return its mask. O(entries)."""
    begin, end, halves = np.uint64(events.offsets[e]), np.uint64(events.offsets[e + 1]), live.halves
    few, near, far = lower_halves(start, n, field_at(live, start))
    here, near, far, upper = np.uint64(few), np.uint64(near), np.uint64(far), np.uint64(2 * (start + HEAD))
    mask = rough = np.uint64(0)
    for i in range(begin, end):
        dim, number = np.uint64(events.dims[i]), ordered(events.lo[i])
        halves[upper + dim] = np.uint32(number >> np.uint64(32))
        halves[(near if dim < here else far) + dim] = np.uint32(number)
        mask |= ONE << dim
        rough |= np.uint64(np.uint32(number) != 0) << dim
    live.counts[ROUGH] |= np.int64(rough)
    return mask


@helper
def write_masked(live, events, e, start, n):
    """Write the values of another plain event; return its mask. O(entries)."""
    begin, end = events.offsets[e], events.offsets[e + 1]
    mask = np.uint64(0)
    for i in range(begin, end):
        mask |= ONE << np.uint64(events.dims[i])
    here, near, far = whole_values(start, n, field_at(live, start))
    for i in range(begin, end):
        at = count_ones(mask & ((ONE << np.uint64(events.dims[i])) - ONE))
        live.keys[(near if at < here else far) + at] = events.lo[i]
    return mask


@helper
def write_listed(live, events, e, first, loose):
    """Write values and dimensions by rising dimension, the parts of a list in their order."""
    begin = events.offsets[e]
    n = events.offsets[e + 1] - begin
    keys = live.keys
    runs = np.int64(4) if loose else np.int64(2)
    for i in range(n):
        dim = np.float64(events.dims[begin + i])
        at = first + i
        while at > first and keys[at - 1 + n] > dim:
            for run in range(runs):
                keys[at + run * n] = keys[at - 1 + run * n]
            at -= 1
        keys[at] = events.lo[begin + i]
        keys[at + n] = dim
        if loose:
            keys[at + 2 * n] = events.hi[begin + i]
            keys[at + 3 * n] = events.weight[begin + i]


@helper
def prefetch_free(live, free, size):
    """Ask for the tail of a slot that is given out soon, the region of one that is later, and the slot of one later still."""
    prefetch(live.events, np.int64(live.free[max(free - 1 - 2 * AHEAD, 0)]))
    start = np.int64(live.events[np.int64(live.free[max(free - 1 - AHEAD, 0)])].start)
    for line in range(0, size, LINE):
        prefetch(live.words, start + line)
    start = np.int64(live.events[np.int64(live.free[max(free - 1 - AHEAD // 2, 0)])].start)
    prefetch(live.words, LINE * field_at(live, start))


@helper
def take_region(live, class_):
    """A region of that class, from its free list or behind the last."""
    counts = live.counts
    start = counts[REGIONS + class_]
    if start != FREE:
        counts[REGIONS + class_] = np.int64(live.words[start])
        return start
    start = counts[KEYS]
    counts[KEYS] += LINE * class_size(class_)
    if class_ == 1:
        counts[KEYS] += LINE
        give_back(live, start + LINE, 1)
    return start


@helper
def give_back(live, start, class_):
    """Put a region into the free list of its class."""
    live.words[start] = np.uint64(live.counts[REGIONS + class_])
    live.counts[REGIONS + class_] = start


@helper
def has_room(live, class_, parted):
    """Can a region of that class be taken, and a tail?"""
    counts = live.counts
    # a line more than the region: two are read of every plain event
    if counts[KEYS] + LINE * (class_size(class_) + 2) < live.keys.size:
        return True
    return counts[REGIONS + class_] != FREE and (not parted or counts[REGIONS + 1] != FREE)


@helper
def take_room(live, n, flags):
    """A slot with a region for an event of n places, and `about` written there; -1 (and nothing is done) if a pool is full."""
    counts = live.counts
    lines, parted = lines_for(flags, n)
    class_ = size_class(lines)
    free = counts[FREE_SLOTS]
    fresh = free == 0
    start, tail = np.int64(0), np.int64(0)
    fits = False
    if fresh:
        slot = counts[SLOTS]
    else:
        prefetch_free(live, free, LINE * lines)
        slot = np.int64(live.free[free - 1])
        start = np.int64(live.events[slot].start)
        held, held_parted = lines_at(live, start)
        tail = field_at(live, start)
        fits = size_class(held) == class_ and held_parted == parted
        if not fits:
            if not has_room(live, class_, parted):
                return np.int64(-1)
            give_back(live, start, size_class(held))
            if held_parted:
                give_back(live, LINE * tail, 1)
        counts[FREE_SLOTS] -= 1
    if fresh:
        if slot == live.events.size or not has_room(live, class_, parted):
            return np.int64(-1)
        counts[SLOTS] += 1
    if not fits:
        start = take_region(live, class_)
        tail = take_region(live, 1) // LINE if parted else np.int64(0)
        live.events[slot].start = np.uint32(start)
    field = n if flags & LISTED else tail
    live.words[start + ABOUT] = np.uint64(slot) | np.uint64(field) << np.uint64(32) | flags << FLAGS
    return slot


@helper
def keep_event(live, events, e, ids, until, flags, n):
    """Keep event e, of that form; return its slot, or -1 (and nothing is done) if its id is known or a pool is full. O(entries).

    Several threads may do this at the same time, each with free slots and counts of its own (`EventStore.put_shared`).
    """
    counts = live.counts
    cell, distance = search(live.table, live.words, WORD_SHIFT, ids[e])
    if live.table[cell] != NONE or 2 * (counts[LIVE] + 1) > live.table.size:
        return np.int64(-1)
    slot = take_room(live, n, flags)
    if slot < 0:
        return slot
    event = live.events[slot]
    start = np.int64(event.start)
    live.words[start + ID] = np.uint64(ids[e])
    live.keys[start + UNTIL] = until[e]
    if flags & SPREAD:
        live.words[start + MASK] = write_spread(live, events, e, start, n)
    elif flags & LISTED:
        live.words[start + MASK] = np.uint64(0)
        write_listed(live, events, e, start + HEAD, flags & LOOSE != 0)
    else:
        live.words[start + MASK] = write_masked(live, events, e, start, n)
    while not claim(live.table, cell, NONE, cell_of(start, distance)):
        cell, distance = search(live.table, live.words, WORD_SHIFT, ids[e])
        if live.table[cell] != NONE:
            free_slot(live, slot)
            return np.int64(-1)
    event.node = WAITING
    counts[MOST] = max(counts[MOST], n)
    counts[LIVE] += 1
    return slot


@kernel
def keep_events(live, events, ids, until, first, slots):
    """Keep those of events[first:] that have no slot yet; return the first that cannot be (its id is known, or a pool is full) or
    their number. O(entries)."""
    for e in range(first, ids.size):
        if slots[e] != NONE:
            continue
        prefetch_id(live, ids, e)
        flags, n = form_of(events, e)
        slot = keep_event(live, events, e, ids, until, flags, n)
        if slot < 0:
            return e
        slots[e] = np.uint32(slot)
    return ids.size


@helper
def let_go(live, slot):
    """Free an event's slot, which keeps its region, and its cell of the table."""
    event = live.events[slot]
    at = find(live.table, live.words, WORD_SHIFT, id_at(live, np.int64(event.start)))
    forget(live.table, live.words, WORD_SHIFT, at)
    event.node = NONE
    free_slot(live, slot)
    live.counts[LIVE] -= 1


@helper
def free_slot(live, slot):
    live.free[live.counts[FREE_SLOTS]] = np.uint32(slot)
    live.counts[FREE_SLOTS] += 1


@kernel
def lay_out(live, order, events, words):
    """Copy the event at order[i] to events[i], regions one behind the other, those of single lines and tails last; return where
    the last ends."""
    at = np.int64(0)
    for single in (False, True):
        for i in range(order.size):
            start = np.int64(live.events[np.int64(order[i])].start)
            size = LINE * class_size(size_class(lines_at(live, start)[0]))
            if (size == LINE) == single:
                copy_words(live, start, words, at, size)
                words[at + ABOUT] = (words[at + ABOUT] & ~np.uint64(0xFFFFFFFF)) | np.uint64(i)
                events[i].start = np.uint32(at)
                at += size
    for i in range(order.size):
        start = np.int64(live.events[np.int64(order[i])].start)
        if lines_at(live, start)[1]:
            copy_words(live, LINE * field_at(live, start), words, at, LINE)
            about = np.int64(events[i].start) + ABOUT
            words[about] = (words[about] & ~(np.uint64(0x1FFFFFFF) << np.uint64(32))) | np.uint64(
                at // LINE
            ) << np.uint64(32)
            at += LINE
    return at


@helper
def copy_words(live, start, words, at, size):
    for j in range(size):
        words[at + j] = live.words[start + j]


@kernel
def list_expired(live, now, limit, slots):
    """The expired ones of the next `limit` slots, round and round and each once, into `slots`; return how many. O(limit)."""
    counts = live.counts
    n = np.int64(0)
    for _ in range(min(limit, counts[SLOTS])):
        if counts[CURSOR] >= counts[SLOTS]:
            counts[CURSOR] = 0
        event = live.events[counts[CURSOR]]
        if event.node != NONE and not now < live.keys[np.int64(event.start) + UNTIL]:
            slots[n] = np.uint32(counts[CURSOR])
            n += 1
        counts[CURSOR] += 1
    return n
