"""Arrays remember the schema that encoded them, and rows when they expire; whatever is made of them remembers it too."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from matchwood.encode.arrays import Events, Rows, concatenate_events, concatenate_rows, make_events, make_rows
from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.events import encode_events
from matchwood.encode.json_lines import read_json_events, read_json_subscriptions
from matchwood.encode.objects import RowsBuilder
from matchwood.encode.parquet import read_events, read_subscriptions
from matchwood.encode.picking import pick_events, pick_rows
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.errors import SchemaError
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema

SOON = pa.array([1_000_000, None, 2_000_000], pa.timestamp("us"))
UNTIL = [1e6, np.inf, 2e6]


def subscription_table(form: str) -> pa.Table:
    said: dict[str, Any] = {
        "text": {"expression": ["a > 1", "a = 1 OR b = 2", "a < 9"]},
        "wide": {"a_lo": [1, 2, 3], "b": [1, 2, 3]},
        "list": {"predicates": [[{"attribute": "a", "lo": 1}], [{"attribute": "a", "lo": 1}] * 2, []]},
    }[form]
    return pa.table({"id": [7, 8, 9], **said, "until": SOON})


@pytest.mark.parametrize("form", ["text", "wide", "list"])
def test_rows_of_a_table_bear_their_schema_and_expiry(form: str, tmp_path: Path) -> None:
    schema = Schema({"b": "number"})
    pq.write_table(subscription_table(form), tmp_path / "subscriptions.parquet")
    for encoded in (
        encode_subscription_table(subscription_table(form), schema),
        read_subscriptions(tmp_path / "subscriptions.parquet", schema, batch_rows=2),
    ):
        assert not encoded.rejects
        assert encoded.rows.schema is schema
        assert encoded.rows.until is not None
        expected = dict(zip([7, 8, 9], UNTIL, strict=True))
        assert encoded.rows.until.tolist() == [expected[id_] for id_ in encoded.rows.ids.tolist()]


def test_rows_of_json_and_of_objects_bear_their_schema_and_expiry() -> None:
    schema = Schema()
    lines = [
        '{"id": 1, "expression": "a = 1 OR b = 2"}',
        '{"id": 2, "expression": "a = 1", "until": "1970-01-01T00:00:01Z"}',
    ]
    rows = read_json_subscriptions(lines, schema).rows
    assert rows.schema is schema
    assert rows.until is not None
    assert rows.until.tolist() == [np.inf, np.inf, 1e6]
    builder = RowsBuilder(schema)
    builder.add(1, 0.0, normalise(parse("a = 1"), schema))
    assert builder.build().schema is schema
    assert builder.build().until is None
    assert read_json_subscriptions(lines[:1], schema).rows.until is None


def test_events_bear_their_schema(tmp_path: Path) -> None:
    schema = Schema({"a": "number", "s": "string"})
    table = pa.table({"a": [1, 2, 3], "s": ["x", "y", None]})
    pq.write_table(table, tmp_path / "events.parquet")
    listed = pa.table({"values": [[{"attribute": "a", "value": 1.0}]]})
    lines = ['{"values": {"a": 1}}', '{"values": {"a": [1, 2]}}', '{"values": {"s": "x"}}']
    for events in (
        encode_events([{"a": 1}], schema),
        encode_event_table(table, schema).events,
        encode_event_table(listed, schema).events,
        read_events(tmp_path / "events.parquet", schema, batch_rows=2).events,
        read_json_events(lines, schema).events,
        read_json_events(lines, schema, batch_lines=1).events,
    ):
        assert events.schema is schema


def some_rows() -> Rows:
    return encode_subscription_table(subscription_table("wide"), Schema({"b": "number"})).rows


@pytest.mark.parametrize(
    ("made", "until"),
    [
        (lambda rows: rows.take(1, 3), UNTIL[1:]),
        (lambda rows: pick_rows(rows, np.array([2, 0])), [2e6, 1e6]),
        (lambda rows: concatenate_rows([rows.take(0, 1), rows.take(1, 3)]), UNTIL),
        (lambda rows: concatenate_rows([rows.take(0, 1), Rows(*rows.take(1, 3))]), [1e6, np.inf, np.inf]),
        (lambda rows: rows._replace(priority=rows.priority + 1), UNTIL),
        (copy.copy, UNTIL),
    ],
)
def test_what_is_made_of_rows_remembers(made: Callable[[Rows], Rows], until: list[float]) -> None:
    rows = some_rows()
    assert made(rows).schema is rows.schema is not None
    found = made(rows).until
    assert found is not None
    assert found.tolist() == until
    assert made(Rows(*rows)).schema is None


@pytest.mark.parametrize(
    "made",
    [
        lambda events: events.take(1, 2),
        lambda events: pick_events(events, np.array([1, 0])),
        lambda events: concatenate_events([events, make_events([0, 0], [], [], [])]),
        lambda events: events._replace(weight=events.weight * 2),
        copy.copy,
    ],
)
def test_what_is_made_of_events_remembers(made: Callable[[Events], Events]) -> None:
    events = encode_events([{"a": 1}, {"a": 2}], Schema())
    assert made(events).schema is events.schema is not None
    assert made(Events(*events)).schema is None


def test_a_pickle_keeps_columns_expiry_and_what_the_schema_meant() -> None:
    rows = some_rows()
    again = pickle.loads(pickle.dumps(rows))
    assert type(again) is Rows
    for ours, theirs in zip(rows, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert again.until.tolist() == UNTIL
    assert again.schema.extends(rows.schema)
    assert rows.schema is not None
    assert rows.schema.extends(again.schema)


def test_parts_of_schemas_that_disagree_are_not_put_together() -> None:
    one, other = Schema({"a": "number", "b": "number"}), Schema({"b": "number", "a": "number"})
    wider = Schema({"a": "number", "b": "number", "c": "string"})
    events = [encode_events([{"a": 1}], schema) for schema in (one, other, wider)]
    assert concatenate_events([events[0], events[2], events[0]]).schema is wider
    with pytest.raises(
        SchemaError, match=r"different schemas: attribute 'b': expected dimension 1 .*, got dimension 0"
    ):
        concatenate_events(events[:2])


def test_arrays_made_by_hand_bear_nothing() -> None:
    rows = make_rows([4], [1.5], [0, 1], [0], [0], [0.0], [9.0], [0.5])
    assert rows.schema is None
    assert rows.until is None
    assert make_events([0, 0], [], [], []).schema is None
