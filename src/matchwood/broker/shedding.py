"""Load shedding by score: a consumer, or the broker, that cannot keep up loses the least important matches, and is told.

This is what the application-level router of the Ranked paper does with its bandwidth: the best matches go through.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from matchwood.errors import RequestError

T = TypeVar("T")


class ShedNotice(NamedTuple):
    """Matches were left out: `count` of them, with a `seq` from `first` to `last`, none with a score above `below`."""

    count: int  # type: ignore[assignment]
    below: float
    first: int
    last: int


class _Entry(NamedTuple, Generic[T]):
    seq: int
    score: float
    size: int
    item: T


class ShedQueue(Generic[T]):
    """The queue of one consumer, by arrival. If it exceeds `capacity` (items, or bytes by their sizes), the worst are shed.

    Worst is the lowest score, of equal scores the latest. What has been shed since the last `take` is announced first. `shed`
    counts all. Costs: O(log items) a match.

    >>> queue = ShedQueue(2)
    >>> for seq, score in enumerate([1.0, 3.0, 2.0]):
    ...     queue.put(seq, score, f"match {seq}")
    >>> queue.take(10)
    (ShedNotice(count=1, below=1.0, first=0, last=0), ['match 1', 'match 2'])
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise RequestError(f"a queue needs a capacity of at least 1, got {capacity}")
        self.capacity = capacity
        self.used = 0
        self.shed = 0
        self._entries: OrderedDict[int, _Entry[T]] = OrderedDict()
        self._worst: list[tuple[float, int]] = []  # a heap of (score, -number); numbers that were taken are passed over
        self._next = 0
        self._notice: ShedNotice | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, seq: int, score: float, item: T, *, size: int = 1) -> None:
        """Add a match; shed the worst until the rest fits (the new one, if it is the worst)."""
        number = self._next
        self._next += 1
        self._entries[number] = _Entry(seq, score, size, item)
        heapq.heappush(self._worst, (score, -number))
        self.used += size
        while self.used > self.capacity:
            self._shed_one()
        if len(self._worst) > 2 * len(self._entries) + 16:
            self._worst = [(entry.score, -number) for number, entry in self._entries.items()]
            heapq.heapify(self._worst)

    def take(self, max: int) -> tuple[ShedNotice | None, list[T]]:
        """What was shed since the last call, if anything was, and the next items, at most `max`, by arrival."""
        notice, self._notice = self._notice, None
        items: list[T] = []
        while self._entries and len(items) < max:
            _, entry = self._entries.popitem(last=False)
            self.used -= entry.size
            items.append(entry.item)
        return notice, items

    def _shed_one(self) -> None:
        while -self._worst[0][1] not in self._entries:
            heapq.heappop(self._worst)
        score, negative = heapq.heappop(self._worst)
        entry = self._entries.pop(-negative)
        self.used -= entry.size
        self.shed += 1
        old = self._notice or ShedNotice(0, score, entry.seq, entry.seq)
        self._notice = ShedNotice(
            old.count + 1, max(old.below, score), min(old.first, entry.seq), max(old.last, entry.seq)
        )


class Pressure:
    """How many of an event's matches, best first, the broker takes on while so many deliveries wait.

    Below `low` all of them; from there to `high` a share that falls evenly to none. The caller counts what it leaves out.

    >>> pressure = Pressure(low=1000, high=2000)
    >>> [pressure.room(waiting, 10) for waiting in (0, 1000, 1500, 1990, 2000)]
    [10, 10, 5, 1, 0]
    """

    def __init__(self, *, low: int, high: int) -> None:
        if not 0 <= low < high:
            raise RequestError(f"shedding needs 0 <= low < high, got {low} and {high}")
        self.low, self.high = low, high

    def room(self, waiting: int, count: int) -> int:
        """How many of `count` matches to take."""
        share = (self.high - waiting) / (self.high - self.low)
        return math.ceil(count * min(max(share, 0.0), 1.0))
