"""Scan: tests every row. The floor that every other index must beat, and a strong one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from matchwood.encode.arrays import Int64s
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.store.reading import Slots
from matchwood.structures.base import Query
from matchwood.structures.scan.kernels import match as kernel
from matchwood.structures.scan.kernels.match import Columns, ScanScratch
from matchwood.structures.scratch import Scratch
from matchwood.structures.tally import Tallied

MAX_COLUMNS = 8
SAMPLE_ROWS = 20_000  # rows from which the selectivity of dimensions is estimated


class Scan(Tallied):
    """Columns of boxes, scanned block by block; survivors are verified exactly.

    The most selective dimension of a row is in its first column. How selective a dimension is is estimated from the rows: how
    many centres of its intervals an interval of it holds.

    Layout and kernels: `kernels.match`. Positions are packed; the last row takes the position of a deleted one.
    Invariant: every live row has one position, and its boxes contain its exact hulls (`check`).
    Insert and delete O(entries) a row; match O(rows) an event. Any workload, any mode.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7], [0.0], [0, 1], [0], [0], [18.0], [36.0], [0.5])
    >>> scan = Scan.build(rows)
    >>> hits = scan.match(make_events([0, 1, 2], [0, 0], [20.0, 40.0], [20.0, 40.0]))
    >>> hits.offsets.tolist(), hits.ids.tolist(), hits.scores.tolist()
    ([0, 1, 1], [7], [0.5])
    """

    name = "scan"
    _keeps_priorities = False

    def __init__(self) -> None:
        super().__init__()
        self._size = 0
        # By dimension: the share of events expected to pass; the least is tested first.
        self._rank = np.zeros(0, np.float32)
        self._every_rank: np.ndarray | None = None  # the same for all possible dimensions, made when it is needed
        self._columns = _new_columns(2, 0, 0)

    def columns_by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(dims, lo, hi) of every column, positions in the order of the slots: what a scan in another language needs. O(rows)."""
        order = self._columns.positions[self.store.live_slots()]
        dims, lo, hi = (
            np.ascontiguousarray(column[:, order])
            for column in (self._columns.dims, self._columns.lo, self._columns.hi)
        )
        return dims, lo, hi

    def _insert(self, slots: Slots) -> None:
        width = max(len(self._columns.dims), self._width_for(slots))
        if self._size < len(slots) or width > len(self._columns.dims):
            self._lay_out(np.concatenate([self._columns.slots[: self._size], slots]), width)
        else:
            self._place(slots, width)

    def _delete(self, slots: Slots) -> None:
        """The last rows take the positions that become free."""
        columns, size = self._columns, self._size - len(slots)
        freed = columns.positions[slots]
        is_kept = np.ones(len(slots), np.bool_)
        is_kept[freed[freed >= size] - np.uint32(size)] = False
        kept, holes = np.flatnonzero(is_kept) + size, freed[freed < size]
        for column in (columns.dims, columns.lo, columns.hi):
            column[:, holes] = column[:, kept]
        columns.slots[holes] = columns.slots[kept]
        columns.positions[columns.slots[holes]] = holes
        self._size = size

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        state = self._columns, self.store.state, self._size, scratch.own, scratch.work.tally
        return int(kernel.answer_many(*state, query, first, out, ends))

    def _check(self) -> None:
        columns, size = self._columns, self._size
        assert sorted(columns.slots[:size].tolist()) == self.store.live_slots().tolist(), (
            "positions and live rows differ"
        )
        for p in range(size):
            slot = int(columns.slots[p])
            assert columns.positions[slot] == p, f"slot {slot} does not know its position {p}"
            row = self.store.state.rows[slot]
            entries = self.store.state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]
            boxes = {int(e["dim"]): e for e in entries if not e["kind"] & NARROWS and e["kind"] != ABSENT}
            held = [c for c in range(len(columns.dims)) if columns.dims[c, p] < kernel.ALWAYS]
            for c in held:
                entry = boxes.pop(int(columns.dims[c, p]))
                assert columns.lo[c, p] <= entry["lo"], f"slot {slot}: a box begins too late"
                assert columns.hi[c, p] >= entry["hi"], f"slot {slot}: a box ends too early"
            untested = bool(boxes) or any(e["kind"] == ABSENT for e in entries)
            assert untested == (kernel.ALWAYS in columns.dims[:, p]), (
                f"slot {slot}: what no column tests is not marked ALWAYS"
            )

    def _arrays(self) -> dict[str, np.ndarray]:
        # Whole blocks: the kernels read columns 16 lanes at a time, past the last row if need be.
        size = _whole_blocks(self._size)
        columns = {name: getattr(self._columns, name)[:, :size] for name in ("dims", "lo", "hi")}
        return {
            **columns,
            "slots": self._columns.slots[:size],
            "positions": self._columns.positions[: self.store.slots],
            "rank": self._rank,
        }

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._columns = Columns(**{name: saved[name] for name in Columns._fields})
        self._rank, self._every_rank = saved["rank"], None
        self._size = len(self.store)

    def _nodes(self) -> int:
        return _whole_blocks(self._size) // kernel.BLOCK

    def _details(self) -> dict[str, float]:
        return self._tests()

    def _lay_out(self, slots: Slots, width: int) -> None:
        """Rank the dimensions again and place all rows by it. O(entries)."""
        self._rank, self._every_rank = self._ranked(slots), None
        self._size = 0
        self._place(slots, width)

    def _place(self, slots: Slots, width: int) -> None:
        self._reserve(width, self._size + len(slots))
        if self._every_rank is None:
            self._every_rank = np.pad(self._rank, (0, 0x10000 - len(self._rank)), constant_values=np.inf)
        kernel.place_rows(self._columns, self.store.state, self._every_rank, slots, self._size)
        self._size += len(slots)

    def _width_for(self, slots: Slots) -> int:
        rows = self.store.state.rows
        return int(min(MAX_COLUMNS, max(2, rows["count"][slots].max(initial=0))))

    def _reserve(self, width: int, size: int) -> None:
        columns, slots = self._columns, len(self.store.state.rows)
        if columns.dims.shape[0] == width and columns.dims.shape[1] >= size and len(columns.positions) >= slots:
            return
        capacity = max(size, columns.dims.shape[1] * 3 // 2 if columns.dims.shape[1] < size else columns.dims.shape[1])
        grown = _new_columns(width, capacity, slots)
        kept = min(width, columns.dims.shape[0])
        for name in ("dims", "lo", "hi"):
            getattr(grown, name)[:kept, : self._size] = getattr(columns, name)[:kept, : self._size]
        grown.slots[: self._size] = columns.slots[: self._size]
        grown.positions[: len(columns.positions)] = columns.positions
        self._columns = grown

    def _ranked(self, slots: Slots) -> np.ndarray:
        """By dimension, the share of events that is expected to pass one of its intervals. O(sample log sample)."""
        rows = self.store.state.rows[slots[:: -(-len(slots) // SAMPLE_ROWS)]]
        entries = self.store.state.entries[flat_ranges(rows["start"], rows["count"])]
        entries = entries[(entries["kind"] & (ABSENT | NARROWS)) == 0]
        entries = entries[np.argsort(entries["dim"], kind="stable")]
        found, starts = np.unique(entries["dim"], return_index=True)
        rank = np.ones(self.store.dimensions, np.float32)
        for dim, start, stop in zip(found, starts, np.append(starts, len(entries))[1:], strict=True):
            group = entries[start:stop]
            lo, hi = np.clip(group["lo"], -1e300, 1e300), np.clip(group["hi"], -1e300, 1e300)
            centres = np.sort(lo / 2 + hi / 2)
            held = np.searchsorted(centres, hi, "right") - np.searchsorted(centres, lo, "left")
            rank[dim] = held.mean() / len(group)
        return rank

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        held = scratch.own
        if held is None:
            keys = np.full((2, 0x10000), np.nan, np.float32)
            scratch.own = ScanScratch(
                values=scratch.values, lo=keys[0], hi=keys[1], seen=scratch.seen, candidates=scratch.work.counts
            )
        elif held.values is not scratch.values or held.seen is not scratch.seen:
            scratch.own = held._replace(values=scratch.values, seen=scratch.seen)


def _new_columns(width: int, capacity: int, slots: int) -> Columns:
    shape = width, _whole_blocks(capacity)
    dims, lo, hi = np.zeros(shape, np.uint16), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    return Columns(dims=dims, lo=lo, hi=hi, slots=np.zeros(shape[1], np.uint32), positions=np.zeros(slots, np.uint32))


def _whole_blocks(size: int) -> int:
    return -(-size // kernel.BLOCK) * kernel.BLOCK


def flat_ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers of all the ranges start, start + 1, ..., start + count - 1, one range after the other."""
    counts = counts.astype(np.int64)
    firsts = starts.astype(np.int64) - (np.cumsum(counts) - counts)
    return np.repeat(firsts, counts) + np.arange(counts.sum())
