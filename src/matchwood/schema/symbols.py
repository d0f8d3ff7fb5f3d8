"""The dictionary of an attribute: strings and their codes.

A code is never given to another string, not even when its own has been forgotten, so arrays that were encoded before keep their
meaning. In a service that runs for years nearly all codes are of forgotten strings; these take no room, neither here nor in a
saved schema. Strings are kept by code in pages, and a page without strings is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from matchwood.errors import SchemaError

_BITS = 10
_PAGE = 1 << _BITS
_WITHIN = _PAGE - 1


class Symbols:
    """Strings (of an id, its digits) and their codes, 0, 1, 2, ... in order of appearance. Its length counts forgotten ones too.

    One writer. A code never changes, so a reader may look up while a writer appends.

    >>> symbols = Symbols()
    >>> symbols.code("a"), symbols.code("b"), symbols.code("a")
    (0, 1, 0)
    >>> symbols.forget([0])
    >>> symbols.text(0), symbols.text(1), symbols.code("a"), len(symbols)
    (None, 'b', 2, 3)
    """

    __slots__ = ("_pages", "_size", "codes", "forgotten")

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        """Of the strings that are known, ascending."""
        self.forgotten = 0
        """How often strings were forgotten."""
        self._pages: dict[int, list[str | None]] = {}
        self._size = 0

    def code(self, text: str) -> int:
        """The code of `text`, a new one if it has none. O(1)."""
        code = self.codes.get(text)
        if code is None:
            code = self._size
            self._put(code, text)
        return code

    def text(self, code: int) -> str | None:
        """The string of a code that was given; None if it has been forgotten. O(1)."""
        if not 0 <= code < self._size:
            raise IndexError(f"no string has had the code {code}")
        page = self._pages.get(code >> _BITS, ())
        return page[code & _WITHIN] if code & _WITHIN < len(page) else None

    def known(self, begin: int, end: int) -> Iterator[tuple[int, str]]:
        """The known strings with codes begin ... end - 1, ascending, with their codes. O(pages that have strings + these)."""
        numbers: Sequence[int] = range(begin >> _BITS, (end >> _BITS) + 1)
        if len(self._pages) < len(numbers):
            numbers = sorted([number for number in list(self._pages) if number in numbers])
        for number in numbers:
            first = number << _BITS
            skipped = max(begin - first, 0)
            for code, text in enumerate(self._pages.get(number, [])[skipped : end - first], first + skipped):
                if text is not None:
                    yield code, text

    def forget(self, codes: Iterable[int]) -> None:
        """Forget the strings of these codes. O(codes)."""
        self.forgotten += 1
        touched = set()
        for code in codes:
            text = self.text(code)
            if text is not None:
                del self.codes[text]
                self._pages[code >> _BITS][code & _WITHIN] = None
                touched.add(code >> _BITS)
        for number in touched:
            page = self._pages[number]
            if page.count(None) == len(page):
                del self._pages[number]

    def to_json(self) -> list[str] | dict[str, Any]:
        """The strings by code; if some are forgotten, the known ones with their codes. O(known strings)."""
        if len(self.codes) == self._size:
            return list(self.codes)
        return {"size": self._size, "codes": list(self.codes.values()), "texts": list(self.codes)}

    @classmethod
    def from_json(cls, saved: Sequence[str | None] | Mapping[str, Any]) -> Symbols:
        """What `to_json` wrote, or a list with None for forgotten strings. Raises `SchemaError` if it contradicts itself."""
        if isinstance(saved, Mapping):
            size, pairs = int(saved["size"]), list(zip(saved["codes"], saved["texts"], strict=True))
        else:
            size, pairs = len(saved), [(code, text) for code, text in enumerate(saved) if text is not None]
        symbols = cls()
        for code, text in pairs:
            if not symbols._size <= code < size:
                raise SchemaError(f"the code {code} of {str(text)[:80]!r} is out of order")
            symbols._put(int(code), str(text))
        if len(symbols.codes) != len(pairs):
            raise SchemaError("a symbol is listed twice")
        symbols._size = size
        return symbols

    def _put(self, code: int, text: str) -> None:
        """A string with a code above all others; it can be found by its code before it can be found by itself."""
        page = self._pages.get(code >> _BITS)
        if page is None:
            self._pages[code >> _BITS] = [None] * (code & _WITHIN) + [text]
        else:
            page.extend([None] * ((code & _WITHIN) - len(page)) + [text])
        self._size = code + 1
        self.codes[text] = code

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbols) and self._size == other._size and self.codes == other.codes

    __hash__ = None  # type: ignore[assignment]
