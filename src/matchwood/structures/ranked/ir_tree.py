"""IR-tree: an interval tree whose lists are scored R-trees (Ranked 3.1), changed in place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from matchwood.encode.arrays import Int64s
from matchwood.errors import DuplicateSubscriptionError, UnknownSubscriptionError
from matchwood.store.growth import grown
from matchwood.store.pool_check import check_regions, freed
from matchwood.structures.ranked.checks import block_entries, check_tree
from matchwood.structures.ranked.kernels import change as kernel
from matchwood.structures.ranked.kernels.change import Change, Count, Stop
from matchwood.structures.ranked.kernels.layout import BLOCKS, COLUMNS, NODE, NONE, Forest
from matchwood.structures.ranked.parts import Entries, build_part
from matchwood.structures.ranked.pools import empty_forest
from matchwood.structures.ranked.structure import ScoredIntervals, entries_of

LOPSIDED = 0.7


class IRTree(ScoredIntervals):
    """Scored intervals in an interval tree of scored R-trees.

            50 [1 3 10]                  an interval lives in the highest node whose centre it holds
           /           \\                 each list is an R-tree in rank order: extents above, intervals below
      20 [6 5 9]     80 [2 4 7 8]        all of a list share the centre, so an extent has no holes

    Invariants (`check`): lists are in rank order; intervals of a node hold its centre; extents and best scores are exact; a
    bucket (leaf node without a centre) has at most b intervals.
    Cost: build O(n log n); top-k O((k + log n) b log_b n) at most; insert, delete and rescore O(log n + b log_b n), and amortised
    O(log n) for keeping the balance: a full bucket, or the highest node above it with more than
    0.7 of its intervals on one side, is built anew. A rescored interval moves within its node's list only.
    Departures from the paper: parts are opened only when they may be next (`kernels.stab`); leaves
    are buckets of up to b intervals, which keeps nodes below 2n/b where the paper's recursion can reach n.

    >>> tree = IRTree.build(lo=[0.0, 2.0, 4.0], hi=[5.0, 3.0, 9.0], score=[1.0, 9.0, 4.0])
    >>> list(tree.stab(2.5))
    [(1, 9.0), (0, 1.0)]
    >>> list(tree.stab(2.5, 4.5))
    [(1, 9.0), (2, 4.0), (0, 1.0)]
    """

    name = "ir"

    def __init__(self, *, branching: int = 32, dimensions: int = 1) -> None:
        super().__init__(branching=branching, dimensions=dimensions)
        self._change = Change(
            forest=empty_forest(dimensions),
            counts=_new_counts(),
            path=np.zeros(kernel.MAX_DEPTH, np.int64),
            steps=np.zeros((kernel.MAX_LEVELS, 2), np.int64),
        )
        self._deleted = np.zeros(dimensions, np.int64)  # by dimension, since it was last built

    @property
    def state(self) -> Forest:
        return self._change.forest

    @property
    def _counts(self) -> Int64s:
        return self._change.counts

    def _replace(self, **arrays: np.ndarray) -> None:
        """Exchange arrays of the forest."""
        self._change = self._change._replace(forest=self.state._replace(**arrays))

    @property
    def nodes(self) -> int:
        return int(self._counts[Count.NODES] + self._counts[Count.BLOCKS])

    @property
    def inner_entries(self) -> int:
        """How many entries of blocks are children, not intervals: the space that R-trees add to the lists. O(blocks)."""
        blocks = self.state.blocks[: int(self._counts[Count.BLOCKS])]
        return int(blocks["count"][blocks["level"] > 0].sum())

    def size(self, dim: int = 0) -> int:
        tree = self._tree(dim)
        return 0 if tree < 0 else int(self.state.trees[tree]["size"])

    def widen(self, dimensions: int) -> None:
        missing = dimensions - self.dimensions
        if missing > 0:
            self._replace(firsts=np.concatenate([self.state.firsts, np.full(missing, NONE)]))
            self._deleted = np.concatenate([self._deleted, np.zeros(missing, np.int64)])
            self.dimensions = dimensions

    def insert(self, lo: object, hi: object, score: object, ids: object, *, dim: int = 0) -> None:
        """O(log n + b log_b n) each, amortised; a batch as large as the tree builds it anew. An interval that is stored
        (same interval, score and id) is refused, and then nothing changes."""
        entries = entries_of(lo, hi, score, ids)
        if not entries.size:
            return
        self._refuse_known(dim, entries)
        self.add(entries, dim)

    def add(self, entries: Entries, dim: int) -> None:
        if entries.size >= self.size(dim):
            self._rebuild(dim, entries)
            return
        tree, done = self._tree(dim), 0
        while done < entries.size:
            done, why, depth = kernel.insert_many(self._change, tree, self.branching, entries, done)
            if why == Stop.NO_ROOM:
                self._grow()
            elif why == Stop.FULL_BUCKET:
                self._rebalance(int(depth))

    def delete(self, lo: object, hi: object, score: object, ids: object, *, dim: int = 0) -> None:
        """O(log n + b log_b n) each; all or none."""
        entries = entries_of(lo, hi, score, ids)
        if not entries.size:
            return
        self._demand_all(dim, entries)
        tree = self._tree(dim)
        kernel.delete_many(self._change, tree, entries)
        self._deleted[dim] += entries.size
        if self._deleted[dim] > self.size(dim) + self.branching:
            self._rebuild(dim, None)

    def rescore(self, lo: object, hi: object, score: object, ids: object, new: object, *, dim: int = 0) -> None:
        """O(log n + b log_b n) each: the interval stays at its node; all or none."""
        entries = entries_of(lo, hi, score, ids)
        scores = entries_of(lo, hi, new, ids).score
        if not entries.size:
            return
        self._demand_all(dim, entries)
        tree, done = self._tree(dim), 0
        while done < entries.size:
            done = kernel.rescore_many(self._change, tree, self.branching, entries, scores, done)
            if done < entries.size:
                self._grow()

    def intervals(self, dim: int = 0) -> Entries:
        """O(n), in Python: for tests."""
        tree, places = self._tree(dim), []
        stack = [] if tree < 0 else [int(self.state.trees[tree]["root"])]
        while stack:
            node = self.state.nodes[stack.pop()]
            stack += [int(child) for child in (node["left"], node["right"]) if child != NONE]
            if node["list"] != NONE:
                places += block_entries(self.state, int(node["list"]), self.branching)
        found = np.array(places, np.int64)
        return Entries(*(getattr(self.state, name)[found] for name in COLUMNS))

    def arrays(self) -> dict[str, np.ndarray]:
        entries, blocks, nodes = (int(self._counts[i]) for i in (Count.ENTRIES, Count.BLOCKS, Count.NODES))
        state = self.state
        cut = {name: getattr(state, name)[: entries + 64] for name in ("lo", "hi", "score", "link")}
        others = {"keys": state.keys, "spans": state.spans, "trees": state.trees, "firsts": state.firsts}
        counters = {"counts": self._counts, "deleted": self._deleted}
        return {**cut, "blocks": state.blocks[:blocks], "nodes": state.nodes[:nodes], **others, **counters}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        forest = Forest(**{name: saved[name] for name in Forest._fields})
        self._change = self._change._replace(forest=forest, counts=saved["counts"])
        self._deleted = saved["deleted"]
        self.dimensions = len(self.state.firsts)

    def check(self) -> None:
        trees = [self._tree(dim) for dim in range(self.dimensions)]
        weight = 0
        for tree in trees:
            if tree >= 0:
                check_tree(self.state, tree, self.branching)
                record = self.state.trees[tree]
                assert int(self.state.nodes[int(record["root"])]["weight"]) == int(record["size"])
                weight += int(record["size"])
        live = self.state.blocks[: int(self._counts[Count.BLOCKS])]
        assert int(live["count"][live["level"] == 0].sum()) == weight, "a block is lost, or freed and still counted"
        self._check_regions(live)

    def _check_regions(self, blocks: np.ndarray) -> None:
        """Live blocks and free lists share out all entries."""
        regions = [(int(b["start"]), int(b["room"])) for b in blocks if b["count"]]
        for room in range(1, kernel.COUNTS - Count.FREE_REGIONS):
            regions += freed(self._counts[Count.FREE_REGIONS + room], room, self.state.link)
        check_regions("entries", regions, int(self._counts[Count.ENTRIES]))

    def _tree(self, dim: int) -> int:
        first = int(self.state.firsts[dim]) if dim < len(self.state.firsts) else int(NONE)
        return -1 if first == int(NONE) else first

    def _refuse_known(self, dim: int, entries: Entries) -> None:
        ascending = np.sort(entries.link)
        twice = ascending[1:][ascending[1:] == ascending[:-1]]
        if len(twice):
            raise DuplicateSubscriptionError(f"interval {twice[0]} is stored already")
        if (tree := self._tree(dim)) >= 0:
            known = kernel.first_found(self._change, tree, entries, True)
            if known < entries.size:
                raise DuplicateSubscriptionError(f"interval {entries.link[known]} is stored already")

    def _demand_all(self, dim: int, entries: Entries) -> None:
        tree = self._tree(dim)
        found = 0 if tree < 0 else kernel.first_found(self._change, tree, entries, False)
        if found < entries.size:
            raise UnknownSubscriptionError(
                f"interval {entries.link[found]} differs from the stored one, or is not stored"
            )

    def _rebuild(self, dim: int, more: Entries | None) -> None:
        """Build the dimension's tree anew, with further intervals."""
        tree = self._tree(dim)
        if tree < 0:
            tree = dim
            trees = self.state.trees
            if tree >= len(trees):
                self._replace(trees=grown(trees, max(2 * len(trees), tree + 1)))
            self._reserve(0, 0, 1)
            root = self._new_node()
            record = self.state.trees[tree : tree + 1]
            record["kind"], record["root"], record["next"] = BLOCKS, root, NONE
            self.state.firsts[dim] = tree
        root = int(self.state.trees[tree]["root"])
        self._replant(root, more, self.branching)
        self.state.trees[tree]["size"] = self.state.nodes[root]["weight"]
        self._deleted[dim] = 0

    def _rebalance(self, depth: int) -> None:
        """A bucket at the end of the path is full: build it, or the highest lopsided node above it, anew."""
        nodes = self.state.nodes
        for upper, lower in zip(
            self._change.path[: depth - 1].tolist(), self._change.path[1:depth].tolist(), strict=True
        ):
            if int(nodes[lower]["weight"]) > LOPSIDED * int(nodes[upper]["weight"]) + self.branching:
                self._replant(upper, None, max(self.branching // 2, 1))
                return
        self._replant(int(self._change.path[depth - 1]), None, max(self.branching // 2, 1))

    def _replant(self, node: int, more: Entries | None, bucket: int) -> None:
        """Build the subtree of a node anew, in its place, with further intervals."""
        weight = int(self.state.nodes[node]["weight"])
        held = Entries(np.empty(weight), np.empty(weight), np.empty(weight), np.empty(weight, np.int64))
        stack = np.empty(2 * weight + 4 * self.branching + 64, np.int64)
        kernel.dissolve(self._change, node, held, stack)
        if weight and weight == self._weight():
            self._forget_all_but(node)
        entries = held if more is None else Entries.join([held, more])
        if not entries.size:
            self.state.nodes[node : node + 1] = _bucket()
            return
        part = build_part(BLOCKS, entries, self.branching, bucket=bucket)
        self._reserve(part.entries.size, len(part.blocks), len(part.nodes))
        first, first_block, first_node = (int(self._counts[i]) for i in (Count.ENTRIES, Count.BLOCKS, Count.NODES))
        state = self.state
        for name, values in zip(COLUMNS, part.entries, strict=True):
            getattr(state, name)[first : first + part.entries.size] = values
        state.link[first + part.size : first + part.entries.size] += first_block
        blocks = state.blocks[first_block : first_block + len(part.blocks)]
        blocks[:] = part.blocks
        blocks["start"] += np.uint32(first)
        fresh = part.nodes.copy()
        for child in ("left", "right"):
            # The part's root takes the old node's place, so the others move up by one.
            fresh[child][fresh[child] != NONE] += np.uint32(first_node - 1)
        for block in ("list", "head"):
            fresh[block][fresh[block] != NONE] += np.uint32(first_block)
        state.nodes[node] = fresh[0]
        state.nodes[first_node : first_node + len(fresh) - 1] = fresh[1:]
        self._counts[Count.ENTRIES] += part.entries.size
        self._counts[Count.BLOCKS] += len(part.blocks)
        self._counts[Count.NODES] += len(fresh) - 1

    def _weight(self) -> int:
        """How many intervals all dimensions have."""
        return sum(self.size(dim) for dim in range(self.dimensions))

    def _forget_all_but(self, node: int) -> None:
        """Everything has been dissolved: give the pools back as they were, but for the roots of the trees."""
        roots = [int(self.state.trees[t]["root"]) for t in map(self._tree, range(self.dimensions)) if t >= 0]
        if roots == [node] == [0]:
            self._counts[:] = _new_counts()
            self._counts[Count.NODES] = 1

    def _new_node(self) -> int:
        at = int(self._counts[Count.NODES])
        self._counts[Count.NODES] += 1
        self.state.nodes[at : at + 1] = _bucket()
        return at

    def _grow(self) -> None:
        room = kernel.MAX_LEVELS * self.branching
        sizes = (int(self._counts[i]) for i in (Count.ENTRIES, Count.BLOCKS, Count.NODES))
        entries, blocks, nodes = sizes
        self._reserve(max(room, entries // 2), max(kernel.MAX_LEVELS, blocks // 2), max(16, nodes // 2))

    def _reserve(self, entries: int, blocks: int, nodes: int) -> None:
        """Make room for so many more."""
        used = (int(self._counts[i]) for i in (Count.ENTRIES, Count.BLOCKS, Count.NODES))
        wanted = [more + have for more, have in zip((entries + 64, blocks, nodes), used, strict=True)]
        state = self.state
        sizes = {**dict.fromkeys(COLUMNS, wanted[0]), "blocks": wanted[1], "nodes": wanted[2]}
        self._replace(**{name: grown(getattr(state, name), size) for name, size in sizes.items()})


def _bucket() -> np.ndarray:
    """An empty node."""
    node = np.zeros(1, NODE)
    node["centre"], node["best"], node["own"], node["lo"], node["hi"] = np.nan, -np.inf, -np.inf, np.inf, -np.inf
    node["left"] = node["right"] = node["list"] = node["head"] = NONE
    return node


def _new_counts() -> Int64s:
    counts = np.zeros(kernel.COUNTS, np.int64)
    counts[Count.FREE_BLOCK] = counts[Count.FREE_NODE] = counts[Count.FREE_REGIONS :] = int(NONE)
    return counts
