"""Ids in tables: exact beyond 2^53, the same as from objects, and refused where they would need an order."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.events import encode_events
from matchwood.encode.objects import RowsBuilder
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.errors import SchemaError
from matchwood.lang.builder import attr
from matchwood.lang.rows import normalise
from matchwood.schema import Schema

BIG = 2**53 + 1
IDS = [BIG, BIG + 1, None, 7, BIG, -(2**60) - 1]


def schema_of_ids() -> Schema:
    return Schema({"user": "id", "age": "number"})


@pytest.mark.parametrize("kind", [pa.int64(), pa.dictionary(pa.int32(), pa.int64()), pa.decimal128(25, 0)])
def test_ids_in_columns_are_those_of_objects(kind: pa.DataType) -> None:
    values = [None if value is None else Decimal(value) for value in IDS] if pa.types.is_decimal(kind) else IDS
    plain = pa.array(values, kind.value_type if pa.types.is_dictionary(kind) else kind)
    column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain
    ours, theirs = schema_of_ids(), schema_of_ids()
    table = pa.table({"id": range(6), "user": column, "age_lo": [1, 2, 3, 4, 5, 6]})
    encoded = encode_subscription_table(table, ours)
    assert not encoded.rejects
    builder = RowsBuilder(theirs)
    for id_, value in enumerate(IDS):
        age = attr("age") >= id_ + 1
        builder.add(id_, 0.0, normalise(age if value is None else (attr("user") == value) & age, theirs))
    assert ours.to_json() == theirs.to_json()
    expected = builder.build()
    for mine, other in zip(encoded.rows, expected, strict=True):
        np.testing.assert_array_equal(mine, other)
    events = encode_event_table(pa.table({"user": column}), ours).events
    objects = encode_events([{"user": value} for value in IDS], theirs)
    for mine, other in zip(events, objects, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_lists_of_ids_and_floats_that_are_integers() -> None:
    schema = schema_of_ids()
    encoded = encode_subscription_table(pa.table({"id": [0, 1], "user": [[BIG, BIG + 1], [7]]}), schema)
    assert not encoded.rejects
    assert len(encoded.rows.lo) == 3
    events = encode_event_table(pa.table({"user": [7.0, 8.0, 7.5, float("nan"), None]}), schema)
    assert [reject.reason for reject in events.rejects] == ["attribute 'user': expected an integer, got 7.5 (float)"]
    assert events.events.lo.tolist() == [schema.key(schema.find("user"), 7), -1.0]


@pytest.mark.parametrize("column", ["user_lo", "user_hi"])
def test_ends_of_intervals_of_ids_are_refused(column: str) -> None:
    with pytest.raises(SchemaError, match=f"column '{column}': .*ids have no order"):
        encode_subscription_table(pa.table({"id": [0], column: [5]}), schema_of_ids())
    with pytest.raises(SchemaError, match="ids have no order"):
        encode_event_table(pa.table({"user": [{"lo": 5, "hi": 7}]}), schema_of_ids())


def test_strings_are_no_ids() -> None:
    with pytest.raises(SchemaError, match="column 'user': expected id for attribute 'user', got the Arrow type string"):
        encode_event_table(pa.table({"user": ["7"]}), schema_of_ids())
