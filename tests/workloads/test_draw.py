from __future__ import annotations

import numpy as np
import pytest

from matchwood.workloads.draw import pick, pick_distinct, zipf


def test_zipf_shares_fall_with_the_rank() -> None:
    assert zipf(3, 1.0) == pytest.approx(np.array([6, 3, 2]) / 11)
    assert zipf(4, 0.0) == pytest.approx(0.25)


def test_picks_follow_the_shares() -> None:
    shares = zipf(50, 1.0)
    found = np.bincount(pick(np.random.default_rng(1), shares, 50_000), minlength=50) / 50_000
    assert found == pytest.approx(shares, abs=0.006)


@pytest.mark.parametrize("size", [2, 4], ids=["few out of many", "half of them"])
def test_distinct_picks_follow_the_law_of_drawing_one_after_the_other(size: int) -> None:
    shares = zipf(8, 1.0)
    chosen = pick_distinct(np.random.default_rng(1), shares, 40_000, size)
    assert all(len(set(row)) == size for row in chosen[:1000].tolist())
    first, second = chosen[:, 0].astype(int), chosen[:, 1].astype(int)
    assert np.bincount(first, minlength=8) / 40_000 == pytest.approx(shares, abs=0.01)
    after_the_first = np.bincount(second[first == 0], minlength=8) / np.sum(first == 0)
    assert after_the_first == pytest.approx(np.r_[0, shares[1:]] / shares[1:].sum(), abs=0.015)
