"""Kernels that serve both indexes: written once, and compiled for each with the functions of its own."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from matchwood.covering.kernels.forest import NOWHERE, PENDING, CoverForest
from matchwood.covering.kernels.search import CoverHits, CoverQuery, covers_of
from matchwood.covering.kernels.update import delete_row, insert_row
from matchwood.covering.kernels.zcurve import CoverCurve, covers_on_curve, delete_point, insert_point
from matchwood.jit.decorators import helper, kernel


def find_covers(index: Any, store: Any, query: Any, hits: Any, scratch: Any) -> Any:
    """Write ids of covers to hits; return the end."""


def enter_row(index: Any, store: Any, slot: Any, scratch: Any) -> Any:
    """Put a row into the index; False, with nothing changed, if there is no room."""


def leave_row(index: Any, store: Any, slot: Any, scratch: Any) -> Any:
    """Take a row out of the index."""


def is_pending(index: Any) -> Any:
    """Has the index left a rebuild to its owner?"""


@helper
def has_pending_rebuild(forest):
    return forest.counts[PENDING] != NOWHERE


@helper
def is_never_pending(curve):
    return False


FUNCTIONS: dict[type, dict[str, Any]] = {
    CoverForest: {
        "find_covers": covers_of,
        "enter_row": insert_row,
        "leave_row": delete_row,
        "is_pending": has_pending_rebuild,
    },
    CoverCurve: {
        "find_covers": covers_on_curve,
        "enter_row": insert_point,
        "leave_row": delete_point,
        "is_pending": is_never_pending,
    },
}
"""By the state of an index: what it has in place of the functions above."""


def bound(decorator: Callable[..., Any], function: Callable[..., Any], functions: dict[str, Any]) -> Any:
    """Compile a function with these functions in place of those that it names."""
    assert isinstance(function, FunctionType)
    return decorator(FunctionType(function.__code__, {**function.__globals__, **functions}, function.__name__))


def _cover_many(index, store, queries, first, out, ends, scratch):
    """Write up to k covers of each query from `first` on to `out`, up to ends[i]; return the first query without room."""
    n = np.int64(0)
    for i in range(first, queries.heads.size):
        end = n + min(queries.k, np.int64(out.size))
        if end > out.size:
            return i
        query = CoverQuery(queries.store, np.int64(queries.heads[i]), queries.before[i])
        n = find_covers(index, store, query, CoverHits(out, n, end), scratch)
        ends[i] = n
    return queries.heads.size


cover_many = {state: bound(kernel, _cover_many, functions) for state, functions in FUNCTIONS.items()}
"""By the state of an index."""
