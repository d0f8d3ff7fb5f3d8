"""Rank order for whole batches: each event's hits sorted by score descending, then id ascending."""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import kernel
from matchwood.kernels.results import Out, best_first, sift_down


@kernel
def _order(offsets, out):
    """Heap sort of each run in place. O(n log n)."""
    for e in range(offsets.size - 1):
        begin, size = offsets[e], offsets[e + 1] - offsets[e]
        for at in range(size // 2 - 1, -1, -1):
            sift_down(out, begin, size, at, out.scores[begin + at], out.ids[begin + at])
        best_first(out, begin, size)


def order_hits(offsets: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """Sort the hits of every event in place."""
    _order(offsets, Out(ids, scores))
