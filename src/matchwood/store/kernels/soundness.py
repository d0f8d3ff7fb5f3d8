"""Are rows valid at a glance? What most rows are is seen in one pass; everything else is left to `encode.checks`, which names the
fault.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode import arrays
from matchwood.jit.decorators import helper, kernel

_INTERVAL, _MORE, _COUNT, _PART = arrays.INTERVAL, arrays.MORE, arrays.COUNT, arrays.PART


@kernel
def are_plain(rows, dimensions):
    """Are all rows valid, of intervals and counts only, with their dimensions ascending? O(entries)."""
    offsets, size = rows.offsets, rows.dims.size
    if offsets.size != rows.ids.size + 1 or rows.priority.size != rows.ids.size:
        return False
    if rows.kinds.size != size or rows.lo.size != size or rows.hi.size != size or rows.weight.size != size:
        return False
    if offsets[0] != 0 or offsets[offsets.size - 1] != size:
        return False
    for r in range(rows.ids.size):
        if offsets[r] > offsets[r + 1] or not np.isfinite(rows.priority[r]):
            return False
    for r in range(rows.ids.size):
        for e in range(offsets[r], offsets[r + 1]):
            if not is_plain(rows, e, e == offsets[r], dimensions):
                return False
    return True


@helper
def is_plain(rows, e, first, dimensions):
    """Is entry e valid after the one before it, which is? `first`: it is the first of its row."""
    kind, dim, lo, hi = rows.kinds[e], rows.dims[e], rows.lo[e], rows.hi[e]
    if np.int64(dim) >= dimensions or not lo <= hi:
        return False
    if kind == _INTERVAL:
        weight = rows.weight[e]
        return (first or rows.dims[e - 1] < dim) and weight >= 0.0 and weight < np.inf
    if first or rows.dims[e - 1] != dim:
        return False
    before, follows = rows.kinds[e - 1], rows.hi[e - 1] < lo
    if kind == _MORE:
        return (before == _INTERVAL or before == _MORE) and follows
    if kind == _COUNT:
        has_part = e + 1 < rows.dims.size and rows.kinds[e + 1] == _PART  # which a later row cannot begin with
        return before != _COUNT and has_part and lo >= 0.0 and lo == np.floor(lo) and lo < np.inf
    return kind == _PART and (before == _COUNT or (before == _PART and follows))
