"""Scoring functions: how a held predicate's weight enters the score, as Python for the oracle and compiled for the indexes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product

import numba

from matchwood.errors import QueryError
from matchwood.lang.evaluate import Combine, add

_SIGNATURE = "float64(float64, float64)"
_SCORES = (-1e6, -2.5, 0.0, 0.1, 0.25, 1.0, 3.0, 1e6)  # a priority, where a score begins, may be negative
_WEIGHTS = (0.0, 0.1, 0.25, 1.0, 3.0, 1e6)


FUNCTION = "function"
"""The name of a scoring by a function of the user's, which cannot be stored."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """`combine` for the oracle; `compiled` for the indexes, None for the plain sum."""

    combine: Combine
    compiled: object = None
    name: str = FUNCTION


SUM = Scoring(add, name="sum")


def scoring(function: str | Combine | None) -> Scoring:
    """The scoring of that name (`NAMES`), or by a function (score, weight) -> score.

    The function must be plain arithmetic on two floats (Numba compiles it), monotone in both arguments, and must never lower a
    score, a negative one included: indexes prune by it. This is tested on a few values.

    >>> scoring("max").combine(0.5, 2.0)
    2.0
    """
    if function is None:
        return SUM
    if isinstance(function, str) and function in NAMES:
        return _named(function)
    if isinstance(function, str) or not callable(function):
        known = ", ".join(map(repr, NAMES))
        raise QueryError(f"expected scoring {known} or a function (score, weight) -> score, got {function!r}")
    return _checked(function, FUNCTION)


@cache
def _named(name: str) -> Scoring:
    return SUM if name == SUM.name else _checked(_NAMED[name], name)


def _checked(function: Combine, name: str) -> Scoring:
    try:
        _check_monotone(function)
        compiled = numba.cfunc(_SIGNATURE)(function)
    except QueryError:
        raise
    except Exception as error:  # a user's function, and Numba compiling it, may raise anything
        raise QueryError(
            f"the scoring function cannot be used; write plain arithmetic on two floats: {type(error).__name__}: {error}"
        ) from error
    for score, weight in product(_SCORES, _WEIGHTS):
        if compiled.ctypes(score, weight) != function(score, weight):
            raise QueryError(
                f"the scoring function gives another f({score}, {weight}) when compiled; use plain arithmetic"
            )
    return Scoring(function, compiled, name)


def _larger(score: float, weight: float) -> float:
    return max(score, weight)


def _priority(score: float, weight: float) -> float:
    return score


_NAMED: dict[str, Combine] = {"max": _larger, "priority": _priority}
NAMES = (SUM.name, *_NAMED)
"""sum: priority and weights; max: the largest of them; priority: the priority alone, weights do not count."""


def _check_monotone(function: Callable[[float, float], float]) -> None:
    for score in _SCORES:
        previous = score
        for weight in _WEIGHTS:
            value = function(score, weight)
            if not value >= previous:
                raise QueryError(
                    f"a scoring function must be monotone and never lower a score, but f({score}, {weight}) = {value}"
                )
            previous = value
    for weight in _WEIGHTS:
        values = [function(score, weight) for score in _SCORES]
        if values != sorted(values):
            raise QueryError(f"a scoring function must be monotone in the score, but f(score, {weight}) is not")
