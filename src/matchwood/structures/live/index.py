"""Live events: those that subscriptions of the future may still match, in the event half of an MO-Tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from matchwood.encode.arrays import Int64s, Rows
from matchwood.store.batch_order import FEWEST, centres_of, neighbours
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.verify import ANY
from matchwood.store.row_store import RowStore
from matchwood.structures.base import AxisShape
from matchwood.structures.event_base import Asked, EventIndex
from matchwood.structures.live.event_store import EventStore, Slots
from matchwood.structures.live.kernels.layout import EventCount, Parts
from matchwood.structures.live.kernels.match import answer_rows
from matchwood.structures.live.kernels.place import locate_events, place_events
from matchwood.structures.live.kernels.query import ROW_QUERY, LiveScratch
from matchwood.structures.live.plan import planned_events
from matchwood.structures.mo_tree.kernels.batch import QUERIES, new_batch, with_more_hits
from matchwood.structures.mo_tree.kernels.layout import LINE, VALID, TreeCount
from matchwood.structures.mo_tree.kernels.nodes import release
from matchwood.structures.mo_tree.plan import TreePlan
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

MAX_INTERVALS = 1 << 16  # of the rows of a batch, 24 bytes each: very long rows are answered fewer at a time


class LiveEvents(EventIndex):
    """The event half of an MO-Tree.

    Layout and kernels: `kernels.layout` (the store), `kernels.place` (where an event stands), `kernels.query` and
    `kernels.match` (answers), `plan` (which cells). `like` tells the axes of the subscriptions' tree, which the events share.
    An event takes 8 bytes a value (32 if it is general), 32 for its record, about 20 to be found, and 67 for planes and place.
    Expired events are never returned; the engine deletes them.
    """

    name = "live-events"

    def __init__(self, *, like: Callable[[], Sequence[AxisShape]] | None = None) -> None:
        super().__init__()
        self._like = like
        self._planned_for = 0
        self._tree = new_tree(TreePlan((), 0))

    def arrays(self) -> dict[str, np.ndarray]:
        """The events and their tree without spare room, for saving. O(1)."""
        self.repair()
        tree = {f"tree_{name}": array for name, array in saved_tree(self._tree).items()}
        return {**self.store.arrays(), **tree, "planned_for": np.array([self._planned_for])}

    @classmethod
    def of_arrays(
        cls, saved: Mapping[str, np.ndarray], *, like: Callable[[], Sequence[AxisShape]] | None = None
    ) -> LiveEvents:
        """The events that `arrays` gave, as they were. O(1)."""
        live = cls(like=like)
        live.store = EventStore.of_arrays(saved)
        live._tree = restored_tree({n.removeprefix("tree_"): a for n, a in saved.items() if n.startswith("tree_")})
        live._planned_for = int(saved["planned_for"][0])
        return live

    def _parameters(self) -> dict[str, Any]:
        return {"like": self._like}

    def _insert(self, slots: Slots) -> None:
        if len(self) > capacity_of(self._planned_for):
            self._replan()
        else:
            self._place(*self._by_bucket(slots))

    def _replan(self) -> None:
        """Plan for the events that are there and lay out everything anew, the store too, in the order of the buckets. O(n)."""
        slots = self.store.live_slots()
        self._tree = new_tree(planned_events(self.store, slots, self._like() if self._like else ()))
        self._planned_for = len(slots)
        slots, numbers = self._by_bucket(slots)
        self.store.reorder(slots)
        self._place(np.arange(len(slots), dtype=np.uint32), numbers)

    def _by_bucket(self, slots: Slots) -> tuple[Slots, np.ndarray]:
        """Events in the order of their buckets, and these; that of a single event is left to `place_events`."""
        numbers = np.empty(len(slots), np.uint32)
        if len(slots) == 1:
            return slots, numbers
        locate_events(self._tree, self.store.state, slots, numbers)
        return in_order(slots, numbers)

    def _place(self, slots: Slots, numbers: np.ndarray) -> None:
        """Put events, which are not in the tree, into their buckets; equal buckets are adjacent."""
        tree = with_places(self._tree, len(self.store.state.events))
        self._tree = placed(tree, place_events, self.store.state, slots, numbers)

    def _delete(self, slots: Slots) -> None:
        release(self._tree, slots)
        self.store.drop(slots)

    def _answer(self, scratch: Scratch, asked: Asked, first: int, out: Out, ends: Int64s) -> int:
        asked_state = asked._replace(store=asked.store.state)
        while True:
            own = self._scratch_for(asked.store, scratch)
            done = int(answer_rows(self._tree, self.store.state, own, asked_state, first, out, ends))
            if done >= 0:
                return done
            scratch.own = own._replace(batch=with_more_hits(own.batch))
            if ~done > first:
                return ~done

    def _order(self, rows: Rows, groups: Int64s, mode: int) -> Int64s | None:
        """Subscriptions that are near each other on the first two layers are answered together."""
        tree = self._tree
        layers = tree.axes[: min(2, int(tree.counts[TreeCount.LAYERS]))]
        if len(groups) <= FEWEST or not len(layers) or mode == ANY:
            return None
        return neighbours([ticks_of(tree, axis, centres_of(rows, groups[:-1], int(axis["dim"]))) for axis in layers])

    def _check(self) -> None:
        """Every event stands in its bucket, at a position of its own. O(n), in Python: for tests."""
        tree, slots = self._tree, self.store.live_slots()
        numbers = np.zeros(len(slots), np.uint32)
        locate_events(tree, self.store.state, slots, numbers)
        ids = self.store.ids(slots)
        for slot, id_, number in zip(slots.tolist(), ids.tolist(), numbers.tolist(), strict=True):
            place = tree.places[slot]
            node = tree.nodes[int(place["node"])]
            assert node["number"] == number, f"event {id_} stands in the wrong bucket"
            start, words, at = int(node["start"]), int(node["words"]), int(place["position"])
            assert tree.members[2 * start + at] == slot, f"event {id_} is misplaced"
            word = start + VALID * words + at // 64
            assert int(tree.bits[word]) >> (at % 64) & 1, f"event {id_} stands at a free position"
        assert int(tree.nodes["count"][tree.nodes["words"] > 0].sum()) == len(slots), "nodes and live events differ"

    def _nbytes(self) -> int:
        tree = self._tree
        return tree.bits.nbytes + tree.nodes.nbytes + tree.directory.nbytes + tree.places.nbytes

    def _scratch_for(self, store: RowStore, scratch: Scratch) -> LiveScratch:
        """Scratch that fits the tree and this store of rows; kept between calls."""
        held: LiveScratch | None = scratch.own
        tree, state = self._tree, self.store.state
        dims, entries = max(store.dimensions, 1), int(store.state.rows["count"].max(initial=1))
        values = int(state.counts[EventCount.MAX_VALUES]) + 1
        if (
            held is not None
            and scratch.fits is tree.axes  # which are those of the plan
            and len(held.values) >= dims
            and held.lo.shape[1] >= entries
            and len(held.seen) >= len(state.events)
            and len(held.parts.lo) >= values
        ):
            return held
        axes, queries = len(tree.axes), max(min(QUERIES, MAX_INTERVALS // entries), 1)
        scratch.fits = tree.axes
        scratch.own = held = LiveScratch(
            values=new_values(dims),
            dims=np.zeros(max(dims, entries), np.int64),
            parts=Parts(lo=np.zeros(values), hi=np.zeros(values)),
            rows=np.zeros(queries, ROW_QUERY),
            lo=np.zeros((queries, entries)),
            hi=np.zeros((queries, entries)),
            below=np.zeros((queries, entries), np.uint64),
            begins=np.zeros(queries * axes, np.int32),
            ends=np.zeros(queries * axes, np.int32),
            passing=np.zeros(queries * axes + axes + 1, np.int32),
            excluded=np.zeros(queries * axes + axes + 1, np.int32),
            stabbed=np.zeros(len(tree.cells) + axes + 1, np.int64),
            slices=np.zeros(len(tree.cells) + axes + 1, np.int64),
            runs=np.zeros(axes + 1, np.int64),
            digits=np.zeros(axes + 1, np.int64),
            line=np.zeros(LINE, np.uint64),
            seen=np.zeros(len(state.events), np.uint32),
            candidates=scratch.work.counts,
            batch=new_batch(len(tree.directory), queries),
        )
        return held
