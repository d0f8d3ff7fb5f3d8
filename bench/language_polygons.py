"""Polygons of 20 vertices and places: `Engine` beside shapely's STRtree, which gets its points ready made.

The section `polygons` of `bench language`.

    us_per_event          a batch: `match_many` of a list of dicts, of arrays that were encoded before, and `STRtree.query`
    us_per_event_single   one place at a time

Processor time of the whole process. The pairs of place and polygon are compared before anything is timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from bench.report import Report
from matchwood import Engine
from matchwood.encode.events import encode_events
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.operators import SpatialOperator
from matchwood.lang.place_predicates import Spatial

SIZES = {"quick": 10_000, "paper": 100_000}
PLACES, VERTICES, ROUNDS = 1_000, 20, 7
TREE = "shapely STRtree"


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


def measure(report: Report, size: int) -> None:
    """All systems on the same polygons and places."""
    import shapely

    corners = rings(size)
    tree = shapely.STRtree(shapely.polygons(corners))
    places = np.random.default_rng(1).uniform([-10.0, 40.0], [10.0, 55.0], (PLACES, 2))
    points = shapely.points(places)
    engine = Engine({"place": "point"}, index="mo-tree")
    engine.subscribe_many(
        Spatial("place", operator=SpatialOperator.INTERSECTS, geometry=Geometry(GeometryType.POLYGON, [ring]))
        for ring in corners.tolist()
    )
    events = [{"place": tuple(place)} for place in places.tolist()]
    arrays = encode_events(events, engine.schema)
    found, pairs = engine.match_many(events), tree.query(points, predicate="intersects")
    ours = {(e, id_) for e in range(PLACES) for id_ in found.of(e)[0].tolist()}
    if ours != set(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True)):
        raise AssertionError("the engine and shapely disagree")
    report.workload(f"polygons, {size:,}", vertices=VERTICES, places=PLACES, hits_per_event=len(ours) / PLACES)
    batches: dict[str, Callable[[], object]] = {
        TREE: lambda: tree.query(points, predicate="intersects"),
        "match_many": lambda: engine.match_many(events),
        "match_many of arrays": lambda: engine.match_many(arrays),
    }
    singles: dict[str, Callable[[], object]] = {
        TREE: lambda: [tree.query(point, predicate="intersects") for point in points],
        "match": lambda: [engine.match(event) for event in events],
    }
    for metric, calls in (("us_per_event", batches), ("us_per_event_single", singles)):
        record(report, size, metric, calls)


def record(report: Report, size: int, metric: str, calls: dict[str, Callable[[], object]]) -> None:
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
