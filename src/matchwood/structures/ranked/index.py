"""Ranked publish/subscribe in several dimensions: a scored interval index for each, and the Threshold Algorithm over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.errors import QueryError
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, CIRCLE, JOINED
from matchwood.store.row_store import Slots
from matchwood.structures.base import Index
from matchwood.structures.ranked.interval_tree import IntervalTree
from matchwood.structures.ranked.ir_tree import IRTree
from matchwood.structures.ranked.kernels import rows as row_kernel
from matchwood.structures.ranked.kernels import threshold as kernel
from matchwood.structures.ranked.kernels.bounds import STREAM, Plan
from matchwood.structures.ranked.kernels.threshold import Scratch
from matchwood.structures.ranked.parts import Entries
from matchwood.structures.ranked.scored_r_tree import ScoredRTree
from matchwood.structures.ranked.segment_tree import SegmentTree
from matchwood.structures.ranked.sopt_r_tree import SOPTRTree
from matchwood.structures.ranked.structure import ScoredIntervals, new_cursors

STRUCTURES: dict[str, type[ScoredIntervals]] = {
    structure.name: structure for structure in (SOPTRTree, IRTree, SegmentTree, IntervalTree, ScoredRTree)
}
"""The one-dimensional structures by name."""
ORDERS = "score", "weight"
IN_PLACE = 16
"""Scores of up to a sixteenth of the rows are changed in place; beyond, trees are built anew faster."""


class RankedIndex(Index):
    """One ranked stream of predicates a dimension, merged until no unseen row can be among the best.

        event  x = 28       y = 65              streams, best key first
                 |            |                 x:  7 .9   3 .8   5 .8 | 2 .3 ...
               tree x       tree y              y:  3 .7   9 .6 | 7 .2 ...
                                                seen 3: 1.5, 7: 1.1, 5, 9; an unseen row has at most .3 + .2: stop

    `order` decides what a stream is sorted by: "score" (a row's total: relaxed matching in four dimensions takes a
    twentieth of the time) or "weight" (the paper's: each predicate's own).
    `structure` is one of "sopt" (fastest to ask), "ir" (fastest to change; ranges in order), "segment", "interval", "r".
    Keys, bounds and the order of pulling: `kernels.threshold`. A row with an absence, or without any interval, is in no
    tree: it is verified for every event. A set of intervals, a circle: the tree holds its hull, the row store decides.

    Invariants (`check`): each interval predicate of each row stands once in its dimension's trees, with its hull, its slot and
    its key; every other row is in `always`; the plan's extremes contain every row's.
    Cost: build O(n log n) and 33 to 45 bytes a predicate beside the store ("segment": 160); top-k as the structure,
    times the depth that the Threshold Algorithm has to go: few pulls for few dimensions and small k, all stabbed predicates at
    worst. `match` pulls all of them: this index is for top-k.
    One writer, no reader meanwhile.

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
        self._plan = _new_plan(ORDERS.index(order))
        self._cursors = new_cursors(1, 256, self._trees.visits)
        self._stamps, self._epoch = np.zeros(0, np.uint32), np.zeros(1, np.int64)
        self._waiting = np.zeros(kernel.BATCH, np.uint32)

    def _insert(self, slots: Slots) -> None:
        dims, entries, outcasts = self._split(slots)
        plan = self._plan
        self._trees.widen(self.store.dimensions)
        for dim, part in _by_dimension(dims, entries):
            self._trees.add(part, dim)
            plan.counts[dim] += part.size
        plan.rows[0] += len(slots) - len(outcasts)
        self._plan = plan._replace(always=np.concatenate([plan.always, outcasts]))

    def _delete(self, slots: Slots) -> None:
        dims, entries, outcasts = self._split(slots)
        plan = self._plan
        for dim, part in _by_dimension(dims, entries):
            self._trees.delete(*part, dim=dim)
            plan.counts[dim] -= part.size
        plan.rows[0] -= len(slots) - len(outcasts)
        if len(outcasts):
            self._plan = plan._replace(always=plan.always[~np.isin(plan.always, outcasts)])
        if plan.rows[0] == 0:  # extremes only ever widen: an empty index begins anew
            fresh = _new_plan(int(plan.order[0]))
            self._plan = self._plan._replace(
                lowest=fresh.lowest, highest=fresh.highest, ascending=fresh.ascending, weight=np.zeros_like(plan.weight)
            )

    def update(self, rows: Rows) -> None:
        """As every index; where only priorities and weights change, of few rows, the intervals stay in their trees."""
        self.repair()
        ids = rows.ids[np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])] if rows.size else rows.ids
        few = 0 < rows.size <= max(len(self) // IN_PLACE, 1) and len(np.unique(ids)) == len(ids)
        slots = self.store.slots_of(ids) if few else np.zeros(0, np.uint32)
        if len(slots) != rows.size or not few or not row_kernel.same_intervals(self.store.state, slots, rows):
            super().update(rows)
            return
        with self._changing():
            dims, before, _ = self._split(slots)
            row_kernel.write_scores(self.store.state, slots, rows)
            _, after, _ = self._split(slots)
            for dim in np.unique(dims).tolist():
                mine = np.flatnonzero((dims == dim) & (before.score != after.score))
                if len(mine):
                    self._trees.rescore(*before.take(mine), after.score[mine], dim=dim)

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        scratch = self._scratch(events)
        state = self._trees.state, self._cursors, self.store.state, self._plan, scratch
        done, full = kernel.match_many(*state, events, first, how, combine, out, ends, self._candidates)
        return self._after(int(done), bool(full))

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        scratch = self._scratch(events)
        state = self._trees.state, self._cursors, self.store.state, self._plan, scratch
        done, full = kernel.top_many(*state, events, first, how, combine, k, out, ends, self._candidates)
        return self._after(int(done), bool(full))

    def _check(self) -> None:
        self._trees.check()
        plan, state = self._plan, self.store.state
        held = {dim: _held(self._trees, dim) for dim in range(self._trees.dimensions)}
        outcasts, rows = [], 0
        for slot in self.store.live_slots().tolist():
            row = state.rows[slot]
            entries = state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]
            heads = [e for e in entries if not e["kind"] & (JOINED | CIRCLE) and e["kind"] != ABSENT]
            if not heads or any(e["kind"] == ABSENT for e in entries):
                outcasts.append(slot)
                continue
            rows += 1
            assert plan.lowest[0] <= row["priority"] <= plan.highest[0], f"slot {slot}: priority out of bounds"
            total = float(sum((float(e["weight"]) for e in heads), float(row["priority"])))
            assert plan.most[slot] >= total, f"slot {slot}: bound too low"
            for e in heads:
                dim = int(e["dim"])
                assert plan.weight[dim] >= e["weight"], f"slot {slot}: weight out of bounds"
                key = total if self.order == "score" else float(row["priority"] + e["weight"])
                expected = (float(e["lo"]), float(e["hi"]), key)
                assert held[dim].pop(slot, None) == expected, f"slot {slot} is not in dimension {dim} as it should be"
        assert not any(held.values()), "a tree holds what no row has"
        assert sorted(plan.always.tolist()) == outcasts, "the rows that no tree leads to are not listed"
        assert plan.rows[0] == rows, "rows are miscounted"

    def _arrays(self) -> dict[str, np.ndarray]:
        plan = {f"plan_{name}": array for name, array in self._plan._asdict().items()}
        return {**plan, **{f"tree_{name}": array for name, array in self._trees.arrays().items()}}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._plan = Plan(*(saved[f"plan_{name}"] for name in Plan._fields))
        self._trees.restore({n.removeprefix("tree_"): a for n, a in saved.items() if n.startswith("tree_")})

    def _parameters(self) -> dict[str, Any]:
        return {"structure": self.structure, "order": self.order, "branching": self.branching}

    def _nodes(self) -> int:
        return self._trees.nodes

    def _details(self) -> dict[str, float]:
        return {"tree_bytes": float(self._trees.nbytes), "always": float(len(self._plan.always))}

    def _prepare(self) -> None:
        super()._prepare()
        if len(self._stamps) < self.store.slots:
            self._stamps, self._epoch = np.zeros(len(self.store.state.rows), np.uint32), np.zeros(1, np.int64)

    def _split(self, slots: Slots) -> tuple[np.ndarray, Entries, Slots]:
        """(dimensions and entries for the trees, rows that no tree can lead to) of these rows."""
        rows = self.store.state.rows
        self._plan = _grown(self._plan, self.store.dimensions, len(rows))
        room = int(rows["count"][slots].sum())
        dims, owners = np.empty(room, np.uint16), np.empty(room, np.int64)
        lo, hi, keys = np.empty(room), np.empty(room), np.empty(room)
        outcasts = np.empty(len(slots), np.uint32)
        n, out = row_kernel.split_rows(self.store.state, slots, self._plan, dims, lo, hi, keys, owners, outcasts)
        return dims[:n], Entries(lo[:n], hi[:n], keys[:n], owners[:n]), outcasts[:out]

    def _scratch(self, events: Events) -> Scratch:
        widest = int(np.diff(events.offsets).max(initial=1))
        if len(self._cursors.sizes) < widest:
            room = len(self._cursors.heap) // len(self._cursors.sizes)
            self._cursors = new_cursors(widest, room, self._trees.visits)
        streams = np.zeros(max(widest, 1), STREAM)
        return Scratch(self._values, self._seen, self._stamps, self._epoch, streams, self._waiting)

    def _after(self, done: int, full: bool) -> int:
        """A cursor that was too small gets four times the room; the protocol calls again from where the kernel stopped."""
        if full:
            count = len(self._cursors.sizes)
            self._cursors = new_cursors(count, 4 * len(self._cursors.heap) // count, self._trees.visits)
        return done


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


def _new_plan(order: int) -> Plan:
    extremes = np.full(1, np.inf), np.full(1, -np.inf), np.ones(1, np.bool_), np.zeros(1, np.int64)
    return Plan(
        *extremes,
        np.full(1, order),
        np.zeros(0),
        np.zeros(0, np.int64),
        np.zeros(0, np.float32),
        np.zeros(0, np.uint32),
    )


def _grown(plan: Plan, dimensions: int, slots: int) -> Plan:
    missing = max(dimensions - len(plan.weight), 0)
    more = max(slots - len(plan.most), 0)
    return plan._replace(
        weight=np.pad(plan.weight, (0, missing)),
        counts=np.pad(plan.counts, (0, missing)),
        most=np.pad(plan.most, (0, more)),
    )
