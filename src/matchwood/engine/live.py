"""The live events of an engine: matched by subscriptions that arrive before their `until`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.engine.expiry import Expiry
from matchwood.engine.ids import MAX_ID, event_id
from matchwood.errors import EventError
from matchwood.lang.evaluate import Mode
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


class Live:
    """The live events of an engine and their ids: those given, or numbers in order of publication. One writer.

    An expired event is never returned, not even at its `until`. Its memory is freed by later calls of `expire`.
    """

    def __init__(self, events: LiveEvents, next_id: int = 0) -> None:
        self.next_id = next_id
        self._events = events
        self.expiry = Expiry(self._until_of)
        ids = events.store.ids(events.store.live_slots())
        self.expiry.add(dict(zip(ids.tolist(), self._until_of(ids).tolist(), strict=True)))

    def __len__(self) -> int:
        """The number of events, expired ones that have not been removed yet included."""
        return len(self._events)

    def new_id(self, given: object, now: float) -> int:
        """The id for a new event: the given one, or the next number. The id of an expired event is free."""
        if given is None and self.next_id > MAX_ID:
            raise EventError(f"the largest event id, {MAX_ID}, is in use: pass an id that is free")
        id_ = self.next_id if given is None else event_id(given)
        if self._is_alive(id_, now):
            raise EventError(f"event {id_} is alive already; retract it first, or pass another id")
        return id_

    def add(self, event: Events, id_: int, until: float) -> None:
        """Add one event, given as a batch of one, under an id from `new_id`. O(values)."""
        self.discard(id_)
        self._events.insert(event, np.array([id_], np.int64), np.array([until]))
        self.expiry.add({id_: until})
        self.next_id = max(self.next_id, id_ + 1)

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
        self.discard(id_)

    def discard(self, id_: int) -> None:
        """Remove the event of this id, expired or not, if there is one."""
        ids = np.array([id_], np.int64)
        if self._events.knows(ids)[0]:
            self._events.delete(ids)

    def expire(self, now: float) -> None:
        """Remove events that have expired, once they are a sixteenth of all. O(1) otherwise."""
        enough = min(max(len(self) // EXPIRED_SHARE, 1), EXPIRED_PER_CALL)
        due = self.expiry.due(now, at_least=enough, limit=EXPIRED_PER_CALL)
        if len(due):
            self._events.delete(due)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, for saving."""
        saved = {f"live_{name}": array for name, array in self._events.arrays().items()}
        return {**saved, "live_next": np.array([self.next_id])}

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray], *, like: Callable[[], Sequence[AxisShape]]) -> Live:
        """The live events whose state `arrays` returned. O(events)."""
        prefix = "live_"
        inner = {n.removeprefix(prefix): a for n, a in saved.items() if n.startswith(prefix) and n != "live_next"}
        return cls(LiveEvents.of_arrays(inner, like=like), int(saved["live_next"][0]))

    def _is_alive(self, id_: int, now: float) -> bool:
        until = self._events.until(np.array([id_], np.int64))[0]
        return bool(now < until)

    def _until_of(self, ids: Int64s) -> Float64s:
        until = self._events.until(ids)
        until[until == -np.inf] = np.inf  # unknown
        return until
