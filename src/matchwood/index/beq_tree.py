"""BEQ-Tree: a quadtree of events with sorted leaves, for subscription matching. A comparison system of the MO-Tree paper."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.errors import EventError, UnsupportedError
from matchwood.kernels import beq_tree as kernel
from matchwood.kernels.beq_tree import Leaves


class BEQTree:
    """Events by place, then by each attribute's key; a subscription counts in the leaves that its square meets.

    Layout: `kernels.beq_tree`. It answers conjunctions of single intervals against events of single values, all
    attributes counted: what the comparison needs. Built at once: keeping every list sorted under insertion
    is what makes it slow in the paper (a thousand times MO-Tree), and is left out.
    """

    name = "beq-tree"

    def __init__(
        self, events: Events, ids: Int64s, until: Float64s, *, x: int = 0, y: int = 1, leaf_events: int = 1024
    ) -> None:
        if (events.lo != events.hi).any():
            raise EventError("'beq-tree' keeps events of single values; 'mo-tree' keeps ranges and lists")
        self._x, self._y = x, y
        self._ids, self._until = np.asarray(ids, np.int64), np.asarray(until, np.float64)
        self._dimensions = int(events.dims.max(initial=1)) + 1
        owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
        place = np.full((2, events.size), np.nan)
        for at, dim in enumerate((x, y)):
            place[at, owner[events.dims == dim]] = events.lo[events.dims == dim]
        if np.isnan(place).any():
            raise EventError("'beq-tree' keeps events that have a place")
        boxes: list[tuple[Float64s, np.ndarray]] = []
        _split(place, np.arange(events.size), leaf_events, 24, boxes)
        leaf_of = np.zeros(events.size, np.int64)
        leaves = np.zeros(len(boxes), kernel.LEAF)
        for number, (box, members) in enumerate(boxes):
            leaf_of[members] = number
            leaves[number] = (*box, 0, len(members))
        run = leaf_of[owner] * self._dimensions + events.dims
        order = np.lexsort((events.lo, run))
        runs = np.searchsorted(run[order], np.arange(len(boxes) * self._dimensions + 1))
        self._tree = Leaves(leaves, runs.astype(np.int64), events.lo[order], owner[order].astype(np.uint32))
        self._counters, self._found = np.zeros(events.size, np.uint16), np.zeros(events.size, np.uint32)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._tree) + self._ids.nbytes + self._until.nbytes

    def match(self, rows: Rows, now: float) -> list[Int64s]:
        """The ids of the live events of each row, ascending."""
        if (rows.kinds > 2).any() or (rows.kinds == 1).any():
            raise UnsupportedError("'beq-tree' matches single intervals; 'mo-tree' matches every row")
        answers = []
        for r in range(rows.size):
            span = slice(rows.offsets[r], rows.offsets[r + 1])
            dims, lo, hi = rows.dims[span], rows.lo[span], rows.hi[span]
            if (dims >= self._dimensions).any():
                answers.append(np.zeros(0, np.int64))
                continue
            state = self._tree, self._dimensions, self._x, self._y
            n = kernel.candidates_of(*state, dims, lo, hi, self._counters, self._found)
            found = self._found[:n]
            answers.append(np.sort(self._ids[found[self._until[found] > now]]))
        return answers


def _split(
    place: Float64s, members: np.ndarray, most: int, depth: int, boxes: list[tuple[Float64s, np.ndarray]]
) -> None:
    """Quarter a set of events until each part has at most `most`; boxes are those of the events in them."""
    west, south = place[:, members].min(axis=1) if len(members) else (0.0, 0.0)
    east, north = place[:, members].max(axis=1) if len(members) else (0.0, 0.0)
    if len(members) <= most or depth == 0 or (west == east and south == north):
        boxes.append((np.array([west, east, south, north]), members))
        return
    right = place[0, members] > (west + east) / 2
    upper = place[1, members] > (south + north) / 2
    for chosen in (~right & ~upper, right & ~upper, ~right & upper, right & upper):
        if chosen.any():
            _split(place, members[chosen], most, depth - 1, boxes)
