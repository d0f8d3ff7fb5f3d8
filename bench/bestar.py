"""BE*-Tree against BE-Tree, k-index and Scan: Figures 6 to 9 and Table II of the paper, and the cost of changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.report import Report, Timing
from matchwood.baselines import BETree
from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.structures import BEStarTree, Index, KIndex, Scan
from matchwood.structures.tally import Tallied
from matchwood.workloads import BEGen

SYSTEMS: dict[str, type[Tallied]] = {"be-star-tree": BEStarTree, "be-tree": BETree, "k-index": KIndex}
LAWS = ("uniform", "zipf")
EVENTS = 200
COUNTED = 50
"""Events whose answers are compared with Scan's, and whose tests are counted."""
WARM_UP = 300
"""Events before timing: Scan lays its columns out anew once it has seen 256."""
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "cardinality": ("cardinality", [2500, 250_000, 25_000_000, 250_000_000]),
    "clusters": ("clusters", [2, 4, 10, 26, None]),
    "cluster-size": ("cluster_size", [25, 100, 400, 800]),
    "match": ("match_probability", [0.0001, 0.001, 0.01, 0.09]),
}
"""The columns of Table III that the figures draw, beside size."""


def run(preset: str, report: Report) -> None:
    """`quick`: one size and two laws at 100,000 subscriptions. `paper`: the paper's sizes and beyond, every figure."""
    quick = preset == "quick"
    for law in LAWS:
        for size in (100_000,) if quick else (100_000, 300_000, 1_000_000, 3_000_000):  # Figures 8 and 9, Table II b
            workload = BEGen.preset(law, size=size)
            call = partial(compare, report, f"size-{law}", workload, scan=True, top=True)
            report.part(f"size {law} {size:,}", call)
        for column in COLUMNS:
            size = 20_000 if quick else 100_000
            report.part(f"{column} {law}", partial(sweep, report, column, law, size=size, quick=quick))
    report.part("leaf capacity", partial(capacities, report, size=50_000 if quick else 300_000))
    for law in LAWS:
        report.part(f"changes {law}", partial(changes, report, law, size=100_000 if quick else 1_000_000))


def sweep(report: Report, column: str, law: str, *, size: int, quick: bool) -> None:
    """One column of Table III, and how much the slowest value costs beside the fastest (Figure 6: cardinality leaves it flat)."""
    name, values = COLUMNS[column]
    seen: dict[str, list[float]] = {}
    for value in values[:: len(values) - 1] if quick else values:
        changed: dict[str, Any] = {"size": size, name: value}
        workload = BEGen.preset(law, **changed)
        times = compare(report, f"{column}-{law}-{value}", workload, scan=False, top=column == "match")
        for system, seconds in times.items():
            seen.setdefault(system, []).append(seconds)
    for system, all_seconds in seen.items():
        common: dict[str, Any] = {"workload": f"{column}-{law}", "system": system, "n": size}
        report.row(**common, metric="slowest_to_fastest", value=max(all_seconds) / min(all_seconds))


def compare(report: Report, name: str, workload: BEGen, *, scan: bool, top: bool) -> dict[str, float]:
    """Every system on the same rows and events: answers first, then time, work, size. Return seconds by system."""
    rows, events = workload.subscriptions(), workload.events(EVENTS)
    report.workload(f"{name}, n={rows.size}", **workload.parameters())
    judge = Scan.build(rows)
    judge.match(workload.events(WARM_UP, batch=1))
    few = events.take(0, COUNTED)
    truth = judge.match(few)
    built = {system: kind.build(rows) for system, kind in SYSTEMS.items()}
    indexes: dict[str, Tallied] = {**built, "scan": judge} if scan else built
    for system, index in built.items():
        demand_same(system, index.match(few), truth)
        if top:
            demand_same_order(system, index, judge, few)
    ways = (None, 1, 5) if top else (None,)
    calls = {called(s, k): asked(i, events, k) for s, i in indexes.items() for k in ways if s != "scan" or k is None}
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
    nodes = work(report, name, rows, indexes, few, ways, truth)
    savings(report, name, rows.size, "time_saved_percent", {s: t.median for s, t in times.items()})
    savings(report, name, rows.size, "nodes_saved_percent", nodes)
    sizes(report, name, rows, built)
    return {system: timing.median for system, timing in times.items()}


def called(system: str, k: int | None) -> str:
    return system if k is None else f"{system} top-{k}"


def asked(index: Index, events: Events, k: int | None) -> Callable[[], object]:
    return partial(index.match, events) if k is None else partial(index.top_k, events, k)


def baseline_of(system: str, seconds: dict[str, float]) -> tuple[str | None, float | None]:
    """What a system is measured against: top-k against match-all of the same one, the others against Scan or k-index."""
    baseline = system.split(" top-")[0] if " top-" in system else "scan" if "scan" in seconds else "k-index"
    if baseline == system:
        return None, None
    return baseline, seconds[baseline] / seconds[system]


def work(
    report: Report,
    name: str,
    rows: Rows,
    indexes: dict[str, Tallied],
    events: Events,
    ways: tuple[int | None, ...],
    truth: Matches,
) -> dict[str, float]:
    """What explains the times, counted exactly by kernels compiled for it; return the nodes visited by system.

    Nodes are buckets; for k-index moves of list heads, for Scan blocks of 64 rows. Tests of predicates are intervals compared
    with the event, in the structure or in rows. In vain is what they come to beyond the predicates of the rows that match,
    which no system can do without.
    """
    needed = float(np.diff(rows.offsets)[truth.ids].sum()) / events.size  # ids are 0, 1, 2, ...
    nodes: dict[str, float] = {}
    for system, index in indexes.items():
        index.count_tests()
        for k in ways:
            call = asked(index, events, k)
            call()
            index.reset_counters()
            call()
            stats = index.stats()
            common: dict[str, Any] = {"workload": name, "system": called(system, k), "n": rows.size}
            report.row(**common, metric="candidates_per_event", value=stats.candidates_per_event)
            visited = float(stats.nodes)  # Scan: all blocks
            for detail in ("buckets_visited", "postings_read"):
                if detail in stats.details:
                    visited = stats.details[detail] / events.size
                    report.row(**common, metric=f"{detail}_per_event", value=visited)
            nodes[called(system, k)] = visited
            report.row(**common, metric="nodes_per_event", value=visited)
            tests = (stats.details["boundaries_tested"] + stats.details["predicates_tested"]) / events.size
            report.row(**common, metric="predicates_tested_per_event", value=tests)
            report.row(**common, metric="signatures_per_event", value=stats.details["signatures_tested"] / events.size)
            if k is None:
                report.row(**common, metric="tests_in_vain_per_event", value=tests - needed)
        index.count_tests(on=False)
    return nodes


def savings(report: Report, name: str, n: int, metric: str, cost: dict[str, float]) -> None:
    """How much of a cost the BE*-Tree saves: against each other system, and by top-k against matching all."""
    ours = "be-star-tree"
    pairs = [(ours, other) for other in ("be-tree", "k-index")]
    pairs += [(called(ours, k), ours) for k in (1, 5) if called(ours, k) in cost]
    for system, baseline in pairs:
        value = 100.0 * (1.0 - cost[system] / cost[baseline])
        report.row(workload=name, system=system, n=n, metric=metric, value=value, baseline=baseline)


def sizes(report: Report, name: str, rows: Rows, built: dict[str, Tallied]) -> None:
    """Bytes of what is stored, and of what is reserved once a row has been inserted after the batch and all pools have grown."""
    for system, index in built.items():
        common: dict[str, Any] = {"workload": name, "system": system, "n": rows.size}
        held = index.stats().bytes
        report.row(**common, metric="bytes", value=held)
        report.row(**common, metric="bytes_per_encoded_byte", value=held / rows.nbytes)
        if system != "k-index":
            one = rows.take(0, 1)
            index.insert(one._replace(ids=one.ids + rows.size))
            reserved = index.stats().details["bytes_reserved"]
            report.row(**common, metric="reserved_per_encoded_byte", value=reserved / rows.nbytes)


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
    singles = [rows.take(i, i + 1) for i in range(size - few, size)]
    moved = [row._replace(lo=row.lo + 1, hi=row.hi + 1) for row in singles]
    # The first row after a batch makes the pools half as large again, once in half a million insertions.
    index.insert(singles[0])
    index.update(moved[0])
    index.delete(singles[0].ids)
    steps: tuple[tuple[str, Callable[[Any], None], list[Any]], ...] = (
        ("insert_us", index.insert, singles),
        ("update_us", index.update, singles),
        ("update_moved_us", index.update, moved),
        ("delete_us", index.delete, [row.ids for row in singles]),
    )
    seconds: dict[str, list[float]] = {metric: [] for metric, _, _ in steps}
    for _ in range(3):
        for metric, call, arguments in steps:
            seconds[metric].append(timed(partial(each, call, arguments), repeats=1).median / few * 1e6)
    for metric, found in seconds.items():
        report.row(**common, system="BE*", metric=metric, value=float(np.median(found)), spread=max(found) - min(found))


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


def side_by_side(calls: dict[str, Callable[[], object]], *, repeats: int) -> dict[str, Timing]:
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
