"""A position in the tokens of a shape, and the constants that a template is made of."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from matchwood.lang import template as read
from matchwood.lang.template import PlacedError
from matchwood.lang.tokens import Token, tokens_of


class Cursor:
    """Steps over tokens."""

    def __init__(self, shape: tuple[str, ...]) -> None:
        self.tokens = tokens_of(shape)
        self.at = 0
        self.converters = [read.CONVERTERS[kind] for kind in shape[0]]
        self.fixed: list[Any] = []
        self.computed: list[tuple[int, Callable[[list[Any]], Any]]] = []

    def constant(self, value: object) -> int:
        """The index of a value that the shape itself holds: these follow the constants of the text."""
        self.fixed.append(value)
        return len(self.converters) + len(self.fixed) - 1

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def ends_operand(self) -> bool:
        """Is the operand complete before this token?"""
        return self.token.kind == "end" or self.token.upper in ("AND", "OR", ")", "^")

    def takes(self, text: str) -> bool:
        """Step over the next token if it is the operator or keyword `text`."""
        found = self.token.upper == text
        self.at += found
        return found

    def is_called(self) -> bool:
        """Does a parenthesis follow this token?"""
        following = self.tokens[self.at + 1]
        return following.text == "(" or following.kind == "l"

    def begins_call(self, functions: Container[str]) -> bool:
        """Are the next two tokens one of `functions` and its parenthesis?"""
        return self.token.upper in functions and self.tokens[self.at + 1].text == "("

    def calls(self, *functions: str) -> bool:
        """Step over the next two tokens if they are one of `functions` and its parenthesis."""
        found = self.begins_call(functions)
        self.at += 2 * found
        return found

    def expect(self, text: str, where: str) -> None:
        if not self.takes(text):
            raise self.problem(f"expected {text} {where}, got {self.token}")

    def problem(self, message: str, token: Token | None = None) -> PlacedError:
        return PlacedError(message, (token or self.token).place)
