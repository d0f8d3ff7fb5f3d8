"""BE*-Tree: a dynamic tree over attributes and values, built for ranked matching of conjunctions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.encode.picking import pick_rows
from matchwood.errors import QueryError
from matchwood.store.growth import grown
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import NONE
from matchwood.store.reading import Slots
from matchwood.structures.base import EVERYTHING, Capability, Query
from matchwood.structures.be_star.check import check_tree, dot_of
from matchwood.structures.be_star.kernels import adapt, layout
from matchwood.structures.be_star.kernels.build import CLUSTER, DIMENSION, ITEM, PROGRESS, Construction, build
from matchwood.structures.be_star.kernels.delete import delete_rows
from matchwood.structures.be_star.kernels.insert import insert_rows
from matchwood.structures.be_star.kernels.layout import Ranking, Split, Tree
from matchwood.structures.be_star.kernels.match import EVENT, BEStarScratch, answer_events
from matchwood.structures.be_star.kernels.rewrite import rewrite_rows, set_priorities
from matchwood.structures.be_star.kernels.split import SAMPLE
from matchwood.structures.scratch import Scratch
from matchwood.structures.verifying import VerifyingIndex

SPLITS = {split.name.lower(): split for split in Split}
RANKINGS = {ranking.name.lower(): ranking for ranking in Ranking}


class _Options(NamedTuple):
    capacity: int
    alpha: float
    beta: float
    split: str
    ranking: str
    batch: bool


class BEStarTree(VerifyingIndex):
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
        self._tree = self._new_tree()
        self._work = _new_construction(0, 0)

    def update(self, rows: Rows) -> None:
        """Replace the rows of subscriptions that are there, all or none; in place where the home bucket stays the same."""
        self.repair()
        ids = np.unique(rows.ids)
        heads = 1 + int((rows.ids[1:] != rows.ids[:-1]).sum())
        if not rows.size or len(ids) != heads:  # the base class refuses it
            super().update(rows)
            return
        self.store.check_shapes(rows)
        self.store.slots_of(ids)  # raises if an id is unknown
        rewritten = np.zeros(rows.size, np.bool_)
        rewrite_rows(self._tree, self.store.state, rows, rewritten)
        if not rewritten.all():
            super().update(pick_rows(rows, np.flatnonzero(~rewritten)))

    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        with self._changing():
            set_priorities(self._tree, self.store.state, slots, priorities)

    # the protocol of `Index`

    def _insert(self, slots: Slots) -> None:
        self._follow_store()
        held = int(self._tree.buckets[0]["rows"])
        if self._options.batch and len(slots) > max(held, self._options.capacity):
            self._build(np.concatenate([self._leaf_slots(), slots]) if held else slots)
        else:
            self._insert_each(slots)

    def _insert_each(self, slots: Slots) -> None:
        """One row after the other (Algorithm 1)."""
        done = 0
        while done < len(slots):
            first = done
            done, overflowing = insert_rows(self._tree, self.store.state, slots, first)
            if overflowing >= 0:
                bucket = self._tree.buckets[overflowing]
                leaf, size = int(bucket["leaf"]), int(bucket["leaf_size"])
                self._construct(overflowing, self._tree.leaf_rows["slot"][leaf : leaf + size])
            elif done == first:
                self._reserve(int(self._tree.counts["max_leaf"][0]) + 1)

    def _delete(self, slots: Slots) -> None:
        delete_rows(self._tree, self.store.state, slots)

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        return int(answer_events(self._tree, self.store.state, scratch.own, query, first, out, ends))

    def _check(self) -> None:
        check_tree(self._tree, self.store.state, self.store.live_slots())

    def _arrays(self) -> dict[str, np.ndarray]:
        tree, used = self._tree, self._tree.counts[0]
        return {
            **tree._asdict(),
            "buckets": tree.buckets[: used["buckets"]],
            "p_nodes": tree.p_nodes[: used["p_nodes"]],
            "leaf_rows": tree.leaf_rows[: used["leaf_rows"]],
            "boxes": tree.boxes[: used["boxes"]],
            "homes": tree.homes[: self.store.slots],
        }

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._tree = Tree(**saved)

    def _parameters(self) -> dict[str, Any]:
        return self._options._asdict()

    def _nodes(self) -> int:
        return int(self._tree.counts["live_buckets"][0])

    def _details(self) -> dict[str, float]:
        return {
            "p_nodes": float(self._tree.counts["live_p_nodes"][0]),
            "bytes_reserved": float(self.store.nbytes + self._tree.nbytes),  # with the room that pools have to grow
            "buckets_visited": self._visited,
            **self._tests(),
        }

    @staticmethod
    def paper_capacity(match_probability: float) -> int:
        """The leaf capacity that the paper uses for a match probability (Table II a).

        Leaves that are contiguous and filtered by signatures bear more rows than the paper's: the default is 32 at every
        probability.
        """
        return 5 if match_probability < 0.01 else 20 if match_probability < 0.1 else 160

    def to_dot(self, *, max_buckets: int = 200) -> str:
        """The tree as a Graphviz graph, its first buckets breadth first."""
        return dot_of(self._tree, max_buckets)

    def adapt(self, window: Events, *, threshold: float = 0.0) -> int:
        """Learn from a window of events and recycle the p-nodes that cost more than they save; return how many.

        rank = gain - loss (V-B): gain counts the predicates that rows below share and an event evaluates once, loss
        those that it evaluates in vain, by event. A p-node whose rank is below `threshold` times its gain gives its rows
        back, and they are inserted again under what was learnt. O(a match of the window + rows recycled).
        """
        if not window.size or not len(self.store):
            return 0
        scratch = self._scratches.take()
        self._prepare(scratch)
        loss, rank, gain = (np.zeros(len(self._tree.buckets)) for _ in range(3))
        adapt.observe(self._tree, self.store.state, scratch.own, window, loss)
        adapt.rank_buckets(self._tree, window.size, loss, rank, gain)
        roots = np.zeros(self._nodes(), np.uint32)
        roots = roots[: int(adapt.find_low(self._tree, rank, gain, threshold, roots))]
        if not len(roots):
            return 0
        slots = np.concatenate([self._slots_below(int(root), scratch) for root in roots])
        self._scratches.give_back(scratch)
        with self._changing():
            delete_rows(self._tree, self.store.state, slots)
            self._insert_each(slots)
        return len(roots)

    def _slots_below(self, b: int, scratch: Scratch) -> Slots:
        slots = np.zeros(int(self._tree.buckets[b]["rows"]), np.uint32)
        adapt.collect_rows(self._tree, b, scratch.own.pending, slots)
        return slots

    # construction

    def _new_tree(self) -> Tree:
        """An empty tree: the root alone."""
        blank = np.zeros(1, layout.BUCKET)
        for field in ("left", "right", "leaf", "p_nodes", "parent", "owner", "boxes"):
            blank[field] = NONE
        for field in ("lo", "own_lo", "cell_hi"):
            blank[field] = np.inf
        for field in ("hi", "own_hi", "cell_lo", "max_score", "max_weights", "max_priority"):
            blank[field] = -np.inf
        for field in ("leaf_score", "leaf_weights", "leaf_priority"):
            blank[field] = -np.inf
        options = self._options
        blank["leaf_class"] = blank["p_class"] = layout.NO_CLASS
        blank["capacity"], blank["live"] = options.capacity, 1
        buckets, counts = np.zeros(8, layout.BUCKET), np.zeros(1, layout.COUNTS)
        buckets[0] = blank[0]
        counts["buckets"] = counts["live_buckets"] = 1
        counts["free_bucket"] = NONE
        split, ranking = SPLITS[options.split], RANKINGS[options.ranking]
        return Tree(
            buckets=buckets,
            p_nodes=np.zeros(0, layout.P_NODE),
            leaf_rows=np.zeros(0, layout.LEAF_ROW),
            boxes=np.zeros(0, layout.BOX),
            homes=np.zeros(0, layout.HOME),
            domains=np.zeros(0, layout.DOMAIN),
            counts=counts,
            options=np.array([(options.alpha, options.beta, options.capacity, split, ranking)], layout.OPTIONS),
            blank=blank,
            free=np.full((3, layout.CLASSES + 1), int(NONE)),
        )

    def _build(self, slots: Slots) -> None:
        """Batch construction (BE*-B): the whole tree from the rows of its root."""
        self._tree = self._new_tree()._replace(domains=self._tree.domains)
        self._follow_store()
        self._construct(0, slots)
        self._work = _new_construction(0, 0)
        self._align_store()

    def _construct(self, b: int, slots: Slots) -> None:
        """Make a subtree of the rows of a bucket, in place of its leaf."""
        self._reserve(len(slots))
        work = self._work
        work.slots[: len(slots)] = slots
        work.items[0] = b, CLUSTER, 0, len(slots)
        work.made[0] = b
        work.progress[0] = 1, 1
        while not build(self._tree, self.store.state, self._work):
            item = self._work.items[int(self._work.progress["pending"][0]) - 1]
            self._reserve(int(item["end"] - item["start"]))

    def _align_store(self) -> None:
        """Give the store the order of the leaves, so that a leaf is verified from one stretch of memory. O(entries)."""
        at = self._leaf_places()
        order = self._tree.leaf_rows["slot"][at]
        self.store.reorder(order)
        self._tree.leaf_rows["slot"][at] = np.arange(len(at), dtype=np.uint32)
        self._tree = self._tree._replace(homes=self._tree.homes[order])

    def _reserve(self, rows: int) -> None:
        """Room for an item of that many rows, or for one insertion."""
        tree, used, work = self._tree, self._tree.counts[0], self._work
        dimensions, progress = self.store.dimensions, self._work.progress[0]
        buckets = min(rows, dimensions) + 4
        room = {
            "buckets": int(used["buckets"]) + buckets,
            "p_nodes": int(used["p_nodes"]) + 4 * (buckets + dimensions),
            "leaf_rows": int(used["leaf_rows"]) + 4 * rows + 8,
            "boxes": int(used["boxes"]) + buckets * layout.MAX_LEVEL,
        }
        grow = {name: _roomy(getattr(tree, name), room[name]) for name in room if len(getattr(tree, name)) < room[name]}
        if grow:
            self._tree = tree._replace(**grow)
        stacks = {"items": int(progress["pending"]) + buckets + 1, "made": int(progress["made"]) + buckets + 1}
        runs = dict.fromkeys(("slots", "spare", "choice", "lo", "hi"), rows)
        wanted = {**stacks, **runs}
        grow = {
            name: _roomy(getattr(work, name), size) for name, size in wanted.items() if len(getattr(work, name)) < size
        }
        if len(work.dimensions) < dimensions:
            fresh = _new_construction(0, dimensions)
            grow |= {"keys": fresh.keys, "dimensions": fresh.dimensions}
        if grow:
            self._work = work._replace(**grow)

    def _follow_store(self) -> None:
        """Arrays by slot and by dimension as long as the store's."""
        tree, known = self._tree, len(self._tree.domains)
        if len(tree.homes) < self.store.slots:
            self._tree = tree = tree._replace(homes=grown(tree.homes, len(self.store.state.rows)))
        if known < self.store.dimensions:
            domains = grown(tree.domains, self.store.dimensions)
            domains["lo"][known:], domains["hi"][known:] = np.inf, -np.inf
            self._tree = tree._replace(domains=domains)

    def _leaf_slots(self) -> Slots:
        """The slots the tree holds. O(rows)."""
        return np.asarray(self._tree.leaf_rows["slot"][self._leaf_places()])

    def _leaf_places(self) -> np.ndarray:
        """Positions of all leaf rows, ascending. O(rows + buckets log buckets)."""
        buckets = self._tree.buckets[: self._tree.counts["buckets"][0]]
        held = buckets[(buckets["live"] > 0) & (buckets["leaf_size"] > 0)]
        held = held[np.argsort(held["leaf"])]
        sizes = held["leaf_size"].astype(np.int64)
        starts = np.repeat(held["leaf"].astype(np.int64) - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        return np.asarray(starts + np.arange(int(sizes.sum())))

    # matching

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        held, size = scratch.own, len(self._tree.buckets)
        if held is None or held.candidates is not scratch.buffer or len(held.pending) < size:
            scratch.own = BEStarScratch(
                candidates=scratch.buffer,
                pending=np.zeros(size, np.uint32),
                bounds=np.zeros(size, np.float64),
                event=np.zeros(1, EVENT),
            )


def _new_construction(rows: int, dimensions: int) -> Construction:
    return Construction(
        slots=np.zeros(rows, np.uint32),
        spare=np.zeros(rows, np.uint32),
        choice=np.zeros(rows, np.uint32),
        lo=np.zeros(rows),
        hi=np.zeros(rows),
        keys=np.zeros((5, max(SAMPLE, dimensions) + 2)),
        dimensions=np.zeros(dimensions, DIMENSION),
        items=np.zeros(64, ITEM),
        made=np.zeros(64, np.uint32),
        progress=np.zeros(1, PROGRESS),
    )


def _roomy(pool: np.ndarray, wanted: int) -> np.ndarray:
    """The pool with the room wanted, or half as much again."""
    return grown(pool, max(wanted, len(pool) + len(pool) // 2))
