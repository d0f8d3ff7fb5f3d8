"""Which strings rows name: those whose absence from the dictionary would change an answer.

The key of a string that is not registered is `UNKNOWN_SYMBOL`. A set of keys names a code if it treats the two differently: of
`city IN ('Oslo')`, which lacks unknown strings, the codes inside; of `city != 'Oslo'`, which holds for them, those left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import COUNT, INTERVAL, MORE, PART, Float64s, Int64s, Rows
from matchwood.schema import UNKNOWN_SYMBOL, Symbols


def named_codes(rows: Rows, dim: int, codes: Int64s) -> NDArray[np.bool_]:
    """Which of these codes, ascending, the rows name in a dimension. O(entries log codes + codes).

    >>> from matchwood.encode.objects import RowsBuilder
    >>> from matchwood.schema import Schema
    >>> builder = RowsBuilder(Schema())
    >>> for id_, text in enumerate(["s IN ('a', 'c')", "s != 'd'", "s IS NOT NULL OR t = 'b'"]):
    ...     builder.add_text(id_, 0.0, text)
    >>> named_codes(builder.build(), 0, np.arange(4)).tolist()
    [True, True, True, False]
    """
    change = np.zeros(len(codes) + 1, np.int64)
    begin, end = (np.searchsorted(codes, ends) for ends in _named_ranges(rows, dim))
    np.add.at(change, begin, 1)
    np.add.at(change, end, -1)
    return np.cumsum(change[:-1]) > 0


def names_forgotten(rows: Rows, dim: int, symbols: Symbols) -> bool:
    """Do the rows name a code of these symbols whose string has been forgotten? O(entries + codes that they name).

    >>> from matchwood.encode.objects import RowsBuilder
    >>> from matchwood.schema import Schema
    >>> schema = Schema()
    >>> builder = RowsBuilder(schema)
    >>> builder.add_text(0, 0.0, "s IN ('a', 'b')")
    >>> schema.find("s").symbols.forget([1])
    >>> names_forgotten(builder.build(), 0, schema.find("s").symbols)
    True
    """
    begin, end = (np.clip(ends, 0, len(symbols)).astype(np.int64).tolist() for ends in _named_ranges(rows, dim))
    ranges = set(zip(begin, end, strict=True))
    return any(symbols.text(code) is None for first, last in ranges for code in range(first, last))


def _named_ranges(rows: Rows, dim: int) -> tuple[Float64s, Float64s]:
    """The codes that the rows name in a dimension, as ranges: begin <= code < end."""
    is_interval = (rows.kinds == INTERVAL) | (rows.kinds == MORE) | (rows.kinds == PART)
    at = np.flatnonzero((rows.dims == dim) & is_interval)
    lo, hi = rows.lo[at], rows.hi[at]
    is_first = (rows.kinds[at] == INTERVAL) | ((rows.kinds[at] == PART) & (rows.kinds[at - 1] == COUNT))
    holds_unknown = (lo <= UNKNOWN_SYMBOL) & (hi >= UNKNOWN_SYMBOL)
    holds_unknown = holds_unknown[is_first][np.cumsum(is_first) - 1]  # of the whole set; its first interval decides
    gap = np.flatnonzero(holds_unknown & ~is_first)
    begin = np.concatenate([np.ceil(lo[~holds_unknown]), np.floor(hi[gap - 1]) + 1])
    end = np.concatenate([np.floor(hi[~holds_unknown]) + 1, np.ceil(lo[gap])])
    return begin, np.maximum(begin, end)
