"""The contract: what every index promises, whichever structure it is. A new index joins by being in `tests.systems`.

Everything is judged by the oracle, to the id and the bits of the score. What an index says it cannot do (`capabilities`) must be
refused with a clear error, never answered wrongly.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings

from matchwood.encode.arrays import concatenate_rows, make_events, make_rows
from matchwood.errors import (
    DuplicateSubscriptionError,
    MatchwoodError,
    QueryError,
    StorageError,
    UnknownSubscriptionError,
    UnsupportedError,
)
from matchwood.lang.expression import Constant, any_of
from matchwood.lang.operators import Operator
from matchwood.lang.predicates import Compare
from matchwood.lang.rows import Absent
from matchwood.schema import Range, Schema
from matchwood.store import reading
from matchwood.structures import Capability, Index
from tests.edges import DOMAINS, crowd_of, edges_of
from tests.systems import SYSTEMS, make_system
from tests.worlds import World, a_subscription, a_world, an_event, examples, listed, ranked, seeded_dice, worlds

pytestmark = pytest.mark.parametrize("name", sorted(SYSTEMS))


def can(name: str, capability: Capability) -> bool:
    return capability in SYSTEMS[name].capabilities


def modes(name: str) -> list[str]:
    return ["all", "any"] if can(name, Capability.ANY) else ["all"]


def fitted(world: World, name: str) -> World:
    """The world without what the index says it cannot do."""
    if not can(name, Capability.RANGE_EVENTS):
        world.events = [e for e in world.events if not any(isinstance(v, list | Range) for v in e.values.values())]
    if not can(name, Capability.ABSENCE):
        asks = {
            i
            for i, (_, _, rows) in world.subscriptions.items()
            for r in rows
            if any(isinstance(p, Absent) for p in r.predicates)
        }
        world.subscriptions = {i: s for i, s in world.subscriptions.items() if i not in asks}
    return world


def assert_agrees(index: Index, world: World) -> None:
    """match and top-k of the index are what the oracle says."""
    events = world.event_arrays()
    for mode in modes(index.name):
        expected = world.expected(mode=mode)
        assert ranked(index.match(events, mode=mode)) == expected
        if can(index.name, Capability.TOP_K):
            for k in (1, 2, 5, 1000):
                assert listed(index.top_k(events, k, mode=mode)) == [hits[:k] for hits in expected]


@given(world=worlds(grades=True))
@settings(max_examples=examples(60))
def test_agrees_with_the_oracle_on_any_world(name: str, world: World) -> None:
    index = make_system(name)
    world = fitted(world, name)
    index.insert(world.rows())
    index.check()
    assert_agrees(index, world)


@pytest.mark.parametrize(("seed", "apart"), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 2), (5, 7)])
def test_agrees_with_the_oracle_on_larger_worlds(name: str, seed: int, apart: int) -> None:
    world = fitted(a_world(seeded_dice(seed, grades=True), 200, 25, apart=apart), name)
    index = SYSTEMS[name].build(world.rows())
    index.check()
    assert len(index) == world.rows().size
    assert_agrees(index, world)


def assert_right_on_the_edges(name: str, domain: str, seed: int) -> None:
    """Rows in bulk, then one by one at the ends of what the structure was laid out for and beyond, then changed and deleted."""
    edges, index = edges_of(domain, seed), make_system(name)
    if not can(name, Capability.UPDATES):
        index.insert(edges.whole.rows())
        index.check()
        assert_agrees(index, edges.whole)
        return
    index.insert(edges.early.rows())
    index.check()
    assert_agrees(index, edges.early)
    for id_ in edges.late:
        index.insert(edges.whole.rows([id_]))
    index.check()
    assert_agrees(index, edges.whole)
    index.update(edges.changed.rows(edges.updated))
    index.delete(np.array(edges.gone))
    index.check()
    assert_agrees(index, edges.changed)


@pytest.mark.parametrize("domain", DOMAINS)
def test_events_on_the_ends_of_rows_beside_them_and_beyond(name: str, domain: str) -> None:
    assert_right_on_the_edges(name, domain, 0)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(1, 40))
def test_many_more_events_on_the_ends_of_rows_beside_them_and_beyond(name: str, seed: int) -> None:
    for domain in DOMAINS:
        assert_right_on_the_edges(name, domain, seed)


@pytest.mark.parametrize("domain", DOMAINS)
def test_many_rows_in_domains_that_are_hard_to_divide(name: str, domain: str) -> None:
    crowd, index = crowd_of(domain), make_system(name)
    parts = [(0, crowd.size)]
    if can(name, Capability.UPDATES):
        parts = [(0, crowd.early), *((at, at + 100) for at in range(crowd.early, crowd.size, 100))]
    for first, last in parts:
        index.insert(crowd.rows(first, last))
        if first == 0 or last == crowd.size:
            expected = crowd.expected(last)
            assert ranked(index.match(crowd.events())) == expected
            assert listed(index.top_k(crowd.events(), 5)) == [hits[:5] for hits in expected]
    index.check()


@pytest.mark.parametrize("seed", range(4))
def test_stays_right_through_inserts_deletes_and_updates_in_random_order(name: str, seed: int) -> None:
    if not can(name, Capability.UPDATES):
        pytest.skip("the index says that it is static")
    dice, chooser = seeded_dice(seed), random.Random(seed)
    pool = fitted(a_world(dice, 150, 6), name)
    fresh = fitted(a_world(seeded_dice(seed + 100), 150, 0), name)
    world = World(pool.schema, {}, pool.events)
    index = make_system(name)
    for _ in range(40):
        outside = sorted(set(pool.subscriptions) - set(world.subscriptions))
        inside = sorted(world.subscriptions)
        step = chooser.choice(["insert", "insert", "delete", "update"])
        if step == "insert" and outside:
            ids = chooser.sample(outside, chooser.randint(1, min(20, len(outside))))
            world.subscriptions.update({i: pool.subscriptions[i] for i in ids})
            index.insert(world.rows(ids))
        elif step == "delete" and inside:
            ids = chooser.sample(inside, chooser.randint(1, min(15, len(inside))))
            for i in ids:
                del world.subscriptions[i]
            index.delete(np.array(ids))
        elif step == "update" and inside:
            ids = chooser.sample(inside, chooser.randint(1, min(10, len(inside))))
            changes = [i for i in ids if i in fresh.subscriptions]
            world.subscriptions.update({i: fresh.subscriptions[i] for i in changes})
            index.update(world.rows(changes))
        index.check()
        assert len(index) == world.rows().size
        assert_agrees(index, world)
    index.delete(np.array(sorted(world.subscriptions), dtype=np.int64))
    index.check()
    assert len(index) == 0


def test_an_empty_index_matches_nothing(name: str) -> None:
    index = make_system(name)
    index.check()
    matches = index.match(a_world(seeded_dice(1), 0, 3).event_arrays())
    assert matches.offsets.tolist() == [0, 0, 0, 0]
    assert len(matches.ids) == len(matches.scores) == 0


def test_an_empty_batch_gives_an_empty_answer(name: str) -> None:
    world = fitted(a_world(seeded_dice(2), 10, 0), name)
    index = SYSTEMS[name].build(world.rows())
    assert index.match(world.event_arrays()).offsets.tolist() == [0]
    if can(name, Capability.TOP_K):
        assert index.top_k(world.event_arrays(), 3).offsets.tolist() == [0]


def test_inserting_nothing_changes_nothing(name: str) -> None:
    index = make_system(name)
    index.insert(World(Schema()).rows())
    index.delete(np.zeros(0, np.int64))
    index.check()
    assert len(index) == 0


def test_a_subscription_without_predicates_matches_every_event(name: str) -> None:
    world = World(Schema())
    world.put(4, 2.5, Constant(True))
    world.events = [an_event(seeded_dice(s)) for s in range(3)]
    world = fitted(world, name)
    index = SYSTEMS[name].build(world.rows())
    index.check()
    assert ranked(index.match(world.event_arrays())) == [[(4, 2.5)]] * len(world.events)


def test_ties_go_to_the_smaller_id_at_every_k(name: str) -> None:
    if not can(name, Capability.TOP_K):
        pytest.skip("the index says that it has no top-k")
    ids = random.Random(5).sample(range(1000), 64)
    rows = make_rows(ids, [0.0] * 64, range(65), [0] * 64, [0] * 64, [0.0] * 64, [9.0] * 64, [0.5] * 64)
    index = SYSTEMS[name].build(rows)
    for k in (1, 7, 63, 64, 65):
        assert index.top_k(make_events([0, 1], [0], [4.0], [4.0]), k).ids.tolist() == sorted(ids)[:k]


def test_a_subscription_of_several_rows_is_reported_once_with_its_best_score(name: str) -> None:
    world = World(Schema())
    cheap = Compare("a", 0.5, operator=Operator.GE, value=0)
    dear = Compare("b", 2.0, operator=Operator.GE, value=0)
    for id_ in range(50):
        world.put(id_, 0.0, any_of(cheap, dear))
    events = make_events([0, 2, 3], [0, 1, 0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    index = SYSTEMS[name].build(world.rows())
    assert ranked(index.match(events)) == [[(i, 2.0) for i in range(50)], [(i, 0.5) for i in range(50)]]
    if can(name, Capability.TOP_K):
        assert listed(index.top_k(events, 3)) == [[(i, 2.0) for i in range(3)], [(i, 0.5) for i in range(3)]]


def test_more_matches_than_any_first_guess_of_room(name: str) -> None:
    n = 30_000
    rows = make_rows(range(n), np.zeros(n), range(n + 1), np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n), np.ones(n))
    index = SYSTEMS[name].build(rows)
    events = make_events(range(4), np.zeros(3), [0.5, 2.0, 1.0], [0.5, 2.0, 1.0])
    matches = index.match(events)
    assert np.diff(matches.offsets).tolist() == [n, 0, n]
    assert sorted(matches.of(2)[0].tolist()) == list(range(n))


def test_an_attribute_the_index_has_never_seen_is_no_obstacle(name: str) -> None:
    rows = make_rows([1], [0.0], [0, 1], [2], [0], [0.0], [9.0], [1.0])
    index = SYSTEMS[name].build(rows)
    events = make_events([0, 2, 3], [2, 900, 60_000], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    assert ranked(index.match(events)) == [[(1, 1.0)], []]


def test_scores_may_be_folded_by_any_monotone_function(name: str) -> None:
    if not can(name, Capability.SCORING):
        pytest.skip("the index says that it only sums")
    largest = numba.cfunc("float64(float64, float64)")(lambda score, weight: max(score, weight))
    world = fitted(a_world(seeded_dice(8), 80, 10), name)
    index = SYSTEMS[name].build(world.rows())
    for mode in modes(name):
        expected = world.expected(mode=mode, combine=max)
        assert ranked(index.match(world.event_arrays(), mode=mode, combine=largest)) == expected
        if can(name, Capability.TOP_K):
            top = index.top_k(world.event_arrays(), 4, mode=mode, combine=largest)
            assert listed(top) == [hits[:4] for hits in expected]


def test_a_saved_index_answers_the_same_and_can_go_on_changing(name: str, tmp_path: Path) -> None:
    dice = seeded_dice(9)
    world = fitted(a_world(dice, 120, 10), name)
    index = SYSTEMS[name].build(world.rows())
    index.save(tmp_path / "saved")
    for loaded in (SYSTEMS[name].load(tmp_path / "saved"), SYSTEMS[name].load(tmp_path / "saved", verify=True)):
        loaded.check()
        assert_agrees(loaded, world)
    if can(name, Capability.UPDATES):
        gone = sorted(world.subscriptions)[::2]
        loaded.delete(np.array(gone))
        for id_ in gone:
            del world.subscriptions[id_]
        a_subscription(dice, world, 10_001)
        fitted(world, name)
        if 10_001 in world.subscriptions:
            loaded.insert(world.rows([10_001]))
        loaded.check()
        assert_agrees(loaded, world)
    assert_agrees(SYSTEMS[name].load(tmp_path / "saved"), fitted(a_world(seeded_dice(9), 120, 10), name))


@pytest.mark.parametrize("saved", [0, 3, 64, 130])
def test_a_loaded_index_can_grow(name: str, saved: int, tmp_path: Path) -> None:
    if not can(name, Capability.UPDATES):
        pytest.skip("the index says that it is static")
    world = fitted(a_world(seeded_dice(12), 260, 6), name)
    ids = list(world.subscriptions)
    index = make_system(name)
    index.insert(world.rows(ids[: saved + 20]))
    index.delete(np.array(ids[saved : saved + 20]))
    index.save(tmp_path / "saved")
    loaded = SYSTEMS[name].load(tmp_path / "saved")
    for step in (1, 2, 30):
        loaded.insert(world.rows(ids[saved : saved + step]))
        saved += step
        loaded.check()
        assert_agrees(loaded, World(world.schema, {i: world.subscriptions[i] for i in ids[:saved]}, world.events))


def test_a_saved_index_is_never_overwritten(name: str, tmp_path: Path) -> None:
    index = make_system(name)
    index.save(tmp_path / "saved")
    with pytest.raises(StorageError, match="never overwritten"):
        index.save(tmp_path / "saved")


def test_a_damaged_file_is_a_storage_error(name: str, tmp_path: Path) -> None:
    world = fitted(a_world(seeded_dice(3), 30, 0), name)
    SYSTEMS[name].build(world.rows()).save(tmp_path / "saved")
    victim = max((tmp_path / "saved").rglob("store_entries.npy"), key=lambda path: path.stat().st_size)
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    with pytest.raises(StorageError, match="store_entries"):
        SYSTEMS[name].load(tmp_path / "saved")
    victim.write_bytes(content[:-8] + os.urandom(8))
    with pytest.raises(StorageError, match="damaged"):
        SYSTEMS[name].load(tmp_path / "saved", verify=True)


def test_an_id_that_is_there_is_refused_and_nothing_changes(name: str) -> None:
    if not can(name, Capability.UPDATES):
        pytest.skip("the index says that it is static")
    world = fitted(a_world(seeded_dice(4), 20, 5), name)
    ids = list(world.subscriptions)
    index = SYSTEMS[name].build(world.rows(ids[:10]))
    with pytest.raises(DuplicateSubscriptionError, match=str(ids[4])):
        index.insert(concatenate_rows([world.rows(ids[10:]), world.rows([ids[4]])]))
    with pytest.raises(DuplicateSubscriptionError, match="twice"):
        index.insert(concatenate_rows([world.rows(ids[12:13]), world.rows(ids[11:12]), world.rows(ids[12:13])]))
    index.check()
    world.subscriptions = {i: world.subscriptions[i] for i in ids[:10]}
    assert_agrees(index, world)


def test_an_update_with_a_row_too_long_is_refused_and_nothing_changes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can(name, Capability.UPDATES):
        pytest.skip("the index says that it is static")
    world = fitted(a_world(seeded_dice(4), 20, 5), name)
    index = SYSTEMS[name].build(world.rows())
    monkeypatch.setattr(reading, "MAX_COUNT", 2)
    for id_, other in zip(sorted(world.subscriptions), sorted(world.subscriptions)[1:], strict=False):
        changed = make_rows([id_], [9.0], [0, 2], [0, 1], [0, 0], [1.0, 1.0], [2.0, 2.0], [1.0, 1.0])
        long = make_rows([other], [9.0], [0, 3], [0, 1, 2], [0] * 3, [1.0] * 3, [2.0] * 3, [1.0] * 3)
        for rows in (concatenate_rows([changed, long]), long):
            with pytest.raises(MatchwoodError, match="the limit is 2"):
                index.update(rows)
    index.check()
    assert_agrees(index, world)


def test_an_unknown_id_is_refused_and_nothing_changes(name: str) -> None:
    if not can(name, Capability.UPDATES):
        pytest.skip("the index says that it is static")
    world = fitted(a_world(seeded_dice(4), 20, 5), name)
    index = SYSTEMS[name].build(world.rows())
    with pytest.raises(UnknownSubscriptionError, match="777"):
        index.delete(np.array([next(iter(world.subscriptions)), 777]))
    with pytest.raises(MatchwoodError, match="twice"):
        index.delete(np.array([next(iter(world.subscriptions))] * 2))
    index.check()
    assert_agrees(index, world)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_a_bad_k_is_a_query_error(name: str, k: object) -> None:
    with pytest.raises(QueryError, match="k"):
        make_system(name).top_k(a_world(seeded_dice(1), 0, 1).event_arrays(), k)  # type: ignore[arg-type]


def test_a_bad_mode_is_a_query_error(name: str) -> None:
    with pytest.raises(QueryError, match="'some'"):
        make_system(name).match(a_world(seeded_dice(1), 0, 1).event_arrays(), mode="some")


def test_what_an_index_cannot_do_it_refuses_by_name(name: str) -> None:
    events = make_events([0, 1], [0], [1.0], [2.0])
    index = make_system(name)
    calls = {
        Capability.ANY: lambda: index.match(events, mode="any"),
        Capability.TOP_K: lambda: index.top_k(events, 3),
        Capability.RANGE_EVENTS: lambda: index.match(events),
    }
    refused = 0
    for capability, call in calls.items():
        if can(name, capability):
            call()
        else:
            with pytest.raises(UnsupportedError, match=name):
                call()
            refused += 1
    assert refused == sum(not can(name, capability) for capability in calls)


def test_stats_count_rows_bytes_events_and_candidates(name: str) -> None:
    world = fitted(a_world(seeded_dice(11), 100, 8), name)
    index = SYSTEMS[name].build(world.rows())
    index.match(world.event_arrays())
    stats = index.stats()
    assert stats.rows == world.rows().size
    assert stats.bytes >= world.rows().nbytes // 2
    assert stats.events == len(world.events)
    hits = sum(map(len, world.expected()))
    assert stats.candidates >= hits
    index.reset_counters()
    assert index.stats().events == index.stats().candidates == 0
