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
