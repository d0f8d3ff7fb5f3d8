"""Tester: which of many tests hold for a text.

Tests are found through their accesses, each in a table of its own:

    is          by the literal
    prefix      by the literal; the first `GRAM` characters of a text tell which lengths to look up. Likewise suffix.
    contains    see `contained`
    network     by the version and the bits of the prefix, for each length in use
    order       sorted; those before or after the text hold
    always      every test is asked

A test whose access says less than the test itself is then asked. Insert and remove cost O(length of the literals).

One writer; readers need no lock. A list in a table only grows, and one that loses a test is replaced by another, so a reader
sees it before or after the change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from matchwood.patterns.contained import GRAM, Contained, Entry
from matchwood.patterns.networks import prefix_of, read_address
from matchwood.patterns.orders import order_key
from matchwood.patterns.tests import ALWAYS, CONTAINS, IS, NETWORK, ORDER, PREFIX, SUFFIX, Access, Test

_Table = dict[Any, list[Entry]]


class Tester:
    """The tests of one attribute by code.

    >>> from matchwood.patterns.tests import Contains, Prefix
    >>> tester = Tester()
    >>> tester.add(0, Prefix("ab"))
    >>> tester.add(1, Contains("longer"))
    >>> tester.codes("abc"), tester.codes("no longer")
    ({0}, {1})
    """

    __test__ = False  # no test of pytest

    def __init__(self) -> None:
        self._tables: dict[tuple[Any, ...], _Table] = {}  # by kind and length
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._ordered: dict[tuple[str, str], list[tuple[Any, int, Callable[[str], bool] | None]]] = {}
        self._always: dict[int, Callable[[str], bool]] = {}
        self._places: dict[int, list[tuple[tuple[Any, ...], Any]]] = {}
        self._contained = Contained()
        self._lookups: tuple[tuple[str, Any, _Table], ...] = ()
        # The lengths of the prefixes (suffixes) that begin with (end in) GRAM characters, and how many have each.
        self._lengths: dict[str, dict[str, Counter[int]]] = {PREFIX: {}, SUFFIX: {}}

    def __len__(self) -> int:
        """The number of tests."""
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        """The codes of the tests."""
        return iter(list(self._places))

    def add(self, code: int, test: Test) -> None:
        """Add a test under a code that is free."""
        places = [self._place(access) for access in dict.fromkeys(test.accesses())]
        self._places[code] = places
        for access, (table, key) in zip(dict.fromkeys(test.accesses()), places, strict=True):
            asked = None if access.certain else test.holds
            if access.kind == ALWAYS:
                self._always = {**self._always, code: test.holds}  # a reader may be going through the old one
            elif table[0] == CONTAINS:
                self._contained.add(key, (code, asked))
            elif access.kind == ORDER:
                insort(self._ordered.setdefault(table, []), (key, code, asked), key=lambda entry: entry[0])
            else:
                self._tables.setdefault(table, {}).setdefault(key, []).append((code, asked))
                self._counts[table] += 1
                if self._counts[table] == 1:
                    self._list_tables()
                if table[0] in self._lengths and len(key) >= GRAM:
                    lengths = self._lengths[table[0]]
                    head = _head(table[0], key)
                    lengths[head] = lengths.get(head, Counter()) + Counter([len(key)])

    def remove(self, code: int) -> None:
        """Remove the test of a code."""
        for table, key in self._places.pop(code):
            if table[0] == ALWAYS:
                self._always = {other: asked for other, asked in self._always.items() if other != code}
            elif table[0] == CONTAINS:
                self._contained.remove(key, code)
            elif table in self._ordered:
                self._ordered[table] = [entry for entry in self._ordered[table] if entry[1] != code]
            else:
                left = [entry for entry in self._tables[table][key] if entry[0] != code]
                if left:
                    self._tables[table][key] = left
                else:
                    del self._tables[table][key]
                if table[0] in self._lengths and len(key) >= GRAM:
                    lengths, head = self._lengths[table[0]], _head(table[0], key)
                    lengths[head] = lengths[head] - Counter([len(key)])
                    if not lengths[head]:
                        del lengths[head]
                self._counts[table] -= 1
                if not self._counts[table]:
                    del self._tables[table], self._counts[table]
                    self._list_tables()

    @property
    def is_due(self) -> bool:
        """Is it time for `build`?"""
        return self._contained.is_due

    def build(self) -> None:
        """Make what is looked up often faster. A writer's call; it changes no answer."""
        self._contained.build()

    def codes(self, text: str) -> set[int]:
        """The codes of the tests that hold for the text. O(length of the text x lengths in use + tests that are asked)."""
        found: set[int] = set()
        size = len(text)
        tables = self._tables
        for length in self._lengths[PREFIX].get(text[:GRAM], ()):
            _take(tables.get((PREFIX, length), {}).get(text[:length]), text, found)
        for length in self._lengths[SUFFIX].get(text[-GRAM:], ()):
            _take(tables.get((SUFFIX, length), {}).get(text[-length:]), text, found)
        for entries in self._contained.found(text):
            _take(entries, text, found)
        address: Any = False  # not read yet
        for kind, length, table in self._lookups:
            if kind == PREFIX:
                if length <= size:
                    _take(table.get(text[:length]), text, found)
            elif kind == SUFFIX:
                if length <= size:
                    _take(table.get(text[size - length :]), text, found)
            elif kind == IS:
                _take(table.get(text), text, found)
            else:
                address = read_address(text) if address is False else address
                if address is not None and address[0] == length[0]:
                    _take(table.get(prefix_of(address[0], address[1], length[1])), text, found)
        for (order, comparison), thresholds in list(self._ordered.items()):
            key = order_key(order, text)
            for _, code, asked in () if key is None else _beyond(thresholds, comparison, key):
                if asked is None or asked(text):
                    found.add(code)
        for code, holds in self._always.items():
            if holds(text):
                found.add(code)
        return found

    def _place(self, access: Access) -> tuple[tuple[Any, ...], Any]:
        """The table of an access, and its key there."""
        kind, literal = access.kind, access.literal
        if kind == CONTAINS:
            return ((CONTAINS, 0), literal) if literal else ((PREFIX, 0), "")
        if kind == NETWORK:
            return (NETWORK, (literal.version, literal.length)), literal.prefix
        if kind == ORDER:
            order, comparison, text = literal
            return (order, comparison), order_key(order, text)
        return (kind, len(literal) if kind in (PREFIX, SUFFIX) else 0), literal

    def _list_tables(self) -> None:
        listed = [(kind, length, table) for (kind, length), table in self._tables.items()]
        self._lookups = tuple([found for found in listed if found[0] not in self._lengths or found[1] < GRAM])


def _head(kind: str, literal: str) -> str:
    return literal[:GRAM] if kind == PREFIX else literal[-GRAM:]


def _take(entries: list[Entry] | None, text: str, found: set[int]) -> None:
    for code, asked in entries or ():
        if asked is None or asked(text):
            found.add(code)


def _beyond(entries: list[Any], comparison: str, key: Any) -> list[Any]:
    """The entries whose key the given one is before or after."""
    if comparison == "<":
        return entries[bisect_right(entries, key, key=_first) :]
    if comparison == "<=":
        return entries[bisect_left(entries, key, key=_first) :]
    if comparison == ">":
        return entries[: bisect_left(entries, key, key=_first)]
    return entries[: bisect_right(entries, key, key=_first)]


def _first(entry: tuple[Any, ...]) -> Any:
    return entry[0]
