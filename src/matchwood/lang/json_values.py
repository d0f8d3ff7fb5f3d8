"""Values of events in JSON: ranges, timestamps and infinities are objects there.

    Range(20, 30)   {"min": 20, "max": 30}; an open end is null or missing
    datetime        {"timestamp": "2026-01-31T12:00:00+00:00"}
    infinity        {"number": "inf"}
    Point           {"lon": 10.75, "lat": 59.91}

Any other object is a nested one, whose values are read by dotted names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from matchwood.errors import MatchwoodError
from matchwood.lang.instants import instant
from matchwood.schema import Point, Range, is_missing, unwrapped

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}
_SCALARS = frozenset((int, str, bool, type(None)))
_NOTHING = object()


def of_json(value: object) -> object:
    """The value that a JSON value stands for.

    >>> of_json({"min": 20, "max": None})
    Range(lo=20, hi=None)
    """
    if isinstance(value, list):
        return [of_json(item) for item in value]
    if not isinstance(value, dict) or "coordinates" in value or "lon" in value:
        return value
    keys = set(value)
    if keys and keys <= {"min", "max"}:
        return Range(of_json(value.get("min")), of_json(value.get("max")))
    if keys == {"timestamp"} and isinstance(value["timestamp"], str):
        try:
            return instant(value["timestamp"])
        except MatchwoodError:
            return value  # refused where an attribute is to take it
    if keys == {"number"} and value["number"] in ("inf", "-inf"):
        return _INFINITIES[value["number"]]
    return {name: of_json(item) for name, item in value.items()}


def to_json(value: object) -> Any:
    """A copy of a value of an event as JSON, the inverse of `of_json`; None for what cannot be the value of any attribute.

    >>> to_json([Range(20, None), object()])
    [{'min': 20, 'max': None}]
    """
    found = _to_json(value)
    return None if found is _NOTHING else found


def _to_json(value: object) -> Any:
    if type(value) in _SCALARS:
        return value
    plain = unwrapped(value)
    if is_missing(plain):
        return None
    if isinstance(plain, bool | int | str):
        return plain
    if isinstance(plain, float | Decimal):
        if math.isinf(plain):
            return {"number": "inf" if plain > 0 else "-inf"}
        return plain if isinstance(plain, float) else float(plain)
    if isinstance(plain, date):
        moment = plain if isinstance(plain, datetime) else datetime(plain.year, plain.month, plain.day, tzinfo=UTC)
        return {"timestamp": moment.isoformat()}
    if isinstance(plain, Range):
        return {"min": to_json(plain.lo), "max": to_json(plain.hi)}
    if isinstance(plain, Point):
        return {"lon": to_json(plain.lon), "lat": to_json(plain.lat)}
    if isinstance(plain, Mapping):
        return {str(name): to_json(item) for name, item in plain.items()}
    if isinstance(plain, Iterable) and not isinstance(plain, bytes | bytearray):
        return [item for item in map(_to_json, plain) if item is not _NOTHING]
    return _NOTHING
