"""The grammar of temporal functions: T_DURING(INTERVAL(starts_at, '..'), TIMESTAMP('2026-01-31T12:00:00Z')) ^0.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matchwood.lang import template as read
from matchwood.lang.expression import Expression
from matchwood.lang.operands import Operands
from matchwood.lang.template import Step
from matchwood.lang.temporal import Interval, Temporal, TemporalFunction

FUNCTIONS = {function.upper(): function for function in TemporalFunction}

_Reader = Callable[[list[Any]], Any]
"""An argument from the values of a template."""


def temporal(grammar: Operands) -> Step:
    """The step of the temporal function at which the grammar is, with its weight."""
    function = FUNCTIONS[grammar.token.upper]
    grammar.at += 2
    left = _argument(grammar, function)
    grammar.expect(",", f"after the first argument of {function.upper()}")
    right = _argument(grammar, function)
    grammar.expect(")", f"after the second argument of {function.upper()}")
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        return Temporal(function, left(values), right(values), values[weight])

    return step


def _argument(grammar: Operands, function: TemporalFunction) -> _Reader:
    if grammar.calls("INTERVAL"):
        start = _end(grammar)
        grammar.expect(",", "and an end after the start of INTERVAL")
        end = _end(grammar)
        grammar.expect(")", "at the end of INTERVAL")
        return lambda values: Interval(values[start], values[end])
    token = grammar.token
    if token.kind in "nsl" or (grammar.begins_value() and token.upper not in ("TIMESTAMP", "DATE")):
        remedy = "; write TIMESTAMP('...') or DATE('...')" if token.kind == "s" else ""
        raise grammar.problem(
            f"expected an attribute, an instant or INTERVAL(...) in {function.upper()}, got {token}{remedy}"
        )
    slot = grammar.value() if grammar.begins_value() else grammar.attribute()
    return lambda values: values[slot]


def _end(grammar: Operands) -> int:
    token = grammar.token
    if token.kind == "s":
        grammar.at += 1
        grammar.converters[token.slot] = read.interval_end
        return token.slot
    if grammar.begins_value():
        if token.upper in ("TIMESTAMP", "DATE"):
            return grammar.value()
        raise grammar.problem(f"expected a timestamp in single quotes, '..' or an attribute in INTERVAL, got {token}")
    return grammar.attribute()
