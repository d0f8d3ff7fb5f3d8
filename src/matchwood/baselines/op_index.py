"""OpIndex: predicates by pivot attribute and operator, counting. A comparison system of the MO-Tree paper."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from matchwood.baselines.counting import CountingIndex
from matchwood.baselines.kernels import op_index as kernel
from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.errors import SubscriptionError
from matchwood.store.kernels.results import Out
from matchwood.store.row_store import Slots

MOST_DIMENSIONS = 1024  # there is a pair of lists for every two dimensions


class OpIndex(CountingIndex):
    """Rows under their rarest attribute, each interval as two comparisons. Layout: `kernels.op_index`.

    Popularity is measured when the dimensions become known, and then all rows get their pivots anew.
    Insert O(entries), delete O(lists), match O(predicates whose pivot the event has).
    """

    name = "op-index"
    has_keys = True
    each = 2

    def __init__(self) -> None:
        super().__init__()
        self._dimensions = 0
        self._popularity = np.zeros(0, np.int64)
        self._pivots = np.zeros(0, np.uint16)

    def _refuse(self, rows: Rows) -> None:
        named = int(rows.dims.max(initial=0)) + 1
        if named > MOST_DIMENSIONS:
            raise SubscriptionError(f"'op-index' holds up to {MOST_DIMENSIONS} dimensions, got {named}")

    def _insert(self, slots: Slots) -> None:
        if len(self._pivots) < len(self.store.state.rows):
            self._pivots = np.pad(self._pivots, (0, len(self.store.state.rows) - len(self._pivots)))
        if self.store.dimensions > self._dimensions:
            slots = self.store.live_slots()
            self._dimensions = self.store.dimensions
            rows = self.store.state.rows[slots]
            at = np.concatenate([np.arange(int(r["start"]), int(r["start"]) + int(r["count"])) for r in rows[:20_000]])
            dims = self.store.state.entries["dim"][at.astype(np.int64)]
            self._popularity = np.bincount(dims, minlength=self._dimensions)
            self._lists = self._new_lists(2 * self._dimensions**2 + 1)
        kernel.choose_pivots(self.store.state, slots, self._popularity, self._pivots)
        self._append(slots)

    def _fill(self, slots: Slots, first: int) -> int:
        state = self._lists, self._dimensions, self._pivots, self.store.state
        return int(kernel.insert_rows(*state, slots, first))

    def _delete(self, slots: Slots) -> None:
        kernel.delete_rows(self._lists, self._dimensions, self._pivots, self.store.state, slots)

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        return self._top_k(events, first, how, combine, 0, out, ends)

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        state = self._lists, self._dimensions, self.store.state, self._scratch()
        return int(kernel.answer_many(*state, events, first, how, combine, k, out, ends, self._candidates))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), "popularity": self._popularity, "pivots": self._pivots}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        super()._restore(saved)
        self._popularity, self._pivots = saved["popularity"], saved["pivots"]
        self._dimensions = len(self._popularity)
