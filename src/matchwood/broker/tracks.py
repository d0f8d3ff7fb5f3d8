"""Tracks: which objects are inside a subscription, so that it is told when one enters, leaves, or has stayed for long.

An event names its object by an attribute that the subscription chooses. An object is inside while its latest event matches; a
*stay* begins with the event that enters and ends with the first that does not match, or after `forget` seconds without an event.
All state is here, and time is passed in (microseconds since 1970): the same calls give the same notices.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from matchwood.broker.types import Track
from matchwood.engine.records import Notice

ObjectId = str | int
Key = tuple[str, ObjectId]
"""An object: the attribute that names it, and its id."""
_SECOND = 1_000_000
_COARSE = 8
"""The time of the last event of a stay is stored again after this part of `forget`."""
_SPARE = 1024


class Stored(NamedTuple):
    """A stay as it is stored."""

    subscription: str
    object: ObjectId
    since: int
    seen: int
    score: float
    dwelt: bool


@dataclass(slots=True)
class _Stay:
    since: int
    seen: int
    score: float
    dwelt: bool = False
    stored: int = 0
    """`seen` as it is stored."""


class Moved(NamedTuple):
    """What an event, or time, has changed: the notices, the stays to store, and those that ended."""

    notices: list[Notice]
    kept: list[Stored]
    ended: list[tuple[str, ObjectId]]


class Tracks:
    """The stays of all subscriptions that are told of them.

    >>> tracks = Tracks()
    >>> tracks.watch("depot", Track(object="van"))
    >>> [key] = tracks.objects({"van": "v7", "speed": 3})
    >>> [notice.track for notice in tracks.move(key, {"depot": 1.0}, 10).notices]
    ['enter']
    >>> [notice.track for notice in tracks.move(key, {}, 20).notices]
    ['exit']
    """

    def __init__(self) -> None:
        self._watched: dict[str, Track] = {}
        self._attributes: dict[str, set[str]] = {}  # the subscriptions whose objects an attribute names
        self._stays: dict[Key, dict[str, _Stay]] = {}
        self._inside: dict[str, set[Key]] = {}  # the objects inside a subscription
        self._due: list[tuple[int, int, Key, str]] = []  # a heap of (when, number, object, subscription) to look at
        self._pushed = 0
        self._count = 0

    def __len__(self) -> int:
        """The number of stays."""
        return self._count

    def __contains__(self, subscription: object) -> bool:
        """Is it watched?"""
        return subscription in self._watched

    def watch(self, subscription: str, track: Track) -> None:
        """Follow objects through a subscription; its stays go on if the same attribute names them."""
        known = self._watched.get(subscription)
        if known is not None and known.object != track.object:
            self.unwatch(subscription)
        self._watched[subscription] = track
        self._attributes.setdefault(track.object, set()).add(subscription)
        for key in self._inside.get(subscription, ()):
            self._plan(key, subscription)

    def unwatch(self, subscription: str) -> None:
        """Forget a subscription and its stays."""
        track = self._watched.pop(subscription, None)
        if track is None:
            return
        self.clear(subscription)
        users = self._attributes[track.object]
        users.discard(subscription)
        if not users:
            del self._attributes[track.object]

    def clear(self, subscription: str) -> None:
        """End the stays of a subscription, without notices."""
        for key in [*self._inside.get(subscription, ())]:
            self._end(key, subscription)

    def restore(self, stays: Iterable[Stored]) -> None:
        """Take over stays that were stored, of subscriptions that are watched."""
        for one in stays:
            track = self._watched.get(one.subscription)
            if track is not None:
                stay = _Stay(one.since, one.seen, one.score, one.dwelt, one.seen)
                self._begin((track.object, one.object), one.subscription, stay)

    def inside(self, subscription: str) -> list[tuple[ObjectId, int]]:
        """The objects inside a subscription and since when, the longest first."""
        found = [(key[1], self._stays[key][subscription].since) for key in [*self._inside.get(subscription, ())]]
        return sorted(found, key=lambda one: (one[1], str(one[0])))

    def objects(self, values: Mapping[str, Any]) -> list[Key]:
        """The objects that an event names: its text or whole number for each attribute that subscriptions have chosen."""
        if not self._attributes:
            return []
        named = [(name, values.get(name)) for name in self._attributes]
        return [(name, value) for name, value in named if _is_id(value)]

    def entering(self, key: Key, matched: Mapping[str, float]) -> int:
        """How many stays an event of an object would begin."""
        before = self._stays.get(key, {})
        return sum(subscription not in before for subscription in self._attributes[key[0]] & matched.keys())

    def leaving(self, key: Key, matched: Mapping[str, float]) -> list[str]:
        """The subscriptions that an event of an object would leave."""
        return [subscription for subscription in self._stays.get(key, ()) if subscription not in matched]

    def move(self, key: Key, matched: Mapping[str, float], now: int) -> Moved:
        """Take an event of an object that matches these subscriptions, with their scores. O(stays + matches).

        Stays of subscriptions that are gone must have been cleared before.
        """
        made = Moved([], [], [])
        stays = self._stays.get(key, {})
        watching = self._attributes[key[0]]
        few = matched if len(matched) <= len(watching) else [one for one in watching if one in matched]
        for subscription in few:
            if subscription not in watching:
                continue
            track, stay = self._watched[subscription], stays.get(subscription)
            if stay is None:
                stay = _Stay(now, now, matched[subscription], stored=now)
                self._begin(key, subscription, stay)
                made.kept.append(_stored(key, subscription, stay))
                if "enter" in track.on:
                    made.notices.append(_notice("enter", key, subscription, stay))
                continue
            stay.seen = now
            if track.forget is not None and now - stay.stored > track.forget * _SECOND / _COARSE:
                stay.stored = now
                made.kept.append(_stored(key, subscription, stay))
        for subscription in [one for one in stays if one not in matched]:
            self._leave(key, subscription, made)
        return made

    def next_due(self) -> int | None:
        """When `pass_time` may have something to do; None if never."""
        return self._due[0][0] if self._due else None

    def pass_time(self, now: int) -> list[Moved]:
        """What time alone has changed: stays that have lasted `dwell` seconds, and those of objects silent for `forget`."""
        found = []
        while self._due and self._due[0][0] <= now:
            _, _, key, subscription = heapq.heappop(self._due)
            stay, track = self._stays.get(key, {}).get(subscription), self._watched.get(subscription)
            if stay is None or track is None:
                continue  # it has ended
            made = Moved([], [], [])
            if track.forget is not None and stay.seen + track.forget * _SECOND <= now:
                self._leave(key, subscription, made, silent=True)
            elif track.dwell is not None and not stay.dwelt and stay.since + track.dwell * _SECOND <= now:
                stay.dwelt, stay.stored = True, stay.seen
                made.kept.append(_stored(key, subscription, stay))
                made.notices.append(_notice("dwell", key, subscription, stay))
            if made.kept or made.ended:
                found.append(made)
            self._plan(key, subscription)
        return found

    # inside

    def _begin(self, key: Key, subscription: str, stay: _Stay) -> None:
        self._stays.setdefault(key, {})[subscription] = stay
        self._inside.setdefault(subscription, set()).add(key)
        self._count += 1
        self._plan(key, subscription)

    def _leave(self, key: Key, subscription: str, made: Moved, *, silent: bool = False) -> None:
        stay = self._end(key, subscription)
        made.ended.append((subscription, key[1]))
        if "exit" in self._watched[subscription].on:
            made.notices.append(_notice("exit", key, subscription, stay, silent=silent))

    def _end(self, key: Key, subscription: str) -> _Stay:
        stays, inside = self._stays[key], self._inside[subscription]
        stay = stays.pop(subscription)
        inside.discard(key)
        self._count -= 1
        if not stays:
            del self._stays[key]
        if not inside:
            del self._inside[subscription]
        return stay

    def _plan(self, key: Key, subscription: str) -> None:
        """Look at a stay when it can have lasted long enough."""
        stay, track = self._stays.get(key, {}).get(subscription), self._watched.get(subscription)
        if stay is None or track is None:
            return
        times = []
        if track.dwell is not None and not stay.dwelt:
            times.append(stay.since + int(track.dwell * _SECOND))
        if track.forget is not None:
            times.append(stay.seen + int(track.forget * _SECOND))
        if times:
            self._push(min(times), key, subscription)

    def _push(self, when: int, key: Key, subscription: str) -> None:
        self._pushed += 1
        heapq.heappush(self._due, (when, self._pushed, key, subscription))
        if len(self._due) > 2 * self._count + _SPARE:  # most of them have ended
            self._due = []
            for each, stays in self._stays.items():
                for one in stays:
                    self._plan(each, one)


def _is_id(value: object) -> TypeGuard[ObjectId]:
    return (isinstance(value, str) and value != "") or (isinstance(value, int) and not isinstance(value, bool))


def _notice(kind: str, key: Key, subscription: str, stay: _Stay, *, silent: bool = False) -> Notice:
    return Notice(
        subscription=subscription, track=kind, object=key[1], since=stay.since, score=stay.score, silent=silent
    )


def _stored(key: Key, subscription: str, stay: _Stay) -> Stored:
    return Stored(subscription, key[1], stay.since, stay.seen, stay.score, stay.dwelt)
