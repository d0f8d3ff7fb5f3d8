"""Subscribers that move: a circle keeps its radius to the bit, a box its extent, wherever they have been meanwhile."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchwood import Engine, Event
from matchwood.encode.arrays import Rows
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.errors import ExpressionError
from matchwood.schema import Point

PLACES = [(0.0, 0.0), (180.0, 10.0), (-180.0, -60.0), (10.0, 90.0), (-70.0, -90.0), (33.0, 89.9999), (179.9999, 5.0)]


def an_engine() -> Engine:
    return Engine({"price": "number", "place": "point"}, index="scan")


def rows_of(engine: Engine, id_: int) -> Rows:
    store = engine._index.store
    return store.extract(store.slots_of(np.array([id_], np.int64)))


def assert_same_bits(found: Rows, expected: Rows) -> None:
    for name, a, b in list(zip(found._fields, found, expected, strict=True))[1:]:
        assert a.tobytes() == b.tobytes(), name


def a_place(chooser: random.Random) -> tuple[float, float]:
    return chooser.choice([*PLACES, (chooser.uniform(-180, 180), chooser.uniform(-90, 90))])


@pytest.mark.parametrize("form", ["text", "argument", "text table", "list table", "wide table"])
def test_a_moved_circle_is_the_one_subscribed_there(form: str) -> None:
    chooser = random.Random(5)
    for _ in range(60):
        engine = an_engine()
        (lon, lat), radius = a_place(chooser), 10 ** chooser.uniform(-2, 7)
        subscribed(engine, form, lon, lat, radius)
        for _ in range(3):
            there = a_place(chooser)
            engine.move(0, there)
            fresh = engine.subscribe("price = 1", place=there, radius=radius)
            assert_same_bits(rows_of(engine, 0), rows_of(engine, fresh))


def subscribed(engine: Engine, form: str, lon: float, lat: float, radius: float) -> None:
    """One subscription of the id 0 to a price of 1 within a circle."""
    if form == "text":
        engine.subscribe(f"price = 1 AND DWITHIN(place, POINT({lon!r} {lat!r}), {radius!r} m)", id=0)
        return
    if form == "argument":
        engine.subscribe("price = 1", place=(lon, lat), radius=radius, id=0)
        return
    said: dict[str, Any] = {
        "text table": {"expression": ["price = 1"]},
        "list table": {"predicates": [[{"attribute": "price", "value": 1.0}]]},
        "wide table": {"price": [1]},
    }[form]
    table = pa.table({"id": [0], **said, "lon": [lon], "lat": [lat], "radius": [radius]})
    engine.subscribe_rows(encode_subscription_table(table, engine.schema, on_error="raise").rows)


@pytest.mark.parametrize("seed", range(10))
def test_a_box_keeps_its_extent_wherever_it_goes(seed: int) -> None:
    """A place where it does not fit is refused and changes nothing; the sides stay as long as they were, but for rounding."""
    chooser = random.Random(seed)
    for _ in range(20):
        engine = an_engine()
        width, height = chooser.uniform(0.001, 300), chooser.uniform(0.001, 120)
        west, south = chooser.uniform(-180, 180), chooser.uniform(-90, 90 - height)
        east = west + width if west + width <= 180 else west + width - 360
        id_ = engine.subscribe(f"BBOX(place, {west!r}, {south!r}, {east!r}, {south + height!r})")
        for _ in range(30):
            lon, lat = a_place(chooser)
            fits = abs(lat) + height / 2 <= 90 + 1e-9
            before = rows_of(engine, id_)
            if fits:
                engine.move(id_, (lon, lat))
                continue
            with pytest.raises(ExpressionError, match="would be cut at a pole"):
                engine.move(id_, (lon, lat))
            assert_same_bits(rows_of(engine, id_), before)
        engine.move(id_, (0.0, 0.0))
        assert sides(engine, id_) == pytest.approx((-width / 2, -height / 2, width / 2, height / 2), abs=1e-9)


def sides(engine: Engine, id_: int) -> tuple[float, ...]:
    """West, south, east and north of a box around (0, 0)."""
    rows = rows_of(engine, id_)
    (west, south), (east, north) = rows.lo.tolist(), rows.hi.tolist()
    return west, south, east, north


def test_a_box_that_touches_a_pole_may_come_back_to_it() -> None:
    engine = an_engine()
    id_ = engine.subscribe("BBOX(place, 10.0, 80.1, 20.0, 90.0)")
    for _ in range(1000):
        engine.move(id_, (0.0, 1.7))
        engine.move(id_, (15.0, 85.05))
    rows = rows_of(engine, id_)
    assert rows.hi.max() <= 90.0
    assert float(rows.hi[1] - rows.lo[1]) == pytest.approx(9.9, abs=1e-9)
    assert engine.match(Event({}, place=(15.0, 90.0 - 1e-12))) == [(id_, 1.0)]


def test_a_move_that_would_cut_a_box_says_how_far_it_may_go() -> None:
    engine = an_engine()
    id_ = engine.subscribe("BBOX(place, 0, 0, 10, 10)")
    with pytest.raises(
        ExpressionError, match=r"subscription 0: the box on 'place', 10 degrees high.*within 85 degrees"
    ):
        engine.move(id_, (0.0, 89.0))
    assert engine.subscription(id_).expression == "BBOX(place, 0.0, 0.0, 10.0, 10.0)"


def test_a_strip_from_pole_to_pole_moves_east_and_west() -> None:
    engine = an_engine()
    id_ = engine.subscribe("BBOX(place, 0, -90, 10, 90)")
    engine.move(id_, (180.0, 50.0))
    assert engine.subscription(id_).expression == "BBOX(place, 175.0, -90.0, -175.0, 90.0)"


def test_a_box_with_a_gap_has_no_centre() -> None:
    engine = an_engine()
    id_ = engine.subscribe("BBOX(place, 0, 0, 10, 10) AND NOT BBOX(place, 4, -90, 6, 90)")
    with pytest.raises(ExpressionError, match="no single centre"):
        engine.move(id_, (50.0, 50.0))


def test_a_circle_that_went_around_the_poles_holds_what_it_held() -> None:
    engine = an_engine()
    id_ = engine.subscribe("TRUE", place=(10.0, 50.0), radius=1000)
    before = rows_of(engine, id_)
    for place in PLACES:
        engine.move(id_, place)
    engine.move(id_, Point(10.0, 50.0))
    assert_same_bits(rows_of(engine, id_), before)
    assert math.isclose(float(before.weight[-1]), 1000.0)
