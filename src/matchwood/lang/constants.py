"""The constants that predicates compare with: which are valid, how functions of the attribute change them, and their text."""

from __future__ import annotations

from datetime import UTC, datetime

from matchwood.errors import ExpressionError, SchemaError
from matchwood.lang.expression import Predicate
from matchwood.lang.written import literal, name
from matchwood.schema import Scalar, type_of
from matchwood.schema.functions import SEPARATOR, folded, folding_functions

_ALWAYS_VALID = frozenset((str, bool))
_MAX_BITS = 14_000
"""Of an integer. Python does not write integers of more than 4,300 digits, so they would have neither text nor JSON."""


def checked_values(attribute: str, values: tuple[Scalar, ...], where: str) -> None:
    """Refuse an empty list, or a value that is not one of the language."""
    if not values:
        raise ExpressionError(f"attribute {attribute!r}: expected at least one value in {where}")
    kinds = set(map(type, values))
    if kinds == {int}:  # only the largest and the smallest can be too large
        checked_value(attribute, max(values))
        checked_value(attribute, min(values))
    elif not kinds <= _ALWAYS_VALID:
        for value in values:
            checked_value(attribute, value)


def checked_value(attribute: str, value: object) -> None:
    """Refuse a value that is not one of the language."""
    if type(value) in _ALWAYS_VALID:  # the common case; the full test takes a third of the time of making a predicate
        return
    if type(value) is int:
        if value.bit_length() > _MAX_BITS:
            raise ExpressionError(
                f"attribute {attribute!r}: an integer of {value.bit_length():,} bits is too large; use a string"
            )
        return
    if isinstance(value, float):
        if value != value:
            raise ExpressionError(f"attribute {attribute!r}: NaN is not a value; use IS NULL for an absent attribute")
    elif isinstance(value, datetime):
        if value.tzinfo is not UTC:
            raise ExpressionError(f"attribute {attribute!r}: expected a datetime in UTC, got {value!r}; see `instant`")
    elif not isinstance(value, (int, str)):
        try:
            type_of(value)
        except SchemaError as error:
            raise ExpressionError(f"attribute {attribute!r}: {error}") from None
        raise ExpressionError(
            f"attribute {attribute!r}: expected a number, string, bool or UTC datetime, got {value!r}"
        )


def fold(predicate: Predicate, *fields: str) -> None:
    """Put the constants of a predicate through the functions of its attribute: `CASEI(name) = 'Oslo'` compares with 'oslo'."""
    attribute = predicate.attribute
    if SEPARATOR not in attribute:
        return
    for constant in fields:
        value = getattr(predicate, constant)
        try:
            new = (
                tuple([folded(attribute, item) for item in value]) if type(value) is tuple else folded(attribute, value)
            )
        except SchemaError as error:
            raise ExpressionError(f"{name(attribute)}: {error}") from None
        object.__setattr__(predicate, constant, new)


def constant_text(attribute: str, value: Scalar) -> str:
    """A constant that a predicate compares with: in the functions of its attribute that fold constants, as CQL2 has it."""
    text = literal(value)
    if SEPARATOR in attribute and isinstance(value, str):
        for function in reversed(folding_functions(attribute)):
            text = f"{function}({text})"
    return text


def listed(attribute: str, values: tuple[Scalar, ...]) -> str:
    """Constants as a list in parentheses."""
    return f"({', '.join([constant_text(attribute, value) for value in values])})"
