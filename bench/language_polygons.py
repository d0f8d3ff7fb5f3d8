"""Polygons of 20 vertices and places: `Engine` beside shapely's STRtree, which gets its points ready made.

The section `polygons` of `bench language`.

    us_per_event          a batch: `match_many` of a list of dicts, of arrays that were encoded before, and `STRtree.query`
    us_per_event_single   one place at a time

There are two engines: one of the index "mo-tree", and one of "auto", which gets other places first and then chooses
(`replan`). Its plan is stored with the parameters of the workload.

Processor time of the whole process, so nothing is timed before `auto` has chosen: its trials would count for every system. The
pairs of place and polygon are compared before anything is timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bench.report import Report
from matchwood import Engine, Match
from matchwood.encode.arrays import Events
from matchwood.encode.events import encode_events
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.operators import SpatialOperator
from matchwood.lang.place_predicates import Spatial

SIZES = {"quick": 10_000, "paper": 100_000}
PLACES, SEEN, VERTICES, ROUNDS = 1_000, 600, 20, 7
TREE = "shapely STRtree"
INDEXES = ("mo-tree", "auto")

Calls = dict[str, Callable[[], object]]
Pairs = set[tuple[int, int]]


def run(preset: str, report: Report) -> None:
    """The one part of the section."""
    size = SIZES[preset]
    report.part(f"polygons, {size:,}", partial(measure, report, size))


def rings(size: int, seed: int = 0) -> np.ndarray:
    """Star-shaped rings of 20 vertices, 2 to 10 km wide, spread over western Europe."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform([-10.0, 40.0], [10.0, 55.0], (size, 1, 2))
    angle = np.linspace(0.0, 2.0 * np.pi, VERTICES, endpoint=False)
    radius = rng.uniform(0.5, 1.0, (size, VERTICES)) * rng.uniform(0.02, 0.1, (size, 1))
    ring = centre + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return np.concatenate([ring, ring[:, :1]], axis=1)


def places_of(count: int, seed: int) -> np.ndarray:
    """Places spread over the same area."""
    return np.random.default_rng(seed).uniform([-10.0, 40.0], [10.0, 55.0], (count, 2))


def events_of(places: np.ndarray) -> list[dict[str, object]]:
    """An event for each place."""
    return [{"place": tuple(place)} for place in places.tolist()]


def measure(report: Report, size: int) -> None:
    """All systems on the same polygons and places."""
    import shapely

    corners, places = rings(size), places_of(PLACES, seed=1)
    tree, points, events = shapely.STRtree(shapely.polygons(corners)), shapely.points(places), events_of(places)
    engines = {index: engine_of(corners, index) for index in INDEXES}
    engines["auto"].match_many(events_of(places_of(SEEN, seed=2)))
    plan = engines["auto"].replan()
    expected = set(zip(*tree.query(points, predicate="intersects").tolist(), strict=True))
    batches: Calls = {TREE: lambda: tree.query(points, predicate="intersects")}
    singles: Calls = {TREE: lambda: [tree.query(point, predicate="intersects") for point in points]}
    for index, engine in engines.items():
        arrays = encode_events(events, engine.schema)
        check_answers(engine, events, arrays, expected)
        batches[f"match_many, {index}"] = partial(engine.match_many, events)
        batches[f"match_many of arrays, {index}"] = partial(engine.match_many, arrays)
        singles[f"match, {index}"] = partial(match_each, engine, events)
    parameters = {"vertices": VERTICES, "places": PLACES, "hits_per_event": len(expected) / PLACES}
    report.workload(f"polygons, {size:,}", **parameters, plan=plan)
    record(report, size, "us_per_event", batches)
    record(report, size, "us_per_event_single", singles)


def engine_of(corners: np.ndarray, index: str) -> Engine:
    """An engine with a subscription for each polygon."""
    engine = Engine({"place": "point"}, index=index)
    engine.subscribe_many(
        Spatial("place", operator=SpatialOperator.INTERSECTS, geometry=Geometry(GeometryType.POLYGON, [ring]))
        for ring in corners.tolist()
    )
    return engine


def match_each(engine: Engine, events: list[dict[str, object]]) -> list[Sequence[Match]]:
    """The matches of each event, one call for each."""
    return [engine.match(event) for event in events]


def check_answers(engine: Engine, events: list[dict[str, object]], arrays: Events, expected: Pairs) -> None:
    """Raise unless every way to match gives the expected pairs of event and polygon."""
    for found in (engine.match_many(events), engine.match_many(arrays)):
        if {(e, id_) for e in range(PLACES) for id_ in found.of(e)[0].tolist()} != expected:
            raise AssertionError(f"{engine.index} and shapely disagree")
    if {(e, match.id) for e, found in enumerate(match_each(engine, events)) for match in found} != expected:
        raise AssertionError(f"{engine.index} and shapely disagree on single events")


def record(report: Report, size: int, metric: str, calls: Calls) -> None:
    """Time the calls in turn; ratios are to STRtree."""
    times: dict[str, list[float]] = {system: [] for system in calls}
    for _ in range(ROUNDS):
        for system, call in calls.items():
            start = time.process_time()
            call()
            times[system].append(1e6 * (time.process_time() - start) / PLACES)
    base = statistics.median(times[TREE])
    for system, values in times.items():
        value, spread = statistics.median(values), max(values) - min(values)
        figures = {"value": value, "spread": spread, "baseline": TREE, "ratio": base / value, "verified": True}
        report.row(workload=f"polygons, {size:,}", system=system, n=size, metric=metric, **figures)
