"""The choice of the planner: every index on every workload, beside `Engine(index="auto")`.

Everything goes through `Engine`. `auto` gets all subscriptions and a few hundred events and is then timed on other events. The
metrics are microseconds per event: `us_per_event` (all matches), `us_per_event_top_10`, and for the workloads of Ranked, whose
matching is relaxed, `us_per_event_any_top_20`. They are processor time of one thread, measured alternately; answers (ids and
scores) are compared with those of Scan first. The plan of `auto` is stored with the parameters of the workload.

The workloads are those of the papers and, if the data folder exists, those from real tables.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from bench.report import Report
from matchwood import Engine
from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.errors import WorkloadError
from matchwood.structures import INDEXES, Capability, Scan
from matchwood.workloads import VCR, Ads, BEGen, City, Covering, Flights, Marketplace, Papers, Ranked, Retail, Workload

Calls = dict[str, Callable[[Events], Matches]]

TIMED = 200
SEEN = 600
COMPARED = 20
MAX_ROUND_S = 1.0
"""Seconds of one round of a system; slow systems are timed on fewer events."""
ROUNDS = 5


class Use(NamedTuple):
    """A kind of query: the k best, or all matches, in a mode."""

    metric: str
    k: int | None = None
    mode: str = "all"

    def of(self, engine: Engine, events: Events) -> Matches:
        """The matches of events."""
        if self.k is None:
            return engine.match_many(events, mode=self.mode, ordered=False)
        return engine.top_k_many(events, self.k, mode=self.mode)


ALL = Use("us_per_event")
TOP = Use("us_per_event_top_10", 10)
RELAXED = Use("us_per_event_any_top_20", 20, "any")


def workloads(preset: str) -> Iterator[tuple[str, Workload, list[Use]]]:
    """Name, workload and uses."""
    large = 300_000 if preset == "paper" else 20_000
    real = 100_000 if preset == "paper" else 10_000
    yield "BEGen uniform", BEGen.preset("uniform", size=large), [ALL, TOP]
    yield "BEGen Zipf", BEGen.preset("zipf", size=large), [ALL, TOP]
    yield "BEGen uniform 9 %", BEGen.preset("uniform-match-9%", size=large // 3), [ALL, TOP]
    for d in (1, 2, 4, 8):
        yield f"Ranked d = {d}", Ranked(size=large // 3, dimensions=d), [ALL, TOP, RELAXED]
    yield "Covering", Covering(size=60_000 if preset == "paper" else 10_000), [ALL, TOP]
    yield "VCR 90-10", VCR.preset("moderate-90-10", size=min(256_000, large)), [ALL, TOP]
    yield "VCR large 90-1", VCR.preset("large-90-1", size=min(256_000, large)), [ALL, TOP]
    for predicates in ("k6", "k10", "mixed"):
        yield f"City {predicates}", City.preset(predicates, size=large), [ALL, TOP]
    yield "Marketplace", Marketplace(size=large // 3), [ALL, TOP]
    for kind in (Flights, Retail, Papers, Ads):
        yield kind.__name__, kind(size=real), [ALL, TOP]


def run(preset: str, report: Report) -> None:
    """One part for each workload."""
    for name, workload, uses in workloads(preset):
        try:
            workload.events(1)
        except WorkloadError as error:
            print(f"{name} is left out: {error}")
            continue
        report.part(name, partial(measure, report, name, workload, uses))


def measure(report: Report, name: str, workload: Workload, uses: list[Use]) -> None:
    """Every index and `auto` on one workload."""
    rows = workload.subscriptions()
    engines = {system: engine_of(workload, rows, system) for system in INDEXES}
    plans = {}
    for use in uses:
        auto_engine = engine_of(workload, rows, "auto")
        use.of(auto_engine, workload.events(SEEN, batch=1))
        plans[use.metric] = auto_engine.replan()
        able = {s: e for s, e in engines.items() if use.mode == "all" or Capability.ANY in INDEXES[s].capabilities}
        calls: Calls = {system: partial(use.of, engine) for system, engine in {**able, "auto": auto_engine}.items()}
        events = workload.events(TIMED, batch=2)
        check_answers(calls, events.take(0, COMPARED))
        seconds = timed_alternately(calls, events)
        best = min((value, system) for system, value in seconds.items() if system != "auto")
        for system, value in seconds.items():
            report.row(
                workload=name,
                system=system,
                n=len(auto_engine),
                metric=use.metric,
                value=1e6 * value,
                baseline=best[1] if system == "auto" else None,
                ratio=best[0] / value if system == "auto" else None,
                verified=True,
            )
    report.workload(name, **workload.parameters(), plans=plans)


def engine_of(workload: Workload, rows: Rows, index: str) -> Engine:
    """An engine with the subscriptions of the workload."""
    engine = Engine(workload.schema(), index=index)
    engine.subscribe_rows(rows)
    return engine


def check_answers(calls: Calls, events: Events) -> None:
    """Exit unless all systems give the answers of Scan."""
    truth = calls[Scan.name](events)
    for system, call in calls.items():
        found = call(events)
        for e in range(events.size):
            ours, theirs = (sorted(zip(*(part.tolist() for part in m.of(e)), strict=True)) for m in (found, truth))
            if ours != theirs:
                raise SystemExit(f"{system} and scan differ on event {e}")


def timed_alternately(calls: Calls, events: Events) -> dict[str, float]:
    """Seconds per event: medians over rounds, each of which times every system on as many events as `MAX_ROUND_S` allows."""
    few = events.take(0, 5)
    sizes = {}
    for system, call in calls.items():
        start = time.process_time()
        call(few)
        each = (time.process_time() - start) / few.size
        sizes[system] = max(5, min(events.size, int(MAX_ROUND_S / max(each, 1e-9))))
    seconds: dict[str, list[float]] = {system: [] for system in calls}
    for _ in range(ROUNDS):
        for system, call in calls.items():
            part = events.take(0, sizes[system])
            start = time.process_time()
            call(part)
            seconds[system].append((time.process_time() - start) / part.size)
    return {system: statistics.median(found) for system, found in seconds.items()}
