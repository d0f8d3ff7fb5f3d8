"""Covering in the engine: an index of covers that is made when first asked for, and kept up to date from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from matchwood.covering.cover_index import ALL, CoverIndex
from matchwood.encode.arrays import Int64s, Rows
from matchwood.errors import UnsupportedError
from matchwood.store.row_store import RowStore


class Reduction(NamedTuple):
    """A set of subscriptions reduced: those kept, and for each other one a kept one that covers it."""

    kept: Int64s
    cover: dict[int, int]


class Covers:
    """Which of the engine's subscriptions cover which. Costs nothing until covers are first asked for. One writer."""

    def __init__(self, store: Callable[[], RowStore]) -> None:
        self._store = store
        self._index: CoverIndex | None = None

    def inserted(self, rows: Rows) -> None:
        """Subscriptions have been added to the engine.

        One that the index of covers cannot hold is no reason to refuse it: the index is dropped, and whoever asks about covers
        again is told.
        """
        index, self._index = (
            self._index,
            None,
        )  # an exception meanwhile leaves none: it is made again when it is asked for
        if index is not None:
            try:
                index.insert(rows)
            except UnsupportedError:
                return
        self._index = index

    def deleted(self, ids: Int64s) -> None:
        """Subscriptions have been removed from the engine."""
        index, self._index = self._index, None
        if index is not None:
            index.delete(ids)
        self._index = index

    def updated(self, ids: Int64s, rows: Rows) -> None:
        """Subscriptions have been replaced."""
        self.deleted(ids)
        self.inserted(rows)

    def forget(self) -> None:
        """Subscriptions have changed, and it is not known how."""
        self._index = None

    def covering(self, rows: Rows) -> Int64s:
        """The ids of those that cover the one subscription in `rows`, ascending."""
        return np.sort(self._made().covers_of(rows, k=ALL).of(0))

    def covered_by(self, rows: Rows) -> Int64s:
        """The ids of those that the one subscription in `rows` covers, ascending."""
        return np.sort(self._made().covered_by(rows).of(0))

    def reduce(self, progress: Callable[[int, int], None] | None) -> Reduction:
        """The kept ones, and the map from each other to a kept one that covers it."""
        return Reduction(*self._made().reduce(progress))

    def _made(self) -> CoverIndex:
        if self._index is None:
            index = CoverIndex()
            index.insert(self._store().extract_all())
            self._index = index
        return self._index
