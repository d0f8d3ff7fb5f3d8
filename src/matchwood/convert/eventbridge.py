"""Patterns of Amazon EventBridge -> Expression, and back.

    {"source": ["orders"], "detail": {"price": [{"numeric": [">", 10, "<=", 20]}], "state": [{"anything-but": "draft"}]}}

Fields are joined by AND, the entries of a field by OR; nested objects are dotted names. The elements of a list in an event are
tested one by one, `anything-but` as well: it matches `["draft", "sent"]` because of "sent". No pattern but `{"exists": false}`
matches a field that the event lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matchwood.convert.logic import Other, Span, conjunction, disjunction, finished
from matchwood.convert.reading import (
    Leaves,
    check_depth,
    list_at,
    made,
    mapping_at,
    number_at,
    refusal,
    single_item,
    text_at,
    wildcards,
)
from matchwood.lang.expression import Expression, Not
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Compare, IsNull
from matchwood.lang.text_tests import Like, TextOperator
from matchwood.patterns.like import escaped
from matchwood.schema import describe

_PATTERNS = ("prefix", "suffix", "wildcard", "equals-ignore-case")
_NUMERIC = {"=": Operator.EQ, **{o.value: o for o in (Operator.LT, Operator.LE, Operator.GT, Operator.GE)}}
_LOWER, _UPPER = (Operator.GT, Operator.GE), (Operator.LT, Operator.LE)


def from_eventbridge(pattern: object) -> Expression:
    """The expression of an event pattern, a value as from `json.loads`. O(size).

    >>> print(from_eventbridge({"source": ["orders"], "detail": {"price": [{"numeric": [">=", 10, "<=", 20]}]}}))
    source = 'orders' AND detail.price BETWEEN 10 AND 20
    >>> print(from_eventbridge({"detail": {"host": [{"prefix": "db-"}]}}))
    detail.host LIKE 'db-%'
    """
    return finished(_object(pattern, "", "$", 1, Leaves()))


def _object(pattern: object, prefix: str, path: str, depth: int, leaves: Leaves) -> Expression:
    check_depth(depth)
    fields = mapping_at(pattern, path, "an object of fields")
    if not fields:
        raise refusal(path, "an empty object matches nothing in EventBridge; name a field")
    parts = []
    for name, value in fields.items():
        place = f"{path}.{name}"
        if name == "$or":
            parts.append(_either(value, prefix, place, depth, leaves))
        elif isinstance(value, Mapping):
            parts.append(_object(value, f"{prefix}{name}.", place, depth + 1, leaves))
        else:
            parts.append(_field(value, f"{prefix}{name}", place, leaves))
    return conjunction(parts)


def _either(value: object, prefix: str, path: str, depth: int, leaves: Leaves) -> Expression:
    branches = list_at(value, path, "a list of patterns")
    if not branches:
        raise refusal(path, "expected at least one pattern, got none")
    return disjunction(
        _object(branch, prefix, f"{path}[{index}]", depth + 1, leaves) for index, branch in enumerate(branches)
    )


def _field(value: object, name: str, path: str, leaves: Leaves) -> Expression:
    entries = list_at(value, path, "a list of alternatives or an object")
    if not entries:
        raise refusal(path, "expected at least one alternative, got an empty list")
    exact = [(index, entry) for index, entry in enumerate(entries) if not isinstance(entry, Mapping)]
    parts = []
    if exact:
        values = [_exact(entry, f"{path}[{index}]") for index, entry in exact]
        parts.append(leaves.one_of(name, values, path))
    for index, entry in enumerate(entries):
        if isinstance(entry, Mapping):
            parts.append(_matcher(entry, name, f"{path}[{index}]", leaves))
    return disjunction(parts)


def _exact(value: object, path: str) -> object:
    if value is None:
        raise refusal(path, 'null is not a value in Matchwood, where it means absent; {"exists": false} matches both')
    if isinstance(value, (list, tuple)):
        raise refusal(path, "a list in a list is not a pattern; list the values themselves")
    return value


def _matcher(entry: Mapping[str, Any], name: str, path: str, leaves: Leaves) -> Expression:
    kind, value = single_item(entry, path, "an object with one matcher")
    place = f"{path}.{kind}"
    if kind == "exists":
        if not isinstance(value, bool):
            raise refusal(place, f"expected true or false, got {describe(value)}")
        return made(place, IsNull, name, negated=value)
    if kind == "numeric":
        return _numeric(value, name, place, leaves)
    if kind == "anything-but":
        return _anything_but(value, name, place, leaves)
    if kind in _PATTERNS:
        return _pattern(kind, value, name, place, leaves)
    if kind == "cidr":
        return leaves.test(name, TextOperator.CIDR, text_at(value, place), place)
    known = f"exact values, exists, numeric, anything-but, cidr, {', '.join(_PATTERNS)}"
    raise refusal(place, f"unknown matcher; Matchwood reads {known}")


def _pattern(kind: str, value: object, name: str, path: str, leaves: Leaves) -> Expression:
    if kind == "equals-ignore-case":
        return leaves.same_text(name, value, path)
    folded = isinstance(value, Mapping) and kind in ("prefix", "suffix")
    if isinstance(value, Mapping) and folded:
        inner, value = single_item(value, path, "a string, or an object with equals-ignore-case")
        if inner != "equals-ignore-case":
            raise refusal(f"{path}.{inner}", "expected equals-ignore-case")
    text = text_at(value, path)
    written = wildcards(text, path) if kind == "wildcard" else escaped(text)
    pattern = {"prefix": f"{written}%", "suffix": f"%{written}", "wildcard": written}[kind]
    return leaves.like(name, pattern, path, folded=folded)


def _of_all(tree: Expression) -> Expression:
    """The condition on every value, of which NOT says that some value does not meet it."""
    assert isinstance(tree, (Like, Compare))
    return replace(tree, quantifier=Quantifier.ALL)


def _numeric(value: object, name: str, path: str, leaves: Leaves) -> Expression:
    items = list_at(value, path, 'a list such as [">", 0, "<=", 5]')
    if len(items) not in (2, 4):
        raise refusal(path, f'expected one or two comparisons, such as [">", 0, "<=", 5], got {len(items)} items')
    found = []
    for at in range(0, len(items), 2):
        operator = _NUMERIC.get(items[at]) if isinstance(items[at], str) else None
        if operator is None:
            raise refusal(f"{path}[{at}]", f"expected one of {' '.join(_NUMERIC)}, got {describe(items[at])}")
        number_at(items[at + 1], f"{path}[{at + 1}]")
        found.append((operator, leaves.scalar(name, items[at + 1], f"{path}[{at + 1}]")))
    (first, lo), (second, hi) = found[0], found[-1]
    if len(found) == 1:
        return leaves.compare(name, first, lo, path)
    if first not in _LOWER or second not in _UPPER:
        raise refusal(path, f'expected a lower and an upper end, such as [">", 0, "<=", 5], got {first} and {second}')
    fields: dict[str, Any] = {"lo": lo, "lo_open": first is Operator.GT, "hi": hi, "hi_open": second is Operator.LT}
    return made(path, Span, name, **fields)


def _anything_but(value: object, name: str, path: str, leaves: Leaves) -> Expression:
    if isinstance(value, Mapping):
        kind, inner = single_item(value, path, "a value, a list of values or one matcher")
        if kind not in _PATTERNS:
            raise refusal(f"{path}.{kind}", f"expected one of {', '.join(_PATTERNS)}")
        each = list(inner) if isinstance(inner, (list, tuple)) else [inner]
        if not each:
            raise refusal(f"{path}.{kind}", "expected at least one pattern, got an empty list")
        found = [_pattern(kind, item, name, f"{path}.{kind}", leaves) for item in each]
        # Some value is of none of the patterns: one that is there. Several patterns are one condition on that value.
        if len(found) > 1:
            raise refusal(
                f"{path}.{kind}", "several patterns in anything-but are not supported; join them by $or and not"
            )
        return conjunction([made(path, IsNull, name, negated=True), Not(_of_all(found[0]))])
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise refusal(path, "expected at least one value, got an empty list")
    scalars = tuple(leaves.scalar(name, _exact(item, path), path) for item in values)
    if len(scalars) == 1:
        return leaves.compare(name, Operator.NE, scalars[0], path)
    return made(path, Other, name, values=scalars)
