"""Regular expressions that are matched in time linear in the text, by RE2.

RE2 is the extra `regex`. A pattern may match anywhere in the text; `^` and `$` anchor it. The syntax is that of RE2: no
backreferences and no look-around.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from matchwood.errors import ExpressionError, MissingExtraError

MAX_LENGTH = 1_000
"""Characters of a regular expression, at most."""
_MEMORY = 1 << 20
"""Bytes that RE2 may use for one expression; one that needs more is refused."""


@lru_cache(4096)
def compiled(pattern: str) -> Any:
    """The pattern, compiled; `ExpressionError` if it is not one, or too large."""
    if len(pattern) > MAX_LENGTH:
        raise ExpressionError(
            f"a regular expression has at most {MAX_LENGTH:,} characters, got {len(pattern):,}; use a shorter one"
        )
    try:
        import re2
    except ImportError:
        raise MissingExtraError("REGEX needs RE2; install it with pip install 'matchwood[regex]'") from None
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _MEMORY, False, True
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ExpressionError(f"the regular expression {pattern[:80]!r} is refused by RE2: {shown}") from None


def finds(pattern: str, text: str) -> bool:
    """Does the pattern match somewhere in the text? O(length). Text that has no UTF-8 (lone surrogates) matches nothing."""
    try:
        return compiled(pattern).search(text) is not None
    except UnicodeError:
        return False


def needed_literal(pattern: str) -> str:
    """A text that every match contains, the longest that a simple look finds; empty if it finds none.

    Only characters at the top level count: outside of groups, classes and escapes, and not repeated zero times.
    """
    if "(?" in pattern or "|" in pattern or "\\Q" in pattern:
        return ""
    runs, run, depth, at = [], "", 0, 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            escape = pattern[at + 1 : at + 2]
            literal = escape if escape and not escape.isalnum() and escape.isascii() else None
            if literal is None:
                break  # an escape of several characters, perhaps: what comes after is not looked at
            at += 2
        elif sign == "[":
            closing = pattern.find("]", at + (3 if pattern[at + 1 : at + 2] == "^" else 2))
            if closing < 0 or "[" in pattern[at + 1 : closing] or "\\" in pattern[at + 1 : closing]:
                break
            literal, at = None, closing + 1
        elif sign in "()":
            depth += 1 if sign == "(" else -1
            literal, at = None, at + 1
        else:
            literal, at = (None if sign in ".^$*+?{}" else sign), at + 1
            if sign == "{":
                closing = pattern.find("}", at)
                at = len(pattern) if closing < 0 else closing + 1
        if literal is None or depth > 0:
            runs.append(run)
            run = ""
            continue
        if pattern[at : at + 1] in ("*", "?", "{"):
            runs.append(run)
            run = ""
        else:
            run += literal
            if pattern[at : at + 1] == "+":
                runs.append(run)
                run = ""
    return max([*runs, run], key=len)
