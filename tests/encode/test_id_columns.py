"""Columns of ids: integers of any size, exact, as those of Python objects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchwood import Engine
from matchwood.encode.events import encode_events
from matchwood.encode.tables import read_events, read_subscriptions
from matchwood.errors import SchemaError
from matchwood.schema import Schema
from tests.encode.tables import assert_same

BIG = [2**53, 2**53 + 1, 2**62 + 1, 2**62 + 2, -(2**60) - 1, 7, 0]
TYPES = {"user": "id", "age": "number"}


def column(values: list[Any], form: str) -> dict[str, Any]:
    """The values of `user` in the wide or the list form of events."""
    if form == "wide":
        return {"user": pa.array(values, pa.int64())}
    item = pa.struct([("attribute", pa.string()), ("value", pa.int64())])
    structs = [
        [] if v is None else [{"attribute": "user", "value": v}, {"attribute": "age", "value": 3}] for v in values
    ]
    return {"values": pa.array(structs, pa.list_(item))}


@pytest.mark.parametrize("form", ["wide", "list"])
@pytest.mark.parametrize("seed", range(5))
def test_events_with_ids_are_those_of_python_objects(form: str, seed: int) -> None:
    dice = np.random.default_rng(seed)
    values = [None if dice.random() < 0.2 else BIG[int(dice.integers(len(BIG)))] for _ in range(40)]
    schema = Schema(TYPES)
    read_subscriptions(pa.table({"id": [1], "expression": [f"user IN ({BIG[1]}, {BIG[3]}, 7)"]}), schema)
    more = {"age": 3} if form == "list" else {}
    expected = encode_events([{} if v is None else {"user": v, **more} for v in values], schema)
    assert_same(read_events(pa.table(column(values, form)), schema).events, expected)


@pytest.mark.parametrize("form", ["wide", "list"])
@pytest.mark.parametrize("listed", [False, True])
def test_subscriptions_with_ids_match_exactly_as_texts_do(form: str, listed: bool) -> None:
    wanted = [BIG[:3], BIG[1:2], BIG[2:4], [7]] if listed else BIG
    if form == "wide":
        conditions: dict[str, Any] = {"user": wanted}
    else:
        key = "values" if listed else "value"
        conditions = {"predicates": [[{"attribute": "user", key: w}] for w in wanted]}
    table = Engine(TYPES, index="scan")
    encoded = read_subscriptions(pa.table({"id": range(len(wanted)), **conditions}), table.schema)
    assert encoded.rejects == ()
    table.subscribe_rows(encoded.rows)
    text = Engine(TYPES, index="scan")
    text.subscribe_many(f"user IN ({', '.join(map(str, w if listed else [w]))})" for w in wanted)  # type: ignore[arg-type, call-overload]
    for value in [*BIG, 8]:
        assert table.match({"user": value}) == text.match({"user": value})
    assert len(table.match({"user": BIG[1]})) == (2 if listed else 1)


def test_numbers_that_are_no_integers_are_bad_cells() -> None:
    floats = read_events(pa.table({"user": [7.0, 7.5, float("nan"), 2.0**60]}), Schema(TYPES))
    assert [reject.position for reject in floats.rejects] == [1, 3]
    assert floats.rejects[0].reason.startswith("attribute 'user': expected an integer, got 7.5")
    assert floats.events.offsets.tolist() == [0, 1, 1]
    decimals = pa.array([Decimal(2**60 + 1), Decimal("0.5")], pa.decimal128(30, 1))
    assert [reject.position for reject in read_events(pa.table({"user": decimals}), Schema(TYPES)).rejects] == [1]


def test_ids_have_no_order_and_are_no_strings() -> None:
    for table in (
        {"id": [1], "user_lo": [3]},
        {"id": [1], "user": ["3"]},
    ):
        with pytest.raises(SchemaError, match=r"ids have no order|expected id"):
            read_subscriptions(pa.table(table), Schema(TYPES))
    with pytest.raises(SchemaError, match="ids have no order"):
        read_events(pa.table({"user": [{"lo": 1, "hi": 2}]}), Schema(TYPES))
    listed = pa.table({"id": [1, 2], "predicates": [[{"attribute": "user", "lo": 3, "hi": None}], []]})
    (reject,) = read_subscriptions(listed, Schema(TYPES)).rejects
    assert "attribute 'user': it is an id; ids have no order" in reject.reason


def test_a_column_that_is_not_declared_stays_a_number_and_says_what_to_declare() -> None:
    (reject,) = read_events(pa.table({"user": [2**53 + 1]}), Schema({"user": "number"})).rejects
    assert "declare the attribute as an id" in reject.reason
