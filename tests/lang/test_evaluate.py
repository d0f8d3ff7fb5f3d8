"""The oracle, sentence by sentence of the design."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings

from matchwood.errors import EventError, MatchwoodError, NeverMatchesError, QueryError, ValueTypeError
from matchwood.lang.bad_values import BadValue, BadValues
from matchwood.lang.evaluate import Judgement, Mode, gain, holds, judge, rank
from matchwood.lang.event import Event, EventKeys, event_keys
from matchwood.lang.intervals import IntervalSet, closed, points
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Point, Range, Schema
from tests.worlds import World, worlds


def judged(text: str, event: Event | Mapping[str, Any], **options: Any) -> Judgement:
    """The judgement on one subscription; the schema learns from it first."""
    schema = Schema({"place": "point"})
    rows = normalise(parse(text), schema)
    return judge(rows, event_keys(event, schema), **options)


def matches(text: str, event: Event | Mapping[str, Any], **options: Any) -> bool:
    return judged(text, event, **options).matched


def score(text: str, event: Event | Mapping[str, Any], **options: Any) -> float | None:
    return judged(text, event, **options).score


# absence


@pytest.mark.parametrize(
    "text", ["a != 1", "a NOT IN (1, 2)", "a = 1", "a < 5", "NOT (a = 1)", "NOT (a != 1)", "a IS NOT NULL"]
)
@pytest.mark.parametrize("event", [{}, {"a": None}, {"a": math.nan}, {"a": []}, {"a": [None, math.nan]}])
def test_an_absent_attribute_makes_every_predicate_on_it_false(text: str, event: dict[str, Any]) -> None:
    assert not matches(text, event)


def test_is_null_holds_where_the_attribute_is_absent_and_nowhere_else() -> None:
    assert matches("a IS NULL", {})
    assert matches("a IS NULL", {"a": math.nan, "b": 1})
    assert not matches("a IS NULL", {"a": 0})
    assert not matches("NOT (a IS NULL)", {})
    assert matches("place IS NULL", {})
    assert not matches("place IS NULL", {"place": (1, 2)})
    assert matches("place IS NOT NULL", {"place": (1, 2)})


def test_a_point_without_coordinates_is_absent() -> None:
    for place in ((None, None), (math.nan, math.nan), {"lon": None, "lat": None}):
        assert matches("place IS NULL", {"place": place})
        assert matches("place IS NULL", Event({}, place=place))  # type: ignore[arg-type]
    with pytest.raises(ValueTypeError, match="attribute 'place': expected a"):
        matches("place IS NULL", {"place": (1.0, None)})


# values that are sets


def test_a_range_holds_where_it_meets_the_interval() -> None:
    assert matches("a BETWEEN 3 AND 5", {"a": Range(5, 9)})
    assert matches("a BETWEEN 3 AND 5", {"a": Range(None, 3)})
    assert not matches("a BETWEEN 3 AND 5", {"a": Range(5.000001, 9)})
    assert not matches("a = 3 AND b = 1", {"a": Range(0, 9), "b": 2})
    assert not matches("a NOT IN (1, 2)", {"a": Range(1, 2)})
    assert matches("a NOT IN (1, 2)", {"a": Range(1.25, 1.75)})
    assert not matches("a NOT IN (1, 2)", {"a": [1, 2]})


def test_a_list_holds_where_one_of_its_values_does() -> None:
    assert matches("a = 3", {"a": [1, 3]})
    assert not matches("a BETWEEN 1.5 AND 2.5", {"a": [1, 3]})
    assert matches("a BETWEEN 1.5 AND 2.5", {"a": [1, Range(2, 7)]})
    assert matches("plan = 'pro'", {"plan": ["free", "pro"]})


@pytest.mark.parametrize(
    ("text", "held", "not_held"),
    [
        ("a != 3", [[1], [1, 2]], [[3], [1, 3], Range(2, 4)]),
        ("a NOT IN (3, 4)", [[1, 2]], [[1, 4], [3, 4]]),
        ("a NOT BETWEEN 3 AND 5", [[1, 6]], [[1, 4], Range(1, 6)]),
        ("NOT (a > 3)", [[1, 3]], [[1, 4]]),
        ("a <= 3", [[1, 3], [1, 4]], [[4, 5]]),
        ("a > 2 AND a != 5", [[1, 3]], [[3, 5], [1, 2]]),
        ("ANY(a) > 3 AND ANY(a) < 5", [[1, 9], [4]], [[6, 9]]),
        ("ANY(a) != 3", [[1, 3], [1]], [[3]]),
        ("ALL(a) > 3", [[4, 5]], [[3, 5]]),
        ("NOT (ALL(a) > 3)", [[3, 5]], [[4, 5]]),
        ("ALL(a) NOT IN (3, 4)", [[1, 2]], [[1, 4]]),
        ("ALL(a) IN (3, 4)", [[3], [3, 4]], [[3, 5]]),
        ("A_CONTAINS(a, (1, 2))", [[1, 2], [1, 2, 3], Range(0, 9)], [[1], [2, 3]]),
        ("NOT A_CONTAINS(a, (1, 2))", [[1], [3]], [[1, 2]]),
        ("A_CONTAINEDBY(a, (1, 2))", [[1], [1, 2]], [[1, 3], Range(1, 2)]),
        ("A_EQUALS(a, (2, 1))", [[1, 2], [2, 1, 1]], [[1], [1, 2, 3]]),
        ("NOT A_EQUALS(a, (1, 2))", [[1], [1, 2, 3]], [[1, 2]]),
        ("A_OVERLAPS(a, (1, 2))", [[1, 7]], [[7]]),
        ("A_COUNT(a, (1, 2, 3)) >= 2", [[1, 3], [1, 2, 3]], [[1, 7], [7]]),
        ("A_COUNT(a, (1, 2, 3)) = 2", [[1, 3, 7]], [[1, 2, 3], [1]]),
        ("A_COUNT(a, (1, 2, 3)) < 2", [[1], [7]], [[1, 3]]),
        ("A_COUNT(a, (1, 2, 3)) != 1", [[7], [1, 2]], [[1, 7]]),
        ("A_CONTAINS(a, (1, 2)) AND a NOT IN (3)", [[1, 2, 4]], [[1, 2, 3], [1]]),
        ("A_CONTAINS(a, (1)) AND A_CONTAINS(a, (2))", [[1, 2]], [[1], [2]]),
    ],
)
def test_tests_of_lists_look_at_all_their_values(text: str, held: list[object], not_held: list[object]) -> None:
    assert [value for value in held if not matches(text, {"a": value})] == []
    assert [value for value in not_held if matches(text, {"a": value})] == []
    assert not matches(text, {"b": 1})


def test_conditions_on_one_attribute_must_hold_for_one_and_the_same_value() -> None:
    assert not matches("a > 1 AND a < 3", {"a": [1, 3]})
    assert matches("a > 1 AND a < 3", {"a": [1, 2, 3]})


def test_an_iterator_and_a_set_are_lists_too() -> None:
    assert matches("a = 3", {"a": iter([1, 3])})
    assert matches("a = 3", {"a": {1, 3}})
    assert matches("zzz IS NOT NULL AND b = 3", {"b": (n for n in (1, 3)), "zzz": (n for n in ("x", "y"))})


def test_an_iterator_is_read_once() -> None:
    keys = event_keys({"new": (n for n in (1, 3))}, Schema({"new": "number"}))
    assert keys.values["new"] == points([1.0, 3.0])


def test_an_unseen_string_equals_nothing_and_differs_from_everything() -> None:
    assert not matches("plan = 'pro'", {"plan": "unheard of"})
    assert matches("plan != 'pro'", {"plan": "unheard of"})
    assert matches("plan NOT IN ('pro', 'free')", {"plan": "unheard of"})


# modes


def test_all_asks_for_every_predicate_and_any_for_one() -> None:
    event = {"a": 1, "b": 9}
    assert not matches("a = 1 AND b = 2", event)
    assert matches("a = 1 AND b = 2", event, mode="any")
    assert not matches("a = 2 AND b = 2", event, mode=Mode.ANY)


def test_a_row_without_predicates_matches_in_all_and_not_in_any() -> None:
    assert matches("TRUE", {})
    assert not matches("TRUE", {}, mode="any")


def test_an_alternative_that_contradicts_itself_is_none_in_either_mode() -> None:
    for text in ("x > 5 AND x < 3 AND y = 1", "x IS NULL AND x = 1 AND y = 1", "FALSE AND y = 1"):
        for mode in Mode:
            with pytest.raises(NeverMatchesError):
                matches(text, {"y": 1}, mode=mode)
            assert not matches(f"({text}) OR z = 2", {"y": 1}, mode=mode)
            assert matches(f"({text}) OR z = 2", {"z": 2}, mode=mode)


def test_conditions_on_one_attribute_are_one_predicate_in_any_mode_too() -> None:
    """They meet before the event is looked at: half of them is nothing, and all of them weigh what they weigh together."""
    text = "x > 5 ^2 AND y = 1 ^4 AND x < 10 ^3"
    assert score(text, {"x": 7}, mode="any") == 5.0
    assert score(text, {"x": 20}, mode="any") is None
    assert score(text, {"x": 20, "y": 1}, mode="any") == 4.0
    assert score(text, {"x": 7, "y": 1}) == 9.0


def test_an_or_on_one_attribute_weighs_once() -> None:
    assert score("x = 1 ^2 OR x = 2 ^2", {"x": [1, 2]}) == 2.0
    assert score("x = 1 ^2 OR x = 2 ^3", {"x": [1, 2]}) == 3.0


def test_what_asks_for_absence_holds_in_any_mode() -> None:
    assert score("x IS NULL ^2 AND y = 1", Event({"y": 2}, weights={"x": 8.0}), mode="any") == 2.0


def test_a_range_of_bools_or_instants_holds_what_its_values_do() -> None:
    schema = Schema({"vip": "bool", "seen": "timestamp"})
    before, after = datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)

    def holds_for(text: str, value: object) -> bool:
        rows = normalise(parse(text), schema)
        return judge(rows, event_keys({text.split()[0]: value}, schema)).matched

    for text, values in {"vip < TRUE": [False], "vip > FALSE": [True], "vip IS NOT NULL": [False, True]}.items():
        for lo, hi in ((False, False), (True, True), (False, True), (None, False), (True, None), (None, None)):
            inside = [v for v in values if (lo is None or lo <= v) and (hi is None or v <= hi)]
            assert holds_for(text, Range(lo, hi)) is bool(inside), (text, lo, hi)
    assert not holds_for("vip != TRUE", Range(False, True))
    apart = "seen < TIMESTAMP('2026-01-01T00:00:00Z') OR seen > TIMESTAMP('2026-01-01T00:00:00.000001Z')"
    assert not holds_for(apart, Range(before, after))
    assert holds_for(apart, Range(before, datetime(2026, 1, 1, 0, 0, 0, 2)))
    assert holds_for(apart, Range(None, after))


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(QueryError, match="expected mode 'all' or 'any', got 'some'"):
        matches("a = 1", {}, mode="some")


# scores


def test_the_score_is_the_priority_and_what_holds_times_the_events_weights() -> None:
    event = Event({"a": 1, "b": 2}, weights={"a": 0.5, "c": 99.0})
    assert score("a = 1 ^4 AND b = 2 ^0.25", event, priority=-1.0) == -1.0 + 4 * 0.5 + 0.25
    assert score("a = 1 ^4 AND b = 3 ^0.25", event, mode="any") == 2.0
    assert score("a = 1 AND b = 3", event) is None


def test_the_weight_of_an_attribute_the_event_lacks_has_no_meaning() -> None:
    assert score("c IS NULL ^0.25", Event({"a": 1}, weights={"c": 8.0})) == 0.25


def test_of_several_rows_the_best_that_matches_counts() -> None:
    assert score("a = 1 ^0.5 OR b = 2 ^2 OR c = 3 ^9", {"a": 1, "b": 2, "c": 4}) == 2.0


def test_scores_are_folded_in_the_rows_order_from_the_priority_on() -> None:
    parts = (0.1, 0.2, 0.3, 1e16)
    text = " AND ".join(f"a{n} = 1 ^{w}" for n, w in enumerate(parts))
    expected = 0.7
    for part in parts:
        expected += part
    assert score(text, {f"a{n}": 1 for n in range(4)}, priority=0.7) == expected


def test_any_monotone_function_can_take_the_place_of_the_sum() -> None:
    assert score("a = 1 ^0.5 AND b = 2 ^3", {"a": 1, "b": 2}, combine=max, priority=1.0) == 3.0
    assert score("a = 1 ^0.5 AND b = 2 ^3", {"a": 1, "b": 9}, combine=max, priority=1.0, mode="any") == 1.0


# order


def ranked(k: int | None, scores: dict[int, float]) -> list[tuple[int, float]]:
    schema = Schema()
    subscriptions = [(id_, priority, normalise(parse("TRUE"), schema)) for id_, priority in scores.items()]
    return rank(subscriptions, event_keys({}, schema), k=k)


def test_better_scores_come_first_and_ties_go_to_the_smaller_id() -> None:
    scores = {9: 1.0, 4: 2.0, 7: 1.0, 1: -5.0, 3: 2.0, 2: -0.0, 0: 0.0}
    order = [(3, 2.0), (4, 2.0), (7, 1.0), (9, 1.0), (0, 0.0), (2, 0.0), (1, -5.0)]
    assert ranked(None, scores) == order
    for k in range(1, 9):
        assert ranked(k, scores) == order[:k]


def test_what_does_not_match_has_no_rank() -> None:
    schema = Schema()
    rows = normalise(parse("a = 1"), schema)
    assert rank([(1, 100.0, rows)], event_keys({"a": 2}, schema)) == []


# the judgement explains


@given(worlds(subscriptions=4, events=2, grades=True))
@settings(max_examples=40)
def test_the_verdicts_add_up_to_the_judgement(world: World) -> None:
    for event in world.events:
        keys = event_keys(event, world.schema)
        for priority, _, rows in world.subscriptions.values():
            for mode in Mode:
                verdict = judge(rows, keys, priority=priority, mode=mode)
                best = None
                for row, found in zip(rows, verdict.rows, strict=True):
                    assert tuple(p.predicate for p in found.predicates) == row.predicates
                    assert [p.held for p in found.predicates] == [holds(p, keys) for p in row.predicates]
                    assert [p.value for p in found.predicates] == [keys.values.get(p.attribute) for p in row.predicates]
                    held = [p.held for p in found.predicates]
                    assert found.matched == (all(held) if mode is Mode.ALL else any(held))
                    total = priority
                    for p in found.predicates:
                        added = gain(p.predicate, p.closeness) * keys.weight(p.predicate.attribute) if p.held else 0.0
                        assert p.weight == added
                        assert all(0.0 <= closeness <= 1.0 for closeness in p.closeness)
                        total += p.weight
                    assert found.score == total
                    if found.matched:
                        best = total if best is None else max(best, total)
                assert (verdict.matched, verdict.score) == (best is not None, best)


# events


def test_place_is_short_for_the_attribute_place() -> None:
    schema = Schema({"place": "point"})
    assert event_keys(Event({}, place=(1, 2)), schema) == EventKeys({"place": Point(1.0, 2.0)}, {})
    assert event_keys(Event({}, place=(1, 2)), Schema()) == EventKeys({}, {})
    with pytest.raises(EventError, match="two places"):
        event_keys(Event({"place": (1, 2)}, place=(1, 2)), schema)
    with pytest.raises(ValueTypeError, match=r"attribute 'place': expected a point \(lon, lat\), got \(1, 2, 3\)"):
        event_keys(Event({}, place=(1, 2, 3)), schema)  # type: ignore[arg-type]


def test_events_teach_the_schema_nothing_and_unknown_attributes_are_ignored_whatever_their_values() -> None:
    schema = Schema({"age": "number"})
    odd = {"n": 1, "s": "x", "o": object(), "d": {"deep": {"er": 1}}, "l": [None, 2.5], 5: 1, "age": 3}
    assert event_keys(odd, schema).values == {"age": points([3.0])}
    assert [attribute.name for attribute in schema] == ["age"]


def test_of_an_attribute_without_a_type_only_its_presence_counts() -> None:
    schema = Schema()
    schema.find("x")  # as `x IS NULL` does
    assert [*event_keys({"x": object()}, schema).values] == ["x"]
    assert [*event_keys({"x": {"y": 1}}, schema).values] == ["x"]
    for absent in (None, float("nan"), [], [None]):
        assert event_keys({"x": absent}, schema).values == {}


def test_a_nested_object_is_read_by_dotted_names() -> None:
    schema = Schema({"user.age": "number", "user.home.city": "string", "user": "number"})
    event = {"user": {"age": 3, "home": {"city": "Oslo", "zip": 1}, "tags": []}}
    bad = BadValues()
    assert [*event_keys(event, schema, bad=bad).values] == ["user.age", "user.home.city"]
    assert bad["user"].count == 1
    assert event_keys({"user.age": 4}, schema).values == {"user.age": points([4.0])}
    with pytest.raises(EventError, match=r"attribute 'user\.age' is given twice"):
        event_keys({"user.age": 4, "user": {"age": 3}}, Schema({"user.age": "number"}))


def test_a_bad_value_is_absent_and_counted_if_it_may_be() -> None:
    bad = BadValues()
    schema = Schema({"age": "number", "plan": "string"})
    assert event_keys({"age": "old", "plan": "pro"}, schema, bad=bad).values == {"plan": points([-1.0])}
    assert event_keys({"age": [1, "old"]}, schema, bad=bad).values == {}
    assert bad == {"age": BadValue(2, "attribute 'age': expected a number, got 'old' (str)")}


def test_strings_of_events_are_registered_only_on_request() -> None:
    schema = Schema({"s": "string"})
    symbols = schema.find("s").symbols
    assert symbols is not None
    event_keys({"s": ["x", "y"]}, schema)
    assert len(symbols) == 0
    event_keys({"s": ["x", "y"]}, schema, register=True)
    assert list(symbols.codes) == ["x", "y"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"age": "old"}, r"attribute 'age': expected a number, got 'old' \(str\)"),
        ({"age": [1, "old"]}, "attribute 'age': expected a number, got 'old'"),
        ({"age": [[1]]}, r"attribute 'age': expected a number, got \[1\]"),
        ({"age": Point(1, 2)}, "attribute 'age': expected a number, got Point"),
        ({"age": {"lon": 1, "lat": 2}}, "attribute 'age': expected a number"),
        ({"age": Range(5, 3)}, "attribute 'age': the range from 5 to 3 is empty"),
        ({"plan": Range("a", "b")}, "attribute 'plan': strings have no order"),
        ({"place": "here"}, "attribute 'place': expected a point"),
        ({"place": Range(1, 2)}, "attribute 'place': expected a point"),
        ({"age": object()}, "attribute 'age': expected a number, got <object"),
        ({"age": bytearray(b"12")}, "attribute 'age': expected a number, got bytearray"),
        ({"plan": b"pro"}, "attribute 'plan': expected a string, got b'pro'"),
        ({"age": {"min": 1}}, "attribute 'age': expected a number, got {'min': 1}"),
    ],
)
def test_a_bad_value_is_refused_with_attribute_value_and_expected_type(values: dict[Any, Any], message: str) -> None:
    with pytest.raises(MatchwoodError, match=message):
        event_keys(values, Schema({"age": "number", "plan": "string", "place": "point"}))


@pytest.mark.parametrize("event", [5, "text", None, [1], Event([1])])  # type: ignore[arg-type]
def test_what_is_no_event_is_refused(event: Any) -> None:
    with pytest.raises(EventError, match="expected an Event or a mapping"):
        event_keys(event, Schema())


@pytest.mark.parametrize("weight", [-0.5, math.inf, math.nan, True, "1", None, pytest.param(10**400, id="huge")])
def test_an_events_weights_are_finite_and_not_negative(weight: Any) -> None:
    with pytest.raises(EventError, match="attribute 'a': expected a finite weight >= 0, got "):
        event_keys(Event({"a": 1}, weights={"a": weight}), Schema())


def test_weights_must_be_a_mapping() -> None:
    with pytest.raises(EventError, match="expected a mapping from attribute to weight"):
        event_keys(Event({"a": 1}, weights=[1.0]), Schema())  # type: ignore[arg-type]


def test_values_become_interval_sets() -> None:
    schema = Schema(dict.fromkeys("abc", "number"))
    keys = event_keys({"a": 1, "b": Range(1, 2), "c": [3, Range(1, 2), 2, 3]}, schema).values
    assert keys == {"a": points([1.0]), "b": closed(1.0, 2.0), "c": IntervalSet(((1.0, 2.0), (3.0, 3.0)))}
