"""Paths of input, as Spark needs them.

Without a scheme a path refers to the default file system of the cluster, and `[`, `{`, `*`, `?` and `\\` make it a pattern.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from matchwood.errors import UnsupportedError
from matchwood.store.locations import URI, local_path

_PATTERN = re.compile(r"[\\\[\]{}*?]")


def escaped(uri: str) -> str:
    """A URI for Spark's readers, with the characters of patterns escaped.

    >>> escaped("file:///data/[a]")
    'file:///data/\\\\[a\\\\]'
    """
    return _PATTERN.sub(r"\\\g<0>", uri)


def raw_input(place: str | os.PathLike[str]) -> str:
    """A path for Spark's readers: the file or folder of exactly this name if it exists, else a pattern or any URI."""
    text = os.fspath(place)
    scheme = URI.match(text)
    if scheme is not None and scheme[1].lower() == "file":
        path = local_path(text, "input")
        return escaped(f"file://{path}") if path.exists() else text
    if scheme is not None and isinstance(place, Path):
        raise UnsupportedError(f"input: {text!r} is a URI that pathlib has changed; pass it as a string")
    if scheme is None and _PATTERN.search(text) and os.path.exists(text):
        return escaped(text)
    return text
