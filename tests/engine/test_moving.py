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
from matchwood.structures import INDEXES, Capability

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


@pytest.mark.parametrize("index", ["auto", *(n for n in INDEXES if Capability.UPDATES in INDEXES[n].capabilities)])
def test_moving_many_at_once_gives_what_subscribing_there_gives(index: str) -> None:
    """Subscriptions of one row and of two, circles near and far from poles; one is paused in the second half."""
    chooser = random.Random(index)
    types = {"price": "number", "place": "point"}
    engine, fresh = Engine(types, index=index), Engine(types, index="scan")
    texts = ["price < 7 ^0.5", "price < 2 OR price > 5 ^2", "price IS NOT NULL"]
    asked = [(texts[i % 3], 10 ** chooser.uniform(2, 6)) for i in range(60)]
    ids = engine.subscribe_many(
        [text for text, _ in asked], place=[(10.0, 50.0)] * 60, radius=[radius for _, radius in asked]
    )
    engine.covers("price < 1")
    for step in range(8):
        near = [(chooser.uniform(0, 20), chooser.uniform(40, 60)) for _ in ids]
        there = near if step % 2 else [a_place(chooser) for _ in ids]
        if step == 4:
            engine.pause(3)
        engine.move_many(ids, there)
        fresh.unsubscribe_many(fresh.ids())
        fresh.subscribe_many(
            [text for text, _ in asked], ids=ids.tolist(), place=there, radius=[radius for _, radius in asked]
        )
        if step >= 4:
            fresh.pause(3)
        engine._index.check()
        assert [s.expression for s in engine.subscriptions()] == [s.expression for s in fresh.subscriptions()]
        for place in there[:20]:
            event = Event({"price": chooser.uniform(0, 9)}, place=place)
            assert engine.match(event) == fresh.match(event)
        assert engine.covers(texts[0]).tolist() == fresh.covers(texts[0]).tolist()
        assert engine.reduce().kept.tolist() == fresh.reduce().kept.tolist()


def test_a_subscription_of_several_circles_or_of_the_outside_of_one_is_not_moved() -> None:
    engine = an_engine()
    several = engine.subscribe("DWITHIN(place, POINT(1 1), 9 km) AND DWITHIN(place, POINT(1 1.01), 9 km)")
    outside = engine.subscribe("NOT DWITHIN(place, POINT(1 1), 9 km)")
    usual = engine.subscribe("DWITHIN(place, POINT(1 1), 9 km)")
    for id_ in (several, outside):
        before = rows_of(engine, usual)
        with pytest.raises(ExpressionError, match=rf"subscription {id_}: .*no single centre"):
            engine.move_many([usual, id_], [(2.0, 2.0), (2.0, 2.0)])
        assert_same_bits(rows_of(engine, usual), before)


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
