"""The expression tree: a subscription before it is normalised.

    Expression
    ├── And, Or (two or more, flat), Not
    ├── Constant                           TRUE, FALSE
    ├── Temporal                           T_AFTER and the like (lang/temporal.py): predicates once it is rewritten
    └── Predicate                          an attribute, a weight
        ├── Compare                        = != < <= > >= (lang/predicates.py)
        ├── Between, In, IsNull            each with `negated`
        ├── Lists, ListCount               lists of values: A_CONTAINS and the like, A_COUNT (lang/list_predicates.py)
        ├── Like, TextTest                 strings: patterns, prefixes, networks (lang/text_tests.py)
        └── DWithin, BBox, Spatial         places (lang/place_predicates.py)

`Compare`, `Between` and `In` may have a quantifier for the values of a list: ANY(x) > 3, ALL(x) > 3.

Trees are immutable, compare by value, and `parse(str(e)) == e`. Values stay as the user wrote them (numbers, strings, booleans,
datetimes); `lang/rows.py` turns them into keys. An `And` is never a child of an `And`, nor an `Or` of an `Or`. Text and JSON are
limited to trees of `MAX_DEPTH` levels, so that recursion over a tree is safe.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from matchwood.errors import ExpressionError, SchemaError
from matchwood.lang.decay import Curve, Decay, best_value, checked_distance
from matchwood.lang.written import weight_suffix
from matchwood.schema import describe
from matchwood.schema.functions import FUNCTIONS, SEPARATOR, function_of, source_of

MAX_DEPTH = 100
"""Levels of the deepest tree that text and JSON accept. At two frames a level, recursion stays within Python's limit."""


class Expression:
    """Any node of the tree. `&`, `|` and `~` combine nodes; `str()` writes the text language.

    A node has no truth value: `a and b`, `not a` and `1 < x < 5`, which would silently drop a condition, raise.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        raise ExpressionError(
            "an expression has no truth value; combine with &, | and ~ rather than and, or and not, "
            "write lo < x < hi as between(lo, hi), and test `is None` for a missing expression"
        )

    def __and__(self, other: Expression) -> Expression:
        return all_of(self, other)

    def __or__(self, other: Expression) -> Expression:
        return any_of(self, other)

    def __invert__(self) -> Expression:
        return Not(self)

    def __xor__(self, weight: float) -> Expression:
        raise ExpressionError(f"a weight belongs to a predicate, not to a whole {type(self).__name__}; {_PRECEDENCE}")

    def __rand__(self, other: object) -> Expression:
        raise ExpressionError(f"expected an expression left of &, got {describe(other)}; {_PRECEDENCE}")

    def __ror__(self, other: object) -> Expression:
        raise ExpressionError(f"expected an expression left of |, got {describe(other)}; {_PRECEDENCE}")


_PRECEDENCE = (
    "Python binds & before ^ and both before <: put each weighted predicate in parentheses, ((a > 5) ^ 0.4) & (b < 3)"
)


class _Junction(Expression):
    """Two or more children, flat. Immutable.

    The nodes of a chain `a | b | c | ...` share one list, of which each node has a prefix: n operators take O(n), not O(n^2).
    """

    __slots__ = ("_count", "_shared", "_tuple")
    __match_args__ = ("children",)

    def __init__(self, children: Iterable[Expression]) -> None:
        self._shared = _flat(type(self), children)
        self._count = len(self._shared)
        self._tuple: tuple[Expression, ...] | None = None
        if self._count < 2:
            raise ExpressionError(f"expected at least two parts in {type(self).__name__}, got {self._count}")

    @property
    def children(self) -> tuple[Expression, ...]:
        """The parts, of which none is of the same kind. O(n) the first time."""
        if self._tuple is None:
            self._tuple = tuple(self._shared[: self._count])
        return self._tuple

    def _extended(self, other: Expression) -> Self:
        """This node with more children at the end. O(children of the other), unless a sibling was made from this node before."""
        added = _flat(type(self), (other,))
        longer = object.__new__(type(self))
        longer._shared, longer._count, longer._tuple = self._shared, self._count + len(added), None
        if len(self._shared) == self._count:
            self._shared.extend(added)
            if self._shared[self._count : longer._count] == added:  # no other thread came first
                return longer
        longer._shared = [*self._shared[: self._count], *added]
        return longer

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.children == other.children

    def __hash__(self) -> int:
        return hash((type(self), self.children))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(children={self.children!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Expression, ...]]]:
        return type(self), (self.children,)


class And(_Junction):
    """All children hold. Made by `all_of`, `&` or the parser, which keep it flat."""

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        return self._extended(other)

    def __str__(self) -> str:
        return " AND ".join(f"({child})" if isinstance(child, Or) else str(child) for child in self.children)


class Or(_Junction):
    """At least one child holds. Made by `any_of`, `|` or the parser, which keep it flat."""

    __slots__ = ()

    def __or__(self, other: Expression) -> Expression:
        return self._extended(other)

    def __str__(self) -> str:
        return " OR ".join(map(str, self.children))


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The complement of the predicates of the child: an absent attribute still makes each of them false, as in SQL."""

    child: Expression

    def __str__(self) -> str:
        return f"NOT ({self.child})"


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """TRUE or FALSE."""

    value: bool

    def __str__(self) -> str:
        return "TRUE" if self.value else "FALSE"


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """A condition on one attribute. `predicate ^ 0.4` is the same condition with weight 0.4; see `decay` for `grade`."""

    attribute: str
    weight: float = 1.0
    grade: Decay | None = field(default=None, kw_only=True)

    _takes_decay: ClassVar[bool] = False
    _has_best: ClassVar[bool] = False
    """Is there a best value, and a distance over which closeness falls, without a DECAY that says so?"""

    def __post_init__(self) -> None:
        if not self.attribute:
            raise ExpressionError("an attribute's name cannot be empty")
        if SEPARATOR in self.attribute:
            _check_functions(self.attribute)
        if not (0.0 <= self.weight < math.inf):
            raise ExpressionError(f"attribute {self.attribute!r}: expected a finite weight >= 0, got {self.weight}")
        if self.grade is not None:
            self._check_grade(self.grade)

    def __xor__(self, weight: float) -> Self:
        try:
            return replace(self, weight=float(weight))
        except (TypeError, ValueError):
            raise ExpressionError(f"attribute {self.attribute!r}: expected a weight, got {describe(weight)}") from None

    def decay(
        self,
        curve: Curve | str = Curve.LINEAR,
        *,
        origin: object = None,
        scale: object = None,
        offset: object = None,
        to: float | None = None,
    ) -> Self:
        """The same condition, whose weight counts by how close the value is to `origin` (docs/language.md).

        `scale` and `offset` are numbers (for a place, metres), pairs such as (1, "km") or (6, "h"), or timedeltas.

        >>> from matchwood import attr
        >>> print(((attr("price") <= 300) ^ 2.0).decay(origin=100, scale=200))
        price <= 300 ^2.0 DECAY(LINEAR, ORIGIN 100, SCALE 200)
        """
        try:
            form = Curve(curve)
        except ValueError:
            known = ", ".join(repr(known.value) for known in Curve)
            raise ExpressionError(
                f"attribute {self.attribute!r}: expected one of {known}, got {describe(curve)}"
            ) from None
        try:
            grade = Decay(form, best_value(origin), checked_distance(scale), checked_distance(offset), to)
        except ExpressionError as error:
            raise error.about(f"attribute {self.attribute!r}") from None
        return replace(self, grade=grade)

    @property
    def takes_decay(self) -> bool:
        """Is it about values that have a distance from the best one? Their type is not known here."""
        return self._takes_decay and getattr(self, "quantifier", None) is None

    def _check_grade(self, grade: Decay) -> None:
        if not self.takes_decay:
            raise ExpressionError(
                f"attribute {self.attribute!r}: DECAY is for comparisons, BETWEEN, IN, IS NOT NULL and places, "
                "whose values have a distance from the best one"
            )
        if not self._has_best and (grade.origin is None or grade.scale is None):
            lacking = "ORIGIN, the best value" if grade.origin is None else "SCALE, the distance over which it falls"
            raise ExpressionError(f"attribute {self.attribute!r}: DECAY needs {lacking}; only DWITHIN has its own")

    def _boost(self) -> str:
        weight = weight_suffix(self.weight)
        return weight if self.grade is None else f"{weight} {self.grade}"


def _check_functions(attribute: str) -> None:
    """Refuse a name with `SEPARATOR` that is not one of functions of an attribute."""
    try:
        while SEPARATOR in attribute:
            if function_of(attribute).name not in FUNCTIONS:
                raise SchemaError("a condition cannot name a hidden attribute")
            attribute = source_of(attribute)
    except SchemaError as error:
        raise ExpressionError(f"attribute {attribute.rpartition(SEPARATOR)[2]!r}: {error}") from None
    if not attribute:
        raise ExpressionError("an attribute's name cannot be empty")


def all_of(*children: Expression) -> Expression:
    """The conjunction of the children; for a single child, the child.

    >>> from matchwood import attr
    >>> str(all_of(attr("a") == 1, attr("b").is_null()))
    'a = 1 AND b IS NULL'
    """
    return _combined(And, children)


def any_of(*children: Expression) -> Expression:
    """The disjunction of the children; for a single child, the child."""
    return _combined(Or, children)


def _flat(kind: type[_Junction], children: Iterable[Expression]) -> list[Expression]:
    flat: list[Expression] = []
    for child in children:
        if isinstance(child, Predicate):
            flat.append(child)
            continue
        if not isinstance(child, Expression):
            raise ExpressionError(f"expected an expression, got {child!r} ({type(child).__name__})")
        flat.extend(child.children if isinstance(child, kind) else (child,))
    return flat


def _combined(kind: type[And] | type[Or], children: tuple[Expression, ...]) -> Expression:
    if len(children) == 1 and isinstance(children[0], Expression):
        return children[0]
    return kind(children)
