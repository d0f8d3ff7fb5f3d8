"""Copying: the rows of the structure that serves, copied to a new one while subscriptions change.

Rows are copied in chunks, the lock being held for one chunk at a time. The ids that change meanwhile are recorded, and copied
again: without the lock while they are many, the rest under the lock, at the exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from matchwood.encode.arrays import Int64s, Rows, concatenate_rows
from matchwood.store.reading import ReadableStore
from matchwood.structures import Index

CHUNK = 1 << 16
"""Subscriptions copied at a time: the lock is held that long, some 30 ms."""
MAX_LATE_CHANGES = 4096
"""Changed subscriptions that are copied under the lock, at the exchange, at most."""
CATCH_UP_ROUNDS = 8
"""Rounds in which changed subscriptions are copied before the exchange, at most."""


class Copying:
    """Copies from `store()`, which is read under the lock that `held()` holds; `check` may raise to stop it."""

    def __init__(
        self,
        store: Callable[[], ReadableStore],
        held: Callable[[], AbstractContextManager[object]],
        check: Callable[[], None],
    ) -> None:
        self._store, self._held, self._check = store, held, check
        self._changed: list[Int64s] | None = None  # since `begin`

    @property
    def is_active(self) -> bool:
        """Has it begun, and not ended?"""
        return self._changed is not None

    def note(self, ids: Int64s) -> None:
        """These subscriptions change. Called with the lock held, before the change."""
        if self._changed is not None:
            self._changed.append(np.array(ids, np.int64))

    def begin(self) -> Int64s:
        """Record changes from now on; return the ids to copy. Called with the lock held."""
        self._changed = []
        return self._store().ids()

    def end(self) -> None:
        """Record no more changes."""
        self._changed = None

    def rows(self, ids: Int64s) -> Rows:
        """The rows of these subscriptions, as they are at different moments."""
        return concatenate_rows([self.rows_of(ids[start : start + CHUNK]) for start in range(0, len(ids), CHUNK)])

    def catch_up(self, index: Index) -> None:
        """Copy what has changed to the new structure, until few changes are left."""
        for _ in range(CATCH_UP_ROUNDS):
            self._check()
            with self._held():
                if sum(map(len, self._changed or ())) <= MAX_LATE_CHANGES:
                    break
                changed = self._take_changed()
            self.copy_over(index, changed)

    def finish(self, index: Index) -> None:
        """Copy the last changes, with the lock held; the new structure now holds what the store holds."""
        self.copy_over(index, self._take_changed())
        self.end()

    def copy_over(self, index: Index, ids: Int64s) -> None:
        """Copy these subscriptions to the new structure; those that are gone are deleted there."""
        rows = self.rows_of(ids)
        index.delete(ids[index.store.knows(ids)])
        index.insert(rows)

    def rows_of(self, ids: Int64s) -> Rows:
        """The rows of those of these subscriptions that exist."""
        with self._held():
            store = self._store()
            return store.extract(store.slots_of(ids[store.knows(ids)]))

    def _take_changed(self) -> Int64s:
        """The ids recorded so far, each once; the record starts empty again."""
        changed, self._changed = self._changed or [], []
        return np.unique(np.concatenate([np.zeros(0, np.int64), *changed]))
