"""RelationGraph: the covers that a router knows of, updated while subscriptions come and go (Covering III).

G_k has up to k covers of each subscription; G_1 is what routers use. `reference_graphs` has the graphs it is compared with.

Departure from the paper: of subscriptions that cover each other only the one with the smaller id counts as a cover. With the
algorithm of III-C to the letter, when the common cover of two equals leaves, each is found to cover the other, and neither is
forwarded: a lost subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from matchwood.covering.base import ALL, CoverBase, Work, first_of_each
from matchwood.covering.cover_index import CoverIndex
from matchwood.covering.kernels import graph as kernel
from matchwood.covering.kernels.graph import IS_FORWARDED, IS_HELD, CoverRelations
from matchwood.encode.arrays import Int64s, Rows
from matchwood.errors import QueryError, SubscriptionError
from matchwood.store.growth import grown
from matchwood.store.kernels.rows import NONE
from matchwood.store.reading import Slots


class Changes(NamedTuple):
    """What neighbours must be told, in order."""

    forward: list[int]  # subscriptions that no other covers (any more)
    withdraw: list[int]  # forwarded subscriptions that were removed


@dataclass(frozen=True, slots=True)
class Costs:
    """The work of subscribes and of unsubscribes: Covering's q, nv and pc."""

    subscribe: Work
    unsubscribe: Work

    @property
    def queries(self) -> int:
        """cost_k(Q): the number of searches."""
        return self.subscribe.searches + self.unsubscribe.searches


class RelationGraph:
    """G_k over an index of its own. Layout and invariant: `kernels.graph`. One writer, no reader at the same time.

    Ids should ascend in the order of arrival: among equals the smallest id is the cover.

    >>> from matchwood.encode.arrays import make_rows
    >>> graph = RelationGraph()
    >>> graph.subscribe(make_rows([1, 2], [0, 0], [0, 1, 2], [0, 0], [0, 0], [0.0, 2.0], [9.0, 3.0], [1, 1]))
    Changes(forward=[1], withdraw=[])
    >>> graph.unsubscribe([1])
    Changes(forward=[2], withdraw=[1])
    """

    def __init__(self, k: int = 1, *, index: CoverBase | None = None) -> None:
        if k < 1:
            raise QueryError(f"expected k >= 1, got {k}")
        self.k = k
        self.index = CoverIndex() if index is None else index
        if len(self.index):
            raise QueryError(f"a relation graph needs an empty index, got one of {len(self.index)} subscriptions")
        self._graph = CoverRelations(
            edges=np.zeros(0, kernel.EDGE),
            firsts=np.zeros(0, np.uint32),
            degrees=np.zeros(0, np.uint32),
            states=np.zeros(0, np.uint8),
            orphans=np.zeros(0, np.uint32),
            found=np.zeros(k, np.int64),
            resume=np.array([kernel.START], np.int64),
            work=np.zeros((2, 3), np.int64),
        )

    def subscribe(self, rows: Rows) -> Changes:
        """Add subscriptions, one after the other. One search each."""
        heads = self._add(rows)
        return self._run(np.ones(len(heads), np.bool_), heads)

    def unsubscribe(self, ids: Iterable[int] | Int64s) -> Changes:
        """Remove subscriptions, one after the other. A search for each subscription that loses its last known cover."""
        removed = np.array(list(ids), np.int64)
        if len(np.unique(removed)) != len(removed):
            raise SubscriptionError("a subscription is named twice in one call")
        heads = self._heads(removed)
        changes = self._run(np.zeros(len(heads), np.bool_), heads)
        self.index.store.remove(removed)
        return changes

    def apply(self, subscribe: np.ndarray, ids: Int64s, rows: Rows) -> Changes:
        """Carry out a sequence of commands; `rows` holds every subscription that they name, each subscribed at most once."""
        heads = self._add(rows)
        known = rows.ids[first_of_each(rows.ids)]
        order = np.argsort(known)
        at = order[np.searchsorted(known[order], ids)]
        changes = self._run(np.ascontiguousarray(subscribe, np.bool_), heads[at])
        self.index.store.remove(known[self._graph.states[heads] & IS_HELD == 0])
        return changes

    def covers_of(self, id_: int) -> list[int]:
        """The known covers of a subscription."""
        slot = int(self._heads(np.array([id_]))[0])
        return [int(cover) for cover in self._ids(self._sources(slot))]

    def forwarded(self) -> list[int]:
        """Ids of the subscriptions that neighbours should know, ascending. O(n)."""
        states = self._graph.states[: self.index.store.slots]
        return sorted(self._ids(np.flatnonzero(states & IS_FORWARDED)).tolist())

    @property
    def costs(self) -> Costs:
        return Costs(*(Work.of(counters) for counters in self._graph.work))

    @property
    def edges(self) -> int:
        return int(self._graph.degrees.sum())

    def check(self) -> None:
        """Edges lead from covers, both directions agree, and what has none is forwarded. O(n), in Python: for tests."""
        graph, store = self._graph, self.index.store
        self.index.check()
        chained = set()
        for slot in np.flatnonzero(graph.states & IS_HELD).tolist():
            own = self._ids(np.array([slot]))
            covers = set(self.index.covers_of(store.extract(store.slots_of(own)), k=ALL).ids.tolist())
            sources = self._ids(self._sources(slot)).tolist()
            assert (not sources) == bool(graph.states[slot] & IS_FORWARDED), f"slot {slot}: forwarded wrongly"
            assert len(set(sources)) == len(sources), f"slot {slot}: two edges from one cover"
            assert set(sources) <= covers - set(own.tolist()), (
                f"slot {slot}: an edge from a subscription that is no cover"
            )
            e = int(graph.firsts[slot])
            while e != int(NONE):
                assert int(graph.edges[e]["source"]) == slot, f"edge {e} is in the chain of another source"
                chained.add(e)
                e = int(graph.edges[e]["next"])
        expected = {s * self.k + j for s, degree in enumerate(graph.degrees.tolist()) for j in range(degree)}
        assert chained == expected, "chains and edges differ"

    def _sources(self, slot: int) -> Slots:
        """The slots of the known covers of the subscription at a slot."""
        return self._graph.edges["source"][slot * self.k : slot * self.k + int(self._graph.degrees[slot])]

    def _ids(self, slots: np.ndarray) -> Int64s:
        ids: Int64s = self.index.store.state.rows["id"][slots]
        return ids

    def _heads(self, ids: Int64s) -> Slots:
        slots = self.index.store.slots_of(ids)
        return slots[first_of_each(self._ids(slots))]

    def _add(self, rows: Rows) -> Slots:
        """Put rows into the store and make room for their edges; return the first slot of each subscription."""
        slots = self.index.add_rows(rows)
        graph, old = self._graph, len(self._graph.firsts)
        if self.index.store.slots > old:
            size = max(self.index.store.slots, old * 3 // 2)
            firsts = grown(graph.firsts, size)
            firsts[old:] = NONE
            self._graph = graph._replace(
                edges=grown(graph.edges, size * self.k),
                firsts=firsts,
                degrees=grown(graph.degrees, size),
                states=grown(graph.states, size),
                orphans=grown(graph.orphans, size),
            )
        return slots[first_of_each(rows.ids)]

    def _run(self, subscribe: np.ndarray, heads: Slots) -> Changes:
        index = self.index
        run = kernel.run_commands[type(index.state)]
        buffer = np.empty(index.store.slots + 1, np.int64)  # one command changes at most all subscriptions
        parts = [np.zeros(0, np.int64)]
        done = 0
        while done < len(heads):
            states = index.state, index.store.state, self._graph
            done, n = run(*states, subscribe, heads, done, index.scratch, buffer)
            parts.append(buffer[:n].copy())
            index.settle(grow=self._graph.resume[0] != kernel.START)
        changes = np.concatenate(parts)
        return Changes(self._ids(changes[changes >= 0]).tolist(), self._ids(-1 - changes[changes < 0]).tolist())
