"""An engine's index that changes its structure while it works: every answer is the oracle's, at every moment."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchwood import Engine
from matchwood.encode.arrays import Rows
from matchwood.errors import DuplicateSubscriptionError, QueryError, UnknownSubscriptionError
from matchwood.jit.cache import KernelCache
from matchwood.lang.evaluate import Mode
from matchwood.planner import RULES, Plan, Planned, copying
from matchwood.planner.background import NAME
from matchwood.planner.planned import Planning
from matchwood.planner.trial import Task
from matchwood.structures import INDEXES, Capability
from matchwood.workloads import City
from tests.edges import DOMAINS, NAMES, edges_of
from tests.worlds import TYPES, World, a_world, listed, ranked, seeded_dice

EAGER = replace(RULES, min_rows=30, trial=replace(RULES.trial, min_sample=32, events=4, rounds=1))
"""Rules under which a few rows are worth a plan."""
CHANGEABLE = sorted(n for n, i in INDEXES.items() if Capability.UPDATES in i.capabilities)


class Turns:
    """Planning that takes one structure after the other, among those that can do it."""

    def __init__(self, names: list[str]) -> None:
        self._names: Iterator[str] = cycle(names)
        self.made: list[str] = []

    def __call__(self, task: Task, **_: Any) -> Plan:
        while True:
            name = next(self._names)
            if task.mode is Mode.ALL or Capability.ANY in INDEXES[name].capabilities:
                self.made.append(name)
                return Plan(name, task.mode, task.total, ("its turn",))


def by_mode(whole: str, relaxed: str) -> Planning:
    """Planning that always takes the same two."""
    return lambda task, **_: Plan(whole if task.mode is Mode.ALL else relaxed, task.mode, task.total, ("always",))


def turning(names: list[str] = CHANGEABLE) -> Planned:
    return Planned(threading.RLock(), rules=EAGER, planning=Turns(names))


def assert_agrees(index: Planned, world: World) -> None:
    events = world.event_arrays()
    for mode in ("all", "any"):
        expected = world.expected(mode=mode)
        assert ranked(index.match(events, mode=mode)) == expected
        assert listed(index.top_k(events, 3, mode=mode)) == [hits[:3] for hits in expected]


def one_change(index: Planned, world: World, pool: World, chooser: random.Random) -> None:
    """Insert, delete or update a few subscriptions, in the index and in the world."""
    outside, inside = sorted(set(pool.subscriptions) - set(world.subscriptions)), sorted(world.subscriptions)
    step = chooser.choice(["insert", "insert", "delete", "update"])
    if step == "insert" and outside:
        ids = chooser.sample(outside, min(len(outside), chooser.randint(1, 12)))
        world.subscriptions.update({i: pool.subscriptions[i] for i in ids})
        index.insert(world.rows(ids))
    elif inside:
        ids = chooser.sample(inside, min(len(inside), chooser.randint(1, 6)))
        if step == "delete":
            for id_ in ids:
                del world.subscriptions[id_]
            index.delete(np.array(ids))
        else:
            for id_ in ids:
                world.subscriptions[id_] = pool.subscriptions[chooser.choice(sorted(pool.subscriptions))]
            index.update(world.rows(ids))


@pytest.mark.parametrize("seed", range(3))
def test_every_answer_is_right_while_structures_come_and_go(seed: int) -> None:
    pool = a_world(seeded_dice(seed), 80, 4)
    world, index, chooser = World(pool.schema, {}, pool.events), turning(), random.Random(seed)
    for _ in range(25):
        with index._lock:
            one_change(index, world, pool, chooser)
            assert_agrees(index, world)
            index.check()
        index.replan()
        with index._lock:
            index.check()
            assert_agrees(index, world)
    assert len(set(index._planning.made)) > 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("domain", DOMAINS)
def test_events_on_the_ends_of_rows_while_structures_come_and_go(domain: str) -> None:
    """Each structure in its turn is laid out for the early rows, then gets those at the ends of its layout and beyond."""
    edges, turns = edges_of(domain), Turns(CHANGEABLE)
    relaxed = by_mode("scan", "ranked")

    def planning(task: Task, **options: Any) -> Plan:
        return (turns if task.mode is Mode.ALL else relaxed)(task, **options)

    index = Planned(threading.RLock(), rules=EAGER, planning=planning)
    with index._lock:
        index.insert(edges.early.rows())
    for _ in CHANGEABLE:
        index.replan()
        with index._lock:  # a structure may be built meanwhile, since rows come and go
            assert_agrees(index, edges.early)
            index.insert(edges.whole.rows(edges.late))
            assert_agrees(index, edges.whole)
            index.check()
            index.delete(np.array(edges.late))
    assert {*CHANGEABLE} == {*turns.made}
    with index._lock:
        index.insert(edges.whole.rows(edges.late))
        index.update(edges.changed.rows(edges.updated))
        index.delete(np.array(edges.gone))
    index.replan()
    with index._lock:
        assert_agrees(index, edges.changed)
        index.check()


@pytest.mark.parametrize("seed", range(3))
def test_changes_between_the_chunks_of_a_new_structure_are_brought_over(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "CHUNK", 7)
    monkeypatch.setattr(copying, "MAX_LATE_CHANGES", 3)
    pool = a_world(seeded_dice(seed + 10), 200, 5)
    index, chooser = turning(["mo-tree", "scan", "be-star-tree", "vcr"]), random.Random(seed)
    world = World(pool.schema, {i: pool.subscriptions[i] for i in range(0, 180, 3)}, pool.events)
    index.insert(world.rows())
    copied = index._copying.rows_of
    disturbed = 0

    def disturbing(ids: np.ndarray) -> Rows:
        nonlocal disturbed
        exchanging = index._lock._is_owned()  # type: ignore[attr-defined]
        with index._lock:
            if disturbed < 200 and not exchanging:
                disturbed += 1
                one_change(index, world, pool, chooser)
            return copied(ids)

    monkeypatch.setattr(index._copying, "rows_of", disturbing)
    for _ in range(6):
        index.replan()
        index.check()
        assert_agrees(index, world)
    assert disturbed > 40


def test_readers_and_a_writer_never_see_a_structure_half_built() -> None:
    rows = City.preset("quick", size=6_000).subscriptions()
    events = City.preset("quick").events(8)
    index = turning(["mo-tree", "be-star-tree", "scan", "vcr"])
    with index._lock:
        index.insert(rows)
        truth = ranked(index.match(events))
    stop, problems = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            with index._lock:
                if ranked(index.match(events)) != truth:
                    problems.append(index.name)
            time.sleep(0.001)  # locks are not fair: callers without a pause keep the planner waiting

    def write() -> None:
        while not stop.is_set():
            with index._lock:  # within one hold of the lock nothing has changed for the others
                index.delete(rows.ids[:50])
                index.insert(rows.take(0, 50))
            time.sleep(0.001)

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        index.replan()
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    index.wait()
    index.check()


def test_a_load_is_planned_before_it_is_built() -> None:
    world = a_world(seeded_dice(7), 120, 5)
    index = turning(["mo-tree"])
    first = World(world.schema, {i: world.subscriptions[i] for i in (0, 3, 6)}, world.events)
    index.insert(first.rows())
    assert index.name == "scan"
    index.insert(world.rows(list(range(9, 360, 3))))
    assert index.name == "mo-tree"
    index.check()
    assert_agrees(index, world)
    assert "rows were inserted at once" in str(index.plan()[0])


def test_a_refused_load_changes_nothing() -> None:
    world = a_world(seeded_dice(8), 100, 3)
    index = turning(["mo-tree"])
    index.insert(world.rows([6]))
    with pytest.raises(DuplicateSubscriptionError, match="6"):
        index.insert(world.rows())
    with pytest.raises(UnknownSubscriptionError):
        index.delete(np.array([5]))
    index.check()
    assert_agrees(index, World(world.schema, {6: world.subscriptions[6]}, world.events))


def test_relaxed_matching_works_at_once_and_gets_its_own_structure() -> None:
    world = a_world(seeded_dice(9), 100, 5)
    index = turning(["be-star-tree", "ranked"])
    index.insert(world.rows())
    assert index.name == "be-star-tree"  # which has no relaxed matching
    assert ranked(index.match(world.event_arrays(), mode="any")) == world.expected(mode="any")
    assert [plan.index for plan in index.plan()] == ["be-star-tree", "scan"]
    index.wait()
    index.replan()
    assert len(index.plan()) == 2
    assert_agrees(index, world)
    del world.subscriptions[3]
    index.delete(np.array([3]))
    index.check()
    assert_agrees(index, world)


def test_a_structure_for_relaxed_matching_goes_when_nobody_asks_for_it() -> None:
    world = a_world(seeded_dice(11), 60, 5)
    index = Planned(threading.RLock(), rules=EAGER, planning=by_mode("be-star-tree", "ranked"))
    index.insert(world.rows())
    index.match(world.event_arrays(), mode="any")
    index.replan()
    assert [plan.index for plan in index.plan()] == ["be-star-tree", "ranked"]
    for _ in range(8):
        index.replan()
    assert [plan.index for plan in index.plan()] == ["be-star-tree"]
    index.check()


def test_a_plan_that_fails_leaves_the_old_structure_and_says_so() -> None:
    world = a_world(seeded_dice(12), 60, 5)
    index = turning(["mo-tree"])
    index.insert(world.rows())

    def broken(task: Task, **_: Any) -> Plan:
        raise MemoryError("no room")

    index._planning = broken
    with pytest.raises(MemoryError):
        index.replan()
    assert "the latest planning failed: MemoryError('no room')" in str(index.plan()[0])
    assert_agrees(index, world)
    index._planning = by_mode("vcr", "ranked")
    index.replan()
    assert index.name == "vcr"
    assert "failed" not in str(index.plan()[0])


# the engine


def test_an_engine_chooses_by_default_and_tells() -> None:
    engine = Engine(TYPES)
    assert engine.index == "scan"
    assert "scan for matching of 0 rows" in engine.plan()
    assert "replan() was called" in engine.replan()


def test_an_engine_with_a_fixed_index_does_not_choose() -> None:
    engine = Engine(index="mo-tree")
    assert engine.plan() == "mo-tree: fixed by Engine(index='mo-tree')"
    with pytest.raises(QueryError, match="created with index='mo-tree'"):
        engine.replan()
    with pytest.raises(QueryError, match="index_options need the name"):
        Engine(index_options={"depth": 2})


def test_a_large_load_gets_a_structure_and_the_same_answers(tmp_path: Path) -> None:
    city = City.preset("quick", size=6_000)
    told, free = Engine(city.schema(), index="scan"), Engine(city.schema())
    for engine in (told, free):
        engine.subscribe_rows(city.subscriptions())
    assert "of 6,000 rows" in free.plan()
    assert free.ready(timeout=250)
    assert "predicates per row" in free.plan()
    for batch in range(4):
        events = city.events(100, batch=batch)
        assert listed(free.match_many(events)) == listed(told.match_many(events))
        assert listed(free.top_k_many(events, 3, mode="any")) == listed(told.top_k_many(events, 3, mode="any"))
    free._index.wait()  # type: ignore[union-attr]
    assert "of the latest events" in free.plan()
    free.save(tmp_path / "saved")
    again = Engine.load(tmp_path / "saved")
    assert again.index == free.index
    assert again.plan().splitlines()[0] == free.plan().splitlines()[0]
    assert listed(again.match_many(city.events(50))) == listed(told.match_many(city.events(50)))
    plan = again.plan()
    for batch in range(8):  # the plan that was saved had seen events: the first ones are no reason to try again
        again.match_many(city.events(100, batch=batch))
    again._index.wait()  # type: ignore[union-attr]
    assert again.plan() == plan
    again.replan()
    again.unsubscribe(7)
    assert 7 not in again


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_engine_that_chooses_is_right_on_the_ends_of_subscriptions(domain: str) -> None:
    edges, engine = edges_of(domain), Engine(dict.fromkeys(NAMES, "number"), index="auto")

    def subscribe(ids: list[int]) -> None:
        for id_ in ids:
            priority, expression, _ = edges.whole.subscriptions[id_]
            engine.subscribe(expression, id=id_, priority=priority)

    index = engine._index
    assert isinstance(index, Planned)
    index._rules = EAGER
    subscribe(sorted(edges.early.subscriptions))
    for name in ("vcr", "mo-tree", "be-star-tree"):
        index._planning = by_mode(name, "ranked")
        engine.replan()
        assert engine.index == name
        subscribe(edges.late)
        for mode in ("all", "any"):
            expected = edges.whole.expected(mode=mode)
            assert listed(engine.match_many(edges.whole.events, mode=mode)) == expected
            assert listed(engine.top_k_many(edges.whole.events, 3, mode=mode)) == [hits[:3] for hits in expected]
        for id_ in edges.late:
            engine.unsubscribe(id_)


def loaded_under_the_lock(name: str) -> list[str]:
    """The kernels that a planner in a fresh process loads or compiles while it holds the engine's lock."""
    loaded: list[str] = []
    load = KernelCache.load_overload

    def noting(cache: KernelCache, *arguments: Any) -> Any:
        if threading.current_thread().name == NAME and index._lock._is_owned():  # type: ignore[attr-defined]
            loaded.append(cache._name)
        return load(cache, *arguments)

    world = a_world(seeded_dice(13), 400, 5)
    index = Planned(threading.RLock(), planning=by_mode(name, "scan"))  # with rules that ask for more rows
    for id_ in world.subscriptions:
        index.insert(world.rows([id_]))
        index.match(world.event_arrays())
    copied = index._copying.rows_of

    def disturbing(ids: np.ndarray) -> Rows:
        if not index._lock._is_owned():  # type: ignore[attr-defined]
            with index._lock:
                index.update(world.rows([next(iter(world.subscriptions))]))
        return copied(ids)

    index.update(world.rows([next(iter(world.subscriptions))]))
    KernelCache.load_overload = noting  # type: ignore[method-assign]
    index._copying.rows_of = disturbing  # type: ignore[method-assign]
    index.replan()
    assert index.name == name
    return loaded


@pytest.mark.parametrize("name", ["vcr", "be-star-tree", pytest.param("mo-tree", marks=pytest.mark.stress)])
def test_the_planner_compiles_nothing_while_it_holds_the_lock(name: str) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as fresh_process:
        assert fresh_process.apply(loaded_under_the_lock, (name,)) == []
