"""DECAY in JSON, beside the weight of a predicate.

    "decay": {"curve": "exp", "origin": 100, "scale": 200, "offset": 10, "to": 0.25}

An origin is a number, {"timestamp": ...} or a GeoJSON point; a distance is a number, or {"value": 6, "unit": "h"}. What is left
out has its default (`lang.decay`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from matchwood.errors import ExpressionError, SchemaError
from matchwood.lang.decay import Curve, Decay, Distance
from matchwood.lang.instants import instant
from matchwood.schema import Point, describe, point_of

_KEYS = ("curve", "origin", "scale", "offset", "to")


def written_decay(decay: Decay) -> dict[str, Any]:
    """A DECAY as JSON."""
    written: dict[str, Any] = {"curve": decay.curve.value}
    if isinstance(decay.origin, Point):
        written["origin"] = {"type": "Point", "coordinates": list(decay.origin)}
    elif isinstance(decay.origin, datetime):
        written["origin"] = {"timestamp": decay.origin.isoformat().replace("+00:00", "Z")}
    elif decay.origin is not None:
        written["origin"] = decay.origin
    for name, distance in (("scale", decay.scale), ("offset", decay.offset)):
        if distance is not None:
            written[name] = {"value": distance.amount, "unit": distance.unit} if distance.unit else distance.amount
    return written if decay.to is None else {**written, "to": decay.to}


def read_decay(value: object, path: str) -> Decay:
    """A DECAY from JSON; an error names the place."""
    if not isinstance(value, Mapping):
        raise _error(path, f"expected an object with {', '.join(_KEYS)}, got {describe(value)}")
    for key in value:
        if key not in _KEYS:
            raise _error(f"{path}.{key}", f"unknown key; a decay knows {', '.join(_KEYS)}")
    curve = value.get("curve", "linear")
    if not isinstance(curve, str) or curve not in list(Curve):
        raise _error(f"{path}.curve", f"expected one of {', '.join(Curve)}, got {describe(curve)}")
    to = value.get("to")
    try:
        return Decay(
            Curve(curve),
            _origin(value.get("origin"), f"{path}.origin"),
            _distance(value.get("scale"), f"{path}.scale"),
            _distance(value.get("offset"), f"{path}.offset"),
            None if to is None else _number(to, f"{path}.to"),
        )
    except ExpressionError as error:
        raise error if str(error).startswith(path) else error.about(path) from None


def _origin(value: object, path: str) -> int | float | datetime | Point | None:
    if not isinstance(value, Mapping):
        return None if value is None else _number(value, path)
    if value.get("type") == "Point":
        try:
            return point_of(value)
        except SchemaError as error:
            raise _error(path, str(error)) from None
    if set(value) == {"timestamp"} and isinstance(value["timestamp"], str):
        return instant(value["timestamp"])
    raise _error(path, f'expected a number, {{"timestamp": ...}} or a GeoJSON point, got {describe(value)}')


def _distance(value: object, path: str) -> Distance | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        if set(value) != {"value", "unit"} or not isinstance(value["unit"], str):
            raise _error(path, f'expected a number or {{"value": NUMBER, "unit": UNIT}}, got {describe(value)}')
        return Distance(_number(value["value"], f"{path}.value"), value["unit"])
    return Distance(_number(value, path))


def _number(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _error(path, f"expected a number, got {describe(value)}")
    return value


def _error(path: str, message: str) -> ExpressionError:
    return ExpressionError(message).about(path)
