"""Ranked's experiments: memory (Table 2), calls of getnext (Figure 6), dimensions (7 and 8), overlap (9); peers, updates, ranges.

Times are CPU times of the calling thread: kernels run in one, and on a shared machine wall times of microseconds measure the
scheduler. Plots: `python -m bench.plots`, or `python -m bench.ranked_figures FILE FOLDER` from one file of figures.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.report import Report, Timing
from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.structures import RankedIndex, Scan
from matchwood.structures.ranked import STRUCTURES, EndpointIntervalTree
from matchwood.workloads import Ranked

ORDER = ("sopt", "ir", "segment", "interval", "r")
K = 20
BRANCHING = 50  # the paper's


def run(preset: str, report: Report) -> None:
    """Sizes: `quick` 50,000 intervals and up to 4 dimensions, `paper` 1,000,000 and 8."""
    paper = preset == "paper"
    size = 1_000_000 if paper else 50_000
    calls = (1, 5, 10, 20, 50, 100, 200, 500, 1000) if paper else (1, 20, 200)
    report.part("memory", partial(memory, report, [100_000, 200_000, 500_000, 1_000_000] if paper else [size]))
    report.part("getnext", partial(one_dimension, report, Ranked(size=size), calls=calls))
    report.part("scores at random", partial(scores_at_random, report, size))
    report.part("one centre", partial(one_centre, report, size))
    report.part("peers", partial(peers, report, size))
    report.part("ranges", partial(ranges, report, Ranked(size=size)))
    report.part("updates", partial(updates, report, Ranked(size=size), 2_000))
    for d in (1, 2, 3, 4, 8) if paper else (1, 2, 4):
        workload, events = Ranked(size=size, dimensions=d), 40 if d < 4 else 10 if d < 8 else 3
        report.part(f"dimensions {d}", partial(dimensions, report, f"d{d}", workload, events))
    for skew in (0.0, 0.25, 0.5, 0.75, 1.0) if paper else (0.0, 1.0):
        workload = Ranked(size=size, dimensions=4, skew_length=skew)
        call = partial(dimensions, report, f"overlap-{skew}", workload, 5, scored=("sopt",), scan=False)
        report.part(f"overlap {skew}", call)
    report.part("exact", partial(exact, report, Ranked(size=size, dimensions=4, matching="exact")))


def memory(report: Report, sizes: list[int]) -> None:
    """Table 2: bytes an interval, and seconds to build."""
    for size in sizes:
        workload = Ranked(size=size)
        rows = workload.subscriptions()
        report.workload("table-2", **workload.parameters())
        for name in ORDER:
            start = time.thread_time()
            tree = STRUCTURES[name].build(rows.lo, rows.hi, rows.weight, branching=BRANCHING)
            common = {"workload": "table-2", "system": name, "n": size}
            report.row(**common, metric="build_s", value=time.thread_time() - start)
            report.row(**common, metric="bytes_per_interval", value=tree.nbytes / size)
            if name == "segment":
                # Were copies whole intervals (ends, score, id), as in the paper, and not ranks of four bytes:
                copies = len(tree.state.spans)
                report.row(**common, metric="bytes_per_interval_as_published", value=32 * copies / size)
                report.row(**common, metric="copies_per_interval", value=copies / size)


def one_dimension(report: Report, workload: Ranked, *, calls: tuple[int, ...]) -> None:
    """Figure 6: the time of a stab as k grows. All structures side by side, batched."""
    rows = workload.subscriptions()
    report.workload("d1-getnext", **workload.parameters())
    trees = {name: STRUCTURES[name].build(rows.lo, rows.hi, rows.weight, branching=BRANCHING) for name in ORDER}
    _compare(report, "d1-getnext", trees, rows, workload, calls)


def scores_at_random(report: Report, size: int) -> None:
    """As Table 1, but scores that know nothing of lengths: where lists in score order are no help."""
    workload = Ranked(size=size)
    rows = workload.subscriptions()
    rows = rows._replace(weight=np.random.default_rng(5).random(rows.size))
    report.workload("d1-random-scores", **workload.parameters(), scores="uniform, seed 5")
    trees = {name: STRUCTURES[name].build(rows.lo, rows.hi, rows.weight, branching=BRANCHING) for name in ORDER}
    _compare(report, "d1-random-scores", trees, rows, workload, (K,))


def one_centre(report: Report, size: int) -> None:
    """All intervals hold one point, the shortest score best: a list in score order must be read far, an R-tree over it not."""
    rng = np.random.default_rng(6)
    rows = Ranked(size=size).subscriptions()
    rows = rows._replace(lo=0.5 - rng.random(size) / 2, hi=0.5 + rng.random(size) / 2)
    rows = rows._replace(weight=rows.lo - rows.hi)
    report.workload("d1-one-centre", size=size, seed=6, lo="0.5 - U(0, 0.5)", hi="0.5 + U(0, 0.5)", score="-length")
    trees = {name: STRUCTURES[name].build(rows.lo, rows.hi, rows.weight, branching=BRANCHING) for name in ORDER}
    _compare(report, "d1-one-centre", trees, rows, Ranked(size=1), (K,), rng.random(200))


def _compare(
    report: Report,
    name: str,
    trees: dict[str, Any],
    rows: Rows,
    workload: Ranked,
    calls: tuple[int, ...],
    points: np.ndarray | None = None,
) -> None:
    warm_up = workload.events(workload.warm_up, batch=1).lo
    queries = workload.events(workload.queries).lo if points is None else points
    expected = _naive(rows, queries[:50], K)
    for tree in trees.values():
        tree.top_k(warm_up, K)
        _demand_equal(tree.top_k(queries[:50], K), expected)
    for k in calls:
        times = side_by_side({s: _call(tree.top_k, queries, k) for s, tree in trees.items()}, repeats=9)
        for system, taken in times.items():
            ratio = times["sopt"].median / taken.median
            report.row(
                workload=f"{name}-k{k}",
                system=system,
                n=rows.size,
                metric="us_per_query",
                value=taken.median / len(queries) * 1e6,
                baseline="sopt",
                ratio=ratio,
                verified=k == K,
                spread=taken.spread / len(queries) * 1e6,
            )
    for system, tree in trees.items():
        tree.visits[:] = 0
        tree.top_k(queries, K)
        common = {"workload": f"{name}-k{K}", "system": system, "n": rows.size}
        report.row(**common, metric="blocks_per_query", value=tree.visits[:-1].sum() / len(queries))
        report.row(**common, metric="tested_per_query", value=tree.visits[-1] / len(queries))


def peers(report: Report, size: int) -> None:
    """Top-20 of about 100 hits, against public interval libraries that find all hits, unranked, and a partial sort of those."""
    rng = np.random.default_rng(7)
    lo = rng.integers(0, size * 1000, size)
    hi = lo + rng.integers(0, 200_000, size)
    score, queries = rng.random(size), rng.integers(0, size * 1000, 1000)
    report.workload("100-hits", size=size, seed=7, lo="uniform in 0..1000 n", length="uniform in 0..200,000")
    tree = STRUCTURES["sopt"].build(lo, hi, score, branching=BRANCHING)
    calls: dict[str, Callable[[], object]] = {"sopt": lambda: tree.top_k(queries, K)}
    expected = tree.top_k(queries, K)
    if (ncls := _module("ncls")) is not None:
        ids = np.arange(size)
        peer = ncls.NCLS(lo, hi + 1, ids)
        numbers = np.arange(len(queries))

        def ranked_by_ncls() -> list[np.ndarray]:
            return _best_of(*peer.all_overlaps_both(queries, queries + 1, numbers), score, len(queries))

        found = ranked_by_ncls()
        for q, best in enumerate(found):
            assert best.tolist() == expected.of(q)[0].tolist(), f"query {q}: ncls and a sort give another answer"
        calls["ncls, unranked"] = lambda: peer.all_overlaps_both(queries, queries + 1, numbers)
        calls["ncls + partial sort"] = ranked_by_ncls
    endpoints = EndpointIntervalTree.build(lo, hi, score, branching=BRANCHING)
    _demand_equal(endpoints.top_k(queries, K), expected)
    calls["interval-endpoints"] = lambda: endpoints.top_k(queries, K)
    times = side_by_side(calls, repeats=9)
    if (intervaltree := _module("intervaltree")) is not None:
        few = size // 10
        part = (column[:few].tolist() for column in (lo, hi + 1, score))
        built = intervaltree.IntervalTree.from_tuples(zip(*part, strict=True))
        taken = median_time(lambda: [built.at(q) for q in queries[:200].tolist()], 3) / 200 * 1e6
        common = {"workload": "100-hits", "system": "intervaltree, unranked, n/10", "n": few}
        report.row(**common, metric="us_per_query", value=taken)
    for system, taken_ in times.items():
        report.row(
            workload="100-hits",
            system=system,
            n=size,
            metric="us_per_query",
            value=taken_.median / len(queries) * 1e6,
            baseline="sopt",
            ratio=times["sopt"].median / taken_.median,
            verified=system != "ncls, unranked",
            spread=taken_.spread / len(queries) * 1e6,
        )


def _best_of(query: np.ndarray, hits: np.ndarray, score: np.ndarray, queries: int) -> list[np.ndarray]:
    """The 20 best hits of each query: a partial sort where there are more, then a sort of what is left."""
    ends = np.searchsorted(query, np.arange(queries + 1))
    found = []
    for q in range(queries):
        mine = hits[ends[q] : ends[q + 1]]
        if len(mine) > K:
            mine = mine[np.argpartition(-score[mine], K)[:K]]
        found.append(mine[np.argsort(-score[mine])])
    return found


def ranges(report: Report, workload: Ranked) -> None:
    """Events that are ranges, in ranked order (open in the paper): hundredths of the line."""
    rows = workload.subscriptions()
    first = workload.events(200).lo
    trees = {
        s: STRUCTURES[s].build(rows.lo, rows.hi, rows.weight, branching=BRANCHING)
        for s in ("ir", "interval", "r", "sopt")
    }
    for tree in trees.values():
        _demand_equal(tree.top_k(first[:20], K, first[:20] + 0.01), _naive(rows, first[:20], K, first[:20] + 0.01))
    times = side_by_side({s: _call(t.top_k, first, K, first + 0.01) for s, t in trees.items()}, repeats=5)
    for system, taken in times.items():
        common = {"workload": "d1-ranges-k20", "system": system, "n": rows.size, "metric": "us_per_query"}
        report.row(
            **common, value=taken.median / len(first) * 1e6, verified=True, spread=taken.spread / len(first) * 1e6
        )


def updates(report: Report, workload: Ranked, count: int) -> None:
    """Inserts, changes of scores and deletes after the build, in batches of 100, and the stab after them."""
    rows = workload.subscriptions()
    fresh = Ranked(size=count, seed=2).subscriptions()
    queries = workload.events(500).lo
    ids = np.arange(count) + rows.size
    score = fresh.weight
    nearer = score - 1e-4
    for name in ("ir", "sopt"):
        tree = STRUCTURES[name].build(rows.lo, rows.hi, rows.weight, branching=BRANCHING)
        steps: dict[str, Callable[[slice], None]] = {
            "insert": _step(tree.insert, fresh.lo, fresh.hi, score, ids),
            "rescore": _step(tree.rescore, fresh.lo, fresh.hi, score, ids, nearer),
        }
        for step, call in steps.items():
            _report_updates(report, name, rows.size, step, call, count)
        everything = np.concatenate([rows.weight, nearer])
        both = rows._replace(
            ids=np.arange(rows.size + count),
            lo=np.append(rows.lo, fresh.lo),
            hi=np.append(rows.hi, fresh.hi),
            weight=everything,
        )
        _demand_equal(tree.top_k(queries[:30], K), _naive(both, queries[:30], K))
        taken = median_time(lambda tree=tree: tree.top_k(queries, K), 5) / len(queries) * 1e6
        common = {"workload": "d1-updates", "system": name, "n": rows.size}
        report.row(**common, metric="us_per_query_after", value=taken, verified=True)
        _report_updates(report, name, rows.size, "delete", _step(tree.delete, fresh.lo, fresh.hi, nearer, ids), count)


def _report_updates(report: Report, system: str, n: int, step: str, call: Callable[[slice], None], count: int) -> None:
    call(slice(0, 100))  # the first makes what later ones use: a table of ids, room to grow
    start = time.thread_time()
    for first in range(100, count, 100):
        call(slice(first, first + 100))
    taken = (time.thread_time() - start) / (count - 100) * 1e6
    report.row(workload="d1-updates", system=system, n=n, metric=f"us_per_{step}", value=taken)


def dimensions(
    report: Report,
    name: str,
    workload: Ranked,
    events: int,
    *,
    scored: tuple[str, ...] = ("sopt", "ir"),
    scan: bool = True,
) -> None:
    """Figures 7 to 9: relaxed matching by the paper's order of weights with every structure, and by totals."""
    rows, batch = workload.subscriptions(), workload.events(events)
    report.workload(name, **workload.parameters())
    few = batch.take(0, min(3, events))
    baseline = Scan.build(rows)
    expected = baseline.top_k(few, K, mode="any")
    slow = median_time(lambda: baseline.top_k(few, K, mode="any"), 3) / few.size * 1e6
    if scan:
        report.row(workload=name, system="scan", n=rows.size, metric="us_per_event", value=slow, verified=True)
    for structure, order in [(s, "weight") for s in ORDER] + [(s, "score") for s in scored]:
        index = RankedIndex.build(rows, structure=structure, order=order, branching=BRANCHING)
        _relaxed(report, name, f"{structure} by {order}", index, batch, expected, slow)


def _relaxed(
    report: Report, name: str, system: str, index: RankedIndex, batch: Events, expected: Matches, slow: float
) -> None:
    few = batch.take(0, len(expected.offsets) - 1)
    _demand_equal(index.top_k(few, K, mode="any"), expected)
    index.top_k(batch, K, mode="any")
    index.reset_counters()
    taken = median_time(lambda: index.top_k(batch, K, mode="any"), 3) / batch.size * 1e6
    stats = index.stats()
    common = {"workload": name, "system": system, "n": len(index)}
    report.row(**common, metric="us_per_event", value=taken, baseline="scan", ratio=slow / taken, verified=True)
    report.row(**common, metric="candidates_per_event", value=stats.candidates_per_event)


def exact(report: Report, workload: Ranked) -> None:
    """Exact matching, the score being the priority."""
    rows, batch = workload.subscriptions(), workload.events(100)
    report.workload("d4-exact", **workload.parameters())
    scan = Scan.build(rows)
    few = batch.take(0, 10)
    expected = scan.top_k(few, K)
    slow = median_time(lambda: scan.top_k(few, K), 3) / few.size * 1e6
    report.row(workload="d4-exact", system="scan", n=rows.size, metric="us_per_event", value=slow, verified=True)
    for structure in ("sopt", "ir"):
        index = RankedIndex.build(rows, structure=structure, branching=BRANCHING)
        _demand_equal(index.top_k(few, K), expected)
        taken = median_time(lambda index=index: index.top_k(batch, K), 5) / batch.size * 1e6
        common = {"workload": "d4-exact", "system": structure, "n": rows.size, "metric": "us_per_event"}
        report.row(**common, value=taken, baseline="scan", ratio=slow / taken, verified=True)


def _naive(rows: Rows, first: np.ndarray, k: int, last: np.ndarray | None = None) -> Matches:
    """The k best of each query by looking at all."""
    ids, scores, offsets = [], [], [0]
    for a, b in zip(first, first if last is None else last, strict=True):
        hits = np.flatnonzero((rows.lo <= b) & (a <= rows.hi))
        best = hits[np.lexsort((rows.ids[hits], -rows.weight[hits]))[:k]]
        ids.append(rows.ids[best])
        scores.append(rows.weight[best])
        offsets.append(offsets[-1] + len(best))
    return Matches(np.array(offsets), np.concatenate(ids), np.concatenate(scores))


def _demand_equal(found: Matches, expected: Matches) -> None:
    assert found.offsets.tolist() == expected.offsets.tolist(), "another number of hits"
    assert found.ids.tolist() == expected.ids.tolist(), "other hits"
    assert found.scores.tolist() == expected.scores.tolist(), "other scores"


def side_by_side(calls: dict[str, Callable[[], object]], *, repeats: int) -> dict[str, Timing]:
    """CPU seconds of several calls, in turn, round after round; the first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            seconds[name].append(time.thread_time() - start)
    return {name: Timing(statistics.median(s[1:]), max(s[1:]) - min(s[1:])) for name, s in seconds.items()}


def median_time(call: Callable[[], object], repeats: int) -> float:
    """The median CPU seconds of a call that has been warmed up."""
    return side_by_side({"": call}, repeats=repeats)[""].median


def _call(function: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: function(*arguments)


def _step(function: Callable[..., None], *columns: np.ndarray) -> Callable[[slice], None]:
    return lambda part: function(*(column[part] for column in columns))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
