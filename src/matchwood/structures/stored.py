"""A structure with a row store and arrays of its own: what all such structures share.

`StoredIndex` owns the store, the scratches of readers, the growing of results, saving, and repair after an exception. A
structure adds its own state and six methods: `_insert`, `_delete`, `_answer`, `_check`, `_arrays` and `_restore`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows
from matchwood.store.collecting import Part
from matchwood.store.kernels.candidates import VERIFIED
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.kernels.results import Out
from matchwood.store.reading import Slots
from matchwood.store.row_store import RowStore
from matchwood.store.storage import write_folder
from matchwood.structures.base import Capability, Index, Query, Stats
from matchwood.structures.parallel import Batch, Pace
from matchwood.structures.repair import Repairable
from matchwood.structures.scratch import Scratch, ScratchPool, new_values

STORE = "store_"  # before the names of its arrays in a saved folder


class StoredIndex(Repairable, Index):
    """An index over one row store."""

    store: RowStore
    _keeps_priorities: ClassVar[bool] = True
    """Does the structure keep anything that depends on priorities, as bounds of scores do? Otherwise the store alone changes."""

    def __init__(self) -> None:
        super().__init__()
        self.store = RowStore()
        self._scratches = ScratchPool()

    # implemented by each structure

    @abstractmethod
    def _insert(self, slots: Slots) -> None:
        """Insert rows that have just been put into the store."""

    @abstractmethod
    def _delete(self, slots: Slots) -> None:
        """Delete rows that are still in the store."""

    @abstractmethod
    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        """Answer events[first:] into `out` and `ends`; return the first event not done, because out is full, or their number.

        `scratch` has been prepared (`_prepare`). Nothing else may be written.
        """

    @abstractmethod
    def _check(self) -> None:
        """Verify the structure's own invariants; the store has been checked."""

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """The structure's own state, for saving."""

    @abstractmethod
    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take the state that `_arrays` gave; the store and the parameters are in place."""

    def _refuse(self, rows: Rows) -> None:
        """Raise `SubscriptionError` if the structure cannot hold these rows as well; nothing has changed yet."""

    def _parameters(self) -> dict[str, Any]:
        """The keyword arguments that make an index like this one."""
        return {}

    def _nodes(self) -> int:
        """How many nodes (or blocks, cells, lists) the structure has."""
        return 1

    # as an index

    def _add(self, rows: Rows) -> None:
        self._refuse(rows)
        with self._changing():
            self._insert(self.store.put(rows))

    def _remove(self, ids: Int64s) -> None:
        slots = self.store.slots_of(ids)
        with self._changing():
            self._delete(slots)
            self.store.remove(ids)

    def _replace(self, ids: Int64s, rows: Rows) -> None:
        self._refuse(rows)
        self._remove(ids)
        self.insert(rows)

    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        if not self._keeps_priorities:
            self.store.set_priorities(slots, priorities)
            return
        with self._changing():
            self._delete(slots)
            self.store.set_priorities(slots, priorities)
            self._insert(slots)

    def _move_circles(self, slots: Slots, lon: Float64s, lat: Float64s) -> None:
        with self._changing():
            self._delete(slots)
            self.store.move_circles(slots, lon, lat)
            self._insert(slots)

    def restore(self, ids: Int64s, rows: Rows | None) -> None:
        """As `Index.restore`."""
        if rows is None:
            self.repair()
            return
        known = np.unique(ids[self.store.knows(ids)])
        if self._whole and Capability.UPDATES in self.capabilities:
            self.delete(known)
            self.insert(rows)
            return
        self._whole = False
        self.store.remove(known)
        self.store.put(rows)
        self.repair()

    def stats(self) -> Stats:
        """As `Index.stats`."""
        self.repair()
        bytes_ = self.store.nbytes + sum(array.nbytes for array in self._arrays().values())
        candidates = int(self._scratches.counts[VERIFIED])
        return Stats(len(self.store), self._nodes(), bytes_, self._scratches.events, candidates, self._details())

    def reset_counters(self) -> None:
        """As `Index.reset_counters`."""
        self._scratches.reset()

    def save(self, path: str | Path) -> None:
        """As `Index.save`."""
        self.repair()
        arrays = {f"{STORE}{name}": array for name, array in self.store.arrays().items()}
        about = {"index": self.name, "parameters": self._parameters()}
        write_folder(Path(path), "index", about, {**arrays, **self._arrays()})

    @classmethod
    def _loaded(cls, path: Path, about: Mapping[str, Any], arrays: dict[str, np.ndarray], *, verify: bool) -> Self:
        index = cls(**about["parameters"])
        index.store = RowStore.of_arrays({n.removeprefix(STORE): a for n, a in arrays.items() if n.startswith(STORE)})
        index._restore({name: array for name, array in arrays.items() if not name.startswith(STORE)})
        return index

    def _rebuilt(self) -> Self:
        index = type(self)(**self._parameters())
        index.store = self.store
        if len(self.store):
            index._insert(self.store.live_slots())
        return index

    def _details(self) -> dict[str, float]:
        """Further figures of the structure for `stats`."""
        return {}

    def _answered(self, query: Query, pace: Pace, *, ordered: bool, threads: int) -> Matches:
        """The hits of all events."""
        if query.events.size == 1:
            scratch = self._scratches.take()
            try:
                return self._part(scratch, query, None, ordered=ordered).matches()
            finally:
                self._scratches.give_back(scratch)

        def answer(scratch: Scratch, events: Events, limit: int | None) -> Part:
            return self._part(scratch, query._replace(events=events), limit, ordered=ordered)

        def order_of(events: Events) -> Int64s | None:
            return self._order(query._replace(events=events))

        return Batch(self._scratches, answer, order_of, pace, threads).answered(query.events)

    def _part(self, scratch: Scratch, query: Query, limit: int | None, *, ordered: bool) -> Part:
        """The hits of all events, or of the first ones if there are more than `limit`, in the buffer of the scratch."""
        self._prepare(scratch)
        run = partial(self._answer, scratch, query)
        part = scratch.results.fill(run, query.events.size, least=query.k, limit=limit)
        scratch.work.events += part.queries
        if ordered:
            order_hits(part.offsets, part.ids, part.scores)
        return part

    def _order(self, query: Query) -> Int64s | None:
        """The order in which the events are best answered; None for the order of the batch."""
        return None

    def _prepare(self, scratch: Scratch) -> None:
        """Make a scratch as large as the store requires."""
        if len(scratch.values) < self.store.dimensions:
            scratch.values = new_values(self.store.dimensions)
        if len(scratch.seen) < self.store.slots:
            scratch.seen = np.zeros(len(self.store.state.rows), np.uint32)
