"""Predicates on all values of a list at once: A_CONTAINS(tags, ('a', 'b')), A_COUNT(tags, ('a', 'b', 'c')) >= 2."""

from __future__ import annotations

from dataclasses import dataclass

from matchwood.errors import ExpressionError
from matchwood.lang.constants import checked_values, fold, listed
from matchwood.lang.expression import Predicate
from matchwood.lang.operators import ListOperator, Operator
from matchwood.lang.written import name
from matchwood.schema import Scalar, describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists(Predicate):
    """The values of the event contain all of `values`, are contained in them, are the same, or have one in common."""

    operator: ListOperator
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        checked_values(self.attribute, self.values, f"{self.operator.upper()}(...)")
        fold(self, "values")

    def __str__(self) -> str:
        return f"{self.operator.upper()}({name(self.attribute)}, {listed(self.attribute, self.values)}){self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount(Predicate):
    """How many of `values` the event has, compared with a number."""

    values: tuple[Scalar, ...]
    operator: Operator
    count: int

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        checked_values(self.attribute, self.values, "A_COUNT(...)")
        fold(self, "values")
        if isinstance(self.count, bool) or not isinstance(self.count, int):
            raise ExpressionError(
                f"attribute {self.attribute!r}: A_COUNT is compared with an integer, got {describe(self.count)}"
            )

    def __str__(self) -> str:
        subject = f"A_COUNT({name(self.attribute)}, {listed(self.attribute, self.values)})"
        return f"{subject} {self.operator} {int.__repr__(self.count)}{self._boost()}"
