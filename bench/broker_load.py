"""The load of the broker's benchmark: plain sockets in one event loop, so that the load is not what is measured."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol


class Server(Protocol):
    """What a load needs to know of a broker."""

    port: int
    key: str

    def cpu(self) -> float:
        """Seconds of processor time so far."""


@dataclass
class Load:
    """What a load has measured: events (or deliveries), seconds, and the time of each request (or delivery).

    `cpu` is the processor time of the server meanwhile, `busy` the share of its own core that the load has used: near 1 it is
    the load that is measured.
    """

    events: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    busy: float = 0.0
    times: list[float] = field(default_factory=list)
    complete: bool = True

    @contextmanager
    def measured(self, cpu: Callable[[], float]) -> Iterator[None]:
        """A block that is measured; `cpu` gives the processor time of the server so far."""
        server, own, start = cpu(), time.process_time(), time.perf_counter()
        yield
        self.seconds = time.perf_counter() - start
        self.cpu, self.busy = cpu() - server, (time.process_time() - own) / self.seconds

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


def http_load(server: Server, path: str, bodies: list[bytes], connections: int, batch: int, seconds: float) -> Load:
    """Publish for so many seconds on so many connections; each waits for its answer before the next request."""
    port, key = server.port, server.key
    requests = [head(path, key, body, batch) for body in bodies]
    load = Load()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        end = time.perf_counter() + seconds
        posters = []
        with load.measured(server.cpu):
            for number in range(connections):
                made = _Poster(requests, number * 97, end, load, batch)
                await loop.create_connection(lambda made=made: made, "127.0.0.1", port)
                posters.append(made.done)
            await asyncio.gather(*posters)

    _run(run())
    return load


class _Listener(asyncio.Protocol):
    """Counts the matches of a stream, and how long each was under way."""

    def __init__(self, head: bytes, load: Load, sent: dict[int, float]) -> None:
        self._head, self.load, self._sent = head, load, sent
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
                self.load.events += 1
                self.load.times.append(now - self._sent[stamp])


def sse_load(server: Server, clients: int, events: list[bytes], rate: int, seconds: float) -> Load:
    """Open streams, one for each subscription, and publish every event `rate` times a second; the first second is not counted."""
    sent: dict[int, float] = {}
    warm, load = Load(), Load()

    async def ticks(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, numbers: range, into: Load) -> None:
        for listener in listeners:
            listener.load = into
        start = time.perf_counter()
        for at, tick in enumerate(numbers):
            await asyncio.sleep(max(start + at / rate - time.perf_counter(), 0))
            lines = [b'{"stamp":%d,' % tick + event[1:] for event in events]
            sent[tick] = time.perf_counter()
            writer.write(head("/v1/events", server.key, b"\n".join(lines), 100))
            answer = await reader.readuntil(b"\r\n\r\n")
            at_length = answer.index(b"content-length: ") + 16
            await reader.readexactly(int(answer[at_length : answer.index(b"\r\n", at_length)]))
        expected = clients * len(numbers)
        for _ in range(100):
            if into.events >= expected:
                break
            await asyncio.sleep(0.1)
        into.complete = into.events == expected

    listeners: list[_Listener] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in range(clients):
            request = f"GET /v1/stream?subscription=s{number} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n\r\n"
            made = _Listener(request.encode(), warm, sent)
            await loop.create_connection(lambda made=made: made, "127.0.0.1", server.port)
            listeners.append(made)
        await asyncio.sleep(1.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await ticks(writer, reader, range(rate), warm)
        with load.measured(server.cpu):
            await ticks(writer, reader, range(rate, rate + int(seconds * rate)), load)
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
