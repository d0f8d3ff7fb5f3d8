"""Snapshots of a durable engine, made by another process from what is on disk: no call of the engine waits for them.

The process recovers the engine as a restart would, from the last snapshot and the records since, and saves it. So each snapshot
also shows that recovery works. It costs the memory of a second engine while it runs.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread

from matchwood.engine.engine import Engine
from matchwood.engine.journal import Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.recovery import SNAPSHOTS, recover, snapshots
from matchwood.errors import MatchwoodError, StorageError
from matchwood.schema import Schema

LOG = logging.getLogger("matchwood")


def _no_time() -> datetime:
    """The time of a snapshot is that of its last record: what expires later may be prolonged by a record that comes later."""
    return datetime(1970, 1, 1, tzinfo=UTC)


def write_snapshot(folder: Path) -> int:
    """Recover the engine of a folder and save it as a snapshot, unless there is one; return the number of its last record.

    One process at a time: another that has been started meanwhile waits, and begins from the snapshot of the first.
    """
    place = folder / SNAPSHOTS
    place.mkdir(exist_ok=True)
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return _write_snapshot(folder)
    finally:
        os.close(handle)


def _write_snapshot(folder: Path) -> int:
    journal = Journal(folder, read_only=True)
    try:
        index = journal.meta("index")

        def made(schema: Schema, ids: str) -> Engine:
            return Engine(schema, ids=ids, index=index, clock=RecordClock(_no_time))

        engine, seq = recover(folder, journal, made)
    finally:
        journal.close()
    target = folder / SNAPSHOTS / f"{seq:015d}"
    if not target.exists():
        engine.save(target)
    return seq


def snapshot_in_child(folder: Path) -> int:
    """`write_snapshot` in a process of its own."""
    command = [sys.executable, "-m", "matchwood.engine.snapshotting", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise StorageError(f"{folder}: the snapshot could not be written: {reason}")
    return int(done.stdout)


def prune(folder: Path, *, keep: int) -> int:
    """Remove all but the newest snapshots; return the number of the oldest that stays, 0 if there are fewer than `keep`."""
    found = snapshots(folder)
    for _, path in found[keep:]:
        with suppress(OSError):
            shutil.rmtree(path)
    return found[keep - 1][0] if len(found) >= keep else 0


class Snapshotting:
    """Starts a snapshot in the background when enough has changed since the last one."""

    def __init__(self, folder: Path, every: int | None, done: Callable[[int], None]) -> None:
        self._folder, self._every, self._done = folder, every, done
        known = snapshots(folder)
        self._last = known[0][0] if known else 0
        self._busy = Lock()
        self._stopped = False
        self._thread: Thread | None = None

    @property
    def last(self) -> int:
        """The number of the last record in a snapshot, 0 if there is none."""
        return self._last

    def note(self, seq: int) -> None:
        """The record of this number is on disk. Starts a snapshot if it is time. O(1)."""
        if self._every is not None and seq - self._last >= self._every:
            self.start()

    def start(self) -> None:
        """Start a snapshot unless one is being made. O(1)."""
        if self._stopped or not self._busy.acquire(False):
            return
        self._thread = Thread(target=self._run, name="matchwood snapshot", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._last = snapshot_in_child(self._folder)
            if not self._stopped:
                self._done(self._last)
        except MatchwoodError as error:
            LOG.warning("no snapshot: %s", error)
        finally:
            self._busy.release()

    def stop(self) -> None:
        """Start no more; wait for one that is being made."""
        self._stopped = True
        if self._thread is not None:
            self._thread.join()


def main() -> int:
    """`python -m matchwood.engine.snapshotting FOLDER`: prints the number of the last record."""
    try:
        print(write_snapshot(Path(sys.argv[1])))
    except MatchwoodError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
