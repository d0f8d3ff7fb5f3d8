"""JSON text to Python objects: by `msgspec` if it is installed (the extra `json`), else by the standard library.

Both give the same objects. What `msgspec` refuses (NaN, numbers beyond float64, malformed text) is left to the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from matchwood.errors import EventError
from matchwood.lang.json_values import of_json
from matchwood.schema import describe

try:
    import msgspec
except ImportError:  # pragma: no cover
    _decode: Callable[[Any], Any] | None = None
    _Refused: type[Exception] = ValueError
else:
    _decode, _Refused = msgspec.json.Decoder().decode, msgspec.MsgspecError

_scan = json.JSONDecoder().raw_decode

JsonText = bytes | bytearray | memoryview | str
_SCALARS = frozenset((int, float, str, bool, type(None)))


def loads(text: JsonText) -> Any:
    """The value of a JSON text; ValueError or RecursionError if it is none. O(length).

    >>> loads(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if _decode is not None:
        try:
            return _decode(text)
        except (_Refused, RecursionError):
            pass
    text = bytes(text) if isinstance(text, memoryview) else text
    try:  # `json.loads` looks for other encodings and for white space, which takes as long again
        decoded = text if isinstance(text, str) else text.decode()
        value, end = _scan(decoded)
        if end == len(decoded) or not decoded[end:].strip(" \t\r\n"):
            return value
    except ValueError:
        pass
    return json.loads(text)


def json_event(text: JsonText) -> dict[str, object]:
    """The event that a JSON object is: attribute -> value, with `json_values` for ranges and the like.

    >>> json_event('{"age": {"min": 20, "max": 30}}')
    {'age': Range(lo=20, hi=30)}
    """
    try:
        values = loads(text)
    except (ValueError, RecursionError) as error:
        raise EventError(f"the event is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise EventError(f"expected an event as a JSON object, got {describe(values)}")
    if _SCALARS.issuperset(map(type, values.values())):
        return values
    return {name: of_json(value) for name, value in values.items()}
