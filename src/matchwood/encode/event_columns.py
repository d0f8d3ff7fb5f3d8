"""Many plain events to arrays, one attribute at a time.

`encode.events` reads value after value. Where the values of an attribute are all plain and of its type, reading them as a column
takes less than half the time. What is not plain is left to `encode.events`: nested objects, lists, ranges, times, values of the
wrong type, and events with few attributes in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from matchwood.encode.ages import with_event_ages
from matchwood.encode.arrays import Events, Float64s
from matchwood.encode.derived import derived_entries, with_entries
from matchwood.encode.flat import Entries
from matchwood.schema import UNKNOWN_SYMBOL, Attribute, Point, Schema, Type
from matchwood.schema.values import plain_point

FEWEST = 32
"""Events that are read by columns, at least: for fewer, the arrays take longer than the values."""
SPARSE = 4
"""Events are read by columns if these have at most so many times more cells than the events have values."""

_EXACT_INTEGER = 2**53
_NUMBERS = frozenset((int, float, type(None)))
_STRINGS = frozenset((str, type(None)))
_POINTS = frozenset((Point, tuple, dict, type(None)))
_NOWHERE = (math.nan, math.nan)
_BOOLS = frozenset((bool, type(None)))


def plain_events(events: Sequence[Any], schema: Schema, *, register: bool = False) -> Events | None:
    """The arrays of the events, mappings from attribute to value; None if they are not all plain. O(values).

    `register` as for `encode.events.encode_events`.

    >>> schema = Schema({"age": "number", "plan": "string"})
    >>> events = [{"age": i, "plan": None, "unknown": 1} for i in range(FEWEST)]
    >>> plain_events(events, schema).lo[:4].tolist()
    [0.0, 1.0, 2.0, 3.0]
    >>> plain_events([*events, {"age": [1, 2]}], schema) is None
    True
    """
    if len(events) < FEWEST or set(map(type, events)) != {dict}:
        return None
    names: set[str] = set().union(*events)
    known = sorted(
        (schema.attributes[name] for name in names if name in schema.attributes), key=lambda known: known.dims
    )
    if len(known) * len(events) > SPARSE * sum(map(len, events)):
        return None
    if any(schema.is_prefix(str(name)) for name in names):
        return None
    cells = []
    for attribute in known:
        found = _cells(attribute, [event.get(attribute.name) for event in events])
        if found is None:
            return None
        cells.append(found)
    columns = [_keys(attribute, values, register) for attribute, values in zip(known, cells, strict=True)]
    made = _joined(columns, [dim for attribute in known for dim in attribute.dims], len(events))
    made.schema = schema
    sources = [at for at, attribute in enumerate(known) if attribute.derived]
    if sources:
        made = with_entries(made, [_derived(known[at], cells[at], register) for at in sources])
    return with_event_ages(made, schema) if schema.ages else made


def _derived(attribute: Attribute, values: list[Any] | Float64s, register: bool) -> Entries:
    """What is computed from the values of an attribute."""
    absent = [value is None or value != value for value in values]
    there = np.flatnonzero(~np.array(absent))
    numbers: dict[Any, int] = {}
    which = [numbers.setdefault(value, len(numbers)) for value, gone in zip(values, absent, strict=True) if not gone]
    distinct = list(numbers) if attribute.type is Type.STRING else [float(value) for value in numbers]
    ones = np.ones(len(values))
    return derived_entries(attribute, there, np.array(which, np.int64), distinct, ones, register=register)


def _cells(attribute: Attribute, values: list[Any]) -> list[Any] | Float64s | None:
    """The values of an attribute, None if one is not plain. A point is a pair."""
    kinds = set(map(type, values))
    if attribute.type is Type.NUMBER and kinds <= _NUMBERS:
        integers = [value for value in values if type(value) is int] if int in kinds else []
        if not integers or (-_EXACT_INTEGER <= min(integers) and max(integers) <= _EXACT_INTEGER):
            return values
    elif (attribute.type is Type.STRING and kinds <= _STRINGS) or (attribute.type is Type.BOOL and kinds <= _BOOLS):
        return values
    elif attribute.type is Type.POINT and kinds <= _POINTS:
        if kinds == {dict} and (pairs := _pairs(values)) is not None:
            return pairs
        points = [_NOWHERE if value is None else plain_point(value) for value in values]
        return None if None in points else points
    return None


def _pairs(values: list[dict[Any, Any]]) -> Float64s | None:
    """Points that are all {"lon", "lat"} with floats, as `plain_point` takes them; None if one is not."""
    lons: list[Any] = [value.get("lon") for value in values]
    lats: list[Any] = [value.get("lat") for value in values]
    if set(map(len, values)) != {2} or {*map(type, lons), *map(type, lats)} != {float}:
        return None
    pairs: Float64s = np.array([lons, lats]).T
    return pairs if bool((np.abs(pairs) <= (180.0, 90.0)).all()) else None


def _keys(attribute: Attribute, values: list[Any] | Float64s, register: bool) -> Float64s:
    """The keys of values that `_cells` has passed, a row of an array for each dimension; NaN where there is none."""
    if attribute.type is Type.STRING:
        symbols: Any = attribute.symbols
        texts = dict.fromkeys(values)
        if register:
            for text in texts:
                if text is not None:
                    symbols.code(text)
        codes = {text: symbols.codes.get(text, UNKNOWN_SYMBOL) for text in texts}
        codes[None] = None
        values = [codes[text] for text in values]
    keys = np.array(values, np.float64)
    return keys.T if attribute.type is Type.POINT else keys[np.newaxis]


def _joined(columns: Sequence[Float64s], dims: Sequence[int], size: int) -> Events:
    """Events of these keys, in columns of these dimensions. O(keys)."""
    keys = np.vstack(columns).T.ravel() if columns else np.zeros(0)
    keys += 0.0  # -0.0 becomes 0.0
    all_dims = np.tile(np.array(dims, np.uint16), size)
    offsets = np.arange(size + 1, dtype=np.int64) * len(dims)
    absent = np.isnan(keys)
    if absent.any():
        present = ~absent
        offsets = np.concatenate([[0], np.cumsum(present)])[offsets]
        keys, all_dims = keys[present], all_dims[present]
    return Events(offsets, all_dims, keys, keys, np.ones(len(keys)))
