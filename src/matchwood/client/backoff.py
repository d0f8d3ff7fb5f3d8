"""How long to wait before the next attempt: twice as long each time, with jitter, so that clients do not come back together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Delays that double from `first` to `longest` seconds; each is a random share, at least half, of that.

    >>> backoff = Backoff(first=1.0, longest=4.0, random=lambda: 1.0)
    >>> [backoff.delay() for _ in range(4)]
    [1.0, 2.0, 4.0, 4.0]
    """

    first: float = 0.1
    longest: float = 10.0
    random: Callable[[], float] = field(default=random.random, repr=False)
    _failures: int = 0

    def delay(self, *, at_least: float | None = None) -> float:
        """Seconds to wait after another failure; `at_least` is what the broker asked for."""
        whole = min(self.first * 2.0 ** min(self._failures, 60), self.longest)
        self._failures += 1
        return max(whole * (0.5 + self.random() / 2), at_least or 0.0)

    def succeeded(self) -> None:
        """Begin again with the first delay."""
        self._failures = 0
