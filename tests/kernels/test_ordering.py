"""Rank order of whole batches, against sorting by key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood.store.kernels.ordering import BLOCK, order_hits

hits = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, -0.0, 0.5, np.inf]), st.integers(0, 2**63 - 1)), max_size=40)


def ordered(runs: list[list[tuple[float, int]]]) -> list[list[tuple[float, int]]]:
    offsets = np.cumsum([0, *map(len, runs)], dtype=np.int64)
    scores = np.array([score for run in runs for score, _ in run], np.float64)
    ids = np.array([id_ for run in runs for _, id_ in run], np.int64)
    order_hits(offsets, ids, scores)
    found = list(zip(scores.tolist(), ids.tolist(), strict=True))
    return [found[begin:end] for begin, end in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)]


def by_rank(runs: list[list[tuple[float, int]]]) -> list[list[tuple[float, int]]]:
    return [sorted(run, key=lambda hit: (-hit[0], hit[1])) for run in runs]


@settings(deadline=None)
@given(st.lists(st.lists(hits, max_size=4).map(lambda parts: [hit for part in parts for hit in part]), max_size=5))
def test_hits_come_best_first_and_ties_by_id(runs: list[list[tuple[float, int]]]) -> None:
    assert ordered(runs) == by_rank(runs)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK + 3, 1_000])
@pytest.mark.parametrize("scores", [1, 3, 10_000])
def test_runs_longer_than_a_block_are_merged(size: int, scores: int) -> None:
    random = np.random.default_rng(size + scores)
    ids = random.permutation(3 * size)[:size].tolist()
    run = list(zip(random.integers(0, scores, size).astype(float).tolist(), ids, strict=True))
    assert ordered([run, run[::-1], []]) == by_rank([run, run, []])


@pytest.mark.parametrize("size", [2, 3, BLOCK, 3 * BLOCK])
def test_copies_of_a_hit_are_all_kept(size: int) -> None:
    run = [(1.0, 7)] * size + [(2.0, 9)] * size
    assert ordered([run]) == by_rank([run])
