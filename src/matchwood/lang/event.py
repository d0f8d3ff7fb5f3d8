"""Events as users pass them, and their values as keys.

A value is one scalar, a `Range`, or a list of scalars and ranges; a point attribute takes one point. None, NaN, an empty list and
a point without coordinates mean that the attribute is absent.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from matchwood.errors import EventError, SchemaError, ValueTypeError
from matchwood.lang.intervals import IntervalSet
from matchwood.schema import (
    Attribute,
    Point,
    Range,
    Schema,
    Type,
    describe,
    is_missing,
    point_of,
    type_of,
    unwrapped,
)

PLACE = "place"
"""The attribute that holds the place of an event or a subscriber."""

_PLAIN = frozenset((int, float, str, bool))


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `place` is the value of the point attribute "place"; at `until` the event is no longer alive.

    >>> Event({"age": 31, "plan": ["free", "trial"]}, weights={"age": 0.5}).values["age"]
    31
    """

    values: Mapping[str, object]
    weights: Mapping[str, float] = field(default_factory=dict)
    id: int | None = None
    place: Point | tuple[float, float] | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class EventKeys:
    """An event for matching: interval sets (or a point) and weights by attribute.

    Weights of attributes that the event lacks have no meaning and are left out.
    """

    values: Mapping[str, IntervalSet | Point]
    weights: Mapping[str, float]

    def weight(self, attribute: str) -> float:
        """The weight of an attribute, 1 unless given."""
        return self.weights.get(attribute, 1.0)


def event_keys(event: Event | Mapping[str, object], schema: Schema, *, register: bool = False) -> EventKeys:
    """The keys of an event. O(values).

    The schema learns the types of unknown attributes. Strings are registered only with `register`: a stream of ever new strings
    must not fill the dictionary, and an unregistered one equals no constant of any subscription. Raises `EventError` or
    `SchemaError`, both with the attribute and the value.
    """
    if not isinstance(event, Event):
        event = Event(event)
    if not isinstance(event.values, Mapping):
        raise EventError(f"expected an Event or a mapping from attribute to value, got {describe(event.values)}")
    values = dict(event.values)
    if event.place is not None and not _lacks_coordinates(event.place):
        if not is_missing(values.get(PLACE)):
            raise EventError("the event has two places: `place`, and the value of the attribute 'place'; remove one")
        try:
            values[PLACE] = point_of(event.place)
        except SchemaError as error:
            raise error.about(f"attribute {PLACE!r}") from None
    keys: dict[str, IntervalSet | Point] = {}
    for name, value in values.items():
        key = value_keys(name, value, schema, register=register)
        if key is not None:
            keys[name] = key
    weights = checked_weights(event.weights)
    return EventKeys(keys, {name: weight for name, weight in weights.items() if name in keys})


def value_keys(name: str, value: object, schema: Schema, *, register: bool = False) -> IntervalSet | Point | None:
    """The keys of one value; None if it means that the attribute is absent."""
    known = schema.get(name)
    type_ = known.type if known is not None else None
    try:
        if type(value) not in _PLAIN:  # an iterator can be read once only
            value = tuple(value) if isinstance(value, Iterator) else unwrapped(value)
        if is_missing(value):
            return None
        if type_ is None:
            sample = _first_scalar(value)
            if sample is None:
                return None
            type_ = Type.POINT if isinstance(sample, Mapping) else type_of(sample)
        attribute = schema.attribute_for(name, type_)
        if type_ is Type.POINT:
            return None if _lacks_coordinates(value) else point_of(value)
    except SchemaError as error:
        raise error if repr(name) in str(error) else error.about(f"attribute {name!r}") from None
    return _interval_keys(attribute, value, schema, register)


def checked_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights as floats; `EventError` unless each is finite and not negative."""
    if not isinstance(weights, Mapping):
        raise EventError(f"expected a mapping from attribute to weight, got {describe(weights)}")
    checked = {}
    for name, weight in weights.items():
        number = unwrapped(weight)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0.0 <= number <= sys.float_info.max:
            raise EventError(f"attribute {name!r}: expected a finite weight >= 0, got {describe(weight)}")
        checked[name] = float(number)
    return checked


def _interval_keys(attribute: Attribute, value: object, schema: Schema, register: bool) -> IntervalSet | None:
    if isinstance(value, Range):
        return IntervalSet((_range_keys(attribute, value, schema),))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | Point):
        intervals = []
        for item in value:
            if isinstance(item, Range):
                intervals.append(_range_keys(attribute, item, schema))
            elif not is_missing(item):
                key = schema.key(attribute, item, register=register)
                intervals.append((key, key))
        return IntervalSet.of(intervals) or None
    key = schema.key(attribute, value, register=register)
    return IntervalSet(((key, key),))


def _range_keys(attribute: Attribute, value: Range, schema: Schema) -> tuple[float, float]:
    if attribute.type is Type.STRING:
        raise ValueTypeError(
            f"attribute {attribute.name!r}: strings have no order, so {describe(value)} is not a value; use a list"
        )
    lo = -math.inf if value.lo is None else schema.key(attribute, value.lo)
    hi = math.inf if value.hi is None else schema.key(attribute, value.hi)
    if lo > hi:
        raise EventError(f"attribute {attribute.name!r}: the range from {value.lo!r} to {value.hi!r} is empty")
    return lo, hi


def _first_scalar(value: object) -> object:
    """The value that decides the type: the first one that is not missing in a list, a range or a list of ranges."""
    if isinstance(value, Point | Mapping | str | bytes) or not isinstance(value, Iterable):
        return value
    for item in value:
        for scalar in item if isinstance(item, Range) else (item,):
            if not is_missing(scalar):
                return scalar
    return None


def _lacks_coordinates(value: object) -> bool:
    if isinstance(value, Mapping) and "coordinates" not in value:
        return is_missing(value.get("lon")) and is_missing(value.get("lat")) and {*value} <= {"lon", "lat"}
    return isinstance(value, tuple) and len(value) == 2 and is_missing(value[0]) and is_missing(value[1])
