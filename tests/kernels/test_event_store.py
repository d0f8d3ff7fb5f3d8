"""The store of live events against a plain dictionary: crowded tables, and regions that are used again."""

from __future__ import annotations

import random

import numpy as np
import pytest

from matchwood.baselines import BEQTree
from matchwood.encode.arrays import Events, make_events
from matchwood.errors import EventError
from matchwood.store.kernels.id_table import home
from matchwood.structures.live.event_store import EventStore
from matchwood.structures.live.kernels import layout as kernel
from matchwood.structures.live.kernels.layout import EventCount


def some_events(sizes: list[int], *, shuffled: bool = False, step: int = 1) -> Events:
    """An event of each size, on every (`step`-th) dimension from 0 on, in their order or in another."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    orders = [np.random.default_rng(size).permutation(size) if shuffled else np.arange(size) for size in sizes]
    dims = step * np.concatenate([np.zeros(0, np.int64), *orders])
    return make_events(offsets, dims, dims + 0.5, dims + 0.5)


def add(store: EventStore, ids: list[int], events: Events) -> None:
    store.add(events, np.array(ids, np.int64), np.full(len(ids), np.inf))


def remove(beq: BEQTree, ids: list[int]) -> None:
    beq.delete(np.array(ids, np.int64))


def ids_of_one_home(many: int, table: int) -> list[int]:
    """So many ids that begin their search at the same cell of a table of that size, or at the one before."""
    cells = np.zeros(table, np.uint32)
    found = [id_ for id_ in range(200 * many * table // 64) if int(home(cells, id_)) in (7, 8)]
    return found[:many]


@pytest.mark.parametrize("seed", range(4))
def test_ids_that_crowd_around_one_cell_are_found_and_forgotten(seed: int) -> None:
    """Most stand farther from home than three bits can say."""
    chooser, ids = random.Random(seed), ids_of_one_home(60, 256)
    assert len(ids) == 60
    beq = BEQTree()
    kept: set[int] = set()
    most = 0
    for _ in range(60):
        coming = chooser.sample(sorted(set(ids) - kept), min(len(ids) - len(kept), chooser.randint(0, 9)))
        if coming:
            beq.insert(some_events([3] * len(coming)), np.array(coming, np.int64), np.full(len(coming), np.inf))
        kept |= set(coming)
        most = max(most, len(kept))
        going = chooser.sample(sorted(kept), min(len(kept), chooser.randint(0, 7)))
        remove(beq, going)
        kept -= set(going)
        beq.check()
        assert beq.knows(np.array(ids, np.int64)).tolist() == [id_ in kept for id_ in ids]
    assert most > 40


@pytest.mark.parametrize("shuffled", [False, True])
def test_values_come_back_by_rising_dimension(shuffled: bool) -> None:
    store, sizes = EventStore(), [20, 0, 1, 64, 5]
    add(store, [4, 8, 15, 16, 23], some_events(sizes, shuffled=shuffled))
    store.check()
    counts, dims, keys = store.values(store.slots_of(np.array([16, 23, 4, 8, 15], np.int64)))
    assert counts.tolist() == [64, 5, 20, 0, 1]
    assert dims.tolist() == [*range(64), *range(5), *range(20), 0]
    assert (keys == dims + 0.5).all()


def test_a_free_slot_gives_its_region_to_an_event_of_another_size() -> None:
    beq = BEQTree()
    beq.insert(some_events([20] * 50), np.arange(50), np.full(50, np.inf))
    used = int(beq.store.state.counts[EventCount.KEYS])
    remove(beq, list(range(50)))
    add_again = [(range(20), 4), (range(20, 70), 20)]  # four words, for which there is no region; then twenty
    for ids, size in add_again:
        beq.insert(some_events([size] * len(ids)), np.array(ids), np.full(len(ids), np.inf))
        beq.check()
    assert int(beq.store.state.counts[EventCount.KEYS]) == used + 20 * 4
    assert int(beq.store.state.counts[EventCount.SLOTS]) == 70


@pytest.mark.parametrize("damage", ["table", "distance", "live", "free", "start"])
def test_check_notices_damage(damage: str) -> None:
    beq = BEQTree()
    beq.insert(some_events([6] * 30), np.arange(30), np.full(30, np.inf))
    remove(beq, [3, 4, 5])
    store = beq.store
    store.check()
    cell, slot = np.flatnonzero(store.state.table != kernel.NONE)[0], int(store.slots_of(np.array([9]))[0])
    if damage == "table":
        store.state.table[cell] = kernel.NONE
    elif damage == "distance":
        store.state.table[cell] ^= 3
    elif damage == "live":
        store.state.counts[EventCount.LIVE] += 1
    elif damage == "free":
        store.state.free[0] = slot
    else:
        store.state.events["start"][store.state.free[0]] += 8
    with pytest.raises((AssertionError, EventError)):
        store.check()


@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize("shuffled", [False, True])
def test_values_of_events_of_all_sizes_are_kept_to_the_last_bit(shuffled: bool, step: int) -> None:
    """In both layouts, also when they are laid out anew."""
    rng = np.random.default_rng(7)
    sizes = [*range(65), *range(64, -1, -1), 20, 13, 20]
    events = some_events(sizes, shuffled=shuffled, step=step)
    keys = rng.choice(np.array([1.0, -1.0, 0.0, 1e-300, np.inf, -np.inf]), len(events.dims)) + rng.random(
        len(events.dims)
    )
    keys[::7] = -0.0
    events = make_events(events.offsets, events.dims, keys, keys)
    store, ids = EventStore(), rng.permutation(len(sizes))
    add(store, ids.tolist(), events)
    store.check()
    for order in (rng.permutation(len(sizes)), np.arange(len(sizes))):
        kept, dims, values = store.values(store.slots_of(ids))
        assert kept.tolist() == sizes
        for e in range(len(sizes)):
            span = slice(events.offsets[e], events.offsets[e + 1])
            by_dim = keys[span][np.argsort(events.dims[span])]
            assert values[span].tolist() == by_dim.tolist()
            assert dims[span].tolist() == sorted(events.dims[span].tolist())
        store.reorder(order.astype(np.uint32))
        store.check()


@pytest.mark.parametrize(
    ("dims", "lo", "hi", "weight", "is_general"),
    [
        ([0, 5, 63], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], False),
        ([], [], [], [], False),
        ([0, 64], [1.0, 2.0], [1.0, 2.0], [1.0, 1.0], True),  # more dimensions than a mask has
        ([0, 1], [1.0, 2.0], [1.0, 2.5], [1.0, 1.0], True),  # a range
        ([0, 0], [1.0, 2.0], [1.0, 2.0], [1.0, 1.0], True),  # a list
        ([0, 1], [1.0, 2.0], [1.0, 2.0], [1.0, 0.5], True),  # a weight
    ],
)
def test_an_event_is_plain_or_general(
    dims: list[int], lo: list[float], hi: list[float], weight: list[float], is_general: bool
) -> None:
    store = EventStore()
    add(store, [3], make_events([0, len(dims)], dims, lo, hi, weight))
    store.check()
    slots = store.slots_of(np.array([3], np.int64))
    assert bool(store.state.events["is_general"][slots[0]]) == is_general
    _, back, keys = store.values(slots)
    assert (back.tolist(), keys.tolist()) == (dims, lo)
