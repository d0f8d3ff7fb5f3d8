"""Lines of deliveries to webhooks: whose turn it is.

A line is what is sent one after the other: the deliveries of a subscription to a hook, by `seq`. For a hook that does not
ask for order each delivery is a line of its own. Lines are served side by side, at most `each` of one hook, in turn over
the hooks, so that neither a busy subscription nor a slow receiver keeps the others waiting. Deliveries themselves stay on
disk: a line is a name.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple


class Line(NamedTuple):
    """The deliveries of a subscription to a consumer; if `number` is not 0, only that delivery."""

    consumer: str
    subscription: str
    number: int = 0


class Lines:
    """Each line is ready, taken, or waits for its time. Times are in microseconds. All calls are O(1) or O(log lines).

    >>> lines = Lines(each=1)
    >>> lines.add([(Line("webhook:a", "s"), 0), (Line("webhook:a", "t"), 0), (Line("webhook:b", "s"), 0)])
    >>> [line.consumer for line in lines.take(0, 10)]
    ['webhook:a', 'webhook:b']
    """

    def __init__(self, *, each: int) -> None:
        self._each = each
        self._known: set[Line] = set()
        self._ready: OrderedDict[str, deque[Line]] = OrderedDict()  # by hook; the next hook first
        self._taken: dict[str, int] = {}
        self._later: list[tuple[int, Line]] = []
        self._paused: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, lines: Iterable[tuple[Line, int]]) -> None:
        """Add lines that have a delivery, each with the time of the first; those that are known already stay as they are."""
        for line, due in lines:
            if line not in self._known:
                self._known.add(line)
                heapq.heappush(self._later, (due, line)) if due > 0 else self._queue(line)

    def take(self, now: int, room: int) -> list[Line]:
        """Lines whose turn it is, at most `room`."""
        for consumer in [consumer for consumer, until in self._paused.items() if until <= now]:
            del self._paused[consumer]
        while self._later and self._later[0][0] <= now:
            self._queue(heapq.heappop(self._later)[1])
        taken: list[Line] = []
        passed = 0  # hooks in a row that have nothing to send now
        while len(taken) < room and passed < len(self._ready):
            consumer, queue = next(iter(self._ready.items()))
            self._ready.move_to_end(consumer)
            count = self._taken.get(consumer, 0)
            if count >= self._each or consumer in self._paused:
                passed += 1
                continue
            passed = 0
            taken.append(queue.popleft())
            self._taken[consumer] = count + 1
            if not queue:
                del self._ready[consumer]
        return taken

    def put_back(self, line: Line, due: int = 0) -> None:
        """A line that was taken is ready again, at the end of its queue, or at a time."""
        self._release(line)
        heapq.heappush(self._later, (due, line)) if due > 0 else self._queue(line)

    def end(self, line: Line) -> None:
        """A line that was taken has no more deliveries."""
        self._release(line)
        self._known.discard(line)

    def is_alone(self, consumer: str) -> bool:
        """Is no other line of this hook ready?"""
        return consumer not in self._ready

    def pause(self, consumer: str, until: int) -> None:
        """Take no lines of a hook until a time."""
        self._paused[consumer] = until

    def resume(self, consumer: str) -> None:
        """Take lines of a hook again."""
        self._paused.pop(consumer, None)

    def next_time(self) -> int | None:
        """When `take` may have more without anything being added; None if never."""
        times = [self._later[0][0]] if self._later else []
        times += [until for consumer, until in self._paused.items() if consumer in self._ready]
        return min(times, default=None)

    def _queue(self, line: Line) -> None:
        self._ready.setdefault(line.consumer, deque()).append(line)

    def _release(self, line: Line) -> None:
        left = self._taken.pop(line.consumer, 0) - 1
        if left > 0:
            self._taken[line.consumer] = left
