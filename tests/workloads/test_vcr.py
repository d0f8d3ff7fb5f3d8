from __future__ import annotations

import numpy as np
import pytest

from matchwood.workloads import VCR, WorkloadError


def inside(workload: VCR, points: np.ndarray) -> float:
    first, last = workload.hot()
    return float(np.mean(((points >= first) & (points <= last)).all(axis=1)))


@pytest.mark.parametrize("cells", ["moderate", "large"])
@pytest.mark.parametrize(("skew", "alpha", "beta"), [("90-10", 0.9, 0.1), ("90-1", 0.9, 0.01)])
def test_alpha_of_the_corners_and_of_the_events_lie_in_beta_of_the_area(
    cells: str, skew: str, alpha: float, beta: float
) -> None:
    workload = VCR.preset(f"{cells}-{skew}", size=20_000)
    first, last = workload.hot()
    assert np.prod(last - first + 1) / (workload.width * workload.height) == pytest.approx(beta, rel=0.03)
    assert first + last + 1 == pytest.approx([workload.width, workload.height], abs=1)
    assert inside(workload, workload.subscriptions().lo.reshape(-1, 2)) == pytest.approx(alpha, abs=0.01)
    assert inside(workload, workload.events(20_000).lo.reshape(-1, 2)) == pytest.approx(alpha, abs=0.01)


def test_the_uniform_preset_fills_the_grid_evenly() -> None:
    points = VCR.preset("moderate-uniform").events(40_000).lo.reshape(-1, 2)
    counts, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=(6, 4))
    assert counts.max() / counts.min() < 1.25


def test_the_grids_have_the_papers_numbers_of_cells() -> None:
    for name, cells in (("moderate-90-10", 60_000), ("large-90-1", 3_000_000)):
        workload = VCR.preset(name)
        assert workload.width * workload.height == cells


def test_rectangles_have_integer_corners_and_sides_within_their_limits() -> None:
    workload = VCR(size=20_000)
    rows = workload.subscriptions()
    lo, hi = rows.lo.reshape(-1, 2), rows.hi.reshape(-1, 2)
    assert np.array_equal(lo, np.floor(lo))
    assert lo.min() == 0
    assert (hi <= [300, 200]).all()
    assert (hi - lo).min() == 1
    assert (hi - lo).max(axis=0).tolist() == [40, 20]
    assert (hi - lo).mean(axis=0) == pytest.approx([20, 10.5], rel=0.05)


def test_skew_makes_predicates_overlap() -> None:
    uniform, skewed = (
        VCR.preset(f"moderate-{skew}", size=4000).selectivity(events=200) for skew in ("uniform", "90-10")
    )
    assert skewed.probability > 5 * uniform.probability > 0


def test_a_hot_rectangle_that_leaves_no_room_outside_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no room"):
        VCR(alpha=0.9, beta=1.0)
