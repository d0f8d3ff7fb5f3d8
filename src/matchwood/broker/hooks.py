"""Webhooks of a tenant: leases deliveries from the outbox, sends them, and notes what became of each attempt."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from matchwood.broker import outbox
from matchwood.broker.egress import Egress
from matchwood.broker.hub import Hub
from matchwood.broker.keys import Secret
from matchwood.broker.metrics import Metrics
from matchwood.broker.signatures import message_id, new_secret
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import HookView
from matchwood.broker.webhooks import Message, Outcome, Sender, Verdict
from matchwood.errors import NotFoundError, UnavailableError

LOG = logging.getLogger("matchwood.broker")
LEASE = 120.0
"""Seconds that an attempt may take; after a crash deliveries in flight are repeated then."""
IN_FLIGHT = 256
LONGEST_SLEEP = 2.0
OVERLAP = timedelta(days=1)
"""How long a replaced secret goes on signing."""


class Hook(NamedTuple):
    """A webhook as it is stored. `secrets` are (text, end in microseconds or None), the current one first."""

    name: str
    url: str
    enabled: bool
    reason: str | None
    secrets: list[tuple[str, int | None]]

    def view(self, secret: Secret | None = None) -> HookView:
        """The hook as users see it."""
        shown = None if secret is None else secret.reveal()
        return HookView(name=self.name, url=self.url, enabled=self.enabled, reason=self.reason, secret=shown)

    def valid(self, now: int) -> list[Secret]:
        """The secrets that sign now."""
        return [Secret(text) for text, end in self.secrets if end is None or end > now]


def hooks(connection: Any) -> list[Hook]:
    """All hooks, by name."""
    rows = connection.execute("SELECT name, url, enabled, reason, secrets FROM hooks ORDER BY name")
    return [Hook(n, u, bool(e), r, msgspec.json.decode(s, type=list[tuple[str, int | None]])) for n, u, e, r, s in rows]


def _store(connection: Any, hook: Hook) -> None:
    row = (hook.name, hook.url, hook.enabled, hook.reason, msgspec.json.encode(hook.secrets).decode())
    connection.execute("INSERT OR REPLACE INTO hooks VALUES(?, ?, ?, ?, ?)", row)


def _find(connection: Any, name: str) -> Hook:
    for hook in hooks(connection):
        if hook.name == name:
            return hook
    raise NotFoundError(f"there is no hook {name!r}")


class Hooks:
    """The sender of one tenant's webhooks."""

    def __init__(self, tenant: Tenant, hub: Hub, egress: Egress, metrics: Metrics) -> None:
        self._tenant, self._metrics, self._egress = tenant, metrics, egress
        self._sender = Sender(egress=egress)
        self._woken = asyncio.Event()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        hub.on_woken(self._wake)

    def _wake(self, consumers: set[str]) -> None:
        if any(consumer.startswith("webhook:") for consumer in consumers):
            self._woken.set()

    async def start(self) -> None:
        """Begin to send."""
        await self._sender.__aenter__()
        self._woken.set()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Send no more; attempts that are cut off are repeated after a restart."""
        if self._task is not None:
            for task in (self._task, *self._in_flight):
                task.cancel()
            await asyncio.gather(self._task, *self._in_flight, return_exceptions=True)
            self._task = None
        await self._sender.__aexit__(None, None, None)

    def open_circuits(self) -> int:
        """Hosts that attempts pause for."""
        return self._sender.breakers.open()

    # changes: methods of the tenant's thread, given to `Tenant.call`

    def put(self, name: str, url: str, enabled: bool) -> tuple[Hook, Secret | None]:
        """Add or change a hook; a new one comes with its secret."""
        self._egress.check_url(url)
        connection = self._tenant._connection
        try:
            hook, secret = _find(connection, name), None
            hook = hook._replace(url=url, enabled=enabled, reason=None)
        except NotFoundError:
            secret = new_secret()
            hook = Hook(name, url, enabled, None, [(secret.reveal(), None)])
        _store(connection, hook)
        self._tenant._woken.add(f"webhook:{name}")
        return hook, secret

    def rotate(self, name: str) -> tuple[Hook, Secret]:
        """Give a hook a new secret; the old one signs for another day."""
        connection = self._tenant._connection
        hook, secret = _find(connection, name), new_secret()
        end = self._tenant._time + OVERLAP // timedelta(microseconds=1)
        hook = hook._replace(secrets=[(secret.reveal(), None), (hook.secrets[0][0], end)])
        _store(connection, hook)
        return hook, secret

    def remove(self, name: str) -> None:
        """Remove a hook; what waits for it becomes dead letters."""
        connection = self._tenant._connection
        _find(connection, name)
        waiting: Any = connection.execute("SELECT number FROM outbox WHERE consumer = ?", (f"webhook:{name}",))
        outbox.bury(connection, [int(row[0]) for row in waiting.fetchall()], "the hook was removed", self._tenant._time)
        connection.execute("DELETE FROM hooks WHERE name = ?", (name,))

    def _lease(self, limit: int) -> tuple[list[tuple[Hook, outbox.Entry]], float]:
        """Deliveries that are due, and the seconds until the next one is."""
        tenant = self._tenant
        connection, now = tenant._connection, tenant._time
        found: list[tuple[Hook, outbox.Entry]] = []
        for hook in hooks(connection):
            if hook.enabled and len(found) < limit:
                until = now + int(LEASE * 1e6)
                entries = outbox.lease(connection, f"webhook:{hook.name}", now, until, limit - len(found))
                found.extend((hook, entry) for entry in entries)
        sql = "SELECT min(due) FROM outbox WHERE consumer >= 'webhook:' AND consumer < 'webhook;'"
        due = connection.execute(sql).get
        return found, LONGEST_SLEEP if due is None else min(max((due - now) / 1e6, 0.05), LONGEST_SLEEP)

    def _disable(self, name: str, reason: str) -> None:
        hook = _find(self._tenant._connection, name)
        _store(self._tenant._connection, hook._replace(enabled=False, reason=reason))

    # sending

    async def _run(self) -> None:
        pause = 0.0
        idle = False
        while True:
            if idle:
                try:
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                except TimeoutError:
                    pass
            self._woken.clear()
            room = IN_FLIGHT - len(self._in_flight)
            if room <= 0:
                await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                found, pause = await self._tenant.call(self._lease, room)
            except UnavailableError:
                found, pause = [], 0.5
            except Exception as error:
                LOG.error("webhooks of tenant %s pause: %s", self._tenant.name, error)
                found, pause = [], LONGEST_SLEEP
            for hook, entry in found:
                task = asyncio.create_task(self._attempt(hook, entry))
                self._in_flight.add(task)
                task.add_done_callback(self._in_flight.discard)
            idle = not found

    async def _attempt(self, hook: Hook, entry: outbox.Entry) -> None:
        body = msgspec.json.encode(entry.delivery(self._tenant.describe(entry.subscription)))
        message = Message(
            url=hook.url,
            id=message_id(entry.subscription, entry.seq),
            body=body,
            secrets=hook.valid(self._tenant._now()),
            failures=entry.attempts - 1,
            headers={} if entry.trace is None else {"traceparent": entry.trace},
        )
        outcome = await self._sender.send(message)
        await self._note(hook, entry, outcome)

    async def _note(self, hook: Hook, entry: outbox.Entry, outcome: Outcome) -> None:
        verdict, label = {
            Verdict.DELIVERED: ("delivered", "delivered"),
            Verdict.RETRY: ("retry", "failed"),
            Verdict.EXHAUSTED: ("dead", "dead"),
            Verdict.DISABLED: ("dead", "dead"),
            Verdict.POSTPONED: ("postponed", ""),
        }[outcome.verdict]
        if label:
            self._metrics.deliveries.labels("webhook", label).inc()
        tenant = self._tenant
        consumer = f"webhook:{hook.name}"
        while True:
            try:
                await tenant.call(tenant.finish, consumer, entry, verdict, outcome.reason, outcome.delay)
                if outcome.verdict is Verdict.DISABLED:
                    await tenant.call(self._disable, hook.name, outcome.reason)
                return
            except UnavailableError:
                await asyncio.sleep(0.2)
            except Exception as error:  # it is repeated when its lease ends
                LOG.error("a delivery of hook %s could not be noted: %s", hook.name, error)
                return
