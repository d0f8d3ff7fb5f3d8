"""The machine operations: every bit, every lane, NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.jit.decorators import kernel
from matchwood.jit.intrinsics import (
    box_holds,
    boxes_hit,
    prefetch,
    trailing_zeros,
    unite_planes,
)
from matchwood.store.kernels.candidates import KEY
from matchwood.store.kernels.rows import ENTRY

INF, NAN = np.float32(np.inf), np.float32(np.nan)


@kernel
def _zeros(words, out):
    for i in range(words.size):
        out[i] = trailing_zeros(words[i])


@kernel
def _fetch(array, index):
    prefetch(array, index)
    return array[0]


@kernel
def _hits(dims, lo, hi, at, key_lo, key_hi):
    return boxes_hit(dims, lo, hi, at, key_lo, key_hi)


@kernel
def _holds(entries, at, keys, dim):
    return box_holds(entries, at, keys, dim)


@kernel
def _unite(target, source, base, ahead, steps, begin, end):
    unite_planes(target, 16, source, base, ahead, steps, begin, end)


def expected(dims: np.ndarray, lo: np.ndarray, hi: np.ndarray, at: int, key_lo: np.ndarray, key_hi: np.ndarray) -> int:
    word = 0
    for j in range(16):
        d = dims[at + j]
        word |= int(lo[at + j] <= key_hi[d] and key_lo[d] <= hi[at + j]) << j
    return word


def test_trailing_zeros_of_every_bit_and_of_zero() -> None:
    bits = [1 << n for n in range(64)]
    words = np.array([*bits, *(b | 1 << 63 for b in bits), 0, 2**64 - 1, 0b101000], np.uint64)
    out = np.empty(len(words), np.int64)
    _zeros(words, out)
    assert out.tolist() == [*range(64), *range(64), 64, 0, 3]


@pytest.mark.parametrize("index", [0, 7, -1, 10**9, -(10**12), 2**62])
def test_a_prefetch_of_any_index_does_nothing_that_can_be_seen(index: int) -> None:
    array = np.arange(8.0)
    assert _fetch(array, index) == 0.0
    assert array.tolist() == list(range(8))


@pytest.mark.parametrize("lane", range(16))
def test_each_lane_answers_for_itself(lane: int) -> None:
    dims = np.arange(16, dtype=np.uint16)
    lo, hi = np.full(16, 5, np.float32), np.full(16, 6, np.float32)
    keys = np.zeros(16, np.float32)
    keys[lane] = 5.5
    assert _hits(dims, lo, hi, 0, keys, keys) == 1 << lane
    keys[:] = 5.5
    keys[lane] = NAN
    assert _hits(dims, lo, hi, 0, keys, keys) == 0xFFFF ^ (1 << lane)


def test_ends_are_closed_and_ranges_meet() -> None:
    dims = np.zeros(16, np.uint16)
    lo = np.array([0, 1, 2, 3, 4, 5, 6, 7] * 2, np.float32)
    hi = lo + np.float32(1)
    one = np.array([3.0], np.float32), np.array([3.0], np.float32)
    assert _hits(dims, lo, hi, 0, *one) == 0b0000110000001100
    range_ = np.array([2.5], np.float32), np.array([5.0], np.float32)
    assert _hits(dims, lo, hi, 0, *range_) == 0b0011110000111100


def test_nan_never_hits_and_infinities_do() -> None:
    dims = np.zeros(16, np.uint16)
    lo = np.array([-INF, INF, -INF, 0, NAN, 0, NAN, 1] * 2, np.float32)
    hi = np.array([INF, INF, -INF, INF, 1, NAN, NAN, 1] * 2, np.float32)
    for key in (-INF, INF, np.float32(0), np.float32(1), NAN):
        keys = np.array([key], np.float32)
        found = _hits(dims, lo, hi, 0, keys, keys)
        assert found == expected(dims, lo, hi, 0, keys, keys)
        assert (found == 0) == np.isnan(key)


def test_random_boxes_at_any_offset_agree_with_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    special = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0, 1e-45, 3e38], np.float32)
    for _ in range(200):
        n = int(rng.integers(16, 80))
        dims = rng.integers(0, 65_536, n).astype(np.uint16)
        tables = rng.integers(-4, 5, (2, 65_536)).astype(np.float32)
        columns = rng.integers(-4, 5, (2, n)).astype(np.float32)
        for array in (tables, columns):
            chosen = rng.random(array.shape) < 0.2
            array[chosen] = rng.choice(special, int(chosen.sum()))
        at = int(rng.integers(0, n - 15))
        arguments = dims, columns[0], columns[1], at, tables[0], tables[1]
        assert _hits(*arguments) == expected(*arguments)


def test_an_interval_holds_by_the_rules_of_float_comparison() -> None:
    ends = [-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan]
    entries, keys = np.zeros(3, ENTRY), np.zeros(2, KEY)
    for lo in ends:
        for hi in ends:
            entries[1]["lo"], entries[1]["hi"] = lo, hi
            for key_lo in ends:
                for key_hi in ends:
                    keys[1]["hi"], keys[1]["below"] = key_hi, -key_lo
                    bits = int(lo <= key_hi) | int(key_lo <= hi) << 1
                    assert _holds(entries, 1, keys, 1) == bits, (lo, hi, key_lo, key_hi)


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_planes_are_united_with_what_is_there(count: int) -> None:
    rng = np.random.default_rng(count)
    source = rng.integers(0, 2**40, 16 * 12, np.uint64)
    steps = np.zeros(12, [("plane", "i8"), ("other", "i8")])
    steps["plane"], steps["other"] = rng.permutation(12) - 1, 1 << 40
    target = rng.integers(0, 2**40, 48, np.uint64)
    before = target.copy()
    _unite(target, source, 16, 10**9, steps, 2, 2 + count)
    for step in steps["plane"][2 : 2 + count]:
        before[16:32] |= source[16 * (step + 1) : 16 * (step + 2)]
    assert target.tolist() == before.tolist()
