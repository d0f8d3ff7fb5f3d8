"""Live events: those that subscriptions of the future may still match, in the event half of an MO-Tree."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.store.batch_order import FEWEST, centres_of, neighbours
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.verify import ANY
from matchwood.store.row_store import RowStore
from matchwood.store.workers import threads_for
from matchwood.structures.base import AxisShape, new_values
from matchwood.structures.event_base import Asked, EventIndex
from matchwood.structures.live.event_store import EventStore, Slots
from matchwood.structures.live.kernels import ask as asking
from matchwood.structures.live.kernels import match as matching
from matchwood.structures.live.kernels import place as kernel
from matchwood.structures.live.kernels.ask import LiveScratch
from matchwood.structures.live.kernels.layout import MOST, PLACED, WAITING, Live
from matchwood.structures.live.kernels.values import Parts
from matchwood.structures.mo_tree import plan as plans
from matchwood.structures.mo_tree.bulk import FEW, place_all, put_and_slice
from matchwood.structures.mo_tree.kernels import layout as mo_tree
from matchwood.structures.mo_tree.kernels.nodes import PIECE
from matchwood.structures.mo_tree.kernels.spans import SPAN
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

MOST_INTERVALS = 1 << 16  # of the rows of a batch, 24 bytes each: very long ones are answered fewer at a time
EXPIRED = 4096  # that a batch of rows removes; others are met again


class LiveEvents(EventIndex):
    """The event half of an MO-Tree.

    Layout and kernels: `kernels.layout` (what is kept), `kernels.place` (where), `kernels.ask` and
    `kernels.match` (answers). An event costs 8 bytes a value and 44 for its record, together in whole cache lines, 12 to be
    found by id and given away again, and about 67 for its planes and place.
    Events that come one by one are kept at once and placed together, when somebody asks or 8,192 wait: an event alone turns
    some 200 bits in as many lines of memory.
    Expired events are never returned. They are removed when a subscription meets them, by `sweep`, and by
    inserting: each event inserted looks at four others.
    One writer; matching writes too, since it removes what has expired.
    """

    name = "live-events"

    def __init__(self, *, like: Callable[[], Sequence[AxisShape]] | None = None) -> None:
        super().__init__()
        self._like = like
        self._planned_for = 0
        self._most = 0  # how many events the plan is good for
        self._tree = new_tree(plans.Plan((), 0))
        self._room: LiveScratch | None = None
        self._waiting = array("I")  # slots of events that are kept and not placed yet

    def _keep(self, events: Events, ids: Int64s, until: Float64s) -> None:
        """Keep the events in the order in which they come, and place them in the order of their buckets."""
        if len(self) + len(ids) > self._most:
            super()._keep(events, ids, until)
            return
        threads = threads_for(len(ids))
        if self.store.has_free(len(ids)):
            slots, numbers, spans = self._keep_shared(events, ids, until, threads)
        else:
            put = partial(self.store.put, events, ids, until)
            slots, numbers, spans = put_and_slice(self._tree, events, put, kernel.slice_events)
        self._place_sliced(slots, numbers, events.offsets, spans, order_by(numbers, len(self._tree.directory)))

    def _keep_shared(
        self, events: Events, ids: Int64s, until: Float64s, threads: int
    ) -> tuple[Slots, np.ndarray, np.ndarray]:
        """Keep events in free slots and find their buckets and spans, in one pass over their values by each thread."""
        numbers, spans = np.empty(events.size, np.uint32), np.empty(len(events.dims), SPAN)

        def keep(live: Live, part: slice, slots: Slots) -> None:
            new = events, ids, until, part.start, part.stop
            kernel.keep_and_slice(self._tree, live, *new, slots, numbers, spans)

        return self.store.put_shared(events, ids, until, keep, threads), numbers, spans

    def arrays(self) -> dict[str, np.ndarray]:
        """The kept events and their tree without spare room, for saving. O(1), or of those that wait."""
        self.repair()
        self._place_waiting()
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
        live._most = most_for(live._planned_for)
        return live

    def _parameters(self) -> dict[str, Any]:
        return {"like": self._like}

    def _insert(self, slots: Slots) -> None:
        if len(self) > self._most:
            slots = self.store.live_slots()
            del self._waiting[:]
            self._tree = new_tree(plans.planned_events(self.store, slots, self._like() if self._like else ()))
            self._planned_for, self._most = len(slots), most_for(len(slots))
            slots = self._reorder(slots)
        self._place_kept(slots)

    def _place_kept(self, slots: Slots) -> None:
        """Place events that are in the store. O(slices) each, less where they are many."""
        tree, live, many, axes = self._tree, self.store.state, len(slots), max(len(self._tree.axes), 1)
        offsets, spans = np.arange(0, (many + 1) * axes, axes), np.empty(many * axes, SPAN)
        numbers, done = np.empty(many, np.uint32), 0
        if many <= FEW:
            which = np.arange(many, dtype=np.uint32)
            done = kernel.place_few(tree, live, offsets, spans, which, slots, numbers, np.empty(many, PIECE))
        else:
            kernel.slice_kept(tree, live, slots, numbers, offsets, spans)
        if done < many:
            self._place_sliced(slots, numbers, offsets, spans, done + order_by(numbers[done:], len(tree.directory)))

    def _place_sliced(
        self, slots: Slots, numbers: np.ndarray, offsets: Int64s, spans: np.ndarray, order: np.ndarray
    ) -> None:
        """Place events whose buckets and spans are known, in this order."""
        slots, numbers = in_order(order, slots, numbers)
        self._tree = place_all(self._tree, numbers, kernel.place_new, self.store.state, offsets, spans, order, slots)

    def _place_waiting(self) -> None:
        """Place the events that wait."""
        if self._waiting:
            slots = np.array(self._waiting, np.uint32)
            with self._changing():
                del self._waiting[:]
                self._place_kept(slots)

    def _reorder(self, slots: Slots) -> Slots:
        """Lay the kept events out in the order of their buckets, without holes; return their new slots. O(n).

        Those that are verified together then lie together: a third less for a subscription that matches hundreds.
        """
        numbers = np.empty(len(slots), np.uint32)
        kernel.locate_events(self._tree, self.store.state, slots, numbers)
        self.store.reorder(slots[order_by(numbers, len(self._tree.directory))])
        self._room = None
        return np.arange(len(slots), dtype=np.uint32)

    def _delete(self, slots: Slots) -> None:
        (nodes,) = in_order(slots, self.store.state.events["node"])
        if self._waiting and (nodes == WAITING).any():
            self._place_waiting()
            (nodes,) = in_order(slots, self.store.state.events["node"])
        (slots,) = in_order(order_by(nodes, int(self._tree.counts[mo_tree.NODES])), slots)
        kernel.remove_events(self._tree, self.store.state, slots)

    def _match(self, asked: Asked, first: int, out: Out, ends: Int64s) -> int:
        self._place_waiting()
        rows = asked.store.state, asked.slots, asked.groups, first, self._scratch(asked.store)
        question = asked.now, asked.how, asked.combine, asked.k
        return int(matching.match_rows(self._tree, self.store.state, *rows, *question, out, ends, self.candidates))

    def _order(self, rows: Rows, groups: Int64s, how: int) -> Int64s | None:
        """Neighbours one after the other, where layers say who is one."""
        tree = self._tree
        layers = tree.axes[: min(2, int(tree.counts[mo_tree.LAYERS]))]
        if len(groups) <= FEWEST or not len(layers) or how == ANY:
            return None
        return neighbours([ticks_of(tree, axis, centres_of(rows, groups[:-1], int(axis["dim"]))) for axis in layers])

    def _check(self) -> None:
        """Every event waits, or stands in its bucket, at a position of its own. O(n), in Python: for tests."""
        tree, events, slots = self._tree, self.store.state.events, self.store.live_slots()
        waits = events["node"][slots] == WAITING
        assert slots[waits].tolist() == sorted(self._waiting), "events wait that nobody knows of"
        slots = slots[~waits]
        numbers = np.zeros(len(slots), np.uint32)
        kernel.locate_events(tree, self.store.state, slots, numbers)
        ids = self.store.ids(slots)
        for slot, id_, number in zip(slots.tolist(), ids.tolist(), numbers.tolist(), strict=True):
            event = events[slot]
            node = tree.nodes[int(event["node"])]
            assert node["number"] == number, f"event {id_} stands in the wrong bucket"
            start, words, at = int(node["start"]), int(node["words"]), int(event["position"])
            assert tree.members[2 * start + at] == event["start"], f"event {id_} is misplaced"
            word = start + mo_tree.VALID * words + at // 64
            assert int(tree.bits[word]) >> (at % 64) & 1, f"event {id_} stands at a free position"
        assert int(tree.nodes["count"][tree.nodes["words"] > 0].sum()) == len(slots), "nodes and live events differ"

    def _nbytes(self) -> int:
        return self._tree.bits.nbytes + self._tree.nodes.nbytes + self._tree.directory.nbytes

    def _scratch(self, store: RowStore) -> LiveScratch:
        """Scratch for this store of rows; what does not depend on it is kept between calls."""
        tree, room, kept = self._tree, self._room, len(self.store.state.events)
        dims, most = max(store.dimensions, 1), int(self.store.state.counts[MOST]) + 1
        names = int(store.state.rows["count"].max(initial=1))
        if room is None or len(room.values) < dims or room.lo.shape[1] < names or len(room.seen) < kept:
            axes = len(tree.axes)
            questions = max(min(QUESTIONS, MOST_INTERVALS // names), 1)
            begins, ends, planes = (np.zeros(questions * each, np.int32) for each in (axes, axes, 2 * axes + 2))
            lo, hi, below = (np.zeros((questions, names), np.uint64) for _ in range(3))
            stabbed, slices = (np.zeros(len(tree.cells) + 2 * axes + 1, np.int64) for _ in range(2))
            runs, digits = (np.zeros(axes + 1, np.int64) for _ in range(2))
            self._room = room = LiveScratch(
                new_values(dims),
                np.zeros(dims + 1, np.int64),
                lo,
                hi,
                below,
                np.zeros((questions, 4 * PLACED), np.uint32),
                np.zeros(questions, asking.ASKING),
                np.zeros((questions, MOST_RANKED), np.int64),
                np.zeros(kept, np.uint32),
                Parts(np.zeros(most), np.zeros(most)),
                np.zeros(EXPIRED, np.uint32),
                begins,
                ends,
                planes,
                np.zeros(questions, asking.PAIRS),
                stabbed,
                slices,
                runs,
                digits,
                np.zeros(mo_tree.LINE, np.uint64),
                new_batch(len(tree.directory), questions),
            )
        elif len(room.parts.lo) < most:
            self._room = None
            return self._scratch(store)
        return room
