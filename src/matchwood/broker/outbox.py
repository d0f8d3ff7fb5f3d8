"""The tables of a broker beside the journal, and the statements on them. All are called inside a transaction of the journal.

    outbox    (number, consumer, subscription, seq, score, digest, attempts, due)   what waits to be delivered or acknowledged
    payloads  (seq, data, event_id, trace)             the events that the outbox, dead letters and open digests refer to
    dead      (number, consumer, subscription, seq, score, digest, attempts, reason, time)
    digests, periods                                   the digests that are not delivered yet: see `stored_digests`
    shed      (consumer, count, below, first, last)    what was left out since the consumer was last told
    hooks     (name, url, enabled, reason, secrets, ordered, retries)
              secrets: JSON of the current one, and the one before with its end
    offsets   (topic, part, next)                      of Kafka: committed with the effects of what was read
    stays     (subscription, object, since, seen, score, dwelt)   the objects inside subscriptions that track them; object: JSON

A consumer is named by its transport and its name: `stream:me`, `webhook:shop`, `kafka:alerts`. A delivery that is leased has its
`due` in the future; if nobody acknowledges it until then, it is due again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from matchwood.broker import stored_digests
from matchwood.broker.types import Delivery, DigestHit, TrackNotice

RUN_BYTES = 1 << 16
MAX_ATTEMPTS = 10
"""Deliveries to a durable consumer before it becomes a dead letter."""

_TABLES = """
CREATE TABLE outbox(
    number INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, subscription TEXT NOT NULL, seq INTEGER NOT NULL,
    score REAL NOT NULL, digest TEXT, attempts INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX outbox_line ON outbox(consumer, subscription, seq);
CREATE INDEX outbox_due ON outbox(consumer, due);
CREATE TABLE payloads(seq INTEGER PRIMARY KEY, data TEXT NOT NULL, event_id TEXT, trace TEXT);
CREATE TABLE dead(
    number INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, subscription TEXT NOT NULL, seq INTEGER NOT NULL,
    score REAL NOT NULL, digest TEXT, attempts INTEGER NOT NULL, reason TEXT NOT NULL, time INTEGER NOT NULL);
CREATE TABLE shed(
    consumer TEXT PRIMARY KEY, count INTEGER NOT NULL, below REAL NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE hooks(name TEXT PRIMARY KEY, url TEXT NOT NULL, enabled INTEGER NOT NULL, reason TEXT, secrets TEXT NOT NULL,
    ordered INTEGER NOT NULL DEFAULT 1, retries INTEGER NOT NULL DEFAULT 6) WITHOUT ROWID;
CREATE TABLE offsets(topic TEXT NOT NULL, part INTEGER NOT NULL, next INTEGER NOT NULL, PRIMARY KEY(topic, part))
    WITHOUT ROWID;
"""
TABLES = _TABLES + stored_digests.TABLES
_ABOUT = "json_extract(body, '$.record.about')"

_COLUMNS = "o.number, o.consumer, o.subscription, o.seq, o.score, o.digest, o.attempts, p.data, p.event_id, p.trace"
_ENCODE = msgspec.json.Encoder().encode


UPGRADES = (
    (
        "SELECT 1 FROM sqlite_master WHERE name = 'outbox_delivery'",
        "DROP INDEX outbox_delivery; CREATE UNIQUE INDEX outbox_line ON outbox(consumer, subscription, seq)",
    ),
    (
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pragma_table_info('hooks') WHERE name = 'ordered')",
        "ALTER TABLE hooks ADD COLUMN ordered INTEGER NOT NULL DEFAULT 1;"
        "ALTER TABLE hooks ADD COLUMN retries INTEGER NOT NULL DEFAULT 6",
    ),
    (
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'stays')",
        "CREATE TABLE stays("
        "subscription TEXT NOT NULL, object TEXT NOT NULL, since INTEGER NOT NULL, seen INTEGER NOT NULL, score REAL NOT NULL,"
        " dwelt INTEGER NOT NULL, PRIMARY KEY(subscription, object)) WITHOUT ROWID",
    ),
    (
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'subscriptions_about')",
        f"CREATE INDEX subscriptions_about ON subscriptions(id) WHERE {_ABOUT} IS NOT NULL",
    ),
    stored_digests.UPGRADE,
)
"""What tables of an older version lack: a query that finds out, and the statements that add it."""


def upgrade(connection: Any) -> None:
    """Bring tables of an older version up to date."""
    with connection:
        for lacks, statements in UPGRADES:
            if connection.execute(lacks).get is not None:
                connection.execute(statements)


def routed(connection: Any) -> Iterator[tuple[str, str]]:
    """The subscriptions that are not delivered to streams alone: id, and its `DeliveryOptions` as JSON. O(these)."""
    yield from connection.execute(
        f"SELECT id, {_ABOUT} FROM subscriptions INDEXED BY subscriptions_about WHERE {_ABOUT} IS NOT NULL"
    )


class Entry(NamedTuple):
    """A delivery of the outbox, or a dead letter, with its event."""

    number: int
    consumer: str
    subscription: str
    seq: int
    score: float
    digest: str | None
    attempts: int
    data: str | None
    event_id: str | None
    trace: str | None

    def delivery(self, metadata: Any = None) -> Delivery:
        """The delivery as the subscriber sees it."""
        made = Delivery(
            id=delivery_id(self.subscription, self.seq),
            subscription=self.subscription,
            seq=self.seq,
            score=self.score,
            event=None if self.data is None else msgspec.Raw(self.data.encode()),
            metadata=metadata,
            event_id=self.event_id,
            attempt=max(self.attempts, 1),
            traceparent=self.trace,
        )
        if self.digest is not None:
            stored = msgspec.json.decode(self.digest, type=StoredDigest)
            if stored.track is None:
                made.event, made.digest, made.left_out = None, stored.hits, stored.left_out
            else:
                made.track = stored.track
        return made


class StoredDigest(msgspec.Struct, omit_defaults=True):
    """The column `digest`: the matches of a digest, or what became of a tracked object."""

    hits: list[DigestHit] = []
    left_out: int = 0
    track: TrackNotice | None = None


def delivery_id(subscription: str, seq: int) -> str:
    """The stable id of a delivery."""
    return f"{subscription}@{seq}"


def put(connection: Any, rows: Sequence[tuple[str, str, int, float, str | None]]) -> None:
    """Add deliveries: consumer, subscription, seq, score, digest."""
    connection.executemany("INSERT INTO outbox(consumer, subscription, seq, score, digest) VALUES(?, ?, ?, ?, ?)", rows)


def put_payloads(connection: Any, rows: Iterable[tuple[int, str, str | None, str | None]]) -> None:
    """Keep the events that deliveries refer to: seq, data, event id, trace."""
    connection.executemany("INSERT OR IGNORE INTO payloads VALUES(?, ?, ?, ?)", rows)


def lease(connection: Any, consumer: str, now: int, until: int, limit: int) -> list[Entry]:
    """The next deliveries of a consumer that are due, in order; they are due again at `until`."""
    sql = (
        f"SELECT {_COLUMNS} FROM outbox o LEFT JOIN payloads p USING(seq) "
        "WHERE o.consumer = ? AND o.due <= ? ORDER BY o.number LIMIT ?"
    )
    found = [Entry(*row) for row in connection.execute(sql, (consumer, now, limit))]
    taken = [(until, entry.number) for entry in found]
    connection.executemany("UPDATE outbox SET due = ?, attempts = attempts + 1 WHERE number = ?", taken)
    return [entry._replace(attempts=entry.attempts + 1) for entry in found]


def settle(connection: Any, consumer: str, deliveries: Iterable[tuple[str, int]]) -> int:
    """Remove acknowledged deliveries, given by subscription and seq; return how many there were."""
    count = 0
    for subscription, seq in deliveries:
        connection.execute(
            "DELETE FROM outbox WHERE consumer = ? AND seq = ? AND subscription = ?", (consumer, seq, subscription)
        )
        count += connection.changes()
    return count


def postpone(connection: Any, consumer: str, subscription: str, seq: int, due: int) -> int:
    """Give a delivery back until an instant; return 1 if there is one."""
    sql = "UPDATE outbox SET due = ? WHERE consumer = ? AND seq = ? AND subscription = ?"
    connection.execute(sql, (due, consumer, seq, subscription))
    return int(connection.changes())


def waiting_for_hooks(connection: Any, after: int, limit: int) -> tuple[list[tuple[int, str, str, int, int]], int]:
    """Deliveries to hooks that are enabled, by number: number, consumer, subscription, due, is the hook ordered?

    And the last number that was read. O(rows after `after`).
    """
    last = connection.execute("SELECT max(number) FROM outbox").get or 0
    rows = list(
        connection.execute(
            "SELECT o.number, o.consumer, o.subscription, o.due, h.ordered "
            "FROM outbox o NOT INDEXED CROSS JOIN hooks h ON h.name = substr(o.consumer, 9) "
            "WHERE o.number > ? AND o.consumer >= 'webhook:' AND o.consumer < 'webhook;' AND h.enabled "
            "ORDER BY o.number LIMIT ?",
            (after, limit),
        )
    )
    return rows, rows[-1][0] if len(rows) == limit else max(last, after)


def first_of_line(connection: Any, line: tuple[str, str, int], now: int, limit: int) -> tuple[list[Entry], int]:
    """The first deliveries of a subscription to a consumer, by `seq`; or, if `number` is not 0, the one of that number.

    If the first one is not due yet: when it is. Their events have about RUN_BYTES at most, or there is but one.
    """
    which = "o.consumer = ?1 AND o.subscription = ?2" + (" AND o.number = ?3" if line[2] else "")
    sql = (
        f"SELECT o.due, {_COLUMNS} FROM outbox o LEFT JOIN payloads p USING(seq) WHERE {which} ORDER BY o.seq LIMIT ?4"
    )
    entries: list[Entry] = []
    size = 0
    for due, *row in connection.execute(sql, (*line, limit)):
        if due > now:
            return entries, 0 if entries else due
        entry = Entry(*row)
        entries.append(entry)
        size += len(entry.data or "") + len(entry.digest or "")
        if size > RUN_BYTES:
            break
    return entries, 0


def bury(connection: Any, numbers: Iterable[int], reason: str, time: int) -> int:
    """Make deliveries dead letters; return how many there were."""
    count = 0
    for number in numbers:
        connection.execute(
            "INSERT INTO dead(consumer, subscription, seq, score, digest, attempts, reason, time) "
            "SELECT consumer, subscription, seq, score, digest, attempts, ?, ? FROM outbox WHERE number = ?",
            (reason, time, number),
        )
        connection.execute("DELETE FROM outbox WHERE number = ?", (number,))
        count += connection.changes()
    return count


def drop_dead(connection: Any, count: int) -> None:
    """Remove the oldest dead letters, and add them to the number of those that were dropped."""
    connection.execute("DELETE FROM dead WHERE number IN (SELECT number FROM dead ORDER BY number LIMIT ?)", (count,))
    connection.execute(
        "INSERT INTO meta VALUES('dead_dropped', ?1) ON CONFLICT(key) DO UPDATE SET value = value + ?1", (count,)
    )


def dropped_dead(connection: Any) -> int:
    """How many dead letters were dropped since the tenant was made."""
    return int(connection.execute("SELECT value FROM meta WHERE key = 'dead_dropped'").get or 0)


def counts(connection: Any) -> tuple[int, int]:
    """How many deliveries wait, and how many dead letters there are."""
    found = connection.execute("SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM dead)")
    waiting, dead = next(iter(found))
    return int(waiting), int(dead)


_NAMED = "{0} IN (consumer, substr(consumer, instr(consumer, ':') + 1))"
"""Is this the consumer, with its transport (`webhook:h`) or, as users know it, without (`h`)?"""


def dead_letters(connection: Any, consumer: str | None, after: int, limit: int) -> list[tuple[Entry, str, int]]:
    """Dead letters by number, each with its reason and time."""
    sql = (
        f"SELECT {_COLUMNS}, o.reason, o.time FROM dead o LEFT JOIN payloads p USING(seq) "
        f"WHERE o.number > ?1 AND (?2 IS NULL OR {_NAMED.format('?2')}) ORDER BY o.number LIMIT ?3"
    )
    rows = connection.execute(sql, (after, consumer, limit))
    return [(Entry(*row[:10]), row[10], row[11]) for row in rows]


def revive(connection: Any, numbers: Sequence[int] | None, consumer: str | None) -> int:
    """Put dead letters back into the outbox; return how many."""
    where, given = _choice(numbers, consumer)
    connection.execute(
        "INSERT OR IGNORE INTO outbox(consumer, subscription, seq, score, digest) "
        f"SELECT consumer, subscription, seq, score, digest FROM dead WHERE {where} ORDER BY number",
        given,
    )
    return discard(connection, numbers, consumer)


def discard(connection: Any, numbers: Sequence[int] | None, consumer: str | None) -> int:
    """Remove dead letters; return how many."""
    where, given = _choice(numbers, consumer)
    connection.execute(f"DELETE FROM dead WHERE {where}", given)
    return int(connection.changes())


def _choice(numbers: Sequence[int] | None, consumer: str | None) -> tuple[str, tuple[Any, ...]]:
    if numbers is not None:
        return "number IN (SELECT value FROM json_each(?))", (_ENCODE(list(numbers)).decode(),)
    return _NAMED.format("?1"), (consumer,)


def note_shed(connection: Any, consumer: str, count: int, below: float, seq: int) -> None:
    """Note that matches for a consumer were left out."""
    connection.execute(
        "INSERT INTO shed VALUES(?1, ?2, ?3, ?4, ?4) ON CONFLICT(consumer) DO UPDATE SET "
        "count = count + ?2, below = max(below, ?3), last = ?4",
        (consumer, count, below, seq),
    )


def take_shed(connection: Any, consumer: str) -> tuple[int, float, int, int] | None:
    """What was left out since the last call: count, below, first, last."""
    found = connection.execute("SELECT count, below, first, last FROM shed WHERE consumer = ?", (consumer,)).get
    if found is not None:
        connection.execute("DELETE FROM shed WHERE consumer = ?", (consumer,))
    return None if found is None else (int(found[0]), float(found[1]), int(found[2]), int(found[3]))


def consumers(connection: Any, now: int) -> list[tuple[str, int, int, int, int]]:
    """Consumer, waiting, in flight, dead, number of the oldest record that waits (0 if none does)."""
    sql = (
        "SELECT consumer, sum(waiting), sum(flight), sum(dead), max(oldest) FROM ("
        " SELECT consumer, count(*) AS waiting, sum(due > ?1) AS flight, 0 AS dead, min(seq) AS oldest FROM outbox GROUP BY 1"
        " UNION ALL SELECT consumer, 0, 0, count(*), 0 FROM dead WHERE consumer NOT LIKE 'input:%' GROUP BY 1)"
        " GROUP BY 1 ORDER BY 1"
    )
    return list(connection.execute(sql, (now,)))


def drop_payloads(connection: Any) -> None:
    """Remove the events that nothing refers to."""
    connection.execute(
        "DELETE FROM payloads WHERE seq NOT IN "
        "(SELECT seq FROM outbox UNION SELECT seq FROM dead UNION SELECT seq FROM digests)"
    )
