"""Covers in the engine: no single subscription, however large, keeps the engine from answering for the others."""

from __future__ import annotations

import pytest

from matchwood import Engine


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
