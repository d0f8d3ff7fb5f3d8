"""Segment tree for ranked stabbing (Ranked 2.2.1)."""

from __future__ import annotations

from matchwood.structures.ranked.kernels.layout import SEGMENTS
from matchwood.structures.ranked.static_forest import StaticForest


class SegmentTree(StaticForest):
    """Scored intervals cut into the nodes of a binary tree over the cells of the line.

        cells   30 | 30..45 | 45 | 45..55 | 55 ...   end points and the gaps between them, so that closed ends are exact
        a node keeps the ranks, ascending, of the intervals that cover it but not its parent: at most two nodes a level

    All intervals on the way from a point's cell up to the root hold the point: a stab merges those lists.
    Invariant (`check`): on every way up, each interval that covers the cell is listed exactly once.
    Cost: build and space O(n log n) (about 160 bytes an interval at 1M); top-k O(log n + k log log n).
    A range is answered by a scan in rank order: copies would come up several times. Updates: logarithmic merge (`static_forest`).
    Departure from the paper: lists hold four-byte ranks, not scores and ids, which is a third of the space.

    >>> tree = SegmentTree.build(lo=[0.0, 2.0], hi=[5.0, 3.0], score=[1.0, 9.0])
    >>> list(tree.stab(2.5))
    [(1, 9.0), (0, 1.0)]
    """

    name = "segment"
    kind = SEGMENTS

    @property
    def copies(self) -> int:
        """How many times an interval stands in a node's list, over all intervals."""
        trees = self.state.trees[self._pools.live()]
        return int((trees["spans"].astype(int) - 2 * trees["leaves"].astype(int) - 1).sum())
