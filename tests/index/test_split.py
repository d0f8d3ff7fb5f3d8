"""Split: what goes where, and what happens where subscriptions of several parts change together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from matchwood import Engine, attr
from matchwood.lang.event import Event
from matchwood.lang.expression import any_of
from matchwood.lang.parser import parse
from matchwood.lang.predicates import IsNull
from matchwood.schema import Schema
from matchwood.structures import MOTree, PostingsIndex, Scan, SplitIndex, load_index
from matchwood.workloads import Marketplace
from tests.worlds import World, listed, ranked

MARKET = Marketplace(size=3000, products=200, sellers=300, tags=100)
KINDS = {"product IN (4, 7) AND price < 90": "postings", "price BETWEEN 3 AND 90": "mo-tree", "rating IS NULL": "scan"}


def a_split() -> SplitIndex:
    return SplitIndex.build(MARKET.subscriptions())


def a_world(*expressions: str) -> World:
    """Many ordinary subscriptions, whose values and ranges are selective, and then the given ones, from 1000 on."""
    world = World(Schema({"product": "number", "price": "number", "rating": "number"}))
    for id_ in range(200):
        world.put(
            id_, 0.0, parse(f"product = {id_} AND price > 1" if id_ % 2 else f"price BETWEEN {id_} AND {id_ + 40}")
        )
    for number, expression in enumerate(expressions):
        world.put(1000 + number, float(number), parse(expression))
    return world


@pytest.mark.parametrize(("expression", "part"), KINDS.items())
def test_a_subscription_goes_to_the_part_for_its_kind(expression: str, part: str) -> None:
    index = SplitIndex.build(a_world().rows())
    before = index.parts()
    index.insert(a_world(expression).rows([1000]))
    assert {name: n - before.get(name, 0) for name, n in index.parts().items() if n > before.get(name, 0)} == {part: 1}


def test_the_answers_of_the_parts_are_merged_to_the_bit_and_in_order() -> None:
    index, scan, events = a_split(), Scan.build(MARKET.subscriptions()), MARKET.events(80)
    assert set(index.parts()) == {"postings", "mo-tree"}
    expected = ranked(scan.match(events))
    assert sum(map(len, expected)) > 1000
    assert ranked(index.match(events)) == expected
    assert listed(index.match(events, ordered=True, threads=2)) == expected
    for k in (1, 3, 50, 5000):
        assert listed(index.top_k(events, k)) == [hits[:k] for hits in expected]
    assert listed(index.top_k(events.take(3, 4), 3)) == [expected[3][:3]]


def test_a_subscription_with_rows_of_different_kinds_is_reported_once_with_its_best_score() -> None:
    world = a_world()
    for id_, first in ((1000, "product = 5 ^2"), (1001, "price > 7 ^3")):
        both = any_of(parse(first), parse("price BETWEEN 5 AND 9"), IsNull("rating", 0.5))
        world.put(id_, 0.25, both)
    index = SplitIndex.build(world.rows())
    index.check()
    world.events = [
        Event({"product": 5, "price": 8}),
        Event({"product": 5, "price": 600, "rating": 2}),
        Event({"price": 6}),
    ]
    assert ranked(index.match(world.event_arrays())) == world.expected()
    assert listed(index.top_k(world.event_arrays(), 2)) == world.expected(k=2)


def test_an_update_moves_a_subscription_to_the_part_for_its_new_kind() -> None:
    kinds = list(KINDS)
    world = a_world(*kinds)
    index = SplitIndex.build(world.rows())
    sizes = index.parts()
    for turn in (1, 2, 3):
        for number in range(3):
            world.put(1000 + number, 9.0, parse(kinds[(number + turn) % 3]))
        index.update(world.rows([1000, 1001, 1002]))
        index.check()
        assert index.parts() == sizes
        world.events = [Event({"product": 7, "price": 80}), Event({"product": 7, "price": 3, "rating": 1})]
        assert ranked(index.match(world.event_arrays())) == world.expected()


def test_priorities_and_places_change_in_every_part() -> None:
    engine = Engine(index="split")
    ids = [engine.subscribe(attr("shop") == f"s{n}", priority=1.0) for n in range(40)]
    near = [engine.subscribe(attr("place").within((n / 10, 50.0), (1, "km"))) for n in range(40)]
    engine.set_priority(ids[3], 7.0)
    engine.set_priority(near[2], 5.0)
    engine.move(near[30], (0.2, 50.0))
    event = {"shop": "s3", "place": (0.2, 50.0)}
    assert [(m.id, m.score) for m in engine.match(event)] == [(ids[3], 8.0), (near[2], 6.0), (near[30], 1.0)]
    assert set(engine._index.parts()) == {"postings", "mo-tree"}


def test_an_interrupted_removal_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    index = a_split()
    ids, delete = np.arange(0, 3000, 7), MOTree.delete

    def interrupted(part: MOTree, gone: np.ndarray) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MOTree, "delete", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index.delete(ids)
    monkeypatch.setattr(MOTree, "delete", delete)
    assert not index.whole
    assert not index.store.knows(ids).any(), "the removal has happened"
    index.restore(ids, None)
    assert index.whole
    index.check()
    rest = np.setdiff1d(np.arange(3000), ids)
    assert np.array_equal(index.store.ids(), rest)


def test_an_interrupted_insert_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    index, rows, insert = (
        a_split(),
        Marketplace(size=3200, products=200, sellers=300, tags=100).subscriptions(),
        MOTree.insert,
    )
    before = index.parts()

    def interrupted(part: MOTree, some: object) -> None:
        raise MemoryError

    monkeypatch.setattr(MOTree, "insert", interrupted)
    with pytest.raises(MemoryError):
        index.insert(rows.take(3000, 3200))
    monkeypatch.setattr(MOTree, "insert", insert)
    assert index.parts() != before
    index.restore(np.arange(3000, 3200), rows.take(0, 0))
    index.check()
    assert index.parts() == before


def test_a_split_index_is_divided_anew_when_it_has_outgrown_its_plan() -> None:
    index, rows = SplitIndex(), MARKET.subscriptions()
    for start, stop in ((0, 1), (1, 2), (2, 40), (40, 400), (400, 3000)):
        index.insert(rows.take(start, stop))
        index.check()
    assert index.parts() == a_split().parts()
    assert np.array_equal(index.store.extract_all().ids, rows.ids)


def test_a_saved_split_index_keeps_its_parts(tmp_path: Path) -> None:
    index = a_split()
    index.save(tmp_path / "saved")
    loaded = load_index(tmp_path / "saved")
    assert isinstance(loaded, SplitIndex)
    assert loaded.parts() == index.parts()
    assert isinstance(PostingsIndex.load(tmp_path / "saved" / "postings"), PostingsIndex)
    more = Marketplace(size=3100, products=200, sellers=300, tags=100).subscriptions().take(3000, 3100)
    loaded.insert(more)
    loaded.check()
    assert len(loaded) == 3100
