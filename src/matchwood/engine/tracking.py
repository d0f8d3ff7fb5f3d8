"""Tracking: which subscriptions an identified object has entered and left since its last event.

An object is inside a subscription while its latest event matches it. A *stay* begins with the event that enters and ends with the
first that does not match. The subscriptions are those of any engine; geofences are the usual ones.

    tracker = engine.tracker(dwell=300, forget=3600)
    track = tracker.track("courier-7", {"place": (4.35, 50.85)})
    track.entered, track.left, track.inside, track.dwelling

State     for each object the time of its latest event, and of each stay its begin and whether it was reported as dwelling
Memory    `max_objects` objects; past that the one that has been silent longest is forgotten
Threads   calls may come from several threads. Events are matched in parallel; of one object the latest event counts
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from matchwood.engine.ids import Id
from matchwood.engine.reading import AnyEvent
from matchwood.errors import EventError, MatchwoodError, QueryError
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.schema import describe, instant_key

if TYPE_CHECKING:
    from matchwood.engine.engine import Engine

ObjectId = str | int
MAX_OBJECTS = 1_000_000
_SECOND = 1e6  # keys of instants are microseconds
_FORMAT = 1
_SPARE = 1024
"""Entries of the heap that may be stale beyond one for each stay."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stay(NamedTuple):
    """A subscription that an object is or was inside, and since when."""

    id: Id
    since: datetime


@dataclass(frozen=True, slots=True)
class Track:
    """What an event, or the time that passed, changed for an object. Stays are in the order of their begin, then of their id."""

    object: ObjectId
    at: datetime
    entered: tuple[Stay, ...] = ()
    """Stays that begin with this event."""
    left: tuple[Stay, ...] = ()
    """Stays that end with this event: their subscriptions no longer match the object."""
    inside: tuple[Stay, ...] = ()
    """All stays after this event, those that it begins included."""
    dwelling: tuple[Stay, ...] = ()
    """Stays that have now lasted `dwell` seconds; each is reported once."""
    ended: tuple[Stay, ...] = ()
    """Stays that ended otherwise: the subscription was removed or paused or has expired, or the object was forgotten."""
    late: bool = False
    """Is the event older than the latest one of the object? Then it changes nothing."""


class TrackedMany(NamedTuple):
    """The tracks of a batch: one for each event, None for those that `rejected` lists by position, with their errors."""

    tracks: list[Track | None]
    rejected: Mapping[int, MatchwoodError]


@dataclass(slots=True)
class _Object:
    at: float
    stays: dict[Id, float] = field(default_factory=dict)
    dwelt: set[Id] = field(default_factory=set)


class Tracker:
    """Follows objects through the subscriptions of an engine; made by `Engine.tracker`."""

    def __init__(
        self,
        engine: Engine,
        *,
        dwell: float | None = None,
        forget: float | None = None,
        max_objects: int = MAX_OBJECTS,
        mode: Mode | str = Mode.ALL,
    ) -> None:
        for name, seconds in (("dwell", dwell), ("forget", forget)):
            if seconds is not None and (isinstance(seconds, bool) or not 0.0 < seconds < math.inf):
                raise QueryError(f"expected {name} in seconds, above 0, got {describe(seconds)}")
        if isinstance(max_objects, bool) or not isinstance(max_objects, int) or max_objects < 1:
            raise QueryError(f"expected max_objects of at least 1, got {describe(max_objects)}")
        self._engine = engine
        self._dwell = math.inf if dwell is None else dwell * _SECOND
        self._forget = math.inf if forget is None else forget * _SECOND
        self._max_objects = max_objects
        self._mode = mode_of(mode)
        self._objects: OrderedDict[ObjectId, _Object] = OrderedDict()  # the longest silent one first
        self._stays = 0  # of all objects
        self._due: list[
            tuple[float, int, ObjectId, Id]
        ] = []  # a heap of (when it has lasted `dwell`, number, object, id)
        self._pushed = 0
        self._lock = Lock()

    def __len__(self) -> int:
        """The number of objects that are followed. O(1)."""
        return len(self._objects)

    def track(self, object: ObjectId, event: AnyEvent, *, at: datetime | str | None = None) -> Track:
        """Match the event of an object and report what has changed since its last one. `at` is when it happened, by default now.

        An event that is older than the latest one of the object changes nothing and is marked `late`. Cost: that of `match`, and
        O(stays).

        >>> from datetime import UTC, datetime
        >>> from matchwood import Engine, ManualClock
        >>> engine = Engine(clock=ManualClock(datetime(2026, 5, 1, tzinfo=UTC)))
        >>> depot = engine.subscribe("S_INTERSECTS(place, POLYGON((0 0, 2 0, 2 2, 0 0)))")
        >>> tracker = engine.tracker()
        >>> tracker.track("courier-7", {"place": (1, 0.5)}).entered
        (Stay(id=0, since=datetime.datetime(2026, 5, 1, 0, 0, tzinfo=datetime.timezone.utc)),)
        >>> [stay.id for stay in tracker.track("courier-7", {"place": (5, 5)}).left]
        [0]
        """
        _check_object(object)
        moment = self._moment(at)
        found = self._engine.match(event, mode=self._mode)
        with self._lock:
            return self._moved(object, found.ids.tolist(), moment)

    def track_many(
        self,
        objects: Sequence[ObjectId],
        events: Sequence[AnyEvent],
        *,
        at: datetime | str | Iterable[datetime | str | None] | None = None,
    ) -> TrackedMany:
        """As `track` for a batch, one event after the other; an object may occur several times. `at` is one for all, or one each.

        All events are matched against the subscriptions of one moment, on all cores.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe("speed > 100")
        >>> tracks = engine.tracker().track_many(["a", "b"], [{"speed": 120}, {"speed": 80}]).tracks
        >>> [len(track.entered) for track in tracks]
        [1, 0]
        """
        objects, events = list(objects), list(events)
        moments = self._moments(at, len(events))
        if len(objects) != len(events):
            raise EventError(f"expected an object for each of {len(events)} events, got {len(objects)}")
        for each in objects:
            _check_object(each)
        found = self._engine.match_many(events, mode=self._mode)
        ids, offsets = found.ids.tolist(), found.offsets.tolist()
        tracks: list[Track | None] = []
        with self._lock:
            for e, (each, moment) in enumerate(zip(objects, moments, strict=True)):
                matched = ids[offsets[e] : offsets[e + 1]]
                tracks.append(None if e in found.rejected else self._moved(each, matched, moment))
        return TrackedMany(tracks, found.rejected)

    def sweep(self, *, at: datetime | str | None = None) -> list[Track]:
        """What time alone has changed: objects whose stays have lasted `dwell` seconds, and those that are forgotten now after
        `forget` seconds of silence, whose stays have ended. Call it as often as you want to know. O(objects).

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe("speed > 100")
        >>> tracker = engine.tracker(dwell=60, forget=600)
        >>> _ = tracker.track("a", {"speed": 120}, at="2026-05-01T12:00:00Z")
        >>> [track.object for track in tracker.sweep(at="2026-05-01T12:01:00Z") if track.dwelling]
        ['a']
        >>> [track.object for track in tracker.sweep(at="2026-05-01T12:10:00Z") if track.ended]
        ['a']
        """
        now = self._moment(at)
        with self._lock:
            tracks = self._dwelling_by(now)
            silent = [object_ for object_, state in self._objects.items() if now - state.at >= self._forget]
            return tracks + [Track(object_, _instant(now), ended=self._dropped(object_)) for object_ in silent]

    def inside(self, object: ObjectId) -> tuple[Stay, ...]:
        """The stays of an object after its latest event; none if it is not known. O(stays)."""
        with self._lock:
            state = self._objects.get(object)
            return _stays(state.stays) if state is not None else ()

    def forget(self, object: ObjectId) -> tuple[Stay, ...]:
        """Forget an object; return its stays. Its next event enters anew. O(stays)."""
        with self._lock:
            return self._dropped(object) if object in self._objects else ()

    def to_json(self) -> dict[str, Any]:
        """The state as a value for `json.dumps`, for `restore`. O(stays).

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe("speed > 100")
        >>> tracker = engine.tracker()
        >>> _ = tracker.track("a", {"speed": 120}, at="2026-05-01T12:00:00Z")
        >>> restarted = engine.tracker()
        >>> restarted.restore(tracker.to_json())
        >>> restarted.track("a", {"speed": 120}).entered
        ()
        """
        with self._lock:
            objects = [
                [object_, state.at, [[id_, since, id_ in state.dwelt] for id_, since in state.stays.items()]]
                for object_, state in self._objects.items()
            ]
        return {"format": _FORMAT, "objects": objects}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over the state that `to_json` gave, in place of this tracker's own; `EventError` if it is not one."""
        objects: OrderedDict[ObjectId, _Object] = OrderedDict()
        try:
            if saved["format"] != _FORMAT:
                raise EventError(
                    f"expected the state of a tracker in format {_FORMAT}, got {describe(saved['format'])}"
                )
            for object_, at, stays in saved["objects"]:
                _check_object(object_)
                begun = {_checked_id(id_): _checked_key(since) for id_, since, _ in stays}
                objects[object_] = _Object(_checked_key(at), begun, {id_ for id_, _, dwelt in stays if dwelt})
        except (KeyError, TypeError, ValueError, OverflowError):
            raise EventError(f"expected the state of a tracker, as to_json() gives it, got {describe(saved)}") from None
        ordered = OrderedDict(sorted(objects.items(), key=lambda item: item[1].at))
        with self._lock:
            self._objects = ordered
            self._stays = sum(len(state.stays) for state in ordered.values())
            self._list_due()

    # inside

    def _moved(self, object_: ObjectId, matched: list[Id], moment: float) -> Track:
        """The track of an object whose event matched these subscriptions."""
        at = _instant(moment)
        state = self._objects.get(object_)
        if state is not None and moment < state.at:
            return Track(object_, at, inside=_stays(state.stays), late=True)
        ended: tuple[Stay, ...] = ()
        if state is not None and moment - state.at >= self._forget:
            ended, state = self._dropped(object_), None
        if state is None:
            state = self._objects[object_] = _Object(moment)
        before, state.at = state.stays, moment
        state.stays = {id_: before.get(id_, moment) for id_ in matched}
        state.dwelt.intersection_update(state.stays)
        self._stays += len(state.stays) - len(before)
        self._objects.move_to_end(object_)
        gone = {id_: since for id_, since in before.items() if id_ not in state.stays}
        left, removed = self._parted(gone) if gone else ({}, {})
        entered = {id_: moment for id_ in matched if id_ not in before}
        for id_ in entered:
            self._note_due(object_, id_, moment)
        dwelling = {} if self._dwell == math.inf else self._dwelling_of(state, moment)
        while len(self._objects) > self._max_objects:
            self._dropped(next(iter(self._objects)))
        return Track(
            object_,
            at,
            entered=_stays(entered),
            left=_stays(left),
            inside=_stays(state.stays),
            dwelling=_stays(dwelling),
            ended=ended + _stays(removed),
        )

    def _parted(self, gone: dict[Id, float]) -> tuple[dict[Id, float], dict[Id, float]]:
        """Stays that ended: those whose subscription is still matched, and those whose is not."""
        left: dict[Id, float] = {}
        removed: dict[Id, float] = {}
        for id_, since in gone.items():
            (left if self._engine._is_active(id_) else removed)[id_] = since
        return left, removed

    def _dwelling_of(self, state: _Object, now: float) -> dict[Id, float]:
        """The stays of an object that have lasted long enough and were not reported; they are now."""
        found = {
            id_: since for id_, since in state.stays.items() if now - since >= self._dwell and id_ not in state.dwelt
        }
        state.dwelt.update(found)
        return found

    def _dwelling_by(self, now: float) -> list[Track]:
        found: dict[ObjectId, dict[Id, float]] = {}
        paused = []
        while self._due and self._due[0][0] <= now:
            entry = heapq.heappop(self._due)
            due, _, object_, id_ = entry
            state = self._objects.get(object_)
            if state is None or state.stays.get(id_, math.inf) + self._dwell != due or id_ in state.dwelt:
                continue  # it ended, or was reported with an event
            if self._engine._is_active(id_):
                state.dwelt.add(id_)
                found.setdefault(object_, {})[id_] = state.stays[id_]
            else:
                paused.append(entry)
        for entry in paused:
            heapq.heappush(self._due, entry)
        at = _instant(now)
        return [
            Track(object_, at, inside=_stays(self._objects[object_].stays), dwelling=_stays(stays))
            for object_, stays in found.items()
        ]

    def _note_due(self, object_: ObjectId, id_: Id, since: float) -> None:
        if self._dwell == math.inf:
            return
        self._pushed += 1
        heapq.heappush(self._due, (since + self._dwell, self._pushed, object_, id_))
        if len(self._due) > 2 * self._stays + _SPARE:  # most of them have ended
            self._list_due()

    def _list_due(self) -> None:
        """Make the heap again, of the stays that there are."""
        due = [
            (since + self._dwell, object_, id_)
            for object_, state in self._objects.items()
            for id_, since in state.stays.items()
            if id_ not in state.dwelt
        ]
        self._due = [(when, number, object_, id_) for number, (when, object_, id_) in enumerate(due)]
        self._pushed = len(due)
        heapq.heapify(self._due)

    def _dropped(self, object_: ObjectId) -> tuple[Stay, ...]:
        """Forget an object; return its stays."""
        state = self._objects.pop(object_)
        self._stays -= len(state.stays)
        return _stays(state.stays)

    def _moment(self, at: datetime | str | None) -> float:
        return instant_key(self._engine._clock() if at is None else at)

    def _moments(self, at: Any, count: int) -> list[float]:
        if at is None or isinstance(at, str | datetime):
            return [self._moment(at)] * count
        moments = [self._moment(each) for each in at]
        if len(moments) != count:
            raise EventError(f"expected a time for each of {count} events, got {len(moments)}")
        return moments


def _stays(stays: Mapping[Id, float]) -> tuple[Stay, ...]:
    """In the order of their begin, then of their id."""
    if not stays:
        return ()
    ordered = sorted(stays.items(), key=lambda stay: (stay[1], stay[0]))  # the ids of an engine are all of one type
    return tuple([Stay(id_, _instant(since)) for id_, since in ordered])


def _instant(key: float) -> datetime:
    return _EPOCH + timedelta(microseconds=key)


def _check_object(object_: object) -> None:
    if isinstance(object_, bool) or not isinstance(object_, str | int) or object_ == "":
        raise EventError(f"expected the id of an object, a string or a whole number, got {describe(object_)}")


def _checked_id(id_: object) -> Id:
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise ValueError(id_)
    return id_


def _checked_key(key: object) -> float:
    if isinstance(key, bool) or not isinstance(key, int | float) or not math.isfinite(key):
        raise ValueError(key)
    _instant(float(key))
    return float(key)
