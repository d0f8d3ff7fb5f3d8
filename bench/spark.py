"""The pipeline on Spark: against Spark's own range join, against the same index in this process, and from one core to a cluster.

    join        events x subscriptions x 6 intervals: `mapInArrow` over a mapped index against BroadcastNestedLoopJoin
    process     the share of the in-process kernel's throughput that is left, with as many cores
    index       build and publish; a worker's first match; memory of workers that map one index
    scale       the same job on local[1], local[2] and a cluster of two executor processes
    stream      a micro-batch of 1,000 events against one that does nothing

Starts and ends sessions of its own, one at a time.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Report
from matchwood.encode.arrays import Events, Rows, make_events, make_rows
from matchwood.kernels.ordering import order_hits
from matchwood.schema import Schema

DIMS = 6
K = 10
INDEX = "mo-tree"
WORKLOAD = "6 intervals"
SIZES = {
    "quick": {"subscriptions": 50_000, "events": 5_000, "many": 50_000, "joined": 200, "batches": 12, "cluster": 0},
    "paper": {
        "subscriptions": 1_000_000,
        "events": 10_000,
        "many": 1_000_000,
        "joined": 1_000,
        "batches": 20,
        "cluster": 1,
    },
}
SELECTIVITY = 0.18
SEED = 7


def run(preset: str, report: Report) -> None:
    """All parts of the experiment."""
    from matchwood.spark.session import java_problem

    problem = java_problem()
    if problem:
        print(f"spark is left out: {problem}")
        return
    sizes = SIZES[preset]
    report.workload(WORKLOAD, dimensions=DIMS, width=SELECTIVITY, seed=SEED, index=INDEX, k=K, **sizes)
    folder = Path(tempfile.mkdtemp(prefix="matchwood-spark-"))
    warnings.simplefilter("ignore")
    try:
        Bench(report, folder, sizes).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def subscriptions(n: int) -> Rows:
    """An interval in each of six dimensions, about SELECTIVITY wide, anywhere in the unit cube."""
    rng = np.random.default_rng(SEED)
    centre, half = rng.random((n, DIMS)), rng.uniform(0.5, 1.5, (n, DIMS)) * SELECTIVITY / 2
    ends = (centre - half).ravel(), (centre + half).ravel()
    flat = np.tile(np.arange(DIMS), n), np.zeros(n * DIMS), *ends, rng.random(n * DIMS)
    return make_rows(np.arange(n), np.zeros(n), np.arange(n + 1) * DIMS, *flat)


def events(n: int) -> Events:
    """A value in each dimension."""
    values = np.random.default_rng(SEED + 1).random(n * DIMS)
    return make_events(np.arange(n + 1) * DIMS, np.tile(np.arange(DIMS), n), values, values)


@dataclass
class Bench:
    """The parts, on tables that are written once."""

    report: Report
    folder: Path
    sizes: dict[str, int]

    def run(self) -> None:
        from matchwood.spark.codebook import Codebook
        from matchwood.spark.lake import Lake

        self.lake = Lake(self.folder / "lake")
        self.codebook = Codebook.declare(Schema({f"d{d}": "number" for d in range(DIMS)}, learn=False))
        self.lake.keep_codebook(self.codebook)
        self.rows, self.events = subscriptions(self.sizes["subscriptions"]), events(self.sizes["many"])
        self._write_tables()
        self._two_cores()
        masters = ("local[1]", "local-cluster[2,1,2048]") if self.sizes["cluster"] else ("local[1]",)
        for master in masters:
            with self.report.step(master):
                self._scale(master)

    def _session(self, master: str) -> Any:
        from matchwood.spark.session import local_session

        options = {"spark.local.dir": str(self.folder / "local"), "spark.executor.memory": "1g"}
        return local_session(master=master, memory="3g", partitions=4, options=options)

    def _two_cores(self) -> None:
        start = time.perf_counter()
        spark = self._session("local[2]")
        spark.range(1).count()
        started = time.perf_counter() - start
        self._row("session", "start_s", started, n=1)
        try:
            self._index(spark)
            self._against_join(spark, started)
            self._against_process(spark)
            self._memory(spark)
            self._stream(spark)
        finally:
            spark.stop()

    def _write_tables(self) -> None:
        from matchwood.spark.batches import EventBatch, SubscriptionBatch, write_events, write_subscriptions

        for name, size, write in (
            ("subscriptions", self.rows.size, self._subscription_batch(SubscriptionBatch, write_subscriptions)),
            ("events", self.events.size, self._event_batch(EventBatch, write_events)),
        ):
            (self.folder / name).mkdir()
            step = -(-size // 4)
            for number, first in enumerate(range(0, size, step)):
                batch = write(first, min(first + step, size))
                pq.write_table(
                    pa.Table.from_batches([batch]), self.folder / name / f"{number}.parquet", row_group_size=step
                )

    def _subscription_batch(self, make: Any, write: Any) -> Callable[[int, int], Any]:
        def batch(first: int, last: int) -> Any:
            part = self.rows.take(first, last)
            return write(make(part.ids, np.full(part.size, np.inf), part))

        return batch

    def _event_batch(self, make: Any, write: Any) -> Callable[[int, int], Any]:
        def batch(first: int, last: int) -> Any:
            part = self.events.take(first, last)
            return write(make(np.arange(first, last), np.full(part.size, np.inf), part))

        return batch

    def _index(self, spark: Any) -> None:
        from matchwood.spark.index_stage import build_index

        table = spark.read.parquet(str(self.folder / "subscriptions"))
        times = []
        for _ in range(2):
            start = time.perf_counter()
            self.index = build_index(table, self.lake, self.codebook, index=INDEX)
            times.append(time.perf_counter() - start)
        self._row(f"{INDEX}, first in session", "build_and_publish_s", times[0])
        self._row(f"{INDEX}, warm", "build_and_publish_s", times[1])
        self._row(INDEX, "bytes", self.index.bytes)

    def _events(self, spark: Any, n: int) -> Any:
        table = spark.read.parquet(str(self.folder / "events"))
        return table if n == self.events.size else table.filter(f"id < {n}").repartition(2).localCheckpoint()

    def _against_join(self, spark: Any, started: float) -> None:
        from matchwood.spark.match import match

        n, few = self.sizes["events"], self.sizes["joined"]
        asked, first = self._events(spark, n), time.perf_counter()
        drained(match(asked.limit(1), self.index, k=K))
        self._row("a worker's first match", "s", time.perf_counter() - first, n=1)
        start = time.perf_counter()
        drained(match(asked, self.index))
        cold = time.perf_counter() - start
        every = median(lambda: drained(match(asked, self.index)), 3)
        best = median(lambda: drained(match(asked, self.index, k=K)), 3)
        joined, pairs = self._join(spark, few)
        sample = asked.filter(f"id < {few}")
        own = [tuple(row) for row in match(sample, self.index).collect()]
        assert {(event, id_) for event, id_, _, _ in own} == pairs, "Spark's join and the index disagree"
        top = {tuple(row) for row in match(sample, self.index, k=K).collect()}
        assert top == {row for row in own if row[3] <= K}, "the k best are not the first of all"
        join = joined * n / few
        name = f"Spark's range join, from {few} events"
        self._row(name, "s", join, n=n, verified=True)
        for system, seconds in (("all, warm", every), (f"top-{K}, warm", best), ("all, first in session", cold)):
            self._row(system, "s", seconds, n=n, baseline=name, ratio=join / seconds, verified=True)
        whole = started + cold
        self._row("all, with the session's start", "s", whole, n=n, baseline=name, ratio=join / whole, verified=True)

    def _join(self, spark: Any, few: int) -> tuple[float, set[tuple[int, int]]]:
        """What a user would write: a join on six ranges; it plans as a nested loop over a broadcast."""
        n = self.rows.size
        lo, hi = self.rows.lo.reshape(n, DIMS), self.rows.hi.reshape(n, DIMS)
        wide = pa.table(
            {
                "sid": self.rows.ids,
                **{f"lo{d}": lo[:, d] for d in range(DIMS)},
                **{f"hi{d}": hi[:, d] for d in range(DIMS)},
            }
        )
        pq.write_table(wide, self.folder / "wide.parquet", row_group_size=-(-n // 4))
        values = self.events.lo.reshape(-1, DIMS)[:few]
        left = spark.createDataFrame(pa.table({"eid": np.arange(few), **{f"v{d}": values[:, d] for d in range(DIMS)}}))
        right = spark.read.parquet(str(self.folder / "wide.parquet"))
        condition = " AND ".join(f"v{d} BETWEEN lo{d} AND hi{d}" for d in range(DIMS))
        joined = right.join(left.hint("broadcast"), on=_expression(condition)).select("eid", "sid")
        right.count()
        start = time.perf_counter()
        found = {(row["eid"], row["sid"]) for row in joined.collect()}
        return time.perf_counter() - start, found

    def _against_process(self, spark: Any) -> None:
        """The same events, the same index, two threads here and two tasks there; both times warm."""
        from matchwood.index import load_index
        from matchwood.spark.match import match

        folder = Path(next(iter(self.index.paths().values()))) / "index"
        workers = [load_index(folder) for _ in range(2)]
        n = self.events.size
        parts = [self.events.take(i * n // 2, (i + 1) * n // 2) for i in range(2)]
        asked = self._events(spark, n)
        for k, system in ((None, "all"), (K, f"top-{K}")):

            def here(k: int | None = k) -> list[Any]:
                with ThreadPoolExecutor(2) as pool:
                    return list(pool.map(lambda pair: matched(*pair, k), zip(workers, parts, strict=True)))

            def there(k: int | None = k) -> None:
                drained(match(asked, self.index, k=k))

            here()
            there()
            inside, outside = [], []
            for _ in range(3):
                inside.append(clocked(here))
                outside.append(clocked(there))
            process, pipeline = statistics.median(inside), statistics.median(outside)
            self._row(f"in process, two threads, {system}", "us_per_event", process / n * 1e6, n=n)
            self._row(
                f"Spark, local[2], {system}",
                "us_per_event",
                pipeline / n * 1e6,
                n=n,
                baseline="in process",
                ratio=process / pipeline,
            )

    def _memory(self, spark: Any) -> None:
        from matchwood.spark.match import planned

        asked = self._events(spark, self.sizes["events"])
        probe = Memory(planned(asked, self.index, None, "all", None))
        rows = asked.repartition(2).mapInArrow(probe, "pid long, private long, shared long").collect()
        workers = {row["pid"]: row for row in rows}
        for row in workers.values():
            self._row(f"worker of {len(workers)}, private", "bytes", row["private"])
            self._row(f"worker of {len(workers)}, shared", "bytes", row["shared"])

    def _stream(self, spark: Any) -> None:
        from matchwood.spark.streaming import MatchStream

        source, batches = self.folder / "in", self.sizes["batches"]
        source.mkdir()
        values = self.events.lo.reshape(-1, DIMS)
        for number in range(batches):
            part = values[number * 1_000 : (number + 1) * 1_000]
            ids = np.arange(number * 1_000, (number + 1) * 1_000)
            table = pa.table({"id": ids, **{f"d{d}": part[:, d] for d in range(DIMS)}})
            pq.write_table(table, source / f"{number}.parquet")
        schema = "id bigint, " + ", ".join(f"d{d} double" for d in range(DIMS))

        def bare(batch: Any, number: int) -> None:
            batch.write.mode("overwrite").parquet(str(self.folder / "bare" / f"batch={number}"))

        def alone(stream: Any, checkpoint: Path) -> Any:
            writer = stream.writeStream.foreachBatch(bare).option("checkpointLocation", str(checkpoint))
            return writer.trigger(availableNow=True).start()

        def matching(stream: Any, checkpoint: Path) -> Any:
            return MatchStream(self.lake, checkpoint.name, k=K).start(stream, checkpoint, availableNow=True)

        figures: dict[str, float] = {}
        for number in range(2):  # the second round counts: by then both are compiled alike
            for name, start in (("bare: to Parquet", alone), ("matching", matching)):
                table = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
                query = start(table, self.folder / f"{start.__name__}-{number}")
                query.awaitTermination()
                times = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
                figures[name] = statistics.median(times[2:])
        for name, value in figures.items():
            floor = figures["bare: to Parquet"]
            self._row(f"micro-batch of 1,000, {name}", "ms", value, n=1_000, baseline="bare", ratio=floor / value)

    def _scale(self, master: str) -> None:
        from matchwood.spark.match import match

        spark = self._session(master)
        try:
            asked = self._events(spark, self.events.size)
            drained(match(asked.limit(10), self.index, k=K))
            drained(match(asked, self.index, k=K))
            seconds = median(lambda: drained(match(asked, self.index, k=K)), 3)
            self._row(f"Spark, {master}, top-{K}", "us_per_event", seconds / self.events.size * 1e6, n=self.events.size)
        finally:
            spark.stop()

    def _row(self, system: str, metric: str, value: float, *, n: int | None = None, **more: Any) -> None:
        size = self.rows.size if n is None else n
        self.report.row(workload=WORKLOAD, system=system, n=size, metric=metric, value=value, **more)


@dataclass(frozen=True)
class Memory:
    """Match a partition, then say how much memory the worker has for itself and how much it shares."""

    matching: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import os

        for _ in self.matching(batches):
            pass
        sizes = {"Private": 0, "Shared": 0}
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            for name in sizes:
                if line.startswith(f"{name}_"):
                    sizes[name] += int(line.split()[1]) * 1024
        arrays = [pa.array([value], pa.int64()) for value in (os.getpid(), sizes["Private"], sizes["Shared"])]
        yield pa.RecordBatch.from_arrays(arrays, names=["pid", "private", "shared"])


def matched(index: Any, events_: Events, k: int | None) -> Any:
    """What a task does, without Spark: ranked matches."""
    if k is not None:
        return index.top_k(events_, k)
    found = index.match(events_)
    order_hits(found.offsets, found.ids, found.scores)
    return found


def drained(table: Any) -> None:
    """Run a DataFrame and throw its records away."""
    table.write.format("noop").mode("overwrite").save()


def clocked(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median(call: Callable[[], object], repeats: int) -> float:
    """Seconds, the median of the repeats."""
    return statistics.median(clocked(call) for _ in range(repeats))


def _expression(condition: str) -> Any:
    from pyspark.sql import functions as fn

    return fn.expr(condition)
