"""Workloads from tables, on small tables of the same columns; the real files are not needed."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from matchwood.encode.arrays import INTERVAL, MORE
from matchwood.workloads import Ads, Flights, Papers, Retail, Workload, WorkloadError
from matchwood.workloads.table import encode

ROWS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(11)
    folder = tmp_path_factory.mktemp("data")
    write(folder, "nycflights13_wide", flights(rng))
    write(folder, "online_retail_2010_2011", retail(rng))
    write(folder, "acl_papers_2016_2023", papers(rng))
    write(folder, "openbandit_ads_2019", ads(rng))
    return folder


def write(folder: Path, name: str, columns: dict[str, object]) -> None:
    pa.parquet.write_table(pa.table({"id": np.arange(ROWS), **columns}), folder / f"{name}.parquet")


def flights(rng: np.random.Generator) -> dict[str, object]:
    numbers = {f"n{n}": pa.array(rng.normal(size=ROWS), mask=rng.random(ROWS) < 0.3) for n in range(10)}
    carrier = pa.array(rng.choice(["UA", "AA", "DL"], ROWS)).dictionary_encode()
    times = pa.array([datetime(2013, 1, 1) + timedelta(hours=int(h)) for h in rng.integers(1000, size=ROWS)])
    return {**numbers, "carrier": carrier, "time_hour": times}


def retail(rng: np.random.Generator) -> dict[str, object]:
    return {
        "stock_code": rng.choice([f"p{n}" for n in range(20)], ROWS),
        "unit_price": rng.uniform(1, 9, ROWS),
        "quantity": rng.integers(1, 40, ROWS),
        "country": rng.choice(["FR", "UK"], ROWS),
        "customer_id": pa.array(rng.integers(99, size=ROWS), mask=rng.random(ROWS) < 0.2),
        "ts": pa.array([datetime(2010, 12, 1)] * ROWS),
        "is_cancel": rng.random(ROWS) < 0.1,
    }


def papers(rng: np.random.Generator) -> dict[str, object]:
    def lists(prefix: str, count: int, fewest: int) -> list[list[str]]:
        return [[f"{prefix}{n}" for n in rng.integers(count, size=rng.integers(fewest, 6))] for _ in range(ROWS)]

    texts = {name: pa.array(["x"] * ROWS) for name in ("month", "volume_type", "publisher", "language")}
    numbers = {name: rng.integers(1, 20, ROWS) for name in ("n_authors", "n_pages")}
    year = rng.integers(2016, 2024, ROWS)
    words = {"title_terms": lists("t", 40, 1), "authors": lists("a", 60, 0), "venues": lists("v", 5, 1)}
    return {**words, "year": year, **texts, **numbers}


def ads(rng: np.random.Generator) -> dict[str, object]:
    features = {f"user_feature_{n}": rng.integers(4, size=ROWS) for n in range(4)}
    items = {f"item_feature_{n}": rng.integers(5, size=ROWS) for n in (1, 2, 3)}
    rest = {"policy": ["bts"] * ROWS, "position": rng.integers(3, size=ROWS), "item_id": rng.integers(9, size=ROWS)}
    campaign = rng.choice(["men", "women"], ROWS)
    return {**features, **items, **rest, "campaign": campaign, "item_feature_0": rng.normal(size=ROWS)}


@pytest.mark.parametrize("kind", [Flights, Retail, Papers, Ads])
def test_every_subscription_is_well_formed_and_some_match(kind: type[Workload], folder: Path) -> None:
    workload = kind(size=1000, data=folder)  # type: ignore[call-arg]
    rows = workload.subscriptions()
    assert all(np.array_equal(a, b) for a, b in zip(rows, workload.subscriptions(), strict=True))
    assert np.array_equal(np.unique(rows.ids), np.arange(1000))
    assert (np.diff(rows.ids) >= 0).all()
    assert (np.diff(rows.offsets) > 0).all()
    assert rows.offsets[-1] == len(rows.dims)
    assert (rows.lo <= rows.hi).all()
    assert (rows.weight >= 0).all()
    assert (rows.weight[rows.kinds == MORE] == 0).all()
    assert (rows.kinds[rows.offsets[:-1]] == INTERVAL).all()
    step = np.diff(rows.dims.astype(int))
    step[rows.offsets[1:-1] - 1] = 1
    assert np.array_equal(rows.kinds[1:] == MORE, step == 0)
    assert (step >= 0).all()
    assert workload.selectivity(events=100).probability > 0


@pytest.mark.parametrize("kind", [Flights, Retail, Papers, Ads])
def test_events_do_not_depend_on_the_subscriptions(kind: type[Workload], folder: Path) -> None:
    few, many = kind(size=10, data=folder), kind(size=99, data=folder)  # type: ignore[call-arg]
    assert all(np.array_equal(a, b) for a, b in zip(few.events(40), many.events(40), strict=True))


@pytest.mark.parametrize("kind", [Flights, Retail, Ads])
def test_a_subscription_holds_for_the_row_it_was_drawn_from(kind: type[Workload], folder: Path) -> None:
    """So every subscription matches at least one row, except where a product's quantile passes that row by."""
    from matchwood.workloads import measure

    workload = kind(size=60, data=folder)  # type: ignore[call-arg]
    table = workload.table()  # type: ignore[attr-defined]
    rows = workload.subscriptions()
    hit = np.zeros(60, dtype=bool)
    for row in range(60):
        hit[row] = measure(
            rows.take(row, row + 1)._replace(ids=np.zeros(1, np.int64)), table.events(np.arange(ROWS))
        ).matches.any()
    assert hit.mean() == 1 if kind is not Retail else hit.mean() > 0.5


def test_missing_data_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"nycflights13_wide\.parquet was not found .* set MATCHWOOD_DATA"):
        Flights(size=5, data=tmp_path).subscriptions()


def test_a_table_becomes_keys_with_nulls_absent_and_lists_ascending_and_distinct() -> None:
    source = pa.table(
        {
            "id": [0, 1],
            "tags": [["b", "a", "b"], []],
            "name": pa.array(["x", None]),
            "day": pa.array([None, datetime(1970, 1, 2)], pa.timestamp("ms")),
            "ok": [True, False],
        }
    )
    table = encode(source)
    events = table.events(np.array([0, 1]))
    assert events.offsets.tolist() == [0, 4, 6]
    assert events.dims.tolist() == [0, 0, 1, 3, 2, 3]
    assert events.lo.tolist() == [0.0, 1.0, 0.0, 1.0, 86_400e6, 0.0]
    assert [attribute.type for attribute in table.schema] == ["string", "string", "timestamp", "bool"]
    assert np.isnan(table.column("day")).tolist() == [True, False]


def test_flights_intervals_hold_their_share_of_the_column(folder: Path) -> None:
    workload = Flights(size=500, data=folder, mass=0.5)
    rows, table = workload.subscriptions(), workload.table()
    values = np.sort(table.column("n0"))[: int((~np.isnan(table.column("n0"))).sum())]
    here = np.flatnonzero(rows.dims == table.schema.find("n0").dims[0])
    held = np.searchsorted(values, rows.hi[here], side="right") - np.searchsorted(values, rows.lo[here])
    assert held.max() / len(values) == pytest.approx(0.5, abs=0.02)
    sizes = np.diff(rows.offsets)
    assert sizes.min() == 3
    assert sizes.max() <= 12
