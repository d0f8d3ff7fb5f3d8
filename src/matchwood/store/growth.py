"""Pools that grow: kernels never allocate, so their owners make room.

A pool begins on a pair of cache lines, which the processor fetches together, so that no record of 32 or 64 bytes lies across two
lines. Memory as NumPy allocates it begins 16 bytes after one.
"""

from __future__ import annotations

import numpy as np

PAIR = 128  # bytes


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """The array with room for `size` elements, the new ones zero; itself if it is long enough. O(size)."""
    if size <= len(array):
        return array
    bigger = zeros(size, array.dtype) if array.ndim == 1 else np.zeros((size, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger


def zeros(size: int, dtype: np.dtype) -> np.ndarray:
    """Zeros from the beginning of a pair of cache lines on. O(size), or O(1) where the system has zero pages."""
    memory = np.zeros(size * dtype.itemsize + PAIR, np.uint8)
    skip = -memory.ctypes.data % PAIR
    return memory[skip : skip + size * dtype.itemsize].view(dtype)
