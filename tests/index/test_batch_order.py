"""Answering a batch in another order changes nothing that is seen."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import Matches, concatenate_events, make_events
from matchwood.encode.picking import pick_events
from matchwood.store.batch_order import FEWEST, centres_of, keys_of, neighbours, put_back
from matchwood.store.kernels.verify import ALL
from matchwood.structures import LiveEvents, MOTree, Scan
from matchwood.structures.base import Index, Query
from matchwood.workloads import City
from tests.worlds import a_world, listed, ranked, seeded_dice


def test_what_is_near_stays_together() -> None:
    x, y = np.divmod(np.arange(256), 16)
    order = neighbours([x * 64, y * 64])
    steps = np.abs(np.diff(x[order])) + np.abs(np.diff(y[order]))
    assert sorted(order.tolist()) == list(range(256))
    assert np.mean(steps) < 2.5  # along rows it would be 1.9 with jumps of 16; at random 10.6
    assert neighbours([np.array([3, 1, 2])]).tolist() == [1, 2, 0]


def test_answers_go_back_to_where_they_were_asked() -> None:
    order = np.array([2, 0, 3, 1])
    found = Matches(np.array([0, 2, 2, 5, 6]), np.arange(6), np.arange(6) / 2)
    back = put_back(found, order)
    assert [back.of(e)[0].tolist() for e in range(4)] == [[], [5], [0, 1], [2, 3, 4]]
    assert [back.of(e)[1].tolist() for e in range(4)] == [[], [2.5], [0.0, 0.5], [1.0, 1.5, 2.0]]


def test_events_in_another_order_are_the_same_events() -> None:
    events = make_events([0, 2, 2, 3], [1, 4, 4], [10.0, 11.0, 12.0], [10.0, 11.0, 13.0], [1.0, 2.0, 3.0])
    turned = pick_events(events, np.array([2, 1, 0]))
    assert turned.offsets.tolist() == [0, 1, 1, 3]
    assert turned.hi.tolist() == [13.0, 10.0, 11.0]
    assert np.nan_to_num(keys_of(events, 4), nan=-1.0).tolist() == [11.0, -1.0, 12.0]


def test_middles_are_those_of_bounded_intervals() -> None:
    rows = City.preset("quick", size=50).subscriptions()
    dim = int(rows.dims[0])
    middles = centres_of(rows, np.arange(rows.size), dim)
    first = rows.offsets[:-1]
    assert np.allclose(middles, (rows.lo[first] + rows.hi[first]) / 2)
    assert np.isnan(centres_of(rows, np.arange(rows.size), 9_999)).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_large_batch_of_anything_is_answered_as_one_by_one(seed: int) -> None:
    world = a_world(seeded_dice(seed), 150, 12)
    tree = MOTree.build(world.rows(), layers=2)
    events = concatenate_events([world.event_arrays()] * (2 * FEWEST // 12 + 1))
    assert events.size > FEWEST
    expected = world.expected() * (events.size // 12)
    assert ranked(tree.match(events)) == expected
    assert listed(tree.top_k(events, 3)) == [hits[:3] for hits in expected]


def test_batches_of_events_and_of_subscriptions_agree_with_scan() -> None:
    city = City.preset("quick", size=6_000)
    rows, events = city.subscriptions(), city.events(500)
    tree, scan = MOTree.build(rows, layers=2), Scan.build(rows)
    assert tree._order(Query(events, ALL, None, 0)) is not None
    assert ranked(tree.match(events)) == ranked(scan.match(events)) == ranked(Index.match(tree, events))
    assert listed(tree.top_k(events, 5)) == listed(scan.top_k(events, 5))
    live = LiveEvents(like=tree.axes)
    live.insert(events, np.arange(500), np.full(500, 10.0))
    asked = rows.take(0, 300)
    whole = live.match(asked, 1.0)
    ones = [live.match(asked.take(r, r + 1), 1.0) for r in range(300)]
    assert ranked(whole) == [hits for one in ones for hits in ranked(one)]
    best = live.match(asked, 1.0, k=2)
    assert listed(best) == [hits[:2] for one in ones for hits in ranked(one)]
