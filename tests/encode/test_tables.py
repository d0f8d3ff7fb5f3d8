"""Tables of every kind are read alike, with ids, metadata and `until`; columns that are no conditions are told."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from matchwood.encode.events import encode_events
from matchwood.encode.tables import file_format, is_table, read_events, read_subscriptions, stream_subscriptions
from matchwood.errors import EventError, QueryError, SchemaError, StorageError
from matchwood.lang.bad_values import BadValues
from matchwood.schema import Schema
from tests.encode.tables import assert_same

EVERY_COLUMN: dict[str, Any] = {
    "id": ["ann", "bob", "cy"],
    "priority": [1.0, None, 2.5],
    "until": pa.array([None, datetime(2027, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "lon": [10.75, None, None],
    "lat": [59.91, None, None],
    "radius": [500.0, None, None],
    "metadata": ['{"tier": 1}', None, '["a", 2]'],
}
METADATA = [{"tier": 1}, None, ["a", 2]]
TEXT = {"expression": ["age >= 18", "age < 40", "plan = 'pro'"]}
WIDE = {"age_lo": [18, None, None], "age_hi": [None, 40, None], "plan": [None, None, "pro"]}
LIST = {
    "predicates": pa.array(
        [
            [{"attribute": "age", "lo": 18.0, "hi": None, "text": None}],
            [{"attribute": "age", "lo": None, "hi": 40.0, "text": None}],
            [{"attribute": "plan", "lo": None, "hi": None, "text": "pro"}],
        ],
        pa.list_(
            pa.struct([("attribute", pa.string()), ("lo", pa.float64()), ("hi", pa.float64()), ("text", pa.string())])
        ),
    )
}
FORMS = {"text": TEXT, "wide": WIDE, "list": LIST}


class Stream:
    """A foreign table, as Polars and DuckDB offer theirs: nothing but the Arrow C stream."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def a_schema() -> Schema:
    return Schema({"age": "number", "plan": "string"})


def a_table(form: str = "text") -> pa.Table:
    return pa.table({**EVERY_COLUMN, **FORMS[form]})


def lines_of(table: pa.Table) -> str:
    """The table of the text form as JSON lines."""
    lines = []
    for record in table.to_pylist():
        place = None if record["lon"] is None else [record["lon"], record["lat"]]
        metadata = None if record["metadata"] is None else json.loads(record["metadata"])
        until = None if record["until"] is None else record["until"].isoformat()
        kept = {key: record[key] for key in ("id", "priority", "expression", "radius")}
        lines.append(json.dumps({**kept, "place": place, "metadata": metadata, "until": until}) + "\n")
    return "".join(lines)


def every_source(folder: Path, table: pa.Table) -> dict[str, object]:
    pq.write_table(table, folder / "subs.parquet")
    csv.write_csv(table, folder / "subs.csv")
    (folder / "subs.ndjson").write_text(lines_of(table))
    (folder / "many").mkdir()
    for part in range(table.num_rows):
        pq.write_table(table.slice(part, 1), folder / "many" / f"{part}.parquet")
    return {
        "table": table,
        "batch": table.combine_chunks().to_batches()[0],
        "reader": table.to_reader(max_chunksize=1),
        "stream": Stream(table),
        "parquet": folder / "subs.parquet",
        "folder": str(folder / "many"),
        "csv": folder / "subs.csv",
        "json": str(folder / "subs.ndjson"),
    }


@pytest.mark.parametrize("form", FORMS)
def test_ids_priorities_places_until_and_metadata_come_through_in_every_form(form: str) -> None:
    encoded = read_subscriptions(a_table(form), a_schema())
    assert encoded.rejects == ()
    assert encoded.names == ["ann", "bob", "cy"]
    assert encoded.ids.tolist() == encoded.rows.ids.tolist() == [0, 1, 2]
    assert encoded.metadata == METADATA
    assert encoded.rows.priority.tolist() == [1.0, 0.0, 2.5]
    assert encoded.until.tolist() == [np.inf, datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1e6, np.inf]
    assert encoded.rows.until is not None
    assert np.diff(encoded.rows.offsets)[0] > np.diff(encoded.rows.offsets)[1] == 1  # the first has a place


def test_every_kind_of_table_gives_the_same_subscriptions(tmp_path: Path) -> None:
    expected = read_subscriptions(a_table(), a_schema())
    for kind, source in every_source(tmp_path, a_table()).items():
        found = read_subscriptions(source, a_schema())
        assert found.rejects == (), kind
        assert (found.names, found.metadata) == (expected.names, expected.metadata), kind
        assert found.until.tolist() == expected.until.tolist(), kind
        assert_same(found.rows, expected.rows)


def test_a_pandas_frame_is_read_without_its_index() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [4, 5], "age_lo": [18.0, float("nan")], "plan": ["pro", None]}, index=["x", "y"])
    encoded = read_subscriptions(frame, a_schema())
    assert (encoded.ids.tolist(), encoded.names, encoded.metadata) == ([4, 5], None, None)
    assert np.diff(encoded.rows.offsets).tolist() == [2, 0]
    events = read_events(pandas.DataFrame({"age": [3, 4], "seen": pandas.to_datetime(["2026-01-01"] * 2)}), a_schema())
    assert events.events.lo.tolist() == [3.0, 4.0]
    with pytest.raises(SchemaError, match="DataFrame has columns that Arrow cannot hold"):
        read_events(pandas.DataFrame({"age": [1, "x"]}), a_schema())


def test_string_ids_are_numbered_over_batches_and_a_repeated_one_is_rejected() -> None:
    table = pa.table(
        {"id": ["a", "b", "a", None, "c"], "expression": ["age > 1", "age >", "age > 2", "TRUE", "age > 3"]}
    )
    encoded = read_subscriptions(table.to_reader(max_chunksize=2), a_schema())
    assert encoded.names == ["a", "c"]
    assert encoded.rows.ids.tolist() == [0, 1]
    assert [(reject.position, reject.id) for reject in encoded.rejects] == [(1, "b"), (2, "a"), (3, None)]
    assert "an earlier record has the same id 'a'" in encoded.rejects[1].reason
    assert encoded.rejects[2].reason == "the id is null"


def test_json_lines_number_string_ids_as_tables_do(tmp_path: Path) -> None:
    path = tmp_path / "subs.jsonl"
    records = [{"id": "a"}, {"id": "b", "expression": "age >"}, {"id": "a"}, {"id": 7}, {}, {"id": "c", "metadata": 3}]
    path.write_text("".join(json.dumps({"expression": "age > 1", **record}) + "\n" for record in records))
    encoded = read_subscriptions(path, a_schema())
    assert (encoded.names, encoded.ids.tolist(), encoded.metadata) == (["a", "c"], [0, 1], [None, 3])
    reasons = [(reject.id, reject.reason) for reject in encoded.rejects]
    assert [id_ for id_, _ in reasons] == ["b", "a", None, None]
    assert reasons[1][1] == "an earlier record has the same id 'a'"
    assert reasons[2][1] == "expected a string as the id, as in the records before, got 7 (int)"


def test_ids_of_one_input_are_of_one_kind(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "expression": ["age > 1"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": ["a"], "expression": ["age > 1"]}), tmp_path / "2.parquet")
    with pytest.raises(SchemaError, match="column 'id': expected integers as in the batches before, got strings"):
        read_subscriptions(tmp_path, a_schema())


def test_events_keep_string_ids_and_those_without_one_have_none() -> None:
    encoded = read_events(pa.table({"id": ["x", None, "y"], "age": [1, 2, 3]}), a_schema())
    assert (encoded.names, encoded.ids.tolist()) == (["x", None, "y"], [0, -1, 1])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([{"tier": 1, "since": date(2026, 1, 2)}, None]), [{"tier": 1, "since": "2026-01-02"}, None]),
        (pa.array([[1, 2], []]), [[1, 2], []]),
        (pa.array([Decimal("1.50"), Decimal("2.00")]), [1.5, 2]),
        (pa.array(['"vip"', "null"]), ["vip", None]),
        (pa.array([7, None]), [7, None]),
    ],
)
def test_metadata_is_json_text_or_a_value_of_any_type(column: Any, expected: list[Any]) -> None:
    table = pa.table({"id": [1, 2], "expression": ["age > 1", "age > 2"], "metadata": column})
    assert read_subscriptions(table, a_schema()).metadata == expected
    json.dumps(expected)


def test_metadata_that_is_no_json_rejects_its_record() -> None:
    table = pa.table({"id": [1, 2], "expression": ["age > 1", "age > 2"], "metadata": ["vip", '"vip"']})
    encoded = read_subscriptions(table, a_schema())
    assert (encoded.ids.tolist(), encoded.metadata) == ([2], ["vip"])
    assert encoded.rejects[0].reason.startswith("metadata: expected JSON text, got 'vip'")
    table = pa.table({"id": [1], "expression": ["age > 1"], "metadata": [b"vip"]})
    assert "expected a JSON value, got" in read_subscriptions(table, a_schema()).rejects[0].reason


@pytest.mark.parametrize("form", FORMS)
def test_a_column_that_is_no_condition_is_told_in_every_form_and_can_be_ignored(form: str) -> None:
    table = a_table(form).append_column("email", pa.array(["a@b.c", "d@e.f", None]))
    message = rf"column 'email': not a column of the {form} form.*ignore=\['email'\].*'metadata'"
    with pytest.raises(SchemaError, match=message):
        read_subscriptions(table, a_schema())
    encoded = read_subscriptions(table, a_schema(), ignore=["email"])
    assert_same(encoded.rows, read_subscriptions(a_table(form), a_schema()).rows)
    bad = table.set_column(0, "id", pa.array([None, "b", "c"]))
    (reject,) = read_subscriptions(bad, a_schema(), ignore=["email"]).rejects
    assert isinstance(reject.content, dict)
    assert reject.content["email"] == "a@b.c"  # what was read is kept whole


def test_a_form_that_is_chosen_leaves_the_column_of_the_other_alone() -> None:
    table = pa.table({**EVERY_COLUMN, **TEXT, **LIST})
    for form in ("text", "list"):
        assert_same(
            read_subscriptions(table, a_schema(), form=form).rows, read_subscriptions(a_table(form), a_schema()).rows
        )


@pytest.mark.parametrize("register", [False, True])
def test_events_teach_the_schema_no_attribute(register: bool) -> None:
    schema = a_schema()
    table = pa.table({"age": [1, 2], "zip": [12345, 678], "blob": [b"x", b"y"], "plan": ["new", "pro"]})
    encoded = read_events(table, schema, register=register)
    assert encoded.rejects == ()
    assert sorted(schema.attributes) == ["age", "plan"]
    assert len(encoded.events.dims) == 4
    symbols = schema.find("plan").symbols
    assert symbols is not None
    assert ("new" in symbols.codes) == register


def test_nested_objects_are_read_by_dotted_names() -> None:
    schema = Schema({"user.age": "number", "user.home.at": "point", "plan": "string"})
    users = [
        {"age": 31, "home": {"at": {"lon": 1.0, "lat": 2.0}, "zip": 7}},
        {"age": None, "home": None},
        None,
    ]
    encoded = read_events(pa.table({"user": users, "plan": [None, None, "x"]}), schema)
    expected = [{"user": users[0]}, {"user": users[1]}, {"plan": "x"}]
    assert_same(encoded.events, encode_events(expected, schema))
    twice = pa.table({"user": users, "user.age": [1, 2, 3]})
    with pytest.raises(EventError, match=r"attribute 'user.age' is given twice"):
        read_events(twice, schema)


def test_bad_values_are_absent_and_counted_where_they_are_asked_for(tmp_path: Path) -> None:
    schema = Schema({"age": "number", "plan": "string", "at": "point"})
    table = pa.table(
        {
            "age": [1, 2**53 + 1, 3],
            "plan": [4, 5, None],
            "at": [{"lon": 1.0, "lat": 2.0}, {"lon": 500.0, "lat": 2.0}, None],
        }
    )
    bad = BadValues()
    encoded = read_events(table, schema, bad=bad)
    assert encoded.rejects == ()
    assert encoded.events.offsets.tolist() == [0, 3, 3, 4]
    assert {name: found.count for name, found in bad.items()} == {"age": 1, "plan": 2, "at": 1}
    with pytest.raises(SchemaError, match="column 'plan': expected string"):
        read_events(table, schema)
    assert len(read_events(table.drop_columns(["plan"]), schema).rejects) == 1
    lines = tmp_path / "events.jsonl"
    lines.write_text('{"values": {"age": "old", "plan": "x"}}\n')
    bad = BadValues()
    assert read_events(lines, schema, bad=bad).events.offsets.tolist() == [0, 1]
    assert list(bad) == ["age"]


def test_of_an_attribute_without_a_type_events_have_only_the_presence() -> None:
    schema = a_schema()
    read_subscriptions(pa.table({"id": [1], "expression": ["zip IS NOT NULL"]}), schema)
    listed = pa.array([[{"attribute": "zip", "value": "x"}], [{"attribute": "no", "value": "x"}]])
    for table in (
        pa.table({"zip": ["x", None]}),
        pa.table({"zip": [[1], []]}),
        pa.table({"zip": [0.5, float("nan")]}),
        pa.table({"values": listed}),
    ):
        assert read_events(table, schema).events.offsets.tolist() == [0, 1, 1]
    attribute = schema.get("zip")
    assert attribute is not None
    assert attribute.type is None


def test_parts_can_be_streamed_and_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    parts = list(stream_subscriptions(a_table(), a_schema(), progress=lambda *at: seen.append(at)))
    assert sum(len(part.ids) for part in parts) == 3
    assert seen[-1] == (3, 3)


@pytest.mark.parametrize("source", [["age > 1"], 7, None, {"id": [1]}])
def test_what_is_no_table_is_refused(source: object) -> None:
    assert not is_table(source)
    with pytest.raises(QueryError, match="expected an Arrow table, a DataFrame or a path, got"):
        read_subscriptions(source, a_schema())


def test_what_is_a_table_is_known_without_reading_it() -> None:
    table = a_table()
    assert all(map(is_table, [table, table.to_batches()[0], table.to_reader(), Stream(table)]))


def test_files_are_told_by_their_names(tmp_path: Path) -> None:
    assert [file_format(name) for name in ("a.CSV", "b.ndjson", "c.parquet", tmp_path)] == [
        "csv",
        "json",
        "parquet",
        "parquet",
    ]
    with pytest.raises(QueryError, match="expected a name that ends in"):
        read_events("events.txt", a_schema())
    with pytest.raises(StorageError, match="not a readable CSV file"):
        read_events(tmp_path / "missing.csv", a_schema())


def test_the_batches_of_a_reader_are_read_one_by_one() -> None:
    read: list[int] = []

    def batches() -> Any:
        for batch in a_table().to_batches(max_chunksize=1):
            read.append(batch.num_rows)
            yield batch

    reader = pa.RecordBatchReader.from_batches(a_table().schema, batches())
    parts = stream_subscriptions(reader, a_schema())
    while not len(next(parts).ids):
        pass
    assert len(read) == 1
    assert sum(len(part.ids) for part in parts) == 2


def test_an_empty_reader_still_has_its_columns_checked() -> None:
    with pytest.raises(SchemaError, match="column 'email'"):
        read_subscriptions(a_table().append_column("email", pa.array(["x"] * 3)).slice(0, 0).to_reader(), a_schema())


def test_ids_that_are_neither_integers_nor_strings_are_refused() -> None:
    with pytest.raises(SchemaError, match="column 'id': expected integers or strings, got the Arrow type double"):
        read_subscriptions(pa.table({"id": [1.0], "expression": ["age > 1"]}), a_schema())
