"""OpIndex: predicates by pivot attribute and operator, counting. A comparison system of the MO-Tree paper."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from matchwood.baselines.counting import CountingIndex
from matchwood.baselines.kernels.op_index import Pivots, answer_events, choose_pivots, delete_rows, insert_rows
from matchwood.encode.arrays import Int64s, Rows
from matchwood.errors import SubscriptionError
from matchwood.store.growth import grown
from matchwood.store.kernels.results import Out
from matchwood.store.reading import Slots
from matchwood.structures.base import Query
from matchwood.structures.scratch import Scratch

MAX_DIMENSIONS = 1024  # there is a pair of lists for every two dimensions
SAMPLE_ROWS = 20_000  # rows that tell how popular a dimension is


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
        self._pivots = Pivots(popularity=np.zeros(0, np.int64), pivots=np.zeros(0, np.uint16))

    def _refuse(self, rows: Rows) -> None:
        named = int(rows.dims.max(initial=0)) + 1
        if named > MAX_DIMENSIONS:
            raise SubscriptionError(f"'op-index' holds up to {MAX_DIMENSIONS} dimensions, got {named}")

    def _insert(self, slots: Slots) -> None:
        store, dimensions = self.store.state, self.store.dimensions
        self._pivots = self._pivots._replace(pivots=grown(self._pivots.pivots, len(store.rows)))
        if dimensions > len(self._pivots.popularity):
            slots = self.store.live_slots()
            rows = store.rows[slots[:SAMPLE_ROWS]]
            at = np.concatenate([np.arange(int(r["start"]), int(r["start"]) + int(r["count"])) for r in rows])
            popularity = np.bincount(store.entries["dim"][at.astype(np.int64)], minlength=dimensions)
            self._pivots = self._pivots._replace(popularity=popularity)
            self._lists = self._new_lists(2 * dimensions**2 + 1)
        choose_pivots(self._pivots, store, slots)
        self._append(slots)

    def _lists_per_entry(self) -> int:
        return 2

    def _fill(self, slots: Slots, first: int) -> int:
        return int(insert_rows(self._lists, self._pivots, self.store.state, slots, first))

    def _delete(self, slots: Slots) -> None:
        delete_rows(self._lists, self._pivots, self.store.state, slots)

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        state = self._lists, self._pivots, self.store.state, scratch.own
        return int(answer_events(*state, query, first, out, ends))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), **self._pivots._asdict()}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        super()._restore(saved)
        self._pivots = Pivots(popularity=saved["popularity"], pivots=saved["pivots"])
