"""A durable engine whose owner commits: changes are collected, and the owner writes them in a transaction with its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from matchwood.engine.durable import DurableEngine
from matchwood.engine.journal import Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.records import Record
from matchwood.engine.snapshotting import Snapshotting
from matchwood.engine.tables import note_state, state_of
from matchwood.errors import JournalError
from matchwood.store.scoring import Scoring
from matchwood.store.scoring import scoring as make_scoring


class _Collected:
    """Stands in for the group commit of a durable engine: records wait here for the transaction of the owner."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.records: list[Record] = []
        self.schema: dict[str, Any] | None = None

    def check(self) -> None:
        if self.journal.failure is not None:
            raise JournalError(
                f"the journal refuses changes: {self.journal.failure}; restart the broker when the disk is well"
            )

    def add(self, records: list[Record], time: int, state: dict[str, int], schema: dict[str, Any] | None) -> int:
        self.records.extend(records)
        self.schema = schema or self.schema
        return 0

    def wait(self, seq: int) -> None:
        pass


class OwnedEngine(DurableEngine):
    """See the module's text. Changes are made in one thread, between `at_one_instant` and a transaction of `journal`."""

    _collected: _Collected

    @classmethod
    def open_for(cls, folder: Path, *, tables: str, snapshot_done: Callable[[int], None], **options: Any) -> Self:
        """Open a folder; `tables` are those of the owner, `snapshot_done` is called with the last record of a new snapshot."""
        engine = cls._open(folder, snapshot_every=None, tables=tables, **options)
        engine._collected = _Collected(engine._group.journal)
        engine._group = engine._collected  # type: ignore[assignment]
        engine._snapshotting = Snapshotting(folder, None, snapshot_done)
        return engine

    @property
    def journal(self) -> Journal:
        """The journal that the owner writes to."""
        return self._collected.journal

    @property
    def snapshots(self) -> Snapshotting:
        """What makes snapshots in the background."""
        return self._snapshotting

    def at_one_instant(self) -> AbstractContextManager[int]:
        """A block in which the clock stands; gives its time in microseconds since 1970."""
        assert isinstance(self._clock, RecordClock)
        return self._clock.frozen()

    def take(self) -> list[Record]:
        """The records of the changes since the last call. If they are not written, the engine is ahead of the disk."""
        records, self._collected.records = self._collected.records, []
        return records

    def note_state(self, time: int) -> None:
        """Write the next numbers, and new types of attributes, in the transaction of the owner."""
        note_state(self.journal.connection, state_of(self, time), self._collected.schema)
        self._collected.schema = None

    def prepared_scoring(self, name: str) -> Scoring:
        """The scoring of that name, compiled for this engine; may take seconds, in any thread."""
        scoring = make_scoring(name)
        self._prepare_index(scoring)
        return scoring

    def set_scoring(self, scoring: Scoring) -> None:
        """Score by another function from now on, and note its name in the transaction of the owner."""
        self.journal.set_meta("scoring", scoring.name)
        self._scoring = scoring

    def metadata_of(self, id_: str) -> Any:
        """The metadata of a subscription whose id is a string; None if it has none or is gone. O(1)."""
        subscriptions = self._subscriptions
        assert subscriptions.names is not None
        number = subscriptions.names.number(id_)
        return None if number is None else subscriptions.metadata.get(number)

    @property
    def live_count(self) -> int:
        """The number of live events. O(1)."""
        return len(self._live)

    def release(self) -> None:
        """Close the files, so that the folder can be opened again."""
        self.journal.close()
        if self._lock_handle is not None:
            os.close(self._lock_handle)
            self._lock_handle = None
