"""The subscriptions of an engine: its index and what is kept beside it (covers, expiry, the next id), changed together."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Rows
from matchwood.engine.covers import Covers
from matchwood.engine.expiry import Expiry
from matchwood.engine.ids import MAX_ID
from matchwood.engine.undo import Change
from matchwood.errors import DuplicateSubscriptionError, SubscriptionError, UnsupportedError
from matchwood.planner import Planned
from matchwood.structures import Capability, Index


class Subscriptions:
    """The subscriptions of an engine. One writer, no reader meanwhile: the engine holds its lock.

    A method that changes them tells the `Change` first what it is about to change, so that this can be undone.
    """

    def __init__(self, index: Index | Planned) -> None:
        self.index = index
        self.covers = Covers(lambda: self.index.store)
        self.expiry = Expiry(self._until_of)
        self.next_id = 0
        self._until: dict[int, float] = {}  # of the subscriptions that expire

    def __len__(self) -> int:
        return self.index.store.subscriptions

    def knows(self, id_: int) -> bool:
        """Is there a subscription of this id? O(1)."""
        return bool(self.index.store.knows(np.array([id_], np.int64))[0])

    def rows_of(self, id_: int) -> Rows:
        """The rows of one subscription, with their expiry; `UnknownSubscriptionError` if there is none. O(entries)."""
        store, until = self.index.store, self._until.get(id_)
        rows = store.extract(store.slots_of(np.array([id_], np.int64)))
        return rows.stamped(None, None if until is None else np.full(rows.size, until))

    def new_id(self) -> int:
        """The id for the next subscription that comes without one."""
        if self.next_id > MAX_ID:
            raise SubscriptionError(f"the largest id, {MAX_ID}, is in use: pass an id that is free")
        return self.next_id

    def check_free(self, id_: int) -> None:
        """Refuse an id that is in use."""
        if self.knows(id_):
            raise DuplicateSubscriptionError(f"subscription {id_} exists already; use update, or unsubscribe it first")

    def check_can_expire(self) -> None:
        """Refuse `until` where the index cannot remove subscriptions."""
        if isinstance(self.index, Index) and Capability.UPDATES not in self.index.capabilities:
            raise UnsupportedError(
                f"index {self.index.name!r} cannot remove subscriptions, so none can expire; leave out `until`"
            )

    # changes

    def insert(self, rows: Rows, change: Change) -> None:
        """Add subscriptions. Cost: that of the index's insert."""
        change.adds(rows.ids)
        self.index.insert(rows)
        self.covers.inserted(rows)
        self._note_expiry(rows)
        if rows.size:
            self.next_id = max(self.next_id, int(rows.ids.max()) + 1)

    def replace(self, before: Rows, rows: Rows, change: Change) -> None:
        """Replace one subscription, whose rows are `before`."""
        change.replaces(before)
        self.index.update(rows)
        self.covers.updated(rows.ids[:1], rows)
        if rows.until is None:
            self._until.pop(int(rows.ids[0]), None)
        self._note_expiry(rows)

    def delete(self, ids: Int64s, change: Change) -> None:
        """Remove subscriptions."""
        change.removes(ids)
        self.index.delete(ids)
        self.covers.deleted(ids)
        self._forget_expiry(ids)

    def restore(self, ids: Int64s, rows: Rows | None) -> None:
        """Make these subscriptions what `rows` says again, whatever part of a change was made; without rows, complete it.

        Cost: that of an insert of the rows, or, if the index was interrupted inside a change, of building it.
        """
        known = self.index.store.knows(ids)
        has_changed = not known.all() if rows is None else known.any()
        if has_changed:
            self.covers.forget()
        self.index.restore(ids, rows)
        if rows is None:
            self._forget_expiry(ids[~self.index.store.knows(ids)])
        else:
            self._forget_expiry(ids)
            self._note_expiry(rows)

    # expiry

    def expiring(self) -> tuple[Int64s, Float64s]:
        """The ids of the subscriptions that expire, ascending, and the keys of their instants, for saving."""
        ids = np.array(sorted(self._until), np.int64)
        return ids, self._until_of(ids)

    def set_expiring(self, ids: Int64s, until: Float64s) -> None:
        """Set what `expiring` returned, for loading."""
        unknown = ids[~self.index.store.knows(ids)]
        if len(unknown):
            raise ValueError(f"expiry list names unknown subscription {unknown[0]}")
        self._until = dict(zip(ids.tolist(), until.tolist(), strict=True))
        self.expiry.add(self._until)

    def _note_expiry(self, rows: Rows) -> None:
        if rows.until is None:
            return
        finite = rows.until < np.inf
        pairs = zip(rows.ids[finite].tolist(), rows.until[finite].tolist(), strict=True)
        new = {id_: until for id_, until in pairs if self._until.get(id_) != until}
        self._until.update(new)
        self.expiry.add(new)

    def _forget_expiry(self, ids: Int64s) -> None:
        for id_ in ids.tolist():
            self._until.pop(id_, None)

    def _until_of(self, ids: Int64s) -> Float64s:
        return np.array([self._until.get(id_, np.inf) for id_ in ids.tolist()])
