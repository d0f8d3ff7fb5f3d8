"""Expression <-> JSON, in the shapes of OGC CQL2 JSON.

    {"op": "and", "args": [{"op": ">", "args": [{"property": "age"}, 31], "weight": 0.4}, ...]}

What exists in CQL2 is written as in CQL2, for exchange with other readers and writers. These are extensions:

    "starts_with", "ends_with",  tests of strings: {"op": "starts_with", "args": [{"property": "name"}, "a"]}
    "contains", "regex", "cidr"
    "weight"                     on a predicate, where it is not 1
    "any", "all", "a_count"      in place of the property: {"op": "any", "args": [{"property": "sizes"}]}
    "decay"                      on a predicate, where its weight counts by closeness (`json_decay`)
    "s_dwithin", "shape"         a radius in metres around a point; the shape where it is not a circle
    {"number": "inf"}            infinity, which JSON cannot write

NOT BETWEEN, NOT IN and IS NOT NULL are a "not" around the predicate, as in CQL2. Trees distinguish `a NOT IN (1)` from
`NOT (a IN (1))`, which have the same meaning; the second has `"prefix": true`, which other readers may ignore. A
`"negated": true` on the predicate would be simpler, but would invert the condition for every reader that ignores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matchwood.errors import ExpressionError, TooComplexError
from matchwood.lang import temporal_json
from matchwood.lang.expression import MAX_DEPTH, And, Constant, Expression, Not, Or, Predicate, all_of, any_of
from matchwood.lang.json_operands import is_plain_property, is_property, written_name
from matchwood.lang.json_operations import NEGATABLE, OPERATIONS, QUANTIFIERS, described, error_at, unsupported
from matchwood.lang.json_predicates import read_predicate, read_weight, written_predicate
from matchwood.lang.nested import Nested
from matchwood.lang.predicates import Between, In, IsNull
from matchwood.lang.temporal import Temporal
from matchwood.lang.text_tests import Like

_TOO_DEEP = f"the expression nests more than {MAX_DEPTH} levels deep; simplify it"


def to_json(expression: Expression) -> dict[str, Any] | bool:
    """The expression as a value for `json.dumps`; a bare TRUE or FALSE is a JSON boolean. O(size).

    >>> from matchwood.lang.parser import parse
    >>> to_json(parse("age > 31 ^0.4"))
    {'op': '>', 'args': [{'property': 'age'}, 31], 'weight': 0.4}
    >>> to_json(parse("age IS NOT NULL"))
    {'op': 'not', 'args': [{'op': 'isNull', 'args': [{'property': 'age'}]}]}
    """
    return _written(expression, 1)


def from_json(value: object) -> Expression:
    """The expression of a JSON value (as from `json.loads`); an error names the place: `$.args[1].args[0]`. O(size).

    >>> print(from_json({"op": "in", "args": [{"property": "city"}, ["Oslo", "Bergen"]], "weight": 2}))
    city IN ('Oslo', 'Bergen') ^2.0
    >>> from_json({"op": "and", "args": [{"op": ">", "args": [{"property": "age"}, None]}, True]})
    Traceback (most recent call last):
    ...
    matchwood.errors.ExpressionError: $.args[0].args[1]: null is not a value; use the op "isNull"
    """
    return _read(value, "$", 1)


def _written(expression: Expression, depth: int) -> dict[str, Any] | bool:
    if depth > MAX_DEPTH:
        raise TooComplexError(_TOO_DEEP)
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, (And, Or)):
        op = "and" if isinstance(expression, And) else "or"
        return {"op": op, "args": [_written(child, depth + 1) for child in expression.children]}
    if isinstance(expression, Not):
        child = _written(expression.child, depth + 1)
        negatable = isinstance(child, dict) and child["op"] in NEGATABLE
        return {"op": "not", "args": [child], **({"prefix": True} if negatable else {})}
    if isinstance(expression, Temporal):
        return temporal_json.written(expression)
    if isinstance(expression, Nested):
        condition = _written(expression.condition, depth + 1)
        weight = {} if expression.weight == 1.0 else {"weight": float(expression.weight)}
        args = [written_name(expression.attribute), condition]
        return {"op": expression.quantifier.value, "args": args, **weight}
    if isinstance(expression, Predicate):
        return written_predicate(expression)
    raise ExpressionError(f"expected an expression, got {described(expression)}")


def _read(value: object, path: str, depth: int) -> Expression:
    if depth > MAX_DEPTH:
        raise TooComplexError(_TOO_DEEP)
    if isinstance(value, bool):
        return Constant(value)
    if is_property(value):  # a bool by itself
        return read_predicate("=", [value, True], {}, path)
    op, args = _checked_operation(value, path)
    if op == "not":
        return _read_not(value, args, path, depth)
    if op in ("and", "or"):
        if not args:
            raise error_at(f"{path}.args", "expected at least one expression, got none")
        children = [_read(arg, f"{path}.args[{index}]", depth + 1) for index, arg in enumerate(args)]
        return all_of(*children) if op == "and" else any_of(*children)
    if op in temporal_json.FUNCTIONS:
        return temporal_json.read(op, args, read_weight(value, path), path)
    if op in QUANTIFIERS:
        return _read_nested(op, args, value, path, depth)
    return read_predicate(op, args, value, path)


def _read_nested(op: str, args: list[Any], value: Any, path: str, depth: int) -> Nested:
    """A condition on the elements of a list."""
    if not is_plain_property(args[0]):
        raise error_at(f"{path}.args[0]", f'expected {{"property": NAME}}, got {described(args[0])}')
    weight = read_weight(value, path)
    condition = _read(args[1], f"{path}.args[1]", depth + 1)
    try:
        return Nested(args[0]["property"], weight, condition=condition, quantifier=QUANTIFIERS[op])
    except ExpressionError as error:
        raise error.about(path) from None


def _checked_operation(value: object, path: str) -> tuple[str, list[Any]]:
    """The op and the args of an object; an error if their number is wrong, or a key is unknown to the op."""
    if not isinstance(value, Mapping):
        raise error_at(path, f'expected true, false or an object with "op" and "args", got {described(value)}')
    op, args = value.get("op"), value.get("args")
    if not isinstance(op, str) or op not in OPERATIONS:
        known = f"expected one of {', '.join(OPERATIONS)}, got {described(op)}"
        raise error_at(f"{path}.op", f"{known}{unsupported(op)}")
    count, keys = OPERATIONS[op]
    if not isinstance(args, (list, tuple)):
        raise error_at(f"{path}.args", f"expected a list, got {described(args)}")
    if count is not None and len(args) != count:
        raise error_at(f"{path}.args", f"expected {count} argument{'s' * (count != 1)} of {op!r}, got {len(args)}")
    for key in value:
        if key not in ("op", "args", *keys):
            known = ", ".join(("op", "args", *keys))
            raise error_at(f"{path}.{key}", f"unknown key; {op!r} knows {known}")
    return op, list(args)


def _read_not(value: Any, args: list[Any], path: str, depth: int) -> Expression:
    child = _read(args[0], f"{path}.args[0]", depth + 1)
    prefix = value.get("prefix", False)
    if not isinstance(prefix, bool):
        raise error_at(f"{path}.prefix", f"expected true or false, got {described(prefix)}")
    # The op of the argument decides, not the child: the inner one of two "not" is already part of the predicate.
    own = isinstance(args[0], Mapping) and args[0].get("op") in NEGATABLE
    if (
        own
        and not prefix
        and isinstance(child, (Between, In, IsNull, Like))
        and getattr(child, "quantifier", None) is None
    ):
        return replace(child, negated=True)
    return Not(child)
