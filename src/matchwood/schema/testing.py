"""The tests of an attribute, and which of them hold for a string.

A test is registered as a symbol of the hidden attribute `tests_of(name)`; its value in an event is the list of the codes of the
tests that hold, after `UNKNOWN_SYMBOL`, which says that the attribute is there. So a test is stored, compared and reclaimed like
a string, and a condition with a test is a condition on a list of codes for every structure.
"""

from __future__ import annotations

from threading import Lock

from matchwood.patterns import Tester, read_test
from matchwood.schema.symbols import Symbols

_LOCK = Lock()


class SymbolTester:
    """Finds the codes of the tests, registered as symbols, that hold for a text. Follows the symbols. Any number of threads."""

    __slots__ = ("_forgotten", "_seen", "_symbols", "_tester")

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._tester = Tester()
        self._seen = 0
        self._forgotten = 0

    def codes(self, text: str) -> set[int]:
        """The codes of the tests that hold for the text."""
        symbols = self._symbols
        if self._seen != len(symbols) or self._forgotten != symbols.forgotten:
            self._follow()
        if self._tester.is_due:
            with _LOCK:
                self._tester.build()
        return self._tester.codes(text)

    def _follow(self) -> None:
        with _LOCK:
            symbols = self._symbols
            if self._forgotten != symbols.forgotten:
                self._forgotten = symbols.forgotten
                for code in [code for code in self._tester if symbols.text(code) is None]:
                    self._tester.remove(code)
            size = len(symbols)
            for code, text in symbols.known(self._seen, size):
                self._tester.add(code, read_test(text))
                self._seen = code + 1  # an exception in between repeats none
            self._seen = size

    def __reduce__(self) -> tuple[type[SymbolTester], tuple[Symbols]]:
        return SymbolTester, (self._symbols,)
