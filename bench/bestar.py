"""BE*-Tree against BE-Tree, k-index and Scan: Figures 6 to 9 and Table II of the paper, and the cost of changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from bench.report import Report, Timing
from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.index import BEStarTree, BETree, Index, KIndex, Scan
from matchwood.workloads import BEGen

SYSTEMS: dict[str, type[Index]] = {"be-star-tree": BEStarTree, "be-tree": BETree, "k-index": KIndex}
EVENTS = 200
WARM_UP = 300
"""Events before timing: Scan lays its columns out anew once it has seen 256."""


def run(preset: str, report: Report) -> None:
    """`quick`: one size and two laws at 100,000 subscriptions. `paper`: the paper's sizes, every figure."""
    quick = preset == "quick"
    for law in ("uniform", "zipf"):
        sizes = (100_000,) if quick else (100_000, 300_000, 1_000_000)
        for size in sizes:  # Figures 6 to 9 (size), Table II b
            compare(report, f"size-{law}", BEGen.preset(law, size=size), scan=True, top=True)
        for column, workload, label in sweeps(law, quick=quick):
            compare(report, f"{column}-{law}-{label}", workload, scan=False, top=column == "match")
    capacities(report, size=50_000 if quick else 300_000)
    for law in ("uniform", "zipf"):
        changes(report, law, size=100_000 if quick else 1_000_000)


def sweeps(law: str, *, quick: bool) -> Iterator[tuple[str, BEGen, str]]:
    """The other columns of Table III that the figures draw: cardinality, clusters, cluster size, match probability."""
    size = 20_000 if quick else 100_000
    columns: dict[str, tuple[str, list[Any]]] = {
        "cardinality": ("cardinality", [2500, 250_000, 25_000_000, 250_000_000]),
        "clusters": ("clusters", [2, 4, 10, 26, None]),
        "cluster-size": ("cluster_size", [25, 100, 400, 800]),
        "match": ("match_probability", [0.0001, 0.001, 0.01, 0.09]),
    }
    for column, (name, values) in columns.items():
        for value in values[:: len(values) - 1] if quick else values:
            changed = {"size": size, name: value}
            yield column, BEGen.preset(law, **changed), str(value)


def compare(report: Report, name: str, workload: BEGen, *, scan: bool, top: bool) -> None:
    """Every system on the same rows and events: answers first, then time, work, size. Ratios are to the BE*-Tree's favour."""
    rows, events = workload.subscriptions(), workload.events(EVENTS)
    report.workload(f"{name}, n={rows.size}", **workload.parameters())
    judge = Scan.build(rows)
    judge.match(workload.events(WARM_UP, batch=1))
    truth = judge.match(events.take(0, 50))
    built = {system: kind.build(rows) for system, kind in SYSTEMS.items()}
    calls: dict[str, Any] = {system: partial(index.match, events) for system, index in built.items()}
    if scan:
        calls["scan"] = partial(judge.match, events)
    for k in (1, 5) if top else ():
        for system in ("be-star-tree", "k-index"):
            calls[f"{system} top-{k}"] = partial(built[system].top_k, events, k)
    for system, index in built.items():
        demand_same(system, index.match(events.take(0, 50)), truth)
        if top and system != "be-tree":
            demand_same_order(system, index, judge, events.take(0, 50))
    times = side_by_side(calls, repeats=5)
    for system, timing in times.items():
        baseline, ratio = baseline_of(system, {s: t.median for s, t in times.items()})
        report.row(
            workload=name,
            system=system,
            n=rows.size,
            metric="us_per_event",
            value=timing.median / EVENTS * 1e6,
            baseline=baseline,
            ratio=ratio,
            verified=True,
            spread=timing.spread / EVENTS * 1e6,
        )
    work(report, name, rows, built, calls)


def baseline_of(system: str, seconds: dict[str, float]) -> tuple[str | None, float | None]:
    """What a system is measured against: top-k against match-all of the same one, the others against Scan or k-index."""
    baseline = system.split(" top-")[0] if " top-" in system else "scan" if "scan" in seconds else "k-index"
    if baseline == system:
        return None, None
    return baseline, seconds[baseline] / seconds[system]


def work(report: Report, name: str, rows: Rows, built: dict[str, Index], calls: dict[str, Any]) -> None:
    """Rows verified, buckets or postings touched, and bytes: what explains the times."""
    for system, call in calls.items():
        index = built.get(system.split(" top-")[0])
        if index is None:
            continue
        index.reset_counters()
        call()
        stats = index.stats()
        common: dict[str, Any] = {"workload": name, "system": system, "n": rows.size}
        report.row(**common, metric="candidates_per_event", value=stats.candidates_per_event)
        for detail in ("buckets_visited", "postings_read"):
            if detail in stats.details:
                report.row(**common, metric=f"{detail}_per_event", value=stats.details[detail] / EVENTS)
        if system in built:
            ratio = stats.bytes / rows.nbytes
            report.row(**common, metric="bytes", value=stats.bytes)
            report.row(**common, metric="bytes_per_encoded_byte", value=ratio)


def capacities(report: Report, *, size: int) -> None:
    """Table II a: the best leaf capacity by match probability."""
    for probability in (0.001, 0.01, 0.09):
        workload = BEGen(size=size, match_probability=probability)
        rows, events = workload.subscriptions(), workload.events(EVENTS)
        report.workload(f"capacity-{probability}", **workload.parameters())
        trees = {a: BEStarTree.build(rows, capacity=a) for a in (5, 20, 32, 64, 160)}
        times = side_by_side({str(a): partial(t.match, events) for a, t in trees.items()}, repeats=5)
        for a, timing in times.items():
            value = timing.median / EVENTS * 1e6
            report.row(workload=f"capacity-{probability}", system=f"A={a}", n=size, metric="us_per_event", value=value)


def changes(report: Report, law: str, *, size: int) -> None:
    """Table II b: batch and dynamic construction; single insertions, updates and deletions through the Python API."""
    workload = BEGen.preset(law, size=size)
    rows, few, name = workload.subscriptions(), 2000, f"changes-{law}"
    report.workload(name, **workload.parameters())
    common: dict[str, Any] = {"workload": name, "n": size}
    batch = timed(lambda: BEStarTree.build(rows), repeats=3)
    report.row(**common, system="BE*-B", metric="build_s", value=batch.median, spread=batch.spread)
    dynamic = timed(lambda: BEStarTree.build(rows, batch=False), repeats=3)
    report.row(**common, system="BE*", metric="build_s", value=dynamic.median, spread=dynamic.spread)
    index = BEStarTree.build(rows.take(0, size - few))
    # The first row after a batch makes the pools half as large again, once in half a million insertions.
    singles = [rows.take(i, i + 1) for i in range(size - few, size)]
    index.insert(singles[0])
    index.delete(singles[0].ids)
    ids = [row.ids for row in singles]
    steps: tuple[tuple[str, Callable[[Any], None], list[Any]], ...] = (
        ("insert_us", index.insert, singles),
        ("update_us", index.update, singles),
        ("delete_us", index.delete, ids),
    )
    for metric, call, arguments in steps:
        seconds = timed(partial(each, call, arguments), repeats=1).median
        report.row(**common, system="BE*", metric=metric, value=seconds / few * 1e6)


def each(call: Callable[[Any], None], arguments: list[Any]) -> None:
    for one in arguments:
        call(one)


def timed(call: Callable[[], object], *, repeats: int) -> Timing:
    """CPU time of this thread, in which everything here runs: what other processes of a shared machine do counts less."""
    seconds = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        seconds.append(time.thread_time() - start)
    return Timing(float(np.median(seconds)), max(seconds) - min(seconds))


def side_by_side(calls: dict[str, Any], *, repeats: int) -> dict[str, Timing]:
    """Several calls in turn, round after round, warmed up first."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            taken = timed(call, repeats=1).median
            if turn > 0:
                seconds[name].append(taken)
    return {name: Timing(float(np.median(s)), max(s) - min(s)) for name, s in seconds.items()}


def demand_same(system: str, ours: Matches, truth: Matches) -> None:
    """Raise unless both give the same ids and scores for each event."""
    for e in range(len(truth.offsets) - 1):
        (ids, scores), (true_ids, true_scores) = ours.of(e), truth.of(e)
        a, b = np.argsort(ids), np.argsort(true_ids)
        if not (np.array_equal(ids[a], true_ids[b]) and np.array_equal(scores[a], true_scores[b])):
            raise AssertionError(f"event {e}: {system} and Scan disagree")


def demand_same_order(system: str, index: Index, judge: Scan, events: Events) -> None:
    for k in (1, 5):
        ours, truth = index.top_k(events, k), judge.top_k(events, k)
        if not all(np.array_equal(a, b) for a, b in zip(ours, truth, strict=True)):
            raise AssertionError(f"top-{k}: {system} and Scan disagree")
