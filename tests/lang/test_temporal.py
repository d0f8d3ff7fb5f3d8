"""Temporal functions: each against a definition of its own, on instants, ranges and lists, in every form and every index."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood import Engine, Range, attr, interval, parse
from matchwood.errors import ExpressionError, NeverMatchesError, ParseError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.expression import Expression, Not
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.rows import normalise
from matchwood.lang.temporal import Interval, Temporal, TemporalFunction
from matchwood.schema import Schema
from matchwood.structures import INDEXES

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
Moment = float
"""Minutes since `ORIGIN`, or an infinity."""

DEFINITIONS: dict[TemporalFunction, Callable[[Moment, Moment, Moment, Moment], bool]] = {
    TemporalFunction.AFTER: lambda a, b, c, d: a > d,
    TemporalFunction.BEFORE: lambda a, b, c, d: b < c,
    TemporalFunction.CONTAINS: lambda a, b, c, d: a < c and b > d,
    TemporalFunction.DISJOINT: lambda a, b, c, d: a > d or b < c,
    TemporalFunction.DURING: lambda a, b, c, d: a > c and b < d,
    TemporalFunction.EQUALS: lambda a, b, c, d: (a, b) == (c, d),
    TemporalFunction.FINISHED_BY: lambda a, b, c, d: a < c and b == d,
    TemporalFunction.FINISHES: lambda a, b, c, d: a > c and b == d,
    TemporalFunction.INTERSECTS: lambda a, b, c, d: a <= d and b >= c,
    TemporalFunction.MEETS: lambda a, b, c, d: b == c,
    TemporalFunction.MET_BY: lambda a, b, c, d: a == d,
    TemporalFunction.OVERLAPPED_BY: lambda a, b, c, d: c < a < d and b > d,
    TemporalFunction.OVERLAPS: lambda a, b, c, d: a < c and c < b < d,
    TemporalFunction.STARTED_BY: lambda a, b, c, d: a == c and b > d,
    TemporalFunction.STARTS: lambda a, b, c, d: a == c and b < d,
}


def at(minutes: Moment | None) -> datetime | None:
    return None if minutes is None or abs(minutes) == float("inf") else ORIGIN + timedelta(minutes=minutes)


def matches(tree: Expression, event: dict[str, Any]) -> float | None:
    """The score of an event by the oracle; None if it does not match."""
    schema = Schema()
    try:
        rows = normalise(tree, schema)
    except NeverMatchesError:
        return None
    return judge(rows, event_keys(event, schema)).score


moments = st.integers(0, 4).map(float)
spans = st.tuples(moments, moments).map(sorted)
open_spans = st.one_of(
    spans, moments.map(lambda end: [-float("inf"), end]), moments.map(lambda start: [start, float("inf")])
)


@given(st.sampled_from(TemporalFunction), spans, open_spans, st.booleans(), st.booleans())
def test_two_attributes_as_an_interval_mean_what_the_definition_says(
    function: TemporalFunction, event: list[float], ends: list[float], swapped: bool, negated: bool
) -> None:
    attributes, constant = Interval("s", "e"), Interval(at(ends[0]), at(ends[1]))
    tree: Expression = Temporal(function, *((constant, attributes) if swapped else (attributes, constant)), weight=0.5)
    expected = DEFINITIONS[function](*((*ends, *event) if swapped else (*event, *ends))) is not negated
    found = matches(Not(tree) if negated else tree, {"s": at(event[0]), "e": at(event[1])})
    assert found == (0.5 if expected else None)


@given(st.sampled_from(TemporalFunction), spans, open_spans, st.booleans(), st.booleans())
def test_a_range_is_an_interval(
    function: TemporalFunction, event: list[float], ends: list[float], swapped: bool, negated: bool
) -> None:
    constant = Interval(at(ends[0]), at(ends[1]))
    tree: Expression = Temporal(function, *((constant, "x") if swapped else ("x", constant)))
    expected = DEFINITIONS[function](*((*ends, *event) if swapped else (*event, *ends))) is not negated
    value = at(event[0]) if event[0] == event[1] else Range(at(event[0]), at(event[1]))
    assert matches(Not(tree) if negated else tree, {"x": value}) == (1.0 if expected else None)


@given(st.sampled_from(TemporalFunction), st.lists(moments, min_size=1, max_size=3), spans)
def test_a_list_goes_from_its_first_to_its_last_value_and_intersects_by_one_of_them(
    function: TemporalFunction, values: list[float], ends: list[float]
) -> None:
    tree = Temporal(function, "x", Interval(at(ends[0]), at(ends[1])))
    shares = any(ends[0] <= value <= ends[1] for value in values)
    by_values = {TemporalFunction.INTERSECTS: shares, TemporalFunction.DISJOINT: not shares}
    expected = by_values.get(function, DEFINITIONS[function](min(values), max(values), *ends))
    assert (matches(tree, {"x": [at(value) for value in values]}) is not None) is expected


@given(st.sampled_from(TemporalFunction), open_spans, open_spans)
def test_two_constants_hold_always_or_never(function: TemporalFunction, one: list[float], two: list[float]) -> None:
    tree = Temporal(function, Interval(at(one[0]), at(one[1])), Interval(at(two[0]), at(two[1])))
    assert (matches(tree, {}) is not None) is DEFINITIONS[function](*one, *two)


def test_an_absent_attribute_makes_a_temporal_function_false_and_its_negation_too() -> None:
    for text in ("T_AFTER(x, DATE('2026-01-31'))", "NOT T_AFTER(x, DATE('2026-01-31'))"):
        assert matches(parse(text), {}) is None


def test_text_python_and_json_make_the_same_tree() -> None:
    text = "T_DURING(INTERVAL(starts_at, \"ends at\"), INTERVAL('2026-01-31', '..')) ^0.4"
    tree = parse(text)
    assert tree == interval(attr("starts_at"), attr("ends at")).t_during(interval(date(2026, 1, 31), None)) ^ 0.4
    assert tree == parse(str(tree)) == from_json(to_json(tree))
    assert tree == from_json(
        {
            "op": "t_during",
            "args": [
                {"interval": [{"property": "starts_at"}, {"property": "ends at"}]},
                {"interval": ["2026-01-31T00:00:00Z", ".."]},
            ],
            "weight": 0.4,
        }
    )
    assert parse("T_AFTER(x, TIMESTAMP('2026-01-31T12:00:00Z'))") == attr("x").t_after("2026-01-31T12:00:00Z")


@pytest.mark.parametrize("function", TemporalFunction)
def test_every_function_can_be_written_in_every_form(function: TemporalFunction) -> None:
    tree = Temporal(function, "x", Interval(ORIGIN, None))
    method = "".join(f"_{c.lower()}" if c.isupper() else c for c in function.value)
    assert tree == getattr(attr("x"), method)(interval(ORIGIN, ".."))
    assert tree == parse(str(tree)) == from_json(to_json(tree))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T_AFTER(a, b)", "attributes cannot be compared with each other"),
        ("T_DURING(INTERVAL(a, '..'), INTERVAL('..', b))", "attributes cannot be compared with each other"),
        ("T_AFTER(a, '2026-01-31')", "write TIMESTAMP"),
        ("T_AFTER(a, 5)", "got a number"),
        ("T_AFTER(a, TRUE)", "got 'TRUE'"),
        ("T_DURING(a, INTERVAL('2026-02-01', '2026-01-31'))", "ends before it starts"),
        ("T_DURING(a, INTERVAL('soon', '..'))", "expected a timestamp"),
        ("T_DURING(a, INTERVAL(5, '..'))", "in INTERVAL, got a number"),
        ("T_DURING(a, INTERVAL('..'))", "expected , and an end"),
        ("T_DURING(a)", "expected , after the first argument of T_DURING"),
        ("T_AFTER(a, DATE('2026-01-31')) = TRUE", "comparisons do not chain"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"timestamp": "soon"}, r"\$.args\[1\].timestamp: expected a timestamp"),
        ({"interval": ["..", 5]}, r"\$.args\[1\].interval\[1\]: expected a timestamp"),
        ({"interval": [".."]}, r"\$.args\[1\]: expected a property"),
        ({"interval": [{"interval": ["..", ".."]}, ".."]}, r"interval\[0\]: expected a timestamp"),
        ("2026-01-31", r"\$.args\[1\]: expected a property"),
        ({"property": "b"}, "attributes cannot be compared"),
    ],
)
def test_a_wrong_argument_in_json_is_refused_with_its_place(argument: object, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        from_json({"op": "t_during", "args": [{"property": "a"}, argument]})


@pytest.mark.parametrize("index", [*INDEXES, "auto"])
def test_every_index_answers_as_the_oracle_does(index: str) -> None:
    draw = random.Random(7)
    engine = Engine({"s": "timestamp", "e": "timestamp", "x": "timestamp"}, index=index)
    trees: list[Expression] = []
    rows = []
    while len(trees) < 60:
        first = draw.choice(["x", Interval("s", "e")])
        span = Interval(*(at(m) for m in sorted(draw.choices(range(6), k=2))))
        sides = (first, span) if draw.random() < 0.5 else (span, first)
        tree: Expression = Temporal(draw.choice(list(TemporalFunction)), *sides, weight=draw.choice([0.5, 1.0]))
        tree = tree if draw.random() < 0.7 else Not(tree)
        with suppress(NeverMatchesError):
            rows.append(normalise(tree, engine.schema))
            trees.append(tree)
    engine.subscribe_many(trees)
    for _ in range(30):
        lo, hi = sorted(draw.choices(range(6), k=2))
        x = draw.choice([at(lo), Range(at(lo), at(hi)), [at(lo), at(hi)], None])
        event = {"s": at(lo), "e": at(hi), "x": x}
        keys = event_keys(event, engine.schema)
        expected = {i: score for i, own in enumerate(rows) if (score := judge(own, keys).score) is not None}
        assert {match.id: match.score for match in engine.match(event)} == expected
