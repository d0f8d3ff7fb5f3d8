"""Live events in the engine: kept until their time is over, matched by the subscriptions that come meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.errors import EventError
from matchwood.lang.evaluate import Mode
from matchwood.schema import describe
from matchwood.structures.base import AxisShape
from matchwood.structures.live.index import LiveEvents

MAX_ID = 2**63 - 1

SWEPT = 16
"""How many kept events each call looks at for expiry, so that memory is freed though no call subscribes or publishes."""


class LiveMatch(NamedTuple):
    """One live event that a subscription matches."""

    event: int
    score: float


class SubscriptionId(int):
    """The id of a new subscription: an int that also knows the live events it matches, best first.

    >>> id_ = SubscriptionId(7, [LiveMatch(3, 1.5)])
    >>> id_ == 7, id_.live
    (True, [LiveMatch(event=3, score=1.5)])
    """

    live: list[LiveMatch]

    def __new__(cls, id_: int, live: list[LiveMatch]) -> SubscriptionId:
        made = super().__new__(cls, id_)
        made.live = live
        return made


def checked_event_id(id_: object) -> int:
    """The id as a whole number that fits; `EventError` for anything else."""
    if isinstance(id_, bool) or not isinstance(id_, int | np.integer) or not 0 <= id_ <= MAX_ID:
        raise EventError(f"expected an event id that is a whole number from 0 to 2^63 - 1, got {describe(id_)}")
    return int(id_)


class Live:
    """The live events of an engine, with ids of their own: the event's, or numbers in order of publication. One writer.

    An expired event is never returned, not even in the instant of its `until`. It is removed when a subscription meets it, or by
    `sweep`, which looks at a few on every call.
    """

    def __init__(self, events: LiveEvents, next_id: int = 0) -> None:
        self._events = events
        self.next_id = next_id

    def __len__(self) -> int:
        return len(self._events)

    def new_id(self, given: object, now: float) -> int:
        """The id for a new event: the one given, or the next number. One that an expired event still has is free."""
        if given is None and self.next_id > MAX_ID:
            raise EventError(f"there is no event id above {MAX_ID}, which is taken: give one that is free")
        id_ = self.next_id if given is None else checked_event_id(given)
        if self._is_alive(id_, now):
            raise EventError(f"event {id_} is alive already; retract it first, or give another id")
        return id_

    def keep(self, event: Events, id_: int, until: float, now: float) -> None:
        """Keep one event, given as a batch of one, under an id that `new_id` gave. O(values)."""
        self.take_back(id_)
        self._events.insert(event, np.array([id_], np.int64), np.array([until]), now=now)
        self.next_id = max(self.next_id, id_ + 1)

    def match(self, rows: Rows, now: float, *, k: int | None, mode: Mode | str, combine: object) -> list[LiveMatch]:
        """The live events that the one subscription in `rows` matches, best score first, then smallest id."""
        if not len(self._events):
            return []
        found = self._events.match(rows, now, k=k, mode=mode, combine=combine)
        hits = [LiveMatch(id_, score) for id_, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)]
        return hits if k is not None else sorted(hits, key=lambda hit: (-hit.score, hit.event))

    def remove(self, given: object, now: float) -> None:
        """Take an event back before its time."""
        id_ = checked_event_id(given)
        if not self._is_alive(id_, now):
            raise EventError(f"event {id_} is not alive: it was never kept, has expired, or was retracted")
        self.take_back(id_)

    def take_back(self, id_: int) -> None:
        """Remove the event of this id, if there is one, alive or expired."""
        ids = np.array([id_], np.int64)
        if self._events.knows(ids)[0]:
            self._events.delete(ids)

    def _is_alive(self, id_: int, now: float) -> bool:
        until = self._events.until(np.array([id_], np.int64))[0]
        return bool(now < until)

    def sweep(self, now: float, limit: int = SWEPT) -> None:
        """Look at a few events and drop those that have expired. O(limit)."""
        if len(self._events):
            self._events.sweep(now, limit)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, for saving."""
        saved = {f"live_{name}": array for name, array in self._events.arrays().items()}
        return {**saved, "live_next": np.array([self.next_id])}

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray], *, like: Callable[[], Sequence[AxisShape]]) -> Live:
        """What `arrays` gave, again."""
        prefix = "live_"
        inner = {n.removeprefix(prefix): a for n, a in saved.items() if n.startswith(prefix) and n != "live_next"}
        return cls(LiveEvents.of_arrays(inner, like=like), int(saved["live_next"][0]))
