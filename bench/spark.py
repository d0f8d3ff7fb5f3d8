"""The pipeline on Spark: against Spark's own range join, against the same index in this process, and from one core to a cluster.

    index       building and publishing; the first match of a worker; the memory of workers that map the same index
    join        events x subscriptions x 6 intervals: `mapInArrow` over a mapped index against BroadcastNestedLoopJoin
    process     the throughput compared with that of the index in one process, with as many cores
    routed      spatial shards: events routed to shards, every task mapping all shards, and one shard; the same with a place that
                most events fall into, with adaptive execution on and off
    ingest      the CPU of a worker to encode a subscription that is text of a known shape
    large       ten times as many subscriptions, in shards by hash, with the memory of driver and workers
    stream      a micro-batch of 1,000 events against one that only writes its input; events of a table and of JSON lines
    scale       the same job on local[1] and on a cluster of two executor processes

`verified`: event, subscription, score and rank of every match were compared in the same run, by a checksum or record by record,
with the index in this process; of the join the pairs. The experiment starts its own sessions, one at a time.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Report, side_by_side
from bench.spark_routed import PLACES, ROUTED, routed
from bench.spark_setup import INDEX, WORKLOAD, K, Setup, drain, seconds_of
from bench.spark_stream import stream
from bench.spark_world import DIMS, SEED, Shape, in_threads, sum_there, write_subscription_table
from matchwood.encode.arrays import concatenate_rows
from matchwood.schema import Schema

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
        "large": 100_000,
        "texts": 10_000,
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
        "large": 10_000_000,
        "texts": 100_000,
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
    setup = Setup(report, folder, sizes)
    try:
        report.part("index", partial(measure_index, setup))
        report.part("against Spark's join", partial(against_join, setup))
        report.part("against one process, all", partial(against_process, setup, None))
        report.part(f"against one process, top-{K}", partial(against_process, setup, K))
        report.part("memory", partial(memory, setup))
        report.part("ingest", partial(ingest_texts, setup))
        report.part("routed", partial(routed, setup))
        for lines in (False, True):
            report.part(f"stream of {'lines' if lines else 'a table'}", partial(stream, setup, lines))
        for master in ("local[1]", "local-cluster[2,1,2048]")[: 1 + sizes["cluster"]]:
            report.part(f"scale, {master}", partial(scale, setup, master))
        report.part("large", partial(large, setup))
    finally:
        setup.end_session()
        shutil.rmtree(folder, ignore_errors=True)


def measure_index(setup: Setup) -> None:
    """Build the index twice and match for the first time."""
    spark = setup.session()
    setup.row("session", "start_s", setup.session_start_s, n=1)
    write_subscription_table(setup.rows, setup.folder / "subscriptions")
    times = []
    for _ in range(2):
        start = time.perf_counter()
        setup.build()
        times.append(time.perf_counter() - start)
    setup.row(f"{INDEX}, first in session", "build_and_publish_s", times[0])
    setup.row(f"{INDEX}, warm", "build_and_publish_s", times[1])
    setup.row(INDEX, "bytes", setup.index.bytes)
    table = setup.event_table(spark, setup.sizes["events"])
    first = time.perf_counter()
    setup.match(table.limit(1), K)
    setup.row("a worker's first match", "s", time.perf_counter() - first, n=1)
    start = time.perf_counter()
    setup.match(table, None)
    setup.row("all, first in session", "s", time.perf_counter() - start, n=setup.sizes["events"])


def against_join(setup: Setup) -> None:
    """Compare with the join that a user would write."""
    spark, n, few = setup.session(), setup.sizes["events"], setup.sizes["joined"]
    started = setup.session_start_s
    table = setup.event_table(spark, n)
    joined, pairs = _join(setup, spark, few)
    calls = {"all": partial(setup.match, table, None), f"top-{K}": partial(setup.match, table, K)}
    for call in (*calls.values(), *calls.values()):  # in both workers, and until the JVM has compiled it
        call()
    warm = side_by_side(calls, repeats=9)
    verified = _agrees(setup, table.filter(f"id < {few}"), few, pairs)
    join, name = joined * n / few, f"Spark's range join, from {few} events"
    setup.row(name, "s", join, n=n, verified=verified)
    for system, timing in warm.items():
        setup.row(f"{system}, warm", "s", timing.median, n=n, baseline=name, ratio=join / timing.median,
                  verified=verified, spread=timing.spread)  # fmt: skip
    cold = setup.report.value(workload=WORKLOAD, system="all, first in session", metric="s")
    if cold is not None:
        whole = started + cold
        setup.row("all, with the session's start", "s", whole, n=n, baseline=name, ratio=join / whole)


def _agrees(setup: Setup, sample: Any, few: int, pairs: set[tuple[int, int]]) -> bool:
    """Compare the matches of the first events, record by record, with a scan, and their pairs with those of the join."""
    from matchwood.spark.batches import write_matches
    from matchwood.spark.match_stage import match_events
    from matchwood.structures import make_index

    scan = make_index("scan")
    scan.insert(setup.rows)
    for k in (None, K):
        own = {tuple(row) for row in match_events(sample, setup.index, k=k).collect()}
        found = scan.match(setup.events.take(0, few)) if k is None else scan.top_k(setup.events.take(0, few), k)
        if k is None:
            from matchwood.store.kernels.ordering import order_hits

            order_hits(found.offsets, found.ids, found.scores)
            assert {(event, id_) for event, id_, _, _ in own} == pairs, "Spark's join and the index disagree"
        truth = {tuple(row.values()) for row in write_matches(np.arange(few), found).to_pylist()}
        assert own == truth, f"the scan and the index disagree, k={k}"
    return True


def _join(setup: Setup, spark: Any, few: int) -> tuple[float, set[tuple[int, int]]]:
    """The seconds and pairs of a join on six ranges, which Spark plans as a nested loop over a broadcast."""
    from pyspark.sql import functions as fn

    n = setup.rows.size
    lo, hi = setup.rows.lo.reshape(n, DIMS), setup.rows.hi.reshape(n, DIMS)
    ends = {f"lo{d}": lo[:, d] for d in range(DIMS)} | {f"hi{d}": hi[:, d] for d in range(DIMS)}
    pq.write_table(pa.table({"sid": setup.rows.ids, **ends}), setup.folder / "wide.parquet", row_group_size=-(-n // 4))
    values = setup.events.lo.reshape(-1, DIMS)[:few]
    left = spark.createDataFrame(pa.table({"eid": np.arange(few), **{f"v{d}": values[:, d] for d in range(DIMS)}}))
    right = spark.read.parquet(str(setup.folder / "wide.parquet"))
    condition = " AND ".join(f"v{d} BETWEEN lo{d} AND hi{d}" for d in range(DIMS))
    joined = right.join(left.hint("broadcast"), on=fn.expr(condition)).select("eid", "sid")
    right.count()
    start = time.perf_counter()
    found = {(row["eid"], row["sid"]) for row in joined.collect()}
    return time.perf_counter() - start, found


def against_process(setup: Setup, k: int | None) -> None:
    """Compare two tasks with two threads of this process, on the same events and index; the first round warms up."""
    from matchwood.spark.match_stage import match_events

    system, n = "all" if k is None else f"top-{k}", setup.events.size
    table = setup.event_table(setup.session(), n)
    calls = {
        "inside": partial(in_threads, setup.local_indexes, setup.events, k),
        "outside": partial(setup.match, table, k),
    }
    times = side_by_side(calls, repeats=5)
    process, pipeline = times["inside"].median, times["outside"].median
    verified = sum_there(match_events(table, setup.index, k=k)) == setup.truth(k)
    assert verified, "Spark and the index in this process disagree"
    setup.row(f"in process, two threads, {system}", "us_per_event", process / n * 1e6, n=n)
    setup.row(f"Spark, local[2], {system}", "us_per_event", pipeline / n * 1e6, n=n, baseline="in process",
              ratio=process / pipeline, verified=verified, spread=times["outside"].spread / n * 1e6)  # fmt: skip


def memory(setup: Setup) -> None:
    """Report the private and the shared memory of workers that map the same index."""
    from matchwood.spark.match_stage import planned

    table = setup.event_table(setup.session(), setup.sizes["events"])
    probe = Memory(planned(table, setup.index, None, "all", None))
    rows = table.repartition(2).mapInArrow(probe, "pid long, private long, shared long").collect()
    workers = {row["pid"]: row for row in rows}
    for row in workers.values():
        setup.row(f"worker of {len(workers)}, private", "bytes", row["private"])
        setup.row(f"worker of {len(workers)}, shared", "bytes", row["shared"])


def ingest_texts(setup: Setup) -> None:
    """Encode texts of one shape as a worker does, and compare the rows with those of the general way."""
    from matchwood.encode.expressions import subscription_rows
    from matchwood.encode.objects import RowsBuilder
    from matchwood.spark.batches import read_subscriptions
    from matchwood.spark.ingest_worker import Encoding, encode_batches

    count = setup.sizes["texts"]
    ends = np.sort(np.random.default_rng(SEED).random((count, DIMS, 2)).round(4), axis=2)
    texts = [" AND ".join(f"d{d} BETWEEN {lo} AND {hi}" for d, (lo, hi) in enumerate(row)) for row in ends.tolist()]
    schema = Schema({f"d{d}": "number" for d in range(DIMS)}, learn=False)
    encoding = Encoding("subscriptions", json.dumps(schema.to_json()), "text")
    table = pa.table({"id": np.arange(count), "expression": texts})
    batches = table.to_batches(max_chunksize=10_000)
    made = [read_subscriptions(batch.select(range(9))).rows for batch in encode_batches(encoding, batches)]
    builder = RowsBuilder(schema)
    for id_, text in enumerate(texts):
        builder.add(id_, 0.0, subscription_rows(text, None, schema))
    whole = concatenate_rows(made)
    verified = all(np.array_equal(ours, theirs) for ours, theirs in zip(whole, builder.build(), strict=True))
    times = []
    for _ in range(3):
        start = time.process_time()
        for _ in encode_batches(encoding, batches):
            pass
        times.append(time.process_time() - start)
    setup.row("text of a known shape, 6 ranges", "us_cpu", min(times) / count * 1e6, n=count, verified=verified)


def large(setup: Setup) -> None:
    """Build, publish and match an index of many subscriptions, and report memory; a sample is compared with a scan."""
    from matchwood.spark.index_stage import build_index
    from matchwood.spark.match_stage import match_events, planned
    from matchwood.structures import make_index

    n = setup.sizes["large"]
    rows = Shape(place=0.18, other=0.08).subscriptions(n)  # narrower: about as many matches an event as at 1M
    write_subscription_table(rows, setup.folder / "large")
    spark = setup.session()
    lake = setup.new_lake("large lake", {f"d{d}": "number" for d in range(DIMS)})
    table = spark.read.parquet(str(setup.folder / "large"))
    start = time.perf_counter()
    index = build_index(table, lake, lake.codebook(), index=INDEX, shards=max(n // 2_500_000, 1), by="hash")
    setup.row("Spark, build and publish", "build_s", time.perf_counter() - start, n=n)
    setup.row("index", "bytes", index.bytes, n=n)
    events = setup.event_table(spark, setup.sizes["events"])
    few = events.filter("id < 50").localCheckpoint()
    found = {tuple(row) for row in match_events(few, index, k=K).collect()}
    scan = make_index("scan")
    scan.insert(rows)
    truth = scan.top_k(setup.events.take(0, 50), K)
    rank = np.arange(len(truth.ids)) - np.repeat(truth.offsets[:-1], np.diff(truth.offsets)) + 1
    event = np.repeat(np.arange(50), np.diff(truth.offsets))
    verified = found == set(zip(*(a.tolist() for a in (event, truth.ids, truth.scores, rank)), strict=True))
    del scan, rows
    times = [seconds_of(lambda: drain(match_events(events, index, k=K))) for _ in range(3)]
    setup.row(
        f"Spark, top-{K}",
        "us_per_event",
        statistics.median(times) / setup.sizes["events"] * 1e6,
        n=n,
        verified=verified,
    )
    probe = Memory(planned(events, index, K, "all", None))
    for row in events.repartition(2).mapInArrow(probe, "pid long, private long, shared long").collect():
        setup.row("worker, private", "bytes", row["private"], n=n)
        setup.row("worker, shared", "bytes", row["shared"], n=n)
    setup.row("driver's Python, peak", "bytes", peak_memory(os.getpid()), n=n)
    setup.row("JVM, peak", "bytes", peak_memory(spark.sparkContext._gateway.proc.pid), n=n)


def peak_memory(pid: int) -> int:
    """The most bytes that a process has had in memory at once."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def scale(setup: Setup, master: str) -> None:
    """Match all events on another master."""
    from matchwood.spark.match_stage import match_events

    _, truth = setup.index, setup.truth(K)  # on two cores, before the session changes
    table = setup.event_table(setup.session(master), setup.events.size)
    assert sum_there(match_events(table, setup.index, k=K)) == truth, (
        f"{master}: differs from the index in this process"
    )
    seconds = statistics.median(seconds_of(partial(setup.match, table, K)) for _ in range(3))
    setup.row(f"Spark, {master}, top-{K}", "us_per_event", seconds / setup.events.size * 1e6, n=setup.events.size,
              verified=True)  # fmt: skip


@dataclass(frozen=True)
class Memory:
    """Matches a partition, then reports the private and the shared memory of the worker."""

    matching: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for _ in self.matching(batches):
            pass
        sizes = {"Private": 0, "Shared": 0}
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            for name in sizes:
                if line.startswith(f"{name}_"):
                    sizes[name] += int(line.split()[1]) * 1024
        arrays = [pa.array([value], pa.int64()) for value in (os.getpid(), sizes["Private"], sizes["Shared"])]
        yield pa.RecordBatch.from_arrays(arrays, names=["pid", "private", "shared"])
