"""MO-Tree: buckets by overlapping cells of a few attributes, rows bit-sliced inside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Rows
from matchwood.encode.picking import pick_rows
from matchwood.errors import QueryError
from matchwood.store.batch_order import FEWEST, keys_of, neighbours
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.verify import ANY
from matchwood.store.reading import Slots
from matchwood.structures.base import AxisShape, Query
from matchwood.structures.mo_tree.check import check_tree
from matchwood.structures.mo_tree.kernels import layout as kernel
from matchwood.structures.mo_tree.kernels.batch import QUERIES, new_batch, with_more_hits
from matchwood.structures.mo_tree.kernels.layout import TreeCount
from matchwood.structures.mo_tree.kernels.match import MAX_RANKED, MatchScratch, answer_events
from matchwood.structures.mo_tree.kernels.nodes import release
from matchwood.structures.mo_tree.kernels.order import order_keys
from matchwood.structures.mo_tree.kernels.place import place_rows, rewrite_rows, write_again
from matchwood.structures.mo_tree.kernels.slices import TICK_RUN
from matchwood.structures.mo_tree.plan import TreePlan, paper, planned
from matchwood.structures.mo_tree.tree import (
    capacity_of,
    in_order,
    new_tree,
    placed,
    restored_tree,
    saved_tree,
    ticks_of,
    with_places,
)
from matchwood.structures.scratch import Scratch, new_values
from matchwood.structures.stored import StoredIndex
from matchwood.structures.tally import new_keys

MAX_VALUES = 1 << 15  # values of a batch, 64 bytes each: events of very many dimensions are answered fewer at a time


class MOTree(StoredIndex):
    """A flat tree of overlapping cells; rows are filtered by bit planes, survivors verified exactly.

    Layout and kernels: `kernels.layout` (where a row belongs), `kernels.nodes`, `kernels.write` and `kernels.place` (changes),
    `kernels.batch` and `kernels.match` (answers), `plan` (which cells).
    Invariant: every row stands in one bucket whose cells hold its intervals, and its planes have ones wherever it may hold
    (`check`).
    Insert, delete and update: O(slices of the row), and O(planes) for each node that changes. Match: O(axes) for each line of
    512 rows in a stabbed bucket, and O(entries) for each candidate.
    """

    name: ClassVar[str] = "mo-tree"
    _keeps_priorities = False

    def __init__(self, *, plan: str = "planned", bytes_per_row: int = 64, layers: int | None = None) -> None:
        """plan: "planned" from the rows, or "paper", the configuration of MO-Tree 6.1. bytes_per_row: how much memory the planes
        may take. layers: how many, instead of as many as are estimated to be fastest."""
        super().__init__()
        if plan not in ("planned", "paper"):
            raise QueryError(f"expected a plan of 'planned' or 'paper', got {plan!r}")
        self._options: dict[str, Any] = {"plan": plan, "bytes_per_row": bytes_per_row, "layers": layers}
        self._planned_for = 0
        self._tree = new_tree(TreePlan((), 0))

    def replan(self) -> None:
        """Plan for the rows that are there and lay out everything anew, the row store too, in the order of the buckets. O(n)."""
        slots = self.store.live_slots()
        with self._changing():
            self._tree = new_tree(self._plan(slots))
            self._planned_for = len(slots)
            keys = np.empty(len(slots), np.uint64)
            order_keys(self._tree, self.store.state, slots, keys)
            order = np.argsort(keys)
            self.store.reorder(slots[order])
            self._place(np.arange(len(slots), dtype=np.uint32), (keys[order] >> np.uint64(32)).astype(np.uint32))

    def _plan(self, slots: Slots) -> TreePlan:
        if self._options["plan"] == "paper":
            return paper(self.store, slots)
        return planned(self.store, slots, bytes_per_row=self._options["bytes_per_row"], layers=self._options["layers"])

    def _insert(self, slots: Slots) -> None:
        if len(self.store) > capacity_of(self._planned_for):
            self.replan()
        else:
            self._place(*self._by_bucket(slots))

    def _by_bucket(self, slots: Slots) -> tuple[Slots, np.ndarray]:
        """Rows in the order of their buckets, and these."""
        numbers = np.empty(len(slots), np.uint32)
        kernel.locate_rows(self._tree, self.store.state, slots, numbers)
        return in_order(slots, numbers)

    def _place(self, slots: Slots, numbers: np.ndarray) -> None:
        """Put rows, which are not in the tree, into their buckets; equal buckets are adjacent."""
        tree = with_places(self._tree, len(self.store.state.rows))
        self._tree = placed(tree, place_rows, self.store.state, slots, numbers)

    def _delete(self, slots: Slots) -> None:
        release(self._tree, slots)

    def update(self, rows: Rows) -> None:
        """Replace the rows of known subscriptions, all or none; a row whose bucket stays keeps its position (MO-Tree 4.6.2)."""
        self.repair()
        self.store.check_shapes(rows)
        slots = self.store.slots_once(rows.ids) if rows.size else None
        if slots is None:  # subscriptions of several rows, unknown or repeated ones
            super().update(rows)
            return
        rewritten = np.empty(len(slots), np.bool_)
        with self._changing():
            self.store.note_dimensions(rows)
            rewrite_rows(self.store.state, rows, slots, rewritten)
            self._move(slots[rewritten])
        if not rewritten.all():
            super().update(pick_rows(rows, np.flatnonzero(~rewritten)))

    def _move_circles(self, slots: Slots, lon: Float64s, lat: Float64s) -> None:
        with self._changing():
            self.store.move_circles(slots, lon, lat)
            self._move(slots)

    def _move(self, slots: Slots) -> None:
        """Write rows that have changed in the store where they belong now."""
        if len(slots) > 1:
            slots = slots[np.argsort(self._tree.places["node"][slots], kind="stable")]
        moved, numbers = np.empty(len(slots), np.uint32), np.empty(len(slots), np.uint32)
        if count := int(write_again(self._tree, self.store.state, slots, moved, numbers)):
            release(self._tree, moved[:count])
            self._place(*in_order(moved[:count], numbers[:count]))

    def axes(self) -> list[AxisShape]:
        """As `Index.axes`."""
        return [AxisShape(int(axis["dim"]), int(axis["slices"]), bool(axis["cells"])) for axis in self._tree.axes]

    def _order(self, query: Query) -> Int64s | None:
        """Events that are near each other on the first two layers are answered together."""
        tree, events = self._tree, query.events
        layers = tree.axes[: min(2, int(tree.counts[TreeCount.LAYERS]))]
        if events.size < FEWEST or not len(layers) or query.mode == ANY:
            return None
        return neighbours([ticks_of(tree, axis, keys_of(events, int(axis["dim"]))) for axis in layers])

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        groups = np.arange(len(ends) + 1)
        while True:
            done = int(answer_events(self._tree, self.store.state, scratch.own, groups, query, first, out, ends))
            if done >= 0:
                return done
            scratch.own = scratch.own._replace(batch=with_more_hits(scratch.own.batch))
            if ~done > first:
                return ~done

    def _check(self) -> None:
        check_tree(self._tree, self.store.state, len(self.store))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**saved_tree(self._tree), "planned_for": np.array([self._planned_for])}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._planned_for = int(saved["planned_for"][0])
        self._tree = restored_tree(saved)

    def _parameters(self) -> dict[str, Any]:
        return self._options

    def _nodes(self) -> int:
        return int(self._tree.counts[TreeCount.NODES])

    def _details(self) -> dict[str, float]:
        counts = self._tree.counts
        shown = {c.name.lower(): c for c in (TreeCount.LAYERS, TreeCount.AXES, TreeCount.PLANES, TreeCount.BUCKETS)}
        return {**{name: float(counts[c]) for name, c in shown.items()}, "directory": float(len(self._tree.directory))}

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        held, axes = scratch.own, self._tree.axes  # which are those of the plan
        if held is None or scratch.fits is not axes or held.values.shape[1] < self.store.dimensions:
            scratch.own, scratch.fits = self._new_scratch(scratch), axes
        elif held.seen is not scratch.seen:
            scratch.own = held._replace(seen=scratch.seen)

    def _new_scratch(self, scratch: Scratch) -> MatchScratch:
        """Scratch that fits the tree and the store."""
        tree, dims = self._tree, self.store.dimensions
        queries, axes, cells = max(min(QUERIES, MAX_VALUES // max(dims, 1)), 1), len(tree.axes), len(tree.cells) + 1
        return MatchScratch(
            values=new_values(queries * dims).reshape(queries, dims),
            keys=new_keys(queries * dims).reshape(queries, dims),
            plain=np.zeros(queries, np.bool_),
            unit_weight=np.zeros(queries, np.bool_),
            filters=np.zeros(queries, np.uint8),
            begins=np.zeros(queries * axes, np.int32),
            ends=np.zeros(queries * axes, np.int32),
            planes=np.zeros(queries * axes, np.int32),
            masks=np.zeros(queries * axes, np.uint64),
            cell_masks=np.zeros((queries, len(tree.cells)), np.uint64),
            tick_runs=np.zeros(int(tree.axes["cuts"].max(initial=0)) // 2 + 1, TICK_RUN),
            stabbed=np.zeros(cells, np.int64),
            slices=np.zeros(cells, np.int64),
            touched=np.zeros(cells, np.uint64),
            runs=np.zeros(axes + 1, np.int64),
            digits=np.zeros(axes + 1, np.int64),
            line=np.zeros(kernel.LINE, np.uint64),
            best=np.zeros((queries, MAX_RANKED)),
            held=np.zeros(queries, np.int64),
            worst=np.zeros(queries),
            seen=scratch.seen,
            candidates=scratch.work.counts,
            batch=new_batch(len(tree.directory), queries),
        )
