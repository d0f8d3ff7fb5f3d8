"""Pools that grow: kernels never allocate, so their owners make room.

A large pool begins on a cache line. Memory as NumPy gets it begins 16 bytes behind one, so that records of 32 bytes
lay across two lines every other time.
"""

from __future__ import annotations

import numpy as np

CACHE_LINE = 64


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """The array with room for `size` elements, the new ones zero; itself if it is long enough. O(size)."""
    if size <= len(array):
        return array
    bigger = zeros(size, array.dtype) if array.ndim == 1 else np.zeros((size, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger


def zeros(size: int, dtype: np.dtype) -> np.ndarray:
    """Zeros from the beginning of a cache line on. O(size), or O(1) where the system has zero pages."""
    memory = np.zeros(size * dtype.itemsize + CACHE_LINE, np.uint8)
    skip = -memory.ctypes.data % CACHE_LINE
    return memory[skip : skip + size * dtype.itemsize].view(dtype)
