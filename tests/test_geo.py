"""Arithmetic on the sphere: as accurate as libm, and the same bits in Python and compiled."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood import geo
from matchwood.jit.decorators import kernel
from matchwood.lang.places import Circle, box_around_circle, longitudes, square
from matchwood.schema import Point
from matchwood.store.kernels import places as compiled

# Great-circle distances in km between city centres, well known.
CITIES = {
    "Oslo": Point(10.7522, 59.9139),
    "New York": Point(-74.0060, 40.7128),
    "Sydney": Point(151.2093, -33.8688),
    "Tokyo": Point(139.6917, 35.6895),
    "London": Point(-0.1278, 51.5074),
    "Paris": Point(2.3522, 48.8566),
    "Los Angeles": Point(-118.2437, 34.0522),
    "Quito": Point(-78.4678, -0.1807),
}


def haversine(a: Point, b: Point) -> float:
    """The textbook formula with libm, in metres: another way to the same distance."""
    (x, y), (u, v) = (map(math.radians, place) for place in (a, b))
    h = math.sin((v - y) / 2) ** 2 + math.cos(y) * math.cos(v) * math.sin((u - x) / 2) ** 2
    return 2 * geo.EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


def within(centre: Point, place: Point, radius: float) -> bool:
    return bool(geo.is_within(*place, *geo.unit_vector(*centre), geo.chord_squared(radius)))


def awkward_places(count: int, seed: int) -> list[Point]:
    """Poles, the antimeridian, the axes and their neighbouring floats, and random places."""
    chooser = random.Random(seed)
    lons, lats = [-180.0, -90.0, -0.0, 0.0, 90.0, 180.0], [-90.0, -45.0, 0.0, 45.0, 90.0]
    lons += [math.nextafter(lon, 0.0) for lon in lons]
    lats += [math.nextafter(lat, 0.0) for lat in lats]
    edges = [Point(lon, lat) for lon in lons for lat in lats]
    return edges + [Point(chooser.uniform(-180, 180), chooser.uniform(-90, 90)) for _ in range(count)]


@kernel
def _sines(xs, out):
    for i in range(xs.size):
        out[i] = compiled.sine(xs[i])


@kernel
def _vectors(lons, lats, out):
    for i in range(lons.size):
        x, y, z = compiled.unit_vector(lons[i], lats[i])
        out[i, 0], out[i, 1], out[i, 2] = x, y, z


@kernel
def _chords(radii, out):
    for i in range(radii.size):
        out[i] = compiled.chord_squared(radii[i])


@kernel
def _within(lons, lats, x, y, z, chord2, out):
    for i in range(lons.size):
        out[i] = compiled.is_within(lons[i], lats[i], x, y, z, chord2)


def test_sine_is_as_accurate_as_libm() -> None:
    xs = np.linspace(-math.pi / 2, math.pi / 2, 20_001)
    assert max(abs(geo.sine(x) - math.sin(x)) for x in xs.tolist()) < 1e-15


def test_sine_of_degrees_is_accurate_over_its_whole_range_and_exact_at_right_angles() -> None:
    for degrees in np.linspace(-450, 450, 9_001).tolist():
        assert abs(geo.sine_of_degrees(degrees) - math.sin(math.radians(degrees))) < 2e-15, degrees
    assert [geo.sine_of_degrees(d) for d in (-360.0, -180.0, 0.0, 180.0, 360.0)] == [0.0] * 5
    assert [abs(geo.sine_of_degrees(d) - math.copysign(1, d)) < 1e-15 for d in (90.0, -90.0)] == [True, True]


@pytest.mark.parametrize(
    ("a", "b", "kilometres"),
    [
        ("Oslo", "New York", 5_918),
        ("Oslo", "Sydney", 15_959),
        ("New York", "Tokyo", 10_848),
        ("New York", "Los Angeles", 3_936),
        ("London", "Paris", 343.6),
        ("Quito", "New York", 4_571),
    ],
)
def test_distances_between_cities_are_known(a: str, b: str, kilometres: float) -> None:
    metres = 1000.0 * kilometres
    assert not within(CITIES[a], CITIES[b], 0.999 * metres)
    assert within(CITIES[a], CITIES[b], 1.001 * metres)
    assert abs(haversine(CITIES[a], CITIES[b]) / metres - 1) < 0.001


def test_the_border_of_a_circle_lies_where_haversine_says() -> None:
    places = awkward_places(300, seed=1)
    for centre, place in zip(places, reversed(places), strict=True):
        distance = haversine(centre, place)
        if 1.0 < distance < 0.99 * geo.HALF_TURN_M:
            assert within(centre, place, distance * (1 + 1e-7) + 0.01)
            assert not within(centre, place, distance * (1 - 1e-7) - 0.01)


def test_from_half_a_turn_on_a_circle_holds_the_whole_earth() -> None:
    for centre in awkward_places(20, seed=2):
        antipode = Point(centre.lon + (180.0 if centre.lon <= 0 else -180.0), -centre.lat)
        assert within(centre, antipode, geo.HALF_TURN_M)
        assert within(centre, centre, 1e-9)


def test_a_pole_is_one_place_and_the_antimeridian_one_line() -> None:
    assert geo.unit_vector(10.0, 90.0)[:2] == geo.unit_vector(-170.0, 90.0)[:2] == (0.0, 0.0)
    assert within(Point(180.0, 12.5), Point(-180.0, 12.5), 1e-6)


def test_nan_is_within_no_circle() -> None:
    vector = geo.unit_vector(0.0, 0.0)
    assert not geo.is_within(math.nan, 0.0, *vector, 5.0)
    assert not geo.is_within(0.0, math.nan, *vector, 5.0)


def test_compiled_sines_vectors_and_chords_have_the_bits_of_the_plain_ones() -> None:
    xs = np.concatenate([np.linspace(-math.pi / 2, math.pi / 2, 5_001), [-0.0, 5e-324, -5e-324, 1e-160]])
    out = np.empty(len(xs))
    _sines(xs, out)
    assert out.tobytes() == np.array([geo.sine(x) for x in xs.tolist()]).tobytes()
    places = awkward_places(20_000, seed=3)
    lons, lats = (np.array(column) for column in zip(*places, strict=True))
    vectors = np.empty((len(places), 3))
    _vectors(lons, lats, vectors)
    assert vectors.tobytes() == np.array([geo.unit_vector(*place) for place in places]).tobytes()
    radii = np.concatenate([10.0 ** np.linspace(-200, 8, 2_000), [geo.HALF_TURN_M, math.nextafter(geo.HALF_TURN_M, 0)]])
    chords = np.empty(len(radii))
    _chords(radii, chords)
    assert chords.tobytes() == np.array([geo.chord_squared(r) for r in radii.tolist()]).tobytes()


def test_on_the_rim_compiled_and_plain_code_decide_alike() -> None:
    """Places on the rim, to the last float of the latitude: where one bit of difference would change an answer."""
    chooser = random.Random(4)
    both = set()
    for _ in range(60):
        centre = Point(chooser.uniform(-180, 180), chooser.uniform(-80, 80))
        radius = chooser.choice([10.0, 500.0, 1000.0, 250_000.0])
        lat = centre.lat + math.degrees(radius / geo.EARTH_RADIUS_M)
        lats = [lat]
        for _ in range(40):
            lats = [math.nextafter(lats[0], -100), *lats, math.nextafter(lats[-1], 100)]
        vector, chord2 = geo.unit_vector(*centre), geo.chord_squared(radius)
        plain = [bool(geo.is_within(centre.lon, y, *vector, chord2)) for y in lats]
        out = np.zeros(len(lats), np.bool_)
        _within(np.full(len(lats), centre.lon), np.array(lats), *vector, chord2, out)
        assert out.tolist() == plain
        both.update(plain)
    assert both == {True, False}


# boxes around circles and squares


@given(
    st.floats(-180, 180) | st.sampled_from([-180.0, 180.0, 179.9999999]),
    st.floats(-90, 90) | st.sampled_from([-90.0, 90.0, 89.99999, -89.9999, 0.0]),
    st.floats(1e-3, 2.1e7) | st.floats(10_007_500, 10_007_600) | st.floats(1e-3, 100.0),
    st.floats(0, 360),
    st.floats(0, 1) | st.sampled_from([1.0, 1 - 1e-15, 1 - 1e-9]),
)
def test_the_box_around_a_circle_holds_the_circle(
    lon: float, lat: float, radius: float, bearing: float, share: float
) -> None:
    centre = Point(lon, lat)
    place = _walked(centre, bearing, share * radius)
    box_lon, box_lat = box_around_circle(centre, radius)
    if Circle(centre, radius).holds(place):
        assert place.lon in box_lon
        assert place.lat in box_lat


def test_the_box_of_nearly_a_quarter_turn_holds_its_widest_longitude() -> None:
    """asin near 1 magnifies rounding to centimetres; the box must be rounded outward by as much."""
    quarter = geo.HALF_TURN_M / 2
    found = 0
    for step in range(400):
        radius = quarter - 10.0 ** (-3 + step / 100)
        box_lon, _ = box_around_circle(Point(0.0, 0.0), radius)
        lon = math.degrees(radius / geo.EARTH_RADIUS_M)
        for near in (math.nextafter(lon, 0), lon, math.nextafter(lon, 180)):
            if within(Point(0.0, 0.0), Point(near, 0.0), radius):
                assert near in box_lon
                found += 1
    assert found > 100


def test_circles_across_the_antimeridian_and_the_poles_wrap() -> None:
    lon, lat = box_around_circle(Point(179.99, 0.0), 5_000.0)
    assert 179.95 in lon
    assert -179.98 in lon
    assert 0.0 not in lon
    assert lat.hull[1] < 0.05
    lon, lat = box_around_circle(Point(10.0, 89.99), 5_000.0)
    assert -170.0 in lon
    assert 90.0 in lat
    assert 89.9 not in lat


def test_a_square_reaches_as_far_east_as_north_in_metres() -> None:
    centre = Point(10.0, 60.0)
    lon, lat = square(centre, 1_000.0)
    assert haversine(centre, Point(lon.hull[1], 60.0)) == pytest.approx(1_000.0, rel=1e-6)
    assert haversine(centre, Point(10.0, lat.hull[1])) == pytest.approx(1_000.0, rel=1e-6)
    assert square(Point(0.0, 90.0), 10.0)[0].covers(longitudes(-180, 180))
    assert -179.9999 in square(Point(180.0, 0.0), 1_000.0)[0]


def test_180_and_minus_180_are_one_meridian() -> None:
    for west, east in ((170.0, 180.0), (-180.0, -170.0), (180.0, -170.0), (170.0, -180.0), (180.0, 180.0)):
        assert 180.0 in longitudes(west, east)
        assert -180.0 in longitudes(west, east)
    assert 180.0 not in longitudes(-170.0, 170.0)
    assert 180.0 not in longitudes(-170.0, 179.99)


def _walked(start: Point, bearing: float, metres: float) -> Point:
    """Where one ends up, by the textbook formula."""
    angle, course, lat = metres / geo.EARTH_RADIUS_M, math.radians(bearing), math.radians(start.lat)
    sine = math.sin(lat) * math.cos(angle) + math.cos(lat) * math.sin(angle) * math.cos(course)
    to = math.asin(max(-1.0, min(1.0, sine)))
    east = math.atan2(math.sin(course) * math.sin(angle) * math.cos(lat), math.cos(angle) - math.sin(lat) * sine)
    lon = start.lon + math.degrees(east)
    lon = lon - 360.0 if lon > 180.0 else lon + 360.0 if lon < -180.0 else lon
    return Point(lon, math.degrees(to))
