"""MO-Tree against Scan, TAMA, OpIndex, R*-tree and BEQ-Tree on the city workload (MO-Tree 6: Figures 4-12, Table 5).

    subscriptions   Figures 4, 10, 11, 12: matching events, subscribing, unsubscribing and memory by the number of subscriptions
    predicates      Figures 5 and 7: both kinds of matching by K_s
    live events     Figures 6, 8, 9, 12: matching subscriptions, publishing and retracting by the number of live events
    skew            Table 5: both kinds of matching by the skew of the attributes' popularity
    moves           subscribers that move
    R*-tree         on fewer rows (`n` says how many): one costs milliseconds in twenty dimensions

MO-Tree and Scan are measured through `Engine`, as users run them. TAMA, OpIndex, R*-tree and BEQ-Tree are baselines without an
engine: they are measured by the methods of `Index` and `EventIndex`, which take arrays, hold no lock, check no expiry and, for
`insert` of an event, do not match it. Those that need milliseconds per event are measured on fewer events.

Answers are compared with Scan's, those of live events with the BEQ-Tree's (ids and scores), and once more after all changes
have been made and undone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from typing import Any, NamedTuple

import numpy as np

from bench.motree_common import CHANGES, About, Answer, Steps, compare_answers, costs, each
from bench.motree_live import live_events
from bench.report import Report, median_time, side_by_side
from matchwood import Engine
from matchwood.baselines import OpIndex, Tama
from matchwood.baselines.r_star_tree import RStarTree
from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.encode.picking import pick_rows
from matchwood.errors import UnsupportedError
from matchwood.structures import Index, Stats
from matchwood.workloads.city import City

SIZES = {"quick": [10_000], "paper": [1_000_000, 3_000_000, 5_000_000]}
PREDICATES = {"quick": ["k10"], "paper": ["k4", "k8", "k10"]}
SKEWS = {"quick": [], "paper": [0.0, 0.25, 0.5, 0.75]}
R_STAR_ROWS = {"quick": 1_000, "paper": 10_000}
FEW = 100  # events that every system is compared on


class System(NamedTuple):
    """What holds subscriptions: an engine, or a baseline without one."""

    name: str
    match: Callable[[Events], Matches]
    top_k: Callable[[Events, int], Matches]
    insert: Callable[[Rows], None]
    delete: Callable[[np.ndarray], None]
    stats: Callable[[], Stats]


def run(preset: str, report: Report) -> None:
    """All experiments of the family, part by part."""
    _compile()
    base = SIZES[preset][0]
    for n in SIZES[preset]:
        city = City.preset("k6", size=n)
        report.part(f"subscriptions {n:,}", partial(_events, report, city, "city-k6", changes=True))
        report.part(f"live events {n:,}", partial(live_events, report, city, "city-k6", changes=True))
    kinds = {f"predicates {name}": name for name in PREDICATES[preset]}
    kinds |= {f"skew {skew}": f"skew-{skew}" for skew in SKEWS[preset]}
    for part, name in kinds.items():
        report.part(part, partial(_both, report, City.preset(name, size=base), f"city-{name}"))
    report.part("moves", partial(_moves, report, City.preset("k6", size=base)))
    report.part("R*-tree", partial(_r_star, report, City.preset("k6", size=R_STAR_ROWS[preset])))


def _compile() -> None:
    """Compile everything that is timed, by a run on a small city whose figures are thrown away."""
    city, unused = City.preset("k6", size=3_000, source="synthetic"), Report("warm-up")
    with redirect_stdout(StringIO()):
        _events(unused, city, "warm-up", changes=True)
        live_events(unused, city, "warm-up", changes=True)
        _moves(unused, city)


def engine_system(city: City, rows: Rows, index: str, name: str = "", **options: Any) -> System:
    """An engine with these subscriptions in the index of that name."""
    engine = Engine(city.schema(), index=index, index_options=options)
    engine.subscribe_rows(rows)
    match = partial(engine.match_many, ordered=False)
    return System(name or index, match, engine.top_k_many, engine.subscribe_rows, engine.unsubscribe_many, engine.stats)


def baseline_system(index: Index) -> System:
    """A baseline."""
    return System(index.name, index.match, index.top_k, index.insert, index.delete, index.stats)


def _both(report: Report, city: City, name: str) -> None:
    _events(report, city, name, changes=False)
    live_events(report, city, name, changes=False)


# subscriptions that events are matched against


def _events(report: Report, city: City, name: str, *, changes: bool) -> None:
    """Event matching, and with `changes` what subscribing and unsubscribing costs."""
    report.workload(f"{name}-{city.size}", **city.parameters())
    rows, events = city.subscriptions(), city.events(2_000, batch=1)
    few = events.take(0, FEW)
    scan = engine_system(city, rows, "scan")
    truth = _answers(scan.match(few))
    base = median_time(partial(scan.match, few), 3) / FEW * 1e6
    common: About = {"workload": name, "n": city.size, "verified": True}
    report.row(system="scan", metric="us_per_event", value=base, **common)
    report.row(system="scan", metric="bytes", value=scan.stats().bytes, **common)
    del scan
    systems: list[tuple[Callable[[], System], int]] = [
        (partial(engine_system, city, rows, "mo-tree"), 2_000),
        (lambda: baseline_system(Tama.build(rows)), 20),
    ]
    if city.size <= 1_000_000:  # milliseconds per event, and linear
        systems.append((partial(engine_system, city, rows, "mo-tree", "mo-tree-paper", plan="paper"), 50))
        systems.append((lambda: baseline_system(OpIndex.build(rows)), 5))
    for build, count in systems:
        system = build()
        mine = {**common, "system": system.name}
        compared = few.take(0, min(FEW, count))
        _compare(truth, system, compared)
        _matching(report, system, events.take(0, count), base, mine)
        if changes and system.name in CHANGES:
            _changes(report, system, rows, mine)
            _compare(truth, system, compared)


def _matching(report: Report, system: System, events: Events, base: float, mine: About) -> None:
    """What matching these events costs, beside `base` microseconds by Scan."""
    calls: Steps = {"match": partial(system.match, events)}
    if system.name == "mo-tree":
        calls["top"] = partial(system.top_k, events, 10)
    times = {call: timing.median / events.size * 1e6 for call, timing in side_by_side(calls, repeats=5).items()}
    stats, all_matches = system.stats(), times["match"]
    report.row(metric="us_per_event", value=all_matches, baseline="scan", ratio=base / all_matches, **mine)
    report.row(metric="candidates_per_event", value=stats.candidates_per_event, **mine)
    report.row(metric="bytes", value=stats.bytes, **mine)
    if "top" in times:
        ratio = all_matches / times["top"]
        report.row(metric="us_per_event_top_10", value=times["top"], baseline="match", ratio=ratio, **mine)


def _changes(report: Report, system: System, rows: Rows, mine: About) -> None:
    """Unsubscribe and subscribe again: one by one, and in an engine a fifth of all at once."""
    chosen = np.sort(np.random.default_rng(7).permutation(rows.size)[: CHANGES[system.name]])
    ones = [rows.take(int(i), int(i) + 1) for i in chosen]
    found = costs(
        {
            "us_per_unsubscribe": partial(each, system.delete, [one.ids for one in ones]),
            "us_per_subscribe": partial(each, system.insert, ones),
        },
        len(ones),
    )
    if system.name == "mo-tree":
        ids = np.sort(np.random.default_rng(8).permutation(rows.size)[: rows.size // 5])
        back = pick_rows(rows, ids)
        bulk: Steps = {
            "us_per_unsubscribe_bulk": partial(system.delete, ids),
            "us_per_subscribe_bulk": partial(system.insert, back),
        }
        found |= costs(bulk, len(ids))
    for metric, value in found.items():
        report.row(metric=metric, value=value, **mine)


def _moves(report: Report, city: City) -> None:
    """Subscribers who move some twenty metres and back, and to another place in the city and back."""
    rows, events = city.subscriptions(), city.events(FEW, batch=1)
    engine = Engine(city.schema(), index="mo-tree")
    engine.subscribe_rows(rows)
    truth = _answers(engine_system(city, rows, "scan").match(events))
    ids = np.sort(np.random.default_rng(7).permutation(rows.size)[: CHANGES["mo-tree"]])
    lon, lat = ((rows.lo[at] + rows.hi[at]) / 2 for at in (rows.offsets[ids], rows.offsets[ids] + 1))
    home = list(zip(lon.tolist(), lat.tolist(), strict=True))
    near = [(x + 0.0002, y + 0.0002) for x, y in home]
    far = [*home[len(home) // 2 :], *home[: len(home) // 2]]
    steps = {"near": near, "back": home, "far": far, "home": home}
    found = costs(
        {f"us_per_move_{step}": partial(_move_all, engine, ids.tolist(), to) for step, to in steps.items()}, len(ids)
    )
    engine.unsubscribe_many(ids)
    engine.subscribe_rows(pick_rows(rows, ids))  # moving rounds the ends of a square
    compare_answers(truth, _answers(engine.match_many(events)), "the answer of 'mo-tree' differs from Scan's")
    for metric in ("us_per_move_near", "us_per_move_far"):
        report.row(workload="city-k6", system="mo-tree", n=rows.size, metric=metric, value=found[metric], verified=True)


def _move_all(engine: Engine, ids: list[int], places: list[tuple[float, float]]) -> None:
    for id_, place in zip(ids, places, strict=True):
        engine.move(id_, place)


def _r_star(report: Report, city: City) -> None:
    """R*-tree of libspatialindex on fewer rows, MO-Tree on the same."""
    rows, events = city.subscriptions(), city.events(50, batch=1)
    try:
        r_star = RStarTree.build(rows)
    except UnsupportedError as error:
        print(f"R*-tree is left out: {error}")
        return
    truth = _answers(engine_system(city, rows, "scan").match(events))
    times: dict[str, float] = {}
    for system in (baseline_system(r_star), engine_system(city, rows, "mo-tree")):
        mine: About = {"workload": "city-k6", "n": rows.size, "verified": True, "system": system.name}
        _compare(truth, system, events)
        times[system.name] = median_time(partial(system.match, events), 3) / events.size * 1e6
        ratio = times["r-star-tree"] / times[system.name]
        report.row(metric="us_per_event", value=times[system.name], baseline="r-star-tree", ratio=ratio, **mine)
        _changes(report, system, rows, mine)
        _compare(truth, system, events)


def _answers(matches: Matches) -> list[Answer]:
    """Ids and scores of each event, by id."""
    found = (matches.of(e) for e in range(len(matches.offsets) - 1))
    return [sorted(zip(ids.tolist(), scores.tolist(), strict=True)) for ids, scores in found]


def _compare(truth: list[Answer], system: System, events: Events) -> None:
    compare_answers(truth, _answers(system.match(events)), f"the answer of {system.name!r} differs from Scan's")
