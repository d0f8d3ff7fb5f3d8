"""Static trees made updatable: a logarithmic merge, and tombstones.

Ranked leaves updates of the SOPT-R-tree open. Stabbing is decomposable (the best of a union is found among the best of
its parts), so a dimension holds several trees and a cursor merges their streams:

    insert   the new intervals absorb every tree that is at most twice as large as they have become, and are built anew: sizes
             then differ by a factor of two, so there are O(log n) trees, and an interval is rebuilt O(log n) times,
             O(log n) each: O(log^2 n), amortised
    delete   the entry becomes a tombstone (NaN); a tree that is half dead is built anew without them: O(log^2 n), amortised
    rescore  a small change is made in place: the tree then promises that no interval is more than `slack` better than one
             before it, and the cursor holds hits back until nothing to come can be better. A change
             beyond `REACH` of the tree's spread of scores, which would make every query hold back too much, moves to a
             tree of the latest
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from matchwood.encode.arrays import Float64s
from matchwood.errors import DuplicateSubscriptionError, UnknownSubscriptionError
from matchwood.index.ranked.parts import Entries, Part, Uint32s, build_part
from matchwood.index.ranked.pools import Pools
from matchwood.index.ranked.structure import ScoredIntervals, entries_of
from matchwood.kernels.ranked.layout import ARRANGED, PACKED, Forest

REACH = 1 / 64


class StaticForest(ScoredIntervals):
    """The structures that are built once: their trees, merged logarithmically. Subclasses name the kind."""

    kind: ClassVar[int]

    def __init__(self, *, branching: int = 32, dimensions: int = 1) -> None:
        super().__init__(branching=branching, dimensions=dimensions)
        self._pools = Pools(dimensions)
        # By tree, made when first asked for: entries by id, and the scores the tree was arranged by.
        self._by_id: dict[int, Uint32s] = {}
        self._arranged: dict[int, Float64s] = {}

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

    def insert(self, lo: object, hi: object, score: object, ids: object, *, dim: int = 0) -> None:
        """Amortised O(log^2 n) each; all or none."""
        entries = entries_of(lo, hi, score, ids)
        if not entries.size:
            return
        ascending = np.sort(entries.link)
        twice = ascending[1:][ascending[1:] == ascending[:-1]]
        known = [link for _, _, link in self._located(dim, entries.link)]
        if len(twice) or known:
            raise DuplicateSubscriptionError(f"interval {twice[0] if len(twice) else known[0]} is there already")
        self._absorb(dim, entries)

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
                    self._absorb(dim, rest)

    def rescore(self, lo: object, hi: object, score: object, ids: object, new: object, *, dim: int = 0) -> None:
        """O(log n) each where the change is small, as an insert where it is large; all or none."""
        links = np.atleast_1d(np.asarray(ids, np.int64))
        scores = dict(zip(links.tolist(), np.atleast_1d(np.asarray(new, np.float64)).tolist(), strict=True))
        found = self._located(dim, links)
        self._demand_all(links, found)
        far = [(tree, at, link) for tree, at, link in found if not self._adjust(tree, at, scores[link])]
        if not far:
            return
        state, places = self.state, np.array([at for _, at, _ in far])
        moved = Entries(state.lo[places], state.hi[places], np.array([scores[link] for _, _, link in far]), links[:0])
        moved = moved._replace(link=np.array([link for _, _, link in far], np.int64))
        self._bury(far)
        self._absorb(dim, moved)

    def arrays(self) -> dict[str, np.ndarray]:
        return self._pools.arrays()

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._pools = Pools.of_arrays(saved)
        self.dimensions = len(self.state.firsts)
        # What the scores were when the trees were arranged is not saved: the slack that they have is kept and not added to.
        self._by_id, self._arranged = {}, {}

    def check(self) -> None:
        from matchwood.index.ranked.checks import check_tree

        self._pools.check()
        for dim in range(self.dimensions):
            sizes = sorted((int(self.state.trees[t]["size"]) for t in self.trees(dim)), reverse=True)
            assert all(a >= 2 * b for a, b in itertools.pairwise(sizes)), (
                f"dimension {dim}: trees of sizes {sizes} should have been merged"
            )
            for tree in self.trees(dim):
                check_tree(self.state, tree, self.branching)

    def _absorb(self, dim: int, entries: Entries) -> None:
        """Build a tree of these and of every tree that is not more than twice as large."""
        while True:
            small = [t for t in self.trees(dim) if int(self.state.trees[t]["size"]) < 2 * entries.size]
            if not small:
                break
            entries = Entries.join([entries, *(self._pools.living(tree) for tree in small)])
            for tree in small:
                self._discard(dim, tree)
        self._pools.plant(dim, self._part(entries))

    def _part(self, entries: Entries) -> Part:
        return build_part(self.kind, entries, self.branching)

    def _discard(self, dim: int, tree: int) -> None:
        self._pools.fell(dim, tree)
        self._by_id.pop(tree, None)
        self._arranged.pop(tree, None)

    def _bury(self, found: list[tuple[int, int, int]]) -> None:
        for tree, at, _ in found:
            self.state.lo[at] = self.state.hi[at] = np.nan
            self.state.trees[tree]["dead"] += 1

    def _demand_all(self, links: np.ndarray, found: list[tuple[int, int, int]]) -> None:
        missing = set(links.tolist()) - {link for _, _, link in found}
        if missing:
            raise UnknownSubscriptionError(f"interval {min(missing)} is not there")

    def _located(self, dim: int, links: np.ndarray) -> list[tuple[int, int, int]]:
        """(tree, entry, id) of those of the ids that are there. O(log n) for each id and tree."""
        found = []
        for tree in self.trees(dim):
            record = self.state.trees[tree]
            start, size = int(record["start"]), int(record["size"])
            if tree not in self._by_id:
                self._by_id[tree] = np.argsort(self.state.link[start : start + size]).astype(np.uint32)
            by_id = self._by_id[tree]
            places = _search(self.state.link[start : start + size], by_id, links)
            for link, place in zip(links.tolist(), places.tolist(), strict=True):
                if place >= 0 and not np.isnan(self.state.lo[start + place]):
                    found.append((tree, start + place, link))
        return found

    def _adjust(self, tree: int, at: int, score: float) -> bool:
        """Change a score in place if the tree's order can bear it."""
        record = self.state.trees[tree]
        start, size = int(record["start"]), int(record["size"])
        if record["kind"] not in (PACKED, ARRANGED):
            return False
        if tree not in self._arranged:
            if record["slack"] > 0:
                return False
            self._arranged[tree] = self.state.score[start : start + size].copy()
        arranged = self._arranged[tree]
        change = abs(score - arranged[at - start])
        if change > REACH * float(np.ptp(arranged)):
            return False
        self.state.score[at] = score
        # Two neighbours may move towards each other by the largest change each; a little more, for the rounding of the sums.
        record["slack"] = max(float(record["slack"]), 2 * change * (1 + 1e-9) + 1e-300)
        self._pools.raise_ancestors(tree, at, score)
        return True


def _search(links: np.ndarray, by_id: Uint32s, wanted: np.ndarray) -> np.ndarray:
    """The place of each wanted id in `links`, -1 where there is none; by_id sorts `links`."""
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(links))
    while (low < high).any():
        middle = (low + high) >> 1
        below = (low < high) & (links[by_id[np.minimum(middle, len(links) - 1)]] < wanted)
        low, high = np.where(below, middle + 1, low), np.where((low < high) & ~below, middle, high)
    places = by_id[np.minimum(low, len(links) - 1)].astype(np.int64)
    return np.where((low < len(links)) & (links[places] == wanted), places, -1)
