"""The events a structure keeps, exactly: the owner of `kernels.layout`' arrays, which it grows and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Float64s, Int64s
from matchwood.errors import EventError
from matchwood.store.growth import grown, zeros
from matchwood.store.kernels.rows import EXACT_CLASSES, class_size, size_class
from matchwood.store.pool_check import check_regions, check_table, freed
from matchwood.store.workers import jobs_for, run, run_shares, shares
from matchwood.structures.live.kernels import layout as kernel
from matchwood.structures.live.kernels.layout import Live
from matchwood.structures.live.kernels.values import count_values, list_values
from matchwood.structures.mo_tree.kernels.layout import LINE, NONE

Slots = NDArray[np.uint32]


class EventStore:
    """Events with an id and an `until`, by slot.

    A slot keeps its event until the structure's kernels let it go; then it may be given to another. One writer, no reader
    meanwhile.
    """

    state: Live

    def __init__(self) -> None:
        counts = np.zeros(kernel.COUNTS, np.int64)
        counts[kernel.REGIONS :] = int(kernel.FREE)
        events, table = np.zeros(0, kernel.EVENT), np.full(16, NONE, np.uint32)
        self.state = _live(events, np.zeros(0), table, np.zeros(0, np.uint32), counts)

    def __len__(self) -> int:
        """How many events there are."""
        return int(self.state.counts[kernel.LIVE])

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
        if ids.min(initial=0) < 0:
            raise EventError(f"expected event ids that are not negative, got {ids.min()}")
        if not (ids[1:] > ids[:-1]).all() and len(np.unique(ids)) != len(ids):
            raise EventError("an event id is given twice")
        known = self.knows(ids)
        if known.any():
            raise EventError(f"event {ids[known][0]} is there already")

    def put(self, events: Events, ids: Int64s, until: Float64s) -> Slots:
        """As `add`, under ids that have been checked."""
        slots = np.full(len(ids), NONE, np.uint32)
        self._put_rest(events, ids, until, slots)
        return slots

    def _put_rest(self, events: Events, ids: Int64s, until: Float64s, slots: Slots) -> None:
        """`put` those that have no slot yet."""
        done = 0
        while (done := int(kernel.keep_events(self.state, events, ids, until, done, slots))) < len(ids):
            self.make_room(events, done)

    def put_shared(
        self, events: Events, ids: Int64s, until: Float64s, keep: Callable[[Live, slice, Slots], object], threads: int
    ) -> Slots:
        """`put` by several threads, which call `keep` for parts of the events: with a state of their own, where to keep them,
        and where to say it. There are as many free slots as events (`has_free`).

        What does not fit the region of its slot is kept afterwards, by one thread.
        """
        state, counts, slots = self.state, self.state.counts, np.full(len(ids), NONE, np.uint32)
        first = int(counts[kernel.FREE_SLOTS]) - len(ids)
        parts = shares(len(ids), jobs_for(threads))
        own = [_with_own_free(state, first + part.start, first + part.stop) for part in parts]
        run([partial(keep, live, part, slots) for live, part in zip(own, parts, strict=True)], threads)
        counts[kernel.FREE_SLOTS] = first
        for live in own:
            left = live.free[: live.counts[kernel.FREE_SLOTS]]
            state.free[counts[kernel.FREE_SLOTS] : counts[kernel.FREE_SLOTS] + len(left)] = left
            counts[kernel.FREE_SLOTS] += len(left)
            counts[kernel.LIVE] += live.counts[kernel.LIVE]
            counts[kernel.MOST] = max(counts[kernel.MOST], live.counts[kernel.MOST])
            counts[kernel.ROUGH] |= live.counts[kernel.ROUGH]
        self._put_rest(events, ids, until, slots)
        return slots

    def recount(self) -> None:
        """Count events and free slots anew: an exception may have cut `put_shared` short. O(values)."""
        live, counts = self.live_slots(), self.state.counts.copy()
        free = np.setdiff1d(np.arange(counts[kernel.SLOTS], dtype=np.uint32), live)
        counts[kernel.LIVE], counts[kernel.FREE_SLOTS], counts[kernel.ROUGH] = len(live), len(free), -1
        counts[kernel.MOST] = max(int(counts[kernel.MOST]), int(self.values(live)[0].max(initial=0)))
        self.state = self.state._replace(free=grown(free, len(self.state.events)), counts=counts)

    def has_free(self, many: int) -> bool:
        """Are there so many free slots, and cells of the table?"""
        counts = self.state.counts
        return bool(counts[kernel.FREE_SLOTS] >= many and 2 * (len(self) + many) <= len(self.state.table))

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
        until[slots != NONE] = self.state.keys[self.starts(slots[slots != NONE]) + kernel.UNTIL]
        return until

    def live_slots(self) -> Slots:
        """The slots in use, ascending. O(slots)."""
        used = self.state.events["node"][: self.state.counts[kernel.SLOTS]] != NONE
        return np.flatnonzero(used).astype(np.uint32)

    def expired(self, now: float, limit: int) -> Slots:
        """The slots of those of the next `limit` events, round and round, that have expired. O(limit)."""
        slots = np.empty(max(min(limit, int(self.state.counts[kernel.SLOTS])), 0), np.uint32)
        return slots[: int(kernel.list_expired(self.state, float(now), int(limit), slots))]

    def starts(self, slots: Slots) -> Int64s:
        """Where the regions of these events begin."""
        return self.state.events["start"][slots].astype(np.int64)

    def values(self, slots: Slots) -> tuple[Int64s, NDArray[np.uint16], Float64s]:
        """How many values each of these events has, and the dimensions and (lower) keys of them all. O(values)."""
        sizes = np.empty(len(slots), np.int64)
        count_values(self.state, slots, sizes)
        dims, keys = np.empty(int(sizes.sum()), np.uint16), np.empty(int(sizes.sum()))
        list_values(self.state, slots, dims, keys)
        return sizes, dims, keys

    def reorder(self, order: Slots) -> None:
        """Lay all events out anew, without holes: slot i becomes what order[i] was. For a structure that lets go of every
        slot it knew. O(values)."""
        state, counts = self.state, self.state.counts.copy()
        events, words = zeros(len(order), kernel.EVENT), zeros(int(counts[kernel.KEYS]) + LINE, np.dtype(np.uint64))
        used = int(kernel.lay_out(state, order, events, words))
        end = -(-used // (2 * LINE)) * 2 * LINE
        counts[kernel.SLOTS], counts[kernel.KEYS], counts[kernel.CURSOR] = len(order), end, 0
        counts[kernel.FREE_SLOTS], counts[kernel.REGIONS :] = 0, int(kernel.FREE)
        if used < end:
            words.view(np.int64)[used], counts[kernel.REGIONS + 1] = kernel.FREE, used
        table, free = np.full(len(state.table), NONE, np.uint32), np.zeros(len(events), np.uint32)
        laid_out = _live(events, words[: end + LINE].view(np.float64), table, free, counts)
        kernel.enter_all(laid_out, table)
        self.state = laid_out

    def arrays(self) -> dict[str, np.ndarray]:
        """The state without spare room, for saving. O(1)."""
        state, counts = self.state, self.state.counts
        return {
            "events": state.events[: counts[kernel.SLOTS]],
            "keys": state.keys[: counts[kernel.KEYS] + LINE],
            "table": state.table,
            "free": state.free[: counts[kernel.FREE_SLOTS]],
            "counts": counts,
        }

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray]) -> EventStore:
        """A store over what `arrays` gave."""
        store = cls()
        events, keys, table, counts = (saved[name] for name in ("events", "keys", "table", "counts"))
        store.state = _live(events, keys, table, grown(saved["free"], len(events)), counts)
        return store

    def check(self) -> None:
        """Raise AssertionError if an event cannot be found, or slots, regions and table differ. O(n), in Python: for tests."""
        kept, state = self.live_slots(), self.state
        assert len(kept) == len(self), "live events are miscounted"
        ids = self.ids(kept)
        assert (self._find(ids) == kept).all(), "an event cannot be found, or stands under another's id"
        assert int((state.table != NONE).sum()) == len(kept), "the table and the events differ"
        check_table(state.table, state.words, kernel.WORD_SHIFT)
        self._check_pools(kept)

    def _check_pools(self, kept: Slots) -> None:
        state, counts = self.state, self.state.counts
        free = state.free[: counts[kernel.FREE_SLOTS]]
        assert sorted([*free.tolist(), *kept.tolist()]) == list(range(counts[kernel.SLOTS])), (
            "a slot is lost or doubled"
        )
        regions = []
        for start in self.starts(np.arange(counts[kernel.SLOTS], dtype=np.uint32)).tolist():
            lines, parted = kernel.lines_at(state, start)
            regions.append((start, LINE * int(class_size(size_class(lines)))))
            if parted:
                regions.append((LINE * int(kernel.field_at(state, start)), LINE))
        for class_ in range(kernel.COUNTS - kernel.REGIONS):
            head, size = counts[kernel.REGIONS + class_], LINE * int(class_size(class_))
            regions += freed(head, size, state.words.view(np.int64), int(kernel.FREE))
        check_regions("words", regions, int(counts[kernel.KEYS]))

    def ids(self, slots: Slots) -> Int64s:
        """The ids of the events at these slots."""
        return self.state.words[self.starts(slots) + kernel.ID].astype(np.int64)

    def _find(self, ids: Int64s) -> Slots:
        slots = np.empty(len(ids), np.uint32)
        run_shares(kernel.slots_of_ids, self.state, ids, slots)
        return slots

    def make_room(self, events: Events, done: int) -> None:
        """Room for the rest of the events, and by a quarter at least."""
        state, counts = self.state, self.state.counts
        more = events.size - done
        slots = _enough(len(state.events), int(counts[kernel.SLOTS]) + more)
        keys = _enough(len(state.keys), int(counts[kernel.KEYS]) + _space_needed(events, done) + 64)
        table = state.table
        wanted = 2 * (len(self) + more) + 2
        if wanted > len(table):
            table = np.full(1 << (wanted - 1).bit_length(), NONE, np.uint32)
            kernel.enter_all(state, table)
        events_, free = grown(state.events, slots), grown(state.free, slots)
        self.state = _live(events_, grown(state.keys, keys), table, free, counts)


def _live(events: np.ndarray, keys: np.ndarray, table: np.ndarray, free: np.ndarray, counts: np.ndarray) -> Live:
    views = {"words": keys.view(np.uint64), "halves": keys.view(np.uint32)}
    return Live(events=events, keys=keys, table=table, free=free, counts=counts, **views)


def _with_own_free(state: Live, begin: int, end: int) -> Live:
    """The state for one of several threads: free[begin:end] is all that it may give out, and its counts begin at nothing."""
    counts = np.zeros_like(state.counts)
    counts[kernel.FREE_SLOTS], counts[kernel.REGIONS :] = end - begin, int(kernel.FREE)
    counts[kernel.SLOTS], counts[kernel.KEYS] = len(state.events), len(state.keys)
    return state._replace(free=state.free[begin:end], counts=counts)


def _space_needed(events: Events, done: int) -> int:
    """An upper bound of the words that the regions of events[done:] take, rounding of large ones included."""
    values = int(events.offsets[-1] - events.offsets[done])
    loose = (
        (events.lo != events.hi).any() or (events.weight != 1.0).any() or (events.dims[1:] == events.dims[:-1]).any()
    )
    listed = events.dims.max(initial=0) >= kernel.MASKED
    runs = 4 if loose else 2 if listed else 1
    most = kernel.HEAD + runs * int(np.diff(events.offsets[done:]).max(initial=0)) + LINE
    words = runs * values + (kernel.HEAD + 2 * LINE - 1) * (events.size - done)
    return words if most <= LINE * EXACT_CLASSES else 2 * words


def _enough(size: int, wanted: int) -> int:
    return size if size >= wanted else max(wanted, size + size // 4)
