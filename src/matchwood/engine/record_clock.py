"""The clock of a durable engine: never goes back, and stands still while a change is made and recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock, get_ident

from matchwood.engine.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RecordClock:
    """A clock over another one. In a `frozen` block the thread sees one instant, which its record carries; a replay sees
    it again.

    >>> clock = RecordClock(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    >>> with clock.frozen(2_000_000_000_000_000) as time:
    ...     clock().year, time
    (2033, 2000000000000000)
    >>> clock().year  # later than everything recorded
    2033
    """

    def __init__(self, base: Clock) -> None:
        self._base = base
        self._latest = _EPOCH
        self._mutex = Lock()
        self._frozen: tuple[int, datetime] | None = None

    def __call__(self) -> datetime:
        frozen = self._frozen
        if frozen is not None and frozen[0] == get_ident():
            return frozen[1]
        now = self._base()
        with self._mutex:
            if now > self._latest:
                self._latest = now
            return self._latest

    @contextmanager
    def frozen(self, at: int | None = None) -> Iterator[int]:
        """Stand still at `at` (microseconds since 1970), or now; gives that number. One thread at a time; may be nested."""
        outer = self._frozen
        if outer is not None and outer[0] == get_ident() and at is None:
            yield _microseconds(outer[1])
            return
        if at is not None:
            with self._mutex:
                self._latest = max(self._latest, _EPOCH + timedelta(microseconds=at))
                now = self._latest
        else:
            now = self()
        self._frozen = get_ident(), now
        try:
            yield _microseconds(now)
        finally:
            self._frozen = outer


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
