"""What the indexes that count have in common: lists of slots that grow, counters, and what they cannot do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from matchwood.baselines.kernels import counting as kernel
from matchwood.baselines.kernels.counting import Counters, Lists
from matchwood.store.row_store import Slots
from matchwood.structures.base import EVERYTHING, Capability, Index


class CountingIndex(Index):
    """Lists of slots; a row is a candidate if an event satisfies as many of its predicates as it has.

    Layout: `kernels.counting`. Predicates on absence are not counted, only verified. An event with a range or a list would
    count a predicate several times: every row is verified for it. Relaxed matching is not offered.
    """

    capabilities: ClassVar = EVERYTHING - {Capability.ANY}
    has_keys: ClassVar[bool]
    each: ClassVar[int]
    """How often a predicate is counted."""

    def __init__(self) -> None:
        super().__init__()
        self._lists = self._new_lists(1)
        self._needed = np.zeros(0, np.uint16)
        self._counters: Counters | None = None

    @abstractmethod
    def _fill(self, slots: Slots, first: int) -> int:
        """Insert slots[first:] into the lists; return the first for which the pool has no room, or their number."""

    def _new_lists(self, many: int) -> Lists:
        counts = np.full(kernel.COUNTS, -1, np.int64)
        counts[kernel.USED] = 0
        return Lists(np.zeros(many, kernel.LIST), np.zeros(0, np.uint32), np.zeros(0), counts)

    def _append(self, slots: Slots) -> None:
        if len(self._needed) < len(self.store.state.rows):
            self._needed = np.pad(self._needed, (0, len(self.store.state.rows) - len(self._needed)))
        kernel.count_needed(self.store.state, slots, self.each, self._needed)
        done = 0
        while (done := self._fill(slots, done)) < len(slots):
            size = max(4096, 2 * len(self._lists.slots))
            grown = np.zeros(size, np.uint32)
            grown[: len(self._lists.slots)] = self._lists.slots
            keys = np.zeros(size if self.has_keys else 0)
            keys[: len(self._lists.keys)] = self._lists.keys
            self._lists = self._lists._replace(slots=grown, keys=keys)

    def _scratch(self) -> Counters:
        kept = self._counters
        if kept is None or kept.values is not self._values or len(kept.counters) < len(self._needed):
            many = len(self._needed) + 1
            counters, touched = np.zeros(many, np.uint16), np.zeros(many, np.uint32)
            kept = Counters(self._values, self._seen, counters, self._needed, touched)
        self._counters = kept._replace(seen=self._seen, needed=self._needed)
        return self._counters

    def _check(self) -> None:
        """Every row stands in as many lists as it should: once at least, and nothing else stands there."""
        lists = self._lists
        held = [
            lists.slots[int(s) : int(s) + int(n)]
            for s, n in zip(lists.lists["start"], lists.lists["size"], strict=True)
        ]
        found = np.unique(np.concatenate([np.zeros(0, np.uint32), *held]))
        assert found.tolist() == self.store.live_slots().tolist(), "lists and live rows differ"
        for slot in found:
            row = self.store.state.rows[slot]
            entries = self.store.state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]
            counted = int(((entries["kind"] & 10) == 0).sum())
            assert self._needed[slot] == self.each * counted, f"slot {slot} needs a wrong count"

    def _arrays(self) -> dict[str, np.ndarray]:
        lists, used = self._lists, int(self._lists.counts[kernel.USED])
        return {
            "lists": lists.lists,
            "list_slots": lists.slots[:used],
            "list_keys": lists.keys[:used],
            "list_counts": lists.counts,
            "needed": self._needed,
        }

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._lists = Lists(saved["lists"], saved["list_slots"], saved["list_keys"], saved["list_counts"])
        self._needed = saved["needed"]
        self._counters = None

    def _nodes(self) -> int:
        return int((self._lists.lists["size"] > 0).sum())
