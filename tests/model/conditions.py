"""The model's conditions on strings, lists, times and areas: what they are, and of which values they are true.

Written from docs/language.md, as the rest of the model. Nothing here may import matchwood.

    Pattern, Area                 of one value, like a comparison
    Listed, Counted, Each, Timed  of all values of an attribute at once (`WHOLE`)
    Nested                        of all objects of a list at once
    Folded                        the name of an attribute in CASEI and ACCENTI
    Decay                         what makes a weight count by closeness
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cache
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import pairwise
from typing import Any

EARTH = 6_371_008.8  # metres
Corner = tuple[float, float]
Ring = tuple[Corner, ...]


class Folded(str):
    """The name of an attribute in functions of strings, the outermost first: an attribute of its own."""

    functions: tuple[str, ...]
    base: str

    @classmethod
    def of(cls, functions: tuple[str, ...], base: str) -> Folded:
        found = cls(f"{' '.join(functions)} {base}")
        found.functions, found.base = functions, base
        return found

    def __getnewargs__(self) -> tuple[str]:
        return (str(self),)

    def fold(self, text: Any) -> Any:
        """What the functions make of a string; lists part by part, anything else as it is."""
        if isinstance(text, list):
            return [self.fold(part) for part in text]
        if not isinstance(text, str):
            return text
        for function in reversed(self.functions):
            text = without_case(text) if function == "CASEI" else without_accents(text)
        return text


def without_case(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def without_accents(text: str) -> str:
    parts = (c for c in unicodedata.normalize("NFD", text) if not unicodedata.category(c).startswith("M"))
    return unicodedata.normalize("NFC", "".join(parts))


@dataclass(frozen=True)
class Pattern:
    """LIKE, STARTS_WITH, ENDS_WITH, CONTAINS, REGEX or CIDR."""

    attribute: str
    function: str
    text: str
    negated: bool = False
    weight: float = 1.0


@dataclass(frozen=True)
class Area:
    """A spatial function and polygons: of each its shell, then its holes."""

    attribute: str
    function: str
    polygons: tuple[tuple[Ring, ...], ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Listed:
    """A_CONTAINS and its like."""

    attribute: str
    function: str
    values: tuple[Any, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Counted:
    """A_COUNT(attribute, values) compared with a number."""

    attribute: str
    values: tuple[Any, ...]
    operator: str
    count: int
    weight: float = 1.0


@dataclass(frozen=True)
class Each:
    """ANY or ALL around the attribute of a condition on one value."""

    word: str
    leaf: Any

    @property
    def attribute(self) -> str:
        return self.leaf.attribute  # type: ignore[no-any-return]

    @property
    def weight(self) -> float:
        return float(self.leaf.weight)


@dataclass(frozen=True)
class Timed:
    """A temporal function of an attribute and the interval from lo to hi; an instant, if they are the same."""

    attribute: str
    function: str
    lo: datetime
    hi: datetime
    weight: float = 1.0


@dataclass(frozen=True)
class Nested:
    """ANY or ALL of a list of objects and a condition on one of them."""

    attribute: str
    word: str
    condition: Any
    weight: float = 1.0


WHOLE = Listed | Counted | Each | Timed | Nested

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


# Strings


def fits(leaf: Pattern, value: str) -> bool:
    """Is the condition, apart from its negation, true of a string?"""
    match leaf.function:
        case "LIKE":
            return _like(_symbols(leaf.text), value)
        case "STARTS_WITH":
            return value[: len(leaf.text)] == leaf.text
        case "ENDS_WITH":
            return value[max(len(value) - len(leaf.text), 0) :] == leaf.text
        case "CONTAINS":
            return any(value[at : at + len(leaf.text)] == leaf.text for at in range(len(value) + 1))
        case "REGEX":  # of the part of the syntax that is Python's too; `$` stands for the end alone
            return re.search(leaf.text.replace("$", r"\Z"), value) is not None
    return _address_in(value, leaf.text)


@cache
def _symbols(pattern: str) -> tuple[tuple[str, bool], ...]:
    """The characters of a pattern, each with whether it is special."""
    found, at = [], 0
    while at < len(pattern):
        if pattern[at] == "\\":
            found.append((pattern[at + 1], False))
            at += 2
        else:
            found.append((pattern[at], pattern[at] in "%_"))
            at += 1
    return tuple(found)


def _like(symbols: Sequence[tuple[str, bool]], text: str) -> bool:
    if not symbols:
        return not text
    (symbol, special), rest = symbols[0], symbols[1:]
    if special and symbol == "%":
        return any(_like(rest, text[at:]) for at in range(len(text) + 1))
    return bool(text) and (special or text[0] == symbol) and _like(rest, text[1:])


def _address_in(text: str, network: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address in ip_network(network)


# Areas


def lies(leaf: Area, place: Corner) -> bool:
    """Is the condition true of a place?"""
    where = max(_where(leaf.polygons, x, place[1]) for x in _longitudes(place[0]))
    return (
        where
        in {
            "S_INTERSECTS": (BOUNDARY, INSIDE),
            "S_WITHIN": (INSIDE,),
            "S_TOUCHES": (BOUNDARY,),
            "S_DISJOINT": (OUTSIDE,),
        }[leaf.function]
    )


OUTSIDE, BOUNDARY, INSIDE = range(3)


def _longitudes(lon: float) -> list[float]:
    """All that this meridian may be called by a ring that goes on beyond 180."""
    return [lon - 360, lon, lon + 360]


def _where(polygons: Sequence[tuple[Ring, ...]], x: float, y: float) -> int:
    return max(_where_in(rings, Fraction(x), Fraction(y)) for rings in polygons)


def _where_in(rings: Sequence[Ring], x: Fraction, y: Fraction) -> int:
    """By the number of edges that a ray to the east crosses."""
    crossed = 0
    for ring in rings:
        for (ax, ay), (bx, by) in pairwise([(Fraction(u), Fraction(v)) for u, v in ring]):
            is_near = min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by)
            if is_near and (bx - ax) * (y - ay) == (by - ay) * (x - ax):
                return BOUNDARY
            if min(ay, by) <= y < max(ay, by) and ax + (bx - ax) * (y - ay) / (by - ay) > x:
                crossed += 1
    return INSIDE if crossed % 2 else OUTSIDE


def probes(leaf: Area) -> list[Corner]:
    """Places of which one is inside, one on the boundary and one outside."""
    found: list[Corner] = [(0.0, 0.0), (-120.0, 70.0), (60.0, -45.0), (180.0, 0.0)]
    for shell, *_ in leaf.polygons:
        corners = shell[:-1]
        found += [*corners, *(((ax + bx) / 2, (ay + by) / 2) for ax, ay in corners for bx, by in corners)]
        found.append((sum(x for x, _ in corners) / len(corners), sum(y for _, y in corners) / len(corners)))
    return [((x + 180) % 360 - 180 if abs(x) > 180 else x, y) for x, y in found]


# All values at once. `parts` has, for each part of the value, all values of it at which a condition can turn; `key` makes
# values of constants, and `true_of` says whether a condition on one value holds for one.


def holds_of_all(leaf: Any, parts: Sequence[Sequence[Any]], key: Callable[[Any], Any], true_of: Any) -> bool:
    """Is the condition true of the values of an event?"""
    values = [value for part in parts for value in part]
    match leaf:
        case Listed(function=function, values=listed):
            wanted = [key(value) for value in listed]
            has_all = all(value in values for value in wanted)
            has_others = any(value not in wanted for value in values)
            return {
                "A_CONTAINS": has_all,
                "A_CONTAINEDBY": not has_others,
                "A_EQUALS": has_all and not has_others,
                "A_OVERLAPS": any(value in values for value in wanted),
            }[function]
        case Counted(values=listed, operator=operator, count=count):
            return COMPARED[operator](len({key(value) for value in listed if key(value) in values}), count)
        case Each(word=word, leaf=inner):
            return (any if word == "ANY" else all)(true_of(inner, value) for value in values)
        case Timed():
            return _timed(leaf, values, key)
    raise TypeError(leaf)


def _timed(leaf: Timed, values: Sequence[Any], key: Callable[[Any], Any]) -> bool:
    s, e, start, end = min(values), max(values), key(leaf.lo), key(leaf.hi)
    match leaf.function:
        case "T_AFTER":
            return bool(s > end)
        case "T_BEFORE":
            return bool(e < start)
        case "T_INTERSECTS":
            return any(start <= value <= end for value in values)
        case "T_DISJOINT":
            return not any(start <= value <= end for value in values)
        case "T_EQUALS":
            return bool(s == start and e == end)
        case "T_DURING":
            return bool(s > start and e < end)
        case "T_CONTAINS":
            return bool(s < start and e > end)
        case "T_STARTS":
            return bool(s == start and e < end)
        case "T_STARTEDBY":
            return bool(s == start and e > end)
        case "T_FINISHES":
            return bool(s > start and e == end)
        case "T_FINISHEDBY":
            return bool(s < start and e == end)
        case "T_MEETS":
            return bool(e == start)
        case "T_METBY":
            return bool(s == end)
        case "T_OVERLAPS":
            return bool(s < start < e < end)
        case "T_OVERLAPPEDBY":
            return bool(start < s < end < e)
    raise TypeError(leaf)


TEMPORAL = (
    "T_AFTER T_BEFORE T_INTERSECTS T_DISJOINT T_EQUALS T_DURING T_CONTAINS T_STARTS T_STARTEDBY T_FINISHES "
    "T_FINISHEDBY T_MEETS T_METBY T_OVERLAPS T_OVERLAPPEDBY"
).split()


# Grades


@dataclass(frozen=True)
class Decay:
    """DECAY(curve, ORIGIN origin, SCALE scale, OFFSET offset, TO to) of numbers, instants or places.

    `plain`: written as DECAY alone, after a circle: a line from its centre to its rim, which the other fields say.
    """

    origin: Any
    scale: float
    offset: float
    to: float
    curve: str = "LINEAR"
    unit: str = ""  # of scale and offset
    plain: bool = False


UNITS = {"": 1.0, "m": 1.0, "km": 1e3, "mi": 1609.344, "s": 1e6, "min": 6e7, "h": 3.6e9, "d": 8.64e10}
"""Metres and microseconds."""


def closeness(decay: Decay, origin: Any, operator: str, value: Any) -> float:
    """How close a value is to the best one; on the open side of a comparison, all are best. `origin` is comparable."""
    if isinstance(origin, tuple):
        far = distance(origin, value)
    else:
        far = abs(value - origin)
        if (operator in ("<", "<=") and value < origin) or (operator in (">", ">=") and value > origin):
            far = 0.0
    if math.isinf(far):
        return 0.0
    x = max(0.0, far - decay.offset * UNITS[decay.unit]) / (decay.scale * UNITS[decay.unit])
    if decay.curve == "LINEAR":
        return max(0.0, 1.0 - (1.0 - decay.to) * x)
    return float(decay.to ** (x if decay.curve == "EXP" else min(x, 1e150) ** 2))


def distance(a: Corner, b: Corner) -> float:
    """Metres along a great circle of a sphere (the haversine formula)."""
    (lon1, lat1), (lon2, lat2) = ((math.radians(p[0]), math.radians(p[1])) for p in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH * math.asin(min(1.0, math.sqrt(h)))
