"""Filters in CloudEvents SQL (CESQL v1) -> Expression, and back.

    type = 'order.created' AND (NOT EXISTS priority OR priority > 3)

An event whose evaluation meets an error does not pass a filter, and reading an attribute that the event lacks is an error. AND
and OR are evaluated from left to right and stop as soon as the result is known. So `a = 1 OR b = 2` passes an event with a = 1
without b, and refuses one with b = 2 and without a: the expression is `a = 1 OR a IS NOT NULL AND b = 2`.

Each part of a filter is read as two expressions: when it is true, and when it is known (true or false, without an error).
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from matchwood.convert.logic import conjunction, disjunction
from matchwood.convert.reading import MAX_LEVELS
from matchwood.errors import ConversionError, TooComplexError
from matchwood.lang.expression import And, Constant, Expression, Or, Predicate
from matchwood.lang.operators import Operator
from matchwood.lang.predicates import Compare, In, IsNull
from matchwood.lang.text_tests import Like
from matchwood.schema import Scalar, describe

REQUIRED = frozenset(("id", "source", "type", "specversion"))
"""Attributes that every CloudEvent has."""

MAX_PARTS = 2_000
"""Predicates of the result. Left-to-right evaluation repeats parts, so nested filters can grow."""

_TOKEN = re.compile(
    r"""\s*(?: (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
             | (?P<number>[0-9]+(?![A-Za-z0-9_]))
             | (?P<word>[A-Za-z0-9_]+)
             | (?P<sign><>|!=|<=|>=|[=<>(),*/%+-]) )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_COMPARISONS = {"=": Operator.EQ, "!=": Operator.NE, "<>": Operator.NE} | {
    o.value: o for o in (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
}
_NEGATIONS = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}
_KEYWORDS = frozenset("AND OR XOR NOT IN LIKE EXISTS TRUE FALSE".split())
_PARENTHESES = "its precedence differs between readers of CESQL; add parentheses"


def from_cesql(text: object) -> Expression:
    """The expression that holds for the events that pass the filter. O(length), times the nesting of AND and OR.

    >>> print(from_cesql("type = 'order' AND (EXISTS region AND region IN ('eu', 'us'))"))
    type = 'order' AND region IS NOT NULL AND region IN ('eu', 'us')
    >>> print(from_cesql("a = 1 OR b = 2"))
    a = 1 OR a IS NOT NULL AND b = 2
    >>> print(from_cesql("source LIKE '%/orders'"))
    source LIKE '%/orders'
    """
    if not isinstance(text, str):
        raise ConversionError(f"expected the text of a filter, got {describe(text)}")
    reader = _Reader(text)
    part = reader.expression(1)
    reader.expect_end()
    return part.true


class _Part(NamedTuple):
    """When a part of a filter is true, when it is false, and when it is one of them: known."""

    true: Expression
    false: Expression
    known: Expression


class _Word(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text


def _words(text: str) -> list[_Word]:
    words, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            at = len(text) - len(text[at:].lstrip())
            what = "this string is never closed" if text[at] in "'\"" else f"unexpected {text[at]!r}"
            raise ConversionError(f"position {at}: {what}")
        kind = found.lastgroup or ""
        words.append(_Word(kind, found[kind], found.start(kind)))
        at = found.end()
    return [*words, _Word("end", "", len(text))]


class _Reader:
    """Recursive descent over the words of a filter."""

    def __init__(self, text: str) -> None:
        self.words = _words(text)
        self.at = 0
        self.kinds: dict[str, type] = {}

    @property
    def word(self) -> _Word:
        return self.words[self.at]

    def refuse(self, message: str, word: _Word | None = None) -> NoReturn:
        raise ConversionError(f"position {(word or self.word).at}: {message}")

    def takes(self, upper: str) -> bool:
        found = self.word.upper == upper and self.word.kind != "string"
        self.at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            self.refuse(f"expected {sign}, got {self.shown()}")

    def shown(self) -> str:
        return "the end of the filter" if self.word.kind == "end" else repr(self.word.text)

    def expect_end(self) -> None:
        if self.word.kind != "end":
            self.refuse_operator()
            self.refuse(f"expected AND, OR or the end of the filter, got {self.shown()}")

    def refuse_operator(self) -> None:
        """Refuse an operator that has no counterpart, by its name."""
        if self.word.kind == "string":
            return
        if self.word.text in ("+", "-", "*", "/", "%"):
            self.refuse(f"{self.word.text}: arithmetic is not supported; compare attributes with constants")

    def expression(self, depth: int) -> _Part:
        """Parts joined by one kind of operator."""
        if depth > MAX_LEVELS:
            raise TooComplexError(f"the filter nests more than {MAX_LEVELS} levels deep; simplify it")
        part = self.operand(depth)
        joined = ""
        while self.word.upper in ("AND", "OR", "XOR") and self.word.kind == "word":
            if joined and self.word.upper != joined:
                self.refuse(f"{self.word.upper} after {joined}: {_PARENTHESES}")
            joined = self.word.upper
            self.at += 1
            part = _JOINED[joined](part, self.operand(depth))
            if _size(part.true) + _size(part.false) + _size(part.known) > MAX_PARTS:
                raise TooComplexError(f"the filter makes more than {MAX_PARTS:,} conditions; simplify it")
        return part

    def operand(self, depth: int) -> _Part:
        start = self.word
        negated = False
        while self.takes("NOT"):
            negated = not negated
        after_not = self.at > 0 and self.words[self.at - 1].upper == "NOT" and self.words[self.at - 1].kind == "word"
        part = self.primary(depth, after_not=after_not)
        self.refuse_operator()
        if self.word.text in _COMPARISONS or self.word.upper in ("IN", "NOT"):
            if after_not:
                self.refuse(f"NOT before {self.word.upper}: {_PARENTHESES}", start)
            self.refuse(f"{self.word.upper}: only an attribute is compared with a constant; write x = 1")
        return _Part(part.false, part.true, part.known) if negated else part

    def primary(self, depth: int, *, after_not: bool) -> _Part:
        word = self.word
        if self.takes("("):
            part = self.expression(depth + 1)
            self.expect(")")
            return part
        if word.kind == "word" and self.takes("EXISTS"):
            name = self.name()
            return _known(IsNull(name, negated=True), IsNull(name))
        if word.kind == "word" and word.upper not in _KEYWORDS:
            name = self.name()
            return self.truth(name, word) if after_not else self.condition(name, word)
        if (
            word.kind == "end"
            or (word.kind == "sign" and word.text not in "+-")
            or word.upper in _KEYWORDS - {"TRUE", "FALSE"}
        ):
            self.refuse(f"expected a condition, got {self.shown()}")
        value = self.value()
        if self.word.text in _COMPARISONS and self.word.kind == "sign":
            return self.mirrored(value, word)
        self.refuse_operator()
        if not isinstance(value, bool):
            self.refuse(f"expected a condition, got the constant {describe(value)}", word)
        return _known(Constant(value), Constant(not value))

    def name(self) -> str:
        word = self.word
        if word.kind not in ("word", "number") or word.upper in _KEYWORDS:
            self.refuse(f"expected the name of an attribute, got {self.shown()}")
        if self.words[self.at + 1].text == "(":
            self.refuse(f"{word.text}(...): functions are not supported; compare the attribute itself")
        self.at += 1
        return word.text

    def condition(self, name: str, word: _Word) -> _Part:
        self.refuse_operator()
        operator = _COMPARISONS.get(self.word.text) if self.word.kind == "sign" else None
        if operator is not None:
            self.at += 1
            return self.compared(name, operator, self.value(), word)
        negated = self.word.upper == "NOT" and self.words[self.at + 1].upper in ("IN", "LIKE")
        self.at += negated
        if self.takes("IN"):
            return self.listed(name, negated, word)
        if self.word.kind == "word" and self.takes("LIKE"):
            return self.like(name, negated, word)
        return self.truth(name, word)

    def truth(self, name: str, word: _Word) -> _Part:
        """A bare name: an attribute that is true or false."""
        return self.compared(name, Operator.EQ, True, word)

    def mirrored(self, value: Scalar, word: _Word) -> _Part:
        operator = _COMPARISONS[self.word.text].mirrored
        self.at += 1
        if self.word.kind != "word" or self.word.upper in _KEYWORDS:
            self.refuse(f"comparing two constants is not supported, got {self.shown()}; name an attribute on one side")
        return self.compared(self.name(), operator, value, word)

    def compared(self, name: str, operator: Operator, value: Scalar, word: _Word) -> _Part:
        self.check_kind(name, value, word)
        if operator not in (Operator.EQ, Operator.NE) and (isinstance(value, bool) or not isinstance(value, int)):
            self.refuse(f"{operator}: CESQL orders integers only, got {describe(value)}", word)
        true = Compare(name, operator=operator, value=value)
        return _of_attribute(name, true, Compare(name, operator=_NEGATIONS[operator], value=value))

    def listed(self, name: str, negated: bool, word: _Word) -> _Part:
        self.expect("(")
        values = [self.value()]
        while self.takes(","):
            values.append(self.value())
        self.expect(")")
        for value in values:
            self.check_kind(name, value, word)
        members = [In(name, values=tuple(values), negated=flag) for flag in (negated, not negated)]
        return _of_attribute(name, *members)

    def like(self, name: str, negated: bool, word: _Word) -> _Part:
        pattern = self.value()
        if not isinstance(pattern, str):
            self.refuse(f"LIKE: expected a pattern that is a string, got {describe(pattern)}", word)
        self.check_kind(name, pattern, word)
        # A backslash escapes % and _ only; elsewhere it stands for itself.
        ours = re.sub(r"\\(?![%_])", r"\\\\", pattern)
        return _of_attribute(name, *[Like(name, pattern=ours, negated=flag) for flag in (negated, not negated)])

    def check_kind(self, name: str, value: Scalar, word: _Word) -> None:
        known = self.kinds.setdefault(name, type(value))
        if known is not type(value):
            self.refuse(
                f"{name!r} is compared with values of two types, one is {describe(value)}; casts are not supported",
                word,
            )

    def value(self) -> Scalar:
        """A literal, with the sign of a number."""
        word = self.word
        sign = -1 if word.text == "-" and word.kind == "sign" else 1
        if word.kind == "sign" and word.text in "+-":
            self.at += 1
        elif word.kind == "string":
            self.at += 1
            return re.sub(r"\\(['\"\\])", r"\1", word.text[1:-1])
        elif word.kind == "word" and word.upper in ("TRUE", "FALSE"):
            self.at += 1
            return word.upper == "TRUE"
        if self.word.kind != "number":
            if self.word.kind == "word" and self.words[self.at + 1].text == "(":
                self.refuse(f"{self.word.text}(...): functions are not supported; write a constant")
            if self.word.kind == "word" and self.word.upper not in _KEYWORDS:
                self.refuse(f"comparing two attributes is not supported, got {self.shown()}; write a constant")
            self.refuse(f"expected a constant, got {self.shown()}")
        number = sign * int(self.word.text[:12])
        if not -(2**31) <= number < 2**31:
            self.refuse(f"an integer of CESQL has 32 bits, got {self.word.text}")
        self.at += 1
        self.refuse_operator()
        return number


def _known(true: Expression, false: Expression) -> _Part:
    return _Part(true, false, Constant(True))


def _of_attribute(name: str, true: Predicate, false: Predicate) -> _Part:
    known: Expression = Constant(True) if name in REQUIRED else IsNull(name, negated=True)
    return _Part(true, false, known)


def _and(left: _Part, right: _Part) -> _Part:
    return _Part(
        conjunction([left.true, right.true]),
        disjunction([left.false, _then(left.known, right.false)]),
        _then(left.known, disjunction([left.false, right.known])),
    )


def _or(left: _Part, right: _Part) -> _Part:
    return _Part(
        disjunction([left.true, _then(left.known, right.true)]),
        conjunction([left.false, right.false]),
        _then(left.known, disjunction([left.true, right.known])),
    )


def _xor(left: _Part, right: _Part) -> _Part:
    return _Part(
        disjunction([conjunction([left.true, right.false]), conjunction([left.false, right.true])]),
        disjunction([conjunction([left.true, right.true]), conjunction([left.false, right.false])]),
        conjunction([left.known, right.known]),
    )


_JOINED = {"AND": _and, "OR": _or, "XOR": _xor}


def _then(known: Expression, after: Expression) -> Expression:
    """`after`, where the part before it is known; tests for presence that `after` implies are left out."""
    tests = known.children if isinstance(known, And) else (known,)
    implied = _present(after)
    left = [test for test in tests if not (isinstance(test, IsNull) and test.negated and test.attribute in implied)]
    return conjunction([*left, after])


def _present(expression: Expression) -> frozenset[str]:
    """Attributes that every event has for which the expression holds."""
    if isinstance(expression, And):
        return frozenset().union(*map(_present, expression.children))
    if isinstance(expression, Or):
        return frozenset.intersection(*map(_present, expression.children))
    if isinstance(expression, IsNull) and not expression.negated:
        return frozenset()
    return frozenset((expression.attribute,)) if isinstance(expression, Predicate) else frozenset()


def _size(expression: Expression) -> int:
    return sum(map(_size, expression.children)) if isinstance(expression, (And, Or)) else 1
