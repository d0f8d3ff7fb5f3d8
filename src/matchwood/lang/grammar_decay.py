"""The grammar of DECAY, which may follow a predicate and its weight.

decay     = DECAY [ curve | "(" curve { "," parameter } ")" ]
curve     = LINEAR | EXP | GAUSS
parameter = ORIGIN value | SCALE distance | OFFSET distance | TO number
distance  = number [ unit ]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matchwood.lang import template as read
from matchwood.lang.decay import UNITS, Curve, Decay, Distance
from matchwood.lang.operands import Operands
from matchwood.schema import Point

_CURVES = {curve.upper(): curve for curve in Curve}
_Read = Callable[[list[Any]], Any]
"""A part of a DECAY, given the values of the template."""


def read_decay(grammar: Operands) -> _Read:
    """Step over a DECAY; what it makes of the values of the template."""
    grammar.expect("DECAY", "after the predicate")
    if grammar.token.upper in _CURVES:
        return _made(_curve(grammar), {})
    if not grammar.takes("("):
        return _made(Curve.LINEAR, {})
    curve = _curve(grammar)
    parts: dict[str, _Read] = {}
    while grammar.takes(","):
        token = grammar.token
        if token.upper not in _PARAMETERS:
            raise grammar.problem(f"expected ORIGIN, SCALE, OFFSET or TO in DECAY, got {token}")
        if token.upper in parts:
            raise grammar.problem(f"{token.upper} stands twice in one DECAY")
        grammar.at += 1
        parts[token.upper] = _PARAMETERS[token.upper](grammar)
    grammar.expect(")", "or , in DECAY")
    return _made(curve, parts)


def _made(curve: Curve, parts: dict[str, _Read]) -> _Read:
    given = [(name.lower(), part) for name, part in parts.items()]
    return lambda values: Decay(curve, **{name: part(values) for name, part in given})


def _curve(grammar: Operands) -> Curve:
    token = grammar.token
    if token.upper not in _CURVES:
        raise grammar.problem(f"expected LINEAR, EXP or GAUSS after DECAY, got {token}")
    grammar.at += 1
    return _CURVES[token.upper]


def _origin(grammar: Operands) -> _Read:
    if grammar.calls("POINT"):
        lon = grammar.number(read.longitude, "a longitude")
        lat = grammar.number(read.latitude, "a latitude")
        grammar.expect(")", "after the point's latitude")
        return lambda values: Point(values[lon], values[lat])
    slot = grammar.value()
    return lambda values: values[slot]


def _distance(grammar: Operands) -> _Read:
    slot = grammar.number(read.CONVERTERS["n"], "a distance such as 200, 1 km or 6 h")
    unit = ""
    if grammar.token.kind == "w":
        unit = grammar.token.text.lower()
        if unit not in UNITS:
            raise grammar.problem(f"expected one of the units {', '.join(UNITS)}, got {grammar.token}")
        grammar.at += 1
    return lambda values: Distance(values[slot], unit)


def _number(grammar: Operands) -> _Read:
    slot = grammar.number(read.CONVERTERS["n"], "a number from 0 to 1")
    return lambda values: values[slot]


_PARAMETERS: dict[str, Callable[[Operands], _Read]] = {
    "ORIGIN": _origin,
    "SCALE": _distance,
    "OFFSET": _distance,
    "TO": _number,
}
