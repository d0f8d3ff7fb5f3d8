from __future__ import annotations

import numpy as np
import pytest

from matchwood.workloads import Ranked
from matchwood.workloads.draw import zipf


def test_scores_are_one_minus_the_half_length() -> None:
    rows = Ranked(size=3000, dimensions=3).subscriptions()
    assert rows.weight == pytest.approx(1 - (rows.hi - rows.lo) / 2)
    assert (rows.priority == 0).all()


def test_exact_matching_has_the_same_boxes_and_the_sum_as_priority() -> None:
    relaxed, exact = (Ranked(size=3000, dimensions=3, matching=mode).subscriptions() for mode in ("relaxed", "exact"))
    assert np.array_equal(relaxed.lo, exact.lo)
    assert np.array_equal(relaxed.hi, exact.hi)
    assert (exact.weight == 0).all()
    assert exact.priority == pytest.approx(relaxed.weight.reshape(-1, 3).sum(axis=1))


def test_half_lengths_follow_zipf_over_a_hundred_steps() -> None:
    rows = Ranked(size=100_000).subscriptions()
    steps = np.bincount(np.floor(100 * (rows.hi - rows.lo) / 2).astype(int), minlength=100) / rows.size
    assert steps[:100] == pytest.approx(zipf(100, 0.75), abs=0.004)


def test_a_higher_length_skew_means_less_overlap() -> None:
    shares = [Ranked(size=3000, skew_length=skew).selectivity(events=50).probability for skew in (0.0, 0.75, 1.5)]
    assert shares[0] > shares[1] > shares[2] > 0


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_points_lie_in_the_regions_which_have_the_volume_asked_for(dimensions: int) -> None:
    workload = Ranked(size=10, dimensions=dimensions)
    first, sides = workload.boxes()
    assert first.shape == sides.shape == (10, dimensions)
    assert np.median(np.prod(sides / 100, axis=1)) == pytest.approx(1 / 20, rel=0.2)
    points = workload.events(2000).lo.reshape(2000, 1, dimensions) * 100
    assert ((points >= first) & (points < first + sides)).all(axis=2).any(axis=1).all()
    assert points.max() < 100


def test_points_gather_in_the_middle_of_a_region() -> None:
    workload = Ranked(size=10, regions=1, volume=0.21)
    first, sides = workload.boxes()
    assert sides[0, 0] == 21
    cells = np.floor(workload.events(20_000).lo * 100).astype(int) - first[0, 0]
    shares = np.bincount(cells, minlength=21) / 20_000
    assert shares[10] == pytest.approx(zipf(21, 1.0)[0], abs=0.02)
    assert shares[10] > shares[9] > shares[5] > shares[0] > 0


def test_skew_across_makes_the_first_region_the_fullest() -> None:
    shares = {}
    for skew in (0.0, 2.0):
        workload = Ranked(size=10, regions=2, skew_across=skew, volume=0.01)
        first, sides = workload.boxes()
        assert first[0, 0] != first[1, 0]
        assert (sides == 1).all()
        cells = np.floor(workload.events(4000).lo * 100)
        shares[skew] = [np.mean(cells == start) for start in first[:, 0]]
    assert shares[0.0] == pytest.approx([0.5, 0.5], abs=0.03)
    assert shares[2.0] == pytest.approx([0.8, 0.2], abs=0.03)
