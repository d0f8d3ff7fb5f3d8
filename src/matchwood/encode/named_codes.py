"""Which strings rows name: those whose absence from the dictionary would change an answer.

The key of a string that is not registered is `UNKNOWN_SYMBOL`. A set of keys names a code if it treats the two differently: of
`city IN ('Oslo')`, which lacks unknown strings, the codes inside; of `city != 'Oslo'`, which holds for them, those left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import COUNT, INTERVAL, MORE, PART, Rows
from matchwood.schema import UNKNOWN_SYMBOL


def named_codes(rows: Rows, dim: int, count: int) -> NDArray[np.bool_]:
    """Which of the codes 0 ... count - 1 the rows name in a dimension. O(entries + count).

    >>> from matchwood.encode.objects import RowsBuilder
    >>> from matchwood.schema import Schema
    >>> builder = RowsBuilder(Schema())
    >>> for id_, text in enumerate(["s IN ('a', 'c')", "s != 'd'", "s IS NOT NULL OR t = 'b'"]):
    ...     builder.add_text(id_, 0.0, text)
    >>> named_codes(builder.build(), 0, 4).tolist()
    [True, True, True, False]
    """
    is_interval = (rows.kinds == INTERVAL) | (rows.kinds == MORE) | (rows.kinds == PART)
    at = np.flatnonzero((rows.dims == dim) & is_interval)
    lo, hi = rows.lo[at], rows.hi[at]
    is_first = (rows.kinds[at] == INTERVAL) | ((rows.kinds[at] == PART) & (rows.kinds[at - 1] == COUNT))
    holds_unknown = (lo <= UNKNOWN_SYMBOL) & (hi >= UNKNOWN_SYMBOL)
    holds_unknown = holds_unknown[is_first][np.cumsum(is_first) - 1]  # of the whole set; its first interval decides
    gap = np.flatnonzero(holds_unknown & ~is_first)
    begin = np.concatenate([np.ceil(lo[~holds_unknown]), np.floor(hi[gap - 1]) + 1])
    end = np.concatenate([np.floor(hi[~holds_unknown]) + 1, np.ceil(lo[gap])])
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, np.clip(begin, 0, count).astype(np.int64), 1)
    np.add.at(change, np.clip(np.maximum(begin, end), 0, count).astype(np.int64), -1)
    return np.cumsum(change[:-1]) > 0
