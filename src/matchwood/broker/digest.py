"""Digests: at most `max` matches of a subscription in each period, best first, in one delivery at the end of the period.

A period begins with the first match after the last one ended, so a subscription without matches costs nothing and two deliveries
are at least a period apart. All state is here, and time is passed in: the same calls give the same digests.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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

    def add(self, seq: int, score: float) -> None:
        self.count += 1
        if len(self.best) < self.max:
            heapq.heappush(self.best, (score, -seq))
        else:
            heapq.heappushpop(self.best, (score, -seq))

    def hits(self) -> list[DigestHit]:
        """Best first: by descending score, then by ascending seq."""
        return [DigestHit(-seq, score) for score, seq in sorted(self.best, reverse=True)]


class Digests:
    """The open periods of all subscriptions that want digests. Memory: at most `max` matches for each.

    >>> digests = Digests()
    >>> for seq, score in enumerate([1.0, 3.0, 2.0]):
    ...     digests.add("ann", seq, score, max=2, period=60.0, now=100.0 + seq)
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

    def add(self, subscription: str, seq: int, score: float, *, max: int, period: float, now: float) -> None:
        """Take a match into the period that is open, or open one. Close what has ended first. O(log max)."""
        if max < 1 or not period > 0:
            raise RequestError(f"a digest needs max >= 1 and a period above 0 s, got {max} in {period} s")
        found = self._open.get(subscription)
        if found is None:
            found = self._open[subscription] = _Period(max, now, now + period)
            heapq.heappush(self._ends, (found.ends, subscription))
        found.add(seq, score)

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

    def to_json(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            name: [period.max, period.opened, period.ends, period.count, sorted(period.best)]
            for name, period in self._open.items()
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Digests:
        """The state that `to_json` gave."""
        made = cls()
        for name, (max_, opened, ends, count, best) in state.items():
            made._open[name] = _Period(max_, opened, ends, [(score, seq) for score, seq in best], count)
            heapq.heappush(made._ends, (ends, name))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._open)

    def _is_current(self, end: float, subscription: str) -> bool:
        period = self._open.get(subscription)
        return period is not None and period.ends == end
