"""Scored R-tree (Ranked 2.2.3)."""

from __future__ import annotations

from matchwood.structures.ranked.kernels.layout import PACKED
from matchwood.structures.ranked.static_forest import StaticForest


class ScoredRTree(StaticForest):
    """Scored intervals in an R-tree that groups them by score: b best in the first leaf, and so on, up to a root.

        [0 ........................... 100]        an inner entry is the extent of its child
        [0 .. 55]  [0 ....... 100] [0 . 90]
        1 2 3 4     5 6 7 8         9 10           left first, depth first: the first k hits are the k best

    Invariants (`check`): leaves are in rank order; extents contain, and best scores are not below, what lies under them.
    Cost: build O(n log n), 33 bytes an interval; top-k O(n) at worst: an extent may be stabbed where no interval under it is.
    Answers ranges as fast. Updates: logarithmic merge, small changes of scores in place (`static_forest`).

    >>> tree = ScoredRTree.build(lo=[0.0, 2.0], hi=[5.0, 3.0], score=[1.0, 9.0])
    >>> list(tree.stab(2.5))
    [(1, 9.0), (0, 1.0)]
    """

    name = "r"
    kind = PACKED
