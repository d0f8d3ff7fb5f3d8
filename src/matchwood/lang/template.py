"""Templates: what the grammar makes of the shape of a text. A template builds the expression from the constants of the text.

Templates are immutable; any number of threads may build from one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, NamedTuple

from matchwood.errors import ExpressionError, ParseError
from matchwood.lang.expression import Expression
from matchwood.lang.instants import instant
from matchwood.lang.units import METRES

Place = tuple[int, int]
"""(piece, offset): the even pieces of a split text lie between the constants, the odd ones are the constants."""

Step = Callable[[list[Any], list[Expression]], Expression]


class PlacedError(Exception):
    """An error at a (piece, offset), before that is turned into a position in the text."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def within(self, text: str, pieces: list[str]) -> ParseError:
        """The error with its position in the text, which was split into these pieces."""
        piece, offset = self.place
        return ParseError(self.message, text, sum(map(len, pieces[:piece])) + offset)


CIRCLE = "CIRCLE"
"""The form of DWITHIN with a circle: longitude, latitude and radius."""


class Leaf(NamedTuple):
    """A predicate of a text that `Template.leaves` describes."""

    attribute: str
    form: str
    """The operator, BETWEEN, IN or CIRCLE, if the condition consists of that and `constants`."""
    constants: tuple[int, ...]
    """Which constants of the text; from their number on the values in `Template.fixed`, TRUE or FALSE."""
    weight: int | None
    """Which constant of the text is the weight; None for the default."""
    step: int
    """Which step of the template makes the predicate."""


@dataclass(frozen=True, slots=True)
class Template:
    """A straight-line program that makes an expression from the constants of its text.

        values = each constant through its converter, then `fixed` (plain names, TRUE, INF, the default weight)
        nodes  = each step in turn, given all values and the nodes made so far; the last node is the expression

    Steps refer to values and nodes by index. `places` has the place in the text where each step begins.
    """

    converters: tuple[Callable[[str], Any], ...]
    fixed: tuple[Any, ...]
    steps: tuple[Step, ...]
    places: tuple[Place, ...]
    leaves: tuple[Leaf, ...] = ()
    """The predicates of the text, in order, if it is made of AND, OR and predicates on plain names, and its rows are known."""
    rows: tuple[tuple[int, ...], ...] = ()
    """The leaves of each row of the normal form, if no row names an attribute twice and no two alternatives unite."""
    computed: tuple[tuple[int, Callable[[list[Any]], Any]], ...] = ()
    """The values that are made from others: the index of each, and how."""

    def build(self, constants: list[str]) -> Expression:
        """The expression with these constants; `ExpressionError` if one is not valid. O(steps)."""
        values = self.values(constants)
        nodes: list[Expression] = []
        for step in self.steps:
            nodes.append(step(values, nodes))
        return nodes[-1]

    def values(self, constants: list[str]) -> list[Any]:
        """What the steps refer to."""
        values = [convert(text) for convert, text in zip(self.converters, constants, strict=True)]
        values += self.fixed
        for index, compute in self.computed:
            values[index] = compute(values)
        return values

    def first_error(self, constants: list[str]) -> PlacedError:
        """The error that `build` raises for these constants, with its place, found by building again."""
        values: list[Any] = []
        nodes: list[Expression] = []
        place = (0, 0)
        try:
            for index, (convert, text) in enumerate(zip(self.converters, constants, strict=True)):
                place = (2 * index + 1, 0)
                values.append(convert(text))
            values = self.values(constants)
            for step, place in zip(self.steps, self.places, strict=True):  # noqa: B007
                nodes.append(step(values, nodes))
        except _ItemError as error:
            return PlacedError(str(error), (place[0], error.offset))
        except ExpressionError as error:
            return PlacedError(str(error), place)
        raise AssertionError("the template accepts these constants")


class _ItemError(ExpressionError):
    """A constant of a list is not valid; `offset` is where it begins in the text of the list."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _string(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _quoted_name(text: str) -> str:
    if text == '""':
        raise ExpressionError("an attribute's name cannot be empty")
    return text[1:-1].replace('""', '"')


def _number(text: str) -> int | float:
    if "." in text or "e" in text or "E" in text:
        value = float(text)
        if math.isinf(value):
            raise ExpressionError(f"{_short(text)} is too large for float64; write INF for no limit")
        return value
    try:
        return int(text)
    except ValueError:
        raise ExpressionError(f"expected a number of at most 4,300 digits, got one of {len(text):,}") from None


def _items(text: str) -> tuple[int | float | str, ...]:
    """The values of a list of numbers or of strings, without a Python call for each where they are plain."""
    inside = text[1:-1]
    if "'" in inside:
        if "''" not in inside:
            return tuple(inside.split("'")[1::2])
        return tuple([_string(item) for item in _STRINGS.findall(inside)])
    items = inside.split(",")
    try:
        if not ("." in inside or "e" in inside or "E" in inside):
            return tuple(map(int, items))
        return tuple([_number(item.strip()) for item in items])
    except (ExpressionError, ValueError):
        raise _item_error(items) from None


def _item_error(items: list[str]) -> _ItemError:
    offset = 1
    for item in items:
        try:
            _number(item.strip())
        except ExpressionError as error:
            return _ItemError(str(error), offset + len(item) - len(item.lstrip()))
        offset += len(item) + 1
    raise AssertionError("every item of the list is a number")


_STRINGS = re.compile(r"'[^']*+(?:''[^']*+)*+'")


def timestamp(text: str) -> datetime:
    """The instant in a quoted ISO 8601 text."""
    return instant(_string(text))


def midnight(text: str) -> datetime:
    """The midnight of a quoted date, in UTC."""
    try:
        return instant(date.fromisoformat(_string(text)))
    except ValueError:
        raise ExpressionError(f"expected a date such as 2026-01-31, got {_string(text)!r}") from None


def interval_end(text: str) -> datetime | None:
    """The instant in a quoted ISO 8601 text; None for an open end, '..'."""
    return None if text == "'..'" else timestamp(text)


def weight(text: str) -> float:
    """A finite number that is not negative."""
    value = float(text)
    if not 0.0 <= value < math.inf:
        raise ExpressionError(f"expected a finite weight >= 0, got {_short(text)}")
    return value


def metres(text: str, *, unit: str) -> float:
    """A radius in metres."""
    value = float(text) * METRES[unit]
    if not 0.0 < value < math.inf:
        raise ExpressionError(f"expected a finite radius > 0, got {_short(text)} {unit}")
    return value


def _degrees(text: str, *, limit: float, word: str) -> float:
    value = float(text)
    if not -limit <= value <= limit:
        raise ExpressionError(f"expected a {word} from -{limit:g} to {limit:g} degrees, got {_short(text)}")
    return value


def degrees(text: str) -> float:
    """Degrees of a geometry, which checks their range."""
    return float(text)


longitude = partial(_degrees, limit=180.0, word="longitude")
latitude = partial(_degrees, limit=90.0, word="latitude")

CONVERTERS: dict[str, Callable[[str], Any]] = {"n": _number, "s": _string, "q": _quoted_name, "l": _items}
"""The converter of each kind of constant, used where the grammar has no narrower one."""
