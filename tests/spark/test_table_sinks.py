"""Delta and Iceberg tables as sinks: every match once, whatever is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from matchwood.spark.lake import Lake
from matchwood.spark.streaming import MatchStream
from matchwood.spark.table_sinks import DeltaSink, IcebergSink
from tests.spark.stream_world import events, expected, put
from tests.spark.test_streaming import CrashError, drained, prepared, source


def delta(folder: Path) -> tuple[Any, Any]:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed; `pip install matchwood[tables]`")
    return DeltaSink(folder / "delta", "s"), lambda: pyarrow_rows(
        deltalake.DeltaTable(folder / "delta").to_pyarrow_table()
    )


def iceberg(folder: Path) -> tuple[Any, Any]:
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason="`pip install 'pyiceberg[sql-sqlite]'`")
    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.matches", schema=IcebergSink.schema())
    return IcebergSink(table, "s"), lambda: pyarrow_rows(catalog.load_table("db.matches").scan().to_arrow())


def pyarrow_rows(table: Any) -> list[tuple[int, int, float]]:
    return sorted((r["event_id"], r["subscription_id"], r["score"]) for r in table.to_pylist())


@pytest.mark.parametrize("made", [delta, iceberg])
@pytest.mark.filterwarnings("ignore")
def test_a_stream_into_a_table_writes_every_match_once_though_micro_batches_crash(
    spark: Any, lake: Lake, tmp_path: Path, made: Any
) -> None:
    base = prepared(spark, lake, tmp_path, index="scan")
    sink, rows = made(tmp_path)
    published = [events(number, 15) for number in range(3)]
    for number, records in enumerate(published):
        put(tmp_path / "in", f"{number}.json", records)
    crashed: set[int] = set()

    def crashing(matches: Any, number: int) -> None:
        sink(matches, number)
        if number not in crashed:
            crashed.add(number)
            raise CrashError("after writing")

    for _ in range(4):
        try:
            drained(MatchStream(lake, "s", sink=crashing), source(spark, tmp_path / "in"), tmp_path / "checkpoint")
            break
        except Exception as error:
            if "CrashError" not in str(error):
                raise
    assert crashed == {0, 1, 2}
    assert sink.last() == 2
    assert rows() == sorted(expected(base, [record for records in published for record in records], None))
