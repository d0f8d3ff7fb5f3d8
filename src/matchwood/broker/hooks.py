"""Webhooks of a tenant: sends what the outbox has for them, in order by subscription, and notes what became of each attempt."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from matchwood.broker import outbox
from matchwood.broker.egress import Egress
from matchwood.broker.hub import Hub
from matchwood.broker.keys import Secret
from matchwood.broker.lines import Line, Lines
from matchwood.broker.metrics import Metrics
from matchwood.broker.retries import DELAYS
from matchwood.broker.signatures import message_id, new_secret
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import HookView, NewHook
from matchwood.broker.webhooks import Message, Outcome, Sender, Verdict
from matchwood.errors import NotFoundError, UnavailableError

LOG = logging.getLogger("matchwood.broker")
IN_FLIGHT = 256
"""Lines that are served at a time."""
EACH = 64
"""Lines of one hook that are served at a time."""
RUN = 16
"""Deliveries of a line that are read at once; they are sent one after the other."""
RUN_SECONDS = 1.0
"""How long deliveries are sent before it is noted that they were."""
SCAN = 4000
RETRIES_IN_ORDER = 6
"""Retries of a delivery that keeps others waiting, unless the hook says otherwise: over an hour and 43 minutes."""
RETRIES = len(DELAYS)
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
    ordered: bool
    retries: int

    def view(self, secret: Secret | None = None) -> HookView:
        """The hook as users see it."""
        shown = None if secret is None else secret.reveal()
        return HookView(
            name=self.name,
            url=self.url,
            enabled=self.enabled,
            ordered=self.ordered,
            retries=self.retries,
            reason=self.reason,
            secret=shown,
        )

    def valid(self, now: int) -> list[Secret]:
        """The secrets that sign now."""
        return [Secret(text) for text, end in self.secrets if end is None or end > now]


def hooks(connection: Any, name: str | None = None) -> list[Hook]:
    """All hooks, by name; or the one of this name."""
    sql = "SELECT name, url, enabled, reason, secrets, ordered, retries FROM hooks"
    where, given = (" ORDER BY name", ()) if name is None else (" WHERE name = ?", (name,))
    return [
        Hook(n, u, bool(e), r, msgspec.json.decode(s, type=list[tuple[str, int | None]]), bool(o), t)
        for n, u, e, r, s, o, t in connection.execute(sql + where, given)
    ]


def _store(connection: Any, hook: Hook) -> None:
    secrets = msgspec.json.encode(hook.secrets).decode()
    row = (hook.name, hook.url, hook.enabled, hook.reason, secrets, hook.ordered, hook.retries)
    sql = "INSERT OR REPLACE INTO hooks(name, url, enabled, reason, secrets, ordered, retries) VALUES(?, ?, ?, ?, ?, ?, ?)"
    connection.execute(sql, row)


def _find(connection: Any, name: str) -> Hook:
    for hook in hooks(connection, name):
        return hook
    raise NotFoundError(f"there is no hook {name!r}")


class _Run(NamedTuple):
    """The first deliveries of a line, to be sent one after the other."""

    line: Line
    hook: Hook
    entries: list[outbox.Entry]
    due: int
    """If there is no entry that is due: when the first one is."""


class Hooks:
    """The sender of one tenant's webhooks.

    In memory are only the names of the lines (lines.py) and what is being sent. New lines are found by reading the outbox
    after the last number that was read. Results of the tenant's thread arrive in the order of its transactions; so a
    delivery that is found in the outbox either belongs to a line that will come to it, or begins one.
    """

    def __init__(self, tenant: Tenant, hub: Hub, egress: Egress, metrics: Metrics) -> None:
        self._tenant, self._metrics, self._egress = tenant, metrics, egress
        self._sender = Sender(egress=egress)
        self._lines = Lines(each=EACH)
        self._read = 0  # the last number of the outbox that was read
        self._unread = self._from_the_start = True
        self._woken = asyncio.Event()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        hub.on_woken(self._wake)

    def _wake(self, consumers: set[str]) -> None:
        if any(consumer.startswith("webhook:") for consumer in consumers):
            self._unread = True
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

    def put(self, name: str, new: NewHook) -> tuple[Hook, Secret | None]:
        """Add or change a hook; a new one comes with its secret."""
        self._egress.check_url(new.url)
        connection = self._tenant._connection
        retries = new.retries
        if retries is None:
            retries = RETRIES_IN_ORDER if new.ordered else RETRIES
        try:
            secrets, secret = _find(connection, name).secrets, None
        except NotFoundError:
            secret = new_secret()
            secrets = [(secret.reveal(), None)]
        hook = Hook(name, new.url, new.enabled, None, secrets, new.ordered, retries)
        _store(connection, hook)
        self._from_the_start = True  # what waits for it was passed over if it was disabled
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
        sql = "SELECT number FROM outbox WHERE consumer = ? ORDER BY number"
        waiting: Any = connection.execute(sql, (f"webhook:{name}",))
        numbers = [int(row[0]) for row in waiting.fetchall()]
        self._tenant._bury(numbers, "the hook was removed")
        connection.execute("DELETE FROM hooks WHERE name = ?", (name,))

    # what waits: methods of the tenant's thread too

    def _found(self, after: int) -> tuple[list[tuple[Line, int]], int]:
        """Lines of the deliveries after a number, and the number of the last one that was read."""
        rows, last = outbox.waiting_for_hooks(self._tenant._connection, after, SCAN)
        return [(Line(c, s, 0 if ordered else number), due) for number, c, s, due, ordered in rows], last

    def _runs(self, lines: list[Line]) -> list[_Run | Line]:
        """The first deliveries of each line; the line itself if there is none to send."""
        connection = self._tenant._connection
        known: dict[str, Hook | None] = {}
        found: list[_Run | Line] = []
        for line in lines:
            if line.consumer not in known:
                known[line.consumer] = next(iter(hooks(connection, line.consumer.partition(":")[2])), None)
            found.append(self._run_of(line, known[line.consumer]))
        return found

    def _run_of(self, line: Line, hook: Hook | None) -> _Run | Line:
        if hook is None or not hook.enabled:
            return line
        entries, due = outbox.first_of_line(self._tenant._connection, line, self._tenant._time, RUN)
        return _Run(line, hook, entries, due) if entries or due else line

    def _finish(
        self, run: _Run, delivered: list[outbox.Entry], failed: outbox.Entry | None, outcome: Outcome | None
    ) -> _Run | Line:
        """Note what became of the deliveries of a run; return the next ones of its line."""
        tenant, consumer = self._tenant, run.line.consumer
        tenant.delivered(consumer, delivered)
        if failed is not None and outcome is not None:
            if outcome.verdict is Verdict.RETRY:
                tenant.retry(failed, outcome.delay or 0.0)
            elif outcome.verdict is not Verdict.POSTPONED:
                tenant.give_up(failed, outcome.reason)
            if outcome.verdict is Verdict.DISABLED:
                self._disable(run.hook.name, outcome.reason)
        return self._runs([run.line])[0]

    def _disable(self, name: str, reason: str) -> None:
        for hook in hooks(self._tenant._connection, name):
            _store(self._tenant._connection, hook._replace(enabled=False, reason=reason))

    # sending

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                busy = await self._look()
                pause = self._pause()
            except UnavailableError:
                busy, pause = False, 0.5
            except Exception as error:
                LOG.error("webhooks of tenant %s pause: %s", self._tenant.name, error)
                busy, pause = False, LONGEST_SLEEP
            if not busy:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()

    async def _look(self) -> bool:
        """Find new lines, and serve those whose turn it is; is there more to do at once?"""
        if self._from_the_start:
            self._from_the_start, self._read = False, 0
            self._unread = True
        if self._unread:
            self._unread = False
            try:
                found, self._read = await self._tenant.call(self._found, self._read)
            except BaseException:
                self._unread = True
                raise
            self._lines.add(found)
            self._unread = self._unread or len(found) == SCAN
        lines = self._lines.take(self._tenant._now(), IN_FLIGHT - len(self._in_flight))
        if lines:
            try:
                runs = await self._tenant.call(self._runs, lines)
            except BaseException:
                for line in lines:
                    self._lines.put_back(line)
                raise
            for run in runs:
                self._begin(run)
        return self._unread

    def _pause(self) -> float:
        """Seconds until there may be something to do."""
        next_time = self._lines.next_time()
        if next_time is None:
            return LONGEST_SLEEP
        return min(max((next_time - self._tenant._now()) / 1e6, 0.01), LONGEST_SLEEP)

    def _begin(self, run: _Run | Line) -> None:
        if isinstance(run, Line):
            self._lines.end(run)
        elif not run.entries:
            self._lines.put_back(run.line, run.due)
        else:
            task = asyncio.create_task(self._serve(run))
            self._in_flight.add(task)
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._woken.set()

    async def _serve(self, run: _Run) -> None:
        """Send the deliveries of a line, while no other line of the hook waits for its turn."""
        line = run.line
        following: _Run | Line = run
        try:
            while isinstance(following, _Run) and following.entries:
                delivered, failed, outcome = await self._send(following)
                if outcome is not None and outcome.verdict is Verdict.POSTPONED:
                    self._lines.pause(line.consumer, self._tenant._now() + int((outcome.delay or 0.0) * 1e6))
                elif delivered:
                    self._lines.resume(line.consumer)
                following = await self._noted(following, delivered, failed, outcome)
                if outcome is not None or not self._lines.is_alone(line.consumer):
                    break
        except Exception as error:
            LOG.exception("deliveries of hook %s failed", run.hook.name, exc_info=error)
            following = self._later(run)
        if isinstance(following, Line):
            self._lines.end(line)
        else:
            self._lines.put_back(line, 0 if following.entries else following.due)

    def _later(self, run: _Run) -> _Run:
        return run._replace(entries=[], due=self._tenant._now() + int(LONGEST_SLEEP * 1e6))

    async def _send(self, run: _Run) -> tuple[list[outbox.Entry], outbox.Entry | None, Outcome | None]:
        """Send one delivery after the other, until one fails; return those that arrived, and the one that failed."""
        delivered: list[outbox.Entry] = []
        end = asyncio.get_running_loop().time() + RUN_SECONDS
        for entry in run.entries:
            outcome = await self._attempt(run.hook, entry)
            label = _LABELS.get(outcome.verdict)
            if label:
                self._metrics.deliveries.labels("webhook", label).inc()
            if outcome.verdict is not Verdict.DELIVERED:
                return delivered, entry, outcome
            delivered.append(entry)
            if asyncio.get_running_loop().time() > end:
                break
        return delivered, None, None

    async def _attempt(self, hook: Hook, entry: outbox.Entry) -> Outcome:
        delivery = entry._replace(attempts=entry.attempts + 1).delivery(self._tenant.describe(entry.subscription))
        message = Message(
            url=hook.url,
            id=message_id(entry.subscription, entry.seq),
            body=msgspec.json.encode(delivery),
            secrets=hook.valid(self._tenant._now()),
            failures=entry.attempts,
            retries=hook.retries,
            headers={} if entry.trace is None else {"traceparent": entry.trace},
        )
        return await self._sender.send(message)

    async def _noted(
        self, run: _Run, delivered: list[outbox.Entry], failed: outbox.Entry | None, outcome: Outcome | None
    ) -> _Run | Line:
        while True:
            try:
                following: _Run | Line = await self._tenant.call(self._finish, run, delivered, failed, outcome)
                return following
            except UnavailableError:
                await asyncio.sleep(0.2)
            except Exception as error:  # it is repeated
                LOG.error("a delivery of hook %s could not be noted: %s", run.hook.name, error)
                return self._later(run)


_LABELS = {
    Verdict.DELIVERED: "delivered",
    Verdict.RETRY: "failed",
    Verdict.EXHAUSTED: "dead",
    Verdict.DISABLED: "dead",
}
"""What an attempt counts as; one that was not made counts as nothing."""
