"""Conditions on strings at random, and what they say, value by value: independent of tests, testers and rows."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import Any

import numpy as np

from matchwood.lang.expression import And, Expression, Not, Or, Predicate
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Compare, In, IsNull
from matchwood.lang.text_tests import Like, TextOperator, TextTest
from matchwood.schema.functions import root_of

LETTERS = "abAé%_\\"
FOLDS = {"CASEI\x1fx": str.casefold}


def a_text(rng: np.random.Generator, most: int = 6) -> str:
    return "".join(rng.choice(list(LETTERS), rng.integers(0, most + 1)))


def a_pattern(rng: np.random.Generator) -> str:
    parts = ["%", "_", "a", "b", "A", "ab", "é", "\\%", "\\_", "\\\\"]
    return "".join(rng.choice(parts, rng.integers(0, 6)))


def a_leaf(rng: np.random.Generator, names: tuple[str, ...], *, quantified: bool = True) -> Predicate:
    """A condition on a string: a pattern, a test or a comparison."""
    on: dict[str, Any] = {"attribute": str(rng.choice(names)), "weight": float(rng.integers(1, 4))}
    quantifier = rng.choice([None, None, None, *Quantifier]) if quantified else None
    kind = rng.integers(8)
    if kind < 4:
        negated = quantifier is None and rng.random() < 0.3
        return Like(**on, pattern=a_pattern(rng), negated=negated, quantifier=quantifier)
    if kind == 4:
        operator = rng.choice([TextOperator.STARTS_WITH, TextOperator.ENDS_WITH, TextOperator.CONTAINS])
        return TextTest(**on, operator=TextOperator(operator), argument=a_text(rng, 3), quantifier=quantifier)
    if kind == 5:
        pattern = str(rng.choice(["a+b", "^[ab]", "a.b$", "é", "(a|b)A", "a?b*", "ab|ba"]))
        return TextTest(**on, operator=TextOperator.REGEX, argument=pattern, quantifier=quantifier)
    if kind == 6:
        operator = Operator(rng.choice([Operator.EQ, Operator.NE]))
        return Compare(**on, operator=operator, value=a_text(rng, 2), quantifier=quantifier)
    return In(**on, values=(a_text(rng, 2), a_text(rng, 3)), quantifier=quantifier)


def a_tree(rng: np.random.Generator, names: tuple[str, ...], depth: int = 2) -> Expression:
    if depth == 0 or rng.random() < 0.2:
        return a_leaf(rng, names)
    children = tuple([a_tree(rng, names, depth - 1) for _ in range(rng.integers(2, 4))])
    tree: Expression = And(children) if rng.random() < 0.6 else Or(children)
    return Not(tree) if rng.random() < 0.2 else tree


def passes(leaf: Predicate, text: str) -> bool:
    """Does the text itself meet what the leaf asks for, apart from negation?"""
    if leaf.attribute in FOLDS:
        text = FOLDS[leaf.attribute](text)
    if isinstance(leaf, Like):
        return re.fullmatch(_regular(leaf.pattern), text, re.DOTALL) is not None
    if isinstance(leaf, TextTest):
        if leaf.operator is TextOperator.REGEX:
            return re.search(leaf.argument.replace("$", r"\Z"), text) is not None
        if leaf.operator is TextOperator.CIDR:
            return ip_address(text) in ip_network(leaf.argument)
        at = text.find(leaf.argument)
        if leaf.operator is TextOperator.STARTS_WITH:
            return at == 0
        return at >= 0 if leaf.operator is TextOperator.CONTAINS else text[::-1].find(leaf.argument[::-1]) == 0
    if isinstance(leaf, Compare):
        orders = {"<": text < str(leaf.value), "<=": text <= str(leaf.value), ">": text > str(leaf.value)}
        orders |= {">=": text >= str(leaf.value), "=": text == leaf.value, "!=": text == leaf.value}
        return orders[leaf.operator]
    assert isinstance(leaf, In)
    return text in leaf.values


def _regular(pattern: str) -> str:
    out, signs = "", iter(pattern)
    for sign in signs:
        out += {"%": ".*", "_": "."}.get(sign, "") or re.escape(next(signs) if sign == "\\" else sign)
    return out


def excludes(leaf: Predicate) -> bool:
    return bool(getattr(leaf, "negated", False)) or (isinstance(leaf, Compare) and leaf.operator is Operator.NE)


def holds_for_one_value(tree: Expression, event: dict[str, str | None], negated: bool = False) -> bool:
    """Plain logic, for events without lists."""
    if isinstance(tree, Not):
        return holds_for_one_value(tree.child, event, not negated)
    if isinstance(tree, And | Or):
        asks_all = isinstance(tree, And) is not negated
        return (all if asks_all else any)([holds_for_one_value(child, event, negated) for child in tree.children])
    assert isinstance(tree, Predicate)
    text = event.get(root_of(tree.attribute))
    if isinstance(tree, IsNull):
        return (text is None) is not (tree.negated is not negated)
    return text is not None and passes(tree, text) is not (excludes(tree) is not negated)


def holds_for_lists(leaves: list[tuple[Predicate, bool]], values: list[str]) -> bool:
    """A conjunction of leaves (negated or not) on one attribute, for a list: docs/decisions/lists.md, word for word."""
    same: list[Predicate] = []
    for leaf, negated in leaves:
        quantifier = getattr(leaf, "quantifier", None)
        held = [passes(leaf, text) for text in values]
        if quantifier is not None:
            inner = [not one for one in held] if excludes(leaf) else held
            if (any(inner) if quantifier is Quantifier.ANY else all(inner)) is negated:
                return False
        elif excludes(leaf) is not negated:
            if any(held):
                return False
        else:
            same.append(leaf)
    return bool(values) and any(all(passes(leaf, text) for leaf in same) for text in values)
