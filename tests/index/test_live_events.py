"""Live events: what subscriptions of the future match, judged by the oracle turned round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from matchwood.encode.arrays import make_events, make_rows
from matchwood.errors import EventError, QueryError
from matchwood.index import MOTree, Scan
from matchwood.index import mo_tree_plan as plans
from matchwood.index.live_events import LiveEvents
from matchwood.lang.evaluate import rank
from matchwood.lang.event import event_keys
from matchwood.workloads.city import City
from tests.worlds import World, a_world, listed, ranked, seeded_dice

NEVER = -np.inf


def expected(world: World, ids: np.ndarray, alive: np.ndarray, mode: str) -> list[list[tuple[int, float]]]:
    """For each subscription its live events (id, score), best first, then by id."""
    keys = [event_keys(event, world.schema) for event in world.events]
    answers = []
    for id_, (priority, _, rows) in world.subscriptions.items():
        hits = []
        for e in np.flatnonzero(alive):
            for _, score in rank([(id_, priority, rows)], keys[e], mode=mode):
                hits.append((int(ids[e]), score))
        answers.append(sorted(hits, key=lambda hit: (-hit[1], hit[0])))
    return answers


@pytest.mark.parametrize("seed", range(4))
def test_subscriptions_meet_the_live_events_the_oracle_names(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "LINE_ROWS", 512 if seed < 2 else 16)  # small nodes: layers in a small world
    world = a_world(seeded_dice(seed), 40, 90)
    live = LiveEvents(like=(lambda: [(0, 9, True), (1, 5, True), (3, 7, False)]) if seed % 2 else None)
    ids, until = np.arange(90)[::-1] * 2 + 1, np.arange(90.0) % 7
    events = world.event_arrays()
    live.insert(events.take(0, 40), ids[:40], until[:40])
    live.insert(events.take(40, 90), ids[40:], until[40:])
    live.check()
    for now in (NEVER, 0.0, 3.0, 5.5):
        for mode in ("all", "any"):
            answer = expected(world, ids, until > now, mode)
            assert ranked(live.match(world.rows(), now, mode=mode)) == answer
            assert listed(live.match(world.rows(), now, k=3, mode=mode)) == [hits[:3] for hits in answer]
            live.check()
    live.sweep(6.0, 1000)
    assert len(live) == 0


def test_an_event_has_expired_in_the_instant_of_its_until() -> None:
    live = LiveEvents()
    live.insert(make_events([0, 1], [0], [5.0], [5.0]), np.array([8]), np.array([100.0]))
    row = make_rows([1], [0.0], [0, 1], [0], [0], [0.0], [9.0], [1.0])
    assert live.match(row, np.nextafter(100.0, 0.0)).ids.tolist() == [8]
    assert live.match(row, 100.0).ids.tolist() == []
    assert len(live) == 0


def test_memory_comes_back_though_nobody_subscribes() -> None:
    live = LiveEvents()
    for batch in range(50):
        keys = np.full(100, float(batch))
        events = make_events(range(101), np.zeros(100), keys, keys)
        live.insert(events, np.arange(100) + 100 * batch, np.full(100, batch + 1.5), now=float(batch))
    assert len(live) <= 500
    live.check()


def test_a_sweep_looks_at_no_more_than_its_limit() -> None:
    live = LiveEvents()
    live.insert(make_events(range(101), np.zeros(100), np.zeros(100), np.zeros(100)), np.arange(100), np.zeros(100))
    assert [live.sweep(1.0, 30) for _ in range(5)] == [30, 30, 30, 10, 0]


@pytest.mark.parametrize("preset", ["k6", "k10"])
def test_a_city_of_live_events_is_matched_as_scan_matches_it(preset: str) -> None:
    city = City.preset(preset, size=400, source="synthetic")
    rows, events = city.subscriptions(), city.events(20_000)
    tree = MOTree.build(City.preset(preset, size=20_000, source="synthetic").subscriptions())
    tree.live.insert(events, np.arange(20_000), np.full(20_000, np.inf))
    found = tree.live.match(rows, 0.0)
    turned = Scan.build(rows).match(events)
    pairs = {(int(s), e) for e in range(20_000) for s in turned.of(e)[0]}
    assert {(s, int(e)) for s in range(400) for e in found.of(s)[0]} == pairs
    assert tree.live.candidates[0] < 3 * len(pairs) + 400 * 100
    top = tree.live.match(rows, 0.0, k=5)
    assert listed(top) == [hits[:5] for hits in ranked(found)]


def test_events_come_and_go_in_random_order() -> None:
    rng = np.random.default_rng(4)
    city = City.preset("k4", size=50, source="synthetic")
    rows, pool = city.subscriptions(), city.events(3_000)
    live, inside = LiveEvents(like=lambda: [(0, 16, True), (1, 16, True)]), np.zeros(3_000, bool)
    scan = Scan.build(rows)
    for _ in range(12):
        batch = np.sort(rng.permutation(3_000)[:600])
        gone, new = batch[inside[batch]], batch[~inside[batch]]
        live.delete(gone)
        for start, stop in zip(new[::40], [*(new[::40][1:]), new[-1] + 1], strict=True):
            for e in new[(new >= start) & (new < stop)]:
                live.insert(pool.take(int(e), int(e) + 1), np.array([e]), np.array([np.inf]))
        inside[gone], inside[new] = False, True
        live.check()
    turned = scan.match(pool)
    pairs = {(int(s), e) for e in np.flatnonzero(inside).tolist() for s in turned.of(e)[0]}
    found = live.match(rows, 0.0)
    assert {(s, int(e)) for s in range(50) for e in found.of(s)[0]} == pairs


@pytest.mark.parametrize("plain", [True, False])
def test_events_of_hundreds_of_attributes_are_matched_as_scan_matches_them(plain: bool) -> None:
    """Dimensions above 63 have no bit in an event's mask; such events stand among others in the same tree."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 30, 3_000)
    dims = np.concatenate([np.sort(rng.permutation(60 if e % 3 else 300)[:n]) for e, n in enumerate(sizes)])
    lo = rng.integers(0, 20, len(dims)).astype(float)
    hi = lo if plain else lo + (rng.random(len(dims)) < 0.05)
    events = make_events(np.concatenate([[0], np.cumsum(sizes)]), dims, lo, hi)
    named = np.concatenate([np.sort(rng.permutation(300 if r % 2 else 60)[:2]) for r in range(300)])
    begin = rng.integers(0, 15, 600).astype(float)
    rows = make_rows(range(300), np.zeros(300), np.arange(301) * 2, named, np.zeros(600), begin, begin + 8, begin)
    live = LiveEvents()
    live.insert(events, np.arange(3_000), np.full(3_000, np.inf))
    live.check()
    turned = Scan.build(rows).match(events)
    pairs = {(int(s), e) for e in range(3_000) for s in turned.of(e)[0]}
    found = live.match(rows, 0.0)
    assert {(s, int(e)) for s in range(300) for e in found.of(s)[0]} == pairs
    assert listed(live.match(rows, 0.0, k=3)) == [hits[:3] for hits in ranked(found)]
    live.delete(np.arange(0, 3_000, 2))
    live.check()
    assert {(s, int(e)) for s, hits in enumerate(ranked(live.match(rows, 0.0))) for e, _ in hits} == {
        (s, e) for s, e in pairs if e % 2
    }


def test_a_tree_is_saved_with_its_live_events_and_goes_on(tmp_path: Path) -> None:
    city = City.preset("k6", size=3_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(4_000)
    tree = MOTree.build(rows)
    tree.live.insert(events.take(0, 3_000), np.arange(3_000), np.arange(3_000.0))
    tree.save(tmp_path / "tree")
    again = MOTree.load(tmp_path / "tree")
    again.live.check()
    some = rows.take(0, 200)
    assert ranked(again.live.match(some, 1_000.0)) == ranked(tree.live.match(some, 1_000.0))
    for each in (tree, again):
        each.live.delete(np.arange(2_500, 2_600))
        each.live.insert(events.take(3_000, 4_000), np.arange(3_000, 4_000), np.full(1_000, np.inf), now=1_000.0)
        each.live.check()
    assert ranked(again.live.match(some, 1_200.0)) == ranked(tree.live.match(some, 1_200.0))
    assert ranked(again.match(events)) == ranked(tree.match(events))


def test_ids_must_be_new_to_be_kept_and_known_to_be_removed() -> None:
    live = LiveEvents()
    one = make_events([0, 1], [0], [5.0], [5.0])
    live.insert(one, np.array([3]), np.array([1.0]))
    with pytest.raises(EventError, match="3 is there already"):
        live.insert(one, np.array([3]), np.array([1.0]))
    with pytest.raises(EventError, match="twice"):
        live.insert(make_events([0, 0, 0], [], [], []), np.array([4, 4]), np.array([1.0, 1.0]))
    with pytest.raises(EventError, match="5 is not there"):
        live.delete(np.array([3, 5]))
    with pytest.raises(QueryError, match="until"):
        live.insert(one, np.array([4]), np.array([1.0, 2.0]))
    with pytest.raises(QueryError, match="k"):
        live.match(make_rows([1], [0.0], [0, 0], [], [], [], [], []), 0.0, k=0)
    live.check()
    assert len(live) == 1
