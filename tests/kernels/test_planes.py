"""Bit planes: positions that are written, planes that pass or exclude, words with bits, slices without a division."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.jit.decorators import kernel
from matchwood.structures.mo_tree.kernels.layout import TREE_CELL, scale_of, slice_in
from matchwood.structures.mo_tree.kernels.planes import (
    and_planes,
    exclude_planes,
    keep_words,
    write_planes,
)


@kernel
def _write_planes(bits, plane, words, planes, changes, row, written):
    write_planes(bits, plane, words, planes, changes, row, written)


@kernel
def _and_planes(bits, valid, base, shift, planes, first, count, out):
    and_planes(bits, valid, base, shift, planes, first, count, out)


@kernel
def _exclude_planes(bits, base, shift, planes, first, count, line):
    exclude_planes(bits, base, shift, planes, first, count, line)


@kernel
def _keep_words(line, count, tag, words, tags, n):
    return keep_words(line, count, tag, words, tags, n)


@kernel
def _slices(cells, ticks, out):
    for i in range(ticks.size):
        out[i] = slice_in(cells[0], ticks[i])


@pytest.mark.parametrize("words", [1, 2, 4, 8])
def test_planes_are_written_where_positions_are_noted_and_nowhere_else(words: int) -> None:
    rng = np.random.default_rng(2)
    bits, planes = rng.integers(0, 2**64, 400, np.uint64), 33
    changes, written = np.zeros(400, np.uint64), np.zeros(8, np.uint64)
    on = {}
    for position in rng.permutation(64 * words)[: 20 * words].tolist():
        on[position] = rng.random(planes) < 0.5
        word, bit = position >> 6, np.uint64(1 << (position & 63))
        written[word] |= bit
        for plane in np.flatnonzero(on[position] != np.append(True, on[position][:-1])).tolist():
            changes[5 + plane * words + word] ^= bit
    expected = bits.copy()
    for position, planes_on in on.items():
        for plane in range(planes):
            at, bit = 7 + plane * words + (position >> 6), np.uint64(1 << (position & 63))
            expected[at] = expected[at] | bit if planes_on[plane] else expected[at] & ~bit
    _write_planes(bits, 7, words, planes, changes, 5, written)
    assert bits.tolist() == expected.tolist()
    assert not changes.any()


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_planes_are_anded_and_excluded(shift: int) -> None:
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
    for count in range(5):
        out[:] = bits[60:68]
        _exclude_planes(bits, 40, shift, planes, 1, count, out)
        expected = bits[60:68].copy()
        for number in planes[1 : 1 + count].tolist():
            expected &= ~line(40, number)
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
