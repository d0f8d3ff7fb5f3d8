"""Server-sent events: reading them, and a stream of hits that reconnects where it broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import msgspec

from matchwood.broker.types import Delivery, Gap, Shed
from matchwood.client.backoff import Backoff
from matchwood.client.hits import Hit, Hits, Notice, hit_of
from matchwood.client.transport import LOG, Transport, failure, lost
from matchwood.errors import (
    ConnectionLostError,
    NotFoundError,
    QuotaError,
    UnavailableError,
    UnknownSubscriptionError,
)

SILENCE = 60.0
"""Seconds without a byte after which a stream is taken for dead: the broker sends something every 15 s."""
_TYPES: dict[str, Any] = {"match": Delivery, "gap": Gap, "shed": Shed}
_AGAIN = (ConnectionLostError, UnavailableError, QuotaError)


class ServerEvent(NamedTuple):
    """One server-sent event."""

    event: str
    data: str
    id: str | None


class EventReader:
    """Reads server-sent events from pieces of a stream, wherever they are cut.

    >>> reader = EventReader()
    >>> reader.feed(b"id: 7\\nevent: match\\ndata: {}\\n"), reader.feed(b"\\n")
    ([], [ServerEvent(event='match', data='{}', id='7')])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that this piece completes."""
        text = self._rest + piece
        if text.endswith(b"\r"):  # perhaps half of a CRLF
            self._rest, text = b"\r", text[:-1]
        else:
            self._rest = b""
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + self._rest
        return [found for line in lines if (found := self._line(line.decode("utf-8", "replace"))) is not None]

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            made = ServerEvent(self._event or "message", "\n".join(self._data), self._id) if self._data else None
            self._data, self._event = [], ""
            return made
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None


class Stream(Hits):
    """The hits of some subscriptions, or of all, from a position on. It reconnects and resumes after its last position.

    `prepare` is called before the first connection and whenever the broker no longer knows the subscription; it returns the
    parameters of the stream. `finish` is called at the end.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        prepare: Callable[[], Awaitable[Mapping[str, Any]]],
        finish: Callable[[], Awaitable[None]] | None = None,
        position: int | None = None,
        shed: bool = False,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> None:
        super().__init__(on_notice)
        self.position = position
        """The seq of the last record that this stream has seen."""
        self._transport = transport
        self._prepare, self._finish, self._shed = prepare, finish, shed
        self._params: Mapping[str, Any] = {}
        self._seen: set[str] = (
            set()
        )  # hits after the position: the broker sends them again if the stream breaks off here
        self._source: AsyncIterator[Hit] | None = None

    async def __aenter__(self) -> Self:
        self._params = await self._prepare()
        self._source = self._hits()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._source is not None:
            with suppress(RuntimeError):  # another task is within
                await self._source.aclose()  # type: ignore[attr-defined]
            self._source = None
        if self._finish is not None:
            await self._finish()

    async def __anext__(self) -> Hit:
        if self._source is None:
            raise StopAsyncIteration
        return await self._source.__anext__()

    async def _hits(self) -> AsyncIterator[Hit]:
        backoff = Backoff()
        while True:
            try:
                async for event in self._events():
                    backoff.succeeded()
                    hit = self._read(event)
                    if hit is not None:
                        yield hit
                error: Exception = lost(self._transport.url, EOFError("the stream ended"))
            except _AGAIN as failed:
                error = failed
            except (UnknownSubscriptionError, NotFoundError):
                if self._finish is None:
                    raise
                self._params = await self._prepare()
                start = int(self._params["from"])
                self._notify(Gap(from_=self.position or 0, to=start))
                self.position = start
                continue
            delay = backoff.delay(at_least=getattr(error, "retry_after", None))
            LOG.info("stream: %s; again in %.1f s", error, delay)
            await asyncio.sleep(delay)

    async def _events(self) -> AsyncIterator[ServerEvent]:
        """One connection."""
        params = [(name, text) for name, value in self._params.items() for text in _several(value)]
        if self.position is not None:
            params = [(name, text) for name, text in params if name != "from"] + [("from", str(self.position))]
        if self._shed:
            params.append(("shed", "1"))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=SILENCE)
        headers = {"Accept": "text/event-stream"}
        url = f"{self._transport.url}/v1/stream"
        try:
            async with self._transport.session.get(
                url, params=params, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise failure(response, await response.read())
                reader = EventReader()
                async for piece in response.content.iter_any():
                    for event in reader.feed(piece):
                        yield event
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise lost(self._transport.url, error) from None

    def _read(self, event: ServerEvent) -> Hit | None:
        """The hit of a message; notices are passed on, and the position moves on."""
        message = msgspec.json.decode(event.data, type=_TYPES[event.event]) if event.event in _TYPES else None
        known = isinstance(message, Delivery) and message.id in self._seen
        if isinstance(message, Delivery):
            self._seen.add(message.id)
        elif message is not None:
            self._notify(message)
        if event.id is not None and event.id.isdigit() and int(event.id) != self.position:
            self.position = int(event.id)
            self._seen.clear()
        return hit_of(message, self) if isinstance(message, Delivery) and not known else None


def _several(value: object) -> Iterable[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
