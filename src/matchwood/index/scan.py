"""Scan: looks at every row. The floor that every other index must beat, and a strong one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from matchwood.encode.arrays import Events, Int64s
from matchwood.index.protocol import Index
from matchwood.index.row_store import Slots
from matchwood.kernels import scan as kernel
from matchwood.kernels.results import Out
from matchwood.kernels.scan import Columns, Scratch
from matchwood.kernels.store import ABSENT, CIRCLE

MAX_COLUMNS = 8


class Scan(Index):
    """Columns of boxes, scanned block by block; survivors are verified exactly.

    Layout and kernels: `kernels.scan`. Positions are packed; a deleted row's place is taken by the last one.
    Invariant: every live row stands at one position, its boxes contain its exact hulls (`check`).
    Insert and delete O(entries) a row; match O(rows) an event. Any workload, any mode.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7], [0.0], [0, 1], [0], [0], [18.0], [36.0], [0.5])
    >>> scan = Scan.build(rows)
    >>> hits = scan.match(make_events([0, 1, 2], [0, 0], [20.0, 40.0], [20.0, 40.0]))
    >>> hits.offsets.tolist(), hits.ids.tolist(), hits.scores.tolist()
    ([0, 1, 1], [7], [0.5])
    """

    name = "scan"

    def __init__(self) -> None:
        super().__init__()
        self._size = 0
        self._rank = np.zeros(
            0, np.float32
        )  # by dimension: expected share of events that pass; smaller is tested first
        self._columns = _new_columns(2, 0, 0)
        keys = np.full((2, 0x10000), np.nan, np.float32)
        self._keys = keys[0], keys[1]
        self._block = np.zeros(kernel.BLOCK, np.uint8), np.zeros(kernel.BLOCK + 1, np.uint32)

    def _insert(self, slots: Slots) -> None:
        width = max(len(self._columns.dims), self._width_for(slots))
        if self._size < len(slots) or width > len(self._columns.dims):
            # The new rows outnumber the old, or need more columns: rank the dimensions afresh and lay everything out again.
            slots = np.concatenate([self._columns.slots[: self._size], slots])
            self._rank = self._ranked(slots)
            self._size = 0
        elif len(self._rank) < self.store.dimensions:
            self._rank = np.pad(self._rank, (0, self.store.dimensions - len(self._rank)), constant_values=1.0)
        self._reserve(width, self._size + len(slots))
        rank = np.pad(self._rank, (0, 0x10000 - len(self._rank)), constant_values=np.inf)
        kernel.place_rows(self._columns, self.store.state, rank, slots, self._size)
        self._size += len(slots)

    def _delete(self, slots: Slots) -> None:
        self._size = int(kernel.remove_positions(self._columns, slots, self._size))

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        state = self._columns, self.store.state, self._size, self._scratch()
        return int(kernel.match_many(*state, events, first, how, combine, out, ends, self._candidates))

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        state = self._columns, self.store.state, self._size, self._scratch()
        return int(kernel.top_many(*state, events, first, how, combine, k, out, ends, self._candidates))

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
            boxes = {int(e["dim"]): e for e in entries if not e["kind"] & CIRCLE and e["kind"] != ABSENT}
            held = [c for c in range(len(columns.dims)) if columns.dims[c, p] < kernel.ALWAYS]
            for c in held:
                entry = boxes.pop(int(columns.dims[c, p]))
                assert columns.lo[c, p] <= entry["lo"], f"slot {slot}: a box begins too late"
                assert columns.hi[c, p] >= entry["hi"], f"slot {slot}: a box ends too early"
            untested = bool(boxes) or any(e["kind"] == ABSENT for e in entries)
            assert untested == (kernel.ALWAYS in columns.dims[:, p]), f"slot {slot}: what is untested is not marked so"

    def _arrays(self) -> dict[str, np.ndarray]:
        size = self._size
        columns = {name: getattr(self._columns, name)[:, :size] for name in ("dims", "lo", "hi")}
        return {
            **columns,
            "slots": self._columns.slots[:size],
            "positions": self._columns.positions,
            "rank": self._rank,
        }

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._columns = Columns(*(saved[name] for name in Columns._fields))
        self._rank = saved["rank"]
        self._size = len(saved["slots"])

    def _nodes(self) -> int:
        return -(-self._size // kernel.BLOCK)

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
        """By dimension, how likely an event passes a test on it: how popular it is times how wide its intervals are."""
        size = self.store.dimensions
        low, high, total = np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size)
        kernel.measure_dimensions(self.store.state, slots, low, high, total)
        return (total / max(len(slots), 1)).astype(np.float32)

    def _scratch(self) -> Scratch:
        return Scratch(self._values, self._seen, *self._keys, *self._block)


def _new_columns(width: int, capacity: int, slots: int) -> Columns:
    shape = width, capacity
    dims, lo, hi = np.zeros(shape, np.uint16), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    return Columns(dims, lo, hi, np.zeros(capacity, np.uint32), np.zeros(slots, np.uint32))
