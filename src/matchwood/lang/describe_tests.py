"""Tests of rows as conditions, for explanations and listings. See `lang.describe`."""

from __future__ import annotations

from matchwood.lang.expression import Expression, Not, all_of, any_of
from matchwood.lang.intervals import EVERYTHING, IntervalSet
from matchwood.lang.leaves import needed_by
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.nested import Nested
from matchwood.lang.operators import ListOperator, Operator, Quantifier
from matchwood.lang.parser import parse
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.row import Counted, Holds
from matchwood.lang.text_tests import Like, TextOperator, TextTest
from matchwood.patterns import (
    AllOf,
    Contains,
    Elements,
    Fails,
    Network,
    OneOf,
    Ordered,
    Prefix,
    Regex,
    Suffix,
    Test,
    read_test,
)
from matchwood.patterns import Like as LikeTest
from matchwood.patterns.like import escaped
from matchwood.patterns.networks import written_network
from matchwood.schema import Schema
from matchwood.schema.functions import source_of


def test_conditions(predicate: Holds, schema: Schema) -> list[Expression]:
    """Conditions that make a predicate on a hidden attribute again."""
    name, keys, none = source_of(predicate.attribute), predicate.keys, predicate.none
    found: list[Expression] = []
    implied = keys == EVERYTHING - none or any(keys in needed_by(count, None) for count in predicate.counts)
    excluded = _tests(predicate.attribute, none, schema)
    apart = bool(predicate.counts) or any(isinstance(test, Fails) for test in excluded)
    if not implied:
        tests = _tests(predicate.attribute, keys, schema)
        if len(tests) == 1 and isinstance(tests[0], AllOf):
            found += [_any(name, clause, None) for clause in tests[0].clauses]
        else:
            found.append(_any(name, tests, Quantifier.ANY if apart else None))
    for test in excluded:
        if isinstance(test, Fails):
            found.append(_condition(name, test.test, Quantifier.ALL))
        else:
            found.append(Not(_condition(name, test, None)))
    for count in predicate.counts:
        found += _counting(name, count, predicate.attribute, schema)
    return found or [IsNull(name, negated=True)]


test_conditions.__test__ = False  # type: ignore[attr-defined]  # no test of pytest


def shown_test(written: str) -> str:
    """A test in words, for the value of an event in an explanation."""
    return str(_condition("it", read_test(written), None))


def _tests(attribute: str, keys: IntervalSet, schema: Schema) -> list[Test]:
    known = schema.find(attribute)
    return [read_test(str(schema.value(known, lo))) for lo, _ in keys.parts]


def _counting(name: str, count: Counted, attribute: str, schema: Schema) -> list[Expression]:
    tests = _tests(attribute, count.keys, schema)
    if count.is_any:
        return [_any(name, tests, Quantifier.ANY)]
    values = tuple([test.texts[0] for test in tests if isinstance(test, OneOf)])
    if count.least == len(values):
        return [Lists(name, operator=ListOperator.CONTAINS, values=values)]
    found: list[Expression] = []
    if count.least > 0:
        found.append(ListCount(name, values=values, operator=Operator.GE, count=count.least))
    if count.most < len(values):
        found.append(ListCount(name, values=values, operator=Operator.LE, count=int(count.most)))
    return found


def _any(name: str, tests: list[Test] | tuple[Test, ...], quantifier: Quantifier | None) -> Expression:
    """One of the tests holds; several constants are one list."""
    texts = tuple([text for test in tests if isinstance(test, OneOf) for text in test.texts])
    others = [test for test in tests if not isinstance(test, OneOf)]
    found: list[Expression] = [_condition(name, test, quantifier) for test in others]
    if len(texts) == 1:
        found.append(Compare(name, operator=Operator.EQ, value=texts[0], quantifier=quantifier))
    elif texts:
        found.append(In(name, values=texts, quantifier=quantifier))
    return any_of(*found)


def _condition(name: str, test: Test, quantifier: Quantifier | None) -> Expression:
    if isinstance(test, Elements):
        return Nested(name, condition=parse(test.condition), quantifier=Quantifier(test.quantifier))
    if isinstance(test, Fails):  # some value fails
        return Not(_condition(name, test.test, Quantifier.ALL))
    pattern = _pattern(test)
    if pattern is not None:
        return Like(name, pattern=pattern, quantifier=quantifier)
    if isinstance(test, Network):
        argument = written_network(test.net)
        return TextTest(name, operator=TextOperator.CIDR, argument=argument, quantifier=quantifier)
    if isinstance(test, Regex):
        return TextTest(name, operator=TextOperator.REGEX, argument=test.pattern, quantifier=quantifier)
    if isinstance(test, Ordered):
        return Compare(name, operator=Operator(test.comparison), value=test.text, quantifier=quantifier)
    if isinstance(test, OneOf):
        if len(test.texts) == 1:
            return Compare(name, operator=Operator.EQ, value=test.texts[0], quantifier=quantifier)
        return In(name, values=test.texts, quantifier=quantifier)
    assert isinstance(test, AllOf)
    ends = [clause[0] for clause in test.clauses if len(clause) == 1 and isinstance(clause[0], Ordered)]
    sides = {end.comparison: end.text for end in ends if isinstance(end, Ordered)}
    if len(test.clauses) == 2 and sides.keys() == {">=", "<="}:
        return Between(name, lo=sides[">="], hi=sides["<="], quantifier=quantifier)
    return all_of(*[_any(name, clause, quantifier) for clause in test.clauses])


def _pattern(test: Test) -> str | None:
    """The pattern of LIKE that is the test; None if there is none."""
    if isinstance(test, LikeTest):
        return test.pattern
    if isinstance(test, Prefix):
        return f"{escaped(test.text)}%"
    if isinstance(test, Suffix):
        return f"%{escaped(test.text)}"
    return f"%{escaped(test.text)}%" if isinstance(test, Contains) else None
