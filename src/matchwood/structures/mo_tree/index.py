"""MO-Tree: buckets by overlapping cells of a few attributes, rows bit-sliced inside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import Int64s, Rows
from matchwood.encode.picking import pick_rows
from matchwood.errors import QueryError
from matchwood.store.batch_order import FEWEST, keys_of, neighbours
from matchwood.store.growth import grown
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.verify import ANY
from matchwood.store.row_store import Slots
from matchwood.structures.base import AxisShape, Index, Query, new_values
from matchwood.structures.mo_tree import plan as plans
from matchwood.structures.mo_tree.bulk import FEW, MOST_WAITING, place_all, put_and_slice, remove_all, rewrite_all
from matchwood.structures.mo_tree.check import check_tree
from matchwood.structures.mo_tree.kernels import layout as kernel
from matchwood.structures.mo_tree.kernels import match as matching
from matchwood.structures.mo_tree.kernels import place as placing
from matchwood.structures.mo_tree.kernels.match import Scratch
from matchwood.structures.mo_tree.kernels.nodes import PIECE
from matchwood.structures.mo_tree.kernels.order import order_keys
from matchwood.structures.mo_tree.kernels.spans import SPAN, slice_rows
from matchwood.structures.mo_tree.kernels.visits import MOST_RANKED, QUESTIONS, new_batch
from matchwood.structures.mo_tree.state import (
    in_order,
    most_for,
    new_tree,
    order_by,
    restored_tree,
    saved_tree,
    ticks_of,
)
from matchwood.structures.tally import new_keys

MOST_VALUES = 1 << 15  # values of a batch, 64 bytes each: events of very many dimensions are answered fewer at a time


class MOTree(Index):
    """A flat tree of overlapping cells; rows are filtered by bit planes, survivors verified exactly.

    Layout and kernels: `kernels.layout` (where), `kernels.spans`, `kernels.place` and `kernels.nodes` (in and
    out), `kernels.visits` and `kernels.match` (answers), `plan` (which cells).
    Invariant: every live row stands in one bucket whose cells hold its intervals, and its planes have ones wherever it
    may hold (`check`); or it waits. Rows that come one by one, or move to another bucket so, are stored at once and
    placed together, when somebody asks or 8,192 wait: a row alone turns some 130 bits in as many lines of memory.
    Insert, delete and update O(slices of the row); match O(stabbed lines of 512 rows * axes + candidates).
    """

    name: ClassVar[str] = "mo-tree"

    def __init__(self, *, plan: str = "planned", bytes_per_row: int = 64, layers: int | None = None) -> None:
        super().__init__()
        if plan not in ("planned", "paper"):
            raise QueryError(f"expected a plan of 'planned' or 'paper', got {plan!r}")
        self._made: dict[str, Any] = {"plan": plan, "bytes_per_row": bytes_per_row, "layers": layers}
        self._planned_for = 0
        self._most = 0
        """How many rows the plan is good for."""
        self._tree = new_tree(plans.Plan((), 0))
        self._room: Scratch | None = None
        self._waiting = np.zeros(MOST_WAITING + 1, np.uint32)
        """How many rows wait, and their slots (`kernels.single`)."""

    def _insert(self, slots: Slots) -> None:
        if self._outgrown(0):
            self.replan()
        else:
            self._reserve_places()
            self._place_stored(slots)

    def _place_stored(self, slots: Slots) -> None:
        """Place rows that are in the store. O(slices of the row) each, less where they are many."""
        numbers = np.empty(len(slots), np.uint32)
        if len(slots) <= FEW:
            done = placing.place_few(self._tree, self.store.state, slots, numbers, np.empty(len(slots), PIECE))
            slots, numbers = slots[done:], numbers[done:]
        else:
            kernel.locate(self._tree, self.store.state, slots, numbers)
        if len(slots):
            order = order_by(numbers, len(self._tree.directory))
            self._place(*in_order(order, slots, numbers))

    def _place_waiting(self) -> None:
        """Place the rows that wait."""
        if many := int(self._waiting[0]):
            with self._changing():
                self._waiting[0] = 0
                self._place_stored(self._waiting[1 : 1 + many])

    def _outgrown(self, more: int) -> bool:
        """Is it time to plan anew, with so many rows more?"""
        return len(self.store) + more > self._most

    def replan(self) -> None:
        """Plan for the rows that are there and lay everything out anew, the row store too: in the order of the buckets. O(n)."""
        slots = self.store.live_slots()
        with self._changing():
            self._waiting[0] = 0
            self._tree = new_tree(self._plan(slots))
            self._planned_for, self._most = len(slots), most_for(len(slots))
            self._room = None
            keys = np.empty(len(slots), np.uint64)
            order_keys(self._tree, self.store.state, slots, keys)
            order = np.argsort(keys)
            self.store.reorder(slots[order])
            self._reserve_places()
            self._place(np.arange(len(slots), dtype=np.uint32), (keys[order] >> np.uint64(32)).astype(np.uint32))

    def axes(self) -> list[AxisShape]:
        """As `Index.axes`."""
        return [AxisShape(int(axis["dim"]), int(axis["slices"]), bool(axis["cells"])) for axis in self._tree.axes]

    def _plan(self, slots: Slots) -> plans.Plan:
        if self._made["plan"] == "paper":
            return plans.paper(self.store, slots)
        return plans.planned(self.store, slots, bytes_per_row=self._made["bytes_per_row"], layers=self._made["layers"])

    def _place(self, slots: Slots, numbers: np.ndarray) -> None:
        self._tree = place_all(self._tree, numbers, placing.place_rows, self.store.state, slots)

    def _delete(self, slots: Slots) -> None:
        self._place_waiting()
        self._remove(slots)

    def _remove(self, slots: Slots, *meanwhile: Callable[[np.ndarray], None]) -> None:
        """Take rows that are placed out of their nodes."""
        (nodes,) = in_order(slots, self._tree.places["node"])
        remove_all(self._tree, slots, nodes, *meanwhile)

    def insert(self, rows: Rows) -> None:
        """Add the rows of new subscriptions, all or (if an id is known already) none."""
        self.repair()
        if rows.size and not self._outgrown(rows.size):
            self._insert_many(rows)
        else:
            super().insert(rows)

    def _insert_many(self, rows: Rows) -> None:
        """Store the rows in the order in which they come, and place them in the order of their buckets."""
        self.store.check_new(rows)
        with self._changing():
            slots, numbers, spans = put_and_slice(self._tree, rows, partial(self.store.put, rows), slice_rows)
            self._reserve_places()
            order = order_by(numbers, len(self._tree.directory))
            self._place_new(rows, spans, order, *in_order(order, slots, numbers))

    def _place_new(self, rows: Rows, spans: np.ndarray, which: np.ndarray, slots: Slots, numbers: np.ndarray) -> None:
        """Place rows that have just been stored, in the order of their buckets."""
        new = rows.offsets, spans, which, slots
        self._tree = place_all(self._tree, numbers, placing.place_new, self.store.state, *new)

    def delete(self, ids: Int64s) -> None:
        """Remove subscriptions with all their rows, all or (if one is not known) none."""
        self.repair()
        ids = np.ascontiguousarray(ids, np.int64)
        self._place_waiting()
        slots = self.store.slots_once(ids)
        if slots is None:
            return super().delete(ids)
        with self._changing():
            self._remove(slots, lambda order: self.store.remove(*in_order(order, ids)))
        return None

    def update(self, rows: Rows) -> None:
        """Replace the rows of subscriptions that are there, all or none; in place where their bucket stays."""
        self.repair()
        if not rows.size:
            return super().update(rows)
        self._place_waiting()
        self.store.check_shapes(rows)
        slots = self.store.slots_once(rows.ids)
        if slots is None:
            return super().update(rows)
        with self._changing():
            self.store.note_dimensions(rows)
            spans = np.empty(len(rows.dims), SPAN)
            left = rewrite_all(self._tree, self.store.state, rows, slots, spans)
            order = order_by(left.numbers, len(self._tree.directory))
            self._place_new(rows, spans, *in_order(order, left.rows, left.slots, left.numbers))
        if len(left.odd):
            super().update(pick_rows(rows, left.odd))
        return None

    def _order(self, query: Query) -> Int64s | None:
        """Neighbours one after the other, where layers say who is one; relaxed matching looks at everything anyway."""
        tree = self._tree
        layers = tree.axes[: min(2, int(tree.counts[kernel.LAYERS]))]
        if query.events.size < FEWEST or not len(layers) or query.mode == ANY:
            return None
        return neighbours([ticks_of(tree, axis, keys_of(query.events, int(axis["dim"]))) for axis in layers])

    def _answer(self, query: Query, first: int, out: Out, ends: Int64s) -> int:
        events, mode, combine, k = query
        state = self._tree, self.store.state, self._scratch()
        return int(matching.answer_many(*state, events, first, mode, combine, k, out, ends, self._candidates))

    def _prepare(self) -> None:
        super()._prepare()
        self._place_waiting()

    def _check(self) -> None:
        waiting = self._waiting[1 : 1 + self._waiting[0]].tolist()
        check_tree(self._tree, self.store.state, len(self.store), waiting)

    def _arrays(self) -> dict[str, np.ndarray]:
        self._place_waiting()
        return {**saved_tree(self._tree), "planned_for": np.array([self._planned_for])}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._planned_for = int(saved["planned_for"][0])
        self._most = most_for(self._planned_for)
        tree = restored_tree(saved)
        # spare places of older folders do not say that nobody stands there
        self._tree = tree._replace(places=tree.places[: self.store.slots])
        self._room = None
        self._waiting[0] = 0

    def _parameters(self) -> dict[str, Any]:
        return self._made

    def _nodes(self) -> int:
        return int(self._tree.counts[kernel.NODES])

    def _details(self) -> dict[str, float]:
        counts = self._tree.counts
        return {
            "layers": float(counts[kernel.LAYERS]),
            "axes": float(counts[kernel.AXES]),
            "planes": float(counts[kernel.PLANES]),
            "buckets": float(counts[kernel.BUCKETS]),
            "directory": float(len(self._tree.directory)),
        }

    def _reserve_places(self) -> None:
        places = self._tree.places
        if len(places) < len(self.store.state.rows):
            more = grown(places, len(self.store.state.rows))
            more["node"][len(places) :] = kernel.NONE
            self._tree = self._tree._replace(places=more)

    def _scratch(self) -> Scratch:
        tree, room, dims = self._tree, self._room, self.store.dimensions
        if room is None or room.values.shape[1] < dims or room.seen is not self._seen:
            questions = max(min(QUESTIONS, MOST_VALUES // max(dims, 1)), 1)
            axes, cells = len(tree.axes), len(tree.cells) + 1
            begins, ends, planes, lasts = (np.zeros(questions * axes, np.int32) for _ in range(4))
            plain, light, single = (np.zeros(questions, np.bool_) for _ in range(3))
            self._room = room = Scratch(
                values=new_values(questions * dims).reshape(questions, dims),
                keys=new_keys(questions * dims).reshape(questions, dims),
                plain=plain,
                light=light,
                seen=self._seen,
                begins=begins,
                ends=ends,
                planes=planes,
                lasts=lasts,
                single=single,
                stabbed=np.zeros(cells, np.int64),
                slices=np.zeros(cells, np.int64),
                touched=np.zeros(cells, np.uint64),
                runs=np.zeros(axes + 1, np.int64),
                digits=np.zeros(axes + 1, np.int64),
                line=np.zeros(kernel.LINE, np.uint64),
                best=np.zeros((questions, MOST_RANKED)),
                held=np.zeros(questions, np.int64),
                worst=np.zeros(questions),
                batch=new_batch(len(tree.directory), questions),
            )
        return room
