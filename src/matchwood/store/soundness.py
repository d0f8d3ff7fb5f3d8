"""Checks rows that users pass: quickly, where they are what most rows are."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Rows
from matchwood.encode.checks import check_rows
from matchwood.store.kernels.soundness import are_plain

_DTYPES = tuple(map(np.dtype, ("i8", "f8", "i8", "u2", "u1", "f8", "f8", "f8")))


def check_sound(rows: Rows, dimensions: int) -> None:
    """As `check_rows`, which costs some forty calls of NumPy and is called only for rows that are not plain. O(entries)."""
    columns: tuple[np.ndarray, ...] = tuple(rows)
    has_types = all(
        column.dtype == dtype and column.ndim == 1 and column.flags.c_contiguous
        for column, dtype in zip(columns, _DTYPES, strict=True)
    )
    if rows.until is not None or not has_types or not are_plain(rows, dimensions):
        check_rows(rows, dimensions)
