"""Orders of strings: by code points, and of version numbers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

TEXT = "text"
VERSION = "version"

_VERSION = re.compile(r"[vV]?([0-9]+(?:\.[0-9A-Za-z]+)*)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?", re.ASCII)
_LONGEST = 256


def order_key(order: str, text: str) -> Any:
    """What texts of an order are compared by; None if the text has no place in it.

    >>> order_key(VERSION, "1.10") > order_key(VERSION, "1.9.3")
    True
    """
    return text if order == TEXT else _version_key(text)


@lru_cache(4096)
def _version_key(text: str) -> tuple[Any, ...] | None:
    """The precedence of a version as in Semantic Versioning: numbers by size, a pre-release before its release.

    Any number of parts is allowed, missing ones are 0, a leading v and what follows a + are ignored.
    """
    match = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    parts = [_part(part) for part in match[1].split(".")]
    while parts and parts[-1] == (0, 0, ""):
        parts.pop()
    before = tuple([_part(part) for part in match[2].split(".")]) if match[2] else ((2, 0, ""),)
    return (*parts, (-1, 0, "")), before


def _part(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdigit() else (1, 0, part)
