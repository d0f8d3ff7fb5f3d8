"""`Engine.open(FOLDER, mode="follow")`: an engine that repeats, for reading, the changes that another process makes.

A thread looks for new transactions every `POLL` seconds, so a change is visible here within 0.2 s of its
acknowledgement, and the time that it takes to apply. What has expired is gone here `LAG` seconds later than in the
writer: a record that prolongs it may be on its way.

If records were removed before they were read here (the writer has compacted, and this process was held up), or cannot be
applied, a copy is read from the newest snapshot while this engine goes on answering, and takes its place.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Self

from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.engine import Engine
from matchwood.engine.journal import Journal
from matchwood.engine.opening import Options, scoring_of
from matchwood.engine.reading import Reader
from matchwood.engine.reclaiming import Reclaiming
from matchwood.engine.recovery import recover, replay
from matchwood.errors import QueryError, StorageError
from matchwood.lang.evaluate import Combine
from matchwood.planner import AUTO, Plan, Planned
from matchwood.store.scoring import scoring as make_scoring
from matchwood.structures import Index, make_index

POLL = 0.05
LAG = 1.0
LOG = logging.getLogger("matchwood")


class _Copy(Engine):
    """What is read beside an engine, to take its place. Its structure is not planned: the engine does that."""

    plan_of_index: Plan | None = None

    def _planned(self, index: Index | None = None, plan: Plan | None = None) -> Any:
        self.plan_of_index = plan
        return make_index("scan") if index is None else index


class FollowingEngine(Engine):
    """An engine that follows a folder: see the module's text. Calls that change it raise `QueryError`."""

    @classmethod
    def _open(
        cls,
        folder: str | Path,
        *,
        index: str = AUTO,
        scoring: str | Combine | None = None,
        on_bad_value: str = "raise",
        clock: Clock = system_clock,
    ) -> Self:
        path = Path(folder)
        journal = Journal(path, read_only=True)
        looked = [clock()]  # when the disk was last looked at

        def delayed() -> datetime:
            return looked[0] - timedelta(seconds=LAG)

        options = Options(index=index, scoring=scoring, on_bad_value=on_bad_value, clock=delayed)
        engine, seq = recover(path, journal, partial(options.of_folder(journal).make, cls))
        assert isinstance(engine, cls)
        engine._folder, engine._options = path, options
        engine._journal, engine._seq, engine._version = journal, seq, -1
        engine._stop, engine._reading_disk = Flag(), Lock()
        engine._failure, engine._looked, engine._now = None, looked, clock
        engine._thread = Thread(target=engine._follow, name="matchwood follower", daemon=True)
        engine._thread.start()
        return engine

    @property
    def seq(self) -> int:
        """The number of the last record that this engine has applied."""
        return self._seq

    def catch_up(self) -> int:
        """Apply what is on disk now; return the number of the last record."""
        with self._reading_disk:
            now, version = self._now(), self._journal.data_version()
            if version != self._version:
                self._follow_scoring()
                try:
                    self._seq = self._replayed()
                except StorageError as error:
                    LOG.warning("%s is read again from its newest snapshot: %s", self._folder, error)
                    self._read_again()
                self._version = version
            self._looked[0] = now
            return self._seq

    def _replayed(self) -> int:
        """Apply the records after the last one."""
        connection = self._journal.connection
        connection.execute("BEGIN")  # one state, while the writer may remove records
        try:
            return replay(self, self._journal, self._seq)
        finally:
            connection.execute("COMMIT")

    def _read_again(self) -> None:
        """Read a copy from the newest snapshot and take over all that it has. Readers wait for the exchange alone."""
        copy, seq = recover(self._folder, self._journal, partial(self._options.of_folder(self._journal).make, _Copy))
        assert isinstance(copy, _Copy)
        with self._changes, self._lock.write():
            copy.schema.forgotten = self.schema.forgotten + 1  # what was encoded under the old schema is encoded again
            found = copy._index
            if isinstance(self._index, Planned):
                assert isinstance(found, Index)
                copy._subscriptions.index = self._planned(found, copy.plan_of_index)
            self.schema, self._clock, self._scoring = copy.schema, copy._clock, copy._scoring
            self._subscriptions, self._live = copy._subscriptions, copy._live
            self._reader = Reader(copy.schema, self._reader.limits, self._reader.bad, clock=copy._clock)
            self._reclaiming, self._undo = Reclaiming(), None
        self._seq = seq

    def _follow_scoring(self) -> None:
        """Take the scoring of the folder, which may have changed while it had no subscriptions, unless one was given."""
        scoring = make_scoring(scoring_of(self._journal, self._options.scoring))
        if scoring.name != self.scoring:
            self._prepare_index(scoring)
            self._scoring = scoring

    def _follow(self) -> None:
        while not self._stop.wait(POLL):
            try:
                self.catch_up()
            except Exception as error:  # of SQLite too: following ends with a reason, never in silence
                self._failure = str(error)
                LOG.error("no longer following %s: %s", self._journal.path, error)
                return

    @property
    def problem(self) -> str | None:
        """Why this engine no longer follows; None if it does."""
        return self._failure

    def close(self) -> None:
        """Stop following. May be repeated."""
        self._stop.set()
        self._thread.join()
        with self._reading_disk:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse(self, *_: object, **__: object) -> Any:
        raise QueryError("this engine follows a folder and cannot be changed; change it in the process that writes")

    subscribe = subscribe_many = subscribe_rows = subscribe_table = unsubscribe_many = update_many = _refuse
    set_priority = set_until = pause = resume = move_many = publish = publish_many = retract = _refuse

    _folder: Path
    _options: Options
    _journal: Journal
    _seq: int
    _version: int
    _stop: Flag
    _reading_disk: Lock
    _failure: str | None
    _looked: list[datetime]
    _now: Clock
    _thread: Thread
