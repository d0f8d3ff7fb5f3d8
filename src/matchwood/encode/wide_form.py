"""The wide form: one or a few columns for each attribute. The name of a column decides its role.

subscriptions   age_lo, age_hi    the ends of a closed interval; null is an open end, both null no predicate
                age               equality; a list is IN; null is no predicate. The schema must know the attribute, since by its
                                  name such a column cannot be distinguished from other data of the subscriber
                age_weight        the weight of that predicate; null is 1
events          age               a value, a list of values, struct<lo, hi> for a range, struct<lon, lat> for a point
                weights           map<string, number> or struct<age: number, ...>; null is 1
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matchwood.encode import heads
from matchwood.encode.arrays import INTERVAL, Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import (
    Cells,
    arrow_type,
    cells,
    is_list,
    learnt,
    parts_of,
    plain_cells,
    texts_of,
    valid,
)
from matchwood.encode.flat import Entries, IntervalSets, canonical, entries_of, values_of
from matchwood.encode.rejects import Faults
from matchwood.errors import (
    EventError,
    ExpressionError,
    NeverMatchesError,
    SchemaError,
    UnknownAttributeError,
    ValueTypeError,
)
from matchwood.schema import Attribute, Schema, Type

_ROLES = {"_lo": "lo", "_hi": "hi", "_weight": "weight"}
_RESERVED = ("id", "priority", "until")


@dataclass
class Columns:
    """The columns of one attribute of subscriptions, by role: lo, hi, plain, weight."""

    name: str
    by_role: dict[str, str] = field(default_factory=dict)


def subscription_entries(batch: Any, columns_of: list[Columns], schema: Schema, faults: Faults) -> list[Entries]:
    """The predicates of a wide table, one `Entries` for each attribute. O(cells) vectorised."""
    parts = []
    for columns in columns_of:
        arrays = {role: heads.column(batch, name) for role, name in columns.by_role.items()}
        if "plain" in arrays and is_list(arrays["plain"].type):
            found = _memberships(columns, arrays["plain"], schema, faults)
        elif "plain" in arrays:
            found = _equalities(columns, arrays["plain"], schema, faults)
        else:
            found = _intervals(columns, arrays, schema, faults)
        if found is None:
            continue
        attribute, sets = found
        sets = values_of(sets, attribute.type is Type.BOOL, attribute.type is Type.TIMESTAMP)
        weight = np.ones(batch.num_rows)
        if "weight" in arrays:
            weight = heads.read_numbers(batch, columns.by_role["weight"], faults, missing=1.0, error=ExpressionError)
            wrong = np.flatnonzero(weight < 0.0)
            faults.add_each(
                wrong,
                lambda i, name=columns.name, wrong=wrong, weight=weight: ExpressionError(  # type: ignore[misc]
                    f"attribute {name!r}: expected a finite weight >= 0, got {weight[wrong[i]]}"
                ),
            )
        parts.append(_one_attribute(attribute, sets, weight, events=False))
    return parts


def has_place(names: list[str]) -> bool:
    """Are all columns of a place among the names?"""
    return set(heads.PLACE_COLUMNS) <= set(names)


def event_entries(batch: Any, schema: Schema, faults: Faults, *, register: bool, learn: bool) -> list[Entries]:
    """The values of a wide table of events, one `Entries` for each column. O(cells) vectorised.

    Without `learn`, columns whose attribute the schema lacks are skipped, and the schema stays as it is.
    """
    weights = event_weights(batch, faults)
    parts = []
    for name in batch.schema.names:
        if name in ("id", "until", "weights"):
            if name in schema:
                raise SchemaError(
                    f"column {name!r} is both the event's {name} and the attribute of that name; rename one"
                )
            continue
        array = heads.column(batch, name)
        known = schema.get(name)
        if not learn and known is None:
            continue
        _known_or_learnable(name, name, schema)
        weight = weights.get(name, np.ones(batch.num_rows))
        if pa.types.is_struct(array.type) and {f.name for f in array.type} == {"lon", "lat"}:
            parts.append(point_entries(name, array, weight, schema, faults))
            continue
        if not learn and known is not None and known.type is None:
            parts.append(_one_attribute(known, _presence(array), weight, events=True))
            continue
        found = _values(name, array, schema, faults, register)
        if found is not None:
            parts.append(_one_attribute(*found, weight, events=True))
    return parts


def _presence(array: Any) -> IntervalSets:
    """A key for each cell that is not absent: of an attribute that has no type, only the presence is tested."""
    there = valid(array)
    if is_list(array.type):
        owner, _ = parts_of(array)
        there = np.bincount(owner, minlength=len(array)) > 0
    elif pa.types.is_floating(array.type):
        there = there & ~np.isnan(array.fill_null(0.0).to_numpy(zero_copy_only=False))
    at = np.flatnonzero(there)
    return IntervalSets(at, np.zeros(len(at)), np.zeros(len(at)))


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


def columns_by_attribute(names: list[str], schema: Schema) -> list[Columns]:
    """The columns of a wide table of subscriptions by attribute and role, in order of appearance."""
    known: dict[str, Columns] = {}
    place = has_place(names)
    for column in names:
        reserved = column in _RESERVED or (place and column in heads.PLACE_COLUMNS)
        if reserved and column in schema:
            raise SchemaError(
                f"column {column!r} is both the subscription's {column} and the attribute of that name; rename one"
            )
        if reserved:
            continue
        if column in heads.PLACE_COLUMNS and column not in schema:
            raise SchemaError(
                f"column {column!r}: a place is lon, lat and radius; declare {column!r} if it is an attribute"
            )
        attribute, role = _meaning(column, names, schema)
        if role != "plain" and attribute in names and (attribute in _RESERVED or attribute in heads.PLACE_COLUMNS):
            raise SchemaError(
                f"column {column!r} is for an attribute {attribute!r}, but the column of that name is the subscription's own; "
                "rename one"
            )
        _known_or_learnable(attribute, column, schema)
        roles = known.setdefault(attribute, Columns(attribute)).by_role
        if ("plain" in roles and role != "weight") or (role == "plain" and set(roles) & {"lo", "hi"}):
            others = " and ".join(repr(name) for name in roles.values())
            raise SchemaError(
                f"column {column!r}: attribute {attribute!r} also has {others}; use either equality or lo/hi"
            )
        roles[role] = column
    return list(known.values())


def _meaning(column: str, names: list[str], schema: Schema) -> tuple[str, str]:
    """The attribute and the role of a column."""
    suffix = next((suffix for suffix in _ROLES if column.endswith(suffix) and len(column) > len(suffix)), None)
    if suffix is None:
        return column, "plain"
    stem = column.removesuffix(suffix)
    siblings = {stem, f"{stem}_lo", f"{stem}_hi"} & set(names)
    as_role = bool(siblings - {column}) or stem in schema if suffix != "_weight" else bool(siblings)
    if column in schema and as_role:
        raise SchemaError(
            f"column {column!r} can be the attribute of that name or the {_ROLES[suffix]} of attribute {stem!r}; rename it"
        )
    if column in schema or (suffix == "_weight" and not siblings):
        return column, "plain"
    return stem, _ROLES[suffix]


def unknown_columns(columns: list[str], names: list[str], schema: Schema) -> list[str]:
    """Those without a suffix whose attribute the schema lacks, out of a table's `names`: they may not be conditions at all."""
    return [
        column for column in columns if _meaning(column, names, schema) == (column, "plain") and column not in schema
    ]


def _known_or_learnable(attribute: str, column: str, schema: Schema) -> None:
    if not schema.learn and attribute not in schema:
        raise UnknownAttributeError(
            f"column {column!r}: attribute {attribute!r} is not in the schema; declare it first"
        )


_Found = tuple[Attribute, IntervalSets] | None


def _equalities(columns: Columns, array: Any, schema: Schema, faults: Faults) -> _Found:
    read = _cells(columns.name, columns.by_role["plain"], array, schema, faults, register=True)
    if read is None:
        return None
    attribute, (keys, present, _) = read
    _no_nan(columns.name, np.flatnonzero(present & (keys != keys)), faults)
    there = np.flatnonzero(present)
    return attribute, IntervalSets(there, keys[there], keys[there])


def _memberships(columns: Columns, array: Any, schema: Schema, faults: Faults) -> _Found:
    name = columns.name
    owner, items = parts_of(array)
    none = np.flatnonzero(valid(array) & (np.bincount(owner, minlength=len(array)) == 0))
    faults.add_each(
        none, lambda _: NeverMatchesError(f"no event can match: attribute {name!r}: the list of values is empty")
    )
    null = np.flatnonzero(~valid(items))
    faults.add_each(owner[null], lambda _: ValueTypeError(f"attribute {name!r}: a null among the values"))
    item_faults = Faults()
    read = _cells(name, columns.by_role["plain"], items, schema, item_faults, register=True)
    for i, error in item_faults.errors.items():
        faults.add(owner[i], error)
    if read is None:
        return None
    attribute, (keys, present, _) = read
    _no_nan(name, owner[present & (keys != keys)], faults)
    there = keys == keys
    return attribute, canonical(owner[there], keys[there], keys[there])


def _intervals(columns: Columns, arrays: dict[str, Any], schema: Schema, faults: Faults) -> _Found:
    name = columns.name
    ends: dict[str, Cells] = {}
    attribute = None
    for role in ("lo", "hi"):
        array = arrays.get(role)
        if array is None:
            continue
        _check_ordered(array, columns.by_role[role], name, schema)
        read = _cells(name, columns.by_role[role], array, schema, faults, register=True)
        if read is not None:
            attribute, ends[role] = read
            _no_nan(name, np.flatnonzero(ends[role].present & (ends[role].keys != ends[role].keys)), faults)
    if attribute is None:
        return None
    sizes = {role: np.where(end.present, end.keys, np.inf if role == "hi" else -np.inf) for role, end in ends.items()}
    there = np.flatnonzero(np.any([end.present for end in ends.values()], axis=0))
    lo = sizes["lo"][there] if "lo" in sizes else np.full(len(there), -np.inf)
    hi = sizes["hi"][there] if "hi" in sizes else np.full(len(there), np.inf)
    empty = np.flatnonzero(lo > hi)
    faults.add_each(
        there[empty],
        lambda i: NeverMatchesError(
            f"no event can match: attribute {name!r} from {schema.shown(attribute, float(lo[empty[i]]))} "
            f"to {schema.shown(attribute, float(hi[empty[i]]))} leaves no value"
        ),
    )
    return attribute, IntervalSets(there, lo, hi)


def _values(name: str, array: Any, schema: Schema, faults: Faults, register: bool) -> _Found:
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
    read = _cells(name, name, array, schema, faults, register=register)
    if read is None:
        return None
    attribute, (keys, _, _) = read
    there = np.flatnonzero(keys == keys)
    return attribute, IntervalSets(there, keys[there], keys[there])


def _ranges(name: str, array: Any, schema: Schema, faults: Faults) -> _Found:
    if {f.name for f in array.type} != {"lo", "hi"}:
        raise SchemaError(
            f"column {name!r}: expected struct<lo, hi> or struct<lon, lat>, got the Arrow type {array.type}"
        )
    there = np.flatnonzero(valid(array))
    attribute, ends = None, {}
    for end, open_end in (("lo", -np.inf), ("hi", np.inf)):
        items = array.field(end)
        _check_ordered(items, name, name, schema)
        items = items.take(pa.array(there))
        item_faults = Faults()
        read = _cells(name, name, items, schema, item_faults, register=False)
        for i, error in item_faults.errors.items():
            faults.add(there[i], error)
        ends[end] = np.full(len(there), open_end)
        if read is not None:
            attribute, (keys, present, _) = read
            _no_nan(name, there[present & (keys != keys)], faults)
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


def _check_ordered(array: Any, column: str, name: str, schema: Schema) -> None:
    """Refuse ends that are ids or strings, unless the attribute is a declared timestamp: they have no order."""
    known = schema.get(name)
    if known is not None and known.type is Type.ID:
        raise SchemaError(f"column {column!r}: ids have no order and cannot be ends of an interval")
    if heads.scalar_type(array, column) is Type.STRING and (known is None or known.type is not Type.TIMESTAMP):
        raise SchemaError(
            f"column {column!r}: strings have no order and cannot be ends of an interval; got the Arrow type {array.type}"
        )


def _cells(
    name: str, column: str, array: Any, schema: Schema, faults: Faults, *, register: bool
) -> tuple[Attribute, Cells] | None:
    """The keys of a column; None if it has no values, from which the schema learns nothing."""
    try:
        type_ = arrow_type(array.type)
    except SchemaError as error:
        raise error.about(f"column {column!r}") from None
    known = schema.get(name)
    if type_ is None or (array.null_count == len(array) and (known is None or known.type is None)):
        return None
    attribute = learnt(schema, name, type_, column, array.type)
    read = cells(array, attribute, register=register)
    heads.note_bad(read.bad, name, faults)
    return attribute, read


def _no_nan(name: str, records: Int64s, faults: Faults) -> None:
    faults.add_each(records, lambda _: ValueTypeError(f"attribute {name!r}: expected a number, got NaN"))


def _one_attribute(attribute: Attribute, sets: IntervalSets, weight: Float64s, *, events: bool) -> Entries:
    n = len(weight)
    return entries_of(sets, np.arange(n), np.full(n, attribute.dims[0], np.uint16), weight, events=events)
