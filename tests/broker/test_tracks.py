"""Tracks against an obvious model, and as deliveries of a tenant: over restarts, pauses, expiry and the limit of matches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood import ManualClock
from matchwood.broker import log
from matchwood.broker.commands import Conditions
from matchwood.broker.tracks import Moved, Stored, Tracks
from matchwood.broker.types import DeliveryOptions, Digest, TenantLimits, Track
from matchwood.engine.records import Notice
from matchwood.errors import QuotaError, RequestError
from tests.broker.tenants import Direct, incoming

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
OPTIONS = {
    "a": Track(object="van"),
    "b": Track(object="van", on=["enter", "exit", "dwell"], dwell=5.0),
    "c": Track(object="van", on=["exit"], forget=8.0),
    "d": Track(object="bike", on=["dwell"], dwell=3.0, forget=20.0),
}
NAMES = sorted(OPTIONS)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("event"),
            st.sampled_from(["van", "bike"]),
            st.sampled_from([1, "1", "x"]),
            st.sets(st.sampled_from(NAMES)),
        ),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 2.5, 9.0])),
        st.tuples(st.just("clear"), st.sampled_from(NAMES)),
        st.tuples(st.just("again")),
    ),
    max_size=40,
)


class Model:
    """The stays of (subscription, object) as begin, last event, was it told as dwelling; everything is looked at each time."""

    def __init__(self) -> None:
        self.stays: dict[tuple[str, Any], list[Any]] = {}

    def told(self, kind: str, stay: tuple[str, Any], silent: bool = False) -> list[tuple[Any, ...]]:
        wanted = kind in OPTIONS[stay[0]].on
        return [(kind, stay[0], stay[1], self.stays[stay][0], silent)] if wanted else []

    def event(self, attribute: str, object_: Any, matched: set[str], now: int) -> list[tuple[Any, ...]]:
        found = []
        for name, track in OPTIONS.items():
            stay = name, object_
            if track.object != attribute:
                continue
            if name in matched and stay not in self.stays:
                self.stays[stay] = [now, now, False]
                found += self.told("enter", stay)
            elif name in matched:
                self.stays[stay][1] = now
            elif stay in self.stays:
                found += self.told("exit", stay)
                del self.stays[stay]
        return found

    def wait(self, now: int) -> list[tuple[Any, ...]]:
        found = []
        for stay, (since, seen, dwelt) in [*self.stays.items()]:
            track = OPTIONS[stay[0]]
            if track.forget is not None and seen + track.forget * SECOND <= now:
                found += self.told("exit", stay, silent=True)
                del self.stays[stay]
            elif track.dwell is not None and not dwelt and since + track.dwell * SECOND <= now:
                found += self.told("dwell", stay)
                self.stays[stay][2] = True
        return found


def shown(notices: list[Notice]) -> set[tuple[Any, ...]]:
    found = [(n.track, n.subscription, n.object, n.since, n.silent) for n in notices]
    assert len(set(found)) == len(found)
    return set(found)


def watched() -> Tracks:
    tracks = Tracks()
    for name, track in OPTIONS.items():
        tracks.watch(name, track)
    return tracks


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_the_notices_are_those_of_the_model(steps: list[tuple[Any, ...]]) -> None:
    tracks, model, now = watched(), Model(), 1000 * SECOND
    rows: dict[tuple[str, Any], Stored] = {}

    def note(moved: Moved) -> list[Notice]:
        rows.update({(one.subscription, one.object): one for one in moved.kept})
        for stay in moved.ended:
            del rows[stay]
        return moved.notices

    for kind, *given_ in steps:
        if kind == "event":
            attribute, object_, matched = given_
            [key] = tracks.objects({attribute: object_})
            scores = dict.fromkeys(sorted(matched), 1.0)
            before = len(tracks)
            entering, leaving = tracks.entering(key, scores), tracks.leaving(key, scores)
            found = shown(note(tracks.move(key, scores, now)))
            assert found == set(model.event(attribute, object_, matched, now))
            assert len(tracks) == before + entering - len(leaving)
        elif kind == "wait":
            now += int(given_[0] * SECOND)
            assert shown([one for moved in tracks.pass_time(now) for one in note(moved)]) == set(model.wait(now))
            due = tracks.next_due()
            assert due is None or due > now
        elif kind == "clear":
            tracks.clear(given_[0])
            for stay in [stay for stay in model.stays if stay[0] == given_[0]]:
                del model.stays[stay], rows[stay]
        else:  # a restart: of silence only the coarse time is known, which the model then takes over
            tracks = watched()
            tracks.restore(rows.values())
            for stay, row in rows.items():
                track = OPTIONS[stay[0]]
                assert 0 <= model.stays[stay][1] - row.seen
                if track.forget is not None:
                    assert model.stays[stay][1] - row.seen <= track.forget * SECOND / 8
                model.stays[stay][1] = row.seen
        assert len(tracks) == len(model.stays) == len(rows)
        for name in NAMES:
            expected = [(stay[1], begun[0]) for stay, begun in model.stays.items() if stay[0] == name]
            assert sorted(tracks.inside(name), key=repr) == sorted(expected, key=repr)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def subscribe(direct: Direct, id_: str, expression: str, track: Track, **more: Any) -> None:
    options = DeliveryOptions(consumer="c", track=track)
    direct.call(direct.tenant.subscribe, {"expression": expression, "id": id_, **more}, options)


def pulled(direct: Direct) -> list[tuple[str, str, Any, Any]]:
    """What the consumer gets: subscription, kind, object and the event; and acknowledges."""
    entries, _ = direct.call(direct.tenant.pull, "stream:c", 100, 10.0)
    made = [entry.delivery() for entry in entries]
    direct.call(direct.tenant.acknowledge, "stream:c", [one.id for one in made])
    decoded = [None if one.event is None else msgspec.json.decode(one.event) for one in made]
    return [(o.subscription, o.track.kind, o.track.object, event) for o, event in zip(made, decoded, strict=True)]


def test_a_consumer_is_told_of_objects_that_enter_and_leave_also_after_a_restart(
    folder: Path, clock: ManualClock
) -> None:
    direct = Direct(folder, clock)
    subscribe(direct, "slow", "speed < 30", Track(object="van"))
    first = {"van": "v1", "speed": 10}
    direct.publish([incoming(first), incoming({"van": "v1", "speed": 20}), incoming({"van": "v2", "speed": 90})])
    assert pulled(direct) == [("slow", "enter", "v1", first)]
    direct.close()
    direct = Direct(folder, clock)
    clock.advance(seconds=3)
    direct.publish([incoming({"van": "v1", "speed": 25})])
    assert pulled(direct) == []
    gone = {"van": "v1", "speed": 31}
    direct.publish([incoming({"speed": 99}), incoming({"van": None, "speed": 99}), incoming(gone)])
    assert pulled(direct) == [("slow", "exit", "v1", gone)]
    streamed = [one for one in direct.streamed if "slow" in one.notices]
    assert [one.notices["slow"].track for one in streamed] == ["exit"]
    logged, _ = log.happenings(direct.tenant._journal, 0, direct.tenant.last)
    assert [n.track for one in logged for n in one.notices.values()] == ["enter", "exit"]
    direct.close()


def test_dwelling_and_silence_are_told_when_time_has_passed(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    subscribe(direct, "slow", "speed < 30", Track(object="van", on=["exit", "dwell"], dwell=60.0, forget=300.0))
    direct.publish([incoming({"van": 7, "speed": 10})])
    clock.advance(seconds=59)
    direct.tenant._commit([])
    assert pulled(direct) == []
    direct.close()
    direct = Direct(folder, clock)
    clock.advance(seconds=1)
    assert direct.tenant._patience() == 0.0
    direct.tenant._commit([])
    assert pulled(direct) == [("slow", "dwell", 7, None)]
    direct.close()
    direct = Direct(folder, clock)
    clock.advance(seconds=239)
    direct.tenant._commit([])
    assert pulled(direct) == []
    clock.advance(seconds=1)
    direct.tenant._commit([])
    [happening] = [one for one in direct.streamed if one.notices]
    assert happening.notices["slow"].silent
    assert pulled(direct) == [("slow", "exit", 7, None)]
    logged, _ = log.happenings(direct.tenant._journal, 0, direct.tenant.last)
    assert [n.track for one in logged for n in one.notices.values()] == ["dwell", "exit"]
    direct.close()


def test_who_is_inside_does_not_depend_on_how_many_get_the_event(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock, TenantLimits(hits=2))
    for number in range(5):
        subscribe(direct, f"s{number}", "speed < 30", Track(object="van"), priority=float(number))
    for k in (1, None, 3):
        [taken] = direct.publish([incoming({"van": "v", "speed": 10})], k)
        assert len(taken.hits) <= 2  # type: ignore[union-attr]
    assert sorted(pulled(direct)) == [(f"s{n}", "enter", "v", {"van": "v", "speed": 10}) for n in range(5)]
    direct.close()


def test_the_stays_of_what_is_paused_removed_or_expired_end_without_notice(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    end = (START + timedelta(seconds=10)).isoformat()
    for id_, more in (("paused", {}), ("removed", {}), ("expired", {"until": end})):
        subscribe(direct, id_, "speed < 30", Track(object="van"), **more)
    inside, outside = incoming({"van": "v", "speed": 10}), incoming({"van": "v", "speed": 50})
    direct.publish([inside])
    assert len(pulled(direct)) == 3
    direct.call(direct.tenant.change, "paused", {"paused": True}, Conditions())
    direct.call(direct.tenant.unsubscribe, "removed", Conditions())
    clock.advance(seconds=11)
    direct.publish([outside])
    assert pulled(direct) == []
    direct.call(direct.tenant.change, "paused", {"paused": False}, Conditions())
    subscribe(direct, "expired", "speed < 30", Track(object="van"))
    direct.publish([inside])
    assert sorted(one[:2] for one in pulled(direct)) == [("expired", "enter"), ("paused", "enter")]
    assert direct.tenant._connection.execute("SELECT count(*) FROM stays").get == 2
    direct.close()


def test_limits_and_contradictions_are_refused(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock, TenantLimits(stays=1))
    subscribe(direct, "s", "speed < 30", Track(object="van"))
    [first, second] = direct.publish([incoming({"van": 1, "speed": 1}), incoming({"van": 2, "speed": 1})])
    assert isinstance(second, QuotaError)
    assert not isinstance(first, QuotaError)
    for track, digest in (
        (Track(object="van", on=["dwell"]), None),
        (Track(object="van", dwell=3.0), None),
        (Track(object="van"), Digest(max=1, period=1.0)),
    ):
        with pytest.raises(RequestError):
            direct.call(
                direct.tenant.subscribe, {"expression": "TRUE", "id": "t"}, DeliveryOptions(track=track, digest=digest)
            )
    direct.close()
