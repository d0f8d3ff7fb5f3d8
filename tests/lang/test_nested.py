"""Conditions on lists of objects: what they mean, their three forms, their normal form, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchwood import attr
from matchwood.errors import EventError, ExpressionError, MatchwoodError, NeverMatchesError, ParseError, ValueTypeError
from matchwood.lang.describe import describe_rows
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.limits import Limits
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from tests.nested_worlds import a_tree, an_event, met
from tests.worlds import examples


def holds(text: str, event: dict[str, Any], schema: Schema | None = None) -> bool:
    schema = Schema() if schema is None else schema
    rows = normalise(parse(text), schema)
    return judge(rows, event_keys(event, schema)).matched


ORDER = {"order": 7, "items": [{"sku": "a", "qty": 3, "price": 9.5}, {"sku": "b", "qty": 1}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ANY(items, sku = 'a' AND qty >= 2)", True),
        ("ANY(items, sku = 'b' AND qty >= 2)", False),
        ("items.sku = 'b' AND items.qty >= 2", True),  # dotted names see the values of all elements
        ("items.sku != 'a'", False),
        ("ALL(items.qty) >= 1", True),
        ("A_CONTAINS(items.sku, ('a', 'b'))", True),
        ("items.missing IS NULL", True),
        ("ALL(items, qty >= 1)", True),
        ("ALL(items, price > 1)", False),  # one lacks a price
        ("ALL(items, price > 1 OR price IS NULL)", True),
        ("NOT ALL(items, price > 1)", True),
        ("NOT ANY(items, sku = 'c')", True),
        ("NOT ANY(items, sku = 'a')", False),
        ("NOT ANY(absent, sku = 'a')", False),
        ("ALL(absent, sku = 'a')", False),
        ("ALL(absent, sku = 'a') OR absent IS NULL", True),
        ("items IS NOT NULL AND order = 7", True),
        ("ANY(items, TRUE)", True),
        ("ANY(absent, TRUE)", False),
        ("ANY(items, sku = 'a') AND ANY(items, sku = 'b')", True),
        ("ANY(items, sku = 'a' OR sku = 'z') AND NOT ANY(items, sku = 'z')", True),
    ],
)
def test_a_condition_on_a_list_of_objects_means_what_it_says(text: str, expected: bool) -> None:
    assert holds(text, ORDER) is expected


@pytest.mark.parametrize("seed", range(examples(20)))
def test_rows_mean_what_the_tree_says_of_each_element(seed: int) -> None:
    rng = np.random.default_rng([seed, 21])
    schema = Schema()
    events = [an_event(rng) for _ in range(12)]
    for _ in range(12):
        tree = a_tree(rng)
        assert parse(str(tree)) == tree
        assert from_json(to_json(tree)) == tree
        try:
            rows = normalise(tree, schema)
        except NeverMatchesError:
            assert not any(met(tree, event) for event in events)
            continue
        for event in events:
            assert judge(rows, event_keys(event, schema)).matched is met(tree, event), (str(tree), event)
        assert normalise(parse(describe_rows(rows, schema)), schema) == rows


def test_the_three_forms_say_the_same() -> None:
    tree = parse("ANY(items, sku = 'a' AND ALL(parts, qty > 1)) ^2 AND NOT ALL(\"two words\", x IN (1, 2))")
    built = (attr("items", weight=2).any((attr("sku") == "a") & attr("parts").all(attr("qty") > 1))) & ~attr(
        "two words"
    ).all(attr("x").is_in([1, 2]))
    assert tree == built
    assert to_json(parse("ANY(items, sku = 'a') ^2")) == {
        "op": "any",
        "args": [{"property": "items"}, {"op": "=", "args": [{"property": "sku"}, "a"]}],
        "weight": 2.0,
    }


def test_the_order_of_the_parts_does_not_matter() -> None:
    schema = Schema()
    first = normalise(parse("ANY(items, a = 1 AND (b = 2 OR c = 3))"), schema)
    assert first == normalise(parse("ANY(items, (c = 3 OR b = 2) AND a = 1)"), schema)
    assert first != normalise(parse("ANY(items, a = 1 AND (b = 2 OR c = 4))"), schema)


def test_it_is_one_predicate_with_one_weight() -> None:
    schema = Schema()
    (row,) = normalise(parse("ANY(items, a = 1 AND b = 2) ^3 AND ANY(items, c = 1) ^2 AND items IS NOT NULL"), schema)
    assert [predicate.weight for predicate in row.predicates] == [6.0]
    with pytest.raises(NeverMatchesError, match="exclude each other"):
        normalise(parse("ANY(items, a = 1) AND items IS NULL"), schema)
    with pytest.raises(NeverMatchesError, match="leaves no value"):
        normalise(parse("ANY(items, a = 1 AND a = 2)"), schema)


def test_elements_have_values_of_every_kind() -> None:
    schema = Schema({"items[].release": "version"})
    event = {
        "items": [
            {
                "at": {"lon": 10.7, "lat": 59.9},
                "seen": {"timestamp": "2026-01-31T12:00:00Z"},
                "tags": ["x", "y"],
                "made": "2026-01-01T00:00:00Z",
                "release": "1.10.0",
                "ip": "10.1.2.3",
            }
        ]
    }
    for text in (
        "ANY(items, DWITHIN(at, POINT(10.7 59.9), 1 km) AND A_CONTAINS(tags, ('x', 'y')))",
        "ANY(items, S_WITHIN(at, POLYGON((10 59, 11 59, 11 60, 10 60, 10 59))))",
        "ANY(items, T_AFTER(made, DATE('2025-12-31')) AND YEAR(made) = 2026)",
        "ANY(items, release > '1.9' AND CIDR(ip, '10.0.0.0/8'))",
    ):
        assert holds(text, event, schema), text
    assert holds(
        "ANY(items, AGE(made, sent) < '2 h')", {"items": [{"made": "2026-01-01", "sent": "2026-01-01T01:00Z"}]}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ANY(items, sku = 'a' ^2)", "a weight inside counts nothing"),
        ("ANY(items, qty < 3 DECAY(LINEAR, ORIGIN 1, SCALE 2))", "DECAY inside is not supported"),
        ("ANY(items, AGE(created) < '1 h')", "relative to the clock"),
        ("ANY(", "expected the name of an attribute"),
        ("ANY(items", "expected"),
        ("ANY(items,", "expected"),
        ("ANY(items, )", "expected a condition on the objects of the list in ANY"),
        ("ANY(items, sku)) = 1", "this parenthesis was never opened"),
        ("ANY(items, sku = 'a'", "this parenthesis is never closed"),
        ("ANY(items, sku = 'a') = 3", "comparisons do not chain"),
        ("ANY(CASEI(items), sku = 'a')", "expected"),
        ("ANY(items, sku = 'a') DECAY(LINEAR, ORIGIN 1, SCALE 2)", "DECAY"),
    ],
)
def test_what_is_not_supported_is_refused(text: str, message: str) -> None:
    with pytest.raises((ParseError, ExpressionError), match=message):
        parse(text)


def test_types_are_checked_inside_elements() -> None:
    schema = Schema({"items[].qty": "number"})
    with pytest.raises(ValueTypeError, match=r"ANY\(items, \.\.\.\).*items\[\]\.qty"):
        normalise(parse("ANY(items, qty = 'many')"), schema)
    normalise(parse("ANY(items, qty > 1)"), schema)
    with pytest.raises(ValueTypeError, match=r"items\[\]\.qty"):
        event_keys({"items": [{"qty": "many"}]}, schema)
    with pytest.raises(ValueTypeError, match="expected objects in the list, got 3"):
        event_keys({"items": [{"qty": 1}, 3]}, schema)
    with pytest.raises(ValueTypeError, match="expected a list of objects, got 'x'"):
        event_keys({"items": "x"}, schema)
    with pytest.raises(EventError, match="at most 10,000 objects"):
        event_keys({"items": [{}] * 10_001}, schema)
    with pytest.raises(ValueTypeError, match="is of type objects, but is used as number"):
        normalise(parse("items > 3"), schema)


def test_a_refused_condition_teaches_nothing() -> None:
    schema = Schema()
    with pytest.raises(MatchwoodError), schema.tentatively():
        normalise(parse("ANY(items, sku = 'a') AND x > 'b'"), schema)
    assert len(schema) == 0


def test_conditions_inside_count_towards_the_limits() -> None:
    schema = Schema()
    values = ", ".join(map(str, range(50)))
    with pytest.raises(MatchwoodError, match="max_entries"):
        normalise(parse(f"ANY(items, ANY(parts, x IN ({values})))"), schema, limits=Limits(max_entries=40))
    deep = "ANY(a, " * 120 + "TRUE" + ")" * 120
    with pytest.raises(ParseError, match="deep"):
        parse(deep)
    tree = attr("x") == 1
    for _ in range(150):
        tree = attr("a").any(tree)  # type: ignore[assignment]
    with pytest.raises(MatchwoodError, match="nests more than"):
        normalise(tree, schema)


def test_a_schema_with_conditions_can_be_saved() -> None:
    schema = Schema({"items": "objects"})
    rows = normalise(parse("ANY(items, sku LIKE 'a%' AND ANY(parts, n = 1))"), schema)
    again = Schema.from_json(schema.to_json())
    assert schema.difference(again) is None
    event = {"items": [{"sku": "ab", "parts": [{"n": 1}]}]}
    assert judge(rows, event_keys(event, again)).matched
