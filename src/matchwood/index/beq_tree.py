"""BEQ-Tree: a quadtree of events with sorted leaves, for subscription matching. A comparison system of the MO-Tree paper."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.errors import EventError, UnsupportedError
from matchwood.index.growth import grown
from matchwood.kernels import beq_tree as kernel
from matchwood.kernels.beq_tree import Leaves

MOST_DEPTH = 24


class BEQTree:
    """Events by place, then by each attribute's key; a subscription counts in the leaves that its square meets.

    Layout: `kernels.beq_tree`. It answers conjunctions of single intervals against events of single values, all
    attributes counted: what the comparison needs. Events given at once are sorted at once; insert and delete of others
    keep every list of the leaf sorted, O(attributes * events of a leaf), and a leaf with more than `leaf_events` is quartered.
    """

    name = "beq-tree"

    def __init__(
        self, events: Events, ids: Int64s, until: Float64s, *, x: int = 0, y: int = 1, leaf_events: int = 1024
    ) -> None:
        self._x, self._y, self._most = x, y, leaf_events
        self._ids, self._until = np.array(ids, np.int64), np.array(until, np.float64)
        self._slots: dict[int, int] | None = None  # of ids, once somebody asks
        self._free: list[int] = []
        self._dimensions = max(int(events.dims.max(initial=1)) + 1, x + 1, y + 1)
        place = self._places(events)
        self._quads: list[tuple[float, float, int, int]] = []
        members: list[np.ndarray] = []
        _quarter(place, np.arange(events.size), leaf_events, MOST_DEPTH, self._quads, members)
        self._tree: Leaves = self._build(events, place, members)

    def __len__(self) -> int:
        """How many events are kept, expired ones included."""
        return int(self._tree.leaves["size"].sum())

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._tree) + self._ids.nbytes + self._until.nbytes

    def insert(self, events: Events, ids: Int64s, until: Float64s) -> None:
        """Keep more events, under new ids and with attributes that the first ones had. O(lists of a leaf) each."""
        slots, place = self._known(), self._places(events)
        if int(events.dims.max(initial=0)) >= self._dimensions:
            raise UnsupportedError(
                "'beq-tree' knows the attributes of the events it was built of; 'mo-tree' takes others"
            )
        for e, (id_, end) in enumerate(zip(np.asarray(ids).tolist(), np.asarray(until).tolist(), strict=True)):
            if id_ in slots:
                raise EventError(f"event {id_} is there already")
            slot = slots[id_] = self._free.pop() if self._free else self._new_slot()
            self._ids[slot], self._until[slot] = id_, end
            span = slice(events.offsets[e], events.offsets[e + 1])
            values = float(place[0, e]), float(place[1, e]), events.dims[span], events.lo[span], slot
            while (leaf := int(kernel.insert_event(self._tree, self._dimensions, *values))) < 0:
                more = len(self._tree.keys) * 5 // 4 + 4096
                self._tree = self._tree._replace(
                    keys=grown(self._tree.keys, more), members=grown(self._tree.members, more)
                )
            if self._tree.leaves[leaf]["size"] > self._tree.leaves[leaf]["most"]:
                self._split(leaf)

    def delete(self, ids: Int64s) -> None:
        """Remove events by id. O(lists of a leaf) each."""
        slots = self._known()
        for id_ in np.asarray(ids).tolist():
            if id_ not in slots:
                raise EventError(f"event {id_} is not there")
            slot = slots.pop(id_)
            kernel.delete_event(self._tree, self._dimensions, slot)
            self._free.append(slot)

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

    def check(self) -> None:
        """Raise AssertionError if a list is unsorted, or an event not where its place says. O(n), in Python: for tests."""
        tree = self._tree
        for leaf, record in enumerate(tree.leaves):
            inside = np.flatnonzero(tree.leaf_of == leaf)
            assert len(inside) == record["size"] <= max(record["most"], 1), f"leaf {leaf}: events are miscounted"
            for dim in range(self._dimensions):
                keys, members = self._run(leaf, dim)
                assert (np.diff(keys) >= 0).all(), f"leaf {leaf}: list {dim} is not sorted"
                assert set(members.tolist()) <= set(inside.tolist()), f"leaf {leaf}: list {dim} has a stranger"
                if dim in (self._x, self._y):
                    assert sorted(members.tolist()) == inside.tolist(), f"leaf {leaf}: list {dim} lacks an event"

    def _places(self, events: Events) -> Float64s:
        """Both coordinates of every event."""
        if (events.lo != events.hi).any():
            raise EventError("'beq-tree' keeps events of single values; 'mo-tree' keeps ranges and lists")
        owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
        place = np.full((2, events.size), np.nan)
        for at, dim in enumerate((self._x, self._y)):
            place[at, owner[events.dims == dim]] = events.lo[events.dims == dim]
        if np.isnan(place).any():
            raise EventError("'beq-tree' keeps events that have a place")
        return place

    def _build(self, events: Events, place: Float64s, members: list[np.ndarray]) -> Leaves:
        """Sort all lists at once. O(values log values)."""
        owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
        leaf_of = np.zeros(events.size, np.uint32)
        leaves = np.zeros(len(members), kernel.LEAF)
        for number, inside in enumerate(members):
            leaf_of[inside] = number
            leaves[number] = (*_box(place[:, inside]), len(inside), max(self._most, len(inside)))
        run = leaf_of[owner].astype(np.int64) * self._dimensions + events.dims
        order = np.lexsort((events.lo, run))
        starts = np.searchsorted(run[order], np.arange(len(members) * self._dimensions + 1))
        runs = np.zeros(len(starts) - 1, kernel.RUN)
        runs["start"], runs["size"] = starts[:-1], np.diff(starts)
        runs["room"] = runs["size"]
        counts = np.full(kernel.COUNTS, -1, np.int64)
        counts[kernel.END] = len(order)
        quads = np.array(self._quads, kernel.QUAD)
        keys, owners = events.lo[order], owner[order].astype(np.uint32)
        self._counters, self._found = np.zeros(events.size, np.uint16), np.zeros(events.size, np.uint32)
        return Leaves(quads, leaves, runs, keys, owners, leaf_of, counts)

    def _known(self) -> dict[int, int]:
        if self._slots is None:
            self._slots = {id_: slot for slot, id_ in enumerate(self._ids.tolist())}
        return self._slots

    def _new_slot(self) -> int:
        """A slot at the end of every array by event, which grow by a quarter."""
        slot = len(self._slots or ())
        if slot >= len(self._ids):
            more = slot * 5 // 4 + 64
            self._ids, self._until = grown(self._ids, more), grown(self._until, more)
            self._counters, self._found = grown(self._counters, more), grown(self._found, more)
            leaf_of = np.full(more, kernel.NONE, np.uint32)
            leaf_of[: len(self._tree.leaf_of)] = self._tree.leaf_of
            self._tree = self._tree._replace(leaf_of=leaf_of)
        return slot

    def _run(self, leaf: int, dim: int) -> tuple[Float64s, np.ndarray]:
        run = self._tree.runs[leaf * self._dimensions + dim]
        span = slice(int(run["start"]), int(run["start"]) + int(run["size"]))
        return self._tree.keys[span], self._tree.members[span]

    def _split(self, leaf: int) -> None:
        """Quarter a leaf: three new ones, lists divided in their order. A leaf of one place may grow instead."""
        tree, dimensions = self._tree, self._dimensions
        record = tree.leaves[leaf]
        x, y = (record["west"] + record["east"]) / 2, (record["south"] + record["north"]) / 2
        if record["west"] == record["east"] and record["south"] == record["north"]:
            tree.leaves["most"][leaf] *= 2
            return
        place = np.zeros((2, len(tree.leaf_of)))
        for at, dim in enumerate((self._x, self._y)):
            keys, members = self._run(leaf, dim)
            place[at, members] = keys
        quarter = (place[0] > x).astype(np.int64) + 2 * (place[1] > y)
        inside = self._run(leaf, self._x)[1].copy()
        numbers = [leaf, *range(len(tree.leaves), len(tree.leaves) + 3)]
        leaves, runs = grown(tree.leaves, numbers[-1] + 1), grown(tree.runs, (numbers[-1] + 1) * dimensions)
        end = int(tree.counts[kernel.END])
        needed = end + int(runs["size"][leaf * dimensions : (leaf + 1) * dimensions].sum())
        keys, members = grown(tree.keys, needed), grown(tree.members, needed)
        for dim in range(dimensions):
            old_keys, old_members = self._run(leaf, dim)
            parts = [(old_keys[quarter[old_members] == q], old_members[quarter[old_members] == q]) for q in range(4)]
            at = int(runs["start"][leaf * dimensions + dim])  # the first part stays where the list was
            for number, (part, who) in zip(numbers, parts, strict=True):
                room = int(runs["room"][leaf * dimensions + dim]) if number == leaf else len(part)
                keys[at : at + len(part)], members[at : at + len(part)] = part, who
                runs[number * dimensions + dim] = (at, len(part), room)
                at, end = (end, end) if number == leaf else (end + len(part), end + len(part))
        for q, number in enumerate(numbers):
            mine = inside[quarter[inside] == q]
            leaves[number] = (*_box(place[:, mine]), len(mine), max(self._most, len(mine)))
            tree.leaf_of[mine] = number
        quads = grown(tree.quads, len(tree.quads) + 4)
        parent = int(np.flatnonzero((tree.quads["leaf"] == leaf) & (tree.quads["children"] == kernel.NONE))[0])
        quads[parent] = (x, y, len(tree.quads), int(kernel.NONE))
        for q, number in enumerate(numbers):
            quads[len(tree.quads) + q] = (0.0, 0.0, int(kernel.NONE), number)
        tree.counts[kernel.END] = end
        self._tree = tree._replace(quads=quads, leaves=leaves, runs=runs, keys=keys, members=members)


def _box(place: Float64s) -> tuple[float, float, float, float]:
    """West, east, south, north of some events; of none, a box that any event widens to itself."""
    if not place.shape[1]:
        return np.inf, -np.inf, np.inf, -np.inf
    return place[0].min(), place[0].max(), place[1].min(), place[1].max()


def _quarter(
    place: Float64s,
    members: np.ndarray,
    most: int,
    depth: int,
    quads: list[tuple[float, float, int, int]],
    leaves: list[np.ndarray],
) -> None:
    """Quarter a set of events until each part has at most `most`; `quads` and `leaves` as in `kernels.beq_tree`."""
    pending = [(0, members, depth)]
    quads.append((0.0, 0.0, int(kernel.NONE), 0))
    while pending:
        at, inside, left = pending.pop()
        west, east, south, north = _box(place[:, inside])
        if len(inside) <= most or left == 0 or (west == east and south == north):
            quads[at] = (0.0, 0.0, int(kernel.NONE), len(leaves))
            leaves.append(inside)
            continue
        x, y = (west + east) / 2, (south + north) / 2
        quarter = (place[0, inside] > x).astype(np.int64) + 2 * (place[1, inside] > y)
        quads[at] = (x, y, len(quads), int(kernel.NONE))
        for q in range(4):
            pending.append((len(quads), inside[quarter == q], left - 1))
            quads.append((0.0, 0.0, int(kernel.NONE), 0))
