"""Streams of the records that are appended to Delta and Iceberg tables, read without jars.

    stream_delta(spark, "/data/offers")                         what each new version of a Delta table adds
    stream_iceberg(spark, catalog.load_table("db.offers"))      what each new snapshot of an Iceberg table adds

Both are a Python data source, whose offset is the version or snapshot that was read last. The first micro-batch has the whole
table, unless the stream starts after a given version; each later one has the files that were added since, one for each task.
A version that only rewrites files (a compaction) adds nothing. One that removes or changes records ends the stream with an error,
since a match that was reported cannot be withdrawn. The columns are those that the table has when the query starts.
"""

from __future__ import annotations

import json
import os
import pickle
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from matchwood.errors import StorageError
from matchwood.spark.table_sources import DeltaFiles, Files, IcebergFiles, chosen_fields, delta_dataset, iceberg_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTHING = -1
"""The version before the first, and the snapshot of an empty table."""


def stream_delta(
    spark: SparkSession,
    table: str | os.PathLike[str],
    *,
    after: int | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records that are appended to a Delta table: all that it has, or those `after` a version, and then those of new ones.

    `storage_options` are those of `deltalake`. Raises as `read_delta` does.
    """
    dataset = delta_dataset(str(table), None, dict(storage_options or {}))
    chosen_fields(dataset.schema, columns or (), str(table))  # raises here, not in a process of Spark
    options = {"table": str(table), "storage": json.dumps(dict(storage_options or {}))}
    return _stream(spark, DeltaStream, options, after, columns)


def stream_iceberg(
    spark: SparkSession, table: Any, *, after: int | None = None, columns: Sequence[str] | None = None
) -> DataFrame:
    """The records that are appended to a table of `pyiceberg`: all that it has, or those `after` a snapshot, and then new ones.

    The catalog is opened again by the processes of the stream, by its class, name and properties.
    """
    chosen_fields(iceberg_schema(table.schema()), columns or (), ".".join(table.name()))
    catalog = table.catalog
    kind = f"{type(catalog).__module__}:{type(catalog).__qualname__}"
    described = {"class": kind, "name": catalog.name, "properties": dict(catalog.properties), "table": table.name()}
    return _stream(spark, IcebergStream, {"table": json.dumps(described)}, after, columns)


def _stream(
    spark: SparkSession, source: type[_TableSource], options: dict[str, str], after: int | None, columns: Any
) -> DataFrame:
    spark.dataSource.register(source)
    reader = spark.readStream.format(source.name()).options(**options)
    if columns is not None:
        reader = reader.option("columns", json.dumps(list(columns)))
    return (reader if after is None else reader.option("after", str(after))).load()


class File(InputPartition):  # type: ignore[misc]
    """A file of a table, and what reads it, pickled."""

    def __init__(self, content: bytes) -> None:
        self.content = content


class _TableStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads what versions of a table add."""

    def __init__(self, options: Mapping[str, str], names: Sequence[str]) -> None:
        self.options = dict(options)
        self.names = list(names)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """The version after which the stream starts."""
        return {"version": int(self.options.get("after", NOTHING))}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802  Spark's name
        """The newest version."""
        return {"version": self.newest()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[File]:
        """The files that the versions after `start` up to `end` add."""
        first, last = int(start["version"]), int(end["version"])
        if first == last:
            return []
        files, found = self.files(), self.whole(last) if first == NOTHING else self.added(first, last)
        return [File(pickle.dumps((files, file))) for file in found]

    def read(self, partition: File) -> Iterator[Any]:
        """The records of a file as Arrow batches."""
        files, file = pickle.loads(partition.content)  # made by `partitions`
        yield from files.batches(file)

    @abstractmethod
    def newest(self) -> int:
        """The newest version, `NOTHING` if there is none."""

    @abstractmethod
    def files(self) -> Files:
        """What reads files."""

    @abstractmethod
    def whole(self, version: int) -> list[Any]:
        """All files of a version."""

    @abstractmethod
    def added(self, after: int, upto: int) -> list[Any]:
        """The files that later versions add. Raises `StorageError` if one of them does not only add."""


class _DeltaStreamReader(_TableStreamReader):
    def newest(self) -> int:
        import deltalake

        table, options = self.options["table"], json.loads(self.options["storage"])
        return int(deltalake.DeltaTable(table, storage_options=options or None, without_files=True).version())

    def files(self) -> Files:
        return DeltaFiles(chosen_fields(self._dataset(None).schema, self.names, self.options["table"]))

    def whole(self, version: int) -> list[Any]:
        return list(self._dataset(version).get_fragments())

    def added(self, after: int, upto: int) -> list[Any]:
        found: list[Any] = []
        for version in range(after + 1, upto + 1):
            dataset = self._dataset(version)
            names = self._names_added(dataset.filesystem, version)
            found += [fragment for fragment in dataset.get_fragments() if unquote(fragment.path) in names]
        return found

    def _names_added(self, filesystem: Any, version: int) -> set[str]:
        """The paths of the files with new records in the log of a version."""
        table = self.options["table"]
        try:
            with filesystem.open_input_file(f"_delta_log/{version:020}.json") as log:
                actions = [json.loads(line) for line in log.read().decode().splitlines() if line.strip()]
        except FileNotFoundError:
            raise StorageError(
                f"{table}: version {version} is no longer in the log; start the stream with a new checkpoint"
            ) from None
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            raise _not_appended(table, f"version {version}")
        return {unquote(a["add"]["path"]) for a in actions if "add" in a and a["add"].get("dataChange", True)}

    def _dataset(self, version: int | None) -> Any:
        return delta_dataset(self.options["table"], version, json.loads(self.options["storage"]))


class _IcebergStreamReader(_TableStreamReader):
    def newest(self) -> int:
        current = _iceberg_table(self.options).current_snapshot()
        return NOTHING if current is None else int(current.snapshot_id)

    def files(self) -> Files:
        table = _iceberg_table(self.options)
        schema = chosen_fields(iceberg_schema(table.schema()), self.names, ".".join(table.name()))
        return IcebergFiles(schema, table.metadata, table.io, table.schema().select(*schema.names))

    def whole(self, version: int) -> list[Any]:
        return list(_iceberg_table(self.options).scan(snapshot_id=version).plan_files())

    def added(self, after: int, upto: int) -> list[Any]:
        table = _iceberg_table(self.options)
        title, found, at = ".".join(table.name()), list[Any](), upto
        while at != after:
            snapshot = table.snapshot_by_id(at)
            if snapshot is None:
                raise StorageError(f"{title}: snapshot {at} has expired; start the stream with a new checkpoint")
            operation = snapshot.summary.operation.value if snapshot.summary is not None else "append"
            before = NOTHING if snapshot.parent_snapshot_id is None else snapshot.parent_snapshot_id
            if operation == "append":
                known = set() if before == NOTHING else {file.file.file_path for file in self.whole(before)}
                found += [file for file in self.whole(at) if file.file.file_path not in known]
            elif operation != "replace":
                raise _not_appended(title, f"snapshot {at}")
            at = before
            if at == NOTHING and after != NOTHING:
                raise StorageError(f"{title}: snapshot {after} is not among those before snapshot {upto}")
        return found


class _TableSource(DataSource):  # type: ignore[misc]
    """A stream of a table; each format has one."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """The reader of the stream."""
        return self.made(schema.names)

    def schema(self) -> StructType:
        """The columns of the table, or the chosen ones."""
        from pyspark.sql.pandas.types import from_arrow_schema

        chosen = self.options.get("columns")
        found: StructType = from_arrow_schema(self.made(json.loads(chosen) if chosen else ()).files().schema)
        return found

    @abstractmethod
    def made(self, names: Sequence[str]) -> _TableStreamReader:
        """The reader of these columns, of all if there are none."""


class DeltaStream(_TableSource):
    """The format of `stream_delta`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "matchwood-delta"

    def made(self, names: Sequence[str]) -> _TableStreamReader:
        """A reader of the Delta table."""
        return _DeltaStreamReader(self.options, names)


class IcebergStream(_TableSource):
    """The format of `stream_iceberg`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "matchwood-iceberg"

    def made(self, names: Sequence[str]) -> _TableStreamReader:
        """A reader of the Iceberg table."""
        return _IcebergStreamReader(self.options, names)


def _iceberg_table(options: Mapping[str, str]) -> Any:
    described = json.loads(options["table"])
    module, _, kind = described["class"].partition(":")
    catalog = getattr(import_module(module), kind)(described["name"], **described["properties"])
    return catalog.load_table(tuple(described["table"]))


def _not_appended(table: str, version: str) -> StorageError:
    return StorageError(
        f"{table}: {version} removes or changes records, which a stream cannot follow; start it with a new checkpoint, "
        "which reads the whole table again, or after that version"
    )
