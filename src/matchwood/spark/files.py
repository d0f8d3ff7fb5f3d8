"""Files that appear whole or not at all, also when several writers compete for one name."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from matchwood.errors import StorageError


def write_atomically(path: Path, text: str) -> None:
    """Write a file, replacing the one that is there."""
    _draft(path, text).rename(path)


def create_exclusively(path: Path, text: str) -> bool:
    """Write a new file; False if it exists already. Exactly one of several writers gets True."""
    draft = _draft(path, text)
    try:
        os.link(draft, path)
    except FileExistsError:
        # A network file system may link the file, lose the reply and repeat the request.
        return os.path.samefile(draft, path)
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be created exclusively: {error}; keep the lake on a file system with hard links"
        ) from None
    finally:
        draft.unlink()
    return True


def _draft(path: Path, text: str) -> Path:
    """The text in a temporary file beside `path`, flushed to disk."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft
