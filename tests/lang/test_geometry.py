"""Geometries: reading and writing WKT and GeoJSON, what is refused and why, and where places are, against shapely."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import shape

from matchwood import attr, parse
from matchwood.errors import ExpressionError, MatchwoodError, NeverMatchesError, TooComplexError
from matchwood.lang import rings
from matchwood.lang.describe import describe_rows
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.geometry import Geometry, GeometryType, geojson_of, geometry_of
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.limits import Limits
from matchwood.lang.operators import SpatialOperator
from matchwood.lang.place_predicates import BBox, Spatial
from matchwood.lang.regions import BOUNDARY, INSIDE, OUTSIDE, Region, location_of, parts_of
from matchwood.lang.rings import exact_side
from matchwood.lang.rows import normalise
from matchwood.lang.wkt import read_wkt, wkt_of
from matchwood.schema import Point, Schema
from tests.strategies import geometries
from tests.worlds import GEOMETRIES, examples

SQUARE_WITH_HOLE = "POLYGON((0 0, 8 0, 8 8, 0 8, 0 0), (2 2, 2 4, 4 4, 4 2, 2 2))"


def holds(text: str, lon: float, lat: float) -> bool:
    schema = Schema({"place": "point"})
    try:
        rows = normalise(parse(text), schema)
    except NeverMatchesError:
        return False
    return judge(rows, event_keys({"place": Point(lon, lat)}, schema)).matched


def location(text: str, lon: float, lat: float) -> int:
    return location_of(parts_of(read_wkt(text)), Point(lon, lat))


# Reading and writing


@given(geometry=geometries())
@settings(max_examples=examples(200), deadline=None)
def test_every_geometry_can_be_written_as_text_and_as_geojson_and_read_again(geometry: Geometry) -> None:
    assert geometry_of(geojson_of(geometry)) == geometry
    if geometry.type is not GeometryType.BBOX:
        assert read_wkt(wkt_of(geometry)) == geometry
        assert shape(geojson_of(geometry)).geom_type == geometry.type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "s_within( place , polygon( (0 0,1 0,0 1,0 0) ) )",
            "S_WITHIN(place, POLYGON((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0)))",
        ),
        (
            "S_CONTAINS(POLYGON((0 0,1 0,0 1,0 0)), place)",
            "S_WITHIN(place, POLYGON((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0)))",
        ),
        ("S_WITHIN(POINT(1 2), place)", "S_CONTAINS(place, POINT(1.0 2.0))"),
        ("S_INTERSECTS(BBOX(1, 2, 3, 4), place)", "BBOX(place, 1.0, 2.0, 3.0, 4.0)"),
        ("S_INTERSECTS(point, POINT(1 2))", "S_INTERSECTS(point, POINT(1.0 2.0))"),
        ("S_INTERSECTS(POINT(1 2), Polygon)", "S_INTERSECTS(Polygon, POINT(1.0 2.0))"),
        ("S_DISJOINT(place, BBOX(1, 2, 3, 4)) ^0.5", "S_DISJOINT(place, BBOX(1.0, 2.0, 3.0, 4.0)) ^0.5"),
        ("S_EQUALS(place, POINT Z (1 2 3))", "S_EQUALS(place, POINT(1.0 2.0))"),
        ("S_TOUCHES(place, LINESTRING Z(1 2 3, 4 5 6))", "S_TOUCHES(place, LINESTRING(1.0 2.0, 4.0 5.0))"),
        ("S_CROSSES(place, MULTIPOINT((1 2), (3 4)))", "S_CROSSES(place, MULTIPOINT(1.0 2.0, 3.0 4.0))"),
        (
            "S_INTERSECTS(place, GEOMETRYCOLLECTION (POINT(1 2), LINESTRING(0 0, 1e-3 1)))",
            "S_INTERSECTS(place, GEOMETRYCOLLECTION(POINT(1.0 2.0), LINESTRING(0.0 0.0, 0.001 1.0)))",
        ),
    ],
)
def test_spatial_functions_are_read_in_any_case_with_their_arguments_in_either_order(text: str, expected: str) -> None:
    assert str(parse(text)) == expected
    assert from_json(to_json(parse(text))) == parse(text)


def test_the_builder_takes_geojson_wkt_and_objects_of_other_libraries() -> None:
    ring = [[0, 0], [1, 0], [0, 1], [0, 0]]
    text = "POLYGON((0 0, 1 0, 0 1, 0 0))"
    polygon = {"type": "Polygon", "coordinates": [ring]}
    wanted = parse(f"S_INTERSECTS(place, {text})")
    for given_ in (
        polygon,
        text,
        shapely.from_wkt(text),
        {"type": "Feature", "geometry": polygon, "properties": None},
        SimpleNamespace(__geo_interface__=polygon),
        {"type": "Polygon", "coordinates": np.array([ring])},
    ):
        assert attr("place").intersects(given_) == wanted
    assert attr("place").within(polygon) == parse(f"S_WITHIN(place, {text})")
    assert attr("place").disjoint(text) ^ 2 == parse(f"S_DISJOINT(place, {text}) ^2")
    assert attr("place").touches(text) == parse(f"S_TOUCHES(place, {text})")
    assert isinstance(attr("place").intersects({"bbox": [1, 2, 3, 4]}), BBox)
    with pytest.raises(ExpressionError, match="expected a radius beside the centre"):
        attr("place").within((1, 2))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("POLYGON((0 0, 1 0, 0 1, 0 1))", "ends at \\(0.0, 1.0\\); repeat the first position"),
        ("POLYGON((0 0, 1 0, 0 0))", "at least 4 positions"),
        ("POLYGON((0 0, 1 0, 0 91, 0 0))", "a latitude in -90..90"),
        ("POLYGON((0 0, 361 0, 0 1, 0 0))", "a longitude in -180..180"),
        ("POLYGON((-200 0, 170 0, 0 1, -200 0))", "at most 360 degrees apart"),
        ("POLYGON(0 0, 1 0, 0 1, 0 0)", "expected parts in parentheses"),
        ("POLYGON((0, 0, 1 0, 0 1, 0 0))", "a space between the numbers"),
        ("POLYGON((0 0, 1 0, 0 1, 0 0)", "expected \\) at the end of S_INTERSECTS, got the end of the text"),
        ("POLYGON((0 0, 1 0, 0 one, 0 0))", "such as \\(\\(0 0, 1 0, 0 1, 0 0\\)\\), got 'one'"),
        ("POLYGON EMPTY", "an empty POLYGON contains no place"),
        ("LINESTRING(0 0)", "at least 2 positions"),
        ("CURVE(0 0)", "got the name 'CURVE'"),
        ("other", "got the name 'other'; two attributes cannot be compared"),
        ("GEOMETRYCOLLECTION(GEOMETRYCOLLECTION(POINT(1 2)))", "expected a geometry such as POINT"),
        ("BBOX(1, 4, 3, 2)", "south"),
        ("BBOX(1, 2, 3)", "expected , after the east border"),
        ("7", "expected a geometry such as POLYGON"),
    ],
)
def test_what_is_no_geometry_is_refused_with_the_reason(text: str, error: str) -> None:
    with pytest.raises(MatchwoodError, match=error):
        parse(f"S_INTERSECTS(place, {text})")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"type": "Circle", "coordinates": [1, 2]}, "expected a geometry of type Point"),
        ({"type": "BBox", "coordinates": [1, 2, 3, 4]}, "expected a geometry of type Point"),
        ({"type": "Point"}, "no 'coordinates'"),
        ({"type": "Point", "coordinates": [1, 2], "crs": {}}, "unknown key 'crs'"),
        ({"type": "Point", "coordinates": [1, True]}, "expected a position"),
        ({"type": "Point", "coordinates": [1, float("nan")]}, "latitude in -90..90"),
        ({"type": "Point", "coordinates": [1, 10**400]}, "expected a position"),
        ({"type": "Polygon", "coordinates": [1, 2]}, "nested coordinates of a Polygon"),
        ({"type": "Polygon", "coordinates": []}, "got an empty list"),
        ({"type": "GeometryCollection", "geometries": []}, "at least one geometry"),
        ({"type": "GeometryCollection", "coordinates": []}, "unknown key 'coordinates'"),
        ({"type": "Feature", "geometry": None}, "expected a geometry as GeoJSON"),
        ({"bbox": [1, 2, 3]}, "4 numbers"),
        ({"bbox": [200, 2, 3, 4]}, "box \\(west, south, east, north\\)"),
        (None, "expected a geometry as GeoJSON"),
    ],
)
def test_what_is_no_geojson_is_refused_with_the_reason(value: Any, error: str) -> None:
    with pytest.raises(ExpressionError, match=error):
        geometry_of(value)


def test_json_names_the_place_of_what_is_wrong() -> None:
    for args, error in (
        ([{"property": "a"}, {"property": "b"}], r"\$.args\[1\]: expected a geometry, got a property"),
        ([{"type": "Point", "coordinates": [1]}, {"property": "b"}], r"\$.args\[0\]: expected a position"),
        ([1, 2], r"\$.args: expected a property and a geometry"),
        ([{"property": "a"}, "POINT(1 2)"], r"\$.args\[1\]: expected a geometry as GeoJSON"),
    ):
        with pytest.raises(ExpressionError, match=error):
            from_json({"op": "s_within", "args": args})


# Validity


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("POLYGON((0 0, 2 2, 2 0, 0 2, 0 0))", "cross or overlap, \\(0.0 0.0, 2.0 2.0\\) and \\(2.0 0.0, 0.0 2.0\\)"),
        ("POLYGON((0 0, 2 0, 1 0, 0 0))", "cross or overlap"),
        ("POLYGON((0 0, 4 0, 4 4, 2 4, 2 6, 2 4, 0 4, 0 0))", "cross or overlap"),
        ("POLYGON((0 0, 4 0, 4 4, 0 0), (1 3, 2 3, 1 2, 1 3))", "the hole that begins at \\(1.0, 3.0\\) is not inside"),
        ("POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (3 1, 5 1, 5 2, 3 1))", "cross or overlap"),
        ("POLYGON((1 1, 1 1, 1 1, 1 1))", "fewer than 3 different positions"),
        ("POLYGON((0 0, 1 1, 1 1, 0 0))", "fewer than 3 different positions"),
    ],
)
def test_rings_that_cross_or_fold_are_refused_when_the_subscription_is_added(text: str, error: str) -> None:
    with pytest.raises(ExpressionError, match=f"attribute 'place': .*{error}"):
        normalise(parse(f"S_INTERSECTS(place, {text})"), Schema())


def test_rings_that_touch_in_points_are_accepted() -> None:
    for text in (
        "POLYGON((0 0, 4 0, 4 4, 2 0, 0 4, 0 0))",  # a vertex on another edge
        "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (0 0, 2 1, 1 2, 0 0))",  # a hole at a corner of the shell
        "POLYGON((0 0, 0 0, 4 0, 4 0, 4 4, 0 0, 0 0))",  # repeated vertices
    ):
        assert len(normalise(parse(f"S_INTERSECTS(place, {text})"), Schema())) == 1


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=7))
@settings(max_examples=examples(300), deadline=None)
def test_a_ring_is_refused_if_two_of_its_edges_share_more_than_a_point(ring: list[tuple[int, int]]) -> None:
    edges = [(a, b) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True) if a != b]
    lines = [shapely.LineString(edge) for edge in edges]

    def is_bad(i: int, j: int) -> bool:
        shared = lines[i].intersection(lines[j])
        if shared.is_empty:
            return False
        return shared.length > 0 or not any(shared.distance(shapely.Point(end)) == 0 for end in edges[i] + edges[j])

    expected = len(edges) < 3 or any(is_bad(i, j) for i in range(len(edges)) for j in range(i))
    polygon = Geometry(GeometryType.POLYGON, [[*ring, ring[0]]])
    try:
        parts_of(polygon)
        refused = False
    except ExpressionError:
        refused = True
    assert refused == expected


def test_a_large_ring_is_checked_in_a_bounded_time_and_its_size_is_limited() -> None:
    angles = np.linspace(0.0, 2.0 * np.pi, 5_000, endpoint=False)
    radius = 1.0 + np.random.default_rng(0).random(5_000)
    ring = np.column_stack([radius * np.cos(angles), radius * np.sin(angles)])
    polygon = Geometry(GeometryType.POLYGON, [[*ring.tolist(), ring[0].tolist()]])
    (part,) = parts_of(polygon)
    assert len(part.vertices) == 5_001
    predicate = Spatial("place", operator=SpatialOperator.INTERSECTS, geometry=polygon)
    with pytest.raises(TooComplexError, match="5,001 positions, the limit is 5,000 \\(max_vertices\\)"):
        normalise(predicate, Schema(), limits=Limits(max_vertices=5_000))
    with pytest.raises(TooComplexError, match="max_entries"):
        normalise(predicate, Schema(), limits=Limits(max_entries=5_000))


# Where places are


@pytest.mark.parametrize(
    ("lon", "lat", "expected"),
    [
        (1, 1, INSIDE),
        (8, 4, BOUNDARY),
        (0, 0, BOUNDARY),
        (3, 3, OUTSIDE),
        (2, 3, BOUNDARY),
        (4, 4, BOUNDARY),
        (9, 1, OUTSIDE),
    ],
)
def test_a_hole_is_outside_and_its_ring_is_boundary(lon: float, lat: float, expected: int) -> None:
    assert location(SQUARE_WITH_HOLE, lon, lat) == expected
    reversed_ = "POLYGON((0 0, 0 8, 8 8, 8 0, 0 0), (2 2, 4 2, 4 4, 2 4, 2 2))"
    assert location(reversed_, lon, lat) == expected


def test_each_operator_accepts_its_locations() -> None:
    accepted = {
        "S_INTERSECTS": (True, True, False),
        "S_WITHIN": (True, False, False),
        "S_TOUCHES": (False, True, False),
        "S_DISJOINT": (False, False, True),
        "S_EQUALS": (False, False, False),
        "S_CONTAINS": (False, False, False),
        "S_CROSSES": (False, False, False),
        "S_OVERLAPS": (False, False, False),
    }
    for operator, expected in accepted.items():
        text = f"{operator}(place, {SQUARE_WITH_HOLE})"
        assert tuple(holds(text, *place) for place in ((1, 1), (0, 1), (3, 3))) == expected
        assert tuple(holds(f"NOT {text}", *place) for place in ((1, 1), (0, 1), (3, 3))) == tuple(
            not e for e in expected
        )
    for operator in ("S_EQUALS", "S_CONTAINS", "S_WITHIN", "S_INTERSECTS"):
        assert holds(f"{operator}(place, POINT(1 1))", 1, 1)
        assert not holds(f"{operator}(place, POINT(1 1))", 1, 1.0000000000000002)
    assert not holds("S_TOUCHES(place, POINT(1 1))", 1, 1)


def test_a_collection_has_no_boundary_and_says_so() -> None:
    with pytest.raises(MatchwoodError, match="S_TOUCHES is not supported for a GEOMETRYCOLLECTION"):
        parse("S_TOUCHES(place, GEOMETRYCOLLECTION(POINT(1 2)))")


def test_a_point_on_an_edge_is_on_it_and_the_next_float_is_not() -> None:
    triangle = "POLYGON((0 0, 3 1, 0 2, 0 0))"
    lon = 1.1
    lat = float(Fraction(lon) / 3)  # as near to the edge as float64 comes
    sides = {step: location(triangle, lon, step) for step in (lat, math.nextafter(lat, 9), math.nextafter(lat, -9))}
    for step, found in sides.items():
        expected = INSIDE if Fraction(step) > Fraction(lon) / 3 else OUTSIDE
        assert found == (BOUNDARY if Fraction(step) == Fraction(lon) / 3 else expected)
    assert location(triangle, 1.5, 0.5) == BOUNDARY
    assert location(triangle, 1.5, math.nextafter(0.5, 1)) == INSIDE
    assert location(triangle, 1.5, math.nextafter(0.5, 0)) == OUTSIDE


@pytest.mark.parametrize("seed", range(3))
def test_rings_of_few_and_of_many_edges_are_judged_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    faults = []
    for _ in range(500):
        size, step = rng.choice((2, 3, 5, 100)), rng.choice((1.0, 3.0, 10.0))
        corners = [(rng.randint(0, size) / step, rng.randint(0, size) / step) for _ in range(rng.randint(3, 9))]
        corners = [a for a, b in zip(corners, corners[1:] + corners[:1], strict=True) if a != b]
        if len(corners) < 3:
            continue
        ring = (*corners, corners[0])
        swept = rings.fault_of([ring])
        with monkeypatch.context() as context:
            context.setattr(rings, "_FEW", 0)
            assert (rings.fault_of([ring]) is None) is (swept is None), ring
        faults.append(swept is not None)
    assert set(faults) == {False, True}


@pytest.mark.parametrize(
    "polygon", ["POLYGON((170 0, 190 0, 180 10, 170 0))", "POLYGON((-190 0, -170 0, -180 10, -190 0))"]
)
def test_a_ring_that_goes_on_beyond_180_crosses_the_antimeridian(polygon: str) -> None:
    assert [location(polygon, lon, 1) for lon in (180, -180, 175, -175, 0, 170)] == [INSIDE] * 4 + [OUTSIDE] * 2
    assert location(polygon, -171, 1) == BOUNDARY == location(polygon, 171, 1)
    assert holds(f"S_WITHIN(place, {polygon})", -180, 5)


def test_a_polygon_that_is_split_at_the_antimeridian_has_a_border_there() -> None:
    split = "MULTIPOLYGON(((170 0, 180 0, 180 9, 170 9, 170 0)), ((-180 0, -170 0, -170 9, -180 9, -180 0)))"
    assert holds(f"S_INTERSECTS(place, {split})", 180, 5)
    assert holds(f"S_INTERSECTS(place, {split})", -180, 5)
    assert not holds(f"S_WITHIN(place, {split})", 180, 5)
    assert location("POLYGON((170 0, 180 0, 180 9, 170 9, 170 0))", -180, 5) == BOUNDARY


def test_a_long_edge_is_never_taken_the_short_way_round() -> None:
    box = "POLYGON((-170 -10, 170 -10, 170 10, -170 10, -170 -10))"
    assert location(box, 0, 0) == INSIDE
    assert location(box, 175, 0) == OUTSIDE


def test_a_pole_is_a_line_of_the_plane() -> None:
    cap = "POLYGON((-180 60, 180 60, 180 90, -180 90, -180 60))"
    assert [location(cap, lon, 90) for lon in (-180, 0, 77.7)] == [BOUNDARY] * 3
    assert [holds(f"S_INTERSECTS(place, {cap})", lon, 75) for lon in (-180, 0, 180)] == [True] * 3


def test_lines_end_in_their_boundary() -> None:
    fork = "MULTILINESTRING((0 0, 2 2), (2 2, 4 0), (2 2, 2 4), (6 6, 7 6, 7 7, 6 6))"
    assert [location(fork, *place) for place in ((0, 0), (1, 1), (2, 2), (1, 2), (6, 6))] == [
        *(BOUNDARY, INSIDE, BOUNDARY, OUTSIDE, INSIDE)
    ]
    assert location("MULTILINESTRING((0 0, 2 2), (2 2, 4 0))", 2, 2) == INSIDE


def polygons(rng: np.random.Generator) -> shapely.Geometry:
    """A valid polygon of integer corners, with holes or in parts."""
    while True:
        corners = rng.integers(0, 12, (int(rng.integers(4, 9)), 2)).astype(float)
        area = shapely.make_valid(shapely.Polygon(corners))
        area = shapely.difference(area, shapely.Polygon(rng.integers(2, 10, (3, 2)).astype(float)))
        if area.geom_type in ("Polygon", "MultiPolygon") and area.area > 0 and area.is_valid:
            return area


def test_locations_are_those_of_shapely() -> None:
    """Vertices that cuts made are rounded there as here: places are compared where no edge is within rounding."""
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(60):
        area = polygons(rng)
        try:
            parts = parts_of(geometry_of(area))
        except ExpressionError:  # a cut may put a vertex an ulp across another edge
            continue
        grid = [Point(float(x), float(y)) for x in range(12) for y in range(12)]
        places = grid + [Point(*place) for place in rng.uniform(-1, 13, (60, 2)).tolist()]
        corners = shapely.get_coordinates(area)
        for place in places:
            at = shapely.Point(place)
            is_corner = (corners == place).all(axis=1).any()
            if not is_corner and 0.0 < shapely.distance(area.boundary, at) < 1e-9:
                continue
            found = location_of(parts, place)
            touched = sum(shapely.Point(place).intersects(part.boundary) for part in shapely.get_parts(area))
            if touched > 1:  # polygons that touch in a point
                assert found == BOUNDARY
                continue
            assert (found == INSIDE) == area.contains(at)
            assert (found != OUTSIDE) == area.intersects(at)
            compared += 1
    assert compared > 5_000


@given(st.lists(st.floats(-180.0, 180.0, width=32), min_size=6, max_size=6))
def test_sides_are_exact(numbers: list[float]) -> None:
    ax, ay, bx, by, cx, cy = (Fraction(n) for n in numbers)
    determinant = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    assert exact_side(numbers[:2], numbers[2:4], numbers[4:]) == (determinant > 0) - (determinant < 0)


# Rows


@pytest.mark.parametrize("operator", list(SpatialOperator)[:4])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: str(geometry.type))
def test_the_description_of_rows_makes_the_same_rows_again(operator: SpatialOperator, geometry: Geometry) -> None:
    for negation in ("", "NOT "):
        try:
            expression = parse(
                f"{negation}{operator.upper()}(place, {wkt_of(geometry)}) ^2 AND DWITHIN(place, POINT(-74 40.7), 9000 km)"
            )
            schema = Schema()
            rows = normalise(expression, schema)
        except MatchwoodError:
            assert geometry.type is GeometryType.COLLECTION or operator is SpatialOperator.TOUCHES
            continue
        assert normalise(parse(describe_rows(rows, schema)), schema) == rows


def test_conditions_on_one_geometry_become_one_region_and_contradictions_are_noticed() -> None:
    (row,) = normalise(
        parse(f"S_INTERSECTS(place, {SQUARE_WITH_HOLE}) AND NOT S_WITHIN(place, {SQUARE_WITH_HOLE})"), Schema()
    )
    (placed,) = row.predicates
    assert placed.regions == (Region(parts_of(read_wkt(SQUARE_WITH_HOLE)), BOUNDARY),)  # type: ignore[union-attr]
    with pytest.raises(NeverMatchesError, match="the conditions on 'place' exclude each other"):
        normalise(parse(f"S_WITHIN(place, {SQUARE_WITH_HOLE}) AND S_DISJOINT(place, {SQUARE_WITH_HOLE})"), Schema())
    with pytest.raises(NeverMatchesError, match="S_CROSSES"):
        normalise(parse("S_CROSSES(place, POINT(1 2))"), Schema())


def test_a_rectangle_and_a_point_are_boxes() -> None:
    schema = Schema()
    for text, box in (
        ("POLYGON((1 2, 3 2, 3 4, 1 4, 1 2))", "BBOX(place, 1, 2, 3, 4)"),
        ("POLYGON((170 2, 190 2, 190 4, 170 4, 170 2))", "BBOX(place, 170, 2, -170, 4)"),
        ("POINT(1 2)", "BBOX(place, 1, 2, 1, 2)"),
        ("POINT(-180 2)", "BBOX(place, 180, 2, -180, 2)"),
    ):
        assert normalise(parse(f"S_INTERSECTS(place, {text})"), schema) == normalise(parse(box), schema)
