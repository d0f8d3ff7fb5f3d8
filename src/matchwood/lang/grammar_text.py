"""The grammar of conditions on strings: LIKE, STARTS_WITH(x, 'a') and the like."""

from __future__ import annotations

from typing import Any

from matchwood.lang.expression import Expression
from matchwood.lang.operands import Condition, Operands, moved_out
from matchwood.lang.operators import Quantifier
from matchwood.lang.text_tests import Like, TextOperator, TextTest

TEXT_FUNCTIONS = {operator.upper(): operator for operator in TextOperator}


def read_like(grammar: Operands, attribute: int, quantifier: Quantifier | None, negated: bool) -> Condition:
    pattern = _text(grammar, "a pattern in single quotes after LIKE")
    weight = grammar.weight()
    around, negated, quantifier = moved_out(negated, quantifier)

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        return Like(values[attribute], values[weight], pattern=values[pattern], negated=negated, quantifier=quantifier)

    return Condition(step, attribute, weight, negated=around)


def read_text_test(grammar: Operands) -> Condition:
    operator = TEXT_FUNCTIONS[grammar.token.upper]
    grammar.at += 2
    attribute, quantifier = grammar.subject()
    grammar.expect(",", f"and a string after the name in {operator.upper()}")
    argument = _text(grammar, f"a string in single quotes in {operator.upper()}")
    grammar.expect(")", f"at the end of {operator.upper()}")
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        return TextTest(
            values[attribute], values[weight], operator=operator, argument=values[argument], quantifier=quantifier
        )

    return Condition(step, attribute, weight)


def _text(grammar: Operands, expected: str) -> int:
    """A string, or a function of one."""
    if grammar.token.kind != "s" and not grammar.begins_folded():
        raise grammar.problem(f"expected {expected}, got {grammar.token}")
    return grammar.value()
