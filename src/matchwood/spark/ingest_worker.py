"""Ingest, inside a worker: batches of raw records to batches of encoded ones, good and bad in one stream.

Plain functions of Arrow batches; `ingest` hands them to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from matchwood.encode import heads
from matchwood.encode.arrays import Float64s, Int64s, Rows, make_events
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.heads import NO_ID, record_content
from matchwood.encode.json_lines import stream_json_events, stream_json_subscriptions
from matchwood.encode.rejects import EncodedEvents, EncodedSubscriptions, Faults, Reject
from matchwood.encode.subscription_tables import SubscriptionEncoder, read_expression
from matchwood.errors import MatchwoodError, StorageError
from matchwood.lang.event import PLACE
from matchwood.lang.expression import And, BBox, Between, Compare, DWithin, Expression, In, Not, Or, Predicate
from matchwood.lang.parser import without_numbers
from matchwood.schema import Schema, Type, type_of
from matchwood.spark import columns
from matchwood.spark.batches import EventBatch, SubscriptionBatch, write_events, write_subscriptions

Kind = Literal["subscriptions", "events"]
LINES = "json"
"""The form of records that are lines of JSON in a column `value`."""
CORRUPT = "_corrupt_record"
"""Where Spark's readers put a line that does not fit the columns."""
MOST_CONTENT = 20_000
"""Characters of a bad record that are kept; a huge string must not blow up the table of rejects."""
MOST_SKELETONS = 100_000
"""Kinds of text that learning remembers; of more of them each is parsed."""
_AT_A_PLACE = f"DWITHIN({PLACE}, POINT(0 0), 1 m)"  # teaches what a record with a place does
_PARTITION = 1 << 33  # positions of a partition begin at its number times this, as Spark's own numbering does

_SCHEMAS = {
    "subscriptions": columns.arrow_schema(columns.ENCODED_SUBSCRIPTIONS),
    "events": columns.arrow_schema(columns.ENCODED_EVENTS),
}


@dataclass(frozen=True)
class Encoding:
    """What to encode, by which schema (as JSON), and from which form (None: told by the columns)."""

    kind: Kind
    schema: str
    form: str | None = None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Encode the batches of a partition."""
        yield from encode_batches(self, batches, partition=_partition())

    def opened(self) -> Schema:
        """The schema."""
        return Schema.from_json(json.loads(self.schema))


@dataclass(frozen=True)
class Learning:
    """As `Encoding`, but what comes out is one record: the schema with all that the partition taught it."""

    encoding: Encoding

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Learn from the batches of a partition."""
        schema = self.encoding.opened()
        if self.encoding.kind == "subscriptions" and self.encoding.form == LINES:
            learn_expressions(_expressions_of_lines(batches), schema)
        elif self.encoding.kind == "subscriptions" and self.encoding.form == "text":
            learn_expressions(_expressions_of_tables(batches), schema)
        else:
            for _ in _parts(self.encoding, schema, batches):
                pass
        content = [json.dumps(schema.to_json())]
        yield pa.RecordBatch.from_arrays(
            [pa.array([_partition()], pa.int32()), pa.array(content)], schema=columns.arrow_schema(columns.LEARNT)
        )


def learn_expressions(texts: Iterable[object], schema: Schema) -> None:
    """Teach a schema the attributes, types and strings of expressions; whatever is wrong with one is found when it is encoded.

    Numbers teach nothing, so of texts that differ in them alone one is parsed: the others cost a twentieth of encoding them.
    """
    taught: set[str] = set()
    for text in texts:
        skeleton = without_numbers(text) if isinstance(text, str) and not text.lstrip().startswith("{") else None
        if skeleton in taught:
            continue
        if learn_expression(text, schema) and skeleton is not None and len(taught) < MOST_SKELETONS:
            taught.add(skeleton)


def learn_expression(text: object, schema: Schema) -> bool:
    """Teach a schema an expression; False if there is something wrong with it."""
    try:
        for predicate in predicates_of(read_expression(text)):
            _learn_predicate(predicate, schema)
    except (MatchwoodError, RecursionError):
        return False
    return True


def _learn_predicate(predicate: Predicate, schema: Schema) -> None:
    if isinstance(predicate, DWithin | BBox):
        schema.attribute_for(predicate.attribute, Type.POINT)
        return
    attribute = schema.find(predicate.attribute)
    for value in constants_of(predicate):
        type_ = type_of(value)
        if attribute.type is None:
            attribute = schema.attribute_for(predicate.attribute, type_)
        if attribute.type is Type.STRING and type_ is Type.STRING:
            schema.key(attribute, value)


def predicates_of(expression: Expression) -> Iterator[Predicate]:
    """The leaves of an expression, in order."""
    if isinstance(expression, Not):
        yield from predicates_of(expression.child)
    elif isinstance(expression, And | Or):
        for child in expression.children:
            yield from predicates_of(child)
    elif isinstance(expression, Predicate):
        yield expression


def constants_of(predicate: Predicate) -> tuple[Any, ...]:
    """The constants that a predicate compares with."""
    if isinstance(predicate, Compare):
        return (predicate.value,)
    if isinstance(predicate, Between):
        return (predicate.lo, predicate.hi)
    return predicate.values if isinstance(predicate, In) else ()


def _expressions_of_tables(batches: Iterable[Any]) -> Iterator[object]:
    for batch in batches:
        whole, _ = _torn(batch)
        circles = heads.read_circles(whole, Faults())
        placed = circles.record[:1].tolist() if circles is not None else []  # the others of a batch teach no more
        for i, text in enumerate(heads.column(whole, "expression").to_pylist()):
            yield text
            if i in placed:
                yield _AT_A_PLACE


def _expressions_of_lines(batches: Iterable[Any]) -> Iterator[object]:
    for batch in batches:
        for line in batch.column(0).to_pylist():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record.get("expression")
                if record.get("place") is not None:
                    yield _AT_A_PLACE


def encode_batches(encoding: Encoding, batches: Iterable[Any], *, partition: int = 0) -> Iterator[Any]:
    """Encoded records, good ones and (with a reason) bad ones; as many as came in. O(entries)."""
    schema_out = _SCHEMAS[encoding.kind]
    first = partition * _PARTITION
    schema = encoding.opened()
    symbols = _symbols(schema)
    for part, content_at in _parts(encoding, schema, batches):
        if isinstance(part, EncodedSubscriptions) and not schema.learn:
            _check_codes(part.rows, symbols, schema)
        nameless = part.ids == NO_ID
        rejects = (*part.rejects, *_nameless(part.positions[nameless], content_at))
        if len(part.ids) > nameless.sum():
            yield _good(_named(part) if nameless.any() else part, schema_out, first)
        if rejects:
            yield _bad(rejects, schema_out, first)


def _symbols(schema: Schema) -> Float64s:
    """How many strings each dimension has codes for; infinity where there are no strings."""
    counts = [len(schema.of_dimension(dim).symbols or ()) for dim in range(schema.dimensions)]
    holds = [schema.of_dimension(dim).symbols is not None for dim in range(schema.dimensions)]
    return np.where(holds, counts, np.inf)


def _check_codes(rows: Rows, symbols: Float64s, schema: Schema) -> None:
    """Raise if a string has a code that only this worker knows: another one would give it to another string."""
    limit = symbols[rows.dims] - 0.5
    for ends in (rows.lo, rows.hi):
        unknown = np.flatnonzero((ends > limit) & np.isfinite(ends))
        if len(unknown):
            attribute = schema.of_dimension(int(rows.dims[unknown[0]]))
            text = schema.shown(attribute, float(round(ends[unknown[0]])))
            raise StorageError(
                f"attribute {attribute.name!r}: the string {text!r} is not in the codebook: the table has changed since its "
                "strings were collected; store it and ingest what is stored"
            )


def _parts(
    encoding: Encoding, schema: Schema, batches: Iterable[Any]
) -> Iterator[tuple[EncodedSubscriptions | EncodedEvents, Callable[[int], object]]]:
    """What is encoded of each batch, and what tells the content of a record by its position."""
    if encoding.form == LINES:
        yield from _parts_of_lines(encoding, schema, batches)
        return
    encoder: Any = (EventEncoder if encoding.kind == "events" else SubscriptionEncoder)(schema, form=encoding.form)
    done = 0
    for batch in batches:
        whole, torn = _torn(batch)
        part, content = encoder.encode(whole), record_content(whole)
        yield replace(part, rejects=(*part.rejects, *torn)), partial(_shifted, content, done)
        done += whole.num_rows


def _shifted(content_of: Callable[[int], object], first: int, position: int) -> object:
    return content_of(position - first)


def _parts_of_lines(encoding: Encoding, schema: Schema, batches: Iterable[Any]) -> Iterator[Any]:
    read: list[str] = []  # since the last part

    def lines() -> Iterator[str]:
        for batch in batches:
            for line in batch.column(0).to_pylist():
                read.append(line)
                yield line

    done = 0
    for part in (stream_json_events if encoding.kind == "events" else stream_json_subscriptions)(lines(), schema):
        yield part, partial(_shifted, read.__getitem__, done)
        done += len(read)
        read.clear()


def _torn(batch: Any) -> tuple[Any, tuple[Reject, ...]]:
    """The batch without the lines that Spark's reader could not split into columns, and these as rejects."""
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
    torn = tuple(
        Reject(i, f"row {i}", None, "the line does not fit the columns", text)
        for i, text in enumerate(column.to_pylist())
        if text is not None
    )
    return whole.filter(column.is_null()), torn


def _nameless(positions: Int64s, content_at: Callable[[int], object]) -> Iterator[Reject]:
    """Events without an id: their matches could not be reported."""
    for position in positions.tolist():
        reason = "the event has no id, by which its matches are reported"
        yield Reject(position, f"row {position}", None, reason, content_at(position))


def _named(part: Any) -> EncodedEvents:
    """The events that have an id."""
    good = part.ids != NO_ID
    lengths = np.diff(part.events.offsets)
    kept = np.repeat(good, lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths[good])])
    events = make_events(offsets, *(column[kept] for column in part.events[1:]))
    return EncodedEvents(events, part.ids[good], part.positions[good], part.until[good])


def _good(part: Any, schema: Any, first: int) -> Any:
    if isinstance(part, EncodedEvents):
        batch = write_events(EventBatch(part.ids, part.until, part.events))
    else:
        batch = write_subscriptions(SubscriptionBatch(part.ids, part.until, part.rows))
    nothing = pa.nulls(batch.num_rows, pa.string())
    arrays = [*batch.columns, pa.array(first + part.positions), nothing, nothing, nothing]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bad(rejects: tuple[Reject, ...], schema: Any, first: int) -> Any:
    given = {
        "id": [reject.id for reject in rejects],
        "position": [first + reject.position for reject in rejects],
        "where": [reject.where for reject in rejects],
        "reason": [reject.reason[:MOST_CONTENT] for reject in rejects],
        "content": [content_text(reject.content) for reject in rejects],
    }
    arrays = [
        pa.array(given[field.name], field.type) if field.name in given else pa.nulls(len(rejects), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def content_text(content: object) -> str:
    """A bad record as text: as it was if it was text, as JSON otherwise; the beginning of it if it is huge."""
    text = content if isinstance(content, str) else json.dumps(content, default=str, ensure_ascii=False)
    return text if len(text) <= MOST_CONTENT else f"{text[:MOST_CONTENT]}... ({len(text):,} characters)"


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
