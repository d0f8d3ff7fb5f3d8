"""Functions of attributes: CASEI and ACCENTI, in text, Python and JSON, and in the oracle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.errors import ExpressionError, ParseError, SchemaError, ValueTypeError
from matchwood.lang.builder import attr
from matchwood.lang.evaluate import judge
from matchwood.lang.event import Event, event_keys
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema, Type
from matchwood.schema.functions import accenti, casei, derived_name


def matches(text: str, values: dict[str, object]) -> bool:
    schema = Schema()
    rows = normalise(parse(text), schema)
    return judge(rows, event_keys(Event(values), schema)).matched


@given(st.text(max_size=12))
def test_folding_twice_is_folding_once(text: str) -> None:
    for function in (casei, accenti):
        assert function(function(text)) == function(text)


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("CASEI(city) = CASEI('OSLO')", "oslo", True),
        ("CASEI(city) = 'OSLO'", "Oslo", True),
        ("CASEI(city) = 'OSLO'", "Bergen", False),
        ("CASEI(city) != 'OSLO'", "oslo", False),
        ("CASEI(city) IN ('Straße', CASEI('b'))", "STRASSE", True),
        ("ACCENTI(city) = ACCENTI('Chișinău')", "Chisinau", True),
        ("ACCENTI(city) = 'chisinau'", "Chișinău", False),
        ("CASEI(ACCENTI(city)) = CASEI(ACCENTI('CHIȘINĂU'))", "chisinau", True),
        ("CASEI(city) = 'a' AND city = 'A'", "A", True),
        ("CASEI(city) = 'a' AND city = 'A'", "a", False),
        ("ANY(CASEI(city)) = 'b'", ["A", "B"], True),
        ("ALL(CASEI(city)) IN ('a', 'b')", ["A", "B"], True),
        ("A_CONTAINS(CASEI(city), ('a', 'b'))", ["A", "B", "c"], True),
        ("CASEI(city) IS NULL", None, True),
        ("CASEI(city) IS NULL", "", False),
        ("CASEI(city) = ''", "", True),
        ("CASEI(city) != 'x'", [], False),
        ("city = CASEI('ABC')", "abc", True),
    ],
)
def test_a_function_is_applied_to_every_value_and_to_the_constants(text: str, value: object, held: bool) -> None:
    assert matches(text, {"city": value}) is held


def test_text_python_and_json_make_the_same_tree() -> None:
    tree = parse("CASEI(ACCENTI(\"my city\")) IN (CASEI(ACCENTI('ÉVRY')), 'x') ^2 AND CASEI('A') = CASEI(b)")
    assert tree == (attr("my city", weight=2).accenti().casei().is_in(["évry", "X"])) & (attr("b").casei() == "a")
    assert tree == parse(str(tree)) == from_json(to_json(tree))
    assert to_json(parse("CASEI(a) = 'X'")) == {
        "op": "=",
        "args": [{"op": "casei", "args": [{"property": "a"}]}, {"op": "casei", "args": ["x"]}],
    }


@pytest.mark.parametrize(
    "text",
    ["CASEI(5) = 'a'", "CASEI(a", "CASEI(a, 'b') = 'c'", "CASEI() = 'a'", "a = CASEI(5)", "CASEI('a') = 'a'"],
)
def test_what_is_no_function_of_an_attribute_is_refused(text: str) -> None:
    with pytest.raises((ParseError, SchemaError)):
        normalise(parse(text), Schema())


@pytest.mark.parametrize(
    "tree",
    [
        {"op": "=", "args": [{"op": "casei", "args": []}, "a"]},
        {"op": "=", "args": [{"op": "casei", "args": [5]}, "a"]},
        {"op": "=", "args": [{"property": "a"}, {"op": "casei", "args": [5]}]},
        {"op": "=", "args": [{"property": "a"}, {"op": "casei", "args": ["a", "b"]}]},
        {"op": "=", "args": [{"op": "casei", "args": [{"property": "a"}, "b"]}, "a"]},
        {"op": "=", "args": [{"property": "a\x1f"}, "a"]},
    ],
)
def test_json_that_is_no_function_of_an_attribute_is_refused(tree: dict[str, object]) -> None:
    with pytest.raises(ExpressionError):
        from_json(tree)


def test_a_function_gives_its_attribute_the_type_that_it_takes() -> None:
    schema = Schema()
    normalise(parse("CASEI(city) IS NOT NULL"), schema)
    assert schema.find("city").type is Type.STRING
    with pytest.raises(ValueTypeError, match=r"CASEI\(\.\.\.\): attribute 'age' is of type number"):
        normalise(parse("CASEI(age) = 'a'"), Schema({"age": "number"}))
    with pytest.raises(ValueTypeError, match="CASEI"):
        normalise(parse("CASEI(city) > 5"), Schema())


def test_no_value_of_an_event_takes_the_place_of_a_derived_one() -> None:
    schema = Schema()
    rows = normalise(parse("CASEI(city) = 'oslo'"), schema)
    name = derived_name("CASEI", "city")
    assert not judge(rows, event_keys({name: "oslo"}, schema)).matched
    assert event_keys({name: "x", "city": "OSLO"}, schema).values.keys() == {"city", name}


def test_a_derived_attribute_has_the_weight_of_its_source() -> None:
    schema = Schema()
    rows = normalise(parse("CASEI(city) = 'oslo' ^0.5"), schema)
    assert judge(rows, event_keys(Event({"city": "Oslo"}, weights={"city": 4.0}), schema)).score == 2.0


def test_a_closed_schema_takes_functions_of_its_attributes_only() -> None:
    schema = Schema({"city": "string"}, learn=False)
    assert normalise(parse("CASEI(city) = 'oslo'"), schema)
    with pytest.raises(SchemaError, match="'town' is not in the schema"):
        normalise(parse("CASEI(town) = 'oslo'"), schema)


def test_a_schema_keeps_its_derived_attributes_through_json() -> None:
    schema = Schema()
    normalise(parse("CASEI(ACCENTI(city)) = 'Évry' AND age > 3"), schema)
    again = Schema.from_json(schema.to_json())
    assert again.extends(schema)
    assert schema.extends(again)
    assert [derived.name for derived in again.find("city").derived] == [derived_name("ACCENTI", "city")]
    saved = schema.to_json()
    saved["attributes"] = [item for item in saved["attributes"] if item["name"] != "city"]
    with pytest.raises(SchemaError, match="computed from"):
        Schema.from_json(saved)


def test_what_is_learnt_in_vain_is_forgotten() -> None:
    schema = Schema({"city": "string"})
    mark = schema.mark()
    normalise(parse("CASEI(city) = 'oslo'"), schema)
    schema.forget_since(mark)
    assert schema.find("city").derived == ()
    assert schema.dimensions == 1
