"""Ingest, inside a worker: batches of raw records to batches of encoded ones, good and bad in one stream.

Functions of Arrow batches; `ingest` passes them to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from matchwood.encode.arrays import Float64s, Int64s, Rows
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.heads import record_content
from matchwood.encode.rejects import NO_ID, EncodedEvents, EncodedSubscriptions, Reject
from matchwood.encode.subscription_tables import SubscriptionEncoder
from matchwood.errors import StorageError
from matchwood.schema import Schema
from matchwood.spark import columns, task
from matchwood.spark.batches import EventBatch, SubscriptionBatch, write_events, write_subscriptions
from matchwood.spark.event_schemas import event_schema
from matchwood.spark.lines import (
    NO_EVENT_ID,
    ContentOf,
    Encoded,
    at_offset,
    encode_event_lines,
    encode_subscription_lines,
    with_ids,
)
from matchwood.spark.places import Place
from matchwood.spark.stream_files import write_parquet

Kind = Literal["subscriptions", "events"]
LINES = "json"
"""The form of records that are lines of JSON in a column `value`."""
CORRUPT = "_corrupt_record"
"""The column in which Spark's readers store a line that does not fit the columns."""
MAX_CONTENT = 20_000
"""Characters of a bad record that are stored in the table of rejects."""
PARTITION = 1 << 33  # the first position of a partition is its number times this, as in Spark's own numbering

_SCHEMAS = {
    "subscriptions": columns.arrow_schema(columns.ENCODED_SUBSCRIPTIONS),
    "events": columns.arrow_schema(columns.ENCODED_EVENTS),
}

_TABLES = {"subscriptions": columns.SUBSCRIPTIONS, "events": columns.EVENTS}
_GOOD = {kind: columns.arrow_schema(table) for kind, table in _TABLES.items()}
BAD = columns.arrow_schema(columns.REFUSED)
"""The columns of bad records in the files of `Separating`."""


@dataclass(frozen=True)
class Encoding:
    """What to encode, by which schema (as JSON), and from which form (None: told by the columns)."""

    kind: Kind
    schema: str
    form: str | None = None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Encode the batches of a partition."""
        yield from encode_batches(self, batches, partition=task.partition())

    def opened(self) -> Schema:
        """The schema."""
        if self.kind == "events":
            return event_schema(self.schema)
        schema = Schema.from_json(json.loads(self.schema))
        schema.has_clock = False
        return schema


@dataclass(frozen=True)
class Separating:
    """Encodes as `Encoding` does, returns the good records and writes the bad ones of a partition to a file of `rejects`."""

    encoding: Encoding
    rejects: Place

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        names = _TABLES[self.encoding.kind].names
        bad: list[Any] = []
        for batch in self.encoding(batches):
            is_good = batch.column(batch.schema.get_field_index("reason")).null_count == batch.num_rows
            if is_good:
                yield pa.RecordBatch.from_arrays(batch.columns[: len(names)], schema=_GOOD[self.encoding.kind])
            else:
                bad.append(batch.select([field.name for field in BAD]))
        file = self.rejects / f"{task.partition():05}.parquet"
        write_parquet(file, pa.Table.from_batches(bad) if bad else None)


def encode_batches(encoding: Encoding, batches: Iterable[Any], *, partition: int = 0) -> Iterator[Any]:
    """One encoded record for each raw one: a good one, or a bad one with a reason. O(entries)."""
    schema_out = _SCHEMAS[encoding.kind]
    first = partition * PARTITION
    schema = encoding.opened()
    symbols = _symbols(schema)
    for part, content_of in encoded_parts(encoding, schema, batches):
        if isinstance(part, EncodedSubscriptions) and not schema.learn:
            _check_codes(part.rows, symbols, schema)
        rejects = (*part.rejects, *_without_id(part.positions[part.ids == NO_ID], content_of))
        good = with_ids(part) if isinstance(part, EncodedEvents) else part
        if len(good.ids):
            yield _good(good, schema_out, first)
        if rejects:
            yield written_rejects(rejects, encoding.kind, first)


def _symbols(schema: Schema) -> Float64s:
    """The number of strings that each dimension has codes for; infinity for attributes that are not strings."""
    counts = [len(schema.of_dimension(dim).symbols or ()) for dim in range(schema.dimensions)]
    holds = [schema.of_dimension(dim).symbols is not None for dim in range(schema.dimensions)]
    return np.where(holds, counts, np.inf)


def _check_codes(rows: Rows, symbols: Float64s, schema: Schema) -> None:
    """Raise if a string has a code that the codebook lacks: another worker would give the code to another string."""
    known = np.append(symbols, 0.0)  # of a function that the codebook lacks, every code is unknown
    limit = known[np.minimum(rows.dims, len(symbols))] - 0.5
    for ends in (rows.lo, rows.hi):
        unknown = np.flatnonzero((ends > limit) & np.isfinite(ends))
        if len(unknown):
            attribute = schema.of_dimension(int(rows.dims[unknown[0]]))
            text = schema.shown(attribute, float(round(ends[unknown[0]])))
            raise StorageError(
                f"attribute {attribute.name!r}: the string {text!r} is not in the codebook; the table has changed while it was "
                "ingested: store it first and ingest the stored table"
            )


def encoded_parts(encoding: Encoding, schema: Schema, batches: Iterable[Any]) -> Iterator[tuple[Encoded, ContentOf]]:
    """What is encoded of each batch, and the contents of its records."""
    if encoding.form == LINES:
        is_events = encoding.kind == "events"
        yield from (encode_event_lines if is_events else encode_subscription_lines)(batches, schema)
        return
    encoder: Any = (EventEncoder if encoding.kind == "events" else SubscriptionEncoder)(schema, form=encoding.form)
    done = 0
    for batch in batches:
        whole, corrupt = split_corrupt(batch)
        part = encoder.encode(whole)
        yield replace(part, rejects=(*part.rejects, *corrupt)), at_offset(record_content(whole), done)
        done += whole.num_rows


def split_corrupt(batch: Any) -> tuple[Any, tuple[Reject, ...]]:
    """The batch without the lines that Spark's reader could not split into columns, and those as rejects."""
    at = batch.schema.get_field_index(CORRUPT)
    if at < 0:
        return batch, ()
    column = batch.column(at)
    whole = pa.RecordBatch.from_arrays(
        [c for i, c in enumerate(batch.columns) if i != at],
        schema=pa.schema([f for i, f in enumerate(batch.schema) if i != at]),
    )
    if column.null_count == len(column):
        return whole, ()
    corrupt = tuple(
        Reject(i, f"row {i}", None, "the line does not fit the columns", text)
        for i, text in enumerate(column.to_pylist())
        if text is not None
    )
    return whole.filter(column.is_null()), corrupt


def _without_id(positions: Int64s, content_of: ContentOf) -> Iterator[Reject]:
    """Rejects of events without an id."""
    for position in positions.tolist():
        yield Reject(position, f"row {position}", None, NO_EVENT_ID, content_of(position))


def _good(part: Any, schema: Any, first: int) -> Any:
    if isinstance(part, EncodedEvents):
        batch = write_events(EventBatch(part.ids, part.until, part.events))
    else:
        batch = write_subscriptions(SubscriptionBatch(part.ids, part.until, part.rows))
    nothing = pa.nulls(batch.num_rows, pa.string())
    arrays = [*batch.columns, pa.array(first + part.positions), nothing, nothing, nothing]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def written_rejects(rejects: tuple[Reject, ...], kind: Kind, first: int = 0) -> Any:
    """The Arrow batch of bad records; `first` is added to their positions."""
    schema = _SCHEMAS[kind]
    given = {
        "id": [reject.id for reject in rejects],
        "position": [first + reject.position for reject in rejects],
        "where": [reject.where for reject in rejects],
        "reason": [reject.reason[:MAX_CONTENT] for reject in rejects],
        "content": [content_text(reject.content) for reject in rejects],
    }
    arrays = [
        pa.array(given[field.name], field.type) if field.name in given else pa.nulls(len(rejects), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def content_text(content: object) -> str:
    """A bad record as text (as JSON unless it is text already), cut after `MAX_CONTENT` characters."""
    text = content if isinstance(content, str) else json.dumps(content, default=str, ensure_ascii=False)
    return text if len(text) <= MAX_CONTENT else f"{text[:MAX_CONTENT]}... ({len(text):,} characters)"
