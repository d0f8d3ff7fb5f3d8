"""Parquet is streamed: parts of bounded size, files named in errors, the same arrays as the table at once."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from matchwood.encode.parquet import read_events, read_subscriptions, stream_subscriptions
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.errors import StorageError
from matchwood.schema import Schema
from tests.encode.tables import assert_same


def a_table(n: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    lo = rng.random(8 * n)
    names = pa.array([f"attribute{i}" for i in range(8)])
    attribute = pa.DictionaryArray.from_arrays(pa.array(np.tile(np.arange(8, dtype=np.int32), n)), names)
    structs = pa.StructArray.from_arrays([attribute, pa.array(lo), pa.array(lo + 0.1)], ["attribute", "lo", "hi"])
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, 8 * n + 1, 8, dtype=np.int32)), structs)
    return pa.table({"id": np.arange(n), "predicates": lists})


def a_wide_table(n: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"id": np.arange(n)}
    for i in range(8):
        lo = rng.random(n)
        columns |= {f"a{i}_lo": lo, f"a{i}_hi": lo + 0.1}
    return pa.table(columns)


def test_a_file_streams_in_parts_and_reports_progress(tmp_path: Path) -> None:
    table, path = a_table(1_000), tmp_path / "subs.parquet"
    pq.write_table(table, path, row_group_size=300)
    seen: list[tuple[int, int]] = []
    parts = list(
        stream_subscriptions(path, Schema(), batch_rows=256, progress=lambda done, total: seen.append((done, total)))
    )
    assert max(part.read for part in parts) <= 256
    assert seen[-1] == (1_000, 1_000)
    whole = encode_subscription_table(table, Schema())
    assert_same(read_subscriptions(path, Schema(), batch_rows=100).rows, whole.rows)
    assert whole.rows.size == 1_000


def test_a_folder_is_read_in_order_and_errors_name_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "age": [1, 2]}), tmp_path / "part-0.parquet")
    pq.write_table(pa.table({"id": [3, 2], "age": [3, 4]}), tmp_path / "part-1.parquet")
    (tmp_path / "_SUCCESS.parquet").touch()
    encoded = read_subscriptions(tmp_path, Schema({"age": "number"}))
    assert encoded.ids.tolist() == [1, 2, 3]
    assert [(r.position, r.where, r.id) for r in encoded.rejects] == [(3, "part-1.parquet, row 1", 2)]
    assert read_events(tmp_path, Schema()).read == 4


def test_what_is_no_parquet_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    for path, reason in [(tmp_path / "y", "no such file"), (tmp_path / "x.parquet", "not a readable Parquet file")]:
        with pytest.raises(StorageError, match=reason):
            read_events(path, Schema())
    (tmp_path / "x.parquet").unlink()
    with pytest.raises(StorageError, match="no Parquet file"):
        read_events(tmp_path, Schema())


@pytest.mark.stress
@pytest.mark.parametrize("make", [a_table, a_wide_table])
def test_a_million_subscriptions_of_eight_predicates_take_less_than_five_seconds(make: object) -> None:
    table = make(1_000_000)  # type: ignore[operator]
    start = perf_counter()
    encoded = encode_subscription_table(table, Schema())
    assert perf_counter() - start < 5.0
    assert encoded.rows.offsets[-1] == 8_000_000


def test_a_parquet_file_that_is_damaged_inside_is_a_storage_error(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"id": range(1000), "expression": ["age > 3"] * 1000}), path, compression="none")
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36  # the first page's header
    path.write_bytes(bytes(content))
    with pytest.raises(StorageError, match="damaged"):
        read_subscriptions(path, Schema())
