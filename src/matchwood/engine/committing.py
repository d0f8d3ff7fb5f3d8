"""Group commit: records that wait for the disk at the same time share a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from matchwood.engine.journal import Journal
from matchwood.engine.records import Record
from matchwood.engine.tables import note, note_state
from matchwood.errors import JournalError


class GroupCommit:
    """Records that wait for a commit, in the order of their changes. The first caller that waits commits for all."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.last = journal.last  # of the records handed over
        self._waiting: list[tuple[list[Record], int, dict[str, int], dict[str, Any] | None]] = []
        self._commit = Lock()
        self._error: JournalError | None = None

    def check(self) -> None:
        if self._error is not None:
            raise JournalError(f"this engine refuses changes since one could not be made durable: {self._error}")

    def add(self, records: list[Record], time: int, state: dict[str, int], schema: dict[str, Any] | None) -> int:
        """Hand records over; the caller holds the mutex of the writers. Returns the number of the last."""
        self._waiting.append((records, time, state, schema))
        self.last += len(records)
        return self.last

    def wait(self, seq: int) -> None:
        """Return when the record of this number is on disk."""
        with self._commit:
            if self.journal.last >= seq:
                return
            self.check()
            group, self._waiting = self._waiting, []
            schema = next((part[3] for part in reversed(group) if part[3] is not None), None)

            def also(connection: Any, first: int) -> None:
                note(connection, first, [record for part in group for record in part[0]])
                note_state(connection, group[-1][2], schema)

            try:
                self.journal.write_chunks([(part[0], part[1]) for part in group], also)
            except JournalError as error:
                self._error = error
                raise

    @contextmanager
    def alone(self) -> Iterator[Journal]:
        """A block in which nothing is committed by others."""
        with self._commit:
            yield self.journal
