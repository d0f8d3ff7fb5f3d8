"""What the indexes that count have in common: lists of slots that grow, counters, and what they cannot do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from matchwood.baselines.kernels.counting import CLASSES, LIST, PLACE, CountingScratch, Lists, count_needed
from matchwood.store.growth import grown
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.store.reading import Slots
from matchwood.structures.base import EVERYTHING, Capability
from matchwood.structures.scratch import Scratch
from matchwood.structures.verifying import VerifyingIndex


class CountingIndex(VerifyingIndex):
    """Lists of slots; a row is a candidate if an event satisfies as many of its predicates as it has.

    Layout: `kernels.counting`. Predicates on absence are not counted, only verified. An event with a range or a list would
    count a predicate several times: every row is verified for it. Relaxed matching is not offered.
    """

    capabilities: ClassVar = EVERYTHING - {Capability.ANY}
    _keeps_priorities = False
    has_keys: ClassVar[bool]
    each: ClassVar[int]
    """How often a predicate is counted."""

    def __init__(self) -> None:
        super().__init__()
        self._lists = self._new_lists(1)

    @abstractmethod
    def _fill(self, slots: Slots, first: int) -> int:
        """Insert slots[first:] into the lists; return the first for which the pool has no room, or their number."""

    @abstractmethod
    def _lists_per_entry(self) -> int:
        """How many lists an entry of a row may stand in."""

    def _new_lists(self, count: int) -> Lists:
        return Lists(
            lists=np.zeros(count, LIST),
            slots=np.zeros(0, np.uint32),
            keys=np.zeros(0),
            needed=np.zeros(0, np.uint16),
            used=np.zeros(1, np.int64),
            free=np.full(CLASSES, -1),
            places=np.zeros(1, PLACE),
        )

    def _append(self, slots: Slots) -> None:
        rows = self.store.state.rows
        places = self._lists_per_entry() * int(rows["count"][slots].max(initial=0)) + 1
        self._lists = self._lists._replace(
            needed=grown(self._lists.needed, len(rows)), places=grown(self._lists.places, places)
        )
        count_needed(self._lists, self.store.state, slots, self.each)
        done = 0
        while (done := self._fill(slots, done)) < len(slots):
            size = max(4096, 2 * len(self._lists.slots))
            keys = grown(self._lists.keys, size if self.has_keys else 0)
            self._lists = self._lists._replace(slots=grown(self._lists.slots, size), keys=keys)

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        held, size = scratch.own, len(self._lists.needed) + 1
        if held is None or held.candidates is not scratch.buffer or len(held.counters) < size:
            scratch.own = CountingScratch(
                candidates=scratch.buffer,
                counters=np.zeros(size, np.uint16),
                touched=np.zeros(size, np.uint32),
                progress=np.zeros(1, np.int64),
            )

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
            counted = int(((entries["kind"] & (ABSENT | NARROWS)) == 0).sum())
            assert lists.needed[slot] == self.each * counted, f"slot {slot} needs a wrong count"

    def _arrays(self) -> dict[str, np.ndarray]:
        used = int(self._lists.used[0])
        return {**self._lists._asdict(), "slots": self._lists.slots[:used], "keys": self._lists.keys[:used]}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._lists = Lists(**{name: saved[name] for name in Lists._fields})

    def _nodes(self) -> int:
        return int((self._lists.lists["size"] > 0).sum())
