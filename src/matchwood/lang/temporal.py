"""The temporal functions of CQL2: T_AFTER(built, DATE('2012-06-05')), T_DURING(INTERVAL(starts_at, ends_at), INTERVAL(...)).

An argument is an attribute, an instant or an INTERVAL, whose ends are instants, attributes or open. Each has a start and an end:
an instant is an interval of length zero, and an attribute whose value is a list or a range goes from its first value to its last.
A function compares starts and ends; `rewritten` writes that as comparisons of attributes with constants: rows know no others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from matchwood.errors import ExpressionError
from matchwood.lang.expression import Constant, Expression, Predicate, all_of, any_of
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Between, Compare
from matchwood.lang.written import literal, name, weight_suffix
from matchwood.schema import describe


class TemporalFunction(StrEnum):
    """The functions, by their names in CQL2 JSON."""

    AFTER = "t_after"
    BEFORE = "t_before"
    CONTAINS = "t_contains"
    DISJOINT = "t_disjoint"
    DURING = "t_during"
    EQUALS = "t_equals"
    FINISHED_BY = "t_finishedBy"
    FINISHES = "t_finishes"
    INTERSECTS = "t_intersects"
    MEETS = "t_meets"
    MET_BY = "t_metBy"
    OVERLAPPED_BY = "t_overlappedBy"
    OVERLAPS = "t_overlaps"
    STARTED_BY = "t_startedBy"
    STARTS = "t_starts"


End = datetime | str | None
"""An end of an interval: an instant, the name of an attribute, or None for an open end."""


class Interval(NamedTuple):
    """INTERVAL(start, end)."""

    start: End
    end: End

    def __str__(self) -> str:
        return f"INTERVAL({_end_text(self.start)}, {_end_text(self.end)})"


Times = Interval | datetime | str
"""An argument of a temporal function: an interval, an instant, or the name of an attribute."""


class _Side(NamedTuple):
    """The start or the end of an argument: of an attribute, or a constant key (an instant or an infinity)."""

    attribute: str | None
    constant: datetime | float
    is_end: bool


_Relation = tuple[str, Operator, str]
"""A comparison of two sides: s and e of the first argument with S and E of the second."""

_EQ, _LT, _LE, _GT, _GE, _NE = Operator.EQ, Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.NE
_RELATIONS: dict[TemporalFunction, tuple[_Relation, ...]] = {
    TemporalFunction.AFTER: (("s", _GT, "E"),),
    TemporalFunction.BEFORE: (("e", _LT, "S"),),
    TemporalFunction.CONTAINS: (("s", _LT, "S"), ("e", _GT, "E")),
    TemporalFunction.DURING: (("s", _GT, "S"), ("e", _LT, "E")),
    TemporalFunction.EQUALS: (("s", _EQ, "S"), ("e", _EQ, "E")),
    TemporalFunction.FINISHED_BY: (("s", _LT, "S"), ("e", _EQ, "E")),
    TemporalFunction.FINISHES: (("s", _GT, "S"), ("e", _EQ, "E")),
    TemporalFunction.INTERSECTS: (("s", _LE, "E"), ("e", _GE, "S")),
    TemporalFunction.MEETS: (("e", _EQ, "S"),),
    TemporalFunction.MET_BY: (("s", _EQ, "E"),),
    TemporalFunction.OVERLAPPED_BY: (("s", _GT, "S"), ("s", _LT, "E"), ("e", _GT, "E")),
    TemporalFunction.OVERLAPS: (("s", _LT, "S"), ("e", _GT, "S"), ("e", _LT, "E")),
    TemporalFunction.STARTED_BY: (("s", _EQ, "S"), ("e", _GT, "E")),
    TemporalFunction.STARTS: (("s", _EQ, "S"), ("e", _LT, "E")),
}
"""What each function requires. T_DISJOINT is the negation of T_INTERSECTS."""

_NEGATIONS = {_EQ: _NE, _NE: _EQ, _LT: _GE, _LE: _GT, _GT: _LE, _GE: _LT}
_TESTS = {_EQ: eq, _NE: ne, _LT: lt, _LE: le, _GT: gt, _GE: ge}


@dataclass(frozen=True, slots=True)
class Temporal(Expression):
    """A temporal function of two arguments. At least one of them is constant: attributes are not compared with each other."""

    function: TemporalFunction
    left: Times
    right: Times
    weight: float = 1.0

    def __post_init__(self) -> None:
        word = self.function.upper()
        for argument in (self.left, self.right):
            _check_argument(word, argument)
        if _names(self.left) and _names(self.right):
            raise ExpressionError(
                f"{word}: both arguments name an attribute, {_names(self.left)[0]!r} and {_names(self.right)[0]!r}; "
                "attributes cannot be compared with each other"
            )
        if not 0.0 <= self.weight < math.inf:
            raise ExpressionError(f"{word}: expected a finite weight >= 0, got {self.weight}")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it names, each once."""
        return tuple(dict.fromkeys(_names(self.left) + _names(self.right)))

    def __xor__(self, weight: float) -> Temporal:
        try:
            return replace(self, weight=float(weight))
        except (TypeError, ValueError):
            raise ExpressionError(f"{self.function.upper()}: expected a weight, got {describe(weight)}") from None

    def __str__(self) -> str:
        arguments = f"{_text(self.left)}, {_text(self.right)}"
        return f"{self.function.upper()}({arguments}){weight_suffix(self.weight)}"


def rewritten(tree: Temporal, *, negated: bool = False) -> Expression:
    """The function (or its negation) as comparisons with ANY and ALL. O(1).

    It counts as one predicate: in a conjunction the first comparison has the weight and the others add nothing.

    >>> print(rewritten(Temporal(TemporalFunction.DURING, "seen", Interval(datetime(2026, 1, 1, tzinfo=UTC), None))))
    ALL(seen) > TIMESTAMP('2026-01-01T00:00:00Z') AND ALL(seen) < INF ^0.0
    """
    function = tree.function
    if function is TemporalFunction.DISJOINT:
        function, negated = TemporalFunction.INTERSECTS, not negated
    if function is TemporalFunction.INTERSECTS and (shared := _shared_instant(tree)) is not None:
        return shared if not negated else replace(shared, negated=True, quantifier=None)
    sides = dict(zip("seSE", (*_sides(tree.left), *_sides(tree.right)), strict=True))
    relations = [(sides[a], operator, sides[b]) for a, operator, b in _RELATIONS[function]]
    if negated:
        return _alternatives([_compared(a, _NEGATIONS[operator], b) for a, operator, b in relations], tree.weight)
    return _conjunction([_compared(a, operator, b) for a, operator, b in relations], tree.weight)


def _shared_instant(tree: Temporal) -> Between | None:
    """T_INTERSECTS of an attribute and a constant: one of its values lies in the interval. One BETWEEN filters better than two
    comparisons; of several values in a list, one has to."""
    first, second = (tree.left, tree.right) if isinstance(tree.left, str) else (tree.right, tree.left)
    if not isinstance(first, str):
        return None
    lo, hi = (side.constant for side in _sides(second))
    return Between(first, tree.weight, lo=lo, hi=hi, quantifier=Quantifier.ANY)


def _compared(left: _Side, operator: Operator, right: _Side) -> Expression:
    """The comparison of two sides, of which at most one is an attribute's."""
    if left.attribute is None:
        if right.attribute is None:
            return Constant(bool(_TESTS[operator](_ordered(left.constant), _ordered(right.constant))))
        return _compared(right, operator.mirrored, left)
    x, value = left.attribute, right.constant

    def of(quantifier: Quantifier, operator: Operator) -> Compare:
        return Compare(x, operator=operator, value=value, quantifier=quantifier)

    # The start of several values is the smallest, so `start > t` is about all of them, and `start < t` about any.
    inward = _GE if not left.is_end else _LE
    outward = _LT if not left.is_end else _GT
    if operator is _EQ:
        return all_of(of(Quantifier.ALL, inward), of(Quantifier.ANY, _EQ))
    if operator is _NE:
        return any_of(of(Quantifier.ANY, outward), of(Quantifier.ALL, outward.mirrored))
    about_all = operator in ((_GT, _GE) if not left.is_end else (_LT, _LE))
    return of(Quantifier.ALL if about_all else Quantifier.ANY, operator)


def _conjunction(parts: Iterable[Expression], weight: float) -> Expression:
    flat = [part for part in parts if part != Constant(True)]
    if Constant(False) in flat:
        return Constant(False)
    if not flat:
        return Constant(True)
    first, *others = [leaf for part in flat for leaf in getattr(part, "children", (part,))]
    return all_of(first ^ weight, *(other ^ 0.0 for other in others))


def _alternatives(parts: Iterable[Expression], weight: float) -> Expression:
    flat = [part for part in parts if part != Constant(False)]
    if Constant(True) in flat:
        return Constant(True)
    if not flat:
        return Constant(False)
    leaves = [leaf for part in flat for leaf in getattr(part, "children", (part,))]
    return any_of(*(leaf ^ weight for leaf in leaves))


def _sides(argument: Times) -> tuple[_Side, _Side]:
    start, end = argument if isinstance(argument, Interval) else (argument, argument)
    return _side(start, False), _side(end, True)


def _side(end: End, is_end: bool) -> _Side:
    if isinstance(end, str):
        return _Side(end, 0.0, is_end)
    return _Side(None, (math.inf if is_end else -math.inf) if end is None else end, is_end)


def _ordered(constant: datetime | float) -> tuple[float, datetime]:
    """A constant as a key that instants and infinities share."""
    return (0.0, constant) if isinstance(constant, datetime) else (constant, datetime.max.replace(tzinfo=UTC))


def _names(argument: Times) -> tuple[str, ...]:
    if isinstance(argument, Interval):
        return tuple(end for end in argument if isinstance(end, str))
    return (argument,) if isinstance(argument, str) else ()


def _check_argument(word: str, argument: Times) -> None:
    ends = argument if isinstance(argument, Interval) else (argument,)
    for end in ends:
        if isinstance(end, str):
            Predicate(end)  # refuses an empty name
        elif isinstance(end, datetime):
            if end.tzinfo is not UTC:
                raise ExpressionError(f"{word}: expected a datetime in UTC, got {end!r}; see `instant`")
        elif end is not None or not isinstance(argument, Interval):
            raise ExpressionError(f"{word}: expected an instant or the name of an attribute, got {describe(end)}")
    if isinstance(argument, Interval):
        start, end = argument
        if isinstance(start, datetime) and isinstance(end, datetime) and end < start:
            raise ExpressionError(f"{word}: {argument} ends before it starts; exchange its ends")


def _text(argument: Times) -> str:
    if isinstance(argument, str):
        return name(argument)
    return str(argument) if isinstance(argument, Interval) else literal(argument)


def _end_text(end: End) -> str:
    if end is None:
        return "'..'"
    return name(end) if isinstance(end, str) else f"'{end.isoformat().replace('+00:00', 'Z')}'"
