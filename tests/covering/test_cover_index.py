"""CoverIndex against the definition: every cover found, none invented, through inserts, deletes and rebuilds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from matchwood.covering import ALL, CoverIndex, covers
from matchwood.encode.arrays import INTERVAL, Rows, make_rows
from matchwood.errors import (
    DuplicateSubscriptionError,
    QueryError,
    StorageError,
    SubscriptionError,
    UnknownSubscriptionError,
    UnsupportedError,
)
from matchwood.lang.rows import Row
from matchwood.structures import load_index
from matchwood.workloads import BEGen, City, Covering
from tests.edges import DOMAINS, edges_of
from tests.worlds import World, a_world, examples, seeded_dice, worlds

SHAPES = {
    "buckets of 4": {"overflow": 4, "underflow": 2},
    "buckets of 40": {"overflow": 40},
    "buckets of 24": {},
    "naive": {"overflow": None},
}


def subscriptions(world: World) -> dict[int, tuple[Row, ...]]:
    """Those of the world that do not simply match everything."""
    return {id_: rows for id_, (_, _, rows) in world.subscriptions.items() if all(row.predicates for row in rows)}


def boxes(count: int, attributes: int, seed: int, *, keys: int = 8, first_id: int = 0) -> Rows:
    """Rectangles with so few keys that equal ones, and equal ends, are common."""
    ends = np.sort(np.random.default_rng(seed).integers(keys, size=(count, attributes, 2)).astype(float), axis=2)
    entries = count * attributes
    return make_rows(
        np.arange(first_id, first_id + count),
        np.zeros(count),
        np.arange(count + 1) * attributes,
        np.tile(np.arange(attributes), count),
        np.full(entries, INTERVAL),
        ends[:, :, 0].ravel(),
        ends[:, :, 1].ravel(),
        np.ones(entries),
    )


def containment(rows: Rows, attributes: int) -> np.ndarray:
    """[i, j]: does box i contain box j? By NumPy."""
    lo, hi = rows.lo.reshape(-1, attributes), rows.hi.reshape(-1, attributes)
    inside = (lo[:, None] <= lo[None]) & (hi[:, None] >= hi[None])
    return np.asarray(inside.all(axis=2))


def assert_agrees(index: CoverIndex, world: World, held: list[int]) -> None:
    subs = subscriptions(world)
    up, down = index.covers_of(world.rows(list(subs)), k=ALL), index.covered_by(world.rows(list(subs)))
    one = index.cover_of(world.rows(list(subs)))
    for q, (_, rows) in enumerate(subs.items()):
        wider = [id_ for id_ in held if covers(subs[id_], rows)]
        assert sorted(up.of(q).tolist()) == wider
        assert sorted(down.of(q).tolist()) == [id_ for id_ in held if covers(rows, subs[id_])]
        assert one[q] in wider if wider else one[q] is None


@pytest.mark.parametrize("shape", SHAPES)
@given(world=worlds(subscriptions=14, events=0))
@settings(max_examples=examples(40), deadline=None)
def test_finds_the_covers_of_the_definition_on_any_world(shape: str, world: World) -> None:
    index = CoverIndex(**SHAPES[shape])
    held = sorted(subscriptions(world))
    index.insert(world.rows(held))
    index.check()
    assert_agrees(index, world, held)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_stays_right_while_subscriptions_come_and_go(shape: str, seed: int) -> None:
    world = a_world(seeded_dice(seed), 120, 0)
    ids = sorted(subscriptions(world))
    index, held = CoverIndex(**SHAPES[shape]), list[int]()
    draw = random.Random(seed)
    for _ in range(12):
        new = draw.sample([i for i in ids if i not in held], k=draw.randint(0, min(25, len(ids) - len(held))))
        index.insert(world.rows(sorted(new)))
        held = sorted(held + new)
        index.check()
        gone = draw.sample(held, k=draw.randint(0, len(held) // 2))
        index.delete(np.array(gone, np.int64))
        held = sorted(set(held) - set(gone))
        index.check()
    assert_agrees(index, world, held)


@pytest.mark.parametrize("shape", ["buckets of 4", "buckets of 24"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_intervals_that_share_their_ends_or_end_one_float_apart(shape: str, domain: str) -> None:
    edges = edges_of(domain)
    subs = subscriptions(edges.whole)
    early = [id_ for id_ in subs if id_ not in edges.late]
    index = CoverIndex(**SHAPES[shape])
    index.insert(edges.whole.rows(early))
    for id_ in edges.late:
        if id_ in subs:
            index.insert(edges.whole.rows([id_]))
    index.check()
    assert_agrees(index, edges.whole, sorted(subs))


@pytest.mark.parametrize("order", ["random", "sorted", "one at a time, sorted"])
def test_a_large_tree_is_right_and_shallow_in_any_order_of_insertion(order: str) -> None:
    rows = boxes(3000, 3, 7, keys=40)
    if order != "random":
        by = np.lexsort(rows.lo.reshape(-1, 3).T)
        parts = [column.reshape(-1, 3)[by].ravel() for column in (rows.lo, rows.hi)]
        rows = rows._replace(lo=parts[0], hi=parts[1])
    index = CoverIndex(overflow=48)
    step = 3000 if "one" not in order else 1
    for start in range(0, 3000, step):
        index.insert(rows.take(start, start + step))
    index.check()
    inside = containment(rows, 3)
    found = index.covers_of(rows, k=ALL)
    for q in range(0, 3000, 37):
        assert sorted(found.of(q).tolist()) == np.flatnonzero(inside[:, q]).tolist()
    assert depth(index) < 30


def depth(index: CoverIndex) -> int:
    nodes, deepest = index.state.nodes, 0
    stack = [(int(index.state.groups[0]["root"]), 1)]
    while stack:
        n, level = stack.pop()
        deepest = max(deepest, level)
        if nodes[n]["leaf"] == 0:
            stack += [(int(nodes[n]["left"]), level + 1), (int(nodes[n]["right"]), level + 1)]
    return deepest


def test_equal_rows_fill_a_bucket_beyond_its_limit_and_leave_it_again() -> None:
    rows = make_rows(
        range(200), [0] * 200, range(201), [3] * 200, [INTERVAL] * 200, [1.0] * 200, [2.0] * 200, [1] * 200
    )
    index = CoverIndex(overflow=48)
    for i in range(200):
        index.insert(rows.take(i, i + 1))
    index.check()
    assert len(index.covers_of(rows.take(0, 1), k=ALL).ids) == 200
    index.delete(np.arange(190))
    index.check()
    assert sorted(index.covered_by(rows.take(0, 1)).ids.tolist()) == list(range(190, 200))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tree_that_loses_all_its_rows_leaves_nothing_behind(shape: str) -> None:
    index = CoverIndex(**{**SHAPES[shape], "underflow": 0})
    rows = boxes(60, 2, 4)
    index.insert(rows)
    for id_ in range(60):
        index.delete(np.array([id_]))
        index.check()
    assert len(index.covered_by(rows).ids) == 0
    index.insert(rows)
    index.check()
    assert len(index.covers_of(rows).ids) == 60


def test_a_query_of_a_hundred_attributes_finds_all_signatures_within_its_own() -> None:
    """The trie has thousands of nodes beside the path of the query."""
    attributes = 100
    signatures = [[*range(n), last] for n in range(attributes) for last in range(n, attributes)]
    dims = np.concatenate([*signatures, np.arange(attributes)])
    ends = np.cumsum([0, *map(len, signatures), attributes])
    count, entries = len(ends) - 1, len(dims)
    columns = dims, np.full(entries, INTERVAL), np.zeros(entries), np.ones(entries), np.ones(entries)
    rows = make_rows(range(count), np.zeros(count), ends, *columns)
    index = CoverIndex()
    index.insert(rows.take(0, count - 1))
    assert sorted(index.covers_of(rows.take(count - 1, count), k=ALL).ids.tolist()) == list(range(count - 1))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_k_covers_are_k_different_ones_or_all_there_are(k: int) -> None:
    rows = boxes(500, 2, 3)
    index = CoverIndex(overflow=48)
    index.insert(rows)
    inside = containment(rows, 2)
    found = index.covers_of(rows, k=k)
    for q in range(500):
        ids = found.of(q).tolist()
        assert len(set(ids)) == len(ids) == min(k, int(inside[:, q].sum()))
        assert inside[ids, q].all()


def test_of_equals_only_those_with_a_smaller_id_than_asked_for_count() -> None:
    rows = boxes(300, 1, 5, keys=5)
    index = CoverIndex(overflow=48)
    index.insert(rows)
    inside = containment(rows, 1)
    found = index.covers_of(rows, k=ALL, before=rows.ids)
    for q in range(300):
        expected = [i for i in range(300) if inside[i, q] and (i < q or not inside[q, i])]
        assert sorted(found.of(q).tolist()) == expected


@pytest.mark.parametrize("seed", range(4))
def test_reduce_keeps_a_minimal_set_and_names_a_kept_cover_for_the_rest(seed: int) -> None:
    world = a_world(seeded_dice(40 + seed), 150, 0)
    subs = subscriptions(world)
    index = CoverIndex()
    index.insert(world.rows(list(subs)))
    steps: list[tuple[int, int]] = []
    kept, cover = index.reduce(lambda done, total: steps.append((done, total)))
    assert steps[-1] == (len(subs), len(subs))
    assert sorted([*kept.tolist(), *cover]) == sorted(subs)
    for id_, by in cover.items():
        assert by in kept
        assert covers(subs[by], subs[id_])
    for a in kept.tolist():
        assert not any(covers(subs[a], subs[b]) for b in kept.tolist() if a != b)
    assert 5 < len(kept) < len(subs)


def test_reduce_keeps_the_smallest_id_of_equals() -> None:
    rows = boxes(400, 1, 9, keys=4)
    index = CoverIndex(overflow=48)
    index.insert(rows)
    kept, cover = index.reduce()
    inside = containment(rows, 1)
    expected = [q for q in range(400) if not any(inside[i, q] and (i < q or not inside[q, i]) for i in range(400))]
    assert kept.tolist() == expected
    assert len(cover) == 400 - len(expected)


@pytest.mark.parametrize(
    "workload",
    [City.preset("mixed", size=3000, source="synthetic"), BEGen(size=3000, size_spread=3), Covering(size=3000)],
    ids=lambda workload: type(workload).__name__,
)
def test_the_forest_agrees_with_the_naive_scan_on_the_workloads(workload: City | BEGen | Covering) -> None:
    rows = workload.subscriptions()
    fast, naive = CoverIndex(), CoverIndex(overflow=None)
    for index in (fast, naive):
        index.insert(rows)
    assert fast.reduce()[0].tolist() == naive.reduce()[0].tolist()
    assert fast.work.points_compared <= naive.work.points_compared


def test_mistakes_are_refused_and_change_nothing() -> None:
    rows = boxes(10, 2, 1)
    index = CoverIndex()
    index.insert(rows)
    with pytest.raises(DuplicateSubscriptionError):
        index.insert(rows.take(3, 4))
    with pytest.raises(UnknownSubscriptionError):
        index.delete(np.array([2, 77]))
    with pytest.raises(SubscriptionError):
        index.delete(np.array([2, 2]))
    with pytest.raises(QueryError):
        index.covers_of(rows, k=0)
    with pytest.raises(QueryError):
        CoverIndex(overflow=8, underflow=7)
    wide = unit_box(99, 16_385)
    for refused in (index.insert, index.covers_of, index.covered_by):
        with pytest.raises(UnsupportedError, match="16385 predicates; covering takes at most 16384"):
            refused(wide)
    index.check()
    assert len(index) == 10


def unit_box(id_: int, attributes: int) -> Rows:
    """The interval from 0 to 1 in each of so many dimensions, named in descending order."""
    ones = np.ones(attributes)
    return make_rows([id_], [0], [0, attributes], np.arange(attributes)[::-1], 0 * ones, 0 * ones, ones, ones)


def test_rows_of_thousands_of_predicates_are_compared_like_others(tmp_path: Path) -> None:
    index = CoverIndex(overflow=4)
    index.insert(boxes(20, 3, 5))
    widths = [3, 1024, 1025, 3000, 3001, 16_384]
    for id_, width in enumerate(widths, 100):
        index.insert(unit_box(id_, width))
    index.check()
    index.save(tmp_path / "saved")
    for searched in (index, CoverIndex.load(tmp_path / "saved")):
        for at, width in enumerate(widths):
            up, down = searched.covers_of(unit_box(7, width), k=ALL), searched.covered_by(unit_box(7, width))
            assert [id_ for id_ in sorted(up.of(0).tolist()) if id_ >= 100] == list(range(100, 101 + at))
            assert sorted(down.of(0).tolist())[-len(widths) + at :] == list(range(100 + at, 106))
    _, cover = index.reduce()
    assert set(cover) >= set(range(101, 106))
    index.delete(np.arange(100, 106))
    index.check()


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_saved_index_answers_the_same_and_can_go_on_changing(count: int, tmp_path: Path) -> None:
    world = a_world(seeded_dice(11), 340, 0)
    subs = subscriptions(world)
    held = sorted(subs)[:count]
    index = CoverIndex(overflow=16)
    index.insert(world.rows(held))
    index.save(tmp_path / "saved")
    loaded = CoverIndex.load(tmp_path / "saved")
    loaded.check()
    assert (len(loaded), loaded.overflow, loaded.underflow) == (len(index), index.overflow, index.underflow)
    assert loaded.reduce()[0].tolist() == index.reduce()[0].tolist()
    new = sorted(subs)[count : count + 20]
    for id_ in new:
        loaded.insert(world.rows([id_]))
    loaded.delete(np.array(held[::3], np.int64))
    loaded.check()
    left = sorted({*held, *new} - set(held[::3]))
    for id_, found in zip(left, loaded.cover_of(world.rows(left)), strict=True):
        assert found is not None
        assert covers(subs[found], subs[id_])
    assert len(CoverIndex.load(tmp_path / "saved")) == count


def test_saved_covers_that_are_damaged_or_something_else_are_a_storage_error(tmp_path: Path) -> None:
    index = CoverIndex()
    index.insert(boxes(50, 2, 1))
    index.save(tmp_path / "saved")
    with pytest.raises(StorageError, match="expected a saved index, got a saved 'covers'"):
        load_index(tmp_path / "saved")
    victim = tmp_path / "saved" / "words.npy"
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StorageError, match="damaged"):
        CoverIndex.load(tmp_path / "saved")


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(20))
def test_long_random_churn(seed: int) -> None:
    rows = boxes(4000, 1 + seed % 5, seed, keys=4 + seed * 3)
    index = CoverIndex(overflow=8 + seed, underflow=3)
    draw = random.Random(seed)
    held: set[int] = set()
    for _ in range(300):
        for i in draw.sample([i for i in range(4000) if i not in held], k=draw.choice([1, 5, 40])):
            index.insert(rows.take(i, i + 1))
            held.add(i)
        gone = draw.sample(sorted(held), k=draw.randint(0, len(held) // 4))
        index.delete(np.array(gone, np.int64))
        held -= set(gone)
        index.check()
    inside = containment(rows, 1 + seed % 5)
    found = index.covers_of(rows, k=ALL)
    for q in range(0, 4000, 50):
        assert sorted(found.of(q).tolist()) == sorted(held & set(np.flatnonzero(inside[:, q]).tolist()))
