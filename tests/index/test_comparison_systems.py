"""The systems that the MO-Tree is compared with: right where they promise to be, and approximate where they say so.

TAMA and OpIndex are in the contract suite, the BEQ-Tree in that of events; here is what they do not ask.
"""

from __future__ import annotations

import numpy as np
import pytest

from matchwood import Event, Schema, parse
from matchwood.baselines.beq_tree import BEQTree
from matchwood.baselines.tama import Tama
from matchwood.encode.arrays import make_events, make_rows
from matchwood.errors import SubscriptionError
from matchwood.structures import Scan
from matchwood.workloads.city import City
from tests.edges import DOMAINS, crowd_of, edges_of
from tests.worlds import World, a_world, listed, ranked, seeded_dice


def test_an_approximate_tama_misses_nothing_and_may_say_too_much() -> None:
    city = City.preset("k6", size=5_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(30)
    exact, rough = Tama.build(rows), Tama.build(rows, exact=False, levels=4)
    true, said = ranked(exact.match(events)), ranked(rough.match(events))
    assert true == ranked(Scan.build(rows).match(events))
    for some, more in zip(true, said, strict=True):
        assert set(some) <= set(more)
    assert sum(map(len, said)) > sum(map(len, true))


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_approximate_tama_misses_nothing_in_domains_that_are_hard_to_divide(domain: str) -> None:
    crowd = crowd_of(domain)
    rough = Tama(exact=False, levels=3)
    rough.insert(crowd.rows(0, crowd.early))
    rough.insert(crowd.rows(crowd.early, crowd.size))
    rough.check()
    for true, said in zip(crowd.expected(crowd.size), ranked(rough.match(crowd.events())), strict=True):
        assert set(true) <= set(said)


def test_tama_finds_what_lies_within_a_domain_of_one_denormal() -> None:
    world = World(Schema({"x": "number"}), events=[Event({"x": 1}), Event({"x": 0})])
    tama = Tama()
    for id_, text in enumerate(["x != 0", "x >= 0"]):
        world.put(id_, 0.0, parse(text))
        tama.insert(world.rows([id_]))
    assert [[id_ for id_, _ in hits] for hits in ranked(tama.match(world.event_arrays()))] == [[0, 1], [1]]


def test_a_tama_whose_row_stands_in_other_cells_is_told() -> None:
    rows = make_rows([1, 2], [0.0] * 2, range(3), [0] * 2, [0] * 2, [0.0, 4.0], [8.0, 5.0], [1.0] * 2)
    tama = Tama.build(rows, levels=3)
    tama.check()
    tama._domains.ends[0, 1] = 100.0
    with pytest.raises(AssertionError, match="slot 0"):
        tama.check()


def test_a_beq_tree_divides_what_can_be_divided() -> None:
    """Places that coincide, are neighbouring floats, lie so far apart that their sum overflows, or are infinite."""
    largest, beside = np.finfo(float).max, np.nextafter(1.0, 2.0)
    xs = np.array([1.0] * 20 + [beside, largest, largest / 2, -largest, np.inf, -np.inf, 0.0, 5e-324])
    ys = np.concatenate([np.zeros(20), xs[20:][::-1]])
    n = len(xs)
    events = make_events(np.arange(n + 1) * 2, [0, 1] * n, np.array([xs, ys]).T.ravel(), np.array([xs, ys]).T.ravel())
    rows = make_rows(range(n), np.zeros(n), range(n + 1), [0] * n, [0] * n, xs, xs, np.ones(n))
    for first in (1, n):  # one by one, or all at once
        beq = BEQTree(leaf_events=2)
        for start in [0, *range(first, n)]:
            part = slice(0, first) if start == 0 else slice(start, start + 1)
            ids = np.arange(n)[part]
            beq.insert(events.take(part.start, part.stop), ids, np.full(len(ids), np.inf))
            beq.check()
        for hits, x in zip(ranked(beq.match(rows, 0.0)), xs, strict=True):
            assert hits == [(e, 1.0) for e in np.flatnonzero(xs == x).tolist()]


def test_a_beq_tree_verifies_only_where_its_square_and_its_intervals_meet() -> None:
    city = City.preset("k6", size=200, source="synthetic")
    beq = BEQTree()
    beq.insert(city.events(10_000), np.arange(10_000), np.full(10_000, np.inf))
    found = beq.match(city.subscriptions(), 0.0)
    assert beq.candidates == len(found.ids)  # of single intervals, all that are counted for each match


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_r_star_tree_is_right_on_the_ends_of_rows_beside_them_and_beyond(domain: str) -> None:
    pytest.importorskip("rtree")
    from matchwood.baselines.r_star_tree import RStarTree

    edges, tree = edges_of(domain), RStarTree()
    tree.insert(edges.early.rows())
    for id_ in edges.late:
        tree.insert(edges.whole.rows([id_]))
    tree.check()
    assert ranked(tree.match(edges.whole.event_arrays())) == edges.whole.expected()
    tree.update(edges.changed.rows(edges.updated))
    tree.delete(np.array(edges.gone))
    tree.check()
    assert ranked(tree.match(edges.whole.event_arrays())) == edges.changed.expected()


def test_an_r_star_tree_agrees_with_the_oracle_through_changes() -> None:
    pytest.importorskip("rtree")
    from matchwood.baselines.r_star_tree import RStarTree

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
