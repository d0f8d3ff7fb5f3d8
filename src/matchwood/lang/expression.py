"""The expression tree: a subscription before it is normalised.

    Expression
    ├── And, Or (two or more, flat), Not
    ├── Constant                           TRUE, FALSE
    ├── Temporal                           T_AFTER and the like, in lang/temporal.py: predicates once it is rewritten
    └── Predicate                          an attribute, a weight
        ├── Compare                        = != < <= > >=
        ├── Between, In, IsNull            each with `negated`
        ├── Lists, ListCount               lists of values: A_CONTAINS and the like, A_COUNT
        ├── Like, TextTest                 strings: patterns, prefixes, networks (lang/text_tests.py)
        └── DWithin, BBox, Spatial         places

`Compare`, `Between` and `In` may have a quantifier for the values of a list: ANY(x) > 3, ALL(x) > 3.

Trees are immutable, compare by value, and `parse(str(e)) == e`. Values stay as the user wrote them (numbers, strings, booleans,
datetimes); `lang/rows.py` turns them into keys. An `And` is never a child of an `And`, nor an `Or` of an `Or`. Text and JSON are
limited to trees of `MAX_DEPTH` levels, so that recursion over a tree is safe.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import ClassVar, Self

from matchwood.errors import ExpressionError, SchemaError
from matchwood.lang.decay import Curve, Decay, checked_distance
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.wkt import wkt_of
from matchwood.schema import Point, Scalar, check_microseconds, describe, point_of, type_of, unwrapped
from matchwood.schema.functions import FUNCTIONS, SEPARATOR, folded, folding_functions, function_of, source_of

KEYWORDS = frozenset("AND OR NOT BETWEEN IN IS LIKE NULL TRUE FALSE INF".split())
"""Words that need quotes as attribute names. TIMESTAMP, DATE, POINT and the like are recognised by the parenthesis that follows,
so `timestamp > ...` and `date > ...` need no quotes."""

PLAIN_NAME = r"[A-Za-z_]\w*(?:[.:]\w+)*"
"""An attribute name that needs no quotes, as a pattern for `re.ASCII`."""

MAX_DEPTH = 100
"""Levels of the deepest tree that text and JSON accept. At two frames a level, recursion stays within Python's limit."""

_PLAIN = re.compile(PLAIN_NAME, re.ASCII)


class Operator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def mirrored(self) -> Operator:
        """The operator with the same meaning when the sides are exchanged: `5 < age` is `age > 5`."""
        return _MIRRORED.get(self, self)


_MIRRORED = {Operator.LT: Operator.GT, Operator.LE: Operator.GE, Operator.GT: Operator.LT, Operator.GE: Operator.LE}


class Quantifier(StrEnum):
    """Which values of a list a condition is about. A condition without one is about one value, and those that AND joins are
    about the same one (docs/language.md)."""

    ANY = "any"
    ALL = "all"


class ListOperator(StrEnum):
    """How the values of an event are compared with a list, by the names of CQL2."""

    CONTAINS = "a_contains"
    CONTAINED_BY = "a_containedBy"
    EQUALS = "a_equals"
    OVERLAPS = "a_overlaps"

    @property
    def mirrored(self) -> ListOperator:
        """The operator with the same meaning when the list comes first: A_CONTAINS(('a', 'b'), x) is A_CONTAINEDBY(x, ...)."""
        return _MIRRORED_LISTS.get(self, self)


_MIRRORED_LISTS = {
    ListOperator.CONTAINS: ListOperator.CONTAINED_BY,
    ListOperator.CONTAINED_BY: ListOperator.CONTAINS,
}


class SpatialOperator(StrEnum):
    """How the point of an event lies to a geometry, by the names of CQL2 and with the meaning of OGC Simple Features."""

    INTERSECTS = "s_intersects"
    WITHIN = "s_within"
    DISJOINT = "s_disjoint"
    TOUCHES = "s_touches"
    EQUALS = "s_equals"
    CONTAINS = "s_contains"
    CROSSES = "s_crosses"
    OVERLAPS = "s_overlaps"

    @property
    def mirrored(self) -> SpatialOperator:
        """The operator with the same meaning when the sides are exchanged."""
        return _MIRRORED_PLACES.get(self, self)


_MIRRORED_PLACES = {
    SpatialOperator.WITHIN: SpatialOperator.CONTAINS,
    SpatialOperator.CONTAINS: SpatialOperator.WITHIN,
}


class Shape(StrEnum):
    CIRCLE = "circle"
    SQUARE = "square"


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

        >>> print(Compare("price", 2.0, operator=Operator.LE, value=300).decay(origin=100, scale=200))
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
        if not isinstance(self, DWithin) and (grade.origin is None or grade.scale is None):
            lacking = "ORIGIN, the best value" if grade.origin is None else "SCALE, the distance over which it falls"
            raise ExpressionError(f"attribute {self.attribute!r}: DECAY needs {lacking}; only DWITHIN has its own")

    def _boost(self) -> str:
        weight = weight_suffix(self.weight)
        return weight if self.grade is None else f"{weight} {self.grade}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Predicate):
    operator: Operator
    value: Scalar
    quantifier: Quantifier | None = None

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        _checked_value(self.attribute, self.value)
        _fold(self, "value")

    def __str__(self) -> str:
        return f"{_subject(self)} {self.operator} {_constant(self, self.value)}{self._boost()}"


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
        _checked_value(self.attribute, self.lo)
        _checked_value(self.attribute, self.hi)
        _check_quantifier(self)
        _fold(self, "lo", "hi")

    def __str__(self) -> str:
        word = "NOT BETWEEN" if self.negated else "BETWEEN"
        return f"{_subject(self)} {word} {_constant(self, self.lo)} AND {_constant(self, self.hi)}{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class In(Predicate):
    values: tuple[Scalar, ...]
    negated: bool = False
    quantifier: Quantifier | None = None

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        _checked_values(self.attribute, self.values, "IN (...)")
        _check_quantifier(self)
        _fold(self, "values")

    def __str__(self) -> str:
        word = "NOT IN" if self.negated else "IN"
        return f"{_subject(self)} {word} {_listed(self)}{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists(Predicate):
    """The values of the event contain all of `values`, are contained in them, are the same, or have one in common."""

    operator: ListOperator
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        _checked_values(self.attribute, self.values, f"{self.operator.upper()}(...)")
        _fold(self, "values")

    def __str__(self) -> str:
        return f"{self.operator.upper()}({name(self.attribute)}, {_listed(self)}){self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount(Predicate):
    """How many of `values` the event has, compared with a number."""

    values: tuple[Scalar, ...]
    operator: Operator
    count: int

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        _checked_values(self.attribute, self.values, "A_COUNT(...)")
        _fold(self, "values")
        if isinstance(self.count, bool) or not isinstance(self.count, int):
            raise ExpressionError(
                f"attribute {self.attribute!r}: A_COUNT is compared with an integer, got {describe(self.count)}"
            )

    def __str__(self) -> str:
        subject = f"A_COUNT({name(self.attribute)}, {_listed(self)})"
        return f"{subject} {self.operator} {int.__repr__(self.count)}{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(Predicate):
    """The event lacks the attribute; negated, the event has it, whatever the value."""

    negated: bool = False

    _takes_decay: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{name(self.attribute)} IS {'NOT ' if self.negated else ''}NULL{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DWithin(Predicate):
    """The event's point lies within `radius` metres of `centre`, or, with the square shape, in the square of that half-side."""

    centre: Point
    radius: float
    shape: Shape = Shape.CIRCLE

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        try:
            object.__setattr__(self, "centre", point_of(self.centre))
        except SchemaError as error:
            raise ExpressionError(f"attribute {self.attribute!r}: {error}") from None
        if not (0.0 < self.radius < math.inf):
            raise ExpressionError(f"attribute {self.attribute!r}: expected a radius > 0, got {self.radius}")

    def __str__(self) -> str:
        lon, lat = self.centre
        square = ", SQUARE" if self.shape is Shape.SQUARE else ""
        place = f"POINT({_number(lon)} {_number(lat)})"
        return f"DWITHIN({name(self.attribute)}, {place}, {_number(self.radius)} m{square}){self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BBox(Predicate):
    """The event's point lies in the box, borders included; west > east crosses the antimeridian."""

    west: float
    south: float
    east: float
    north: float

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        try:
            point_of((self.west, self.south)), point_of((self.east, self.north))
        except SchemaError as error:
            raise ExpressionError(f"attribute {self.attribute!r}: {error}") from None
        if self.south > self.north:
            raise ExpressionError(
                f"attribute {self.attribute!r}: the box's south {self.south} is above its north {self.north}"
            )

    def __str__(self) -> str:
        corners = ", ".join(map(_number, (self.west, self.south, self.east, self.north)))
        return f"BBOX({name(self.attribute)}, {corners}){self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spatial(Predicate):
    """How the event's point lies to a geometry. Made by `spatial`: that it intersects a box is a `BBox`."""

    operator: SpatialOperator
    geometry: Geometry

    _takes_decay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        kind = self.geometry.type
        if kind is GeometryType.BBOX and self.operator is SpatialOperator.INTERSECTS:
            raise ExpressionError(f"attribute {self.attribute!r}: write a box that the point intersects as BBox")
        if kind is GeometryType.COLLECTION and self.operator in (SpatialOperator.WITHIN, SpatialOperator.TOUCHES):
            raise ExpressionError(
                f"attribute {self.attribute!r}: {self.operator.upper()} is not supported for a GEOMETRYCOLLECTION, "
                "whose boundary is not defined; use S_INTERSECTS, or a MULTIPOLYGON"
            )

    def __str__(self) -> str:
        return f"{self.operator.upper()}({name(self.attribute)}, {wkt_of(self.geometry)}){self._boost()}"


def spatial(attribute: str, weight: float, operator: SpatialOperator, geometry: Geometry) -> Predicate:
    """The predicate of a spatial function."""
    if geometry.type is GeometryType.BBOX and operator is SpatialOperator.INTERSECTS:
        west, south, east, north = geometry.coordinates
        return BBox(attribute, weight, west=west, south=south, east=east, north=north)
    return Spatial(attribute, weight, operator=operator, geometry=geometry)


def all_of(*children: Expression) -> Expression:
    """The conjunction of the children; for a single child, the child.

    >>> str(all_of(Compare("a", operator=Operator.EQ, value=1), IsNull("b")))
    'a = 1 AND b IS NULL'
    """
    return _combined(And, children)


def any_of(*children: Expression) -> Expression:
    """The disjunction of the children; for a single child, the child."""
    return _combined(Or, children)


def name(text: str) -> str:
    """An attribute name in the text language: quoted unless it is a plain word; a derived one as its function."""
    if SEPARATOR in text:
        function, inner = function_of(text), name(source_of(text))
        word = text.partition(SEPARATOR)[0].partition(":")[0]
        if function.argument is None:
            return f"{word}({inner})"
        return f"{word}({inner}, {name(function.argument) if function.is_age else literal(function.argument)})"
    return text if _PLAIN.fullmatch(text) and text.upper() not in KEYWORDS else '"' + text.replace('"', '""') + '"'


def literal(value: Scalar) -> str:
    """A value in the text language."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP('{value.isoformat().replace('+00:00', 'Z')}')"
    return _number(value)


def weight_suffix(weight: float) -> str:
    """A weight as it follows a predicate in the text language; nothing for the default."""
    return "" if weight == 1.0 else f" ^{_number(weight)}"


def _subject(predicate: Compare | Between | In) -> str:
    subject = name(predicate.attribute)
    return subject if predicate.quantifier is None else f"{predicate.quantifier.upper()}({subject})"


def _listed(predicate: In | Lists | ListCount) -> str:
    return f"({', '.join([_constant(predicate, value) for value in predicate.values])})"


def _constant(predicate: Predicate, value: Scalar) -> str:
    """A constant that a predicate compares with: in the functions of its attribute that fold constants, as CQL2 has it."""
    text = literal(value)
    if SEPARATOR in predicate.attribute and isinstance(value, str):
        for function in reversed(folding_functions(predicate.attribute)):
            text = f"{function}({text})"
    return text


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


def _fold(predicate: Predicate, *fields: str) -> None:
    """Put the constants of a predicate through the functions of its attribute: `CASEI(name) = 'Oslo'` compares with 'oslo'."""
    attribute = predicate.attribute
    if SEPARATOR not in attribute:
        return
    for constant in fields:
        value = getattr(predicate, constant)
        try:
            new = (
                tuple([folded(attribute, item) for item in value]) if type(value) is tuple else folded(attribute, value)
            )
        except SchemaError as error:
            raise ExpressionError(f"{name(attribute)}: {error}") from None
        object.__setattr__(predicate, constant, new)


def _number(value: float) -> str:
    if isinstance(value, int):
        return int.__repr__(value)
    # The `repr` of subclasses (NumPy's float64, enums) is not a number.
    return float.__repr__(float(value)) if math.isfinite(value) else ("INF" if value > 0 else "-INF")


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


_ALWAYS_VALID = frozenset((str, bool))
_MAX_BITS = 14_000
"""Of an integer. Python does not write integers of more than 4,300 digits, so they would have neither text nor JSON."""


def _check_quantifier(predicate: Between | In) -> None:
    if predicate.negated and predicate.quantifier is not None:
        raise ExpressionError(
            f"attribute {predicate.attribute!r}: a quantified condition is not negated itself; `opposite` and NOT say the same"
        )


def opposite(quantifier: Quantifier) -> Quantifier:
    """The quantifier under a NOT: `ALL(x) NOT IN (1)` is `NOT (ANY(x) IN (1))`."""
    return Quantifier.ANY if quantifier is Quantifier.ALL else Quantifier.ALL


def _checked_values(attribute: str, values: tuple[Scalar, ...], where: str) -> None:
    if not values:
        raise ExpressionError(f"attribute {attribute!r}: expected at least one value in {where}")
    kinds = set(map(type, values))
    if kinds == {int}:  # only the largest and the smallest can be too large
        _checked_value(attribute, max(values))
        _checked_value(attribute, min(values))
    elif not kinds <= _ALWAYS_VALID:
        for value in values:
            _checked_value(attribute, value)


def _checked_value(attribute: str, value: object) -> None:
    if type(value) in _ALWAYS_VALID:  # the common case; the full test takes a third of the time of making a predicate
        return
    if type(value) is int:
        if value.bit_length() > _MAX_BITS:
            raise ExpressionError(
                f"attribute {attribute!r}: an integer of {value.bit_length():,} bits is too large; use a string"
            )
        return
    if isinstance(value, float):
        if value != value:
            raise ExpressionError(f"attribute {attribute!r}: NaN is not a value; use IS NULL for an absent attribute")
    elif isinstance(value, datetime):
        if value.tzinfo is not UTC:
            raise ExpressionError(f"attribute {attribute!r}: expected a datetime in UTC, got {value!r}; see `instant`")
    elif not isinstance(value, (int, str)):
        try:
            type_of(value)
        except SchemaError as error:
            raise ExpressionError(f"attribute {attribute!r}: {error}") from None
        raise ExpressionError(
            f"attribute {attribute!r}: expected a number, string, bool or UTC datetime, got {value!r}"
        )


def best_value(value: object) -> int | float | datetime | Point | None:
    """The origin of a DECAY from a value of Python: a number, a date or datetime, a point; None stays None."""
    plain = unwrapped(value)
    if plain is None or isinstance(plain, Point):
        return plain
    if isinstance(plain, date):
        return instant(plain)
    if isinstance(plain, Decimal):
        plain = float(plain)
    if isinstance(plain, (int, float)) and not isinstance(plain, bool):
        return plain
    try:
        return point_of(value)
    except SchemaError:
        raise ExpressionError(
            f"DECAY: expected a number, a date, a datetime or a point as origin, got {describe(value)}"
        ) from None


def instant(value: datetime | date | str) -> datetime:
    """A datetime in UTC from any datetime (naive means UTC), date or ISO 8601 text: the form of instants in expressions.

    >>> instant("2026-01-31T12:00:00+02:00")
    datetime.datetime(2026, 1, 31, 10, 0, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, str):
        text = value
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            raise ExpressionError(f"expected a timestamp such as 2026-01-31T12:00:00Z, got {value!r}") from None
        try:
            check_microseconds(text)
        except SchemaError as error:
            raise ExpressionError(str(error)) from None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ExpressionError(f"the timestamp {value} lies outside the years 1 to 9999 in UTC") from None
