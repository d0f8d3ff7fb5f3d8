"""Rank order of whole batches, against sorting by key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood.store.kernels.ordering import BLOCK, FEW, MIN_RADIX, order_hits

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


LONG = (MIN_RADIX - 1, MIN_RADIX, MIN_RADIX + 1, 3 * MIN_RADIX, 5_000)


def scores_of(kind: str, size: int, random: np.random.Generator) -> np.ndarray:
    """Scores that are hard for a radix sort, each in its own way."""
    spread = random.normal(size=size)
    ulps = np.nextafter(1.0, np.inf) - 1.0
    return {
        "spread": spread,
        "signs": np.where(random.random(size) < 0.5, spread, -0.0 * np.sign(spread)),
        "equal": np.full(size, 0.25),
        "few": random.integers(-3, 4, size) / 4,
        "pairs": np.repeat(spread, 2)[:size],
        "ties of several sizes": np.repeat(spread, random.integers(1, 3 * FEW, size))[:size],
        "an outlier, and neighbours": np.concatenate([[1e300], 1.0 + ulps * random.integers(0, 50, size - 1)]),
        "an outlier, and nearly equal": np.concatenate([[-np.inf], 1.0 + 1e-9 * random.random(size - 1)]),
        "all magnitudes": np.ldexp(spread, random.integers(-1070, 1020, size)),
        "infinite": np.where(random.random(size) < 0.5, np.inf, -np.inf),
    }[kind]


KINDS = [
    "spread",
    "signs",
    "equal",
    "few",
    "pairs",
    "ties of several sizes",
    "an outlier, and neighbours",
    "an outlier, and nearly equal",
    "all magnitudes",
    "infinite",
]


@pytest.mark.parametrize("size", LONG)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [2_000_000, 2**63 - 1], ids=["ids near each other", "any ids"])
def test_long_runs_are_in_rank_order_whatever_their_scores(kind: str, size: int, most: int) -> None:
    random = np.random.default_rng(size)
    runs = []
    for _ in range(2):
        ids = random.integers(0, most, size).tolist()
        runs.append(list(zip(scores_of(kind, size, random).tolist(), ids, strict=True)))
    runs.insert(1, runs[0][:BLOCK])
    assert ordered(runs) == by_rank(runs)


def test_copies_of_hits_of_a_long_run_are_all_kept() -> None:
    run = [(1.0, 7), (2.0, 9), (2.0, 8)] * MIN_RADIX
    assert ordered([run]) == by_rank([run])
