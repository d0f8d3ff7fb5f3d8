"""Integers beyond 2^53: exact for equality and IN, as ids; refused with a remedy where they would need an order."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.encode.objects import RowsBuilder, decode_rows
from matchwood.errors import InexactValueError, SchemaError, ValueTypeError
from matchwood.lang.builder import attr
from matchwood.lang.describe import describe_rows, describe_value
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import UNKNOWN_SYMBOL, Range, Schema, Type

SNOWFLAKE = 1_234_567_890_123_456_789
BIG = 2**53 + 1


def matches(text: str, value: object, schema: Schema) -> bool:
    return judge(normalise(parse(text), schema), event_keys({"user": value}, schema)).matched


@given(
    st.lists(st.integers(2**53 - 2, 2**53 + 4) | st.integers(-(2**70), 2**70), min_size=1, max_size=6),
    st.integers(2**53 - 2, 2**53 + 4) | st.integers(-(2**70), 2**70),
)
def test_ids_are_equal_only_to_themselves(named: list[int], value: int) -> None:
    schema = Schema({"user": "id"})
    listed = ", ".join(map(str, named))
    assert matches(f"user IN ({listed})", value, schema) is (value in named)
    assert matches(f"user NOT IN ({listed})", value, schema) is (value not in named)
    assert matches(f"user = {named[0]}", value, schema) is (value == named[0])
    assert matches(f"user != {named[0]}", value, schema) is (value != named[0])
    assert matches(f"user IN ({listed})", [0, value], schema) is bool({0, value} & set(named))


@pytest.mark.parametrize(
    "text",
    [
        f"user = {BIG}",
        "user = 18014398509481984",
        f"user IN (5, {BIG})",
        f"user != {BIG}",
        f"NOT (user IN (5, {BIG}, 6))",
    ],
)
def test_a_first_constant_beyond_2_to_the_53_makes_an_id(text: str) -> None:
    schema = Schema()
    normalise(parse(text), schema)
    assert schema.find("user").type is Type.ID
    assert not matches(f"user = {BIG}", BIG - 1, schema)
    assert matches("user = 7", 7, schema)


def test_an_attribute_that_is_a_number_refuses_it_and_names_the_remedy() -> None:
    schema = Schema()
    normalise(parse("user = 5"), schema)
    with pytest.raises(
        InexactValueError, match=r"attribute 'user': 9007199254740993 .* declare the attribute as an id"
    ):
        normalise(parse(f"user = {BIG}"), schema)
    assert len(normalise(parse(f"user = {2**60}"), schema)) == 1  # a power of two is exact


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_ids_have_no_order(operator: str) -> None:
    for value in ("5", str(BIG), "INF"):
        with pytest.raises(ValueTypeError, match=f"attribute 'user': ids have no order, so {operator} is refused"):
            normalise(parse(f"user {operator} {value}"), Schema({"user": "id"}))
    with pytest.raises(ValueTypeError, match="ids have no order, so BETWEEN is refused; use =, != or IN"):
        normalise(parse("user BETWEEN 1 AND 2"), Schema({"user": "id"}))
    with pytest.raises(InexactValueError, match="has no exact float64"):
        normalise(parse(f"user {operator} {BIG}"), Schema())
    with pytest.raises(ValueTypeError, match="ids have no order"):
        event_keys({"user": Range(1, 5)}, Schema({"user": "id"}))


def test_values_that_are_integers_are_ids() -> None:
    schema = Schema({"user": "id"})
    user = schema.find("user")
    code = schema.key(user, 5)
    for value in (5.0, np.int64(5), np.uint64(5), Decimal(5), Decimal("5.0")):
        assert schema.key(user, value, register=False) == code
    assert schema.key(user, np.uint64(2**64 - 1)) != schema.key(user, 2**64)
    assert schema.key(user, 6, register=False) == UNKNOWN_SYMBOL
    for wrong in (5.5, 2.0**53, True, "5", None, Decimal("0.5"), Decimal("NaN"), 1 << 20_000):
        with pytest.raises(SchemaError, match="attribute 'user': expected an integer, got"):
            schema.key(user, wrong)
    with pytest.raises(ValueTypeError, match="'user' is of type id, but is used as string"):
        normalise(parse("user = '5'"), schema)


def test_ids_are_shown_and_saved_as_the_integers_they_are() -> None:
    schema = Schema({"user": "id"})
    rows = normalise((attr("user").is_in([SNOWFLAKE, 5, -(2**80)])) & (attr("user") != 5), schema)
    assert describe_rows(rows, schema) == f"user IN ({SNOWFLAKE}, {-(2**80)}) ^2.0 AND user != 5 ^0.0"
    assert normalise(parse(describe_rows(rows, schema)), schema) == rows
    keys = event_keys({"user": [SNOWFLAKE, 77]}, schema)
    assert describe_value("user", keys.values["user"], schema) == f"[an id no subscription names, {SNOWFLAKE}]"
    loaded = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert loaded.key(loaded.find("user"), SNOWFLAKE, register=False) == schema.key(schema.find("user"), SNOWFLAKE)
    assert loaded.extends(schema)


def test_a_text_on_ids_is_read_the_same_straight_into_entries() -> None:
    schema = Schema({"user": "id", "age": "number"})
    builder = RowsBuilder(schema)
    texts = [f"user = {BIG} AND age > 5", f"user IN ({BIG}, {BIG + 1}) ^2", f"age = 1 AND user != {SNOWFLAKE}"]
    for id_, text in enumerate(texts):
        builder.add_text(id_, 0.0, text)
    assert decode_rows(builder.build(), schema) == [row for text in texts for row in normalise(parse(text), schema)]
    with pytest.raises(ValueTypeError, match="is of type id, but is used as string"):
        builder.add_text(9, 0.0, "user = 'x' AND age = 1")


def test_a_long_list_of_ids_is_exact() -> None:
    ids = list(range(BIG, BIG + 20_000))
    schema = Schema()
    rows = normalise(attr("user").is_in(ids), schema)
    assert [
        judge(rows, event_keys({"user": id_}, schema)).matched for id_ in (BIG - 1, BIG, BIG + 1, BIG + 20_000)
    ] == [
        False,
        True,
        True,
        False,
    ]
