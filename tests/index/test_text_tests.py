"""Conditions on strings in every structure, and behind `auto`, against the oracle."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from matchwood import Engine
from matchwood.errors import NeverMatchesError
from matchwood.lang.event import Event
from matchwood.lang.expression import all_of
from matchwood.lang.parser import parse
from matchwood.schema import Schema
from matchwood.structures import INDEXES, Capability, make_index
from tests.text_worlds import a_leaf, a_text, a_tree
from tests.worlds import World, listed, ranked


@cache
def a_world_of_texts() -> World:
    rng = np.random.default_rng(11)
    world = World(Schema({"n": "number"}))
    id_ = 0
    while len(world.subscriptions) < 150:
        tree = a_tree(rng, ("x", "y", "CASEI\x1fx")) if id_ % 3 else a_leaf(rng, ("x", "y"))
        if rng.random() < 0.3:
            tree = all_of(tree, parse(f"n > {rng.integers(5)}"))
        id_ += 1
        try:
            world.put(id_, float(rng.integers(3)), tree)
        except NeverMatchesError:
            continue
    for number in range(60):
        texts = {name: [a_text(rng) for _ in range(rng.integers(1, 4))] for name in ("x", "y") if rng.random() < 0.9}
        values = {name: found if rng.random() < 0.3 else found[0] for name, found in texts.items()}
        world.events.append(Event({**values, "n": int(rng.integers(6))}, {"x": 2.0} if number % 4 == 0 else {}))
    return world


@cache
def expected(mode: str) -> list[list[tuple[int, float]]]:
    return a_world_of_texts().expected(mode=mode)


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_every_structure_matches_tests_as_the_oracle_says(name: str) -> None:
    world = a_world_of_texts()
    index = make_index(name)
    index.insert(world.rows())
    index.check()
    for mode in ["all", "any"] if Capability.ANY in INDEXES[name].capabilities else ["all"]:
        assert ranked(index.match(world.event_arrays(), mode=mode)) == expected(mode)
        assert listed(index.top_k(world.event_arrays(), 3, mode=mode)) == [hits[:3] for hits in expected(mode)]


def test_an_engine_that_chooses_matches_tests_as_the_oracle_says() -> None:
    world = a_world_of_texts()
    engine = Engine({"n": "number"})
    for id_, (priority, expression, _) in world.subscriptions.items():
        engine.subscribe(expression, id=id_, priority=priority)
    for event, hits in zip(world.events, expected("all"), strict=True):
        assert [(match.id, match.score) for match in engine.match(event)] == hits
    assert any(expected("all"))


def test_covers_are_sound() -> None:
    """An expression that covers another holds wherever the other does."""
    world = a_world_of_texts()
    engine = Engine({"n": "number"})
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
