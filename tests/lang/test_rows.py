"""Normal form: the same truth as the tree, one predicate an attribute, and clear reasons where an expression is refused.

The tree is judged here value by value, without interval sets and without the normaliser: one value of each attribute is chosen
for the conditions that ask for a value, those under a NOT look at all values, and only IS NULL is true of an absent attribute.
"""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood import geo
from matchwood.errors import ExpressionError, InexactValueError, NeverMatchesError, TooComplexError, ValueTypeError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import Event, event_keys
from matchwood.lang.expression import And, Constant, Expression, Not, Or, Predicate
from matchwood.lang.geometry import GeometryType
from matchwood.lang.intervals import EVERYTHING, closed, points
from matchwood.lang.limits import Limits
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.operators import ListOperator, Operator, Quantifier, Shape, SpatialOperator
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import BBox, DWithin, Spatial
from matchwood.lang.places import LATITUDES, LONGITUDES, square
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.regions import BOUNDARY, INSIDE, OUTSIDE, location_of, parts_of
from matchwood.lang.rows import Absent, Holds, Placed, Row, normalise
from matchwood.schema import Point, Range, Schema
from tests.worlds import INSTANTS, NUMBERS, TYPES, Dice, a_world, an_event, an_expression, seeded_dice


def rows(text: str, types: dict[str, str] | None = None, **options: Any) -> tuple[Row, ...]:
    return normalise(parse(text), Schema(types), **options)


def only(text: str, types: dict[str, str] | None = None) -> Any:
    """The one predicate of the one row."""
    ((predicate,),) = [row.predicates for row in rows(text, types)]
    return predicate


def matches(text: str, place: tuple[float, float]) -> bool:
    schema = Schema({"place": "point"})
    found = normalise(parse(text), schema)
    return judge(found, event_keys({"place": place}, schema)).matched


# what a tree means, by its definition: one value of each attribute is chosen for the conditions that ask for a value


def is_true(expression: Expression, chosen: dict[str, Any], event: Event, *, negated: bool = False) -> bool:
    """Is the tree (or, negated, its negation) true of the event, with these values for conditions without a quantifier?"""
    if isinstance(expression, Constant):
        return expression.value is not negated
    if isinstance(expression, Not):
        return is_true(expression.child, chosen, event, negated=not negated)
    if isinstance(expression, And | Or):
        verdicts = [is_true(child, chosen, event, negated=negated) for child in expression.children]
        return all(verdicts) if isinstance(expression, And) is not negated else any(verdicts)
    assert isinstance(expression, Predicate)
    if isinstance(expression, IsNull):
        return (expression.attribute not in chosen) is not (expression.negated is not negated)
    return expression.attribute in chosen and is_true_of(expression, chosen[expression.attribute], event, negated)


def is_true_of(predicate: Any, value: Any, event: Event, negated: bool) -> bool:
    values = all_values(predicate.attribute, event)
    if isinstance(predicate, Lists | ListCount):
        return is_true_of_list(predicate, values, event) is not negated
    if getattr(predicate, "quantifier", None) is not None:
        quantified = any if predicate.quantifier is Quantifier.ANY else all
        return quantified(leaf(predicate, one) for one in values) is not negated
    if getattr(predicate, "negated", False) or getattr(predicate, "operator", None) is Operator.NE:
        negated, asked = not negated, lambda one: not leaf(predicate, one)
    else:
        asked = lambda one: leaf(predicate, one)  # noqa: E731
    return not any(map(asked, values)) if negated else asked(value)


def is_true_of_list(predicate: Lists | ListCount, values: list[Any], event: Event) -> bool:
    listed = set(predicate.values)
    met = len({one for one in values if one in listed} & listed)
    if isinstance(predicate, ListCount):
        return leaf(Compare("n", operator=predicate.operator, value=predicate.count), met)
    within = all(one in listed for one in values)
    return {
        ListOperator.CONTAINS: met == len(listed),
        ListOperator.CONTAINED_BY: within,
        ListOperator.EQUALS: within and met == len(listed),
        ListOperator.OVERLAPS: met > 0,
    }[predicate.operator]


def leaf(predicate: Expression, value: Any) -> bool:
    if isinstance(predicate, Compare):
        return {
            Operator.EQ: lambda: value == predicate.value,
            Operator.NE: lambda: value != predicate.value,
            Operator.LT: lambda: value < predicate.value,
            Operator.LE: lambda: value <= predicate.value,
            Operator.GT: lambda: value > predicate.value,
            Operator.GE: lambda: value >= predicate.value,
        }[predicate.operator]()
    if isinstance(predicate, Between):
        return (predicate.lo <= value <= predicate.hi) is not predicate.negated
    if isinstance(predicate, In):
        return (value in predicate.values) is not predicate.negated
    if isinstance(predicate, BBox):
        lons = [value.lon, -value.lon] if abs(value.lon) == 180.0 else [value.lon]
        wraps = predicate.west > predicate.east
        inside = any(
            (lon >= predicate.west or lon <= predicate.east) if wraps else predicate.west <= lon <= predicate.east
            for lon in lons
        )
        return inside and predicate.south <= value.lat <= predicate.north
    if isinstance(predicate, Spatial):
        where = location_of(parts_of(predicate.geometry), value)
        is_point = predicate.geometry.type is GeometryType.POINT
        return {
            SpatialOperator.INTERSECTS: where != OUTSIDE,
            SpatialOperator.WITHIN: where == INSIDE,
            SpatialOperator.DISJOINT: where == OUTSIDE,
            SpatialOperator.TOUCHES: where == BOUNDARY,
        }.get(predicate.operator, is_point and where == INSIDE)
    assert isinstance(predicate, DWithin)
    if predicate.shape is Shape.SQUARE:
        lon, lat = square(predicate.centre, predicate.radius)
        return value.lon in lon and value.lat in lat
    vector = geo.unit_vector(*predicate.centre)
    return bool(geo.is_within(*value, *vector, geo.chord_squared(predicate.radius)))


def choices(event: Event) -> list[dict[str, Any]]:
    """Every way to pick one value of each list and range; of a range, those next to the worlds' constants stand for all."""
    names = list(event.values)
    return [dict(zip(names, chosen, strict=True)) for chosen in product(*(all_values(name, event) for name in names))]


def all_values(name: str, event: Event) -> list[Any]:
    value = event.values[name]
    return [one for item in (value if isinstance(value, list) else [value]) for one in values_of(name, item)]


def values_of(name: str, value: Any) -> list[Any]:
    if not isinstance(value, Range):
        return [value]
    near = {
        "bool": [False, True],
        "number": [y for x in NUMBERS for y in (math.nextafter(x, -math.inf), x, math.nextafter(x, math.inf))],
        "timestamp": [moment + timedelta(microseconds=us) for moment in INSTANTS for us in (-1, 0, 1)],
    }[TYPES[name]]
    return [one for one in dict.fromkeys(near) if value.lo <= one <= value.hi]


@given(st.data())
@settings(max_examples=60)
def test_the_normal_form_is_true_where_the_tree_is(data: st.DataObject) -> None:
    dice = Dice(lambda n: data.draw(st.integers(0, n - 1)))
    assert_same_truth(an_expression(dice), [an_event(dice) for _ in range(2)])


@pytest.mark.parametrize("seed", range(150))
def test_the_normal_form_is_true_where_the_tree_is_on_many_events(seed: int) -> None:
    dice = seeded_dice(seed)
    assert_same_truth(an_expression(dice, depth=4), [an_event(dice) for _ in range(12)])


@pytest.mark.parametrize("seed", range(100))
def test_the_normal_form_is_true_where_the_tree_is_on_few_values(seed: int) -> None:
    """Bools and instants a microsecond apart, in many conditions on the same attribute, and events of ranges."""
    dice = seeded_dice(seed)
    events = [an_event(dice) for _ in range(8)]
    events.append(Event({"vip": Range(False, True)}))
    events += [Event({"seen": Range(lo, hi), "vip": False}) for lo, hi in pairwise(INSTANTS)]
    for _ in range(5):
        assert_same_truth(an_expression(dice, depth=2, names=("vip", "seen", "seen")), events)


def assert_same_truth(expression: Expression, events: list[Event]) -> None:
    schema = Schema(TYPES)
    named = {p.attribute for p in leaves(expression)}
    events = [Event({name: value for name, value in event.values.items() if name in named}) for event in events]
    try:
        found = normalise(expression, schema, limits=Limits(max_rows=100_000, max_entries=10**7))
    except NeverMatchesError:
        found = ()
    for event in events:
        expected = any(is_true(expression, chosen, event) for chosen in choices(event))
        assert judge(found, event_keys(event, schema)).matched == expected, (str(expression), event)


def leaves(expression: Expression) -> list[Any]:
    if isinstance(expression, And | Or):
        return [leaf for child in expression.children for leaf in leaves(child)]
    if isinstance(expression, Not):
        return leaves(expression.child)
    return [] if isinstance(expression, Constant) else [expression]


@pytest.mark.parametrize("seed", range(20))
def test_an_attribute_stands_at_most_once_in_a_row(seed: int) -> None:
    for _, _, found in a_world(seeded_dice(seed), 30, 0).subscriptions.values():
        for row in found:
            names = [predicate.attribute for predicate in row.predicates]
            assert len(set(names)) == len(names)


def test_a_row_names_its_attributes_in_the_order_in_which_its_conjuncts_do() -> None:
    found = rows("b = 1 AND a > 2 AND b < 9 AND (c = 1 OR a < 5) AND d = 1")
    assert [[p.attribute for p in row.predicates] for row in found] == [["b", "a", "c", "d"], ["b", "a", "d"]]


# AND, OR, NOT


def test_and_on_one_attribute_intersects_and_adds_weights() -> None:
    keys = closed(1, 5) - points([3])
    assert only("a >= 1 ^0.25 AND a <= 5 ^0.5 AND a != 3") == Holds("a", 1.75, keys, points([3]))


def test_or_on_one_attribute_of_equal_weight_unites() -> None:
    assert only("a = 1 ^0.5 OR a BETWEEN 3 AND 4 ^0.5 OR a = 1 ^0.5") == Holds("a", 0.5, points([1]) | closed(3, 4))


def test_or_of_different_weight_makes_rows() -> None:
    assert [row.predicates for row in rows("a = 1 ^0.5 OR a = 2")] == [
        (Holds("a", 0.5, points([1])),),
        (Holds("a", 1.0, points([2])),),
    ]


def test_and_distributes_over_or() -> None:
    found = rows("a = 1 AND (b = 2 OR c = 3)")
    assert [[p.attribute for p in row.predicates] for row in found] == [["a", "b"], ["a", "c"]]


def test_not_reaches_every_predicate() -> None:
    negated, plain = (
        rows("NOT (a < 1 OR NOT (b IS NULL AND c IN (1, 2)))"),
        rows("ALL(a) >= 1 AND b IS NULL AND c IN (1, 2)"),
    )
    assert negated == plain
    assert rows("NOT (NOT (a = 1))") == rows("a = 1")
    assert rows("NOT (a IS NULL)") == rows("a IS NOT NULL")
    assert rows("NOT (a NOT IN (1) AND b NOT BETWEEN 1 AND 2)") == rows("a = 1 OR b BETWEEN 1 AND 2")


def test_equal_rows_are_kept_once() -> None:
    assert len(rows("(a = 1 AND b = 2) OR (a = 1 AND b = 2)")) == 1


def test_true_is_a_row_without_predicates() -> None:
    assert rows("TRUE") == (Row(()),)
    assert rows("a = 1 OR TRUE")[1] == Row(())
    assert rows("NOT (FALSE)") == (Row(()),)


def test_is_null_is_absence_and_is_not_null_is_any_value() -> None:
    assert only("a IS NULL ^2") == Absent("a", 2.0)
    assert only("a IS NOT NULL") == Holds("a", 1.0, EVERYTHING)
    assert only("p IS NOT NULL", {"p": "point"}) == Placed("p", 1.0, EVERYTHING, EVERYTHING)
    assert only("a IS NULL AND a IS NULL ^0.5") == Absent("a", 1.5)


def test_is_not_null_from_before_the_attribute_was_a_point_adds_its_weight_to_the_place() -> None:
    found = only("p IS NOT NULL ^0.5 AND BBOX(p, 0, 0, 1, 2)")
    assert found == Placed("p", 1.5, closed(0, 1), closed(0, 2))


# refusals


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a > 5 AND a < 3", "the conditions on 'a' exclude each other"),
        ("a BETWEEN 5 AND 1", "a BETWEEN 5 AND 1 leaves no value"),
        ("a > INF", "a > INF leaves no value"),
        ("a IS NULL AND a = 1", "the conditions on 'a' exclude each other"),
        ("a IS NULL AND a IS NOT NULL", "exclude each other"),
        ("FALSE", "it is always false"),
        ("NOT (a < INF OR a = INF)", "leaves no value|exclude each other"),
        ("BBOX(p, 0, 0, 1, 1) AND BBOX(p, 5, 5, 6, 6)", "the conditions on 'p' exclude each other"),
        ("NOT (BBOX(p, -180, -90, 180, 90))", "leaves no value"),
        ("NOT (DWITHIN(p, POINT(0 0), 30000 km))", "leaves no value"),
        ("(a = 1 AND a = 2) OR (b = 1 AND b = 2)", "the conditions on 'a' exclude each other"),
        ("vip != TRUE AND vip != FALSE", "the conditions on 'vip' exclude each other"),
        ("vip > FALSE AND vip < TRUE", "the conditions on 'vip' exclude each other"),
        ("vip NOT IN (TRUE, FALSE)", "leaves no value"),
        ("vip > TRUE", "vip > TRUE leaves no value"),
        ("NOT (vip >= FALSE)", "leaves no value"),
        ("vip NOT BETWEEN FALSE AND TRUE", "leaves no value"),
        (
            "t > TIMESTAMP('2026-03-01T00:00:00Z') AND t < TIMESTAMP('2026-03-01T00:00:00.000001Z')",
            "the conditions on 't' exclude each other",
        ),
    ],
)
def test_what_can_never_match_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(NeverMatchesError, match=f"no event can match: .*({reason})"):
        rows(text)


@pytest.mark.parametrize(
    "texts",
    [
        ("b = FALSE", "b < TRUE", "b <= FALSE", "b IN (FALSE)"),
        ("b != TRUE", "NOT (b = TRUE)", "b NOT IN (TRUE)", "ALL(b) = FALSE", "ALL(b) < TRUE"),
        (
            "b IS NOT NULL",
            "b >= FALSE",
            "b <= TRUE",
            "b IN (TRUE, FALSE)",
            "b = TRUE OR b = FALSE",
        ),
        ("t > TIMESTAMP('2026-03-01')", "t >= TIMESTAMP('2026-03-01T00:00:00.000001Z')"),
        ("t IS NOT NULL", "t < TIMESTAMP('2026-03-01') OR t >= TIMESTAMP('2026-03-01')", "t <= INF"),
        (
            "t IN (TIMESTAMP('2026-03-01'), TIMESTAMP('2026-03-01T00:00:00.000001Z'))",
            "t BETWEEN TIMESTAMP('2026-03-01') AND TIMESTAMP('2026-03-01T00:00:00.000001Z')",
            "t = TIMESTAMP('2026-03-01T00:00:00.000001Z') OR t = TIMESTAMP('2026-03-01')",
        ),
        (
            "t NOT IN (TIMESTAMP('2026-03-01'), TIMESTAMP('2026-03-01T00:00:00.000001Z'))",
            "NOT (t BETWEEN TIMESTAMP('2026-03-01') AND TIMESTAMP('2026-03-01T00:00:00.000001Z'))",
        ),
    ],
)
def test_conditions_on_the_same_bools_or_instants_are_the_same_row(texts: tuple[str, ...]) -> None:
    types = {"b": "bool", "t": "timestamp"}
    assert {rows(text, types) for text in texts} == {rows(texts[0], types)}


def test_conditions_on_strings_hold_for_every_string_but_those_named() -> None:
    """Codes are whole numbers, and an event has no range of strings: what lies between two codes is never met."""
    schema = Schema()
    found = normalise(parse("city != 'a' AND city NOT IN ('b', 'c')"), schema)
    for city, expected in (("a", False), ("c", False), (["a", "b"], False), ("d", True), (["b", "d"], False)):
        assert judge(found, event_keys({"city": city}, schema, register=True)).matched is expected
    with pytest.raises(ValueTypeError, match="strings have no order"):
        event_keys({"city": Range("a", "c")}, schema)


def test_impossible_alternatives_are_dropped() -> None:
    assert only("(a > 5 AND a < 3) OR b = 1") == Holds("b", 1.0, points([1]))


def test_a_normal_form_that_explodes_is_refused_with_its_size_and_the_limit() -> None:
    text = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(11))
    with pytest.raises(TooComplexError, match="the normal form has 2048 rows, the limit is 1000"):
        rows(text)
    assert len(rows(text, limits=Limits(max_rows=2048))) == 2048
    with pytest.raises(TooComplexError, match="has 3 rows, the limit is 2"):
        rows("a = 1 OR b = 1 OR c = 1", limits=Limits(max_rows=2))


def test_an_astronomical_normal_form_is_refused_as_well() -> None:
    text = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(15_000))  # 2^15000 has more digits than Python writes
    with pytest.raises(TooComplexError, match=r"more than 10\^15 rows"):
        rows(text)


def test_a_tree_too_deep_for_recursion_is_refused() -> None:
    expression: Expression = Compare("a", operator=Operator.EQ, value=1)
    for _ in range(20_000):
        expression = Not(expression)
    with pytest.raises(TooComplexError, match="nested too deeply"):
        normalise(expression, Schema())


def test_thousands_of_terms_on_one_attribute_are_one_predicate() -> None:
    numbers = range(0, 20_000, 2)
    assert only(" OR ".join(f"a = {n}" for n in numbers)).keys == points(map(float, numbers))
    assert only(" AND ".join(f"a != {n} ^0" for n in numbers)).keys == ~points(map(float, numbers))


def test_weights_that_add_up_past_float64_are_refused() -> None:
    with pytest.raises(ExpressionError, match="attribute 'a': the sum of its weights exceeds float64"):
        rows("a >= 1 ^1e308 AND a <= 5 ^1e308")


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_strings_have_no_order(operator: str) -> None:
    with pytest.raises(ValueTypeError, match=f"attribute 'city': strings have no order, so {operator} is refused"):
        rows(f"city {operator} 'Oslo'")
    with pytest.raises(ValueTypeError, match="so BETWEEN is refused; use =, != or IN"):
        rows("city BETWEEN 'A' AND 'B'")


def test_a_value_of_the_wrong_type_is_refused_with_predicate_attribute_and_type() -> None:
    for text in ("age = 'old'", "age > 'old'", "age IN (1, 'old')"):
        with pytest.raises(
            ValueTypeError, match=r"age .*'old'.*: attribute 'age' is of type number, but is used as string"
        ):
            rows(text, {"age": "number"})
    with pytest.raises(ValueTypeError, match="'age' is of type number, but is used as point"):
        rows("BBOX(age, 0, 0, 1, 1)", {"age": "number"})
    with pytest.raises(InexactValueError, match="attribute 'age': 9007199254740993"):
        rows("age = 9007199254740993", {"age": "number"})


def test_text_is_a_timestamp_where_the_attribute_is_one() -> None:
    declared = {"seen": "timestamp"}
    assert rows("seen >= '2026-03-01'", declared) == rows("seen >= TIMESTAMP('2026-03-01T00:00:00Z')", declared)
    with pytest.raises(ValueTypeError, match="attribute 'seen': expected a timestamp, got 'soon'"):
        rows("seen = 'soon'", declared)


def test_an_infinite_end_leaves_the_type_to_the_other_end() -> None:
    for text in ("t BETWEEN -INF AND TIMESTAMP('2026-03-01')", "t <= TIMESTAMP('2026-03-01')"):
        schema = Schema()
        ((predicate,),) = [row.predicates for row in normalise(parse(text), schema)]
        assert isinstance(predicate, Holds)
        assert predicate.keys.hull == (-math.inf, 1_772_323_200_000_000.0)
        assert schema.find("t").type == "timestamp"


# places


def test_a_box_may_cross_the_antimeridian() -> None:
    box = "BBOX(place, 170, -10, -170, 10)"
    assert [matches(box, (lon, 0.0)) for lon in (175, 180, -180, -175, 0, 169, -169)] == [True] * 4 + [False] * 3
    assert [matches(f"NOT ({box})", (lon, 0.0)) for lon in (175, 180, -180, -175, 0)] == [False] * 4 + [True]


def test_the_antimeridian_belongs_to_the_boxes_on_both_its_sides() -> None:
    for lon in (180.0, -180.0):
        assert matches("BBOX(place, 170, -10, 180, 10)", (lon, 0.0))
        assert matches("BBOX(place, -180, -10, -170, 10)", (lon, 0.0))
        assert not matches("NOT (BBOX(place, 170, -10, 180, 10))", (lon, 0.0))


def test_a_box_may_reach_the_poles() -> None:
    assert matches("BBOX(place, -180, 80, 180, 90)", (12.0, 90.0))
    assert not matches("NOT (BBOX(place, -180, 80, 180, 90))", (12.0, 90.0))
    assert matches("NOT (BBOX(place, -180, 80, 180, 90))", (12.0, -90.0))


def test_the_outside_of_a_box_is_two_alternatives_within_the_earth() -> None:
    beside, beyond = (row.predicates[0] for row in rows("NOT (BBOX(p, 0, 10, 1, 20))"))
    assert beside == Placed("p", 1.0, LONGITUDES - closed(0, 1), EVERYTHING)
    assert beyond == Placed("p", 1.0, EVERYTHING, LATITUDES - closed(10, 20))


def test_circles_at_the_poles_and_across_the_antimeridian_hold_what_is_near() -> None:
    assert matches("DWITHIN(place, POINT(0 89.99), 5 km)", (180.0, 89.99))
    assert matches("DWITHIN(place, POINT(0 -90), 5 km)", (77.0, -89.99))
    assert matches("DWITHIN(place, POINT(179.99 0), 5 km)", (-179.99, 0.0))
    assert not matches("DWITHIN(place, POINT(179.99 0), 5 km)", (-179.9, 0.0))


def test_the_outside_of_a_circle_is_what_its_inside_is_not() -> None:
    near, far = (-73.98, 40.7501), (-73.98, 40.77)
    circle = "DWITHIN(place, POINT(-73.98 40.75), 1 km)"
    assert [matches(circle, near), matches(circle, far)] == [True, False]
    assert [matches(f"NOT ({circle})", near), matches(f"NOT ({circle})", far)] == [False, True]
    ring = f"DWITHIN(place, POINT(-73.98 40.75), 3 km) AND NOT ({circle})"
    assert [matches(ring, near), matches(ring, far)] == [False, True]
    assert not matches(f"NOT ({circle}) AND {circle}", near)


def test_a_square_reaches_further_than_its_circle_at_the_corner() -> None:
    corner = (-73.97, 40.757)
    assert matches("DWITHIN(place, POINT(-73.98 40.75), 1 km, SQUARE)", corner)
    assert not matches("DWITHIN(place, POINT(-73.98 40.75), 1 km)", corner)


def test_places_of_one_attribute_meet_in_one_predicate() -> None:
    found = only("DWITHIN(p, POINT(0 0), 1 km) AND BBOX(p, 0, 0, 1, 1) ^2 AND DWITHIN(p, POINT(0 0), 1 km)")
    assert found.weight == 4.0
    assert len(found.circles) == 1
    assert found.lon.hull[0] == 0.0
    assert found.circles[0].centre == Point(0.0, 0.0)
