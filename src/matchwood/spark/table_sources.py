"""Tables of other formats as DataFrames, read without jars: the Python packages `deltalake` and `pyiceberg` open their files.

    read_delta(spark, "/data/offers")                           a version of a Delta table
    read_iceberg(spark, catalog.load_table("db.offers"))        a snapshot of an Iceberg table

The driver reads the log of the table and lists the files of one version; each task opens some of them and returns what the
package makes of them: columns that were added or renamed later, partition columns, and (Iceberg) deleted rows are applied there.
Where the jars of a format fit the Spark in use, `spark.table` is the better way, since it reads only the columns that are needed.
"""

from __future__ import annotations

import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from matchwood.errors import SchemaError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = "file"
"""The column of pickled files of the DataFrame that tasks read."""


def read_delta(
    spark: SparkSession,
    table: str | os.PathLike[str],
    *,
    version: int | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A version of a Delta table, by default the newest, or some of its columns. Lazy; the log is read now.

    `storage_options` are those of `deltalake`; the tasks use them too. Raises `UnsupportedError` if the table needs a feature
    that `deltalake` does not read as Arrow, such as deletion vectors.
    """
    dataset = delta_dataset(str(table), version, dict(storage_options or {}))
    files = DeltaFiles(chosen_fields(dataset.schema, columns or (), str(table)))
    return _of_files(spark, files, dataset.get_fragments())


def delta_dataset(table: str, version: int | None, storage_options: dict[str, str]) -> Any:
    """The files of a version of a Delta table, by default the newest, as an Arrow dataset."""
    try:
        import deltalake
    except ImportError:
        raise UnsupportedError("a Delta table needs deltalake: pip install 'matchwood[tables]'") from None
    try:
        found = deltalake.DeltaTable(table, version=version, storage_options=storage_options or None)
        return found.to_pyarrow_dataset()
    except deltalake.exceptions.DeltaProtocolError as error:
        raise UnsupportedError(f"{table}: {error}; read it with Spark and the jars of Delta") from None
    except deltalake.exceptions.DeltaError as error:
        raise StorageError(f"{table}: cannot be read as a Delta table: {error}") from None


def read_iceberg(
    spark: SparkSession, table: Any, *, snapshot: int | None = None, columns: Sequence[str] | None = None
) -> DataFrame:
    """A snapshot of a table of `pyiceberg`, by default the current one, or some of its columns. Lazy; files are listed now."""
    if snapshot is not None and table.snapshot_by_id(snapshot) is None:
        raise StorageError(f"{'.'.join(table.name())}: there is no snapshot {snapshot}")
    scan = table.scan(snapshot_id=snapshot)
    schema = chosen_fields(iceberg_schema(scan.projection()), columns or (), ".".join(table.name()))
    projected = scan.projection().select(*schema.names)
    return _of_files(spark, IcebergFiles(schema, table.metadata, table.io, projected), scan.plan_files())


def iceberg_schema(schema: Any) -> Any:
    """A schema of `pyiceberg` as that of Arrow."""
    try:
        from pyiceberg.io.pyarrow import schema_to_pyarrow
    except ImportError:
        raise UnsupportedError("an Iceberg table needs pyiceberg: pip install 'matchwood[tables]'") from None
    return schema_to_pyarrow(schema, include_field_ids=False)


@dataclass(frozen=True)
class Files(ABC):
    """Reads files of a table, in a worker, where they come pickled; each batch has the columns of `schema`."""

    schema: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for content in batch.column(0):
                yield from self.batches(pickle.loads(content.as_py()))  # made by the driver

    def batches(self, file: Any) -> Iterator[Any]:
        """The batches of a file, with the types that Spark uses."""
        for found in self.read(file):
            arrays = [
                array if array.type == field.type else array.cast(field.type)
                for array, field in zip(found.select(self.schema.names).columns, self.schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    @abstractmethod
    def read(self, file: Any) -> Iterator[Any]:
        """The batches of a file."""


@dataclass(frozen=True)
class DeltaFiles(Files):
    """Reads fragments of the dataset of a Delta table."""

    def read(self, file: Any) -> Iterator[Any]:
        """The batches of a fragment; the values of partition columns are known from its path in the log."""
        yield from file.to_batches(schema=self.schema)


@dataclass(frozen=True)
class IcebergFiles(Files):
    """Reads tasks of the scan of an Iceberg table."""

    metadata: Any
    io: Any
    projected: Any

    def read(self, file: Any) -> Iterator[Any]:
        """The batches of a file without its deleted rows."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        yield from ArrowScan(self.metadata, self.io, self.projected, AlwaysTrue()).to_record_batches([file])


def chosen_fields(schema: Any, columns: Sequence[str], table: str) -> Any:
    """The chosen fields of an Arrow schema, all if none are chosen, with the types that Spark uses."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise SchemaError(f"{table}: column {missing[0]!r} is missing; found {', '.join(schema.names)}")
    fields = pa.schema([schema.field(name) for name in columns]) if columns else schema
    return to_arrow_schema(from_arrow_schema(fields), timezone="UTC")


def _of_files(spark: SparkSession, files: Files, found: Iterable[Any]) -> DataFrame:
    """The records of files; each is read by one task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    pickled = [(pickle.dumps(file),) for file in found]
    listed = spark.createDataFrame(pickled, f"{_FILE} binary").repartition(max(len(pickled), 1))
    return listed.mapInArrow(files, from_arrow_schema(files.schema))
