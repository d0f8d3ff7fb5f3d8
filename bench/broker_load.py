"""The load of the broker's benchmark: plain sockets in one event loop, so that the load is not what is measured."""

from __future__ import annotations

import asyncio
import http.client
import time
from dataclasses import dataclass, field
from itertools import count


@dataclass
class Load:
    """What a load has measured: events (or deliveries), seconds, and the time of each request (or delivery)."""

    events: int = 0
    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    complete: bool = True

    def percentile(self, share: float) -> float:
        """The time that this share of all is below."""
        ordered = sorted(self.times)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")


def request(port: int, method: str, path: str, key: str, body: bytes, kind: str) -> bytes:
    """One request; its answer must be a success."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request(method, path, body or None, {"Authorization": f"Bearer {key}", "Content-Type": kind})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status < 300, content
    return content


def ready(port: int, key: str) -> None:
    """Wait until the planner is at rest, about."""
    for _ in range(20):
        request(port, "POST", "/v1/match", key, b'{"event": {"price": 1}}', "application/json")
        time.sleep(0.1)


def head(path: str, key: str, body: bytes, batch: int) -> bytes:
    """A request as bytes."""
    kind = "application/json" if batch == 1 else "application/x-ndjson"
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


class _Poster(asyncio.Protocol):
    """Sends a request, waits for its answer, and sends the next."""

    def __init__(self, requests: list[bytes], start: int, end: float, load: Load, batch: int) -> None:
        self._requests, self._numbers, self._end, self._load, self._batch = requests, count(start), end, load, batch
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._requests[next(self._numbers) % len(self._requests)])

    def data_received(self, data: bytes) -> None:
        self._buffer = data if not self._buffer else self._buffer + data
        at = self._buffer.find(b"\r\n\r\n")
        if at < 0:
            return
        length = self._buffer.find(b"content-length: ")
        size = int(self._buffer[length + 16 : self._buffer.index(b"\r\n", length)])
        if len(self._buffer) < at + 4 + size:
            return
        now = time.perf_counter()
        assert self._buffer.startswith(b"HTTP/1.1 202"), self._buffer[:300]
        self._buffer = b""
        self._load.times.append(now - self._sent)
        self._load.events += self._batch
        if now < self._end:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def http_load(
    port: int, key: str, path: str, bodies: list[bytes], connections: int, batch: int, seconds: float
) -> Load:
    """Publish for so many seconds on so many connections; each waits for its answer before the next request."""
    requests = [head(path, key, body, batch) for body in bodies]
    load = Load()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        start = time.perf_counter()
        posters = []
        for number in range(connections):
            made = _Poster(requests, number * 97, start + seconds, load, batch)
            await loop.create_connection(lambda made=made: made, "127.0.0.1", port)
            posters.append(made.done)
        await asyncio.gather(*posters)
        load.seconds = time.perf_counter() - start

    _run(run())
    return load


class _Listener(asyncio.Protocol):
    """Counts the matches of a stream, and how long each was under way."""

    def __init__(self, head: bytes, load: Load, sent: dict[int, float]) -> None:
        self._head, self._load, self._sent = head, load, sent
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._head)  # type: ignore[attr-defined]
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.startswith(b'data: {"id"'):
                at = line.index(b'"stamp":') + 8
                stamp = int(line[at : line.index(b",", at)])
                self._load.events += 1
                self._load.times.append(now - self._sent[stamp])


def sse_load(port: int, key: str, clients: int, events: list[bytes], rate: int, seconds: float) -> Load:
    """Open streams, one for each subscription, and publish every event `rate` times a second."""
    load = Load()
    sent: dict[int, float] = {}

    async def run() -> None:
        loop = asyncio.get_running_loop()
        listeners = []
        for number in range(clients):
            request = (
                f"GET /v1/stream?subscription=s{number} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
            )
            made = _Listener(request.encode(), load, sent)
            await loop.create_connection(lambda made=made: made, "127.0.0.1", port)
            listeners.append(made)
        await asyncio.sleep(1.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start = time.perf_counter()
        ticks = int(seconds * rate)
        for tick in range(ticks):
            await asyncio.sleep(max(start + tick / rate - time.perf_counter(), 0))
            lines = [b'{"stamp":%d,' % tick + event[1:] for event in events]
            sent[tick] = time.perf_counter()
            writer.write(head("/v1/events", key, b"\n".join(lines), 100))
            answer = await reader.readuntil(b"\r\n\r\n")
            at = answer.index(b"content-length: ") + 16
            await reader.readexactly(int(answer[at : answer.index(b"\r\n", at)]))
        for _ in range(100):
            if load.events >= clients * ticks:
                break
            await asyncio.sleep(0.1)
        load.seconds = time.perf_counter() - start
        load.complete = load.events == clients * ticks
        writer.close()
        for listener in listeners:
            listener.transport.close()

    _run(run())
    return load


def _run(main: object) -> None:
    try:
        import uvloop

        uvloop.run(main)  # type: ignore[arg-type]
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]
