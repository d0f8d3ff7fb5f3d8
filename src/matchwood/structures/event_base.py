"""What a structure of live events is: the protocol of the way back, from a new subscription to the events still alive.

The counterpart of `structures.base`: there rows are kept and queried by events, here events are kept and queried by rows.
`EventIndex` does what all share: the exact event store, the checks of arguments, the store of the querying rows, the growing of
results. A structure adds its own state and what is abstract here.

Threads: as in `structures.base`: one writer alone, or any number of readers (`match`), each with a scratch of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows
from matchwood.encode.picking import pick_groups
from matchwood.errors import EventError, QueryError, UnsupportedError
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.store.kernels.candidates import VERIFIED
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.verify import ALL, ANY
from matchwood.store.row_store import RowStore
from matchwood.structures.base import EVERYTHING, Capability, check_k, has_ranges
from matchwood.structures.live.event_store import EventStore, Slots
from matchwood.structures.repair import Repairable
from matchwood.structures.scratch import Scratch, ScratchPool

SMALL_BATCH = 4096  # rows that are held in a store that stays: to make one takes longer than to answer a row


class Asked(NamedTuple):
    """Subscriptions that look for their live events: subscription s has the rows slots[groups[s] : groups[s + 1]]."""

    store: Any
    """The `RowStore` of the rows; kernels get its state."""
    slots: Slots
    groups: Int64s
    now: float
    mode: int
    combine: object
    k: int
    """How many events each may have; 0 for all."""


class EventIndex(Repairable):
    """Events with an id and an `until` (exclusive), matched against rows that arrive later. See the module's text."""

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING

    def __init__(self) -> None:
        self.store = EventStore()
        self._scratches = ScratchPool()

    # what a structure adds

    @abstractmethod
    def _insert(self, slots: Slots) -> None:
        """Take in events that have just been put into the store."""

    @abstractmethod
    def _delete(self, slots: Slots) -> None:
        """Let go of events, out of the store too."""

    @abstractmethod
    def _answer(self, scratch: Scratch, asked: Asked, first: int, out: Out, ends: Int64s) -> int:
        """Answer the subscriptions from `first` on; return the first not done, because out is full, or their number."""

    @abstractmethod
    def _check(self) -> None:
        """Verify the structure's own invariants; the store has been checked."""

    @abstractmethod
    def _nbytes(self) -> int:
        """The memory of the structure without the store."""

    def _parameters(self) -> dict[str, Any]:
        """The keyword arguments that make a structure like this one."""
        return {}

    def _order(self, rows: Rows, groups: Int64s, mode: int) -> Int64s | None:
        """In which order the subscriptions had better be answered, if it matters."""
        return None

    # what everybody calls

    def insert(self, events: Events, ids: Int64s, until: Float64s) -> None:
        """Keep events under new ids until their `until`, all or (if an id is kept already) none.

        An event whose `until` has passed is never returned; whoever knows the time deletes it.
        """
        self.repair()
        ids, until = np.ascontiguousarray(ids, np.int64), np.ascontiguousarray(until, np.float64)
        if not len(ids) == len(until) == events.size:
            raise QueryError(
                f"expected an id and an until for each of {events.size} events, got {len(ids)}, {len(until)}"
            )
        if Capability.RANGE_EVENTS not in self.capabilities and has_ranges(events):
            self._demand(Capability.RANGE_EVENTS)
        if len(ids):
            self.store.check_new(ids)
            with self._changing():
                self._insert(self.store.put(events, ids, until))

    def delete(self, ids: Int64s) -> None:
        """Remove events by id, all or (if one is not kept) none."""
        self.repair()
        ids = np.ascontiguousarray(ids, np.int64)
        slots = self.store.slots_of(ids)
        if not (ids[1:] > ids[:-1]).all() and len(np.unique(ids)) != len(ids):
            raise EventError("an event is named twice in one delete")
        with self._changing():
            self._delete(slots)

    def knows(self, ids: Int64s) -> NDArray[np.bool_]:
        """Which of these events are kept? O(ids)."""
        return self.store.knows(np.ascontiguousarray(ids, np.int64))

    def until(self, ids: Int64s) -> Float64s:
        """When each of these events expires; -inf of one that is not kept. O(ids)."""
        return self.store.until(np.ascontiguousarray(ids, np.int64))

    def ids(self) -> Int64s:
        """The ids of all events. O(events)."""
        return self.store.ids(self.store.live_slots())

    def extract(self, ids: Int64s) -> Events:
        """These events, which must be known. O(values)."""
        return self.store.extract(self.store.slots_of(np.ascontiguousarray(ids, np.int64)))

    def match(
        self, rows: Rows, now: float, *, k: int | None = None, mode: Mode | str = Mode.ALL, combine: object = None
    ) -> Matches:
        """The live events of each subscription (adjacent rows of one id) with their scores; with k the best, in rank order.

        Ties go to smaller event ids. An event whose `until` is `now` has expired.
        """
        self.repair()
        checked = self._mode(k, mode, combine)
        if not rows.size:
            return Matches(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        heads = np.flatnonzero(np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]]))
        groups = np.append(heads, rows.size).astype(np.int64)
        best = min(int(k), max(len(self), 1)) if k else 0
        scratch = self._scratches.take()
        try:
            small = rows.size <= SMALL_BATCH
            store = scratch.asking if small and not len(scratch.asking) else RowStore()
            if small:
                scratch.asking = store  # another one if an exception has kept rows in the last
            asked = Asked(store, store.add(rows), groups, float(now), checked, combine, best)
            try:
                return self._answered(scratch, rows, asked)
            finally:
                if small:
                    store.remove(rows.ids[heads])
        finally:
            self._scratches.give_back(scratch)

    def _answered(self, scratch: Scratch, rows: Rows, asked: Asked) -> Matches:
        """The answers to rows that are in a store."""
        order, many = self._order(rows, asked.groups, asked.mode), len(asked.groups) - 1
        if order is not None:
            groups, at = pick_groups(asked.groups, order)
            asked = asked._replace(groups=groups, slots=asked.slots[at])
        part = scratch.results.fill(partial(self._answer, scratch, asked), many, least=asked.k)
        return part._replace(order=order).matches()

    def check(self) -> None:
        """Walk the whole structure and raise AssertionError, saying where, if an invariant is broken."""
        self.repair()
        self.store.check()
        self._check()

    @property
    def candidates(self) -> int:
        """How many events have been verified or counted so far."""
        return int(self._scratches.counts[VERIFIED])

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self._nbytes()

    def __len__(self) -> int:
        """How many events are kept, expired ones not yet removed included."""
        return len(self.store)

    def _rebuilt(self) -> Self:
        index = type(self)(**self._parameters())
        index.store = self.store
        if len(self.store):
            index._insert(self.store.live_slots())
        return index

    def _mode(self, k: int | None, mode: Mode | str, combine: object) -> int:
        if k is not None:
            check_k(k)
            self._demand(Capability.TOP_K)
        relaxed = mode_of(mode) is Mode.ANY
        if relaxed:
            self._demand(Capability.ANY)
        if combine is not None:
            self._demand(Capability.SCORING)
        return ANY if relaxed else ALL

    def _demand(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise UnsupportedError(f"{self.name!r} does not offer {capability}; 'live-events' does")
