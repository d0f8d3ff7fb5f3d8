"""Values as users pass them: which are absent, what type they have, and how to show them in a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from matchwood.errors import InexactValueError, ValueTypeError
from matchwood.schema.types import Point, Range, Type

_TYPES_OF_CLASSES: tuple[tuple[tuple[type, ...], Type], ...] = (
    ((bool,), Type.BOOL),
    ((int, float, Decimal), Type.NUMBER),
    ((str,), Type.STRING),
    ((date,), Type.TIMESTAMP),
    ((Point,), Type.POINT),
)


_TYPES: dict[type, Type] = {bool: Type.BOOL, int: Type.NUMBER, float: Type.NUMBER, str: Type.STRING}
"""The types of Python's own scalars, most of all values."""
_BYTES = (bytes, bytearray, memoryview)


def type_of(value: object) -> Type:
    """The type of a value, without a schema; `ValueTypeError` if it is none.

    >>> type_of(True), type_of(3), type_of("x")
    (<Type.BOOL: 'bool'>, <Type.NUMBER: 'number'>, <Type.STRING: 'string'>)
    """
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    plain = unwrapped(value)
    for classes, type_ in _TYPES_OF_CLASSES:
        if isinstance(plain, classes):
            return type_
    if isinstance(plain, _BYTES):
        raise ValueTypeError(f"{describe(value)} is not a value; decode bytes to a string")
    raise ValueTypeError(f"expected a number, string, bool, datetime or Point, got {describe(value)}")


def is_missing(value: object) -> bool:
    """None and NaN mean that the attribute is absent; so do a decimal NaN, NumPy's and pandas' NaT, and pandas' NA."""
    if isinstance(value, float):
        return value != value
    if value is None or isinstance(value, int | str):
        return value is None
    if isinstance(value, Decimal):
        return value.is_nan()
    if (
        type(value).__name__ == "NAType"
    ):  # pandas' NA, which is not even equal to itself; this layer does not import pandas
        return True
    return bool((isinstance(value, date) or _is_wrapped(value)) and value != value)


def unwrapped(value: object) -> Any:
    """A NumPy scalar as a Python scalar, a member of an Enum as its value, a UUID as its text; anything else unchanged."""
    if type(value) in _TYPES:
        return value
    if isinstance(value, Enum) and not isinstance(value, int | str | float):
        return unwrapped(value.value)
    if isinstance(value, UUID):
        return str(value)
    if not _is_wrapped(value):
        return value
    wrapped: Any = value
    if getattr(wrapped.dtype, "kind", "") != "M":
        return wrapped.item()
    micro = wrapped.astype("datetime64[us]")  # in nanoseconds `item` would give a bare integer
    if micro != wrapped and wrapped == wrapped:
        raise InexactValueError(f"{wrapped} is finer than a microsecond; round it first")
    return micro.item()


def _is_wrapped(value: object) -> bool:
    """Is it a NumPy scalar (or an array without dimensions)? Decided by its attributes: this layer does not import NumPy."""
    return getattr(value, "ndim", None) == 0 and hasattr(value, "dtype") and callable(getattr(value, "item", None))


def plain_point(value: tuple[Any, ...] | dict[Any, Any]) -> Point | None:
    """The point that a pair of floats is, or {"lon", "lat"} with floats, as nearly all are; None for anything else, which
    `point_of` reads or refuses."""
    if len(value) != 2:
        return None
    lon, lat = (value.get("lon"), value.get("lat")) if type(value) is dict else value
    if type(lon) is float and type(lat) is float and -180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0:
        return Point(lon + 0.0, lat + 0.0)
    return None


def point_of(value: object) -> Point:
    """A point from a `Point`, a (lon, lat) pair, {"lon", "lat"} or a GeoJSON point."""
    if (type(value) is tuple or type(value) is dict) and (plain := plain_point(value)) is not None:
        return plain
    if isinstance(value, Mapping):
        pair: Any = value.get("coordinates") if "coordinates" in value else (value.get("lon"), value.get("lat"))
    else:
        pair = value
    if isinstance(pair, Iterable) and not isinstance(pair, str | bytes | AbstractSet | Range) and not _is_wrapped(pair):
        numbers = tuple(unwrapped(number) for number in pair)
        if len(numbers) == 2 and all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
            lon, lat = numbers
            if -180 <= lon <= 180 and -90 <= lat <= 90:
                return Point(float(lon) + 0.0, float(lat) + 0.0)
            place = f"({text_of(lon)}, {text_of(lat)})"
            raise ValueTypeError(f"expected a longitude in -180..180 and a latitude in -90..90, got {place}")
    raise ValueTypeError(f"expected a point (lon, lat), got {describe(value)}")


def describe(value: object) -> str:
    """A value and its class, short enough for a message: `'old' (str)`."""
    return f"{text_of(value)} ({type(value).__name__})"


def text_of(value: object) -> str:
    """The `repr` of a value, at most 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        text = "a number of thousands of digits"
    except Exception as error:  # a `repr` of the user's own, or a value nested too deeply
        text = f"a value whose repr raises {type(error).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."
