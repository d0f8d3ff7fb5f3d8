"""Rows that are taken at a glance are those that the full check takes."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import COUNT, INTERVAL, MORE, PART, Rows, make_rows
from matchwood.encode.checks import check_rows
from matchwood.errors import SubscriptionError
from matchwood.store.kernels.soundness import are_plain
from matchwood.store.soundness import check_sound

DIMENSIONS = 6


def valid_rows(count: int, rng: np.random.Generator) -> Rows:
    """Rows of intervals, sets of them, and counts."""
    offsets, dims, kinds, lo, hi, weight = [0], [], [], [], [], []

    def add(dim: int, kind: int, low: float, high: float, heavy: float = 0.0) -> None:
        for column, value in zip((dims, kinds, lo, hi, weight), (dim, kind, low, high, heavy), strict=True):
            column.append(value)

    for _ in range(count):
        for dim in np.sort(rng.permutation(DIMENSIONS)[: rng.integers(0, 4)]).tolist():
            ends = np.sort(rng.permutation(50)[: 2 * rng.integers(1, 4)]).astype(float).tolist()
            for i in range(0, len(ends), 2):
                add(dim, MORE if i else INTERVAL, ends[i], ends[i + 1], 0.0 if i else float(rng.random()))
            if rng.random() < 0.4:
                add(dim, COUNT, 1.0, float(rng.choice([1.0, 2.0, np.inf])))
                for key in np.sort(rng.permutation(9)[: rng.integers(1, 4)]).tolist():
                    add(dim, PART, float(key), float(key))
        offsets.append(len(dims))
    return make_rows(np.arange(count), rng.random(count), offsets, dims, kinds, lo, hi, weight)


def test_valid_rows_are_taken_at_a_glance() -> None:
    rows = valid_rows(300, np.random.default_rng(1))
    check_rows(rows, DIMENSIONS)
    assert are_plain(rows, DIMENSIONS)
    assert are_plain(rows.take(0, 0), DIMENSIONS)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_rows_are_refused_as_the_full_check_refuses_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(25):
        rows = valid_rows(3, rng)
        if not len(rows.dims):
            continue
        name = str(rng.choice(["priority", "offsets", "dims", "kinds", "lo", "hi", "weight"]))
        column = getattr(rows, name).copy()
        special = (
            [0, 1, 2, 3, 5, 6, 7] if column.dtype.kind in "iu" else [-1.0, 0.0, 2.5, 30.0, np.inf, -np.inf, np.nan]
        )
        column[rng.integers(len(column))] = rng.choice(special)
        damaged = rows._replace(**{name: column[:-1] if rng.random() < 0.1 else column})
        try:
            check_rows(damaged, DIMENSIONS)
        except SubscriptionError as error:
            assert not are_plain(damaged, DIMENSIONS)
            with pytest.raises(SubscriptionError, match=f"^{str(error)[:20]}".replace("(", r"\(")):
                check_sound(damaged, DIMENSIONS)
        else:
            check_sound(damaged, DIMENSIONS)
