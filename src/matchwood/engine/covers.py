"""Covering in the engine: an index of covers that the first query makes, and that is updated from then on.

While its kernels are not compiled, a query of an engine with few subscriptions compares them one by one, by the definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from matchwood.encode.arrays import Int64s, Rows
from matchwood.encode.objects import decode_rows
from matchwood.encode.picking import pick_rows
from matchwood.lang.row import Row
from matchwood.planner.compiling import compile_now, is_available
from matchwood.planner.exercise import COVER_UPDATES, COVERED, COVERS
from matchwood.planner.preparing import PREPARING
from matchwood.schema import Schema
from matchwood.store.reading import ReadableStore

if TYPE_CHECKING:
    from matchwood.covering.cover_index import CoverIndex

MAX_COMPARED = 20_000
"""Rows that are compared one by one, at most: in less time than the compiler takes."""


class Reduction(NamedTuple):
    """A reduced set of subscriptions: those kept, and for each other one a kept one that covers it."""

    kept: Int64s
    cover: dict[int, int]


class Covers:
    """Which of the engine's subscriptions cover which. Costs nothing until the first query about covers. One writer.

    A subscription that the index of covers cannot hold, because a row has more than `MAX_PREDICATES`, is kept apart: it covers
    none, none covers it, and `reduce` keeps it.
    """

    def __init__(self, store: Callable[[], ReadableStore]) -> None:
        self._store = store
        self._index: CoverIndex | None = None
        self._apart: set[int] = set()

    def inserted(self, rows: Rows) -> None:
        """Subscriptions have been added to the engine."""
        index, self._index = self._index, None  # none is left if an exception interrupts the change
        if index is not None:
            index.insert(self._without_large(rows))
        self._index = index

    def deleted(self, ids: Int64s) -> None:
        """Subscriptions have been removed from the engine."""
        index, self._index = self._index, None
        if index is not None:
            if self._apart:
                held = [id_ for id_ in ids.tolist() if id_ not in self._apart]
                self._apart.difference_update(ids.tolist())
                ids = np.array(held, np.int64)
            index.delete(ids)
        self._index = index

    @property
    def is_made(self) -> bool:
        """Is there an index of covers, which has to be told of changes?"""
        return self._index is not None

    def updated(self, ids: Int64s, rows: Rows) -> None:
        """Subscriptions have been replaced."""
        self.deleted(ids)
        self.inserted(rows)

    def forget(self) -> None:
        """Drop the index, because subscriptions may have changed in an unknown way."""
        self._index = None

    def prepare(self, *, covered: bool = False, search: bool = True) -> bool:
        """Are the kernels for `covering` and `reduce`, or for `covered_by`, compiled? Otherwise have them compiled.

        Waits for the compiler, and returns True, unless it is a single search and there are few rows. Called without the lock of
        the engine: other calls go on while this one waits.
        """
        parts = [COVERED if covered else COVERS, COVER_UPDATES]
        missing = [part for part in parts if not is_available(part)]
        if missing and search and len(self._store()) <= MAX_COMPARED:
            PREPARING.want(*missing)
            return False
        compile_now(parts, "the search for covers")
        return True

    def covering(self, rows: Rows) -> Int64s:
        """The ids of those that cover the one subscription in `rows`, ascending."""
        from matchwood.covering.base import ALL

        return np.sort(self._made().covers_of(rows, k=ALL).of(0))

    def covered_by(self, rows: Rows) -> Int64s:
        """The ids of those that the one subscription in `rows` covers, ascending."""
        return np.sort(self._made().covered_by(rows).of(0))

    def all_rows(self) -> Rows:
        """The rows of all subscriptions that take part, for `compared`. Changes nothing."""
        return self._split(self._store().extract_all())[0]

    def reduce(self, progress: Callable[[int, int], None] | None) -> Reduction:
        """The kept subscriptions, and for each other one a kept one that covers it."""
        kept, cover = self._made().reduce(progress)
        return Reduction(np.union1d(kept, np.array(sorted(self._apart), np.int64)), cover)

    def _made(self) -> CoverIndex:
        if self._index is None:
            from matchwood.covering.cover_index import CoverIndex  # an engine without covers does not import it

            index = CoverIndex()
            self._apart.clear()
            index.insert(self._without_large(self._store().extract_all()))
            self._index = index
        return self._index

    def _without_large(self, rows: Rows) -> Rows:
        """The rows of the subscriptions that the index can hold; the others are noted as kept apart."""
        rows, apart = self._split(rows)
        self._apart.update(apart)
        return rows

    def _split(self, rows: Rows) -> tuple[Rows, list[int]]:
        """The rows of the subscriptions that the index can hold, and the ids of the others."""
        from matchwood.covering.base import MAX_PREDICATES, row_sizes

        large = row_sizes(rows) > MAX_PREDICATES
        if not large.any():
            return rows, []
        ids = np.unique(rows.ids[large])
        return pick_rows(rows, np.flatnonzero(~np.isin(rows.ids, ids))), ids.tolist()


def compared(rows: Rows, query: Rows, schema: Schema, *, covered: bool) -> Int64s:
    """What `covering`, or `covered_by`, finds among these rows, by comparing one after the other. O(rows), in Python."""
    from matchwood.covering.exact import covers

    asked, held = decode_rows(query, schema), dict[int, list[Row]]()
    for id_, row in zip(rows.ids.tolist(), decode_rows(rows, schema), strict=True):
        held.setdefault(id_, []).append(row)
    found = [id_ for id_, own in held.items() if (covers(asked, own) if covered else covers(own, asked))]
    return np.array(sorted(found), np.int64)
