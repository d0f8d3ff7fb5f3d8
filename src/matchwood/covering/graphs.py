"""Relation graphs: the covers a router knows of, kept while subscriptions come and go (Covering III).

    RelationGraph  G_k: up to k covers of each subscription; compiled. G_1 is what routers use
    FullGraph      G*: every cover of every subscription
    StrictPoset    every cover, but only the edges that do not follow from others (the classical organisation)

All three say the same about who has a cover. They differ in what they cost: G* and the poset need, for every new subscription,
all that it covers as well.

Departure from the paper: of subscriptions that cover each other only the earlier (smaller id) counts as a cover. With the letter
of III-C, when the cover of two equals leaves, each is found to cover the other, and neither is forwarded: a lost subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from matchwood.covering.cover_index import ALL, CoverIndex, Work
from matchwood.covering.kernels import graph as kernel
from matchwood.covering.kernels.graph import IS_FORWARDED, IS_HELD, Relations
from matchwood.covering.kernels.rows import subscription_covers
from matchwood.covering.zcurve import ZCurve
from matchwood.encode.arrays import Int64s, Rows
from matchwood.errors import QueryError, SubscriptionError
from matchwood.store.kernels.rows import NONE, first_slot
from matchwood.store.row_store import Slots


class Changes(NamedTuple):
    """What the neighbours must hear, in the order in which it came up."""

    forward: list[int]  # subscriptions that no other covers (any more)
    withdraw: list[int]  # forwarded subscriptions that are gone


@dataclass(frozen=True, slots=True)
class Costs:
    """The work of subscribes and of unsubscribes apart: Covering's q, nv and pc."""

    subscribe: Work
    unsubscribe: Work

    @property
    def queries(self) -> int:
        """cost_k(Q): how often the index was asked."""
        return self.subscribe.searches + self.unsubscribe.searches


class RelationGraph:
    """G_k over an index of its own. Layout and invariant: `kernels.graph`. One writer, no reader meanwhile.

    Ids should ascend in the order of arrival: among equals the smallest id is the cover.

    >>> from matchwood.encode.arrays import make_rows
    >>> graph = RelationGraph()
    >>> graph.subscribe(make_rows([1, 2], [0, 0], [0, 1, 2], [0, 0], [0, 0], [0.0, 2.0], [9.0, 3.0], [1, 1]))
    Changes(forward=[1], withdraw=[])
    >>> graph.unsubscribe([1])
    Changes(forward=[2], withdraw=[1])
    """

    def __init__(self, k: int = 1, *, index: CoverIndex | ZCurve | None = None) -> None:
        if k < 1:
            raise QueryError(f"expected k >= 1, got {k}")
        self.k = k
        self.owner = CoverIndex() if index is None else index
        if len(self.owner):
            raise QueryError("a relation graph needs an empty index of its own")
        self._graph = Relations(
            np.zeros(0, kernel.EDGE),
            np.zeros(0, np.uint32),
            np.zeros(0, np.uint32),
            np.zeros(0, np.uint8),
            np.zeros(0, np.uint32),
            np.zeros(k, np.int64),
        )
        self._counters = np.zeros((2, 3), np.int64)

    def subscribe(self, rows: Rows) -> Changes:
        """Add subscriptions, one after the other. One search each."""
        slots = self.owner.store.add(rows)
        heads = slots[np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])] if rows.size else slots
        return self._run(np.ones(len(heads), np.bool_), heads)

    def unsubscribe(self, ids: Iterable[int] | Int64s) -> Changes:
        """Remove subscriptions, one after the other. A search for each subscription that loses its last known cover."""
        array = np.array(list(ids), np.int64)
        if len(np.unique(array)) != len(array):
            raise SubscriptionError("a subscription is named twice in one call")
        heads = self._heads(array)
        changes = self._run(np.zeros(len(heads), np.bool_), heads)
        self.owner.store.remove(array)
        return changes

    def apply(self, subscribe: np.ndarray, ids: Int64s, rows: Rows) -> Changes:
        """Carry out a sequence of commands; `rows` holds every subscription that they name, each subscribed once at most."""
        slots = self.owner.store.add(rows)
        heads = slots[np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])]
        known = rows.ids[np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])]
        order = np.argsort(known)
        at = order[np.searchsorted(known[order], ids)]
        changes = self._run(np.ascontiguousarray(subscribe, np.bool_), heads[at])
        held = (self._graph.states[heads] & IS_HELD) > 0
        self.owner.store.remove(known[~held])
        return changes

    def covers_of(self, id_: int) -> list[int]:
        """The known covers of a subscription."""
        slot = int(self._heads(np.array([id_]))[0])
        edges = self._graph.edges[slot * self.k : slot * self.k + int(self._graph.degrees[slot])]
        return [int(i) for i in self.owner.store.state.rows["id"][edges["source"]]]

    def forwarded(self) -> list[int]:
        """Ids of the subscriptions that neighbours should know, ascending. O(n)."""
        states = self._graph.states[: self.owner.store.slots]
        slots = np.flatnonzero((states & IS_FORWARDED) > 0)
        return sorted(self.owner.store.state.rows["id"][slots].tolist())

    @property
    def costs(self) -> Costs:
        works = [Work(int(searches), int(visited), int(compared)) for visited, compared, searches in self._counters]
        return Costs(*works)

    @property
    def edges(self) -> int:
        return int(self._graph.degrees.sum())

    def check(self) -> None:
        """Edges lead from covers, both directions agree, and who has none is forwarded. O(n), in Python: for tests."""
        graph, rows = self._graph, self.owner.store.state.rows
        self.owner.check()
        chained = set()
        for slot in np.flatnonzero(graph.states & IS_HELD).tolist():
            degree = int(graph.degrees[slot])
            assert (degree == 0) == bool(graph.states[slot] & IS_FORWARDED), f"slot {slot}: forwarded wrongly"
            found = self.owner.covers_of(
                self.owner.store.extract(self.owner.store.slots_of(rows["id"][slot : slot + 1])), k=ALL
            )
            covers = set(found.ids.tolist())
            sources = {int(rows["id"][graph.edges[slot * self.k + j]["source"]]) for j in range(degree)}
            assert len(sources) == degree, f"slot {slot}: a cover stands twice"
            assert sources <= covers - {int(rows["id"][slot])}, f"slot {slot}: an edge from what is no cover"
            e = int(graph.firsts[slot])
            while e != int(NONE):
                assert int(graph.edges[e]["source"]) == slot, f"edge {e} hangs in a foreign chain"
                chained.add(e)
                e = int(graph.edges[e]["next"])
        expected = {
            s * self.k + j for s in np.flatnonzero(graph.degrees).tolist() for j in range(int(graph.degrees[s]))
        }
        assert chained == expected, "chains and edges differ"

    def _run(self, subscribe: np.ndarray, heads: Slots) -> Changes:
        owner = self.owner
        self._reserve()
        parts: list[Int64s] = []
        room = np.empty(max(1024, 2 * len(heads)), np.int64)
        done = 0
        while done < len(heads):
            first = done
            arguments = self._graph, self.k, subscribe, heads, done, owner.scratch, room, self._counters
            done, n = kernel.run_commands(owner.state, owner.store.state, *arguments)
            parts.append(room[:n].copy())
            if done == first and n == 0 and len(room) < 2 * owner.store.slots:
                room = np.empty(2 * len(room), np.int64)
            if done < len(heads) or isinstance(owner, CoverIndex):
                owner.settle(grow=done == first)
        changes = np.concatenate([np.zeros(0, np.int64), *parts])
        ids = owner.store.state.rows["id"]
        return Changes(ids[changes[changes >= 0]].tolist(), ids[-1 - changes[changes < 0]].tolist())

    def _heads(self, ids: Int64s) -> Slots:
        slots = self.owner.store.slots_of(ids)
        of = self.owner.store.state.rows["id"][slots]
        return slots[np.concatenate([[True], of[1:] != of[:-1]])] if len(slots) else slots

    def _reserve(self) -> None:
        slots = self.owner.store.slots
        if isinstance(self.owner, CoverIndex):
            self.owner.reserve_places()
        graph, held = self._graph, len(self._graph.firsts)
        if slots <= held:
            return
        size = max(slots, held * 3 // 2)
        more = size - held
        self._graph = Relations(
            np.concatenate([graph.edges, np.zeros(more * self.k, kernel.EDGE)]),
            np.concatenate([graph.firsts, np.full(more, NONE, np.uint32)]),
            np.concatenate([graph.degrees, np.zeros(more, np.uint32)]),
            np.concatenate([graph.states, np.zeros(more, np.uint8)]),
            np.zeros(size, np.uint32),
            graph.found,
        )


class FullGraph:
    """G*: every cover of every subscription (Covering III-A). Two searches a subscribe, none an unsubscribe; edges up to n^2.

    Edges follow the same order of equals as `RelationGraph`. In Python: it exists to be compared with.
    """

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
        """Remove subscriptions; what is left without a cover must be forwarded."""
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
    """Immediate covers only: the transitive reduction of G* (Covering III-D). Walks from the top instead of asking an index.

    `comparisons` counts pairs of subscriptions tested: its cost. In Python: it exists to be compared with.
    """

    def __init__(self) -> None:
        self._index = CoverIndex()  # holds the rows and the exact test
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
        """Remove subscriptions; what they covered is tied to what covered them, unless another path does."""
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
        """Does it cover, and is it the earlier one if they are equal?"""
        self.comparisons += 1
        store = self._index.store
        w, n = (int(first_slot(store.state, id_)) for id_ in (wide, narrow))
        if not subscription_covers(store.state, w, store.state, n):
            return False
        return wide < narrow or not subscription_covers(store.state, n, store.state, w)


def _one_by_one(rows: Rows) -> Iterable[Rows]:
    starts = np.flatnonzero(np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])) if rows.size else np.zeros(0, int)
    for start, stop in zip(starts, [*starts[1:], rows.size], strict=True):
        yield rows.take(int(start), int(stop))
