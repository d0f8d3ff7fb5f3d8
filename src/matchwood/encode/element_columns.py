"""Columns of lists of objects, list<struct>: the conditions on their elements, and the values in them by dotted names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from matchwood.encode.arrays import INTERVAL, Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import is_list, parts_of
from matchwood.encode.elements import Element, element_conditions
from matchwood.encode.flat import Entries
from matchwood.encode.rejects import Faults
from matchwood.errors import MatchwoodError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.event import value_keys
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.nested import elements_of
from matchwood.schema import UNKNOWN_SYMBOL, Attribute, Range, Schema


def is_list_of_structs(type_: Any) -> bool:
    """Is it the Arrow type of a list of objects?"""
    return is_list(type_) and pa.types.is_struct(type_.value_type)


def element_entries(
    attribute: Attribute,
    array: Any,
    weight: Float64s,
    schema: Schema,
    faults: Faults,
    *,
    register: bool,
    bad: BadValues | None,
) -> Entries:
    """The entries of a column of lists of objects (or of single ones), those of the conditions on them included."""
    lists: dict[int, list[Element]] = {}
    keys: list[tuple[int, int, float]] = []  # record, dimension, key
    for record, given in enumerate(array.to_pylist()):
        try:
            value = _plain(given)
            found = None if value is None else value_keys(attribute, value, register=register)
            if found is not None:
                assert isinstance(found, IntervalSet)
                lists[record] = elements_of(attribute, value)
                keys += [(record, attribute.dims[0], key) for key, _ in found.parts]
        except MatchwoodError as error:
            faults.add(record, error)
    asked = element_conditions(schema, attribute)
    if asked is not None and lists:
        hidden, conditions = asked
        keys += [(record, hidden.dims[0], UNKNOWN_SYMBOL) for record in lists]
        records = np.array(list(lists), np.int64)
        elements = [element for each in lists.values() for element in each]
        owner = np.repeat(np.arange(len(records)), [len(each) for each in lists.values()])
        try:
            of, codes = conditions.codes_of_many(elements, owner, len(records), bad)
            keys += [(r, hidden.dims[0], c) for r, c in zip(records[of].tolist(), codes.tolist(), strict=True)]
        except MatchwoodError:  # of one of them
            for record, each in lists.items():
                try:
                    keys += [(record, hidden.dims[0], code) for code in conditions.codes(each, bad)[1:]]
                except MatchwoodError as error:
                    faults.add(record, error)
    table = np.array(sorted(keys), np.float64).reshape(-1, 3)
    record_of: Int64s = table[:, 0].astype(np.int64)
    kinds = np.full(len(table), INTERVAL, np.uint8)
    return Entries(record_of, table[:, 1].astype(np.uint16), kinds, table[:, 2], table[:, 2], weight[record_of])


def _plain(value: Any) -> Any:
    """A value of Arrow in the form of events: struct<lo, hi> is a range."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        if value.keys() == {"lo", "hi"}:
            return Range(value["lo"], value["hi"])
        return {name: _plain(item) for name, item in value.items()}
    return value


def columns_in_elements(
    name: str, array: Any, known_columns: Callable[[str, Any], Iterator[tuple[str, Any]]]
) -> Iterator[tuple[str, Any]]:
    """The values in the elements of a column by dotted names, those of all elements as one list.

    `known_columns` gives the columns of a field that are attributes.
    """
    owner, items = parts_of(array)
    for field, values in zip(items.type, items.flatten(), strict=True):
        for path, found in known_columns(f"{name}.{field.name}", values):
            of, inner = owner, found
            if is_list(found.type):
                within, inner = parts_of(found)
                of = owner[within]
            ends = np.cumsum(np.bincount(of, minlength=len(array)))
            offsets = pa.array(np.concatenate([[0], ends]), pa.int64())
            yield path, pa.LargeListArray.from_arrays(offsets, inner)
