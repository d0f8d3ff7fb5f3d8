"""The row store: the owner of the arrays of `kernels.rows`, which it grows and checks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import GRADE, Float64s, Int64s, Rows
from matchwood.errors import UnknownSubscriptionError
from matchwood.store.growth import grown, zeros
from matchwood.store.kernels import circles as store_circles
from matchwood.store.kernels import extract as store_extract
from matchwood.store.kernels import priorities as store_priorities
from matchwood.store.kernels import reorder as store_order
from matchwood.store.kernels import rows as kernel
from matchwood.store.kernels.rows import Store
from matchwood.store.pool_check import check_regions, check_table, freed
from matchwood.store.reading import ReadableStore, Slots

_NO_CEILINGS = np.zeros(0, kernel.CEILING)


class RowStore(ReadableStore):
    """Rows by slot, and the slots of each subscription.

    A slot keeps its row until the subscription is removed; then it may be given to another. One writer, no reader meanwhile.
    """

    state: Store

    def __init__(self) -> None:
        counts = np.zeros(kernel.COUNTS, np.int64)
        counts[kernel.REGIONS :] = int(kernel.NONE)
        self.state = _store(np.zeros(0, kernel.ROW), np.zeros(0, kernel.ENTRY), _table(16), counts, _NO_CEILINGS)

    def __len__(self) -> int:
        """How many rows there are."""
        count: int = self.state.counts.item(kernel.LIVE)
        return count

    @property
    def subscriptions(self) -> int:
        count: int = self.state.counts.item(kernel.SUBSCRIPTIONS)
        return count

    @property
    def slots(self) -> int:
        """One more than the largest slot ever given out: the length of an array that is addressed by slot."""
        count: int = self.state.counts.item(kernel.SLOTS)
        return count

    @property
    def dimensions(self) -> int:
        """One more than the largest dimension any row has ever named."""
        count: int = self.state.counts.item(kernel.DIMS)
        return count

    @property
    def nbytes(self) -> int:
        return self.state.nbytes - self.state.heads.nbytes  # which is the memory of the rows

    def add(self, rows: Rows) -> Slots:
        """Add rows of new subscriptions; return the slot of each. O(entries), amortised."""
        self.check_new(rows)
        return self.put(rows)

    def put(self, rows: Rows) -> Slots:
        """As `add`, of rows that have been checked."""
        slots = np.empty(rows.size, np.uint32)
        done = 0
        while (done := int(kernel.add_rows(self.state, rows, done, slots))) < rows.size:
            self.make_room(rows, done)
        return slots

    def slots_of(self, ids: Int64s) -> Slots:
        """The slots of these subscriptions, all of which must be known. O(rows)."""
        slots = self._first_slots(ids)
        if (
            len(slots) == 1
            and (slot := slots.item()) != kernel.NONE
            and self.state.rows["next"].item(slot) == kernel.NONE
        ):
            return slots
        unknown = slots == kernel.NONE
        if unknown.any():
            raise UnknownSubscriptionError(f"subscription {ids[unknown][0]} is not there")
        return self._with_siblings(slots)

    def slots_once(self, ids: Int64s) -> Slots | None:
        """The slot of each of these subscriptions; None if one is unknown, has several rows or is named twice. O(n log n)."""
        slots = self._first_slots(ids)
        if (slots == kernel.NONE).any() or (self.state.rows["next"][slots] != kernel.NONE).any():
            return None
        ascending = (ids[1:] > ids[:-1]).all()
        return slots if ascending or len(np.unique(ids)) == len(ids) else None

    def _first_slots(self, ids: Int64s) -> Slots:
        slots = np.empty(len(ids), np.uint32)
        kernel.first_slots(self.state, ids, slots)
        return slots

    def _with_siblings(self, slots: Slots) -> Slots:
        """The slots of subscriptions whose first ones these are, subscription by subscription. O(rows)."""
        following = self.state.rows["next"]
        owners, levels = [np.arange(len(slots))], [slots]
        while True:
            slots = following[levels[-1]]
            more = np.flatnonzero(slots != kernel.NONE)
            if not len(more):
                break
            owners.append(owners[-1][more])
            levels.append(slots[more])
        return np.concatenate(levels)[np.argsort(np.concatenate(owners), kind="stable")] if owners[1:] else levels[0]

    def remove(self, ids: Int64s) -> None:
        """Remove these subscriptions, each known and named once. O(rows)."""
        kernel.remove_ids(self.state, ids)

    def priorities(self, slots: Slots) -> Float64s:
        """The priorities of the rows at these slots."""
        return self.state.rows["priority"][slots]

    def set_priorities(self, slots: Slots, priorities: Float64s) -> None:
        """Change the priorities of the rows at these slots, in one step. O(entries)."""
        store_priorities.set_priorities(self.state, slots, priorities)

    def by_row(self, slots: Slots, values: Float64s) -> Float64s:
        """A value for each of these rows from one for each of their subscriptions, whose rows are adjacent. O(rows)."""
        if len(slots) == len(values):
            return values
        owners = self.state.rows["id"][slots]
        return np.repeat(values, np.diff(np.flatnonzero(np.diff(owners, prepend=-1, append=-1))))

    def centres(self, slots: Slots, dim: int, lon: Float64s, lat: Float64s) -> tuple[Float64s, Float64s] | None:
        """The centres of the circles on `dim` of these rows; None if `move_circles` cannot move one there. O(entries)."""
        before = np.empty(len(slots)), np.empty(len(slots))
        return before if store_circles.find_circles(self.state, slots, dim, lon, lat, *before) else None

    def move_circles(self, slots: Slots, lon: Float64s, lat: Float64s) -> None:
        """Move the circles of these rows, which have `centres`, in one step. O(entries)."""
        store_circles.move_circles(self.state, slots, lon, lat)

    def reorder(self, order: Slots) -> None:
        """Reorder all rows: slot i becomes what order[i] was. Every slot that an index has kept is invalid then. O(entries)."""
        state = self.state._replace(table=self.state.table.copy(), counts=self.state.counts.copy())
        rows, entries = zeros(len(order), kernel.ROW), zeros(int(state.counts[kernel.ENTRIES]), kernel.ENTRY)
        store_order.reorder(state, order, rows, entries, np.zeros(self.slots, np.uint32))
        ceilings = state.ceilings[order] if len(state.ceilings) else state.ceilings
        self.state = _store(rows, entries[: state.counts[kernel.ENTRIES]], state.table, state.counts, ceilings)

    def knows(self, ids: Int64s) -> NDArray[np.bool_]:
        """Which of these ids have rows here? O(ids)."""
        return np.not_equal(self._first_slots(ids), kernel.NONE)

    def ids(self) -> Int64s:
        """The ids of all subscriptions, ascending. O(n log n)."""
        ids = self.state.rows["id"][: self.slots]
        return np.unique(ids[ids >= 0])

    def live_slots(self) -> Slots:
        """The slots in use, ascending. O(slots)."""
        return np.flatnonzero(self.state.rows["id"][: self.slots] >= 0).astype(np.uint32)

    def extract(self, slots: Slots) -> Rows:
        """The rows at these slots as arrays again, exactly as they were added. O(entries)."""
        slots = np.ascontiguousarray(slots, np.uint32)
        n, size = len(slots), int(store_extract.count_extracted(self.state, slots))
        dims, kinds, lo, hi, weight = (np.empty(size, t) for t in (np.uint16, np.uint8, *3 * [np.float64]))
        rows = Rows(np.empty(n, np.int64), np.empty(n), np.zeros(n + 1, np.int64), dims, kinds, lo, hi, weight)
        store_extract.extract_rows(self.state, slots, rows)
        return rows

    def arrays(self) -> dict[str, np.ndarray]:
        """The state without spare room, for saving. O(1)."""
        state, counts = self.state, self.state.counts
        return {
            "rows": state.rows[: counts[kernel.SLOTS]],
            "entries": state.entries[: counts[kernel.ENTRIES]],
            "table": state.table,
            "free": state.free[: counts[kernel.FREE_SLOTS]],
            "counts": counts,
            "ceilings": state.ceilings[: counts[kernel.SLOTS]],
        }

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray]) -> RowStore:
        """A store over what `arrays` gave."""
        store = cls()
        store.state = _store(saved["rows"], saved["entries"], saved["table"], saved["counts"], saved["ceilings"])
        store.state.free[: len(saved["free"])] = saved["free"]
        return store

    def check(self) -> None:
        """Walk chains, table and free lists and verify the invariants of `kernels.rows`. O(n), in Python: for tests."""
        state, counts = self.state, self.state.counts
        live = self.live_slots()
        assert len(live) == counts[kernel.LIVE], "live rows are miscounted"
        reached: list[int] = []
        cells = np.flatnonzero(state.table != kernel.NONE)
        for at in cells.tolist():
            slot, chain = int(kernel.slot_in(state.table[at])), []
            id_ = int(state.rows[slot]["id"])
            while slot != int(kernel.NONE):
                assert state.rows[slot]["id"] == id_, f"slot {slot} of another subscription is in the chain of {id_}"
                chain.append(slot)
                slot = int(state.rows[slot]["next"])
            flagged = {bool(state.rows[s]["flags"] & kernel.SIBLING) for s in chain}
            assert flagged == {len(chain) > 1}, f"subscription {id_}: wrong sibling flags"
            assert kernel.first_slot(state, id_) == chain[0], f"subscription {id_} cannot be found"
            reached += chain
        assert sorted(reached) == live.tolist(), "chains and live slots differ"
        assert len(cells) == counts[kernel.SUBSCRIPTIONS], "subscriptions are miscounted"
        check_table(state.table, state.heads, kernel.HEAD_SHIFT)
        siblings = state.rows["flags"][live] & kernel.SIBLING
        assert int((siblings > 0).sum()) == counts[kernel.SIBLINGS], "siblings are miscounted"
        self._check_pools(live)
        bounds = ((state.rows["flags"][live] >> 1).astype(np.uint32) << 16).view(np.float32)
        for slot, bound in zip(live.tolist(), bounds.tolist(), strict=True):
            row = state.rows[slot]
            entries = state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]
            largest = row["priority"] + entries["weight"].sum()  # circles weigh nothing there
            assert not bound < largest, f"slot {slot} may score {largest}, more than its bound {bound}"
            if len(state.ceilings):
                ceiling = state.ceilings["full"][slot]
                assert not ceiling < largest, f"slot {slot} may score {largest}, more than its ceiling {ceiling}"

    def _check_pools(self, live: Slots) -> None:
        state, counts = self.state, self.state.counts
        free = state.free[: counts[kernel.FREE_SLOTS]]
        assert sorted([*free.tolist(), *live.tolist()]) == list(range(counts[kernel.SLOTS])), (
            "a slot is neither live nor free, or both"
        )
        regions = [(int(r["start"]), int(r["size"])) for r in state.rows[: self.slots] if r["size"]]
        for class_ in range(kernel.COUNTS - kernel.REGIONS):
            size = class_ if class_ <= kernel.EXACT_CLASSES else 1 << (class_ - kernel.EXACT_CLASSES + 6)
            regions += freed(counts[kernel.REGIONS + class_], size, state.entries["more"])
        check_regions("entries", regions, int(counts[kernel.ENTRIES]))

    def note_dimensions(self, rows: Rows) -> None:
        """Count the dimensions of rows whose entries are written in place."""
        counts = self.state.counts
        counts[kernel.DIMS] = max(int(counts[kernel.DIMS]), int(rows.dims.max(initial=0)) + 1)

    def make_room(self, rows: Rows, done: int) -> None:
        """Make room for all rows, `done` of which are there, by half at least, so that growth is amortised."""
        self._reserve_ids(rows.size - done)
        state, counts = self.state, self.state.counts
        slots = min(_enough(len(state.rows), int(counts[kernel.SLOTS]) + rows.size - done), kernel.MAX_SLOTS)
        entries = _enough(len(state.entries), int(counts[kernel.ENTRIES] + kernel.space_needed(rows, done)))
        rows_, ceilings = grown(state.rows, slots), state.ceilings
        if len(ceilings) or (rows.kinds == GRADE).any():
            ceilings = grown(ceilings, slots)
        self.state = state._replace(
            rows=rows_,
            heads=rows_.view(np.int64),
            entries=grown(state.entries, entries),
            ceilings=ceilings,
            free=grown(state.free, slots),
        )
        if len(ceilings) and not len(state.ceilings):
            kernel.raise_ceilings(self.state, self.live_slots())

    def _reserve_ids(self, more: int) -> None:
        """Room in the table for so many ids more, at half load."""
        wanted = 2 * (self.subscriptions + more) + 2
        if len(self.state.table) < wanted:
            table = _table(1 << (wanted - 1).bit_length())
            kernel.rehash(self.state, table)
            self.state = self.state._replace(table=table)


def set_of(entries: np.ndarray, first: int) -> list[tuple[float, float]]:
    """The intervals of a set whose extras begin at entry `first`. O(n), in Python: for tests."""
    words = entries[first:].view(np.float64)
    number = int(words[0])
    if number < 0:
        return [(float(key), float(key)) for key in words[1 : 1 - number]]
    return [(float(lo), float(hi)) for lo, hi in words[1 : 1 + 2 * number].reshape(-1, 2)]


def bounds_of(entries: np.ndarray, first: int) -> tuple[float, float]:
    """The least and the most of a count whose extras begin at entry `first`. In Python: for tests."""
    words = entries[first:].view(np.float64)
    at = 1 + (-int(words[0]) if words[0] < 0 else 2 * int(words[0]))
    return float(words[at]), float(words[at + 1])


def _store(rows: np.ndarray, entries: np.ndarray, table: np.ndarray, counts: np.ndarray, ceilings: np.ndarray) -> Store:
    """A state with room for as many free slots as there are rows."""
    return Store(
        rows=rows,
        heads=rows.view(np.int64),
        entries=entries,
        ceilings=ceilings,
        table=table,
        free=np.zeros(len(rows), np.uint32),
        counts=counts,
    )


def _table(size: int) -> np.ndarray:
    return np.full(size, kernel.NONE, np.uint32)


def _enough(size: int, wanted: int) -> int:
    return size if size >= wanted else max(wanted, size + size // 2, 64)
