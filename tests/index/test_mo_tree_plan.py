"""How an MO-Tree is planned: the cell widths of the paper, and plans made from samples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from matchwood.encode.arrays import make_rows
from matchwood.store.row_store import RowStore
from matchwood.structures import MOTree
from matchwood.structures.mo_tree.kernels.layout import cell_for, tick_of
from matchwood.structures.mo_tree.plan import AxisPlan, TreePlan, columns_of, paper, planned
from matchwood.structures.mo_tree.tree import new_tree
from matchwood.structures.mo_tree.width import cell_widths, interception, limits, sampled_widths
from matchwood.workloads.city import City


def test_the_papers_example_of_cell_widths() -> None:
    widths = [Fraction(w).limit_denominator(10_000) for w in cell_widths(4, 6)]
    assert widths == [Fraction(3, 8), Fraction(11, 18), Fraction(5, 6), 1]


def test_without_a_limit_cells_are_as_wide_as_lemma_3_allows() -> None:
    for levels in (2, 4, 7):
        assert cell_widths(levels, np.inf) == pytest.approx(limits(levels)[3].tolist())


@pytest.mark.parametrize("eta", [5.0, 5.5, 6.0, 6.4])
def test_cells_are_stabbed_no_more_often_than_eta(eta: float) -> None:
    widths = cell_widths(4, eta)
    assert sum(c * w for c, w in zip((4, 3, 2, 1), widths, strict=True)) <= eta + 1e-6
    assert all(low <= w <= high for w, low, high in zip(widths, *limits(4)[2:], strict=True))


def test_sampled_widths_intercept_at_least_what_the_formula_does() -> None:
    rng = np.random.default_rng(1)
    keys = rng.random((2, 50_000))
    lo, hi = keys.min(axis=0), keys.max(axis=0)
    widths = sampled_widths(4, 6.0, lo, hi, rng.random(5_000))
    assert widths == pytest.approx(cell_widths(4, 6.0), abs=0.03)
    assert interception(lo, hi, widths) >= interception(lo, hi, cell_widths(4, 6.0)) - 0.005


def test_sampled_widths_follow_the_data() -> None:
    """Where all intervals are narrow, the budget goes to the narrow level."""
    rng = np.random.default_rng(2)
    lo = rng.random(20_000) * 0.8
    widths = sampled_widths(4, 5.6, lo, lo + 0.2, rng.random(4_000))
    assert widths[0] > cell_widths(4, 5.6)[0]


def test_selective_popular_attributes_become_layers() -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    dims = np.tile([0, 1, 2], n)
    centre = rng.random(3 * n)
    half = np.tile([0.01, 0.4, 0.02], n) * rng.random(3 * n)
    rows = make_rows(
        range(n), np.zeros(n), np.arange(n + 1) * 3, dims, np.zeros(3 * n), centre - half, centre + half, half
    )
    store = RowStore()
    slots = store.add(rows)
    columns, _ = columns_of(store, slots)
    assert [column.dim for column in columns] == [0, 2, 1]
    plan = planned(store, slots, bytes_per_row=64, layers=2)
    assert [axis.dim for axis in plan.axes[:2]] == [0, 2]


def test_the_papers_configuration_has_six_layers_of_ten_cells_and_is_right() -> None:
    city = City.preset("k6", size=4_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(20)
    tree = MOTree.build(rows, plan="paper")
    details = tree.stats().details
    assert (details["layers"], details["directory"], details["planes"]) == (6, 10**6, 0)
    planned_tree = MOTree.build(rows)
    for e in range(20):
        ids, other = tree.match(events).of(e)[0], planned_tree.match(events).of(e)[0]
        assert sorted(ids.tolist()) == sorted(other.tolist())


@pytest.mark.parametrize("plan", ["planned", "paper"])
def test_the_cell_of_an_interval_is_the_nearest_of_the_narrowest_level_that_holds_it(plan: str) -> None:
    rows = City.preset("k6", size=3_000, source="synthetic").subscriptions()
    store = RowStore()
    slots = store.add(rows)
    made = paper(store, slots) if plan == "paper" else planned(store, slots, bytes_per_row=64, layers=2)
    axis, rng = made.axes[0], np.random.default_rng(5)
    tree, cells = new_tree(made), axis.cells()
    used = set()
    for begin, end in np.sort(
        rng.integers(0, axis.ticks, (4_000, 2)) // rng.integers(1, 60, (4_000, 1)), axis=1
    ).tolist():
        first, expected = 0, len(cells) - 1
        for level in axis.levels[:-1]:
            mine = cells[first : first + level.cells]
            centres = mine["first"] + level.width / 2
            near = first + int(np.argmin(np.abs(centres - (begin + end + 1) / 2)))
            if cells["first"][near] <= begin and end < cells["first"][near] + cells["width"][near]:
                expected = near
                break
            first += level.cells
        found = int(cell_for(tree, tree.axes[0], begin, end))
        assert cells["first"][found] <= begin
        assert end < cells["first"][found] + cells["width"][found]
        assert cells["width"][found] == cells["width"][expected]
        assert abs(found - expected) <= 1  # of two as near either will do
        used.add(found)
    assert len(used) > 5


CUTS = {
    "none": np.zeros(0),
    "one": np.array([7.0]),
    "four": np.linspace(-1.0, 1.0, 4),
    "a step": np.arange(32.0),
    "even": np.linspace(40.0, 41.0, 1_023),
    "places": np.unique(np.random.default_rng(1).normal(-73.9, 0.05, 1_023)),
    "with outliers": np.array([-1e300, *np.linspace(0.0, 1.0, 40), 1e300]),
    "by powers": 10.0 ** np.arange(-300.0, 300.0),
    "past what fits": np.array([-1.7e308, *np.arange(50.0), 1.7e308]),
    "side by side": np.cumsum(np.full(60, np.spacing(1.0))) + 1.0,
    "next to nothing": np.arange(40) * 5e-324,
    "few, next to nothing": np.arange(20) * 5e-324,
}


@pytest.mark.parametrize("name", CUTS)
def test_a_tick_is_the_number_of_cuts_at_or_below_a_key(name: str) -> None:
    cuts = CUTS[name]
    tree = new_tree(
        TreePlan((AxisPlan(0, np.arange(40.0), 3), AxisPlan(1, cuts, 3), AxisPlan(2, np.arange(-9.0, 9.0), 3)), 0)
    )
    random = np.random.default_rng(3).uniform(cuts.min(initial=0.0) / 2, cuts.max(initial=1.0) / 2, 500)
    ends = np.array([-np.inf, -1.0, -5e-324, 0.0, 5e-324, 1.0, np.inf])
    keys = np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), 2 * random, ends])
    found = [int(tick_of(tree, tree.axes[1], key)) for key in keys]
    assert found == np.searchsorted(cuts, keys, side="right").tolist()
    assert tick_of(tree, tree.axes[1], np.nan) == 0
