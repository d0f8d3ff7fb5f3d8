"""Conditions on lists of objects in every structure, and behind `auto`, against the oracle."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from matchwood import Engine
from matchwood.errors import NeverMatchesError
from matchwood.lang.event import Event
from matchwood.schema import Schema
from matchwood.structures import INDEXES, Capability, make_index
from tests.nested_worlds import a_tree, an_event
from tests.worlds import World, listed, ranked


@cache
def a_world_of_lists() -> World:
    rng = np.random.default_rng(31)
    world = World(Schema())
    id_ = 0
    while len(world.subscriptions) < 60:
        id_ += 1
        try:
            world.put(id_, float(rng.integers(3)), a_tree(rng))
        except NeverMatchesError:
            continue
    for number in range(30):
        world.events.append(Event(an_event(rng), {"items": 2.0} if number % 4 == 0 else {}))
    return world


@cache
def expected(mode: str) -> list[list[tuple[int, float]]]:
    return a_world_of_lists().expected(mode=mode)


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_every_structure_matches_conditions_on_elements_as_the_oracle_says(name: str) -> None:
    world = a_world_of_lists()
    index = make_index(name)
    index.insert(world.rows())
    index.check()
    for mode in ["all", "any"] if Capability.ANY in INDEXES[name].capabilities else ["all"]:
        assert ranked(index.match(world.event_arrays(), mode=mode)) == expected(mode)
        assert listed(index.top_k(world.event_arrays(), 3, mode=mode)) == [hits[:3] for hits in expected(mode)]


def test_an_engine_that_chooses_matches_conditions_on_elements_as_the_oracle_says() -> None:
    world = a_world_of_lists()
    engine = Engine()
    for id_, (priority, expression, _) in world.subscriptions.items():
        engine.subscribe(expression, id=id_, priority=priority)
    for event, hits in zip(world.events, expected("all"), strict=True):
        assert [(match.id, match.score) for match in engine.match(event)] == hits
    assert any(expected("all"))


def test_covers_are_sound() -> None:
    """An expression that covers another holds wherever the other does."""
    world = a_world_of_lists()
    engine = Engine()
    for id_, (priority, expression, _) in world.subscriptions.items():
        engine.subscribe(expression, id=id_, priority=priority)
    found = {
        id_: {int(at) for at, hits in enumerate(expected("all")) if id_ in dict(hits)} for id_ in world.subscriptions
    }
    pairs = 0
    for id_, (_, expression, _) in world.subscriptions.items():
        for other in engine.covers(expression):
            pairs += 1
            assert found[id_] <= found[int(other)], (str(expression), engine.subscription(other).expression)
    assert pairs >= len(world.subscriptions)
    wide = engine.subscribe("ANY(items, b = 2 AND a = 1)")
    assert wide in engine.covers("ANY(items, a = 1 AND b = 2) AND n > 3")
    assert wide not in engine.covers("ANY(items, a = 1) AND n > 3")
