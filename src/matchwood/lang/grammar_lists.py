"""The grammar of conditions on all values of a list: A_CONTAINS(tags, ('a', 'b')), A_COUNT(tags, ('a', 'b', 'c')) >= 2."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from matchwood.lang.expression import Expression
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.operands import Condition, Operands
from matchwood.lang.operators import ListOperator

LIST_FUNCTIONS = {operator.upper(): operator for operator in ListOperator}

_Values = Callable[[list[Any]], tuple[Any, ...]]
"""The values of a list, from those of a template."""


def read_lists(grammar: Operands) -> Condition:
    operator = LIST_FUNCTIONS[grammar.token.upper]
    grammar.at += 2
    is_mirrored = grammar.token.text == "("
    attribute, listed = (_list_and_attribute if is_mirrored else _attribute_and_list)(grammar, operator.upper())
    operator = operator.mirrored if is_mirrored else operator
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        return Lists(values[attribute], values[weight], operator=operator, values=listed(values))

    return Condition(step, attribute, weight)


def read_list_count(grammar: Operands) -> Condition:
    attribute, listed = _attribute_and_list(grammar, "A_COUNT")
    operator = grammar.comparison("expected a comparison after A_COUNT(...)")
    count = grammar.value()
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        return ListCount(
            values[attribute], values[weight], values=listed(values), operator=operator, count=values[count]
        )

    return Condition(step, attribute, weight)


def _attribute_and_list(grammar: Operands, function: str) -> tuple[int, _Values]:
    """The arguments of a test of lists, and the parenthesis behind them."""
    attribute = grammar.attribute()
    grammar.expect(",", f"and a list of values after the name in {function}")
    listed = _listed(grammar, function)
    grammar.expect(")", f"at the end of {function}")
    return attribute, listed


def _list_and_attribute(grammar: Operands, function: str) -> tuple[int, _Values]:
    """The same with the list first."""
    listed = _listed(grammar, function)
    grammar.expect(",", f"and the name of an attribute after the list in {function}")
    if grammar.token.text == "(":
        raise grammar.problem(f"expected the name of an attribute in {function}, got a second list")
    attribute = grammar.attribute()
    grammar.expect(")", f"at the end of {function}")
    return attribute, listed


def _listed(grammar: Operands, function: str) -> _Values:
    slots, is_list = grammar.list_of_values(f"before the list of {function}", f"in the list of {function}")
    return itemgetter(slots[0]) if is_list else lambda values: tuple([values[slot] for slot in slots])
