"""ZCurve: covers among rectangles over the same attributes, in the order of a space-filling curve (Covering IV-D)."""

from __future__ import annotations

import numpy as np

from matchwood.covering.cover_index import ANY_ID, Found, Work, new_scratch
from matchwood.covering.kernels import zcurve as kernel
from matchwood.covering.kernels.zcurve import BLOCK, Curve
from matchwood.encode import arrays
from matchwood.encode.arrays import Float64s, Int64s, Rows
from matchwood.errors import QueryError, SubscriptionError, UnsupportedError
from matchwood.store.kernels.rows import NONE
from matchwood.store.row_store import RowStore, Slots

MAX_BITS = 16


class ZCurve:
    """Rectangles over attributes 0 .. d-1, each given by one interval in every attribute; what else there is, `CoverIndex` takes.

    Layout and invariants: `kernels.zcurve`. `lo` and `hi` bound the keys of each attribute; keys outside share the
    outermost cells, which costs time, not exactness. One writer, no reader at the same time. Insert and delete O(log n).

    >>> curve = ZCurve([0.0], [10.0])
    >>> curve.insert(arrays.make_rows([1, 2], [0, 0], [0, 1, 2], [0, 0], [0, 0], [0.0, 2.0], [9.0, 3.0], [1, 1]))
    >>> curve.covers_of(arrays.make_rows([7], [0], [0, 1], [0], [0], [4.0], [5.0], [1])).of(0).tolist()
    [1]
    """

    def __init__(self, lo: Float64s | list[float], hi: Float64s | list[float]) -> None:
        low, high = np.asarray(lo, np.float64), np.asarray(hi, np.float64)
        self.attributes = len(low)
        width = 2 * self.attributes
        if not 1 <= self.attributes <= 31 or not (np.isfinite(low) & np.isfinite(high) & (high > low)).all():
            raise QueryError(f"expected finite bounds lo < hi of 1 to 31 attributes, got {low} and {high}")
        bits = min(MAX_BITS, 126 // width)
        domain = np.empty(2 * width)
        domain[0::4], domain[2::4] = -high, low
        domain[1::4] = domain[3::4] = _cells_a_unit(low, high, 2.0**bits)
        counts = np.zeros(8, np.int64)
        counts[kernel.FREE_BLOCK] = int(NONE)
        counts[kernel.WIDTH], counts[kernel.BITS] = width, bits
        empty = np.zeros(0, np.uint64)
        self.state = Curve(
            empty,
            empty,
            np.zeros(0, np.int64),
            np.zeros(0),
            np.zeros(0, np.uint32),
            np.zeros(0, np.uint32),
            domain,
            counts,
        )
        self.store = RowStore()
        self.scratch = new_scratch(1, 1)
        self.counters = np.zeros(3, np.int64)
        self.settle(grow=True)

    def __len__(self) -> int:
        return int(self.state.counts[kernel.POINTS])

    def insert(self, rows: Rows) -> None:
        """Add rows of new subscriptions."""
        self._demand(rows)
        self.plant(self.store.add(rows))

    def plant(self, slots: Slots) -> None:
        """Enter rows that are in the store."""
        for slot in slots.tolist():
            while not kernel.insert_point(self.state, self.store.state, slot, self.scratch):
                self.settle(grow=True)

    def delete(self, ids: Int64s) -> None:
        """Remove subscriptions."""
        ids = np.ascontiguousarray(ids, np.int64)
        if len(np.unique(ids)) != len(ids):
            raise SubscriptionError("a subscription is named twice in one delete")
        for slot in self.store.slots_of(ids).tolist():
            kernel.delete_point(self.state, self.store.state, slot, self.scratch)
        self.store.remove(ids)

    def covers_of(self, rows: Rows, *, k: int = 1, before: int = ANY_ID) -> Found:
        """Up to k subscriptions that cover each given one, as `CoverIndex.covers_of`."""
        self._demand(rows)
        other = RowStore()
        parts: list[Int64s] = []
        out = np.empty(min(k, max(len(self), 1)), np.int64)
        for slot in other.add(rows).tolist():
            states = self.state, self.store.state, other.state
            n = kernel.covers_on_curve(*states, slot, before, len(out), self.scratch, out, 0, self.counters)
            parts.append(out[:n].copy())
        ends = np.cumsum([0, *(len(part) for part in parts)])
        return Found(ends, np.concatenate([np.zeros(0, np.int64), *parts]))

    @property
    def work(self) -> Work:
        """What all searches so far did."""
        visited, compared, searches = self.counters.tolist()
        return Work(searches, visited, compared)

    def settle(self, *, grow: bool) -> None:
        """Make room for more blocks when a kernel asks for it."""
        if not grow:
            return
        blocks = max(16, len(self.state.sizes) * 3 // 2)
        width = int(self.state.counts[kernel.WIDTH])
        lengths = blocks * BLOCK, blocks * BLOCK, blocks * BLOCK, (blocks + 1) * BLOCK * width, blocks, blocks
        pools = dict(zip(Curve._fields, zip(self.state, lengths, strict=False), strict=False))
        grown = {name: np.concatenate([a, np.zeros(n - len(a), a.dtype)]) for name, (a, n) in pools.items()}
        self.state = self.state._replace(**grown)

    def check(self) -> None:
        """Keys ascend along the directory and are those of their points; every row stands once. O(n), in Python."""
        curve, counts = self.state, self.state.counts
        width = int(counts[kernel.WIDTH])
        keys, members = [], []
        for block in curve.directory[: counts[kernel.LISTED]].tolist():
            size = int(curve.sizes[block])
            assert 0 < size <= BLOCK, f"block {block} holds {size} points"
            points = curve.points[block * width * BLOCK : (block + 1) * width * BLOCK].reshape(width, BLOCK)
            for i in range(size):
                key = int(curve.high[block * BLOCK + i]) << 64 | int(curve.low[block * BLOCK + i])
                high, low = kernel.key_of(curve, points[:, i].copy())
                assert key == int(high) << 64 | int(low), f"block {block}: a key is not that of its point"
                keys.append(key)
                members.append(int(curve.members[block * BLOCK + i]))
        assert keys == sorted(keys), "keys do not ascend"
        assert sorted(members) == self.store.live_slots().tolist(), "points and live rows differ"
        assert len(members) == counts[kernel.POINTS], "points are miscounted"

    def _demand(self, rows: Rows) -> None:
        d = self.attributes
        plain = (np.diff(rows.offsets) == d).all() and (rows.kinds == arrays.INTERVAL).all()
        if (
            not plain
            or len(np.unique(rows.ids)) != rows.size
            or (np.sort(rows.dims.reshape(-1, d)) != np.arange(d)).any()
        ):
            raise UnsupportedError(
                f"a Z-curve takes one interval in each of its {d} attributes; CoverIndex takes any row"
            )


def _cells_a_unit(low: Float64s, high: Float64s, cells: float) -> Float64s:
    """How many of the cells a key is wide, finite: a domain as wide as all float64 is measured by its half."""
    with np.errstate(over="ignore"):
        width, part = high - low, np.full(len(low), cells)
        wide = np.isinf(width)
        width[wide], part[wide] = high[wide] / 2 - low[wide] / 2, cells / 2
        return np.minimum(part / width, np.finfo(np.float64).max)
