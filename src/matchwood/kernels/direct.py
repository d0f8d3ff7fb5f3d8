"""Calling a kernel without Numba's dispatch, where a call is a single small change.

Numba looks at the type of every argument of every call, to find the version compiled for them: 3 to 4 us for the twenty arrays of
an index, several times what one insert takes. A kernel whose arguments never change their types has one version, and that can be
called at its entry point: 0.5 us.

The price is that nobody looks at the types any more. Arrays that come from outside are looked at by `exact` before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np
from numba._dispatcher import compute_fingerprint


class Columns:
    """Contiguous arrays of these types, one after the other."""

    __slots__ = ("mark", "types")

    def __init__(self, *types: str) -> None:
        self.types = [np.dtype(type_) for type_ in types]
        self.mark: bytes = compute_fingerprint(tuple(np.zeros(1, type_) for type_ in types))
        """What Numba knows arguments by: dimensions, layout and type of each array, but not the order of its bytes."""


IDS = Columns("int64")
ROWS = Columns("int64", "float64", "int64", "uint16", "uint8", "float64", "float64", "float64")
"""The columns of `Rows`."""
KEPT = Columns("int64", "uint16", "float64", "float64", "float64", "int64", "float64")
"""Those of `Events`, then their ids and the end of their lives."""
_type_of = attrgetter("dtype")


class Direct:
    """A kernel of one version; `call` is its entry point once that is known."""

    __slots__ = ("_kernel", "call")

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.call: Callable[..., Any] = self._first

    def _first(self, *arguments: Any) -> Any:
        """Compile or load, and remember the version; of several none is taken, and a plain function (no compiler) has none."""
        result = self._kernel(*arguments)
        versions = getattr(self._kernel, "overloads", {})
        self.call = next(iter(versions.values())).entry_point if len(versions) == 1 else self._kernel
        return result


def exact(values: Iterable[Any], columns: Columns) -> bool:
    """Are these contiguous arrays of these very types, so that a kernel may be called directly? 0.8 us for eight arrays.

    By Numba's mark and the types, both without a step of Python an array: looking at each took 1.4 us.
    """
    values = tuple(values)
    try:
        alike = compute_fingerprint(values) == columns.mark and [*map(_type_of, values)] == columns.types
    except (NotImplementedError, ValueError):  # nothing that Numba knows
        return False
    return alike or (len(values) == len(columns.types) and all(map(_is_exact, values, columns.types)))


def _is_exact(value: Any, type_: np.dtype[Any]) -> bool:
    """As the mark tells it, but that the array may be read-only."""
    return isinstance(value, np.ndarray) and value.strides == (type_.itemsize,) and value.dtype == type_
