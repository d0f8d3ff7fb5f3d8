"""Covers in the engine: no single subscription, however large, keeps the engine from answering for the others."""

from __future__ import annotations

import pytest

from matchwood import Engine
from matchwood.engine import covers
from matchwood.errors import SubscriptionError
from matchwood.planner.exercise import COVER_UPDATES, COVERED, COVERS
from tests.worlds import TYPES, a_world, seeded_dice


def test_a_long_list_is_covered_and_covers_like_a_short_one() -> None:
    engine = Engine()
    even = engine.subscribe(f"x IN ({', '.join(str(2 * i) for i in range(1_100))})")
    part = engine.subscribe(f"x IN ({', '.join(str(2 * i) for i in range(5, 1_050))}) AND y = 1")
    words = engine.subscribe(f"s NOT IN ({', '.join(f'{chr(39)}w{i}{chr(39)}' for i in range(1_100))})")
    assert engine.covers("x = 6").tolist() == [even]
    assert engine.covers("x = 7").tolist() == []
    assert engine.covered_by("x >= 0").tolist() == [even, part]
    assert engine.reduce().kept.tolist() == [even, words]
    assert engine.reduce().cover == {part: even}


def test_a_subscription_of_thousands_of_predicates_is_compared_like_others() -> None:
    engine = Engine()
    narrow = engine.subscribe("x0 >= 0")
    assert engine.reduce().kept.tolist() == [narrow]
    wide = engine.subscribe(" AND ".join(f"x{i} > {i}" for i in range(1_100)))
    assert engine.match({f"x{i}": i + 1 for i in range(1_100)}) == [(wide, 1_100.0), (narrow, 1.0)]
    assert engine.reduce().cover == {wide: narrow}
    assert engine.covered_by("x1099 > 7").tolist() == [wide]
    engine.unsubscribe(wide)
    assert engine.reduce().kept.tolist() == [narrow]


@pytest.mark.parametrize("early", [False, True])
def test_a_subscription_too_large_for_covering_is_kept_apart(early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matchwood.covering.base.MAX_PREDICATES", 3)
    engine = Engine()
    all_, some = engine.subscribe_many(["a > 0", "a > 1 AND b = 1"]).tolist()
    if early:
        engine.reduce()  # the index of covers is made before the large one comes
    large = engine.subscribe("a > 2 AND b = 1 AND c = 1 AND d = 1")
    several = engine.subscribe("a > 3 OR a > 4 ^2 AND b = 1 AND c = 1 AND d = 1")
    kept, cover = engine.reduce()
    assert (kept.tolist(), cover) == ([all_, large, several], {some: all_})
    assert engine.covers("a = 9 AND b = 1").tolist() == [all_, some]
    assert engine.covered_by("a > -1").tolist() == [all_, some]
    engine.unsubscribe_many([some, several])
    assert engine.reduce().kept.tolist() == [all_, large]
    engine.update(large, "a > 2")
    assert engine.reduce().cover == {large: all_}
    engine.update(all_, "a > 0 AND b = 1 AND c = 1 AND d = 1")
    assert engine.reduce().kept.tolist() == [all_, large]
    engine.unsubscribe(all_)
    assert engine.reduce().kept.tolist() == [large]


@pytest.fixture
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As on a machine where the kernels for covers are not compiled; lists the parts that are prepared meanwhile."""
    wanted: list[str] = []
    monkeypatch.setattr(covers, "is_available", lambda part: False)
    monkeypatch.setattr(covers.PREPARING, "want", lambda *parts: wanted.extend(parts))
    monkeypatch.setattr(covers, "compile_now", lambda parts, what: wanted.append(what))
    return wanted


@pytest.mark.parametrize("seed", range(3))
def test_covers_are_the_same_before_and_after_their_kernels_come(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(seeded_dice(seed), 80, 1)
    engine = Engine(TYPES)
    for id_, (priority, expression, _) in world.subscriptions.items():
        engine.subscribe(expression, id=id_, priority=priority)
    asked = [expression for _, expression, _ in list(world.subscriptions.values())[:10]]
    compiled = [(engine.covers(e).tolist(), engine.covered_by(e).tolist()) for e in asked]
    monkeypatch.setattr(covers, "is_available", lambda part: False)
    monkeypatch.setattr(covers.PREPARING, "want", lambda *parts: None)
    monkeypatch.setattr(covers.Covers, "_made", None)
    assert [(engine.covers(e).tolist(), engine.covered_by(e).tolist()) for e in asked] == compiled
    assert sum(len(wide) + len(narrow) for wide, narrow in compiled) > len(asked)


def test_a_search_for_covers_does_not_wait_for_the_compiler(not_compiled: list[str]) -> None:
    engine = Engine(ids="str")
    engine.subscribe_many(["age > 18", "age > 21"], ids=["adult", "older"])
    mark = engine.schema.mark()
    assert engine.covers("age > 20 AND new = 1").tolist() == ["adult"]
    assert engine.covered_by("age > 20").tolist() == ["older"]
    assert engine.schema.mark() == mark
    assert not_compiled == [COVERS, COVER_UPDATES, COVERED, COVER_UPDATES]


def test_a_search_among_many_and_a_reduction_wait_for_the_compiler(
    not_compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covers, "MAX_COMPARED", 1)
    engine = Engine()
    engine.subscribe("age > 18")
    engine.reduce()
    assert not_compiled == ["the search for covers"]
    engine.subscribe("age > 21")
    engine.covers("age > 20")
    assert not_compiled == ["the search for covers"] * 2


def test_a_subscription_too_large_for_covering_has_no_part_before_the_kernels_come_either(
    not_compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matchwood.covering.base.MAX_PREDICATES", 3)
    engine = Engine()
    some = engine.subscribe("a > 1 AND b = 1")
    engine.subscribe("a > 2 AND b = 1 AND c = 1 AND d = 1")
    assert engine.covered_by("a > 0").tolist() == [some]


@pytest.mark.parametrize("paused", [False, True])
def test_a_removal_that_is_refused_leaves_the_index_of_covers_alone(paused: bool) -> None:
    engine = Engine()
    engine.subscribe_many(["age > 3", "age > 5", "age > 7"], ids=[0, 1, 2])
    if paused:
        engine.pause(2)
    engine.reduce()  # which makes the index
    for ids in ([9], [0, 9], [0, 0]):
        with pytest.raises(SubscriptionError):
            engine.unsubscribe_many(ids)
        assert engine._subscriptions.covers.is_made
    assert engine.ids().tolist() == [0, 1, 2]
    assert engine.covers("age > 6").tolist() == [0, 1]
