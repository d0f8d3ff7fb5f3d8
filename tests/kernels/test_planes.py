"""Bit planes: ranges of positions, planes that pass or rule out, words with bits, slices without a division."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.kernels._jit import kernel
from matchwood.kernels.mo_tree import TREE_CELL, scale_of, slice_in
from matchwood.kernels.planes import and_pairs, and_planes, and_ranges, in_ranges, keep_words

ONES = 2**64 - 1


@kernel
def _within(low, high, first, number):
    return in_ranges(low, high, first, number)


@kernel
def _and_ranges(bits, at, stride, count, before, low, high, first):
    and_ranges(bits, at, stride, count, before, low, high, first)


@kernel
def _and_planes(bits, valid, base, shift, planes, first, count, out):
    and_planes(bits, valid, base, shift, planes, first, count, out)


@kernel
def _and_pairs(bits, base, shift, planes, first, pairs, out):
    and_pairs(bits, base, shift, planes, first, pairs, out)


@kernel
def _keep_words(line, count, tag, words, tags, n):
    return keep_words(line, count, tag, words, tags, n)


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


@pytest.mark.parametrize("before", [0, 0xF0F0_0000_FFFF_0001])
def test_planes_are_anded_with_the_ranges_of_their_positions_and_nothing_else_is_touched(before: int) -> None:
    rng = np.random.default_rng(2)
    low, high = _random_ranges(rng, 128)
    bits = rng.integers(0, 2**64, 400, np.uint64)
    expected = bits.copy()
    for j in range(33):
        expected[7 + 8 * j] = (expected[7 + 8 * j] | np.uint64(before)) & _within(low, high, 64, np.int8(j))
    _and_ranges(bits, 7, 8, 33, np.uint64(before), low, high, 64)
    assert bits.tolist() == expected.tolist()


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_planes_are_anded_and_every_second_of_pairs_rules_out(shift: int) -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**64, 400, np.uint64) | rng.integers(0, 2**64, 400, np.uint64)
    planes = np.array([9, 3, 0, 7, 7, 12, -2, 20, 5], np.int32)
    out = np.zeros(8, np.uint64)

    def line(place: int, number: int) -> np.ndarray:
        return bits[place + (number << shift) :][:8]

    for count in range(5):
        _and_planes(bits, 5, 40, shift, planes, 2, count, out)
        expected = bits[5:13].copy()
        for number in planes[2 : 2 + count].tolist():
            expected &= line(40, number)
        assert out.tolist() == expected.tolist()
    for pairs in range(1, 5):
        _and_pairs(bits, 40, shift, planes, 1, pairs, out)
        expected = np.full(8, ONES, np.uint64)
        for against, passing in planes[1 : 1 + 2 * pairs].reshape(-1, 2).tolist():
            expected &= line(40, passing) & ~line(40, against)
        assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_words_without_a_bit_are_left_out(count: int) -> None:
    rng = np.random.default_rng(4)
    for zeros in rng.integers(0, 2, (50, 8)):
        line = rng.integers(1, 2**64, 8, np.uint64) * zeros.astype(np.uint64)
        words, tags = np.zeros(20, np.uint64), np.zeros(20, np.uint64)
        kept = [w for w in range(count) if line[w]]
        tag = np.uint64((5 << 32) + 1000)
        assert _keep_words(line, count, tag, words, tags, 3) == 3 + len(kept)
        assert words[3 : 3 + len(kept)].tolist() == [int(line[w]) for w in kept]
        assert tags[3 : 3 + len(kept)].tolist() == [int(tag) + 64 * w for w in kept]


@pytest.mark.parametrize("slices", [0, 1, 4, 24, 32])
def test_a_slice_is_the_whole_part_of_a_quotient(slices: int) -> None:
    for width in [1, 2, 3, 7, 24, 25, 82, 117, 256, 1000, 1023, 1024, 4096]:
        cells = np.array([(5, width, scale_of(slices, np.array([width]))[0])], TREE_CELL)
        ticks = np.arange(width + 20)
        out = np.empty(len(ticks), np.int64)
        _slices(cells, ticks, out)
        assert out.tolist() == (np.clip(ticks - 5, 0, width - 1) * slices // width).tolist()
