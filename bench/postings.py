"""Equality, IN-lists and membership in lists: `postings` and `auto` beside bitmaps written by hand and DuckDB.

Workloads: ads (`Targeting`), routing of messages (`Routing`), keyword searches (`Keywords`) and alerts on papers (`PaperAlerts`).
Everything of ours goes through `Engine`. Metrics, in processor time of the whole process:

    us_per_event            all matches of a batch of arrays, unordered (`match_many`)
    us_per_event_ordered    the same, best first; what the indexes by hand and DuckDB give in any case
    us_per_event_top_5      the five best (`top_k_many`)
    top_5_us                single calls with a plain dict: the five best
    match_arrays_us         all matches, as arrays of ids and scores; the indexes by hand give an array of ids
    match_us                all matches, as a list of objects: `list(engine.match(event))`
    build_us, bytes_per_row

The indexes by hand take one event at a time, so their figures of batches and single calls are the same code. DuckDB answers a
batch by one query. Before anything is timed, all answers are compared with those of Scan. The part "changes" measures inserts,
deletes and updates of ads, "cold start" a first answer in a fresh process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.auto import COMPARED, SEEN, engine_of
from bench.frontdoor import cpu_us_once
from bench.inverted import Inverted, inverted
from bench.inverted_by_hand import ByHand, DuckTables, NumpyBitsets, RoaringSets
from bench.objects import as_mappings
from bench.report import Report
from matchwood import Engine
from matchwood.encode.arrays import Events, Rows
from matchwood.errors import WorkloadError
from matchwood.structures import PostingsIndex
from matchwood.workloads import Keywords, PaperAlerts, Routing, Targeting, Workload

ADS, ROUTING, KEYWORDS, PAPERS = "P1 ads", "P2 routing", "P3 keywords", "P4 papers"
KINDS: Mapping[str, type[Workload]] = {ADS: Targeting, ROUTING: Routing, KEYWORDS: Keywords, PAPERS: PaperAlerts}
KEYWORD_LISTS = "P3 keywords, as lists"
"""The same searches, with `A_CONTAINS` on one list of terms; the indexes by hand have the terms as before."""
POSTINGS, AUTO = "postings", "auto"
SIZES = {"quick": 20_000, "paper": 100_000}
LARGE = 1_000_000
CHANGED = 1_000
COLD = {"quick": 1_000, "paper": 10_000}
K = 5
TIMED = 1_000


class Effort(NamedTuple):
    """How long systems are timed: seconds of one round at most (slow systems get fewer events), and rounds."""

    seconds: float
    rounds: int


EFFORTS = {"quick": Effort(0.05, 3), "paper": Effort(0.4, 7)}

Call = Callable[[int], object]
"""Answers the first events, as many as it is told."""


class Batch(NamedTuple):
    """Events as arrays and as mappings."""

    arrays: Events
    mappings: list[dict[str, object]]


def run(preset: str, report: Report) -> None:
    """One part for each workload, changes, the cold start; then the large workload."""
    for name in KINDS:
        match(preset, report, name, SIZES[preset])
    searches = Keywords(size=SIZES[preset], as_list=True)
    measured = partial(measure, report, KEYWORD_LISTS, searches, EFFORTS[preset])
    report.part(f"{KEYWORD_LISTS}, {searches.size:,}", partial(measured, twin=replace(searches, as_list=False)))
    report.part("changes", partial(changes, report, SIZES[preset]))
    report.part("cold start", partial(cold, report, COLD[preset]))
    if preset == "paper":
        match(preset, report, ADS, LARGE)


def match(preset: str, report: Report, name: str, size: int) -> None:
    """The part of one workload, if its data is there."""
    workload = KINDS[name](size=size)
    try:
        workload.events(1)
    except WorkloadError as error:
        print(f"{name} is left out: {error}")
        return
    report.part(f"{name}, {size:,}", partial(measure, report, name, workload, EFFORTS[preset]))


# matching


def measure(report: Report, name: str, workload: Workload, effort: Effort, *, twin: Workload | None = None) -> None:
    """Every system on one workload; the indexes by hand and DuckDB on its twin, if it has one, with the same matches."""
    twin = twin or workload
    rows, schema = workload.subscriptions(), workload.schema()
    arrays = workload.events(TIMED, batch=2)
    batch = Batch(arrays, list(as_mappings(arrays, schema)))
    theirs = Batch(twin.events(TIMED, batch=2), [])
    theirs.mappings.extend(as_mappings(theirs.arrays, twin.schema()))
    file = inverted(twin.subscriptions())
    engines = ours(report, name, workload, rows)
    rivals = by_hand(report, name, file, twin)
    tables = DuckTables(file)
    truth = engine_of(workload, rows, "scan").match_many(arrays.take(0, COMPARED))
    expected = [truth.of(e)[0].tolist() for e in range(COMPARED)]
    for index, engine in engines.items():
        verify_engine(index, engine, batch, expected, [truth.of(e)[1].tolist() for e in range(COMPARED)])
    for rival in rivals:
        verify_rival(rival, theirs, expected)
    verify_tables(tables, theirs, expected)
    hits = float(np.mean([len(found) for found in expected]))
    report.workload(f"{name}, {workload.size:,}", **workload.parameters(), hits_per_event=hits)
    for metric, calls in calls_of(engines, rivals, tables, batch, theirs).items():
        record(report, name, workload.size, metric, timed(calls, effort))


def ours(report: Report, name: str, workload: Workload, rows: Rows) -> dict[str, Engine]:
    """The engines: with `postings`, and with the index that `auto` has chosen after some events."""
    engines = {}
    for index in (POSTINGS, AUTO):
        warm = engine_of(workload, rows.take(0, 100), index)
        warm.match_many(workload.events(2))
        start = time.process_time()
        engine = engines[index] = engine_of(workload, rows, index)
        seconds = time.process_time() - start
        engine.match_many(workload.events(SEEN, batch=1), ordered=False)
        engine.top_k_many(workload.events(SEEN, batch=1), K)
        if index == AUTO:
            report.workload(f"{name}, {workload.size:,}, plan", plan=engine.replan(), index=engine.index)
            continue
        report.row(workload=name, system=index, n=workload.size, metric="build_us", value=1e6 * seconds / workload.size)
        size = engine.stats().bytes / workload.size
        report.row(workload=name, system=index, n=workload.size, metric="bytes_per_row", value=size)
    return engines


def by_hand(report: Report, name: str, file: Inverted, workload: Workload) -> list[ByHand]:
    """The indexes by hand."""
    found: list[ByHand] = []
    for kind in (RoaringSets, NumpyBitsets):
        start = time.process_time()
        rival = kind(file, workload.schema())
        seconds = time.process_time() - start
        found.append(rival)
        for metric, value in (("build_us", 1e6 * seconds), ("bytes_per_row", float(rival.nbytes))):
            report.row(workload=name, system=rival.name, n=workload.size, metric=metric, value=value / workload.size)
    return found


def verify_engine(name: str, engine: Engine, batch: Batch, ids: list[list[int]], scores: list[list[float]]) -> None:
    """Exit unless batches and single calls give these answers, in this order."""
    events = batch.arrays.take(0, len(ids))
    whole, best = engine.match_many(events), engine.top_k_many(events, K)
    unordered = engine.match_many(events, ordered=False)
    for e, (want, score) in enumerate(zip(ids, scores, strict=True)):
        found = engine.match(batch.mappings[e])
        top = engine.top_k(batch.mappings[e], K)
        pairs = list(zip(want, score, strict=True))
        same = [
            found == pairs,
            top == pairs[:K],
            list(zip(*(part.tolist() for part in whole.of(e)), strict=True)) == pairs,
            list(zip(*(part.tolist() for part in best.of(e)), strict=True)) == pairs[:K],
            sorted(unordered.of(e)[0].tolist()) == sorted(want),
        ]
        if not all(same):
            raise SystemExit(f"{name} and scan differ on event {e}")


def verify_rival(rival: ByHand, batch: Batch, ids: list[list[int]]) -> None:
    """Exit unless the rival gives these answers, in this order."""
    for event, want in zip(batch.mappings, ids, strict=False):
        if rival.match(event).tolist() != want or rival.top_k(event, K).tolist() != want[:K]:
            raise SystemExit(f"{rival.name} and scan differ on {event}")


def verify_tables(tables: DuckTables, batch: Batch, ids: list[list[int]]) -> None:
    """Exit unless DuckDB gives these answers, in this order."""
    found_events, found_ids = tables.match_many(batch.arrays.take(0, len(ids)))
    for e, want in enumerate(ids):
        if found_ids[found_events == e].tolist() != want:
            raise SystemExit(f"{tables.name} and scan differ on event {e}")


def calls_of(
    engines: Mapping[str, Engine], rivals: Sequence[ByHand], tables: DuckTables, batch: Batch, theirs: Batch
) -> dict[str, dict[str, Call]]:
    """What is timed, by metric and system: ours on `batch`, the others on `theirs`."""
    arrays, mappings = batch
    found: dict[str, dict[str, Call]] = {
        "us_per_event": {},
        "us_per_event_ordered": {},
        "us_per_event_top_5": {},
        "match_us": {},
        "match_arrays_us": {},
        "top_5_us": {},
    }
    for name, engine in engines.items():
        found["us_per_event"][name] = lambda n, e=engine: e.match_many(arrays.take(0, n), ordered=False)
        found["us_per_event_ordered"][name] = lambda n, e=engine: e.match_many(arrays.take(0, n))
        found["us_per_event_top_5"][name] = lambda n, e=engine: e.top_k_many(arrays.take(0, n), K)
        found["match_us"][name] = partial(one_by_one, lambda event, e=engine: list(e.match(event)), mappings)
        found["match_arrays_us"][name] = partial(one_by_one, engine.match, mappings)
        found["top_5_us"][name] = partial(one_by_one, partial(engine.top_k, k=K), mappings)
    for rival in rivals:
        for metric in ("us_per_event", "us_per_event_ordered", "match_us", "match_arrays_us"):
            found[metric][rival.name] = partial(one_by_one, rival.match, theirs.mappings)
        for metric in ("us_per_event_top_5", "top_5_us"):
            found[metric][rival.name] = partial(one_by_one, partial(rival.top_k, k=K), theirs.mappings)
    for metric in ("us_per_event", "us_per_event_ordered"):
        found[metric][tables.name] = lambda n: tables.match_many(theirs.arrays.take(0, n))
    return found


def one_by_one(call: Callable[[Any], object], events: Sequence[object], count: int) -> None:
    """Answer the first events, each by a call of its own."""
    for event in events[:count]:
        call(event)


def record(report: Report, name: str, size: int, metric: str, each: Mapping[str, list[float]]) -> None:
    """Add the figures of all systems; ratios are to Roaring bitmaps."""
    base = statistics.median(each[RoaringSets.name])
    for system, values in each.items():
        value = statistics.median(values)
        report.row(
            workload=name,
            system=system,
            n=size,
            metric=metric,
            value=1e6 * value,
            spread=1e6 * (max(values) - min(values)),
            baseline=RoaringSets.name,
            ratio=base / value,
            verified=True,
        )


def timed(calls: Mapping[str, Call], effort: Effort) -> dict[str, list[float]]:
    """Processor seconds for each event, by system and round; systems take turns. A round has five events at least."""
    sizes = {}
    for system, call in calls.items():
        start = time.process_time()
        call(5)
        each = (time.process_time() - start) / 5
        sizes[system] = max(5, min(TIMED, int(effort.seconds / max(each, 1e-9))))
        call(sizes[system])  # a batch of that size has been divided before
    found: dict[str, list[float]] = {system: [] for system in calls}
    for _ in range(effort.rounds):
        for system, call in calls.items():
            start = time.process_time()
            call(sizes[system])
            found[system].append((time.process_time() - start) / sizes[system])
    return found


# changes


def changes(report: Report, size: int) -> None:
    """Inserts, deletes and updates of ads, one by one and in bulk, in an engine with `postings`."""
    workload = Targeting(size=size + 3 * CHANGED + size // 10)
    rows = workload.subscriptions()
    engine = engine_of(workload, rows.take(0, size), POSTINGS)
    at = size

    def more(count: int) -> Rows:
        nonlocal at
        at += count
        return rows.take(at - count, at)

    def note(metric: str, found: tuple[float, float]) -> None:
        report.row(workload=ADS, system=POSTINGS, n=size, metric=metric, value=found[0], spread=found[1])

    engine.subscribe_rows(more(1))
    single = [more(1) for _ in range(CHANGED)]
    note("insert_us", cpu_us_once(engine.subscribe_rows, single))
    note("bulk_insert_us", in_bulk(engine.subscribe_rows, more(size // 10)))
    texts = [(engine.subscription(i).expression, engine.subscription(i).priority) for i in range(CHANGED)]
    engine.unsubscribe(CHANGED)
    note("delete_us", cpu_us_once(engine.unsubscribe, range(CHANGED)))
    note("subscribe_us", cpu_us_once(lambda one: engine.subscribe(one[0], priority=one[1]), texts))
    ids = range(2 * CHANGED, 2 * CHANGED + size // 20)
    start = time.process_time()
    engine.unsubscribe_many(ids)
    note("bulk_delete_us", (1e6 * (time.process_time() - start) / len(ids), 0.0))
    kept = [size // 2 + i for i in range(CHANGED)]
    engine.set_priority(kept[0], 1.0)
    note("set_priority_us", cpu_us_once(lambda id_: engine.set_priority(id_, id_ % 7 * 0.5), kept))
    asked = [(id_, text) for id_, (text, _) in zip(kept, texts, strict=True)]
    engine.update(*asked[0])
    note("update_us", cpu_us_once(lambda one: engine.update(*one), asked))
    index = PostingsIndex.build(rows.take(0, size))  # what of these is the index
    index.insert(rows.take(size, size + 1))
    note("index_insert_us", cpu_us_once(index.insert, single))
    note("index_delete_us", cpu_us_once(index.delete, [np.array([id_]) for id_ in range(CHANGED)]))


def in_bulk(call: Callable[[Rows], object], rows: Rows, *, parts: int = 5) -> tuple[float, float]:
    """Microseconds for each row, median of the parts, and their spread."""
    size, each = rows.size // parts, []
    for part in range(parts):
        taken = rows.take(part * size, (part + 1) * size)
        start = time.process_time()
        call(taken)
        each.append(1e6 * (time.process_time() - start) / size)
    return statistics.median(each), max(each) - min(each)


# cold start


def cold(report: Report, size: int) -> None:
    """The first answer of a process with an empty kernel cache, and of a second one that finds what the first has compiled."""
    with tempfile.TemporaryDirectory() as cache:
        for prefix in ("", "warm_"):
            done = subprocess.run(
                [sys.executable, str(Path(__file__).with_name("postings_cold.py")), str(size)],
                env={**os.environ, "NUMBA_CACHE_DIR": cache},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            for metric, value in json.loads(done.stdout).items():
                report.row(workload=ADS, system=POSTINGS, n=size, metric=prefix + metric, value=value)
