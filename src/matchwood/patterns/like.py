r"""Patterns of LIKE: `%` stands for any text, `_` for any one character, and a backslash takes the next character as it is.

A pattern is matched piece by piece, each piece between two `%` at its first place: linear in the text for each piece, where a
regular expression would try again from every place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from matchwood.errors import ExpressionError

MAX_LENGTH = 4_096
"""Characters of a pattern, at most."""

_SPECIAL = frozenset("%_\\")


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A pattern that was read: its pieces between `%`. In a piece, None is any character."""

    pieces: tuple[tuple[str | None, ...], ...]

    @property
    def literals(self) -> list[tuple[int, str]]:
        """The longest text without `_` of each piece that has one, with the number of the piece."""
        found = []
        for number, piece in enumerate(self.pieces):
            runs = "".join("\0" if sign is None else "\1" for sign in piece)
            spans = [match.span() for match in re.finditer("\1+", runs)]
            if spans:
                start, stop = max(spans, key=lambda span: span[1] - span[0])
                found.append((number, "".join(sign or "" for sign in piece[start:stop])))
        return found


@lru_cache(4096)
def read_like(pattern: str) -> LikePattern:
    """The pieces of a pattern; `ExpressionError` if it is too long or ends in a backslash. O(length)."""
    if len(pattern) > MAX_LENGTH:
        raise ExpressionError(
            f"a pattern has at most {MAX_LENGTH:,} characters, got {len(pattern):,}; use a shorter one"
        )
    pieces: list[list[str | None]] = [[]]
    signs = iter(pattern)
    for sign in signs:
        if sign == "%":
            pieces.append([])
        elif sign == "_":
            pieces[-1].append(None)
        elif sign == "\\":
            following = next(signs, None)
            if following is None:
                raise ExpressionError(f"the pattern {pattern!r} ends in a backslash; write \\\\ for one")
            pieces[-1].append(following)
        else:
            pieces[-1].append(sign)
    kept = [piece for at, piece in enumerate(pieces) if piece or at in (0, len(pieces) - 1)]
    return LikePattern(tuple(map(tuple, kept)))


def escaped(text: str) -> str:
    """A text as a pattern that stands for itself."""
    return "".join([f"\\{sign}" if sign in _SPECIAL else sign for sign in text])


def canonical_like(pattern: str) -> str:
    """The pattern that all patterns of the same pieces share."""
    return written_like(read_like(pattern))


def written_like(pattern: LikePattern) -> str:
    """The pattern as text."""
    return "%".join(["".join(["_" if sign is None else escaped(sign) for sign in piece]) for piece in pattern.pieces])


class LikeMatcher:
    """Whether texts are of one pattern."""

    __slots__ = ("_first", "_last", "_least", "_middle", "_whole")

    def __init__(self, pattern: str) -> None:
        pieces = read_like(pattern).pieces
        self._whole = len(pieces) == 1
        self._first, self._last = _compiled(pieces[0]), _compiled(pieces[-1])
        self._middle = [_compiled(piece) for piece in pieces[1:-1]]
        self._least = sum(map(len, pieces))

    def matches(self, text: str) -> bool:
        """Is the text of the pattern? O(length) for each piece."""
        if len(text) < self._least:
            return False
        if self._whole:
            return self._first[1].fullmatch(text) is not None
        if self._first[1].match(text) is None:
            return False
        at, end = self._first[0], len(text) - self._last[0]
        if self._last[1].match(text, end) is None:
            return False
        for size, piece in self._middle:
            found = piece.search(text, at, end)
            if found is None:
                return False
            at = found.start() + size
        return at <= end


def _compiled(piece: tuple[str | None, ...]) -> tuple[int, re.Pattern[str]]:
    """A piece as a regular expression of fixed length, which cannot backtrack."""
    return len(piece), re.compile("".join(["." if sign is None else re.escape(sign) for sign in piece]), re.DOTALL)
