"""Are two engines equal? Their subscriptions are compared by their normal forms, without orders that mean nothing.

The text of a normal form lists the values of a set in the order in which their strings were learnt, which a restart may change.
So the texts are read again. The order of the values of a list and of the operands of AND and OR does not count, nor which of
several conditions on one attribute has the weight. Everything else does, the grouping too.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from matchwood.engine.results import Subscription
from matchwood.lang.expression import And, Expression, Not, Or, Predicate
from matchwood.lang.limits import Limits
from matchwood.lang.parser import parse

if TYPE_CHECKING:
    from matchwood.engine.engine import Engine

_NO_LIMITS = Limits(max_rows=2**40, max_entries=2**40, max_length=2**40)
SHOWN = 10
"""Differences that are listed."""


def differences(engine: Engine, other: Engine) -> list[str]:
    """What the subscriptions of an engine and of one from disk disagree on, the first few."""
    mine, theirs = ({one.id: one for one in each.subscriptions()} for each in (engine, other))
    differ = [id_ for id_ in sorted({*mine, *theirs}, key=str) if not _same(mine.get(id_), theirs.get(id_))]
    return [f"subscription {i!r} is {theirs.get(i)} on disk and {mine.get(i)} in memory" for i in differ[:SHOWN]]


def comparable(subscription: Subscription) -> tuple[Any, ...]:
    """What equal subscriptions have in common. O(length)."""
    return (shape_of(subscription.expression), *subscription[2:])


def shape_of(text: str) -> tuple[Any, ...]:
    """What equal normal forms have in common.

    >>> shape_of("(a = 1 AND b = 2) OR c IN (1, 2)") == shape_of("c IN (2, 1) OR (b = 2 AND a = 1)")
    True
    >>> shape_of("(a = 1 AND b = 2) OR (c = 3 AND d = 4)") == shape_of("(a = 1 AND c = 3) OR (b = 2 AND d = 4)")
    False
    """
    tree = parse(text, limits=_NO_LIMITS)
    return _shape(tree) if isinstance(tree, And | Or) else _junction("And", (tree,))


def _same(one: Subscription | None, other: Subscription | None) -> bool:
    if one is None or other is None or one == other:
        return one is other or (one is not None and other is not None)
    return comparable(one) == comparable(other)


def _shape(expression: Expression) -> tuple[Any, ...]:
    if isinstance(expression, Not):
        return "NOT", _shape(expression.child)
    if isinstance(expression, And | Or):
        return _junction(type(expression).__name__, expression.children)
    if not isinstance(expression, Predicate):
        return (repr(expression),)
    values = {field.name: getattr(expression, field.name) for field in dataclasses.fields(expression)}
    del values["weight"]
    if "values" in values:
        values["values"] = sorted(values["values"], key=repr)
    return type(expression).__name__, *values.items()


def _junction(kind: str, children: tuple[Expression, ...]) -> tuple[Any, ...]:
    """Its parts without their weights, and the weight of each attribute."""
    weights: dict[str, list[float]] = defaultdict(list)
    for child in children:
        leaf = child.child if isinstance(child, Not) else child
        if isinstance(leaf, Predicate):
            weights[leaf.attribute].append(leaf.weight)
    totals = sorted((name, math.fsum(each)) for name, each in weights.items())
    return kind, totals, sorted(map(_shape, children), key=repr)
