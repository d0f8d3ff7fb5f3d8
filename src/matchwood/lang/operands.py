"""Names, functions of names, constants and weights: what conditions are made of, read from tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from matchwood.lang import template as read
from matchwood.lang.cursor import Cursor
from matchwood.lang.operators import Operator, Quantifier, opposite
from matchwood.lang.template import Step
from matchwood.lang.tokens import Token
from matchwood.lang.written import KEYWORDS
from matchwood.schema.functions import FUNCTIONS, derived_name, function_of

COMPARISONS = {"==": Operator.EQ, "<>": Operator.NE, **{operator.value: operator for operator in Operator}}
QUANTIFIERS = {quantifier.upper(): quantifier for quantifier in Quantifier}
_FIXED_VALUES = {"TRUE": True, "FALSE": False, "INF": math.inf, "+INF": math.inf, "-INF": -math.inf}


class Condition(NamedTuple):
    """What makes a predicate: a step of the template, and the values that it uses, by index."""

    step: Step
    attribute: int
    weight: int
    form: str = ""
    """The operator, BETWEEN, IN or CIRCLE, if the condition consists of that and `values`."""
    values: tuple[int, ...] = ()
    negated: bool = False
    """Does a NOT go around the predicate?"""
    depth: int = 1
    """Levels of the tree that the step makes: more than one if it is not a single predicate."""


class Operands(Cursor):
    """Reads the operands of conditions."""

    def subject(self) -> tuple[int, Quantifier | None]:
        """The attribute of a condition, and its quantifier."""
        if not self.begins_call(QUANTIFIERS):
            return self.attribute(), None
        quantifier = QUANTIFIERS[self.token.upper]
        self.at += 2
        attribute = self.attribute()
        self.expect(")", f"after the name in {quantifier.upper()}")
        return attribute, quantifier

    def list_of_values(self, before: str, where: str) -> tuple[list[int], bool]:
        """The values of a list in parentheses; or the one constant that is the list as a whole, and True."""
        if self.token.kind == "l":
            self.at += 1
            return [self.tokens[self.at - 1].slot], True
        self.expect("(", before)
        if self.token.text == ")":
            raise self.problem(f"expected at least one value {where}")
        members = [self.value()]
        while self.takes(","):
            members.append(self.value())
        self.expect(")", f"or , {where}")
        return members, False

    def attribute(self) -> int:
        """A name, or functions of a name: the index of the attribute."""
        if not self.begins_call(FUNCTIONS):
            return self.plain_attribute()
        function = self.token.upper
        self.at += 2
        attribute, argument = self.attribute(), None
        if self.takes(","):
            argument = self.argument_of(function)
        self.expect(")", f"after the name in {function}")
        if argument is None:
            return self.converted(attribute, partial(derived_name, function))
        index = self.constant(None)
        self.computed.append((index, lambda values: derived_name(function, values[attribute], values[argument])))
        return index

    def argument_of(self, function: str) -> int:
        """The second argument of a function of an attribute: another attribute for AGE, a string for others."""
        if function == "AGE":
            return self.plain_attribute()
        token = self.token
        if token.kind != "s":
            raise self.problem(f"expected a string in single quotes as the second argument of {function}, got {token}")
        self.at += 1
        return token.slot

    def converted(self, index: int, function: Callable[[Any], Any]) -> int:
        """The index of a value with a function applied to it."""
        if index >= len(self.converters):
            return self.constant(function(self.fixed[index - len(self.converters)]))
        convert = self.converters[index]
        self.converters[index] = lambda text: function(convert(text))
        return index

    def plain_attribute(self) -> int:
        token = self.token
        if token.kind == "q":
            self.at += 1
            return token.slot
        if token.kind == "w" and token.upper not in KEYWORDS:
            if self.is_called():
                raise self.problem(f"functions are not supported, got {token.text}(...); compare the attribute itself")
            self.at += 1
            return self.constant(token.text)
        remedy = f'; a name that is a keyword needs double quotes: "{token.text}"' if token.kind == "w" else ""
        if token.text == "(":
            remedy = f"; {_NESTED}"
        elif token.kind in "ns":
            remedy = "; a condition compares an attribute with a constant, not two constants"
        raise self.problem(f"expected the name of an attribute, got {token}{remedy}")

    def begins_value(self) -> bool:
        token = self.token
        called = token.upper in ("TIMESTAMP", "DATE") and self.tokens[self.at + 1].text == "("
        return token.kind in "ns" or token.upper in _FIXED_VALUES or called or self.begins_folded()

    def begins_folded(self) -> bool:
        """Is it a function of a constant, such as CASEI('a')?"""
        at = self.at
        while self.tokens[at].upper in FUNCTIONS and self.tokens[at + 1].text == "(":
            at += 2
        return at > self.at and self.tokens[at].kind == "s"

    def folded(self) -> int:
        """A function of a constant: the constant with the function applied to it."""
        name = self.token.upper
        function = function_of(name)
        if not function.folds_constants:
            raise self.problem(f"{name} of a constant is not supported; write its result")
        self.at += 2
        value = self.value()
        self.expect(")", f"after the constant in {name}")
        return self.converted(value, function.call)

    def value(self) -> int:
        token = self.token
        if not self.begins_value():
            if token.kind == "w" and token.upper not in KEYWORDS and self.is_called():
                raise self.problem(f"functions are not supported, got {token.text}(...); write a constant")
            raise self.problem(_why_no_value(token))
        if self.begins_folded():
            return self.folded()
        if self.calls("TIMESTAMP", "DATE"):
            return self.text_of_instant(read.timestamp if token.upper == "TIMESTAMP" else read.midnight)
        self.at += 1
        return token.slot if token.kind in "ns" else self.constant(_FIXED_VALUES[token.upper])

    def text_of_instant(self, convert: Callable[[str], datetime]) -> int:
        token = self.token
        if token.kind != "s":
            raise self.problem(f"expected a timestamp in single quotes, '2026-01-31T12:00:00Z', got {token}")
        self.at += 1
        self.expect(")", "after the timestamp")
        self.converters[token.slot] = convert
        return token.slot

    def number(self, convert: Callable[[str], float], what: str) -> int:
        token = self.token
        if token.kind != "n":
            raise self.problem(f"expected {what}, got {token}")
        self.at += 1
        self.converters[token.slot] = convert
        return token.slot

    def weight(self) -> int:
        return self.number(read.weight, "a weight such as ^0.4") if self.takes("^") else self.constant(1.0)

    def comparison(self, expected: str) -> Operator:
        operator = COMPARISONS.get(self.token.text)
        if operator is None:
            raise self.problem(f"{expected}, got {self.token}")
        self.at += 1
        return operator


def moved_out(negated: bool, quantifier: Quantifier | None) -> tuple[bool, bool, Quantifier | None]:
    """(Does a NOT go around the predicate?, is it negated itself?, its quantifier), of a condition with NOT and a quantifier."""
    if quantifier is None or not negated:
        return False, negated, quantifier
    return True, False, opposite(quantifier)


_NESTED = "arithmetic is not supported, nor is a comparison with another attribute or a condition"


def unsupported(token: Token) -> str:
    """What to say about a token that other languages allow after an operand."""
    if token.kind == "n" or token.upper in ("DIV", "MOD", "^"):
        return "; arithmetic is not supported"
    if token.upper in ("ILIKE", "RLIKE", "REGEXP", "SIMILAR", "CONTAINS", "STARTSWITH"):
        return "; write CASEI(x) LIKE 'a%', STARTS_WITH(x, 'a'), ENDS_WITH, CONTAINS or REGEX(x, '^a')"
    return ""


def _why_no_value(token: Token) -> str:
    if token.upper == "NULL":
        return "NULL is not a value; write IS NULL or IS NOT NULL"
    if token.kind == "q":
        return "expected a value, got a quoted name; double quotes are for attributes, write a string in single quotes"
    if token.kind == "w" and token.upper not in KEYWORDS:
        string = f"write a string in single quotes, '{token.text}'"
        return f"expected a value, got the name {token}; {string}; comparing two attributes is not supported"
    if token.text == "(":
        return f"expected a value, got {token}; {_NESTED}"
    return f"expected a value (a number, a 'string', TRUE, FALSE, TIMESTAMP('...')), got {token}"
