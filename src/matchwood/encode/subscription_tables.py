"""Arrow tables of subscriptions to arrays: the list form, the wide form and the text form (docs/encoding.md).

    list   id, predicates: list<struct<attribute, lo, hi, value, values, weight>>
    wide   id, and for attribute age: age_lo and age_hi, or age, and age_weight
    text   id, expression

Each may have the columns `priority`, `until`, a place (`lon`, `lat`, `radius` in metres) and, for an engine, `metadata`. Another
column is an error in every form. The list and the wide form are read column by column; only records with several predicates on
an attribute pass through Python objects.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from matchwood.encode import heads, wide_form
from matchwood.encode.arrays import Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import is_list, is_text, python_texts
from matchwood.encode.batches import BatchEncoder, batches_of, encoded_parts
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
from matchwood.encode.metadata import read_metadata
from matchwood.encode.objects import ReadRows, RowsBuilder, read_rows
from matchwood.encode.rejects import METADATA, EncodedSubscriptions, Faults, Progress
from matchwood.errors import (
    DuplicateSubscriptionError,
    ExpressionError,
    MatchwoodError,
    QueryError,
    SchemaError,
)
from matchwood.lang.event import PLACE
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.rows import Row as ObjectRow
from matchwood.schema import Point, Schema, Type

FORMS = ("list", "wide", "text")
_OWN_COLUMNS = ("id", "priority", "until", *heads.PLACE_COLUMNS)
_FORM_COLUMNS = {"list": ("predicates",), "wide": (), "text": ("expression",)}


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
        limits: Limits = DEFAULT_LIMITS,
        ignore: Collection[str] = (),
        engine_columns: bool = False,
    ) -> None:
        if form is not None and form not in FORMS:
            raise QueryError(f"form: expected 'list', 'wide', 'text' or None, got {form!r}")
        super().__init__(
            schema,
            on_error=on_error,
            source=source,
            duplicate=DuplicateSubscriptionError,
            engine_columns=engine_columns,
        )
        self._form = form
        self._ignore = frozenset(ignore)
        self._limits = limits
        self._checked: set[tuple[str, ...]] = set()
        self._columns: dict[tuple[str, ...], list[wide_form.Columns]] = {}

    def encode(self, whole: pa.RecordBatch) -> EncodedSubscriptions:
        """The subscriptions of the next batch; `SchemaError` for a column that cannot be used."""
        faults = Faults()
        batch = self._without_ignored(whole)
        form = self._form or _form_of(batch)
        self._check_columns(batch.schema.names, form)
        ids = self._read_ids(batch, faults, required=True)
        metadata = read_metadata(batch, faults) if self._engine_columns else None
        priority = heads.read_numbers(batch, "priority", faults, missing=0.0, error=ExpressionError)
        until = heads.read_until(batch, faults)
        if form == "text":
            found = self._texts(batch, faults)
            good = self._accept(ids, faults)
            numbers, names = self._renumbered(ids, good)
            builder = RowsBuilder(self._schema)
            for i in np.flatnonzero(good).tolist():
                builder.add_read(int(numbers[i]), float(priority[i]), found[i], until=float(until[i]))
            rows = builder.build()
        else:
            entries = self._entries(batch, form, faults)
            merged = self._merged(entries, ids, priority, faults)
            good = self._accept(ids, faults)
            numbers, names = self._renumbered(ids, good)
            rows = rows_of(entries, numbers, priority, good)
            rows = with_rows(rows, np.flatnonzero(good), merged, self._schema)
            expiring = np.isfinite(until[good]).any()
            rows = rows.stamped(self._schema, until[good] if expiring else None)
        positions, rejects = self._close(whole, ids, good, faults)
        kept = None if metadata is None else [metadata[i] for i in np.flatnonzero(good).tolist()]
        return EncodedSubscriptions(rows, numbers[good], positions, until[good], rejects, names, kept)

    def _without_ignored(self, batch: Any) -> Any:
        names = batch.schema.names
        if self._ignore.isdisjoint(names):
            return batch
        return batch.select([i for i, name in enumerate(names) if name not in self._ignore])

    def _check_columns(self, names: list[str], form: str) -> None:
        """Refuse columns that are neither the subscription's own nor conditions: they are a mistake, or would be lost.

        Decided once for an input, as the roles of columns are: what a batch teaches must not change the next.
        """
        if tuple(names) in self._checked:
            return
        self._checked.add(tuple(names))
        own = [*_OWN_COLUMNS, *_FORM_COLUMNS[form], *([METADATA] if self._engine_columns else [])]
        chosen = _FORM_COLUMNS["list"] + _FORM_COLUMNS["text"] if self._form is not None else ()
        unknown = [name for name in dict.fromkeys(names) if name not in own and name not in chosen]
        if form == "wide":
            unknown = wide_form.unknown_columns(unknown, names, self._schema)
        if not unknown:
            return
        remedies = ["drop it"]
        if self._engine_columns:
            remedies = [f"leave it out with ignore={unknown!r}", f"put it into the column {METADATA!r}"]
        if form == "wide":
            remedies.append("declare the attribute in the schema to use the column as a condition")
        raise SchemaError(
            f"column {', '.join(map(repr, unknown))}: not a column of the {form} form, which has {', '.join(own)}"
            f"{' and those of attributes' if form == 'wide' else ''}; {', or '.join(remedies)}"
        )

    def _texts(self, batch: Any, faults: Faults) -> dict[int, ReadRows]:
        array = heads.column(batch, "expression")
        if array is None or not (is_text(array.type) or pa.types.is_null(array.type)):
            found = "no such column" if array is None else f"the Arrow type {array.type}"
            raise SchemaError(f"column 'expression': expected strings, got {found}")
        circles = _circle_objects(heads.read_circles(batch, faults))
        read: dict[int, ReadRows] = {}
        for i, text in enumerate(python_texts(array)):
            if i in faults.errors:
                continue
            try:
                read[i] = read_rows(text, circles.get(i), self._schema, self._limits)
            except MatchwoodError as error:
                faults.add(i, error)
        return read

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
        names = tuple(name for name in batch.schema.names if name != METADATA or not self._engine_columns)
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
    limits: Limits = DEFAULT_LIMITS,
    ignore: Collection[str] = (),
    engine_columns: bool = False,
    progress: Progress | None = None,
) -> EncodedSubscriptions:
    """The subscriptions of a table in any of the three forms. O(entries), vectorised for the list and the wide form."""
    encoder = SubscriptionEncoder(
        schema, form=form, on_error=on_error, limits=limits, ignore=ignore, engine_columns=engine_columns
    )
    parts = encoded_parts(encoder.encode, batches_of(table), table.num_rows, progress)
    return EncodedSubscriptions.concatenate(list(parts))


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
