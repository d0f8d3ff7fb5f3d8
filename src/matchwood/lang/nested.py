"""Conditions on lists of objects: ANY(items, sku = 'a' AND qty >= 2), ALL(items, qty >= 1).

The objects of a list are its *elements*. The names in a condition are those of an element's values, and an element is read as an
event of its own: `items[].sku` is the attribute of the schema that has the values of `sku` in the elements of `items`. So types
are declared and learnt, nested objects read, and functions computed, as anywhere else.

A condition is a test of the whole list (`patterns.Elements`), a symbol of the hidden attribute `conditions_of(name)`, whose value
in an event is the list of the codes of the conditions that hold. `rows_of_condition` and `condition_holds` say when; finding
those that hold among many is for `encode.elements`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from matchwood.errors import (
    EventError,
    ExpressionError,
    NeverMatchesError,
    TooComplexError,
    ValueTypeError,
)
from matchwood.lang.expression import MAX_DEPTH, And, Constant, Expression, Not, Or, Predicate
from matchwood.lang.json_values import to_json
from matchwood.lang.limits import Limits
from matchwood.lang.operators import Quantifier
from matchwood.lang.row import Row
from matchwood.lang.temporal import Interval, Temporal, Times
from matchwood.lang.written import name
from matchwood.patterns import Elements
from matchwood.schema import Attribute, Point, Range, Schema, Type, describe, is_missing
from matchwood.schema.functions import SEPARATOR, conditions_of, element_prefix, function_of, is_derived

MAX_ELEMENTS = 10_000
"""Elements of one list of an event."""
_UNLIMITED = Limits(10**9, 10**12, 10**12, 10**12)
"""For conditions that were within the limits of those who wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested(Predicate):
    """One element of the list meets the condition (ANY), or every element does (ALL). It is one predicate, with one weight."""

    condition: Expression
    quantifier: Quantifier

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        word = self.quantifier.upper()
        if is_derived(self.attribute):
            raise ExpressionError(f"{word}({name(self.attribute)}, ...): expected the name of a list of objects")
        if not isinstance(self.condition, Expression):
            raise ExpressionError(
                f"attribute {self.attribute!r}: expected a condition on the elements in {word}, got {describe(self.condition)}"
            )
        for leaf in leaves(self.condition):
            _check_leaf(leaf, f"attribute {self.attribute!r}: {word}")

    def __str__(self) -> str:
        return f"{self.quantifier.upper()}({name(self.attribute)}, {self.condition}){self._boost()}"


def _check_leaf(leaf: Predicate | Temporal, where: str) -> None:
    if leaf.weight != 1.0:
        raise ExpressionError(
            f"{where}: a weight inside counts nothing; write it after the parenthesis, as in {_EXAMPLE}"
        )
    if isinstance(leaf, Temporal):
        return
    if leaf.grade is not None:
        raise ExpressionError(f"{where}: DECAY inside is not supported; a condition on elements has one weight")
    at = leaf.attribute
    while SEPARATOR in at:
        if (function := function_of(at)).is_age and function.argument is None:
            raise ExpressionError(
                f"{where}: AGE of one attribute is relative to the clock, which elements have not; "
                "name a second attribute of the element: AGE(created, received)"
            )
        at = at.partition(SEPARATOR)[2]


_EXAMPLE = "ANY(items, qty >= 2) ^0.4"


def leaves(expression: Expression) -> Iterator[Predicate | Temporal]:
    """The predicates of a tree; not those inside a `Nested`, which has checked its own."""
    left = [expression]
    while left:
        node = left.pop()
        if isinstance(node, Not):
            left.append(node.child)
        elif isinstance(node, And | Or):
            left += node.children
        elif isinstance(node, Predicate | Temporal):
            yield node


def size_of(expression: Expression) -> int:
    """The values, positions and conditions that a tree names, for limits. O(size)."""
    found = 0
    for leaf in leaves(expression):
        if isinstance(leaf, Nested):
            found += size_of(leaf.condition)
        else:
            geometry = getattr(leaf, "geometry", None)
            found += geometry.size if geometry is not None else len(getattr(leaf, "values", "1"))
    return found


# conditions as tests


def element_test(predicate: Nested, schema: Schema, limits: Limits) -> Elements | bool:
    """The test of a condition; True or False if every list, or none, passes it. What the condition names is learnt."""
    known = schema.attribute_for(predicate.attribute, Type.OBJECTS)
    try:
        condition = _canonical(predicate.condition, 2)
        written = str(condition)
        rows = _rows(known.name, condition, schema, limits)
    except NeverMatchesError:
        return False
    except (ExpressionError, ValueTypeError) as error:
        raise error.about(f"{predicate.quantifier.upper()}({name(known.name)}, ...)") from None
    if not all(row.predicates for row in rows):
        return True
    hidden = schema.find(conditions_of(known.name))
    if hidden.symbols is not None:
        conditions_with(hidden).keep(written, rows)
    return Elements(predicate.quantifier.value, written)


def rows_of_condition(source: str, written: str, schema: Schema) -> tuple[Row, ...]:
    """The rows of a condition on the elements of `source`; the names in them are those of the schema. None if it never holds."""
    from matchwood.lang.parser import parse

    try:
        return _rows(source, parse(written, limits=_UNLIMITED), schema, _UNLIMITED)
    except NeverMatchesError:
        return ()


def _rows(source: str, condition: Expression, schema: Schema, limits: Limits) -> tuple[Row, ...]:
    from matchwood.lang.rows import normalise

    return normalise(in_elements(condition, source), schema, limits=limits)


def _canonical(expression: Expression, depth: int) -> Expression:
    """The condition with the parts of AND and OR in order, so that fewer conditions differ in their order alone."""
    if depth > MAX_DEPTH:
        raise TooComplexError(f"the expression nests more than {MAX_DEPTH} levels deep; simplify it")
    if isinstance(expression, Not):
        return Not(_canonical(expression.child, depth + 1))
    if isinstance(expression, And | Or):
        parts = {str(child): child for child in (_canonical(child, depth + 1) for child in expression.children)}
        each = [parts[text] for text in sorted(parts)]
        return each[0] if len(each) == 1 else type(expression)(each)
    if isinstance(expression, Nested):
        return replace(expression, condition=_canonical(expression.condition, depth + 1))
    return expression


def in_elements(condition: Expression, source: str) -> Expression:
    """The condition with the names that the schema has for values in elements of `source`."""
    prefix = element_prefix(source)
    return with_names(condition, lambda own: f"{prefix}{own}")


def with_names(expression: Expression, change: Callable[[str], str]) -> Expression:
    """The expression with other names of attributes, in functions of them too. Those inside a `Nested` are relative, and stay."""

    def renamed(own: str) -> str:
        functions, separator, root = own.rpartition(SEPARATOR)
        if not separator:
            return change(own)
        parts = []
        for function in functions.split(SEPARATOR):
            word, colon, argument = function.partition(":")
            parts.append(f"{word}:{change(argument)}" if word == "AGE" and colon else function)
        return f"{SEPARATOR.join(parts)}{separator}{change(root)}"

    return _renamed(expression, renamed)


def unweighted(expression: Expression) -> Expression:
    """The expression with the weight 1 for every predicate."""
    if isinstance(expression, Predicate | Temporal):
        return replace(expression, weight=1.0)
    if isinstance(expression, Not):
        return Not(unweighted(expression.child))
    if isinstance(expression, And | Or):
        return type(expression)([unweighted(child) for child in expression.children])
    return expression


def _renamed(expression: Expression, rename: Callable[[str], str]) -> Expression:
    if isinstance(expression, Predicate):
        return replace(expression, attribute=rename(expression.attribute))
    if isinstance(expression, Not):
        return Not(_renamed(expression.child, rename))
    if isinstance(expression, And | Or):
        return type(expression)([_renamed(child, rename) for child in expression.children])
    if isinstance(expression, Temporal):
        return replace(
            expression, left=_renamed_times(expression.left, rename), right=_renamed_times(expression.right, rename)
        )
    assert isinstance(expression, Constant)
    return expression


def _renamed_times(times: Times, rename: Callable[[str], str]) -> Times:
    if isinstance(times, Interval):
        return Interval(*[rename(end) if isinstance(end, str) else end for end in times])
    return rename(times) if isinstance(times, str) else times


class Conditions:
    """Beside the symbols of a hidden attribute: the rows of conditions that were normalised just now, and an index of all.

    Both can be made again, and neither is pickled.
    """

    __slots__ = ("_rows", "index")

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Row, ...]] = {}
        self.index: Any = None
        """See `encode.elements`."""

    def keep(self, written: str, rows: tuple[Row, ...]) -> None:
        """Keep the rows of a condition until the index takes them."""
        if len(self._rows) >= _KEPT:
            self._rows.clear()
        self._rows[written] = rows

    def take(self, source: str, written: str, schema: Schema) -> tuple[Row, ...]:
        """The rows of a condition, which need not be kept any longer."""
        rows = self._rows.pop(written, None)
        return rows_of_condition(source, written, schema) if rows is None else rows

    def __reduce__(self) -> tuple[type[Conditions], tuple[()]]:
        return Conditions, ()


_KEPT = 1_000_000


def conditions_with(hidden: Attribute) -> Conditions:
    """The `Conditions` of a hidden attribute."""
    if hidden.tester is None:
        hidden.tester = Conditions()
    found: Conditions = hidden.tester
    return found


# elements of events


def elements_of(attribute: Attribute, value: object) -> list[Mapping[str, object]]:
    """The elements of a list of objects; a single object is a list of one. `EventError` or `SchemaError` for anything else."""
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, Point | Range | datetime):
        return [_object_of(attribute, value)]
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Iterable):
        raise ValueTypeError(f"attribute {attribute.name!r}: expected a list of objects, got {describe(value)}")
    found = [
        item if isinstance(item, dict) else _object_of(attribute, item)
        for item in value
        if not is_missing_element(item)
    ]
    if len(found) > MAX_ELEMENTS:
        raise EventError(
            f"attribute {attribute.name!r}: expected at most {MAX_ELEMENTS:,} objects, got {len(found):,}; "
            "publish several events"
        )
    return found


def is_missing_element(item: object) -> bool:
    """Is it null, which is no element?"""
    return item is None or (not isinstance(item, Mapping) and is_missing(item))


def _object_of(attribute: Attribute, item: object) -> Mapping[str, object]:
    found = as_object(item)
    if found is None:
        raise ValueTypeError(f"attribute {attribute.name!r}: expected objects in the list, got {describe(item)}")
    return found


def as_object(item: object) -> Mapping[str, object] | None:
    """An element as a mapping: ranges, points and instants are objects that were read from JSON. None for what is no object."""
    if isinstance(item, Mapping):
        return item
    if isinstance(item, Range):
        return {"min": item.lo, "max": item.hi}
    if isinstance(item, Point):
        return {"lon": item.lon, "lat": item.lat}
    return {"timestamp": item} if isinstance(item, datetime) else None


def is_list_of_objects(value: object) -> bool:
    """Is it a list with an object in it?"""
    return (
        isinstance(value, list | tuple)
        and not isinstance(value, Point | Range)
        and any(isinstance(item, Mapping) for item in value)
    )


def element_text(element: Mapping[str, object]) -> str:
    """An element in JSON, as `lang.json_values` writes values; the same text for equal ones."""
    try:
        return json.dumps(to_json(element), ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits; objects nested too deeply
        raise EventError(f"an object of a list cannot be kept: {error}; change it") from None


def spread(values: list[Any]) -> Any:
    """The values that the elements of a list have under one name: those of lists together; a single value is itself."""
    if len(values) == 1:
        return values[0]
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple | set | frozenset) and not isinstance(value, Point | Range):
            flat += value
        else:
            flat.append(value)
    return flat
