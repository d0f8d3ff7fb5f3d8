"""Relation graphs: the covers a router knows of, kept while subscriptions come and go (Covering III).

    RelationGraph  G_k: up to k covers of each subscription; compiled. G_1 is what routers use
    FullGraph      G*: every cover of every subscription
    StrictPoset    every cover, but only the edges that do not follow from others (the classical organisation)

All three say the same about who has a cover. They differ in what they cost: G* and the poset need, for every new subscription, all that
it covers as well.

Departure from the paper: of subscriptions that cover each other only the earlier (smaller id) counts as a cover. With the letter of
III-C, when the cover of two equals leaves, each is found to cover the other, and neither is forwarded: a lost subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from matchwood.covering.cover_index import ALL, CoverIndex, Work
from matchwood.covering.zcurve import ZCurve
from matchwood.encode.arrays import Int64s, Rows
from matchwood.errors import QueryError, SubscriptionError
from matchwood.index.row_store import Slots
from matchwood.kernels import covering_graph as kernel
from matchwood.kernels.covering_graph import IS_FORWARDED, IS_HELD, Relations
from matchwood.kernels.store import NONE


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
    """G_k over an index of its own. Layout and invariant: `kernels.covering_graph`. One writer, no reader meanwhile.

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
        """Carry out a sequence of commands; `rows` holds every subscription that they name. Each id is subscribed once at most."""
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
        expected = {s * self.k + j for s in np.flatnonzero(graph.degrees).tolist() for j in range(int(graph.degrees[s]))}
        assert chained == expected, "chains and edges differ"

    def _run(self, subscribe: np.ndarray, heads: Slots) -> Changes:
        owner = self.owner
        self._reserve()
        changes: list[int] = []
        room = np.empty(max(1024, 2 * len(heads)), np.int64)
        done = 0
        while done < len(heads):
            first = done
            arguments = self._graph, self.k, subscribe, heads, done, owner.scratch, room, self._counters
            done, n = kernel.run_commands(owner.index, owner.store.state, *arguments)
            changes += room[:n].tolist()
            if done == first and n == 0 and len(room) < 2 * owner.store.slots:
                room = np.empty(2 * len(room), np.int64)
            if done < len(heads) or isinstance(owner, CoverIndex):
                owner.settle(grow=done == first)
        ids = owner.store.state.rows["id"]
        forward = [int(ids[c]) for c in changes if c >= 0]
        return Changes(forward, [int(ids[-1 - c]) for c in changes if c < 0])

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
