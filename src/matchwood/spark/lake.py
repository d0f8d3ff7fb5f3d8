"""Lake: versioned tables and indexes in a folder that every machine of the cluster can read.

    ROOT/subscriptions/v000003/part-*.parquet      a table: Parquet, written by Spark
    ROOT/index/v000002/shard-*/                    an index: folders of mapped arrays (`store.storage`)
    ROOT/NAME/v000003/_manifest.json               written last; a folder without it is not a version
    ROOT/NAME/v000003/_leases/...                  one file for each reader that keeps the version from being removed
    ROOT/codebook/v000002.json                     a version of the codebook

A published version never changes, so readers need no lock. A writer that dies leaves a folder without a manifest, which readers
ignore and `vacuum` removes. A version number is claimed by creating its folder; a manifest or codebook is created by linking a
finished file to its name. Each of these succeeds for one writer only, so that no writer overwrites the result of another.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as fn

from matchwood.errors import QueryError, StorageError
from matchwood.spark.codebook import Codebook
from matchwood.spark.files import create_exclusively, write_atomically
from matchwood.spark.paths import read_by_spark, written_by_spark
from matchwood.store.locations import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST = "_manifest.json"
LEASES = "_leases"
FORMAT = 1
"""The format of manifests and of the tables in `columns`; raised when older readers would misread newer versions."""
UNFINISHED_S = 24 * 3600.0
"""Age in seconds at which a folder without a manifest is assumed to belong to a dead writer."""


@dataclass(frozen=True)
class Manifest:
    """Describes a version: its parameters, the sizes of its content, and the versions that it was made from (`upstream`)."""

    name: str
    version: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    upstream: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


class Lake:
    """Versioned tables under one folder. Any number of readers; writers of one name get different versions.

    `root` is a path or a `file:` URI of a folder that every machine can read.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = local_path(root, "lake")

    def versions(self, name: str) -> list[int]:
        """The published versions of a table, ascending."""
        return [version for version, folder in self._folders(name) if (folder / MANIFEST).is_file()]

    def latest(self, name: str) -> int:
        """The newest published version."""
        found = self.versions(name)
        if not found:
            raise StorageError(
                f"{self.root / name}: table {name!r} has no published version; run the stage that writes it"
            )
        return found[-1]

    def folder(self, name: str, version: int) -> Path:
        """The folder of a version."""
        return self._table(name) / f"v{version:06}"

    def manifest(self, name: str, version: int | None = None) -> Manifest:
        """The manifest of a version, by default the newest."""
        chosen = self.latest(name) if version is None else version
        path = self.folder(name, chosen) / MANIFEST
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StorageError(
                f"{path}: found no manifest; version {chosen} of {name!r} does not exist or was not published"
            ) from None
        except (OSError, ValueError) as error:
            raise StorageError(f"{path}: cannot be read: {error}") from None
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            found = saved.get("format") if isinstance(saved, dict) else saved
            raise StorageError(f"{path}: expected format {FORMAT}, got {found!r}; write this version again")
        try:
            return Manifest(**{key: value for key, value in saved.items() if key not in ("format", "written")})
        except TypeError as error:
            raise StorageError(f"{path}: the manifest is damaged: {error}") from None

    def read(self, spark: SparkSession, name: str, version: int | None = None) -> DataFrame:
        """The table of a version, by default the newest."""
        chosen = self.manifest(name, version).version
        return spark.read.parquet(read_by_spark(self.folder(name, chosen) / "data"))

    def write(
        self,
        name: str,
        table: DataFrame,
        *,
        parameters: Mapping[str, Any] | None = None,
        upstream: Mapping[str, int] | None = None,
        counts: Mapping[str, float] | None = None,
    ) -> Manifest:
        """Write a table as a new version. Runs the job that makes the table, once."""
        with self.new_version(name) as (version, folder):
            written = write_counted(table, folder / "data")
            sizes = {"records": written, **(counts or {})}
            return self.publish(Manifest(name, version, parameters or {}, sizes, upstream or {}))

    @contextmanager
    def new_version(self, name: str) -> Iterator[tuple[int, Path]]:
        """Claim a version number: (number, folder). `publish` makes it visible; if the body raises, the folder is removed."""
        version, folder = self._claim(name)
        try:
            yield version, folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def publish(self, manifest: Manifest) -> Manifest:
        """Write the manifest, which makes the version visible. Raises `StorageError` if it has one already."""
        path = self.folder(manifest.name, manifest.version) / MANIFEST
        content = {"format": FORMAT, "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **vars(manifest)}
        if not path.parent.is_dir():
            raise StorageError(f"{path.parent}: the folder was removed, probably by `vacuum`; write the version again")
        if not create_exclusively(path, json.dumps(content, indent=1, ensure_ascii=False)):
            raise StorageError(f"{path}: this version has been published already; claim a new one with `new_version`")
        return manifest

    # the codebook

    def codebook(self) -> Codebook | None:
        """The newest codebook, None if there is none yet."""
        version = self.codebook_version()
        return None if version is None else self._read_codebook(version)

    def codebook_version(self) -> int | None:
        """The number of the newest codebook, None if there is none yet."""
        return max((int(path.stem[1:]) for path in (self.root / "codebook").glob("v*.json")), default=None)

    def keep_codebook(self, codebook: Codebook) -> Path:
        """Store a codebook; each version once. Raises `StorageError` if another one of that version is stored."""
        path = self.codebook_path(codebook.version)
        if not self._claim_codebook(codebook):
            raise StorageError(
                f"{path}: another codebook of version {codebook.version} is stored already; use `merge_codebook`"
            )
        return path

    def merge_codebook(self, codebook: Codebook) -> Codebook:
        """Store a codebook that extends the newest one, and return the stored one, which tables must be encoded with.

        If another writer has stored that version meanwhile, the attributes and strings of this codebook are appended to the
        newest.
        """
        while not self._claim_codebook(codebook):
            newest = self.codebook()
            assert newest is not None
            codebook = newest.merged(codebook)
        return codebook

    def _claim_codebook(self, codebook: Codebook) -> bool:
        """Store a codebook; False if another one has its version."""
        path = self.codebook_path(codebook.version)
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = create_exclusively(path, json.dumps(codebook.to_json(), ensure_ascii=False))
        return stored or self._read_codebook(codebook.version) == codebook

    def _read_codebook(self, version: int) -> Codebook:
        return Codebook.from_json(json.loads(self.codebook_path(version).read_text(encoding="utf-8")))

    def codebook_path(self, version: int) -> Path:
        """The file of a version of the codebook."""
        return self.root / "codebook" / f"v{version:06}.json"

    # old versions

    @contextmanager
    def lease(self, name: str, version: int, *, seconds: float = 3600.0) -> Iterator[Callable[[], None]]:
        """Keep a version from being removed. The value renews the lease, which otherwise expires after `seconds`."""
        folder = self.folder(name, version) / LEASES
        path = folder / uuid.uuid4().hex

        def renew() -> None:
            folder.mkdir(exist_ok=True)
            write_atomically(path, json.dumps({"until": time.time() + seconds}))

        renew()
        try:
            yield renew
        finally:
            path.unlink(missing_ok=True)

    def vacuum(self, name: str, *, keep: int = 2, unfinished_s: float = UNFINISHED_S) -> list[int]:
        """Remove all versions except the newest `keep` and leased ones, and the folders of dead writers; return their numbers.

        A folder with the highest number always remains, so that no number is claimed twice.
        """
        published = self.versions(name)
        newest = set(published[-keep:]) if keep else set()
        removed = []
        folders = self._folders(name)
        for version, folder in folders:
            is_highest = version == folders[-1][0]
            if version in published:
                is_obsolete = version not in newest and not _leased(folder)
            else:
                is_obsolete = not is_highest and time.time() - folder.stat().st_mtime > unfinished_s
            if is_obsolete and is_highest:
                self._claim(name)
            if is_obsolete:
                (folder / MANIFEST).unlink(missing_ok=True)  # first, so that no reader opens a half-removed version
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(version)
        return removed

    def _table(self, name: str) -> Path:
        return self.root / checked_name(name, "table")

    def _folders(self, name: str) -> list[tuple[int, Path]]:
        found = self._table(name).glob("v[0-9]*")
        return sorted((int(folder.name[1:]), folder) for folder in found if folder.name[1:].isdigit())

    def _claim(self, name: str) -> tuple[int, Path]:
        self._table(name).mkdir(parents=True, exist_ok=True)
        version = max((number for number, _ in self._folders(name)), default=0) + 1
        while True:
            folder = self.folder(name, version)
            try:
                folder.mkdir()
            except FileExistsError:
                version += 1
            else:
                return version, folder


def checked_name(name: str, what: str) -> str:
    """The name, if it is valid as the name of a folder inside a lake."""
    if not name or name in (".", "..") or "/" in name:
        raise QueryError(f"expected a {what} name without '/', got {name!r}")
    return name


def write_counted(table: DataFrame, path: Path) -> int:
    """Write a table as Parquet and return its number of records, in one job."""
    counted = Observation()
    writer = table.observe(counted, fn.count(fn.lit(1)).alias("records")).write.option("compression", "zstd")
    writer.parquet(written_by_spark(path))
    return int(counted.get["records"])


def _leased(folder: Path) -> bool:
    for path in (folder / LEASES).glob("[0-9a-f]*"):
        try:
            until = float(json.loads(path.read_text(encoding="utf-8"))["until"])
        except (OSError, ValueError, KeyError):
            continue
        if until > time.time():
            return True
    return False
