"""Compiled kernels on disk: where they are kept, and when a kept one may be used.

    BASE/kernels-FINGERPRINT-numba0.68.1-py311[-boundscheck]/MODULE.FUNCTION-LINE.KEY.kernel

BASE is the first of these that can be written to: `NUMBA_CACHE_DIR`/matchwood, the user's cache folder/matchwood, and a
private folder in the temp folder. If none can, kernels are compiled anew in each process: slower, never an error.
What is not there may have come compiled with the package (`jit.prebuilt`).

Numba's own cache (`cache=True`) does not do here, for four reasons:

- it stamps a function with its own file only, so a changed helper in another file goes unnoticed (numba issue 1833). The
  FINGERPRINT is over the file that defines the kernel and all it imports, directly or not, out of the sources that kernels are
  made of: a change reaches those that can hold it, and leaves the other structures' kernels compiled;
- its key leaves out `NUMBA_BOUNDSCHECK` and other settings of the compiler; they are part of the folder's name;
- a function is not even defined where no folder can be written to: a read-only installation, a Spark worker;
- an index file maps signatures to numbered data files, and two processes that compile different signatures at once can
  take the same number, after which one loads the other's code. Here a file is named after its key, holds that key, and is
  put in place by one rename: there is nothing to race for, and a damaged file is a miss.

Only our functions are directed here: each dispatcher is given a `KernelCache` where `enable_caching` would have given it a
`FunctionCache`. Rejected: setting `numba.config.CACHE_DIR` or `NUMBA_CACHE_LOCATOR_CLASSES`, which would move the caches of
the user's own Numba code too, and a locator class alone, which cures the first three reasons but not the last.

Files are pickles, so a folder is as trusted as the code: the one in the temp folder must belong to this user alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import re
import shutil
import stat
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.errors import NumbaWarning
from numba.core.serialize import dumps

from matchwood.jit.prebuilt import prebuilt_places

PREFIX = "kernels-"
UNUSED_DAYS = 30
DAY = 86_400.0


class KernelCache(_Cache):
    """The compiled versions of one function. Numba calls it under its compiler lock; processes need no lock."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._fingerprint = _fingerprint_of(function)
        self._enabled = True
        name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}"
        self._name = name.replace("<", "").replace(">", "")

    @property
    def cache_path(self) -> str | None:
        """The folder, or None while nothing is kept on disk."""
        if not self._enabled or self._fingerprint is None:
            return None
        folder = cache_folder(self._fingerprint, str(config.CACHE_DIR), bool(config.BOUNDSCHECK))
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for this signature and processor, or None if it has to be compiled."""
        target_context.refresh()
        own = self._key(sig, target_context.codegen())
        for path, key in chain([(self._path(own), own)], self._prebuilt(own)):
            with contextlib.suppress(Exception):  # missing, or damaged: a truncated pickle can raise anything
                if path is not None:
                    kept_key, payload = pickle.loads(path.read_bytes())
                    if kept_key == key:
                        return CompileResult._rebuild(target_context, *payload)
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Keep the code; a full or vanished disk is no error."""
        key = self._key(sig, cres.codegen)
        path = self._path(key)
        if path is None:
            return
        if cres.lifted or cres.library.has_dynamic_globals:
            warnings.warn(
                f"{self._name} cannot be cached: it holds the address of an object", NumbaWarning, stacklevel=2
            )
            return
        content = dumps((key, cres._reduce()))
        with contextlib.suppress(OSError):
            _write_at_once(path, content)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        if (folder := self.cache_path) is not None:
            for path in Path(folder).glob(f"{self._name}.*.kernel"):
                path.unlink(missing_ok=True)

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """All that decides the code, apart from what the folder's name tells; `magic_tuple` names the processor."""
        closure = [cell.cell_contents for cell in self._function.__closure__ or ()]
        code = hashlib.sha256(self._function.__code__.co_code + dumps(closure)).hexdigest()
        return sig, codegen.magic_tuple(), code

    def _path(self, key: tuple[Any, ...]) -> Path | None:
        # A type that prints an address (a jitted function given as an argument) is never met again: it would only pile up.
        if (folder := self.cache_path) is None or " at 0x" in repr(key):
            return None
        return Path(folder, self._file(key))

    def _prebuilt(self, own: tuple[Any, ...]) -> Iterator[tuple[Path, tuple[Any, ...]]]:
        """Where the code may be that came compiled, and the key that it must have."""
        if self._enabled and self._fingerprint is not None:
            name = folder_name(self._fingerprint, bool(config.BOUNDSCHECK))
            for folder, processor in prebuilt_places(name, own[1]):
                key = (own[0], processor, *own[2:])
                yield folder / self._file(key), key

    def _file(self, key: tuple[Any, ...]) -> str:
        return f"{self._name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.kernel"


def _fingerprint_of(function: Callable[..., Any]) -> str | None:
    """The fingerprint of the file that defines the function; None if its source cannot be read."""
    try:
        return _file_fingerprint(inspect.getfile(function))
    except OSError:
        return None


@functools.cache
def _file_fingerprint(path: str) -> str:
    return fingerprint(files("matchwood"), Path(path).read_bytes())


def fingerprint(package: Traversable, source: bytes) -> str:
    """A hash of a source, of the kernel sources of `package` behind it, and of the compiler's settings."""
    digest = hashlib.sha256(f"{llvmlite.__version__} {config.OPT!r} {config.DEBUGINFO_DEFAULT}".encode())
    behind: dict[str, bytes] = {}
    waiting = [source]
    while waiting:
        for name in _imported_modules(waiting.pop()):
            if name not in behind and (content := _kernel_source(package, name)) is not None:
                behind[name] = content
                waiting.append(content)
    for name, content in [("", source), *sorted(behind.items())]:
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+matchwood([.\w]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+matchwood([.\w]*))", re.M
)


def _imported_modules(source: bytes) -> set[str]:
    """The modules of the package that a source may import: of `from a import b` both a and a.b, as only one is a module."""
    names = set()
    for base, imported, plain in _IMPORT.findall(source):
        module = (base or plain).decode().strip(".")
        names.add(module)
        names.update(f"{module}.{name.decode()}".strip(".") for name in re.findall(rb"\w+", imported))
    return names


def _kernel_source(package: Traversable, name: str) -> bytes | None:
    """The text of a module that can end up inside a kernel; None for any other name."""
    *folders, last = name.split(".")
    if "kernels" not in folders and "jit" not in folders and name not in ("encode.arrays", "geo"):
        return None
    try:
        return package.joinpath(*folders, f"{last}.py").read_bytes()
    except OSError:
        return None


def folder_name(fingerprint: str, boundscheck: bool) -> str:
    """The name of the folder for kernels of this fingerprint, in the cache and among those that come compiled."""
    python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    return f"{PREFIX}{fingerprint}-numba{numba.__version__}-{python}{'-boundscheck' * boundscheck}"


@functools.cache
def cache_folder(fingerprint: str, numba_cache_dir: str, boundscheck: bool) -> Path | None:
    """The folder for kernels of this fingerprint, made if it is missing; None if no place can be written to."""
    name = folder_name(fingerprint, boundscheck)
    for base in _bases(numba_cache_dir):
        folder = base / name
        try:
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            if is_new:
                prune(base)
            elif time.time() - folder.stat().st_mtime > DAY:
                os.utime(folder)
        except OSError:
            continue
        return folder
    return None


def prune(base: Path) -> None:
    """Remove the folders of `base` that no process has opened for thirty days; best effort."""
    oldest = time.time() - UNUSED_DAYS * DAY
    with contextlib.suppress(OSError):
        for folder in base.glob(f"{PREFIX}*"):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def _bases(numba_cache_dir: str) -> Iterator[Path]:
    if numba_cache_dir:
        yield Path(numba_cache_dir).absolute() / "matchwood"
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with contextlib.suppress(RuntimeError):  # no home
        yield user_cache.expanduser().absolute() / "matchwood"
    with contextlib.suppress(OSError):
        yield _private_temp_folder()


def _private_temp_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"matchwood-{user}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or (os.name == "posix" and (found.st_uid != user or found.st_mode & 0o022)):
        raise PermissionError(f"{folder} is open to other users")
    return folder


def _write_at_once(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)  # pruned or cleaned while this process ran
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
