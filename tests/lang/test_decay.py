"""DECAY: how it is written, what it means, and what is refused."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood import attr, decay, geo
from matchwood.convert import WRITERS
from matchwood.errors import ConversionError, ExpressionError, MatchwoodError, ParseError
from matchwood.lang.decay import Curve, Decay, Distance
from matchwood.lang.describe import describe_rows
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.moving import moved
from matchwood.lang.parser import parse
from matchwood.lang.row import Holds
from matchwood.lang.rows import normalise
from matchwood.schema import Point, Range, Schema
from tests.worlds import World, worlds

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TEXTS = [
    "price <= 300 ^2.0 DECAY(LINEAR, ORIGIN 100, SCALE 200)",
    "price > 3.5 DECAY(EXP, ORIGIN 10.5, SCALE 2, OFFSET 1, TO 0.25)",
    "price BETWEEN 1 AND 3 DECAY(GAUSS, ORIGIN 2, SCALE 1)",
    "price NOT IN (1, 2) ^0.0 DECAY(GAUSS, ORIGIN 2, SCALE 1)",
    "price IS NOT NULL DECAY(LINEAR, ORIGIN 2, SCALE 1, TO 0.0)",
    "DWITHIN(place, POINT(-73.98 40.75), 1000.0 m) ^5.0 DECAY",
    "DWITHIN(place, POINT(-73.98 40.75), 1000.0 m, SQUARE) DECAY(EXP)",
    "DWITHIN(place, POINT(-73.98 40.75), 1000.0 m) DECAY(EXP, ORIGIN POINT(-73.9 40.7), SCALE 2 km, OFFSET 10 ft)",
    "BBOX(place, 1.0, 2.0, 3.0, 4.0) DECAY(GAUSS, ORIGIN POINT(2.0 3.0), SCALE 1 nmi)",
    "S_WITHIN(place, POLYGON((0.0 0.0, 2.0 0.0, 2.0 2.0, 0.0 0.0))) DECAY(EXP, ORIGIN POINT(1.0 1.0), SCALE 5 km)",
    "seen >= TIMESTAMP('2026-01-31T00:00:00Z') DECAY(EXP, ORIGIN TIMESTAMP('2026-01-31T12:00:00Z'), SCALE 6 h)",
    "NOT (price > 3 ^2.0 DECAY(LINEAR, ORIGIN 1, SCALE 2)) AND a = 1",
]


def score(text: str, event: dict[str, Any], types: dict[str, str] | None = None, **options: Any) -> float | None:
    schema = Schema(types)
    rows = normalise(parse(text), schema)
    return judge(rows, event_keys(event, schema), **options).score


# forms


@pytest.mark.parametrize("text", TEXTS)
def test_text_json_and_rows_come_back_as_they_were(text: str) -> None:
    expression = parse(text)
    assert str(expression) == text
    assert from_json(json.loads(json.dumps(to_json(expression)))) == expression
    schema = Schema()
    rows = normalise(expression, schema)
    assert normalise(parse(describe_rows(rows, schema)), schema) == rows


@given(worlds(subscriptions=3, events=0, grades=True))
@settings(max_examples=40)
def test_graded_expressions_of_any_world_come_back(world: World) -> None:
    for _, expression, rows in world.subscriptions.values():
        assert parse(str(expression)) == expression
        assert from_json(json.loads(json.dumps(to_json(expression)))) == expression
        for row in rows:
            again = normalise(parse(describe_rows((row,), world.schema)), world.schema)
            assert [getattr(p, "grades", ()) for p in again[0].predicates] == [
                getattr(p, "grades", ()) for p in row.predicates
            ]
            assert [p.weight for p in again[0].predicates] == [p.weight for p in row.predicates]


def test_short_forms() -> None:
    circle = "DWITHIN(place, POINT(1 2), 1 km) ^5"
    assert parse(f"{circle} DECAY") == parse(f"{circle} decay linear") == parse(f"{circle} DECAY(LINEAR)")
    assert parse(f"{circle} DECAY EXP") == parse(f"{circle} DECAY(exp)")


def test_the_builder_makes_the_same_trees() -> None:
    pairs = [
        ((attr("price", weight=2) <= 300).decay(origin=100, scale=200), TEXTS[0]),
        ((attr("price") > 3.5).decay("exp", origin=10.5, scale=2, offset=1, to=0.25), TEXTS[1]),
        (attr("place", weight=5).within((-73.98, 40.75), (1, "km")).decay(), TEXTS[5]),
        (
            attr("place").in_box(1, 2, 3, 4).decay(Curve.GAUSS, origin=(2, 3), scale=(1, "nmi")),
            TEXTS[8],
        ),
    ]
    for built, text in pairs:
        assert built == parse(text)
    recent = (attr("seen") >= datetime(2026, 1, 31)).decay("exp", origin=NOON, scale=timedelta(hours=6))
    assert recent.grade == Decay(Curve.EXP, NOON, Distance(21600.0, "s"))
    assert ((attr("price") <= 300).decay(origin=100, scale=200) ^ 2) == parse(TEXTS[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x <= 3 DECAY", "DECAY needs ORIGIN"),
        ("x <= 3 DECAY(LINEAR, ORIGIN 1)", "DECAY needs SCALE"),
        ("x <= 3 DECAY STEP", "expected AND, OR or"),
        ("x <= 3 DECAY(STEP)", "expected LINEAR, EXP or GAUSS after DECAY, got 'STEP'"),
        ("x <= 3 DECAY(LINEAR, MIDDLE 3)", "expected ORIGIN, SCALE, OFFSET or TO in DECAY, got 'MIDDLE'"),
        ("x <= 3 DECAY(LINEAR, TO 0.1, TO 0.2)", "TO stands twice"),
        ("x <= 3 DECAY(LINEAR, ORIGIN 1, SCALE 0)", "expected a finite scale above 0, got 0"),
        ("x <= 3 DECAY(LINEAR, ORIGIN 1, SCALE 1, OFFSET -1)", "expected a finite offset of at least 0, got -1"),
        ("x <= 3 DECAY(LINEAR, ORIGIN 1, SCALE 1, TO 1)", "0 or more and less than 1 after TO, got 1"),
        ("x <= 3 DECAY(EXP, ORIGIN 1, SCALE 1, TO 0)", "more than 0 and less than 1 after TO, got 0"),
        ("x <= 3 DECAY(LINEAR, ORIGIN INF, SCALE 1)", "expected a finite number"),
        ("x <= 3 DECAY(LINEAR, ORIGIN 'a', SCALE 1)", "expected a finite number"),
        ("x <= 3 DECAY(LINEAR, ORIGIN 1, SCALE 1 parsec)", "expected one of the units m, km"),
        ("A_CONTAINS(x, (1)) DECAY(LINEAR, ORIGIN 1, SCALE 1)", "DECAY is for comparisons"),
        ("ANY(x) = 1 DECAY(LINEAR, ORIGIN 1, SCALE 1)", "DECAY is for comparisons"),
        ("(x = 1 AND y = 1) DECAY(LINEAR, ORIGIN 1, SCALE 1)", "DECAY belongs to a predicate"),
        ("x = 1 DECAY(LINEAR, ORIGIN 1, SCALE 1) ^2", "a weight belongs to a predicate and stands once"),
    ],
)
def test_a_bad_decay_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("(", r"\(").replace(")", r"\)")):
        parse(text)


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        ("s = 'a' DECAY(LINEAR, ORIGIN 1, SCALE 1)", {"s": "string"}, "a string has no distances"),
        ("b = TRUE DECAY(LINEAR, ORIGIN 1, SCALE 1)", {"b": "bool"}, "a bool has no distances"),
        ("x < 3 DECAY(LINEAR, ORIGIN POINT(1 2), SCALE 1)", {"x": "number"}, "'x'"),
        ("x < 3 DECAY(LINEAR, ORIGIN 1, SCALE 1 km)", {"x": "number"}, "expected a number without a unit, got 1 km"),
        ("p IS NOT NULL DECAY(LINEAR, ORIGIN POINT(1 2), SCALE 1 h)", {"p": "point"}, "expected a length"),
        ("t IS NOT NULL DECAY(LINEAR, ORIGIN DATE('2026-01-31'), SCALE 5)", None, "expected a time"),
        ("x IS NULL DECAY(LINEAR, ORIGIN 1, SCALE 1)", None, "an absent one has no distance"),
        ("NOT (x IS NOT NULL DECAY(LINEAR, ORIGIN 1, SCALE 1))", None, "an absent one has no distance"),
        ("DWITHIN(p, POINT(1 2), 1 km) DECAY(LINEAR, OFFSET 1 km)", None, "not below the radius"),
        ("x < 3 ^1e308 DECAY(LINEAR, ORIGIN 1, SCALE 1) AND x > 1 ^1e308", None, "exceeds float64"),
    ],
)
def test_a_decay_that_does_not_fit_its_attribute_is_refused(
    text: str, types: dict[str, str] | None, message: str
) -> None:
    with pytest.raises(MatchwoodError, match=message):
        normalise(parse(text), Schema(types))


@pytest.mark.parametrize(
    ("decay_", "message"),
    [
        ([], r"\$\.decay: expected an object"),
        ({"curve": "step"}, r"\$\.decay\.curve: expected one of linear, exp, gauss"),
        ({"middle": 1}, r"\$\.decay\.middle: unknown key"),
        ({"origin": "x", "scale": 1}, r"\$\.decay\.origin: expected a number"),
        ({"origin": 1, "scale": {"value": 1}}, r"\$\.decay\.scale: expected a number or"),
        ({"origin": 1, "scale": -1}, r"\$\.decay: DECAY: expected a finite scale above 0"),
        ({"origin": 1}, r"\$: attribute 'x': DECAY needs SCALE"),
    ],
)
def test_a_bad_decay_in_json_is_refused_with_its_place(decay_: object, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        from_json({"op": "<=", "args": [{"property": "x"}, 3], "decay": decay_})


def test_other_languages_cannot_say_it() -> None:
    for write in WRITERS.values():
        with pytest.raises(ConversionError, match="DECAY"):
            write(parse(TEXTS[0]))


# meaning


@pytest.mark.parametrize(
    ("decay_", "price", "expected"),
    [
        ("LINEAR, ORIGIN 100, SCALE 200", 100, 2.0),
        ("LINEAR, ORIGIN 100, SCALE 200", 200, 1.0),
        ("LINEAR, ORIGIN 100, SCALE 200", 300, 0.0),
        (
            "LINEAR, ORIGIN 100, SCALE 200",
            40,
            2.0,
        ),  # cheaper than the origin is best too: the predicate has an upper end only
        ("LINEAR, ORIGIN 400, SCALE 200", 300, 2.0),
        ("LINEAR, ORIGIN 100, SCALE 100", 300, 0.0),
        ("LINEAR, ORIGIN 100, SCALE 100, TO 0.5", 200, 1.0),
        ("LINEAR, ORIGIN 100, SCALE 100, OFFSET 50", 200, 1.0),
        ("EXP, ORIGIN 100, SCALE 100", 200, 1.0),
        ("EXP, ORIGIN 100, SCALE 100", 300, 0.5),
        ("EXP, ORIGIN 100, SCALE 100, TO 0.25", 200, 0.5),
        ("GAUSS, ORIGIN 100, SCALE 100", 200, 1.0),
        ("GAUSS, ORIGIN 100, SCALE 100", 300, 0.125),
    ],
)
def test_the_weight_counts_by_closeness(decay_: str, price: float, expected: float) -> None:
    assert score(f"price <= 300 ^2 DECAY({decay_})", {"price": price}) == expected


def test_the_predicate_still_filters() -> None:
    assert score("price <= 300 DECAY(LINEAR, ORIGIN 100, SCALE 900)", {"price": 301}) is None
    assert score("price <= 300 DECAY(LINEAR, ORIGIN 100, SCALE 900)", {}) is None


@pytest.mark.parametrize(
    ("condition", "below", "above"),
    [
        ("x < 9", 1.0, 0.5),
        ("x >= 1", 0.5, 1.0),
        ("NOT (x < 1)", 0.5, 1.0),
        ("x BETWEEN 1 AND 9", 0.5, 0.5),
        ("x IN (3, 5, 7)", 0.5, 0.5),
        ("x IS NOT NULL", 0.5, 0.5),
        ("x != 2", 0.5, 0.5),
    ],
)
def test_closeness_is_one_sided_where_the_predicate_is(condition: str, below: float, above: float) -> None:
    text = f"{condition} DECAY(LINEAR, ORIGIN 5, SCALE 4)".replace(") DECAY", " DECAY")
    if condition.startswith("NOT"):
        text = "NOT (x < 1 DECAY(LINEAR, ORIGIN 5, SCALE 4))"
    elif condition.endswith(")"):
        text = f"{condition} DECAY(LINEAR, ORIGIN 5, SCALE 4)"
    assert (score(text, {"x": 3}), score(text, {"x": 7})) == (below, above)


def test_of_lists_and_ranges_the_best_value_that_meets_the_predicate_counts() -> None:
    text = "x <= 10 DECAY(LINEAR, ORIGIN 0, SCALE 10) AND x > 3"
    assert score(text, {"x": [1, 5, 8, 12]}) == 1.5  # 5; not 1, for which x > 3 does not hold
    assert score(text, {"x": Range(2, 8)}) == pytest.approx(1.7)
    assert score("x BETWEEN 1 AND 2 DECAY(LINEAR, ORIGIN 5, SCALE 4)", {"x": Range(0, 9)}) == 0.25


def test_weights_and_grades_on_one_attribute_add_up() -> None:
    text = "x >= 0 ^1 AND x <= 10 ^2 DECAY(LINEAR, ORIGIN 0, SCALE 10) AND x != 3 ^4 DECAY(LINEAR, ORIGIN 10, SCALE 10)"
    (row,) = normalise(parse(text), Schema())
    (predicate,) = row.predicates
    assert isinstance(predicate, Holds)
    assert (predicate.weight, [grade.weight for grade in predicate.grades]) == (1.0, [2.0, 4.0])
    assert score(text, {"x": 5}) == 1.0 + 1.0 + 2.0


def test_places_are_graded_by_metres() -> None:
    text = "DWITHIN(place, POINT(10 50), 1000 m) ^4 DECAY"
    north = 50 + 500 / (geo.EARTH_RADIUS_M * geo.RADIANS_PER_DEGREE)
    assert score(text, {"place": Point(10, 50)}) == 4.0
    assert score(text, {"place": Point(10, north)}) == pytest.approx(2.0, abs=1e-6)
    assert score(text, {"place": Point(11, 50)}) is None


def test_instants_are_graded_by_time() -> None:
    text = "seen >= DATE('2026-01-01') DECAY(EXP, ORIGIN TIMESTAMP('2026-01-31T12:00:00Z'), SCALE 6 h)"
    assert score(text, {"seen": NOON - timedelta(hours=12)}) == 0.25
    assert score(text, {"seen": NOON + timedelta(hours=12)}) == 1.0


def test_an_optional_grade_prefers_without_requiring() -> None:
    text = "a = 1 AND (DWITHIN(place, POINT(10 50), 1 km) ^4 DECAY OR TRUE)"
    assert score(text, {"a": 1, "place": Point(10, 50)}) == 5.0
    assert score(text, {"a": 1, "place": Point(20, 50)}) == score(text, {"a": 1}) == 1.0


def test_in_mode_any_a_grade_counts_where_its_predicate_holds() -> None:
    text = "a = 1 AND x <= 10 ^2 DECAY(LINEAR, ORIGIN 0, SCALE 10)"
    assert score(text, {"a": 2, "x": 5}, mode="any") == 1.0
    assert score(text, {"a": 1, "x": 50}, mode="any") == 1.0


def test_a_circle_takes_its_grade_along_when_it_moves() -> None:
    schema = Schema()
    rows = normalise(parse("DWITHIN(place, POINT(10 50), 1 km) ^4 DECAY"), schema)
    there = normalise(parse("DWITHIN(place, POINT(11 51), 1 km) ^4 DECAY"), schema)
    assert moved(rows, "place", Point(11, 51)) == there
    apart = normalise(parse("DWITHIN(place, POINT(10 50), 1 km) DECAY(LINEAR, ORIGIN POINT(9 50), SCALE 5 km)"), schema)
    (grade,) = moved(apart, "place", Point(11, 51))[0].predicates[0].grades  # type: ignore[union-attr]
    assert grade.best == (9.0, 50.0)
    box = normalise(parse("BBOX(place, 1, 2, 3, 4) DECAY(LINEAR, ORIGIN POINT(2 3), SCALE 5 km)"), schema)
    with pytest.raises(ExpressionError, match="no single centre"):
        moved(box, "place", Point(11, 51))


# arithmetic


@given(st.floats(0, 2000))
def test_half_powers_are_powers(exponent: float) -> None:
    assert decay.half_power(exponent) == pytest.approx(2.0**-exponent, rel=1e-14, abs=1e-300)


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_the_rate_of_a_curve_is_a_logarithm(to: float) -> None:
    rate = decay.rate_of(decay.EXPONENTIAL, to)
    assert rate > 0.0
    assert rate == pytest.approx(-math.log2(to), rel=1e-13)


@given(
    st.sampled_from([decay.LINEAR, decay.EXPONENTIAL, decay.GAUSSIAN]),
    st.floats(0, math.inf),
    st.floats(0, exclude_min=True, allow_infinity=False),
    st.floats(0, 1e300),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
)
def test_closeness_is_between_0_and_1(curve: int, distance: float, scale: float, offset: float, to: float) -> None:
    assert 0.0 <= decay.closeness(curve, distance, scale, offset, decay.rate_of(curve, to)) <= 1.0


@given(st.floats(-180, 180), st.floats(-89, 89), st.floats(-180, 180), st.floats(-89, 89))
def test_distances_are_great_circles(x: float, y: float, u: float, v: float) -> None:
    lon, lat, lon2, lat2 = map(math.radians, (x, y, u, v))
    square = math.sin((lat2 - lat) / 2) ** 2 + math.cos(lat) * math.cos(lat2) * math.sin((lon2 - lon) / 2) ** 2
    expected = 2 * geo.EARTH_RADIUS_M * math.asin(math.sqrt(min(square, 1.0)))
    assert geo.distance(x, y, *geo.unit_vector(u, v), math.sqrt) == pytest.approx(expected, abs=1.0, rel=1e-6)
