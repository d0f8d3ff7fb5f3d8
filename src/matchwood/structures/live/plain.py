"""Live events in plain arrays, matched by a scan the other way round: no kernels but those of `scan`.

They serve while the kernels of `LiveEvents` are not compiled. Answers are the same, to the bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows, concatenate_events, make_events
from matchwood.errors import EventError
from matchwood.lang.evaluate import Mode
from matchwood.structures.base import check_k
from matchwood.structures.scan.index import Scan

_UNKNOWN = -np.inf, None


class PlainEvents:
    """Events with an id and an `until`. As `LiveEvents`, but a match is of one subscription and takes O(events)."""

    def __init__(self) -> None:
        self._events: dict[int, tuple[float, Events]] = {}
        self._batch: Events | None = None  # all events, in the order of the dictionary; None after a change

    def __len__(self) -> int:
        return len(self._events)

    def insert(self, events: Events, ids: Int64s, until: Float64s) -> None:
        """Add events under new ids. O(values)."""
        known = self.knows(ids)
        if known.any():
            raise EventError(f"event {ids[known][0]} is there already")
        self._batch = None
        for at, (id_, end) in enumerate(zip(ids.tolist(), until.tolist(), strict=True)):
            self._events[id_] = end, make_events(*(np.array(column) for column in events.take(at, at + 1)))

    def delete(self, ids: Int64s) -> None:
        """Remove events, all of which must be known."""
        if not self.knows(ids).all():
            raise EventError(f"event {ids[~self.knows(ids)][0]} is not there")
        self._batch = None
        for id_ in ids.tolist():
            self._events.pop(id_, None)

    def knows(self, ids: Int64s) -> NDArray[np.bool_]:
        """Which of these events are kept? O(ids)."""
        return np.array([id_ in self._events for id_ in ids.tolist()], np.bool_)

    def until(self, ids: Int64s) -> Float64s:
        """When each of these events expires; -inf of one that is not kept. O(ids)."""
        return np.array([self._events.get(id_, _UNKNOWN)[0] for id_ in ids.tolist()], np.float64)

    def ids(self) -> Int64s:
        """The ids of all events. O(events)."""
        return np.array([*self._events], np.int64)

    def extract(self, ids: Int64s) -> Events:
        """These events, which must be known. O(values)."""
        return concatenate_events([self._events[id_][1] for id_ in ids.tolist()])

    def match(
        self, rows: Rows, now: float, *, k: int | None = None, mode: Mode | str = Mode.ALL, combine: object = None
    ) -> Matches:
        """The events alive that match the one subscription in `rows`: best score first, then smallest id. O(events)."""
        if k is not None:
            check_k(k)
        events, ids, until = self.all()
        found = Scan.build(rows).match(events, mode=mode, combine=combine)
        hit = np.repeat(np.arange(len(ids)), np.diff(found.offsets))
        alive = until[hit] > now
        hit_ids, scores = ids[hit[alive]], found.scores[alive]
        order = np.lexsort((hit_ids, -scores))[:k]
        return Matches(np.array([0, len(order)]), hit_ids[order], scores[order])

    def all(self) -> tuple[Events, Int64s, Float64s]:
        """All events, their ids, and when they expire. O(values) after a change."""
        if self._batch is None:
            self._batch = concatenate_events([event for _, event in self._events.values()])
        until = [end for end, _ in self._events.values()]
        return self._batch, np.array([*self._events], np.int64), np.array(until, np.float64)
