"""ZCurve: covers among rectangles over the same attributes, in the order of a space-filling curve (Covering IV-D)."""

from __future__ import annotations

import numpy as np

from matchwood.covering.base import CoverBase
from matchwood.covering.kernels import zcurve as kernel
from matchwood.covering.kernels.zcurve import BLOCK, CoverCurve
from matchwood.encode import arrays
from matchwood.encode.arrays import Float64s, Rows
from matchwood.errors import QueryError, UnsupportedError
from matchwood.store.growth import grown
from matchwood.store.kernels.rows import NONE
from matchwood.store.reading import Slots

MAX_BITS = 16


class ZCurve(CoverBase):
    """Rectangles over attributes 0 .. d-1: each row has one interval for every attribute. `CoverIndex` takes any rows.

    Layout and invariants: `kernels.zcurve`. `lo` and `hi` bound the keys of each attribute; keys outside share the
    outermost cells, which costs time but not exactness. Insert and delete O(log n).

    >>> curve = ZCurve([0.0], [10.0])
    >>> curve.insert(arrays.make_rows([1, 2], [0, 0], [0, 1, 2], [0, 0], [0, 0], [0.0, 2.0], [9.0, 3.0], [1, 1]))
    >>> curve.covers_of(arrays.make_rows([7], [0], [0, 1], [0], [0], [4.0], [5.0], [1])).of(0).tolist()
    [1]
    """

    state: CoverCurve

    def __init__(self, lo: Float64s | list[float], hi: Float64s | list[float]) -> None:
        super().__init__()
        low, high = np.asarray(lo, np.float64), np.asarray(hi, np.float64)
        self.attributes = len(low)
        width = 2 * self.attributes
        if not 1 <= self.attributes <= 31 or not (np.isfinite(low) & np.isfinite(high) & (high > low)).all():
            raise QueryError(f"expected finite bounds lo < hi of 1 to 31 attributes, got {low} and {high}")
        bits = min(MAX_BITS, 126 // width)
        domain = np.empty(2 * width)
        domain[0::4], domain[2::4] = -high, low
        domain[1::4] = domain[3::4] = _cells_in_unit(low, high, 2.0**bits)
        counts = np.zeros(8, np.int64)
        counts[kernel.FREE_BLOCK] = int(NONE)
        counts[kernel.WIDTH], counts[kernel.BITS] = width, bits
        self.state = CoverCurve(
            high=np.zeros(0, np.uint64),
            low=np.zeros(0, np.uint64),
            members=np.zeros(0, np.int64),
            points=np.zeros(0),
            sizes=np.zeros(0, np.uint32),
            directory=np.zeros(0, np.uint32),
            domain=domain,
            counts=counts,
        )
        self.settle(grow=True)

    def settle(self, *, grow: bool) -> None:
        """Make room for half as many blocks again."""
        if not grow:
            return
        blocks = max(16, len(self.state.sizes) * 3 // 2)
        points = (blocks + 1) * BLOCK * int(self.state.counts[kernel.WIDTH])  # a block to spare, for loads of 16 points
        lengths = dict.fromkeys(("high", "low", "members"), blocks * BLOCK) | {"points": points}
        lengths |= dict.fromkeys(("sizes", "directory"), blocks)
        self.state = self.state._replace(
            **{name: grown(getattr(self.state, name), length) for name, length in lengths.items()}
        )

    def check(self) -> None:
        """Keys ascend along the directory and are those of their points; every row occurs once. O(n), in Python: for tests."""
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

    def _plant(self, slots: Slots) -> None:
        done = 0
        while True:
            done = int(kernel.insert_points(self.state, self.store.state, slots, done, self.scratch))
            if done == len(slots):
                return
            self.settle(grow=True)

    def _uproot(self, slots: Slots) -> None:
        kernel.delete_points(self.state, self.store.state, slots, self.scratch)

    def _validate(self, rows: Rows) -> None:
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


def _cells_in_unit(low: Float64s, high: Float64s, cells: float) -> Float64s:
    """The number of cells in a unit of each key, finite; a domain as wide as all float64 is measured by its half."""
    with np.errstate(over="ignore"):
        width, part = high - low, np.full(len(low), cells)
        wide = np.isinf(width)
        width[wide], part[wide] = high[wide] / 2 - low[wide] / 2, cells / 2
        return np.minimum(part / width, np.finfo(np.float64).max)
