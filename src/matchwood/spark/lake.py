"""Lake: versioned tables and indexes under one path or URI that every machine of the cluster can read.

    ROOT/subscriptions/v000003/data/part-*.parquet   a table: Parquet, written by Spark
    ROOT/index/v000002/shard-*/                      an index: folders of mapped arrays (`store.storage`)
    ROOT/NAME/_claims/000003.json                    a writer has this number
    ROOT/NAME/_versions/000003.json                  the manifest, written last; without it there is no version
    ROOT/NAME/_leases/000003-....json                one file for each reader that keeps the version from being removed
    ROOT/codebook/v000002.json                       a version of the codebook

A published version never changes, so readers need no lock. A writer that dies leaves a claim without a manifest, which readers
ignore and `vacuum` removes. Claims, manifests and codebooks are created by a conditional put (`places.Place.create`), which
succeeds for one writer only, so that no writer overwrites the result of another; one that comes second takes the next number.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as fn

from matchwood.errors import QueryError, StorageError
from matchwood.spark.codebook import Codebook
from matchwood.spark.places import Place, place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLAIMS, VERSIONS, LEASES = "_claims", "_versions", "_leases"
FORMAT = 3
"""The format of manifests and of the tables in `columns`; raised when older readers would misread newer versions."""
UNFINISHED_S = 24 * 3600.0
"""Age in seconds at which a claim without a manifest is assumed to belong to a dead writer."""


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
    """Versioned tables under one root. Any number of readers; writers of one name get different versions.

    `root` is a path or URI that every machine can read: a folder, or a prefix of an object store (`s3a://`, `gs://`, `abfss://`,
    `hdfs://`). `storage` holds the options of the `fsspec` file system that opens our own files there; tables are read and
    written by Spark, with the settings of the session.
    """

    def __init__(self, root: str | os.PathLike[str] | Place, *, storage: Mapping[str, Any] | None = None) -> None:
        self.root: Place = root if isinstance(root, Place) else place(root, "lake", storage)

    def versions(self, name: str) -> list[int]:
        """The published versions of a table, ascending."""
        return _numbers(self._table(name) / VERSIONS)

    def latest(self, name: str) -> int:
        """The newest published version."""
        found = self.versions(name)
        if not found:
            raise StorageError(
                f"{self.root / name}: table {name!r} has no published version; run the stage that writes it"
            )
        return found[-1]

    def folder(self, name: str, version: int) -> Place:
        """The folder of a version."""
        return self._table(name) / f"v{version:06}"

    def manifest(self, name: str, version: int | None = None) -> Manifest:
        """The manifest of a version, by default the newest."""
        chosen = self.latest(name) if version is None else version
        path = self._manifest(name, chosen)
        try:
            saved = json.loads(path.text())
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

    def written(self, name: str, version: int) -> str:
        """When a version was published, as ISO 8601."""
        return str(json.loads(self._manifest(name, version).text())["written"])

    def read(self, spark: SparkSession, name: str, version: int | None = None) -> DataFrame:
        """The table of a version, by default the newest."""
        chosen = self.manifest(name, version).version
        return spark.read.parquet((self.folder(name, chosen) / "data").read_by_spark)

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
    def new_version(self, name: str) -> Iterator[tuple[int, Place]]:
        """Claim a version number: (number, folder). `publish` makes it visible; if the body raises, the folder is removed."""
        version = self._claim(name)
        folder = self.folder(name, version)
        try:
            yield version, folder
        except BaseException:
            folder.remove()
            raise

    def publish(self, manifest: Manifest) -> Manifest:
        """Write the manifest, which makes the version visible. Raises `StorageError` if it has one already."""
        path = self._manifest(manifest.name, manifest.version)
        content = {"format": FORMAT, "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **vars(manifest)}
        if not path.create(json.dumps(content, indent=1, ensure_ascii=False).encode()):
            raise StorageError(f"{path}: this version has been published already; claim a new one with `new_version`")
        # `vacuum` removes a claim before it looks for a manifest, and the manifest is written before the claim is looked for:
        # one of the two sees the other.
        if not self._claim_of(manifest.name, manifest.version).exists():
            path.remove()
            raise StorageError(f"{path}: the claim was removed, probably by `vacuum`; write the version again")
        return manifest

    # the codebook

    def codebook(self) -> Codebook | None:
        """The newest codebook, None if there is none yet."""
        version = self.codebook_version()
        return None if version is None else self._read_codebook(version)

    def codebook_version(self) -> int | None:
        """The number of the newest codebook, None if there is none yet."""
        return max(_numbers(self.root / "codebook"), default=None)

    def keep_codebook(self, codebook: Codebook) -> Place:
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
        stored = self.codebook_path(codebook.version).create(json.dumps(codebook.to_json()).encode())
        return stored or self._read_codebook(codebook.version) == codebook

    def _read_codebook(self, version: int) -> Codebook:
        return Codebook.from_json(json.loads(self.codebook_path(version).text()))

    def codebook_path(self, version: int) -> Place:
        """The file of a version of the codebook."""
        return self.root / "codebook" / f"v{version:06}.json"

    # old versions

    @contextmanager
    def lease(self, name: str, version: int, *, seconds: float = 3600.0) -> Iterator[Callable[[], None]]:
        """Keep a version from being removed. The value renews the lease, which otherwise expires after `seconds`."""
        path = self._table(name) / LEASES / f"{version:06}-{uuid.uuid4().hex}.json"

        def renew() -> None:
            path.write(json.dumps({"until": time.time() + seconds}).encode())

        renew()
        try:
            yield renew
        finally:
            path.remove()

    def vacuum(self, name: str, *, keep: int = 2, unfinished_s: float = UNFINISHED_S) -> list[int]:
        """Remove all versions except the newest `keep` and leased ones, and what dead writers left; return their numbers.

        The highest claim always remains, so that no number is claimed twice.
        """
        published = self.versions(name)
        newest = set(published[-keep:]) if keep else set()
        leased = self._leased(name)
        claims = _numbers(self._table(name) / CLAIMS)
        removed = []
        for version in claims:
            is_highest = version == claims[-1]
            if version in published:
                is_obsolete = version not in newest and version not in leased
            else:
                is_obsolete = not is_highest and time.time() - self._claimed_at(name, version) > unfinished_s
            if is_obsolete and is_highest:
                self._claim(name)
            if is_obsolete and self._removed(name, version, version in published):
                removed.append(version)
        return removed

    def _removed(self, name: str, version: int, was_published: bool) -> bool:
        """Remove a version; False if its writer, taken for dead, has published it meanwhile."""
        self._claim_of(name, version).remove()
        manifest = self._manifest(name, version)
        if not was_published and manifest.exists():
            return False
        manifest.remove()  # before the content, so that no reader opens a half-removed version
        self.folder(name, version).remove()
        return True

    def _table(self, name: str) -> Place:
        return self.root / checked_name(name, "table")

    def _manifest(self, name: str, version: int) -> Place:
        return self._table(name) / VERSIONS / f"{version:06}.json"

    def _claim_of(self, name: str, version: int) -> Place:
        return self._table(name) / CLAIMS / f"{version:06}.json"

    def _claim(self, name: str) -> int:
        version = max(_numbers(self._table(name) / CLAIMS), default=0) + 1
        while not self._claim_of(name, version).create(
            json.dumps({"at": time.time(), "writer": uuid.uuid4().hex}).encode()
        ):
            version += 1
        return version

    def _claimed_at(self, name: str, version: int) -> float:
        try:
            return float(json.loads(self._claim_of(name, version).text())["at"])
        except (FileNotFoundError, ValueError, KeyError):
            return time.time()

    def _leased(self, name: str) -> set[int]:
        """The versions that a lease keeps."""
        found = set()
        for lease in (self._table(name) / LEASES).names():
            try:
                until = float(json.loads((self._table(name) / LEASES / lease).text())["until"])
            except (FileNotFoundError, ValueError, KeyError):
                continue
            if until > time.time():
                found.add(int(lease.partition("-")[0]))
        return found


def checked_name(name: str, what: str) -> str:
    """The name, if it is valid as the name of a folder inside a lake."""
    if not name or name in (".", "..") or "/" in name:
        raise QueryError(f"expected a {what} name without '/', got {name!r}")
    return name


def write_counted(table: DataFrame, path: Place) -> int:
    """Write a table as Parquet and return its number of records, in one job."""
    counted = Observation()
    writer = table.observe(counted, fn.count(fn.lit(1)).alias("records")).write.option("compression", "zstd")
    writer.parquet(path.written_by_spark)
    return int(counted.get["records"])


def _numbers(folder: Place) -> list[int]:
    """The numbers in the names of the files of a folder, ascending: 000003.json or v000003.json."""
    names = (name.removesuffix(".json").removeprefix("v") for name in folder.names() if name.endswith(".json"))
    return sorted(int(name) for name in names if name.isdigit())
