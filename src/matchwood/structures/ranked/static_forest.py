"""Static trees made updatable: a logarithmic merge, and tombstones.

Ranked leaves updates of the SOPT-R-tree open. Stabbing is decomposable (the best of a union is found among the best of
its parts), so a dimension holds several trees and a cursor merges their streams:

    insert   the new intervals absorb every tree that is at most twice as large as they have become, and are built anew: sizes
             then differ by a factor of two, so there are O(log n) trees, and an interval is rebuilt O(log n) times,
             O(log n) each: O(log^2 n), amortised
    delete   the entry becomes a tombstone (NaN); a tree that is half dead is built anew without them: O(log^2 n), amortised
    rescore  a small change is made in place: the tree then promises that no interval is more than `slack` better than one
             before it, and the cursor delays hits until nothing later can be better. A change of more
             than `REACH` of the tree's range of scores, which would delay too many hits, moves to the newest tree
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.errors import DuplicateSubscriptionError, SubscriptionError, UnknownSubscriptionError
from matchwood.structures.ranked.kernels.layout import ARRANGED, PACKED, Forest
from matchwood.structures.ranked.parts import Entries, Part, Uint32s, build_part
from matchwood.structures.ranked.pools import Pools
from matchwood.structures.ranked.structure import ScoredIntervals, entries_of

REACH = 1 / 64


class Found(NamedTuple):
    """Stored intervals: the tree, the entry and the id of each."""

    tree: Int64s
    at: Int64s
    id: Int64s

    @property
    def size(self) -> int:
        return len(self.id)

    def take(self, which: np.ndarray) -> Found:
        return Found(*(column[which] for column in self))

    @staticmethod
    def nothing() -> Found:
        return Found(*(np.zeros(0, np.int64) for _ in range(3)))


class StaticForest(ScoredIntervals):
    """The structures that are built once: their trees, merged logarithmically. Subclasses name the kind."""

    kind: ClassVar[int]

    def __init__(self, *, branching: int = 32, dimensions: int = 1) -> None:
        super().__init__(branching=branching, dimensions=dimensions)
        self._pools = Pools(dimensions)
        # By tree, made when first needed: entries by id, and the scores the tree was arranged by, with their extremes.
        self._by_id: dict[int, Uint32s] = {}
        self._arranged: dict[int, tuple[Float64s, float, float]] = {}

    @property
    def state(self) -> Forest:
        return self._pools.state

    @property
    def nodes(self) -> int:
        trees = self.state.trees[self._pools.live()]
        return int(trees["blocks"].sum() + trees["nodes"].sum() + 2 * trees["leaves"].astype(np.int64).sum())

    def size(self, dim: int = 0) -> int:
        trees = self.state.trees[self._pools.chain(dim)]
        return int(trees["size"].astype(np.int64).sum() - trees["dead"].astype(np.int64).sum())

    def trees(self, dim: int = 0) -> list[int]:
        """The numbers of the dimension's trees, in the order of the chain."""
        return self._pools.chain(dim)

    def widen(self, dimensions: int) -> None:
        self._pools.widen(dimensions)
        self.dimensions = max(self.dimensions, dimensions)

    def insert(self, lo: object, hi: object, score: object, ids: object, *, dim: int = 0) -> None:
        """Amortised O(log^2 n) each; all or none."""
        entries = entries_of(lo, hi, score, ids)
        if not entries.size:
            return
        ascending = np.sort(entries.link)
        twice = ascending[1:][ascending[1:] == ascending[:-1]]
        known = self._located(dim, entries.link)
        if len(twice) or known.size:
            raise DuplicateSubscriptionError(f"interval {twice[0] if len(twice) else known.id[0]} is stored already")
        self.add(entries, dim)

    def add(self, entries: Entries, dim: int) -> None:
        """Build a tree of these and of every tree that is not more than twice as large."""
        while True:
            small = [t for t in self.trees(dim) if int(self.state.trees[t]["size"]) < 2 * entries.size]
            if not small:
                break
            entries = Entries.join([entries, *(self._pools.living(tree) for tree in small)])
            for tree in small:
                self._discard(dim, tree)
        self._pools.plant(dim, self._part(entries))

    def delete(self, lo: object, hi: object, score: object, ids: object, *, dim: int = 0) -> None:
        """Amortised O(log^2 n) each; all or none. Only the ids are looked at."""
        links = np.atleast_1d(np.asarray(ids, np.int64))
        found = self._located(dim, links)
        self._demand_all(links, found)
        self._bury(found)
        for tree in self.trees(dim):
            record = self.state.trees[tree]
            if 2 * int(record["dead"]) > int(record["size"]):
                rest = self._pools.living(tree)
                self._discard(dim, tree)
                if rest.size:
                    self.add(rest, dim)

    def rescore(self, lo: object, hi: object, score: object, ids: object, new: object, *, dim: int = 0) -> None:
        """O(log n) each where the change is small, as an insert where it is large; all or none."""
        links = np.atleast_1d(np.asarray(ids, np.int64))
        found = self._located(dim, links)
        self._demand_all(links, found)
        by_id = np.argsort(links)
        scores = np.atleast_1d(np.asarray(new, np.float64))[by_id][np.searchsorted(links[by_id], found.id)]
        if np.isnan(scores).any():
            raise SubscriptionError("expected scores, got NaN")
        far = ~np.array([self._adjust(*change) for change in zip(found.tree, found.at, scores, strict=True)], bool)
        if not far.any():
            return
        state, places = self.state, found.at[far]
        moved = Entries(state.lo[places], state.hi[places], scores[far], found.id[far])
        self._bury(found.take(far))
        self.add(moved, dim)

    def intervals(self, dim: int = 0) -> Entries:
        nothing = Entries(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
        return Entries.join([nothing, *(self._pools.living(tree) for tree in self.trees(dim))])

    def arrays(self) -> dict[str, np.ndarray]:
        return self._pools.arrays()

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._pools = Pools.of_arrays(saved)
        self.dimensions = len(self.state.firsts)
        # What the scores were when the trees were arranged is not saved: their slack stays and is not added to.
        self._by_id, self._arranged = {}, {}

    def check(self) -> None:
        from matchwood.structures.ranked.checks import check_tree

        self._pools.check()
        for dim in range(self.dimensions):
            sizes = sorted((int(self.state.trees[t]["size"]) for t in self.trees(dim)), reverse=True)
            assert all(a >= 2 * b for a, b in itertools.pairwise(sizes)), (
                f"dimension {dim}: trees of sizes {sizes} should have been merged"
            )
            for tree in self.trees(dim):
                check_tree(self.state, tree, self.branching)

    def _part(self, entries: Entries) -> Part:
        return build_part(self.kind, entries, self.branching)

    def _discard(self, dim: int, tree: int) -> None:
        self._pools.fell(dim, tree)
        self._by_id.pop(tree, None)
        self._arranged.pop(tree, None)

    def _bury(self, found: Found) -> None:
        self.state.lo[found.at] = self.state.hi[found.at] = np.nan
        np.add.at(self.state.trees["dead"], found.tree, 1)

    def _demand_all(self, links: Int64s, found: Found) -> None:
        missing = np.setdiff1d(links, found.id)
        if len(missing):
            raise UnknownSubscriptionError(f"interval {missing[0]} is not stored")

    def _located(self, dim: int, links: Int64s) -> Found:
        """Those of the ids that are stored. O(log n) for each id and tree."""
        parts = [Found.nothing()]
        for tree in self.trees(dim):
            record = self.state.trees[tree]
            start, size = int(record["start"]), int(record["size"])
            held = self.state.link[start : start + size]
            if tree not in self._by_id:
                self._by_id[tree] = np.argsort(held).astype(np.uint32)
            by_id = self._by_id[tree]
            at = by_id[np.minimum(np.searchsorted(held, links, sorter=by_id), size - 1)].astype(np.int64)
            there = (held[at] == links) & ~np.isnan(self.state.lo[start + at])
            parts.append(Found(np.full(int(there.sum()), tree), start + at[there], links[there]))
        return Found(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _adjust(self, tree: int, at: int, score: float) -> bool:
        """Change a score in place if the tree's order can bear it."""
        record = self.state.trees[tree]
        start, size = int(record["start"]), int(record["size"])
        if record["kind"] not in (PACKED, ARRANGED):
            return False
        if tree not in self._arranged:
            if record["slack"] > 0:
                return False
            scores = self.state.score[start : start + size].copy()
            self._arranged[tree] = scores, float(scores.min()), float(scores.max())
        arranged, least, greatest = self._arranged[tree]
        change = abs(score - arranged[at - start])
        if not change <= REACH * (greatest - least):
            return False
        self.state.score[at] = score
        # Two neighbours may move towards each other by the largest change each; a little more, for the rounding of the sums.
        slack = 2 * change + 1e-12 * max(abs(least), abs(greatest))
        record["slack"] = max(float(record["slack"]), slack)
        self._pools.raise_ancestors(tree, at, score)
        return True
