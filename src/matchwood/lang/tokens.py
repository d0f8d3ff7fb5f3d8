"""Tokens: the words and operators of a shape, with its constants between them."""

from __future__ import annotations

import re
from typing import NamedTuple

from matchwood.lang.template import Place, PlacedError
from matchwood.lang.written import PLAIN_NAME

_TOKENS = re.compile(rf"\s*(?:({PLAIN_NAME})|([<>=!]=|<>|[<>=(),^]|[+-]inf(?![\w.:])))", re.ASCII | re.IGNORECASE)
_SPACE = re.compile(r"\s*", re.ASCII)

_KIND_NAMES = {
    "n": "a number",
    "s": "a string",
    "q": "a quoted name",
    "l": "a list of values",
    "end": "the end of the text",
}
_NO_TOKEN = {
    "'": "this string is never closed; end it with ' (a quote inside is written '')",
    '"': 'this name is never closed; end it with " (a quote inside is written "")',
    "&": "unexpected '&'; write AND",
    "|": "unexpected '|'; write OR",
    "!": "unexpected '!'; write NOT, or != for unequal",
    "~": "unexpected '~'; write NOT",
    **{
        sign: f"unexpected {sign!r}; arithmetic is not supported, and a name with it needs double quotes"
        for sign in "+-*/%"
    },
    **dict.fromkeys(
        "\u2018\u2019\u201c\u201d`", "unexpected quote; write a string in straight single quotes, 'like this'"
    ),
}


class Token(NamedTuple):
    """`kind` is w(ord), o(perator), n(umber), s(tring), q(uoted name), l(ist) or end; `slot` numbers the constants."""

    kind: str
    text: str
    upper: str
    place: Place
    slot: int = -1

    def __str__(self) -> str:
        return _KIND_NAMES.get(self.kind) or repr(self.text)


def tokens_of(shape: tuple[str, ...]) -> list[Token]:
    """The tokens of a shape, with one for its end; `PlacedError` at a character that begins none. O(length)."""
    kinds, *pieces = shape
    tokens: list[Token] = []
    for index, piece in enumerate(pieces):
        offset = 0
        while match := _TOKENS.match(piece, offset):
            group = match.lastindex or 1
            text = match[group]
            tokens.append(Token("wo"[group - 1], text, text.upper(), (2 * index, match.start(group))))
            offset = match.end()
        space = _SPACE.match(piece, offset)
        offset = space.end() if space else offset
        if offset < len(piece):
            stray = piece[offset]
            message = _NO_TOKEN.get(
                stray, f"unexpected {stray!r} (U+{ord(stray):04X}); a name with it needs double quotes"
            )
            raise PlacedError(message, (2 * index, offset))
        if index < len(kinds):
            tokens.append(Token(kinds[index], "", "", (2 * index + 1, 0), index))
    tokens.append(Token("end", "", "", (2 * len(pieces) - 2, len(pieces[-1]))))
    return tokens
