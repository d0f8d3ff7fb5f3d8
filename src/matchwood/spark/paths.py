"""Paths of a lake, as Spark needs them.

Python opens the files of a lake itself, on the driver and in workers, so a lake is a local path or a `file:` URI. Spark
interprets the same text differently: without a scheme it refers to the default file system of the cluster, and `[`, `{`, `*`,
`?` and `\\` make it a pattern. So paths are passed to Spark with a scheme, and to its readers with these characters escaped.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from matchwood.errors import UnsupportedError
from matchwood.store.locations import URI, local_path

_PATTERN = re.compile(r"[\\\[\]{}*?]")


def written_by_spark(path: Path) -> str:
    """An absolute path for Spark's writers, which do not interpret patterns."""
    return f"file://{path}"


def read_by_spark(path: Path) -> str:
    """An absolute path for Spark's readers, with the characters of patterns escaped.

    >>> read_by_spark(Path("/data/[a]"))
    'file:///data/\\\\[a\\\\]'
    """
    return _PATTERN.sub(r"\\\g<0>", written_by_spark(path))


def raw_input(place: str | os.PathLike[str]) -> str:
    """A path for Spark's readers: the file or folder of exactly this name if it exists, else a pattern or any URI."""
    text = os.fspath(place)
    scheme = URI.match(text)
    if scheme is not None and scheme[1].lower() == "file":
        path = local_path(text, "input")
        return read_by_spark(path) if path.exists() else text
    if scheme is not None and isinstance(place, Path):
        raise UnsupportedError(f"input: {text!r} is a URI that pathlib has changed; pass it as a string")
    if scheme is None and _PATTERN.search(text) and os.path.exists(text):
        return _PATTERN.sub(r"\\\g<0>", text)
    return text
