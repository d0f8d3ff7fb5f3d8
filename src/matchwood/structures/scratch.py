"""Scratch: the memory that calls which read an index write to. Each call has its own, so that several may run at a time.

A call takes a scratch out of the pool of its index and gives it back when it ends; one that finds the pool empty makes another.
So there are as many as calls ever ran at the same time, and they are freed with the index. A scratch whose call was interrupted
before it could give it back is freed. What was counted is kept apart (`Work`), so that it is not lost.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from matchwood.encode.arrays import Int64s
from matchwood.store.collecting import ResultBuffer
from matchwood.store.kernels.candidates import WORK
from matchwood.store.kernels.verify import VALUE
from matchwood.store.row_store import RowStore


class Work:
    """What the calls that used one scratch have counted."""

    __slots__ = ("counts", "events", "tally")

    def __init__(self) -> None:
        self.events = 0
        self.counts: Int64s = np.zeros(WORK, np.int64)
        """See `store.kernels.candidates`; kernels add to it."""
        self.tally: Int64s | None = None
        """Tests by kind; None unless they are counted (`structures.tally`)."""

    def reset(self) -> None:
        """Start counting from zero."""
        self.events = 0
        self.counts[:] = 0
        if self.tally is not None:
            self.tally[:] = 0


class Scratch:
    """Memory for one call at a time. Structures make and replace the arrays when they do not fit the store any more."""

    __slots__ = ("asking", "buffer", "fits", "own", "results", "seen", "values", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.results = ResultBuffer()
        self.values = new_values(0)
        """The event that is being answered, by dimension; see `store.kernels.verify`."""
        self.seen: np.ndarray = np.zeros(0, np.uint32)
        """By slot; see `store.kernels.results.emit`."""
        self.asking = RowStore()
        """Holds the rows of a small batch while live events are matched with them."""
        self.buffer: Any = None
        """`Candidates` of a structure that verifies them in runs."""
        self.own: Any = None
        """The state that the structure's kernels take as scratch."""
        self.fits: object = None
        """What `own` was made for: another object there means that it must be made again."""


class ScratchPool:
    """The scratches of an index that no call is using, and what all of them have counted."""

    __slots__ = ("_idle", "works")

    def __init__(self) -> None:
        self._idle: deque[Scratch] = deque()  # whose `pop` and `append` are atomic
        self.works: list[Work] = []

    def take(self) -> Scratch:
        """A scratch that no other thread has. O(1)."""
        try:
            return self._idle.pop()
        except IndexError:
            work = Work()
            self.works.append(work)
            return Scratch(work)

    def give_back(self, scratch: Scratch) -> None:
        """Let other calls have the scratch."""
        self._idle.append(scratch)

    @property
    def events(self) -> int:
        return sum(work.events for work in self.works)

    @property
    def counts(self) -> Int64s:
        """The sum of what all have counted, by position in `Work.counts`."""
        total = np.zeros(WORK, np.int64)
        for work in self.works:
            total += work.counts
        return total

    def reset(self) -> None:
        """Start counting from zero."""
        for work in self.works:
            work.reset()


def new_values(dimensions: int) -> np.ndarray:
    """Scratch for one event, every dimension absent."""
    values = np.zeros(dimensions, VALUE)
    values["lo"] = values["hi"] = np.nan
    values["weight"] = 1.0
    return values
