"""Keys in halves: the order of keys, there and back."""

from __future__ import annotations

import itertools
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matchwood.jit.decorators import kernel
from matchwood.structures.live.kernels.halves import key_of, ordered

KEYS = st.floats(allow_nan=False) | st.integers(-(2**20), 2**20).map(float)
ODD = [0.0, -0.0, 5e-324, -5e-324, 1.0, np.nextafter(1.0, 2.0), 2.0**-20 + 1.0, -1.0, 1e308, -1e308, np.inf, -np.inf]


@kernel
def _ordered(key):
    return ordered(key)


@kernel
def _key_of(number):
    return key_of(number)


def expected(key: float) -> int:
    bits = struct.unpack("<Q", struct.pack("<d", key + 0.0))[0]
    return bits ^ (2**64 - 1 if bits >> 63 else 1 << 63)


def check(key: float, other: float) -> None:
    number, bound = int(_ordered(key)), int(_ordered(other))
    assert number == expected(key)
    assert float(_key_of(np.uint64(number))) == key
    assert (number < bound) == (key < other)
    assert (number == bound) == (key == other)


def test_odd_keys_keep_their_order() -> None:
    for key, other in itertools.product(ODD, ODD):
        check(key, other)


@given(KEYS, KEYS)
def test_any_keys_keep_their_order(key: float, other: float) -> None:
    check(key, other)


@given(KEYS, st.integers(-3, 3))
def test_neighbours_that_share_an_upper_half_keep_their_order(key: float, steps: int) -> None:
    other = key
    for _ in range(abs(steps)):
        other = float(np.nextafter(other, np.copysign(np.inf, steps)))
    check(key, other)
