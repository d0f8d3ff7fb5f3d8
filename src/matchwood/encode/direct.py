"""Texts straight to entries: a program for each shape of text whose rows are known before its constants are.

Most subscriptions are a conjunction of predicates on different attributes, or have a few alternatives of such, and most systems
have few shapes. The program of a shape reads the constants of a text and makes the entries of its rows; no tree and no interval
set is made on the way. Whatever is not usual (an attribute that the schema does not know, a value of another type, a number
beyond 2^53, a long list, a condition that never holds, two equal rows, a constant that is not valid) is left to the general way,
`parse` and `normalise`, which alone decides what is wrong with a text. Where a program succeeds, its entries are those of the
general way to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from matchwood.encode.arrays import COUNT, INTERVAL, MORE, PART
from matchwood.encode.row_entries import FIELDS, add_entries
from matchwood.errors import MatchwoodError
from matchwood.lang import parser
from matchwood.lang.leaves import leaf_predicates, settled
from matchwood.lang.limits import Limits
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.places import Circle, box_around_circle
from matchwood.lang.row import Placed, can_hold
from matchwood.lang.template import CIRCLE, CONVERTERS, Leaf, PlacedError, Template
from matchwood.lang.text_tests import Like, TextTest
from matchwood.schema import Attribute, Point, Schema, Type

MAX_VALUES = 64
"""Conditions of a text, and values of a list, that a program takes."""
_MOST_ENTRIES = MAX_VALUES * MAX_VALUES
_LONGEST = 4096
"""Longer texts are left to the general way; so no number has more digits than Python reads."""
_EXACT = 2.0**53
_INF = math.inf

_Step = Callable[[list[str], Schema, list[float]], bool]
"""Append the entries of one condition; False if it is unusual."""
_Ends = Callable[[float], tuple[float, float]]


class _Program(NamedTuple):
    """What reads the texts of one shape."""

    steps: tuple[_Step, ...] = ()
    """One for each condition, in order; none if the shape has no program."""
    rows: tuple[tuple[int, ...], ...] = ()
    """The steps of each row."""


def text_rows(text: str, schema: Schema, limits: Limits, circle: DWithin | None = None) -> list[list[float]] | None:
    """The entries of each row of a text, and of a circle beside it; None if they are unusual. O(length + entries)."""
    found = _text_rows(text, schema, limits)
    if found is None or circle is None:
        return found
    attribute = schema.get(circle.attribute)
    if attribute is None or attribute.type is not Type.POINT:
        return None
    dims = set(attribute.dims)
    [placed] = leaf_predicates(circle, schema, False)
    if not can_hold(placed) or not all(dims.isdisjoint(row[::FIELDS]) for row in found):
        return None
    assert isinstance(placed, Placed)
    entries: list[float] = []
    add_entries(entries, attribute, placed)
    if sum(map(len, found)) + len(found) * len(entries) > limits.max_entries * FIELDS:
        return None
    return [row + entries for row in found]


def _text_rows(text: str, schema: Schema, limits: Limits) -> list[list[float]] | None:
    if len(text) > min(limits.max_length, _LONGEST):
        return None
    pieces = parser.split(text)
    constants = pieces[1::2]
    steps, rows = _program(parser.shape_of(pieces, constants))
    if not steps or limits.max_rows < len(rows) or limits.max_entries < len(rows) * _MOST_ENTRIES:
        return None
    try:
        if len(rows) == 1:
            entries: list[float] = []
            for step in steps:
                if not step(constants, schema, entries):
                    return None
            return [entries]
        parts: list[list[float]] = []
        for step in steps:
            parts.append([])
            if not step(constants, schema, parts[-1]):
                return None
    except MatchwoodError:  # the general way meets it as well, and says where it is
        return None
    found = [[number for at in row for number in parts[at]] for row in rows]
    return found if len(set(map(tuple, found))) == len(found) else None


@lru_cache(4096)
def _program(shape: parser.Shape) -> _Program:
    """The program of a shape."""
    try:
        template = parser.template_of(shape)
    except PlacedError:
        return _Program()
    if len(template.leaves) > (MAX_VALUES if len(template.rows) == 1 else MAX_VALUES // 2):
        return _Program()
    return _Program(tuple([_step_of(leaf, shape[0], template) for leaf in template.leaves]), template.rows)


def _step_of(leaf: Leaf, kinds: str, template: Template) -> _Step:
    name, form, slots, weight, _ = leaf
    if form == CIRCLE:
        return _circle(name, slots, weight, template)
    if form == "=" and slots[0] >= len(kinds):
        return _truth(name, 1.0 if template.fixed[slots[0] - len(kinds)] else 0.0, weight)
    if any(slot >= len(kinds) for slot in slots):
        return _other(leaf, template)
    kind = "".join(kinds[slot] for slot in slots) if form else ""
    if form == "BETWEEN" and kind == "nn":
        return _between(name, slots[0], slots[1], weight)
    if form == "IN" and kind == "l":
        return _listed(name, slots[0], weight)
    if form in _ENDS and kind == "n":
        return _number(name, _ENDS[form], slots[0], weight)
    if form in ("=", "!=") and kind == "s":
        return _string(name, form == "!=", slots[0], weight)
    return _other(leaf, template)


def _weight(constant: str) -> float:
    """The weight; NaN if it is not valid."""
    weight = float(constant)
    return weight if 0.0 <= weight < _INF else math.nan


def _between(name: str, lo: int, hi: int, slot: int | None) -> _Step:
    def step(constants: list[str], schema: Schema, out: list[float]) -> bool:
        attribute, low, high = schema.get(name), float(constants[lo]), float(constants[hi])
        weight = 1.0 if slot is None else _weight(constants[slot])
        if attribute is None or attribute.type is not Type.NUMBER:
            return False
        out += (attribute.dims[0], INTERVAL, low + 0.0, high + 0.0, weight)
        return -_EXACT < low <= high < _EXACT and weight == weight

    return step


def _number(name: str, ends: _Ends, at: int, slot: int | None) -> _Step:
    def step(constants: list[str], schema: Schema, out: list[float]) -> bool:
        attribute, key = schema.get(name), float(constants[at])
        weight = 1.0 if slot is None else _weight(constants[slot])
        if attribute is None or attribute.type is not Type.NUMBER:
            return False
        lo, hi = ends(key)
        out += (attribute.dims[0], INTERVAL, lo + 0.0, hi + 0.0, weight)
        return -_EXACT < key < _EXACT and weight == weight

    return step


_ENDS: dict[str, _Ends] = {
    "=": lambda key: (key, key),
    "<": lambda key: (-_INF, math.nextafter(key, -_INF)),
    "<=": lambda key: (-_INF, key),
    ">": lambda key: (math.nextafter(key, _INF), _INF),
    ">=": lambda key: (key, _INF),
}
"""The interval of a comparison with a number; `!=` has two and is left to `_other`."""


def _string(name: str, negated: bool, at: int, slot: int | None) -> _Step:
    def step(constants: list[str], schema: Schema, out: list[float]) -> bool:
        attribute = schema.get(name)
        if attribute is None or attribute.type is not Type.STRING or attribute.symbols is None:
            return False
        weight = 1.0 if slot is None else _weight(constants[slot])
        if weight != weight:
            return False
        code = float(attribute.symbols.code(_unquoted(constants[at])))
        dim = attribute.dims[0]
        if negated:
            below, above = math.nextafter(code, -_INF), math.nextafter(code, _INF)
            out += (dim, INTERVAL, -_INF, below + 0.0, weight, dim, MORE, above, _INF, 0.0)
            out += (dim, COUNT, 0.0, 0.0, 0.0, dim, PART, code, code, 0.0)
        else:
            out += (dim, INTERVAL, code, code, weight)
        return True

    return step


def _truth(name: str, key: float, slot: int | None) -> _Step:
    def step(constants: list[str], schema: Schema, out: list[float]) -> bool:
        attribute = schema.get(name)
        if attribute is None or attribute.type is not Type.BOOL:
            return False
        weight = 1.0 if slot is None else _weight(constants[slot])
        out += (attribute.dims[0], INTERVAL, key, key, weight)
        return weight == weight

    return step


def _circle(name: str, slots: tuple[int, ...], slot: int | None, template: Template) -> _Step:
    lon, lat, radius = slots
    read_lon, read_lat, read_radius = (template.converters[at] for at in slots)

    def step(constants: list[str], schema: Schema, out: list[float]) -> bool:
        attribute = schema.get(name)
        if attribute is None or attribute.type is not Type.POINT:
            return False
        weight = 1.0 if slot is None else _weight(constants[slot])
        centre = Point(read_lon(constants[lon]) + 0.0, read_lat(constants[lat]) + 0.0)
        metres = read_radius(constants[radius])
        box = box_around_circle(centre, metres)
        add_entries(out, attribute, Placed(name, weight, *box, (Circle(centre, metres),)))
        return weight == weight and metres > 0.0

    return step


def _unquoted(constant: str) -> str:
    text = constant[1:-1]
    return text.replace("''", "'") if "'" in text else text


def _listed(name: str, at: int, slot: int | None) -> _Step:
    read = CONVERTERS["l"]

    def step(constants: list[str], schema: Schema, out: list[float]) -> bool:
        attribute = schema.get(name)
        weight = 1.0 if slot is None else _weight(constants[slot])
        if attribute is None or weight != weight or constants[at].count(",") >= MAX_VALUES:
            return False
        keys = _sorted_keys(attribute, read(constants[at]))
        dim, kind, first = attribute.dims[0], INTERVAL, weight
        for key in keys:
            out += (dim, kind, key, key, first)
            kind, first = MORE, 0.0
        return bool(keys)

    return step


def _sorted_keys(attribute: Attribute, values: tuple[Any, ...]) -> list[float]:
    """The keys of the values of a list, ascending, each once; none if they are unusual."""
    is_text = type(values[0]) is str
    if is_text and attribute.type is Type.STRING and attribute.symbols is not None:
        return sorted({float(attribute.symbols.code(value)) for value in values})
    if is_text or attribute.type is not Type.NUMBER:
        return []
    keys = sorted({value + 0.0 for value in values})
    if not -_EXACT < keys[0] <= keys[-1] < _EXACT or any(math.nextafter(lo, _INF) >= hi for lo, hi in pairwise(keys)):
        return []
    return keys


def _other(leaf: Leaf, template: Template) -> _Step:
    """Any other condition: its predicate as the general way reads it."""
    make = template.steps[leaf.step]

    def step(constants: list[str], schema: Schema, out: list[float]) -> bool:
        predicate: Any = make(template.values(constants), [])
        attribute = schema.get(predicate.attribute)
        if isinstance(predicate, Like | TextTest) or (attribute is not None and attribute.order is not None):
            return False  # tests of strings are put together, and get their attribute, when all conditions are known
        found = leaf_predicates(predicate, schema, negated=False)
        held = settled(found[0], schema) if len(found) == 1 else None
        if held is None or not can_hold(held):
            return False
        add_entries(out, schema.find(held.attribute), held)
        return isinstance(held, Placed) or len(getattr(predicate, "values", ())) <= MAX_VALUES

    return step
