"""Interval trees for ranked stabbing: lists sorted by score, or (the conventional way) by end points (Ranked 2.2.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np

from matchwood.encode.arrays import Matches
from matchwood.store.collecting import new_out
from matchwood.structures.ranked.kernels import endpoints as kernel
from matchwood.structures.ranked.kernels.endpoints import Endpoints
from matchwood.structures.ranked.kernels.layout import LISTS
from matchwood.structures.ranked.parts import build_part
from matchwood.structures.ranked.static_forest import StaticForest
from matchwood.structures.ranked.structure import entries_of


class IntervalTree(StaticForest):
    """Scored intervals in an interval tree whose lists are sorted by score.

            50 [1 3 10]
           /           \\
      20 [6 5 9]     80 [2 4 7 8]     an interval lives in the highest node whose centre it holds; lists best first

    Invariants (`check`): intervals of a node hold its centre; lists are in rank order; a node knows its list's
    extent and best score, and its subtree's best score.
    Cost: build O(n log n), 32 bytes an interval; top-k: the intervals of the path that outrank the k-th hit are all tested,
    stabbed or not, 64 at a time. Wins where nearly all of a node's intervals are stabbed; loses where the best are not.
    Updates: logarithmic merge (`static_forest`). Departures from the paper: as for `IRTree`.

    >>> tree = IntervalTree.build(lo=[0.0, 2.0], hi=[5.0, 3.0], score=[1.0, 9.0])
    >>> list(tree.stab(2.5))
    [(1, 9.0), (0, 1.0)]
    """

    name = "interval"
    kind = LISTS


class EndpointIntervalTree:
    """The conventional interval tree: lists sorted by both end points, so that a stab touches only hits, but all of them.

    Static, one dimension: the yardstick for ranked structures. Build O(n log n), 36 bytes an interval; top-k
    O(log n + hits log k).

    >>> tree = EndpointIntervalTree.build(lo=[0.0, 2.0], hi=[5.0, 3.0], score=[1.0, 9.0])
    >>> list(tree.stab(2.5))
    [(1, 9.0), (0, 1.0)]
    """

    name = "interval-endpoints"

    def __init__(self, state: Endpoints) -> None:
        self.state = state

    @classmethod
    def build(cls, lo: object, hi: object, score: object, ids: object = None, *, branching: int = 32) -> Self:
        """A tree of these intervals; ids default to 0, 1, 2, ... Nodes of up to `branching` intervals are not split."""
        entries = entries_of(lo, hi, score, np.arange(np.size(np.asarray(lo))) if ids is None else ids)
        if not entries.size:
            empty = build_part(LISTS, entries_of([0.0], [0.0], [0.0], [0]), branching).nodes[:0]
            return cls(Endpoints(**entries._asdict(), by_right=np.zeros(0, np.uint32), nodes=empty))
        part = build_part(LISTS, entries, branching)
        node = np.zeros(entries.size, np.int64)
        node[part.nodes["list"][part.nodes["size"] > 0]] = 1
        node = np.cumsum(node)
        held = part.entries.take(np.lexsort((part.entries.lo, node)))
        by_right = np.lexsort((-held.hi, node)).astype(np.uint32)
        return cls(Endpoints(**held._asdict(), by_right=by_right, nodes=part.nodes))

    def __len__(self) -> int:
        return len(self.state.lo)

    @property
    def nbytes(self) -> int:
        return self.state.nbytes

    @property
    def nodes(self) -> int:
        return len(self.state.nodes)

    def stab(self, first: float, last: float | None = None) -> Iterator[tuple[int, float]]:
        """(id, score) of the intervals that hold the point (or meet the range), best first. All are found before the first."""
        matches = self.top_k(first, len(self), last)
        yield from zip(matches.ids.tolist(), matches.scores.tolist(), strict=True)

    def top_k(self, first: object, k: int, last: object = None) -> Matches:
        """The k best of each query: score descending, then id ascending."""
        begins = np.atleast_1d(np.asarray(first, np.float64))
        stops = begins if last is None else np.atleast_1d(np.asarray(last, np.float64))
        k = min(int(k), max(len(self), 1))
        out = new_out(k * len(begins))
        ends = np.zeros(len(begins), np.int64)
        stack = np.empty(len(self.state.nodes) + 2, np.int64)
        kernel.stab_many(self.state, begins, stops, k, stack, out, ends)
        n = int(ends[-1]) if len(ends) else 0
        return Matches(np.concatenate([np.zeros(1, np.int64), ends]), out.ids[:n], out.scores[:n])

    def check(self) -> None:
        """Lists are sorted by both ends and hold their centres."""
        state = self.state
        for node in state.nodes:
            run = slice(int(node["list"]), int(node["list"]) + int(node["size"]))
            lo, hi, right = state.lo[run], state.hi[run], state.by_right[run].astype(np.int64)
            assert (lo[1:] >= lo[:-1]).all(), "a list is not sorted by left ends"
            assert (hi[right - run.start][1:] <= hi[right - run.start][:-1]).all(), "a list is not sorted by right ends"
            assert sorted(right.tolist()) == list(range(run.start, run.stop)), "a list is not a list twice"
            assert np.isnan(node["centre"]) or ((lo <= node["centre"]) & (node["centre"] <= hi)).all()
