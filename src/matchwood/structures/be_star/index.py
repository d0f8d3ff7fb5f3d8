"""BE*-Tree: a dynamic tree over attributes and values, built for ranked matching of conjunctions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Rows, concatenate_rows
from matchwood.errors import QueryError
from matchwood.jit.direct import ROWS, Direct, exact
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import NONE
from matchwood.store.row_store import Slots
from matchwood.structures.base import EVERYTHING, Capability
from matchwood.structures.be_star.check import check_tree, dot_of
from matchwood.structures.be_star.kernels import adapt as adapting
from matchwood.structures.be_star.kernels import build as building
from matchwood.structures.be_star.kernels import delete as deleting
from matchwood.structures.be_star.kernels import insert as inserting
from matchwood.structures.be_star.kernels import layout, single
from matchwood.structures.be_star.kernels import match as matching
from matchwood.structures.be_star.kernels import rewrite as rewriting
from matchwood.structures.be_star.kernels import split as splitting
from matchwood.structures.be_star.kernels.build import Work
from matchwood.structures.be_star.kernels.layout import Tree
from matchwood.structures.tally import Tallied, new_keys

SPLITS = {
    "exhaustive": layout.EXHAUSTIVE,
    "approximate": layout.APPROXIMATE,
    "halves": layout.HALVES,
    "rigid": layout.RIGID,
}
RANKINGS = {"popularity": layout.POPULARITY, "selectivity": layout.SELECTIVITY}


INSERT_ONE, DELETE_ONE, UPDATE_ONE = map(Direct, (single.insert_one, single.delete_one, single.update_one))
FEW = 8  # so many rows are inserted by the kernel that is cheaper to call


class _Options(NamedTuple):
    capacity: int
    alpha: float
    beta: float
    split: str
    ranking: str
    batch: bool


class BEStarTree(Tallied):
    """Rows in the smallest bucket that encloses them, found by attribute and value (BE*-Tree IV to VI).

    Layout and invariants: `kernels.layout`. Insert and delete O(depth), amortised; match visits the buckets that the
    event's values meet. Relaxed matching is not offered: a row is reached through some of its predicates only.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7], [0.0], [0, 1], [0], [0], [18.0], [36.0], [0.5])
    >>> tree = BEStarTree.build(rows)
    >>> hits = tree.match(make_events([0, 1, 2], [0, 0], [20.0, 40.0], [20.0, 40.0]))
    >>> hits.offsets.tolist(), hits.ids.tolist(), hits.scores.tolist()
    ([0, 1, 1], [7], [0.5])
    """

    name: ClassVar[str] = "be-star-tree"
    capabilities = EVERYTHING - {Capability.ANY}

    def __init__(
        self,
        *,
        capacity: int = 32,
        alpha: float = 0.1,
        beta: float = 4.0,
        split: str = "exhaustive",
        ranking: str = "popularity",
        batch: bool = True,
    ) -> None:
        """capacity, alpha, beta: A, the least share of a bucket that a split leaves on each side, and how much a
        bucket may be stretched before it gets a new one above it. batch: build from many rows at once where that is faster.
        """
        super().__init__()
        if capacity < 1 or not 0.0 <= alpha <= 0.5 or not beta >= 1.0:
            raise QueryError(f"expected capacity >= 1, alpha in 0..0.5, beta >= 1, got {capacity}, {alpha}, {beta}")
        if split not in SPLITS or ranking not in RANKINGS:
            raise QueryError(
                f"expected split in {list(SPLITS)} and ranking in {list(RANKINGS)}, got {split!r}, {ranking!r}"
            )
        self._options = _Options(capacity, alpha, beta, split, ranking, batch)
        self._work = _new_work(0, 0)
        self._counters = np.zeros(2, np.int64)
        self._found = np.zeros(matching.FOUND + 1, np.uint32)
        self._heap = np.zeros(0, np.uint32), np.zeros(0)
        self._keys = new_keys(0)
        self._slot = np.zeros(1, np.uint32)
        self._clear()

    def insert(self, rows: Rows) -> None:
        """Add the rows of new subscriptions, all or (if an id is known already) none. A single one in one call of a kernel."""
        self.repair()
        alone = len(rows.ids) == 1 and exact(rows, ROWS)
        if not alone or not self._settled(INSERT_ONE, rows):
            super().insert(rows)

    def delete(self, ids: Int64s) -> None:
        """Remove subscriptions with all their rows, all or (if one is not known) none. A single one in one call of a kernel."""
        self.repair()
        ids = np.ascontiguousarray(ids, np.int64)
        if len(ids) != 1 or DELETE_ONE.call(self._tree, self.store.state, ids, self._slot) == single.SLOWLY:
            super().delete(ids)

    def update(self, rows: Rows) -> None:
        """Replace the rows of subscriptions that are there, all or none; in place where the home bucket stays the same."""
        self.repair()
        if len(rows.ids) == 1:
            if not exact(rows, ROWS) or not self._settled(UPDATE_ONE, rows):
                super().update(rows)
            return
        ids = np.unique(rows.ids)
        heads = 1 + int((rows.ids[1:] != rows.ids[:-1]).sum())
        if not rows.size or len(ids) != heads:
            super().update(rows)
            return
        self.store.check_shapes(rows)
        self.store.slots_of(ids)  # every id is known, or it says which is not
        kept = np.zeros(rows.size, np.bool_)
        rewriting.rewrite_many(self._tree, self.store.state, rows, kept)
        if not kept.all():
            moved = np.flatnonzero(~kept)
            super().update(concatenate_rows([rows.take(int(r), int(r) + 1) for r in moved]))

    def _settled(self, change: Direct, rows: Rows) -> bool:
        """Make a change of one row by a kernel, and what it leaves to do. False if the row has to go the way of many."""
        with self._changing():
            return self._settle(change.call(self._tree, self.store.state, rows, self._slot))

    def _settle(self, outcome: int) -> bool:
        """Finish what a change of one row left: a leaf that overflows. False if the row has to go the way of many."""
        if outcome >= 0:
            self._reserve(int(self._tree.counts[layout.LARGEST_LEAF]) + 1)
            if not inserting.settle(self._tree, self.store.state, self._work, outcome):
                self._finish_build()
        return bool(outcome != single.SLOWLY)

    # what the protocol asks for

    def _insert(self, slots: Slots) -> None:
        self._follow_store()
        held = int(self._tree.buckets[0]["rows"])
        if self._options.batch and len(slots) > max(held, self._options.capacity):
            inserting.note_rows(self._tree, self.store.state, slots)
            self._build(np.concatenate([self._leaf_slots(), slots]) if held else slots)
            return
        if len(slots) <= FEW:
            self._insert_few(slots)
            return
        self._insert_each(slots)

    def _insert_each(self, slots: Slots) -> None:
        """One row after the other (Algorithm 1)."""
        done = 0
        while (done := int(inserting.insert_many(self._tree, self.store.state, self._work, slots, done))) < len(slots):
            self._finish_build()
        if self._work.sizes[building.MADE]:
            self._finish_build()

    def _insert_few(self, slots: Slots) -> None:
        done = 0
        while done < len(slots):
            first = done
            done, overflowed = inserting.insert_few(self._tree, self.store.state, slots, first)
            if done == first:
                self._reserve(int(self._tree.counts[layout.LARGEST_LEAF]) + 1)
            self._settle(overflowed)

    def _delete(self, slots: Slots) -> None:
        deleting.delete_many(self._tree, self.store.state, slots)

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        scratch = self._scratch()
        return int(matching.match_many(self._tree, self.store.state, scratch, events, first, how, combine, out, ends))

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        scratch = self._scratch()
        return int(matching.top_many(self._tree, self.store.state, scratch, events, first, how, combine, k, out, ends))

    def _check(self) -> None:
        check_tree(self._tree, self.store.state, self.store.live_slots())

    def _arrays(self) -> dict[str, np.ndarray]:
        tree, counts = self._tree, self._tree.counts
        return {
            "buckets": tree.buckets[: counts[layout.BUCKETS]],
            "parts": tree.parts[: counts[layout.PARTS]],
            "leaves": tree.leaves[: counts[layout.LEAVES]],
            "boxes": tree.boxes[: counts[layout.BOXES]],
            "homes": tree.homes[: self.store.slots],
            "counts": counts,
            "real": tree.real,
            "domains": tree.domains,
        }

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._tree = Tree(*(saved[name] for name in Tree._fields))

    def _parameters(self) -> dict[str, Any]:
        return self._options._asdict()

    def _nodes(self) -> int:
        return int(self._tree.counts[layout.NODES])

    def _details(self) -> dict[str, float]:
        reserved = self.store.nbytes + sum(pool.nbytes for pool in self._tree)
        return {
            "p_nodes": float(self._tree.counts[layout.PNODES]),
            "bytes_reserved": float(reserved),  # with the room that pools have to grow
            "buckets_visited": float(self._counters[1]),
            **self._tests(),
        }

    def reset_counters(self) -> None:
        super().reset_counters()
        self._counters[:] = 0

    @staticmethod
    def paper_capacity(match_probability: float) -> int:
        """The leaf capacity that the paper uses for a match probability (Table II a).

        Leaves that are contiguous and filtered by signatures bear more rows than the paper's: the default is 32 at every
        probability, which was the fastest or within 10 % of it.
        """
        return 5 if match_probability < 0.01 else 20 if match_probability < 0.1 else 160

    def to_dot(self, *, most: int = 200) -> str:
        """The tree as a Graphviz graph, the first `most` buckets breadth first."""
        return dot_of(self._tree, most)

    def adapt(self, window: Events, *, threshold: float = 0.0) -> int:
        """Learn from a window of events and recycle the p-nodes that cost more than they save; return how many.

        rank = gain - loss (V-B): gain counts the predicates that rows below share and an event evaluates once, loss
        those that it evaluates in vain, by event. A p-node whose rank is below `threshold` times its gain gives its rows
        back, and they are inserted again under what was learnt. O(a match of the window + rows recycled).
        """
        if not window.size or not len(self.store):
            return 0
        self._prepare()
        loss, rank, gain = (np.zeros(len(self._tree.buckets)) for _ in range(3))
        adapting.observe(self._tree, self.store.state, self._scratch(), window, loss)
        adapting.rank_buckets(self._tree, window.size, loss, rank, gain)
        roots = np.zeros(self._nodes(), np.uint32)
        roots = roots[: int(adapting.victims(self._tree, rank, gain, threshold, roots))]
        if not len(roots):
            return 0
        slots = np.concatenate([self._slots_below(int(root)) for root in roots])
        with self._changing():
            deleting.delete_many(self._tree, self.store.state, slots)
            self._insert_each(slots)
        return len(roots)

    def _slots_below(self, b: int) -> Slots:
        slots = np.zeros(int(self._tree.buckets[b]["rows"]), np.uint32)
        adapting.collect(self._tree, b, self._heap[0], slots)
        return slots

    # construction

    def _clear(self) -> None:
        """An empty tree: the root alone."""
        counts = np.zeros(layout.COUNTS, np.int64)
        counts[layout.FREE_BUCKET] = counts[layout.FREE_LEAF :] = int(NONE)
        counts[layout.CAPACITY] = self._options.capacity
        counts[layout.SPLITTING] = SPLITS[self._options.split]
        counts[layout.RANKING] = RANKINGS[self._options.ranking]
        counts[layout.BUCKETS] = counts[layout.NODES] = 1
        buckets = np.zeros(8, layout.BUCKET)
        root = buckets[:1]
        root["left"] = root["right"] = root["leaf"] = root["parts"] = root["parent"] = root["owner"] = NONE
        root["boxes"] = NONE
        for field in ("lo", "own_lo"):
            root[field] = np.inf
        for field in ("hi", "own_hi", "best", "sum", "top", "leaf_best", "leaf_sum", "leaf_top"):
            root[field] = -np.inf
        root["leaf_class"] = root["parts_class"] = layout.NO_CLASS
        root["capacity"], root["state"] = self._options.capacity, layout.LIVE
        real = np.array([self._options.alpha, self._options.beta], np.float64)
        homes = np.zeros(len(self.store.state.rows), layout.HOME)
        parts, leaves, boxes = np.zeros(0, layout.PNODE), np.zeros(0, layout.LEAF), np.zeros(0, layout.BOX)
        domains = np.zeros(0, layout.DOMAIN)
        self._tree = Tree(buckets, parts, leaves, boxes, homes, counts, real, domains)
        self._follow_store()

    def _build(self, slots: Slots) -> None:
        """Batch construction (BE*-B): the whole tree from one item of work."""
        old, domains = self._tree.counts, self._tree.domains
        self._clear()
        self._tree = self._tree._replace(domains=domains)
        for kept in (layout.MOST_PREDICATES, layout.ASKS_ABSENCE):
            self._tree.counts[kept] = old[kept]
        self._work = _new_work(len(slots), self.store.dimensions)
        self._work.slots[:] = slots
        self._work.items[0] = (0, building.CLUSTER, 0, len(slots))
        self._work.made[0] = 0
        self._work.sizes[:] = 1
        self._finish_build()
        self._work = _new_work(0, 0)
        self._align_store()

    def _align_store(self) -> None:
        """Give the store the order of the leaves, so that a leaf is verified from one stretch of memory. O(entries).

        1M rows, uniform: 139 us an event in the order of insertion, 63 in this one.
        """
        at = self._leaf_places()
        order = self._tree.leaves["slot"][at]
        self.store.reorder(order)
        self._tree.leaves["slot"][at] = np.arange(len(at), dtype=np.uint32)
        self._tree = self._tree._replace(homes=self._tree.homes[order])

    def _finish_build(self) -> None:
        """Room for what stopped a kernel, and the rest of a pending construction."""
        while True:
            item = self._work.items[max(int(self._work.sizes[building.PENDING]) - 1, 0)]
            pending = int(item["end"] - item["start"]) if self._work.sizes[building.PENDING] else 0
            self._reserve(max(pending, int(self._tree.counts[layout.LARGEST_LEAF]) + 1))
            if building.build(self._tree, self.store.state, self._work):
                return

    def _reserve(self, rows: int) -> None:
        """Pools large enough for an item of that many rows, or for one insertion."""
        tree, counts = self._tree, self._tree.counts
        most = min(rows, self.store.dimensions) + 4
        work = self._work
        self._tree = tree._replace(
            buckets=_roomy(tree.buckets, int(counts[layout.BUCKETS]) + most),
            parts=_roomy(tree.parts, int(counts[layout.PARTS]) + 4 * most + 4 * self.store.dimensions),
            leaves=_roomy(tree.leaves, int(counts[layout.LEAVES]) + 4 * rows + 8),
            boxes=_roomy(tree.boxes, int(counts[layout.BOXES]) + most * layout.LEVELS),
        )
        if len(work.slots) < rows + 1:
            grown = _new_work(2 * rows + 8, self.store.dimensions)
            size = len(work.slots)
            for name in ("slots", "spare", "choice", "lo", "hi"):
                getattr(grown, name)[:size] = getattr(work, name)
            work = work._replace(**{n: getattr(grown, n) for n in ("slots", "spare", "choice", "lo", "hi")})
        if len(work.dimensions) < self.store.dimensions:
            fresh = _new_work(0, self.store.dimensions)
            work = work._replace(keys=fresh.keys, dimensions=fresh.dimensions)
        self._work = work._replace(
            items=_roomy(work.items, int(work.sizes[building.PENDING]) + most + 1),
            made=_roomy(work.made, int(work.sizes[building.MADE]) + most + 1),
        )

    def _follow_store(self) -> None:
        """Arrays by slot and by dimension as long as the store's."""
        if len(self._tree.homes) < self.store.slots:
            homes = np.zeros(len(self.store.state.rows), layout.HOME)
            homes[: len(self._tree.homes)] = self._tree.homes
            self._tree = self._tree._replace(homes=homes)
        if len(self._tree.domains) < self.store.dimensions:
            domains = np.zeros(self.store.dimensions, layout.DOMAIN)
            domains["lo"], domains["hi"] = np.inf, -np.inf
            domains[: len(self._tree.domains)] = self._tree.domains
            self._tree = self._tree._replace(domains=domains)
        if len(self._work.dimensions) < self.store.dimensions:
            self._reserve(1)

    def _leaf_slots(self) -> Slots:
        """The slots the tree holds. O(rows)."""
        return np.asarray(self._tree.leaves["slot"][self._leaf_places()])

    def _leaf_places(self) -> np.ndarray:
        """Where leaf rows stand, ascending. O(rows + buckets log buckets)."""
        buckets = self._tree.buckets[: self._tree.counts[layout.BUCKETS]]
        held = buckets[(buckets["state"] == layout.LIVE) & (buckets["leaf_size"] > 0)]
        held = held[np.argsort(held["leaf"])]
        sizes = held["leaf_size"].astype(np.int64)
        starts = np.repeat(held["leaf"].astype(np.int64) - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        return np.asarray(starts + np.arange(int(sizes.sum())))

    def _scratch(self) -> matching.Scratch:
        buffers = self._values, self._seen, *self._heap, self._found, self._counters
        return matching.Scratch(*buffers, self._keys, self._tally)

    def _prepare(self) -> None:
        super()._prepare()
        if len(self._heap[0]) < len(self._tree.buckets):
            size = len(self._tree.buckets)
            self._heap = np.zeros(size, np.uint32), np.zeros(size)
        if len(self._keys) < self.store.dimensions:
            self._keys = new_keys(self.store.dimensions)
        self._candidates = self._counters[:1]


def _new_work(rows: int, dimensions: int) -> Work:
    width = max(splitting.SAMPLE, dimensions) + 2
    return Work(
        np.zeros(rows, np.uint32),
        np.zeros(rows, np.uint32),
        np.zeros(rows, np.uint32),
        np.zeros(rows),
        np.zeros(rows),
        np.zeros((5, width)),
        np.zeros(dimensions, building.DIMENSION),
        np.zeros(64, building.ITEM),
        np.zeros(64, np.uint32),
        np.zeros(2, np.int64),
    )


def _roomy(pool: np.ndarray, wanted: int) -> np.ndarray:
    """The pool, or a copy half as large again if it has less room than wanted."""
    if len(pool) >= wanted:
        return pool
    bigger = np.zeros(max(wanted, len(pool) + len(pool) // 2), pool.dtype)
    bigger[: len(pool)] = pool
    return bigger
