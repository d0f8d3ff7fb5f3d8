"""Tests: yes-or-no questions about one text.

`holds` of each class is the definition; `tester.Tester` finds the tests that hold for a text among many. The *accesses* of a
test say how: a text for which it holds meets at least one of them. A test is registered in a schema as text, in JSON
(`written_test`), one for all tests that ask the same.
"""

from __future__ import annotations

import json
import operator
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from matchwood.errors import ExpressionError, SchemaError
from matchwood.patterns import networks, regex
from matchwood.patterns.like import LikeMatcher, canonical_like, read_like
from matchwood.patterns.networks import Net
from matchwood.patterns.orders import TEXT, VERSION, order_key

IS, PREFIX, SUFFIX, CONTAINS, NETWORK, ORDER, ALWAYS = (
    "is",
    "prefix",
    "suffix",
    "contains",
    "network",
    "order",
    "always",
)


class Access(NamedTuple):
    """A way to a test: texts that are, begin with, end in or contain `literal`, addresses in it, texts on one side of it."""

    kind: str
    literal: Any = ""
    certain: bool = False
    """Does the test hold for every text that meets the access?"""

    @property
    def strength(self) -> tuple[int, int]:
        """The stronger, the fewer texts meet it, likely."""
        if self.kind in (CONTAINS, PREFIX, SUFFIX):
            return 2, len(self.literal)
        return _STRENGTHS[self.kind], 0


_STRENGTHS = {ALWAYS: 0, ORDER: 1, NETWORK: 3, IS: 4}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Test:
    """A question about one text. Tests are immutable and compare by value."""

    __slots__ = ()
    __test__ = False  # no test of pytest

    @abstractmethod
    def holds(self, text: str) -> bool:
        """Does it hold for the text?"""

    @abstractmethod
    def accesses(self) -> tuple[Access, ...]:
        """A text for which the test holds meets one of these."""

    @abstractmethod
    def form(self) -> list[Any]:
        """For JSON: the name of the class, and its fields."""


@dataclass(frozen=True, slots=True)
class OneOf(Test):
    """The text is one of several, sorted."""

    texts: tuple[str, ...]

    def holds(self, text: str) -> bool:
        return text in self.texts

    def accesses(self) -> tuple[Access, ...]:
        return tuple([Access(IS, text, certain=True) for text in self.texts])

    def form(self) -> list[Any]:
        return ["is", *self.texts]


@dataclass(frozen=True, slots=True)
class Prefix(Test):
    """The text begins with another."""

    text: str

    def holds(self, text: str) -> bool:
        return text.startswith(self.text)

    def accesses(self) -> tuple[Access, ...]:
        return (Access(PREFIX, self.text, certain=True),)

    def form(self) -> list[Any]:
        return ["prefix", self.text]


@dataclass(frozen=True, slots=True)
class Suffix(Test):
    """The text ends in another."""

    text: str

    def holds(self, text: str) -> bool:
        return text.endswith(self.text)

    def accesses(self) -> tuple[Access, ...]:
        return (Access(SUFFIX, self.text, certain=True),)

    def form(self) -> list[Any]:
        return ["suffix", self.text]


@dataclass(frozen=True, slots=True)
class Contains(Test):
    """The text contains another."""

    text: str

    def holds(self, text: str) -> bool:
        return self.text in text

    def accesses(self) -> tuple[Access, ...]:
        return (Access(CONTAINS, self.text, certain=True),)

    def form(self) -> list[Any]:
        return ["contains", self.text]


@dataclass(frozen=True, slots=True)
class Like(Test):
    """The text is of a pattern of LIKE, in canonical form."""

    pattern: str

    def holds(self, text: str) -> bool:
        return _like_matcher(self.pattern).matches(text)

    def accesses(self) -> tuple[Access, ...]:
        pieces = read_like(self.pattern).pieces
        found = [Access(ALWAYS)]
        for number, literal in read_like(self.pattern).literals:
            at_start = number == 0 and pieces[0][: len(literal)] == tuple(literal)
            at_end = number == len(pieces) - 1 and pieces[-1][-len(literal) :] == tuple(literal)
            found.append(Access(PREFIX if at_start else SUFFIX if at_end else CONTAINS, literal))
        return (max(found, key=lambda access: access.strength),)

    def form(self) -> list[Any]:
        return ["like", self.pattern]


@lru_cache(65_536)
def _like_matcher(pattern: str) -> LikeMatcher:
    return LikeMatcher(pattern)


@dataclass(frozen=True, slots=True)
class Regex(Test):
    """A regular expression matches somewhere in the text."""

    pattern: str

    def holds(self, text: str) -> bool:
        return regex.finds(self.pattern, text)

    def accesses(self) -> tuple[Access, ...]:
        literal = regex.needed_literal(self.pattern)
        return (Access(CONTAINS, literal) if literal else Access(ALWAYS),)

    def form(self) -> list[Any]:
        return ["regex", self.pattern]


@dataclass(frozen=True, slots=True)
class Network(Test):
    """The text is an address of a network."""

    net: Net

    def holds(self, text: str) -> bool:
        return networks.is_in(self.net, text)

    def accesses(self) -> tuple[Access, ...]:
        return (Access(NETWORK, self.net, certain=True),)

    def form(self) -> list[Any]:
        return ["cidr", networks.written_network(self.net)]


@dataclass(frozen=True, slots=True)
class Ordered(Test):
    """The text is before or after another, in an order of strings."""

    order: str
    comparison: str
    text: str

    def holds(self, text: str) -> bool:
        key = order_key(self.order, text)
        return key is not None and _COMPARISONS[self.comparison](key, order_key(self.order, self.text))

    def accesses(self) -> tuple[Access, ...]:
        return (Access(ORDER, (self.order, self.comparison, self.text), certain=True),)

    def form(self) -> list[Any]:
        return ["order", self.order, self.comparison, self.text]


@dataclass(frozen=True, slots=True)
class Fails(Test):
    """Another test does not hold."""

    test: Test

    def holds(self, text: str) -> bool:
        return not self.test.holds(text)

    def accesses(self) -> tuple[Access, ...]:
        return (Access(ALWAYS),)

    def form(self) -> list[Any]:
        return ["not", self.test.form()]


@dataclass(frozen=True, slots=True)
class AllOf(Test):
    """Of each of several groups of tests, one holds."""

    clauses: tuple[tuple[Test, ...], ...]

    def holds(self, text: str) -> bool:
        return all(any(test.holds(text) for test in clause) for clause in self.clauses)

    def accesses(self) -> tuple[Access, ...]:
        """Those of the group whose weakest access is the strongest."""
        ways = [[access for test in clause for access in test.accesses()] for clause in self.clauses]
        best = max(ways, key=lambda accesses: min(access.strength for access in accesses))
        return tuple([access._replace(certain=False) for access in best])

    def form(self) -> list[Any]:
        return ["all", *[[test.form() for test in clause] for clause in self.clauses]]


@dataclass(frozen=True, slots=True)
class Elements(Test):
    """Of a list of objects, one or every element meets a condition, written in the language of subscriptions.

    It is a question about the whole list, which needs a schema: `lang.nested` answers it, `encode.elements` many at once.
    """

    quantifier: str
    """`any` or `all`."""
    condition: str

    def holds(self, text: str) -> bool:
        raise TypeError("a condition on elements is no test of a text")

    def accesses(self) -> tuple[Access, ...]:
        raise TypeError("a condition on elements is no test of a text")

    def form(self) -> list[Any]:
        return ["elements", self.quantifier, self.condition]


def like_test(pattern: str) -> Test:
    """The test of a LIKE pattern: the simplest that asks the same.

    >>> like_test("a%"), like_test("%a"), like_test("%a%"), like_test("a"), like_test("%")
    (Prefix(text='a'), Suffix(text='a'), Contains(text='a'), OneOf(texts=('a',)), Prefix(text=''))
    """
    pieces = read_like(pattern).pieces
    if any(sign is None for piece in pieces for sign in piece):
        return Like(canonical_like(pattern))
    texts = ["".join(sign or "" for sign in piece) for piece in pieces]
    if len(texts) == 1:
        return OneOf((texts[0],))
    if len(texts) == 2 and not (texts[0] and texts[1]):
        return Suffix(texts[1]) if texts[1] else Prefix(texts[0])
    if len(texts) == 3 and not texts[0] and not texts[2]:
        return Contains(texts[1])
    return Like(canonical_like(pattern))


def written_test(test: Test) -> str:
    """The test as text, the same for equal tests."""
    return json.dumps(test.form(), ensure_ascii=True, separators=(",", ":"))


@lru_cache(4096)
def read_test(text: str) -> Test:
    """The test that `written_test` wrote; `SchemaError` if it is none."""
    try:
        return _read(json.loads(text))
    except (ValueError, TypeError, LookupError, RecursionError, ExpressionError) as error:
        raise SchemaError(f"expected a test of strings, got {text[:80]!r}: {error}") from None


def _read(form: Any) -> Test:
    name, *arguments = form
    if name == "not":
        return Fails(_read(arguments[0]))
    if name == "all":
        return AllOf(tuple([tuple([_read(test) for test in clause]) for clause in arguments]))
    if not all(isinstance(argument, str) for argument in arguments):
        raise ValueError("an argument is no string")
    return _READERS[name](*arguments)


def _ordered(order: str, comparison: str, text: str) -> Ordered:
    if order not in (TEXT, VERSION) or comparison not in _COMPARISONS or order_key(order, text) is None:
        raise ValueError("there is no such order")
    return Ordered(order, comparison, text)


def _elements(quantifier: str, condition: str) -> Elements:
    if quantifier not in ("any", "all"):
        raise ValueError("there is no such quantifier")
    return Elements(quantifier, condition)


_READERS: dict[str, Callable[..., Test]] = {
    "is": lambda *texts: OneOf(texts),
    "prefix": Prefix,
    "suffix": Suffix,
    "contains": Contains,
    "like": lambda pattern: Like(canonical_like(pattern)),
    "regex": Regex,
    "cidr": lambda text: Network(networks.read_network(text)),
    "order": _ordered,
    "elements": _elements,
}
