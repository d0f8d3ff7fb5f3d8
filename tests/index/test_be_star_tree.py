"""What the BE*-Tree promises beyond the contract: its clustering, its shrinking boundaries, its pruning, its adapting.

`check()` judges the invariants after every change; the oracle or Scan judges the answers.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import pytest

from matchwood.baselines import BETree
from matchwood.encode.arrays import Events, Matches, Rows, concatenate_rows, make_events, make_rows
from matchwood.errors import QueryError, TooComplexError
from matchwood.store.kernels.rows import NONE
from matchwood.store.scoring import scoring
from matchwood.structures import BEStarTree, Index, KIndex, Scan
from matchwood.workloads import BEGen
from tests.edges import DOMAINS, crowd_of
from tests.worlds import Dice, World, a_subscription, a_world, listed, ranked, seeded_dice

TREES = [BEStarTree, BETree]


def boxes(intervals: list[tuple[float, float]], *, first_id: int = 0, dim: int = 0, weight: float = 1.0) -> Rows:
    """One row a interval, on one dimension."""
    n = len(intervals)
    lo, hi = [i[0] for i in intervals], [i[1] for i in intervals]
    ids = range(first_id, first_id + n)
    return make_rows(ids, [0.0] * n, range(n + 1), [dim] * n, [0] * n, lo, hi, [weight] * n)


def points(keys: list[float], *, dim: int = 0) -> Events:
    return make_events(range(len(keys) + 1), [dim] * len(keys), keys, keys)


def same(a: Matches, b: Matches) -> bool:
    return ranked(a) == ranked(b)


def same_ranking(index: Index, scan: Scan, events: Events) -> bool:
    return all(listed(index.top_k(events, k)) == listed(scan.top_k(events, k)) for k in (1, 5, 50))


def crowd(seed: int, size: int, *, law: str = "uniform") -> tuple[Rows, Events]:
    workload = BEGen.preset(law, size=size, dimensions=40, match_probability=0.01, seed=seed)
    return workload.subscriptions(), workload.events(60)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("split", ["exhaustive", "approximate", "halves"])
@pytest.mark.parametrize("law", ["uniform", "zipf"])
def test_agrees_with_scan_however_it_is_built_and_split(tree: type[BEStarTree], split: str, law: str) -> None:
    if tree is BETree and split != "exhaustive":
        pytest.skip("its clustering is rigid")
    rows, events = crowd(3, 4000, law=law)
    scan = Scan.build(rows)
    options: dict[str, Any] = {} if tree is BETree else {"split": split}
    for batch in (True, False):
        index = tree(capacity=5, batch=batch, **options)
        index.insert(rows)
        index.check()
        assert same(index.match(events), scan.match(events))
        assert same_ranking(index, scan, events)


@pytest.mark.parametrize("split", ["exhaustive", "approximate", "halves", "rigid"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_split_ends_and_is_right_in_domains_that_are_hard_to_divide(split: str, domain: str) -> None:
    events = (crowd := crowd_of(domain)).events()
    options: dict[str, Any] = {"ranking": "selectivity", "capacity": 5}
    index = BETree(**options) if split == "rigid" else BEStarTree(split=split, **options)
    for first, last in ((0, crowd.early), (crowd.early, crowd.size)):
        index.insert(crowd.rows(first, last))
        expected = crowd.expected(last)
        assert ranked(index.match(events)) == expected
        assert listed(index.top_k(events, 5)) == [hits[:5] for hits in expected]
    index.check()


def test_ranking_by_selectivity_avoids_the_attribute_that_is_always_met() -> None:
    n = 400
    lo = np.stack([np.zeros(n), np.arange(n) * 10.0], axis=1).ravel()
    hi = np.stack([np.full(n, 4000.0), np.arange(n) * 10.0 + 5], axis=1).ravel()
    rows = make_rows(range(n), [0.0] * n, range(0, 2 * n + 1, 2), [0, 1] * n, [0] * 2 * n, lo, hi, [1.0] * 2 * n)
    extra = boxes([(0.0, 4000.0)] * 20, first_id=n)
    index = BEStarTree.build(concatenate_rows([rows, extra]), ranking="selectivity", capacity=8)
    index.check()
    events = make_events([0, 2], [0, 1], [50.0, 1002.0], [50.0, 1002.0])
    assert sorted(index.match(events).ids.tolist()) == [100, *range(n, n + 20)]
    assert index.stats().candidates < 60


def test_left_and_right_never_overlap_and_what_spans_them_is_the_buckets_own() -> None:
    index = BEStarTree.build(boxes([(0, 1), (1, 2), (2, 3), (8, 9), (7, 8), (6, 7), (1, 8)]), capacity=3)
    index.check()
    root = index._tree.buckets[int(index._tree.p_nodes[0]["root"])]
    left, right = index._tree.buckets[root["left"]], index._tree.buckets[root["right"]]
    assert (left["lo"], left["hi"]) == (0, 3)
    assert (right["lo"], right["hi"]) == (6, 9)
    assert (root["own_lo"], root["own_hi"], root["leaf_size"]) == (1, 8, 1)


def test_a_much_wider_row_gets_a_new_bucket_above_instead_of_stretching_a_split_one() -> None:
    index = BEStarTree.build(boxes([(i, i + 0.5) for i in range(10)]), capacity=3, beta=4.0)
    before = int(index._tree.p_nodes[0]["root"])
    index.insert(boxes([(-500.0, 500.0)], first_id=50))
    index.check()
    above = index._tree.buckets[int(index._tree.p_nodes[0]["root"])]
    assert int(above["left"]) == before
    assert (above["lo"], above["hi"]) == (-500.0, 500.0)
    assert index._tree.buckets[before]["hi"] == 9.5
    assert sorted(index.match(points([3.2, 100.0])).ids.tolist()) == [3, 50, 50]


def test_boundaries_shrink_exactly_when_the_row_that_made_them_goes() -> None:
    rows, _ = crowd(5, 600)
    index = BEStarTree.build(rows, capacity=4)
    for id_ in random.Random(5).sample(range(600), 500):
        index.delete(np.array([id_]))
        if id_ % 7 == 0:
            index.check()
    index.check()
    assert len(index) == 100


def test_an_emptied_tree_is_as_good_as_new() -> None:
    rows, events = crowd(6, 500)
    index = BEStarTree.build(rows, capacity=4)
    index.delete(rows.ids)
    index.check()
    assert index.stats().nodes == 1
    index.insert(rows)
    index.check()
    assert same(index.match(events), Scan.build(rows).match(events))


@pytest.mark.parametrize("tree", TREES)
def test_an_update_that_stays_within_its_bucket_is_done_in_place(tree: type[BEStarTree]) -> None:
    rows, events = crowd(7, 800)
    index = tree.build(rows, capacity=6)
    homes = index._tree.homes.copy()
    heavier = rows._replace(weight=rows.weight * 1.5, priority=rows.priority + 2.0)
    index.update(heavier)
    index.check()
    assert (index._tree.homes == homes).all()
    scan = Scan.build(heavier)
    assert same(index.match(events), scan.match(events))
    assert same_ranking(index, scan, events)
    lighter = rows._replace(weight=rows.weight * 0.25, priority=rows.priority - 2.0)
    index.update(lighter)
    index.check()
    scan = Scan.build(lighter)
    assert same_ranking(index, scan, events)


def test_an_update_that_leaves_its_bucket_moves_the_row() -> None:
    index = BEStarTree.build(boxes([(float(i), i + 0.5) for i in range(40)]), capacity=4)
    index.update(boxes([(1000.0, 1001.0)], first_id=7))
    index.update(concatenate_rows([boxes([(2.0, 2.25)], first_id=2), boxes([(0.0, 9.0)], first_id=30)]))
    index.check()
    assert sorted(index.match(points([7.2, 1000.5, 2.1, 2.4])).ids.tolist()) == [2, 7, 30, 30, 30]


def test_top_k_visits_fewer_buckets_and_rows_than_matching_all() -> None:
    workload = BEGen.preset("uniform", size=20_000, match_probability=0.005)
    index, events = BEStarTree.build(workload.subscriptions()), workload.events(100)
    work = {}
    for k in (None, 5, 1):
        index.reset_counters()
        index.match(events) if k is None else index.top_k(events, k)
        stats = index.stats()
        work[k] = stats.candidates, stats.details["buckets_visited"]
    assert work[1] < work[5] < work[None]
    assert work[1][0] < work[None][0] / 2
    assert work[1][1] < work[None][1]


def test_bounds_hold_for_weights_of_events_above_and_below_one() -> None:
    rows, events = crowd(9, 2000)
    index, scan = BEStarTree.build(rows, capacity=5), Scan.build(rows)
    for factor in (0.0, 0.01, 0.7, 3.0, 1e6):
        weights = np.random.default_rng(1).uniform(0, factor, len(events.weight)) if factor else events.weight * 0
        assert same_ranking(index, scan, events._replace(weight=weights))


@pytest.mark.parametrize("function", ["max", lambda score, weight: max(score, min(score + weight, 1.5))])
def test_bounds_hold_for_scoring_functions_of_the_user(function: Any) -> None:
    rows, events = crowd(10, 1500)
    rows = rows._replace(priority=np.random.default_rng(2).normal(0, 0.3, rows.size))
    index, scan, combine = BEStarTree.build(rows, capacity=5), Scan.build(rows), scoring(function).compiled
    for k in (1, 5, 50):
        assert listed(index.top_k(events, k, combine=combine)) == listed(scan.top_k(events, k, combine=combine))


def test_rows_that_no_attribute_can_tell_apart_share_a_leaf_that_may_grow() -> None:
    index = BEStarTree.build(boxes([(1.0, 2.0)] * 300), capacity=4)
    index.insert(boxes([(1.0, 2.0)] * 300, first_id=300))
    for id_ in range(0, 600, 2):
        index.delete(np.array([id_]))
    index.check()
    assert index.match(points([1.5])).ids.size == 300


def test_adapting_recycles_what_is_met_in_vain_and_keeps_every_answer() -> None:
    """Rows ask for nearly all of a popular attribute, which every event has, and for little of a rare one."""
    n, dice = 600, np.random.default_rng(4)
    popular, rare, key = np.arange(n) % 10, 10 + np.arange(n) // 20, dice.uniform(0, 1000, n)
    dims = np.stack([popular, rare], axis=1).ravel()
    lo = np.stack([dice.uniform(0, 5, n), key], axis=1).ravel()
    hi = np.stack([dice.uniform(995, 1000, n), key + 50], axis=1).ravel()
    rows = make_rows(range(n), [0.0] * n, range(0, 2 * n + 1, 2), dims, [0] * 2 * n, lo, hi, [1.0] * 2 * n)
    keys = np.full((100, 11), 500.0)
    keys[:, 10] = dice.uniform(0, 1000, 100)
    where = np.concatenate([np.tile(np.arange(10), (100, 1)), dice.integers(10, 40, (100, 1))], axis=1)
    events = make_events(range(0, 1101, 11), where.ravel(), keys.ravel(), keys.ravel())
    index, scan = BEStarTree.build(rows, capacity=64), Scan.build(rows)
    before = visited(index, events)
    assert index.adapt(events, threshold=1.0) > 0
    index.check()
    assert visited(index, events) < before / 3
    assert same(index.match(events), scan.match(events))
    assert same_ranking(index, scan, events)


def visited(index: BEStarTree, events: Events) -> float:
    """Buckets that the events enter."""
    index.reset_counters()
    index.match(events)
    return index.stats().details["buckets_visited"]


def test_adapting_to_nothing_changes_nothing() -> None:
    rows, events = crowd(2, 500)
    assert BEStarTree().adapt(events) == 0
    index = BEStarTree.build(rows)
    assert index.adapt(points([])) == 0
    assert index.adapt(events, threshold=-1e9) == 0
    index.check()


@pytest.mark.parametrize(
    "options",
    [{"capacity": 0}, {"alpha": 0.7}, {"beta": 0.5}, {"split": "guess"}, {"ranking": "taste"}, {"beta": float("nan")}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(QueryError, match="expected"):
        BEStarTree(**options)  # type: ignore[arg-type]


def test_the_paper_s_capacity_follows_the_match_probability() -> None:
    assert [BEStarTree.paper_capacity(p) for p in (0.0001, 0.009, 0.01, 0.09, 0.1, 0.5)] == [5, 5, 20, 20, 160, 160]


def test_the_picture_shows_every_bucket_once() -> None:
    rows, _ = crowd(2, 300)
    index = BEStarTree.build(rows, capacity=8)
    text = index.to_dot(max_buckets=10_000)
    assert text.count("leaf rows of") == index.stats().nodes
    assert text.count("->") == index.stats().nodes - 1
    assert index.to_dot(max_buckets=3).count("leaf rows of") == 3


def test_check_notices_a_boundary_that_is_too_wide_and_a_bound_that_is_too_low() -> None:
    rows, _ = crowd(2, 300)
    for field, change in (("hi", 1.0), ("own_lo", -1.0), ("max_score", -100.0), ("rows", 1), ("leaf_weights", -100.0)):
        index = BEStarTree.build(rows, capacity=8)
        buckets = index._tree.buckets[: index._tree.counts["buckets"][0]]
        victim = int(np.flatnonzero((buckets["level"] > 0) & (buckets["leaf_size"] > 0))[3])
        buckets[field][victim] += np.array(change).astype(buckets[field].dtype)
        with pytest.raises(AssertionError, match=rf"bucket {victim}\b|miscount|boundary"):
            index.check()


def own_and_child(index: BEStarTree) -> tuple[int, int]:
    """A bucket with leaf rows of its own and room for one more, and a child of it that is a leaf."""
    buckets = index._tree.buckets[: index._tree.counts["buckets"][0]]
    for b in np.flatnonzero((buckets["level"] == 1) & (buckets["leaf_size"] > 0)):
        for child in (int(buckets[b]["left"]), int(buckets[b]["right"])):
            if child != int(NONE) and buckets[child]["leaf_size"] > 2 and buckets[b]["leaf_size"] % 2:
                return int(b), child
    raise AssertionError("no such bucket: choose other rows")


def test_check_notices_an_own_row_that_a_child_would_hold() -> None:
    left, right = [(0.0, 1.0), (1.0, 3.0), (2.0, 4.0), (3.0, 4.5)], [(6.0, 7.0), (7.0, 8.0), (7.0, 9.0), (8.0, 9.0)]
    index = BEStarTree.build(boxes([*left, *right, (0.5, 8.0), (1.0, 7.0), (0.5, 7.5)]), capacity=4)
    index.check()
    tree, (b, c) = index._tree, own_and_child(index)
    bucket, child = tree.buckets[b], tree.buckets[c]
    leaf, ends = int(child["leaf"]), (float(child["lo"]), float(child["hi"]))
    inner = [
        i for i in range(int(child["leaf_size"])) if not set(ends) & set(interval(index, tree.leaf_rows[leaf + i]))
    ]
    at, to = leaf + inner[0], int(bucket["leaf"]) + int(bucket["leaf_size"])
    tree.leaf_rows[to] = tree.leaf_rows[at]
    tree.homes[tree.leaf_rows[to]["slot"]] = (b, int(bucket["leaf_size"]))
    bucket["leaf_size"] += 1
    last = leaf + int(child["leaf_size"]) - 1
    tree.leaf_rows[at] = tree.leaf_rows[last]
    tree.homes[tree.leaf_rows[at]["slot"]]["at"] = at - leaf
    child["leaf_size"] -= 1
    child["rows"] -= 1
    with pytest.raises(AssertionError, match=f"is bucket {b}'s own, but a child encloses it"):
        index.check()


def interval(index: BEStarTree, row: np.void) -> tuple[float, float]:
    entry = index.store.state.entries[int(index.store.state.rows[int(row["slot"])]["start"])]
    return float(entry["lo"]), float(entry["hi"])


def test_no_child_grows_over_a_row_of_its_parent_s_own_when_deletions_have_made_way() -> None:
    chooser = random.Random(5)
    kept: dict[int, Rows] = {}
    index = BEStarTree(capacity=3, beta=1e9)
    for step in range(600):
        if kept and chooser.random() < 0.45:
            gone = chooser.choice(list(kept))
            del kept[gone]
            index.delete(np.array([gone]))
        else:
            low = chooser.uniform(0, 50)
            kept[step] = boxes([(low, low + chooser.expovariate(0.2))], first_id=step)
            index.insert(kept[step])
        if step % 3 == 0:
            index.check()
    events = points([float(key) for key in range(60)])
    assert same(index.match(events), Scan.build(concatenate_rows(list(kept.values()))).match(events))


def test_counting_finds_what_matching_tests_and_changes_no_answer() -> None:
    rows, events = crowd(4, 3000)
    for index in (BEStarTree.build(rows, capacity=8), BETree.build(rows), KIndex.build(rows), Scan.build(rows)):
        answers = index.match(events), index.top_k(events, 3)
        assert "predicates_tested" not in index.stats().details
        index.count_tests()
        index.reset_counters()
        assert same(index.match(events), answers[0])
        stats = index.stats()
        # Rows of two predicates at least: whoever matches was tested on all of them.
        assert stats.details["predicates_tested"] >= 2 * len(answers[0].ids)
        assert stats.details["predicates_tested"] <= stats.candidates * 20
        assert stats.details["boundaries_tested"] > 0
        index.reset_counters()
        assert listed(index.top_k(events, 3)) == listed(answers[1])
        assert 0 < index.stats().details["predicates_tested"] <= stats.details["predicates_tested"]
        index.count_tests(on=False)
        assert "predicates_tested" not in index.stats().details


def stress(tree: type[BEStarTree], steps: int, seed: int, *, capacity: int, checks: int) -> None:
    """Random insert, delete, update and match against the oracle on a world of colliding values."""
    chooser, dice = random.Random(seed), seeded_dice(seed)
    world = a_world(dice, 60, 8)
    index = tree(capacity=capacity)
    index.insert(world.rows())
    events, fresh = world.event_arrays(), 10_000
    for step in range(steps):
        ids = list(world.subscriptions)
        action = chooser.choice(["insert", "delete", "update", "update", "match"])
        if action == "insert" and len(ids) < 120:
            fresh += 1
            draw(dice, world, fresh)
            index.insert(world.rows([fresh]))
        elif action == "delete" and len(ids) > 30:
            gone = chooser.choice(ids)
            del world.subscriptions[gone]
            index.delete(np.array([gone]))
        elif action == "update":
            changed = chooser.choice(ids)
            draw(dice, world, changed)
            index.update(world.rows([changed]))
        elif action == "match" and step % 50 == 0:
            agree(index, world, events)
        if step % checks == 0:
            index.check()
    index.check()
    agree(index, world, events)


def draw(dice: Dice, world: World, id_: int) -> None:
    """A subscription of at most 12 rows: larger ones test the normal form, not the tree."""
    while True:
        with contextlib.suppress(TooComplexError):
            a_subscription(dice, world, id_)
            if len(world.subscriptions[id_][2]) <= 12:
                return


def agree(index: BEStarTree, world: World, events: Events) -> None:
    expected = world.expected()
    assert ranked(index.match(events)) == expected
    assert listed(index.top_k(events, 3)) == [hits[:3] for hits in expected]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("capacity", [1, 6])
def test_a_thousand_random_steps(tree: type[BEStarTree], capacity: int) -> None:
    stress(tree, 1000, 11 + capacity, capacity=capacity, checks=25)


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tree", TREES)
def test_a_hundred_thousand_random_steps(tree: type[BEStarTree]) -> None:
    stress(tree, 100_000, 17, capacity=3, checks=500)
