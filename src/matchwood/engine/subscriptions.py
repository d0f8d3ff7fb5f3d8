"""The subscriptions of an engine: its index and what is kept beside it, changed together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Rows, concatenate_rows
from matchwood.encode.picking import pick_rows
from matchwood.engine.covers import Covers
from matchwood.engine.expiry import Expiry
from matchwood.engine.ids import MAX_ID, Names, json_array, of_json_array
from matchwood.engine.undo import NO_ROWS, Change
from matchwood.errors import (
    DuplicateSubscriptionError,
    SubscriptionError,
    UnknownSubscriptionError,
    UnsupportedError,
)
from matchwood.planner import Planned
from matchwood.structures import Capability, Index


class Beside(NamedTuple):
    """What is kept of some subscriptions beside the index: rows while paused, metadata, expiry; None where there is none."""

    paused: dict[int, Rows | None]
    metadata: dict[int, object]
    until: dict[int, float | None]


class Subscriptions:
    """The subscriptions of an engine, by number. One writer, no reader meanwhile: the engine holds its lock for writing.

    A method that changes them tells the `Change` first what it is about to change, so that this can be undone.
    """

    def __init__(self, index: Index | Planned, names: Names | None = None) -> None:
        self.index = index
        self.names = names
        self.covers = Covers(lambda: self.index.store)
        self.expiry = Expiry(self._until_of)
        self.next_id = 0
        self.paused: dict[int, Rows] = {}
        self.metadata: dict[int, object] = {}
        self._until: dict[int, float] = {}  # of the subscriptions that expire

    def __len__(self) -> int:
        return self.index.store.subscriptions + len(self.paused)

    def ids(self) -> Int64s:
        """The numbers of all subscriptions, ascending. O(n log n)."""
        ids = self.index.store.ids()
        return np.union1d(ids, np.fromiter(self.paused, np.int64, len(self.paused))) if self.paused else ids

    def knows(self, id_: int) -> bool:
        """Is there a subscription of this number? O(1)."""
        return bool(self.known(np.array([id_], np.int64))[0])

    def known(self, ids: Int64s) -> np.ndarray:
        """Which of these are there? O(ids)."""
        known = self.index.store.knows(ids)
        if self.paused:
            known |= self._is_paused(ids)
        return known

    def rows_of(self, id_: int) -> Rows:
        """The rows of one subscription, with their expiry; `UnknownSubscriptionError` if there is none. O(entries)."""
        rows = self.paused.get(id_)
        if rows is None:
            store = self.index.store
            rows = store.extract(store.slots_of(np.array([id_], np.int64)))
        until = self._until.get(id_)
        return rows if until is None else rows.stamped(None, np.full(rows.size, until))

    def until_of(self, id_: int) -> float | None:
        """The instant at which a subscription expires; None for never."""
        return self._until.get(id_)

    def new_id(self) -> int:
        """The number for the next subscription that comes without one."""
        if self.next_id > MAX_ID:
            raise SubscriptionError(f"the largest id, {MAX_ID}, is in use: pass an id that is free")
        return self.next_id

    def shown(self, id_: int) -> str:
        """A number as users see it, for a message."""
        return str(id_) if self.names is None else repr(self.names.text(id_))

    def check_free(self, id_: int) -> None:
        """Refuse an id that is in use."""
        if self.knows(id_):
            raise DuplicateSubscriptionError(
                f"subscription {self.shown(id_)} exists already; use update, or unsubscribe it first"
            )

    def check_can_expire(self) -> None:
        """Refuse `until` where the index cannot remove subscriptions."""
        if isinstance(self.index, Index) and Capability.UPDATES not in self.index.capabilities:
            raise UnsupportedError(
                f"index {self.index.name!r} cannot remove subscriptions, so none can expire; leave out `until`"
            )

    # changes

    def insert(
        self,
        rows: Rows,
        change: Change,
        *,
        metadata: Mapping[int, object] | None = None,
        names: Mapping[str, int] | None = None,
    ) -> None:
        """Add subscriptions, with metadata and, if ids are strings, the number of each. Cost: that of the index's insert."""
        change.adds(rows.ids)
        if self.paused:
            for id_ in np.unique(rows.ids).tolist():
                if id_ in self.paused:
                    raise DuplicateSubscriptionError(f"subscription {self.shown(id_)} exists already (it is paused)")
        self.index.insert(rows)
        self.covers.inserted(rows)
        self._note_expiry(rows)
        if self.names is not None and names:
            self.names.add(list(names), list(names.values()))
        if metadata:
            self.metadata.update(metadata)
        if rows.size:
            self.next_id = max(self.next_id, int(rows.ids.max()) + 1)

    def replace(self, ids: Int64s, before: Rows, rows: Rows, change: Change) -> None:
        """Replace subscriptions, whose rows are `before`; with their expiry."""
        here = rows
        if self.paused:
            change.replaces(ids, pick_rows(before, np.flatnonzero(~self._is_paused(before.ids))))
            here = self._without_paused(rows)
        else:
            change.replaces(ids, before)
        if here.size:
            self.index.update(here)
            self.covers.updated(ids[self.index.store.knows(ids)], here)
        self._set_expiry(ids, rows)

    def move_circles(self, ids: Int64s, dim: int, lon: Float64s, lat: Float64s, change: Change) -> bool:
        """Move the circles on `dim` of these subscriptions there, if they can be moved in place (`ReadableStore.centres`).

        Otherwise nothing changes. Cost: that of an update of the index, less if it keeps the rows where they are.
        """
        if not self.paused.keys().isdisjoint(ids.tolist()):
            return False
        store = self.index.store
        slots = store.slots_of(ids)
        lon, lat = store.by_row(slots, lon), store.by_row(slots, lat)
        before = store.centres(slots, dim, lon, lat)
        if before is None:
            return False
        change.moves_circles(ids, *before)
        self.index.move_circles(ids, lon, lat)
        if self.covers.is_made:
            self.covers.updated(ids, self.index.store.extract(self.index.store.slots_of(ids)))
        return True

    def restore_circles(self, ids: Int64s, lon: Float64s, lat: Float64s) -> None:
        """Undo `move_circles`, whatever part of it was made."""
        self.covers.forget()
        self.index.move_circles(ids, lon, lat)

    def set_priority(self, id_: int, priority: float, change: Change) -> None:
        """Change the priority of one subscription."""
        paused = self.paused.get(id_)
        if paused is not None:
            self.paused[id_] = paused._replace(priority=np.full(paused.size, priority))
            return
        ids, store = np.array([id_], np.int64), self.index.store
        change.changes_priorities(ids, store.priorities(store.slots_of(ids)[:1]))
        self.index.set_priority(ids, np.array([priority]))

    def set_until(self, id_: int, until: float | None) -> None:
        """Change when a subscription expires; None for never. O(log n)."""
        if until is None or until == np.inf:
            self._until.pop(id_, None)
            return
        self._until[id_] = until
        self.expiry.add({id_: until})

    def pause(self, id_: int, change: Change) -> None:
        """Take a subscription out of the index, but keep it."""
        rows = self.rows_of(id_).stamped(None)
        change.replaces(rows.ids[:1], rows)
        self.paused[id_] = rows
        self.index.delete(rows.ids[:1])
        self.covers.deleted(rows.ids[:1])

    def resume(self, id_: int, change: Change) -> None:
        """Put a paused subscription back into the index."""
        rows = self.paused[id_]
        change.replaces(rows.ids[:1], NO_ROWS)
        self.index.insert(rows)
        self.covers.inserted(rows)
        del self.paused[id_]

    def delete(self, ids: Int64s, change: Change) -> None:
        """Remove subscriptions."""
        here = ids
        if self.paused:
            self._check_removable(ids)
            here = ids[~self._is_paused(ids)]
        change.removes(ids)
        for id_ in ids.tolist() if self.paused else ():
            self.paused.pop(id_, None)
        try:
            self.index.delete(here)
        except SubscriptionError:
            change.removes_none()
            raise
        self.covers.deleted(here)
        self._forget_beside(ids)

    def _check_removable(self, ids: Int64s) -> None:
        """Refuse ids that are unknown or named twice, as the index does where none is paused."""
        if len(np.unique(ids)) != len(ids):
            raise SubscriptionError("a subscription is named twice in one delete")
        known = self.known(ids)
        if not known.all():
            raise UnknownSubscriptionError(f"subscription {ids[~known][0]} is not there")

    def restore(self, ids: Int64s, rows: Rows | None, beside: Beside | None) -> None:
        """Make these subscriptions what `rows` and `beside` say again, whatever part of a change was made.

        Without rows, a removal: it is completed if it has begun. Cost: that of an insert of the rows, or, if the index was
        interrupted inside a change, of building it.
        """
        known = self.index.store.knows(ids)
        has_changed = not known.all() if rows is None else known.any() or rows.size > 0
        if has_changed:
            self.covers.forget()
        self.index.restore(ids, rows)
        beside = beside or Beside({}, {}, {})
        if rows is None and self._is_removed(ids, beside):
            self._forget_beside(ids)
            return
        _put_back(self.paused, beside.paused)
        _put_back(self.metadata, beside.metadata)
        _put_back(self._until, beside.until)
        self.expiry.add({id_: until for id_, until in beside.until.items() if until is not None})
        self._forget_beside(ids[~self.known(ids)])

    def _is_removed(self, ids: Int64s, beside: Beside) -> bool:
        """Is a removal of these to be completed? Paused ones are removed first, then all others at once."""
        here = np.array([id_ for id_ in ids.tolist() if beside.paused.get(id_) is None], np.int64)
        return not (self.index.store.knows(here).any() if len(here) else self.known(ids).any())

    @property
    def keeps_beside(self) -> bool:
        """Is anything kept of any subscription beside the index?"""
        return bool(self.paused or self.metadata or self._until)

    def beside(self, ids: Int64s) -> Beside:
        """What is kept of these beside the index, for `restore`."""
        numbers = ids.tolist()
        return Beside(
            {id_: self.paused.get(id_) for id_ in numbers},
            {id_: self.metadata.get(id_) for id_ in numbers},
            {id_: self._until.get(id_) for id_ in numbers},
        )

    def _is_paused(self, ids: Int64s) -> np.ndarray:
        return np.array([id_ in self.paused for id_ in ids.tolist()], np.bool_)

    def _without_paused(self, rows: Rows) -> Rows:
        """The rows of subscriptions that are not paused; those of paused ones are kept."""
        is_paused = self._is_paused(rows.ids)
        for id_ in np.unique(rows.ids[is_paused]).tolist():
            self.paused[id_] = pick_rows(rows, np.flatnonzero(rows.ids == id_)).stamped(None)
        return pick_rows(rows, np.flatnonzero(~is_paused))

    def _forget_beside(self, ids: Int64s) -> None:
        """Forget what is kept of subscriptions that are gone."""
        if self._until:
            self._forget_expiry(ids)
        if self.metadata:
            for id_ in ids.tolist():
                self.metadata.pop(id_, None)
        if self.names is not None:
            self.names.drop(ids.tolist())

    # expiry

    def arrays(self) -> dict[str, np.ndarray]:
        """What is kept beside the index, for saving."""
        ids = np.array(sorted(self._until), np.int64)
        paused = concatenate_rows(list(self.paused.values()))
        return {
            "expiring_ids": ids,
            "expiring_until": self._until_of(ids),
            "metadata": json_array({str(id_): value for id_, value in self.metadata.items()}),
            **{f"paused_{name}": column for name, column in paused._asdict().items()},
            **({} if self.names is None else self.names.arrays()),
        }

    def set_arrays(self, saved: Mapping[str, np.ndarray]) -> None:
        """Set what `arrays` returned, for loading; the index is in place."""
        if self.names is not None:
            self.names = Names.of_arrays(saved)
        columns = [saved[f"paused_{name}"] for name in Rows._fields]
        paused = Rows(*columns)
        for id_ in np.unique(paused.ids).tolist():
            self.paused[id_] = pick_rows(paused, np.flatnonzero(paused.ids == id_))
        self.metadata = {int(id_): value for id_, value in of_json_array(saved["metadata"]).items()}
        ids, until = saved["expiring_ids"], saved["expiring_until"]
        unknown = ids[~self.known(ids)]
        if len(unknown):
            raise ValueError(f"expiry list names unknown subscription {unknown[0]}")
        self._until = dict(zip(ids.tolist(), until.tolist(), strict=True))
        self.expiry.add(self._until)

    def _set_expiry(self, ids: Int64s, rows: Rows) -> None:
        """The expiry of these subscriptions is that of the rows, none if they have none."""
        if rows.until is None:
            self._forget_expiry(ids)
            return
        self._forget_expiry(np.unique(rows.ids[rows.until == np.inf]))
        self._note_expiry(rows)

    def _note_expiry(self, rows: Rows) -> None:
        if rows.until is None:
            return
        finite = rows.until < np.inf
        pairs = zip(rows.ids[finite].tolist(), rows.until[finite].tolist(), strict=True)
        new = {id_: until for id_, until in pairs if self._until.get(id_) != until}
        self._until.update(new)
        self.expiry.add(new)

    def _forget_expiry(self, ids: Int64s) -> None:
        for id_ in ids.tolist() if self._until else ():
            self._until.pop(id_, None)

    def _until_of(self, ids: Int64s) -> Float64s:
        return np.array([self._until.get(id_, np.inf) for id_ in ids.tolist()])


def _put_back(kept: dict[int, Any], before: Mapping[int, Any]) -> None:
    """Make what is kept of some subscriptions what it was; None for nothing."""
    for id_, value in before.items():
        if value is None:
            kept.pop(id_, None)
        else:
            kept[id_] = value
