"""BEQ-Tree: a quadtree of events with sorted leaves, for subscription matching. A comparison system of the MO-Tree paper."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matchwood.baselines.kernels import beq_tree as kernel
from matchwood.baselines.kernels.beq_tree import LeafCount, LeafScratch, Leaves
from matchwood.encode.arrays import Float64s, Int64s
from matchwood.store.growth import grown
from matchwood.store.kernels.results import Out
from matchwood.store.row_store import RowStore
from matchwood.structures.base import EVERYTHING, Capability
from matchwood.structures.event_base import Asked, EventIndex
from matchwood.structures.live.event_store import Slots
from matchwood.structures.live.kernels.layout import EventCount, Parts
from matchwood.structures.scratch import Scratch, new_values

MOST_DEPTH = 24
NO_LIMIT = int(kernel.NONE)


class BEQTree(EventIndex):
    """Events by place, then by each attribute's key; a subscription counts in the leaves that its square meets.

    Layout: `kernels.beq_tree`. Dimensions `x` and `y` are the place; events without one share a leaf. Events given to an
    empty tree are sorted at once; insert and delete of others keep every list of the leaf sorted, O(values * events of a leaf),
    and a leaf with more than `leaf_events` is quartered. A list costs 12 bytes a leaf and dimension, in use or not.
    """

    name = "beq-tree"
    capabilities: ClassVar = EVERYTHING - {Capability.ANY, Capability.RANGE_EVENTS}

    def __init__(self, *, x: int = 0, y: int = 1, leaf_events: int = 1024) -> None:
        super().__init__()
        self._x, self._y, self._most = x, y, leaf_events
        self._tree = self._built(np.zeros(0, np.uint32))

    def _parameters(self) -> dict[str, Any]:
        return {"x": self._x, "y": self._y, "leaf_events": self._most}

    def _insert(self, slots: Slots) -> None:
        if len(slots) == len(self):
            self._tree = self._built(slots)
            return
        self._tree = self._tree._replace(leaf_of=grown(self._tree.leaf_of, len(self.store.state.events)))
        done = 0
        while True:
            done, full = kernel.place_events(self._tree, self.store.state, slots, done)
            if done == len(slots):
                return
            if full == kernel.NEW_DIMENSION:
                self._name_dimensions(int(self.store.values(slots[done:])[1].max()) + 1)
            elif full == kernel.NO_ROOM:
                self._make_room(len(self._tree.keys) + 1)
            else:
                self._split(int(full))

    def _delete(self, slots: Slots) -> None:
        kernel.remove_events(self._tree, self.store.state, slots)
        self.store.drop(slots)

    def _answer(self, scratch: Scratch, asked: Asked, first: int, out: Out, ends: Int64s) -> int:
        own = self._scratch_for(asked.store, scratch)
        asked = asked._replace(store=asked.store.state)
        return int(kernel.answer_rows(self._tree, self.store.state, own, asked, first, out, ends))

    def _check(self) -> None:
        """Every list is sorted and has the leaf's events with their keys; every event is where its place says."""
        tree = self._tree
        assert int(tree.leaves["size"].sum()) == len(self), "leaves and live events differ"
        live = self.store.live_slots()
        for leaf, record in enumerate(tree.leaves):
            slots = live[tree.leaf_of[live] == leaf]
            assert len(slots) == record["size"] <= record["most"], f"leaf {leaf}: events are miscounted"
            sizes, dims, keys = self.store.values(slots)
            owner = np.repeat(slots, sizes)
            for dim in range(int(tree.counts[LeafCount.DIMENSIONS])):
                run, members = self._run(leaf, dim)
                assert (run[1:] >= run[:-1]).all(), f"leaf {leaf}: list {dim} is not sorted"
                here = sorted(zip(members.tolist(), run.tolist(), strict=True))
                there = sorted(zip(owner[dims == dim].tolist(), keys[dims == dim].tolist(), strict=True))
                assert here == there, f"leaf {leaf}: list {dim} and its events differ"
            for x, y in self._places(sizes, dims, keys).T:
                assert self._leaf_at(x, y) == leaf, f"leaf {leaf}: an event belongs elsewhere"
                inside = record["west"] <= x <= record["east"] and record["south"] <= y <= record["north"]
                assert inside or leaf == kernel.NOWHERE, f"leaf {leaf}: an event is outside the box"

    def _nbytes(self) -> int:
        return self._tree.nbytes

    def _leaf_at(self, x: float, y: float) -> int:
        if not (np.isfinite(x) and np.isfinite(y)):
            return kernel.NOWHERE
        quad = self._tree.quads[0]
        while quad["children"] != kernel.NONE:
            quad = self._tree.quads[int(quad["children"]) + int(x > quad["x"]) + 2 * int(y > quad["y"])]
        return int(quad["leaf"])

    def _places(self, sizes: Int64s, dims: NDArray[np.uint16], keys: Float64s) -> Float64s:
        """Both coordinates of every event, NaN where it has none."""
        owner = np.repeat(np.arange(len(sizes)), sizes)
        place = np.full((2, len(sizes)), np.nan)
        for at, dim in enumerate((self._x, self._y)):
            place[at, owner[dims == dim]] = keys[dims == dim]
        return place

    def _built(self, slots: Slots) -> Leaves:
        """A tree of these events, all lists sorted at once. O(values log values)."""
        sizes, dims, keys = self.store.values(slots)
        place = self._places(sizes, dims, keys)
        placed = np.isfinite(place).all(axis=0)
        inside = [np.flatnonzero(~placed)]
        quads = _quartered(place, np.flatnonzero(placed), self._most, inside)
        leaf_of = np.zeros(len(slots), np.uint32)
        leaves = np.zeros(len(inside), kernel.LEAF)
        for number, members in enumerate(inside):
            leaf_of[members] = number
            leaves[number] = (*_box(place[:, members]), len(members), max(self._most, len(members)))
        leaves[kernel.NOWHERE] = (-np.inf, np.inf, -np.inf, np.inf, len(inside[0]), NO_LIMIT)
        leaf_by_slot = np.zeros(len(self.store.state.events), np.uint32)
        leaf_by_slot[slots] = leaf_of
        dimensions = max(int(dims.max(initial=0)), self._x, self._y) + 1
        owner = np.repeat(np.arange(len(slots)), sizes)
        run = leaf_of[owner].astype(np.int64) * dimensions + dims
        order = np.lexsort((keys, run))
        starts = np.searchsorted(run[order], np.arange(len(inside) * dimensions + 1))
        runs = np.zeros(len(starts) - 1, kernel.RUN)
        runs["start"], runs["size"] = starts[:-1], np.diff(starts)
        runs["room"] = runs["size"]
        counts = np.full(kernel.COUNTS, -1, np.int64)
        counts[: LeafCount.FREE] = len(order), dimensions, self._x, self._y
        return Leaves(
            quads=quads,
            leaves=leaves,
            runs=runs,
            keys=keys[order],
            members=slots[owner[order]],
            leaf_of=leaf_by_slot,
            counts=counts,
        )

    def _scratch_for(self, store: RowStore, scratch: Scratch) -> LeafScratch:
        """Scratch for this store of rows, kept between calls as long as it suffices."""
        held: LeafScratch | None = scratch.own
        slots = len(self.store.state.events)
        dims, values = max(store.dimensions, 1), int(self.store.state.counts[EventCount.MAX_VALUES]) + 1
        names = int(store.state.rows["count"].max(initial=1))
        if (
            held is not None
            and len(held.values) >= dims
            and len(held.wanted) >= names
            and len(held.parts.lo) >= values
            and len(held.found) >= slots
        ):
            return held
        scratch.own = held = LeafScratch(
            values=new_values(dims),
            wanted=np.zeros(names, np.int64),
            parts=Parts(lo=np.zeros(values), hi=np.zeros(values)),
            seen=np.zeros(slots, np.uint32),
            dims=np.zeros(names, np.int64),
            lo=np.zeros(names),
            hi=np.zeros(names),
            counters=np.zeros(slots, np.uint16),
            found=np.zeros(slots + 1, np.uint32),
            candidates=scratch.work.counts,
        )
        return held

    def _run(self, leaf: int, dim: int) -> tuple[Float64s, Slots]:
        run = self._tree.runs[leaf * int(self._tree.counts[LeafCount.DIMENSIONS]) + dim]
        span = slice(int(run["start"]), int(run["start"]) + int(run["size"]))
        return self._tree.keys[span], self._tree.members[span]

    def _make_room(self, least: int) -> None:
        """Room for so many values, and by a quarter at least."""
        if len(self._tree.keys) < least:
            more = max(least, len(self._tree.keys) * 5 // 4 + 4096)
            keys, members = grown(self._tree.keys, more), grown(self._tree.members, more)
            self._tree = self._tree._replace(keys=keys, members=members)

    def _name_dimensions(self, least: int) -> None:
        """Lists for so many dimensions, and a quarter more than there were. O(leaves * dimensions)."""
        before = int(self._tree.counts[LeafCount.DIMENSIONS])
        after = max(least, before * 5 // 4)
        runs = np.zeros((len(self._tree.leaves), after), kernel.RUN)
        runs[:, :before] = self._tree.runs.reshape(-1, before)
        self._tree.counts[LeafCount.DIMENSIONS] = after
        self._tree = self._tree._replace(runs=runs.reshape(-1))

    def _split(self, leaf: int) -> None:
        """Quarter a leaf: three new ones, lists divided in their order. A leaf that cannot be divided may grow instead."""
        (xs, members), (ys, others) = self._run(leaf, self._x), self._run(leaf, self._y)
        inside = np.sort(members)
        place = np.array([xs[np.argsort(members)], ys[np.argsort(others)]])
        x, y = _middle(place)
        quarter = _quarter_of(place, x, y)
        if (quarter == quarter[0]).all():
            self._tree.leaves["most"][leaf] *= 2
            return
        numbers = [leaf, *range(len(self._tree.leaves), len(self._tree.leaves) + 3)]
        self._divide_lists(numbers, inside, quarter)
        tree = self._tree
        leaves = grown(tree.leaves, numbers[-1] + 1)
        quads = grown(tree.quads, len(tree.quads) + 4)
        parent = int(np.flatnonzero((tree.quads["leaf"] == leaf) & (tree.quads["children"] == kernel.NONE))[0])
        quads[parent] = (x, y, len(tree.quads), int(kernel.NONE))
        for q, number in enumerate(numbers):
            mine = quarter == q
            leaves[number] = (*_box(place[:, mine]), mine.sum(), max(self._most, int(mine.sum())))
            self._tree.leaf_of[inside[mine]] = number
            quads[len(tree.quads) + q] = (0.0, 0.0, int(kernel.NONE), number)
        self._tree = tree._replace(quads=quads, leaves=leaves)

    def _divide_lists(self, numbers: list[int], inside: Slots, quarter: Int64s) -> None:
        """Give each of four leaves its part of the first one's lists; `quarter` says where each event `inside` goes."""
        leaf, dimensions = numbers[0], int(self._tree.counts[LeafCount.DIMENSIONS])
        end = int(self._tree.counts[LeafCount.END])
        runs = grown(self._tree.runs, (numbers[-1] + 1) * dimensions)
        sizes = runs["size"][leaf * dimensions : (leaf + 1) * dimensions]
        self._make_room(end + int(sizes.sum()))
        keys, members = self._tree.keys, self._tree.members
        for dim in np.flatnonzero(sizes).tolist():
            old = runs[leaf * dimensions + dim].copy()
            mine, theirs = (array.copy() for array in self._run(leaf, dim))
            part = quarter[np.searchsorted(inside, theirs)]
            at, room = int(old["start"]), int(old["room"])  # the first part stays where the list was
            for q, number in enumerate(numbers):
                size = int((part == q).sum())
                keys[at : at + size], members[at : at + size] = mine[part == q], theirs[part == q]
                runs[number * dimensions + dim] = (at, size, size if q else room)
                end += size if q else 0
                at = end
        self._tree.counts[LeafCount.END] = end
        self._tree = self._tree._replace(runs=runs)


def _box(place: Float64s) -> tuple[float, float, float, float]:
    """West, east, south, north of some events; of none, a box that any event widens to itself."""
    if not place.shape[1]:
        return np.inf, -np.inf, np.inf, -np.inf
    return place[0].min(), place[0].max(), place[1].min(), place[1].max()


def _middle(place: Float64s) -> tuple[float, float]:
    west, east, south, north = _box(place)
    return west / 2 + east / 2, south / 2 + north / 2


def _quarter_of(place: Float64s, x: float, y: float) -> Int64s:
    """Which of the four quarters around a point each event is in."""
    quarter: Int64s = (place[0] > x).astype(np.int64) + 2 * (place[1] > y)
    return quarter


def _quartered(place: Float64s, members: Int64s, most: int, leaves: list[Int64s]) -> np.ndarray:
    """Quarter a set of events until each part has at most `most`; the parts are appended to `leaves`. The quads of the tree."""
    quads = [(0.0, 0.0, int(kernel.NONE), 0)]
    pending = [(0, members, MOST_DEPTH)]
    while pending:
        at, inside, left = pending.pop()
        west, east, south, north = _box(place[:, inside])
        if len(inside) <= most or left == 0 or (west == east and south == north):
            quads[at] = (0.0, 0.0, int(kernel.NONE), len(leaves))
            leaves.append(inside)
            continue
        x, y = _middle(place[:, inside])
        quarter = _quarter_of(place[:, inside], x, y)
        quads[at] = (x, y, len(quads), int(kernel.NONE))
        for q in range(4):
            pending.append((len(quads), inside[quarter == q], left - 1))
            quads.append((0.0, 0.0, int(kernel.NONE), 0))
    return np.array(quads, kernel.QUAD)
