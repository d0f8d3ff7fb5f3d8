"""Streams: who listens to what, and what is not sent yet.

A client has a buffer of bytes. Everything that one commit brings for it is put there and sent in one write: at once if nothing
before it waits and the connection takes it, else by the task of the client, which this wakes. A client that does not read is
bounded: when its buffer exceeds the limit it is disconnected and can go on from its position, or, if it has asked for that, loses
the matches of the lowest scores and is told how many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from matchwood.broker.commands import Happening, notice_view
from matchwood.broker.metrics import Metrics
from matchwood.broker.outbox import delivery_id
from matchwood.broker.shedding import ShedQueue
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import Delivery, Shed

HEARTBEAT = 15.0
"""Seconds after which a stream without matches is told its position."""
SEND_SECONDS = 30.0
"""How long a write to a client may take before it is disconnected."""
UNSENT_BYTES = 1 << 20
"""Bytes that may wait for one client."""
_ENCODE = msgspec.json.Encoder().encode

Frame = Callable[[str, int | None, bytes], bytes]
"""Makes a message of a stream from its kind, position and JSON."""
WriteNow = Callable[[bytes], bool]
"""Writes to a connection without waiting; False, and nothing is written, if it takes nothing now."""


def sse_frame(kind: str, position: int | None, data: bytes) -> bytes:
    """A server-sent event; a position makes it one to go on from."""
    head = b"" if position is None else b"id: %d\n" % position
    return b"%bevent: %b\ndata: %b\n\n" % (head, kind.encode(), data)


def json_frame(kind: str, position: int | None, data: bytes) -> bytes:
    """A message of a WebSocket."""
    return b'{"type":"%b","position":%b,"data":%b}' % (
        kind.encode(),
        b"null" if position is None else b"%d" % position,
        data,
    )


class Client:
    """One stream. `position` is the last record that it has got everything of."""

    def __init__(
        self,
        subscriptions: frozenset[str] | None,
        frame: Frame,
        *,
        shed: bool,
        limit: int = UNSENT_BYTES,
        write_now: WriteNow | None = None,
    ) -> None:
        self.subscriptions = subscriptions
        self.frame = frame
        self._write_now = None if shed else write_now
        self.limit = limit
        self.overflown = False
        self.task = asyncio.current_task()
        self.sending_since: float | None = None
        self.quiet_since = asyncio.get_running_loop().time()
        self._woken = False
        self._waiter: asyncio.Future[None] | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._queue: ShedQueue[bytes] | None = ShedQueue(limit) if shed else None

    def put(self, seq: int, score: float, message: bytes) -> None:
        """Add a message, to be sent by `flush`; O(1)."""
        if self._queue is not None:
            self._queue.put(seq, score, message, size=len(message))
        elif not self.overflown:
            self._waiting.append(message)
            self._size += len(message)
            if self._size > self.limit:
                self.overflown = True
                self._waiting.clear()
        self._woken = True

    def flush(self, now: float) -> int:
        """Write what waits if the task has written everything before it and the connection takes it; else wake the task.

        Returns the number of messages that were written.
        """
        waiter = self._waiter
        if waiter is None or waiter.done():
            return 0  # the task is at work, and looks again
        if self._write_now is not None and not self.overflown and self._write_now(b"".join(self._waiting)):
            count = len(self._waiting)
            self._waiting.clear()
            self._size, self._woken, self.quiet_since = 0, False, now
            return count
        waiter.set_result(None)
        return 0

    def wake(self) -> None:
        """Let the task look again."""
        self._woken = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def take(self) -> list[bytes]:
        """What waits, once something does or `wake` is called. No timers: the hub wakes clients that were quiet for long."""
        if not self._woken:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._waiter = None
        self._woken = False
        if self._queue is None:
            waiting, self._waiting, self._size = self._waiting, [], 0
            return waiting
        notice, items = self._queue.take(100_000)
        if notice is None:
            return items
        told = Shed(count=notice.count, below=notice.below, from_=notice.first, to=notice.last)
        return [self.frame("shed", None, _ENCODE(told)), *items]

    @property
    def shed(self) -> int:
        """Matches left out so far."""
        return 0 if self._queue is None else self._queue.shed


class Hub:
    """The streams of one tenant. Used in the loop only."""

    def __init__(self, tenant: Tenant, metrics: Metrics) -> None:
        self._tenant = tenant
        self._delivered = metrics.deliveries.labels("sse", "delivered")
        self._touched: set[Client] = set()  # clients that the current commit has messages for
        self._all: set[Client] = set()
        self._listening: dict[str, set[Client]] = {}
        self._consumers: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()  # of those that wait now
        self._others: list[Callable[[set[str]], None]] = []
        self.count = 0
        self.position = tenant.last  # of the last record that was handed to streams

    def add(self, client: Client) -> None:
        """Let a client get what is committed from now on."""
        self.count += 1
        if client.subscriptions is None:
            self._all.add(client)
            return
        for subscription in client.subscriptions:
            self._listening.setdefault(subscription, set()).add(client)

    def remove(self, client: Client) -> None:
        """Forget a client."""
        self.count -= 1
        self._all.discard(client)
        for subscription in client.subscriptions or ():
            listeners = self._listening.get(subscription)
            if listeners is not None:
                listeners.discard(client)
                if not listeners:
                    del self._listening[subscription]

    def committed(self, happenings: list[Happening], woken: set[str], last: int) -> None:
        """Deliver what a commit brought; its last record has the number `last`."""
        self.position = last
        if self._all or self._listening:
            for happening in happenings:
                self._deliver(happening)
            self._flush()
        for consumer in woken:
            event = self._consumers.get(consumer)
            if event is not None:
                event.set()
        if woken:
            for tell in self._others:
                tell(woken)

    def _flush(self) -> None:
        now = asyncio.get_running_loop().time()
        count = sum(client.flush(now) for client in self._touched)
        self._touched.clear()
        if count:
            self._delivered.inc(count)

    def _deliver(self, happening: Happening) -> None:
        last: dict[Client, tuple[str, float]] = {}
        targets: list[tuple[str, float, Iterable[Client]]] = []
        for subscription, score in happening.hits:
            listeners: Iterable[Client] | None = self._listening.get(subscription)
            if self._all:
                listeners = self._all if listeners is None else self._all | set(listeners)
            if listeners:
                targets.append((subscription, score, listeners))
                for client in listeners:
                    last[client] = subscription, score
        self._touched.update(last)
        for subscription, score, listeners in targets:
            data = encode_match(happening, subscription, score, self._tenant.describe(subscription))
            framed: dict[tuple[Frame, bool], bytes] = {}
            for client in listeners:
                ends = last[client] == (subscription, score)
                key = client.frame, ends
                message = framed.get(key)
                if message is None:
                    message = framed[key] = client.frame("match", happening.seq if ends else None, data)
                client.put(happening.seq, score, message)

    def consumer(self, name: str) -> asyncio.Event:
        """Set when the consumer has new deliveries. Who waits keeps it: the hub does not."""
        return self._consumers.setdefault(name, asyncio.Event())

    def on_woken(self, tell: Callable[[set[str]], None]) -> None:
        """Call this with the consumers that have new deliveries."""
        self._others.append(tell)

    def _clients(self) -> set[Client]:
        return {*self._all, *(client for listeners in self._listening.values() for client in listeners)}

    def look_after(self) -> None:
        """Wake the clients that were quiet for long, and cut off those that do not read. To be called every few seconds."""
        now = asyncio.get_running_loop().time()
        for client in self._clients():
            if client.sending_since is not None:
                if now - client.sending_since > SEND_SECONDS and client.task is not None:
                    client.task.cancel()
            elif now - client.quiet_since > HEARTBEAT:
                client.wake()

    def close(self) -> None:
        """Wake all clients, so that they see that the broker stops."""
        for client in self._clients():
            client.wake()


def encode_match(happening: Happening, subscription: str, score: float, metadata: Any) -> bytes:
    """The delivery of one match as JSON."""
    made = Delivery(
        id=delivery_id(subscription, happening.seq),
        subscription=subscription,
        seq=happening.seq,
        score=score,
        event=msgspec.Raw(happening.data),
        metadata=metadata,
        event_id=happening.event_id,
        traceparent=happening.trace,
    )
    if (notice := happening.notices.get(subscription)) is not None:
        made.track = notice_view(notice)
        made.event = None if happening.data == b"null" else made.event
    if happening.digest is not None:
        made.event, made.digest, made.left_out = None, happening.digest.hits, happening.digest.left_out
    return _ENCODE(made)
