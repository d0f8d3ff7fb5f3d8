"""Tables of other formats as sinks of a stream: each micro-batch is appended once, also if it is repeated after a failure.

    IcebergSink   the snapshot of a micro-batch has its number as a property
    DeltaSink     the commit of a micro-batch has its number as the version of an application transaction

Spark writes Parquet files into the folder of the table, and the Python packages `pyiceberg` and `deltalake` commit them. So no
jar is needed, and any Spark will do; releases of both formats for a new Spark come months after it.

`table_sources` reads such tables.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from matchwood.errors import UnsupportedError
from matchwood.spark import columns
from matchwood.spark.lake import checked_name
from matchwood.spark.places import Place, place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MATCHES = pa.schema([field.with_nullable(True) for field in columns.arrow_schema(columns.MATCHES)])


class IcebergSink:
    """Appends matches to a table of `pyiceberg`, whose columns are those of `columns.MATCHES`.

    `table` is a table of a catalog of `pyiceberg`, such as `load_catalog("prod").load_table("db.matches")`. Spark writes Parquet
    files to the table's location. `name` tells the streams apart that write to one table. Snapshots must be kept for longer than
    a failed stream is down.
    """

    def __init__(self, table: Any, name: str, *, storage: Mapping[str, Any] | None = None) -> None:
        self._table = table
        self._place: Place = place(str(table.location()), "table", storage)
        self._property = f"matchwood.{checked_name(name, 'stream')}"

    def __call__(self, matches: DataFrame, number: int) -> None:
        """Append the matches of a micro-batch, unless the table has them."""
        if self.last() >= number:
            return
        target = self._place / "data" / f"{self._property}-{number}-{uuid.uuid4().hex[:8]}"
        matches.write.option("compression", "zstd").parquet(target.written_by_spark)
        files = [(target / name).written_by_spark for name in target.names() if name.endswith(".parquet")]
        self._table.add_files(files, snapshot_properties={self._property: str(number)})

    def last(self) -> int:
        """The last micro-batch that the table has, -1 if none."""
        self._table.refresh()
        found = [snapshot.summary.get(self._property) for snapshot in self._table.snapshots() if snapshot.summary]
        return max((int(number) for number in found if number is not None), default=-1)

    @staticmethod
    def schema() -> Any:
        """The Arrow schema of a table of matches, for `catalog.create_table`."""
        return _MATCHES


class DeltaSink:
    """Appends matches to a Delta table in a folder, which is created if need be.

    `name` tells the streams apart that write to one table. `storage` opens our own files of an object store (`places`),
    `storage_options` those of `deltalake`.
    """

    def __init__(
        self,
        table: str | os.PathLike[str],
        name: str,
        *,
        storage: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._place: Place = place(table, "table", storage)
        self._name = f"matchwood.{checked_name(name, 'stream')}"
        self._options = dict(storage_options or {})

    def __call__(self, matches: DataFrame, number: int) -> None:
        """Append the matches of a micro-batch, unless the table has them."""
        delta = _deltalake()
        table = self._table(delta)
        if self.last() >= number:
            return
        folder = f"{self._name}-{number}-{uuid.uuid4().hex[:8]}"
        target = self._place / folder
        matches.write.option("compression", "zstd").parquet(target.written_by_spark)
        files = [name for name in target.names() if name.endswith(".parquet")]
        actions = [self._action(delta, f"{folder}/{name}", target / name) for name in files]
        once = delta.CommitProperties(app_transactions=[delta.Transaction(self._name, number)])
        table.create_write_transaction(actions, "append", table.schema(), commit_properties=once)

    def last(self) -> int:
        """The last micro-batch that the table has, -1 if none."""
        found = self._table(_deltalake()).transaction_version(self._name)
        return -1 if found is None else int(found)

    def _action(self, delta: Any, path: str, file: Place) -> Any:
        content = file.read()
        records = pq.read_metadata(pa.BufferReader(content)).num_rows
        now = int(time.time() * 1000)
        return delta.transaction.AddAction(path, len(content), {}, now, True, f'{{"numRecords": {records}}}')

    def _table(self, delta: Any) -> Any:
        uri = self._place.written_by_spark.removeprefix("file://")
        return delta.DeltaTable.create(uri, _MATCHES, mode="ignore", storage_options=self._options or None)


def _deltalake() -> Any:
    try:
        import deltalake
        import deltalake.transaction
    except ImportError:
        raise UnsupportedError("a Delta table needs deltalake: pip install deltalake") from None
    return deltalake
