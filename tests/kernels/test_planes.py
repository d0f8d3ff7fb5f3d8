"""Bit planes: ranges of positions, planes that pass or rule out, words with bits, slices without a division."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.jit.decorators import kernel
from matchwood.structures.mo_tree.kernels.layout import TREE_CELL, scale_of, slice_in
from matchwood.structures.mo_tree.kernels.planes import (
    and_changes,
    and_pairs,
    and_planes,
    count_at_most,
    count_exceeded,
    count_few_at_most,
    keep_words,
)

ONES = 2**64 - 1


@kernel
def _and_changes(bits, plane, words, planes, changes, row, before):
    and_changes(bits, plane, words, planes, changes, row, before)


@kernel
def _counts(numbers, first, key):
    return count_at_most(numbers, first, key), count_few_at_most(numbers, first, key)


@kernel
def _exceeded(numbers, first, number):
    return count_exceeded(numbers, first, number)


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


@pytest.mark.parametrize("words", [1, 2, 4, 8])
@pytest.mark.parametrize("stale", [0, 0xF0F0_0000_FFFF_0001])
def test_planes_keep_those_that_are_on_and_what_was_noted_is_forgotten(words: int, stale: int) -> None:
    rng = np.random.default_rng(2)
    bits, planes = rng.integers(0, 2**64, 400, np.uint64), 33
    changes, before = np.zeros(400, np.uint64), np.full(8, stale, np.uint64)
    ranges = {}
    for position in rng.permutation(64 * words)[: 20 * words].tolist():
        first, last = sorted(rng.integers(0, planes + 1, 2).tolist())
        ranges[position] = range(first, last)  # may be empty, or end behind the last plane
        word, bit = position >> 6, np.uint64(1 << (position & 63))
        for change in (0, first, last):
            changes[5 + change * words + word] ^= bit
    expected = bits.copy()
    for plane in range(planes):
        for word in range(words):
            off = sum(1 << p for p in range(64) if 64 * word + p in ranges and plane not in ranges[64 * word + p])
            at = 7 + plane * words + word
            expected[at] = (expected[at] | np.uint64(stale)) & np.uint64(ONES ^ off)
    _and_changes(bits, 7, words, planes, changes, 5, before)
    assert bits.tolist() == expected.tolist()
    assert not changes.any()


@pytest.mark.parametrize("key", [-np.inf, -1.0, 0.0, 0.5, 5.0, 31.0, np.inf, np.nan])
def test_numbers_at_or_below_a_key_are_counted_and_nan_never_is(key: float) -> None:
    numbers = np.append(np.arange(40.0), np.full(40, np.nan))
    for first in (0, 3, 20, 36, 40):
        expected = [int((numbers[first : first + size] <= key).sum()) for size in (32, 4)]
        assert list(_counts(numbers, first, key)) == expected


def test_small_numbers_below_another_are_counted() -> None:
    numbers = np.array([-5, 3, 3, 9, 32767, 32767, 2, 0], np.int16)
    for number in (-6, -5, 0, 3, 4, 2046):
        for first in range(5):
            assert _exceeded(numbers, first, np.int16(number)) == int((numbers[first : first + 4] < number).sum())


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
