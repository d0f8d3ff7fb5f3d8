"""What can be read from a store of rows: that of a structure (`row_store`), or several of them as one (`structures.split`)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from matchwood.encode import arrays
from matchwood.encode.arrays import Float64s, Int64s, Rows
from matchwood.errors import DuplicateSubscriptionError, SubscriptionError
from matchwood.store.kernels import rows as kernel
from matchwood.store.kernels.rows import MAX_COUNT

Slots = NDArray[np.uint32]


class ReadableStore(ABC):
    """Rows by slot, and the slots of each subscription."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @property
    @abstractmethod
    def subscriptions(self) -> int:
        """How many subscriptions there are."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """One more than the largest dimension any row has ever named."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory of the rows."""

    @abstractmethod
    def knows(self, ids: Int64s) -> NDArray[np.bool_]:
        """Which of these ids have rows here? O(ids)."""

    @abstractmethod
    def ids(self) -> Int64s:
        """The ids of all subscriptions, ascending. O(n log n)."""

    @abstractmethod
    def live_slots(self) -> Slots:
        """The slots in use, ascending. O(slots)."""

    @abstractmethod
    def slots_of(self, ids: Int64s) -> Slots:
        """The slots of these subscriptions, all of which must be known. O(rows)."""

    @abstractmethod
    def by_row(self, slots: Slots, values: Float64s) -> Float64s:
        """A value for each of these rows from one for each of their subscriptions, whose rows are adjacent. O(rows)."""

    @abstractmethod
    def priorities(self, slots: Slots) -> Float64s:
        """The priorities of the rows at these slots."""

    @abstractmethod
    def centres(self, slots: Slots, dim: int, lon: Float64s, lat: Float64s) -> tuple[Float64s, Float64s] | None:
        """The centres of the circles on `dim` of these rows; None if they cannot be moved there in place. O(entries)."""

    @abstractmethod
    def extract(self, slots: Slots) -> Rows:
        """The rows at these slots as arrays again, exactly as they were added. O(entries)."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""

    def extract_all(self) -> Rows:
        """Every row, those of a subscription adjacent and in order, subscriptions by ascending id. O(n log n)."""
        return self.extract(self.slots_of(self.ids()))

    def check_new(self, rows: Rows) -> None:
        """Refuse rows of subscriptions that exist, and rows that cannot be stored. O(rows)."""
        if not rows.size:
            return
        if rows.ids.min() < 0:
            raise SubscriptionError(f"expected ids that are not negative, got {rows.ids.min()}")
        if len(self) + rows.size > kernel.MAX_SLOTS:
            raise SubscriptionError(
                f"expected at most {kernel.MAX_SLOTS:,} rows in one index, got {len(self) + rows.size:,}"
            )
        self.check_shapes(rows)
        ids = rows.ids
        if rows.size > 1:
            ids = ids[np.concatenate([[True], ids[1:] != ids[:-1]])]
        if rows.size > 1 and (ids[1:] <= ids[:-1]).any():
            ids = np.sort(ids)
            twice = ids[1:][ids[1:] == ids[:-1]]
            if len(twice):
                raise DuplicateSubscriptionError(
                    f"subscription {twice[0]} is given twice, or its rows are not adjacent"
                )
        there = self.knows(ids)
        if there.any():
            raise DuplicateSubscriptionError(
                f"subscription {ids[there][0]} is there already; update or remove it first"
            )

    def check_shapes(self, rows: Rows) -> None:
        """Refuse rows that no record can hold. O(rows)."""
        for r in np.flatnonzero(np.diff(rows.offsets) > MAX_COUNT) if len(rows.dims) > MAX_COUNT else ():
            kinds = rows.kinds[rows.offsets[r] : rows.offsets[r + 1]]
            count = int((~np.isin(kinds, arrays.CONTINUING)).sum())
            if count > MAX_COUNT:
                raise SubscriptionError(
                    f"subscription {rows.ids[r]}: a row names {count} dimensions and shapes, the limit is {MAX_COUNT}"
                )
