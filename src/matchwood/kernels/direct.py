"""Calling a kernel without Numba's dispatch, where a call is a single small change.

Numba looks at the type of every argument of every call, to find the version compiled for them: 3 to 4 us for the twenty arrays of
an index, several times what one insert takes. A kernel whose arguments never change their types has one version, and that can be
called at its entry point: 0.5 us.

The price is that nobody looks at the types any more. Arrays that come from outside are looked at by `exact` before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Column = tuple[np.dtype[Any], tuple[int, ...]]
"""A type, and the strides of a contiguous array of it."""
INT64, FLOAT64, UINT16, UINT8 = (
    (np.dtype(kind), (np.dtype(kind).itemsize,)) for kind in ("int64", "float64", "uint16", "uint8")
)
ROWS = (INT64, FLOAT64, INT64, UINT16, UINT8, FLOAT64, FLOAT64, FLOAT64)
"""The columns of `Rows`."""
EVENTS = (INT64, UINT16, FLOAT64, FLOAT64, FLOAT64)
"""Those of `Events`."""


class Direct:
    """A kernel of one version, called at its entry point once that is known."""

    __slots__ = ("_entry", "_kernel")

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._entry: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        entry = self._entry
        return self._dispatched(arguments) if entry is None else entry(*arguments)

    def _dispatched(self, arguments: tuple[Any, ...]) -> Any:
        """Compile or load, and remember the version; of several none is taken, and a plain function (no compiler) has none."""
        result = self._kernel(*arguments)
        versions = getattr(self._kernel, "overloads", {})
        if len(versions) == 1:
            self._entry = next(iter(versions.values())).entry_point
        return result


def exact(arrays: Iterable[np.ndarray], columns: Iterable[Column]) -> bool:
    """Are these contiguous arrays of these very types, so that a kernel may be called directly? 1 us for eight columns."""
    for array, (type_, strides) in zip(arrays, columns, strict=False):
        if array.strides != strides or (array.dtype is not type_ and array.dtype != type_):
            return False
    return True
