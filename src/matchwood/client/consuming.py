"""The hits of a durable consumer: pulled in groups, acknowledged in groups, given back if they were not used."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from matchwood.broker.types import AckAnswer, Acks, Deliveries, Nacks, PullQuestion
from matchwood.client.backoff import Backoff
from matchwood.client.hits import Hit, Hits, Notice, hit_of
from matchwood.client.transport import LOG, Transport
from matchwood.errors import ConnectionLostError, MatchwoodError, QuotaError, UnavailableError

WAIT = 20.0
"""Seconds that a pull waits for the first delivery."""
_GROUP = 1000


class Consumer(Hits):
    """A durable consumer. It takes up to `prefetch` hits at a time, each for `lease` seconds: then it is delivered again.

    At the end it sends what was acknowledged, and gives back what was not.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        *,
        prepare: Callable[[], Awaitable[Any]] | None,
        prefetch: int,
        lease: float,
        on_notice: Callable[[Notice], None] | None,
    ) -> None:
        super().__init__(on_notice)
        self._transport = transport
        self._path = f"/v1/consumers/{quote(name, safe='')}"
        self._prepare, self._prefetch, self._lease = prepare, prefetch, lease
        self._ready: deque[Hit] = deque()
        self._out: set[str] = set()  # handed out, neither acknowledged nor given back
        self._done: list[str] = []
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._error: MatchwoodError | None = None
        self._acking: asyncio.Task[None] | None = None
        self._open = False

    async def __aenter__(self) -> Self:
        if self._prepare is not None:
            await self._prepare()
        self._acking = asyncio.create_task(self._send_acks())
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        try:
            await self.flush()
        finally:
            if self._acking is not None:
                self._acking.cancel()
                with suppress(asyncio.CancelledError):
                    await self._acking
            await self._give_back([hit.id for hit in self._ready], 0.0)
            await self._give_back(sorted(self._out), None)

    async def __anext__(self) -> Hit:
        backoff = Backoff()
        while self._open:
            self._check()
            if self._ready:
                hit = self._ready.popleft()
                self._out.add(hit.id)
                return hit
            question = PullQuestion(max=self._prefetch, wait=WAIT, lease=self._lease)
            try:
                pulled = await self._transport.call("POST", f"{self._path}/pull", Deliveries, body=question)
            except (ConnectionLostError, UnavailableError, QuotaError) as error:
                delay = backoff.delay(at_least=error.retry_after)
                LOG.info("consumer: %s; again in %.1f s", error, delay)
                await asyncio.sleep(delay)
                continue
            backoff.succeeded()
            for notice in pulled.shed:
                self._notify(notice)
            self._ready.extend(hit_of(delivery, self) for delivery in pulled.deliveries)
        raise StopAsyncIteration

    async def flush(self) -> None:
        await self._idle.wait()
        self._check()

    async def _ack(self, id_: str) -> None:
        self._check()
        self._out.discard(id_)
        self._done.append(id_)
        self._idle.clear()
        self._more.set()

    async def _nack(self, id_: str, delay: float | None) -> None:
        await self._transport.call("POST", f"{self._path}/nack", AckAnswer, body=Nacks(ids=[id_], delay=delay))
        self._out.discard(id_)

    async def _send_acks(self) -> None:
        """Send acknowledgements as long as there are any: while one request is under way, the next group gathers."""
        while True:
            await self._more.wait()
            group = self._done[:_GROUP]
            try:
                await self._transport.call("POST", f"{self._path}/ack", AckAnswer, body=Acks(ids=group))
            except (ConnectionLostError, UnavailableError, QuotaError) as error:
                LOG.warning("acknowledgements: %s; trying on", error)
                continue
            except MatchwoodError as error:
                self._error = error
                self._idle.set()
                return
            del self._done[: len(group)]
            if not self._done:
                self._more.clear()
                self._idle.set()

    async def _give_back(self, ids: list[str], delay: float | None) -> None:
        for start in range(0, len(ids), _GROUP):
            body = Nacks(ids=ids[start : start + _GROUP], delay=delay)
            try:
                await self._transport.call("POST", f"{self._path}/nack", AckAnswer, body=body)
            except MatchwoodError as error:
                LOG.info("hits are not given back and come again after their lease: %s", error)
                return

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
