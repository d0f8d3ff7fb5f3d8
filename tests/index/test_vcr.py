"""VCR: the paper's definitions and theorems, and what the index adds to them. The contract suite judges the answers too."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchwood import Engine
from matchwood.encode.arrays import Events, Rows, make_events, make_rows
from matchwood.errors import QueryError, TooComplexError, UnsupportedError
from matchwood.structures import Scan, load_index
from matchwood.structures.base import Index
from matchwood.structures.vcr.check import entries_of
from matchwood.structures.vcr.geometry import Constructs, Rectangle
from matchwood.structures.vcr.index import VCR
from matchwood.structures.vcr.kernels import layout as kernel
from matchwood.structures.vcr.kernels import update as vcr_update
from matchwood.structures.vcr.plan import NO_DIMENSION, choose_edges, choose_sides, expected_hits, hulls_of
from matchwood.workloads import vcr as workloads
from tests.edges import crowd_of
from tests.index.test_contract import assert_agrees, fitted
from tests.worlds import World, a_subscription, a_world, listed, ranked, seeded_dice

VARIANTS: list[dict[str, Any]] = [
    {"sides": sides, "overlapped": overlapped, "directory": directory}
    for sides in ((1, 1), (4, 4), (2, 16))
    for overlapped in (False, True)
    for directory in ("array", "hash")
]


def cells_of(rectangle: Rectangle) -> list[tuple[int, int]]:
    x, y, width, height = rectangle
    return [(x + i, y + j) for i in range(width) for j in range(height)]


def rectangles(n: int, seed: int, *, whole: bool = True, side: float = 40.0) -> Rows:
    """Rectangles on dimensions 0 and 1, corners in 0..40 x 0..30, of whole numbers or not."""
    rng = np.random.default_rng(seed)
    lo = rng.uniform(0, [side, side * 0.75], (n, 2))
    hi = lo + rng.exponential(side / 6, (n, 2))
    if whole:
        lo, hi = np.floor(lo), np.floor(hi)
    dims, kinds = np.tile([0, 1], n), np.zeros(2 * n)
    weight = rng.random(2 * n)
    return make_rows(
        np.arange(n), rng.random(n), np.arange(0, 2 * n + 1, 2), dims, kinds, lo.ravel(), hi.ravel(), weight
    )


def points(xy: Any, weight: Any = None) -> Events:
    xy = np.asarray(xy, np.float64)
    dims = np.tile([0, 1], len(xy))
    return make_events(np.arange(0, 2 * len(xy) + 1, 2), dims, xy.ravel(), xy.ravel(), weight)


def assert_same(index: Index, rows: Rows, events: Events) -> None:
    """Index and Scan give the same hits to the bit, and the same best ten."""
    scan = Scan.build(rows)
    assert ranked(index.match(events)) == ranked(scan.match(events))
    mine, theirs = index.top_k(events, 10), scan.top_k(events, 10)
    assert [column.tolist() for column in mine] == [column.tolist() for column in theirs]


# the paper


def test_the_worked_example_gives_eight_rectangles_by_simple_and_six_by_overlapped_decomposition() -> None:
    constructs = Constructs(20, 4, 4)
    simple = constructs.simple(Rectangle(3, 3, 11, 6))
    assert len(simple) == 8
    assert {(r.width, r.height) for r in simple} == {(4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (1, 2)}
    overlapped = constructs.overlapped(Rectangle(3, 3, 11, 6))
    assert overlapped == [Rectangle(x, y, 4, 4) for y in (3, 5) for x in (3, 7, 10)]


def test_ids_are_those_of_equation_1_and_never_shared() -> None:
    constructs = Constructs(10, 4, 2)
    assert [constructs.id(Rectangle(0, 0, 2**i, 2**j)) for j in range(2) for i in range(3)] == list(range(6))
    assert constructs.id(Rectangle(3, 2, 4, 1)) == 6 * (3 + 2 * 10) + 2
    every = [Rectangle(x, y, 2**i, 2**j) for y in range(5) for x in range(10) for j in range(2) for i in range(3)]
    assert [constructs.id(rectangle) for rectangle in every] == list(range(len(every)))


@pytest.mark.parametrize("seed", range(20))
def test_both_decompositions_cover_the_rectangle_and_nothing_else(seed: int) -> None:
    dice = random.Random(seed)
    constructs = Constructs(200, 2 ** dice.randrange(6), 2 ** dice.randrange(6))
    whole = Rectangle(dice.randrange(50), dice.randrange(50), dice.randint(1, 70), dice.randint(1, 70))
    simple = [cell for part in constructs.simple(whole) for cell in cells_of(part)]
    assert sorted(simple) == sorted(cells_of(whole))  # each cell once
    overlapped = constructs.overlapped(whole)
    assert {cell for part in overlapped for cell in cells_of(part)} == set(cells_of(whole))
    assert len({(part.width, part.height) for part in overlapped}) == 1
    assert len(set(overlapped)) == len(overlapped) <= len(constructs.simple(whole))


@pytest.mark.parametrize("sides", [(1, 1), (4, 4), (16, 8), (2, 32)])
def test_theorem_1_every_covering_set_has_the_same_size(sides: tuple[int, int]) -> None:
    constructs = Constructs(1000, *sides)
    k_x, k_y = constructs.powers
    for a, b in ((100, 100), (117, 203)):
        assert len(constructs.covering(a, b, closed=True)) == (2 * sides[0] + k_x) * (2 * sides[1] + k_y)
        assert len(constructs.covering(a, b, closed=False)) == (2 * sides[0] - 1) * (2 * sides[1] - 1)


def test_a_covering_set_is_every_rectangle_that_holds_the_point() -> None:
    constructs = Constructs(30, 4, 2)
    every = [Rectangle(x, y, w, h) for x in range(20) for y in range(20) for w in (1, 2, 4) for h in (1, 2)]
    closed = [r for r in every if r.x <= 9 <= r.x + r.width and r.y <= 11 <= r.y + r.height]
    assert constructs.covering(9, 11, closed=True) == sorted(closed, key=constructs.id)
    open_ = [r for r in every if (9, 11) in cells_of(r)]
    assert constructs.covering(9, 11, closed=False) == sorted(open_, key=constructs.id)


@pytest.mark.parametrize("closed", [True, False])
def test_theorem_2_all_covering_sets_have_the_same_gaps_and_one_distance_table(closed: bool) -> None:
    constructs = Constructs(300, 8, 4)
    inward = 0 if closed else 1
    gaps = set()
    for a, b in ((50, 50), (51, 50), (120, 77), (288, 9)):
        ids = [constructs.id(r) for r in constructs.covering(a, b, closed=closed)]
        gaps.add(tuple(later - earlier for earlier, later in pairwise(ids)))
        pivot = constructs.id(Rectangle(a - 8 + inward, b - 4 + inward, 1, 1))
        assert [id_ - pivot for id_ in ids] == constructs.distances(closed=closed)
    assert len(gaps) == 1


@pytest.mark.parametrize("sides", [(1, 1), (4, 4), (16, 8), (2, 64)])
def test_the_index_walks_the_distance_table_of_the_definition(sides: tuple[int, int]) -> None:
    index = VCR.build(rectangles(50, 1), sides=sides)
    state = index.state
    constructs = Constructs(int(state.counts[kernel.Count.PITCH]), *sides)
    expanded = [
        int(corner["delta"]) * constructs.per_corner + bit
        for corner in state.distances
        for bit in range(constructs.per_corner)
        if int(corner["mask"]) >> bit & 1
    ]
    assert expanded == constructs.distances(closed=False)


# the index


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_variant_agrees_with_the_oracle(variant: dict[str, Any]) -> None:
    for seed in (20, 21):
        world = fitted(a_world(seeded_dice(seed), 120, 12), "vcr")
        index = VCR.build(world.rows(), **variant)
        index.check()
        assert_agrees(index, world)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("whole", [True, False])
def test_every_variant_agrees_with_scan_at_every_cell_its_borders_and_beyond(
    variant: dict[str, Any], whole: bool
) -> None:
    rows = rectangles(400, 3, whole=whole)
    index = VCR.build(rows, **variant)
    index.check()
    axis = np.concatenate([[-np.inf, -3.0, -0.5], np.arange(0, 60, 2.5), [1e300, np.inf]])
    grid = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
    assert_same(index, rows, points(grid))
    ends = np.concatenate([rows.lo.reshape(-1, 2), rows.hi.reshape(-1, 2)])[:300]
    assert_same(index, rows, points(ends))
    assert_same(index, rows, points(np.nextafter(ends, np.inf)))
    assert_same(index, rows, points(np.nextafter(ends, -np.inf)))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("domain", ["one value", "neighbours", "whole numbers", "huge"])
def test_every_variant_is_right_at_the_ends_of_its_grid_and_beyond(variant: dict[str, Any], domain: str) -> None:
    crowd = crowd_of(domain, early=200, late=200)
    index = VCR(**variant)
    index.insert(crowd.rows(0, crowd.early))
    for first in range(crowd.early, crowd.size, 20):
        index.insert(crowd.rows(first, first + 20))
    index.check()
    expected = crowd.expected(crowd.size)
    assert ranked(index.match(crowd.events())) == expected
    assert listed(index.top_k(crowd.events(), 5)) == [hits[:5] for hits in expected]


def test_a_row_below_the_grid_is_not_hit_on_its_first_edge() -> None:
    engine = Engine(index="vcr")
    engine.subscribe_many(["x BETWEEN 10 AND 20", "x BETWEEN 12 AND 30"])
    engine.subscribe("x BETWEEN 1 AND 5")
    assert [match.id for match in engine.match({"x": 10})] == [0]
    assert [match.id for match in engine.match({"x": 5})] == [2]


@pytest.mark.parametrize("field", ["flags", "x", "width"])
def test_a_row_that_could_be_answered_wrongly_is_seen(field: str) -> None:
    rows = make_rows([1, 2], [0.0] * 2, range(3), [0] * 2, [0] * 2, [10.0, 12.0], [20.0, 30.0], [1.0] * 2)
    index = VCR.build(rows)
    index.insert(make_rows([3], [0.0], [0, 1], [0], [0], [1.0], [5.0], [1.0]))
    index.check()
    position = int(index.state.positions[index.store.slots_of(np.array([3]))[0]])
    state, pieces = index.state, np.zeros(kernel.MAX_PIECES, kernel.PIECE)
    vcr_update.remove_rows(state, np.array([position], np.uint32), pieces)
    taken = np.zeros(1, np.uint32)
    vcr_update.take_positions(state, taken)
    vcr_update.place_rows(state, index.store.state, index.store.slots_of(np.array([3])), taken)
    place = state.places[taken[0]]
    place[field] = {"flags": place["flags"] & ~kernel.LEFT, "x": place["x"] + 1, "width": place["width"] + 1}[field]
    assert vcr_update.append_rows(state, taken, 0, pieces) == 1  # its lists agree with its place
    with pytest.raises(AssertionError, match="slot 2"):
        index.check()


@pytest.mark.parametrize("overlapped", [False, True])
def test_whole_numbers_are_hit_without_one_false_candidate(overlapped: bool) -> None:
    workload = workloads.VCR(size=3000, width=60, height=40)
    index = VCR.build(workload.subscriptions(), overlapped=overlapped, cells=100)
    matches = index.match(workload.events(50))
    assert not (index.state.places["flags"][:3000] & kernel.VERIFY).any()
    if not overlapped:
        assert index.stats().candidates == len(matches.ids)
    assert_same(index, workload.subscriptions(), workload.events(50))


def test_a_point_inside_its_cell_is_verified_on_the_borders_of_rows_only() -> None:
    rows = make_rows([1], [0.0], [0, 2], [0, 1], [0, 0], [2.0, 2.0], [6.0, 6.0], [1.0, 1.0])
    more = make_rows(range(10, 20), np.zeros(10), range(0, 21, 2), [0, 1] * 10, [0] * 20,
                     np.repeat(np.arange(10.0), 2), np.repeat(np.arange(10.0), 2), np.ones(20))  # fmt: skip
    index = VCR.build(rows)
    index.insert(more)
    inside, beyond, edge = (4.5, 4.5), (6.5, 4.0), (6.0, 6.0)
    hits = [sorted(index.match(points([at])).ids.tolist()) for at in (inside, beyond, edge)]
    assert hits == [[1], [], [1, 16]]


@pytest.mark.parametrize("overlapped", [False, True])
def test_an_event_of_ranges_or_lists_reports_every_row_once(overlapped: bool) -> None:
    rows = rectangles(300, 4, whole=False)
    index = VCR.build(rows, sides=(4, 4), overlapped=overlapped)
    rng = np.random.default_rng(5)
    lo = rng.uniform(-2, 40, (60, 2))
    hi = lo + rng.choice([0.0, 0.3, 5.0, 100.0], (60, 2))
    ranges = make_events(np.arange(0, 121, 2), np.tile([0, 1], 60), lo.ravel(), hi.ravel())
    assert_same(index, rows, ranges)
    lists = make_events([0, 3, 4], [0, 0, 1, 1], [3.0, 30.0, 5.0, 7.0], [3.0, 31.0, 5.0, 7.0])
    assert_same(index, rows, lists)


@pytest.mark.parametrize("order", ["x before y", "y before x", "a point attribute", "x only"])
@pytest.mark.parametrize("overlapped", [False, True])
def test_scores_of_weighted_events_keep_the_order_of_the_rows_sums(order: str, overlapped: bool) -> None:
    rows = rectangles(500, 6, whole=False)
    if order == "y before x":
        pairs = np.arange(1000).reshape(-1, 2)[:, ::-1].ravel()
        rows = rows._replace(dims=rows.dims[pairs].copy(), lo=rows.lo[pairs].copy(), hi=rows.hi[pairs].copy())
    elif order == "a point attribute":
        rows = rows._replace(
            kinds=np.tile(np.array([0, 2], np.uint8), 500), weight=rows.weight * np.tile([1.0, 0.0], 500)
        )
    elif order == "x only":
        columns = (rows.dims, rows.kinds, rows.lo, rows.hi, rows.weight)
        rows = make_rows(rows.ids, rows.priority, np.arange(501), *(column[::2] for column in columns))
    index = VCR.build(rows, overlapped=overlapped)
    xy = np.random.default_rng(7).uniform(0, 40, (60, 2))
    weight = np.random.default_rng(8).random(120)
    weight[::4] = 1.0
    assert_same(index, rows, points(xy, weight))


def test_rows_that_lack_one_dimension_are_found_by_the_other_and_by_events_that_lack_it_too() -> None:
    only_x, only_y = ([0], [2.0], [4.0]), ([1], [2.0], [4.0])
    rows = make_rows([1, 2, 3], [0.0, 0.0, 0.5], [0, 2, 3, 4], [0, 1, 0, 1], [0] * 4, [2.0, 2.0, *only_x[1], *only_y[1]],
                     [4.0, 4.0, *only_x[2], *only_y[2]], [1.0] * 4)  # fmt: skip
    index = VCR.build(rows, dims=(0, 1))
    index.check()
    assert index.state.counts[kernel.Count.GROUPS : kernel.Count.GROUPS + 4].tolist() == [1, 1, 1, 0]
    assert_same(index, rows, points([(3, 3), (3, 9), (9, 3), (9, 9)]))
    lacking = make_events([0, 1, 2, 2], [0, 1], [3.0, 3.0], [3.0, 3.0])
    assert [sorted(index.match(lacking).of(e)[0].tolist()) for e in range(3)] == [[2], [3], []]


def test_a_row_of_too_many_pieces_drops_an_interval_and_is_verified() -> None:
    rows = rectangles(200, 9, side=300.0)
    wide = make_rows([900], [0.0], [0, 2], [0, 1], [0, 0], [0.0, 0.0], [299.0, 220.0], [1.0, 1.0])
    index = VCR.build(rows, sides=(1, 1), cells=2000)
    index.insert(wide)
    index.check()
    position = int(index.state.positions[index.store.slots_of(np.array([900]))[0]])
    assert index.state.places[position]["flags"] & kernel.VERIFY
    assert len(entries_of(index, position)) <= kernel.MAX_PIECES
    hits = index.match(points([(100, 100), (100, 299), (299, 220)]))
    assert [900 in hits.of(e)[0] for e in range(3)] == [True, False, True]


@pytest.mark.parametrize("directory", ["array", "hash"])
@pytest.mark.parametrize("overlapped", [False, True])
def test_lists_grow_and_vanish_with_their_rows(directory: str, overlapped: bool) -> None:
    rows = rectangles(600, 10)
    index = VCR.build(rows.take(0, 350), sides=(8, 8), directory=directory, overlapped=overlapped)
    for start in range(350, 600, 10):
        index.insert(rows.take(start, start + 10))
    index.check()
    xy = np.random.default_rng(1).integers(0, 50, (40, 2))
    assert_same(index, rows, points(xy))
    order = np.random.default_rng(2).permutation(600)
    for start in range(0, 300, 6):  # few at a time: list by list
        index.delete(order[start : start + 6])
    index.check()
    index.delete(order[300:500])  # many: one sweep
    index.check()
    kept = np.sort(order[500:])
    assert sorted(index.store.ids().tolist()) == kept.tolist()
    scan = Scan.build(rows)
    scan.delete(order[:500])
    assert ranked(index.match(points(xy))) == ranked(scan.match(points(xy)))
    index.delete(kept)
    index.check()
    assert index.stats().nodes == 0
    assert not index.state.active.any()


def test_an_update_replaces_the_rectangle_wherever_it_moves() -> None:
    rows = rectangles(300, 11, whole=False)
    index = VCR.build(rows)
    rng = np.random.default_rng(12)
    index.update(rows._replace(weight=rng.random(600)))
    index.check()
    for step in (1e-9, 0.1, 5.0):
        moved = rows._replace(lo=rows.lo + step, hi=rows.hi + step, weight=rng.random(600), priority=rng.random(300))
        index.update(moved)
        index.check()
        assert_same(index, moved, points(rng.uniform(0, 50, (40, 2))))


def test_a_saved_index_keeps_its_grid_and_its_parameters(tmp_path: Path) -> None:
    rows = rectangles(300, 13)
    index = VCR.build(rows, sides=(4, 2), overlapped=True, directory="hash", cells=50)
    index.save(tmp_path / "saved")
    loaded = load_index(tmp_path / "saved")
    assert isinstance(loaded, VCR)
    assert (loaded.sides, loaded.cells, loaded.dims) == (index.sides, index.cells, index.dims)
    loaded.insert(rows._replace(ids=rows.ids + 1000))
    loaded.check()
    assert loaded._parameters() == index._parameters()


# choices


def test_the_grid_of_whole_numbers_is_kept_as_it_is() -> None:
    index = VCR.build(workloads.VCR(size=20_000, width=100, height=80).subscriptions())
    assert index.cells == (101, 81)
    assert index.state.x_edges.tolist() == list(range(101))


def test_other_keys_are_cut_at_quantiles_so_that_outliers_take_no_room() -> None:
    rows = rectangles(5000, 14, whole=False)
    rows.hi[0] = 1e12
    hulls = hulls_of(Scan.build(rows).store, np.arange(5000, dtype=np.uint32), 5000)
    edges = choose_edges(hulls, 0, 140)
    assert len(edges) <= 140
    assert (np.diff(edges) > 0).all()
    shares = np.histogram(np.sort(np.concatenate([rows.lo[::2], rows.hi[::2]])), edges)[0] / 10_000
    assert shares.max() < 3 / len(edges)


def test_a_point_attribute_is_preferred_to_two_attributes_as_selective() -> None:
    n = 400
    rng = np.random.default_rng(15)
    lo = rng.uniform(0, 90, (n, 4))
    kinds = np.tile([0, 0, 0, 2], n)
    rows = make_rows(range(n), np.zeros(n), range(0, 4 * n + 1, 4), np.tile([0, 1, 2, 3], n), kinds, lo.ravel(),
                     (lo + 9).ravel(), np.ones(4 * n))  # fmt: skip
    assert VCR.build(rows).dims == (2, 3)


def test_an_attribute_that_selects_nothing_is_not_indexed() -> None:
    n = 200
    lo = np.stack([np.arange(n) % 50, np.zeros(n), np.arange(n) % 37], axis=1).astype(float)
    hi = lo + np.array([3.0, 500.0, 4.0])
    rows = make_rows(range(n), np.zeros(n), range(0, 3 * n + 1, 3), np.tile([0, 1, 2], n), np.zeros(3 * n), lo.ravel(),
                     hi.ravel(), np.ones(3 * n))  # fmt: skip
    assert VCR.build(rows).dims == (0, 2)


def test_rows_of_one_attribute_need_no_second() -> None:
    rows = make_rows([1, 2], [0.0, 0.0], [0, 1, 2], [5, 5], [0, 0], [0.0, 2.0], [3.0, 4.0], [1.0, 1.0])
    index = VCR.build(rows)
    assert index.dims == (5, NO_DIMENSION)
    assert_same(index, rows, make_events([0, 1, 2], [5, 5], [2.5, 3.5], [2.5, 3.5]))


def test_wider_rectangles_get_longer_sides_and_the_choice_is_no_extreme() -> None:
    rng = np.random.default_rng(16)
    chosen = []
    for widest in (2, 10, 40, 160, 640):
        widths, heights = rng.integers(1, widest + 1, (2, 2000))
        chosen.append(choose_sides(widths, heights, hits=3000))
    assert chosen == sorted(chosen)
    assert max(chosen[0]) <= 2
    assert 2 <= chosen[2][0] <= 16
    assert chosen[-1] > chosen[2]


def test_fewer_hits_leave_fewer_lists_to_visit_so_that_sides_may_be_longer() -> None:
    widths, heights = np.random.default_rng(18).integers(1, 41, (2, 2000))
    assert choose_sides(widths, heights, hits=10) > choose_sides(widths, heights, hits=10_000)


def test_hits_are_expected_where_rows_are_crowded() -> None:
    workload = workloads.VCR(size=20_000)
    index = VCR.build(workload.subscriptions())
    places = index.state.places[:20_000]
    found = len(index.match(workload.events(200)).ids) / 200
    assert 0.5 * found < expected_hits(places[::10], 20_000) < 2 * found


def test_one_row_after_another_ends_with_a_grid_for_all() -> None:
    rows = rectangles(300, 17)
    index = VCR()
    for r in range(300):
        index.insert(rows.take(r, r + 1))
    index.check()
    assert index.cells[0] > 10
    assert_same(index, rows, points(np.random.default_rng(3).integers(0, 45, (20, 2))))


@pytest.mark.parametrize(
    "parameters",
    [{"sides": (3, 4)}, {"sides": (128, 1)}, {"directory": "tree"}, {"cells": 0}, {"cells": 70_000}],
    ids=str,
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="expected"):
        VCR(**parameters)


def test_relaxed_matching_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="relaxed"):
        VCR().match(points([(1, 1)]), mode="any")


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(8))
def test_stays_right_through_long_random_histories(seed: int) -> None:
    dice = random.Random(seed)
    variant = dice.choice(VARIANTS)
    pool = a_world(seeded_dice(seed + 50), 0, 8)
    for id_ in range(200):
        with suppress(TooComplexError):
            a_subscription(seeded_dice(1000 * seed + id_), pool, id_)
    world = World(pool.schema, {}, pool.events)
    index = VCR(**variant)
    for _ in range(60):
        inside = sorted(world.subscriptions)
        outside = sorted(set(pool.subscriptions) - set(inside))
        if outside and (not inside or dice.random() < 0.6):
            ids = dice.sample(outside, dice.randint(1, min(60, len(outside))))
            world.subscriptions.update({i: pool.subscriptions[i] for i in ids})
            index.insert(world.rows(ids))
        else:
            ids = dice.sample(inside, dice.randint(1, min(60, len(inside))))
            for i in ids:
                del world.subscriptions[i]
            index.delete(np.array(ids))
        index.check()
    assert_agrees(index, world)
