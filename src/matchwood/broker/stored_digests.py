"""The open digests of a tenant on disk, so that they survive a restart: of each period the matches that are the best so far, and
how many there were.

    digests   (subscription, seq, score)      the best matches
    periods   (subscription, opened, count)   when the period began, in microseconds since 1970; all matches
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from matchwood.broker.digest import DigestHit

TABLES = """
CREATE TABLE digests(subscription TEXT NOT NULL, seq INTEGER NOT NULL, score REAL NOT NULL, PRIMARY KEY(subscription, seq))
    WITHOUT ROWID;
CREATE TABLE periods(subscription TEXT PRIMARY KEY, opened INTEGER NOT NULL, count INTEGER NOT NULL) WITHOUT ROWID;
"""
UPGRADE = (
    "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'periods')",
    f"ALTER TABLE digests RENAME TO all_digests; {TABLES}"
    "INSERT INTO digests SELECT subscription, seq, score FROM all_digests;"
    "INSERT INTO periods SELECT subscription, min(time), count(*) FROM all_digests GROUP BY 1;"
    "DROP TABLE all_digests",
)
"""See `outbox.UPGRADES`. Older versions kept every match, with its time."""


class StoredPeriod(NamedTuple):
    """An open period of a subscription."""

    subscription: str
    opened: int
    count: int  # type: ignore[assignment]
    hits: list[DigestHit]


def add(connection: Any, subscription: str, hit: DigestHit, time: int, left_out: int | None) -> bool:
    """Note a match, and that the one of the `seq` `left_out` is not among the best any more. Is this one among them?"""
    connection.execute(
        "INSERT INTO periods VALUES(?, ?, 1) ON CONFLICT(subscription) DO UPDATE SET count = count + 1",
        (subscription, time),
    )
    if left_out == hit.seq:
        return False
    connection.execute("INSERT INTO digests VALUES(?, ?, ?)", (subscription, *hit))
    if left_out is not None:
        connection.execute("DELETE FROM digests WHERE subscription = ? AND seq = ?", (subscription, left_out))
    return True


def forget(connection: Any, subscription: str) -> None:
    """Remove the period of a subscription."""
    connection.execute("DELETE FROM digests WHERE subscription = ?", (subscription,))
    connection.execute("DELETE FROM periods WHERE subscription = ?", (subscription,))


def stored(connection: Any) -> Iterator[StoredPeriod]:
    """All open periods, in the order in which they began."""
    for subscription, opened, count in connection.execute("SELECT * FROM periods ORDER BY opened, subscription"):
        rows = connection.execute("SELECT seq, score FROM digests WHERE subscription = ?", (subscription,))
        yield StoredPeriod(subscription, opened, count, [DigestHit(*row) for row in rows])
