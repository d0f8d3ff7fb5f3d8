"""JSON in CQL2's shapes: nothing is lost on the way through it, CQL2's own writing is understood, and errors name the path."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given

from matchwood.errors import ExpressionError, TooComplexError
from matchwood.lang.builder import attr
from matchwood.lang.expression import MAX_DEPTH, Expression, Not
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.parser import parse
from tests.strategies import expressions

AGE: dict[str, Any] = {"property": "age"}


@given(expressions())
def test_an_expression_survives_json(expression: Expression) -> None:
    text = json.dumps(to_json(expression), allow_nan=False)
    assert repr(from_json(json.loads(text))) == repr(expression)


@given(expressions())
def test_text_and_json_say_the_same(expression: Expression) -> None:
    assert to_json(parse(str(expression))) == to_json(expression)
    assert str(from_json(to_json(expression))) == str(expression)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("age = 31", {"op": "=", "args": [AGE, 31]}),
        ("age != 31 ^0.4", {"op": "<>", "args": [AGE, 31], "weight": 0.4}),
        ("age >= INF", {"op": ">=", "args": [AGE, {"number": "inf"}]}),
        ("age BETWEEN 1 AND -INF", {"op": "between", "args": [AGE, 1, {"number": "-inf"}]}),
        ("age IN (1, 'x', TRUE)", {"op": "in", "args": [AGE, [1, "x", True]]}),
        ("age IS NULL", {"op": "isNull", "args": [AGE]}),
        ("age IS NOT NULL ^2", {"op": "not", "args": [{"op": "isNull", "args": [AGE], "weight": 2.0}]}),
        ("age NOT IN (1)", {"op": "not", "args": [{"op": "in", "args": [AGE, [1]]}]}),
        ("NOT (age IN (1))", {"op": "not", "args": [{"op": "in", "args": [AGE, [1]]}], "prefix": True}),
        ("NOT (age = 1)", {"op": "not", "args": [{"op": "=", "args": [AGE, 1]}]}),
        ("age < DATE('2026-01-31')", {"op": "<", "args": [AGE, {"timestamp": "2026-01-31T00:00:00Z"}]}),
        ("TRUE", True),
        ("age = 1 AND FALSE", {"op": "and", "args": [{"op": "=", "args": [AGE, 1]}, False]}),
        (
            "DWITHIN(age, POINT(1 2), 1 km, SQUARE)",
            {
                "op": "s_dwithin",
                "args": [AGE, {"type": "Point", "coordinates": [1.0, 2.0]}, 1000.0],
                "shape": "square",
            },
        ),
        ("BBOX(age, 1, 2, 3, 4)", {"op": "s_intersects", "args": [AGE, {"bbox": [1.0, 2.0, 3.0, 4.0]}]}),
    ],
)
def test_json_is_written_as_cql2_writes_it(text: str, written: object) -> None:
    assert to_json(parse(text)) == written
    assert repr(from_json(written)) == repr(parse(text))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"op": "!=", "args": [AGE, 31]}, "age != 31"),
        ({"op": "<", "args": [5, AGE]}, "age > 5"),
        ({"op": "=", "args": [AGE, {"date": "2026-01-31"}]}, "age = DATE('2026-01-31')"),
        (
            {"op": "=", "args": [AGE, {"timestamp": "2026-01-31T12:00:00+01:00"}]},
            "age = TIMESTAMP('2026-01-31T11:00:00Z')",
        ),
        ({"op": "and", "args": [{"op": "isNull", "args": [AGE]}]}, "age IS NULL"),
        ({"op": "or", "args": [True, {"op": "or", "args": [False, True]}]}, "TRUE OR FALSE OR TRUE"),
        ({"op": "not", "args": [{"op": "not", "args": [{"op": "isNull", "args": [AGE]}]}]}, "NOT (age IS NOT NULL)"),
        ({"args": (AGE, (1, 2)), "op": "in"}, "age IN (1, 2)"),
    ],
)
def test_other_ways_of_writing_are_understood(value: object, text: str) -> None:
    assert repr(from_json(value)) == repr(parse(text))


def conjunction(part: object) -> dict[str, Any]:
    return {"op": "and", "args": [True, part]}


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ("age = 1", "$.args[1]", 'expected true, false or an object with "op" and "args"'),
        (None, "$.args[1]", "expected true, false or an object"),
        ({}, "$.args[1].op", "expected one of and, or, not"),
        ({"op": ["and"], "args": []}, "$.args[1].op", "expected one of and"),
        ({"op": "soundslike", "args": [AGE, "x%"]}, "$.args[1].op", "got 'soundslike'"),
        ({"op": "and"}, "$.args[1].args", "expected a list, got None"),
        ({"op": "and", "args": []}, "$.args[1].args", "at least one expression"),
        ({"op": "not", "args": [True, True]}, "$.args[1].args", "expected 1 argument of 'not', got 2"),
        ({"op": "=", "args": [AGE]}, "$.args[1].args", "expected 2 arguments of '=', got 1"),
        ({"op": "=", "args": [AGE, 1], "wieght": 2}, "$.args[1].wieght", "unknown key; '=' knows op, args, weight"),
        ({"op": "or", "args": [True], "weight": 2}, "$.args[1].weight", "unknown key"),
        ({"op": "not", "args": [True], "prefix": 1}, "$.args[1].prefix", "expected true or false"),
        ({"op": "=", "args": ["age", 1]}, "$.args[1].args[0]", 'expected {"property": NAME}'),
        ({"op": "isNull", "args": [{"property": 5}]}, "$.args[1].args[0]", 'expected {"property": NAME}'),
        ({"op": "=", "args": [AGE, None]}, "$.args[1].args[1]", "null is not a value"),
        ({"op": "=", "args": [AGE, AGE]}, "$.args[1].args[1]", "attributes cannot be compared"),
        ({"op": "=", "args": [AGE, [1]]}, "$.args[1].args[1]", "expected a number, string, boolean"),
        ({"op": "=", "args": [AGE, {"number": "nan"}]}, "$.args[1].args[1]", "expected a number"),
        ({"op": "=", "args": [AGE, {"number": ["inf"]}]}, "$.args[1].args[1]", "expected a number"),
        ({"op": "=", "args": [AGE, math.nan]}, "$.args[1]", "NaN is not a value"),
        ({"op": "=", "args": [AGE, {"timestamp": "noon"}]}, "$.args[1].args[1].timestamp", "2026-01-31T12:00:00Z"),
        ({"op": "=", "args": [AGE, {"date": "2026-02-30"}]}, "$.args[1].args[1].date", "expected a date"),
        ({"op": "between", "args": [AGE, 1, {}]}, "$.args[1].args[2]", "expected a number"),
        ({"op": "in", "args": [AGE, 5]}, "$.args[1].args[1]", "expected a list of values"),
        ({"op": "in", "args": [AGE, [1, None]]}, "$.args[1].args[1][1]", "null is not a value"),
        ({"op": "in", "args": [AGE, []]}, "$.args[1]", "at least one value"),
        ({"op": "=", "args": [{"property": ""}, 1]}, "$.args[1]", "cannot be empty"),
        ({"op": "=", "args": [AGE, 1], "weight": "x"}, "$.args[1].weight", "expected a number, got 'x'"),
        ({"op": "=", "args": [AGE, 1], "weight": True}, "$.args[1].weight", "expected a number"),
        ({"op": "=", "args": [AGE, 1], "weight": 10**400}, "$.args[1].weight", "within float64"),
        ({"op": "=", "args": [AGE, 1], "weight": -1}, "$.args[1]", "finite weight >= 0"),
        ({"op": "s_dwithin", "args": [AGE, [1, 2], 5]}, "$.args[1].args[1]", '"type": "Point"'),
        (
            {"op": "s_dwithin", "args": [AGE, {"type": "Point", "coordinates": [1, "2"]}, 5]},
            "$.args[1].args[1].coordinates[1]",
            "expected a number",
        ),
        ({"op": "s_dwithin", "args": [AGE, {"type": "Point", "coordinates": [1, 2]}, 0]}, "$.args[1]", "radius > 0"),
        (
            {"op": "s_dwithin", "args": [AGE, {"type": "Point", "coordinates": [1, 2]}, 5], "shape": "oval"},
            "$.args[1].shape",
            '"circle" or "square"',
        ),
        ({"op": "s_intersects", "args": [AGE, {"bbox": [1, 2, 3]}]}, "$.args[1].args[1].bbox", "a list of 4 numbers"),
        ({"op": "s_intersects", "args": [AGE, {"type": "Polygon"}]}, "$.args[1].args[1]", "no 'coordinates'"),
    ],
)
def test_an_error_names_the_path_and_what_was_expected(value: object, path: str, message: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        from_json(conjunction(value))
    assert str(raised.value).startswith(f"{path}: ")
    assert message in str(raised.value)


def test_no_depth_of_nesting_exhausts_the_stack() -> None:
    value: object = {"op": "isNull", "args": [AGE]}
    for _ in range(100_000):
        value = {"op": "not", "args": [value]}
    with pytest.raises(TooComplexError, match=f"more than {MAX_DEPTH} levels"):
        from_json(value)
    tree: Expression = parse("age = 1")
    for _ in range(100_000):
        tree = Not(tree)
    with pytest.raises(TooComplexError, match=f"more than {MAX_DEPTH} levels"):
        to_json(tree)


def test_a_value_nested_without_end_is_refused_like_any_other() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    for part in (value, {"op": value}, {"op": "and", "args": {"x": value}}, {"op": "=", "args": [AGE, value]}):
        with pytest.raises(ExpressionError, match="expected"):
            from_json(part)


def test_the_deepest_text_has_its_json() -> None:
    tree = parse("NOT " * (MAX_DEPTH - 1) + "age = 1")
    assert from_json(to_json(tree)) == tree


def test_only_expressions_are_written() -> None:
    with pytest.raises(ExpressionError, match="expected an expression, got 'age = 1'"):
        to_json("age = 1")  # type: ignore[arg-type]


def test_an_integer_too_long_to_be_written_is_refused_by_name() -> None:
    with pytest.raises(ExpressionError, match="bits is too large"):
        from_json({"op": "=", "args": [{"property": "a"}, 10**5000]})
    with pytest.raises(ExpressionError):
        from_json({"op": 10**5000, "args": []})
    with pytest.raises(ExpressionError, match="bits is too large"):
        attr("a") == 10**5000  # noqa: B015


A, B = {"property": "a"}, {"property": "b"}


@pytest.mark.parametrize(
    ("tree", "construct"),
    [
        ({"op": ">", "args": [{"op": "+", "args": [A, 1]}, 2]}, "arithmetic is not supported, got '\\+'"),
        ({"op": ">", "args": [A, {"op": "*", "args": [B, 1]}]}, "arithmetic is not supported"),
        ({"op": "=", "args": [A, B]}, "attributes cannot be compared with each other"),
        (
            {"op": "s_dwithin2", "args": [A, {"type": "Polygon"}]},
            "this spatial function is not supported, got 's_dwithin2'",
        ),
        ({"op": "avg", "args": [A]}, "functions are not supported, got 'avg'"),
        (
            {"op": "=", "args": [A, {"interval": ["..", "2026-01-31"]}]},
            "an interval is an argument of a temporal function",
        ),
    ],
)
def test_constructs_of_cql2_without_a_counterpart_are_refused_by_name(tree: object, construct: str) -> None:
    with pytest.raises(ExpressionError, match=construct):
        from_json(tree)
