"""Pools that grow: kernels never allocate, so their owners make room."""

from __future__ import annotations

import numpy as np


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """The array with room for `size` elements, the new ones zero; itself if it is long enough. O(size)."""
    if size <= len(array):
        return array
    bigger = np.zeros((size, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger
