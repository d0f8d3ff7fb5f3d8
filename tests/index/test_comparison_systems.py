"""The systems that the MO-Tree is compared with: right where they promise to be, and approximate where they say so.

TAMA and OpIndex are in the contract suite; here is what it does not ask.
"""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import make_events
from matchwood.errors import EventError, SubscriptionError
from matchwood.index import MOTree, Scan
from matchwood.index.beq_tree import BEQTree
from matchwood.index.tama import Tama
from matchwood.workloads.city import City
from tests.worlds import a_world, listed, ranked, seeded_dice


def test_an_approximate_tama_misses_nothing_and_may_say_too_much() -> None:
    city = City.preset("k6", size=5_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(30)
    exact, rough = Tama.build(rows), Tama.build(rows, exact=False, levels=4)
    true, said = ranked(exact.match(events)), ranked(rough.match(events))
    assert true == ranked(Scan.build(rows).match(events))
    for some, more in zip(true, said, strict=True):
        assert set(some) <= set(more)
    assert sum(map(len, said)) > sum(map(len, true))


def test_a_beq_tree_finds_the_live_events_of_subscriptions() -> None:
    city = City.preset("k6", size=200, source="synthetic")
    rows, events = city.subscriptions(), city.events(10_000)
    until = np.arange(10_000.0)
    tree = MOTree()
    tree.live.insert(events, np.arange(10_000), until)
    found = tree.live.match(rows, 4_000.0)
    for leaf_events in (64, 4_096):
        beq = BEQTree(events, np.arange(10_000), until, leaf_events=leaf_events)
        for s, ids in enumerate(beq.match(rows, 4_000.0)):
            assert ids.tolist() == sorted(found.of(s)[0].tolist())


def test_a_beq_tree_keeps_its_lists_sorted_through_changes() -> None:
    city = City.preset("k6", size=100, source="synthetic")
    rows, events = city.subscriptions(), city.events(3_000)
    until, rng = np.full(3_000, np.inf), np.random.default_rng(8)
    beq = BEQTree(events.take(0, 400), np.arange(400), until[:400], leaf_events=64)
    beq.insert(events.take(400, 3_000), np.arange(400, 3_000), until[400:])
    inside = np.ones(3_000, bool)
    for _ in range(4):
        beq.check()
        gone = rng.permutation(np.flatnonzero(inside))[:700]
        back = np.flatnonzero(~inside)
        beq.delete(gone)
        for e in back:
            beq.insert(events.take(int(e), int(e) + 1), np.array([e]), until[:1])
        inside[gone], inside[back] = False, True
    beq.check()
    assert len(beq) == inside.sum()
    tree = MOTree()
    tree.live.insert(events, np.arange(3_000), until)
    tree.live.delete(np.flatnonzero(~inside))
    found = tree.live.match(rows, 0.0)
    for s, ids in enumerate(beq.match(rows, 0.0)):
        assert ids.tolist() == sorted(found.of(s)[0].tolist())
    with pytest.raises(EventError, match="is there already"):
        beq.insert(events.take(0, 1), np.flatnonzero(inside)[:1], until[:1])
    with pytest.raises(EventError, match="is not there"):
        beq.delete(np.array([9_999]))


def test_a_beq_tree_says_what_it_cannot_keep() -> None:
    with pytest.raises(EventError, match="place"):
        BEQTree(make_events([0, 1], [5], [1.0], [1.0]), np.array([1]), np.array([1.0]))


def test_an_r_star_tree_agrees_with_the_oracle_through_changes() -> None:
    pytest.importorskip("rtree")
    from matchwood.index.r_star_tree import RStarTree

    world = a_world(seeded_dice(3), 60, 12)
    tree = RStarTree()
    ids = list(world.subscriptions)
    tree.insert(world.rows(ids[:30]))
    tree.insert(world.rows(ids[30:]))
    tree.check()
    expected = world.expected()
    assert ranked(tree.match(world.event_arrays())) == expected
    assert listed(tree.top_k(world.event_arrays(), 3)) == [hits[:3] for hits in expected]
    for id_ in ids[::2]:
        del world.subscriptions[id_]
    tree.delete(np.array(ids[::2]))
    tree.check()
    assert ranked(tree.match(world.event_arrays())) == world.expected()
    rows = City.preset("k6", size=10, source="synthetic", attributes=30).subscriptions()
    with pytest.raises(SubscriptionError, match="20 dimensions"):
        RStarTree(dimensions=20).insert(rows)
