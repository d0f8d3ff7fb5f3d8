"""The machine operations: every bit, every lane, NaN and infinities."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from matchwood.jit.decorators import kernel
from matchwood.jit.intrinsics import (
    box_holds,
    boxes_hit,
    claim,
    mark_word,
    prefetch,
    sift_spread,
    trailing_zeros,
    turn_word,
)
from matchwood.store.kernels.candidates import KEY
from matchwood.store.kernels.rows import ENTRY
from matchwood.store.workers import run

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
def _sifted(words, found, first, last, now, asked, least, bounds, ids, n):
    return sift_spread(words, found, first, last, 2, 5, now, asked, least, bounds, ids, n)


@kernel
def _turn_and_mark(words, records, first, step, times):
    """Turn bit b of every word, and mark it in every record, for b = first, first + step, ...; so many times over."""
    for _ in range(times):
        for i in range(words.size):
            for bit in range(first, 64, step):
                turn_word(words, i, np.uint64(1) << np.uint64(bit))
                mark_word(records, i, bit & 1, np.uint64(1) << np.uint64(bit))


@kernel
def _claim_all(cells, mine, taken):
    """Claim every cell; taken[i] = was it free?"""
    for i in range(cells.size):
        taken[i] = claim(cells, i, np.uint32(0), np.uint32(mine))


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


SPREAD = 4 << 61
MOST = 2**32 - 1


def _events(values: list[list[int]], ids: list[int]) -> np.ndarray:
    """Events of 24 halves each, one behind the other: all bits of the mask, until 10."""
    words = np.zeros((len(values), 16), np.uint64)
    words[:, 0], words[:, 2], words[:, 3] = ids, 2**24 - 1, SPREAD
    words.view(np.float64)[:, 1] = 10.0
    words.view(np.uint32)[:, 8:] = values
    return words.reshape(-1)


def _bounds(*intervals: tuple[int, int], inner: tuple[int, int]) -> np.ndarray:
    """24 intervals, the last of those given again and again, and as many inner ones."""
    outer = [*intervals, *[intervals[-1]] * (24 - len(intervals))]
    return np.array([*zip(*outer, strict=True), *zip(*[inner] * 24, strict=True)], np.uint32).reshape(-1)


def _sift(words: np.ndarray, bounds: np.ndarray, **how: float) -> tuple[int, list[int]]:
    """How far the events, all of them, are sifted, and which match."""
    found, ids = np.arange(0, words.size + 5 * 16, 16, dtype=np.uint32), np.zeros(words.size // 16 + 1, np.int64)
    question = float(how.get("now", 0.0)), np.uint64(how.get("asked", 1)), int(how.get("least", 2**62))
    at, n = _sifted(words, found, 0, words.size // 16, *question, bounds, ids, 0)
    return int(at), ids[:n].tolist()


@pytest.mark.parametrize("lane", range(24))
def test_each_of_24_values_is_compared_with_its_own_interval(lane: int) -> None:
    """One value and its interval are chosen, those beside them are inside of theirs."""
    for value in (0, 1, 7, 2**31, MOST):
        for begin, length in ((0, 0), (0, MOST), (7, 0), (5, 2), (5, 3), (7, 9), (2**31, MOST - 2**31), (MOST, 0)):
            values, bounds = [3] * 24, _bounds((2, 5), inner=(0, MOST))
            values[lane], bounds[lane], bounds[24 + lane] = value, begin, length
            matches = [9] if begin <= value <= begin + length else []
            assert _sift(_events([values], [9]), bounds) == (1, matches), (value, begin, length)


@pytest.mark.parametrize("lane", range(24))
def test_a_match_outside_of_one_inner_interval_is_left_to_others(lane: int) -> None:
    events, bounds = _events([[3] * 24] * 3, [7, 8, 9]), _bounds((2, 5), inner=(3, 0))
    events.view(np.uint32)[32 + 8 + lane] = 4
    assert _sift(events, bounds) == (1, [7])
    events.view(np.uint32)[32 + 8 + lane] = 8  # no match, so nothing is open
    assert _sift(events, bounds) == (3, [7, 9])


def test_what_is_not_spread_or_has_expired_is_left_to_others() -> None:
    events, bounds = _events([[3] * 24] * 4, [6, 7, 8, 9]), _bounds((2, 5), inner=(0, MOST))
    assert _sift(events, bounds) == (4, [6, 7, 8, 9])
    assert _sift(events, bounds, now=10.0) == (0, [])
    events.view(np.float64)[2 * 16 + 1] = np.nan
    assert _sift(events, bounds) == (2, [6, 7])
    for flags in (0, 1, 2, 3, 5, 6, 7):
        events[16 + 3] = np.uint64(flags << 61)
        assert _sift(events, bounds) == (1, [6]), flags


def test_a_match_has_all_that_is_asked_for_and_an_id_that_is_not_too_large() -> None:
    events, bounds = _events([[3] * 24] * 4, [6, 9, 8, 7]), _bounds((2, 5), inner=(0, MOST))
    events[2::16] = [0b0110, 0b1110, 0b0111, 0b1111]
    assert _sift(events, bounds, asked=0b0110) == (4, [6, 9, 8, 7])
    assert _sift(events, bounds, asked=0b1010) == (4, [9, 7])
    assert _sift(events, bounds, asked=0b0110, least=7) == (4, [6, 7])
    assert _sift(events, bounds, asked=0, least=5) == (4, [])


def test_threads_turn_and_mark_bits_of_the_same_words_and_lose_none() -> None:
    words, times = np.zeros(5, np.uint64), 2_001
    records = np.zeros(5, np.dtype([("even", "u8"), ("odd", "u8"), ("other", "f8")]))
    _turn_and_mark(words[:0], records, 0, 1, 0)
    run([partial(_turn_and_mark, words, records, first, 3, times) for first in range(3)], 3)
    assert (words == np.uint64(2**64 - 1)).all()
    assert (records["even"] == 0x5555555555555555).all()
    assert (records["odd"] == 0xAAAAAAAAAAAAAAAA).all()
    assert (records["other"] == 0.0).all()


def test_of_threads_that_claim_a_cell_one_gets_it() -> None:
    cells, taken = np.zeros(100_000, np.uint32), np.zeros((3, 100_000), np.bool_)
    _claim_all(cells[:0], 1, taken[0])
    run([partial(_claim_all, cells, thread + 1, taken[thread]) for thread in range(3)], 3)
    assert (taken.sum(axis=0) == 1).all()
    assert (cells == taken.argmax(axis=0) + 1).all()
    _claim_all(cells, 9, taken[0])
    assert not taken[0].any()
