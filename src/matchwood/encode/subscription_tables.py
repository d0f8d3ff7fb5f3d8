"""Arrow tables of subscriptions to arrays: the list form, the wide form and the text form (docs/encoding.md).

    list   id, predicates: list<struct<attribute, lo, hi, value, values, weight>>
    wide   id, and for attribute age: age_lo and age_hi, or age, and age_weight
    text   id, expression

Each may have the columns `priority`, `until`, and a place (`lon`, `lat`, `radius` in metres). The list and the wide form are read
column by column; only records with several predicates on an attribute pass through Python objects.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from matchwood.encode import heads, wide_form
from matchwood.encode.arrays import Float64s, Int64s
from matchwood.encode.arrow_keys import is_list, is_text, python_texts
from matchwood.encode.batches import BatchEncoder, Progress, batches_of, encoded_parts
from matchwood.encode.circles import Circles, circle_entries
from matchwood.encode.flat import (
    Entries,
    IntervalSets,
    entries_of,
    in_order,
    merged_rows,
    repeating,
    rows_of,
    with_joined,
    with_rows,
)
from matchwood.encode.list_form import Statements, statements
from matchwood.encode.objects import RowsBuilder
from matchwood.encode.rejects import EncodedSubscriptions, Faults
from matchwood.errors import (
    DuplicateSubscriptionError,
    ExpressionError,
    MatchwoodError,
    QueryError,
    SchemaError,
)
from matchwood.lang.event import PLACE
from matchwood.lang.expression import DWithin, Expression, all_of
from matchwood.lang.json_form import from_json
from matchwood.lang.parser import parse
from matchwood.lang.rows import MAX_ROWS, normalise
from matchwood.lang.rows import Row as ObjectRow
from matchwood.schema import Point, Schema, Type

FORMS = ("list", "wide", "text")


class SubscriptionEncoder(BatchEncoder):
    """Encodes the batches of one input, one after the other. One thread at a time, since the schema learns.

    `form` is "list", "wide" or "text", or None to decide by the columns `predicates` and `expression`.

    >>> schema = Schema()
    >>> table = pa.table({"id": [7, 8], "expression": ["age >= 18", "age >="]})
    >>> encoded = SubscriptionEncoder(schema).encode(table.to_batches()[0])
    >>> encoded.ids.tolist(), encoded.rejects[0].position, encoded.rejects[0].id
    ([7], 1, 8)
    """

    def __init__(
        self,
        schema: Schema,
        *,
        form: str | None = None,
        on_error: str = "collect",
        source: str | None = None,
        max_rows: int = MAX_ROWS,
    ) -> None:
        if form is not None and form not in FORMS:
            raise QueryError(f"form: expected 'list', 'wide', 'text' or None, got {form!r}")
        super().__init__(schema, on_error=on_error, source=source, duplicate=DuplicateSubscriptionError)
        self._form = form
        self._max_rows = max_rows
        self._columns: dict[tuple[str, ...], list[wide_form.Columns]] = {}

    def encode(self, batch: pa.RecordBatch) -> EncodedSubscriptions:
        """The subscriptions of the next batch; `SchemaError` for a column that cannot be used."""
        faults = Faults()
        form = self._form or _form_of(batch)
        ids = heads.read_ids(batch, faults, required=True)
        priority = heads.read_numbers(batch, "priority", faults, missing=0.0, error=ExpressionError)
        until = heads.read_until(batch, faults)
        if form == "text":
            rows_by_record = self._texts(batch, faults)
            good = self._accept(ids, faults)
            builder = RowsBuilder(self._schema)
            for i in np.flatnonzero(good).tolist():
                builder.add(int(ids[i]), float(priority[i]), rows_by_record[i], until=float(until[i]))
            rows = builder.build()
        else:
            entries = self._entries(batch, form, faults)
            merged = self._merged(entries, ids, priority, faults)
            good = self._accept(ids, faults)
            rows = rows_of(entries, ids, priority, good)
            rows = with_rows(rows, np.flatnonzero(good), merged, self._schema)
            expiring = np.isfinite(until[good]).any()
            rows = rows.stamped(self._schema, until[good] if expiring else None)
        positions, rejects = self._close(batch, ids, good, faults)
        return EncodedSubscriptions(rows, ids[good], positions, until[good], rejects)

    def _texts(self, batch: Any, faults: Faults) -> dict[int, tuple[ObjectRow, ...]]:
        array = heads.column(batch, "expression")
        if array is None or not (is_text(array.type) or pa.types.is_null(array.type)):
            found = "no such column" if array is None else f"the Arrow type {array.type}"
            raise SchemaError(f"column 'expression': expected strings, got {found}")
        circles = _circle_objects(heads.read_circles(batch, faults))
        rows: dict[int, tuple[ObjectRow, ...]] = {}
        for i, text in enumerate(python_texts(array)):
            if i in faults.errors:
                continue
            try:
                rows[i] = subscription_rows(text, circles.get(i), self._schema, self._max_rows)
            except MatchwoodError as error:
                faults.add(i, error)
        return rows

    def _entries(self, batch: Any, form: str, faults: Faults) -> Entries:
        if form == "wide":
            entries = wide_form.subscription_entries(batch, self._columns_of(batch), self._schema, faults)
        else:
            entries = [_list_entries(batch, self._schema, faults)]
        if wide_form.has_place(batch.schema.names) or form == "list":
            circles = heads.read_circles(batch, faults)
            if circles is not None and len(circles.record):
                attribute = self._schema.attribute_for(PLACE, Type.POINT)
                entries.append(circle_entries(circles, attribute))
        return in_order(entries)

    def _columns_of(self, batch: Any) -> list[wide_form.Columns]:
        """The roles of the columns of a wide table, decided once for an input: a batch must not change those of the next."""
        names = tuple(batch.schema.names)
        if names not in self._columns:
            self._columns[names] = wide_form.columns_by_attribute(list(names), self._schema)
        return self._columns[names]

    def _merged(self, entries: Entries, ids: Int64s, priority: Float64s, faults: Faults) -> dict[int, ObjectRow]:
        twice = repeating(entries, len(ids)) & faults.good(len(ids))
        return merged_rows(entries, twice, ids, priority, self._schema, faults) if twice.any() else {}


def encode_subscription_table(
    table: pa.Table | pa.RecordBatch,
    schema: Schema,
    *,
    form: str | None = None,
    on_error: str = "collect",
    max_rows: int = MAX_ROWS,
    progress: Progress | None = None,
) -> EncodedSubscriptions:
    """The subscriptions of a table in any of the three forms. O(entries), vectorised for the list and the wide form."""
    encoder = SubscriptionEncoder(schema, form=form, on_error=on_error, max_rows=max_rows)
    parts = encoded_parts(encoder.encode, batches_of(table), table.num_rows, progress)
    return EncodedSubscriptions.concatenate(list(parts))


def subscription_rows(
    expression: object, circle: DWithin | None, schema: Schema, max_rows: int = MAX_ROWS
) -> tuple[ObjectRow, ...]:
    """The rows of an expression (text, JSON text or a JSON value) and a circle around a place."""
    tree = read_expression(expression)
    return normalise(tree if circle is None else all_of(tree, circle), schema, max_rows=max_rows)


def read_expression(expression: object) -> Expression:
    """An expression from text, JSON text (which begins with a brace) or a JSON value."""
    if expression is None:
        raise ExpressionError("the expression is null; use TRUE to match every event")
    if not isinstance(expression, str):
        return from_json(expression)
    if not expression.lstrip().startswith("{"):
        return parse(expression)
    try:
        return from_json(json.loads(expression))
    except (ValueError, RecursionError) as error:
        raise ExpressionError(f"the expression is not JSON: {error}") from None


def _form_of(batch: Any) -> str:
    names = batch.schema.names
    if "predicates" in names and "expression" in names:
        raise SchemaError("there are columns 'predicates' and 'expression'; choose one with form='list' or form='text'")
    return "list" if "predicates" in names else "text" if "expression" in names else "wide"


def _list_entries(batch: Any, schema: Schema, faults: Faults) -> Entries:
    array = heads.column(batch, "predicates")
    if array is None or not is_list(array.type):
        found = "no such column" if array is None else f"the Arrow type {array.type}"
        raise SchemaError(f"column 'predicates': expected a list of structs, got {found}")
    known = {"id", "priority", "until", "predicates", *heads.PLACE_COLUMNS}
    for name in batch.schema.names:
        if name not in known:
            raise SchemaError(f"unknown column {name!r}; the list form has {', '.join(sorted(known))}")
    faults.add_each(
        np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)),
        lambda _: ExpressionError("predicates is null; use an empty list to match every event"),
    )
    said = statements(array, "predicates", schema, faults, for_events=False, register=True)
    return _statement_entries(said)


def _statement_entries(said: Statements) -> Entries:
    """The entries of predicates; one without a value tests for presence (for a point in both of its dimensions)."""
    first = [a.dims[0] if a is not None else 0 for a in said.attributes]
    points = [a is not None and a.type is Type.POINT for a in said.attributes]
    dims = np.array([*first, 0], np.uint16)[said.name]
    sets = said.sets
    if said.silent.any():
        silent = np.flatnonzero(said.silent)
        owner = np.concatenate([sets.owner, silent])
        order = np.argsort(owner, kind="stable")
        everything = np.full(len(silent), np.inf)
        lo, hi = np.concatenate([sets.lo, -everything]), np.concatenate([sets.hi, everything])
        sets = IntervalSets(owner[order], lo[order], hi[order])
    entries = entries_of(sets, said.record, dims, said.weight, events=False)
    if not any(points):
        return entries
    at_point = np.array([*points, False])[said.name][sets.owner]
    latitude = np.array([*(a.dims[-1] if a is not None else 0 for a in said.attributes), 0], np.uint16)[said.name]
    return with_joined(entries, np.flatnonzero(at_point), latitude[sets.owner])


def _circle_objects(circles: Circles | None) -> dict[int, DWithin]:
    if circles is None:
        return {}
    columns = [column.tolist() for column in circles]
    return {
        record: DWithin(PLACE, centre=Point(lon, lat), radius=radius)
        for record, lon, lat, radius in zip(*columns, strict=True)
    }
