"""The state that all calls of an engine share, and how they exclude each other.

    match, top_k, ...       readers: any number at once, while nothing is written
    subscribe, publish, ... writers: one at a time. What a writer is given (expressions, events) is read while readers go on;
                            only the change itself excludes them

`_changes` is the mutex of the writers, `_lock` the lock between readers and the change of a writer; it is acquired after
`_changes`. A change that raises is undone (`undo`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from threading import RLock
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Matches
from matchwood.engine.clock import Clock
from matchwood.engine.forking import LostLock, watch_forks
from matchwood.engine.ids import MAX_ID, Id, Ids, Names, ids_of, subscription_id
from matchwood.engine.live import Live
from matchwood.engine.locking import ReadWriteLock
from matchwood.engine.reading import Reader
from matchwood.engine.reclaiming import Reclaiming
from matchwood.engine.subscriptions import Subscriptions
from matchwood.engine.undo import Change, Undo, undo_change
from matchwood.errors import MatchwoodError, QueryError, SchemaError, SubscriptionError, UnknownSubscriptionError
from matchwood.lang.bad_values import BadValues, OnBadValue, on_bad_value_of
from matchwood.lang.evaluate import Combine, Mode
from matchwood.lang.limits import Limits
from matchwood.planner import AUTO, Plan, Planned
from matchwood.planner.compiling import compile_now
from matchwood.planner.preparing import SCAN
from matchwood.schema import Schema, describe, instant_key
from matchwood.store.scoring import Scoring
from matchwood.store.scoring import scoring as make_scoring
from matchwood.structures import Index, LiveEvents, make_index
from matchwood.structures.base import AxisShape
from matchwood.structures.threads import available_threads


class EngineCore:
    """The state of an engine. See the module's text; `Engine` documents the parameters."""

    def __init__(
        self,
        schema: Schema | Mapping[str, str] | None,
        *,
        index: str,
        index_options: Mapping[str, Any] | None,
        ids: str | type,
        scoring: str | Combine | None,
        on_bad_value: str,
        clock: Clock,
        limits: Limits,
    ) -> None:
        if schema is not None and not isinstance(schema, Schema | Mapping):
            raise SchemaError(f"expected a Schema or a mapping from attribute to type, got {describe(schema)}")
        if not callable(clock):
            raise QueryError(f"expected a clock, a function that returns a datetime, got {describe(clock)}")
        if not isinstance(limits, Limits):
            raise QueryError(f"expected limits as Limits(...), got {describe(limits)}")
        self.schema = schema if isinstance(schema, Schema) else Schema(schema)
        self.bad_values = BadValues()
        self._lock: ReadWriteLock | LostLock = ReadWriteLock()
        self._changes = RLock()
        names = Names() if ids_of(ids) is Ids.STR else None
        self._subscriptions = Subscriptions(self._make_index(index, index_options or {}), names)
        self._live = Live(LiveEvents(like=self._axes))
        self._scoring = make_scoring(scoring)
        self._prepare_index(self._scoring)
        self._clock = clock
        is_strict = on_bad_value_of(on_bad_value) is OnBadValue.RAISE
        self._reader = Reader(self.schema, limits, None if is_strict else self.bad_values, clock=clock)
        self._undo: Undo | None = None  # of the current change, or of one that was interrupted
        self._reclaiming = Reclaiming()
        self._saved_at: str | None = None  # the folder that holds exactly this engine
        watch_forks(self)

    @property
    def _index(self) -> Index | Planned:
        return self._subscriptions.index

    def _make_index(self, index: str, options: Mapping[str, Any]) -> Index | Planned:
        if index != AUTO:
            return make_index(index, **options)
        if options:
            raise QueryError(f"index_options need the name of an index; with {AUTO!r} the engine chooses them itself")
        return self._planned()

    def _planned(self, index: Index | None = None, plan: Plan | None = None) -> Planned:
        return Planned(self._lock, index=index, plan=plan, name_of=lambda dim: self.schema.of_dimension(dim).name)

    def _prepare_index(self, scoring: Scoring) -> None:
        """Wait for the kernels of a fixed index, or for a scoring function, to be compiled: nothing else could answer meanwhile.

        `scan` with the sum is compiled in the first calls, which takes no longer.
        """
        index, scored = self._index, scoring.compiled is not None
        if scored:
            name = SCAN if isinstance(index, Planned) else index.name
            compile_now([name], f"{name!r} with a scoring function", scoring=True)
        elif not isinstance(index, Planned) and index.name != SCAN:
            compile_now([index.name], f"the index {index.name!r}")

    def _axes(self) -> list[AxisShape]:
        """The axes of the index, if it has any, for the live events to share."""
        return self._index.axes()

    # ids

    def _number(self, id_: Id) -> int:
        """The number of an existing subscription (`UnknownSubscriptionError`), or of any, if ids are numbers."""
        names = self._subscriptions.names
        if names is None:
            return subscription_id(id_)
        number = names.number(id_)
        if number is None:
            raise UnknownSubscriptionError(f"subscription {id_!r} is not there")
        return number

    def _is_active(self, id_: Id) -> bool:
        """Is there a subscription of this id that is matched, not paused?"""
        with self._reading():
            subscriptions = self._subscriptions
            number = id_ if subscriptions.names is None else subscriptions.names.number(id_)
            known = isinstance(number, int) and subscriptions.knows(number)
            return known and number not in subscriptions.paused

    def _numbers(self, ids: Iterable[Id]) -> Int64s:
        given: Any = ids
        if type(ids) is not list and not isinstance(ids, np.ndarray):
            if isinstance(ids, str) or not isinstance(ids, Iterable):
                raise SubscriptionError(f"expected several ids, got {describe(ids)}")
            given = list(ids)
        if self._subscriptions.names is None and _are_numbers(given):
            return np.asarray(given, np.int64)
        return np.array([self._number(id_) for id_ in given], np.int64)

    def _shown(self, numbers: Int64s) -> Any:
        """Numbers of subscriptions as users see them."""
        names = self._subscriptions.names
        return numbers if names is None else names.texts(numbers)

    # reading and writing

    def _changing(self) -> Change:
        """The block of a change, undone if it raises. The caller is the writer: `with self._changes, self._changing() as change`.

        What it writes, it writes inside `_lock.write()`.
        """
        self._catch_up()
        self._saved_at = None
        return Change(self)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """The block of a reader."""
        self._catch_up()
        with self._lock.read():
            yield

    def _catch_up(self) -> None:
        """Undo a change that was interrupted, and remove what has expired. O(1) if there is nothing to do."""
        subscriptions, live = self._subscriptions, self._live
        if self._undo is not None and self._changes.acquire(blocking=False):
            try:  # no writer is at work: it is the note of a change that was interrupted
                self._settle()
            finally:
                self._changes.release()
        earliest = min(subscriptions.expiry.earliest, live.expiry.earliest)
        if earliest == math.inf:
            return
        now = instant_key(self._clock())
        if now < earliest or not (subscriptions.expiry.is_due(now) or live.is_due(now)):
            return
        with self._changes:
            self._settle()
            with Change(self) as change, self._lock.write():
                live.expire(now)
                due = subscriptions.expiry.due(now)
                if len(due):
                    self._saved_at = None
                    subscriptions.delete(due, change)
            self._reclaim(len(due))

    def _reclaim(self, gone: int) -> None:
        """After a change that removed or replaced so many subscriptions: forget unused strings, if it is time."""
        subscriptions = self._subscriptions
        self._reclaiming.note(gone)
        if self._reclaiming.is_due(self.schema, len(subscriptions)):
            with self._lock.write():
                rows = [self._index.store.extract_all(), *subscriptions.paused.values()]
                self._reclaiming.reclaim(self.schema, rows, self._live.extract_all())

    def _settle(self) -> None:
        """Undo a change that was interrupted, if it could not be undone then. The caller holds `_changes`."""
        if self._undo is not None:
            with self._lock.write():
                undo_change(self)

    def _instant(self, until: datetime | str | None, subject: Callable[[], str]) -> float | None:
        """The key of a subscription's `until`."""
        if until is None:
            return None
        try:
            self._subscriptions.check_can_expire()
            return instant_key(until)
        except MatchwoodError as error:
            raise error.about(subject()) from None

    # matching

    def _found(self, events: Events, k: int | None, mode: Mode | str, *, ordered: bool = True) -> Matches:
        """The k best matches of each event, or all; a batch uses all cores."""
        combine, threads = self._scoring.compiled, 1 if events.size == 1 else available_threads()
        if k is None:
            return self._index.match(events, mode=mode, combine=combine, ordered=ordered, threads=threads)
        return self._index.top_k(events, k, mode=mode, combine=combine, threads=threads)

    # forks

    def _after_fork(self, *, whole: bool) -> None:
        """In a new process. Not `whole`: another thread was inside a call, and its lock can never be released here."""
        self._changes = RLock()
        if not whole:
            self._lock = LostLock()
        if isinstance(self._index, Planned):
            self._index.after_fork(self._lock)


def _are_numbers(ids: Any) -> bool:
    """Are these ids, an array or a list, numbers of subscriptions without a look at each by Python? O(ids)."""
    if isinstance(ids, np.ndarray):
        return ids.dtype == np.int64 and not (ids < 0).any()
    return set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) <= MAX_ID
