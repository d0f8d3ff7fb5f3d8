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

from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench.objects import as_mappings
from bench.report import Report, median_time, side_by_side
from matchwood import Engine, Event
from matchwood.baselines import BEQTree, OpIndex, Tama
from matchwood.baselines.r_star_tree import RStarTree
from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.encode.objects import encode_events
from matchwood.encode.picking import pick_rows
from matchwood.errors import UnsupportedError
from matchwood.schema import Schema
from matchwood.structures import Index, LiveEvents, Stats
from matchwood.workloads.city import City

SIZES = {"quick": [10_000], "paper": [1_000_000, 3_000_000, 5_000_000]}
PREDICATES = {"quick": ["k10"], "paper": ["k4", "k8", "k10"]}
SKEWS = {"quick": [], "paper": [0.0, 0.25, 0.5, 0.75]}
R_STAR_ROWS = {"quick": 1_000, "paper": 10_000}
MAX_SUBSCRIPTIONS = 200_000  # of an engine with live events
TIMED_SUBSCRIPTIONS = 500  # that are matched against live events
ROUNDS = 5  # of changes and their undoing
FEW = 100  # events that every system is compared on
FEW_SUBSCRIPTIONS = 50  # subscriptions whose live events are compared
CHANGES = {"mo-tree": 500, "tama": 50, "op-index": 50, "beq-tree": 500, "r-star-tree": 200}
"""How many changes are made one by one: fewer where one costs a tenth of a millisecond or more."""
UNTIL = "2100-01-01T00:00:00Z"

Answer = list[tuple[int, float]]
Steps = dict[str, Callable[[], object]]
About = dict[str, Any]
"""The columns that the rows of one system have in common."""


class System(NamedTuple):
    """What holds subscriptions: an engine, or a baseline without one."""

    name: str
    match: Callable[[Events], Matches]
    top_k: Callable[[Events, int], Matches]
    insert: Callable[[Rows], None]
    delete: Callable[[np.ndarray], None]
    stats: Callable[[], Stats]


class LiveSystem(NamedTuple):
    """What holds live events. `live` takes the number of a subscription and k, and gives ids and scores, best first."""

    name: str
    publish: Callable[[int, dict[str, object]], object]
    retract: Callable[[int], None]
    live: Callable[[int, int | None], Sequence[tuple[int, float]]]


def run(preset: str, report: Report) -> None:
    """All experiments of the family, part by part."""
    _compile()
    base = SIZES[preset][0]
    for n in SIZES[preset]:
        city = City.preset("k6", size=n)
        report.part(f"subscriptions {n:,}", partial(_events, report, city, "city-k6", changes=True))
        report.part(f"live events {n:,}", partial(_live, report, city, "city-k6", changes=True))
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
        _live(unused, city, "warm-up", changes=True)
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
    _live(report, city, name, changes=False)


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
    costs = _costs(
        {
            "us_per_unsubscribe": partial(_each, system.delete, [one.ids for one in ones]),
            "us_per_subscribe": partial(_each, system.insert, ones),
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
        costs |= _costs(bulk, len(ids))
    for metric, value in costs.items():
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
    costs = _costs(
        {f"us_per_move_{step}": partial(_move_all, engine, ids.tolist(), to) for step, to in steps.items()}, len(ids)
    )
    engine.unsubscribe_many(ids)
    engine.subscribe_rows(pick_rows(rows, ids))  # moving rounds the ends of a square
    _compare_answers(truth, _answers(engine.match_many(events)), "the answer of 'mo-tree' differs from Scan's")
    for metric in ("us_per_move_near", "us_per_move_far"):
        report.row(workload="city-k6", system="mo-tree", n=rows.size, metric=metric, value=costs[metric], verified=True)


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


# live events that subscriptions are matched against


def _live(report: Report, city: City, name: str, *, changes: bool) -> None:
    """Subscription matching against `size` live events, and with `changes` what publishing and retracting costs."""
    report.workload(f"{name}-{city.size}", **city.parameters())
    rows = replace(city, size=min(city.size, MAX_SUBSCRIPTIONS)).subscriptions()
    events, ids = city.events(city.size, batch=3), np.arange(city.size)
    beq = BEQTree()
    beq.insert(events, ids, np.full(city.size, np.inf))
    engine = Engine(city.schema(), index="mo-tree")
    engine.subscribe_rows(rows)
    ours, theirs = _live_engine(engine), _live_baseline(beq, city, rows)
    loading = median_time(partial(_publish, ours, enumerate(as_mappings(events, city.schema()))), 1)
    _compare_live(ours, theirs)
    timed = range(min(TIMED_SUBSCRIPTIONS, rows.size))
    calls: Steps = {
        "match": partial(_each, lambda i: ours.live(i, None), timed),
        "top": partial(_each, lambda i: ours.live(i, 10), timed),
    }
    time, top = (timing.median / len(timed) * 1e6 for timing in side_by_side(calls, repeats=5).values())
    few = range(FEW_SUBSCRIPTIONS)
    base = median_time(partial(_each, lambda i: theirs.live(i, None), few), 3) / len(few) * 1e6
    common: About = {"workload": name, "n": city.size, "verified": True}
    mine, its = {**common, "system": ours.name}, {**common, "system": theirs.name}
    report.row(metric="us_per_live", value=base, **its)
    report.row(metric="us_per_live", value=time, baseline=theirs.name, ratio=base / time, **mine)
    report.row(metric="us_per_live_top_10", value=top, baseline="match", ratio=time / top, **mine)
    report.row(metric="us_per_publish_from_empty", value=loading / city.size * 1e6, **mine)
    report.row(metric="live_bytes", value=_live_bytes(events, ids), **mine)
    report.row(metric="live_bytes", value=beq.nbytes, **its)
    if changes:
        for system, about in ((ours, mine), (theirs, its)):
            _live_changes(report, system, events, city.schema(), about)
        _compare_live(ours, theirs)


def _live_engine(engine: Engine) -> LiveSystem:
    def publish(id_: int, event: dict[str, object]) -> object:
        return engine.publish(Event(event, id=id_), until=UNTIL)

    return LiveSystem("mo-tree", publish, engine.retract, lambda id_, k: engine.live(id_, k=k))


def _live_baseline(events: BEQTree, city: City, rows: Rows) -> LiveSystem:
    schema, until = city.schema(), np.array([np.inf])

    def publish(id_: int, event: dict[str, object]) -> None:
        events.insert(encode_events([event], schema), np.array([id_]), until)

    def live(id_: int, k: int | None) -> Answer:
        found = events.match(rows.take(id_, id_ + 1), 0.0, k=k)
        return sorted(zip(found.ids.tolist(), found.scores.tolist(), strict=True), key=lambda hit: (-hit[1], hit[0]))

    return LiveSystem(events.name, publish, lambda id_: events.delete(np.array([id_])), live)


def _live_bytes(events: Events, ids: np.ndarray) -> int:
    """The memory of the structure that an engine keeps live events in."""
    live = LiveEvents()
    live.insert(events, ids, np.full(len(ids), np.inf))
    return live.nbytes


def _live_changes(report: Report, system: LiveSystem, events: Events, schema: Schema, mine: About) -> None:
    """Retract events and publish them again, one by one."""
    chosen = np.sort(np.random.default_rng(7).permutation(events.size)[: CHANGES[system.name]]).tolist()
    ones = [(i, next(as_mappings(events.take(i, i + 1), schema))) for i in chosen]
    steps: Steps = {
        "us_per_retract": partial(_each, system.retract, chosen),
        "us_per_publish": partial(_publish, system, ones),
    }
    for metric, value in _costs(steps, len(ones)).items():
        report.row(metric=metric, value=value, **mine)


def _publish(system: LiveSystem, events: Iterable[tuple[int, dict[str, object]]]) -> None:
    for id_, event in events:
        system.publish(id_, event)


# timing and comparing


def _costs(steps: Steps, count: int) -> dict[str, float]:
    """Microseconds for each of `count` changes at each step: medians of several rounds, each of which ends as it began."""
    rounds = [{name: median_time(step, 1) for name, step in steps.items()} for _ in range(ROUNDS)]
    return {name: median(times[name] for times in rounds) / count * 1e6 for name in steps}


def _each(change: Callable[[Any], object], items: Iterable[Any]) -> None:
    for item in items:
        change(item)


def _answers(matches: Matches) -> list[Answer]:
    """Ids and scores of each event, by id."""
    found = (matches.of(e) for e in range(len(matches.offsets) - 1))
    return [sorted(zip(ids.tolist(), scores.tolist(), strict=True)) for ids, scores in found]


def _compare(truth: list[Answer], system: System, events: Events) -> None:
    _compare_answers(truth, _answers(system.match(events)), f"the answer of {system.name!r} differs from Scan's")


def _compare_live(ours: LiveSystem, theirs: LiveSystem) -> None:
    found, truth = ([sorted(system.live(i, None)) for i in range(FEW_SUBSCRIPTIONS)] for system in (ours, theirs))
    _compare_answers(truth, found, "the live events of the engine differ from the BEQ-Tree's")


def _compare_answers(truth: list[Answer], found: list[Answer], problem: str) -> None:
    if truth[: len(found)] != found:
        raise AssertionError(problem)
