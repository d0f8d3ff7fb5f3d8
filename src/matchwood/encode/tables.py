"""Subscriptions and events from whatever holds a table: an Arrow table, a DataFrame, or a file.

    Arrow        Table, RecordBatch, RecordBatchReader, and all that offers the Arrow C stream (Polars, DuckDB, ...)
    pandas       DataFrame; its index is not read
    a path       Parquet (a file or a folder), CSV, or JSON lines, by the ending of its name

The columns are those of docs/encoding.md. This is how an engine and the command line read tables: ids may be strings,
subscriptions keep their metadata, and events do not change the schema.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matchwood.encode.rejects import EncodedEvents, EncodedSubscriptions, Progress
from matchwood.errors import QueryError, SchemaError, StorageError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.schema import Schema, describe

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}
"""The format of a file by the ending of its name."""


def is_table(source: object) -> bool:
    """Can `read_subscriptions` and `read_events` read it as a table in memory? Imports nothing. O(1)."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__") or _is_pandas(source)


def read_subscriptions(
    source: object,
    schema: Schema,
    *,
    form: str | None = None,
    on_error: str = "collect",
    limits: Limits = DEFAULT_LIMITS,
    ignore: Collection[str] = (),
    progress: Progress | None = None,
) -> EncodedSubscriptions:
    """The subscriptions of a table, with ids, priorities, places, `until` and metadata; records that fail are `rejects`.

    Columns in `ignore` are not read; any other column that is no condition is an error. Cost: docs/encoding.md.

    >>> import pyarrow as pa
    >>> table = pa.table({"id": ["ann", "bob"], "expression": ["age > 18", "age >"], "metadata": ['{"tier": 1}', None]})
    >>> encoded = read_subscriptions(table, Schema())
    >>> encoded.names, encoded.ids.tolist(), encoded.metadata, encoded.rejects[0].id
    (['ann'], [0], [{'tier': 1}], 'bob')
    """
    parts = stream_subscriptions(
        source, schema, form=form, on_error=on_error, limits=limits, ignore=ignore, progress=progress
    )
    return EncodedSubscriptions.concatenate(list(parts))


def stream_subscriptions(
    source: object,
    schema: Schema,
    *,
    form: str | None = None,
    on_error: str = "collect",
    limits: Limits = DEFAULT_LIMITS,
    ignore: Collection[str] = (),
    progress: Progress | None = None,
) -> Iterator[EncodedSubscriptions]:
    """As `read_subscriptions`, one part after the other, so that memory stays bounded."""
    common: dict[str, Any] = {"on_error": on_error, "limits": limits, "engine_columns": True}
    if _format(source) == "json":
        from matchwood.encode.json_lines import stream_json_subscriptions

        return stream_json_subscriptions(_path(source), schema, progress=progress, **common)
    common |= {"form": form, "ignore": ignore}
    if _format(source) == "parquet":
        from matchwood.encode.parquet import stream_subscriptions as stream_parquet

        return stream_parquet(_path(source), schema, progress=progress, **common)
    from matchwood.encode.batches import encoded_parts
    from matchwood.encode.subscription_tables import SubscriptionEncoder

    encoder = SubscriptionEncoder(schema, source=_name(source), **common)
    total, batches = _batches(source)
    return encoded_parts(encoder.encode, batches, total, progress)


def read_events(
    source: object,
    schema: Schema,
    *,
    form: str | None = None,
    register: bool = False,
    bad: BadValues | None = None,
    on_error: str = "collect",
    progress: Progress | None = None,
) -> EncodedEvents:
    """The events of a table. Attributes that the schema lacks are ignored; it learns nothing but, with `register`, strings.

    Nested objects are read by dotted names. Values that their attribute cannot take are absent and counted in `bad` (in the wide
    form and JSON lines); without `bad` they reject their record, and a column of the wrong type is an error.

    >>> import pyarrow as pa
    >>> schema = Schema({"age": "number"})
    >>> encoded = read_events(pa.table({"id": ["e1", "e2"], "age": [31, None], "session": ["x", "y"]}), schema)
    >>> encoded.names, encoded.events.offsets.tolist(), "session" in schema
    (['e1', 'e2'], [0, 1, 1], False)
    """
    parts = stream_events(source, schema, form=form, register=register, bad=bad, on_error=on_error, progress=progress)
    return EncodedEvents.concatenate(list(parts))


def stream_events(
    source: object,
    schema: Schema,
    *,
    form: str | None = None,
    register: bool = False,
    bad: BadValues | None = None,
    on_error: str = "collect",
    progress: Progress | None = None,
) -> Iterator[EncodedEvents]:
    """As `read_events`, one part after the other, so that memory stays bounded."""
    common: dict[str, Any] = {"register": register, "bad": bad, "on_error": on_error, "engine_columns": True}
    if _format(source) == "json":
        from matchwood.encode.json_lines import stream_json_events

        return stream_json_events(_path(source), schema, progress=progress, **common)
    common |= {"form": form, "learn": False}
    if _format(source) == "parquet":
        from matchwood.encode.parquet import stream_events as stream_parquet

        return stream_parquet(_path(source), schema, progress=progress, **common)
    from matchwood.encode.batches import encoded_parts
    from matchwood.encode.event_tables import EventEncoder

    encoder = EventEncoder(schema, source=_name(source), **common)
    total, batches = _batches(source)
    return encoded_parts(encoder.encode, batches, total, progress)


def file_format(path: str | os.PathLike[str]) -> str:
    """The format by the name: "csv", "json" or "parquet", of which a path may be a folder; `QueryError` for another ending."""
    path = Path(path)
    if path.is_dir():
        return "parquet"
    if path.suffix.lower() not in FORMATS:
        raise QueryError(f"{path}: expected a name that ends in {', '.join(FORMATS)}, or a folder of Parquet files")
    return FORMATS[path.suffix.lower()]


def arrow_table(source: object) -> pa.Table:
    """The table as Arrow has it. Copies what has another layout."""
    from matchwood.encode.arrow import pa

    if isinstance(source, str | os.PathLike):
        return _read_csv(Path(source))
    try:
        if isinstance(source, pa.Table):
            return source
        if _is_pandas(source):
            return pa.Table.from_pandas(source, preserve_index=False)
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source).read_all()
        if hasattr(source, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(source)])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(f"the {type(source).__name__} has columns that Arrow cannot hold: {error}") from None
    raise QueryError(f"expected an Arrow table, a DataFrame or a path, got {describe(source)}")


def _batches(source: object) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The number of records, 0 if it is not known, and the batches; those of a reader are read one by one."""
    from matchwood.encode.arrow import pa
    from matchwood.encode.batches import batches_of

    if not isinstance(source, pa.RecordBatchReader):
        table = arrow_table(source)
        return table.num_rows, batches_of(table)

    def read() -> Iterator[pa.RecordBatch]:
        yield from batches_of(source.schema.empty_table())  # so that the columns of an empty input are checked
        for batch in source:
            if batch.num_rows:
                yield from batches_of(batch)

    return 0, read()


def _read_csv(path: Path) -> pa.Table:
    from matchwood.encode.arrow import pa  # isort: skip  # tells what to install if there is no pyarrow
    from pyarrow import csv

    try:
        return csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{path}: not a readable CSV file: {error}") from None


def _format(source: object) -> str | None:
    return file_format(source) if isinstance(source, str | os.PathLike) else None


def _path(source: object) -> str | os.PathLike[str]:
    assert isinstance(source, str | os.PathLike)
    return source


def _name(source: object) -> str | None:
    return Path(source).name if isinstance(source, str | os.PathLike) else None


def _is_pandas(source: object) -> bool:
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"
