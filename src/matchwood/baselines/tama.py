"""TAMA: dyadic cells an attribute, counting. A comparison system of the MO-Tree paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matchwood.baselines.counting import CountingIndex
from matchwood.baselines.kernels import tama as kernel
from matchwood.encode.arrays import Events, Int64s
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, CIRCLE
from matchwood.store.row_store import Slots


class Tama(CountingIndex):
    """Predicates in the dyadic cells that make up their interval; a key counts those above its leaf. Layout: `kernels.tama`.

    With `exact` candidates are verified; without, the answer may hold rows whose interval ends in the event's leaf,
    as in its paper, and none is missing. Insert O(entries * levels), delete O(lists), match O(partial matches).
    """

    name = "tama"
    has_keys = False
    each = 1

    def __init__(self, *, levels: int = 8, exact: bool = True) -> None:
        super().__init__()
        self._levels, self._exact = levels, exact
        self._domain = np.zeros((0, 2))

    def _insert(self, slots: Slots) -> None:
        known, leaves = len(self._domain), 1 << self._levels
        if known < self.store.dimensions:
            self._domain = np.concatenate([self._domain, self._measured(slots, known)])
            lists = np.zeros(len(self._domain) * 2 * leaves, self._lists.lists.dtype)
            lists[: len(self._lists.lists)] = self._lists.lists
            self._lists = self._lists._replace(lists=lists)
        self._append(slots)

    def _measured(self, slots: Slots, known: int) -> np.ndarray:
        """The domains of new dimensions: between the least and the greatest end in these rows."""
        entries = self.store.state.entries[: self.store.state.counts[4]]
        entries = entries[(entries["kind"] & (ABSENT | CIRCLE)) == 0]
        domain = np.zeros((self.store.dimensions - known, 2))
        for dim in range(known, self.store.dimensions):
            ends = np.concatenate([entries[side][entries["dim"] == dim] for side in ("lo", "hi")])
            ends = ends[np.isfinite(ends)]
            if len(ends):
                domain[dim - known] = ends.min(), ends.max()
        return domain

    def _fill(self, slots: Slots, first: int) -> int:
        state = self._lists, self._domain, 1 << self._levels, self.store.state
        return int(kernel.insert_rows(*state, slots, first))

    def _delete(self, slots: Slots) -> None:
        kernel.delete_rows(self._lists, self._domain, 1 << self._levels, self.store.state, slots)

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        return self._top_k(events, first, how, combine, 0, out, ends)

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        state = self._lists, self._domain, 1 << self._levels, self.store.state, self._scratch()
        rest = how, combine, self._exact, k, out, ends, self._candidates
        return int(kernel.answer_many(*state, events, first, *rest))

    def _check(self) -> None:
        """As `CountingIndex`; and the cells of a row on each dimension make up its interval, rounded outward. O(entries)."""
        super()._check()
        leaves, lists, store = 1 << self._levels, self._lists, self.store.state
        held: dict[tuple[int, int], list[int]] = {}
        for at in np.flatnonzero(lists.lists["size"]).tolist():
            dim, node = divmod(at, 2 * leaves)
            below = leaves >> (node.bit_length() - 1) if node else 0
            start, size = int(lists.lists[at]["start"]), int(lists.lists[at]["size"])
            for slot in lists.slots[start : start + size].tolist():
                held.setdefault((slot, dim), []).extend(range(node * below - leaves, (node + 1) * below - leaves))
        for slot in self.store.live_slots().tolist():
            start, count = int(store.rows[slot]["start"]), int(store.rows[slot]["count"])
            for entry in store.entries[start : start + count]:
                if entry["kind"] & (ABSENT | CIRCLE):
                    continue
                dim = int(entry["dim"])
                first, last = (kernel.leaf_of(self._domain, leaves, dim, entry[end]) for end in ("lo", "hi"))
                assert 0 <= first <= last < leaves, f"slot {slot}: leaves {first} to {last} of {leaves}"
                expected = list(range(first, last + 1))
                assert sorted(held.get((slot, dim), [])) == expected, f"slot {slot}: other cells than its interval's"

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), "domain": self._domain}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        super()._restore(saved)
        self._domain = saved["domain"]

    def _parameters(self) -> dict[str, Any]:
        return {"levels": self._levels, "exact": self._exact}
