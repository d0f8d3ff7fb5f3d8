"""Live events of the MO-Tree experiment: an engine against the BEQ-Tree (MO-Tree, Figures 6 to 9 and 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.motree_common import CHANGES, About, Answer, Steps, compare_answers, costs, each
from bench.objects import as_mappings
from bench.report import Report, median_time, side_by_side
from matchwood import Engine, Event
from matchwood.baselines import BEQTree
from matchwood.encode.arrays import Events, Rows
from matchwood.encode.events import encode_events
from matchwood.schema import Schema
from matchwood.structures import LiveEvents
from matchwood.workloads.city import City

MAX_SUBSCRIPTIONS = 200_000  # of an engine with live events
TIMED_SUBSCRIPTIONS = 500  # that are matched against live events
FEW_SUBSCRIPTIONS = 50  # whose live events are compared
UNTIL = "2100-01-01T00:00:00Z"


class LiveSystem(NamedTuple):
    """What holds live events. `live` takes the number of a subscription and k, and gives ids and scores, best first."""

    name: str
    publish: Callable[[int, dict[str, object]], object]
    retract: Callable[[int], None]
    live: Callable[[int, int | None], Sequence[tuple[int, float]]]


def live_events(report: Report, city: City, name: str, *, changes: bool) -> None:
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
        "match": partial(each, lambda i: ours.live(i, None), timed),
        "top": partial(each, lambda i: ours.live(i, 10), timed),
    }
    time, top = (timing.median / len(timed) * 1e6 for timing in side_by_side(calls, repeats=5).values())
    few = range(FEW_SUBSCRIPTIONS)
    base = median_time(partial(each, lambda i: theirs.live(i, None), few), 3) / len(few) * 1e6
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
        "us_per_retract": partial(each, system.retract, chosen),
        "us_per_publish": partial(_publish, system, ones),
    }
    for metric, value in costs(steps, len(ones)).items():
        report.row(metric=metric, value=value, **mine)


def _publish(system: LiveSystem, events: Iterable[tuple[int, dict[str, object]]]) -> None:
    for id_, event in events:
        system.publish(id_, event)


def _compare_live(ours: LiveSystem, theirs: LiveSystem) -> None:
    found, truth = ([sorted(system.live(i, None)) for i in range(FEW_SUBSCRIPTIONS)] for system in (ours, theirs))
    compare_answers(truth, found, "the live events of the engine differ from the BEQ-Tree's")
