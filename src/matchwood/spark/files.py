"""Local files that appear whole or not at all, also when several writers compete for one name."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

from matchwood.errors import StorageError

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What a file system answers that has no hard links."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file, replacing the one that is there."""
    _draft(path, content).rename(path)


def create_exclusively(path: Path, content: bytes) -> bool:
    """Write a new file; False if it exists already. Exactly one of several writers gets True.

    Where there are no hard links the file is created under its name and then filled, in one write.
    """
    draft = _draft(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        # A network file system may link the file, lose the reply and repeat the request.
        return os.path.samefile(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise StorageError(f"{path}: cannot be created: {error}") from None
        return _create_in_place(path, content)
    finally:
        draft.unlink()
    return True


def _create_in_place(path: Path, content: bytes) -> bool:
    try:
        with path.open("xb", buffering=0) as file:
            file.write(content)
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True


def _draft(path: Path, content: bytes) -> Path:
    """The content in a temporary file beside `path`, flushed to disk."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return draft
