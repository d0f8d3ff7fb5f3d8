"""The order in which rows are laid out: by bucket, inside a bucket by place, so that a node reaches few slices of its layers."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.structures.mo_tree.kernels.layout import TreeCount, axis_number, bucket_number, prefetch_row, tick_of


@helper
def spread(bits):
    """The lowest 16 bits, a zero after each."""
    x = np.uint64(bits) & np.uint64(0xFFFF)
    x = (x | (x << np.uint64(8))) & np.uint64(0x00FF00FF)
    x = (x | (x << np.uint64(4))) & np.uint64(0x0F0F0F0F)
    x = (x | (x << np.uint64(2))) & np.uint64(0x33333333)
    return (x | (x << np.uint64(1))) & np.uint64(0x55555555)


@kernel
def order_keys(tree, store, slots, keys):
    """keys[i] = the bucket of the row at slots[i] in the upper half, below it where its intervals on the first two layers begin,
    in Z-order. O(entries)."""
    for i in range(slots.size):
        prefetch_row(store, slots, i)
        slot = np.int64(slots[i])
        row = store.rows[slot]
        place = np.uint64(0)
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            entry = store.entries[at]
            a = axis_number(tree, entry.dim)
            if a < min(tree.counts[TreeCount.LAYERS], 2) and not entry.kind & (ABSENT | NARROWS):
                place |= spread(tick_of(tree, tree.axes[a], entry.lo)) << np.uint64(a)
        keys[i] = (np.uint64(bucket_number(tree, store, slot)) << np.uint64(32)) | place
