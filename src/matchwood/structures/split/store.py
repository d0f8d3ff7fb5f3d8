"""The stores of the parts of a split index, read as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Float64s, Int64s, Rows, concatenate_rows
from matchwood.encode.picking import pick_rows
from matchwood.errors import UnknownSubscriptionError
from matchwood.store.kernels.rows import MAX_SLOTS
from matchwood.store.reading import ReadableStore, Slots
from matchwood.store.row_store import RowStore

SHIFT = np.uint32(MAX_SLOTS.bit_length() - 1)  # a slot is that of the part, with the number of the part above it
NO_IDS: Int64s = np.zeros(0, np.int64)


class SplitStore(ReadableStore):
    """Reads the stores of parts, each of which holds other subscriptions. It has no arrays of its own: parts change, not it."""

    def __init__(self, stores: Callable[[], Sequence[RowStore]], removing: Callable[[], Int64s | None]) -> None:
        """removing: the subscriptions of a removal that has begun; they are not known any more."""
        self._stores, self._removing = stores, removing

    def __len__(self) -> int:
        return sum(map(len, self._stores()))

    @property
    def subscriptions(self) -> int:
        return sum(store.subscriptions for store in self._stores())

    @property
    def dimensions(self) -> int:
        return max(store.dimensions for store in self._stores())

    @property
    def nbytes(self) -> int:
        return sum(store.nbytes for store in self._stores())

    def knows(self, ids: Int64s) -> NDArray[np.bool_]:
        """As `ReadableStore.knows`."""
        known = np.zeros(len(ids), np.bool_)
        for store in self._stores():
            known |= store.knows(ids)
        removing = self._removing()
        return known if removing is None else known & ~np.isin(ids, removing)

    def ids(self) -> Int64s:
        """As `ReadableStore.ids`."""
        return np.sort(np.concatenate([store.ids() for store in self._stores()]))

    def live_slots(self) -> Slots:
        """As `ReadableStore.live_slots`."""
        return np.concatenate([_global(store.live_slots(), p) for p, store in enumerate(self._stores())])

    def slots_of(self, ids: Int64s) -> Slots:
        """As `ReadableStore.slots_of`."""
        known = self.knows(ids)
        if not known.all():
            raise UnknownSubscriptionError(f"subscription {ids[~known][0]} is not there")
        slots, owners = [np.zeros(0, np.uint32)], [np.zeros(0)]
        for p, store in enumerate(self._stores()):
            mine = np.flatnonzero(store.knows(ids))
            if len(mine):
                found = store.slots_of(ids[mine])
                slots.append(_global(found, p))
                owners.append(store.by_row(found, mine.astype(np.float64)))
        order = np.argsort(np.concatenate(owners), kind="stable")
        return np.concatenate(slots)[order]

    def by_row(self, slots: Slots, values: Float64s) -> Float64s:
        """As `ReadableStore.by_row`."""
        if len(slots) == len(values):
            return values
        owners = np.zeros(len(slots), np.int64)
        for store, at, local in self.divided(slots):
            owners[at] = store.state.rows["id"][local]
        return np.repeat(values, np.diff(np.flatnonzero(np.diff(owners, prepend=-1, append=-1))))

    def priorities(self, slots: Slots) -> Float64s:
        """As `ReadableStore.priorities`."""
        found = np.zeros(len(slots))
        for store, at, local in self.divided(slots):
            found[at] = store.priorities(local)
        return found

    def centres(self, slots: Slots, dim: int, lon: Float64s, lat: Float64s) -> tuple[Float64s, Float64s] | None:
        """As `ReadableStore.centres`."""
        before = np.empty(len(slots)), np.empty(len(slots))
        for store, at, local in self.divided(slots):
            found = store.centres(local, dim, lon[at], lat[at])
            if found is None:
                return None
            before[0][at], before[1][at] = found
        return before

    def extract(self, slots: Slots) -> Rows:
        """As `ReadableStore.extract`."""
        parts = [(at, store.extract(local)) for store, at, local in self.divided(slots)]
        if len(parts) == 1:
            return parts[0][1]
        order = np.argsort(np.concatenate([NO_IDS, *(at for at, _ in parts)]), kind="stable")
        return pick_rows(concatenate_rows([rows for _, rows in parts]), order)

    def check(self) -> None:
        """As `ReadableStore.check`, of every part; and no subscription is in two of them."""
        for store in self._stores():
            store.check()
        ids = self.ids()
        assert (ids[1:] > ids[:-1]).all(), "a subscription is in two parts"

    def divided(self, slots: Slots) -> list[tuple[RowStore, Int64s, Slots]]:
        """The parts that have some of these slots: the store, which of them, and the slots there."""
        parts = slots >> SHIFT
        found = [(store, np.flatnonzero(parts == p)) for p, store in enumerate(self._stores())]
        return [(store, at, slots[at] & np.uint32(MAX_SLOTS - 1)) for store, at in found if len(at)]


def _global(slots: Slots, part: int) -> Slots:
    return slots | np.uint32(part << int(SHIFT))
