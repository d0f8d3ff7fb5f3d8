"""Events whose values are lists, which every structure filters by value, not by the range between them; rows with long sets."""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import pytest

from matchwood.encode.arrays import INTERVAL, MORE, Events, Rows, concatenate_rows, make_events, make_rows
from matchwood.lang.event import Event
from matchwood.lang.expression import all_of
from matchwood.lang.operators import Operator
from matchwood.lang.predicates import Between, Compare, In
from matchwood.schema import Range, Schema
from matchwood.structures import INDEXES, Capability, Index, make_index
from tests.worlds import World, listed, ranked

pytestmark = pytest.mark.parametrize("name", sorted(INDEXES))
KEYS = 4000


@cache
def a_world_of_lists() -> World:
    """Equalities, sets and ranges on three attributes of many values; events with lists that are wide apart, and ranges."""
    rng = np.random.default_rng(3)
    world = World(Schema({"x": "number", "y": "number", "z": "number"}))

    def predicate(name: str) -> object:
        key, weight = int(rng.integers(KEYS)), float(rng.integers(4))
        kind = rng.integers(4)
        if kind == 0:
            return Compare(name, weight, operator=Operator.EQ, value=key)
        if kind == 1:
            return In(name, weight, values=tuple(rng.integers(KEYS, size=1 + rng.integers(6)).tolist()))
        if kind == 2:
            return In(name, weight, values=(key,), negated=True)
        return Between(name, weight, lo=key, hi=key + int(rng.integers(KEYS // 8)))

    for id_ in range(400):
        names = rng.permutation(["x", "y", "z"])[: 1 + rng.integers(2)].tolist()
        world.put(id_, float(rng.integers(3)), all_of(*(predicate(name) for name in names)))
    for size in (1, 2, 30):
        values: dict[str, object] = {name: rng.integers(KEYS, size=size).tolist() for name in ("x", "y", "z")}
        world.events.append(Event(values))
        world.events.append(Event({**values, "y": int(rng.integers(KEYS)), "z": Range(0, int(rng.integers(KEYS)))}))
        world.events.append(Event({"y": values["y"]}, {"y": 2.5}))
    return world


@cache
def expected(mode: str) -> list[list[tuple[int, float]]]:
    return a_world_of_lists().expected(mode=mode)


def test_lists_with_values_far_apart_match_as_the_oracle_says(name: str) -> None:
    world = a_world_of_lists()
    index = make_index(name)
    index.insert(world.rows())
    index.check()
    events = world.event_arrays()
    for mode in ["all", "any"] if Capability.ANY in INDEXES[name].capabilities else ["all"]:
        assert ranked(index.match(events, mode=mode)) == expected(mode)
        assert listed(index.top_k(events, 3, mode=mode)) == [hits[:3] for hits in expected(mode)]


def a_list_event(keys: list[int], dims: int = 2) -> Events:
    return make_events([0, dims * len(keys)], np.repeat(np.arange(dims), len(keys)), dims * keys, dims * keys)


def test_rows_between_the_values_of_a_list_are_not_verified(name: str) -> None:
    rng = np.random.default_rng(7)
    n = 8000
    keys = rng.integers(0, KEYS, 2 * n).astype(np.float64)
    rows = make_rows(
        np.arange(n), np.zeros(n), np.arange(0, 2 * n + 1, 2), np.tile([0, 1], n), [INTERVAL] * 2 * n, keys, keys, keys
    )
    index = make_index(name)
    index.insert(rows)
    index.match(a_list_event([5, KEYS // 2, KEYS - 5]))
    assert index.stats().candidates < n / 16, "the range between the values holds nearly all rows"


def a_long_set(id_: int, count: int, step: int) -> Rows:
    """x IN (0, step, 2 * step, ...) AND y = id."""
    keys = np.arange(count, dtype=np.float64) * step
    kinds = np.full(count + 1, MORE)
    kinds[[0, count]] = INTERVAL
    dims = np.zeros(count + 1)
    dims[count] = 1
    ends, weights = np.append(keys, id_), np.zeros(count + 1)
    weights[[0, count]] = 1.0, 0.5
    return make_rows([id_], [0.0], [0, count + 1], dims, kinds, ends, ends, weights)


def test_a_set_of_fifty_thousand_values_is_inserted_matched_and_deleted_beside_ordinary_rows(name: str) -> None:
    use_long_sets(name, 39_000)  # compiles what is not compiled yet
    start = time.process_time()
    index = use_long_sets(name, 50_000)
    assert time.process_time() - start < 10, "this takes a tenth of a second"
    assert index.stats().bytes < 80e6


def use_long_sets(name: str, count: int) -> Index:
    """Four rows with a set of so many even keys and a thousand of two equalities; match, and change them if that can be."""
    n = 1000
    pairs = np.stack([np.arange(4.0, 4 + n), np.arange(4.0, 4 + n) % 7], axis=1).ravel()
    heads = np.arange(4, 4 + n), np.zeros(n), np.arange(0, 2 * n + 1, 2)
    ordinary = make_rows(*heads, np.tile([0, 1], n), [INTERVAL] * 2 * n, pairs, pairs, np.ones(2 * n))
    index = make_index(name)
    index.insert(concatenate_rows([*(a_long_set(id_, count, 2) for id_ in range(4)), ordinary]))
    keys = [8, 1, 9, 1, 2 * count - 2, 3, 3, 77_778, 2]
    events = make_events([0, 2, 4, 6, 9], [0, 1, 0, 1, 0, 1, 0, 0, 1], keys, keys)  # the last has a list
    assert ranked(index.match(events)) == [[(8, 2.0), (1, 1.5)], [], [(3, 1.5)], [(2, 1.5)]]
    if Capability.UPDATES in INDEXES[name].capabilities:
        index.delete(np.array([1, 2]))
        index.insert(a_long_set(1, count, 2))
        assert ranked(index.match(events)) == [[(8, 2.0), (1, 1.5)], [], [(3, 1.5)], []]
        index.delete(np.array([0, 1]))
        assert ranked(index.match(events)) == [[(8, 2.0)], [], [(3, 1.5)], []]
    return index
