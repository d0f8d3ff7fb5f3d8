"""MO-Tree beyond the contract: layers, nodes and plans of every shape, against the oracle."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from matchwood.encode.arrays import CIRCLE, INTERVAL, JOINED, MORE, Rows, make_events, make_rows
from matchwood.errors import QueryError
from matchwood.structures import MOTree, Scan
from matchwood.workloads.city import City
from tests.edges import DOMAINS, crowd_of, edges_of
from tests.worlds import World, a_world, listed, ranked, seeded_dice


def assert_agrees(tree: MOTree, world: World) -> None:
    events = world.event_arrays()
    for mode in ("all", "any"):
        expected = world.expected(mode=mode)
        assert ranked(tree.match(events, mode=mode)) == expected
        assert listed(tree.top_k(events, 3, mode=mode)) == [hits[:3] for hits in expected]


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_number_of_layers_agrees_with_the_oracle(layers: int, seed: int) -> None:
    world = a_world(seeded_dice(seed), 250, 15)
    tree = MOTree(layers=layers)
    tree.insert(world.rows())
    assert tree.stats().details["layers"] == layers
    tree.check()
    assert_agrees(tree, world)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_layers_of_domains_that_are_hard_to_divide(layers: int, domain: str) -> None:
    edges, crowd = edges_of(domain), crowd_of(domain)
    tree = MOTree(layers=layers)
    tree.insert(edges.early.rows())
    tree.insert(edges.whole.rows(edges.late))
    tree.check()
    assert_agrees(tree, edges.whole)
    for made in (MOTree(layers=min(layers, 2)), MOTree(plan="paper")):
        made.insert(crowd.rows(0, crowd.early))
        made.insert(crowd.rows(crowd.early, crowd.size))
        assert ranked(made.match(crowd.events())) == crowd.expected(crowd.size)


@pytest.mark.parametrize("predicates", ["k6", "k10"])
def test_a_city_is_matched_as_scan_matches_it(predicates: str) -> None:
    city = City.preset(predicates, size=30_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(60)
    tree, scan = MOTree.build(rows), Scan.build(rows)
    assert tree.stats().details["layers"] >= 1
    assert ranked(tree.match(events)) == ranked(scan.match(events))
    assert listed(tree.top_k(events, 10)) == listed(scan.top_k(events, 10))
    assert tree.stats().candidates < scan.stats().rows * len(events.offsets) / 50


def test_buckets_fill_drain_and_fill_again() -> None:
    city = City.preset("k6", size=6_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(20)
    tree, chooser = MOTree(layers=2), random.Random(5)
    tree.insert(rows)
    expected = ranked(tree.match(events))
    ids = list(range(6_000))
    for share in (6_000, 3_500, 700):
        chooser.shuffle(ids)
        gone = np.array(ids[:share])
        tree.delete(gone)
        tree.check()
        back = np.sort(gone)
        for start in range(0, share, 900):
            for id_ in (part := back[start : start + 900]):
                if len(part) < 900 or id_ % 3 == 0:
                    tree.insert(rows.take(int(id_), int(id_) + 1))
        rest = np.array([i for i in back if not tree.store.knows(np.array([i]))[0]], dtype=np.int64)
        for id_ in rest:
            tree.insert(rows.take(int(id_), int(id_) + 1))
        tree.check()
        assert ranked(tree.match(events)) == expected


def test_a_tree_that_outgrows_its_plan_is_laid_out_anew() -> None:
    city = City.preset("k6", size=20_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(30)
    tree = MOTree()
    for start in range(0, 20_000, 500):
        tree.insert(rows.take(start, start + 500))
    assert tree.stats().details["layers"] >= 1
    assert ranked(tree.match(events)) == ranked(Scan.build(rows).match(events))


@pytest.mark.parametrize("share", [0.02, 0.08, 0.15, 0.3])
def test_a_square_of_any_size_is_never_lost(share: float) -> None:
    """Cells that fit only a tenth of the domain lose larger squares."""
    rng = np.random.default_rng(3)
    city = City.preset("k4", size=5_000, source="synthetic", half_width=(share / 2, share / 2 + 1e-9))
    rows = city.subscriptions()
    at = rng.integers(0, 5_000, 40)
    first = rows.offsets[at]
    lon = (rows.lo[first] + rows.hi[first]) / 2
    lat = rows.hi[first + 1]
    keys = np.stack([lon, lat, *np.full((18, 40), 0.5)], axis=1)
    events = make_events(np.arange(41) * 20, np.tile(np.arange(20), 40), keys.ravel(), keys.ravel())
    for plan in ("planned", "paper"):
        assert ranked(MOTree.build(rows, plan=plan).match(events)) == ranked(Scan.build(rows).match(events))


@pytest.mark.parametrize("weight", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e38, 1e300])
def test_rows_that_cannot_be_among_the_best_are_left_out_and_no_other(weight: float, scale: float) -> None:
    """Ties, priorities of both signs, subscriptions of several rows, scores past float32, and events that weigh more than 1."""
    rng = np.random.default_rng(3)
    city = City.preset("k4", size=6_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(40)
    rows = rows._replace(
        ids=np.repeat(np.arange(3_000), 2),
        priority=rng.integers(-3, 3, rows.size) * scale,
        weight=np.round(rows.weight * 4) / 4 * scale,
    )
    events = events._replace(weight=np.where(rng.random(len(events.weight)) < 0.5, 1.0, weight))
    tree, scan = MOTree.build(rows), Scan.build(rows)
    for k in (1, 3, 10, 64, 65):
        assert listed(tree.top_k(events, k)) == listed(scan.top_k(events, k))
    changed = rows.take(0, 1_000)._replace(priority=np.full(1_000, 9 * scale))
    for index in (tree, scan):
        index.update(changed)
    tree.check()
    assert listed(tree.top_k(events, 3)) == listed(scan.top_k(events, 3))


@pytest.mark.parametrize("many", [1, 500])
def test_a_row_that_may_score_more_than_before_is_seen(many: int) -> None:
    city = City.preset("k4", size=2_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(30)
    tree, scan = MOTree.build(rows), Scan.build(rows)
    for begin in range(0, 500, many):
        part = rows.take(begin, begin + many)
        for index in (tree, scan):
            index.update(part._replace(weight=part.weight * 3))
    tree.check()
    assert listed(tree.top_k(events, 5)) == listed(scan.top_k(events, 5))


def test_an_unknown_plan_is_refused() -> None:
    with pytest.raises(QueryError, match="'best'"):
        MOTree(plan="best")


@pytest.mark.parametrize("seed", range(8))
def test_long_random_histories_of_subscriptions(seed: int) -> None:
    """Inserts, deletes, updates in random order, checked and compared with the oracle all along."""
    chooser = random.Random(seed)
    world, pool = a_world(seeded_dice(seed), 0, 8), a_world(seeded_dice(seed + 500), 400, 0)
    tree = MOTree(layers=chooser.choice([None, 0, 1, 2, 3]))
    for step in range(15):
        outside = sorted(set(pool.subscriptions) - set(world.subscriptions))
        inside = sorted(world.subscriptions)
        some = chooser.sample(outside, min(len(outside), chooser.randint(0, 40)))
        world.subscriptions.update({i: pool.subscriptions[i] for i in some})
        tree.insert(world.rows(some))
        gone = chooser.sample(inside, min(len(inside), chooser.randint(0, 30)))
        for id_ in gone:
            del world.subscriptions[id_]
        tree.delete(np.array(gone, dtype=np.int64))
        swapped = chooser.sample(sorted(world.subscriptions), min(5, len(world.subscriptions)))
        for id_ in swapped:
            world.subscriptions[id_] = pool.subscriptions[chooser.choice(sorted(pool.subscriptions))]
        tree.update(world.rows(swapped))
        if step % 5 == 3:
            tree.replan()
        tree.check()
        assert_agrees(tree, world)


@pytest.mark.parametrize("seed", range(2))
def test_rows_that_come_one_by_one(seed: int, tmp_path: Path) -> None:
    """Checked after each change; answers, bulk changes, plans and saving in between."""
    chooser = random.Random(seed)
    world, pool = a_world(seeded_dice(seed + 20), 0, 8), a_world(seeded_dice(seed + 600), 300, 0)
    tree = MOTree(layers=1)
    first = sorted(pool.subscriptions)[:80]
    world.subscriptions.update({i: pool.subscriptions[i] for i in first})
    tree.insert(world.rows(first))
    for step in range(60):
        inside, outside = sorted(world.subscriptions), sorted(set(pool.subscriptions) - set(world.subscriptions))
        some = chooser.sample(inside, 1 if step % 20 else 5)
        match chooser.choice(["insert"] * 6 + ["delete", "update"]):
            case "insert" if outside:
                some = outside[: len(some)]
                world.subscriptions.update({i: pool.subscriptions[i] for i in some})
                tree.insert(world.rows(some))
            case "delete":
                for id_ in some:
                    del world.subscriptions[id_]
                tree.delete(np.array(some, dtype=np.int64))
            case _:
                for id_ in some:
                    world.subscriptions[id_] = pool.subscriptions[chooser.choice(sorted(pool.subscriptions))]
                tree.update(world.rows(some))
        tree.check()
        if step % 25 == 20:
            assert_agrees(tree, world)
        elif step % 25 == 10:
            tree.replan()
    tree.save(tmp_path / "tree")
    loaded = MOTree.load(tmp_path / "tree")
    assert_agrees(loaded, world)
    for id_ in sorted(set(pool.subscriptions) - set(world.subscriptions)):
        world.subscriptions[id_] = pool.subscriptions[id_]
        loaded.insert(world.rows([id_]))
    loaded.check()
    for id_ in sorted(world.subscriptions)[::3]:
        del world.subscriptions[id_]
        loaded.delete(np.array([id_], dtype=np.int64))
    loaded.check()
    assert_agrees(loaded, world)


def test_reading_leaves_the_tree_as_it_is(tmp_path: Path) -> None:
    """After single changes too: match, top_k, stats, check and save change no array of the tree or its store."""
    city = City.preset("k6", size=3_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(80)
    tree = MOTree.build(rows.take(0, 2_900))
    for i in range(2_900, 3_000):
        tree.insert(rows.take(i, i + 1))
    tree.update(rows.take(0, 1))
    states = tree._tree, tree.store.state
    before = [{name: getattr(state, name).copy() for name in state._fields} for state in states]
    tree.match(events)
    tree.match(events.take(0, 1), mode="any")
    tree.top_k(events, 3)
    tree.stats()
    tree.check()
    tree.save(tmp_path / "tree")
    assert (tree._tree, tree.store.state) == states
    for state, arrays in zip(states, before, strict=True):
        for name, array in arrays.items():
            assert array.tobytes() == getattr(state, name).tobytes(), name


def test_subscribers_that_move_far_one_by_one() -> None:
    """Some move again, change or leave; they are matched as Scan matches them."""
    rows, far = (City.preset("k6", size=800, source="synthetic", seed=s).subscriptions() for s in (1, 2))
    events = City.preset("k6", size=800, source="synthetic").events(30)
    tree, scan, rng = MOTree(layers=2), Scan.build(rows), np.random.default_rng(5)
    tree.insert(rows)
    for step in range(300):
        i = int(rng.integers(100))
        one = (rows, far)[step // 100 % 2].take(i, i + 1)
        for index in (tree, scan):
            if rng.random() < 0.1:
                index.delete(one.ids)
                index.insert(one)
            else:
                index.update(one)
        if step % 20 == 0:
            tree.check()
        if step % 50 == 30:
            assert ranked(tree.match(events)) == ranked(scan.match(events))
    bulk = far.take(50, 150)
    for index in (tree, scan):
        index.update(bulk)
    tree.check()
    assert ranked(tree.match(events)) == ranked(scan.match(events))


def test_subscribers_move_near_and_far_in_bulk_and_one_by_one() -> None:
    city = City.preset("k6", size=4_000, source="synthetic")
    rows, other, events = (
        city.subscriptions(),
        City.preset("k6", size=4_000, source="synthetic", seed=2),
        city.events(30),
    )
    tree, scan = MOTree(layers=2), Scan.build(rows)
    tree.insert(rows)
    far = other.subscriptions()
    for step, source, size in (
        (0.0003, rows, 1_500),
        (0.0, far, 900),
        (0.02, far, 900),
        (0.0001, far, 60),
        (0.0, rows, 60),
    ):
        shift = np.where(source.dims < 2, step, 0.0)
        moved = source._replace(lo=source.lo + shift, hi=source.hi + shift)
        parts = [moved.take(0, size)] if size > 100 else [moved.take(i, i + 1) for i in range(size)]
        for part in parts:
            tree.update(part)
            scan.update(part)
        tree.check()
        assert ranked(tree.match(events)) == ranked(scan.match(events))


def circles(seed: int, shift: float) -> Rows:
    """Something cheap (every fourth: of one of two kinds) within 500 m of a place."""
    n, rng = 1_200, np.random.default_rng(seed)
    lon, lat, price = rng.uniform(0.0, 0.3, n) + shift, rng.uniform(40.0, 40.3, n), rng.uniform(1.0, 9.0, n)
    entries: list[tuple[int, int, float, float, float]] = []
    offsets = [0]
    for i, (x, y, p) in enumerate(zip(lon.tolist(), lat.tolist(), price.tolist(), strict=True)):
        place = [(0, INTERVAL, x - 0.01, x + 0.01, 1.0), (1, JOINED, y - 0.01, y + 0.01, 0.0), (0, CIRCLE, x, y, 500.0)]
        kinds = [(3, INTERVAL, 1.0, 1.0, 1.0), (3, MORE, 4.0, 4.0, 0.0)] if i % 4 == 0 else []
        entries += [*place, (2, INTERVAL, 0.0, p, 1.0), *kinds]
        offsets.append(len(entries))
    return make_rows(range(n), np.zeros(n), offsets, *zip(*entries, strict=True))


def test_those_who_move_take_their_circles_along() -> None:
    """In place where the bucket stays, in bulk and one by one; circles and sets of values too."""
    rng, seed = np.random.default_rng(9), 5
    keys = np.column_stack(
        [rng.uniform(0.0, 0.3, 80), rng.uniform(40.0, 40.3, 80), rng.uniform(0, 9, 80), rng.integers(0, 6, 80)]
    )
    events = make_events(np.arange(81) * 4, np.tile(np.arange(4), 80), keys.ravel(), keys.ravel())
    tree, scan = MOTree(layers=2), Scan.build(circles(seed, 0.0))
    tree.insert(circles(seed, 0.0))
    before = tree._tree.places[tree.store.slots_of(np.arange(1_200))].copy()
    for step, (who, shift) in enumerate([(seed, 1e-5), (seed, 0.001), (seed, 0.0), (seed + 1, 0.0), (seed, 0.0)]):
        moved = circles(who, shift)
        for part in [moved] if step % 2 == 0 else [moved.take(i, i + 1) for i in range(0, 1_200, 3)]:
            tree.update(part)
            scan.update(part)
        if step == 0:
            kept = tree._tree.places[tree.store.slots_of(np.arange(1_200))] == before
            assert kept[np.arange(1_200) % 4 != 0].mean() > 0.9
        tree.check()
        assert ranked(tree.match(events)) == ranked(scan.match(events))
    assert len(tree.match(events).ids) > 20


def test_rows_that_ask_for_attributes_without_an_axis() -> None:
    rng = np.random.default_rng(4)
    n, dims = 600, 90
    asked = np.sort(np.argsort(rng.random((n, dims)), axis=1)[:, :5], axis=1)
    lo = rng.random((n, 5)) * 0.5

    def some(ids: range, seed: int) -> Rows:
        shift = np.random.default_rng(seed).random((n, 5)) * 0.3
        columns = np.roll(asked, seed, axis=0), np.zeros((n, 5)), lo + shift, lo + shift + 0.4, np.ones((n, 5))
        return make_rows(range(n), np.zeros(n), np.arange(n + 1) * 5, *(c.ravel() for c in columns)).take(
            ids.start, ids.stop
        )

    tree, scan = MOTree.build(some(range(n), 0)), Scan.build(some(range(n), 0))
    assert tree.stats().details["axes"] < dims
    keys = rng.random((20, dims))
    events = make_events(np.arange(21) * dims, np.tile(np.arange(dims), 20), keys.ravel(), keys.ravel())
    for step in range(1, 4):
        for ids in (range(n), *(range(i, i + 1) for i in range(0, n, 40)), range(0, n, 1)[: 10 * step]):
            tree.update(some(ids, step))
            scan.update(some(ids, step))
        tree.delete(np.arange(5, dtype=np.int64))
        tree.insert(some(range(5), step))
        tree.check()
        assert ranked(tree.match(events)) == ranked(scan.match(events))
