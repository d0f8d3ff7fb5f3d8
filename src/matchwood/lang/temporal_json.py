"""Temporal functions <-> CQL2 JSON: {"op": "t_during", "args": [{"interval": [{"property": "starts_at"}, ".."]}, ...]}."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from matchwood.errors import ExpressionError
from matchwood.lang.instants import instant
from matchwood.lang.temporal import End, Interval, Temporal, TemporalFunction, Times
from matchwood.schema import describe

FUNCTIONS = {function.value: function for function in TemporalFunction}


def written(tree: Temporal) -> dict[str, Any]:
    """The JSON of a temporal function. O(1)."""
    weight = {} if tree.weight == 1.0 else {"weight": float(tree.weight)}
    return {"op": tree.function.value, "args": [_written_times(tree.left), _written_times(tree.right)], **weight}


def read(op: str, args: list[Any], weight: float, path: str) -> Temporal:
    """The temporal function of that name with two arguments; `ExpressionError` with the place in the JSON. O(1)."""
    left, right = (_times(argument, f"{path}.args[{index}]") for index, argument in enumerate(args))
    try:
        return Temporal(FUNCTIONS[op], left, right, weight)
    except ExpressionError as error:
        raise error.about(path) from None


def _written_times(argument: Times) -> dict[str, Any]:
    if isinstance(argument, str):
        return {"property": argument}
    if isinstance(argument, Interval):
        return {"interval": [_written_end(end) for end in argument]}
    return {"timestamp": _text(argument)}


def _written_end(end: End) -> object:
    if end is None:
        return ".."
    return {"property": end} if isinstance(end, str) else _text(end)


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _times(value: object, path: str) -> Times:
    if isinstance(value, Mapping) and len(value) == 1:
        key, content = next(iter(value.items()))
        if key == "property" and isinstance(content, str):
            return content
        if key in ("timestamp", "date") and isinstance(content, str):
            return _instant(content, f"{path}.{key}")
        if key == "interval" and isinstance(content, (list, tuple)) and len(content) == 2:
            return Interval(*(_end(end, f"{path}.interval[{index}]") for index, end in enumerate(content)))
    expected = 'a property, {"timestamp": ...}, {"date": ...} or {"interval": [START, END]}'
    raise ExpressionError(f"expected {expected}, got {describe(value)}").about(path)


def _end(value: object, path: str) -> End:
    if value == "..":
        return None
    if isinstance(value, str):
        return _instant(value, path)
    if isinstance(value, Mapping) and (found := _times(value, path)) and not isinstance(found, Interval):
        return found
    raise ExpressionError(f'expected a timestamp, "..", or a property, got {describe(value)}').about(path)


def _instant(text: str, path: str) -> datetime:
    try:
        return instant(text)
    except ExpressionError as error:
        raise error.about(path) from None
