"""The multi-dimensional index with every structure and order, against the oracle's worlds and against Scan."""

from __future__ import annotations

import random

import numba
import numpy as np
import pytest

from matchwood.encode.arrays import Events, Rows, concatenate_rows, make_events, make_rows
from matchwood.errors import QueryError
from matchwood.structures import RankedIndex, Scan, load_index
from matchwood.structures.ranked import STRUCTURES
from matchwood.workloads import Ranked
from tests.worlds import World, a_world, listed, ranked, seeded_dice

kinds = pytest.mark.parametrize(
    ("structure", "order"), [(s, o) for s in sorted(STRUCTURES) for o in ("score", "weight")]
)


@kinds
@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_the_oracle_through_updates(structure: str, order: str, seed: int) -> None:
    chooser = random.Random(seed)
    pool = a_world(seeded_dice(seed), 120, 8)
    world = World(pool.schema, {}, pool.events)
    index = RankedIndex(structure=structure, order=order, branching=[4, 32][seed])
    for _ in range(8):
        outside, inside = sorted(set(pool.subscriptions) - set(world.subscriptions)), sorted(world.subscriptions)
        more = chooser.sample(outside, min(25, len(outside)))
        gone = chooser.sample(inside, len(inside) // 3)
        world.subscriptions.update({i: pool.subscriptions[i] for i in more})
        index.insert(world.rows(more))
        for i in gone:
            del world.subscriptions[i]
        index.delete(np.array(gone, np.int64))
        index.check()
        for mode in ("all", "any"):
            expected = world.expected(mode=mode)
            assert ranked(index.match(world.event_arrays(), mode=mode)) == expected
            for k in (1, 4):
                assert listed(index.top_k(world.event_arrays(), k, mode=mode)) == [hits[:k] for hits in expected]


def some_rows(rng: np.random.Generator, n: int, dimensions: int, *, first: int = 0, priorities: bool = True) -> Rows:
    """Rows that constrain some of the dimensions, in any order, with scores that tie now and then."""
    parts = []
    for i in range(first, first + n):
        dims = rng.permutation(dimensions)[: rng.integers(1, dimensions + 1)]
        lo = rng.integers(0, 30, len(dims)).astype(float)
        hi = lo + rng.integers(0, 14, len(dims))
        weight = rng.integers(0, 9, len(dims)) / 4
        priority = float(rng.integers(-2, 3)) if priorities else 0.0
        parts.append(make_rows([i], [priority], [0, len(dims)], dims, np.zeros(len(dims)), lo, hi, weight))
    return concatenate_rows(parts)


def some_events(rng: np.random.Generator, n: int, dimensions: int) -> Events:
    """Points and ranges that lack some dimensions, with weights below and above 1."""
    dims = [np.sort(rng.permutation(dimensions)[: rng.integers(0, dimensions + 1)]) for _ in range(n)]
    flat = np.concatenate(dims)
    lo = rng.integers(0, 40, len(flat)).astype(float)
    hi = lo + rng.integers(0, 3, len(flat)) * (rng.random(len(flat)) < 0.3)
    return make_events(np.cumsum([0, *map(len, dims)]), flat, lo, hi, rng.integers(0, 12, len(flat)) / 4)


@kinds
@pytest.mark.parametrize("dimensions", [1, 3, 6])
@pytest.mark.parametrize("priorities", [False, True])
def test_agrees_with_scan_whatever_the_weights(structure: str, order: str, dimensions: int, priorities: bool) -> None:
    rng = np.random.default_rng(dimensions)
    rows = some_rows(rng, 400, dimensions, priorities=priorities)
    events = some_events(rng, 40, dimensions)
    index, scan = RankedIndex.build(rows, structure=structure, order=order, branching=8), Scan.build(rows)
    index.check()
    for mode in ("all", "any"):
        assert ranked(index.match(events, mode=mode)) == ranked(scan.match(events, mode=mode))
        for k in (1, 7, 50):
            assert listed(index.top_k(events, k, mode=mode)) == listed(scan.top_k(events, k, mode=mode))


@pytest.mark.parametrize("order", ["score", "weight"])
@pytest.mark.parametrize("sorted_dimensions", [True, False])
def test_any_monotone_function_may_fold_the_weights(order: str, sorted_dimensions: bool) -> None:
    """Neither commutative nor a sum: the order of the weights matters, so the bound must know it."""
    fold = numba.cfunc("float64(float64, float64)")(lambda score, weight: max(score, 0.5 * score + weight))
    rng = np.random.default_rng(3)
    rows = Ranked(size=3000, dimensions=3).subscriptions() if sorted_dimensions else some_rows(rng, 500, 3)
    events = Ranked(size=1, dimensions=3).events(12) if sorted_dimensions else some_events(rng, 30, 3)
    index, scan = RankedIndex.build(rows, order=order), Scan.build(rows)
    for mode in ("all", "any"):
        expected = scan.top_k(events, 9, mode=mode, combine=fold)
        assert listed(index.top_k(events, 9, mode=mode, combine=fold)) == listed(expected)
    if sorted_dimensions and order == "weight":
        index.reset_counters()
        index.top_k(events, 9, mode="any", combine=fold)
        assert index.stats().candidates_per_event < rows.size / 2


@kinds
@pytest.mark.parametrize("preset", ["d4", "d4-exact", "d2", "d8"])
def test_the_papers_workload_is_answered_like_scan_and_without_looking_at_all(
    structure: str, order: str, preset: str
) -> None:
    workload = Ranked.preset(preset, size=4000)
    rows, events = workload.subscriptions(), workload.events(15)
    index, scan = RankedIndex.build(rows, structure=structure, order=order), Scan.build(rows)
    for mode in ("all", "any"):
        index.reset_counters()
        assert listed(index.top_k(events, 20, mode=mode)) == listed(scan.top_k(events, 20, mode=mode))
        if preset != "d8":
            assert index.stats().candidates_per_event < rows.size / 2


def test_exact_matching_stops_in_score_order() -> None:
    """With zero weights a stream is in score order: the first k that match are the answer, and nothing else is looked at."""
    n = 5000
    lo, hi = np.zeros((n, 2)), np.ones((n, 2))
    rows = make_rows(
        np.arange(n), np.arange(n)[::-1], np.arange(0, 2 * n + 1, 2), [0, 1] * n, np.zeros(2 * n), lo.ravel(), hi.ravel(),
        np.zeros(2 * n),
    )  # fmt: skip
    index = RankedIndex.build(rows)
    top = index.top_k(make_events([0, 2], [0, 1], [0.5, 0.5], [0.5, 0.5]), 5)
    assert top.ids.tolist() == [0, 1, 2, 3, 4]
    assert index.stats().candidates <= 16


def test_an_event_without_a_dimension_that_all_rows_ask_for_looks_at_nothing() -> None:
    rows = Ranked(size=500, dimensions=2).subscriptions()
    index = RankedIndex.build(rows)
    events = make_events([0, 1, 1], [0], [0.5], [0.5])
    assert index.match(events).offsets.tolist() == [0, 0, 0]
    assert index.stats().candidates == 0


def test_wide_events_and_large_answers_make_cursors_grow() -> None:
    rng = np.random.default_rng(5)
    n = 6000
    lo = rng.random(n)
    rows = make_rows(np.arange(n), np.zeros(n), np.arange(n + 1), np.zeros(n), np.zeros(n), lo, lo, rng.random(n))
    events = make_events([0, 1], [0], [-1.0], [2.0])
    for structure in STRUCTURES:
        index = RankedIndex.build(rows, structure=structure, branching=4)
        assert listed(index.top_k(events, n)) == listed(Scan.build(rows).top_k(events, n))


@kinds
def test_a_saved_index_keeps_its_structure(structure: str, order: str, tmp_path: object) -> None:
    rows = Ranked(size=800, dimensions=2).subscriptions()
    index = RankedIndex.build(rows, structure=structure, order=order, branching=16)
    index.delete(np.arange(0, 800, 3))
    index.save(f"{tmp_path}/saved")
    loaded = load_index(f"{tmp_path}/saved")
    assert isinstance(loaded, RankedIndex)
    assert (loaded.structure, loaded.order, loaded.branching) == (structure, order, 16)
    loaded.delete(np.arange(1, 800, 3))
    loaded.insert(some_rows(np.random.default_rng(1), 30, 4, first=5000))
    loaded.check()
    assert len(loaded) == 266 + 30


@kinds
def test_rows_with_new_scores_are_ranked_by_them(structure: str, order: str) -> None:
    rng = np.random.default_rng(4)
    rows = some_rows(rng, 600, 3)
    index = RankedIndex.build(rows, structure=structure, order=order, branching=8)
    for step in range(6):
        first = 30 * step
        part = rows.take(first, first + 30)
        changed = part._replace(priority=part.priority + rng.normal(0, 0.01, 30), weight=part.weight * 1.01)
        index.update(changed)
        rows = concatenate_rows([rows.take(0, first), changed, rows.take(first + 30, rows.size)])
        index.check()
    events, scan = some_events(rng, 30, 3), Scan.build(rows)
    for mode in ("all", "any"):
        assert listed(index.top_k(events, 7, mode=mode)) == listed(scan.top_k(events, 7, mode=mode))


def test_unknown_structures_and_orders_are_refused() -> None:
    with pytest.raises(QueryError, match="'b-tree'"):
        RankedIndex(structure="b-tree")
    with pytest.raises(QueryError, match="'size'"):
        RankedIndex(order="size")
