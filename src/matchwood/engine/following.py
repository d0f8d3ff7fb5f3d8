"""`Engine.open(FOLDER, mode="follow")`: an engine that repeats, for reading, the changes that another process makes.

A thread looks for new transactions every `POLL` seconds, so a change is visible here within 0.2 s of its
acknowledgement, and the time that it takes to apply. What has expired is gone here `LAG` seconds later than in the
writer: a record that prolongs it may be on its way.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Self

from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.engine import Engine
from matchwood.engine.journal import Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.recovery import recover, replay, scoring_of
from matchwood.errors import MatchwoodError, QueryError
from matchwood.lang.evaluate import Combine
from matchwood.planner import AUTO
from matchwood.schema import Schema
from matchwood.store.scoring import scoring as make_scoring

POLL = 0.05
LAG = 1.0
LOG = logging.getLogger("matchwood")


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

        def made(schema: Schema, ids: str) -> Engine:
            options: Mapping[str, Any] = {"scoring": scoring_of(journal, scoring), "on_bad_value": on_bad_value}
            return cls(schema, ids=ids, index=index, clock=RecordClock(delayed), **options)

        engine, seq = recover(path, journal, made)
        assert isinstance(engine, cls)
        engine._given_scoring = scoring
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
        """Apply what is on disk now; return the number of the last record. `StorageError` if records are gone: open it again."""
        with self._reading_disk:
            now, version = self._now(), self._journal.data_version()
            if version != self._version:
                self._follow_scoring()
                self._seq = replay(self, self._journal, self._seq)
                self._version = version
            self._looked[0] = now
            return self._seq

    def _follow_scoring(self) -> None:
        """Take the scoring of the folder, which may have changed while it had no subscriptions, unless one was given."""
        scoring = make_scoring(scoring_of(self._journal, self._given_scoring))
        if scoring.name != self.scoring:
            self._prepare_index(scoring)
            self._scoring = scoring

    def _follow(self) -> None:
        while not self._stop.wait(POLL):
            try:
                self.catch_up()
            except MatchwoodError as error:
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

    _given_scoring: str | Combine | None
    _journal: Journal
    _seq: int
    _version: int
    _stop: Flag
    _reading_disk: Lock
    _failure: str | None
    _looked: list[datetime]
    _now: Clock
    _thread: Thread
