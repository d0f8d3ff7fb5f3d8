"""Keys: the float64 that stands for a value.

number     itself; an integer that float64 cannot hold exactly is refused
timestamp  microseconds since 1970-01-01T00:00:00Z (a naive datetime is taken as UTC, a date as its midnight)
bool       0.0 and 1.0
string     the code that the `Symbols` of its attribute gave it; codes have no order, so order comparisons are refused
id         an integer of any size, by the code of its digits; no order either
point      two keys: longitude and latitude in degrees
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from matchwood.errors import InexactValueError, SchemaError, ValueTypeError
from matchwood.schema.symbols import Symbols
from matchwood.schema.types import Attribute, Scalar, Type
from matchwood.schema.values import describe, is_missing, text_of, unwrapped

UNKNOWN_SYMBOL = -1.0
"""The key of a string that is not registered: it equals no code, so `=` fails and `!=` holds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_INTEGER = 2**53
_MAX_BITS = 14_000  # Python writes no integer of more than 4,300 digits
_BELOW_A_MICROSECOND = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def key_of(attribute: Attribute, value: object, register: bool) -> float:
    """The key of one scalar value of `attribute`; an unregistered string is registered, or gets `UNKNOWN_SYMBOL`. O(1)."""
    try:
        return _KEYS[attribute.type](attribute, value, register)
    except SchemaError as error:
        raise error.about(f"attribute {attribute.name!r}") from None


def keys_of(attribute: Attribute, values: Sequence[Any]) -> list[float]:
    """The keys of many values, as by `key_of` with `register`; without a Python call for each where they are of one class."""
    kinds = set(map(type, values))
    if attribute.type is Type.NUMBER and kinds == {int} and _are_exact(values):
        return list(map(float, values))
    if attribute.type is Type.STRING and kinds == {str} and attribute.symbols is not None:
        return _codes(attribute.symbols, values)
    if attribute.type is Type.ID and kinds == {int} and attribute.symbols is not None:
        return _codes(attribute.symbols, list(map(str, values)))
    return [key_of(attribute, value, True) for value in values]


def _codes(symbols: Symbols, texts: Sequence[str]) -> list[float]:
    known = symbols.codes
    for text in texts:
        if text not in known:
            symbols.code(text)
    return [float(known[text]) for text in texts]


def _are_exact(integers: Sequence[Any]) -> bool:
    return bool(-_EXACT_INTEGER <= min(integers) and max(integers) <= _EXACT_INTEGER)


def value_of(attribute: Attribute, key: float) -> Scalar:
    """The value whose key is `key`, the inverse of `key_of`. O(1).

    Raises OverflowError for the key of an instant that Python's datetime cannot hold (a float past an open end).
    """
    if math.isinf(key) or attribute.type in (Type.NUMBER, Type.POINT, None):
        return int(key) if key.is_integer() and abs(key) < _EXACT_INTEGER else key
    if attribute.type is Type.BOOL:
        return bool(key)
    if attribute.type is Type.TIMESTAMP:
        return _EPOCH + timedelta(microseconds=round(key))
    symbols = attribute.symbols
    if symbols is None or not 0 <= key < len(symbols):
        return f"<unregistered {key}>"
    text = symbols.text(int(key))
    if text is None:
        return f"<unregistered {key}>"
    return int(text) if attribute.type is Type.ID else text


def instant_key(value: object) -> float:
    """The key of a timestamp: whole microseconds since the epoch, from a datetime, a date or ISO 8601 text.

    An instant between two microseconds is refused: rounded, it would lie on the wrong side of some bound.
    """
    if type(value) is datetime and value.tzinfo is UTC:  # what a clock says, and most users
        since = value - _EPOCH
        key = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        if -_EXACT_INTEGER <= key <= _EXACT_INTEGER:
            return float(key)
    moment = unwrapped(value)
    if isinstance(moment, str):
        moment = _moment_of_text(moment)
    if not isinstance(moment, date) or moment != moment:
        raise ValueTypeError(f"expected a timestamp, got {describe(value)}")
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    key = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    finer: Any = getattr(since, "nanoseconds", 0)  # of a pandas Timestamp
    if finer:
        raise InexactValueError(f"{describe(value)} is finer than a microsecond; round it first")
    try:
        return exact_key(key)
    except InexactValueError:
        remedy = "float64 holds every microsecond within 285 years of 1970; further away, use whole seconds"
        raise InexactValueError(f"{moment.isoformat()} has no exact key: {remedy}") from None


def _moment_of_text(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueTypeError(f"expected a timestamp, got {text!r}; write it as 2026-01-31T12:00:00Z") from None
    check_microseconds(text)
    return moment


def check_microseconds(text: str) -> None:
    """Refuse the text of an instant between two microseconds; `datetime.fromisoformat` would truncate it silently."""
    if _BELOW_A_MICROSECOND.search(text):
        raise InexactValueError(f"{text!r} is finer than a microsecond; round it first")


def exact_key(value: int) -> float:
    """An integer as float64, refused if that would round it.

    >>> exact_key(2**53 + 1)
    Traceback (most recent call last):
    ...
    matchwood.errors.InexactValueError: 9007199254740993 has no exact float64; declare the attribute as an id ...
    """
    if -_EXACT_INTEGER <= value <= _EXACT_INTEGER:
        return float(value)
    try:
        key = float(value)
    except OverflowError:
        key = math.inf
    if key != value:
        raise _inexact(value)
    return key


def _inexact(value: object) -> InexactValueError:
    remedy = "declare the attribute as an id for = and IN on such integers, use a string, or scale it down"
    return InexactValueError(f"{text_of(value)} has no exact float64; {remedy}")


def _number_key(attribute: Attribute, value: object, register: bool) -> float:
    number = value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        number = unwrapped(number)
        if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
            raise ValueTypeError(f"expected a number, got {describe(value)}")
    if isinstance(number, int):
        return exact_key(number)
    if is_missing(number):
        raise ValueTypeError("expected a number, got NaN (in an event it means that the attribute is absent)")
    key = float(number)
    if isinstance(number, Decimal) and key != number and (math.isinf(key) or number == number.to_integral_value()):
        raise _inexact(number)
    return key + 0.0


def _bool_key(attribute: Attribute, value: object, register: bool) -> float:
    plain = unwrapped(value)
    if not isinstance(plain, bool):
        raise ValueTypeError(f"expected true or false, got {describe(value)}")
    return float(plain)


def _timestamp_key(attribute: Attribute, value: object, register: bool) -> float:
    if isinstance(value, float) and math.isinf(value):
        return float(value)
    return instant_key(value)


def _string_key(attribute: Attribute, value: object, register: bool) -> float:
    text = value if isinstance(value, str) else unwrapped(value)
    if not isinstance(text, str):
        remedy = "; decode bytes to a string" if isinstance(text, bytes | bytearray | memoryview) else ""
        raise ValueTypeError(f"expected a string, got {describe(value)}{remedy}")
    assert attribute.symbols is not None
    if register:
        return float(attribute.symbols.code(text))
    code = attribute.symbols.codes.get(text)
    return UNKNOWN_SYMBOL if code is None else float(code)


def id_key(attribute: Attribute, value: object, register: bool) -> float:
    """As `key_of`, for an attribute that is an id; the error does not name the attribute."""
    number = value if type(value) is int else _integer(unwrapped(value))
    if number is None or number.bit_length() > _MAX_BITS:
        raise ValueTypeError(f"expected an integer, got {describe(value)}")
    assert attribute.symbols is not None
    if register:
        return float(attribute.symbols.code(str(number)))
    code = attribute.symbols.codes.get(str(number))
    return UNKNOWN_SYMBOL if code is None else float(code)


def _integer(value: object) -> int | None:
    """The integer that a number is, None if it is none. A float is one if no other integer is as near."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT_INTEGER else None
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else None
    return int(value) if isinstance(value, int) else None


def _no_key(attribute: Attribute, value: object, register: bool) -> float:
    expected = "a point (lon, lat)" if attribute.type is Type.POINT else "an attribute whose type is known"
    raise ValueTypeError(f"expected {expected}, got {describe(value)}")


_KEYS = {
    Type.NUMBER: _number_key,
    Type.BOOL: _bool_key,
    Type.TIMESTAMP: _timestamp_key,
    Type.STRING: _string_key,
    Type.ID: id_key,
    Type.POINT: _no_key,
    None: _no_key,
}
