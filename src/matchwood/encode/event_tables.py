"""Arrow tables of events to arrays: the wide form and the list form (docs/encoding.md).

    wide   a column for each attribute, and optionally `id`, `until`, `weights`
    list   values: list<struct<attribute, lo, hi, value, text, values, weight>>, and optionally `id`, `until`, `place`

In the list form an attribute that occurs several times in one event has all these values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchwood.encode import heads, wide_events
from matchwood.encode.ages import with_event_ages
from matchwood.encode.arrays import Float64s, Int64s, make_events
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import is_list
from matchwood.encode.batches import BatchEncoder, batches_of, encoded_parts
from matchwood.encode.derived import derived_entries, derived_of_keys
from matchwood.encode.flat import Entries, canonical, entries_of, in_order, selected
from matchwood.encode.list_form import Statements, statements
from matchwood.encode.rejects import EncodedEvents, Faults, Progress
from matchwood.errors import EventError, QueryError, SchemaError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.event import PLACE
from matchwood.schema import Schema, Type

FORMS = ("list", "wide")


class EventEncoder(BatchEncoder):
    """Encodes the batches of one input of events, one after the other. See `SubscriptionEncoder`.

    With `register`, strings that no subscription has named are registered. Without `learn`, attributes that the schema lacks are
    ignored, and nested objects are read by dotted names. With `bad`, values of the wide form that their attribute cannot take are
    absent and counted there, where they would reject their record.

    >>> schema = Schema()
    >>> table = pa.table({"age": [31, None], "city": ["Oslo", "Bergen"]})
    >>> EventEncoder(schema).encode(table.to_batches()[0]).events.offsets.tolist()
    [0, 2, 3]
    """

    def __init__(
        self,
        schema: Schema,
        *,
        form: str | None = None,
        register: bool = False,
        learn: bool = True,
        bad: BadValues | None = None,
        on_error: str = "collect",
        source: str | None = None,
        engine_columns: bool = False,
    ) -> None:
        if form is not None and form not in FORMS:
            raise QueryError(f"form: expected 'list', 'wide' or None, got {form!r}")
        super().__init__(schema, on_error=on_error, source=source, duplicate=EventError, engine_columns=engine_columns)
        self._form = form
        self._register = register
        self._learn = learn
        self._bad = bad

    def encode(self, batch: pa.RecordBatch) -> EncodedEvents:
        """The events of the next batch; `SchemaError` for a column that cannot be used."""
        faults = Faults()
        ids = self._read_ids(batch, faults, required=False)
        until = heads.read_until(batch, faults)
        form = self._form or _form_of(batch, self._schema)
        if form == "list":
            entries = _list_entries(batch, self._schema, faults, register=self._register, learn=self._learn)
        else:
            parts = wide_events.event_entries(
                batch, self._schema, faults, register=self._register, learn=self._learn, bad=self._bad
            )
            entries = in_order(parts)
        good = self._accept(ids, faults)
        positions, rejects = self._close(batch, ids, good, faults)
        offsets, chosen = selected(entries, good)
        events = make_events(offsets, chosen.dims, chosen.lo, chosen.hi, chosen.weight).stamped(self._schema)
        if self._schema.ages:
            events = with_event_ages(events, self._schema)
        numbers, names = self._renumbered(ids, good)
        return EncodedEvents(events, numbers[good], positions, until[good], rejects, names)


def encode_event_table(
    table: pa.Table | pa.RecordBatch,
    schema: Schema,
    *,
    form: str | None = None,
    register: bool = False,
    learn: bool = True,
    bad: BadValues | None = None,
    on_error: str = "collect",
    engine_columns: bool = False,
    progress: Progress | None = None,
) -> EncodedEvents:
    """The events of a table in the wide or the list form. O(values), vectorised."""
    encoder = EventEncoder(
        schema, form=form, register=register, learn=learn, bad=bad, on_error=on_error, engine_columns=engine_columns
    )
    parts = encoded_parts(encoder.encode, batches_of(table), table.num_rows, progress)
    return EncodedEvents.concatenate(list(parts))


def _form_of(batch: Any, schema: Schema) -> str:
    """The list form has a column `values` of lists of structs with a field `attribute`."""
    array = heads.column(batch, "values")
    if array is None or "values" in schema or not is_list(array.type):
        return "wide"
    item = array.type.value_type
    return "list" if pa.types.is_struct(item) and "attribute" in {f.name for f in item} else "wide"


def _list_entries(batch: Any, schema: Schema, faults: Faults, *, register: bool, learn: bool) -> Entries:
    array = heads.column(batch, "values")
    if array is None or not is_list(array.type):
        found = "no such column" if array is None else f"the Arrow type {array.type}"
        raise SchemaError(f"column 'values': expected a list of structs, got {found}")
    for name in batch.schema.names:
        if name not in ("id", "until", "values", PLACE):
            raise SchemaError(f"unknown column {name!r}; the list form has id, until, values, {PLACE}")
    faults.add_each(
        np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)),
        lambda _: EventError("values is null; use an empty list for an event without values"),
    )
    said = statements(array, "values", schema, faults, for_events=True, register=register, learn=learn)
    entries = _statement_entries(said, faults)
    entries = in_order([entries, *_derived_parts(said, entries, batch.num_rows, register)])
    place = heads.column(batch, PLACE)
    if place is None or pa.types.is_null(place.type) or (not learn and PLACE not in schema):
        return entries
    if not pa.types.is_struct(place.type) or {f.name for f in place.type} != {"lon", "lat"}:
        raise SchemaError(f"column {PLACE!r}: expected struct<lon, lat>, got the Arrow type {place.type}")
    placed = wide_events.point_entries(PLACE, place, np.ones(batch.num_rows), schema, faults)
    return in_order([entries, placed])


def _statement_entries(said: Statements, faults: Faults) -> Entries:
    """The entries of values; those of one attribute in one event become one list, at the position of the first."""
    dims = np.array([*(a.dims[0] if a is not None else 0 for a in said.attributes), 0], np.uint16)[said.name]
    sets = said.sets
    speaking = np.flatnonzero(~said.silent)
    key = said.record[speaking] * (len(said.attributes) + 1) + said.name[speaking]
    ordered = np.sort(key)
    if (ordered[1:] == ordered[:-1]).any():
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        leader = np.arange(len(said.record))
        leader[speaking] = speaking[first[inverse]]
        _agreeing_weights(said, leader, faults)
        sets = canonical(leader[sets.owner], sets.lo, sets.hi)
    return entries_of(sets, said.record, dims, said.weight, events=True)


def _derived_parts(said: Statements, entries: Entries, records: int, register: bool) -> list[Entries]:
    """What is computed from the values, one part for each attribute."""
    parts = []
    for number, attribute in enumerate(said.attributes):
        if attribute is None or not attribute.derived:
            continue
        mine = np.flatnonzero((said.name == number) & ~said.silent)
        weight = np.ones(records)
        weight[said.record[mine]] = said.weight[mine]
        if attribute.type is not Type.STRING:
            own: list[Any] = [column[entries.dims == attribute.dims[0]] for column in entries]
            parts.append(derived_of_keys(attribute, Entries(*own), weight, register=register))
            continue
        owners, codes, texts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], list[str]()
        for structs, code, found in said.texts:
            there = np.isin(structs, mine) & (code >= 0)
            owners.append(said.record[structs[there]])
            codes.append(code[there] + len(texts))
            texts += found
        owner, which = np.concatenate(owners), np.concatenate(codes)
        order = np.argsort(owner, kind="stable")
        parts.append(derived_entries(attribute, owner[order], which[order], texts, weight, register=register))
    return parts


def _agreeing_weights(said: Statements, leader: Int64s, faults: Faults) -> None:
    weight: Float64s = said.weight
    differs = np.flatnonzero(~said.silent & (weight != weight[leader]))

    def error(i: int) -> EventError:
        attribute = said.attributes[int(said.name[differs[i]])]
        name = attribute.name if attribute is not None else ""
        return EventError(f"attribute {name!r} has values with different weights; use one weight")

    faults.add_each(said.record[differs], error)
