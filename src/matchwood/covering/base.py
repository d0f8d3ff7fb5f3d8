"""What both indexes of covers share: a store of rows, searches for covers, and their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.covering.kernels.forest import MAX_ITEMS, STACK, CoverScratch
from matchwood.covering.kernels.indexes import cover_many
from matchwood.covering.kernels.search import CoverQueries
from matchwood.encode.arrays import CONTINUING, Int64s, Rows
from matchwood.errors import QueryError, SubscriptionError, UnsupportedError
from matchwood.jit.state import State
from matchwood.store.reading import Slots
from matchwood.store.row_store import RowStore

ALL = 1 << 62
"""As `k`: every cover."""
MAX_PREDICATES = 16_384
"""Dimensions and circles of one row. A group counts its coordinates, two for each, in 16 bits."""
ANY_ID = np.iinfo(np.int64).max
"""As `before`: equals count as covers whatever their id."""


class Found(NamedTuple):
    """Ids found for each query, CSR."""

    offsets: Int64s
    ids: Int64s

    def of(self, query: int) -> Int64s:
        return self.ids[self.offsets[query] : self.offsets[query + 1]]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of searches: Covering's measures (V-A)."""

    searches: int
    nodes_visited: int
    points_compared: int

    @classmethod
    def of(cls, counters: Int64s) -> Work:
        visited, compared, searches = counters.tolist()
        return cls(searches, visited, compared)


class CoverBase(ABC):
    """Subscriptions that can be searched for covers. One writer, no reader at the same time."""

    state: State
    scratch: CoverScratch

    def __init__(self) -> None:
        self.store = RowStore()
        self.scratch = new_scratch(256, 4096)

    def __len__(self) -> int:
        """The number of subscriptions."""
        return self.store.subscriptions

    def insert(self, rows: Rows) -> None:
        """Add the rows of new subscriptions. O(log n) a row."""
        if rows.size:
            self._plant(self.add_rows(rows))

    def delete(self, ids: Int64s) -> None:
        """Remove subscriptions: all of them, or none if one is unknown. O(log n) a row."""
        ids = np.ascontiguousarray(ids, np.int64)
        if len(np.unique(ids)) != len(ids):
            raise SubscriptionError("a subscription is named twice in one delete")
        self._uproot(self.store.slots_of(ids))
        self.store.remove(ids)

    def covers_of(self, rows: Rows, *, k: int = 1, before: int | Int64s = ANY_ID) -> Found:
        """Up to k subscriptions that cover each given one (Covering's cov_k), in no particular order.

        Equals, which cover each other, count only if their id is smaller than `before`.
        """
        if k < 1:
            raise QueryError(f"expected k >= 1, got {k}")
        return self._find_covers(self._queries(rows, before, k))

    def cover_of(self, rows: Rows) -> list[int | None]:
        """One cover of each subscription, or None."""
        found = self.covers_of(rows)
        return [int(found.of(q)[0]) if len(found.of(q)) else None for q in range(len(found.offsets) - 1)]

    @property
    def work(self) -> Work:
        """The work of all searches so far."""
        return Work.of(self.scratch.counters)

    def add_rows(self, rows: Rows) -> Slots:
        """Check rows and put them into the store, and make room for them; they are not in the index yet."""
        self._validate(rows)
        self._make_room(largest_row(rows) if rows.size else 0)
        return self.store.add(rows)

    @abstractmethod
    def settle(self, *, grow: bool) -> None:
        """Do what a kernel stopped for: a pending rebuild, or larger pools if `grow`."""

    @abstractmethod
    def check(self) -> None:
        """Verify the invariants. O(n), in Python: for tests."""

    @abstractmethod
    def _plant(self, slots: Slots) -> None:
        """Enter rows that are in the store into the index."""

    @abstractmethod
    def _uproot(self, slots: Slots) -> None:
        """Take rows that are still in the store out of the index."""

    def _validate(self, rows: Rows) -> None:
        if rows.size and largest_row(rows) > MAX_PREDICATES:
            raise UnsupportedError(f"a row has {largest_row(rows)} predicates; covering takes at most {MAX_PREDICATES}")

    def _make_room(self, items: int) -> None:
        """Scratch for rows of so many items."""
        if items > len(self.scratch.items):
            self.scratch = self.scratch._replace(**_item_scratch(min(2 * items, MAX_PREDICATES)))

    def _queries(self, rows: Rows, before: int | Int64s, k: int) -> CoverQueries:
        self._validate(rows)
        self._make_room(largest_row(rows) if rows.size else 0)
        other = RowStore()
        heads = other.add(rows)[first_of_each(rows.ids)]
        limits = np.empty(len(heads), np.int64)
        limits[:] = before
        return CoverQueries(other.state, heads, limits, min(k, max(len(self), 1)))

    def _find_covers(self, queries: CoverQueries) -> Found:
        return self._answer(cover_many[type(self.state)], queries, max(queries.k, 1024))

    def _answer(self, kernel: Callable[..., Any], queries: CoverQueries, room: int) -> Found:
        """Call a kernel until every query is answered, each time with more room for the results."""
        count = len(queries.heads)
        ends = np.zeros(count, np.int64)
        parts = [np.zeros(0, np.int64)]
        done = before = 0
        while done < count:
            out = np.empty(room, np.int64)
            first = done
            done = int(kernel(self.state, self.store.state, queries, first, out, ends, self.scratch))
            room *= 2
            if done > first:
                parts.append(out[: ends[done - 1]])
                ends[first:done] += before
                before = int(ends[done - 1])
        return Found(np.concatenate([np.zeros(1, np.int64), ends]), np.concatenate(parts))


def first_of_each(ids: Int64s) -> NDArray[np.bool_]:
    """Which rows are the first of their subscription?"""
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    return first


def largest_row(rows: Rows) -> int:
    """The largest number of dimensions that a row names, circles and counts of values included."""
    return int(row_sizes(rows).max())


def row_sizes(rows: Rows) -> Int64s:
    """The number of dimensions that each row names, circles and counts of values included. O(entries)."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(~np.isin(rows.kinds, CONTINUING))])[rows.offsets]
    return np.diff(ends)


def new_scratch(members: int, records: int) -> CoverScratch:
    """Scratch that can rebuild a subtree of so many members and coordinates."""
    return CoverScratch(
        **_item_scratch(MAX_ITEMS),
        stack=np.zeros(3 * STACK, np.int64),
        members=np.zeros(members, np.int64),
        order=np.zeros(members, np.int64),
        records=np.zeros(records),
        counters=np.zeros(3, np.int64),
    )


def _item_scratch(items: int) -> dict[str, np.ndarray]:
    """The part of the scratch that holds a row of so many items, or its point, padded to whole strides."""
    width = 2 * items + 8
    return {
        "items": np.zeros(items, np.uint32),
        "ends": np.zeros(width),
        "query": np.zeros(width),
        "rounded": np.zeros(width, np.float32),
        "walk": np.zeros(width, np.int64),
    }
