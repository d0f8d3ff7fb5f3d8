"""VCR on its paper's workload: Figures 6 to 9, and the index against the R-tree of libspatialindex (`rtree`) and against Scan.

    figure 6   maximal side L against search time and storage, W = 20 and 40; and the side the index chooses
    figure 7   rectangles against search time and storage: VCR, R-tree, Scan; uniform and 90-10, 60,000 cells
    figure 8   hashed against array directory, overlapped decomposition, 90-1, 3,000,000 cells
    figure 9   simple against overlapped decomposition with a hash directory of one size, 90-10, 3,000,000 cells

Rectangles and points are whole numbers, as the paper's. Answers are compared before anything is timed: ids and scores with
Scan, ids with the R-tree. Times are of the processor: no system here waits or has a second thread, and a batch takes so few
milliseconds that the turns of other processes would drown it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench.report import Report, Timing
from matchwood.encode.arrays import Events, Rows
from matchwood.structures import VCR, Scan
from matchwood.structures.base import Index
from matchwood.workloads import vcr as workloads

WARM_UP = 300
HASH_SIZE = 1_800_017  # the paper's; rounded up to a power of two here
PAPER_SIDES = (16, 8)


def run(preset: str, report: Report) -> None:
    """Sizes: `quick` 32,000 and 256,000 rectangles, `paper` 32,000 to 256,000; 200 and 500 events."""
    quick = preset == "quick"
    events = 200 if quick else 500
    sizes = (32_000, 256_000) if quick else (32_000, 64_000, 128_000, 256_000)
    sides = (2, 4, 8, 16) if quick else (1, 2, 4, 8, 16, 32)
    for widest in (20, 40):
        call = partial(figure_6, report, events, widest, size=32_000 if quick else 128_000, sides=sides)
        report.part(f"figure 6, W={widest}", call)
    for skew in ("90-10",) if quick else ("uniform", "90-10", "90-1"):
        for size in sizes:
            report.part(f"figure 7, {skew}, {size:,}", partial(figure_7, report, events, size, skew))
    for size in sizes[:1] if quick else sizes:
        report.part(f"figure 8, {size:,}", partial(figure_8, report, events, size))
        report.part(f"figure 9, {size:,}", partial(figure_9, report, events, size))


def figure_6(report: Report, events: int, widest: int, *, size: int, sides: tuple[int, ...]) -> None:
    """Search time and storage against L = L_x = L_y, simple decomposition, array directory."""
    name = f"figure 6, W={widest}"
    workload = workloads.VCR(size=size, widest=widest, highest=widest)
    report.workload(name, **workload.parameters())
    rows, batch = workload.subscriptions(), workload.events(events)
    scan = Scan.build(rows)
    indexes = {f"L={side}": VCR.build(rows, sides=(side, side), directory="array", cells=1000) for side in sides}
    indexes["chosen"] = VCR.build(rows, directory="array", cells=1000)
    for index in indexes.values():
        verify(index, scan, batch)
    times = side_by_side({label: _matching(index, batch) for label, index in indexes.items()})
    for label, index in indexes.items():
        common = {"workload": name, "system": label, "n": size, "verified": True}
        micros = times[label].median / events * 1e6
        report.row(**common, metric="us_per_event", value=micros, spread=times[label].spread / events * 1e6)
        _structure(report, common, index)


def figure_7(report: Report, events: int, size: int, skew: str) -> None:
    """VCR (its own choice of L, and the paper's) against R-tree and Scan, 60,000 cells; storage, building and updating."""
    name = f"moderate {skew}"
    workload = workloads.VCR.preset(f"moderate-{skew}", size=size)
    report.workload(f"{name}, n={size}", **workload.parameters())
    rows, batch = workload.subscriptions(), workload.events(events)
    systems: dict[str, Index] = {"scan": Scan.build(rows)}
    systems["scan"].match(workload.events(WARM_UP, batch=1))
    seconds = {}
    for label, parameters in (("vcr", {}), ("vcr L=16x8", {"sides": PAPER_SIDES})):
        VCR.build(rows, **parameters)
        start = time.process_time()
        systems[label] = VCR.build(rows, **parameters)
        seconds[label] = time.process_time() - start
        verify(systems[label], systems["scan"], batch)
    verify_top(systems["vcr"], systems["scan"], batch)
    calls = {label: _matching(index, batch) for label, index in systems.items()}
    calls["vcr top-10"] = lambda: systems["vcr"].top_k(batch, 10)
    some = min(events, 100)  # R-tree and Scan are slow
    calls["scan"] = _matching(systems["scan"], batch.take(0, some))
    tree, tree_seconds = r_tree(rows)
    keys = batch.lo.reshape(-1, 2)[:some]
    verify_tree(tree, keys, systems["vcr"], batch)
    calls["rtree vectorised"] = lambda: tree.intersection_v(keys, keys)
    calls["rtree id lists"] = lambda: [list(tree.intersection((x, y, x, y))) for x, y in keys.tolist()]
    times = side_by_side(calls)
    micros = {label: t.median / (events if "vcr" in label else some) * 1e6 for label, t in times.items()}
    for label in calls:
        common = {"workload": name, "system": label, "n": size, "verified": True}
        report.row(**common, metric="us_per_event", value=micros[label])
        if label == "vcr":
            for baseline in ("rtree vectorised", "rtree id lists", "scan"):
                ratio = micros[baseline] / micros["vcr"]
                report.row(**common, metric=f"speed-up over {baseline}", value=ratio, baseline=baseline, ratio=ratio)
        if label in seconds:
            ratio = tree_seconds / seconds[label]
            report.row(**common, metric="build_s", value=seconds[label], baseline="rtree", ratio=ratio)
            _structure(report, common, systems[label])
    hits = len(systems["vcr"].match(batch).ids) / events
    report.row(workload=name, system="vcr", n=size, metric="hits_per_event", value=hits)
    report.row(workload=name, system="rtree", n=size, metric="bytes", value=r_tree_bytes(workload))
    _updates(report, name, workload)


def figure_8(report: Report, events: int, size: int) -> None:
    """What hashing costs in time and saves in storage on a large, sparse grid."""
    name = "large 90-1"
    workload = workloads.VCR.preset("large-90-1", size=size)
    report.workload(f"{name}, n={size}", **workload.parameters())
    parameters = {"sides": PAPER_SIDES, "overlapped": True, "cells": 4000}
    variants = {
        "od hash": VCR.build(workload.subscriptions(), directory="hash", **parameters),
        "od array": VCR.build(workload.subscriptions(), directory="array", **parameters),
        "vcr": VCR.build(workload.subscriptions(), cells=4000),
    }
    _compare(report, name, workload, variants, events, baseline="od array")


def figure_9(report: Report, events: int, size: int) -> None:
    """What overlapped decomposition does to a hash directory of one size: fewer VCRs are active."""
    name = "large 90-10"
    workload = workloads.VCR.preset("large-90-10", size=size)
    report.workload(f"{name}, n={size}", **workload.parameters(), hash_size=HASH_SIZE)
    parameters = {"sides": PAPER_SIDES, "cells": 4000, "directory": "hash", "hash_size": HASH_SIZE}
    variants = {
        "sd hash": VCR.build(workload.subscriptions(), **parameters),
        "od hash": VCR.build(workload.subscriptions(), overlapped=True, **parameters),
        "vcr": VCR.build(workload.subscriptions(), cells=4000),
    }
    _compare(report, name, workload, variants, events, baseline="sd hash")


def _compare(
    report: Report, name: str, workload: workloads.VCR, variants: dict[str, VCR], events: int, baseline: str
) -> None:
    batch = workload.events(events)
    scan = Scan.build(workload.subscriptions())
    for index in variants.values():
        verify(index, scan, batch)
    times = side_by_side({label: _matching(index, batch) for label, index in variants.items()})
    for label, index in variants.items():
        common = {"workload": name, "system": label, "n": workload.size, "verified": True}
        ratio = times[baseline].median / times[label].median
        micros = times[label].median / events * 1e6
        report.row(**common, metric="us_per_event", value=micros, baseline=baseline, ratio=ratio)
        _structure(report, common, index)
        report.row(**common, metric="load_factor", value=index.stats().details["load_factor"])


def _structure(report: Report, common: dict[str, Any], index: Index) -> None:
    """Storage and the shape behind it. `bytes` is all that matching needs without the row store, as the paper counts it."""
    details = index.stats().details
    report.row(**common, metric="bytes", value=details["index_bytes"])
    for metric in ("side_x", "side_y", "active", "entries_per_row"):
        report.row(**common, metric=metric, value=details[metric])


def _updates(report: Report, name: str, workload: workloads.VCR) -> None:
    """Insert, delete and replace a tenth of the rows, in bulk, microseconds a row."""
    rows = workload.subscriptions()
    some = rows.size // 10
    index = VCR.build(rows)
    seconds: dict[str, list[float]] = {}
    for turn in range(3):
        other = replace(workload, size=some, seed=workload.seed + 1 + turn).subscriptions()
        fresh = other._replace(ids=other.ids + rows.size)
        steps: dict[str, Callable[[], None]] = {
            "insert": lambda fresh=fresh: index.insert(fresh),  # type: ignore[misc]
            "delete": lambda fresh=fresh: index.delete(fresh.ids),  # type: ignore[misc]
            "update_in_place": lambda turn=turn: index.update(  # type: ignore[misc]
                rows.take(some, 2 * some)._replace(priority=np.full(some, float(turn)))
            ),
            "update_elsewhere": lambda other=other: index.update(other),  # type: ignore[misc]
        }
        for step, call in steps.items():
            start = time.process_time()
            call()
            seconds.setdefault(step, []).append(time.process_time() - start)
    for step, found in seconds.items():
        value = float(np.median(found)) / some * 1e6
        report.row(workload=name, system="vcr", n=rows.size, metric=f"{step}_us_per_row", value=value)


def side_by_side(calls: dict[str, Callable[[], object]], *, repeats: int = 7) -> dict[str, Timing]:
    """As `report.side_by_side`, by the processor's clock: in turn, round after round; medians.

    A turn begins with a call that is not timed, so that caches hold what they would in a process that only matches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            call()
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    return {name: Timing(statistics.median(s), max(s) - min(s)) for name, s in seconds.items()}


def _matching(index: Index, batch: Events) -> Callable[[], object]:
    """Match in batches of 100: results of one batch are 10 MB; those of 1,000 would be fresh memory from the system each time."""
    parts = [batch.take(start, min(start + 100, batch.size)) for start in range(0, batch.size, 100)]

    def call() -> None:
        for part in parts:
            index.match(part)

    return call


def r_tree(rows: Rows) -> tuple[Any, float]:
    """(an R-tree of the rectangles, loaded at once; seconds)."""
    from rtree import index as rtree

    start = time.process_time()
    tree = rtree.Index((rows.ids, rows.lo.reshape(-1, 2), rows.hi.reshape(-1, 2)))
    return tree, time.process_time() - start


def r_tree_bytes(workload: workloads.VCR) -> float:
    """How much a fresh process grows when it loads the R-tree."""
    parameters = {name: value for name, value in workload.parameters().items() if name != "workload"}
    code = f"""
import json, psutil
from bench.vcr import r_tree
from matchwood.workloads.vcr import VCR
rows = VCR(**json.loads({json.dumps(parameters)!r})).subscriptions()
r_tree(rows.take(0, 100))
before = psutil.Process().memory_info().rss
tree = r_tree(rows)
print(psutil.Process().memory_info().rss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def verify(index: Index, scan: Index, batch: Events) -> None:
    """Raise unless both give the same ids and scores for the first fifty events."""
    some = batch.take(0, min(50, batch.size))
    mine, theirs = index.match(some), scan.match(some)
    for e in range(some.size):
        for a, b in zip(_by_id(*mine.of(e)), _by_id(*theirs.of(e)), strict=True):
            if not np.array_equal(a, b):
                raise AssertionError(f"event {e}: vcr and scan differ")


def verify_top(index: Index, scan: Index, batch: Events) -> None:
    """Raise unless both give the same ten best, in the same order."""
    some = batch.take(0, min(50, batch.size))
    for mine, theirs in zip(index.top_k(some, 10), scan.top_k(some, 10), strict=True):
        if not np.array_equal(mine, theirs):
            raise AssertionError("the ten best of vcr and scan differ")


def verify_tree(tree: Any, keys: np.ndarray, index: Index, batch: Events) -> None:
    """Raise unless the R-tree gives the same ids, by both its ways, for twenty events."""
    ids, counts = tree.intersection_v(keys[:20], keys[:20])
    mine = index.match(batch.take(0, 20))
    ends = np.cumsum(counts).astype(np.int64)
    for e, (end, count) in enumerate(zip(ends, counts.astype(np.int64), strict=True)):
        if not np.array_equal(np.sort(ids[end - count : end]), np.sort(mine.of(e)[0])):
            raise AssertionError(f"event {e}: vcr and rtree differ")
        x, y = keys[e].tolist()
        if sorted(tree.intersection((x, y, x, y))) != sorted(mine.of(e)[0].tolist()):
            raise AssertionError(f"event {e}: vcr and the id lists of rtree differ")


def _by_id(ids: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(ids)
    return ids[order], scores[order]
