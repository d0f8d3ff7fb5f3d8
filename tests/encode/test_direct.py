"""Texts straight to entries: the same arrays, schema and errors as by parsing and normalising."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood.encode import direct
from matchwood.encode.arrays import Rows
from matchwood.encode.objects import RowsBuilder, decode_rows
from matchwood.errors import MatchwoodError
from matchwood.lang.expression import all_of
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.rows import normalise
from matchwood.schema import Point, Schema
from tests.strategies import expressions
from tests.worlds import TYPES, Dice, a_predicate, an_expression, seeded_dice

CONSTANTS = [
    *(
        "0",
        "-0",
        "1",
        "-1.5",
        "7",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "1e16",
        "1e999",
        "5e-324",
    ),
    *("4503599627370495.5", "0.1", "0.10000000000000002", "'free'", "'pro'", "'it''s'", "''", "'new'", "-3"),
]
SHAPES = [
    "age BETWEEN {} AND {} AND credit > {} AND plan IN ({}, {}) ^{}",
    "age = {} ^{} AND plan = {}",
    "age != {} AND plan != {} ^{}",
    "{} < age AND {} >= credit",
    "plan IN ({}, {}, {}) AND age IN ({}, {}, {})",
    "age IN ({})",
    "age NOT IN ({}, {}) AND credit NOT BETWEEN {} AND {}",
    "age > {} AND age < {}",
    "age > {} OR credit < {}",
    "plan IS NULL AND age IS NOT NULL ^{} AND vip = TRUE AND new = {}",
    "seen > TIMESTAMP({}) AND age <= {}",
    "DWITHIN(place, POINT({} {}), {} km) AND age >= {}",
    "NOT (BBOX(place, {}, {}, {}, {})) AND age = {}",
    "BBOX(place, {}, {}, {}, {}) ^{}",
    '"age" = {} AND credit = {}',
    "vip = {} AND flag = FALSE AND credit > -INF",
    "age > {} AND (plan = {} ^{} OR credit < {}) AND (vip = TRUE OR seen > TIMESTAMP({}))",
    "age > {} AND plan = {} OR age > {} AND plan = {} OR vip = TRUE",
    "(age = {} OR plan = {}) AND (age = {} OR credit = {})",
    "age = {} OR age = {} OR plan = {} AND credit != {}",
    "plan = {} AND (DWITHIN(place, POINT({} {}), {} km) OR age IN ({}, {}) OR credit > {} AND vip = FALSE)",
]
DECLARED = {**TYPES, "credit": "number"}


def outcome(
    text: str, schema: Schema, *, general: bool, circle: DWithin | None = None, limits: Limits = DEFAULT_LIMITS
) -> Rows | str:
    builder = RowsBuilder(schema)
    try:
        if general:
            tree = parse(text, limits=limits)
            tree = tree if circle is None else all_of(tree, circle)
            builder.add(7, 0.5, normalise(tree, schema, limits=limits), until=3.0)
        else:
            builder.add_text(7, 0.5, text, circle=circle, until=3.0, limits=limits)
    except MatchwoodError as error:
        return f"{type(error).__name__}: {error}"
    return builder.build()


def assert_equal(found: Rows | str, expected: Rows | str) -> None:
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
        return
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert found.weight.tobytes() == expected.weight.tobytes()
    assert found.lo.tobytes() == expected.lo.tobytes()
    np.testing.assert_array_equal(found.until, expected.until)


def assert_same(texts: list[str], types: dict[str, str] | None) -> None:
    """Read by both ways, one text after the other under one schema; a refused one ends the comparison."""
    ours, theirs = Schema(types), Schema(types)
    for text in texts:
        expected = outcome(text, theirs, general=True)
        assert_equal(outcome(text, ours, general=False), expected)
        if isinstance(expected, str):
            return
        assert ours.to_json() == theirs.to_json()


@given(st.data(), st.sampled_from([None, DECLARED]))
@settings(max_examples=400, deadline=None)
def test_usual_and_unusual_constants_of_many_shapes(data: st.DataObject, types: dict[str, str] | None) -> None:
    shapes = data.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    usual = st.sampled_from(["1", "2.5", "30", "'pro'", "'free'"])
    assert_same(
        [
            shape.format(*(data.draw(usual | st.sampled_from(CONSTANTS)) for _ in range(shape.count("{}"))))
            for shape in shapes
        ],
        types,
    )


@given(expressions(("age", "plan", "vip", "place"), max_leaves=4))
@settings(max_examples=200, deadline=None)
def test_any_expression(expression: object) -> None:
    assert_same([str(expression)] * 2, None)


@pytest.mark.parametrize("seed", range(60))
def test_conjunctions_of_any_predicates_of_a_schema(seed: int) -> None:
    dice = seeded_dice(seed)
    texts = [" AND ".join(str(a_predicate(dice, [name])) for name in names(dice)) for _ in range(10)]
    assert_same([*texts, str(an_expression(dice))], TYPES)


@pytest.mark.parametrize("seed", range(30))
def test_a_text_and_a_circle_beside_it(seed: int) -> None:
    dice = seeded_dice(seed)
    draw = random.Random(seed)
    ours, theirs = Schema(), Schema()
    for _ in range(20):
        word = draw.choice([" AND ", " OR "])
        text = word.join(str(a_predicate(dice, [name])) for name in names(dice))
        centre = Point(
            draw.choice([0.0, 179.9, -180.0, draw.uniform(-180, 180)]), draw.choice([89.9, -90.0, 0.0, 52.5])
        )
        circle = DWithin("place", 1.0, centre=centre, radius=draw.choice([1e-3, 500.0, 1e6, 3e7]))
        expected = outcome(text, theirs, general=True, circle=circle)
        assert_equal(outcome(text, ours, general=False, circle=circle), expected)
        if isinstance(expected, str):
            ours, theirs = Schema(), Schema()
        else:
            assert ours.to_json() == theirs.to_json()


def test_a_usual_text_with_a_circle_is_read_without_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema({"age": "number", "place": "point"})
    circle = DWithin("place", 1.0, centre=Point(10.0, 59.0), radius=400.0)
    expected = outcome("age < 30", schema, general=True, circle=circle)
    monkeypatch.setattr("matchwood.encode.objects.parse", None)
    assert_equal(outcome("age < 30", schema, general=False, circle=circle), expected)


@pytest.mark.parametrize("seed", range(30))
def test_alternatives_of_any_predicates_of_a_schema(seed: int) -> None:
    dice = seeded_dice(seed)

    def joined(depth: int) -> str:
        if not depth:
            return str(a_predicate(dice, [dice.one(list(TYPES))]))
        word = " AND " if dice.chance(2) else " OR "
        return "(" + word.join(joined(depth - 1) for _ in range(1 + dice.below(3))) + ")"

    assert_same([joined(2) for _ in range(10)], TYPES)


def names(dice: Dice) -> list[str]:
    return [name for name in TYPES if dice.chance(3)] or ["age"]


def test_the_usual_text_is_read_without_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema({"age": "number", "credit": "number", "plan": "string", "vip": "bool", "place": "point"})
    text = "age BETWEEN 22 AND 36 AND credit > 650 ^2 AND plan IN ('pro','trial') ^0.5 AND vip = TRUE AND place IS NULL"
    expected = outcome(text, schema, general=True)
    either = f"age > 3 AND ({text} OR vip = FALSE ^0.3)".replace("age BETWEEN 22 AND 36 AND ", "")
    alternatives = outcome(either, schema, general=True)
    monkeypatch.setattr("matchwood.encode.objects.parse", None)
    assert_equal(outcome(text, schema, general=False), expected)
    assert_equal(outcome(either, schema, general=False), alternatives)


def test_limits_hold_for_texts_that_have_a_program() -> None:
    schema = Schema({"age": "number", "credit": "number"})
    for limits in (Limits(max_length=5), Limits(max_entries=1), Limits(max_rows=1)):
        text = "age > 1 AND age IN (1, 2, 3)" if limits.max_rows > 1 else "age > 1 OR age IN (1, 2, 3) AND credit = 1"
        found = outcome(text, schema, general=False, limits=limits)
        assert isinstance(found, str)
        assert found.startswith("TooComplexError")


def test_an_integer_of_too_many_digits_is_refused_as_by_the_grammar() -> None:
    schema = Schema({"age": "number"})
    found = outcome(f"age = {'0' * 5000}1", schema, general=False)
    assert found == outcome(f"age = {'0' * 5000}1", schema, general=True)
    assert isinstance(found, str)


def test_shapes_that_are_too_long_are_not_kept() -> None:
    direct._program.cache_clear()
    builder = RowsBuilder(Schema())
    builder.add_text(0, 0.0, " OR ".join(f"a{n} = 1" for n in range(900)))
    assert direct._program.cache_info().currsize == 0


@pytest.mark.parametrize("count", [3, 64, 65, 300, 40_000])
def test_lists_of_any_length(count: int) -> None:
    rng = np.random.default_rng(count)
    numbers = rng.integers(-(10**9), 10**9, count).tolist()
    words = [f"'w{n}'" for n in numbers]
    for values in (numbers, words, [n / 8 for n in numbers]):
        text = f"x IN ({', '.join(map(str, values))}) ^0.5 AND y > 3"
        assert_same([text, text, f"y = 1 AND x NOT IN ({', '.join(map(str, values))})"], None)
    schema = Schema()
    builder = RowsBuilder(schema)
    rows = normalise(parse(f"b = 1 AND x IN ({', '.join(words)}) AND c = 2 OR d = 1"), schema)
    builder.add(3, 0.0, rows)
    builder.add(4, 0.0, normalise(parse("c = 2"), schema))
    assert decode_rows(builder.build(), schema) == [*rows, *normalise(parse("c = 2"), schema)]
    assert builder.build().size == 3
