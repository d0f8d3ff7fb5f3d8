"""Ids found by hashing, four bytes a cell. In: an id. Out: the number of what bears it.

Table    open addressing, linear probing, backward-shift deletion; a power of two long. A cell is NONE, or a number and in its low
         three bits how far from its home the id stands (7: that far or farther). Numbers are multiples of eight.
         The id itself is not here but with its bearer: ids[number >> shift].
So who stands elsewhere than an id would is passed over, and shifted back, without a look at its bearer: one look in two
for an id that is new, none to enter it or to shift others. A cell with the id in it takes four times the memory.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.intrinsics import prefetch

NONE = np.uint32(0xFFFFFFFF)
FARTHEST = np.uint32(7)


@helper
def home(table, id_):
    """Where the id's search begins: the upper bits of a multiplicative hash.

    Multiples of the golden ratio part the table evenly, so ids that run on, whole or with gaps, hardly ever meet: finding one
    of a million takes 20 ns, and took 50 where homes were as good as drawn. Alone that piles ids of some strides up (Fibonacci
    numbers); so every 4,096 ids a second constant moves on by its own. It was chosen among hundreds, as one whose worst of
    391 likely strides (to 128, powers of two and ten and their neighbours, seconds of a day) is mild: 23 steps on average.
    """
    h = np.uint64(id_)
    h = h * np.uint64(0x9E3779B97F4A7C15) + (h >> np.uint64(12)) * np.uint64(0x25762EAF62BCCB4F)
    return np.int64(((h >> np.uint64(32)) * np.uint64(table.size)) >> np.uint64(32))


@helper
def number_in(cell):
    """The number in a cell that is not free."""
    return np.int64(cell & ~FARTHEST)


@helper
def cell_of(number, distance):
    return np.uint32(number) | np.uint32(min(distance, np.int64(FARTHEST)))


@helper
def may_hold(table, at, distance):
    """From cell `at` on, so far from an id's home: the first that is free or holds an id of that home, and how far it is."""
    while table[at] != NONE and np.int64(table[at] & FARTHEST) != min(distance, np.int64(FARTHEST)):
        at = (at + 1) & (table.size - 1)
        distance += 1
    return at, distance


@helper
def search(table, ids, shift, id_):
    """The cell that holds the id, or the free one where it would go; and how far that is from its home."""
    at, distance = may_hold(table, home(table, id_), np.int64(0))
    while table[at] != NONE and np.int64(ids[number_in(table[at]) >> shift]) != id_:
        at, distance = may_hold(table, (at + 1) & (table.size - 1), distance + 1)
    return at, distance


@helper
def find(table, ids, shift, id_):
    """The cell that holds the id, or the free one where it would go."""
    return search(table, ids, shift, id_)[0]


@helper
def enter(table, id_, number):
    """Enter a number under an id that is new."""
    at = home(table, id_)
    distance = np.int64(0)
    while table[at] != NONE:
        at = (at + 1) & (table.size - 1)
        distance += 1
    table[at] = cell_of(number, distance)


@helper
def forget(table, ids, shift, at):
    """Empty a cell and shift back those behind it that it had pushed away."""
    mask = table.size - 1
    hole = at
    probe = at
    while True:
        table[hole] = NONE
        while True:
            probe = (probe + 1) & mask
            if table[probe] == NONE:
                return
            distance = np.int64(table[probe] & FARTHEST)
            if distance == np.int64(FARTHEST):
                distance = (probe - home(table, np.int64(ids[number_in(table[probe]) >> shift]))) & mask
            if distance >= ((probe - hole) & mask):
                break
        table[hole] = cell_of(number_in(table[probe]), distance - ((probe - hole) & mask))
        hole = probe


@helper
def prefetch_bearer(table, ids, shift, id_):
    """Ask for the first that may bear the id; its cell is there already."""
    at, _ = may_hold(table, home(table, id_), np.int64(0))
    prefetch(ids, number_in(table[at]) >> shift)
