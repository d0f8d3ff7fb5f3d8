"""Events as Python objects to arrays.

Nearly all values of a stream are plain: a float, an int, a string or a bool for an attribute of that type. They are read here by
one loop without intermediate objects. Every other value (a list, a range, a point, a datetime, a NumPy scalar, one of the wrong
type) is left to `lang.event.value_keys`, which alone decides what it means. `lang.event.event_keys` is the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from matchwood.encode.ages import with_event_ages
from matchwood.encode.arrays import Events
from matchwood.encode.elements import element_conditions
from matchwood.errors import EventError, MatchwoodError, SchemaError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.event import (
    PLACE,
    Event,
    checked_weights,
    first_scalar,
    given_twice,
    lacks_coordinates,
    scalars_of,
    two_places,
    value_keys,
    values_in_elements,
)
from matchwood.lang.nested import elements_of, is_list_of_objects
from matchwood.schema import UNKNOWN_SYMBOL, Attribute, Point, Schema, Type, describe, is_missing, type_of
from matchwood.schema.deriving import derived_keys
from matchwood.schema.functions import is_derived, root_of
from matchwood.schema.values import plain_point

_EXACT_INTEGER = 2**53
_ONES = np.ones(256)  # the weights of most events; nothing writes to it
_TEXTS = {str}
_PLACES = frozenset((Point, tuple, dict))
_PLAIN = frozenset((int, float, str, bool, type(None)))


def encode_events(
    events: Iterable[Event | Mapping[str, object]],
    schema: Schema,
    *,
    register: bool = False,
    bad: BadValues | None = None,
) -> Events:
    """Events as arrays; the error for a bad one names it by its id or position. O(values).

    `register` and `bad` as for `lang.event.event_keys`. The schema learns nothing but, with `register`, strings.
    """
    reader = EventReader(schema, register=register, bad=bad)
    for position, event in enumerate(events):
        try:
            reader.add(event)
        except MatchwoodError as error:
            known = event.id if isinstance(event, Event) else None
            raise error.about(f"event {position if known is None else known}") from None
    return reader.build()


class EventReader:
    """Collects events one by one and builds `Events` from them.

    With `learn`, for events that are stored before there are subscriptions, the schema learns unknown attributes from them.
    A `prefix` goes before all names: elements of a list of objects are read as events.

    >>> schema = Schema({"age": "number", "user.name": "string"})
    >>> reader = EventReader(schema)
    >>> reader.add({"age": 31, "user": {"name": "Ada"}, "unknown": object()})
    >>> reader.build().lo.tolist()
    [31.0, -1.0]
    """

    __slots__ = (
        "_attributes",
        "_bad",
        "_dims",
        "_ends",
        "_inside",
        "_keys",
        "_learn",
        "_offsets",
        "_prefix",
        "_register",
        "_schema",
        "_weights",
    )

    def __init__(
        self,
        schema: Schema,
        *,
        register: bool = False,
        learn: bool = False,
        bad: BadValues | None = None,
        prefix: str = "",
    ) -> None:
        self._schema = schema
        self._prefix = prefix
        self._learn = learn
        self._attributes = schema.attributes
        self._register = register
        self._bad = bad
        self._offsets = [0]
        self._dims: list[int] = []
        self._keys: list[float] = []
        self._ends: list[tuple[int, float]] = []  # of ranges: position and upper end
        self._inside: list[tuple[int, int]] = []  # entries of nested objects of the event that is read: from, to
        self._weights: list[tuple[int, float]] = []  # of entries whose weight is not 1: position and weight

    def __len__(self) -> int:
        """The number of events so far."""
        return len(self._offsets) - 1

    def add(self, event: Event | Mapping[str, object]) -> None:
        """Append one event; an error leaves the events before it. O(values)."""
        begin = len(self._dims)
        try:
            if type(event) is dict:
                self._read(event, self._prefix)
            elif isinstance(event, Event):
                self._read_event(event)
            elif isinstance(event, Mapping):
                self._read(event, self._prefix)
            else:
                raise EventError(f"expected an Event or a mapping from attribute to value, got {describe(event)}")
            if self._inside:
                self._check_inside()
        except BaseException:
            self._inside = []
            self._cut(begin)
            raise
        self._offsets.append(len(self._dims))

    def remove_last(self) -> None:
        """Remove the last event. O(its values)."""
        self._offsets.pop()
        self._cut(self._offsets[-1])

    def build(self) -> Events:
        """The arrays of all events added so far. O(entries)."""
        n = len(self._keys)
        keys = np.array(self._keys, np.float64)
        ends = keys
        if self._ends:
            ends = keys.copy()
            for position, end in self._ends:
                ends[position] = end
        weights = _ONES[:n] if n <= len(_ONES) else np.ones(n)
        if self._weights:
            weights = np.ones(n)
            for position, weight in self._weights:
                weights[position] = weight
        events = Events(np.array(self._offsets, np.int64), np.array(self._dims, np.uint16), keys, ends, weights)
        events.schema = self._schema
        return with_event_ages(events, self._schema) if self._schema.ages else events

    def take(self) -> Events:
        """As `build`; then start with no events again."""
        events = self.build()
        self._offsets = [0]
        self._cut(0)
        return events

    def _cut(self, size: int) -> None:
        del self._dims[size:], self._keys[size:]
        self._ends = [end for end in self._ends if end[0] < size]
        self._weights = [weight for weight in self._weights if weight[0] < size]

    def _read(self, values: Mapping[str, Any], prefix: str) -> None:
        get, dims, keys = self._attributes.get, self._dims, self._keys
        number, text, truth, number_id, point = Type.NUMBER, Type.STRING, Type.BOOL, Type.ID, Type.POINT
        register = self._register
        for name, value in values.items():
            attribute = get(f"{prefix}{name}" if prefix else name)
            kind = type(value)
            if attribute is None:
                if self._learn:
                    self._learn_from(f"{prefix}{name}", value)
                elif kind not in _PLAIN:
                    self._look_inside(prefix, name, value)
                continue
            type_ = attribute.type
            if type_ is number and kind is int and -_EXACT_INTEGER <= value <= _EXACT_INTEGER:
                keys.append(value)
            elif type_ is number and kind is float and value == value:
                keys.append(value + 0.0)  # -0.0 becomes 0.0
            elif type_ is text and kind is str:
                symbols: Any = attribute.symbols
                keys.append(symbols.code(value) if register else symbols.codes.get(value, UNKNOWN_SYMBOL))
            elif type_ is number_id and kind is int and not register:
                symbols = attribute.symbols
                keys.append(symbols.codes.get(str(value), UNKNOWN_SYMBOL))
            elif type_ is truth and kind is bool:
                keys.append(value)
            elif type_ is text and kind is list and not register and {*map(type, value)} == _TEXTS:
                symbols = attribute.symbols
                codes = sorted({symbols.codes.get(item, UNKNOWN_SYMBOL) for item in value})
                keys += codes
                dims += attribute.dims * len(codes)
                if attribute.derived:
                    self._derive(attribute, value)
                continue
            elif type_ is point and kind in _PLACES and (place := plain_point(value)) is not None:
                dims += attribute.dims
                keys += place
                if kind is dict:
                    self._look_inside(prefix, name, value)
                continue
            else:
                self._other(attribute, value)
                if kind not in _PLAIN:
                    self._look_inside(prefix, name, value)
                continue
            dims.append(attribute.dims[0])
            if attribute.derived:
                self._derive(attribute, (value if type_ is text else keys[-1],))

    def _derive(self, attribute: Attribute, values: Iterable[Any]) -> None:
        """Append what is computed from the values of an attribute."""
        for dim, key in derived_keys(attribute, values, self._register):
            self._dims.append(dim)
            self._keys.append(key)

    def _learn_from(self, path: str, value: object) -> None:
        """Read the value of an attribute that the schema gets to know by it; an object that is no point is a nested one."""
        if is_derived(path):  # no attribute of an event has such a name
            return
        if isinstance(value, Mapping) and not {"lon", "lat", "coordinates"} & value.keys():
            self._read(value, f"{path}.")
            return
        if is_list_of_objects(value):
            self._learn_names(value, f"{path}.")
            for attribute, values in values_in_elements(value, self._schema, f"{path}."):
                self._other(attribute, values)
            return
        sample = first_scalar(value)
        if not is_missing(sample):
            self._other(self._schema.find(path), value)

    def _learn_names(self, elements: Any, prefix: str) -> None:
        """Learn the attributes whose values are in the objects of a list, by dotted names."""
        for element in elements:
            for name, value in element.items() if isinstance(element, Mapping) else ():
                path = f"{prefix}{name}"
                if is_list_of_objects(value):
                    self._learn_names(value, f"{path}.")
                elif isinstance(value, Mapping) and not {"lon", "lat", "coordinates"} & value.keys():
                    self._learn_names([value], f"{path}.")
                elif not is_derived(path) and not is_missing(sample := first_scalar(value)):
                    self._schema.attribute_for(path, self._schema.find(path).type or _type_of(path, sample))

    def _other(self, attribute: Attribute, value: object) -> None:
        """A value that is not plain."""
        if self._learn and attribute.type is None and not is_missing(sample := first_scalar(value)):
            attribute = self._schema.attribute_for(attribute.name, _type_of(attribute.name, sample))
        if isinstance(value, Iterator):  # it can be read once only
            value = tuple(value)
        try:
            found = value_keys(attribute, value, register=self._register)
        except MatchwoodError as error:
            if self._bad is None:
                raise
            self._bad.add(attribute.name, error)
            return
        if found is None:
            return
        if isinstance(found, Point):
            self._dims += attribute.dims
            self._keys += found
            return
        for lo, hi in found.parts:
            if lo != hi:
                self._ends.append((len(self._keys), hi))
            self._dims.append(attribute.dims[0])
            self._keys.append(lo)
        if attribute.type is Type.OBJECTS:
            asked = element_conditions(self._schema, attribute)
            if asked is not None:
                hidden, conditions = asked
                codes = conditions.codes(elements_of(attribute, value), self._bad)
                self._dims += hidden.dims * len(codes)
                self._keys += codes
        elif attribute.derived:
            self._derive(attribute, scalars_of(attribute, value, found))

    def _look_inside(self, prefix: str, name: object, value: object) -> None:
        """Read a nested object, or the objects of a list, by dotted names, if an attribute has such a name."""
        path = f"{prefix}{name}"
        if not self._schema.is_prefix(path):
            return
        begin = self._offsets[-1]
        before = set(self._dims[begin:])
        middle = len(self._dims)
        if isinstance(value, Mapping):
            self._read(value, f"{path}.")
        elif is_list_of_objects(value):
            for attribute, values in values_in_elements(value, self._schema, f"{path}."):
                self._other(attribute, values)
        for dim in self._dims[middle:]:
            if dim in before:
                raise given_twice(self._schema.of_dimension(dim).name)
        self._inside.append((middle, len(self._dims)))

    def _check_inside(self) -> None:
        """Refuse an attribute of a nested object that the event names again after it."""
        for begin, end in self._inside:
            again = set(self._dims[begin:end]).intersection(self._dims[end:])
            if again:
                raise given_twice(self._schema.of_dimension(min(again)).name)
        self._inside = []

    def _read_event(self, event: Event) -> None:
        begin, place = len(self._dims), event.place
        if not isinstance(event.values, Mapping):
            raise EventError(f"expected an Event or a mapping from attribute to value, got {describe(event.values)}")
        has_place = place is not None and not lacks_coordinates(place)
        if has_place and not is_missing(event.values.get(PLACE)):
            raise two_places()
        self._read(event.values, "")
        attribute = self._attributes.get(PLACE)
        if has_place and self._learn:
            attribute = self._schema.attribute_for(PLACE, Type.POINT)
        if has_place and attribute is not None:
            self._other(attribute, place)
        if not event.weights and isinstance(event.weights, Mapping):
            return
        weights = checked_weights(event.weights)
        for position in range(begin, len(self._dims)):
            weight = weights.get(root_of(self._schema.of_dimension(self._dims[position]).name), 1.0)
            if weight != 1.0:
                self._weights.append((position, weight))


def _type_of(name: str, value: object) -> Type:
    try:
        return Type.POINT if isinstance(value, Mapping) else type_of(value)
    except SchemaError as error:
        raise error.about(f"attribute {name!r}") from None
