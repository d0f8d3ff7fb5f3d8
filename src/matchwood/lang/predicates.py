"""Predicates that compare the values of one attribute: = < BETWEEN IN, and IS NULL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matchwood.errors import ExpressionError
from matchwood.lang.constants import checked_value, checked_values, constant_text, fold, listed
from matchwood.lang.expression import Predicate
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.written import name
from matchwood.schema import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Predicate):
    operator: Operator
    value: Scalar
    quantifier: Quantifier | None = None

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        checked_value(self.attribute, self.value)
        fold(self, "value")

    def __str__(self) -> str:
        left = subject(self.attribute, self.quantifier)
        return f"{left} {self.operator} {constant_text(self.attribute, self.value)}{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Between(Predicate):
    """Closed at both ends."""

    lo: Scalar
    hi: Scalar
    negated: bool = False
    quantifier: Quantifier | None = None

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        checked_value(self.attribute, self.lo)
        checked_value(self.attribute, self.hi)
        _check_quantifier(self)
        fold(self, "lo", "hi")

    def __str__(self) -> str:
        word = "NOT BETWEEN" if self.negated else "BETWEEN"
        left = subject(self.attribute, self.quantifier)
        lo, hi = constant_text(self.attribute, self.lo), constant_text(self.attribute, self.hi)
        return f"{left} {word} {lo} AND {hi}{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class In(Predicate):
    values: tuple[Scalar, ...]
    negated: bool = False
    quantifier: Quantifier | None = None

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        checked_values(self.attribute, self.values, "IN (...)")
        _check_quantifier(self)
        fold(self, "values")

    def __str__(self) -> str:
        word = "NOT IN" if self.negated else "IN"
        return f"{subject(self.attribute, self.quantifier)} {word} {listed(self.attribute, self.values)}{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(Predicate):
    """The event lacks the attribute; negated, the event has it, whatever the value."""

    negated: bool = False

    _takes_decay: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{name(self.attribute)} IS {'NOT ' if self.negated else ''}NULL{self._boost()}"


def subject(attribute: str, quantifier: Quantifier | None) -> str:
    """An attribute and its quantifier in the text language."""
    return name(attribute) if quantifier is None else f"{quantifier.upper()}({name(attribute)})"


def _check_quantifier(predicate: Between | In) -> None:
    if predicate.negated and predicate.quantifier is not None:
        raise ExpressionError(
            f"attribute {predicate.attribute!r}: a quantified condition is not negated itself; `opposite` and NOT say the same"
        )
