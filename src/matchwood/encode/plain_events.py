"""Plain events: JSON records whose values are scalars of known attributes, encoded without intermediate objects.

Most events of a stream are plain, and the general way (`lang.event`) makes several objects for each value, which takes about
three times as long. Whatever is not plain (lists, ranges, weights, a value of another type, an unknown attribute) is left to
the general way, which alone decides what is wrong with a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, concatenate_events, make_events
from matchwood.encode.objects import encode_events
from matchwood.lang.event import PLACE, EventKeys
from matchwood.schema import UNKNOWN_SYMBOL, Schema, Type

_EXACT_INTEGER = 2**53


class PlainEvent(NamedTuple):
    """The entries of an event: one key for each dimension, all weights 1."""

    dims: list[int]
    keys: list[float]


def plain_event(record: Mapping[str, Any], schema: Schema) -> PlainEvent | None:
    """The entries of a record, None if it is not plain. The schema learns nothing. O(values)."""
    values = record.get("values")
    if type(values) is not dict or record.get("weights") is not None:
        return None
    dims: list[int] = []
    keys: list[float] = []
    for name, value in values.items():
        attribute = schema.get(name)
        if attribute is None:
            return None
        kind, type_ = type(value), attribute.type
        if kind is float and type_ is Type.NUMBER and value == value:
            keys.append(value + 0.0)
        elif kind is int and type_ is Type.NUMBER and -_EXACT_INTEGER <= value <= _EXACT_INTEGER:
            keys.append(float(value))
        elif kind is str and type_ is Type.STRING and attribute.symbols is not None:
            keys.append(float(attribute.symbols.codes.get(value, UNKNOWN_SYMBOL)))
        elif kind is bool and type_ is Type.BOOL:
            keys.append(float(value))
        else:
            return None
        dims.append(attribute.dims[0])
    place = record.get("place")
    return PlainEvent(dims, keys) if place is None or _placed(place, schema, values, dims, keys) else None


def encode_plain(events: Sequence[PlainEvent | EventKeys], schema: Schema) -> Events:
    """Events as arrays, plain ones among others; in order. O(entries)."""
    parts: list[Events] = []
    start = 0
    for stop in range(1, len(events) + 1):  # runs of one kind
        if stop == len(events) or isinstance(events[stop], PlainEvent) != isinstance(events[start], PlainEvent):
            run: Any = events[start:stop]
            parts.append(_joined(run, schema) if isinstance(run[0], PlainEvent) else encode_events(run, schema))
            start = stop
    return parts[0] if len(parts) == 1 else concatenate_events(parts).stamped(schema)


def _joined(events: Sequence[PlainEvent], schema: Schema) -> Events:
    offsets = np.zeros(len(events) + 1, np.int64)
    np.cumsum([len(event.dims) for event in events], out=offsets[1:])
    dims = np.fromiter(chain.from_iterable(event.dims for event in events), np.uint16, int(offsets[-1]))
    keys = np.fromiter(chain.from_iterable(event.keys for event in events), np.float64, int(offsets[-1]))
    return make_events(offsets, dims, keys, keys).stamped(schema)


def _placed(place: object, schema: Schema, values: Mapping[str, Any], dims: list[int], keys: list[float]) -> bool:
    """Append the place, if it is a pair of degrees; return whether it is."""
    attribute = schema.get(PLACE)
    if attribute is None or attribute.type is not Type.POINT or PLACE in values:
        return False
    if type(place) is not list or len(place) != 2 or not all(type(side) is float for side in place):
        return False
    lon, lat = place
    if not (-180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0):
        return False
    dims += attribute.dims
    keys += (lon + 0.0, lat + 0.0)
    return True
