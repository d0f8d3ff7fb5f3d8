"""Stand-in."""

from __future__ import annotations

from threading import RLock


class ReadWriteLock:
    def __init__(self) -> None:
        self._lock = RLock()

    def read(self):  # type: ignore[no-untyped-def]
        return self._lock

    def write(self):  # type: ignore[no-untyped-def]
        return self._lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
