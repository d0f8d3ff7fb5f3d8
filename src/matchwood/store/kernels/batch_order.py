"""The answers of a batch, put back into the order of the batch."""

from __future__ import annotations

from matchwood.jit.decorators import kernel


@kernel
def put_back(order, before, ids, scores, after, to_ids, to_scores):
    """Answer i, at before[i]:before[i + 1], goes to after[order[i]], where there is room for it. O(hits)."""
    for i in range(order.size):
        begin, size = before[i], before[i + 1] - before[i]
        to = after[order[i]]
        for j in range(size):
            to_ids[to + j] = ids[begin + j]
        for j in range(size):
            to_scores[to + j] = scores[begin + j]
