"""Bit planes: ranges of positions, complemented planes, slices without a division."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.kernels._jit import kernel
from matchwood.kernels.mo_tree import TREE_CELL, scale_of, slice_in
from matchwood.kernels.planes import and_flipped_planes, and_ranges, in_ranges

ONES = 2**64 - 1


@kernel
def _within(low, high, first, number):
    return in_ranges(low, high, first, number)


@kernel
def _and_ranges(bits, at, stride, count, low, high, first):
    and_ranges(bits, at, stride, count, low, high, first)


@kernel
def _and_flipped(bits, base, stride, planes, flips, count, out):
    return and_flipped_planes(bits, base, stride, planes, flips, count, base, stride, out)


@kernel
def _slices(cells, ticks, out):
    for i in range(ticks.size):
        out[i] = slice_in(cells[0], ticks[i])


def _random_ranges(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    low = rng.choice(np.array([-128, -1, 0, 1, 5, 31, 32, 127], np.int8), size)
    high = rng.choice(np.array([-128, -1, 0, 1, 5, 31, 32, 127], np.int8), size)
    return low, high


@pytest.mark.parametrize("number", [-128, -1, 0, 1, 5, 32, 127])
def test_ranges_around_a_number_are_closed_and_may_be_empty(number: int) -> None:
    low, high = _random_ranges(np.random.default_rng(1), 100)
    for first in (0, 3, 36):
        expected = sum(int(low[first + p] <= number <= high[first + p]) << p for p in range(64))
        assert int(_within(low, high, first, np.int8(number))) == expected


def test_planes_are_anded_with_the_ranges_of_their_positions_and_nothing_else_is_touched() -> None:
    rng = np.random.default_rng(2)
    low, high = _random_ranges(rng, 128)
    bits = rng.integers(0, 2**64, 400, np.uint64)
    expected = bits.copy()
    for j in range(33):
        expected[7 + 8 * j] &= _within(low, high, 64, np.int8(j))
    _and_ranges(bits, 7, 8, 33, low, high, 64)
    assert bits.tolist() == expected.tolist()


def test_planes_are_anded_some_of_them_complemented() -> None:
    bits = np.random.default_rng(3).integers(0, 2**64, 200, np.uint64)
    planes, flips = np.array([-2, 3, 0, 7]), np.array([0, -1, 0, -1])
    out = np.zeros(8, np.uint64)
    for count in range(5):
        expected = [ONES] * 8
        for plane, flip in zip(planes[:count].tolist(), flips[:count].tolist(), strict=True):
            expected = [e & int(bits[24 + 8 * plane + w]) ^ (e & flip) for w, e in enumerate(expected)]
        assert bool(_and_flipped(bits, 24, 8, planes, flips, count, out)) == any(expected)
        assert out.tolist() == expected


@pytest.mark.parametrize("slices", [0, 1, 4, 24, 32])
def test_a_slice_is_the_whole_part_of_a_quotient(slices: int) -> None:
    for width in [1, 2, 3, 7, 24, 25, 82, 117, 256, 1000, 1023, 1024, 4096]:
        cells = np.array([(5, width, scale_of(slices, np.array([width]))[0])], TREE_CELL)
        ticks = np.arange(width + 20)
        out = np.empty(len(ticks), np.int64)
        _slices(cells, ticks, out)
        assert out.tolist() == (np.clip(ticks - 5, 0, width - 1) * slices // width).tolist()
