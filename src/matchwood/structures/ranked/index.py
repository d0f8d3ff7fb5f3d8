"""Ranked publish/subscribe in several dimensions: a scored interval index for each, and the Threshold Algorithm over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s
from matchwood.errors import QueryError
from matchwood.store.growth import grown
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, JOINED, NARROWS
from matchwood.store.reading import Slots
from matchwood.structures.base import Query
from matchwood.structures.ranked.interval_tree import IntervalTree
from matchwood.structures.ranked.ir_tree import IRTree
from matchwood.structures.ranked.kernels import rows as row_kernel
from matchwood.structures.ranked.kernels import threshold as kernel
from matchwood.structures.ranked.kernels.bounds import STREAM, SUMMARY, RowBounds
from matchwood.structures.ranked.kernels.layout import LEVELS
from matchwood.structures.ranked.kernels.threshold import RankedSearch
from matchwood.structures.ranked.parts import Entries
from matchwood.structures.ranked.scored_r_tree import ScoredRTree
from matchwood.structures.ranked.segment_tree import SegmentTree
from matchwood.structures.ranked.sopt_r_tree import SOPTRTree
from matchwood.structures.ranked.structure import ScoredIntervals, new_cursors
from matchwood.structures.scratch import Scratch
from matchwood.structures.stored import StoredIndex

STRUCTURES: dict[str, type[ScoredIntervals]] = {
    structure.name: structure for structure in (SOPTRTree, IRTree, SegmentTree, IntervalTree, ScoredRTree)
}
"""The one-dimensional structures by name."""
ORDERS = "score", "weight"


class RankedIndex(StoredIndex):
    """One ranked stream of predicates a dimension, merged until no unseen row can be among the best.

        event  x = 28       y = 65              streams, best key first
                 |            |                 x:  7 .9   3 .8   5 .8 | 2 .3 ...
               tree x       tree y              y:  3 .7   9 .6 | 7 .2 ...
                                                seen 3: 1.5, 7: 1.1, 5, 9; an unseen row has at most .3 + .2: stop

    `order` decides what a stream is sorted by: "score" (a row's total: far faster for relaxed matching in several
    dimensions) or "weight" (the paper's: each predicate's own).
    `structure` is one of "sopt" (fastest queries), "ir" (fastest changes; ranges in order), "segment", "interval", "r".
    Keys and bounds: `kernels.bounds`; the order of pulling: `kernels.threshold`. A row with an absence, or without any
    interval, is in no tree: it is verified for every event. For a set of intervals or a circle the tree has its hull.

    Invariants (`check`): each interval predicate of each row is once in its dimension's trees, with its hull, its slot and
    its key; every other row is in `always`; the bounds contain those of every row.
    Cost: build O(n log n) and 33 to 45 bytes a predicate beside the store ("segment": 160); top-k as the structure,
    times the depth to which the Threshold Algorithm goes: few pulls for few dimensions and small k, all stabbed predicates at
    worst. `match` pulls all of them: this index is for top-k.
    One writer, no reader at the same time.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7, 8], [0.0, 0.0], [0, 1, 2], [0, 0], [0, 0], [18.0, 20.0], [36.0, 60.0], [0.5, 0.9])
    >>> index = RankedIndex.build(rows, structure="ir")
    >>> index.top_k(make_events([0, 1], [0], [20.0], [20.0]), 1).ids.tolist()
    [8]
    """

    name = "ranked"

    def __init__(self, *, structure: str = "sopt", order: str = "score", branching: int = 32) -> None:
        super().__init__()
        if order not in ORDERS:
            raise QueryError(f"expected an order out of {', '.join(ORDERS)}, got {order!r}")
        if structure not in STRUCTURES:
            raise QueryError(f"expected a structure out of {', '.join(sorted(STRUCTURES))}, got {structure!r}")
        self.structure = structure
        self.branching = branching
        self._trees = STRUCTURES[structure](branching=branching, dimensions=0)
        self.order = order
        self._bounds = _new_bounds(ORDERS.index(order))

    def _insert(self, slots: Slots) -> None:
        dims, entries, always = self._split(slots)
        self._trees.widen(self.store.dimensions)
        for dim, part in _by_dimension(dims, entries):
            self._trees.add(part, dim)
            self._bounds.counts[dim] += part.size
        self._bounds.summary["rows"] += len(slots) - len(always)
        if len(always):
            self._bounds = self._bounds._replace(always=np.concatenate([self._bounds.always, always]))

    def _delete(self, slots: Slots) -> None:
        dims, entries, always = self._split(slots)
        bounds = self._bounds
        for dim, part in _by_dimension(dims, entries):
            self._trees.delete(*part, dim=dim)
            bounds.counts[dim] -= part.size
        bounds.summary["rows"] -= len(slots) - len(always)
        if len(always):
            self._bounds = bounds._replace(always=bounds.always[~np.isin(bounds.always, always)])
        if bounds.summary["rows"][0] == 0:  # bounds only ever widen: those of an empty index begin anew
            bounds.summary[:] = _new_bounds(ORDERS.index(self.order)).summary
            bounds.max_weight[:] = 0.0

    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        """The intervals stay where they are, with other scores."""
        with self._changing():
            dims, before, _ = self._split(slots)
            self.store.set_priorities(slots, priorities)
            _, after, _ = self._split(slots)
            for (dim, old), (_, new) in zip(_by_dimension(dims, before), _by_dimension(dims, after), strict=True):
                self._trees.rescore(*old, new.score, dim=dim)

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        events, mode, combine, k = query
        search, store = self._prepared(scratch, events), self.store.state
        done, full = kernel.answer_many(search, store, events, first, mode, combine, k, out, ends)
        if full:  # cursors get more room; the caller tries again from where the kernel stopped
            count = len(search.cursors.sizes)
            cursors = new_cursors(count, 4 * len(search.cursors.heap) // count, search.cursors.visits)
            scratch.own = search._replace(cursors=cursors)
        return int(done)

    def _check(self) -> None:
        self._trees.check()
        bounds, state = self._bounds, self.store.state
        summary = bounds.summary[0]
        held = {dim: _held(self._trees, dim) for dim in range(self._trees.dimensions)}
        always, rows = [], 0
        for slot in self.store.live_slots().tolist():
            row = state.rows[slot]
            entries = state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]
            heads = [e for e in entries if not e["kind"] & (JOINED | NARROWS) and e["kind"] != ABSENT]
            if not heads or any(e["kind"] == ABSENT for e in entries):
                always.append(slot)
                continue
            rows += 1
            assert summary["lowest"] <= row["priority"] <= summary["highest"], f"slot {slot}: priority out of bounds"
            total = float(sum((float(e["weight"]) for e in heads), float(row["priority"])))
            assert bounds.max_score[slot] >= total, f"slot {slot}: bound too low"
            for e in heads:
                dim = int(e["dim"])
                assert bounds.max_weight[dim] >= e["weight"], f"slot {slot}: weight out of bounds"
                key = total if self.order == "score" else float(row["priority"] + e["weight"])
                expected = (float(e["lo"]), float(e["hi"]), key)
                assert held[dim].pop(slot, None) == expected, f"slot {slot} is not in dimension {dim} as it should be"
        assert not any(held.values()), "a tree holds what no row has"
        assert sorted(bounds.always.tolist()) == always, "the rows that are in no tree are not listed"
        assert summary["rows"] == rows, "rows are miscounted"

    def _arrays(self) -> dict[str, np.ndarray]:
        bounds = {f"bounds_{name}": array for name, array in self._bounds._asdict().items()}
        return {**bounds, **{f"tree_{name}": array for name, array in self._trees.arrays().items()}}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._bounds = RowBounds(**{name: saved[f"bounds_{name}"] for name in RowBounds._fields})
        self._trees.restore({n.removeprefix("tree_"): a for n, a in saved.items() if n.startswith("tree_")})

    def _parameters(self) -> dict[str, Any]:
        return {"structure": self.structure, "order": self.order, "branching": self.branching}

    def _nodes(self) -> int:
        return self._trees.nodes

    def _details(self) -> dict[str, float]:
        return {"tree_bytes": float(self._trees.nbytes), "always": float(len(self._bounds.always))}

    def _split(self, slots: Slots) -> tuple[np.ndarray, Entries, Slots]:
        """(dimensions and entries for the trees, slots of rows that are in no tree) of these rows."""
        rows, bounds = self.store.state.rows, self._bounds
        if len(bounds.max_weight) < self.store.dimensions or len(bounds.max_score) < len(rows):
            self._bounds = bounds = bounds._replace(
                max_weight=grown(bounds.max_weight, self.store.dimensions),
                counts=grown(bounds.counts, self.store.dimensions),
                max_score=grown(bounds.max_score, len(rows)),
            )
        room = int(rows["count"][slots].sum())
        dims, always = np.empty(room, np.uint16), np.empty(len(slots), np.uint32)
        entries = Entries(np.empty(room), np.empty(room), np.empty(room), np.empty(room, np.int64))
        n, out = row_kernel.split_rows(self.store.state, slots, bounds, dims, entries, always)
        return dims[:n], entries.take(np.arange(n)), always[:out]

    def _new_search(self, scratch: Scratch) -> RankedSearch:
        return RankedSearch(
            forest=self._trees.state,
            bounds=self._bounds,
            cursors=new_cursors(1, 256, np.zeros(LEVELS + 1, np.int64)),
            streams=np.zeros(1, STREAM),
            values=scratch.values,
            seen=scratch.seen,
            stamps=np.zeros(0, np.uint32),
            epoch=np.zeros(1, np.int64),
            pending=np.zeros(kernel.MAX_BATCH, np.uint32),
            candidates=scratch.work.counts,
        )

    def _prepared(self, scratch: Scratch, events: Events) -> RankedSearch:
        """The search over the present trees and rows, with a cursor for each dimension that an event has."""
        search: RankedSearch = self._new_search(scratch) if scratch.own is None else scratch.own
        widest = int(np.diff(events.offsets).max(initial=1))
        if len(search.streams) < widest:
            room = len(search.cursors.heap) // len(search.cursors.sizes)
            cursors = new_cursors(widest, room, search.cursors.visits)
            search = search._replace(streams=np.zeros(widest, STREAM), cursors=cursors)
        if len(search.stamps) < self.store.slots:
            search = search._replace(
                stamps=np.zeros(len(self.store.state.rows), np.uint32), epoch=np.zeros(1, np.int64)
            )
        present = {
            "forest": self._trees.state,
            "bounds": self._bounds,
            "values": scratch.values,
            "seen": scratch.seen,
        }
        changed = {name: state for name, state in present.items() if getattr(search, name) is not state}
        scratch.own = search = search._replace(**changed) if changed else search
        return search


def _by_dimension(dims: np.ndarray, entries: Entries) -> list[tuple[int, Entries]]:
    """The entries of each dimension. O(n log n)."""
    if not len(dims):
        return []
    order = np.argsort(dims, kind="stable")
    ascending = dims[order]
    starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    ends = [*starts[1:].tolist(), len(dims)]
    return [(int(ascending[a]), entries.take(order[a:b])) for a, b in zip(starts.tolist(), ends, strict=True)]


def _held(trees: ScoredIntervals, dim: int) -> dict[int, tuple[float, float, float]]:
    """slot -> (lo, hi, key) of everything in a dimension, for `check`."""
    entries = trees.intervals(dim)
    assert len(np.unique(entries.link)) == entries.size, f"dimension {dim} holds a slot twice"
    columns = (column.tolist() for column in (entries.lo, entries.hi, entries.score))
    return dict(zip(entries.link.tolist(), zip(*columns, strict=True), strict=True))


def _new_bounds(order: int) -> RowBounds:
    return RowBounds(
        summary=np.array([(np.inf, -np.inf, 0, order, 1)], SUMMARY),
        max_weight=np.zeros(0),
        counts=np.zeros(0, np.int64),
        max_score=np.zeros(0, np.float32),
        always=np.zeros(0, np.uint32),
    )
