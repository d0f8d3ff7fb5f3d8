"""Trackers against a plain model: what an object has entered and left, whatever happens to the subscriptions meanwhile."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from matchwood import Engine, ManualClock
from matchwood.engine.tracking import Track, Tracker
from matchwood.errors import EventError, MatchwoodError, QueryError
from tests.worlds import examples

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
FENCES = ("x < 5", "x > 3", "x BETWEEN 2 AND 6", "S_INTERSECTS(place, POLYGON((0 0, 4 0, 4 4, 0 4, 0 2, 0 0)))")


def an_engine(**options: Any) -> Engine:
    return Engine({"x": "number", "place": "point"}, index="scan", clock=ManualClock(NOON), **options)


def ids(stays: Any) -> list[Any]:
    return [stay.id for stay in stays]


def test_an_object_enters_stays_and_leaves() -> None:
    engine = an_engine()
    engine.subscribe_many(FENCES)
    tracker = engine.tracker()
    first = tracker.track("van", {"x": 4, "place": (1, 1)}, at=NOON)
    second = tracker.track("van", {"x": 1, "place": (2, 2)}, at=NOON + timedelta(seconds=9))
    assert ids(first.entered) == ids(first.inside) == [0, 1, 2, 3]
    assert (ids(second.entered), ids(second.left), ids(second.inside)) == ([], [1, 2], [0, 3])
    assert {stay.since for stay in second.left + second.inside} == {NOON}
    assert ids(tracker.inside("van")) == [0, 3]
    assert tracker.inside("bus") == ()


def test_a_stay_is_reported_as_dwelling_once_with_an_event_or_by_a_sweep() -> None:
    engine = an_engine()
    engine.subscribe("x < 5")
    tracker = engine.tracker(dwell=60)
    for object_ in ("a", "b"):
        assert not tracker.track(object_, {"x": 1}, at=NOON).dwelling
    assert not tracker.track("a", {"x": 1}, at=NOON + timedelta(seconds=59.999999)).dwelling
    assert ids(tracker.track("a", {"x": 1}, at=NOON + timedelta(seconds=60)).dwelling) == [0]
    assert not tracker.track("a", {"x": 1}, at=NOON + timedelta(seconds=61)).dwelling
    (swept,) = tracker.sweep(at=NOON + timedelta(seconds=61))
    assert (swept.object, ids(swept.dwelling), ids(swept.inside)) == ("b", [0], [0])
    assert tracker.sweep(at=NOON + timedelta(seconds=62)) == []


def test_a_stay_that_begins_again_dwells_again() -> None:
    engine = an_engine()
    engine.subscribe("x < 5")
    tracker = engine.tracker(dwell=10)
    found = [
        bool(tracker.track("a", {"x": x}, at=NOON + timedelta(seconds=s)).dwelling)
        for s, x in enumerate([1] * 11 + [9] + [1] * 11)
    ]
    assert [s for s, dwelt in enumerate(found) if dwelt] == [10, 22]


def test_a_late_event_changes_nothing_and_says_so() -> None:
    engine = an_engine()
    engine.subscribe("x < 5")
    tracker = engine.tracker()
    tracker.track("a", {"x": 1}, at=NOON)
    late = tracker.track("a", {"x": 9}, at=NOON - timedelta(microseconds=1))
    assert late.late
    assert (late.entered, late.left, ids(late.inside)) == ((), (), [0])
    assert ids(tracker.track("a", {"x": 9}, at=NOON).left) == [0]  # of two at the same time the later call counts


def test_subscriptions_that_go_end_stays_and_those_that_change_are_left() -> None:
    engine = an_engine()
    removed, paused, expired, updated, kept = engine.subscribe_many(["x < 5"] * 5).tolist()
    engine.set_until(expired, NOON + timedelta(seconds=5))
    tracker = engine.tracker()
    tracker.track("a", {"x": 1})
    engine.unsubscribe(removed)
    engine.pause(paused)
    engine.update(updated, "x > 5")
    engine._clock.advance(seconds=5)  # type: ignore[attr-defined]
    track = tracker.track("a", {"x": 1})
    assert ids(track.left) == [updated]
    assert sorted(ids(track.ended)) == sorted([removed, paused, expired])
    assert ids(track.inside) == [kept]
    engine.resume(paused)
    assert ids(tracker.track("a", {"x": 1}).entered) == [paused]


def test_a_subscriber_that_moves_enters_and_leaves_objects_at_their_next_event() -> None:
    engine = an_engine()
    near = engine.subscribe("DWITHIN(place, POINT(0 0), 10 km)")
    tracker = engine.tracker()
    assert ids(tracker.track("a", {"place": (0, 0)}).entered) == [near]
    engine.move(near, (5, 5))
    assert ids(tracker.track("a", {"place": (0, 0)}).left) == [near]
    assert ids(tracker.track("a", {"place": (5, 5)}).entered) == [near]


def test_silent_objects_are_forgotten() -> None:
    engine = an_engine()
    engine.subscribe("x < 5")
    tracker = engine.tracker(forget=60)
    tracker.track("a", {"x": 1}, at=NOON)
    tracker.track("b", {"x": 1}, at=NOON + timedelta(seconds=30))
    (gone,) = tracker.sweep(at=NOON + timedelta(seconds=60))
    assert (gone.object, ids(gone.ended), len(tracker)) == ("a", [0], 1)
    again = tracker.track("b", {"x": 1}, at=NOON + timedelta(seconds=90))
    assert (ids(again.ended), ids(again.entered), ids(again.left)) == ([0], [0], [])


def test_memory_is_bounded_by_objects_and_by_stays() -> None:
    engine = an_engine()
    engine.subscribe("x < 5")
    tracker = engine.tracker(max_objects=3, dwell=1e9)
    for i in range(5_000):
        tracker.track(i % 5, {"x": i % 2 * 9}, at=NOON + timedelta(seconds=i))
    assert len(tracker) == 3
    assert len(tracker._due) < 1100


def test_a_batch_gives_what_single_calls_give() -> None:
    engine = an_engine()
    engine.subscribe_many(FENCES)
    objects = ["a", "b", "a", "a", "b"]
    events: list[Any] = [{"x": 1}, {"x": 4}, {"x": "old"}, {"x": 9}, {"x": 4}]
    times = [NOON + timedelta(seconds=s) for s in range(5)]
    batch = engine.tracker().track_many(objects, events, at=times)
    single = engine.tracker()
    for e, (object_, event, at) in enumerate(zip(objects, events, times, strict=True)):
        if e == 2:
            assert batch.tracks[e] is None
            with pytest.raises(MatchwoodError, match="expected a number, got 'old'"):
                single.track(object_, event, at=at)
        else:
            assert batch.tracks[e] == single.track(object_, event, at=at)
    assert list(batch.rejected) == [2]
    assert single.track_many([], []).tracks == []


def test_the_state_survives_as_json() -> None:
    engine = an_engine(ids="str")
    engine.subscribe("x < 5", id="low")
    tracker = engine.tracker(dwell=60, forget=600)
    tracker.track("a", {"x": 1}, at=NOON)
    tracker.track(7, {"x": 1}, at=NOON)
    restored = engine.tracker(dwell=60, forget=600)
    restored.restore(json.loads(json.dumps(tracker.to_json())))
    assert restored.to_json() == tracker.to_json()
    assert [track.object for track in restored.sweep(at=NOON + timedelta(seconds=60))] == ["a", 7]
    assert not restored.track("a", {"x": 1}, at=NOON + timedelta(seconds=61)).entered


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"format": 2, "objects": []},
        {"format": 1, "objects": [["a"]]},
        {"format": 1, "objects": [["a", "x", []]]},
        {"format": 1, "objects": [[None, 1.0, []]]},
        {"format": 1, "objects": [["a", 1.0, [[1.5, 2.0, False]]]]},
        None,
        {"format": 1, "objects": [["a", 1e30, []]]},
    ],
)
def test_what_is_no_state_of_a_tracker_is_refused_and_changes_nothing(saved: Any) -> None:
    tracker = an_engine().tracker()
    tracker.track("a", {"x": 1})
    with pytest.raises(EventError, match=r"tracker|object"):
        tracker.restore(saved)
    assert len(tracker) == 1


@pytest.mark.parametrize(
    "options", [{"dwell": 0}, {"dwell": -1.0}, {"forget": 0}, {"max_objects": 0}, {"mode": "most"}]
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="expected"):
        an_engine().tracker(**options)


@pytest.mark.parametrize("object_", [None, "", 1.5, True, ("a",)])
def test_an_object_has_an_id(object_: Any) -> None:
    with pytest.raises(EventError, match="expected the id of an object"):
        an_engine().tracker().track(object_, {"x": 1})


def test_several_threads_may_track() -> None:
    engine = an_engine()
    engine.subscribe("x < 5")
    tracker = engine.tracker(dwell=5)

    def drive(object_: int) -> None:
        for s in range(50):
            tracker.track(object_, {"x": s % 9}, at=NOON + timedelta(seconds=s))

    threads = [threading.Thread(target=drive, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tracker) == 4
    assert len({tuple(tracker.inside(i)) for i in range(4)}) == 1


class Model(RuleBasedStateMachine):
    """A tracker beside sets in plain Python."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = an_engine()
        self.tracker: Tracker = self.engine.tracker(dwell=20, forget=100, max_objects=50)
        self.fences: dict[int, tuple[int, int]] = {}
        self.paused: set[int] = set()
        self.last: dict[str, int] = {}
        self.stays: dict[str, dict[int, int]] = {}
        self.dwelt: dict[str, set[int]] = {}
        self.now = 0

    def at(self, second: int) -> datetime:
        return NOON + timedelta(seconds=second)

    def shown(self, stays: dict[int, int]) -> list[tuple[int, datetime]]:
        return [(id_, self.at(since)) for id_, since in sorted(stays.items(), key=lambda stay: (stay[1], stay[0]))]

    @rule(lo=st.integers(0, 9), width=st.integers(0, 9))
    def subscribe(self, lo: int, width: int) -> None:
        self.fences[self.engine.subscribe(f"x BETWEEN {lo} AND {lo + width}")] = (lo, lo + width)

    @precondition(lambda self: self.fences)
    @rule(data=st.data(), lo=st.integers(0, 9), width=st.integers(0, 9))
    def update(self, data: st.DataObject, lo: int, width: int) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.fences)))
        self.engine.update(id_, f"x BETWEEN {lo} AND {lo + width}")
        self.fences[id_] = (lo, lo + width)

    @precondition(lambda self: self.fences)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.fences)))
        self.engine.unsubscribe(id_)
        del self.fences[id_]
        self.paused.discard(id_)

    @precondition(lambda self: self.fences)
    @rule(data=st.data())
    def pause_or_resume(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.fences)))
        if id_ in self.paused:
            self.engine.resume(id_)
        else:
            self.engine.pause(id_)
        self.paused ^= {id_}

    @rule(object_=st.sampled_from("ab"), x=st.integers(0, 15), second=st.integers(-3, 40))
    def track(self, object_: str, x: int, second: int) -> None:
        second += self.now
        self.now = max(self.now, second)
        found = self.tracker.track(object_, {"x": x}, at=self.at(second))
        before = self.stays.get(object_, {})
        ended: dict[int, int] = {}
        if object_ in self.last and second < self.last[object_]:
            assert found == Track(object_, self.at(second), inside=found.inside, late=True)
            assert list(map(tuple, found.inside)) == self.shown(before)
            return
        if object_ in self.last and second - self.last[object_] >= 100:
            ended, before = before, {}
            self.dwelt[object_] = set()
        active = self.fences.keys() - self.paused
        matched = {id_ for id_ in active if self.fences[id_][0] <= x <= self.fences[id_][1]}
        gone = {id_: since for id_, since in before.items() if id_ not in matched}
        after = {id_: before.get(id_, second) for id_ in matched}
        dwelt = self.dwelt.setdefault(object_, set())
        dwelt.intersection_update(matched)
        dwelling = {id_: s for id_, s in after.items() if second - s >= 20 and id_ not in dwelt}
        dwelt.update(dwelling)
        self.last[object_], self.stays[object_] = second, after
        assert list(map(tuple, found.entered)) == self.shown(dict.fromkeys(matched - before.keys(), second))
        assert list(map(tuple, found.left)) == self.shown({i: s for i, s in gone.items() if i in active})
        assert list(map(tuple, found.inside)) == self.shown(after)
        assert list(map(tuple, found.dwelling)) == self.shown(dwelling)
        others = {i: s for i, s in gone.items() if i not in active}
        assert list(map(tuple, found.ended)) == self.shown(ended) + self.shown(others)
        assert not found.late

    @rule(later=st.integers(0, 60))
    def sweep(self, later: int) -> None:
        self.now += later
        found = self.tracker.sweep(at=self.at(self.now))
        active = self.fences.keys() - self.paused
        dwelling, forgotten = {}, {}
        for object_, stays in self.stays.items():
            reached = {i: s for i, s in stays.items() if self.now - s >= 20 and i not in self.dwelt[object_]}
            reported = {i: s for i, s in reached.items() if i in active}
            if reported:
                dwelling[object_] = self.shown(reported)
            self.dwelt[object_] |= reported.keys()
        for object_ in [o for o in self.last if self.now - self.last[o] >= 100]:
            forgotten[object_] = self.shown(self.stays.pop(object_))
            del self.last[object_], self.dwelt[object_]
        assert {t.object: list(map(tuple, t.dwelling)) for t in found if t.dwelling} == dwelling
        assert {t.object: list(map(tuple, t.ended)) for t in found if not t.dwelling} == forgotten

    @rule()
    def restart(self) -> None:
        saved = json.loads(json.dumps(self.tracker.to_json()))
        self.tracker = self.engine.tracker(dwell=20, forget=100, max_objects=50)
        self.tracker.restore(saved)

    @invariant()
    def the_tracker_counts_its_stays(self) -> None:
        assert self.tracker._stays == sum(len(state.stays) for state in self.tracker._objects.values())
        for object_, stays in self.stays.items():
            assert list(map(tuple, self.tracker.inside(object_))) == self.shown(stays)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(25), stateful_step_count=25, deadline=None)


def test_polygons_and_stays_survive_a_restart_of_a_durable_engine(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "fences", index="scan") as engine:
        fence = engine.subscribe(FENCES[3])
        tracker = engine.tracker()
        tracker.track("a", {"place": (1, 1)}, at=NOON)
        saved = json.dumps(tracker.to_json())
    with Engine.open(tmp_path / "fences", index="scan") as engine:
        assert ids(engine.match({"place": (4, 4)})) == [fence]  # a corner
        assert engine.match({"place": (4, 4.000000000000001)}) == []
        tracker = engine.tracker()
        tracker.restore(json.loads(saved))
        assert ids(tracker.track("a", {"place": (9, 9)}, at=NOON).left) == [fence]
