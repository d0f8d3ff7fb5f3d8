"""Regions in every structure: what the oracle says, to the float beside an edge."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood import Engine
from matchwood.encode.objects import decode_rows
from matchwood.errors import ExpressionError, MatchwoodError, NeverMatchesError
from matchwood.lang.event import Event
from matchwood.lang.expression import Expression, Not, all_of, any_of
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.operators import SpatialOperator
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import Spatial
from matchwood.lang.regions import location_of, parts_of
from matchwood.lang.wkt import wkt_of
from matchwood.schema import Point, Schema
from matchwood.structures import Capability
from tests.systems import SYSTEMS, make_system
from tests.worlds import GEOMETRIES, World, examples, ranked

OPERATORS = list(SpatialOperator)[:4]


def a_polygon(rng: np.random.Generator) -> Geometry:
    """Corners on a lattice around a point, so that places hit vertices and edges; at times with a hole, parts, or at 180."""
    while True:
        centre = rng.integers(-4, 5, 2) + np.array([180 * rng.integers(-1, 2), 0])
        count = int(rng.integers(3, 40))
        angle = np.sort(rng.uniform(0, 2 * np.pi, count))
        corners = np.round(np.column_stack([np.cos(angle), np.sin(angle)]) * rng.uniform(1, 6, (count, 1)) + centre)
        rings = [corners]
        if rng.random() < 0.3:
            rings.append(np.round((corners - centre) * 0.4 + centre, 1))
        closed = [[*ring.tolist(), ring[0].tolist()] for ring in rings]
        try:
            polygon = Geometry(GeometryType.POLYGON, closed)
            if rng.random() < 0.2:
                other = [[[x + 9.0, y + 3.5] for x, y in closed[0]]]
                polygon = Geometry(GeometryType.MULTI_POLYGON, [closed, other])
            parts_of(polygon)
            return polygon
        except ExpressionError:
            continue


def a_condition(rng: np.random.Generator) -> Expression:
    geometry = a_polygon(rng) if rng.random() < 0.8 else GEOMETRIES[rng.integers(len(GEOMETRIES) - 1)]
    weight = float(rng.integers(4))
    found: Expression = Spatial("place", weight, operator=OPERATORS[rng.integers(4)], geometry=geometry)
    if rng.random() < 0.2:
        found = Not(found)
    if rng.random() < 0.2:
        found = all_of(found, parse("DWITHIN(place, POINT(1 1), 500 km)"))
    if rng.random() < 0.3:
        found = all_of(found, parse(f"x > {rng.integers(5)} ^2"))
    return found


@cache
def a_world_of_polygons() -> World:
    rng = np.random.default_rng(5)
    world = World(Schema({"place": "point", "x": "number"}))
    while len(world.subscriptions) < 150:
        conditions = [a_condition(rng) for _ in range(1 + int(rng.integers(2)))]
        joined = all_of if rng.random() < 0.5 else any_of
        try:
            world.put(len(world.subscriptions) * 2, float(rng.integers(3)), joined(*conditions))
        except NeverMatchesError:
            continue
    for _ in range(120):
        lon, lat = rng.integers(-8, 9, 2) / rng.choice([1, 1, 2]) + (180.0 * rng.integers(-1, 2), 0.0)
        lon = (lon + 180.0) % 360.0 - 180.0
        if rng.random() < 0.3:
            lon, lat = math.nextafter(lon, 0.0), math.nextafter(lat, rng.choice([-9.0, 9.0]))
        world.events.append(Event({"place": Point(float(lon), float(lat)), "x": int(rng.integers(7))}))
    world.events += [Event({"x": 3}), Event({"place": Point(180.0, 90.0)}), Event({"place": Point(-180.0, -90.0)})]
    return world


@cache
def expected(mode: str) -> list[list[tuple[int, float]]]:
    return a_world_of_polygons().expected(mode=mode)


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_structure_matches_regions_as_the_oracle_says(name: str) -> None:
    world, index = a_world_of_polygons(), make_system(name)
    rows = world.rows()
    try:
        index.insert(rows)
    except MatchwoodError:
        assert name in ("ir-tree", "k-index", "scored-r-tree", "segment-tree", "sopt-r-tree") or "vcr" in name
        pytest.skip("it does not take sets, absences or several rows")
    index.check()
    for mode in ("all", "any"):
        if mode == "all" or Capability.ANY in index.capabilities:
            assert ranked(index.match(world.event_arrays(), mode=mode)) == expected(mode)
    back = index.store.extract_all()
    assert decode_rows(back, world.schema) == decode_rows(rows, world.schema)
    if Capability.UPDATES in index.capabilities:
        index.delete(rows.ids[::2])
        index.check()


def test_the_world_has_all_that_matters() -> None:
    hits = sum(map(len, expected("all")))
    assert 1_000 < hits < 150 * 120 / 2
    rows = a_world_of_polygons().rows()
    assert (rows.kinds == 7).sum() > 150
    assert set(rows.hi[rows.kinds == 8].tolist()) == {-360.0, 0.0, 360.0}


def test_auto_matches_regions_as_the_oracle_says_and_saves_them(tmp_path) -> None:  # type: ignore[no-untyped-def]
    world = a_world_of_polygons()
    engine = Engine(world.schema)
    for id_, (priority, expression, _) in world.subscriptions.items():
        engine.subscribe(expression, id=id_, priority=priority)
    found = engine.match_many(world.events)
    assert ranked(found) == expected("all")
    assert [[(match.id, match.score) for match in engine.match(event)] for event in world.events[:10]] == expected(
        "all"
    )[:10]
    engine.save(tmp_path / "engine")
    loaded = Engine.load(tmp_path / "engine")
    assert ranked(loaded.match_many(world.events)) == expected("all")
    for id_ in list(world.subscriptions)[:40]:
        text = loaded.subscription(id_).expression
        assert Engine(world.schema).subscribe(text) == 0


floats = (
    st.floats(-170.0, 170.0) | st.integers(-5, 5).map(float) | st.sampled_from([5e-324, 1e-160, 1e-150, -0.0, 179.99])
)
lats = st.floats(-80.0, 80.0) | st.integers(-5, 5).map(float) | st.sampled_from([5e-324, -1e-160, 1e-149, 0.1])


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_places_on_edges_and_one_float_beside_are_located_exactly(data: st.DataObject) -> None:
    corners = data.draw(st.lists(st.tuples(floats, lats), min_size=3, max_size=3, unique=True))
    try:
        triangle = Geometry(GeometryType.POLYGON, [[*corners, corners[0]]])
        parts = parts_of(triangle)
    except ExpressionError:
        return
    places = list(corners)
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        share = data.draw(st.sampled_from([0.5, 0.25, 0.1, 1 / 3]))
        x, y = ax + (bx - ax) * share, ay + (by - ay) * share
        places += [(x, y), (math.nextafter(x, 999), y), (x, math.nextafter(y, -999)), (ax, y), (x, by)]
    engine = Engine({"place": "point"}, index="scan")
    for operator in OPERATORS:
        engine.subscribe(Spatial("place", operator=operator, geometry=triangle))
    found = engine.match_many([{"place": Point(*place)} for place in places])
    for e, place in enumerate(places):
        where = location_of(parts, Point(*place))
        accepted = (where in (2, 4), where == 4, where == 1, where == 2)
        assert sorted(found.of(e)[0].tolist()) == [i for i in range(4) if accepted[i]], (wkt_of(triangle), place)


def test_a_polygon_of_many_vertices_is_located_as_one_of_few() -> None:
    rng = np.random.default_rng(2)
    angles = np.linspace(0.0, 2.0 * np.pi, 3_000, endpoint=False)
    radius = 5.0 + rng.random(3_000)
    ring = np.column_stack([radius * np.cos(angles), radius * np.sin(angles)]).tolist()
    polygon = Geometry(GeometryType.POLYGON, [[*ring, ring[0]]])
    parts = parts_of(polygon)
    engine = Engine({"place": "point"}, index="scan")
    engine.subscribe(Spatial("place", operator=SpatialOperator.INTERSECTS, geometry=polygon))
    places = [Point(*place) for place in rng.uniform(-6.5, 6.5, (150, 2)).tolist()]
    places += [Point(*place) for place in ring[::100]]
    found = engine.match_many([{"place": place} for place in places])
    assert [len(found.of(e)[0]) for e in range(len(places))] == [
        int(location_of(parts, place) != 1) for place in places
    ]
