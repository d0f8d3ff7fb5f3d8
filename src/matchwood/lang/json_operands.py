"""What stands in the "args" of an operation: properties, functions of them, constants, lists and numbers <-> JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from matchwood.errors import ExpressionError, SchemaError
from matchwood.lang.expression import MAX_DEPTH, Predicate
from matchwood.lang.instants import instant
from matchwood.lang.json_operations import QUANTIFIERS, described, error_at, unsupported_call
from matchwood.schema import Scalar
from matchwood.schema.functions import (
    FUNCTIONS,
    SEPARATOR,
    derived_name,
    folding_functions,
    function_of,
    is_derived,
    source_of,
)

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def written_name(attribute: str) -> dict[str, Any]:
    """An attribute: a property, or functions of one."""
    if not is_derived(attribute):
        return {"property": attribute}
    function, inner = function_of(attribute), written_name(source_of(attribute))
    op = attribute.partition(SEPARATOR)[0].partition(":")[0].lower()
    if function.argument is None:
        return {"op": op, "args": [inner]}
    return {"op": op, "args": [inner, {"property": function.argument} if function.is_age else function.argument]}


def written_list(predicate: Predicate, values: tuple[Scalar, ...]) -> list[Any]:
    """The constants of a list."""
    return [written_constant(predicate, value) for value in values]


def written_constant(predicate: Predicate, value: Scalar) -> object:
    """A constant in the functions of the attribute that are applied to constants too."""
    written = _written_value(value)
    if isinstance(value, str):
        for function in reversed(folding_functions(predicate.attribute)):
            written = {"op": function.lower(), "args": [written]}
    return written


def _written_value(value: Scalar) -> object:
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat().replace("+00:00", "Z")}
    if isinstance(value, float) and math.isinf(value):
        return {"number": "inf" if value > 0 else "-inf"}
    return value


def is_plain_property(value: object) -> bool:
    """{"property": NAME} and nothing else."""
    return isinstance(value, Mapping) and set(value) == {"property"} and isinstance(value["property"], str)


def is_property(value: object) -> bool:
    """A property, or functions of one."""
    depth = 0
    while _is_function(value) and value["args"] and depth < MAX_DEPTH:  # type: ignore[index]
        value, depth = value["args"][0], depth + 1  # type: ignore[index]
    return is_plain_property(value)


def _is_function(value: object) -> bool:
    is_call = isinstance(value, Mapping) and set(value) == {"op", "args"} and isinstance(value["args"], (list, tuple))
    return is_call and isinstance(value["op"], str) and value["op"].upper() in FUNCTIONS  # type: ignore[index]


def is_subject(value: object) -> bool:
    """A property, or a function that takes its place."""
    if is_property(value):
        return True
    is_call = isinstance(value, Mapping) and set(value) == {"op", "args"} and isinstance(value["args"], (list, tuple))
    return is_call and value["op"] in ("a_count", *QUANTIFIERS)  # type: ignore[index]


def read_name(value: Any, path: str) -> str:
    """The name of a property, or of functions of one."""
    if "property" in value:
        return str(value["property"])
    inner, *rest = value["args"]
    if value["op"].upper() == "AGE":
        rest = [other["property"] if is_plain_property(other) else None for other in rest]
    if len(rest) > 1 or not all(isinstance(argument, str) for argument in rest):
        more = "a second one" if value["op"].upper() == "AGE" else "one string"
        raise error_at(f"{path}.args", f"expected a property and at most {more}, got {described(value['args'])}")
    name = derived_name(value["op"].upper(), read_name(inner, f"{path}.args[0]"), rest[0] if rest else None)
    try:
        function_of(name)
    except SchemaError as error:
        raise error_at(path, str(error)) from None
    return name


def read_list(values: Any, path: str) -> tuple[Scalar, ...]:
    """A list of constants."""
    if not isinstance(values, (list, tuple)):
        raise error_at(path, f"expected a list of values, got {described(values)}")
    return tuple(read_value(member, f"{path}[{index}]") for index, member in enumerate(values))


def read_value(value: object, path: str) -> Scalar:
    """A constant, with its type."""
    if value is None:
        raise error_at(path, 'null is not a value; use the op "isNull"')
    if isinstance(value, (bool, int, float, str)):
        return value
    if _is_function(value) and not is_property(value):
        return _read_folded(value, path)
    if isinstance(value, Mapping) and len(value) == 1:
        key, text = next(iter(value.items()))
        if key == "number" and isinstance(text, str) and text in _INFINITIES:
            return _INFINITIES[text]
        if key in ("timestamp", "date") and isinstance(text, str):
            return _read_instant(key, text, path)
        if key == "property":
            raise error_at(path, "expected a constant, got a property; attributes cannot be compared with each other")
    expected = 'a number, string, boolean, {"timestamp": ...}, {"date": ...} or {"number": "inf"}'
    raise error_at(path, f"expected {expected}, got {described(value)}{unsupported_call(value)}")


def read_text(value: object, path: str) -> str:
    """A string, or casei and accenti of one."""
    text = _read_folded(value, path) if _is_function(value) else value
    if not isinstance(text, str):
        raise error_at(path, f"expected a string, got {described(value)}")
    return text


def _read_folded(value: Any, path: str, depth: int = 1) -> Scalar:
    """A function of a constant: {"op": "casei", "args": ["Oslo"]}."""
    function = function_of(value["op"].upper())
    if not function.folds_constants or len(value["args"]) != 1 or depth > MAX_DEPTH:
        raise error_at(path, f"expected a constant, or casei or accenti of a string, got {described(value)}")
    inner, place = value["args"][0], f"{path}.args[0]"
    text = _read_folded(inner, place, depth + 1) if _is_function(inner) else inner
    if not isinstance(text, str):
        raise error_at(place, f"expected a string, got {described(inner)}")
    result: Scalar = function.call(text)
    return result


def _read_instant(key: str, text: str, path: str) -> datetime:
    try:
        return instant(text if key == "timestamp" else date.fromisoformat(text))
    except ValueError:
        raise error_at(f"{path}.date", f"expected a date such as 2026-01-31, got {text!r}") from None
    except ExpressionError as error:
        raise error_at(f"{path}.{key}", str(error)) from None


def read_number(value: object, path: str) -> float:
    """A number within float64."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise error_at(path, f"expected a number, got {described(value)}")
    try:
        return float(value)
    except OverflowError:
        raise error_at(path, f"expected a number within float64, got {described(value)}") from None


def read_numbers(value: object, count: int, path: str) -> list[float]:
    """A list of so many numbers."""
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise error_at(path, f"expected a list of {count} numbers, got {described(value)}")
    return [read_number(number, f"{path}[{index}]") for index, number in enumerate(value)]
