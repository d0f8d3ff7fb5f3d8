"""Streams of what is appended to Delta and Iceberg tables: each record once, over restarts, compactions and new columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from matchwood.errors import SchemaError, StorageError
from matchwood.spark import MatchStream, index_table, ingest_table, match
from matchwood.spark.lake import Lake
from matchwood.spark.table_streams import stream_delta, stream_iceberg
from tests.spark.test_table_sources import FIRST, SEARCHES, SECOND, iceberg_table, indexed, records, wanted

pytestmark = pytest.mark.filterwarnings("ignore")

THIRD = {"id": [6, 7], "price": [1.0, 50.0], "city": ["Oslo", "Oslo"], "colour": ["red", None]}


class Delta:
    """A Delta table with records of two versions."""

    def __init__(self, folder: Path) -> None:
        self._delta = pytest.importorskip("deltalake", reason="`pip install 'matchwood[tables]'`")
        self.path = folder / "delta table"
        self._delta.write_deltalake(self.path, pa.table(FIRST), partition_by=["city"])
        self.first = 0
        self.append(SECOND)

    def append(self, columns: dict[str, list[Any]]) -> None:
        self._delta.write_deltalake(self.path, pa.table(columns), mode="append", schema_mode="merge")

    def compact(self) -> None:
        before = self._delta.DeltaTable(self.path).version()
        self._delta.DeltaTable(self.path).optimize.compact()
        assert self._delta.DeltaTable(self.path).version() > before

    def delete(self) -> None:
        self._delta.DeltaTable(self.path).delete("id = 2")

    def stream(self, spark: Any, **options: Any) -> Any:
        return stream_delta(spark, self.path, **options)


class Iceberg:
    """The same as an Iceberg table."""

    def __init__(self, folder: Path) -> None:
        self.table = iceberg_table(folder)
        self.first = self.table.snapshots()[0].snapshot_id

    def append(self, columns: dict[str, list[Any]]) -> None:
        self.table.append(pa.table(columns))

    def compact(self) -> None:
        pytest.skip("pyiceberg does not compact")

    def delete(self) -> None:
        self.table.delete("id = 2")

    def stream(self, spark: Any, **options: Any) -> Any:
        return stream_iceberg(spark, self.table, **options)


Made = Callable[[Path], Any]
both = pytest.mark.parametrize("made", [Delta, Iceberg])


def arrived(table: Any, checkpoint: Path) -> list[dict[str, Any]]:
    """What a query that goes on from a checkpoint reads."""
    found: list[dict[str, Any]] = []

    def keep(batch: Any, number: int) -> None:
        found.extend(row.asDict() for row in batch.collect())

    writer = table.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return sorted(found, key=lambda row: row["id"])


def whole(*tables: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [{"colour": None, **record} for record in records(*tables)]


@both
def test_each_record_arrives_once_and_later_queries_go_on(spark: Any, tmp_path: Path, made: Made) -> None:
    table = made(tmp_path)
    assert arrived(table.stream(spark), tmp_path / "c") == whole(FIRST, SECOND)
    assert arrived(table.stream(spark), tmp_path / "c") == []
    table.append(THIRD)
    assert arrived(table.stream(spark), tmp_path / "c") == whole(THIRD)
    later = table.stream(spark, after=table.first, columns=["id", "city"])
    assert [row["id"] for row in arrived(later, tmp_path / "d")] == [4, 5, 6, 7]
    assert later.columns == ["id", "city"]


@both
def test_a_compaction_adds_nothing(spark: Any, tmp_path: Path, made: Made) -> None:
    table = made(tmp_path)
    assert len(arrived(table.stream(spark), tmp_path / "c")) == 5
    table.append(THIRD)
    table.compact()
    assert arrived(table.stream(spark), tmp_path / "c") == whole(THIRD)


@both
def test_a_deletion_ends_the_stream(spark: Any, tmp_path: Path, made: Made) -> None:
    table = made(tmp_path)
    arrived(table.stream(spark), tmp_path / "c")
    table.delete()
    with pytest.raises(Exception, match="removes or changes records, which a stream cannot follow"):
        arrived(table.stream(spark), tmp_path / "c")
    assert [row["id"] for row in arrived(table.stream(spark), tmp_path / "new")] == [1, 3, 4, 5]


@contextmanager
def staged(spark: Any, lake: Lake) -> Iterator[MatchStream]:
    searches = spark.createDataFrame(list(SEARCHES.items()), "id bigint, expression string")
    ingest_table(lake, searches, "subscriptions")
    index_table(lake, spark, index="scan")
    yield MatchStream(lake, "tables")


@both
def test_a_stream_of_a_table_is_matched_as_the_engine_says(spark: Any, lake: Lake, tmp_path: Path, made: Made) -> None:
    table = made(tmp_path)
    with staged(spark, lake) as stream:
        for number in range(2):
            query = stream.start(table.stream(spark), tmp_path / "c", availableNow=True)
            query.awaitTermination()
            if number == 0:
                table.append(THIRD)
        found = [(row["event_id"], row["subscription_id"], row["score"]) for row in stream.matches(spark).collect()]
    assert len(found) == len(set(found))
    assert set(found) == wanted(records(FIRST, SECOND, THIRD))
    with indexed(spark) as index:
        direct = arrived_matches(match(table.stream(spark), index), tmp_path / "direct")
    assert direct == wanted(records(FIRST, SECOND, THIRD))


def arrived_matches(matches: Any, checkpoint: Path) -> set[tuple[int, int, float]]:
    found: set[tuple[int, int, float]] = set()

    def keep(batch: Any, number: int) -> None:
        found.update(tuple(row)[:3] for row in batch.collect())

    writer = matches.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def test_what_cannot_be_read_is_named_before_a_query_starts(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="`pip install 'matchwood[tables]'`")
    with pytest.raises(StorageError, match="cannot be read as a Delta table"):
        stream_delta(spark, tmp_path / "nothing")
    with pytest.raises(SchemaError, match="column 'weight' is missing; found id, price, city, colour"):
        stream_delta(spark, Delta(tmp_path).path, columns=["id", "weight"])
