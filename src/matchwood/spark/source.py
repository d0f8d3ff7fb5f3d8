"""A lake as a data source of Spark: `spark.read.format("matchwood").load(lake)`, in SQL `CREATE TABLE ... USING matchwood`.

    (no option)         one record for each version: table, version, written, records, parameters, upstream
    table, version      a table of the lake, by default its newest version
    stream              the matches of the finished micro-batches of a stream

`storage` is the JSON of the options of an object store. PySpark finds the format by itself, in the package `pyspark_matchwood`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, StructField, StructType

from matchwood.errors import QueryError, StorageError
from matchwood.spark import columns
from matchwood.spark.lake import CLAIMS, Lake
from matchwood.spark.places import Place, place
from matchwood.spark.stream_plan import numbered, stream_folder

FORMAT = "matchwood"
VERSIONS = "`table` string, version int, written string, records bigint, parameters string, upstream string"
_BATCH = StructField("batch", IntegerType(), False)
_NOT_TABLES = ("codebook", "streams")


class LakeSource(DataSource):  # type: ignore[misc]
    """The tables, versions, rejects and matches of a lake."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType | str:
        """The columns of what the options choose."""
        chosen = _chosen(self.options)
        if isinstance(chosen, Lake):
            return VERSIONS
        return _columns_of(chosen)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of what the options choose."""
        chosen = _chosen(self.options)
        return VersionReader(chosen.root) if isinstance(chosen, Lake) else FileReader(chosen, schema)


@dataclass(frozen=True)
class File(InputPartition):  # type: ignore[misc]
    """A file of a table, and the micro-batch whose matches it holds."""

    place: Place
    batch: int | None = None


class FileReader(DataSourceReader):  # type: ignore[misc]
    """Reads Parquet files, each in one task."""

    def __init__(self, files: list[File], schema: StructType) -> None:
        self._files = files
        self._schema = columns.arrow_schema(schema)

    def partitions(self) -> list[File]:
        """The files."""
        return self._files

    def read(self, partition: File) -> Iterator[Any]:
        """The records of a file as Arrow batches."""
        table = pq.read_table(pa.BufferReader(partition.place.read()))
        if partition.batch is not None:
            table = table.append_column("batch", pa.array([partition.batch] * table.num_rows, pa.int32()))
        arrays = [table.column(field.name).cast(field.type) for field in self._schema]  # time zones may differ
        yield from pa.Table.from_arrays(arrays, schema=self._schema).to_batches()


class VersionReader(DataSourceReader):  # type: ignore[misc]
    """Reads the manifests of a lake."""

    def __init__(self, root: Place) -> None:
        self._root = root

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """One record for each version."""
        lake = Lake(self._root)
        for name in tables_of(lake):
            for version in lake.versions(name):
                manifest, written = lake.manifest(name, version), lake.written(name, version)
                records = manifest.counts.get("records", manifest.counts.get("subscriptions"))
                described = (json.dumps(dict(part), default=str) for part in (manifest.parameters, manifest.upstream))
                yield (name, version, written, None if records is None else int(records), *described)


def tables_of(lake: Lake) -> list[str]:
    """The names of the tables of a lake, also of those that have no version yet."""
    names = [name for name in lake.root.names() if name not in _NOT_TABLES]
    return [name for name in names if (lake.root / name / CLAIMS).names()]


def _chosen(options: Mapping[str, str]) -> Lake | list[File]:
    """The lake, or the files that the options choose."""
    given = {str(name).lower(): value for name, value in options.items()}
    if "path" not in given:
        raise QueryError(f"format {FORMAT!r}: expected the path or URI of a lake, as .load(lake)")
    lake = Lake(place(given["path"], "lake", json.loads(given.get("storage", "{}"))))
    if "stream" in given:
        return _files_of_stream(lake, given["stream"])
    if "table" not in given:
        return lake
    name = given["table"]
    version = int(given["version"]) if "version" in given else lake.latest(name)
    folder = lake.folder(name, lake.manifest(name, version).version) / "data"
    files = [File(folder / file) for file in folder.names() if file.endswith(".parquet")]
    if not files:
        raise StorageError(f"{folder}: table {name!r} has no files of records; an index is read with `open_index`")
    return files


def _files_of_stream(lake: Lake, name: str) -> list[File]:
    stream = stream_folder(lake, name)
    folders = [(number, stream / "matches" / f"batch={number}") for number in numbered(stream / "done")]
    return [File(f / file, number) for number, f in folders for file in f.names() if file.endswith(".parquet")]


def _columns_of(files: list[File]) -> StructType:
    if not files:
        return StructType([*columns.MATCHES, _BATCH])
    from pyspark.sql.pandas.types import from_arrow_schema

    found: StructType = from_arrow_schema(pq.read_schema(pa.BufferReader(files[0].place.read())))
    return found if files[0].batch is None else StructType([*found, _BATCH])
