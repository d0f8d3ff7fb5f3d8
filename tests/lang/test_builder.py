"""The Python builder: the same trees as the text, from the values Python programs hold, and no condition lost to precedence."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given

from matchwood.errors import ExpressionError
from matchwood.lang.builder import attr
from matchwood.lang.expression import And, Constant, Expression, Not, Or, all_of, any_of
from matchwood.lang.geometry import geojson_of
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.nested import Nested
from matchwood.lang.operators import Operator
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import BBox, DWithin, Spatial
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.temporal import Interval, Temporal, Times
from matchwood.lang.temporal_builder import interval
from matchwood.lang.text_tests import Like, TextTest
from tests.strategies import expressions

a, b = attr("a"), attr("b")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"


class Size(Enum):
    LARGE = 7
    NAMED = "large"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (a == 1, "a = 1"),
        (a != 1, "a != 1"),
        (a < 1, "a < 1"),
        (a <= 1, "a <= 1"),
        (a > 1, "a > 1"),
        (a >= 1, "a >= 1"),
        (1 < a, "a > 1"),
        ("x" == a, "a = 'x'"),
        (a.between(22, 36) ^ 0.4, "a BETWEEN 22 AND 36 ^0.4"),
        (attr("a", weight=0.4).between(22, 36), "a BETWEEN 22 AND 36 ^0.4"),
        (a.not_between(1, 2.5), "a NOT BETWEEN 1 AND 2.5"),
        (a.is_in(["x", "y"]), "a IN ('x', 'y')"),
        (a.is_in(str(n) for n in (1, 2)), "a IN ('1', '2')"),
        (a.is_in({"y", "x", "z"}), "a IN ('x', 'y', 'z')"),
        (a.not_in((1, True)), "a NOT IN (1, TRUE)"),
        (a.is_null(), "a IS NULL"),
        (attr("a", weight=2).is_not_null(), "a IS NOT NULL ^2"),
        (a.within((-73.98, 40.75), 500), "DWITHIN(a, POINT(-73.98 40.75), 500 m)"),
        (a.within({"lon": 1, "lat": 2}, (1, "km"), shape="square"), "DWITHIN(a, POINT(1 2), 1 km, SQUARE)"),
        (a.within(np.array([1.0, 2.0], np.float32), np.int64(5)), "DWITHIN(a, POINT(1 2), 5 m)"),
        (a.in_box(170, -5, -170, np.float32(5)), "BBOX(a, 170, -5, -170, 5)"),
        (a.any() > 1, "ANY(a) > 1"),
        (~a.all().is_in([1, 2]), "ANY(a) NOT IN (1, 2)"),
        (a.contains([1, 2]), "A_CONTAINS(a, (1, 2))"),
        (a.contained_by((1, 2)), "A_CONTAINEDBY(a, (1, 2))"),
        (a.equals({1}), "A_EQUALS(a, (1))"),
        (a.overlaps(["x"]) ^ 0.5, "A_OVERLAPS(a, ('x')) ^0.5"),
        (attr("a", weight=2).count_of([1, 2]) >= 2, "A_COUNT(a, (1, 2)) >= 2 ^2"),
        ((a > 1) & (b < 2) | ~(a == 3), "a > 1 AND b < 2 OR NOT (a = 3)"),
        (((a > 1) ^ 0.4) & (b < 2), "a > 1 ^0.4 AND b < 2"),
        (attr("two words") == "it's", "\"two words\" = 'it''s'"),
    ],
)
def test_the_builder_makes_the_tree_of_the_text(built: Expression, text: str) -> None:
    assert repr(built) == repr(parse(text))


COMPARISONS = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def rebuilt(node: Expression) -> Expression:
    """The tree made again by the builder alone."""
    match node:
        case Not(child=child):
            return ~rebuilt(child)
        case And(children=children):
            return all_of(*map(rebuilt, children))
        case Constant():
            return node
        case Compare(operator=operator, value=value):
            made: Expression = getattr(of(node), COMPARISONS[operator])(value)
            return made
        case Between(lo=lo, hi=hi, negated=negated):
            return of(node).not_between(lo, hi) if negated else of(node).between(lo, hi)
        case In(values=values, negated=negated):
            return of(node).not_in(values) if negated else of(node).is_in(values)
        case IsNull(negated=negated):
            return of(node).is_not_null() if negated else of(node).is_null()
        case DWithin(centre=centre, radius=radius, shape=shape):
            return of(node).within(centre, radius, shape=shape)
        case Lists(operator=operator, values=values):
            method = {"a_contains": "contains", "a_containedBy": "contained_by", "a_equals": "equals"}
            return getattr(of(node), method.get(operator, "overlaps"))(values)
        case ListCount(values=values, operator=operator, count=count):
            return getattr(of(node).count_of(values), COMPARISONS[operator])(count)
        case Spatial(operator=operator, geometry=geometry):
            method = {
                "s_intersects": "intersects",
                "s_within": "within",
                "s_disjoint": "disjoint",
                "s_touches": "touches",
            }
            if operator not in method:  # a point is never related in these ways to what is no point
                return node
            return getattr(of(node), method[operator])(geojson_of(geometry))
        case BBox(west=west, south=south, east=east, north=north):
            return of(node).in_box(west, south, east, north)
        case Like(pattern=pattern, negated=negated):
            return of(node).not_like(pattern) if negated else of(node).like(pattern)
        case TextTest(operator=operator, argument=argument):
            method = {"starts_with": "starts_with", "ends_with": "ends_with", "contains": "contains_text"}
            return getattr(of(node), method[operator])(argument)
        case Nested(attribute=attribute, weight=weight, condition=condition, quantifier=quantifier):
            return getattr(attr(attribute, weight=weight), quantifier)(rebuilt(condition))
        case Temporal(function=function, left=left, right=right, weight=weight):
            method = "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in function.value)
            return getattr(times(left), method)(times(right)) ^ weight
    return any_of(*map(rebuilt, node.children))  # type: ignore[attr-defined]


def times(argument: Times):  # type: ignore[no-untyped-def]
    if isinstance(argument, Interval):
        return interval(*(attr(end) if isinstance(end, str) else end for end in argument))
    return attr(argument) if isinstance(argument, str) else interval(argument)


def of(node: Expression):  # type: ignore[no-untyped-def]
    attribute = attr(node.attribute, weight=node.weight)  # type: ignore[attr-defined]
    quantifier = getattr(node, "quantifier", None)
    return attribute if quantifier is None else getattr(attribute, quantifier)()


@given(expressions())
def test_the_builder_can_make_every_tree(expression: Expression) -> None:
    assert repr(rebuilt(expression)) == repr(expression)


@pytest.mark.parametrize(
    ("given_value", "kept"),
    [
        (np.int64(5), 5),
        (np.uint8(5), 5),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array(7), 7),
        (Level.HIGH, 3),
        (Colour.RED, "red"),
        (math.inf, math.inf),
        (date(2026, 1, 31), NOON.replace(hour=0)),
        (datetime(2026, 1, 31, 12), NOON),
        (NOON.astimezone(timezone(timedelta(hours=5))), NOON),
        (np.datetime64("2026-01-31T12:00:00", "ns"), NOON),
        (np.datetime64("2026-01-31", "D"), NOON.replace(hour=0)),
        (Decimal("31"), 31),
        (Decimal("3.1e1"), 31),
        (Decimal("0.1"), 0.1),
        (Decimal(2**60 + 1), 2**60 + 1),
        (Decimal("Infinity"), math.inf),
        (Size.LARGE, 7),
        (Size.NAMED, "large"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_a_value_is_kept_as_python_s_own(given_value: object, kept: object) -> None:
    found = a == given_value
    assert type(found.value) is type(kept)
    assert repr(found) == repr(a == kept)
    assert parse(str(found)) == found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a == None, r"None is not a value; use is_null\(\)"),  # noqa: E711
        (lambda: a > math.nan, "nan is not a value"),
        (lambda: a > np.float32("nan"), "nan is not a value"),
        (lambda: a > np.datetime64("NaT"), "None is not a value"),
        (lambda: a == [1, 2], r"expected one value, got \[1, 2\] \(list\); use is_in"),
        (lambda: a == np.array([1, 2]), "expected one value"),
        (lambda: a == b, "attributes cannot be compared"),
        (lambda: a == (b > 1), "expected a constant"),
        (lambda: a == object(), "expected a number, string, bool, date or datetime"),
        (lambda: a.between(1, None), "None is not a value"),
        (lambda: a.is_in("xyz"), "expected a list of values, got 'xyz'"),
        (lambda: a.is_in(5), "expected a list of values, got 5"),
        (lambda: a.is_in([]), "at least one value"),
        (lambda: a.is_in([1, None]), "None is not a value"),
        (lambda: a.within((1, 2), (1, "parsec")), "m, km, mi, ft, nmi, got 'parsec'"),
        (lambda: a.within((1, 2), 0), "radius > 0"),
        (lambda: a.within((1, 2), "far"), "expected a radius in metres"),
        (lambda: a.within((1, 2, 3), 5), "expected a point"),
        (lambda: a.within("here", 5), "expected a point"),
        (lambda: a.within((200, 2), 5), "longitude in -180..180"),
        (lambda: a.within((1, 2), 5, shape="oval"), "'circle' or 'square'"),
        (lambda: a.in_box(1, "2", 3, 4), "a border in degrees, got '2'"),
        (lambda: a.in_box(1, 5, 3, 4), "south"),
        (lambda: attr(""), "expected the name"),
        (lambda: attr(5), "expected the name"),
        (lambda: attr("a", weight=-1) > 5, "finite weight >= 0"),
        (lambda: attr("a", weight="x"), "expected a weight, got 'x'"),
        (lambda: (a > 5) ^ "x", "expected a weight, got 'x'"),
        (lambda: (a > 5) ^ (b > 5), "expected a weight"),
        (lambda: (a > 5) ^ math.nan, "finite weight >= 0"),
    ],
)
def test_a_value_that_fits_nowhere_is_refused_with_a_remedy(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: 1 < a < 5,
        lambda: (a > 1) and (b > 1),
        lambda: (a > 1) or (b > 1),
        lambda: not (a > 1),
        lambda: bool(a),
        lambda: 5 in [a],
        lambda: a > 5 & b < 3,
        lambda: a & (b > 1),
        lambda: (b > 1) & a,
        lambda: (b > 1) | a,
        lambda: ~a,
        lambda: a ^ 0.4,
        lambda: (a > 5) & (b < 3) ^ 0.4,
        lambda: (a > 5) ^ 0.4 & (b < 3),
        lambda: (a > 5) & 7,
        lambda: 7 | (a > 5),
    ],
)
def test_no_condition_is_lost_to_python_s_precedence(make: Callable[[], object]) -> None:
    with pytest.raises(ExpressionError):
        make()


def test_a_weight_bound_to_the_constant_is_refused_by_python_itself() -> None:
    with pytest.raises(TypeError):
        a > 5 ^ 0.4  # noqa: B015


def test_expressions_still_live_in_containers() -> None:
    one, other = a > 1, b > 1
    assert one in [other, a > 1]
    assert one not in [other]
    assert {one, other, a > 1} == {other, one}
    assert [one, other].index(b > 1) == 1


def test_an_attribute_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_an_attribute_shows_how_it_was_made() -> None:
    assert repr(attr("it's")) == 'attr("it\'s")'
    assert repr(attr("a", weight=2)) == "attr('a', weight=2.0)"
    assert Operator.LE.mirrored is Operator.GE


def children(node: Expression) -> tuple[Expression, ...]:
    assert isinstance(node, And | Or)
    return node.children


def test_a_long_chain_of_operators_takes_linear_time_and_its_nodes_stay_apart() -> None:
    chain: Expression = attr("a") == 0
    nodes = [chain := chain | (attr("a") == n) for n in range(1, 50_000)]
    assert len(children(nodes[-1])) == 50_000
    assert [len(children(node)) for node in nodes[:3]] == [2, 3, 4]
    early = nodes[1] | (attr("b") == 1)
    assert str(early) == "a = 0 OR a = 1 OR a = 2 OR b = 1"
    assert str(nodes[2]) == "a = 0 OR a = 1 OR a = 2 OR a = 3"
    assert nodes[1] == parse("a = 0 OR a = 1 OR a = 2")


def test_nodes_of_a_chain_are_values() -> None:
    first = (attr("a") == 1) & (attr("b") == 2)
    one, other = first & (attr("c") == 3), first & (attr("d") == 4)
    assert (str(one), str(other)) == ("a = 1 AND b = 2 AND c = 3", "a = 1 AND b = 2 AND d = 4")
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one != other
    assert hash(one) == hash(parse(str(one)))
    with pytest.raises(AttributeError):
        one.children = ()  # type: ignore[misc]


def test_threads_that_extend_one_node_do_not_see_each_other() -> None:
    base = (attr("a") == 1) | (attr("a") == 2)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: base | (attr("b") == n), range(2000)))
    assert [str(children(node)[2]) for node in made] == [f"b = {n}" for n in range(2000)]


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_bytes_are_refused_with_what_to_do(value: object) -> None:
    with pytest.raises(ExpressionError, match=r"attribute 'a': .* is not a value; decode bytes to a string"):
        _ = a == value
    with pytest.raises(ExpressionError, match="decode bytes"):
        a.is_in([value])
    with pytest.raises(ExpressionError, match="expected a list of values"):
        a.is_in(value)  # type: ignore[arg-type]


def test_pandas_scalars_are_python_s_or_missing() -> None:
    pandas = pytest.importorskip("pandas")
    assert (a == pandas.Timestamp(NOON)).value == NOON
    for missing in (pandas.NA, pandas.NaT, Decimal("NaN"), None):
        with pytest.raises(ExpressionError, match=r"None is not a value; use is_null\(\) or is_not_null\(\)"):
            _ = a == missing
    with pytest.raises(ExpressionError, match="finer than a microsecond"):
        _ = a == pandas.Timestamp("2026-01-31T12:00:00.000000001Z")


def test_an_instant_between_microseconds_is_refused_as_in_events() -> None:
    with pytest.raises(ExpressionError, match=r"attribute 'a': .* is finer than a microsecond; round it first"):
        _ = a > np.datetime64("2026-01-31T12:00:00.000000001")


@pytest.mark.parametrize(
    "make", [lambda: a + 1, lambda: 1 - a, lambda: a * 2, lambda: a / 2, lambda: a % 2, lambda: -a]
)
def test_arithmetic_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ExpressionError, match="attribute 'a': arithmetic is not supported"):
        make()


def test_a_long_list_is_checked_like_a_short_one() -> None:
    assert a.is_in(range(5000)).values == tuple(range(5000))
    assert a.is_in([*range(5000), np.int64(7)]).values == (*range(5000), 7)
    with pytest.raises(ExpressionError, match="None is not a value"):
        a.is_in([*range(5000), None])
    with pytest.raises(ExpressionError, match="too large; use a string"):
        a.is_in([*range(5000), 1 << 20_000])
