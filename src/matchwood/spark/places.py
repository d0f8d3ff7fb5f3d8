"""Places: files and folders of a lake, on a local file system or in an object store.

A lake needs few operations: read a file, replace it, create it if it does not exist (a *conditional put*), list names, remove.
Nothing here depends on renames, hard links or folders that exist by themselves, which object stores lack. A remote place is
opened by `fsspec`; the scheme is the one that Spark uses.

    s3a://, s3://                     s3fs      PUT with If-None-Match
    gs://                             gcsfs     PUT with ifGenerationMatch=0
    abfss://, abfs://                 adlfs     PUT with If-None-Match
    hdfs:// with storage webhdfs      WebHDFS   a finished file is renamed, which HDFS refuses if the name is taken
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from matchwood.errors import StorageError, UnsupportedError
from matchwood.spark.files import create_exclusively, write_atomically
from matchwood.spark.paths import escaped
from matchwood.store.locations import URI, local_path

ATTEMPTS = 5
"""Times that a request to an object store is tried."""
_SCHEMES = {"s3a": "s3", "s3n": "s3", "s3": "s3", "gs": "gs", "abfss": "abfss", "abfs": "abfs", "hdfs": "hdfs"}
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfss": "adlfs", "abfs": "adlfs"}
_UNCACHED = {"use_listings_cache": False}  # another writer may have added a file

T = TypeVar("T")


class Place(ABC):
    """A file or folder. Immutable, comparable and picklable; `str` gives the path or URI."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of the path."""

    @abstractmethod
    def __truediv__(self, name: str) -> Place: ...

    @abstractmethod
    def exists(self) -> bool:
        """Is there a file?"""

    @abstractmethod
    def read(self) -> bytes:
        """The content of a file; `FileNotFoundError` if there is none."""

    @abstractmethod
    def write(self, content: bytes) -> None:
        """Write a file, replacing the one that is there. Readers see the old or the new content."""

    @abstractmethod
    def create(self, content: bytes) -> bool:
        """Write a new file; False if it exists already. Exactly one of several writers gets True."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the files and folders in a folder, sorted; none if it does not exist."""

    @abstractmethod
    def remove(self) -> None:
        """Remove a file, or a folder with its content, if it exists."""

    @abstractmethod
    def upload(self, folder: Path) -> None:
        """Copy the files of a local folder to this one."""

    @abstractmethod
    def download(self, folder: Path) -> None:
        """Copy the files of this folder to a new local one."""

    @property
    @abstractmethod
    def written_by_spark(self) -> str:
        """The URI for Spark's writers, which do not interpret patterns."""

    @property
    def read_by_spark(self) -> str:
        """The URI for Spark's readers, with the characters of patterns escaped."""
        return escaped(self.written_by_spark)

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return Path(self.name).stem

    def text(self) -> str:
        """The content of a file as text."""
        return self.read().decode()


@dataclass(frozen=True)
class LocalPlace(Place):
    """A path of this machine, or of a file system that every machine mounts."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    def __truediv__(self, name: str) -> LocalPlace:
        return LocalPlace(self.path / name)

    def exists(self) -> bool:
        return self.path.is_file()

    def read(self) -> bytes:
        return self.path.read_bytes()

    def write(self, content: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, content)

    def create(self, content: bytes) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return create_exclusively(self.path, content)

    def names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.path) if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def remove(self) -> None:
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)

    def upload(self, folder: Path) -> None:
        shutil.copytree(folder, self.path, dirs_exist_ok=True)

    def download(self, folder: Path) -> None:
        shutil.copytree(self.path, folder)

    @property
    def written_by_spark(self) -> str:
        return f"file://{self.path}"


@dataclass(frozen=True)
class RemotePlace(Place):
    """A key or prefix of an object store. `storage` holds the options of its file system, such as an endpoint."""

    uri: str
    storage: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    def __truediv__(self, name: str) -> RemotePlace:
        return RemotePlace(f"{self.uri}/{name}", self.storage)

    def exists(self) -> bool:
        return bool(_retried(lambda: self._system().isfile(self._key())))

    def read(self) -> bytes:
        return bytes(_retried(lambda: self._system().cat_file(self._key())))

    def write(self, content: bytes) -> None:
        _retried(lambda: self._system().pipe_file(self._key(), content))

    def create(self, content: bytes) -> bool:
        system = self._system()
        if self._scheme == "hdfs":
            return self._create_by_rename(system, content)
        # A request whose reply was lost may be repeated: then the file that exists already is ours.
        exclusive = {"overwrite": False} if self._scheme in ("abfs", "abfss") else {"mode": "create"}
        try:
            _retried(lambda: system.pipe_file(self._key(), content, **exclusive))
        except FileExistsError:
            return self.read() == content
        return True

    def _create_by_rename(self, system: Any, content: bytes) -> bool:
        draft = self._key().rpartition("/")[0] + f"/.{uuid.uuid4().hex}.tmp"
        system.makedirs(draft.rpartition("/")[0], exist_ok=True)
        system.pipe_file(draft, content)
        renamed = system._call("RENAME", method="put", path=draft, destination=self._key()).json()["boolean"]
        if not renamed:
            system.rm_file(draft)
        return bool(renamed)

    def names(self) -> list[str]:
        try:
            found = _retried(lambda: self._system().ls(self._key(), detail=False))
        except FileNotFoundError:
            return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return sorted(name for name in names if name and not name.startswith(".") and name != self.name)

    def remove(self) -> None:
        try:
            _retried(lambda: self._system().rm(self._key(), recursive=True))
        except FileNotFoundError:
            return

    def upload(self, folder: Path) -> None:
        system = self._system()
        for path in sorted(file for file in folder.rglob("*") if file.is_file()):
            target = f"{self._key()}/{path.relative_to(folder).as_posix()}"
            if self._scheme == "hdfs":
                system.makedirs(target.rpartition("/")[0], exist_ok=True)
            _retried(lambda path=path, target=target: system.put_file(str(path), target))  # type: ignore[misc]

    def download(self, folder: Path) -> None:
        system, prefix = self._system(), self._key()
        found = _retried(lambda: system.find(prefix))
        if not found:
            raise StorageError(f"{self}: expected files, found none; the version was removed")
        for key in found:
            target = folder / str(key)[str(key).index(prefix.strip("/")) + len(prefix.strip("/")) + 1 :]
            target.parent.mkdir(parents=True, exist_ok=True)
            _retried(lambda key=key, target=target: system.get_file(key, str(target)))  # type: ignore[misc]

    @property
    def written_by_spark(self) -> str:
        return self.uri

    @property
    def _scheme(self) -> str:
        return _SCHEMES[self.uri.partition(":")[0].lower()]

    def _system(self) -> Any:
        fsspec = _fsspec()
        options = dict(self.storage)
        if self._scheme == "hdfs":
            host, _, port = str(options.pop("webhdfs")).partition(":")
            return fsspec.filesystem("webhdfs", host=host, port=int(port or 9870), **options)
        try:
            return fsspec.filesystem(self._scheme, **_UNCACHED, **options)
        except ImportError:
            package = _PACKAGES[self._scheme]
            raise UnsupportedError(f"{self}: this file system needs {package}: pip install {package}") from None

    def _key(self) -> str:
        """The path without the scheme; for HDFS without the host."""
        path = self.uri.partition("://")[2]
        return f"/{path.partition('/')[2]}" if self._scheme == "hdfs" else path


def place(root: str | os.PathLike[str] | Place, what: str = "lake", storage: Mapping[str, Any] | None = None) -> Place:
    """The place of a path, of a `file:` URI, or of a URI of an object store.

    >>> str(place("/data/lake") / "index")
    '/data/lake/index'
    >>> str(place("s3a://bucket/lake/") / "index")
    's3a://bucket/lake/index'
    >>> place("ftp://host/lake")
    Traceback (most recent call last):
    ...
    matchwood.errors.UnsupportedError: lake: expected a path, or a URI of file, s3a, gs, abfss or hdfs, got 'ftp://host/lake'
    """
    if isinstance(root, Place):
        return root
    text = os.fspath(root)
    scheme = URI.match(text)
    if scheme is None or scheme[1].lower() == "file":
        return LocalPlace(local_path(root, what))
    if not isinstance(root, str):
        raise UnsupportedError(f"{what}: {text!r} is a URI that pathlib has changed; pass it as a string")
    if scheme[1].lower() not in _SCHEMES or "://" not in text:
        raise UnsupportedError(f"{what}: expected a path, or a URI of file, s3a, gs, abfss or hdfs, got {text!r}")
    if _SCHEMES[scheme[1].lower()] == "hdfs" and "webhdfs" not in (storage or {}):
        raise UnsupportedError(
            f"{what}: {text!r} needs the address of WebHDFS: pass storage={{'webhdfs': 'namenode:9870', 'user': 'me'}}"
        )
    return RemotePlace(text.rstrip("/"), dict(storage or {}))


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError:
        raise UnsupportedError("an object store needs fsspec: pip install 'matchwood[objectstore]'") from None
    return fsspec


def _retried(request: Callable[[], T]) -> T:
    """The result of a request, repeated after passing failures of the network."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return request()
        except (FileNotFoundError, FileExistsError, PermissionError):
            raise
        except Exception as error:  # file systems raise the exceptions of their clients
            if attempt == ATTEMPTS:
                raise StorageError(f"the object store failed {ATTEMPTS} times, at last with: {error}") from error
            time.sleep(0.1 * 2**attempt)
    raise AssertionError
