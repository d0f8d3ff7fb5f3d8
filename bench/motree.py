"""MO-Tree against Scan, TAMA, OpIndex, R*-tree and BEQ-Tree on the city workload (MO-Tree 6: Figures 4-12, Table 5).

    subscriptions   Figures 4, 10, 11, 12: matching events, inserting, deleting and memory by the number of subscriptions
    predicates      Figures 5 and 7: both kinds of matching by K_s
    live events     Figures 6, 8, 9, 12: matching subscriptions, keeping and removing events by the number of live events
    skew            Table 5: both kinds of matching by the skew of the attributes' popularity
    updates         moving subscribers, in bulk and one by one
    R*-tree         on fewer rows (`n` says how many): one costs milliseconds in twenty dimensions

Matching is by one thread; bulk changes are made by as many as there are cores, and once more by one.
Competitors that need milliseconds an event are measured on fewer events. Answers are compared with Scan's, those of
live events with the BEQ-Tree's (ids and scores), and once more after all changes have been made and undone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.report import Report, median_time, side_by_side
from matchwood.baselines import BEQTree, OpIndex, Tama
from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.encode.picking import pick_rows
from matchwood.store.workers import VARIABLE as THREADS
from matchwood.structures import EventIndex, Index, LiveEvents, MOTree, Scan
from matchwood.workloads.city import City

SIZES = {"quick": [50_000], "paper": [1_000_000, 3_000_000, 5_000_000]}
PREDICATES = {"quick": ["k10"], "paper": ["k4", "k8", "k10"]}
SKEWS = {"quick": [], "paper": [0.0, 0.25, 0.5, 0.75]}
R_STAR_ROWS = {"quick": 1_000, "paper": 10_000}
ROUNDS = 5  # of changes and their undoing
FEW = 100  # events that every system is compared on
CHANGES = {"mo-tree": 10_000, "tama": 50, "op-index": 50, "beq-tree": 1_000, "r-star-tree": 200}
"""How many changes one by one: the paper's ten thousand, fewer where one costs a tenth of a millisecond or more."""

Answers = list[tuple[np.ndarray, np.ndarray]]


def run(preset: str, report: Report) -> None:
    """All experiments of the family, part by part."""
    _warm()
    base = SIZES[preset][0]
    for n in SIZES[preset]:
        city = City.preset("k6", size=n)
        report.part(f"subscriptions {n:,}", partial(_events, report, city, "city-k6", changes=True))
        report.part(f"live events {n:,}", partial(_live, report, city, "city-k6", changes=True))
    for predicates in PREDICATES[preset]:
        city = City.preset(predicates, size=base)
        report.part(f"predicates {predicates}", partial(_both, report, city, f"city-{predicates}"))
    for skew in SKEWS[preset]:
        city = City.preset(f"skew-{skew}", size=base)
        report.part(f"skew {skew}", partial(_both, report, city, f"city-skew-{skew}"))
    report.part("updates", partial(_updates, report, City.preset("k6", size=base)))
    report.part("R*-tree", partial(_r_star, report, City.preset("k6", size=R_STAR_ROWS[preset])))


def _warm() -> None:
    """Compile everything that is timed."""
    city = City.preset("k6", size=3_000, source="synthetic")
    rows, events = city.subscriptions(), city.events(20)
    for index in (
        MOTree.build(rows),
        MOTree.build(rows, plan="paper"),
        Scan.build(rows),
        Tama.build(rows),
        OpIndex.build(rows),
    ):
        index.match(events)
        index.top_k(events, 10)
        for ids in (rows.ids[:100], rows.ids[100:101]):
            index.delete(ids)
            index.insert(pick_rows(rows, ids))
            index.match(events)
    tree = MOTree.build(rows)
    for part in (rows, _moved(rows), rows.take(5, 6)):
        tree.update(part)
    for live in (LiveEvents(like=tree.axes), BEQTree()):
        kept = city.events(3_000)
        _keep(live, kept)
        live.match(rows.take(0, 10), 0.0)
        live.match(rows.take(0, 10), 0.0, k=10)
        for ids in (np.arange(10), np.arange(1)):
            live.delete(ids)
            live.insert(kept.take(0, len(ids)), ids, np.full(len(ids), np.inf))
            live.match(rows.take(0, 10), 0.0)
        live.sweep(0.0)


def _both(report: Report, city: City, name: str) -> None:
    _events(report, city, name, changes=False)
    _live(report, city, name, changes=False)


def _events(report: Report, city: City, name: str, *, changes: bool) -> None:
    """Event matching, and with `changes` what inserting and deleting costs."""
    report.workload(f"{name}-{city.size}", **city.parameters())
    rows, events = city.subscriptions(), city.events(2_000, batch=1)
    few = events.take(0, FEW)
    scan = Scan.build(rows)
    truth = _answers(scan.match(few))
    base = median_time(partial(scan.match, few), 3) / FEW * 1e6
    common: dict[str, Any] = {"workload": name, "n": city.size, "verified": True}
    report.row(system="scan", metric="us_per_event", value=base, **common)
    report.row(system="scan", metric="bytes", value=scan.stats().bytes, **common)
    del scan
    systems: list[tuple[str, Callable[[], Index], int]] = [
        ("mo-tree", partial(MOTree.build, rows), 2_000),
        ("tama", partial(Tama.build, rows), 20),
    ]
    if city.size <= 1_000_000:  # milliseconds an event, and linear
        systems.append(("mo-tree-paper", partial(MOTree.build, rows, plan="paper"), 50))
        systems.append(("op-index", partial(OpIndex.build, rows), 5))
    for system, build, count in systems:
        index = build()
        _compare(truth, index, few.take(0, min(FEW, count)))
        index.reset_counters()
        some = events.take(0, count)
        calls: dict[str, Callable[[], object]] = {"match": partial(index.match, some)}
        if system == "mo-tree":
            calls["top"] = partial(index.top_k, some, 10)
        times = {call: timing.median / count * 1e6 for call, timing in side_by_side(calls, repeats=5).items()}
        time, stats = times["match"], index.stats()
        mine = {**common, "system": system}
        report.row(metric="us_per_event", value=time, baseline="scan", ratio=base / time, **mine)
        report.row(metric="candidates_per_event", value=stats.candidates_per_event, **mine)
        report.row(metric="bytes", value=stats.bytes, **mine)
        if system == "mo-tree":
            report.row(
                metric="us_per_event_top_10", value=times["top"], baseline="match", ratio=time / times["top"], **mine
            )
        if changes and system in CHANGES:
            _changes(report, index, rows, few.take(0, min(FEW, count)), truth, **mine)


def _changes(report: Report, index: Index, rows: Rows, events: Events, truth: Answers, **common: Any) -> None:
    """Delete and insert again: one by one, and for the MO-Tree a fifth of all at once. The answers must be those of before."""
    chosen = np.sort(np.random.default_rng(7).permutation(rows.size)[: CHANGES[index.name]])
    ones = [rows.take(int(i), int(i) + 1) for i in chosen]
    costs = _single(index, ones, events)
    if isinstance(index, MOTree):
        ids = np.sort(np.random.default_rng(8).permutation(rows.size)[: rows.size // 5])
        back = pick_rows(rows, ids)
        bulk = {"us_per_delete_bulk": partial(index.delete, ids), "us_per_insert_bulk": partial(index.insert, back)}
        costs |= _bulk_costs(bulk, len(ids))
    _compare(truth, index, events)
    for metric, value in costs.items():
        report.row(metric=metric, value=value, **common)


def _live(report: Report, city: City, name: str, *, changes: bool) -> None:
    """Subscription matching against `size` live events, and with `changes` what keeping and removing them costs."""
    report.workload(f"{name}-{city.size}", **city.parameters())
    subscriptions = replace(city, size=min(city.size, 200_000)).subscriptions()
    rows, few = subscriptions.take(0, 2_000), subscriptions.take(0, 50)
    events, tree = city.events(city.size, batch=3), MOTree.build(subscriptions)
    live = LiveEvents(like=tree.axes)
    _keep(live, events)
    beq = BEQTree()
    _keep(beq, events)
    truth = _answers(beq.match(few, 0.0))
    _compare_live(truth, live, few)
    base = median_time(partial(beq.match, few, 0.0), 3) / few.size * 1e6
    calls: dict[str, Callable[[], object]] = {
        "match": partial(live.match, rows, 0.0),
        "top": partial(live.match, rows, 0.0, k=10),
    }
    time, top = (timing.median / rows.size * 1e6 for timing in side_by_side(calls, repeats=5).values())
    common: dict[str, Any] = {"workload": name, "n": city.size, "verified": True}
    mine, theirs = {**common, "system": "mo-tree"}, {**common, "system": "beq-tree"}
    report.row(metric="us_per_subscription", value=base, **theirs)
    report.row(metric="us_per_subscription", value=time, baseline="beq-tree", ratio=base / time, **mine)
    report.row(metric="us_per_subscription_top_10", value=top, baseline="match", ratio=time / top, **mine)
    report.row(metric="live_bytes", value=live.nbytes, **mine)
    report.row(metric="live_bytes", value=beq.nbytes, **theirs)
    if changes:
        _live_changes(report, live, events, few, truth, **mine)
        _live_changes(report, beq, events, few, truth, **theirs)


def _live_changes(report: Report, live: EventIndex, events: Events, rows: Rows, truth: Answers, **common: Any) -> None:
    """Delete and keep again: one by one, and for the MO-Tree a fifth of all at once. The answers must be those of before."""
    chosen = np.sort(np.random.default_rng(7).permutation(events.size)[: CHANGES[common["system"]]])
    ones = [(events.take(int(i), int(i) + 1), np.array([i]), np.array([np.inf])) for i in chosen]
    ask = partial(live.match, rows.take(0, 1), 0.0) if isinstance(live, LiveEvents) else None
    single: dict[str, Callable[[], object]] = {
        "us_per_event_delete": partial(_each, live.delete, [ids for _, ids, _ in ones], ask),
        "us_per_event_insert": partial(_each, lambda one: live.insert(*one), ones, ask),
    }
    costs = _costs(single, len(ones))
    if isinstance(live, LiveEvents):
        part = events.take(0, events.size // 5)
        ids, until = np.arange(part.size), np.full(part.size, np.inf)
        bulk = {
            "us_per_event_delete_bulk": partial(live.delete, ids),
            "us_per_event_insert_bulk": partial(live.insert, part, ids, until),
        }
        costs |= _bulk_costs(bulk, part.size)
    _compare_live(truth, live, rows)
    if isinstance(live, LiveEvents):
        costs |= _costs({"us_per_event_swept": partial(live.sweep, 0.0, events.size)}, events.size)
    for metric, value in costs.items():
        report.row(metric=metric, value=value, **common)


def _updates(report: Report, city: City) -> None:
    """Subscribers who move some twenty metres, and back: in bulk, and one by one through the API."""
    rows, events = city.subscriptions(), city.events(FEW, batch=1)
    tree = MOTree.build(rows)
    truth = _answers(Scan.build(rows).match(events))
    _compare(truth, tree, events)
    ids = np.sort(np.random.default_rng(7).permutation(rows.size)[: rows.size // 5])
    back, near = pick_rows(rows, ids), _moved(pick_rows(rows, ids))
    far = near._replace(ids=np.roll(near.ids, len(ids) // 2))
    steps = {"near": near, "back": back, "far": far, "home": back}
    bulk = _bulk_costs({f"us_per_update_{step}_bulk": partial(tree.update, to) for step, to in steps.items()}, len(ids))
    few = min(CHANGES["mo-tree"], len(ids))
    ones = {step: _of_ids(to, ids[:few]) for step, to in steps.items()}
    ask = partial(tree.match, events.take(0, 1))
    single = _costs({step: partial(_each, tree.update, some, ask) for step, some in ones.items()}, few)
    tree.update(back)
    _compare(truth, tree, events)
    common: dict[str, Any] = {"workload": "city-k6", "system": "mo-tree", "n": rows.size, "verified": True}
    for step in ("near", "far"):
        report.row(metric=f"us_per_update_{step}", value=single[step], **common)
        for metric in (f"us_per_update_{step}_bulk", f"us_per_update_{step}_bulk_one_thread"):
            report.row(metric=metric, value=bulk[metric], **common)


def _r_star(report: Report, city: City) -> None:
    """R*-tree of libspatialindex on fewer rows, MO-Tree on the same."""
    try:
        from matchwood.baselines.r_star_tree import RStarTree
    except ImportError:
        return
    rows, events = city.subscriptions(), city.events(50, batch=1)
    truth = _answers(Scan.build(rows).match(events))
    common: dict[str, Any] = {"workload": "city-k6", "n": rows.size, "verified": True}
    times = {}
    for system, kind in (("r-star-tree", RStarTree), ("mo-tree", MOTree)):
        index = kind.build(rows)
        _compare(truth, index, events)
        times[system] = median_time(partial(index.match, events), 3) / events.size * 1e6
        ones = [rows.take(i, i + 1) for i in range(CHANGES["r-star-tree"])]
        costs = _single(index, ones, events)
        _compare(truth, index, events)
        ratio = times["r-star-tree"] / times[system]
        mine = {**common, "system": system}
        report.row(metric="us_per_event", value=times[system], baseline="r-star-tree", ratio=ratio, **mine)
        for metric, value in costs.items():
            report.row(metric=metric, value=value, **mine)


def _keep(live: EventIndex, events: Events) -> None:
    live.insert(events, np.arange(events.size), np.full(events.size, np.inf))


def _costs(steps: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Microseconds that one of `count` changes takes at each step: medians of several rounds, each of which ends as it began."""
    rounds = [{name: median_time(step, 1) for name, step in steps.items()} for _ in range(ROUNDS)]
    return {name: median(times[name] for times in rounds) / count * 1e6 for name in steps}


def _bulk_costs(steps: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """`_costs` of bulk changes, by as many threads as there are cores and by one."""
    costs = _costs(steps, count)
    with patch.dict(os.environ, {THREADS: "1"}):
        alone = _costs(steps, count)
    return costs | {f"{name}_one_thread": cost for name, cost in alone.items()}


def _single(index: Index, ones: list[Rows], events: Events) -> dict[str, float]:
    """What it costs to delete these subscriptions one by one, and to insert them again."""
    ask = partial(index.match, events.take(0, 1)) if isinstance(index, MOTree) else None
    steps: dict[str, Callable[[], object]] = {
        "us_per_delete": partial(_each, index.delete, [one.ids for one in ones], ask),
        "us_per_insert": partial(_each, index.insert, ones, ask),
    }
    return _costs(steps, len(ones))


def _each(change: Callable[[Any], None], items: list[Any], ask: Callable[[], object] | None) -> None:
    """Make the changes one by one, and ask once: until then what has come to an MO-Tree may wait for its place."""
    for item in items:
        change(item)
    if ask is not None:
        ask()


def _of_ids(rows: Rows, ids: np.ndarray) -> list[Rows]:
    """The subscriptions of these ids one by one; each has one row."""
    order = np.argsort(rows.ids)
    return [rows.take(i, i + 1) for i in order[np.searchsorted(rows.ids[order], ids)].tolist()]


def _moved(rows: Rows) -> Rows:
    """The same subscriptions some twenty metres away."""
    shift = np.where(rows.dims < 2, 0.0002, 0.0)
    return rows._replace(lo=rows.lo + shift, hi=rows.hi + shift)


def _answers(matches: Matches) -> Answers:
    """Ids and scores of each event (or subscription), by id."""
    answers = []
    for e in range(len(matches.offsets) - 1):
        ids, scores = matches.of(e)
        order = np.argsort(ids)
        answers.append((ids[order], scores[order]))
    return answers


def _compare(truth: Answers, index: Index, events: Events) -> None:
    _compare_answers(truth, _answers(index.match(events)), f"the answer of {index.name!r} differs from Scan's")


def _compare_live(truth: Answers, live: EventIndex, rows: Rows) -> None:
    _compare_answers(truth, _answers(live.match(rows, 0.0)), f"the events of {live.name!r} differ from the BEQ-Tree's")


def _compare_answers(truth: Answers, found: Answers, problem: str) -> None:
    for (ids, scores), (other, others) in zip(truth[: len(found)], found, strict=True):
        if not (np.array_equal(ids, other) and np.array_equal(scores, others)):
            raise AssertionError(problem)
