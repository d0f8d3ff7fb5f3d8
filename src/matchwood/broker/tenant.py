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
import os
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from matchwood.broker import outbox
from matchwood.broker.digest import ClosedDigest, Digests
from matchwood.broker.shedding import Pressure
from matchwood.broker.types import ConsumerView, DeliveryOptions, DigestHit, Rejected, TenantLimits
from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.durable import DurableEngine
from matchwood.engine.engine import Engine
from matchwood.engine.journal import Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.records import Digested, Happened, Record, Subscribed, Updated, instant_of
from matchwood.engine.recovery import snapshots
from matchwood.engine.snapshotting import Snapshotting, prune, snapshot_in_child
from matchwood.engine.tables import drop_expired, note, note_state, state_of, stored_subscription
from matchwood.errors import (
    ConflictError,
    JournalError,
    MatchwoodError,
    QuotaError,
    RequestError,
    TooLargeError,
    UnavailableError,
    UnknownSubscriptionError,
)
from matchwood.lang.event import Event
from matchwood.lang.limits import Limits

if TYPE_CHECKING:
    from matchwood.broker.metrics import Metrics

LOG = logging.getLogger("matchwood.broker")
EXPRESSION_BYTES = 4096
GROUP_COMMANDS = 512
GROUP_EVENTS = 4000
MAX_PENDING = 20_000
"""Commands that may wait; further ones are refused, to be repeated later."""
SNAPSHOT_EVERY = 100_000
"""Changes of subscriptions between two snapshots."""
TRIM_SECONDS = 5.0
READERS = 8
"""Connections for reading that are kept."""
LIMITS = Limits(max_length=EXPRESSION_BYTES)


class Incoming(NamedTuple):
    """An event as it arrived: values for the engine, and the JSON that is kept."""

    values: dict[str, Any]
    data: bytes
    id: str | None = None
    until: int | None = None
    trace: str | None = None


class Taken(NamedTuple):
    """What became of an event. `hits` are pairs of a subscription's id and the score, best first."""

    seq: int
    id: str | None
    hits: list[tuple[str, float]]
    duplicate: bool = False
    truncated: bool = False


class Happening(NamedTuple):
    """A record that streams deliver."""

    seq: int
    data: bytes
    event_id: str | None
    hits: list[tuple[str, float]]
    digest: outbox.StoredDigest | None = None
    trace: str | None = None


class Conditions(NamedTuple):
    """What a change of a subscription depends on: its revision, or that there is none yet."""

    revision: int | None = None
    absent: bool = False


class _Collected:
    """Stands in for the group commit of a durable engine: records wait here for the transaction of the tenant."""

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

    def take(self) -> list[Record]:
        records, self.records = self.records, []
        return records


class _WithId(msgspec.Struct):
    """What is read of a record to find the ids of events again."""

    kind: str
    id: str | int | None = None


_IDS = msgspec.json.Decoder(list[_WithId]).decode


class _Command(NamedTuple):
    run: Callable[..., Any]
    given: tuple[Any, ...]
    done: Callable[[Any], None]
    """Called in the loop with the result or the error."""


class _Publish(NamedTuple):
    events: Sequence[Incoming]
    k: int | None
    done: Callable[[Any], None]


class Tenant:
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
        self._queue: deque[_Command | _Publish] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reader_lock = threading.Lock()
        self._trimmed_at = 0.0
        self._load()
        self._readers: list[Journal] = []
        self._thread = threading.Thread(target=self._run, name=f"matchwood tenant {name}", daemon=True)

    # life

    def _load(self) -> None:
        """Read everything from disk."""
        options: dict[str, Any] = {"ids": "str", "clock": self._base_clock, "limits": LIMITS, "index": self._index}
        engine = DurableEngine._open(self._folder, snapshot_every=None, tables=outbox.TABLES, **options)
        self._journal = engine._group.journal
        engine._group = self._collected = _Collected(self._journal)  # type: ignore[assignment]
        engine._snapshotting = Snapshotting(self._folder, None, self._snapshot_done)
        self.engine = engine
        self._changes_since = self._journal.last - engine._snapshotting.last
        self._connection = self._journal.connection
        self._routes: dict[str, DeliveryOptions] = {}
        about = "json_extract(body, '$.record.about')"
        for id_, given in self._connection.execute(f"SELECT id, {about} FROM subscriptions WHERE {about} IS NOT NULL"):
            self._route(id_, msgspec.json.decode(given, type=DeliveryOptions))
        self._ids: OrderedDict[str, int] = OrderedDict()
        for first, body in self._connection.execute("SELECT seq, body FROM journal ORDER BY seq"):
            for seq, record in enumerate(_IDS(body), first):
                if record.kind == "event" and record.id is not None:
                    self._ids[str(record.id)] = seq
        self._digests = Digests()
        for subscription, seq, score, at in self._connection.execute("SELECT * FROM digests ORDER BY seq"):
            self._add_digest(subscription, seq, score, at)
        self._waiting = int(self._connection.execute("SELECT count(*) FROM outbox").get)

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
        self.engine._snapshotting.stop()
        self._close_engine()
        with self._reader_lock:
            for reader in self._readers:
                reader.close()

    def _close_engine(self) -> None:
        self._journal.close()
        if self.engine._lock_handle is not None:
            os.close(self.engine._lock_handle)
            self.engine._lock_handle = None

    @property
    def problem(self) -> str | None:
        """Why changes are refused; None if they are not."""
        return self._journal.failure

    @property
    def last(self) -> int:
        """The number of the last record that is on disk."""
        return self._journal.last

    # calls of the loop

    def submit(self, command: _Command | _Publish) -> None:
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
        self.submit(_Command(run, given, lambda result: _finish(future, result)))
        return await future

    async def publish(self, events: Sequence[Incoming], k: int | None) -> list[Taken | MatchwoodError]:
        """Publish events; when this returns they are on disk. One result for each."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(_Publish(events, k, lambda result: _finish(future, result)))
        found: list[Taken | MatchwoodError] = await future
        return found

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
            group: list[_Command | _Publish] = []
            size = 0
            while self._queue and len(group) < GROUP_COMMANDS and size < GROUP_EVENTS:
                command = self._queue.popleft()
                size += len(command.events) if isinstance(command, _Publish) else 1
                group.append(command)
            if self._queue:
                self._wake.set()
            self._commit(group)

    def _patience(self) -> float | None:
        """Seconds until there is something to do without a command."""
        end = self._digests.next_end()
        soon = TRIM_SECONDS
        return soon if end is None else min(max(end - self._now() / 1e6, 0.0), soon)

    def _now(self) -> int:
        return int(self._base_clock().timestamp() * 1e6)

    def _commit(self, group: list[_Command | _Publish]) -> None:
        """Run a group of commands in one transaction, and hand their results over."""
        self._happenings: list[Happening] = []
        self._woken: set[str] = set()
        self._records: list[Record] = []
        results: list[tuple[Callable[[Any], None], Any]] = []
        clock = self.engine._clock
        assert isinstance(clock, RecordClock)
        start = time.perf_counter()
        waiting, changed = self._waiting, 0
        try:
            with clock.frozen() as now:

                def work(connection: Any, first: int) -> Sequence[tuple[Sequence[Record], int]]:
                    self._first, self._time = first, now
                    self._close_digests()
                    self._run_commands(group, results)
                    if self._records:
                        note_state(connection, state_of(self.engine, now), self._collected.schema)
                        self._collected.schema = None
                    return [(self._records, now)] if self._records else []

                self._journal.transact(work)
        except Exception as error:
            failure = error if isinstance(error, JournalError) else _unexpected(error)
            self._waiting = waiting
            self._recover(failure)
            results = [(command.done, failure) for command in group]
            self._happenings, self._woken = [], set()
        else:
            changed = sum(not isinstance(record, Happened | Digested) for record in self._records)
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
            self._close_engine()
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

    def _run_commands(self, group: list[_Command | _Publish], results: list[Any]) -> None:
        at = 0
        while at < len(group):
            command = group[at]
            if isinstance(command, _Publish):
                batch = [command]
                while at + 1 < len(group) and isinstance(following := group[at + 1], _Publish):
                    batch.append(following)
                    at += 1
                answers = self._publish_batch(batch)
                results.extend((one.done, answer) for one, answer in zip(batch, answers, strict=True))
            else:
                try:
                    results.append((command.done, command.run(*command.given)))
                except MatchwoodError as error:
                    if isinstance(error, JournalError) or self._collected.take():
                        raise  # the engine is ahead of what will be on disk
                    results.append((command.done, error))
            at += 1

    def _noted(self, records: list[Record]) -> int:
        """Take records into the group; return the number of the first."""
        first = self._first + len(self._records)
        self._records.extend(records)
        note(self._connection, first, records)
        return first

    # events

    def _publish_batch(self, batch: list[_Publish]) -> list[list[Taken | MatchwoodError]]:
        """Match the events of several requests at once; record, route and answer each."""
        answers: list[list[Any]] = [[None] * len(command.events) for command in batch]
        fresh: list[tuple[int, int, Incoming]] = []  # request, position, event
        claimed: dict[str, tuple[int, int]] = {}
        repeated: list[tuple[int, int, str]] = []
        for request, command in enumerate(batch):
            for position, event in enumerate(command.events):
                if event.id is not None and (event.id in self._ids or event.id in claimed):
                    repeated.append((request, position, event.id))
                    continue
                if event.id is not None:
                    claimed[event.id] = request, position
                fresh.append((request, position, event))
        if fresh:
            self._match_fresh(batch, fresh, answers)
        for request, position, id_ in repeated:
            seq = self._ids.get(id_)
            if seq is None:  # the first one of the batch was refused, and so is this one
                first, second = claimed[id_]
                answers[request][position] = answers[first][second]
            else:
                answers[request][position] = Taken(seq, id_, [], duplicate=True)
        counts = self._metrics.events
        counts.labels("accepted").inc(
            sum(isinstance(one, Taken) and not one.duplicate for all_ in answers for one in all_)
        )
        if repeated:
            counts.labels("duplicate").inc(len(repeated))
        return answers

    def _match_fresh(
        self, batch: list[_Publish], fresh: list[tuple[int, int, Incoming]], answers: list[list[Any]]
    ) -> None:
        limit = self.limits.hits
        wanted = [min(command.k or limit, limit) for command in batch]
        most = limit + 1 if any((command.k or limit + 1) > limit for command in batch) else max(wanted)
        start = time.perf_counter()
        found = Engine.top_k_many(self.engine, [event.values for _, _, event in fresh], most)
        self._metrics.match_seconds.observe(time.perf_counter() - start)
        offsets, pairs = found.offsets.tolist(), list(zip(found.ids.tolist(), found.scores.tolist(), strict=True))
        rejected = found.rejected
        if rejected:
            self._metrics.events.labels("rejected").inc(len(rejected))
        records: list[Record] = []
        live: list[tuple[Incoming, int]] = []
        base = self._first + len(self._records)
        now = self._time
        room = self.limits.live - len(self.engine._live)
        for at, (request, position, event) in enumerate(fresh):
            if at in rejected:
                answers[request][position] = _unnumbered(rejected[at], at, position)
                continue
            if event.until is not None and event.until > now:
                if len(live) >= room:
                    answers[request][position] = QuotaError(
                        f"the tenant has {self.limits.live:,} live events, its limit; let some expire, or publish without `until`"
                    )
                    continue
                live.append((event, base + len(records)))
            hits = pairs[offsets[at] : offsets[at + 1]]
            seq = base + len(records)
            truncated = (batch[request].k or limit + 1) > limit and len(hits) > limit
            if len(hits) > wanted[request]:
                hits = hits[: wanted[request]]
            records.append(
                Happened(data=msgspec.Raw(event.data), id=event.id, until=event.until, hits=hits, trace=event.trace)
            )
            if event.id is not None:
                self._ids[event.id] = seq
            if hits:
                truncated |= self._send(seq, event, hits)
            answers[request][position] = Taken(seq, event.id, hits, truncated=truncated)
        self._records.extend(records)
        if live:
            self._keep(live)
        self._metrics.matches.inc(len(pairs))

    def _send(self, seq: int, event: Incoming, hits: list[tuple[str, float]]) -> bool:
        """Route the matches of an event: to streams, the outbox and digests. True if some were shed."""
        routes = self._routes
        if not routes:
            self._happenings.append(Happening(seq, event.data, event.id, hits, trace=event.trace))
            return False
        streamed: list[tuple[str, float]] = []
        rows: list[tuple[str, str, int, float, str | None]] = []
        digested = False
        for subscription, score in hits:
            options = routes.get(subscription)
            if options is None:
                streamed.append((subscription, score))
            elif options.digest is not None:
                self._connection.execute(
                    "INSERT INTO digests VALUES(?, ?, ?, ?)", (subscription, seq, score, self._time)
                )
                self._add_digest(subscription, seq, score, self._time)
                digested = True
            else:
                if options.type != "none":
                    streamed.append((subscription, score))
                consumer = consumer_of(options)
                if consumer is not None:
                    rows.append((consumer, subscription, seq, score, None))
        shed = self._put(rows, seq)
        if rows or digested:
            outbox.put_payloads(self._connection, [(seq, event.data.decode(), event.id, event.trace)])
        if streamed:
            self._happenings.append(Happening(seq, event.data, event.id, streamed, trace=event.trace))
        return shed

    def _put(self, rows: list[tuple[str, str, int, float, str | None]], seq: int) -> bool:
        """Put deliveries into the outbox, the best if there is no room for all. True if some were shed."""
        if not rows:
            return False
        most = self.limits.waiting
        room = min(Pressure(low=most * 4 // 5, high=most).room(self._waiting, len(rows)), max(most - self._waiting, 0))
        shed = room < len(rows)
        if shed:  # rows are in the order of hits: best first
            left_out: dict[str, list[float]] = {}
            for consumer, _, _, score, _ in rows[room:]:
                left_out.setdefault(consumer, []).append(score)
            for consumer, scores in left_out.items():
                outbox.note_shed(self._connection, consumer, len(scores), max(scores), seq)
                self._metrics.shed.labels("outbox").inc(len(scores))
            del rows[room:]
        outbox.put(self._connection, rows)
        self._waiting += len(rows)
        self._woken.update(row[0] for row in rows)
        return shed

    def _keep(self, live: list[tuple[Incoming, int]]) -> None:
        events = [Event(event.values, id=seq) for event, seq in live]
        until = [instant_of(event.until) for event, _ in live]
        self.engine.publish_many(events, until=until, k=1, replace=True)
        self._noted(self._collected.take())

    def retract(self, seq: int) -> None:
        """End a live event."""
        self.engine.retract(seq)
        self._noted(self._collected.take())

    # digests

    def _add_digest(self, subscription: str, seq: int, score: float, at: int) -> None:
        options = self._routes.get(subscription)
        if options is not None and options.digest is not None:
            digest = options.digest
            self._digests.add(subscription, seq, score, max=digest.max, period=digest.period, now=at / 1e6)

    def _close_digests(self) -> None:
        """Deliver the digests whose periods have ended."""
        for closed in self._digests.close(self._time / 1e6):
            options = self._routes.get(closed.subscription)
            if options is not None and closed.hits:
                self._deliver_digest(closed, options)
            self._connection.execute("DELETE FROM digests WHERE subscription = ?", (closed.subscription,))

    def _deliver_digest(self, closed: ClosedDigest, options: DeliveryOptions) -> None:
        hits = []
        for seq, score in closed.hits:
            found = self._connection.execute("SELECT data, event_id FROM payloads WHERE seq = ?", (seq,)).get
            data, event_id = found or ("null", None)
            hits.append(DigestHit(seq=seq, score=score, event=msgspec.Raw(data.encode()), event_id=event_id))
        stored = outbox.StoredDigest(hits, closed.left_out)
        pairs = [(hit.seq, hit.score) for hit in closed.hits]
        record = Digested(subscription=closed.subscription, hits=pairs, left_out=closed.left_out)
        seq = self._noted([record])
        best = closed.hits[0].score
        consumer = consumer_of(options)
        if consumer is not None:
            row = (consumer, closed.subscription, seq, best, msgspec.json.encode(stored).decode())
            self._put([row], seq)
        self._happenings.append(Happening(seq, b"null", None, [(closed.subscription, best)], stored))

    # subscriptions

    def _route(self, id_: str, options: DeliveryOptions) -> None:
        if options == DeliveryOptions():
            self._routes.pop(id_, None)
        else:
            self._routes[id_] = options

    def subscribe(self, given: dict[str, Any], options: DeliveryOptions) -> tuple[str, int, list[tuple[int, float]]]:
        """Add a subscription; return its id, revision, and the live events that match."""
        self._check_room(1)
        self._check_delivery(options)
        made = self.engine.subscribe(**given)
        records = self._collected.take()
        self._set_about(records, options)
        revision = self._noted(records)
        self._route(str(made), options)
        self._metrics.changes.inc()
        return str(made), revision, [(hit.event, hit.score) for hit in made.live]

    def subscribe_many(
        self, several: list[tuple[dict[str, Any], DeliveryOptions] | MatchwoodError]
    ) -> tuple[list[str | None], int, list[Rejected]]:
        """Add the subscriptions that can be used; return ids, the last revision, and what was rejected."""
        ids: list[str | None] = []
        try:
            at_once = self._subscribe_at_once(several)
        except MatchwoodError as error:  # one of them is refused: find out which
            if isinstance(error, JournalError) or self._collected.take():
                raise
            at_once = None
        if at_once is not None:
            return at_once, self._first + len(self._records) - 1, []
        rejected: list[Rejected] = []
        for position, one in enumerate(several):
            try:
                if isinstance(one, MatchwoodError):
                    raise one
                ids.append(self.subscribe(*one)[0])
            except MatchwoodError as error:
                if isinstance(error, JournalError) or self._collected.take():
                    raise
                ids.append(None)
                rejected.append(Rejected(position=position, problem=str(error)))
        return ids, self._first + len(self._records) - 1, rejected

    def _subscribe_at_once(self, several: list[Any]) -> list[str | None] | None:
        """Add all subscriptions by one insert and return their ids; None if they have to be looked at one by one."""
        if len(several) < 2 or any(isinstance(one, MatchwoodError) or "id" not in one[0] for one in several):
            return None
        self._check_room(len(several))
        for options in {id(options): options for _, options in several}.values():
            self._check_delivery(options)
        names = ("priority", "place", "radius", "until", "metadata")
        columns = {name: [given[name] for given, _ in several] for name in names}
        made = self.engine.subscribe_many(
            [given["expression"] for given, _ in several], ids=[given["id"] for given, _ in several], **columns
        )
        records = self._collected.take()
        for record, (given, options) in zip(records, several, strict=True):
            self._set_about([record], options)
            self._route(given["id"], options)
        self._noted(records)
        self._metrics.changes.inc(len(several))
        return [str(id_) for id_ in made.tolist()]

    def replace(
        self, id_: str, given: dict[str, Any], options: DeliveryOptions, conditions: Conditions
    ) -> tuple[bool, int, list[tuple[int, float]]]:
        """Add or replace a subscription; return whether it is new, its revision, and the live events that match a new one."""
        if id_ not in self.engine:
            if conditions.revision is not None:
                raise _changed(f"subscription {id_!r} is not there")
            _, revision, live = self.subscribe({**given, "id": id_}, options)
            return True, revision, live
        self._check(id_, conditions)
        self._check_delivery(options)
        self.engine.update_many({id_: given})
        return False, self._changed(id_, options), []

    def change(self, id_: str, changes: dict[str, Any], conditions: Conditions) -> int:
        """Change a subscription; return its revision. `changes` are those of `update` and `delivery`, or `moved`, or `paused`."""
        self._check(id_, conditions)
        options, paused, moved = (changes.pop(name, None) for name in ("delivery", "paused", "moved"))
        if (bool(changes) or options is not None) + (paused is not None) + (moved is not None) > 1:
            raise RequestError("to pause or to move a subscription takes a request of its own")
        if options is not None:
            self._check_delivery(options)
        if moved is not None:
            self.engine.move(id_, moved)
        elif paused is not None:
            (self.engine.pause if paused else self.engine.resume)(id_)
        else:
            self.engine.update_many({id_: changes})
        return self._changed(id_, options)

    def _changed(self, id_: str, options: DeliveryOptions | None) -> int:
        records = self._collected.take()
        if options is not None:
            self._set_about(records, options)
            self._route(id_, options)
        first = self._noted(records)
        self._metrics.changes.inc()
        return first + max(len(records), 1) - 1

    def unsubscribe(self, id_: str, conditions: Conditions) -> None:
        """Remove a subscription. What waits for it in the outbox is still delivered."""
        self._check(id_, conditions)
        self.engine.unsubscribe(id_)
        self._noted(self._collected.take())
        self._routes.pop(id_, None)
        self._digests.remove(id_)
        self._connection.execute("DELETE FROM digests WHERE subscription = ?", (id_,))
        self._metrics.changes.inc()

    def _set_about(self, records: list[Record], options: DeliveryOptions) -> None:
        for record in records:
            if isinstance(record, Subscribed | Updated):
                record.about = None if options == DeliveryOptions() else msgspec.to_builtins(options)

    def _check(self, id_: str, conditions: Conditions) -> None:
        if id_ not in self.engine:
            raise UnknownSubscriptionError(f"subscription {id_!r} is not there")
        if conditions.absent:
            raise _changed(f"subscription {id_!r} exists already")
        if conditions.revision is not None:
            found = self._connection.execute("SELECT revision FROM subscriptions WHERE id = ?", (id_,)).get
            if found != conditions.revision:
                raise _changed(f"subscription {id_!r} has revision {found}, not {conditions.revision}; read it again")

    def _check_room(self, count: int) -> None:
        if len(self.engine) + count > self.limits.subscriptions:
            self._metrics.refused.labels("subscriptions").inc()
            raise QuotaError(f"the tenant has {self.limits.subscriptions:,} subscriptions, its limit; remove some")

    def _check_delivery(self, options: DeliveryOptions) -> None:
        needed = {"webhook": options.hook, "kafka": options.topic}.get(options.type, "")
        if needed is None:
            raise RequestError(
                f"delivery {options.type!r} needs {'a hook' if options.type == 'webhook' else 'a topic'}"
            )
        if options.type == "kafka":
            self._check_topic(options.topic or "")
        if (
            options.type == "webhook"
            and not self._connection.execute("SELECT 1 FROM hooks WHERE name = ?", (options.hook,)).get
        ):
            raise RequestError(f"there is no hook {options.hook!r}; make it first: PUT /v1/hooks/{options.hook}")

    def _check_topic(self, topic: str) -> None:
        if not self.kafka:
            raise RequestError("this broker has no Kafka; start it with --kafka-servers")
        if self.name != "default" and not topic.startswith(f"{self.name}."):
            raise RequestError(f"topic {topic!r}: a topic of this tenant begins with {self.name!r} and a dot")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
            raise RequestError(f"topic {topic!r}: expected 1 to 249 letters, digits, dots, underscores or hyphens")

    def declare(self, attributes: dict[str, str], closed: bool) -> None:
        """Give attributes types."""
        self.engine.declare(attributes, closed=closed)
        self._noted(self._collected.take())

    def stored(self, id_: str) -> tuple[Any, int] | None:
        """A subscription as it is stored, and its revision. In a transaction, or by `read`."""
        return stored(self._connection, id_)

    # consumers

    def pull(self, consumer: str, limit: int, seconds: float) -> tuple[list[outbox.Entry], Any]:
        """Lease deliveries of a consumer for so many seconds; and what was shed since the last call."""
        until = self._time + int(seconds * 1e6)
        entries = outbox.lease(self._connection, consumer, self._time, until, limit)
        spent = [entry for entry in entries if entry.attempts > outbox.MAX_ATTEMPTS]
        if spent:
            reason = f"not acknowledged after {outbox.MAX_ATTEMPTS} deliveries"
            outbox.bury(self._connection, [entry.number for entry in spent], reason, self._time)
            self._waiting -= len(spent)
            self._metrics.deliveries.labels(transport_of(consumer), "dead").inc(len(spent))
        good = [entry for entry in entries if entry.attempts <= outbox.MAX_ATTEMPTS]
        repeated = sum(entry.attempts > 1 for entry in good)
        counts = self._metrics.deliveries
        counts.labels(transport_of(consumer), "delivered").inc(len(good) - repeated)
        if repeated:
            counts.labels(transport_of(consumer), "repeated").inc(repeated)
        return good, outbox.take_shed(self._connection, consumer)

    def acknowledge(self, consumer: str, ids: Iterable[str]) -> int:
        """Settle deliveries; return how many waited."""
        count = outbox.settle(self._connection, consumer, map(split_id, ids))
        self._waiting -= count
        self._metrics.deliveries.labels(transport_of(consumer), "acknowledged").inc(count)
        return count

    def give_back(self, consumer: str, ids: Iterable[str], delay: float | None) -> int:
        """Give deliveries back; return how many waited. Without a delay it grows with the attempts."""
        count = 0
        for subscription, seq in map(split_id, ids):
            seconds = delay
            if seconds is None:
                sql = "SELECT attempts FROM outbox WHERE consumer = ? AND seq = ? AND subscription = ?"
                attempts = self._connection.execute(sql, (consumer, seq, subscription)).get or 0
                seconds = min(2.0 ** int(attempts), 600.0)
            count += outbox.postpone(self._connection, consumer, subscription, seq, self._time + int(seconds * 1e6))
        return count

    def finish(self, consumer: str, entry: outbox.Entry, verdict: str, reason: str, delay: float | None) -> None:
        """Note what became of an attempt of a sender: "delivered", "dead" or "retry"."""
        if verdict == "delivered":
            self._waiting -= outbox.settle(self._connection, consumer, [(entry.subscription, entry.seq)])
        elif verdict == "dead":
            outbox.bury(self._connection, [entry.number], reason, self._time)
            self._waiting -= 1
        else:
            due = self._time + int((delay or 0.0) * 1e6)
            outbox.postpone(self._connection, consumer, entry.subscription, entry.seq, due)
        if verdict == "postponed":  # no attempt was made
            self._connection.execute("UPDATE outbox SET attempts = attempts - 1 WHERE number = ?", (entry.number,))

    def revive(self, numbers: list[int] | None, consumer: str | None) -> int:
        """Deliver dead letters again."""
        count = outbox.revive(self._connection, numbers, consumer)
        self._waiting = int(self._connection.execute("SELECT count(*) FROM outbox").get)
        self._woken.update(row[0] for row in self._connection.execute("SELECT DISTINCT consumer FROM outbox"))
        return count

    def discard(self, numbers: list[int] | None, consumer: str | None) -> int:
        """Discard dead letters."""
        return outbox.discard(self._connection, numbers, consumer)

    def run_sql(self, work: Callable[[Any], Any]) -> Any:
        """Anything else on the tables of the broker, in the transaction of the group."""
        return work(self._connection)

    # care

    def _look_after(self, changed: int) -> None:
        """Start snapshots and remove what is too old, now and then."""
        self._changes_since += changed
        if self._changes_since >= SNAPSHOT_EVERY:
            self._changes_since = 0
            self.engine._snapshotting.start()
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

    def describe(self, id_: str) -> Any:
        """The metadata of a subscription, None if it has none or is gone."""
        subscriptions = self.engine._subscriptions
        assert subscriptions.names is not None
        number = subscriptions.names.number(id_)
        return None if number is None else subscriptions.metadata.get(number)

    def route_of(self, id_: str) -> DeliveryOptions | None:
        """How matches of a subscription are delivered, if not to streams."""
        return self._routes.get(id_)


def stored(connection: Any, id_: str) -> tuple[Any, int] | None:
    """A subscription as it is stored, and its revision."""
    found = stored_subscription(connection, id_)
    if found is None:
        return None
    return found, connection.execute("SELECT revision FROM subscriptions WHERE id = ?", (id_,)).get


def consumer_of(options: DeliveryOptions) -> str | None:
    """The consumer in the outbox that deliveries go to; None for streams alone."""
    if options.type == "webhook":
        return f"webhook:{options.hook}"
    if options.type == "kafka":
        return f"kafka:{options.topic}"
    return f"stream:{options.consumer}" if options.type == "stream" and options.consumer else None


def transport_of(consumer: str) -> str:
    """The label of a consumer in the metrics."""
    transport = consumer.partition(":")[0]
    return "pull" if transport == "stream" else transport


def split_id(id_: str) -> tuple[str, int]:
    """Subscription and seq of a delivery id."""
    subscription, _, seq = id_.rpartition("@")
    if not seq.isdigit() or not subscription or len(seq) > 18:
        raise RequestError(f"expected a delivery id SUBSCRIPTION@SEQ, got {id_[:100]!r}")
    return subscription, int(seq)


def instant_text(microseconds: int | None) -> str | None:
    """An instant as ISO 8601 text."""
    moment: datetime | None = instant_of(microseconds)
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def check_expression(expression: object) -> None:
    """Refuse an expression that is longer than a stranger's may be."""
    size = len(expression.encode()) if isinstance(expression, str) else len(msgspec.json.encode(expression))
    if size > EXPRESSION_BYTES:
        raise TooLargeError(
            f"the expression has {size:,} bytes, the limit is {EXPRESSION_BYTES:,}; split the subscription"
        )


def _unnumbered(error: MatchwoodError, at: int, position: int) -> MatchwoodError:
    """The error of an event with its position in the request instead of that in the group."""
    message = str(error.args[0]).replace(f"event {at}:", f"event {position}:", 1) if error.args else ""
    error.args = (message, *error.args[1:])
    return error


def _changed(message: str) -> ConflictError:
    error = ConflictError(message)
    error.status = 412
    return error


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
