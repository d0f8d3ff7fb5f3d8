"""Batches that do not fit: more hits than there is room for, answers that come in parts, subscriptions of several rows."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import Events, Rows, make_events, make_rows
from matchwood.structures import LiveEvents, MOTree, Scan
from matchwood.structures.live import index as live_events
from matchwood.structures.mo_tree import index as mo_tree
from matchwood.structures.mo_tree.kernels import batch
from tests.worlds import listed, ranked

HITS, QUERIES = 1 << 16, 32
MANY = HITS + 20_000


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "HITS", HITS)
    for module in (mo_tree, live_events):
        monkeypatch.setattr(module, "QUERIES", QUERIES)


def _rows(n: int, ids: object = None, width: float = 1.0) -> Rows:
    """Rows that all hold for 0.5, row i with a score of i % 1000."""
    at = np.arange(n)
    low, high = -at / n, 0.5 + width * at / n
    scores = at % 1000
    return make_rows(
        at if ids is None else ids, np.zeros(n), np.arange(n + 1), np.zeros(n), np.zeros(n), low, high, scores
    )


def _events(keys: object) -> Events:
    keys = np.asarray(keys, np.float64)
    return make_events(np.arange(len(keys) + 1), np.zeros(len(keys)), keys, keys)


@pytest.fixture(scope="module")
def crowded() -> MOTree:
    return MOTree.build(_rows(MANY))


@pytest.mark.parametrize("mode", ["all", "any"])
def test_an_event_with_more_hits_than_there_is_room_gets_all_of_them(crowded: MOTree, mode: str) -> None:
    for events in (_events([0.5]), _events([0.5, 7.0, 0.5])):
        found = crowded.match(events, mode=mode)
        for e in range(events.size):
            ids, scores = found.of(e)
            assert np.sort(ids).tolist() == (list(range(MANY)) if events.lo[e] == 0.5 else [])
            assert (scores == ids % 1000).all()
        assert crowded.top_k(events, 3, mode=mode).of(0)[0].tolist() == [999, 1999, 2999]


def test_a_batch_with_more_hits_than_there_is_room_is_answered_in_smaller_ones() -> None:
    tree = MOTree.build(_rows(20_000))
    events = _events(np.where(np.arange(2 * QUERIES) % 5 == 0, 2.0, 0.5))
    for _ in range(2):  # the second time with room for all answers
        found = tree.match(events)
        assert np.diff(found.offsets).tolist() == np.where(events.lo == 0.5, 20_000, 0).tolist()
        assert all(np.array_equal(np.sort(found.of(e)[0]), np.arange(20_000)) for e in (1, 32, 63))
    best = tree.top_k(events, 2)
    assert {tuple(best.of(e)[0]) for e in range(events.size)} == {(999, 1999), ()}


def test_answers_that_outgrow_their_room_again_and_again_are_all_there() -> None:
    rows = _rows(3_000)
    tree, scan = MOTree.build(rows), Scan.build(rows)
    events = _events(np.linspace(-1.0, 1.5, 3 * QUERIES + 7))
    assert ranked(tree.match(events)) == ranked(scan.match(events))
    assert listed(MOTree.build(rows).top_k(events, 50)) == listed(scan.top_k(events, 50))


def test_a_row_with_more_live_events_than_there_is_room_gets_all_of_them() -> None:
    live = LiveEvents()
    until = np.where(np.arange(MANY) % 3 == 0, 1.0, 9.0)
    live.insert(_events(np.linspace(0.0, 0.4, MANY)), np.arange(MANY), until)
    for rows in (_rows(1), _rows(3)):
        assert np.sort(live.match(rows, 0.0).of(0)[0]).tolist() == list(range(MANY))
        assert live.match(rows, 0.0, k=3).of(0)[0].tolist() == [0, 1, 2]
    found = live.match(_rows(3), 1.0)
    assert all(np.array_equal(np.sort(found.of(s)[0]), np.flatnonzero(until > 1.0)) for s in range(3))
    live.check()


def test_a_subscription_of_more_rows_than_a_batch_has_gets_each_event_once_with_its_best_score() -> None:
    n = 3 * QUERIES + 5
    live = LiveEvents()
    live.insert(_events([0.5, 0.4, -2.0]), np.array([7, 8, 9]), np.full(3, np.inf))
    rows = _rows(n, ids=np.concatenate([[3], np.full(n - 2, 4), [5]]))
    for k in (None, 2):
        found = live.match(rows, 0.0, k=k)
        got = [sorted(zip(*(part.tolist() for part in found.of(s)), strict=True)) for s in range(3)]
        assert got == [[(7, 0.0), (8, 0.0)], [(7, n - 2.0), (8, n - 2.0)], [(7, n - 1.0), (8, n - 1.0)]]


def test_expired_events_that_several_rows_meet_are_passed_over() -> None:
    live = LiveEvents()
    until = np.where(np.arange(5_000) % 2 == 0, 1.0, 9.0)
    live.insert(_events(np.linspace(0.0, 0.5, 5_000)), np.arange(5_000), until)
    found = live.match(_rows(QUERIES + 9), 1.0)
    assert set(np.diff(found.offsets).tolist()) == {2_500}
    live.check()
