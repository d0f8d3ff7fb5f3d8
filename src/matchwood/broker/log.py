"""The log of a tenant: retained events with their matches, for pages, replays and streams that go on from a position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from matchwood.broker import outbox
from matchwood.broker.commands import Happening
from matchwood.broker.types import DigestHit
from matchwood.engine.journal import Journal
from matchwood.engine.records import Digested, Happened, Stayed


class Logged(NamedTuple):
    """An event of the log; `time` and `until` are in microseconds since 1970."""

    seq: int
    time: int
    event: Happened


def events(journal: Journal, after: int, limit: int) -> list[Logged]:
    """The next events after a position, at most `limit`."""
    found: list[Logged] = []
    for chunk in journal.chunks(after):
        for seq, record in enumerate(chunk.records, chunk.first):
            if isinstance(record, Happened) and seq > after:
                found.append(Logged(seq, chunk.time, record))
                if len(found) == limit:
                    return found
    return found


def event(journal: Journal, seq: int) -> Logged | None:
    """The event of a number, if it is retained."""
    for chunk in journal.chunks(seq - 1, limit=1):
        if chunk.first <= seq <= chunk.last:
            record = chunk.records[seq - chunk.first]
            return Logged(seq, chunk.time, record) if isinstance(record, Happened) else None
    return None


def position_at(journal: Journal, time: int) -> int:
    """The position before the first record at or after an instant."""
    sql = "SELECT seq FROM journal WHERE time >= ? ORDER BY seq LIMIT 1"
    found = journal.connection.execute(sql, (time,)).get
    return journal.refresh() if found is None else int(found) - 1


def happenings(journal: Journal, after: int, upto: int, chunks: int = 50) -> tuple[list[Happening], int]:
    """What streams deliver after a position, of the next chunks up to `upto`; and the position reached."""
    found: list[Happening] = []
    reached = after
    for chunk in journal.chunks(after, limit=chunks):
        if chunk.first > upto:
            break
        found.extend(_of_chunk(journal, chunk.records, chunk.first, after))
        reached = chunk.last
    else:
        if reached == after:
            reached = upto
    return found, max(reached, after)


def _of_chunk(journal: Journal, records: list[Any], first: int, after: int) -> Iterator[Happening]:
    for seq, record in enumerate(records, first):
        if seq <= after:
            continue
        if isinstance(record, Happened) and (record.hits or record.notices):
            yield happening_of(seq, record)
        elif isinstance(record, Stayed):
            notice = record.notice
            yield Happening(
                seq, b"null", None, [(notice.subscription, notice.score)], notices={notice.subscription: notice}
            )
        elif isinstance(record, Digested):
            hits = [_hit(journal, number, score) for number, score in record.hits]
            stored = outbox.StoredDigest(hits, record.left_out)
            yield Happening(seq, b"null", None, [(record.subscription, record.hits[0][1])], stored)


def happening_of(seq: int, record: Happened) -> Happening:
    """What streams deliver of an event: its matches and, last, those that tracked objects have left."""
    notices = {notice.subscription: notice for notice in record.notices}
    known = {subscription for subscription, _ in record.hits}
    left = [(notice.subscription, notice.score) for notice in record.notices if notice.subscription not in known]
    return Happening(seq, bytes(record.data), record.id, [*record.hits, *left], trace=record.trace, notices=notices)


def _hit(journal: Journal, seq: int, score: float) -> DigestHit:
    known = event(journal, seq)
    data = msgspec.Raw(b"null") if known is None else known.event.data
    return DigestHit(seq=seq, score=score, event=data, event_id=None if known is None else known.event.id)
