"""Homes of ids: those that run on hardly meet, and no likely stride piles up."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.jit.decorators import kernel
from matchwood.store.kernels.id_table import NONE, home

STRIDES = [
    *range(1, 40),
    *(
        60,
        100,
        144,
        233,
        377,
        850,
        987,
        1_000,
        3_600,
        4_095,
        4_096,
        4_097,
        10_946,
        75_025,
        86_400,
        10**6,
        10**9,
        10**12,
    ),
    *(1 << bits for bits in (10, 16, 20, 24, 32, 40)),
]


@kernel
def _steps(table, ids):
    """Enter all ids; return how many cells in all they stand from home."""
    steps = 0
    for i in range(ids.size):
        at = home(table, ids[i])
        while table[at] != NONE:
            at = (at + 1) & (table.size - 1)
            steps += 1
        table[at] = 0
    return steps


def steps_each(ids: np.ndarray) -> float:
    """How far from home an id stands on average, in a table as full as tables become."""
    table = np.full(1 << (2 * len(ids) - 1).bit_length(), NONE, np.uint32)
    return int(_steps(table, ids.astype(np.int64))) / len(ids)


@pytest.mark.parametrize("first", [0, 10**9, 2**62])
@pytest.mark.parametrize("many", [512, 60_000, 1_000_000])
def test_ids_that_run_on_stand_at_home(many: int, first: int) -> None:
    assert steps_each(first + np.arange(many)) < 0.2


def test_ids_that_run_on_with_gaps_stand_at_home() -> None:
    rng = np.random.default_rng(1)
    assert steps_each(np.sort(rng.permutation(400_000)[:200_000])) < 0.3
    assert steps_each(np.concatenate([np.arange(100_000), 10_000_019 + np.arange(100_000)])) < 0.4


@pytest.mark.parametrize("many", [1_000, 16_000, 200_000])
def test_no_likely_stride_piles_up(many: int) -> None:
    far = {stride: steps_each(stride * np.arange(many)) for stride in STRIDES}
    assert max(far.values()) < 20, {stride: steps for stride, steps in far.items() if steps >= 20}


def test_ids_drawn_at_random_stand_no_farther_than_chance_has_it() -> None:
    assert steps_each(np.random.default_rng(2).integers(0, 2**62, 120_000)) < 0.5
