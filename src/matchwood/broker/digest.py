"""Digests: at most `max` matches of a subscription in each period, best first, in one delivery at the end of the period.

A period begins with the first match after the last one ended, so a subscription without matches costs nothing and two deliveries
are at least a period apart. Time is passed in: the same calls give the same digests. `stored_digests` keeps the state on disk.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from matchwood.errors import RequestError


class DigestHit(NamedTuple):
    """A match of a digest: the `seq` of its event, and the score."""

    seq: int
    score: float


class ClosedDigest(NamedTuple):
    """What a period leaves: its best matches, best first, and how many there were beside them."""

    subscription: str
    hits: list[DigestHit]
    left_out: int
    opened: float
    closed: float


@dataclass(slots=True)
class _Period:
    """An open period. `best` is a heap of (score, -seq): its root is the match that a better one replaces."""

    max: int
    opened: float
    ends: float
    best: list[tuple[float, int]] = field(default_factory=list)
    count: int = 0

    def add(self, seq: int, score: float) -> int | None:
        self.count += 1
        if len(self.best) < self.max:
            heapq.heappush(self.best, (score, -seq))
            return None
        return -heapq.heappushpop(self.best, (score, -seq))[1]

    def hits(self) -> list[DigestHit]:
        """Best first: by descending score, then by ascending seq."""
        return [DigestHit(-seq, score) for score, seq in sorted(self.best, reverse=True)]


class Digests:
    """The open periods of all subscriptions that want digests. Memory: at most `max` matches for each.

    >>> digests = Digests()
    >>> for seq, score in enumerate([1.0, 3.0, 2.0]):
    ...     digests.add("ann", seq, score, max=2, period=60.0, now=100.0 + seq)
    0
    >>> digests.next_end()
    160.0
    >>> [closed] = digests.close(160.0)
    >>> closed.hits, closed.left_out
    ([DigestHit(seq=1, score=3.0), DigestHit(seq=2, score=2.0)], 1)
    """

    def __init__(self) -> None:
        self._open: dict[str, _Period] = {}
        self._ends: list[tuple[float, str]] = []  # a heap; entries of periods that are gone are passed over

    def __len__(self) -> int:
        return len(self._open)

    def add(self, subscription: str, seq: int, score: float, *, max: int, period: float, now: float) -> int | None:
        """Take a match into the period that is open, or open one. Close what has ended first. O(log max).

        Returns the `seq` of the match that is left out now, which may be this one; None while there is room for all.
        """
        if max < 1 or not period > 0:
            raise RequestError(f"a digest needs max >= 1 and a period above 0 s, got {max} in {period} s")
        found = self._open.get(subscription)
        if found is None:
            found = self._begin(subscription, _Period(max, now, now + period))
        return found.add(seq, score)

    def restore(
        self, subscription: str, hits: Iterable[DigestHit], *, count: int, max: int, period: float, opened: float
    ) -> None:
        """Open the period of a subscription again, which had `count` matches, these the best. O(hits)."""
        made = self._begin(subscription, _Period(max, opened, opened + period))
        for hit in hits:
            made.add(hit.seq, hit.score)
        made.count = count

    def remove(self, subscription: str) -> None:
        """Forget the open period of a subscription that is gone."""
        self._open.pop(subscription, None)

    def next_end(self) -> float | None:
        """When the next period ends; None if none is open."""
        while self._ends and not self._is_current(*self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def close(self, now: float) -> list[ClosedDigest]:
        """Close the periods that have ended, in the order of their ends. O(matches of these)."""
        closed = []
        while (end := self.next_end()) is not None and end <= now:
            _, subscription = heapq.heappop(self._ends)
            closed.extend(self.end(subscription, end))
        return closed

    def end(self, subscription: str, now: float) -> list[ClosedDigest]:
        """Close the period of a subscription before its end; nothing if none is open."""
        period = self._open.pop(subscription, None)
        if period is None:
            return []
        hits = period.hits()
        return [ClosedDigest(subscription, hits, period.count - len(hits), period.opened, now)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._open)

    def _begin(self, subscription: str, period: _Period) -> _Period:
        self._open[subscription] = period
        heapq.heappush(self._ends, (period.ends, subscription))
        return period

    def _is_current(self, end: float, subscription: str) -> bool:
        period = self._open.get(subscription)
        return period is not None and period.ends == end
