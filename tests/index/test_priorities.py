"""Priorities changed in place, for every index, judged by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.errors import QueryError, SubscriptionError, UnknownSubscriptionError, UnsupportedError
from matchwood.structures import Capability, Index
from tests.systems import SYSTEMS, make_system
from tests.worlds import World, a_world, listed, ranked, seeded_dice

CHANGEABLE = [name for name in sorted(SYSTEMS) if Capability.UPDATES in SYSTEMS[name].capabilities]
changeable = pytest.mark.parametrize("name", CHANGEABLE)


def assert_agrees(index: Index, world: World) -> None:
    events = world.event_arrays()
    for mode in ["all", "any"] if Capability.ANY in index.capabilities else ["all"]:
        expected = world.expected(mode=mode)
        assert ranked(index.match(events, mode=mode)) == expected
        for k in (1, 3):
            assert listed(index.top_k(events, k, mode=mode)) == [hits[:k] for hits in expected]


def set_priority(index: Index, world: World, ids: list[int], priorities: list[float]) -> None:
    """In the index and in the world."""
    index.set_priority(np.array(ids), np.array(priorities))
    for id_, priority in zip(ids, priorities, strict=True):
        _, expression, rows = world.subscriptions[id_]
        world.subscriptions[id_] = priority, expression, rows


def a_world_of_points(seed: int, name: str) -> World:
    world = a_world(seeded_dice(seed), 120, 15)
    if Capability.RANGE_EVENTS not in SYSTEMS[name].capabilities:
        world.events = [
            e for e in world.events if not any(isinstance(v, list) or hasattr(v, "lo") for v in e.values.values())
        ]
    return world


@changeable
@pytest.mark.parametrize("seed", [0, 1])
def test_changed_priorities_are_those_of_the_oracle(name: str, seed: int) -> None:
    world, random = a_world_of_points(seed, name), np.random.default_rng(seed)
    index = SYSTEMS[name].build(world.rows())
    ids = np.array(sorted(world.subscriptions))
    for count in (1, 1, 1, 5, 40, len(ids), 1, 3):
        chosen = random.permutation(ids)[:count].tolist()
        set_priority(index, world, chosen, random.choice([-3.5, 0.0, 0.25, 2.0, 1e6], count).tolist())
        index.check()
        assert_agrees(index, world)
    assert len(index.store) == world.rows().size


@changeable
def test_rows_can_change_after_their_priorities(name: str) -> None:
    world = a_world_of_points(3, name)
    index, ids = make_system(name), sorted(world.subscriptions)
    index.insert(world.rows(ids[:80]))
    set_priority(index, world, ids[:40], [1.5] * 40)
    index.insert(world.rows(ids[80:]))
    index.delete(np.array(ids[20:30]))
    set_priority(index, world, ids[:20], [float(i) for i in range(20)])
    for id_ in ids[20:30]:
        del world.subscriptions[id_]
    index.check()
    assert_agrees(index, world)
    index.update(world.rows(ids[:10]))
    index.check()
    assert_agrees(index, world)


@changeable
def test_a_change_that_is_refused_changes_nothing(name: str) -> None:
    world = a_world_of_points(4, name)
    index, known = SYSTEMS[name].build(world.rows()), min(world.subscriptions)
    for ids, priorities, error, text in [
        ([known, 10**9], [1.0, 1.0], UnknownSubscriptionError, "1000000000"),
        ([known, known], [1.0, 2.0], SubscriptionError, "twice"),
        ([known], [np.nan], SubscriptionError, f"subscription {known}: expected a finite priority, got nan"),
        ([known], [1.0, 2.0], QueryError, "priority for each of 1"),
    ]:
        with pytest.raises(error, match=text):
            index.set_priority(np.array(ids), np.array(priorities))
    index.set_priority(np.zeros(0, np.int64), np.zeros(0))
    index.check()
    assert_agrees(index, world)


def test_a_static_index_refuses_new_priorities() -> None:
    world = a_world(seeded_dice(5), 20, 3)
    index = SYSTEMS["k-index"].build(world.rows())
    with pytest.raises(UnsupportedError, match="insert and delete"):
        index.set_priority(np.array([min(world.subscriptions)]), np.array([1.0]))
