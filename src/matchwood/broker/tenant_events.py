"""Events of a tenant: matched in batches, recorded, and routed to streams, the outbox and digests."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from matchwood.broker import outbox, stored_digests
from matchwood.broker.commands import Happening, Incoming, Publish, Taken, consumer_of, notice_view
from matchwood.broker.digest import ClosedDigest
from matchwood.broker.digest import DigestHit as BestHit
from matchwood.broker.log import happening_of
from matchwood.broker.shedding import Pressure
from matchwood.broker.tenant_core import TenantCore
from matchwood.broker.tracks import Key
from matchwood.broker.tracks import Moved as MovedObjects
from matchwood.broker.types import DeliveryOptions, Digest, DigestHit
from matchwood.engine.engine import Engine
from matchwood.engine.records import Digested, Happened, Notice, Record, Stayed, instant_of
from matchwood.errors import MatchwoodError, QuotaError
from matchwood.lang.event import Event

_ENCODE = msgspec.json.Encoder().encode


class TenantEvents(TenantCore):
    """Methods of the tenant's thread."""

    def _publish_batch(self, batch: list[Publish]) -> list[list[Taken | MatchwoodError]]:
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
        if repeated:
            self._metrics.events.labels("duplicate").inc(len(repeated))
        return answers

    def _match_fresh(
        self, batch: list[Publish], fresh: list[tuple[int, int, Incoming]], answers: list[list[Any]]
    ) -> None:
        limit = self.limits.hits
        wanted = [min(command.k or limit, limit) for command in batch]
        cut = [(command.k or limit + 1) > limit for command in batch]  # is it the limit that cuts the hits off?
        most = limit + 1 if any(cut) else max(wanted)
        start = time.perf_counter()
        values = [event.values for _, _, event in fresh]
        objects = [self._tracks.objects(each) for each in values]
        if any(objects):  # whether an object is inside does not depend on how many subscriptions are delivered to
            found = Engine.match_many(self.engine, values)
        else:
            found = Engine.top_k_many(self.engine, values, most)
        self._metrics.match_seconds.observe(time.perf_counter() - start)
        offsets, pairs = found.offsets.tolist(), list(zip(found.ids.tolist(), found.scores.tolist(), strict=True))
        rejected = found.rejected
        if rejected:
            self._metrics.events.labels("rejected").inc(len(rejected))
        records: list[Record] = []
        live: list[tuple[Incoming, int]] = []
        base = self._first + len(self._records)
        now = self._time
        room = self.limits.live - self.engine.live_count
        for at, (request, position, event) in enumerate(fresh):
            if at in rejected:
                answers[request][position] = _unnumbered(rejected[at], at, position)
                continue
            is_live = event.until is not None and event.until > now
            if is_live and len(live) >= room:
                answers[request][position] = QuotaError(
                    f"the tenant has {self.limits.live:,} live events, its limit; let some expire, or publish without `until`"
                )
                continue
            hits = pairs[offsets[at] : offsets[at + 1]]
            notices: list[Notice] = []
            if objects[at]:
                told = self._tracked(objects[at], dict(hits))
                if isinstance(told, QuotaError):
                    answers[request][position] = told
                    continue
                notices = told
            seq = base + len(records)
            if is_live:
                live.append((event, seq))
            truncated = cut[request] and len(hits) > limit
            if len(hits) > wanted[request]:
                hits = hits[: wanted[request]]
            data = msgspec.Raw(event.data)
            record = Happened(data=data, id=event.id, until=event.until, hits=hits, trace=event.trace, notices=notices)
            records.append(record)
            if event.id is not None:
                self._ids[event.id] = seq
            if notices:
                truncated |= self._send(happening_of(seq, record))
            elif hits:
                truncated |= self._send(Happening(seq, event.data, event.id, hits, trace=event.trace))
            answers[request][position] = Taken(seq, event.id, hits, truncated=truncated)
        self._records.extend(records)
        if live:
            self._keep(live)
        self._metrics.events.labels("accepted").inc(len(records))
        self._metrics.matches.inc(len(pairs))

    def _send(self, happening: Happening) -> bool:
        """Route the matches of an event: to streams, the outbox and digests. True if some were shed."""
        routes = self._routes
        if not routes:
            self._happenings.append(happening)
            return False
        seq, notices = happening.seq, happening.notices
        streamed: list[tuple[str, float]] = []
        rows: list[tuple[str, str, int, float, str | None]] = []
        digested = False
        for subscription, score in happening.hits:
            options = routes.get(subscription)
            if options is None:
                streamed.append((subscription, score))
            elif options.digest is not None:
                digested |= self._add_digest(subscription, BestHit(seq, score), options.digest)
            elif options.track is None or subscription in notices:
                if options.type != "none":
                    streamed.append((subscription, score))
                consumer = consumer_of(options)
                if consumer is not None:
                    notice = notices.get(subscription)
                    stored = None if notice is None else outbox.StoredDigest(track=notice_view(notice))
                    extra = None if stored is None else msgspec.json.encode(stored).decode()
                    rows.append((consumer, subscription, seq, score, extra))
        shed = self._put(rows, seq)
        if (rows or digested) and happening.data != b"null":
            payload = (seq, happening.data.decode(), happening.event_id, happening.trace)
            outbox.put_payloads(self._connection, [payload])
        if streamed:
            self._happenings.append(msgspec.structs.replace(happening, hits=streamed))
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
        self._noted(self.engine.take())

    def retract(self, seq: int) -> None:
        """End a live event."""
        self.engine.retract(seq)
        self._noted(self.engine.take())

    # tracks

    def _tracked(self, objects: list[Key], matched: dict[str, float]) -> list[Notice] | QuotaError:
        """What an event with these matches changes for the objects that it names; an error if too many would be inside."""
        entering = sum(self._tracks.entering(key, matched) for key in objects)
        if entering and len(self._tracks) + entering > self.limits.stays:
            return QuotaError(
                f"the tenant has {len(self._tracks):,} objects inside subscriptions, near its limit of {self.limits.stays:,}"
            )
        return [notice for key in objects for notice in self._move(key, matched)]

    def _move(self, key: Key, matched: dict[str, float]) -> list[Notice]:
        """What an event changes for its object."""
        for subscription in self._tracks.leaving(key, matched):
            if subscription not in self.engine:  # it has expired
                self._clear_stays(subscription)
        return self._kept_stays(self._tracks.move(key, matched, self._time))

    def _pass_time(self) -> None:
        """Tell of stays that time alone has changed."""
        for moved in self._tracks.pass_time(self._time):
            for notice in self._kept_stays(moved):
                if notice.subscription in self.engine:
                    seq = self._noted([Stayed(notice=notice)])
                    hits = [(notice.subscription, notice.score)]
                    self._send(Happening(seq, b"null", None, hits, notices={notice.subscription: notice}))

    def _forget_stays(self, id_: str) -> None:
        """End the stays of a subscription that has expired, before another one of its id begins."""
        if id_ in self._tracks:
            self._clear_stays(id_)

    def _clear_stays(self, id_: str) -> None:
        """End the stays of a subscription without notices."""
        self._tracks.clear(id_)
        self._connection.execute("DELETE FROM stays WHERE subscription = ?", (id_,))

    def _kept_stays(self, moved: MovedObjects) -> list[Notice]:
        """Store what has become of stays; return the notices."""
        connection = self._connection
        if moved.kept:
            rows = [(one.subscription, _ENCODE(one.object).decode(), *one[2:]) for one in moved.kept]
            connection.executemany("INSERT OR REPLACE INTO stays VALUES(?, ?, ?, ?, ?, ?)", rows)
        if moved.ended:
            gone = [(subscription, _ENCODE(object_).decode()) for subscription, object_ in moved.ended]
            connection.executemany("DELETE FROM stays WHERE subscription = ? AND object = ?", gone)
        return moved.notices

    # digests

    def _add_digest(self, subscription: str, hit: BestHit, asked: Digest) -> bool:
        """Take a match into the digest of its period; is it among the best so far?"""
        now = self._time / 1e6
        left_out = self._digests.add(subscription, hit.seq, hit.score, max=asked.max, period=asked.period, now=now)
        return stored_digests.add(self._connection, subscription, hit, self._time, left_out)

    def _restore_digest(self, period: stored_digests.StoredPeriod) -> None:
        options = self._routes.get(period.subscription)
        if options is None or options.digest is None:
            return
        most, seconds = options.digest.max, options.digest.period
        opened, count = period.opened / 1e6, period.count
        self._digests.restore(period.subscription, period.hits, count=count, max=most, period=seconds, opened=opened)

    def _close_digests(self) -> None:
        """Deliver the digests whose periods have ended."""
        self._deliver_digests(self._digests.close(self._time / 1e6))

    def _end_digest(self, id_: str) -> None:
        """Deliver what the open digest of a subscription has, before it is delivered otherwise, or has expired."""
        self._deliver_digests(self._digests.end(id_, self._time / 1e6))

    def _deliver_digests(self, several: list[ClosedDigest]) -> None:
        for closed in several:
            options = self._routes.get(closed.subscription)
            if options is not None and closed.hits:
                self._deliver_digest(closed, options)
            stored_digests.forget(self._connection, closed.subscription)

    def _forget_expired(self) -> None:
        """Deliver the digests of subscriptions that have expired, and forget where their matches went."""
        expired: Any = self._connection.execute("SELECT id FROM subscriptions WHERE until <= ?", (self._time,))
        for (id_,) in expired.fetchall():
            if id_ in self._routes and id_ not in self.engine:
                self._end_digest(id_)
                self._forget_stays(id_)
                self._route(id_, DeliveryOptions())

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


def _unnumbered(error: MatchwoodError, at: int, position: int) -> MatchwoodError:
    """The error of an event with its position in the request instead of that in the group."""
    message = str(error.args[0]).replace(f"event {at}:", f"event {position}:", 1) if error.args else ""
    error.args = (message, *error.args[1:])
    return error
