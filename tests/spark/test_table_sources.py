"""Delta and Iceberg tables as input: partition columns, columns added and renamed later, deleted rows, older versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from matchwood.engine import Engine
from matchwood.errors import SchemaError, StorageError
from matchwood.spark import index_subscriptions, match
from matchwood.spark.lake import Lake
from matchwood.spark.pipeline import index_table, ingest_table, match_table
from matchwood.spark.table_sources import read_delta, read_iceberg

pytestmark = pytest.mark.filterwarnings("ignore")

FIRST = {"id": [1, 2, 3], "price": [10.0, 25.0, None], "city": ["Oslo", "Bergen", "Oslo"]}
SECOND = {"id": [4, 5], "price": [5.0, 99.0], "city": ["Bergen", "Oslo"], "colour": ["red", "blue"]}
SEARCHES = {1: "price < 30", 2: "city = 'Oslo'", 3: "price < 30 AND colour = 'red'", 4: "city != 'Oslo' ^0.5"}


def delta(spark: Any, folder: Path) -> tuple[Any, Any]:
    deltalake = pytest.importorskip("deltalake", reason="`pip install 'matchwood[tables]'`")
    path = folder / "delta"
    deltalake.write_deltalake(path, pa.table(FIRST), partition_by=["city"])
    deltalake.write_deltalake(path, pa.table(SECOND), mode="append", schema_mode="merge")
    return read_delta(spark, path), read_delta(spark, path, version=0)


def iceberg_table(folder: Path) -> Any:
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason="`pip install 'matchwood[tables]'`")
    from pyiceberg.types import StringType

    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("db")
    first = pa.table({"id": FIRST["id"], "cost": FIRST["price"], "city": FIRST["city"]})
    table = catalog.create_table("db.offers", schema=first.schema)
    with table.update_spec() as spec:
        spec.add_identity("city")
    table.append(first)
    with table.update_schema() as schema:
        schema.rename_column("cost", "price")
        schema.add_column("colour", StringType())
    table.append(pa.table(SECOND))
    return table


def iceberg(spark: Any, folder: Path) -> tuple[Any, Any]:
    table = iceberg_table(folder)
    first = table.snapshots()[0].snapshot_id
    older = read_iceberg(spark, table, snapshot=first)
    return read_iceberg(spark, table), older.withColumnRenamed("cost", "price")


def records(*tables: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for table in tables for row in zip(*table.values(), strict=True)]


def wanted(offers: list[dict[str, Any]]) -> set[tuple[int, int, float]]:
    engine = Engine()
    for id_, text in SEARCHES.items():
        engine.subscribe(text, id=id_)
    found = set()
    for offer in offers:
        values = {name: value for name, value in offer.items() if name != "id" and value is not None}
        found |= {(offer["id"], hit.id, hit.score) for hit in engine.match(values)}
    return found


@contextmanager
def indexed(spark: Any) -> Iterator[Any]:
    with index_subscriptions(spark.createDataFrame(list(SEARCHES.items()), "id bigint, expression string")) as index:
        yield index


@pytest.mark.parametrize("made", [delta, iceberg])
def test_a_table_is_matched_as_the_engine_says(spark: Any, lake: Lake, tmp_path: Path, made: Any) -> None:
    newest, older = made(spark, tmp_path)
    assert sorted(newest.columns) == ["city", "colour", "id", "price"]
    with indexed(spark) as index:
        rows = match(newest, index, event_columns=["city"]).collect()
        assert {(row["event_id"], row["subscription_id"], row["score"]) for row in rows} == wanted(
            records(FIRST, SECOND)
        )
        cities = {record["id"]: record["city"] for record in records(FIRST, SECOND)}
        assert all(row["city"] == cities[row["event_id"]] for row in rows)
        before = {tuple(row)[:3] for row in match(older, index).collect()}
        assert before == wanted(records(FIRST))
    ingest_table(lake, spark.createDataFrame(list(SEARCHES.items()), "id bigint, expression string"), "subscriptions")
    assert ingest_table(lake, newest, "events").counts == {"read": 5, "records": 5, "rejected": 0}
    index_table(lake, spark, index="scan")
    match_table(lake, spark)
    staged = {tuple(row)[:3] for row in lake.read(spark, "matches").collect()}
    assert staged == wanted(records(FIRST, SECOND))


def test_rows_that_were_deleted_from_an_iceberg_table_are_not_read(spark: Any, tmp_path: Path) -> None:
    table = iceberg_table(tmp_path)
    table.delete("id = 2")
    assert sorted(row["id"] for row in read_iceberg(spark, table, columns=["id"]).collect()) == [1, 3, 4, 5]


def test_what_is_missing_is_named(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="`pip install 'matchwood[tables]'`")
    delta(spark, tmp_path)
    with pytest.raises(SchemaError, match="column 'weight' is missing; found id, price, city, colour"):
        read_delta(spark, tmp_path / "delta", columns=["id", "weight"])
    with pytest.raises(StorageError, match="cannot be read as a Delta table"):
        read_delta(spark, tmp_path / "nothing")
    with pytest.raises(StorageError, match="there is no snapshot 7"):
        read_iceberg(spark, iceberg_table(tmp_path), snapshot=7)
