"""`Engine.open`: an engine whose every acknowledged change survives a crash.

    FOLDER/journal.db        what has changed (`journal`)
    FOLDER/snapshots/SEQ/    engines as `save` writes them, by the number of their last record
    FOLDER/lock              held by the one process that writes

A call changes the engine in memory, hands its records over in the order of the changes, and returns when they are on
disk. Calls that wait at the same time share one commit: the first takes all records that are there. Another thread may
see a change before it is durable; no caller is told so before.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from matchwood.engine.committing import GroupCommit
from matchwood.engine.comparing import differences
from matchwood.engine.engine import Engine
from matchwood.engine.journal import Journal
from matchwood.engine.opening import Options, check_same, found, keep_scoring
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.recording import RecordingEngine
from matchwood.engine.recovery import recover
from matchwood.engine.snapshotting import Snapshotting, prune, snapshot_in_child
from matchwood.engine.tables import drop_expired
from matchwood.errors import MatchwoodError, StorageError
from matchwood.schema import Schema, instant_key

SNAPSHOT_EVERY = 100_000
"""Records after which a snapshot is made unless told."""
KEPT_FOR = 60_000_000
"""Microseconds that records stay after a snapshot has made them superfluous: followers read them."""


class Report(NamedTuple):
    """What `verify` found. `problems` is empty if all is well."""

    last: int
    subscriptions: int
    live: int
    snapshots: int
    problems: tuple[str, ...]


class DurableEngine(RecordingEngine):
    """An engine that `Engine.open` has opened: see there. Close it, or use it as a context manager."""

    _folder: Path
    _lock_handle: int | None
    _snapshotting: Snapshotting

    # opening and closing

    @classmethod
    def _open(
        cls,
        folder: str | Path,
        schema: Schema | Mapping[str, str] | None = None,
        *,
        snapshot_every: int | None = SNAPSHOT_EVERY,
        tables: str = "",
        **options: Any,
    ) -> Self:
        """`options` are those of `Options`."""
        asked = Options(**options)
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        lock = _lock(path)
        try:
            journal = Journal(path, tables=tables)
            asked = asked.of_folder(journal)
            if journal.meta("ids") is None:
                engine = asked.make(cls, schema, asked.ids)
                found(engine, journal, asked.index)
            else:
                if asked.index != journal.meta("index"):
                    journal.set_meta("index", asked.index)
                recovered, _ = recover(path, journal, partial(asked.make, cls))
                assert isinstance(recovered, cls)
                engine = recovered
                check_same(engine, schema, asked.ids)
                keep_scoring(engine, journal)
        except BaseException:
            os.close(lock)
            raise
        engine._folder, engine._lock_handle, engine._group = path, lock, GroupCommit(journal)
        engine._schema_mark = -1
        engine._snapshotting = Snapshotting(path, snapshot_every, engine._after_snapshot)
        return engine

    def close(self) -> None:
        """End writing; what was acknowledged is on disk already. May be repeated."""
        self._snapshotting.stop()
        with self._changes, self._group.alone() as journal:
            journal.close()
            if self._lock_handle is not None:
                os.close(self._lock_handle)
                self._lock_handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise MatchwoodError(
            "a durable engine belongs to one process; in others use Engine.open(FOLDER, mode='follow')"
        )

    @property
    def seq(self) -> int:
        """The number of the last record that is on disk. O(1)."""
        return self._group.journal.last

    # care

    def snapshot(self) -> int:
        """Write a snapshot, by another process, and wait for it; return the number of its last record. Calls go on meanwhile."""
        seq = snapshot_in_child(self._folder)
        self._after_snapshot(seq)
        return seq

    def compact(self) -> int:
        """Make a snapshot and remove the records that it makes superfluous; return how many transactions. Calls go on."""
        before = self.snapshot()
        with self._group.alone() as journal, journal.connection:
            drop_expired(journal.connection, self._now())
        with self._group.alone() as journal:
            removed = journal.trim(before, self._now() + 1)
            journal.checkpoint()
        prune(self._folder, keep=1)
        return removed

    def backup(self, folder: str | Path) -> None:
        """Write a copy that `Engine.open` can open, of the state of this moment, to a new folder. Calls go on."""
        target = Path(folder)
        try:
            target.mkdir(parents=True)
        except FileExistsError:
            raise StorageError(f"{target} exists already; choose a new name for the backup") from None
        self._group.journal.copy_to(target / "journal.db")

    def verify(self) -> Report:
        """Read everything on disk and compare it with this engine. Changes wait meanwhile; matching does not. O(bytes)."""
        with self._changes, self._group.alone() as journal:
            problems = journal.check()
            snapshot_count = 0
            try:

                def made(schema: Schema, ids: str) -> Engine:
                    return Engine(schema, ids=ids, index="scan", clock=RecordClock(self._clock))

                other, _ = recover(self._folder, journal, made)
                problems += differences(self, other)
                snapshot_count = len(list((self._folder / "snapshots").glob("[0-9]*")))
            except MatchwoodError as error:
                problems.append(str(error))
            return Report(journal.last, len(self), len(self._live), snapshot_count, tuple(problems))

    def _after_snapshot(self, seq: int) -> None:
        """Old snapshots and the records before the older one are removed."""
        oldest = prune(self._folder, keep=2)
        with self._group.alone() as journal:
            journal.trim(min(oldest, seq), self._now() - KEPT_FOR)

    def _is_durable(self, seq: int) -> None:
        self._snapshotting.note(seq)

    def _now(self) -> int:
        return int(instant_key(self._clock()))


def _lock(folder: Path) -> int:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StorageError(
            f"{folder} is open for writing in another process; open it with mode='follow' to read"
        ) from None
    return handle
