"""The events that a structure keeps, exactly: the owner of the arrays of `kernels.layout`, which it grows and checks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Float64s, Int64s
from matchwood.errors import EventError
from matchwood.store.growth import grown, zeros
from matchwood.store.kernels.id_table import NONE
from matchwood.store.kernels.rows import EXACT_CLASSES, class_size, size_class
from matchwood.store.pool_check import check_regions, check_table, freed
from matchwood.structures.live.kernels import layout as kernel
from matchwood.structures.live.kernels.layout import EventArrays, EventCount

Slots = NDArray[np.uint32]


class EventStore:
    """Events with an id and an `until`, by slot. One writer, no reader meanwhile."""

    state: EventArrays

    def __init__(self) -> None:
        counts = np.zeros(kernel.COUNTS, np.int64)
        counts[EventCount.FREE_REGIONS :] = int(kernel.FREE)
        events, table = np.zeros(0, kernel.EVENT), np.full(16, NONE, np.uint32)
        self.state = _state(events, np.zeros(0), table, np.zeros(0, np.uint32), counts)

    def __len__(self) -> int:
        """How many events there are."""
        return int(self.state.counts[EventCount.LIVE])

    @property
    def nbytes(self) -> int:
        state = self.state
        return sum(array.nbytes for array in (state.events, state.keys, state.table, state.free, state.counts))

    def add(self, events: Events, ids: Int64s, until: Float64s) -> Slots:
        """Keep events under new ids, all or (if an id is kept already, or given twice) none; return the slot of each.

        O(entries), amortised.
        """
        self.check_new(ids)
        return self.put(events, ids, until)

    def check_new(self, ids: Int64s) -> None:
        """Refuse ids that are kept already, given twice or negative. O(ids log ids), O(ids) if they ascend."""
        if len(ids) == 1 and ids.item() >= 0 and self._find(ids).item() == NONE:
            return
        if ids.min(initial=0) < 0:
            raise EventError(f"expected event ids that are not negative, got {ids.min()}")
        if not (ids[1:] > ids[:-1]).all() and len(np.unique(ids)) != len(ids):
            raise EventError("an event id is given twice")
        known = self.knows(ids)
        if known.any():
            raise EventError(f"event {ids[known][0]} is there already")

    def put(self, events: Events, ids: Int64s, until: Float64s) -> Slots:
        """As `add`, under ids that have been checked."""
        slots, done = np.empty(len(ids), np.uint32), 0
        while (done := int(kernel.keep_events(self.state, events, ids, until, done, slots))) < len(ids):
            self._make_room(events, done)
        return slots

    def drop(self, slots: Slots) -> None:
        """Remove the events at these slots, each named once. O(slots)."""
        kernel.drop_events(self.state, slots)

    def slots_of(self, ids: Int64s) -> Slots:
        """The slots of these events, all of which must be known. O(ids)."""
        slots = self._find(ids)
        if (slots == NONE).any():
            raise EventError(f"event {ids[slots == NONE][0]} is not there")
        return slots

    def knows(self, ids: Int64s) -> NDArray[np.bool_]:
        """Which of these events are kept? O(ids)."""
        return np.asarray(self._find(ids) != NONE)

    def until(self, ids: Int64s) -> Float64s:
        """When each of these events expires; -inf of one that is not kept. O(ids)."""
        slots, until = self._find(ids), np.full(len(ids), -np.inf)
        until[slots != NONE] = self.state.events["until"][slots[slots != NONE]]
        return until

    def live_slots(self) -> Slots:
        """The slots in use, ascending. O(slots)."""
        used = self.state.events["id"][: self.state.counts[EventCount.SLOTS]] != kernel.FREE
        return np.flatnonzero(used).astype(np.uint32)

    def ids(self, slots: Slots) -> Int64s:
        """The ids of the events at these slots."""
        return self.state.events["id"][slots]

    def values(self, slots: Slots) -> tuple[Int64s, NDArray[np.uint16], Float64s]:
        """How many values each of these events has, and the dimensions and (lower) keys of them all. O(values)."""
        sizes = np.empty(len(slots), np.int64)
        kernel.count_values(self.state, slots, sizes)
        dims, keys = np.empty(int(sizes.sum()), np.uint16), np.empty(int(sizes.sum()))
        kernel.list_values(self.state, slots, dims, keys)
        return sizes, dims, keys

    def extract(self, slots: Slots) -> Events:
        """The events at these slots as arrays again; the values of each by rising dimension. O(values)."""
        sizes, dims, lo = self.values(slots)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        records, hi, weight = self.state.events[slots], lo.copy(), np.ones(len(lo))
        is_general = np.repeat(records["is_general"] != 0, sizes)
        nth = np.arange(len(lo)) - np.repeat(offsets[:-1], sizes)
        at = (np.repeat(records["start"], sizes).astype(np.int64) + kernel.GENERAL_WORDS * nth)[is_general]
        hi[is_general], weight[is_general] = self.state.keys[at + kernel.HI], self.state.keys[at + kernel.WEIGHT]
        return Events(offsets, dims, lo, hi, weight)

    def reorder(self, order: Slots) -> None:
        """Lay out all events anew, without holes: slot i becomes what order[i] was. For a structure that forgets every slot it
        knew. O(values)."""
        state, counts = self.state, self.state.counts.copy()
        events, keys = zeros(len(order), kernel.EVENT), zeros(int(counts[EventCount.KEYS]), np.dtype(np.float64))
        used = int(kernel.lay_out(state, order, events, keys))
        counts[EventCount.SLOTS], counts[EventCount.KEYS] = len(order), used
        counts[EventCount.FREE_SLOTS], counts[EventCount.FREE_REGIONS :] = 0, int(kernel.FREE)
        table, free = np.full(len(state.table), NONE, np.uint32), np.zeros(len(events), np.uint32)
        laid_out = _state(events, keys[:used], table, free, counts)
        kernel.enter_all(laid_out, table)
        self.state = laid_out

    def arrays(self) -> dict[str, np.ndarray]:
        """The state without spare room, for saving. O(1)."""
        state, counts = self.state, self.state.counts
        return {
            "events": state.events[: counts[EventCount.SLOTS]],
            "keys": state.keys[: counts[EventCount.KEYS]],
            "table": state.table,
            "free": state.free[: counts[EventCount.FREE_SLOTS]],
            "counts": counts,
        }

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray]) -> EventStore:
        """A store over what `arrays` gave."""
        store = cls()
        events, keys, table, counts = (saved[name] for name in ("events", "keys", "table", "counts"))
        store.state = _state(events, keys, table, grown(saved["free"], len(events)), counts)
        return store

    def check(self) -> None:
        """Raise AssertionError if an event cannot be found, or slots, regions and table differ. O(n), in Python: for tests."""
        kept, state, counts = self.live_slots(), self.state, self.state.counts
        assert len(kept) == len(self), "live events are miscounted"
        assert (self._find(self.ids(kept)) == kept).all(), "an event cannot be found"
        assert int((state.table != NONE).sum()) == len(kept), "the table and the events differ"
        check_table(state.table, state.heads, kernel.HEAD_SHIFT)
        slots, free = int(counts[EventCount.SLOTS]), state.free[: counts[EventCount.FREE_SLOTS]]
        assert sorted([*free.tolist(), *kept.tolist()]) == list(range(slots)), "a slot is lost or doubled"
        regions = []
        for event in state.events[:slots]:
            mask = int(event["mask"])
            words = kernel.GENERAL_WORDS * mask if event["is_general"] else mask.bit_count()
            regions.append((int(event["start"]), int(class_size(size_class(words)))))
        for class_ in range(kernel.COUNTS - EventCount.FREE_REGIONS):
            head, size = counts[EventCount.FREE_REGIONS + class_], int(class_size(class_))
            regions += freed(head, size, state.links, int(kernel.FREE))
        check_regions("keys", [region for region in regions if region[1]], int(counts[EventCount.KEYS]))

    def _find(self, ids: Int64s) -> Slots:
        slots = np.empty(len(ids), np.uint32)
        kernel.slots_of_ids(self.state, ids, slots)
        return slots

    def _make_room(self, events: Events, done: int) -> None:
        """Room for the rest of the events, and by a quarter at least."""
        state, counts, more = self.state, self.state.counts, events.size - done
        slots = _enough(len(state.events), int(counts[EventCount.SLOTS]) + more)
        keys = _enough(len(state.keys), int(counts[EventCount.KEYS]) + _words_needed(events, done))
        table, wanted = state.table, 2 * (len(self) + more) + 2
        if wanted > len(table):
            table = np.full(1 << (wanted - 1).bit_length(), NONE, np.uint32)
            kernel.enter_all(state, table)
        self.state = _state(
            grown(state.events, slots), grown(state.keys, keys), table, grown(state.free, slots), counts
        )


def _state(
    events: np.ndarray, keys: np.ndarray, table: np.ndarray, free: np.ndarray, counts: np.ndarray
) -> EventArrays:
    return EventArrays(
        events=events,
        heads=events.view(np.int64),
        keys=keys,
        links=keys.view(np.int64),
        table=table,
        free=free,
        counts=counts,
    )


def _words_needed(events: Events, done: int) -> int:
    """An upper bound of the words that the regions of events[done:] take, rounding of large ones included."""
    general = (events.lo != events.hi).any() or (events.weight != 1.0).any() or (events.dims >= kernel.MASKED).any()
    general = general or (events.dims[1:] == events.dims[:-1]).any()  # a list, or the end of one event and the next
    words = kernel.GENERAL_WORDS if general else 1
    longest = words * int(np.diff(events.offsets[done:]).max(initial=0))
    needed = words * int(events.offsets[-1] - events.offsets[done])
    return needed if longest <= EXACT_CLASSES else 2 * needed


def _enough(size: int, wanted: int) -> int:
    return size if size >= wanted else max(wanted, size + size // 4)
