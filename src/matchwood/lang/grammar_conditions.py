"""The grammar of conditions: which one comes next, and those that compare the values of one attribute."""

from __future__ import annotations

from typing import Any

from matchwood.lang.expression import Expression, Or
from matchwood.lang.grammar_lists import LIST_FUNCTIONS, read_list_count, read_lists
from matchwood.lang.grammar_places import SPATIAL_FUNCTIONS, read_bbox, read_dwithin, read_spatial
from matchwood.lang.grammar_text import TEXT_FUNCTIONS, read_like, read_text_test
from matchwood.lang.operands import COMPARISONS, Condition, Operands, moved_out, unsupported
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Between, Compare, In, IsNull


def read_condition(grammar: Operands) -> Condition:
    if grammar.calls("DWITHIN"):
        return read_dwithin(grammar)
    if grammar.calls("BBOX"):
        return read_bbox(grammar)
    if grammar.begins_call(SPATIAL_FUNCTIONS):
        return read_spatial(grammar)
    if grammar.begins_call(LIST_FUNCTIONS):
        return read_lists(grammar)
    if grammar.calls("A_COUNT"):
        return read_list_count(grammar)
    if grammar.begins_call(TEXT_FUNCTIONS):
        return read_text_test(grammar)
    if grammar.begins_value():
        value = grammar.value()
        if grammar.token.upper in ("BETWEEN", "IN", "IS", "NOT"):
            word = grammar.token.upper
            raise grammar.problem(f"{word} needs the name of an attribute on its left, not a value; write x {word} ...")
        operator = grammar.comparison(f"expected a comparison after a value{unsupported(grammar.token)}").mirrored
        return _compare(grammar, *grammar.subject(), operator, value)
    attribute, quantifier = grammar.subject()
    if grammar.token.text in COMPARISONS:
        operator = grammar.comparison("")
        return _compare(grammar, attribute, quantifier, operator, grammar.value())
    if quantifier is None and grammar.takes("IS"):
        return _is_null(grammar, attribute)
    if quantifier is None and grammar.ends_operand():  # a bool by itself
        return _compare(grammar, attribute, None, Operator.EQ, grammar.constant(True))
    negated = grammar.takes("NOT")
    if grammar.takes("BETWEEN"):
        return _between(grammar, attribute, quantifier, negated)
    if grammar.takes("IN"):
        return _is_in(grammar, attribute, quantifier, negated)
    if grammar.takes("LIKE"):
        return read_like(grammar, attribute, quantifier, negated)
    expected = "BETWEEN, IN or LIKE after NOT"
    if not negated:
        expected = "=, !=, <, <=, >, >=, BETWEEN, IN, LIKE or IS NULL after the name"
    raise grammar.problem(f"expected {expected}, got {grammar.token}{unsupported(grammar.token)}")


def _compare(
    grammar: Operands, attribute: int, quantifier: Quantifier | None, operator: Operator, value: int
) -> Condition:
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        return Compare(values[attribute], values[weight], operator=operator, value=values[value], quantifier=quantifier)

    return Condition(step, attribute, weight, "" if quantifier else operator.value, (value,))


def _between(grammar: Operands, attribute: int, quantifier: Quantifier | None, negated: bool) -> Condition:
    lo = grammar.value()
    grammar.expect("AND", "between the two ends of BETWEEN")
    hi = grammar.value()
    weight = grammar.weight()
    around, negated, quantifier = moved_out(negated, quantifier)

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        ends = {"lo": values[lo], "hi": values[hi]}
        return Between(values[attribute], values[weight], **ends, negated=negated, quantifier=quantifier)

    return Condition(step, attribute, weight, "" if negated or quantifier else "BETWEEN", (lo, hi), around)


def _is_in(grammar: Operands, attribute: int, quantifier: Quantifier | None, negated: bool) -> Condition:
    slots, is_list = grammar.list_of_values("after IN", "in IN (...)")
    weight = grammar.weight()
    around, negated, quantifier = moved_out(negated, quantifier)

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        chosen = values[slots[0]] if is_list else tuple([values[slot] for slot in slots])
        return In(values[attribute], values[weight], values=chosen, negated=negated, quantifier=quantifier)

    return Condition(step, attribute, weight, "" if negated or quantifier else "IN", tuple(slots), around)


def _is_null(grammar: Operands, attribute: int) -> Condition:
    negated = grammar.takes("NOT")
    if grammar.token.upper in ("TRUE", "FALSE"):
        return _is_true(grammar, attribute, negated)
    grammar.expect("NULL", "after IS; compare with a value by =")
    weight = grammar.weight()
    return Condition(
        lambda values, nodes: IsNull(values[attribute], values[weight], negated=negated), attribute, weight
    )


def _is_true(grammar: Operands, attribute: int, negated: bool) -> Condition:
    """`x IS TRUE` is `x = TRUE`; `x IS NOT TRUE` also holds for an absent attribute, as in SQL."""
    asked = grammar.token.upper == "TRUE"
    grammar.at += 1
    if not negated:
        return _compare(grammar, attribute, None, Operator.EQ, grammar.constant(asked))
    weight = grammar.weight()

    def step(values: list[Any], nodes: list[Expression]) -> Expression:
        other = Compare(values[attribute], values[weight], operator=Operator.EQ, value=not asked)
        return Or((other, IsNull(values[attribute], values[weight])))

    return Condition(step, attribute, weight, depth=2)
