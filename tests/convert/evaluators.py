"""Plain evaluators of the foreign languages, from their published rules. They share nothing with the converters."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tests.convert.worlds import elements

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "!=": operator.ne, "<>": operator.ne,
}  # fmt: skip


def eventbridge(pattern: dict[str, Any], event: dict[str, Any], prefix: str = "") -> bool:
    """Fields: all. Entries of a field: one. Each element of a list in the event is tested by itself."""
    for name, value in pattern.items():
        if name == "$or":
            held = any(eventbridge(branch, event, prefix) for branch in value)
        elif isinstance(value, dict):
            held = eventbridge(value, event, f"{prefix}{name}.")
        else:
            found = elements(event, prefix + name)
            held = any(_entry_holds(entry, found) for entry in value)
        if not held:
            return False
    return True


def _entry_holds(entry: Any, found: list[Any]) -> bool:
    if not isinstance(entry, dict):
        return entry in found
    ((kind, value),) = entry.items()
    if kind == "exists":
        return bool(found) is value
    if kind == "anything-but":
        excluded = value if isinstance(value, list) else [value]
        return any(element not in excluded for element in found)
    pairs = list(zip(value[::2], value[1::2], strict=True))
    return any(all(COMPARE[sign](element, number) for sign, number in pairs) for element in found)


MONGO = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
    "$eq": operator.eq,
    "$ne": operator.ne,
}


def mongodb(condition: dict[str, Any], event: dict[str, Any]) -> bool:
    for name, value in condition.items():
        if name in ("$and", "$or", "$nor"):
            found = [mongodb(branch, event) for branch in value]
            held = {"$and": all(found), "$or": any(found), "$nor": not any(found)}[name]
        else:
            operators = value if isinstance(value, dict) else {"$eq": value}
            held = all(_operator_holds(key, operand, elements(event, name)) for key, operand in operators.items())
        if not held:
            return False
    return True


def _operator_holds(key: str, operand: Any, found: list[Any]) -> bool:
    if key == "$not":
        return not all(_operator_holds(inner, value, found) for inner, value in operand.items())
    if key == "$ne":
        return not _operator_holds("$eq", operand, found)
    if key == "$nin":
        return not _operator_holds("$in", operand, found)
    if key == "$eq":
        return not found if operand is None else operand in found
    if key == "$in":
        return any(_operator_holds("$eq", value, found) for value in operand)
    if key == "$exists":
        return bool(found) is operand
    if key == "$all":
        return bool(operand) and all(value in found for value in operand)
    if key == "$elemMatch":  # a single value counts as a list of one here
        return any(all(MONGO[inner](element, value) for inner, value in operand.items()) for element in found)
    return any(MONGO[key](element, operand) for element in found)


def elasticsearch(query: dict[str, Any], event: dict[str, Any]) -> bool:
    ((kind, body),) = query.items()
    if kind == "bool":
        must = [elasticsearch(clause, event) for key in ("must", "filter") for clause in body.get(key, [])]
        should = [elasticsearch(clause, event) for clause in body.get("should", [])]
        default = 0 if must or not should else 1
        minimum = body.get("minimum_should_match", default)
        minimum = max(len(should) + minimum, 0) if minimum < 0 else minimum
        excluded = [elasticsearch(clause, event) for clause in body.get("must_not", [])]
        return all(must) and sum(should) >= minimum and not any(excluded)
    if kind in ("match_all", "match_none"):
        return kind == "match_all"
    if kind == "exists":
        return bool(elements(event, body["field"]))
    ((name, value),) = body.items()
    found = elements(event, name)
    if kind == "term":
        return value in found
    if kind == "terms":
        return any(element in value for element in found)
    signs = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
    return any(all(COMPARE[signs[end]](element, limit) for end, limit in value.items()) for element in found)


class MissingError(Exception):
    """An attribute that the event lacks was read: the event does not pass."""


def passes(tree: Any, event: dict[str, Any]) -> bool:
    """Does the event pass a filter of CESQL?"""
    try:
        return cesql(tree, event)
    except MissingError:
        return False


def cesql(tree: Any, event: dict[str, Any]) -> bool:
    kind = tree[0]
    if kind == "AND":
        return cesql(tree[1], event) and cesql(tree[2], event)
    if kind == "OR":
        return cesql(tree[1], event) or cesql(tree[2], event)
    if kind == "XOR":
        left, right = cesql(tree[1], event), cesql(tree[2], event)
        return left is not right
    if kind == "NOT":
        return not cesql(tree[1], event)
    if kind == "EXISTS":
        return tree[1] in event
    if tree[1] not in event:
        raise MissingError
    value = event[tree[1]]
    if kind == "TRUTH":
        return bool(value)
    if kind in ("IN", "NOT IN"):
        return (value in tree[2]) is (kind == "IN")
    return COMPARE[kind](value, tree[2])


def cesql_text(tree: Any) -> str:
    kind = tree[0]
    if kind in ("AND", "OR", "XOR"):
        return f"({cesql_text(tree[1])}) {kind} ({cesql_text(tree[2])})"
    if kind == "NOT":
        return f"NOT ({cesql_text(tree[1])})"
    if kind == "EXISTS":
        return f"EXISTS {tree[1]}"
    if kind == "TRUTH":
        return str(tree[1])
    if kind in ("IN", "NOT IN"):
        return f"{tree[1]} {kind} ({', '.join(map(_literal, tree[2]))})"
    return f"{tree[1]} {kind} {_literal(tree[2])}"


def _literal(value: Any) -> str:
    return str(value).upper() if isinstance(value, bool) else repr(value)
