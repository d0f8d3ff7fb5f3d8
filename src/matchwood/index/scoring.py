"""Scoring functions: how a held predicate's weight enters the score, as Python for the oracle and compiled for the indexes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba

from matchwood.errors import QueryError
from matchwood.lang.evaluate import Combine, add

_SIGNATURE = "float64(float64, float64)"
_PROBES = (0.0, 0.1, 0.25, 1.0, 3.0, 1e6)


@dataclass(frozen=True, slots=True)
class Scoring:
    """`combine` for the oracle; `compiled` for the indexes, None for the plain sum."""

    combine: Combine
    compiled: object = None


SUM = Scoring(add)


def scoring(function: str | Combine | None) -> Scoring:
    """The scoring of that name ("sum", "max"), or of a function (score, weight) -> score that the user hands in.

    The function must be plain arithmetic on two floats (Numba compiles it), monotone in both arguments, and must never lower a
    score: indexes prune by it. What can be tested of that is tested here, on a few values.

    >>> scoring("max").combine(0.5, 2.0)
    2.0
    """
    if function is None or function == "sum":
        return SUM
    if function == "max":
        function = _larger
    if not callable(function):
        raise QueryError(f"expected scoring 'sum', 'max' or a function (score, weight) -> score, got {function!r}")
    _check_monotone(function)
    try:
        return Scoring(function, numba.cfunc(_SIGNATURE)(function))
    except numba.core.errors.NumbaError as error:
        raise QueryError(
            f"the scoring function cannot be compiled; use plain arithmetic on two floats: {error}"
        ) from None


def _larger(score: float, weight: float) -> float:
    return max(score, weight)


def _check_monotone(function: Callable[[float, float], float]) -> None:
    for score in _PROBES:
        previous = score
        for weight in _PROBES:
            value = function(score, weight)
            if not value >= previous:
                raise QueryError(
                    f"a scoring function must be monotone and never lower a score, but f({score}, {weight}) = {value}"
                )
            previous = value
    for weight in _PROBES:
        values = [function(score, weight) for score in _PROBES]
        if values != sorted(values):
            raise QueryError(f"a scoring function must be monotone in the score, but f(score, {weight}) is not")
