"""The relation graphs that the paper compares G_1 with; in Python, for tests and measurements.

    FullGraph      G*: every cover of every subscription
    StrictPoset    every cover, but only the edges that do not follow from others (the classical organisation)

Both need, for each new subscription, all that it covers as well. Their edges follow the same order of equals as `RelationGraph`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from matchwood.covering.base import ALL, first_of_each
from matchwood.covering.cover_index import CoverIndex
from matchwood.covering.graphs import Changes
from matchwood.covering.kernels.rows import subscription_covers
from matchwood.encode.arrays import Rows


class FullGraph:
    """G*: every cover of every subscription (Covering III-A). Two searches to subscribe, none to unsubscribe; up to n^2 edges."""

    def __init__(self) -> None:
        self.index = CoverIndex()
        self._covers: dict[int, set[int]] = {}
        self._covered: dict[int, set[int]] = {}
        self.queries = 0

    def subscribe(self, rows: Rows) -> Changes:
        """Add subscriptions, one after the other, their ids ascending in the order of arrival."""
        forward = []
        for one in _one_by_one(rows):
            id_ = int(one.ids[0])
            covers = set(self.index.covers_of(one, k=ALL, before=id_).ids.tolist())
            covered = set(self.index.covered_by(one).ids.tolist()) - covers  # equals that came earlier are covers
            self.queries += 2
            self.index.insert(one)
            self._covers[id_], self._covered[id_] = covers, covered
            for cover in covers:
                self._covered[cover].add(id_)
            for other in covered:
                self._covers[other].add(id_)
            if not covers:
                forward.append(id_)
        return Changes(forward, [])

    def unsubscribe(self, ids: Iterable[int]) -> Changes:
        """Remove subscriptions; those that are left without a cover must be forwarded."""
        forward, withdraw = [], []
        for id_ in ids:
            self.index.delete(np.array([id_]))
            if not self._covers[id_]:
                withdraw.append(id_)
            for cover in self._covers.pop(id_):
                self._covered[cover].discard(id_)
            for other in sorted(self._covered.pop(id_)):
                self._covers[other].discard(id_)
                if not self._covers[other]:
                    forward.append(other)
        return Changes(forward, withdraw)

    def forwarded(self) -> list[int]:
        """Ids that nothing covers, ascending."""
        return sorted(id_ for id_, covers in self._covers.items() if not covers)

    @property
    def edges(self) -> int:
        return sum(len(covers) for covers in self._covers.values())


class StrictPoset:
    """Immediate covers only: the transitive reduction of G* (Covering III-D). Walks from the top instead of using an index.

    `comparisons`, the number of pairs of subscriptions tested, is its cost.
    """

    def __init__(self) -> None:
        self._index = CoverIndex()  # holds the rows
        self._above: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}
        self.comparisons = 0

    def subscribe(self, rows: Rows) -> Changes:
        """Add subscriptions, one after the other, their ids ascending in the order of arrival."""
        forward = []
        for one in _one_by_one(rows):
            id_ = int(one.ids[0])
            self._index.insert(one)
            above = self._lowest_covers(id_)
            below = self._highest_covered(id_, above)
            for upper in above:  # edges that now follow from two others
                for lower in self._below[upper] & below:
                    self._below[upper].discard(lower)
                    self._above[lower].discard(upper)
            self._above[id_], self._below[id_] = above, below
            for upper in above:
                self._below[upper].add(id_)
            for lower in below:
                self._above[lower].add(id_)
            if not above:
                forward.append(id_)
        return Changes(forward, [])

    def unsubscribe(self, ids: Iterable[int]) -> Changes:
        """Remove subscriptions, and link what they covered to what covered them, unless another path does."""
        forward, withdraw = [], []
        for id_ in ids:
            above, below = self._above.pop(id_), self._below.pop(id_)
            for upper in above:
                self._below[upper].discard(id_)
            for lower in below:
                self._above[lower].discard(id_)
            if not above:
                withdraw.append(id_)
            for lower in sorted(below):
                for upper in above:
                    if not self._reaches(upper, lower):
                        self._below[upper].add(lower)
                        self._above[lower].add(upper)
                if not self._above[lower]:
                    forward.append(lower)
            self._index.delete(np.array([id_]))
        return Changes(forward, withdraw)

    def forwarded(self) -> list[int]:
        """Ids that nothing covers, ascending."""
        return sorted(id_ for id_, above in self._above.items() if not above)

    @property
    def edges(self) -> int:
        return sum(len(above) for above in self._above.values())

    def _lowest_covers(self, id_: int) -> set[int]:
        """Covers of which none below covers it too."""
        covers, seen = set(), set()
        stack = [top for top, above in self._above.items() if not above]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            if self._is_cover(at, id_):
                covers.add(at)
                stack += self._below[at]
        return {c for c in covers if not self._below[c] & covers}

    def _highest_covered(self, id_: int, above: set[int]) -> set[int]:
        """Those it covers of which none above is covered by it."""
        start = set.intersection(*(self._descendants(a) for a in above)) if above else set(self._above)
        covered = {other for other in start if other not in above and self._is_cover(id_, other)}
        return {c for c in covered if not self._above[c] & covered}

    def _descendants(self, id_: int) -> set[int]:
        found: set[int] = set()
        stack = list(self._below[id_])
        while stack:
            at = stack.pop()
            if at not in found:
                found.add(at)
                stack += self._below[at]
        return found

    def _reaches(self, upper: int, lower: int) -> bool:
        return lower in self._descendants(upper)

    def _is_cover(self, wide: int, narrow: int) -> bool:
        """Does `wide` cover `narrow`, and has it the smaller id if they are equal?"""
        self.comparisons += 1
        store = self._index.store
        w, n = store.slots_of(np.array([wide]))[0], store.slots_of(np.array([narrow]))[0]
        if not subscription_covers(store.state, w, store.state, n):
            return False
        return wide < narrow or not subscription_covers(store.state, n, store.state, w)


def _one_by_one(rows: Rows) -> Iterable[Rows]:
    starts = np.flatnonzero(first_of_each(rows.ids))
    for start, stop in zip(starts, [*starts[1:], rows.size], strict=True):
        yield rows.take(int(start), int(stop))
