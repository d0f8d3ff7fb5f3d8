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
from typing import Any

from matchwood.errors import EventError, MatchwoodError, SchemaError, ValueTypeError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.intervals import IntervalSet
from matchwood.patterns import read_test
from matchwood.schema import (
    CODED,
    Attribute,
    Point,
    Range,
    Schema,
    Type,
    describe,
    is_missing,
    point_of,
    unwrapped,
)
from matchwood.schema.functions import function_of, is_hidden, root_of, source_of
from matchwood.schema.keys import UNKNOWN_SYMBOL, key_of

PLACE = "place"
"""The attribute that holds the place of an event or a subscriber."""

PRESENT = IntervalSet(((0.0, 0.0),))
"""Stands for any value of an attribute whose type is not known: no predicate looks at its key."""

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


def event_keys(
    event: Event | Mapping[str, object],
    schema: Schema,
    *,
    register: bool = False,
    bad: BadValues | None = None,
    now: float | None = None,
) -> EventKeys:
    """The keys of an event. O(values). The reference for `encode.events`, which does the same faster.

    Attributes that the schema does not know are left out, whatever their values: no subscription names them. Of one whose type is
    not known yet (`x IS NULL` was all that was said) only its presence counts. A nested object is read by dotted names. Strings
    are registered only with `register`: a stream of ever new strings must not fill the dictionary, and an unregistered one equals
    no constant of any subscription. A value that its attribute cannot take makes the attribute absent and is counted in `bad`;
    without `bad` it raises `EventError` or `SchemaError`, both with the attribute and the value. `now` is the instant of
    arrival, in microseconds since 1970; without it there are no ages relative to the clock.
    """
    if not isinstance(event, Event):
        event = Event(event)
    keys: dict[str, IntervalSet | Point] = {}
    for attribute, value in _known_values(_with_place(event), schema, ""):
        if isinstance(value, Iterator):  # it can be read once only
            value = tuple(value)
        try:
            key = value_keys(attribute, value, register=register)
        except MatchwoodError as error:
            if bad is None:
                raise
            bad.add(attribute.name, error)
            continue
        if key is not None:
            if attribute.name in keys:
                raise given_twice(attribute.name)
            keys[attribute.name] = key
            _add_derived(keys, attribute, scalars_of(attribute, value, key), register)
    for age in schema.ages:
        _add_age(keys, age, now)
    weights = checked_weights(event.weights)
    given = {name: root_of(name) for name in keys}
    return EventKeys(keys, {name: weights[root] for name, root in given.items() if root in weights})


def _add_derived(keys: dict[str, IntervalSet | Point], source: Attribute, values: list[Any], register: bool) -> None:
    """Add the attributes that are computed from another one: its functions, applied to each value."""
    for attribute in source.derived:
        if is_hidden(attribute.name):
            keys[attribute.name] = _tests_that_hold(attribute, values)
            continue
        function = function_of(attribute.name)
        results = [result for result in map(function.call, values) if result is not None]
        if not results:
            continue
        own = [key_of(attribute, result, register) if function.gives in CODED else float(result) for result in results]
        keys[attribute.name] = IntervalSet.of([(key, key) for key in own])
        _add_derived(keys, attribute, results, register)


def _tests_that_hold(attribute: Attribute, values: list[Any]) -> IntervalSet:
    """The codes of the tests that hold for one of the texts, and the key that says that there is one: every test is asked."""
    assert attribute.symbols is not None
    codes = [UNKNOWN_SYMBOL]
    for code, written in enumerate(attribute.symbols.texts):
        if written is not None and any(read_test(written).holds(text) for text in values):
            codes.append(float(code))
    return IntervalSet.of([(code, code) for code in codes])


def _add_age(keys: dict[str, IntervalSet | Point], age: Attribute, now: float | None) -> None:
    """Add an age: the time from each instant of one attribute to the last one of another, or to now, in seconds."""
    other = function_of(age.name).argument
    since, reference = keys.get(source_of(age.name)), now
    if other is not None:
        until = keys.get(other)
        reference = until.hull[1] if isinstance(until, IntervalSet) else None
    if isinstance(since, IntervalSet) and reference is not None and math.isfinite(reference):
        keys[age.name] = IntervalSet.of([((reference - hi) / 1e6, (reference - lo) / 1e6) for lo, hi in since.parts])


def scalars_of(attribute: Attribute, value: object, keys: IntervalSet | Point) -> list[Any]:
    """The values that functions of the attribute are applied to: texts of strings, keys of anything else; no ranges."""
    if attribute.type is not Type.STRING:
        return [] if isinstance(keys, Point) else [lo for lo, hi in keys.parts if lo == hi]
    plain = unwrapped(value)
    items = [plain] if isinstance(plain, str) else value
    assert isinstance(items, Iterable)
    return [unwrapped(item) for item in items if not is_missing(item)]


def _with_place(event: Event) -> Mapping[str, object]:
    """The values, with `place` among them."""
    if not isinstance(event.values, Mapping):
        raise EventError(f"expected an Event or a mapping from attribute to value, got {describe(event.values)}")
    if event.place is None or lacks_coordinates(event.place):
        return event.values
    if not is_missing(event.values.get(PLACE)):
        raise two_places()
    return {**event.values, PLACE: event.place}


def _known_values(values: Mapping[str, object], schema: Schema, prefix: str) -> Iterator[tuple[Attribute, object]]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        attribute = schema.attributes.get(path)
        if attribute is not None:
            yield attribute, value
        if isinstance(value, Mapping) and schema.is_prefix(path):
            yield from _known_values(value, schema, f"{path}.")


def given_twice(name: str) -> EventError:
    """The error of an event with two values for an attribute, one under its dotted name and one in a nested object."""
    return EventError(f"attribute {name!r} is given twice: under its dotted name, and in a nested object; remove one")


def two_places() -> EventError:
    """The error of an event with two places."""
    return EventError("the event has two places: `place`, and the value of the attribute 'place'; remove one")


def value_keys(attribute: Attribute, value: object, *, register: bool = False) -> IntervalSet | Point | None:
    """The keys of one value; None if it means that the attribute is absent. O(its scalars).

    Raises `EventError` or `SchemaError`, both with the attribute and the value.
    """
    try:
        if type(value) not in _PLAIN:  # an iterator can be read once only
            value = tuple(value) if isinstance(value, Iterator) else unwrapped(value)
        if is_missing(value):
            return None
        if attribute.type is None:
            return PRESENT if first_scalar(value) is not None else None
        if attribute.type is Type.POINT:
            return None if lacks_coordinates(value) else point_of(value)
    except SchemaError as error:
        raise error if repr(attribute.name) in str(error) else error.about(f"attribute {attribute.name!r}") from None
    return _interval_keys(attribute, value, register)


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


def _interval_keys(attribute: Attribute, value: object, register: bool) -> IntervalSet | None:
    if isinstance(value, Range):
        return IntervalSet((_range_keys(attribute, value),))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping | Point):
        intervals = []
        for item in value:
            if isinstance(item, Range):
                intervals.append(_range_keys(attribute, item))
            elif not is_missing(item):
                key = key_of(attribute, item, register)
                intervals.append((key, key))
        return IntervalSet.of(intervals) or None
    key = key_of(attribute, value, register)
    return IntervalSet(((key, key),))


def _range_keys(attribute: Attribute, value: Range) -> tuple[float, float]:
    if attribute.type in CODED:
        raise ValueTypeError(
            f"attribute {attribute.name!r}: {attribute.type}s have no order, so {describe(value)} is not a value; use a list"
        )
    lo = -math.inf if value.lo is None else key_of(attribute, value.lo, True)
    hi = math.inf if value.hi is None else key_of(attribute, value.hi, True)
    if lo > hi:
        raise EventError(f"attribute {attribute.name!r}: the range from {value.lo!r} to {value.hi!r} is empty")
    return lo, hi


def first_scalar(value: object) -> object:
    """The value that decides the type: the first one that is not missing in a list, a range or a list of ranges."""
    if isinstance(value, Point | Mapping | str | bytes | bytearray) or not isinstance(value, Iterable):
        return value
    for item in value:
        for scalar in item if isinstance(item, Range) else (item,):
            if not is_missing(scalar):
                return scalar
    return None


def lacks_coordinates(value: object) -> bool:
    """Is it a point without coordinates, which means that there is none?"""
    if isinstance(value, Mapping) and "coordinates" not in value:
        return is_missing(value.get("lon")) and is_missing(value.get("lat")) and {*value} <= {"lon", "lat"}
    return isinstance(value, tuple) and len(value) == 2 and is_missing(value[0]) and is_missing(value[1])
