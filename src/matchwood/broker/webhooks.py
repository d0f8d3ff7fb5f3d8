"""Webhooks: one attempt to deliver a message, and what follows from its outcome.

A `Sender` signs the message (signatures.py), sends it where webhooks may go (egress.py) and says what to do next (retries.py). It
keeps nothing on disk: the outbox stores the message, the number of failures and the time of the next attempt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

from matchwood import __version__
from matchwood.broker.egress import Egress, RefusedAddressError
from matchwood.broker.keys import Secret
from matchwood.broker.retries import Breakers, Schedule, seconds_of
from matchwood.broker.signatures import sign
from matchwood.errors import EgressError, MissingExtraError

if TYPE_CHECKING:
    import aiohttp

READ_BYTES = 512
"""How much of a refusal is kept, for the dead letter."""


class Verdict(StrEnum):
    """What became of an attempt."""

    DELIVERED = "delivered"
    RETRY = "retry"
    """It failed; the next attempt is due after `Outcome.delay`."""
    EXHAUSTED = "exhausted"
    """It failed for the last time: a dead letter."""
    DISABLED = "disabled"
    """The receiver answered 410: it wants no more messages."""
    POSTPONED = "postponed"
    """No attempt was made, since the host fails now; try again after `Outcome.delay`. Not a failure of this message."""


class Outcome(NamedTuple):
    """The verdict on one attempt. `reason` is for the dead letter and for whoever asks why nothing arrives."""

    verdict: Verdict
    reason: str = ""
    delay: float | None = None
    status: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent. `id` is the same for each attempt, `failures` counts those before it, `secrets` has the current one first.

    After so many `retries` it is given up, earlier than the schedule says.
    """

    url: str
    id: str
    body: bytes
    secrets: Sequence[Secret] = field(repr=False)
    failures: int = 0
    retries: int | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Sender:
    """Sends messages: at most `concurrency` at a time, and `per_host` to one host, so that a slow host does not stop the others.

    An attempt takes at most `timeout` seconds, from the connection to the end of the answer. `clock` gives seconds since 1970.
    Use as `async with Sender() as sender: outcome = await sender.send(message)`.
    """

    def __init__(
        self,
        *,
        egress: Egress | None = None,
        schedule: Schedule | None = None,
        breakers: Breakers | None = None,
        concurrency: int = 200,
        per_host: int = 20,
        timeout: float = 15.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._egress = egress or Egress()
        self._host_of = lru_cache(maxsize=10_000)(self._checked_host)  # a URL is checked once, not for each message
        self._schedule = schedule or Schedule()
        self.breakers = Breakers() if breakers is None else breakers  # one without circuits is false
        self._slots = _Slots(concurrency, per_host)
        self._limits = concurrency, per_host
        self._timeout = timeout
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        try:
            import aiohttp
        except ImportError as error:
            raise MissingExtraError(
                f"webhooks need aiohttp, which cannot be imported ({error}); install it with: pip install 'matchwood[broker]'"
            ) from None
        concurrency, per_host = self._limits
        self._session = aiohttp.ClientSession(
            connector=self._egress.connector(connections=concurrency, connections_per_host=per_host),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # a small answer must not become a large one
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            headers={"User-Agent": f"matchwood/{__version__}"},
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, message: Message) -> Outcome:
        """Make one attempt. Raises nothing but cancellation: every failure is an outcome."""
        try:
            host = self._host_of(message.url)
        except EgressError as error:
            return self._failed(message, str(error))
        async with self._slots.taken(host):
            wait = self.breakers.wait(host, self._clock())
            if wait > 0:
                return Outcome(Verdict.POSTPONED, f"{host} fails now; attempts pause for {wait:.0f} s", wait)
            start = self._clock()
            try:
                status, retry_after, text = await self._post(message)
            except asyncio.CancelledError:
                self.breakers.abandoned(host)
                raise
            except Exception as error:
                self.breakers.failed(host, self._clock())
                return self._failed(message, _reason(error, self._timeout))._replace(seconds=self._clock() - start)
        return self._judged(message, host, status, retry_after, text)._replace(seconds=self._clock() - start)

    def _checked_host(self, url: str) -> str:
        """Host and port of a URL that webhooks may have."""
        self._egress.check_url(url)
        return urlsplit(url).netloc.lower()

    async def _post(self, message: Message) -> tuple[int, str | None, str]:
        """Send; return status, `Retry-After` and the beginning of the answer."""
        if self._session is None:
            raise RuntimeError("use a Sender as `async with Sender() as sender`")
        headers = {
            **message.headers,
            "Content-Type": message.content_type,
            **sign(message.secrets, id=message.id, timestamp=self._clock(), body=message.body),
        }
        async with self._session.post(message.url, data=message.body, headers=headers, allow_redirects=False) as answer:
            start = await answer.content.read(READ_BYTES)
            if not answer.content.at_eof():
                answer.close()  # a long answer is not read, and its connection not used again
            return answer.status, answer.headers.get("Retry-After"), start.decode("utf-8", "replace")

    def _judged(self, message: Message, host: str, status: int, retry_after: str | None, text: str) -> Outcome:
        if 200 <= status < 300:
            self.breakers.succeeded(host)
            return Outcome(Verdict.DELIVERED, status=status)
        if status == 410:
            self.breakers.succeeded(host)  # it answers, and knows what it says
            return Outcome(Verdict.DISABLED, "the receiver answered 410 Gone: the webhook is disabled", status=status)
        self.breakers.failed(host, self._clock())
        reason = f"the receiver answered {status}"
        if 300 <= status < 400:
            reason += ", a redirect, and redirects are not followed; register the final URL"
        elif text.strip():
            reason += f": {text.strip()}"
        asked = seconds_of(retry_after, now=self._clock())
        return self._failed(message, reason, retry_after=asked)._replace(status=status)

    def _failed(self, message: Message, reason: str, *, retry_after: float | None = None) -> Outcome:
        failures = message.failures + 1
        delay = self._schedule.delay(failures, retry_after=retry_after)
        if delay is None or (message.retries is not None and failures > message.retries):
            return Outcome(Verdict.EXHAUSTED, f"{reason} (attempt {failures}, the last)")
        return Outcome(Verdict.RETRY, reason, delay)


class _Slots:
    """At most `total` at a time, and `each` under one name. Who waits for a name does not hold one of the total."""

    def __init__(self, total: int, each: int) -> None:
        self._total = asyncio.Semaphore(total)
        self._each = each
        self._named: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def taken(self, name: str) -> AsyncIterator[None]:
        named, users = self._named.get(name) or (asyncio.Semaphore(self._each), 0)
        self._named[name] = named, users + 1
        try:
            async with named, self._total:
                yield
        finally:
            named, users = self._named.pop(name)
            if users > 1:
                self._named[name] = named, users - 1


def _reason(error: Exception, timeout: float) -> str:
    """A failed connection in one line."""
    if isinstance(error, TimeoutError):
        return f"the receiver did not answer within {timeout:g} s"
    inner = getattr(error, "os_error", None)
    if isinstance(inner, RefusedAddressError):
        return str(inner.strerror)
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:READ_BYTES]
