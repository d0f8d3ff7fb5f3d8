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
from matchwood.lang.nested import (
    as_object,
    element_text,
    elements_of,
    is_list_of_objects,
    is_missing_element,
    rows_of_condition,
    spread,
)
from matchwood.patterns import Elements, read_test
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
from matchwood.schema.functions import element_prefix, function_of, is_hidden, root_of, source_of
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
    keys = _keys_of_values(_with_place(event), schema, "", register, bad)
    for age in schema.ages:
        _add_age(keys, age, now)
    weights = checked_weights(event.weights)
    given = {name: root_of(name) for name in keys}
    return EventKeys(keys, {name: weights[root] for name, root in given.items() if root in weights})


def element_keys(
    element: Mapping[str, object], source: str, schema: Schema, bad: BadValues | None, *, register: bool = False
) -> EventKeys:
    """The keys of an element of the list `source`, read as an event of its own."""
    keys = _keys_of_values(element, schema, element_prefix(source), register, bad)
    for age in schema.ages:
        _add_age(keys, age, None)
    return EventKeys(keys, {})


def _keys_of_values(
    values: Mapping[str, object], schema: Schema, prefix: str, register: bool, bad: BadValues | None
) -> dict[str, IntervalSet | Point]:
    keys: dict[str, IntervalSet | Point] = {}
    for attribute, value in _known_values(values, schema, prefix):
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
            if attribute.type is Type.OBJECTS:
                for hidden in attribute.derived:
                    keys[hidden.name] = _conditions_that_hold(attribute, hidden, value, schema, bad)
            else:
                _add_derived(keys, attribute, scalars_of(attribute, value, key), register)
    return keys


def _conditions_that_hold(
    source: Attribute, hidden: Attribute, value: object, schema: Schema, bad: BadValues | None
) -> IntervalSet:
    """The codes of the conditions that one element meets, or all do: every condition is asked of every element."""
    from matchwood.lang.evaluate import judge

    assert hidden.symbols is not None
    elements = [element_keys(element, source.name, schema, bad) for element in elements_of(source, value)]
    codes = [UNKNOWN_SYMBOL]
    for code, written in hidden.symbols.known(0, len(hidden.symbols)):
        test = read_test(written)
        assert isinstance(test, Elements)
        rows = rows_of_condition(source.name, test.condition, schema)
        met = [judge(rows, element).matched for element in elements]
        if any(met) if test.quantifier == "any" else all(met):
            codes.append(float(code))
    return IntervalSet.of([(code, code) for code in codes])


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
    for code, written in attribute.symbols.known(0, len(attribute.symbols)):
        if any(read_test(written).holds(text) for text in values):
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
        if not schema.is_prefix(path):
            continue
        if isinstance(value, Mapping):
            yield from _known_values(value, schema, f"{path}.")
        elif is_list_of_objects(value):
            yield from values_in_elements(value, schema, f"{path}.")


def values_in_elements(elements: object, schema: Schema, prefix: str) -> Iterator[tuple[Attribute, object]]:
    """The values of attributes in a list of objects, by dotted names: those of all elements as one list."""
    found: dict[str, tuple[Attribute, list[object]]] = {}
    for element in map(as_object, elements):  # type: ignore[call-overload]
        for attribute, value in () if element is None else _known_values(element, schema, prefix):
            if isinstance(value, Iterator):  # it can be read once only
                value = tuple(value)
            if not is_missing_element(value):
                found.setdefault(attribute.name, (attribute, []))[1].append(value)
    for attribute, values in found.values():
        yield attribute, spread(values)


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
        if attribute.type is Type.OBJECTS:
            return _object_keys(attribute, value, register)
    except SchemaError as error:
        raise error if repr(attribute.name) in str(error) else error.about(f"attribute {attribute.name!r}") from None
    return _interval_keys(attribute, value, register)


def _object_keys(attribute: Attribute, value: object, register: bool) -> IntervalSet | None:
    """The codes of the elements as JSON texts, if they are registered; otherwise a key that says that there are some."""
    elements = elements_of(attribute, value)
    if not elements:
        return None
    if not register:
        return IntervalSet(((UNKNOWN_SYMBOL, UNKNOWN_SYMBOL),))
    assert attribute.symbols is not None
    try:
        codes = [float(attribute.symbols.code(element_text(element))) for element in elements]
    except EventError as error:
        raise error.about(f"attribute {attribute.name!r}") from None
    return IntervalSet.of([(code, code) for code in codes])


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
