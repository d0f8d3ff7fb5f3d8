"""What the readers of foreign conditions share: the place of an error, values, and one type for each attribute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from matchwood.errors import ConversionError, ExpressionError, TooComplexError
from matchwood.lang.expression import Expression, Predicate
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Compare, In
from matchwood.lang.text_tests import Like, TextOperator, TextTest
from matchwood.patterns.like import escaped
from matchwood.schema import Scalar, describe
from matchwood.schema.functions import derived_name

MAX_LEVELS = 40
"""Levels of the deepest foreign condition. Each makes at most two levels of an expression, which may have 100."""


def refusal(path: str, message: str) -> ConversionError:
    """The error for what is at `path`."""
    return ConversionError(f"{path}: {message}")


def check_depth(depth: int) -> None:
    """`TooComplexError` beyond `MAX_LEVELS`."""
    if depth > MAX_LEVELS:
        raise TooComplexError(f"the condition nests more than {MAX_LEVELS} levels deep; simplify it")


def mapping_at(value: object, path: str, expected: str = "an object") -> Mapping[str, Any]:
    """The value, if it is an object with string keys."""
    if not isinstance(value, Mapping):
        raise refusal(path, f"expected {expected}, got {describe(value)}")
    for key in value:
        if not isinstance(key, str):
            raise refusal(path, f"expected names that are strings, got {describe(key)}")
    return value


def list_at(value: object, path: str, expected: str = "a list") -> list[Any]:
    """The value, if it is a list."""
    if not isinstance(value, (list, tuple)):
        raise refusal(path, f"expected {expected}, got {describe(value)}")
    return list(value)


def single_item(value: object, path: str, expected: str) -> tuple[str, Any]:
    """The key and the value of an object with one key."""
    found = mapping_at(value, path, expected)
    if len(found) != 1:
        raise refusal(path, f"expected {expected}, got the keys {', '.join(found) or 'of an empty object'}")
    return next(iter(found.items()))


def number_at(value: object, path: str, expected: str = "a number") -> float:
    """The value, if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refusal(path, f"expected {expected}, got {describe(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise refusal(path, f"expected {expected}, got {describe(value)}")
    return number


def text_at(value: object, path: str) -> str:
    """The value, if it is a string."""
    if not isinstance(value, str):
        raise refusal(path, f"expected a string, got {describe(value)}")
    return value


def wildcards(pattern: str, path: str, *, any_one: str = "") -> str:
    """A pattern of LIKE from one in which `*` is any text and `any_one` any character; a backslash escapes."""
    found, signs = "", iter(pattern)
    for sign in signs:
        if sign == "*":
            found += "%"
        elif sign == any_one:
            found += "_"
        elif sign == "\\":
            following = next(signs, None)
            if following is None:
                raise refusal(path, "the pattern ends in a backslash; write two for one")
            found += escaped(following)
        else:
            found += escaped(sign)
    return found


class Leaves:
    """Makes the predicates of one condition, and checks that each attribute is compared with values of one type.

    Comparisons ask for some value of a list, each by itself (`ANY`): `logic.finished` drops the quantifier where it says nothing.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, str]] = {}

    def compare(self, name: str, operator: Operator, value: object, path: str, weight: float = 1.0) -> Expression:
        """Some value of the attribute compares so."""
        scalar = self.scalar(name, value, path)
        if operator not in (Operator.EQ, Operator.NE) and isinstance(scalar, str):
            raise refusal(
                path, f"strings have no order in Matchwood, got {describe(value)}; compare numbers or timestamps"
            )
        return made(path, Compare, name, weight, operator=operator, value=scalar, quantifier=Quantifier.ANY)

    def one_of(self, name: str, values: Iterable[object], path: str, weight: float = 1.0) -> Expression:
        """Some value of the attribute is one of these, of which there is at least one."""
        scalars = [self.scalar(name, value, f"{path}[{index}]") for index, value in enumerate(values)]
        if len(scalars) == 1:
            return self.compare(name, Operator.EQ, scalars[0], path, weight)
        return made(path, In, name, weight, values=tuple(scalars), quantifier=Quantifier.ANY)

    def like(self, name: str, pattern: str, path: str, weight: float = 1.0, *, folded: bool = False) -> Expression:
        """Some value of the attribute, which is a string, is of a pattern of LIKE; `folded` ignores case."""
        self.scalar(name, "", path)
        subject = derived_name("CASEI", name) if folded else name
        return made(path, Like, subject, weight, pattern=pattern, quantifier=Quantifier.ANY)

    def same_text(self, name: str, text: object, path: str, weight: float = 1.0) -> Expression:
        """Some value of the attribute is the text, whatever its case."""
        self.scalar(name, text_at(text, path), path)
        subject = derived_name("CASEI", name)
        return made(path, Compare, subject, weight, operator=Operator.EQ, value=text, quantifier=Quantifier.ANY)

    def test(self, name: str, operator: TextOperator, argument: str, path: str) -> Expression:
        """Some value of the attribute, which is a string, passes a test."""
        self.scalar(name, "", path)
        return made(path, TextTest, name, operator=operator, argument=argument, quantifier=Quantifier.ANY)

    def scalar(self, name: str, value: object, path: str) -> Scalar:
        """The value, if it is a scalar of the type that the attribute has so far."""
        if isinstance(value, bool):
            kind = "a boolean"
        elif isinstance(value, (int, float)):
            kind = "a number"
        elif isinstance(value, str):
            kind = "a string"
        elif isinstance(value, datetime):
            kind = "a timestamp"
        else:
            raise refusal(path, f"expected a number, a string or a boolean, got {describe(value)}")
        known, where = self._kinds.setdefault(name, (kind, path))
        if known != kind:
            raise refusal(
                path,
                f"{describe(value)} is {kind}, but {name!r} is compared with {known} at {where}; an attribute has one type",
            )
        return value


def made(path: str, kind: type[Predicate], name: str, weight: float = 1.0, **fields: Any) -> Predicate:
    """A predicate; what it refuses is refused with the place."""
    try:
        return kind(name, weight, **fields)
    except ExpressionError as error:
        raise ConversionError(f"{path}: {error}") from None
