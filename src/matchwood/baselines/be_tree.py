"""BE-Tree: the BE*-Tree's predecessor, whose clusters are a fixed grid of halves."""

from __future__ import annotations

from typing import Any, ClassVar

from matchwood.store.reading import Slots
from matchwood.structures.be_star.index import BEStarTree
from matchwood.structures.be_star.kernels.insert import widen_domains


class BETree(BEStarTree):
    """A BE*-Tree with rigid clustering: buckets are halves of halves of an attribute's domain, full or empty.

    The domain of a dimension is what the rows given so far span; a row beyond the domain that its c-directory began
    with stays at the root of it. A bucket's boundary is its cell, not its rows: deletion leaves it as it is. Everything
    else, from leaf layout to signatures and verification, is shared with the BE*-Tree, so that a comparison
    measures the clustering alone. Its paper has no top-k; the bounds come with the shared code.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7], [0.0], [0, 1], [0], [0], [18.0], [36.0], [0.5])
    >>> BETree.build(rows).match(make_events([0, 1], [0], [20.0], [20.0])).ids.tolist()
    [7]
    """

    name: ClassVar[str] = "be-tree"

    def __init__(self, *, capacity: int = 32, ranking: str = "popularity", batch: bool = True) -> None:
        super().__init__(capacity=capacity, split="rigid", ranking=ranking, batch=batch)

    def _parameters(self) -> dict[str, Any]:
        return {
            name: value for name, value in super()._parameters().items() if name in ("capacity", "ranking", "batch")
        }

    def _insert(self, slots: Slots) -> None:
        self._follow_store()
        widen_domains(self._tree, self.store.state, slots)
        super()._insert(slots)
