"""Live events in the event half of an MO-Tree: what the contract of events does not ask."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from matchwood.encode.arrays import concatenate_events, make_events, make_rows
from matchwood.encode.picking import pick_events
from matchwood.errors import EventError
from matchwood.structures import LiveEvents, MOTree, Scan
from matchwood.workloads.city import City
from tests.worlds import a_world, ranked, seeded_dice


def test_an_expired_event_is_passed_over_and_stays_until_it_is_deleted() -> None:
    live = LiveEvents()
    live.insert(make_events([0, 1], [0], [5.0], [5.0]), np.array([8]), np.array([100.0]))
    row = make_rows([1], [0.0], [0, 1], [0], [0], [0.0], [9.0], [1.0])
    assert live.match(row, 99.0).ids.tolist() == [8]
    assert live.match(row, 100.0).ids.tolist() == []
    assert len(live) == 1
    live.delete(np.array([8]))
    assert len(live) == 0


def test_reading_leaves_live_events_as_they_are() -> None:
    """Expired ones too: match, check and saving change no array of the tree or its store."""
    city = City.preset("k6", size=300, source="synthetic")
    rows, events = city.subscriptions(), city.events(3_000)
    live = LiveEvents()
    live.insert(events, np.arange(3_000), np.arange(3_000.0))
    live.insert(events.take(0, 1), np.array([5_000]), np.array([np.inf]))
    states = live._tree, live.store.state
    before = [{name: getattr(state, name).copy() for name in state._fields} for state in states]
    for mode in ("all", "any"):
        live.match(rows, 1_500.0, mode=mode)
    live.match(rows, 1_500.0, k=3)
    live.check()
    live.arrays()
    assert (live._tree, live.store.state) == states
    for state, arrays in zip(states, before, strict=True):
        for name, array in arrays.items():
            assert array.tobytes() == getattr(state, name).tobytes(), name


@pytest.mark.parametrize("seed", range(4))
def test_events_come_and_go_in_bulk(seed: int) -> None:
    """Values, ranges and lists; each bulk in its own order, checked all along, and compared with event matching."""
    world, rng, live = a_world(seeded_dice(seed + 90), 30, 600), np.random.default_rng(seed), LiveEvents()
    events, rows, inside = world.event_arrays(), world.rows(), np.zeros(600, bool)
    for _ in range(6):
        batch = rng.permutation(600)[: rng.integers(1, 400)]
        gone, new = batch[inside[batch]], batch[~inside[batch]]
        live.delete(gone)
        live.insert(pick_events(events, new), new, np.full(len(new), np.inf))
        inside[gone], inside[new] = False, True
        live.check()
    hits = {(s, e) for e, each in enumerate(world.expected()) if inside[e] for s, _ in each}
    found = live.match(rows, 0.0)
    asked = list(dict.fromkeys(rows.ids.tolist()))
    assert {(s, e) for s, each in zip(asked, ranked(found), strict=True) for e, _ in each} == hits


def test_free_slots_are_filled_again() -> None:
    """Most events fit the regions that were left, some do not: answers are those of a tree that saw no other events."""
    city = City.preset("k6", size=2_000, source="synthetic")
    rows, events = city.subscriptions().take(0, 200), city.events(4_000)
    few = make_events(np.arange(301), np.zeros(300), np.linspace(0, 9, 300), np.linspace(0, 9, 300))
    live, fresh, forever = LiveEvents(), LiveEvents(), np.full(4_300, np.inf)
    live.insert(events.take(0, 3_000), np.arange(3_000), forever[:3_000])
    gone = np.random.default_rng(3).permutation(3_000)[:1_500]
    live.delete(gone)
    live.insert(concatenate_events([events.take(3_000, 4_000), few]), np.arange(3_000, 4_300), forever[:1_300])
    live.check()
    stay = np.setdiff1d(np.arange(4_000), gone)
    fresh.insert(
        concatenate_events([pick_events(events, stay), few]), np.append(stay, np.arange(4_000, 4_300)), forever[:2_800]
    )
    assert ranked(live.match(rows, 0.0)) == ranked(fresh.match(rows, 0.0))
    assert len(live) == 2_800


@pytest.mark.parametrize(("wrong", "problem"), [(5, "event 5 is there already"), (2_001, "given twice")])
def test_all_events_are_kept_or_none(wrong: int, problem: str) -> None:
    """An id that is kept, and one that is given to two events."""
    events = City.preset("k6", size=2_000, source="synthetic").events(2_000)
    live, forever = LiveEvents(), np.full(2_000, np.inf)
    live.insert(events, np.arange(2_000), forever)
    live.delete(np.arange(1_000, 2_000))
    ids = np.arange(2_000, 3_000)
    ids[-1] = wrong
    with pytest.raises(EventError, match=problem):
        live.insert(events.take(1_000, 2_000), ids, forever[:1_000])
    live.check()
    assert len(live) == 1_000
    assert not live.knows(np.arange(2_000, 3_000)).any()
    live.insert(events.take(1_000, 2_000), np.arange(1_000, 2_000), forever[:1_000])
    live.check()


@pytest.mark.parametrize("seed", range(2))
def test_events_that_come_one_by_one(seed: int) -> None:
    """Values, ranges and lists; some are removed, and some expire."""
    world, rng, live = a_world(seeded_dice(seed + 300), 30, 600), np.random.default_rng(seed), LiveEvents()
    events, rows = world.event_arrays(), world.rows()
    asked = list(dict.fromkeys(rows.ids.tolist()))
    until = np.where(rng.random(600) < 0.5, rng.random(600) * 100, np.inf)
    live.insert(pick_events(events, np.arange(200)), np.arange(200), until[:200])
    inside = set(range(200))
    for now in range(80):
        new = sorted(set(range(600)) - inside)[: 1 if now % 25 else 9]
        live.insert(pick_events(events, np.array(new)), np.array(new), until[new])
        inside = {e for e in inside | set(new) if live.knows(np.array([e]))[0]}
        if rng.random() < 0.3:
            gone = new[0] if rng.random() < 0.5 and new[0] in inside else int(rng.choice(sorted(inside)))
            live.delete(np.array([gone]))
            inside.remove(gone)
        live.check()
        if now % 40 == 30:
            live.delete(np.array([e for e in sorted(inside) if until[e] <= now], dtype=np.int64))
            inside = {e for e in inside if until[e] > now}
            hits = {(s, e) for e, each in enumerate(world.expected()) if e in inside for s, _ in each}
            found = live.match(rows, float(now))
            assert {(s, e) for s, each in zip(asked, ranked(found), strict=True) for e, _ in each} == hits
    assert len(live) == len(inside)
    again = LiveEvents.of_arrays(live.arrays())
    again.check()
    assert ranked(again.match(rows, 80.0)) == ranked(live.match(rows, 80.0))


@pytest.mark.parametrize("preset", ["k6", "k10"])
def test_events_planned_like_the_rows_of_a_tree_leave_few_candidates(preset: str) -> None:
    city = City.preset(preset, size=400, source="synthetic")
    rows, events = city.subscriptions(), city.events(20_000)
    tree = MOTree.build(City.preset(preset, size=20_000, source="synthetic").subscriptions())
    live = LiveEvents(like=tree.axes)
    live.insert(events, np.arange(20_000), np.full(20_000, np.inf))
    found = live.match(rows, 0.0)
    turned = Scan.build(rows).match(events)
    pairs = {(int(s), e) for e in range(20_000) for s in turned.of(e)[0]}
    assert {(s, int(e)) for s in range(400) for e in found.of(s)[0]} == pairs
    assert live.candidates < 3 * len(pairs) + 400 * 100


def test_live_events_are_saved_as_arrays_and_go_on() -> None:
    city = City.preset("k6", size=3_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(4_000)
    tree = MOTree.build(rows)
    live = LiveEvents(like=tree.axes)
    live.insert(events.take(0, 3_000), np.arange(3_000), np.arange(3_000.0))
    again = LiveEvents.of_arrays({name: array.copy() for name, array in live.arrays().items()}, like=tree.axes)
    again.check()
    some = rows.take(0, 200)
    assert ranked(again.match(some, 1_000.0)) == ranked(live.match(some, 1_000.0))
    for each in (live, again):
        each.delete(np.arange(2_500, 2_600))
        each.insert(events.take(3_000, 4_000), np.arange(3_000, 4_000), np.full(1_000, np.inf))
        each.check()
    assert ranked(again.match(some, 1_200.0)) == ranked(live.match(some, 1_200.0))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("most", "dims"), [(6, 24), (20, 24), (20, 40)])
def test_values_that_differ_in_the_last_bits_are_told_apart(seed: int, most: int, dims: int) -> None:
    """Keys and ends a few steps around the same numbers, and exactly those numbers in some events. Rows
    of up to `most` intervals."""
    rng = np.random.default_rng(seed)
    around = np.array([0.0, 1.0, -1.0, 3.0, 1e-9, -7e5])
    near = np.concatenate([[a, *_steps(a, 2, np.inf), *_steps(a, 2, -np.inf)] for a in around])
    event_dims = [np.sort(rng.permutation(dims)[: rng.integers(12, dims + 1)]) for _ in range(300)]
    row_dims = [np.sort(rng.permutation(dims)[: rng.integers(0, most + 1)]) for _ in range(200)]
    keys = np.concatenate([rng.choice(around if e % 4 == 0 else near, len(d)) for e, d in enumerate(event_dims)])
    events = make_events(np.cumsum([0, *map(len, event_dims)]), np.concatenate(event_dims), keys, keys)
    ends = np.sort(rng.choice([*near, -np.inf, np.inf], (2, sum(map(len, row_dims)))), axis=0)
    ends[rng.random(ends.shape) < 0.6] = np.inf
    lo, hi = np.where(np.isinf(ends[0]), -np.inf, ends[0]), ends[1]
    offsets, ids = np.cumsum([0, *map(len, row_dims)]), np.arange(200)
    rows = make_rows(ids, np.zeros(200), offsets, np.concatenate(row_dims), np.zeros(len(lo)), lo, hi, np.ones(len(lo)))
    live = LiveEvents()
    live.insert(events, np.arange(300), np.full(300, np.inf))
    live.check()
    found, turned = live.match(rows, 0.0), Scan.build(rows).match(events)
    pairs = {(int(s), e) for e in range(300) for s in turned.of(e)[0]}
    assert {(s, int(e)) for s in range(200) for e in found.of(s)[0]} == pairs
    assert len(pairs) > 200


def test_whole_numbers_and_those_beside_them_that_come_later_are_told_apart() -> None:
    """Rows whose ends lie a step beside whole numbers; first all keys are such numbers, then in some dimensions some are not, of
    events that come one by one or many at once."""
    rng, dims, n = np.random.default_rng(0), 8, 40_000
    whole = np.array([0.0, 1.0, 2.0, 3.0])
    near = np.concatenate([[a, *_steps(a, 1, np.inf), *_steps(a, 1, -np.inf)] for a in whole])
    ends = np.sort(rng.choice(near, (2, 300 * 2)), axis=0)
    ends[1, rng.random(600) < 0.5] = np.inf
    row_dims = np.concatenate([np.sort(rng.permutation(dims)[:2]) for _ in range(300)])
    rows = make_rows(
        *(range(300), np.zeros(300), 2 * np.arange(301), row_dims, np.zeros(600), ends[0], ends[1], np.ones(600))
    )
    keys = rng.choice(whole, (n, dims))
    keys[100:110, 1], keys[20_000:, 5] = rng.choice(near, 10), rng.choice(near, n - 20_000)
    offsets = dims * np.arange(n + 1)
    events = make_events(offsets, np.tile(np.arange(dims), n), *[keys.reshape(-1)] * 2)
    turned = Scan.build(rows).match(events)
    pairs = np.stack([turned.ids, np.repeat(np.arange(n), np.diff(turned.offsets))], axis=1)
    live, ids, until = LiveEvents(), np.arange(n), np.full(n, np.inf)
    for steps in ([0, 100], range(100, 122), [121, 20_000, n]):
        for begin, end in itertools.pairwise(steps):
            live.insert(events.take(begin, end), ids[begin:end], until[begin:end])
        found = live.match(rows, 0.0)
        mine = np.stack([np.repeat(np.arange(300), np.diff(found.offsets)), found.ids], axis=1)
        expected = pairs[pairs[:, 1] < len(live)]
        assert len(mine) == len(expected) > 0
        assert (mine[np.lexsort(mine.T)] == expected[np.lexsort(expected.T)]).all()
    live.delete(ids[20_000:])
    live.insert(events.take(20_000, n), ids[20_000:], until[20_000:])  # into free slots
    found = live.match(rows, 0.0)
    assert np.diff(found.offsets).tolist() == np.bincount(pairs[:, 0], minlength=300).tolist()
    live.check()


def test_a_row_on_a_late_dimension_matches_only_events_that_have_it() -> None:
    """Events of few dimensions have places for no others."""
    few = [(dims, key) for dims in ([0], [0, 1, 2], [*range(20)], [*range(24)]) for key in (0.0, 3.0, 3.1)]
    many = [([*dims, late], key) for dims, key in few[:4] for late in (24, 30, 47, 48, 63)]
    events = make_events(
        np.cumsum([0, *(len(dims) for dims, _ in few + many)]),
        np.concatenate([dims for dims, _ in few + many]),
        *[np.concatenate([np.full(len(dims), key) for dims, key in few + many])] * 2,
    )
    rows = make_rows(range(64), np.zeros(64), range(65), range(64), [0] * 64, [-1.0] * 64, [9.0] * 64, [1.0] * 64)
    live = LiveEvents()
    live.insert(events, np.arange(events.size), np.full(events.size, np.inf))
    found = live.match(rows, 0.0)
    for dim in range(64):
        assert sorted(found.of(dim)[0]) == [e for e, (dims, _) in enumerate(few + many) if dim in dims], dim


@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_many_events_of_one_score_are_those_of_the_least_ids(seed: int) -> None:
    """Beside some that weigh more or less, and some that have expired; subscriptions of one row and of two."""
    rng, n = np.random.default_rng(seed), 3_000
    weights = np.where(rng.random(2 * n) < 0.05, rng.choice([0.5, 2.0], 2 * n), 1.0)
    keys = rng.integers(0, 50, 2 * n) * 1.0
    events = make_events(2 * np.arange(n + 1), np.tile([0, 1], n), keys, keys, weights)
    ids, until = rng.permutation(10 * n)[:n], np.where(rng.random(n) < 0.1, 5.0, np.inf)
    rows, named = 200, 2 * np.arange(201)
    lo, hi = np.sort(rng.integers(-5, 55, (2, 2 * rows)) * 1.0, axis=0)
    weigh = rng.choice([1.0, 3.0], 2 * rows)
    of = np.repeat(np.arange(150), np.repeat([1, 2], [100, 50]))
    asked = make_rows(of, rng.choice([0.0, 2.0], 150)[of], named, [0, 1] * rows, np.zeros(2 * rows), lo, hi, weigh)
    live = LiveEvents()
    live.insert(events, ids, until)
    answer = ranked(live.match(asked, 4.0))
    assert max(map(len, answer)) > 1_000
    for now in (4.0, 6.0):
        alive = set(ids[until > now].tolist())
        for k in (1, 10, 64, 65, 400):
            best = live.match(asked, now, k=k)
            expected = [[hit for hit in hits if hit[0] in alive][:k] for hits in answer]
            assert [list(zip(*(c.tolist() for c in best.of(s)), strict=True)) for s in range(150)] == expected


def _steps(number: float, many: int, towards: float) -> list[float]:
    """The next numbers after this one."""
    steps = [number]
    for _ in range(many):
        steps.append(float(np.nextafter(steps[-1], towards)))
    return steps[1:]
