"""The list form: a column of list<struct>, each struct with an attribute and a condition on it or its value.

    attribute          string, dictionary-encoded or not
    lo, hi             numbers or timestamps; null is an open end
    lo_time, hi_time   timestamps, for tables in which lo and hi are numbers
    value              one number, string, boolean or timestamp
    text               one string, for tables in which value is not
    values             a list of any of these: one of them
    weight             a number; null is 1

A struct uses one of these ways to state a value, or none. 0 and 1 may stand for a declared boolean, ISO 8601 text for a declared
timestamp. Python objects are made for distinct attributes, strings and errors, not for each struct.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import (
    NAN,
    arrow_type,
    is_list,
    is_text,
    parts_of,
    plain_cells,
    texts_of,
    valid,
)
from matchwood.encode.flat import IntervalSets, canonical, values_of
from matchwood.encode.list_keys import Reading, taken, typed_keys
from matchwood.encode.rejects import Bools, Faults
from matchwood.errors import EventError, ExpressionError, MatchwoodError, NeverMatchesError, SchemaError, ValueTypeError
from matchwood.schema import Attribute, Schema, Type
from matchwood.schema.functions import is_derived

FIELDS = ("attribute", "lo", "hi", "lo_time", "hi_time", "value", "text", "values", "weight")
_PAIRS = (("lo", "hi"), ("lo_time", "hi_time"))


class Statements(NamedTuple):
    """The structs of a column, flat: for each its record, attribute and weight; and their interval sets, owned by structs.

    A struct without a value is *silent* and owns no part of `sets`; nor do the structs of records that have failed.
    """

    record: Int64s
    name: Int64s  # an index into `attributes`; -1 where there is no name
    attributes: list[Attribute | None]
    weight: Float64s
    silent: Bools
    sets: IntervalSets
    texts: list[tuple[Int64s, Int64s, list[str]]]  # see `Reading.texts`


def statements(
    array: Any,
    column: str,
    schema: Schema,
    faults: Faults,
    *,
    for_events: bool,
    register: bool,
    learn: bool = True,
) -> Statements:
    """Read a column of the list form. O(structs) vectorised, O(n log n) with strings or lists of values.

    Without `learn`, attributes that the schema lacks are ignored.
    """
    record, structs = parts_of(array)
    fields = _checked_fields(structs, column)
    name, names = texts_of(fields["attribute"])
    reading = Reading(column, schema, faults, for_events, register, learn, record, name, names, [None] * len(names))
    if structs.null_count:
        faults.add_each(record[~valid(structs)], lambda _: ValueTypeError(f"{column}: an item of the list is null"))
    reading.fail(np.flatnonzero(name < 0), lambda _: ValueTypeError(f"{column}: an attribute's name is null"))
    ways = [_bounds(pair, fields) for pair in _PAIRS if any(f in fields for f in pair)]
    ways += [_Way((field,), fields) for field in ("value", "text", "values") if field in fields]
    way = _one_way(ways, reading)
    _learn(ways, way, reading)
    weight = _weights(fields.get("weight"), reading)
    sets = _interval_sets(ways, way, reading)
    if not for_events:
        types = [None if attribute is None else attribute.type for attribute in reading.attributes]
        bools, instants = (
            np.array([*(found is type_ for found in types), False])[name[sets.owner]]
            for type_ in (Type.BOOL, Type.TIMESTAMP)
        )
        sets = values_of(sets, bools, instants)
    silent = np.ones(len(record), np.bool_)
    silent[sets.owner] = False
    return Statements(record, name, reading.attributes, weight, silent, sets, reading.texts)


class _Way:
    """One way to state a value: a field, or two for the ends of an interval."""

    def __init__(self, names: tuple[str, ...], fields: dict[str, Any]) -> None:
        self.names = names
        self.arrays = [fields.get(name) for name in names]
        found = [_scalar_type(array) for array in self.arrays if array is not None]
        self.type: Type | None = next((type_ for type_ in found if type_ is not None), None)
        if any(type_ not in (None, self.type) for type_ in found):
            raise SchemaError(f"the fields {' and '.join(names)} are of different types: {', '.join(map(str, found))}")
        self.given = np.any([valid(array) for array in self.arrays if array is not None], axis=0)

    @property
    def label(self) -> str:
        return "/".join(self.names)


def _bounds(names: tuple[str, str], fields: dict[str, Any]) -> _Way:
    way = _Way(names, fields)
    if way.type is Type.STRING or (names[0] == "lo_time" and way.type not in (None, Type.TIMESTAMP)):
        expected = "numbers or timestamps" if names[0] == "lo" else "timestamps"
        raise SchemaError(f"the fields {names[0]} and {names[1]}: expected {expected}, got {way.type}s")
    return way


def _checked_fields(structs: Any, column: str) -> dict[str, Any]:
    type_ = structs.type
    if not pa.types.is_struct(type_):
        raise SchemaError(f"column {column!r}: expected a list of structs, got a list of the Arrow type {type_}")
    names = [type_.field(i).name for i in range(type_.num_fields)]
    for name in names:
        if name not in FIELDS:
            raise SchemaError(f"column {column!r}: unknown field {name!r}; the list form has {', '.join(FIELDS)}")
    if "attribute" not in names or not is_text(type_.field("attribute").type):
        raise SchemaError(f"column {column!r}: expected a field 'attribute' of strings, got the Arrow type {type_}")
    for name in names:
        try:
            if is_list(type_.field(name).type) is not (name == "values"):
                raise SchemaError(f"expected {'a list' if name == 'values' else 'scalars'}")
            found = _scalar_type(structs.field(name))
            if name == "text" and found not in (None, Type.STRING):
                raise SchemaError("expected strings")
            if name == "weight" and found not in (None, Type.NUMBER):
                raise SchemaError("expected numbers")
        except SchemaError as error:
            raise SchemaError(f"column {column!r}, field {name!r} of {type_.field(name).type}: {error}") from None
    return (
        dict(zip(names, structs.flatten(), strict=True)) if structs.null_count else {n: structs.field(n) for n in names}
    )


def _scalar_type(array: Any) -> Type | None:
    return arrow_type(array.type.value_type if is_list(array.type) else array.type)


def _one_way(ways: list[_Way], reading: Reading) -> Int64s:
    """The way that each struct uses, -1 for none; a struct that uses two fails."""
    way = np.full(len(reading.record), -1)
    for number, this in enumerate(ways):
        twice = np.flatnonzero(this.given & (way >= 0))
        if len(twice):
            before = [ways[w].label for w in way[twice].tolist()]
            reading.fail(
                twice,
                lambda i, twice=twice, before=before, label=this.label: ValueTypeError(  # type: ignore[misc]
                    f"{reading.subject(twice[i])}: both {before[i]} and {label} are given; use one"
                ),
            )
        way[this.given] = number
    return way


def _learn(ways: list[_Way], way: Int64s, reading: Reading) -> None:
    """Find the attribute of each name; the first value of a new one decides its type. O(distinct names)."""
    speaking = np.flatnonzero((way >= 0) & (reading.name >= 0))[::-1]
    first = np.full(len(reading.names), -1)
    first[reading.name[speaking]] = speaking  # in reverse order, so that the first struct is assigned last
    wrong: dict[int, MatchwoodError] = {}
    for number, name in enumerate(reading.names):
        try:
            if reading.for_events and is_derived(name):  # no attribute of an event has such a name
                continue
            known = reading.schema.get(name)
            if known is None and reading.for_events and (first[number] < 0 or not reading.learn):
                continue
            attribute = reading.schema.find(name)
            if attribute.type is None and first[number] >= 0 and reading.learn:
                type_ = ways[int(way[first[number]])].type
                assert type_ is not None
                attribute = reading.schema.attribute_for(name, type_)
            reading.attributes[number] = attribute
        except SchemaError as error:
            wrong[number] = error
    if wrong:
        structs = np.flatnonzero(np.isin(reading.name, list(wrong)))
        reading.fail(structs, lambda i: wrong[int(reading.name[structs[i]])])


def _weights(array: Any, reading: Reading) -> Float64s:
    if array is None:
        return np.ones(len(reading.record))
    cells = plain_cells(array) if not pa.types.is_null(array.type) else None
    weight = np.where(cells.present, cells.keys, 1.0) if cells is not None else np.ones(len(reading.record))
    wrong = np.flatnonzero(~((weight >= 0.0) & (weight < np.inf)))
    kind = EventError if reading.for_events else ExpressionError
    reading.fail(
        wrong, lambda i: kind(f"{reading.subject(wrong[i])}: expected a finite weight >= 0, got {weight[wrong[i]]}")
    )
    return weight


def _interval_sets(ways: list[_Way], way: Int64s, reading: Reading) -> IntervalSets:
    """The sets of all structs, ascending. Those of lists are made canonical; the others are one interval each."""
    lo, hi = np.full(len(way), NAN), np.full(len(way), NAN)
    lists: list[IntervalSets] = []
    for number, this in enumerate(ways):
        mine = np.flatnonzero(way == number)
        if not len(mine):
            continue
        if len(mine) == len(way) and len(this.names) == 2:
            lo, hi = _ends(this, mine, reading)
            continue
        if this.names == ("values",):
            lists.append(_list_sets(this.arrays[0], mine, reading))
        elif len(this.names) == 1:
            lo[mine] = hi[mine] = typed_keys(
                taken(this.arrays[0], mine), mine, reading, nan_is_absent=reading.for_events
            )
        else:
            lo[mine], hi[mine] = _ends(this, mine, reading)
    there = lo == lo
    if not lists and there.all():
        return IntervalSets(np.arange(len(way)), lo, hi)
    single = np.flatnonzero(there)
    if not lists:
        return IntervalSets(single, lo[single], hi[single])
    owner = np.concatenate([single, lists[0].owner])
    order = np.argsort(owner, kind="stable")
    return IntervalSets(
        owner[order],
        np.concatenate([lo[single], lists[0].lo])[order],
        np.concatenate([hi[single], lists[0].hi])[order],
    )


def _ends(way: _Way, structs: Int64s, reading: Reading) -> tuple[Float64s, Float64s]:
    is_id = np.array([*(a is not None and a.type is Type.ID for a in reading.attributes), False])
    unordered = structs[is_id[reading.name[structs]]]
    reading.fail(
        unordered,
        lambda i: ValueTypeError(
            f"{reading.subject(unordered[i])}: it is an id; ids have no order, use value or values in place of {way.label}"
        ),
    )
    ends = []
    for array, open_end in zip(way.arrays, (-np.inf, np.inf), strict=True):
        if array is None:
            ends.append(np.full(len(structs), open_end))
            continue
        given = taken(array, structs)
        keys = typed_keys(given, structs, reading, nan_is_absent=False)
        ends.append(np.where(valid(given), keys, open_end) if given.null_count else keys)
    lo, hi = ends
    empty = np.flatnonzero(lo > hi)
    reading.fail(structs[empty], lambda i: _empty_error(reading, structs[empty[i]], lo[empty[i]], hi[empty[i]]))
    return lo, hi


def _empty_error(reading: Reading, struct: int, lo: float, hi: float) -> MatchwoodError:
    attribute = reading.attributes[int(reading.name[struct])]
    assert attribute is not None
    ends = [reading.schema.shown(attribute, float(key)) for key in (lo, hi)]
    if reading.for_events:
        return EventError(f"{reading.subject(struct)}: the range from {ends[0]} to {ends[1]} is empty")
    return NeverMatchesError(
        f"no event can match: {reading.subject(struct)} from {ends[0]} to {ends[1]} leaves no value"
    )


def _list_sets(array: Any, structs: Int64s, reading: Reading) -> IntervalSets:
    owner, items = parts_of(taken(array, structs))
    struct = structs[owner]
    if not reading.for_events:
        null = np.flatnonzero(~valid(items))
        reading.fail(
            struct[null], lambda i: ValueTypeError(f"{reading.subject(struct[null[i]])}: a null among the values")
        )
        none = structs[np.bincount(owner, minlength=len(structs)) == 0]
        reading.fail(
            none,
            lambda i: NeverMatchesError(f"no event can match: {reading.subject(none[i])}: the list of values is empty"),
        )
    keys = typed_keys(items, struct, reading, nan_is_absent=reading.for_events)
    there = keys == keys
    return canonical(struct[there], keys[there], keys[there])
