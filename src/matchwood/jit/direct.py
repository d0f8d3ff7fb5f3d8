"""Calling a kernel where a call is a single small change, and what Numba does for it would take longer.

Numba looks at the type of every argument of every call, to find the version compiled for them: 3 to 4 us for the twenty arrays of
an index, since they come in tuples, several times what one insert takes. Two ways round that:

    Direct    a kernel whose arguments never change their types has one version, called at its entry point: 0.5 us. Nobody looks
              at the types any more; arrays that come from outside are looked at by `exact` before, 1 us for eight.
    Checked   states by address (`addresses`), arrays from outside one by one: of those Numba knows the type in 20 ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np
from numba import types
from numba._dispatcher import compute_fingerprint
from numba.np.numpy_support import from_dtype


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


WORDS = types.Array(types.int64, 1, "C")
"""A state by address."""
SLOTS = types.Array(types.uint32, 1, "C")


class Checked:
    """A kernel for arrays from outside: those of other types than it was compiled for never get there.

    `parameters`: Numba's types of our own arrays, dtypes of those from outside (which are only read), `int`.
    """

    __slots__ = ("_kernel", "_signature", "_version")

    def __init__(self, kernel: Any, *parameters: Any) -> None:
        self._kernel = kernel
        self._signature = tuple(map(_parameter, parameters))
        self._version: Callable[..., Any] | None = None

    def call(self, *arguments: Any) -> Any:
        """What the kernel returns; None, and nothing is done, if an argument has another type."""
        version = self._version or self._compiled()
        try:
            return version(*arguments)
        except TypeError:  # Numba's answer where no version fits; kernels raise nothing themselves
            return None

    def _compiled(self) -> Callable[..., Any]:
        """Compile or load the one version; a plain function (no compiler) is taken as it is."""
        if hasattr(self._kernel, "disable_compile"):
            self._kernel.compile(self._signature)
            self._kernel.disable_compile()
        self._version = self._kernel
        return self._kernel


def _parameter(parameter: Any) -> Any:
    if parameter is int:
        return types.int64
    if isinstance(parameter, np.dtype):
        return types.Array(from_dtype(parameter), 1, "C", readonly=True)
    return parameter


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
