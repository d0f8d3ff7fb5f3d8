"""Clocks: the engine reads the time from one, so that tests and replays can set it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """The system time in UTC."""
    return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is moved.

    >>> clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> clock.advance(seconds=90)
    >>> clock().isoformat()
    '2026-01-01T00:01:30+00:00'
    """

    def __init__(self, now: datetime) -> None:
        self._now = now

    def __call__(self) -> datetime:
        return self._now

    def advance(self, **duration: float) -> None:
        """Move on by a `timedelta` of these keywords."""
        self._now += timedelta(**duration)
