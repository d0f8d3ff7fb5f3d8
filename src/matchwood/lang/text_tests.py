"""Conditions on strings that are more than comparisons: LIKE, prefixes, networks, regular expressions, and orders.

    x LIKE 'a%'      Like          STARTS_WITH(x, 'a'), ...   TextTest

In the normal form they are `Tested`: tests of the values of one attribute. `settled_tests` makes a `Holds` of it, on the hidden
attribute that has the codes of the tests that hold (`schema.testing`). What AND joins on one attribute is asked of one value, so
several tests become one, `AllOf`; and comparisons with constants become tests where they meet others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from matchwood.errors import ExpressionError, ValueTypeError
from matchwood.lang.constants import constant_text
from matchwood.lang.expression import Predicate
from matchwood.lang.intervals import EVERYTHING, IntervalSet, points
from matchwood.lang.operators import Operator, Quantifier
from matchwood.lang.predicates import Between, Compare, subject
from matchwood.lang.row import Counted, Holds, Tested
from matchwood.lang.written import literal
from matchwood.patterns import (
    AllOf,
    Contains,
    Fails,
    Network,
    OneOf,
    Ordered,
    Prefix,
    Regex,
    Suffix,
    Test,
    like_test,
    written_test,
)
from matchwood.patterns.like import MAX_LENGTH
from matchwood.patterns.networks import read_network
from matchwood.patterns.orders import VERSION, order_key
from matchwood.patterns.regex import compiled
from matchwood.schema import Attribute, Schema, Type
from matchwood.schema.functions import conditions_of, folded, is_derived, tests_of


class TextOperator(StrEnum):
    """The tests that are written as functions."""

    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    REGEX = "regex"
    CIDR = "cidr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Like(Predicate):
    """The string is of a pattern: `%` is any text, `_` any one character, and a backslash escapes the next."""

    pattern: str
    negated: bool = False
    quantifier: Quantifier | None = None

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        _check_text(self.attribute, self.pattern, "a pattern")
        if self.negated and self.quantifier is not None:
            raise ExpressionError(f"attribute {self.attribute!r}: a quantified condition is not negated itself")
        if is_derived(self.attribute):
            object.__setattr__(self, "pattern", folded(self.attribute, self.pattern))
        self.test()

    def test(self) -> Test:
        """The test of one value."""
        try:
            return like_test(self.pattern)
        except ExpressionError as error:
            raise error.about(f"attribute {self.attribute!r}") from None

    def __str__(self) -> str:
        word = "NOT LIKE" if self.negated else "LIKE"
        return f"{subject(self.attribute, self.quantifier)} {word} {constant_text(self.attribute, self.pattern)}{self._boost()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTest(Predicate):
    """The string begins with, ends in or contains a text, matches a regular expression, or is an address of a network."""

    operator: TextOperator
    argument: str
    quantifier: Quantifier | None = None

    def __post_init__(self) -> None:
        Predicate.__post_init__(self)
        _check_text(self.attribute, self.argument, f"the argument of {self.operator.upper()}")
        if len(self.argument) > MAX_LENGTH:
            raise ExpressionError(
                f"attribute {self.attribute!r}: expected at most {MAX_LENGTH:,} characters in {self.operator.upper()}, "
                f"got {len(self.argument):,}"
            )
        if is_derived(self.attribute) and self.operator in FOLDED:
            object.__setattr__(self, "argument", folded(self.attribute, self.argument))
        self.test()

    def test(self) -> Test:
        """The test of one value."""
        try:
            return _TESTS[self.operator](self.argument)
        except ExpressionError as error:
            raise error.about(f"attribute {self.attribute!r}") from None

    def __str__(self) -> str:
        argument = literal(self.argument)
        if self.operator in FOLDED:
            argument = constant_text(self.attribute, self.argument)
        return f"{self.operator.upper()}({subject(self.attribute, self.quantifier)}, {argument}){self._boost()}"


FOLDED = (TextOperator.STARTS_WITH, TextOperator.ENDS_WITH, TextOperator.CONTAINS)
"""The tests whose argument goes through the functions of the attribute."""


def _regex(pattern: str) -> Test:
    compiled(pattern)
    return Regex(pattern)


_TESTS: dict[TextOperator, Callable[[str], Test]] = {
    TextOperator.STARTS_WITH: Prefix,
    TextOperator.ENDS_WITH: lambda text: Suffix(text) if text else Prefix(""),
    TextOperator.CONTAINS: lambda text: Contains(text) if text else Prefix(""),
    TextOperator.REGEX: _regex,
    TextOperator.CIDR: lambda text: Network(read_network(text)),
}


def _check_text(attribute: str, text: object, what: str) -> None:
    if not isinstance(text, str):
        raise ExpressionError(f"attribute {attribute!r}: expected {what} as a string, got {text!r}")


def tested(predicate: Like | TextTest, schema: Schema, negated: bool) -> Tested | Holds:
    """The normal form of a condition with a test."""
    schema.attribute_for(predicate.attribute, Type.STRING)
    excludes = negated is not (isinstance(predicate, Like) and predicate.negated)
    return asked(predicate, predicate.test(), predicate.quantifier, excludes)


def asked(predicate: Predicate, test: Test, quantifier: Quantifier | None, negated: bool) -> Tested:
    """One value passes the test; with ANY whatever other conditions ask for, with ALL every value does. Negated: none does."""
    attribute, weight = predicate.attribute, predicate.weight
    if quantifier is Quantifier.ALL:
        fails = Fails(test)
        return Tested(attribute, weight, some=((fails,),)) if negated else Tested(attribute, weight, none=(fails,))
    if negated:
        return Tested(attribute, weight, none=(test,))
    if quantifier is Quantifier.ANY:
        return Tested(attribute, weight, some=((test,),))
    return Tested(attribute, weight, ((test,),))


def ordered(predicate: Compare | Between, known: Attribute, negated: bool) -> Tested:
    """The normal form of an order comparison of strings."""
    if isinstance(predicate, Compare):
        test = _ordered_test(predicate, known, predicate.operator, predicate.value)
        return asked(predicate, test, predicate.quantifier, negated)
    lo = _ordered_test(predicate, known, Operator.GE, predicate.lo)
    hi = _ordered_test(predicate, known, Operator.LE, predicate.hi)
    return asked(predicate, all_of_tests([(lo,), (hi,)]), predicate.quantifier, negated is not predicate.negated)


def _ordered_test(predicate: Predicate, known: Attribute, operator: Operator, value: object) -> Test:
    if not isinstance(value, str):
        raise ValueTypeError(f"{predicate}: attribute {known.name!r} is of type {known.declared}, got {value!r}")
    assert known.order is not None
    if order_key(known.order, value) is None:
        remedy = "; write it as 1.20.3" if known.order == VERSION else ""
        raise ValueTypeError(
            f"{predicate}: attribute {known.name!r}: expected a {known.declared}, got {value!r}{remedy}"
        )
    return Ordered(known.order, operator.value, value)


def all_of_tests(clauses: Iterable[Iterable[Test]]) -> Test:
    """The test that asks for one test of each clause, in canonical form."""
    found = {written_test(AllOf((clause,))): clause for clause in map(_canonical, clauses)}
    each = [found[text] for text in sorted(found)]
    return each[0][0] if len(each) == 1 and len(each[0]) == 1 else AllOf(tuple(each))


def _canonical(clause: Iterable[Test]) -> tuple[Test, ...]:
    by_text = {written_test(test): test for test in clause}
    return tuple([by_text[text] for text in sorted(by_text)])


def together(name: str, weight: float, parts: Sequence[Tested], held: Holds | None) -> Tested:
    """The conjunction of tests of one attribute, and of comparisons beside them."""
    return Tested(
        name,
        weight,
        tuple([clause for part in parts for clause in part.clauses]),
        tuple([test for part in parts for test in part.none]),
        tuple([clause for part in parts for clause in part.some]),
        held,
    )


def settled_tests(predicate: Tested, schema: Schema) -> Holds | None:
    """The predicate as a `Holds`: on the attribute itself if constants decide, otherwise on its hidden attribute.

    None if it can never hold. O(tests).
    """
    source, held = schema.find(predicate.attribute), predicate.held
    if held is not None and _is_listed(held.keys):
        texts = _texts(held.keys, source)
        kept = [text for text in texts if all(_passes(clause, text) for clause in predicate.clauses)]
        if not kept:
            return None
        if not predicate.none and not predicate.some:
            keys = points([schema.key(source, text) for text in kept])
            return Holds(predicate.attribute, predicate.weight, keys, held.none, held.counts)
        predicate = Tested(
            predicate.attribute,
            predicate.weight,
            (*predicate.clauses, tuple([OneOf((text,)) for text in kept])),
            predicate.none,
            predicate.some,
            Holds(held.attribute, held.weight, EVERYTHING, held.none, held.counts),
        )
    return _hidden(predicate, source, schema)


def _hidden(predicate: Tested, source: Attribute, schema: Schema) -> Holds | None:
    is_list = source.type is Type.OBJECTS
    hidden = schema.find(conditions_of(source.name) if is_list else tests_of(source.name))

    def codes(tests: Iterable[Test]) -> IntervalSet:
        return points([schema.key(hidden, written_test(test)) for test in tests])

    clauses, none, some = list(predicate.clauses), list(predicate.none), list(predicate.some)
    counts: list[Counted] = []
    if predicate.held is not None:
        held = predicate.held
        if held.none:
            none += _one_of(held.none, source)
        if ~held.keys - held.none != IntervalSet(()):
            clauses.append(tuple(_one_of(held.keys, source)))
        for count in held.counts:
            if count.is_any:
                some.append(tuple(_one_of(count.keys, source)))
            else:
                tests = [OneOf((text,)) for text in _texts(count.keys, source)]
                keys = IntervalSet(tuple([codes([test]).parts[0] for test in tests]))
                counts.append(Counted(IntervalSet(tuple(sorted(keys.parts))), count.least, count.most))
    clauses = [_canonical(clause) for clause in clauses]
    excluded = codes(none)
    keys = codes(clauses[0]) if len(clauses) == 1 else EVERYTHING if not clauses else codes([all_of_tests(clauses)])
    counts += [Counted(codes(clause), 1) for clause in some]
    left = keys - excluded
    return Holds(hidden.name, predicate.weight, left, excluded, tuple(counts)) if left else None


def _one_of(keys: IntervalSet, source: Attribute) -> list[Test]:
    """Tests that hold for the strings of the keys: listed ones, or all but listed ones."""
    if _is_listed(keys):
        return [OneOf((text,)) for text in _texts(keys, source)]
    return [Fails(OneOf(tuple(sorted(_texts(~keys, source)))))]


def _is_listed(keys: IntervalSet) -> bool:
    return all(lo == hi for lo, hi in keys.parts)


def _texts(keys: IntervalSet, source: Attribute) -> list[str]:
    assert source.symbols is not None
    found = [source.symbols.text(int(lo)) for lo, _ in keys.parts if not math.isinf(lo)]
    return [text for text in found if text is not None]


def _passes(clause: tuple[Test, ...], text: str) -> bool:
    return any(test.holds(text) for test in clause)
