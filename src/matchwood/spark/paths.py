"""Paths: where a lake may lie, and how paths are written for Spark.

Python opens a lake's files itself, on the driver and in workers, so a lake is a folder that they see: a path, or a `file:` URI.
Spark takes the same text otherwise: without a scheme it means the cluster's default file system, and `[`, `{`, `*`, `?` and `\\`
make it a pattern. Paths of a lake are therefore given to Spark with a scheme, and escaped where it reads.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from matchwood.errors import UnsupportedError
from matchwood.store.locations import URI, local_path

_PATTERN = re.compile(r"[\\\[\]{}*?]")


def written_by_spark(path: Path) -> str:
    """An absolute path for Spark's writers, which take every character as it is."""
    return f"file://{path}"


def read_by_spark(path: Path) -> str:
    """An absolute path for Spark's readers, none of its characters a pattern.

    >>> read_by_spark(Path("/data/[a]"))
    'file:///data/\\\\[a\\\\]'
    """
    return _PATTERN.sub(r"\\\g<0>", written_by_spark(path))


def raw_input(place: str | os.PathLike[str]) -> str:
    """Raw data for Spark's readers: what has exactly this name, or else what Spark makes of it, a pattern or any URI."""
    text = os.fspath(place)
    scheme = URI.match(text)
    if scheme is not None and scheme[1].lower() == "file":
        path = local_path(text, "input")
        return read_by_spark(path) if path.exists() else text
    if scheme is not None and isinstance(place, Path):
        raise UnsupportedError(f"input: {text!r} is a URI that pathlib has cut; give it as a string")
    if scheme is None and _PATTERN.search(text) and os.path.exists(text):
        return _PATTERN.sub(r"\\\g<0>", text)
    return text
