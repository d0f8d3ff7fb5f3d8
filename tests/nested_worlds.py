"""Conditions on lists of objects at random, and what they say, element by element: independent of rows, tests and encoders.

The values of elements are single ones, so that plain logic decides, with one addition: what an element lacks meets no condition,
negated or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import eq, ge, gt, le, lt
from typing import Any

import numpy as np

from matchwood.lang.expression import And, Expression, Not, Or, Predicate
from matchwood.lang.nested import Nested
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Compare, In, IsNull
from matchwood.lang.text_tests import Like
from tests.text_worlds import passes

COMPARISONS = {
    "=": eq,
    "!=": eq,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
SKUS = ("a", "ab", "b", "ba", "")
LATER = "9999-01-01"


def a_leaf(rng: np.random.Generator, depth: int) -> Predicate:
    """A condition on the values of an element."""
    kind = rng.integers(7 if depth else 6)
    if kind == 6:
        return a_nested(rng, "parts", depth - 1)
    if kind < 2:
        return Compare(
            str(rng.choice(["qty", "user.age"])),
            operator=Operator(rng.choice(list(Operator))),
            value=int(rng.integers(4)),
        )
    if kind == 2:
        return Compare("sku", operator=Operator(rng.choice([Operator.EQ, Operator.NE])), value=str(rng.choice(SKUS)))
    if kind == 3:
        return In("sku", values=tuple(map(str, rng.choice(SKUS, 2))), negated=bool(rng.random() < 0.3))
    if kind == 4:
        pattern = str(rng.choice(["a%", "%b", "_", "%"]))
        return Like(str(rng.choice(["sku", "CASEI\x1fsku"])), pattern=pattern, negated=bool(rng.random() < 0.3))
    return IsNull(str(rng.choice(["qty", "sku", "gift"])), negated=bool(rng.random() < 0.5))


def a_condition(rng: np.random.Generator, depth: int = 1) -> Expression:
    if rng.random() < 0.3:
        return a_leaf(rng, depth)
    children = [
        a_condition(rng, depth - 1) if depth > 0 and rng.random() < 0.3 else a_leaf(rng, depth) for _ in range(2)
    ]
    tree: Expression = And(children) if rng.random() < 0.7 else Or(children)
    return Not(tree) if rng.random() < 0.2 else tree


def a_nested(rng: np.random.Generator, name: str = "items", depth: int = 1, weight: float = 1.0) -> Nested:
    quantifier = Quantifier(rng.choice([Quantifier.ANY, Quantifier.ANY, Quantifier.ALL]))
    return Nested(name, weight, condition=a_condition(rng, depth), quantifier=quantifier)


def a_tree(rng: np.random.Generator, depth: int = 2) -> Expression:
    """An expression with several conditions on lists of objects, and others."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        weight = float(rng.integers(1, 4))
        if rng.random() < 0.7:
            return a_nested(rng, str(rng.choice(["items", "items", "more"])), weight=weight)
        if rng.random() < 0.3:
            return IsNull("items", weight, negated=bool(rng.random() < 0.5))
        return Compare("n", weight, operator=Operator.GE, value=int(rng.integers(4)))
    children = [a_tree(rng, depth - 1) for _ in range(2)]
    tree: Expression = And(children) if rng.random() < 0.6 else Or(children)
    return Not(tree) if rng.random() < 0.2 else tree


def an_element(rng: np.random.Generator, depth: int = 1) -> dict[str, Any]:
    element: dict[str, Any] = {}
    if rng.random() < 0.8:
        element["sku"] = str(rng.choice([*SKUS, "AB", "zz"]))
    if rng.random() < 0.8:
        element["qty"] = int(rng.integers(5))
    if rng.random() < 0.5:
        age = int(rng.integers(4))
        element |= {"user": {"age": age}} if rng.random() < 0.5 else {"user.age": age}
    if rng.random() < 0.2:
        element["gift"] = True
    if depth and rng.random() < 0.4:
        element["parts"] = [an_element(rng, depth - 1) for _ in range(rng.integers(3))]
    return element


def an_event(rng: np.random.Generator) -> dict[str, Any]:
    event: dict[str, Any] = {"n": int(rng.integers(5)), "unknown": [{"x": 1}]}
    for name in ("items", "more"):
        if rng.random() < 0.85:
            event[name] = [an_element(rng) if rng.random() < 0.95 else None for _ in range(rng.integers(4))]
    if rng.random() < 0.1:
        event["items"] = an_element(rng)  # one object is a list of one
    return event


def met(tree: Expression, event: Mapping[str, Any], negated: bool = False) -> bool:
    """Does the event, or element, meet the expression?"""
    if isinstance(tree, Not):
        return met(tree.child, event, not negated)
    if isinstance(tree, And | Or):
        asks_all = isinstance(tree, And) is not negated
        return (all if asks_all else any)([met(child, event, negated) for child in tree.children])
    assert isinstance(tree, Predicate)
    value: Any = event
    for name in tree.attribute.rpartition("\x1f")[2].split("."):
        value = None if value is None else value.get(name)
    value = event.get(tree.attribute) if value is None else value
    value = [value] if isinstance(value, Mapping) else value
    if isinstance(value, list):
        value = [element for element in value if element is not None] or None
    if isinstance(tree, IsNull):
        return (value is None) is not (tree.negated is not negated)
    if value is None:
        return False
    if isinstance(tree, Nested):
        each = [met(tree.condition, element) for element in value]
        return (any(each) if tree.quantifier is Quantifier.ANY else all(each)) is not negated
    if isinstance(tree, Compare):
        return COMPARISONS[tree.operator](value, tree.value) is not ((tree.operator is Operator.NE) is not negated)
    assert isinstance(tree, In | Like)
    value = value.casefold() if tree.attribute.startswith("CASEI") else value
    return passes(tree, value) is not (tree.negated is not negated)
