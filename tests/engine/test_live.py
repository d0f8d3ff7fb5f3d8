"""Live events through the engine: kept until their instant, matched by those who come later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchwood import Engine, Event, ManualClock
from matchwood.errors import EventError, ExpressionError, MatchwoodError, QueryError, UnknownSubscriptionError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.rows import normalise
from matchwood.structures import INDEXES
from tests.worlds import TYPES, a_world, seeded_dice

START = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def after(**duration: float) -> datetime:
    return START + timedelta(**duration)


def test_a_subscriber_whose_time_is_over_hears_of_nothing(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish({"price": 10}, until=after(minutes=1))
    for until in (after(minutes=-1), after(minutes=0)):
        assert engine.subscribe("price > 0", until=until).live == []
    assert engine.subscribe("price > 0", until=after(seconds=1)).live == [(0, 1.0)]


def test_a_late_subscriber_hears_of_the_events_still_alive(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish({"price": 10}, until=after(minutes=1))
    engine.publish({"price": 20}, until=after(minutes=2))
    engine.publish({"price": 30})
    clock.advance(seconds=90)
    assert engine.subscribe("price > 0").live == [(1, 1.0)]


def test_an_expired_event_is_never_delivered_not_even_in_its_last_instant(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish({"price": 10}, until=after(minutes=1))
    clock.advance(seconds=59.999999)
    assert engine.subscribe("price > 0").live == [(0, 1.0)]
    clock.advance(seconds=0.000001)
    assert engine.subscribe("price > 1").live == []


def test_an_event_whose_time_is_over_when_it_comes_is_matched_but_not_kept(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    id_ = engine.subscribe("price > 0")
    assert engine.publish({"price": 5}, until=START) == [(id_, 1.0)]
    assert engine.live(id_) == []


def test_memory_comes_back_though_nobody_subscribes(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    for price in range(200):
        engine.publish({"price": price}, until=after(seconds=1))
    clock.advance(seconds=2)
    for _ in range(30):
        engine.match({"price": 1})
    assert len(engine._live) == 0


def test_publishing_matches_all_or_the_best(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    for weight in (0.5, 2.0, 1.0):
        engine.subscribe(f"price > 0 ^{weight}")
    assert engine.publish({"price": 1}, until=after(hours=1)) == [(1, 2.0), (2, 1.0), (0, 0.5)]
    assert engine.publish({"price": 1}, k=2) == [(1, 2.0), (2, 1.0)]


def test_a_string_that_only_a_live_event_has_is_found_by_a_later_subscriber(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish({"plan": "never heard of"}, until=after(hours=1))
    assert engine.subscribe("plan = 'never heard of'").live == [(0, 1.0)]
    assert engine.subscribe("plan = 'another'").live == []


def test_an_event_keeps_its_own_id_and_may_not_be_there_twice(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish(Event({"price": 1}, id=70, until=after(hours=1)))
    with pytest.raises(EventError, match="70"):
        engine.publish(Event({"price": 2}, id=70, until=after(hours=1)))
    engine.publish({"price": 3}, until=after(hours=1))
    assert engine.subscribe("price > 0").live == [(70, 1.0), (71, 1.0)]


def test_a_retracted_event_is_gone(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish(Event({"price": 1}, id=5, until=after(hours=1)))
    engine.retract(5)
    assert engine.subscribe("price > 0").live == []
    with pytest.raises(EventError, match="5"):
        engine.retract(5)


def test_the_id_of_an_expired_event_is_free_before_it_is_swept(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    for id_ in range(100):
        engine.publish(Event({"price": id_}, id=id_), until=after(minutes=1))
    clock.advance(minutes=1)
    engine.publish(Event({"price": 1}, id=99), until=after(hours=1))
    assert engine.subscribe("price >= 0").live == [(99, 1.0)]


def test_an_expired_event_cannot_be_retracted(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish(Event({"price": 1}, id=5), until=after(minutes=1))
    clock.advance(minutes=1)
    with pytest.raises(EventError, match="event 5 is not alive"):
        engine.retract(5)


@pytest.mark.parametrize("wrong", [1.5, True, "5000", -1, 2**63, None])
def test_an_event_id_that_is_no_whole_number_is_refused(wrong: Any, clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    with pytest.raises(EventError, match="expected an event id that is a whole number"):
        engine.retract(wrong)
    if wrong is not None:
        for until in (None, after(hours=1)):
            with pytest.raises(EventError, match="expected an event id that is a whole number"):
                engine.publish(Event({"price": 1}, id=wrong), until=until)
    assert len(engine._live) == 0


def test_after_the_largest_event_id_there_is_no_next_one_but_others_are_free(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    engine.publish(Event({"price": 1}, id=2**63 - 1), until=after(hours=1))
    with pytest.raises(EventError, match="pass an id that is free"):
        engine.publish({"price": 2}, until=after(hours=1))
    engine.publish(Event({"price": 2}, id=np.int64(7)), until=after(hours=1))
    assert engine.publish({"price": 3}) == []
    assert [event for event, _ in engine.subscribe("price > 0").live] == [7, 2**63 - 1]


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": True}, {"mode": "some"}, {"k": 3, "mode": "some"}])
def test_an_event_that_is_refused_is_not_kept(wrong: Any, clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    with pytest.raises(QueryError):
        engine.publish({"price": 1, "new": "x"}, until=after(hours=1), **wrong)
    assert len(engine._live) == 0
    assert "new" not in engine.schema
    assert engine.subscribe("price > 0").live == []
    engine.publish({"price": 1}, until=after(hours=1))
    assert engine.live(0) == [(0, 1.0)]


@pytest.mark.parametrize("seed", range(3))
def test_live_matches_are_what_the_oracle_says(seed: int, clock: ManualClock) -> None:
    world = a_world(seeded_dice(seed), 40, 40)
    engine = Engine(TYPES, clock=clock)
    for number, event in enumerate(world.events):
        engine.publish(event, until=after(seconds=10 + number))
    clock.advance(seconds=20)
    for priority, expression, _ in world.subscriptions.values():
        live = engine.subscribe(expression, priority=priority).live
        rows = normalise(expression, engine.schema)
        scores = {
            number: judge(rows, event_keys(event, engine.schema), priority=priority).score
            for number, event in enumerate(world.events)
            if number > 10
        }
        expected = [(number, score) for number, score in scores.items() if score is not None]
        assert live == sorted(expected, key=lambda hit: (-hit[1], hit[0]))


def test_live_events_survive_saving(clock: ManualClock, tmp_path: Path) -> None:
    engine = Engine(clock=clock)
    for price in range(50):
        engine.publish({"price": price, "plan": f"plan {price % 3}"}, until=after(minutes=1 + price))
    engine.save(tmp_path / "saved")
    loaded = Engine.load(tmp_path / "saved", clock=clock)
    assert loaded.subscribe("price >= 40 AND plan = 'plan 1'").live == [(40, 2.0), (43, 2.0), (46, 2.0), (49, 2.0)]
    clock.advance(minutes=45)
    assert loaded.subscribe("price >= 40 AND plan = 'plan 1'").live == [(46, 2.0), (49, 2.0)]
    loaded.publish({"price": 45, "plan": "plan 1"}, until=after(hours=2))
    assert loaded.subscribe("price = 45").live == [(45, 1.0), (50, 1.0)]


@pytest.mark.parametrize("index", ["scan", "mo-tree"])
def test_a_subscriber_that_moves_takes_its_circle_along(index: str, clock: ManualClock) -> None:
    if index not in INDEXES:
        pytest.skip("the index is not there")
    engine = Engine(index=index, clock=clock)
    id_ = engine.subscribe("price < 9", place=(-73.98, 40.75), radius=500, priority=2)
    here, there = Event({"price": 1}, place=(-73.981, 40.751)), Event({"price": 1}, place=(-73.90, 40.70))
    assert (engine.match(here), engine.match(there)) == ([(id_, 4.0)], [])
    engine.move(id_, (-73.901, 40.701))
    assert (engine.match(here), engine.match(there)) == ([], [(id_, 4.0)])
    assert engine.subscription(id_).expression == "price < 9 AND DWITHIN(place, POINT(-73.901 40.701), 500.0 m)"


def test_a_box_moves_with_its_extent(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    id_ = engine.subscribe("BBOX(place, 10.0, 40.0, 10.5, 40.25)")
    engine.move(id_, (20.0, 50.0))
    assert engine.match(Event({}, place=(20.25, 50.125))) == [(id_, 1.0)]
    assert engine.match(Event({}, place=(20.26, 50.125))) == []
    assert engine.match(Event({}, place=(10.1, 40.1))) == []


def test_what_has_no_place_cannot_move(clock: ManualClock) -> None:
    engine = Engine(clock=clock)
    with pytest.raises(ExpressionError, match="subscription 0: cannot move: it has no condition on 'place'"):
        engine.move(engine.subscribe("price < 9"), (1.0, 2.0))
    with pytest.raises(ExpressionError, match="no single centre"):
        engine.move(engine.subscribe("NOT DWITHIN(place, POINT(1 2), 5 km)"), (1.0, 2.0))
    with pytest.raises(UnknownSubscriptionError):
        engine.move(99, (1.0, 2.0))
    with pytest.raises(MatchwoodError, match="latitude"):
        engine.move(engine.subscribe("DWITHIN(place, POINT(1 2), 5 km)"), (1.0, 200.0))
