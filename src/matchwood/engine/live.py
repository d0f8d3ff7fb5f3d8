"""The live events of an engine: matched by subscriptions that arrive before their `until`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from matchwood.encode.ages import computed_events
from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.encode.derived import merged_events
from matchwood.encode.events import EventReader
from matchwood.encode.live_rows import without_tests
from matchwood.engine.expiry import Expiry
from matchwood.engine.ids import MAX_ID, event_id
from matchwood.engine.waiting import Waiting, WaitingValues
from matchwood.errors import EventError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.evaluate import Mode
from matchwood.planner.planned_events import PlannedEvents
from matchwood.schema import Attribute, Schema
from matchwood.schema.functions import is_derived, is_hidden, source_of
from matchwood.structures.base import AxisShape
from matchwood.structures.live.index import LiveEvents

EXPIRED_PER_CALL = 1024
"""Expired events that a call removes, about: no call pays for all of them when many expire at once."""
EXPIRED_SHARE = 16
"""Expired events are removed when they are 1 / EXPIRED_SHARE of all: to remove them one by one costs several times more."""


class LiveMatch(NamedTuple):
    """A live event that matches a subscription."""

    event: int
    score: float


class SubscriptionId(int):
    """The id of a new subscription: an int with the live events that match the subscription, best first.

    >>> id_ = SubscriptionId(7, [LiveMatch(3, 1.5)])
    >>> id_ == 7, id_.live
    (True, [LiveMatch(event=3, score=1.5)])
    """

    live: list[LiveMatch]

    def __new__(cls, id_: int, live: list[LiveMatch]) -> SubscriptionId:
        made = super().__new__(cls, id_)
        made.live = live
        return made


class SubscriptionName(str):
    """The id of a new subscription whose ids are strings: a str with the live events that match, best first."""

    live: list[LiveMatch]

    def __new__(cls, id_: str, live: list[LiveMatch]) -> SubscriptionName:
        made = super().__new__(cls, id_)
        made.live = live
        return made


class Before(NamedTuple):
    """Live events as they were before a change."""

    ids: Int64s
    events: Events
    until: Float64s
    waiting: dict[int, WaitingValues]


class Live:
    """The live events of an engine and their ids: those given, or numbers in order of publication. One writer.

    An expired event is never returned, not even at its `until`. Its memory is freed by later calls of `expire`.
    """

    def __init__(self, events: LiveEvents, next_id: int = 0, waiting: Waiting | None = None) -> None:
        self.next_id = next_id
        self._events = PlannedEvents(events)
        self._waiting = Waiting() if waiting is None else waiting
        self._before: Before | None = None  # events changed by the current change, which may have to be undone
        self.expiry = Expiry(self._until_of)
        ids = events.ids()
        self.expiry.add(dict(zip(ids.tolist(), self._until_of(ids).tolist(), strict=True)))

    def __len__(self) -> int:
        """The number of events, expired ones that have not been removed yet included."""
        return len(self._events)

    def ids(self) -> Int64s:
        """The ids of all events, ascending, expired ones that have not been removed yet included."""
        return np.sort(self._events.ids())

    def extract_all(self) -> Events:
        """All events as arrays."""
        return self._events.extract(self._events.ids())

    def unknown(self, ids: Int64s) -> Int64s:
        """Those of the ids that no event has, not even an expired one."""
        return ids if self._are_new(ids) else ids[~self._events.knows(ids)]

    def _are_new(self, ids: Int64s) -> bool:
        """Are all ids larger than those of all events so far? O(1) for one."""
        return int(ids[0] if len(ids) == 1 else ids.min(initial=MAX_ID)) >= self.next_id

    def check_id(self, id_: int, now: float, *, replace: bool) -> None:
        """Refuse an id for a new event that is too large, or that of a live event unless it is to be replaced."""
        if id_ > MAX_ID:
            raise EventError(f"the largest event id, {MAX_ID}, is in use: pass an id that is free")
        if id_ < self.next_id and not replace and self._is_alive(id_, now):
            raise EventError(f"event {id_} is alive already; retract it first, pass another id, or replace it")

    def add(self, events: Events, ids: Int64s, until: Float64s, waiting: Sequence[WaitingValues | None]) -> None:
        """Add events under different ids that have been checked, with the values that wait for their attributes. O(values).

        Events that have these ids are replaced.
        """
        if not self._are_new(ids):
            present = ids[self._events.knows(ids)]
            if len(present):
                self._before = self._as_they_are(present)
                self.discard(present)
            self._waiting.discard(ids.tolist())  # of former events, if an exception kept them
        self._events.insert(events, ids, until)
        numbers = ids.tolist()
        for id_, values in zip(numbers, waiting, strict=True):
            self._waiting.add(id_, values)
        self.expiry.add(dict(zip(numbers, until.tolist(), strict=True)))
        self.next_id = max(self.next_id, max(numbers) + 1)

    def _as_they_are(self, ids: Int64s) -> Before:
        waiting = self._waiting.values_of(ids.tolist())
        return Before(ids, self._events.extract(ids), self._events.until(ids), waiting)

    def settle(self, schema: Schema, bad: BadValues) -> None:
        """Make waiting values part of their events where the schema has learnt the types of their attributes, and what is derived
        from their values where it has learnt derived attributes.

        O(1) if it has learnt none; otherwise O(events that wait), for derived attributes O(events).
        """
        names, found = self._waiting.learnt(schema)
        if not names:
            return
        shown = [name for name in names if is_derived(name) and not is_hidden(name)]
        derived = sorted((schema.find(name) for name in shown), key=lambda known: known.dims)
        ids = np.array(sorted(found), np.int64)
        ids = ids[self._events.knows(ids)]
        waiting = ids.tolist()
        if derived and len(self._events):
            ids = np.union1d(ids, self._having([schema.find(source_of(attribute.name)) for attribute in derived]))
        if not len(ids):
            return
        reader = EventReader(schema, register=True, bad=bad)
        for id_ in ids.tolist():
            reader.add(found.get(id_, {}))
        self._before = before = self._as_they_are(ids)
        learnt = [dim for name in names for dim in schema.find(name).dims]
        merged = merged_events(before.events, reader.build(), learnt)
        for attribute in derived:
            computed = computed_events(merged, schema, attribute, register=True)
            merged = merged_events(merged, computed, attribute.dims)
        merged = without_tests(merged, schema)
        self._events.delete(ids)
        self._events.insert(merged, ids, before.until)
        self._waiting.settle(waiting, schema)

    def _having(self, attributes: Sequence[Attribute]) -> Int64s:
        """The ids of the events that have one of the attributes. O(events)."""
        ids = self._events.ids()
        events = self._events.extract(ids)
        wanted = np.array([attribute.dims[0] for attribute in attributes], np.uint16)
        owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
        return ids[np.unique(owner[np.isin(events.dims, wanted)])]

    def keep_settled(self) -> None:
        """The change that `settle` was part of is complete."""
        self._before = None

    def undo_settle(self, mark: int) -> None:
        """Undo `settle` and `add`: the schema is about to forget what it learnt since `mark`. May be repeated."""
        self._waiting.forget_since(mark)
        before = self._before
        if before is None:
            return
        self.discard(before.ids)
        self._events.insert(before.events, before.ids, before.until)
        for id_, values in before.waiting.items():
            self._waiting.add(id_, values)
        self._before = None

    def match(self, rows: Rows, now: float, *, k: int | None, mode: Mode | str, combine: object) -> list[LiveMatch]:
        """The live events that match the one subscription in `rows`: best score first, then smallest id."""
        if not len(self._events):
            return []
        found = self._events.match(rows, now, k=k, mode=mode, combine=combine)
        hits = [LiveMatch(id_, score) for id_, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)]
        return hits if k is not None else sorted(hits, key=lambda hit: (-hit.score, hit.event))

    def remove(self, given: object, now: float) -> None:
        """Remove an event before its time."""
        id_ = event_id(given)
        if not self._is_alive(id_, now):
            raise EventError(f"event {id_} is not alive: it was never kept, has expired, or was retracted")
        self.discard(np.array([id_], np.int64))

    def discard(self, ids: Int64s) -> None:
        """Remove the events of these ids, expired or not, as far as there are any."""
        known = ids[self._events.knows(ids)]
        if len(known):
            self._events.delete(known)
        self._waiting.discard(ids.tolist())

    def is_due(self, now: float) -> bool:
        """Might `expire` have something to do? O(1)."""
        return now >= self.expiry.earliest and self.expiry.is_due(now, at_least=self._enough())

    def _enough(self) -> int:
        return min(max(len(self) // EXPIRED_SHARE, 1), EXPIRED_PER_CALL)

    def expire(self, now: float) -> None:
        """Remove events that have expired, once they are a sixteenth of all. O(1) otherwise."""
        due = self.expiry.due(now, at_least=self._enough(), limit=EXPIRED_PER_CALL)
        if len(due):
            self._waiting.discard(due.tolist())
            self._events.delete(due)

    def prepare_saving(self) -> None:
        """Wait for what `arrays` needs to be compiled. Needs no lock."""
        self._events.prepare()

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, for saving."""
        saved = {f"live_{name}": array for name, array in self._events.arrays().items()}
        return {**saved, "live_next": np.array([self.next_id]), "waiting_values": self._waiting.array()}

    @classmethod
    def of_arrays(
        cls, saved: Mapping[str, np.ndarray], schema: Schema, *, like: Callable[[], Sequence[AxisShape]]
    ) -> Live:
        """The live events whose state `arrays` returned. O(events)."""
        prefix = "live_"
        inner = {n.removeprefix(prefix): a for n, a in saved.items() if n.startswith(prefix) and n != "live_next"}
        waiting = Waiting.of_array(saved["waiting_values"], schema)
        return cls(LiveEvents.of_arrays(inner, like=like), int(saved["live_next"][0]), waiting)

    def _is_alive(self, id_: int, now: float) -> bool:
        until = self._events.until(np.array([id_], np.int64))[0]
        return bool(now < until)

    def _until_of(self, ids: Int64s) -> Float64s:
        until = self._events.until(ids)
        until[until == -np.inf] = np.inf  # unknown
        return until
