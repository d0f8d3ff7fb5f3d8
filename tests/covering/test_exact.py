"""The definition of covering, tested with events: what it calls covered is covered, and for single rows nothing is missed."""

from __future__ import annotations

import math
import random

import pytest

from matchwood.covering.exact import circle_implies, covers, row_covers
from matchwood.lang.evaluate import holds
from matchwood.lang.event import EventKeys, event_keys
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.parser import parse
from matchwood.lang.places import Circle
from matchwood.lang.rows import Absent, Holds, Placed, Row, RowPredicate, normalise
from matchwood.schema import Point, Schema
from tests.worlds import TYPES, a_world, an_event, seeded_dice


def rows_of(text: str, schema: Schema | None = None) -> tuple[Row, ...]:
    return normalise(parse(text), schema or Schema(TYPES))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("age >= 18", "age >= 21"),
        ("age >= 18", "age = 30 AND plan = 'pro'"),
        ("TRUE", "age = 30"),
        ("plan IN ('free', 'pro')", "plan = 'pro'"),
        ("ANY(plan) != 'free'", "plan IN ('pro', 'trial')"),
        ("plan != 'free'", "plan IN ('pro', 'trial') AND plan NOT IN ('free', 'x')"),
        ("plan = 'free'", "A_CONTAINS(plan, ('free', 'pro'))"),
        ("A_CONTAINS(plan, ('free', 'pro'))", "A_CONTAINS(plan, ('trial', 'pro', 'free'))"),
        ("A_OVERLAPS(plan, ('free', 'pro'))", "A_CONTAINS(plan, ('trial', 'pro'))"),
        ("A_COUNT(plan, ('free', 'pro', 'trial')) >= 2", "A_CONTAINS(plan, ('free', 'pro', 'trial'))"),
        ("A_COUNT(plan, ('free', 'pro', 'trial')) >= 2", "A_COUNT(plan, ('free', 'pro', 'trial')) = 2"),
        ("ANY(age) > 3", "ANY(age) BETWEEN 5 AND 9 AND ANY(age) < 2"),
        ("ALL(age) > 3", "ALL(age) BETWEEN 5 AND 9"),
        ("A_CONTAINEDBY(plan, ('free', 'pro'))", "A_EQUALS(plan, ('pro'))"),
        ("plan != 'free'", "plan NOT IN ('free', 'pro')"),
        ("rare IS NULL", "rare IS NULL AND age > 3"),
        ("age IS NOT NULL", "age < 3"),
        ("age < 0 OR age > 10", "age BETWEEN 11 AND 12"),
        ("age < 0 OR price > 10", "price > 11 OR (age < -1 AND plan = 'pro')"),
    ],
)
def test_a_wider_expression_covers_a_narrower_one_and_not_the_other_way(wide: str, narrow: str) -> None:
    schema = Schema(TYPES)
    assert covers(rows_of(wide, schema), rows_of(narrow, schema))
    assert not covers(rows_of(narrow, schema), rows_of(wide, schema))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_matches_the_covered_subscription_matches_its_cover(seed: int) -> None:
    dice = seeded_dice(seed)
    world = a_world(dice, 60, 0)
    events = [event_keys(an_event(dice), world.schema) for _ in range(400)]
    rows = [rows for _, _, rows in world.subscriptions.values()]
    matches = [[any(all(holds(p, e) for p in row.predicates) for row in one) for e in events] for one in rows]
    pairs = [(a, b) for a in range(60) for b in range(60) if a != b and covers(rows[a], rows[b])]
    assert len(pairs) > 20
    for a, b in pairs:
        assert not any(mb and not ma for ma, mb in zip(matches[a], matches[b], strict=True)), (rows[a], rows[b])


def witness(wide: Row, narrow: Row) -> EventKeys:
    """An event that the narrow row, which is not covered, matches and the wide one does not."""
    values: dict[str, IntervalSet | Point] = {}
    for p in narrow.predicates:
        if isinstance(p, Holds):
            values[p.attribute] = IntervalSet(((p.keys.parts[0][0],) * 2,))
        elif isinstance(p, Placed):
            values[p.attribute] = Point(p.lon.parts[0][0], p.lat.parts[0][0])
    asked = {p.attribute: p for p in narrow.predicates}
    for p in wide.predicates:
        other = asked.get(p.attribute)
        if other is None and isinstance(p, Absent):
            values[p.attribute] = IntervalSet(((0.0, 0.0),)) if TYPES[p.attribute] != "point" else Point(0.0, 0.0)
        elif other is not None and (changed := told_apart(other, p)) is not None:
            values[p.attribute] = changed
    return EventKeys(values, {})


def is_on_earth(place: Placed) -> bool:
    return (
        min(place.lon.hull[0], place.lat.hull[0]) > -math.inf and max(place.lon.hull[1], place.lat.hull[1]) < math.inf
    )


def told_apart(narrow: RowPredicate, wide: RowPredicate) -> IntervalSet | Point | None:
    if isinstance(narrow, Holds) and isinstance(wide, Holds):
        if rest := narrow.keys - wide.keys:
            return IntervalSet(((rest.parts[0][0],) * 2,))
        excluded = wide.none - narrow.none
        keys = [set_.parts[0][0] for set_ in (narrow.keys, excluded) if set_]
        return IntervalSet.of([(key, key) for key in keys]) if excluded else None
    if isinstance(narrow, Placed) and isinstance(wide, Placed):
        lon, lat = narrow.lon - wide.lon, narrow.lat - wide.lat
        if lon or lat:
            return Point((lon or narrow.lon).parts[0][0], (lat or narrow.lat).parts[0][0])
    return None


@pytest.mark.parametrize("seed", range(6))
def test_for_single_rows_without_circles_and_counts_an_event_tells_apart_what_is_not_covered(seed: int) -> None:
    world = a_world(seeded_dice(100 + seed), 80, 0)
    singles = [
        row
        for _, _, rows in world.subscriptions.values()
        for row in rows
        if not any(isinstance(p, Placed) and (p.circles or p.regions or not is_on_earth(p)) for p in row.predicates)
        and not any(isinstance(p, Holds) and p.counts for p in row.predicates)
    ]
    told = 0
    for wide in singles:
        for narrow in singles:
            if row_covers(wide, narrow):
                continue
            event = witness(wide, narrow)
            assert all(holds(p, event) for p in narrow.predicates), (narrow, event)
            assert not all(holds(p, event) for p in wide.predicates), (wide, narrow, event)
            told += 1
    assert told > 1000


def test_circles_and_boxes_imply_one_another_only_if_every_sampled_place_agrees() -> None:
    draw = random.Random(5)
    found = {True: 0, False: 0}
    for _ in range(3000):
        a = Circle(Point(draw.uniform(-2, 2), draw.uniform(49, 52)), draw.choice([3e3, 1e5, 4e5]), draw.random() < 0.3)
        b = Circle(Point(draw.uniform(-2, 2), draw.uniform(49, 52)), draw.choice([3e3, 1e5, 4e5]), draw.random() < 0.3)
        verdict = circle_implies(a, b)
        found[verdict] += 1
        if verdict:
            places = [Point(draw.uniform(-9, 9), draw.uniform(45, 56)) for _ in range(60)]
            places += [rim(a, draw.uniform(0, 2 * math.pi)) for _ in range(30)]
            assert all(b.holds(place) for place in places if a.holds(place)), (a, b)
    assert min(found.values()) > 300


def rim(circle: Circle, bearing: float) -> Point:
    """A place close to the rim."""
    reach = math.degrees(circle.radius / 6_371_008.8)
    lat = circle.centre.lat + reach * math.cos(bearing)
    return Point(circle.centre.lon + reach * math.sin(bearing) / math.cos(math.radians(lat)), lat)


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ("BBOX(place, -75, 40, -73, 42)", "DWITHIN(place, POINT(-74 41), 10000)", True),
        ("BBOX(place, -74.05, 40, -73, 42)", "DWITHIN(place, POINT(-74 41), 10000)", False),
        ("DWITHIN(place, POINT(-74 41), 20000)", "DWITHIN(place, POINT(-74.05 41), 10000)", True),
        ("DWITHIN(place, POINT(-74 41), 20000)", "BBOX(place, -74.1, 40.9, -73.9, 41.1)", True),
        ("DWITHIN(place, POINT(-74 41), 20000)", "BBOX(place, -74.2, 40.9, -73.9, 41.1)", False),
        ("NOT DWITHIN(place, POINT(-74 41), 20000)", "DWITHIN(place, POINT(-73 41), 10000)", True),
        ("place IS NOT NULL", "DWITHIN(place, POINT(-73 41), 10000)", True),
    ],
)
def test_places_are_compared_by_box_and_by_distance(wide: str, narrow: str, covered: bool) -> None:
    assert covers(rows_of(wide), rows_of(narrow)) is covered
