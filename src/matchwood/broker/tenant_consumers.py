"""Consumers of a tenant: leases, acknowledgements and dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matchwood.broker import outbox
from matchwood.broker.commands import split_id, transport_of
from matchwood.broker.tenant_core import TenantCore


class TenantConsumers(TenantCore):
    """Methods of the tenant's thread."""

    def pull(self, consumer: str, limit: int, seconds: float) -> tuple[list[outbox.Entry], Any]:
        """Lease deliveries of a consumer for so many seconds; and what was shed since the last call."""
        until = self._time + int(seconds * 1e6)
        entries = outbox.lease(self._connection, consumer, self._time, until, limit)
        spent = [entry for entry in entries if entry.attempts > outbox.MAX_ATTEMPTS]
        if spent:
            reason = f"not acknowledged after {outbox.MAX_ATTEMPTS} deliveries"
            self._bury([entry.number for entry in spent], reason)
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

    def delivered(self, consumer: str, entries: Iterable[outbox.Entry]) -> None:
        """A sender has delivered these."""
        found = [(entry.subscription, entry.seq) for entry in entries]
        self._waiting -= outbox.settle(self._connection, consumer, found)

    def retry(self, entry: outbox.Entry, delay: float) -> None:
        """An attempt of a sender has failed; the next is due after so many seconds."""
        sql = "UPDATE outbox SET due = ?, attempts = ? WHERE number = ?"
        self._connection.execute(sql, (self._time + int(delay * 1e6), entry.attempts + 1, entry.number))

    def give_up(self, entry: outbox.Entry, reason: str) -> None:
        """A delivery becomes a dead letter, after one more attempt."""
        self._connection.execute("UPDATE outbox SET attempts = ? WHERE number = ?", (entry.attempts + 1, entry.number))
        self._bury([entry.number], reason)

    def revive(self, numbers: list[int] | None, consumer: str | None) -> int:
        """Deliver dead letters again."""
        count = outbox.revive(self._connection, numbers, consumer)
        self._count()
        self._woken.update(row[0] for row in self._connection.execute("SELECT DISTINCT consumer FROM outbox"))
        return count

    def discard(self, numbers: list[int] | None, consumer: str | None) -> int:
        """Discard dead letters."""
        count = outbox.discard(self._connection, numbers, consumer)
        self._dead -= count
        return count

    def _count(self) -> None:
        """Count what waits, and the dead letters."""
        self._waiting, self._dead = outbox.counts(self._connection)
