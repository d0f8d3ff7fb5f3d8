"""Two-valued logic and lists "by any element", in the terms of Matchwood.

Most languages read a condition on a list as "some element", each condition by itself, and a negation as everything else, absent
attributes included. Matchwood reads conditions on one attribute under AND as about one value, and no condition but IS NULL holds
for an absent attribute. So readers build a tree in which

    every comparison has the quantifier ANY,
    `Span` is a range that one element has to lie in, `Other` a list of values that one element is none of,
    `Not` means "everything else",

and `finished` makes an expression of it. Quantifiers are left out where they change nothing: for an attribute that no
AND joins with another condition on the same attribute.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from matchwood.errors import ConversionError
from matchwood.lang.expression import And, Constant, Expression, Not, Or, Predicate, all_of, any_of
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.text_tests import Like, TextTest
from matchwood.schema import Scalar
from matchwood.schema.functions import root_of
from matchwood.schema.values import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Predicate):
    """One value lies between the two ends. Only between a reader and `finished`, which makes language of it."""

    lo: Scalar
    lo_open: bool
    hi: Scalar
    hi_open: bool

    def halves(self) -> Expression:
        """The range as two comparisons."""
        lower = Compare(
            self.attribute, self.weight, operator=Operator.GT if self.lo_open else Operator.GE, value=self.lo
        )
        upper = Compare(self.attribute, 0.0, operator=Operator.LT if self.hi_open else Operator.LE, value=self.hi)
        return And((lower, upper))

    def between(self) -> Expression:
        """The range as one BETWEEN: an open end is the next value, as everywhere in Matchwood."""
        lo, hi = (_above(self.lo) if self.lo_open else self.lo), (_below(self.hi) if self.hi_open else self.hi)
        return Between(self.attribute, self.weight, lo=lo, hi=hi, quantifier=Quantifier.ANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Other(Predicate):
    """Some value is none of `values`. Only between a reader and `finished`."""

    values: tuple[Scalar, ...]


def conjunction(parts: Iterable[Expression]) -> Expression:
    """AND of any number of parts, without constants and repetitions."""
    return _junction(list(parts), True)


def disjunction(parts: Iterable[Expression]) -> Expression:
    """OR of any number of parts, without constants and repetitions."""
    return _junction(list(parts), False)


def optional(part: Expression) -> Expression:
    """Holds always, and scores where the part holds."""
    return Constant(True) if isinstance(part, Constant) else Or((part, Constant(True)))


def _junction(parts: list[Expression], neutral: bool) -> Expression:
    left = [part for part in dict.fromkeys(parts) if part != Constant(neutral)]
    if Constant(not neutral) in left:
        return Constant(not neutral)
    if not left:
        return Constant(neutral)
    return all_of(*left) if neutral else any_of(*left)


def finished(tree: Expression) -> Expression:
    """The expression that a reader's tree means."""
    pushed = _pushed(tree, False)
    _, joined = _joined(pushed)
    return _plain(pushed, joined)


def _pushed(tree: Expression, negated: bool) -> Expression:
    """NOT at the predicates only; there it leaves absent attributes out, so these are added."""
    if isinstance(tree, Not):
        return _pushed(tree.child, not negated)
    if isinstance(tree, Constant):
        return Constant(tree.value is not negated)
    if isinstance(tree, (And, Or)):
        parts = [_pushed(child, negated) for child in tree.children]
        if isinstance(tree, Or) and not negated and Constant(True) in tree.children:
            return Or(parts)  # `optional`
        return conjunction(parts) if isinstance(tree, And) is not negated else disjunction(parts)
    assert isinstance(tree, Predicate)
    if not negated:
        return tree
    if isinstance(tree, IsNull):
        return replace(tree, negated=not tree.negated)
    return Or((Not(tree), IsNull(root_of(tree.attribute), 0.0 if tree.weight == 0.0 else 1.0)))


def _joined(tree: Expression) -> tuple[set[str], set[str]]:
    """The attributes of comparisons in the tree, and those that some AND joins."""
    if isinstance(tree, (And, Or)):
        found = [_joined(child) for child in tree.children]
        counts = Counter(name for names, _ in found for name in names)
        joined = set().union(*(inner for _, inner in found))
        if isinstance(tree, And):
            joined |= {name for name, count in counts.items() if count > 1}
        return set(counts), joined
    if isinstance(tree, (Compare, In, Between, Span, Like, TextTest)):
        return {tree.attribute}, set()
    return set(), set()  # under a NOT, no value may be; that never depends on other conditions


def _plain(tree: Expression, joined: set[str]) -> Expression:
    if isinstance(tree, (And, Or)):
        parts = [_plain(child, joined) for child in tree.children]
        return all_of(*parts) if isinstance(tree, And) else any_of(*parts)
    if isinstance(tree, Not):
        return _negation(tree.child)
    if isinstance(tree, Other):
        return Not(In(tree.attribute, tree.weight, values=tree.values, quantifier=Quantifier.ALL))
    if isinstance(tree, Span):
        if not (tree.lo_open or tree.hi_open):
            return _plain(tree.between(), joined)
        return tree.between() if tree.attribute in joined else tree.halves()
    if isinstance(tree, (Compare, In, Between, Like, TextTest)) and tree.attribute not in joined:
        return _unquantified(tree)
    return tree


def _negation(child: Expression) -> Expression:
    """NOT around a predicate, in the shortest form."""
    if isinstance(child, Other):
        return In(child.attribute, child.weight, values=child.values, quantifier=Quantifier.ALL)
    if isinstance(child, Span):
        child = child.between()
    if isinstance(child, (In, Between, Like)) and child.quantifier is Quantifier.ANY:
        return replace(child, quantifier=None, negated=True)
    if isinstance(child, Compare) and child.quantifier is Quantifier.ANY and child.operator is Operator.EQ:
        return replace(child, quantifier=None, operator=Operator.NE)
    if isinstance(child, Compare) and child.quantifier is Quantifier.ANY and child.operator is Operator.NE:
        return replace(child, quantifier=Quantifier.ALL, operator=Operator.EQ)
    if isinstance(child, (Compare, TextTest)):
        return Not(_unquantified(child))
    return Not(child)


def _unquantified(tree: Compare | In | Between | Like | TextTest) -> Expression:
    """Without the quantifier ANY. `ANY(x) != 1` keeps it: `x != 1` says that no value is 1."""
    if tree.quantifier is not Quantifier.ANY or (isinstance(tree, Compare) and tree.operator is Operator.NE):
        return tree
    return replace(tree, quantifier=None)


_MICROSECOND = timedelta(microseconds=1)


def _above(value: Scalar) -> Scalar:
    if isinstance(value, datetime):
        return _moved(value, _MICROSECOND)
    return math.nextafter(_as_float(value), math.inf)


def _below(value: Scalar) -> Scalar:
    if isinstance(value, datetime):
        return _moved(value, -_MICROSECOND)
    return math.nextafter(_as_float(value), -math.inf)


def _moved(value: datetime, by: timedelta) -> datetime:
    try:
        return value + by
    except OverflowError:
        raise ConversionError(f"nothing lies beyond the timestamp {value}; leave this end out") from None


def _as_float(value: Scalar) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConversionError(f"expected a number or a timestamp as the end of a range, got {value!r}")
    try:
        exact = float(value)
    except OverflowError:
        exact = math.inf
    if exact != value:
        raise ConversionError(f"float64 cannot hold {text_of(value)} exactly; use a number that it can")
    return exact
