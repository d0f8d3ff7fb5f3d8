"""Where saved folders may be: at paths and `file:` URIs. Any other URI is refused; as a path it would name a local folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from matchwood.errors import UnsupportedError

URI = re.compile(r"([a-z][a-z0-9+.-]+):/", re.IGNORECASE)  # one slash: `pathlib` drops the second
_FILE = re.compile(r"file:(?://([^/]*))?(/.*)", re.IGNORECASE | re.DOTALL)


def local_path(place: str | os.PathLike[str], what: str) -> Path:
    """The folder or file that a path or a `file:` URI names, absolute; any other URI is refused.

    >>> local_path("file:///data/lake%201", "lake").as_posix()
    '/data/lake 1'
    >>> local_path("s3a://bucket/lake", "lake")
    Traceback (most recent call last):
    ...
    matchwood.errors.UnsupportedError: lake: expected a path or a file: URI, got the scheme 's3a' of 's3a://bucket/lake'; \
use a folder, on a mounted file system if several machines need it
    """
    text = os.fspath(place)
    scheme = URI.match(text)
    if scheme is None:
        return Path(text).absolute()
    remedy = "use a folder, on a mounted file system if several machines need it"
    if scheme[1].lower() != "file":
        raise UnsupportedError(
            f"{what}: expected a path or a file: URI, got the scheme {scheme[1]!r} of {text!r}; {remedy}"
        )
    found = _FILE.match(text)
    assert found is not None
    host, path = found.groups()
    if host and host.lower() != "localhost":
        raise UnsupportedError(f"{what}: expected a file of this machine, got the host {host!r} of {text!r}; {remedy}")
    return Path(unquote(path))
