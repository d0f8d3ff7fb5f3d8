"""The row store against a plain dictionary: what goes in comes out, whatever is removed in between."""

from __future__ import annotations

import random

import numpy as np
import pytest

from matchwood.encode.arrays import ABSENT, CIRCLE, INTERVAL, JOINED, MORE, Rows, concatenate_rows, make_rows
from matchwood.errors import DuplicateSubscriptionError, SubscriptionError, UnknownSubscriptionError
from matchwood.store import reading
from matchwood.store.kernels import rows as kernel
from matchwood.store.kernels.rows import SIBLING
from matchwood.store.row_store import RowStore, set_of
from tests.worlds import a_world, seeded_dice

MOST = 2**63 - 1


def plain_rows(ids: list[int], entries: int = 1) -> Rows:
    """One row an id, `entries` plain intervals each."""
    n = len(ids)
    dims = np.tile(np.arange(entries), n)
    lo = np.repeat(np.arange(n), entries) % 97
    return make_rows(
        ids, np.zeros(n), np.arange(n + 1) * entries, dims, np.zeros(n * entries), lo, lo + 5, np.ones(n * entries)
    )


def same(a: Rows, b: Rows) -> bool:
    """To the bit, NaN included."""
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def held(store: RowStore, ids: list[int]) -> Rows:
    return store.extract(store.slots_of(np.array(ids, np.int64)))


@pytest.mark.parametrize("seed", range(6))
def test_random_adds_and_removes_agree_with_a_dictionary(seed: int) -> None:
    """All kinds of rows (sets, absences, circles, siblings, rows without entries), and room that is used again."""
    world = a_world(seeded_dice(seed), 120, 0)
    chooser, store, model = random.Random(seed), RowStore(), {}
    for _ in range(60):
        outside = sorted(set(world.subscriptions) - set(model))
        if outside and (not model or chooser.random() < 0.55):
            ids = chooser.sample(outside, chooser.randint(1, min(12, len(outside))))
            slots = store.add(world.rows(ids))
            assert same(store.extract(slots), world.rows(ids))
            model.update({id_: world.rows([id_]) for id_ in ids})
        else:
            ids = chooser.sample(sorted(model), chooser.randint(1, min(12, len(model))))
            store.remove(np.array(ids, np.int64))
            for id_ in ids:
                del model[id_]
        store.check()
        assert store.ids().tolist() == sorted(model)
        assert store.subscriptions == len(model)
        assert len(store) == sum(rows.size for rows in model.values())
        everyone = sorted(model)
        assert same(held(store, everyone), concatenate_rows([model[id_] for id_ in everyone]))


def test_the_rows_of_a_subscription_come_back_in_their_order() -> None:
    rows = make_rows(
        [7] * 5 + [8], np.arange(6.0), np.arange(7), [0] * 6, [INTERVAL] * 6, np.arange(6.0), np.arange(6.0), [1.0] * 6
    )
    store = RowStore()
    store.add(plain_rows([1, 2, 3]))
    store.remove(np.array([2], np.int64))
    store.add(rows)
    store.check()
    assert held(store, [7]).priority.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    flags = store.state.rows["flags"][store.slots_of(np.array([7, 8, 1], np.int64))]
    assert ((flags & SIBLING) > 0).tolist() == [True] * 5 + [False, False]


def test_every_kind_of_entry_comes_back_to_the_bit() -> None:
    nan = np.nan
    entries = [
        (3, INTERVAL, -np.inf, 1.0, 0.1),
        (3, MORE, 2.0, 2.0, 0.0),
        (3, MORE, 5.0, np.inf, 0.0),
        (1, ABSENT, nan, nan, 0.7),
        (4, INTERVAL, -74.0, -73.0, 2.0),
        (4, MORE, 10.0, 11.0, 0.0),
        (5, JOINED, 40.0, 41.0, 0.0),
        (5, MORE, 50.0, 51.0, 0.0),
        (4, CIRCLE, -73.5, 40.5, 1000.0),
        (4, CIRCLE, -73.6, 40.5, -500.0),
        (0, INTERVAL, 0.0, 5e-324, 0.0),
    ]
    rows = make_rows([MOST], [-2.5], [0, len(entries)], *zip(*entries, strict=True))
    store = RowStore()
    store.add(rows)
    store.check()
    assert same(held(store, [MOST]), rows)
    assert store.dimensions == 6


@pytest.mark.parametrize("count", [10_000, 65, 64, 63])
def test_long_sets_and_long_rows_come_back(count: int) -> None:
    keys = np.arange(count) * 2.0
    values = make_rows(
        [1], [0.0], [0, count], [0] * count, [INTERVAL] + [MORE] * (count - 1), keys, keys, [1.0] + [0.0] * (count - 1)
    )
    wide = plain_rows([2], entries=count)
    store = RowStore()
    for _ in range(3):
        store.add(concatenate_rows([values, wide]))
        store.check()
        assert same(held(store, [1]), values)
        assert same(held(store, [2]), wide)
        store.remove(np.array([2, 1], np.int64))
        store.check()


@pytest.mark.parametrize("entries", [1, 7, 64, 65, 100, 200])
def test_freed_regions_are_used_again(entries: int) -> None:
    store = RowStore()
    store.add(plain_rows(list(range(50)), entries))
    used = int(store.state.counts[kernel.ENTRIES])
    for round_ in range(5):
        store.remove(np.arange(50, dtype=np.int64) + 50 * round_)
        store.add(plain_rows(list(range(50 * round_ + 50, 50 * round_ + 100)), entries))
        store.check()
    assert int(store.state.counts[kernel.ENTRIES]) == used
    assert store.slots == 50


def test_a_free_slot_gives_its_region_to_a_row_of_another_size() -> None:
    store = RowStore()
    store.add(plain_rows(list(range(50)), 6))
    used = int(store.state.counts[kernel.ENTRIES])
    store.remove(np.arange(50, dtype=np.int64))
    store.add(plain_rows(list(range(20)), 3))  # twenty regions of six are let go, and none is as small as three
    store.check()
    assert int(store.state.counts[kernel.ENTRIES]) == used + 60
    store.add(plain_rows(list(range(20, 70)), 6))  # thirty in slots that kept theirs, twenty in those let go
    store.check()
    assert int(store.state.counts[kernel.ENTRIES]) == used + 60
    assert store.slots == 70


def test_slots_once_refuses_who_is_unknown_named_twice_or_of_several_rows() -> None:
    store = RowStore()
    store.add(plain_rows(list(range(100)), 2))
    ids = np.array([7, 3, 99, 0], np.int64)
    for _ in range(2):  # marks of a call that was refused are gone
        assert (found := store.slots_once(ids)) is not None
        assert store.state.rows["id"][found].tolist() == ids.tolist()
        assert store.slots_once(np.array([7, 3, 7], np.int64)) is None
        assert store.slots_once(np.array([7, 100], np.int64)) is None
    store.add(plain_rows([200, 200], 1))
    assert store.slots_once(np.array([7, 200], np.int64)) is None
    assert store.slots_once(ids) is not None


@pytest.mark.parametrize("shift", [0, 8, 20, 31, 32, 33, 40, 46])
def test_ids_that_are_multiples_of_a_power_of_two_are_spread(shift: int) -> None:
    """A poor hash sends them all to one cell, and each search then walks over all of them."""
    ids = [n << shift for n in range(2**16)]
    store = RowStore()
    store.add(plain_rows(ids))
    cells = np.flatnonzero(store.state.table != kernel.NONE)
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[-9], cells, [10**9]])) > 1))
    assert runs.max(initial=0) < 400, "the cells lie in one heap"
    assert store.knows(np.array(ids, np.int64)).all()
    store.remove(np.array(ids[::2], np.int64))
    assert store.knows(np.array(ids, np.int64)).tolist() == [False, True] * (len(ids) // 2)


def test_the_smallest_and_the_largest_id_and_their_neighbours_are_ids_like_others() -> None:
    ids = [0, 1, MOST - 1, MOST, 2**62, 2**62 + 1, 2**32, 2**32 - 1]
    store = RowStore()
    store.add(plain_rows(ids))
    store.check()
    assert store.ids().tolist() == sorted(ids)
    assert not store.knows(np.array([-1, 2, MOST - 2, -(2**63)], np.int64)).any()
    store.remove(np.array([MOST, 0], np.int64))
    store.check()
    assert store.knows(np.array(ids, np.int64)).tolist() == [False, True, True, False, True, True, True, True]


@pytest.mark.parametrize("seed", range(3))
def test_removing_from_a_crowded_table_loses_nobody(seed: int) -> None:
    chooser = random.Random(seed)
    pool = [n << s for n in range(1, 40) for s in (0, 20, 40)] + [MOST - n for n in range(40)]
    pool = sorted(set(pool))
    store, model = RowStore(), set()
    for _ in range(300):
        id_ = chooser.choice(pool)
        if id_ in model:
            store.remove(np.array([id_], np.int64))
        else:
            store.add(plain_rows([id_]))
        model ^= {id_}
        assert store.knows(np.array(pool, np.int64)).tolist() == [i in model for i in pool]
    store.check()


def test_ids_that_are_negative_known_or_given_twice_are_refused_and_nothing_changes() -> None:
    store = RowStore()
    store.add(plain_rows([5, 3]))
    with pytest.raises(SubscriptionError, match="not negative, got -4"):
        store.add(plain_rows([9, -4]))
    with pytest.raises(DuplicateSubscriptionError, match="subscription 3 is there already"):
        store.add(plain_rows([9, 3]))
    with pytest.raises(DuplicateSubscriptionError, match="subscription 9 is given twice, or its rows are not adjacent"):
        store.add(plain_rows([9, 8, 9]))
    with pytest.raises(UnknownSubscriptionError, match="subscription 8 is not there"):
        store.slots_of(np.array([5, 8], np.int64))
    store.check()
    assert store.ids().tolist() == [3, 5]


def test_a_row_with_more_entries_than_the_record_counts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_COUNT", 4)
    store = RowStore()
    with pytest.raises(SubscriptionError, match="subscription 6: a row names 5 dimensions and shapes, the limit is 4"):
        store.add(plain_rows([6], entries=5))
    keys = np.arange(9.0) * 2
    store.add(make_rows([1], [0.0], [0, 9], [0] * 9, [INTERVAL] + [MORE] * 8, keys, keys, [1.0] + [0.0] * 8))
    assert len(store) == 1


def test_more_rows_than_the_table_can_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "MAX_SLOTS", 100)
    store = RowStore()
    store.add(plain_rows(list(range(85))))
    store.add(plain_rows(list(range(85, 90))))
    with pytest.raises(SubscriptionError, match="at most 100 rows in one index, got 110"):
        store.add(plain_rows(list(range(90, 110))))
    store.add(plain_rows(list(range(90, 100))))
    assert len(store) == 100


def test_a_store_made_of_its_arrays_goes_on_where_it_was() -> None:
    world = a_world(seeded_dice(3), 60, 0)
    ids = list(world.subscriptions)
    store = RowStore()
    store.add(world.rows(ids[:40]))
    store.remove(np.array(ids[:10], np.int64))
    again = RowStore.of_arrays({name: array.copy() for name, array in store.arrays().items()})
    again.check()
    again.add(world.rows(ids[40:] + ids[:5]))
    again.check()
    assert same(held(again, ids[10:] + ids[:5]), world.rows(ids[10:] + ids[:5]))
    assert store.subscriptions == 30


@pytest.mark.parametrize("damage", ["flags", "next", "free", "id", "table", "distance", "live", "start"])
def test_check_notices_damage(damage: str) -> None:
    world = a_world(seeded_dice(5), 40, 0)
    store = RowStore()
    store.add(world.rows())
    store.remove(np.array(list(world.subscriptions)[:5], np.int64))
    store.check()
    slot = int(store.slots_of(np.array([list(world.subscriptions)[-1]], np.int64))[0])
    if damage == "table":
        cell = np.flatnonzero(store.state.table != kernel.NONE)[0]
        store.state.table[cell] = kernel.NONE
    elif damage == "distance":
        store.state.table[np.flatnonzero(store.state.table != kernel.NONE)[0]] ^= 3
    elif damage == "live":
        store.state.counts[kernel.LIVE] += 1
    elif damage == "flags":
        store.state.rows["flags"][slot] ^= SIBLING
    elif damage == "next":
        store.state.rows["next"][slot] = int(store.state.free[0])
    elif damage == "free":
        store.state.free[0] = slot
    else:
        store.state.rows[damage][slot] += 1
    with pytest.raises(AssertionError):
        store.check()


@pytest.mark.parametrize("width", [0.0, 0.5])
@pytest.mark.parametrize("number", [2, 3, 4, 5, 65])
def test_interval_sets_come_back_as_they_were_and_points_take_a_word_each(number: int, width: float) -> None:
    lo = np.arange(number, dtype=np.float64) - 1.0
    kinds = [INTERVAL, *[MORE] * (number - 1)]
    rows = make_rows([7], [0.0], [0, number], [3] * number, kinds, lo, lo + width, [1.0] + [0.0] * (number - 1))
    store = RowStore()
    slots = store.add(rows)
    found = store.extract(slots)
    for column, expected in zip(found, rows, strict=True):
        assert column.tolist() == expected.tolist()
    words = 1 + number * (1 if width == 0.0 else 2)  # the number of intervals, and their ends
    least = 1 + -(-words // 4)
    assert store.state.rows["size"][slots[0]] == (least if least <= 64 else 128)
    assert set_of(store.state.entries, 1) == list(zip(lo.tolist(), (lo + width).tolist(), strict=True))
    store.check()
