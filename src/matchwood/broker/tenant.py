"""A tenant: an engine, its journal and its outbox, changed by one thread in groups.

    loop of the service            thread of the tenant
    call(...)  ── command ──>      take all commands that wait
                                   begin a transaction, at one instant
                                     each command: engine, tables, outbox; an error of one command is its answer
                                   commit
    answers, streams  <── once ──  hand over

The instant is the time of all records of the group. If the commit fails, no command is acknowledged, and the engine,
which is ahead of the disk, is read from disk again; after a failed fsync the tenant refuses all further changes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from matchwood.broker import outbox, stored_digests
from matchwood.broker.commands import EXPRESSION_BYTES, Command, Happening, Incoming, Publish, Taken
from matchwood.broker.digest import Digests
from matchwood.broker.tenant_consumers import TenantConsumers
from matchwood.broker.tenant_subscriptions import TenantSubscriptions
from matchwood.broker.tracks import Stored, Tracks
from matchwood.broker.types import ConsumerView, DeliveryOptions, TenantLimits
from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.journal import Changes, Journal
from matchwood.engine.owned import OwnedEngine
from matchwood.engine.records import Record, changing
from matchwood.engine.recovery import snapshots
from matchwood.engine.snapshotting import prune, snapshot_in_child
from matchwood.engine.tables import drop_expired
from matchwood.errors import (
    ConflictError,
    JournalError,
    MatchwoodError,
    UnavailableError,
)
from matchwood.lang.limits import Limits
from matchwood.store.scoring import Scoring

if TYPE_CHECKING:
    from matchwood.broker.metrics import Metrics

LOG = logging.getLogger("matchwood.broker")
GROUP_COMMANDS = 512
GROUP_EVENTS = 4000
MAX_PENDING = 20_000
"""Commands that may wait; further ones are refused, to be repeated later."""
SNAPSHOT_EVERY = 100_000
"""Changes of subscriptions between two snapshots."""
TRIM_SECONDS = 5.0
FORGET_MICROSECONDS = 5_000_000
"""Between two searches for subscriptions that have expired; their rows stay for a minute (`_trim`)."""
READERS = 8
"""Connections for reading that are kept."""
LIMITS = Limits(max_length=EXPRESSION_BYTES)


class _WithId(msgspec.Struct):
    """What is read of a record to find the ids of events again."""

    kind: str
    id: str | int | None = None


_IDS = msgspec.json.Decoder(list[_WithId]).decode


class Tenant(TenantSubscriptions, TenantConsumers):
    """See the module's text. Methods without underscore are called from the loop of the service."""

    def __init__(
        self,
        name: str,
        folder: Path,
        limits: TenantLimits,
        metrics: Metrics,
        *,
        clock: Clock = system_clock,
        index: str = "auto",
    ) -> None:
        self.name, self.limits = name, limits
        self.kafka = False
        """Can deliveries go to Kafka?"""
        self._folder, self._metrics, self._base_clock, self._index = folder, metrics, clock, index
        self.on_commit: Callable[[list[Happening], set[str], int], None] = lambda happenings, woken, last: None
        """Called in the loop after each commit: what streams deliver, the consumers with new deliveries, the last record."""
        self._queue: deque[Command | Publish] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reader_lock = threading.Lock()
        self._trimmed_at = 0.0
        self._forgotten_at = 0
        self._load()
        self._readers: list[Journal] = []
        self._thread = threading.Thread(target=self._run, name=f"matchwood tenant {name}", daemon=True)

    # life

    def _load(self) -> None:
        """Read everything from disk."""
        options: dict[str, Any] = {"ids": "str", "clock": self._base_clock, "limits": LIMITS, "index": self._index}
        self.engine = OwnedEngine.open_for(
            self._folder, tables=outbox.TABLES, snapshot_done=self._snapshot_done, **options
        )
        self._journal = self.engine.journal
        self._changes_since = self._journal.last - self.engine.snapshots.last
        self._connection = self._journal.connection
        outbox.upgrade(self._connection)
        self._tracks = Tracks()
        self._routes: dict[str, DeliveryOptions] = {}
        for id_, given in outbox.routed(self._connection):
            self._route(id_, msgspec.json.decode(given, type=DeliveryOptions))
        self._ids: OrderedDict[str, int] = OrderedDict()
        with_events = "SELECT seq, body FROM journal WHERE changes <> ? ORDER BY seq"
        for first, body in self._connection.execute(with_events, (Changes.ALL,)):
            for seq, record in enumerate(_IDS(body), first):
                if record.kind == "event" and record.id is not None:
                    self._ids[str(record.id)] = seq
        stays = self._connection.execute("SELECT subscription, object, since, seen, score, dwelt FROM stays")
        self._tracks.restore(
            Stored(subscription, msgspec.json.decode(object_), since, seen, score, bool(dwelt))
            for subscription, object_, since, seen, score, dwelt in stays
        )
        self._digests = Digests()
        for period in stored_digests.stored(self._connection):
            self._restore_digest(period)
        self._count()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work."""
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, and close the files."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self.engine.snapshots.stop()
        self.engine.release()
        with self._reader_lock:
            for reader in self._readers:
                reader.close()

    @property
    def problem(self) -> str | None:
        """Why changes are refused; None if they are not."""
        return self._journal.failure

    @property
    def last(self) -> int:
        """The number of the last record that is on disk."""
        return self._journal.last

    # calls of the loop

    def submit(self, command: Command | Publish) -> None:
        """Hand a command to the thread; `UnavailableError` if too many wait."""
        if len(self._queue) >= MAX_PENDING or self._stopping:
            error = UnavailableError(f"{len(self._queue):,} requests wait already; try again later")
            error.retry_after = 1.0
            self._metrics.refused.labels("pending").inc()
            raise error
        self._queue.append(command)
        if not self._wake.is_set():
            self._wake.set()

    async def call(self, run: Callable[..., Any], *given: Any) -> Any:
        """The result of a method of this tenant, run in its thread and, if it changes anything, on disk."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(Command(run, given, lambda result: _finish(future, result)))
        return await future

    async def publish(self, events: Sequence[Incoming], k: int | None) -> list[Taken | MatchwoodError]:
        """Publish events; when this returns they are on disk. One result for each."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(Publish(events, k, lambda result: _finish(future, result)))
        found: list[Taken | MatchwoodError] = await future
        return found

    async def set_scoring(self, name: str) -> None:
        """Score by another function from now on; `ConflictError` if there are subscriptions, which were ranked by the old one."""
        if name != self.engine.scoring:
            await self.call(self.choose_scoring, await asyncio.to_thread(self.engine.prepared_scoring, name))

    def choose_scoring(self, scoring: Scoring) -> None:
        """The command of `set_scoring`."""
        count, known = len(self.engine), self.engine.scoring
        if count and scoring.name != known:
            raise ConflictError(
                f"the {count:,} subscriptions of tenant {self.name!r} are scored by {known!r}; remove them first, or "
                f"make another tenant with {scoring.name!r}"
            )
        self.engine.set_scoring(scoring)

    async def read(self, query: Callable[[Any], Any]) -> Any:
        """The result of a query on what is on disk, in another thread, with a connection of its own."""

        def run() -> Any:
            with self._reading() as journal:
                return query(journal)

        return await asyncio.to_thread(run)

    @contextmanager
    def _reading(self) -> Iterator[Journal]:
        """A connection that only reads; a few are kept for the next time."""
        with self._reader_lock:
            journal = self._readers.pop() if self._readers else None
        if journal is None:
            journal = Journal(self._folder, read_only=True)
        try:
            yield journal
        finally:
            with self._reader_lock:
                kept = len(self._readers) < READERS and not self._stopping
                if kept:
                    self._readers.append(journal)
            if not kept:
                journal.close()

    # the thread

    def _run(self) -> None:
        while True:
            self._wake.wait(self._patience())
            self._wake.clear()
            if self._stopping and not self._queue:
                return
            group: list[Command | Publish] = []
            size = 0
            while self._queue and len(group) < GROUP_COMMANDS and size < GROUP_EVENTS:
                command = self._queue.popleft()
                size += len(command.events) if isinstance(command, Publish) else 1
                group.append(command)
            if self._queue:
                self._wake.set()
            self._commit(group)

    def _patience(self) -> float | None:
        """Seconds until there is something to do without a command."""
        end, due = self._digests.next_end(), self._tracks.next_due()
        ends = [time for time in (end, None if due is None else due / 1e6) if time is not None]
        return min(max(min(ends) - self._now() / 1e6, 0.0), TRIM_SECONDS) if ends else TRIM_SECONDS

    def _now(self) -> int:
        return int(self._base_clock().timestamp() * 1e6)

    def _commit(self, group: list[Command | Publish]) -> None:
        """Run a group of commands in one transaction, and hand their results over."""
        self._happenings: list[Happening] = []
        self._woken: set[str] = set()
        self._records: list[Record] = []
        results: list[tuple[Callable[[Any], None], Any]] = []
        start = time.perf_counter()
        counts, changed = (self._waiting, self._dead), 0
        try:
            with self.engine.at_one_instant() as now:

                def work(connection: Any, first: int) -> Sequence[tuple[Sequence[Record], int]]:
                    self._first, self._time = first, now
                    self._close_digests()
                    if now >= self._forgotten_at + FORGET_MICROSECONDS:
                        self._forgotten_at = now
                        self._forget_expired()
                    self._pass_time()
                    self._run_commands(group, results)
                    if self._records:
                        self.engine.note_state(now)
                    return [(self._records, now)] if self._records else []

                self._journal.transact(work)
        except Exception as error:
            failure = error if isinstance(error, JournalError) else _unexpected(error)
            self._waiting, self._dead = counts
            self._recover(failure)
            results = [(command.done, failure) for command in group]
            self._happenings, self._woken = [], set()
        else:
            changed = changing(self._records)
            if self._records:
                self._metrics.commits.observe(time.perf_counter() - start)
                self._metrics.commit_records.observe(len(self._records))
        self._hand_over(results)
        self._look_after(changed)

    def _recover(self, error: JournalError) -> None:
        """After a failed commit: the engine is ahead of the disk, so read it again; unless the disk is broken."""
        LOG.error("tenant %s: a commit failed: %s", self.name, error)
        if self._journal.failure is not None:
            return
        try:
            self.engine.release()
            self._load()
        except MatchwoodError as second:
            self._journal.failure = str(second)

    def _hand_over(self, results: list[tuple[Callable[[Any], None], Any]]) -> None:
        happenings, woken, last = self._happenings, self._woken, self._journal.last

        def deliver() -> None:
            for done, result in results:
                done(result)
            self.on_commit(happenings, woken, last)

        if (results or happenings or woken) and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(deliver)

    def _run_commands(self, group: list[Command | Publish], results: list[Any]) -> None:
        at = 0
        while at < len(group):
            command = group[at]
            if isinstance(command, Publish):
                batch = [command]
                while at + 1 < len(group) and isinstance(following := group[at + 1], Publish):
                    batch.append(following)
                    at += 1
                answers = self._publish_batch(batch)
                results.extend((one.done, answer) for one, answer in zip(batch, answers, strict=True))
            else:
                try:
                    results.append((command.done, command.run(*command.given)))
                except MatchwoodError as error:
                    if isinstance(error, JournalError) or self.engine.take():
                        raise  # the engine is ahead of what will be on disk
                    results.append((command.done, error))
            at += 1

    # care

    def _look_after(self, changed: int) -> None:
        """Start snapshots and remove what is too old, now and then."""
        self._changes_since += changed
        if self._changes_since >= SNAPSHOT_EVERY:
            self._changes_since = 0
            self.engine.snapshots.start()
        now = time.monotonic()
        if now - self._trimmed_at < TRIM_SECONDS or self._journal.failure is not None:
            return
        self._trimmed_at = now
        try:
            self._trim()
        except Exception as error:
            LOG.warning("tenant %s: old records could not be removed: %s", self.name, error)

    def _trim(self) -> None:
        known = snapshots(self._folder)
        upto = known[min(len(known), 2) - 1][0] if known else 0
        stamp = self._now()
        self._journal.trim(upto, stamp - int(self.limits.retention * 1e6), keep=self.limits.retained)
        with self._connection:
            drop_expired(self._connection, stamp - 60_000_000)
            outbox.drop_payloads(self._connection)
        oldest = self._journal.trimmed
        while self._ids and next(iter(self._ids.values())) <= oldest:
            self._ids.popitem(last=False)

    def _snapshot_done(self, seq: int) -> None:
        prune(self._folder, keep=2)
        self._metrics.snapshot_seq.set(seq)

    async def snapshot(self) -> int:
        """Make a snapshot now, in another process; return the number of its last record."""
        seq = await asyncio.to_thread(snapshot_in_child, self._folder)
        self._snapshot_done(seq)
        return seq

    def consumer_views(self) -> list[ConsumerView]:
        """The consumers and what waits for them."""
        with self._reading() as journal:
            connection = journal.connection
            now = self._now()
            views = []
            for consumer, waiting, flight, dead, oldest in outbox.consumers(connection, now):
                transport: Any
                transport, _, name = consumer.partition(":")
                since = connection.execute(
                    "SELECT time FROM journal WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (oldest,)
                ).get
                lag = max((now - since) / 1e6, 0.0) if waiting and since is not None else 0.0
                views.append(
                    ConsumerView(name=name, transport=transport, waiting=waiting, in_flight=flight, dead=dead, lag=lag)
                )
            return views


def _unexpected(error: Exception) -> JournalError:
    LOG.exception("a group of commands failed", exc_info=error)
    return JournalError("the broker failed to apply the change; nothing of it was kept")


def _finish(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
