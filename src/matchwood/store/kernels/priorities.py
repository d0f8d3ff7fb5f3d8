"""Priorities of rows that are in the store, changed in place."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.store.kernels.rows import raise_ceiling, write_priority


@kernel
def set_priorities(store, slots, priorities):
    """Give the row at slots[i] the priority priorities[i]. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        weights = 0.0
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            weights += store.entries[at].weight  # a circle has none there
        write_priority(row, priorities[i], weights)
        raise_ceiling(store, np.int64(slots[i]))
