"""TAMA: dyadic cells an attribute, counting. A comparison system of the MO-Tree paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matchwood.baselines.counting import CountingIndex
from matchwood.baselines.kernels.counting import LIST
from matchwood.baselines.kernels.tama import Domains, answer_events, delete_rows, insert_rows, leaf_of
from matchwood.encode.arrays import Int64s
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.store.reading import Slots
from matchwood.structures.base import Query
from matchwood.structures.scan.index import flat_ranges
from matchwood.structures.scratch import Scratch


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
        self._domains = Domains(ends=np.zeros((0, 2)), leaves=np.array([1 << levels]))

    def _insert(self, slots: Slots) -> None:
        known = len(self._domains.ends)
        if known < self.store.dimensions:
            ends = np.concatenate([self._domains.ends, self._measured(known)])
            self._domains = self._domains._replace(ends=ends)
            lists = np.zeros(len(ends) * 2 << self._levels, LIST)
            lists[: len(self._lists.lists)] = self._lists.lists
            self._lists = self._lists._replace(lists=lists)
        self._append(slots)

    def _measured(self, known: int) -> np.ndarray:
        """The domains of new dimensions: between the least and the greatest end in the rows."""
        rows = self.store.state.rows[self.store.live_slots()]
        entries = self.store.state.entries[flat_ranges(rows["start"], rows["count"])]
        entries = entries[(entries["kind"] & (ABSENT | NARROWS)) == 0]
        domain = np.zeros((self.store.dimensions - known, 2))
        for dim in range(known, self.store.dimensions):
            ends = np.concatenate([entries[side][entries["dim"] == dim] for side in ("lo", "hi")])
            ends = ends[np.isfinite(ends)]
            if len(ends):
                domain[dim - known] = ends.min(), ends.max()
        return domain

    def _lists_per_entry(self) -> int:
        return 2 * self._levels + 1

    def _fill(self, slots: Slots, first: int) -> int:
        return int(insert_rows(self._lists, self._domains, self.store.state, slots, first))

    def _delete(self, slots: Slots) -> None:
        delete_rows(self._lists, self._domains, self.store.state, slots)

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        state = self._lists, self._domains, self.store.state, scratch.own
        return int(answer_events(*state, query, self._exact, first, out, ends))

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
                if entry["kind"] & (ABSENT | NARROWS):
                    continue
                dim = int(entry["dim"])
                first, last = (leaf_of(self._domains, dim, entry[end]) for end in ("lo", "hi"))
                assert 0 <= first <= last < leaves, f"slot {slot}: leaves {first} to {last} of {leaves}"
                expected = list(range(first, last + 1))
                assert sorted(held.get((slot, dim), [])) == expected, f"slot {slot}: other cells than its interval's"

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), "domain": self._domains.ends}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        super()._restore(saved)
        self._domains = self._domains._replace(ends=saved["domain"])

    def _parameters(self) -> dict[str, Any]:
        return {"levels": self._levels, "exact": self._exact}
