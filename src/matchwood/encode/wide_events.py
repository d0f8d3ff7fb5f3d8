"""The wide form of events: a column for each attribute.

age        a value, a list of values, struct<lo, hi> for a range, struct<lon, lat> for a point
user       a struct with other fields is a nested object, read by dotted names: user.age
items      a list of such structs is a list of objects, read by dotted names and by conditions on its elements
weights    map<string, number> or struct<age: number, ...>; null is 1
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from matchwood.encode import heads
from matchwood.encode.arrays import INTERVAL, Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import cells, is_list, learnt, parts_of, plain_cells, texts_of, valid
from matchwood.encode.derived import derived_entries, derived_of_keys
from matchwood.encode.element_columns import columns_in_elements, element_entries, is_list_of_structs
from matchwood.encode.flat import Entries, IntervalSets, canonical
from matchwood.encode.rejects import Bools, Faults
from matchwood.encode.wide_cells import Found, check_ordered, known_or_learnable, one_attribute, read_cells, refuse_nan
from matchwood.errors import EventError, SchemaError, ValueTypeError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.event import given_twice
from matchwood.schema import Attribute, Schema, Type
from matchwood.schema.functions import is_derived


def event_entries(
    batch: Any, schema: Schema, faults: Faults, *, register: bool, learn: bool, bad: BadValues | None = None
) -> list[Entries]:
    """The values of a wide table of events, one `Entries` for each column. O(cells) vectorised.

    Without `learn`, columns whose attribute the schema lacks are skipped, and the schema stays as it is. Values that their
    attribute cannot take are absent and counted in `bad`; if there is none, they fail their records.
    """
    weights = event_weights(batch, faults)
    nowhere = np.ones(batch.num_rows)
    parts = []
    for name, array in _event_columns(batch, schema, learn):
        own = Faults() if bad is not None else faults
        known = schema.get(name)
        try:
            if known is not None and known.type is Type.OBJECTS:
                weight = weights.get(name, nowhere)
                objects = element_entries(known, array, weight, schema, own, register=register, bad=bad)
                parts.append(objects if bad is None else _counted(name, objects, own, bad))
                continue
            part = _column_entries(name, array, weights.get(name, nowhere), schema, own, register=register, learn=learn)
        except SchemaError as error:  # of the whole column
            if bad is None:
                raise
            for _ in range(len(array) - array.null_count):
                bad.add(name, error)
            continue
        if bad is not None and part is not None:
            part = _counted(name, part, own, bad)
        if part is not None:
            parts.append(part)
            attribute = schema.attributes[name]
            if attribute.derived:
                parts.append(_derived(attribute, array, part, weights.get(name, nowhere), register))
    return parts


def _counted(name: str, part: Entries, own: Faults, bad: BadValues) -> Entries:
    """The entries without those of cells that failed, which are counted."""
    for failed in own.errors.values():
        bad.add(name, failed)
    return _without(part, own) if own.errors else part


def _derived(attribute: Attribute, array: Any, part: Entries, weight: Float64s, register: bool) -> Entries:
    """What is computed from the values of a column, whose own entries are `part`."""
    if attribute.type is not Type.STRING:
        return derived_of_keys(attribute, part, weight, register=register)
    owner, items = parts_of(array) if is_list(array.type) else (np.arange(len(array)), array)
    codes, texts = texts_of(items)
    there = np.isin(owner, part.record) & (codes >= 0)
    return derived_entries(attribute, owner[there], codes[there], texts, weight, register=register)


def _event_columns(batch: Any, schema: Schema, learn: bool) -> Iterator[tuple[str, Any]]:
    """The columns that are values, by attribute: those of nested objects too, unless the schema learns."""
    seen = set()
    for column in batch.schema.names:
        if is_derived(column):  # no attribute of an event has such a name
            continue
        if column in ("id", "until", "weights"):
            if column in schema:
                raise SchemaError(
                    f"column {column!r} is both the event's {column} and the attribute of that name; rename one"
                )
            continue
        array = heads.column(batch, column)
        for name, values in _learnt_columns(column, array, schema) if learn else _known_columns(column, array, schema):
            if name in seen:
                raise given_twice(name)
            seen.add(name)
            known_or_learnable(name, name, schema)
            yield name, values


def _learnt_columns(column: str, array: Any, schema: Schema) -> Iterator[tuple[str, Any]]:
    """A column that the schema may learn: of nested objects, and of lists of them, also the fields that are known."""
    if is_list_of_objects(array.type):
        if schema.learn and column not in schema:
            schema.attribute_for(column, Type.OBJECTS)
    elif not (_is_object(array.type) and schema.is_prefix(column)):
        yield column, array
        return
    yield from _known_columns(column, array, schema)


def is_list_of_objects(type_: Any) -> bool:
    """Is it the Arrow type of a list of objects, which are neither ranges nor points?"""
    return is_list_of_structs(type_) and _is_object(type_.value_type)


def _is_object(type_: Any) -> bool:
    return pa.types.is_struct(type_) and {field.name for field in type_} not in ({"lo", "hi"}, {"lon", "lat"})


def _known_columns(name: str, array: Any, schema: Schema) -> Iterator[tuple[str, Any]]:
    """The column, if its attribute is known, and those of its fields that are, by dotted names."""
    if name in schema.attributes:
        yield name, array
    if not schema.is_prefix(name):
        return
    if pa.types.is_struct(array.type):
        for field, values in zip(array.type, array.flatten(), strict=True):
            yield from _known_columns(f"{name}.{field.name}", values, schema)
    elif is_list_of_structs(array.type):
        yield from columns_in_elements(name, array, partial(_known_columns, schema=schema))


def _column_entries(
    name: str, array: Any, weight: Float64s, schema: Schema, faults: Faults, *, register: bool, learn: bool
) -> Entries | None:
    """The entries of one column, None if it has no values."""
    if pa.types.is_struct(array.type) and {field.name for field in array.type} == {"lon", "lat"}:
        return point_entries(name, array, weight, schema, faults)
    known = schema.get(name)
    if not learn and known is not None and known.type is None:
        return one_attribute(known, _presence(array), weight, events=True)
    found = _values(name, array, schema, faults, register)
    return None if found is None else one_attribute(*found, weight, events=True)


def _without(entries: Entries, faults: Faults) -> Entries:
    good = ~np.isin(entries.record, list(faults.errors))
    columns: list[Any] = [column[good] for column in entries]
    return Entries(*columns)


def _presence(array: Any) -> IntervalSets:
    """A key for each cell that is not absent: of an attribute that has no type, only the presence is tested."""
    at = np.flatnonzero(_is_there(array))
    return IntervalSets(at, np.zeros(len(at)), np.zeros(len(at)))


def _is_there(array: Any) -> Bools:
    """Which cells have a value: a list does if an item has one."""
    if is_list(array.type):
        owner, items = parts_of(array)
        there: Bools = np.bincount(owner[_is_there(items)], minlength=len(array)) > 0
        return there
    there = valid(array)
    if pa.types.is_floating(array.type):
        there = there & ~np.isnan(array.fill_null(0.0).to_numpy(zero_copy_only=False))
    return there


def point_entries(name: str, array: Any, weight: Float64s, schema: Schema, faults: Faults) -> Entries:
    """The entries of a column struct<lon, lat>: two for each point. A struct whose two fields are null is absent."""
    attribute = learnt(schema, name, Type.POINT, name, array.type)
    ends = []
    for child in ("lon", "lat"):
        part = array.field(child)
        if not pa.types.is_null(part.type) and heads.scalar_type(part, name) is not Type.NUMBER:
            raise SchemaError(f"column {name!r}: expected struct<lon, lat> of numbers, got the Arrow type {array.type}")
        ends.append(cells(part, Attribute(name, Type.NUMBER, ()), register=False))
    lon, lat = ends[0].keys, ends[1].keys
    given = valid(array) & ((lon == lon) | (lat == lat))  # without coordinates the point is absent
    right = (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)
    wrong = np.flatnonzero(given & ~right)
    faults.add_each(
        wrong,
        lambda i: ValueTypeError(f"attribute {name!r}: {heads.off_the_map(lon[wrong[i]], lat[wrong[i]])}"),
    )
    record = np.repeat(np.flatnonzero(given), 2)
    keys = np.stack([lon[given], lat[given]], axis=1).ravel()
    dims = np.tile(np.array(attribute.dims, np.uint16), len(record) // 2)
    return Entries(record, dims, np.full(len(record), INTERVAL, np.uint8), keys, keys, weight[record])


def event_weights(batch: Any, faults: Faults) -> dict[str, Float64s]:
    """The column `weights` by attribute: one array with a weight for each event."""
    array = heads.column(batch, "weights")
    if array is None or pa.types.is_null(array.type):
        return {}
    if pa.types.is_struct(array.type):
        given = valid(array)
        by_name = {
            field.name: (np.flatnonzero(given), array.field(i).filter(pa.array(given)))
            for i, field in enumerate(array.type)
        }
    elif pa.types.is_map(array.type):
        by_name = _map_items(array)
    else:
        raise SchemaError(f"column 'weights': expected a map or a struct of numbers, got the Arrow type {array.type}")
    weights = {}
    for name, (record, items) in by_name.items():
        if pa.types.is_null(items.type):
            continue
        if heads.scalar_type(items, "weights") is not Type.NUMBER:
            raise SchemaError(f"column 'weights': expected numbers for {name!r}, got the Arrow type {items.type}")
        keys, present, _ = plain_cells(items)
        wrong = np.flatnonzero(present & ~((keys >= 0.0) & (keys < np.inf)))
        faults.add_each(
            record[wrong],
            lambda i, name=name, keys=keys, wrong=wrong: EventError(  # type: ignore[misc]
                f"attribute {name!r}: expected a finite weight >= 0, got {keys[wrong[i]]}"
            ),
        )
        weights[name] = np.ones(len(array))
        weights[name][record[present]] = keys[present]
    return weights


def _map_items(array: Any) -> dict[str, tuple[Int64s, Any]]:
    lengths = np.diff(array.offsets.to_numpy())
    first = array.offsets[0].as_py()
    names, items = array.keys.slice(first, int(lengths.sum())), array.items.slice(first, int(lengths.sum()))
    record = np.repeat(np.arange(len(array)), lengths)
    codes, texts = texts_of(names)
    return {text: (record[codes == code], items.filter(pa.array(codes == code))) for code, text in enumerate(texts)}


def _values(name: str, array: Any, schema: Schema, faults: Faults, register: bool) -> Found:
    """The values of an event's column: scalars, lists of scalars or ranges, ranges."""
    if is_list(array.type):
        owner, items = parts_of(array)
        item_faults = Faults()
        found = _values(name, items, schema, item_faults, register)
        for i, error in item_faults.errors.items():
            faults.add(owner[i], error)
        if found is None:
            return None
        attribute, sets = found
        return attribute, canonical(owner[sets.owner], sets.lo, sets.hi)
    if pa.types.is_struct(array.type):
        return _ranges(name, array, schema, faults)
    read = read_cells(name, name, array, schema, faults, register=register)
    if read is None:
        return None
    attribute, (keys, _, _) = read
    there = np.flatnonzero(keys == keys)
    return attribute, IntervalSets(there, keys[there], keys[there])


def _ranges(name: str, array: Any, schema: Schema, faults: Faults) -> Found:
    if {f.name for f in array.type} != {"lo", "hi"}:
        raise SchemaError(
            f"column {name!r}: expected struct<lo, hi> or struct<lon, lat>, got the Arrow type {array.type}"
        )
    there = np.flatnonzero(valid(array))
    attribute, ends = None, {}
    for end, open_end in (("lo", -np.inf), ("hi", np.inf)):
        items = array.field(end)
        check_ordered(items, name, name, schema)
        items = items.take(pa.array(there))
        item_faults = Faults()
        read = read_cells(name, name, items, schema, item_faults, register=False)
        for i, error in item_faults.errors.items():
            faults.add(there[i], error)
        ends[end] = np.full(len(there), open_end)
        if read is not None:
            attribute, (keys, present, _) = read
            refuse_nan(name, there[present & (keys != keys)], faults)
            ends[end] = np.where(present, keys, open_end)
    if attribute is None:
        attribute = schema.get(name)
    if attribute is None or attribute.type is None:
        return None
    lo, hi = ends["lo"], ends["hi"]
    empty = np.flatnonzero(lo > hi)
    faults.add_each(
        there[empty],
        lambda i: EventError(
            f"attribute {name!r}: the range from {schema.shown(attribute, float(lo[empty[i]]))} "
            f"to {schema.shown(attribute, float(hi[empty[i]]))} is empty"
        ),
    )
    return attribute, IntervalSets(there, lo, hi)
