"""The tables of the Spark experiment, and a checksum of matches that executors and this process can both compute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from matchwood.encode.arrays import Events, Matches, Rows, make_events, make_rows
from matchwood.store.kernels.ordering import order_hits

DIMS = 6
SEED = 7
FILES = 4
SLICE = 50_000
"""Events that are matched at a time while the checksum is computed."""


@dataclass(frozen=True)
class Shape:
    """The average widths of intervals in the first two dimensions, which can be a place, and in the others."""

    place: float = 0.18
    other: float = 0.18

    def subscriptions(self, n: int) -> Rows:
        """An interval in each of six dimensions, anywhere in the unit cube."""
        rng = np.random.default_rng(SEED)
        width = np.array([self.place] * 2 + [self.other] * (DIMS - 2))
        centre, half = rng.random((n, DIMS)), rng.uniform(0.5, 1.5, (n, DIMS)) * width / 2
        ends = (centre - half).ravel(), (centre + half).ravel()
        flat = np.tile(np.arange(DIMS), n), np.zeros(n * DIMS), *ends, rng.random(n * DIMS)
        return make_rows(np.arange(n), np.zeros(n), np.arange(n + 1) * DIMS, *flat)


def events(n: int) -> Events:
    """A value in each dimension."""
    values = np.random.default_rng(SEED + 1).random(n * DIMS)
    return make_events(np.arange(n + 1) * DIMS, np.tile(np.arange(DIMS), n), values, values)


def write_subscription_table(rows: Rows, folder: Path) -> None:
    """Write subscriptions as the pipeline stores them, in four files."""
    from matchwood.spark.batches import SubscriptionBatch, write_subscriptions

    for path, first, last in _files(folder, rows.size):
        part = rows.take(first, last)
        batch = write_subscriptions(SubscriptionBatch(part.ids, np.full(part.size, np.inf), part))
        pq.write_table(pa.Table.from_batches([batch]), path, row_group_size=last - first)


def write_event_table(table: Events, folder: Path) -> None:
    """Write events as the pipeline stores them, in four files; ids are positions."""
    from matchwood.spark.batches import EventBatch, write_events

    for path, first, last in _files(folder, table.size):
        part = table.take(first, last)
        batch = write_events(EventBatch(np.arange(first, last), np.full(part.size, np.inf), part))
        pq.write_table(pa.Table.from_batches([batch]), path, row_group_size=last - first)


def write_stream(table: Events, folder: Path, *, files: int, size: int, lines: bool) -> None:
    """Write the first events as files of a stream: a table with a column per dimension, or JSON lines."""
    folder.mkdir(parents=True)
    values = table.lo.reshape(-1, DIMS)
    for number in range(files):
        ids = np.arange(number * size, (number + 1) * size)
        part = values[ids]
        if lines:
            records = (
                json.dumps({"id": id_, "values": {f"d{d}": value for d, value in enumerate(row)}})
                for id_, row in zip(ids.tolist(), part.tolist(), strict=True)
            )
            (folder / f"{number:04}.json").write_text("\n".join(records) + "\n", encoding="utf-8")
        else:
            columns = {f"d{d}": part[:, d] for d in range(DIMS)}
            pq.write_table(pa.table({"id": ids, **columns}), folder / f"{number:04}.parquet")


def _files(folder: Path, size: int) -> Iterator[tuple[Path, int, int]]:
    folder.mkdir(parents=True)
    step = -(-size // FILES)
    for number, first in enumerate(range(0, size, step)):
        yield folder / f"{number}.parquet", first, min(first + step, size)


@dataclass(frozen=True)
class Sum:
    """The number of matches, and a checksum of event, id, score and rank that does not depend on their order."""

    matches: int = 0
    total: int = 0

    def add(self, batch: Any) -> Sum:
        """The sum including the matches of an Arrow batch (`columns.MATCHES`)."""
        from matchwood.spark.sketch import hashed

        names = ("event_id", "subscription_id", "score", "rank")
        event, id_, score, rank = (batch.column(name).to_numpy(zero_copy_only=False) for name in names)
        mixed = hashed(score.view(np.uint64) + hashed(rank.astype(np.uint64)))
        mixed = hashed(event.astype(np.uint64) + hashed(id_.astype(np.uint64) + mixed))
        return Sum(self.matches + len(event), (self.total + int(mixed.sum())) % 2**64)

    def plus(self, other: Sum) -> Sum:
        """The sum of both."""
        return Sum(self.matches + other.matches, (self.total + other.total) % 2**64)


@dataclass(frozen=True)
class Summing:
    """The sum of a partition of matches."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        whole = Sum()
        for batch in batches:
            whole = whole.add(batch)
        # Spark has no unsigned column: `sum_there` takes the sum modulo 2^64.
        total = np.array([whole.total], np.uint64).view(np.int64)
        yield pa.RecordBatch.from_arrays([pa.array([whole.matches]), pa.array(total)], names=["matches", "total"])


def sum_there(matches: Any) -> Sum:
    """The sum of a DataFrame of matches."""
    rows = matches.mapInArrow(Summing(), "matches long, total long").collect()
    return Sum(sum(row["matches"] for row in rows), sum(row["total"] for row in rows) % 2**64)


def sum_here(index: Any, table: Events, k: int | None) -> Sum:
    """The sum of the matches that an index in this process gives."""
    from matchwood.spark.batches import write_matches

    whole = Sum()
    for first in range(0, table.size, SLICE):
        last = min(first + SLICE, table.size)
        found = matched(index, table.take(first, last), k)
        whole = whole.add(write_matches(np.arange(first, last), found))
    return whole


def matched(index: Any, table: Events, k: int | None) -> Matches:
    """The ranked matches of events, as a task computes them."""
    if k is not None:
        best: Matches = index.top_k(table, k)
        return best
    found: Matches = index.match(table)
    order_hits(found.offsets, found.ids, found.scores)
    return found


def in_threads(workers: list[Any], table: Events, k: int | None) -> None:
    """Match all events, divided among threads with one index each, and throw the matches away."""
    n = table.size
    shares = [(i * n // len(workers), (i + 1) * n // len(workers)) for i in range(len(workers))]

    def one(index: Any, first: int, last: int) -> None:
        for at in range(first, last, SLICE):
            matched(index, table.take(at, min(at + SLICE, last)), k)

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(lambda pair: one(pair[0], *pair[1]), zip(workers, shares, strict=True)))
