"""MO-Tree against Scan, TAMA, OpIndex, R*-tree and BEQ-Tree on the city workload (MO-Tree 6: Figures 4-12, Table 5).

    match         Figures 4 and 5: event matching by number of subscriptions and by predicates
    live          Figures 6 and 7: subscription matching by number of live events and by predicates
    popularity    Table 5: both, by the skew of the attributes' popularity
    maintenance   Figures 8 to 11: inserting, deleting and updating, in bulk and one by one
    memory        Figure 12

Competitors that need milliseconds an event are measured on fewer events, R*-tree on fewer rows too (`n` says it).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.report import Report, median_time
from matchwood.encode.arrays import Events, Matches, Rows, make_rows
from matchwood.index import Index, MOTree, OpIndex, Scan, Tama
from matchwood.index.beq_tree import BEQTree
from matchwood.index.live_events import LiveEvents
from matchwood.workloads.city import City

SIZES = {"quick": [100_000], "paper": [1_000_000, 2_000_000, 5_000_000]}
BASE = {"quick": 100_000, "paper": 1_000_000}
R_STAR_ROWS = {"quick": 2_000, "paper": 20_000}


def run(preset: str, report: Report) -> None:
    """All experiments of the family."""
    _warm()
    for predicates in ("k6", "k10") if preset == "quick" else ("k4", "k6", "k8", "k10"):
        sizes = SIZES[preset] if predicates == "k6" else [BASE[preset]]
        for n in sizes:
            _match(report, preset, City.preset(predicates, size=n), f"city-{predicates}")
        for n in sizes:
            _live(report, preset, City.preset(predicates, size=n), f"city-{predicates}")
    for skew in () if preset == "quick" else (0.0, 0.25, 0.5, 0.75):
        _match(report, preset, City.preset(f"skew-{skew}", size=BASE[preset]), f"city-skew-{skew}")
        _live(report, preset, City.preset(f"skew-{skew}", size=BASE[preset]), f"city-skew-{skew}")
    _maintenance(report, preset)


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
        index.delete(rows.ids[:100])
        index.delete(rows.ids[100:101])
        index.insert(rows.take(0, 100))
        index.insert(rows.take(100, 101))
    tree = MOTree.build(rows)
    tree.update(rows)
    _keep(tree.live, city.events(3_000))
    tree.live.match(rows.take(0, 10), 0.0)
    tree.live.match(rows.take(0, 10), 0.0, k=10)
    tree.live.delete(np.arange(10))
    BEQTree(events, np.arange(20), np.full(20, np.inf)).match(rows.take(0, 2), 0.0)


def _keep(live: LiveEvents, events: Events) -> None:
    live.insert(events, np.arange(events.size), np.full(events.size, np.inf))


def _match(report: Report, preset: str, city: City, name: str) -> None:
    """Event matching. Every system's answer is compared with Scan's on the events it is timed on."""
    report.workload(f"{name}-{city.size}", **city.parameters())
    rows, events = city.subscriptions(), city.events(2_000, batch=1)
    few = 100
    scan = Scan.build(rows)
    scan.match(city.events(300, batch=2))
    truth = _sorted(scan.match(events.take(0, few)))
    base = median_time(lambda: scan.match(events.take(0, few)), 3) / few * 1e6
    report.row(workload=name, system="scan", n=city.size, metric="us_per_event", value=base, verified=True)
    systems: list[tuple[str, Callable[[], Index], int]] = [
        ("mo-tree", lambda: MOTree.build(rows), 2_000),
        ("mo-tree-paper", lambda: MOTree.build(rows, plan="paper"), few),
        ("tama", lambda: Tama.build(rows), 20),
        ("op-index", lambda: OpIndex.build(rows), 5),
    ]
    for system, build, count in systems:
        if system == "op-index" and preset == "paper" and city.size > 1_000_000:
            continue  # 60 ms an event at 1M, and linear
        index = build()
        verified = _same(truth, _sorted(index.match(events.take(0, min(few, count)))), min(few, count))
        index.reset_counters()
        time = median_time(partial(index.match, events.take(0, count)), 5) / count * 1e6
        common = {"workload": name, "system": system, "n": city.size, "verified": verified}
        report.row(metric="us_per_event", value=time, baseline="scan", ratio=base / time, **common)
        if system == "mo-tree":
            top = median_time(partial(index.top_k, events.take(0, count), 10), 5) / count * 1e6
            report.row(metric="us_per_event_top_10", value=top, baseline="match", ratio=time / top, **common)
        stats = index.stats()
        report.row(metric="candidates_per_event", value=stats.candidates_per_event, **common)
        report.row(metric="bytes", value=stats.bytes, **common)
    _r_star(report, preset, rows, events, name)


def _r_star(report: Report, preset: str, rows: Rows, events: Events, name: str) -> None:
    """R*-tree of libspatialindex on fewer rows, MO-Tree on the same: rows cost it milliseconds in twenty dimensions."""
    try:
        from matchwood.index.r_star_tree import RStarTree

        some = rows.take(0, min(rows.size, R_STAR_ROWS[preset]))
        theirs = RStarTree.build(some)
    except ImportError:
        return
    ours = MOTree.build(some)
    few = events.take(0, 50)
    verified = _same(_sorted(ours.match(few)), _sorted(theirs.match(few)), 50)
    mine, other = (median_time(partial(index.match, few), 3) / 50 * 1e6 for index in (ours, theirs))
    common = {"workload": name, "n": some.size, "metric": "us_per_event", "verified": verified}
    report.row(system="r-star-tree", value=other, **common)
    report.row(system="mo-tree", value=mine, baseline="r-star-tree", ratio=other / mine, **common)


def _live(report: Report, preset: str, city: City, name: str) -> None:
    """Subscription matching: a city's subscriptions of the future against `size` live events."""
    rows = city.subscriptions().take(0, 2_000)
    events = city.events(city.size, batch=3)
    tree = MOTree.build(city.subscriptions().take(0, min(city.size, 200_000)))
    _keep(tree.live, events)
    live = tree.live
    beq = BEQTree(events, np.arange(events.size), np.full(events.size, np.inf))
    few = rows.take(0, 50)
    found = live.match(few, 0.0)
    verified = all(np.array_equal(np.sort(found.of(s)[0]), ids) for s, ids in enumerate(beq.match(few, 0.0)))
    base = median_time(lambda: beq.match(few, 0.0), 3) / 50 * 1e6
    time = median_time(lambda: live.match(rows, 0.0), 5) / rows.size * 1e6
    top = median_time(lambda: live.match(rows, 0.0, k=10), 5) / rows.size * 1e6
    common = {"workload": name, "n": city.size, "verified": verified}
    report.row(system="beq-tree", metric="us_per_subscription", value=base, **common)
    report.row(
        system="mo-tree", metric="us_per_subscription", value=time, baseline="beq-tree", ratio=base / time, **common
    )
    report.row(
        system="mo-tree", metric="us_per_subscription_top_10", value=top, baseline="match", ratio=time / top, **common
    )
    report.row(system="mo-tree", metric="live_bytes", value=live.nbytes, **common)
    report.row(system="beq-tree", metric="live_bytes", value=beq.nbytes, **common)


def _maintenance(report: Report, preset: str) -> None:
    """Insert, delete and update: in bulk, one by one through the API, and a subscriber who moves a few metres."""
    city = City.preset("k6", size=BASE[preset])
    rows = city.subscriptions()
    many = np.sort(np.random.default_rng(7).permutation(rows.size)[: rows.size // 5])
    for system, kind in (("mo-tree", MOTree), ("tama", Tama), ("op-index", OpIndex)):
        index = kind.build(rows)
        ids = many if system == "mo-tree" else many[:: len(many) // 50][:50]
        back = _picked(rows, ids)
        common: dict[str, Any] = {"workload": "city-k6", "system": system, "n": rows.size}
        _cost(report, "us_per_delete_bulk", partial(index.delete, ids), len(ids), **common)
        _cost(report, "us_per_insert_bulk", partial(index.insert, back), len(ids), **common)
        if system != "mo-tree":
            continue
        _cost(report, "us_per_update_near", partial(index.update, _moved(back)), len(ids), **common)
        _cost(report, "us_per_update_back", partial(index.update, back), len(ids), **common)
        ones = [back.take(i, i + 1) for i in range(1_000)]
        _cost(report, "us_per_delete_single", partial(_each, index.delete, [one.ids for one in ones]), 1_000, **common)
        _cost(report, "us_per_insert_single", partial(_each, index.insert, ones), 1_000, **common)
        _cost(report, "us_per_update_single", partial(_each, index.update, ones), 1_000, **common)
        _live_maintenance(report, index.live, city, many, **common)


def _live_maintenance(report: Report, live: LiveEvents, city: City, many: np.ndarray, **common: Any) -> None:
    _keep(live, city.events(city.size, batch=4))
    extra, ids, until = city.events(len(many), batch=5), city.size + np.arange(len(many)), np.full(len(many), 5.0)
    _cost(report, "us_per_event_delete_bulk", partial(live.delete, many), len(many), **common)
    _cost(report, "us_per_event_insert_bulk", partial(live.insert, extra, ids, until), len(many), **common)
    _cost(report, "us_per_event_swept", partial(live.sweep, 6.0, city.size), city.size, **common)


def _cost(report: Report, metric: str, call: Callable[[], object], count: int, **common: Any) -> None:
    """Report what one of `count` changes costs; each call is made once, since it changes the index."""
    report.row(metric=metric, value=median_time(call, 1) / count * 1e6, **common)


def _each(change: Callable[[Any], None], items: list[Any]) -> None:
    for item in items:
        change(item)


def _picked(rows: Rows, which: np.ndarray) -> Rows:
    sizes = np.diff(rows.offsets)[which]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    at = np.repeat(rows.offsets[which] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return make_rows(rows.ids[which], rows.priority[which], offsets, *(column[at] for column in rows[3:]))


def _moved(rows: Rows) -> Rows:
    """The same subscriptions some twenty metres away."""
    shift = np.where(rows.dims < 2, 0.0002, 0.0)
    return rows._replace(lo=rows.lo + shift, hi=rows.hi + shift)


def _sorted(matches: Matches) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids and scores of each event, by id."""
    answers = []
    for e in range(len(matches.offsets) - 1):
        ids, scores = matches.of(e)
        order = np.argsort(ids)
        answers.append((ids[order], scores[order]))
    return answers


def _same(truth: list[tuple[np.ndarray, np.ndarray]], found: list[tuple[np.ndarray, np.ndarray]], count: int) -> bool:
    for (ids, scores), (other, others) in zip(truth[:count], found[:count], strict=True):
        if not (np.array_equal(ids, other) and np.array_equal(scores, others)):
            raise AssertionError("a system's answer differs from Scan's")
    return True
