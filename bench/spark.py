"""The pipeline on Spark: against Spark's own range join, against the same index in this process, and from one core to a cluster.

    index       build and publish; a worker's first match; memory of workers that map one index
    join        events x subscriptions x 6 intervals: `mapInArrow` over a mapped index against BroadcastNestedLoopJoin
    process     the share of the in-process kernel's throughput that is left, with as many cores
    routed      spatial shards: events sent to the shards they can hit, against every task mapping all shards, and one shard
    stream      a micro-batch of 1,000 events against one that writes its input: same source, same sink; of a table, of JSON lines
    scale       the same job on local[1] and a cluster of two executor processes

`verified`: event, subscription, score and rank of every match were compared in the same run, by a checksum or record by record,
with the index in this process; the join's pairs as well. Starts and ends sessions of its own, one at a time.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Report, side_by_side
from bench.spark_world import (
    DIMS,
    SEED,
    Shape,
    Sum,
    events,
    in_threads,
    sum_here,
    sum_there,
    write_event_table,
    write_stream,
    write_subscription_table,
)
from matchwood.schema import Schema

K = 10
INDEX = "mo-tree"
WORKLOAD = "6 intervals"
ROUTED = "6 intervals, small places"
PLACES = Shape(place=0.02, other=0.45)
BATCH = 1_000
SIZES = {
    "quick": {
        "subscriptions": 50_000,
        "events": 5_000,
        "many": 20_000,
        "joined": 100,
        "rounds": 1,
        "batches": 6,
        "cluster": 0,
        "shards": 5,
        "routed": 20_000,
    },
    "paper": {
        "subscriptions": 1_000_000,
        "events": 10_000,
        "many": 1_000_000,
        "joined": 1_000,
        "rounds": 4,
        "batches": 12,
        "cluster": 1,
        "shards": 17,
        "routed": 300_000,
    },
}


def run(preset: str, report: Report) -> None:
    """All parts of the experiment."""
    from matchwood.spark.session import java_problem

    problem = java_problem()
    if problem:
        print(f"spark is left out: {problem}")
        return
    sizes = SIZES[preset]
    report.workload(WORKLOAD, dimensions=DIMS, width=Shape().other, seed=SEED, index=INDEX, k=K, **sizes)
    report.workload(ROUTED, dimensions=DIMS, place=PLACES.place, other=PLACES.other, seed=SEED, index=INDEX, k=K)
    folder = Path(tempfile.mkdtemp(prefix="matchwood-spark-"))
    warnings.simplefilter("ignore")
    bench = Bench(report, folder, sizes)
    try:
        report.part("index", bench.measure_index)
        report.part("against Spark's join", bench.against_join)
        report.part("against one process, all", partial(bench.against_process, None))
        report.part(f"against one process, top-{K}", partial(bench.against_process, K))
        report.part("memory", bench.memory)
        report.part("routed", bench.routed)
        for lines in (False, True):
            report.part(f"stream of {'lines' if lines else 'a table'}", partial(bench.stream, lines))
        for master in ("local[1]", "local-cluster[2,1,2048]")[: 1 + sizes["cluster"]]:
            report.part(f"scale, {master}", partial(bench.scale, master))
    finally:
        bench.end_session()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Bench:
    """The parts. Tables, indexes and the session are made when a part first asks for them."""

    report: Report
    folder: Path
    sizes: dict[str, int]
    _made: dict[str, Any] = field(default_factory=dict)
    _session: tuple[str, Any, float] | None = None

    # what parts share

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, made the first time it is asked for."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def session(self, master: str = "local[2]") -> Any:
        """The session on that master; there is one at a time."""
        from matchwood.spark.session import local_session

        if self._session is None or self._session[0] != master:
            self.end_session()
            options = {
                "spark.local.dir": str(self.folder / "local"),
                "spark.executor.memory": "1g",
                # Workers of a cluster start elsewhere and would not find the checksums of `bench.spark_world`.
                "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parent.parent),
            }
            start = time.perf_counter()
            spark = local_session(master=master, memory="3g", partitions=4, options=options)
            spark.range(1).count()
            self._session = master, spark, time.perf_counter() - start
        return self._session[1]

    def end_session(self) -> None:
        """Stop the session, if there is one."""
        if self._session is not None:
            self._session[1].stop()
            self._session = None

    @property
    def rows(self) -> Any:
        return self.once("rows", lambda: Shape().subscriptions(self.sizes["subscriptions"]))

    @property
    def events(self) -> Any:
        return self.once("events", lambda: events(self.sizes["many"]))

    @property
    def lake(self) -> Any:
        return self.once("lake", lambda: self._lake("lake", {f"d{d}": "number" for d in range(DIMS)}))

    @property
    def index(self) -> Any:
        return self.once("index", self._build)

    @property
    def here(self) -> list[Any]:
        """The same index twice in this process, one for each thread."""
        return self.once("here", lambda: [_opened(self.index) for _ in range(2)])

    def _lake(self, name: str, schema: dict[str, str]) -> Any:
        from matchwood.spark.codebook import Codebook
        from matchwood.spark.lake import Lake

        lake = Lake(self.folder / name)
        lake.keep_codebook(Codebook.declare(Schema(schema, learn=False)))
        return lake

    def _build(self) -> Any:
        from matchwood.spark.index_stage import build_index

        path = self.folder / "subscriptions"
        if not path.exists():
            write_subscription_table(self.rows, path)
        table = self.session().read.parquet(str(path))
        return build_index(table, self.lake, self.lake.codebook(), index=INDEX)

    def asked(self, spark: Any, n: int) -> Any:
        """The first events, in two partitions if they are few."""
        path = self.folder / "events"
        if not path.exists():
            write_event_table(self.events, path)
        table = spark.read.parquet(str(path))
        return table if n == self.events.size else table.filter(f"id < {n}").repartition(2).localCheckpoint()

    # parts

    def measure_index(self) -> None:
        spark = self.session()
        assert self._session is not None
        self._row("session", "start_s", self._session[2], n=1)
        write_subscription_table(self.rows, self.folder / "subscriptions")
        times = []
        for _ in range(2):
            start = time.perf_counter()
            self._made["index"] = self._build()
            times.append(time.perf_counter() - start)
        self._row(f"{INDEX}, first in session", "build_and_publish_s", times[0])
        self._row(f"{INDEX}, warm", "build_and_publish_s", times[1])
        self._row(INDEX, "bytes", self.index.bytes)
        asked = self.asked(spark, self.sizes["events"])
        first = time.perf_counter()
        self._drain(asked.limit(1), K)
        self._row("a worker's first match", "s", time.perf_counter() - first, n=1)
        start = time.perf_counter()
        self._drain(asked, None)
        self._row("all, first in session", "s", time.perf_counter() - start, n=self.sizes["events"])

    def against_join(self) -> None:
        spark, n, few = self.session(), self.sizes["events"], self.sizes["joined"]
        started = self._session[2] if self._session is not None else 0.0
        asked = self.asked(spark, n)
        joined, pairs = self._join(spark, few)
        calls = {"all": partial(self._drain, asked, None), f"top-{K}": partial(self._drain, asked, K)}
        for call in (*calls.values(), *calls.values()):  # in both workers, and until the JVM has compiled it
            call()
        warm = side_by_side(calls, repeats=9)
        verified = self._agrees(asked.filter(f"id < {few}"), few, pairs)
        join, name = joined * n / few, f"Spark's range join, from {few} events"
        self._row(name, "s", join, n=n, verified=verified)
        for system, timing in warm.items():
            self._row(f"{system}, warm", "s", timing.median, n=n, baseline=name, ratio=join / timing.median,
                      verified=verified, spread=timing.spread)  # fmt: skip
        cold = self.report.value(workload=WORKLOAD, system="all, first in session", metric="s")
        if cold is not None:
            whole = started + cold
            self._row("all, with the session's start", "s", whole, n=n, baseline=name, ratio=join / whole)

    def _agrees(self, sample: Any, few: int, pairs: set[tuple[int, int]]) -> bool:
        """Compare what is found for the first events, record by record, with the join's pairs and with a scan."""
        from matchwood.spark.batches import write_matches
        from matchwood.spark.match import match
        from matchwood.structures import make_index

        scan = make_index("scan")
        scan.insert(self.rows)
        for k in (None, K):
            own = {tuple(row) for row in match(sample, self.index, k=k).collect()}
            found = scan.match(self.events.take(0, few)) if k is None else scan.top_k(self.events.take(0, few), k)
            if k is None:
                from matchwood.store.kernels.ordering import order_hits

                order_hits(found.offsets, found.ids, found.scores)
                assert {(event, id_) for event, id_, _, _ in own} == pairs, "Spark's join and the index disagree"
            truth = {tuple(row.values()) for row in write_matches(np.arange(few), found).to_pylist()}
            assert own == truth, f"the scan and the index disagree, k={k}"
        return True

    def _join(self, spark: Any, few: int) -> tuple[float, set[tuple[int, int]]]:
        """What a user would write: a join on six ranges; it plans as a nested loop over a broadcast."""
        from pyspark.sql import functions as fn

        n = self.rows.size
        lo, hi = self.rows.lo.reshape(n, DIMS), self.rows.hi.reshape(n, DIMS)
        ends = {f"lo{d}": lo[:, d] for d in range(DIMS)} | {f"hi{d}": hi[:, d] for d in range(DIMS)}
        pq.write_table(
            pa.table({"sid": self.rows.ids, **ends}), self.folder / "wide.parquet", row_group_size=-(-n // 4)
        )
        values = self.events.lo.reshape(-1, DIMS)[:few]
        left = spark.createDataFrame(pa.table({"eid": np.arange(few), **{f"v{d}": values[:, d] for d in range(DIMS)}}))
        right = spark.read.parquet(str(self.folder / "wide.parquet"))
        condition = " AND ".join(f"v{d} BETWEEN lo{d} AND hi{d}" for d in range(DIMS))
        joined = right.join(left.hint("broadcast"), on=fn.expr(condition)).select("eid", "sid")
        right.count()
        start = time.perf_counter()
        found = {(row["eid"], row["sid"]) for row in joined.collect()}
        return time.perf_counter() - start, found

    def against_process(self, k: int | None) -> None:
        """The same events, the same index, two threads here and two tasks there, in turn; a round of all events warms up."""
        from matchwood.spark.match import match

        system, n = "all" if k is None else f"top-{k}", self.events.size
        asked = self.asked(self.session(), n)
        calls = {
            "inside": partial(in_threads, self.here, self.events, k),
            "outside": partial(self._drain, asked, k),
        }
        times = side_by_side(calls, repeats=5)
        process, pipeline = times["inside"].median, times["outside"].median
        verified = sum_there(match(asked, self.index, k=k)) == self._truth(k)
        assert verified, "Spark and the index in this process disagree"
        self._row(f"in process, two threads, {system}", "us_per_event", process / n * 1e6, n=n)
        self._row(f"Spark, local[2], {system}", "us_per_event", pipeline / n * 1e6, n=n, baseline="in process",
                  ratio=process / pipeline, verified=verified, spread=times["outside"].spread / n * 1e6)  # fmt: skip

    def _truth(self, k: int | None) -> Sum:
        found: Sum = self.once(f"truth {k}", lambda: sum_here(self.here[0], self.events, k))
        return found

    def memory(self) -> None:
        from matchwood.spark.match import planned

        asked = self.asked(self.session(), self.sizes["events"])
        probe = Memory(planned(asked, self.index, None, "all", None))
        rows = asked.repartition(2).mapInArrow(probe, "pid long, private long, shared long").collect()
        workers = {row["pid"]: row for row in rows}
        for row in workers.values():
            self._row(f"worker of {len(workers)}, private", "bytes", row["private"])
            self._row(f"worker of {len(workers)}, shared", "bytes", row["shared"])

    def routed(self) -> None:
        """Subscriptions with small places in spatial shards: routed, looped over in every task, and in one shard."""
        from matchwood.spark.index_stage import build_index
        from matchwood.spark.match import match

        spark, n = self.session(), self.sizes["routed"]
        lake = self._lake("places", {"place": "point", **{f"d{d}": "number" for d in range(2, DIMS)}})
        rows = PLACES.subscriptions(self.sizes["subscriptions"])
        write_subscription_table(rows, self.folder / "placed")
        table = spark.read.parquet(str(self.folder / "placed"))
        shards, asked = self.sizes["shards"], self.asked(spark, n)
        start = time.perf_counter()
        spread = build_index(table, lake, lake.codebook(), index=INDEX, shards=shards, by="space")
        self._row(f"{INDEX}, {shards} shards", "build_and_publish_s", time.perf_counter() - start, workload=ROUTED)
        copies = spread.counts["subscriptions"] / rows.size
        self._row(f"{INDEX}, {shards} shards", "copies_per_subscription", copies, workload=ROUTED)
        one = build_index(table, lake, lake.codebook(), index=INDEX)
        calls = {
            "one shard": lambda k: match(asked, one, k=k),
            f"{shards} shards, all in every task": lambda k: match(asked, spread, k=k, route=False),
            f"{shards} shards, events routed": lambda k: match(asked, spread, k=k, route=True),
        }
        here = _opened(one)
        for k, what in ((None, "all"), (K, f"top-{K}")):
            truth = sum_here(here, self.events.take(0, n), k)
            for system, call in calls.items():
                assert sum_there(call(k)) == truth, f"{system}, {what}: not what the index in this process says"
            times = side_by_side({s: partial(drained, call(k)) for s, call in calls.items()}, repeats=3)
            for system, timing in times.items():
                ratio = times["one shard"].median / timing.median
                self._row(f"{system}, {what}", "us_per_event", timing.median / n * 1e6, n=n, workload=ROUTED,
                          baseline="one shard", ratio=ratio, verified=True, spread=timing.spread / n * 1e6)  # fmt: skip

    def stream(self, lines: bool) -> None:
        """Micro-batches with and without matching, in turn, so that a noisy minute hits both; the first round warms up."""
        spark, batches = self.session(), self.sizes["batches"]
        _ = self.index
        what = "lines" if lines else "table"
        write_stream(self.events, self.folder / what, files=batches, size=BATCH, lines=lines)
        source = partial(self._source, spark, lines, self.folder / what)
        times: dict[str, list[float]] = {"bare: to Parquet": [], "matching": []}
        for number in range(self.sizes["rounds"] + 1):
            for name, start in (("bare: to Parquet", self._bare), ("matching", self._matching)):
                query = start(source(), f"{what}-{number}")
                query.awaitTermination()
                took = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
                assert len(took) == batches, f"expected {batches} micro-batches, got {len(took)}"
                times[name] += took[2:] if number else []
        verified = self._streamed(spark, f"{what}-{self.sizes['rounds']}", batches * BATCH)
        floor = statistics.median(times["bare: to Parquet"])
        unit = f"micro-batch of 1,000{' lines' if lines else ''}"
        for name, took in times.items():
            value = statistics.median(took)
            quarter = statistics.quantiles(took, n=4)
            self._row(f"{unit}, {name}", "ms", value, n=BATCH, baseline="bare", ratio=floor / value,
                      verified=verified and name == "matching", spread=quarter[2] - quarter[0])  # fmt: skip

    def _source(self, spark: Any, lines: bool, folder: Path) -> Any:
        reader = spark.readStream.option("maxFilesPerTrigger", 1)
        if lines:
            return reader.text(str(folder))
        return reader.schema("id bigint, " + ", ".join(f"d{d} double" for d in range(DIMS))).parquet(str(folder))

    def _bare(self, stream: Any, name: str) -> Any:
        out = self.folder / "bare" / name

        def write(batch: Any, number: int) -> None:
            batch.write.mode("overwrite").option("compression", "zstd").parquet(str(out / f"batch={number}"))

        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(out / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    def _matching(self, stream: Any, name: str) -> Any:
        from matchwood.spark.streaming import MatchStream

        checkpoint = self.folder / "matching" / name
        return MatchStream(self.lake, name, k=K).start(stream, checkpoint, availableNow=True)

    def _streamed(self, spark: Any, name: str, n: int) -> bool:
        from matchwood.spark import columns
        from matchwood.spark.streaming import MatchStream

        found = MatchStream(self.lake, name, k=K).matches(spark).select(*columns.MATCHES.names)
        assert sum_there(found) == sum_here(self.here[0], self.events.take(0, n), K), (
            "the stream's matches are not right"
        )
        return True

    def scale(self, master: str) -> None:
        from matchwood.spark.match import match

        _, truth = self.index, self._truth(K)  # on two cores, before the session changes
        asked = self.asked(self.session(master), self.events.size)
        assert sum_there(match(asked, self.index, k=K)) == truth, f"{master}: not what the index in this process says"
        seconds = statistics.median(clocked(partial(self._drain, asked, K)) for _ in range(3))
        self._row(f"Spark, {master}, top-{K}", "us_per_event", seconds / self.events.size * 1e6, n=self.events.size,
                  verified=True)  # fmt: skip

    def _drain(self, asked: Any, k: int | None) -> None:
        from matchwood.spark.match import match

        drained(match(asked, self.index, k=k))

    def _row(
        self, system: str, metric: str, value: float, *, n: int | None = None, workload: str = WORKLOAD, **more: Any
    ) -> None:
        size = self.sizes["subscriptions"] if n is None else n
        self.report.row(workload=workload, system=system, n=size, metric=metric, value=value, **more)


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


def _opened(index: Any) -> Any:
    """An index version of one shard, in this process."""
    from matchwood.structures import load_index

    (folder,) = index.paths().values()
    return load_index(Path(folder) / "index", verify=False)


def drained(table: Any) -> None:
    """Run a DataFrame and throw its records away."""
    table.write.format("noop").mode("overwrite").save()


def clocked(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
