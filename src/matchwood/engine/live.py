"""Live events in the engine: kept until their time is over, matched by the subscriptions that come meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.index.live_events import LiveEvents
from matchwood.lang.evaluate import Mode

SWEPT = 16
"""How many kept events each call looks at for expiry, so that memory comes back though nobody subscribes or publishes."""


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


class Live:
    """The live events of an engine, with ids of their own: the event's, or numbers in order of publication. One writer.

    An expired event is never returned, not even in the instant of its `until`. It is removed when a subscription meets it, or by
    `sweep`, which looks at a few on every call.
    """

    def __init__(self, events: LiveEvents | None = None, next_id: int = 0) -> None:
        self._events = LiveEvents() if events is None else events
        self.next_id = next_id

    def __len__(self) -> int:
        return len(self._events)

    def keep(self, event: Events, id_: int | None, until: float, now: float) -> None:
        """Keep one event, given as a batch of one, under its id or a new one. O(values)."""
        id_ = self.next_id if id_ is None else id_
        self._events.insert(event, np.array([id_], np.int64), np.array([until]), now=now)
        self.next_id = max(self.next_id, id_ + 1)

    def match(self, rows: Rows, now: float, *, k: int | None, mode: Mode | str, combine: object) -> list[LiveMatch]:
        """The live events that the one subscription in `rows` matches, best score first, then smallest id."""
        if not len(self._events):
            return []
        found = self._events.match(rows, now, k=k, mode=mode, combine=combine)
        hits = [LiveMatch(id_, score) for id_, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)]
        return hits if k is not None else sorted(hits, key=lambda hit: (-hit.score, hit.event))

    def remove(self, id_: int) -> None:
        """Take an event back before its time."""
        self._events.delete(np.array([id_], np.int64))

    def sweep(self, now: float, limit: int = SWEPT) -> None:
        """Look at a few events and drop those that have expired. O(limit)."""
        if len(self._events):
            self._events.sweep(now, limit)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, for saving."""
        saved = {f"live_{name}": array for name, array in self._events.arrays().items()}
        return {**saved, "live_next": np.array([self.next_id])}

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray]) -> Live:
        """What `arrays` gave, again."""
        prefix = "live_"
        inner = {n.removeprefix(prefix): a for n, a in saved.items() if n.startswith(prefix) and n != "live_next"}
        return cls(LiveEvents.of_arrays(inner), int(saved["live_next"][0]))
