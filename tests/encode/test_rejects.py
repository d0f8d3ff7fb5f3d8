"""Bad cells are collected with their reasons; bad columns stop the encoding; nothing is dropped in silence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchwood.encode.event_tables import EventEncoder, encode_event_table
from matchwood.encode.json_lines import read_json_events, read_json_subscriptions
from matchwood.encode.rejects import SeenIds
from matchwood.encode.subscription_tables import SubscriptionEncoder, encode_subscription_table
from matchwood.errors import (
    DuplicateSubscriptionError,
    InexactValueError,
    MatchwoodError,
    NeverMatchesError,
    ParseError,
    QueryError,
    SchemaError,
    UnknownAttributeError,
    ValueTypeError,
)
from matchwood.schema import Schema
from tests.encode.tables import INSTANT, PREDICATE

TYPES = {"age": "number", "plan": "string", "vip": "bool", "seen": "timestamp", "place": "point"}
NUMBERS = pa.struct([("lo", pa.float64()), ("hi", pa.float64())])
POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
BIG = 2**53 + 1


def a_list(*structs: dict[str, Any] | None) -> Any:
    return pa.array([[], list(structs)], pa.list_(PREDICATE))


def over_empty(item: Any) -> Any:
    """A good record (null or empty) and then the bad one."""
    return pa.array([None, item[0]], item[1])


BAD_SUBSCRIPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "null id": ({"id": [1, None], "age": [1, 2]}, "the id is null"),
    "negative id": ({"id": [1, -2], "age": [1, 2]}, "expected an id from 0 to 2**63 - 1, got -2"),
    "huge id": ({"id": pa.array([1, 2**63], pa.uint64()), "age": [1, 2]}, "got 9223372036854775808"),
    "repeated id": ({"id": [1, 1], "age": [1, 2]}, "an earlier record has the same id 1"),
    "nan priority": ({"priority": [0.0, math.nan]}, "priority: expected a finite number, got nan"),
    "inexact integer": ({"age": [1, BIG]}, "attribute 'age': 9007199254740993 has no exact float64"),
    "inexact unsigned": ({"age": pa.array([1, 2**64 - 1], pa.uint64())}, "18446744073709551615 has no exact float64"),
    "inexact decimal": ({"age": pa.array([Decimal(1), Decimal(BIG)], pa.decimal128(20, 0))}, "has no exact float64"),
    "inexact end": ({"age_lo": [1, -BIG]}, "-9007199254740993 has no exact float64"),
    "inexact in a list": ({"age": [[1], [2, BIG]]}, "9007199254740993 has no exact float64"),
    "nanoseconds": ({"seen": pa.array([1000, 1001], pa.timestamp("ns"))}, "not a whole number of microseconds"),
    "far seconds": ({"seen": pa.array([1, 2**60], pa.timestamp("s"))}, "does not fit into 64 bits as microseconds"),
    "far date": ({"seen": pa.array([1, 2**31 - 1], pa.date32())}, "does not fit into 64 bits as microseconds"),
    "odd far instant": ({"seen": pa.array([1, BIG], INSTANT)}, "9007199254740993 has no exact float64"),
    "no timestamp": ({"seen": ["2026-01-01", "soon"]}, "expected a timestamp, got 'soon'"),
    "nan equality": ({"age": [1.0, math.nan]}, "attribute 'age': expected a number, got NaN"),
    "nan end": ({"age_hi": [1.0, math.nan]}, "attribute 'age': expected a number, got NaN"),
    "crossed ends": (
        {"age_lo": [1, 3], "age_hi": [1, 2]},
        "no event can match: attribute 'age' from 3 to 2 leaves no value",
    ),
    "empty list": ({"plan": [["x"], []]}, "the list of values is empty"),
    "null in a list": ({"plan": [["x"], ["x", None]]}, "a null among the values"),
    "negative weight": (
        {"age": [1, 1], "age_weight": [1, -1]},
        "attribute 'age': expected a finite weight >= 0, got -1.0",
    ),
    "infinite weight": ({"age": [1, 1], "age_weight": [1, math.inf]}, "expected a finite number, got inf"),
    "half a place": ({"lon": [1, 1], "lat": [1, None], "radius": [5, 5]}, "a place needs lon, lat and radius"),
    "place off the map": ({"lon": [1, 181], "lat": [1, 1], "radius": [5, 5]}, "expected a longitude in -180..180"),
    "no radius": ({"lon": [1, 1], "lat": [1, 1], "radius": [5, 0]}, "expected a radius > 0, got 0.0"),
    "null predicates": ({"predicates": pa.array([[], None], pa.list_(PREDICATE))}, "predicates is null"),
    "null predicate": ({"predicates": a_list(None)}, "an item of the list is null"),
    "null attribute": ({"predicates": a_list({"lo": 1})}, "an attribute's name is null"),
    "empty attribute": ({"predicates": a_list({"attribute": "", "lo": 1})}, "name"),
    "list: two ways": (
        {"predicates": a_list({"attribute": "age", "lo": 1, "text": "x"})},
        "attribute 'age': both lo/hi and text are given",
    ),
    "list: string for a number": (
        {"predicates": a_list({"attribute": "age", "text": "old"})},
        "attribute 'age': expected a number, got 'old'",
    ),
    "list: number for a string": (
        {"predicates": a_list({"attribute": "plan", "lo": 1})},
        "attribute 'plan': expected a string, got 1.0",
    ),
    "list: number for a timestamp": (
        {"predicates": a_list({"attribute": "seen", "lo": 1})},
        "attribute 'seen': expected a timestamp, got 1.0",
    ),
    "list: two for a bool": (
        {"predicates": a_list({"attribute": "vip", "lo": 2})},
        "attribute 'vip': expected a bool, got 2.0",
    ),
    "list: number for a point": ({"predicates": a_list({"attribute": "place", "lo": 2})}, "expected a point, got 2.0"),
    "list: crossed": (
        {"predicates": a_list({"attribute": "age", "lo": 2, "hi": 1})},
        "attribute 'age' from 2 to 1 leaves no value",
    ),
    "list: nan": (
        {"predicates": a_list({"attribute": "age", "lo": math.nan})},
        "attribute 'age': expected a number, got NaN",
    ),
    "list: empty": ({"predicates": a_list({"attribute": "plan", "values": []})}, "the list of values is empty"),
    "list: null value": ({"predicates": a_list({"attribute": "plan", "values": [None]})}, "a null among the values"),
    "list: no timestamp": (
        {"predicates": a_list({"attribute": "seen", "text": "soon"})},
        "expected a timestamp, got 'soon'",
    ),
    "list: weight": (
        {"predicates": a_list({"attribute": "age", "lo": 1, "weight": -1})},
        "expected a finite weight >= 0, got -1.0",
    ),
    "list: twice, never": (
        {"predicates": a_list({"attribute": "age", "lo": 1}, {"attribute": "age", "hi": 0})},
        "the conditions on 'age' exclude each other",
    ),
    "text: null": ({"expression": ["TRUE", None]}, "the expression is null"),
    "text: syntax": ({"expression": ["TRUE", "age >"]}, "^"),
    "text: type": ({"expression": ["TRUE", "age = 'x'"]}, "age"),
    "text: never": ({"expression": ["TRUE", "age < 1 AND age > 1"]}, "no event can match"),
    "text: JSON": ({"expression": ["TRUE", '{"op": 1']}, "the expression is not JSON"),
    "text: CQL2": ({"expression": ["TRUE", '{"op": "near"}']}, "$.op"),
}

BAD_EVENTS: dict[str, tuple[dict[str, Any], str]] = {
    "negative id": ({"id": [1, -1], "age": [1, 2]}, "expected an id from 0"),
    "repeated id": ({"id": [1, 1], "age": [1, 2]}, "an earlier record has the same id 1"),
    "inexact integer": ({"age": [1, BIG]}, "attribute 'age': 9007199254740993 has no exact float64"),
    "inexact in a list": ({"age": [[1], [None, BIG]]}, "9007199254740993 has no exact float64"),
    "nanoseconds": ({"seen": pa.array([1000, 1001], pa.timestamp("ns", "UTC"))}, "not a whole number of microseconds"),
    "until": ({"until": ["2026-01-01", "soon"]}, "until: expected a timestamp"),
    "empty range": ({"age": over_empty(({"lo": 2, "hi": 1}, NUMBERS))}, "the range from 2 to 1 is empty"),
    "range of nan": ({"age": over_empty(({"lo": math.nan, "hi": 1}, NUMBERS))}, "expected a number, got NaN"),
    "range in a list": (
        {"age": over_empty(([{"lo": 2, "hi": 1}], pa.list_(NUMBERS)))},
        "the range from 2 to 1 is empty",
    ),
    "half a point": ({"place": over_empty(({"lon": 1, "lat": None}, POINT))}, "expected a longitude in -180..180"),
    "off the map": ({"place": over_empty(({"lon": 1, "lat": 91}, POINT))}, "got (1.0, 91.0)"),
    "weight": ({"age": [1, 1], "weights": [{"age": 1.0}, {"age": -1.0}]}, "expected a finite weight >= 0, got -1.0"),
    "list: null": ({"values": pa.array([[], None], pa.list_(PREDICATE))}, "values is null"),
    "list: type": (
        {"values": a_list({"attribute": "age", "text": "old"})},
        "attribute 'age': expected a number, got 'old'",
    ),
    "list: range": ({"values": a_list({"attribute": "age", "lo": 2, "hi": 1})}, "the range from 2 to 1 is empty"),
    "list: weights": (
        {"values": a_list({"attribute": "age", "lo": 2, "weight": 1}, {"attribute": "age", "hi": 1, "weight": 2})},
        "values with different weights",
    ),
}


@pytest.mark.parametrize(("columns", "reason"), BAD_SUBSCRIPTIONS.values(), ids=BAD_SUBSCRIPTIONS)
def test_a_bad_cell_of_a_subscription_is_a_reject(columns: dict[str, Any], reason: str) -> None:
    table = pa.table({"id": [7, 8], **columns})
    encoded = encode_subscription_table(table, Schema(TYPES))
    assert_second_rejected(encoded, reason, table)
    assert encoded.rows.size == 1
    with pytest.raises(MatchwoodError, match=r"^row 1: ") as raised:
        encode_subscription_table(table, Schema(TYPES), on_error="raise")
    assert reason in str(raised.value)


@pytest.mark.parametrize(("columns", "reason"), BAD_EVENTS.values(), ids=BAD_EVENTS)
def test_a_bad_cell_of_an_event_is_a_reject(columns: dict[str, Any], reason: str) -> None:
    table = pa.table(columns)
    encoded = encode_event_table(table, Schema(TYPES))
    assert_second_rejected(encoded, reason, table)
    assert encoded.events.size == 1
    with pytest.raises(MatchwoodError, match=r"^row 1: "):
        encode_event_table(table, Schema(TYPES), on_error="raise")


def assert_second_rejected(encoded: Any, reason: str, table: pa.Table) -> None:
    (reject,) = encoded.rejects
    assert (reject.position, reject.where) == (1, "row 1")
    assert reason in reject.reason
    assert set(reject.content) == set(table.column_names)
    assert encoded.positions.tolist() == [0]
    assert encoded.read == table.num_rows


CONTRADICTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "no id": (encode_subscription_table, {"age": [1]}, "there is no column 'id'"),
    "id type": (encode_subscription_table, {"id": ["a"]}, "column 'id': expected integers, got the Arrow type string"),
    "equality": (
        encode_subscription_table,
        {"id": [1], "age": ["x"]},
        "column 'age': expected number .* Arrow type string",
    ),
    "end": (
        encode_subscription_table,
        {"id": [1], "age_lo": [True]},
        "column 'age_lo': expected number .* Arrow type bool",
    ),
    "list": (
        encode_subscription_table,
        {"id": [1], "plan": [[1]]},
        "column 'plan': expected string .* Arrow type int64",
    ),
    "ordered strings": (
        encode_subscription_table,
        {"id": [1], "plan_lo": ["x"]},
        "column 'plan_lo': strings have no order",
    ),
    "binary": (encode_subscription_table, {"id": [1], "age": [b"x"]}, "column 'age': expected numbers"),
    "two forms": (
        encode_subscription_table,
        {"id": [1], "age": [1], "age_lo": [1]},
        "column 'age_lo': attribute 'age' also",
    ),
    "part of a place": (encode_subscription_table, {"id": [1], "lon": [1.0]}, "column 'lon': a place is lon, lat"),
    "list form": (
        encode_subscription_table,
        {"id": [1], "predicates": [[1]]},
        "column 'predicates': expected a list of structs",
    ),
    "list field": (
        encode_subscription_table,
        {"id": [1], "predicates": [[{"attribute": "age", "low": 1}]]},
        "column 'predicates': unknown field 'low'",
    ),
    "list bounds": (
        encode_subscription_table,
        {"id": [1], "predicates": [[{"attribute": "age", "lo": "1"}]]},
        "lo and hi: expected numbers or timestamps",
    ),
    "list column": (
        encode_subscription_table,
        {"id": [1], "predicates": pa.array([[]], pa.list_(PREDICATE)), "age": [1]},
        "column 'age': not a column of the list form, which has .*; drop it",
    ),
    "expression": (encode_subscription_table, {"id": [1], "expression": [1]}, "column 'expression': expected strings"),
    "both forms": (
        encode_subscription_table,
        {"id": [1], "expression": ["a"], "predicates": [[1]]},
        "choose one with form",
    ),
    "event": (encode_event_table, {"age": ["x"]}, "column 'age': expected number .* Arrow type string"),
    "event list": (encode_event_table, {"plan": [[1.0]]}, "column 'plan': expected string .* Arrow type double"),
    "event point": (encode_event_table, {"place": [1.0]}, "column 'place': expected point .* Arrow type double"),
    "event struct": (encode_event_table, {"age": [{"min": 1}]}, "column 'age': expected struct<lo, hi>"),
    "event weights": (
        encode_event_table,
        {"age": [1], "weights": [1.0]},
        "column 'weights': expected a map or a struct",
    ),
    "until": (encode_event_table, {"until": [1.0]}, "column 'until': expected timestamps, got the Arrow type double"),
}


@pytest.mark.parametrize(("encode", "columns", "message"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_column_that_contradicts_the_schema_is_fatal(
    encode: Callable[..., Any], columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        encode(pa.table(columns), Schema(TYPES))


@pytest.mark.parametrize(
    ("declared", "names", "column"),
    [
        ({"age": "number", "age_lo": "number"}, ["age_lo"], "age_lo"),
        ({"net_weight": "number"}, ["net", "net_weight"], "net_weight"),
        ({"priority": "number"}, ["priority"], "priority"),
        ({"lat": "number"}, ["lon", "lat", "radius"], "lat"),
    ],
)
def test_an_ambiguous_column_is_named(declared: dict[str, str], names: list[str], column: str) -> None:
    table = pa.table({"id": [1], **{name: [1.0] for name in names}})
    with pytest.raises(SchemaError, match=f"column '{column}'.*rename"):
        encode_subscription_table(table, Schema(declared))


def test_a_suffix_without_its_attribute_is_a_name_like_any_other() -> None:
    schema = Schema({"lat": "number", "at_lo": "number", "net_weight": "number"})
    encode_subscription_table(pa.table({"id": [1], "net_weight": [1.0], "lat": [2.0], "at_lo": [3.0]}), schema)
    assert [attribute.name for attribute in schema] == ["lat", "at_lo", "net_weight"]


def test_a_plain_column_that_is_no_attribute_is_refused_by_name_and_teaches_nothing() -> None:
    table = pa.table({"id": [1], "email": ["a@b.c"], "tags": [["x"]], "age_lo": [18], "net_weight": [2.0]})
    schema = Schema()
    for part in (table, table.slice(0, 0)):
        with pytest.raises(
            SchemaError, match=r"column 'email', 'tags', 'net_weight': not a column of the wide form.*declare"
        ):
            encode_subscription_table(part, schema)
    assert not len(schema)
    encode_event_table(pa.table({"email": ["a@b.c"], "net_weight": [2.0]}), schema)  # which makes them attributes
    with pytest.raises(SchemaError, match="column 'tags': "):
        encode_subscription_table(table, schema)
    schema.declare("tags", "string")
    assert encode_subscription_table(table, schema).ids.tolist() == [1]
    assert [attribute.name for attribute in schema] == ["email", "net_weight", "tags", "age"]


def test_a_closed_schema_names_the_column_it_does_not_know() -> None:
    closed = Schema(TYPES, learn=False)
    with pytest.raises(UnknownAttributeError, match="column 'height_lo': attribute 'height'"):
        encode_subscription_table(pa.table({"id": [1], "height_lo": [1]}), closed)
    with pytest.raises(UnknownAttributeError, match="column 'height'"):
        encode_event_table(pa.table({"height": [1]}), closed)
    listed = pa.table({"id": [1], "predicates": pa.array([[{"attribute": "height", "lo": 1}]], pa.list_(PREDICATE))})
    (reject,) = encode_subscription_table(listed, closed).rejects
    assert "'height' is not in the schema" in reject.reason


def test_errors_keep_their_kind_when_raised() -> None:
    for columns, kind in [
        ({"age": [BIG]}, InexactValueError),
        ({"age": [math.nan]}, ValueTypeError),
        ({"plan": pa.array([[]], pa.list_(pa.string()))}, NeverMatchesError),
        ({"expression": ["age >"]}, ParseError),
    ]:
        with pytest.raises(kind):
            encode_subscription_table(pa.table({"id": [1], **columns}), Schema(TYPES), on_error="raise")
    with pytest.raises(DuplicateSubscriptionError):
        encode_subscription_table(pa.table({"id": [1, 1], "age": [1, 1]}), Schema(TYPES), on_error="raise")
    with pytest.raises(QueryError, match="on_error"):
        SubscriptionEncoder(Schema(), on_error="ignore")
    with pytest.raises(QueryError, match="form"):
        EventEncoder(Schema(), form="text")


def test_ids_are_remembered_from_batch_to_batch() -> None:
    encoder = SubscriptionEncoder(Schema(TYPES))
    batches = [pa.record_batch({"id": ids, "age": ages}) for ids, ages in [([1, 2], [1, BIG]), ([3, 1, 2], [1, 2, 3])]]
    first, second = [encoder.encode(batch) for batch in batches]
    assert first.ids.tolist() == [1]
    assert second.ids.tolist() == [3, 2], "the 2 of the first batch was no good, so it takes no id"
    assert [(reject.position, reject.id) for reject in second.rejects] == [(3, 1)]


def test_seen_ids_equal_a_set() -> None:
    rng, seen, known = np.random.default_rng(3), SeenIds(), set()
    for _ in range(60):
        ids = rng.integers(0, 900, rng.integers(0, 50))
        expected = []
        for id_ in ids.tolist():
            expected.append(id_ in known)
            known.add(id_)
        assert seen.repeated(ids).tolist() == expected


def test_events_without_an_id_are_never_doubles() -> None:
    encoded = encode_event_table(pa.table({"id": pa.array([None, 4, None]), "age": [1, 2, 3]}), Schema())
    assert encoded.ids.tolist() == [-1, 4, -1]


def test_the_original_content_is_kept_even_where_python_has_no_value_for_it() -> None:
    table = pa.table({"id": [1], "seen": pa.array([1001], pa.timestamp("ns"))})
    (reject,) = encode_subscription_table(table, Schema(TYPES)).rejects
    assert reject.content["id"] == 1  # type: ignore[index]
    assert "1970-01-01" in str(reject.content["seen"])  # type: ignore[index]


def test_units_and_zones_become_microseconds() -> None:
    instant = datetime(2026, 3, 1, tzinfo=UTC)
    micro = instant.timestamp() * 1e6
    for type_ in [pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "Asia/Tokyo")] + [
        pa.date32(),
        pa.date64(),
    ]:
        value = instant if getattr(type_, "tz", None) else instant.replace(tzinfo=None)
        encoded = encode_event_table(pa.table({"seen": pa.array([value], type_)}), Schema(TYPES))
        assert encoded.events.lo.tolist() == [micro], type_


def test_numbers_of_every_arrow_type_are_exact() -> None:
    for type_ in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(5, 2)):
        encoded = encode_event_table(pa.table({"age": pa.array([3], pa.int8()).cast(type_)}), Schema())
        assert encoded.events.lo.tolist() == [3.0], type_
    tricky = [Decimal("0.1"), Decimal("123456789.123456789123"), Decimal("-9999999.3")]
    encoded = encode_event_table(pa.table({"age": pa.array(tricky, pa.decimal128(30, 12))}), Schema())
    assert encoded.events.lo.tolist() == [float(value) for value in tricky]
    exact = pa.table({"age": [2**60, -(2**63)]})
    assert encode_event_table(exact, Schema()).events.lo.tolist() == [2.0**60, -(2.0**63)]


def test_an_empty_table_is_empty_arrays_and_its_columns_are_checked() -> None:
    encoded = encode_subscription_table(pa.table({"id": pa.array([], pa.int64())}), Schema())
    assert (encoded.read, encoded.rows.size) == (0, 0)
    with pytest.raises(SchemaError):
        encode_subscription_table(pa.table({"id": pa.array([], pa.string())}), Schema())


JSON_SUBSCRIPTIONS = {
    "{": "the line is not JSON",
    "[1]": "expected a subscription as a JSON object",
    '{"id": 9}': 'the key "expression" is missing',
    '{"expression": "TRUE"}': "expected an id from 0 to 2**63 - 1, got None",
    '{"id": true, "expression": "TRUE"}': "expected an id",
    '{"id": 1, "expression": "TRUE"}': "an earlier record has the same id 1",
    '{"id": 9, "expression": "age >"}': "^",
    '{"id": 9, "expresion": "TRUE"}': "unknown key 'expresion'",
    '{"id": 9, "expression": {"op": "near"}}': "$.op",
    '{"id": 9, "expression": "TRUE", "priority": NaN}': "priority: expected a finite number",
    '{"id": 9, "expression": "TRUE", "place": [1, 2]}': 'expected both "place" and "radius" (metres)',
    '{"id": 9, "expression": "TRUE", "place": [1, 92], "radius": 3}': "place: expected a longitude",
    '{"id": 9, "expression": "TRUE", "until": "soon"}': "until: expected a timestamp",
}
JSON_EVENTS = {
    "nonsense": "the line is not JSON",
    '{"values": [1]}': "values: expected an object",
    '{"values": {"age": "x"}}': "attribute 'age': expected a number, got 'x'",
    '{"values": {"age": {"min": 2, "max": 1}}}': "range from 2 to 1 is empty",
    '{"values": {"age": {"from": 2}}}': "attribute 'age': expected a number, got {'from': 2}",
    '{"values": {"age": 9007199254740993}}': "has no exact float64",
    '{"values": {"seen": {"timestamp": "soon"}}}': "attribute 'seen': expected a timestamp",
    '{"values": {"age": 1}, "weights": {"age": -1}}': "expected a finite weight >= 0",
    '{"values": {"place": {"lon": 1}}}': "attribute 'place': expected a point",
    '{"place": [1, 2, 3]}': "place: expected a point",
    '{"id": 1}': "an earlier record has the same id 1",
}


@pytest.mark.parametrize(("line", "reason"), JSON_SUBSCRIPTIONS.items())
def test_a_bad_line_of_a_subscription_is_named(line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "subs.jsonl"
    path.write_text('{"id": 1, "expression": "age >= 18", "place": [1, 2], "radius": 5}\n\n' + line + "\n")
    encoded = read_json_subscriptions(path, Schema(TYPES))
    (reject,) = encoded.rejects
    assert (reject.position, reject.where, reject.content) == (2, "subs.jsonl, line 3", line)
    assert reason in reject.reason
    assert (encoded.read, encoded.ids.tolist(), encoded.positions.tolist()) == (2, [1], [0])
    with pytest.raises(MatchwoodError, match=r"^subs\.jsonl, line 3: "):
        read_json_subscriptions(path, Schema(TYPES), on_error="raise")


@pytest.mark.parametrize(("line", "reason"), JSON_EVENTS.items())
def test_a_bad_line_of_an_event_is_named(line: str, reason: str) -> None:
    encoded = read_json_events(
        ['{"id": 1, "place": [1, 2], "until": "1970-01-01T00:00:01Z"}', line.encode()], Schema(TYPES)
    )
    (reject,) = encoded.rejects
    assert (reject.position, reject.where, reject.content) == (1, "line 2", line)
    assert reason in reject.reason
    assert encoded.events.lo.tolist() == [1.0, 2.0]
    assert encoded.until.tolist() == [1e6]


def test_json_lines_stream_in_parts_and_report_progress(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(json.dumps({"id": i, "values": {"age": i}}) for i in range(10)))
    seen: list[tuple[int, int]] = []
    schema = Schema({"age": "number"})
    encoded = read_json_events(path, schema, batch_lines=4, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(4, 10), (8, 10), (10, 10)]
    assert encoded.events.lo.tolist() == list(range(10))


# what fuzzing found


def test_numbers_that_float_cannot_hold_are_rejects_and_not_overflows() -> None:
    huge = "1" + "0" * 400
    lines = [
        f'{{"id": 1, "expression": "age > 3", "priority": {huge}}}',
        f'{{"id": 2, "expression": "age > 3", "place": [1, 2], "radius": {huge}}}',
        f'{{"id": 3, "expression": "age > 3", "radius": {"1" * 5000}}}',
    ]
    encoded = read_json_subscriptions(lines, Schema())
    assert [reject.position for reject in encoded.rejects] == [0, 1, 2]


def test_json_text_with_a_number_python_does_not_read_is_a_reject() -> None:
    table = pa.table({"id": [1], "expression": ['{"op": "=", "args": [{"property": "a"}, ' + "1" * 5000 + "]}"]})
    (reject,) = encode_subscription_table(table, Schema()).rejects
    assert "not JSON" in reject.reason


def test_bytes_that_are_no_text_are_a_schema_error() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    for column in ("expression", "plan"):
        table = pa.table({"id": [1], column: broken})
        with pytest.raises(SchemaError, match="not UTF-8"):
            encode_subscription_table(table, Schema(TYPES))


def test_the_meaning_of_wide_columns_does_not_change_from_batch_to_batch() -> None:
    columns = {"id": range(4), "price_lo": [1] * 4, "price_hi": [2] * 4, "price_hi_lo": [1] * 4}
    whole = pa.table(columns)
    chunked = pa.concat_tables([whole.slice(0, 2), whole.slice(2)])
    assert encode_subscription_table(chunked, Schema()).ids.tolist() == [0, 1, 2, 3]


def test_a_wide_column_about_the_records_own_id_is_refused_in_every_batch() -> None:
    with pytest.raises(SchemaError, match="'id_lo'"):
        encode_subscription_table(pa.table({"id": [1], "id_lo": [1], "age": [3]}), Schema({"age": "number"}))


def test_an_empty_interval_of_instants_past_the_calendar_is_a_reject() -> None:
    far = pa.array([2**62], pa.timestamp("us"))
    table = pa.table({"id": [1], "seen_lo": far, "seen_hi": pa.array([0], pa.timestamp("us"))})
    (reject,) = encode_subscription_table(table, Schema()).rejects
    assert "leaves no value" in reject.reason


@pytest.mark.parametrize(
    "line",
    [
        b'{"values": {"age": 3}}',
        b'  {"values": {"age": 3}} \r\n',
        '{"values": {"age": 3}}\n',
        "\ufeff{}".encode(),
        '{"values": {"age": 3}}'.encode("utf-16"),
        b'{"values": {"age": 3}} {}',
        b'{"values": {"age": 3}}\x0b',
        "{}\u00a0",
        b'{"values": {"plan": "\xff"}}',
        b'{"values": {"age": NaN}}',
        b"[" * 100_000,
        b"",
    ],
)
def test_a_line_is_read_as_json_reads_it(line: str | bytes) -> None:
    try:
        expected = json.loads(line) if line.strip() else None
    except (ValueError, RecursionError):
        expected = "an error"
    encoded = read_json_events([line], Schema(TYPES))
    assert len(encoded.rejects) == (expected == "an error")
    assert encoded.events.size == isinstance(expected, dict)
