"""SOPT-R-tree: the scored R-tree whose order avoids holes (Ranked 3.2)."""

from __future__ import annotations

from matchwood.structures.ranked.kernels.layout import ARRANGED
from matchwood.structures.ranked.static_forest import StaticForest


class SOPTRTree(StaticForest):
    """Scored intervals in an R-tree over the arrangement of `constraint_graph`: leftmost first, as far as scores allow.

    Two intervals that share no point may be in either order, so neighbours on the line become neighbours in the tree; those
    that share a point stay in rank order, so the first k hits, depth first, are still the k best. Of two stabbed nodes in a
    row on a level at least one has a stabbed interval below it: a top-k opens at most 2k nodes a level.

    Invariants (`check`): of two intervals that share a point the better comes first (up to the tree's slack, see
    `static_forest`); extents contain what lies under them.
    Cost: build O(n log n), 33 bytes an interval; top-k O(k b log_b n). A range is searched best first by the best scores of
    blocks, since the order promises nothing for two intervals that do not share a point: up to O(n).
    Updates, open in the paper: logarithmic merge, tombstones, and small changes of scores in place (`static_forest`).

    >>> tree = SOPTRTree.build(lo=[0.0, 2.0], hi=[5.0, 3.0], score=[1.0, 9.0])
    >>> list(tree.stab(2.5))
    [(1, 9.0), (0, 1.0)]
    """

    name = "sopt"
    kind = ARRANGED
