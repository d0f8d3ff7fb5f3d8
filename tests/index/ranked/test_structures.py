"""The one-dimensional structures against the obvious answer: stabs, ranges, updates, saving."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood.errors import DuplicateSubscriptionError, QueryError, SubscriptionError, UnknownSubscriptionError
from matchwood.structures.ranked import STRUCTURES, EndpointIntervalTree, ScoredIntervals
from tests.edges import DOMAINS, beside
from tests.index.ranked.naive import Intervals, columns, some_intervals, stabbed

QUERIES = (-np.inf, -1.0, 0.0, 3.0, 3.5, 10.0, 19.0, 27.25, 38.0, 99.0, np.inf)
names = pytest.mark.parametrize("name", sorted(STRUCTURES))


def assert_answers(tree: ScoredIntervals | EndpointIntervalTree, intervals: Intervals) -> None:
    for q in QUERIES:
        expected = stabbed(intervals, q)
        assert list(tree.stab(q)) == expected
        assert list(tree.stab(q, q + 2.5)) == stabbed(intervals, q, q + 2.5)
        top = tree.top_k([q, q], 3)
        assert top.of(1)[0].tolist() == [i for i, _ in expected[:3]]
        assert top.of(0)[1].tolist() == [score for _, score in expected[:3]]


@names
@pytest.mark.parametrize("branching", [2, 5, 32, 64])
@pytest.mark.parametrize("seed", range(4))
def test_a_stab_gives_the_intervals_that_meet_best_first_ties_by_id(name: str, branching: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    intervals = some_intervals(rng, int(rng.integers(1, 150)), ties=seed % 2 == 0)
    tree = STRUCTURES[name].build(*columns(intervals), branching=branching)
    tree.check()
    assert len(tree) == len(intervals)
    assert_answers(tree, intervals)


@pytest.mark.parametrize("seed", range(4))
def test_the_endpoint_sorted_interval_tree_gives_the_same(seed: int) -> None:
    intervals = some_intervals(np.random.default_rng(seed), 150)
    tree = EndpointIntervalTree.build(*columns(intervals), branching=[1, 2, 8, 32][seed])
    tree.check()
    assert_answers(tree, intervals)
    assert list(EndpointIntervalTree.build([], [], []).stab(1.0)) == []


@pytest.mark.parametrize("name", [*sorted(STRUCTURES), "by end points"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_stabs_on_the_ends_of_intervals_beside_them_and_beyond(name: str, domain: str) -> None:
    rng = np.random.default_rng(3)
    held: Intervals = {}
    for first, values in ((0, DOMAINS[domain]), (60, beside(DOMAINS[domain]))):
        ends = np.sort(rng.choice(values, (60, 2)), axis=1)
        held |= {first + i: (lo, hi, float(rng.integers(0, 4))) for i, (lo, hi) in enumerate(ends.tolist())}
    tree: ScoredIntervals | EndpointIntervalTree
    if name == "by end points":
        tree = EndpointIntervalTree.build(*columns(held), branching=4)
    else:
        tree = STRUCTURES[name].build(*columns(held, list(range(60))), branching=4)
        for i in range(60, 120, 12):
            tree.insert(*columns(held, list(range(i, i + 12))))
    tree.check()
    queries = beside(DOMAINS[domain])
    for q in queries:
        assert list(tree.stab(q)) == stabbed(held, q)
        last = queries[min(queries.index(q) + int(rng.integers(1, 9)), len(queries) - 1)]
        assert list(tree.stab(q, last)) == stabbed(held, q, last)


interval = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3))


@names
@given(spans=st.lists(interval, max_size=24), query=st.integers(-1, 26), width=st.integers(0, 5))
@settings(max_examples=60)
def test_any_few_intervals(name: str, spans: list[tuple[int, int, int]], query: int, width: int) -> None:
    held = {i: (float(min(a, b)), float(max(a, b)), float(s)) for i, (a, b, s) in enumerate(spans)}
    tree = STRUCTURES[name](branching=3)
    tree.insert(*columns(held))
    tree.check()
    assert list(tree.stab(query / 2)) == stabbed(held, query / 2)
    assert list(tree.stab(query / 2, (query + width) / 2)) == stabbed(held, query / 2, (query + width) / 2)


def change(rng: np.random.Generator, tree: ScoredIntervals, held: Intervals, fresh: int, *, ties: bool) -> None:
    """One random insert, delete or rescore."""
    step = rng.integers(0, 4)
    if step <= 1 or not held:
        more = some_intervals(rng, int(rng.integers(1, 14)), fresh, ties=ties)
        tree.insert(*columns(more))
        held.update(more)
        return
    ids = rng.permutation(list(held))[: rng.integers(1, 9)].tolist()
    lo, hi, score, links = columns(held, ids)
    if step == 2:
        tree.delete(lo, hi, score, links)
        for i in ids:
            del held[i]
        return
    new = score + rng.normal(0, 0.02, len(ids)) if rng.random() < 0.6 else rng.integers(-3, 4, len(ids)).astype(float)
    tree.rescore(lo, hi, score, links, new)
    held.update({i: (*held[i][:2], s) for i, s in zip(ids, new.tolist(), strict=True)})


@names
@pytest.mark.parametrize("seed", range(5))
def test_stays_right_through_inserts_deletes_and_rescores(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = STRUCTURES[name](branching=[2, 3, 4, 8, 32][seed])
    held: Intervals = {}
    for step in range(50):
        change(rng, tree, held, 100 * step, ties=seed % 2 == 0)
        tree.check()
        assert len(tree) == len(held)
        q = float(rng.integers(-1, 40))
        assert list(tree.stab(q)) == stabbed(held, q)
        assert list(tree.stab(q, q + 3)) == stabbed(held, q, q + 3)


@names
@pytest.mark.stress
@pytest.mark.parametrize("seed", range(20))
def test_stays_right_through_long_histories(name: str, seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    tree = STRUCTURES[name](branching=int(rng.integers(2, 65)))
    held = some_intervals(rng, 500)
    tree.insert(*columns(held))
    for step in range(1, 400):
        change(rng, tree, held, 1000 * step, ties=seed % 2 == 0)
        if step % 20 == 0:
            tree.check()
        q = float(rng.integers(-1, 40))
        assert list(tree.stab(q)) == stabbed(held, q)


@names
def test_sorted_inserts_do_not_unbalance_it(name: str) -> None:
    tree = STRUCTURES[name](branching=4)
    held: Intervals = {}
    for i in range(600):
        held[i] = (float(i), float(i) + 0.5, float(i % 7))
        tree.insert(*columns(held, [i]))
    tree.check()
    assert list(tree.stab(300.25)) == [(300, float(300 % 7))]
    tree.visits[:] = 0
    for i in range(600):
        assert [hit for hit, _ in tree.stab(i + 0.25)] == [i]
    assert tree.visits[-1] < 600 * 120


@names
def test_dimensions_share_arrays_and_nothing_else(name: str) -> None:
    rng = np.random.default_rng(5)
    tree = STRUCTURES[name](dimensions=3, branching=4)
    held = [some_intervals(rng, 60) for _ in range(3)]
    for dim in (2, 0, 1):
        tree.insert(*columns(held[dim]), dim=dim)
    gone = list(held[1])[:40]
    tree.delete(*columns(held[1], gone), dim=1)
    held[1] = {i: v for i, v in held[1].items() if i not in gone}
    tree.check()
    for dim in range(3):
        assert tree.size(dim) == len(held[dim])
        assert list(tree.stab(7.0, dim=dim)) == stabbed(held[dim], 7.0)


@names
def test_what_is_saved_comes_back_and_can_go_on_changing(name: str) -> None:
    rng = np.random.default_rng(6)
    held = some_intervals(rng, 200)
    tree = STRUCTURES[name].build(*columns(held), branching=8)
    for step in range(1, 6):
        change(rng, tree, held, 1000 * step, ties=False)
    copy = STRUCTURES[name](branching=8)
    copy.restore({key: array.copy() for key, array in tree.arrays().items()})
    copy.check()
    assert_answers(copy, held)
    for step in range(6, 12):
        change(rng, copy, held, 1000 * step, ties=False)
    copy.check()
    assert_answers(copy, held)


@names
def test_many_equal_intervals_come_out_by_id(name: str) -> None:
    n = 3000
    tree = STRUCTURES[name].build(np.zeros(n), np.ones(n), np.ones(n), np.arange(n)[::-1])
    assert [i for i, _ in tree.stab(0.5)] == list(range(n))
    assert [i for i, _ in tree.stab(-3.0, 4.0)] == list(range(n))


@names
def test_a_change_that_cannot_be_made_changes_nothing(name: str) -> None:
    held = some_intervals(np.random.default_rng(7), 30)
    tree = STRUCTURES[name].build(*columns(held), branching=4)
    lo, hi, score, ids = columns(held, [3, 4])
    with pytest.raises(UnknownSubscriptionError, match="99"):
        tree.delete(lo, hi, score, [3, 99])
    with pytest.raises(UnknownSubscriptionError, match="99"):
        tree.rescore(lo, hi, score, [3, 99], score + 1)
    with pytest.raises(DuplicateSubscriptionError, match="interval 4 "):
        tree.insert([1.0, *lo[1:]], [2.0, *hi[1:]], [0.0, *score[1:]], [77, *ids[1:]])
    with pytest.raises(DuplicateSubscriptionError, match="interval 78 "):
        tree.insert([1.0, 1.0], [2.0, 2.0], [0.0, 1.0], [78, 78])
    with pytest.raises(SubscriptionError, match="lo <= hi"):
        tree.insert([2.0], [1.0], [0.0], [79])
    with pytest.raises(SubscriptionError, match="lo <= hi"):
        tree.insert([1.0], [2.0], [np.nan], [79])
    with pytest.raises(SubscriptionError, match="not negative"):
        tree.insert([1.0], [2.0], [0.0], [-1])
    tree.check()
    assert_answers(tree, held)


def test_a_branching_factor_out_of_range_is_refused() -> None:
    for branching in (1, 65):
        with pytest.raises(QueryError, match="branching"):
            STRUCTURES["ir"](branching=branching)


@pytest.mark.parametrize("name", ["sopt", "r"])
def test_small_changes_of_scores_are_made_in_place(name: str) -> None:
    rng = np.random.default_rng(8)
    held = some_intervals(rng, 400, ties=False)
    tree = STRUCTURES[name].build(*columns(held), branching=8)
    trees, entries = tree.trees(), len(tree.state.lo)  # type: ignore[attr-defined]
    spread = np.ptp([score for _, _, score in held.values()])
    lo, hi, score, ids = columns(held)
    new = score + rng.uniform(-1, 1, len(ids)) * spread / 70
    tree.rescore(lo, hi, score, ids, new)
    held = {i: (*held[i][:2], s) for i, s in zip(ids.tolist(), new.tolist(), strict=True)}
    assert tree.trees() == trees  # type: ignore[attr-defined]
    assert len(tree.state.lo) == entries
    tree.check()
    assert_answers(tree, held)


def test_a_rescored_interval_keeps_its_node_in_an_ir_tree() -> None:
    held = some_intervals(np.random.default_rng(9), 400, ties=False)
    tree = STRUCTURES["ir"].build(*columns(held), branching=8)
    before = tree.state.nodes["size"].copy()
    lo, hi, score, ids = columns(held)
    tree.rescore(lo, hi, score, ids, -score)
    assert (tree.state.nodes["size"][: len(before)] == before).all()
    tree.check()
    assert_answers(tree, {i: (a, b, -s) for i, (a, b, s) in held.items()})
