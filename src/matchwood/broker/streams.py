"""`GET /v1/stream`: matches as they happen, over server-sent events or a WebSocket, from a position on.

A stream first reads the log from its position to the last record that was handed to streams when it was added to the
hub; what comes later is in its buffer already. So nothing is missed and nothing comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from matchwood.broker import log
from matchwood.broker.http import WRITE_NOW, Receive, Request, Send
from matchwood.broker.hub import SEND_SECONDS, Client, Hub, encode_match, json_frame, sse_frame
from matchwood.broker.routes.consumers import shed_view
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import Gap, Name
from matchwood.errors import MatchwoodError, QuotaError, RequestError, UnknownSubscriptionError

if TYPE_CHECKING:
    from matchwood.broker.broker import Broker

LISTENED = 1000
"""Subscriptions of one stream."""
STREAMS = 20_000
WINDOW = 100
LEASE = 30.0
_ENCODE = msgspec.json.Encoder().encode

Write = Callable[[list[bytes]], Awaitable[None]]


class Ended(Exception):  # noqa: N818
    """The client has gone, or the broker stops."""


class Asked(msgspec.Struct):
    """What a client asks for."""

    subscriptions: frozenset[str] | None
    start: int | None
    shed: bool
    consumer: str | None = None


def read_query(request: Request) -> Asked:
    """The parameters of a stream."""
    query = request.query("subscription", "all", "from", "shed", "consumer")
    consumer = query.get("consumer", [None])[-1]
    named = query.get("subscription", [])
    if (bool(named) + ("all" in query) + (consumer is not None)) != 1:
        raise RequestError("expected subscription=ID (several times if need be), all=1, or consumer=NAME")
    if len(named) > LISTENED:
        raise RequestError(f"a stream takes at most {LISTENED:,} subscriptions, got {len(named):,}; use all=1")
    start = request.whole(query, "from", None, 0, 2**62)
    last = request.headers.get(b"last-event-id")
    if start is None and last is not None:
        if not last.isdigit() or len(last) > 18:
            raise RequestError(f"Last-Event-ID: expected a position, got {last[:50].decode('latin-1')!r}")
        start = int(last)
    if consumer is not None:
        try:
            consumer = msgspec.convert(consumer, Name)
        except msgspec.MsgspecError as error:
            raise RequestError(f"consumer {consumer[:50]!r}: {error}") from None
    subscriptions = None if "all" in query or consumer else frozenset(named)
    return Asked(subscriptions, start, query.get("shed", ["0"])[-1] == "1", consumer)


def _check(asked: Asked, tenant: Tenant, hub: Hub) -> None:
    for subscription in asked.subscriptions or ():
        if subscription not in tenant.engine:
            raise UnknownSubscriptionError(f"subscription {subscription!r} is not there")
    if hub.count >= STREAMS:
        raise QuotaError(f"{hub.count:,} streams are open, the limit; close some")


async def serve_sse(request: Request, broker: Broker, receive: Receive, send: Send) -> None:
    """Serve a request for server-sent events until the client goes."""
    asked = read_query(request)
    if asked.consumer is not None:
        raise RequestError("a durable consumer acknowledges: use a WebSocket, or POST /v1/consumers/NAME/pull")
    hub = broker.hubs[request.tenant.name]
    _check(asked, request.tenant, hub)
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    write_now = request.scope.get("extensions", {}).get(WRITE_NOW)
    client = Client(asked.subscriptions, sse_frame, shed=asked.shed, write_now=write_now)
    hub.add(client)
    gone = asyncio.create_task(_until_gone(receive, client))
    broker.metrics.streams.labels("sse").inc()
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        counter = broker.metrics.deliveries.labels("sse", "delivered")
        loop = asyncio.get_running_loop()

        async def write(messages: list[bytes]) -> None:
            client.sending_since = loop.time()
            await send({"type": "http.response.body", "body": b"".join(messages), "more_body": True})
            client.quiet_since, client.sending_since = client.sending_since, None
            counter.inc(len(messages))

        await _stream(request.tenant, hub, client, asked, write, gone, broker)
        await send({"type": "http.response.body", "body": b""})
    except (Ended, ConnectionError):
        pass
    except asyncio.CancelledError:
        if client.sending_since is None:
            raise
    finally:
        _finish(broker, hub, client, gone, "sse")


def _finish(broker: Broker, hub: Hub, client: Client, gone: asyncio.Task[Any], transport: str) -> None:
    hub.remove(client)
    gone.cancel()
    broker.metrics.streams.labels(transport).dec()
    if client.shed:
        broker.metrics.shed.labels("stream").inc(client.shed)
        broker.metrics.deliveries.labels(transport, "shed").inc(client.shed)


async def _until_gone(receive: Receive, client: Client) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass
    client.wake()


async def _stream(
    tenant: Tenant, hub: Hub, client: Client, asked: Asked, write: Write, gone: asyncio.Task[Any], broker: Broker
) -> None:
    """Write the log from the position on, and then what happens."""
    upto = hub.position
    start = upto if asked.start is None else min(asked.start, upto)
    if start < upto:
        start = await _catch_up(tenant, client, start, upto, write)
    await write([client.frame("position", upto, b'{"seq":%d}' % upto)])
    while not broker.stopping.is_set():
        messages = await client.take()
        if gone.done():
            raise Ended
        if client.overflown:  # it can go on from the last position that it has got
            broker.metrics.refused.labels("unsent").inc()
            return
        if messages:
            await write(messages)
        else:
            position = hub.position
            await write([client.frame("position", position, b'{"seq":%d}' % position)])


async def _catch_up(tenant: Tenant, client: Client, start: int, upto: int, write: Write) -> int:
    trimmed = await tenant.read(lambda journal: journal.trimmed)
    if start < trimmed:
        await write([client.frame("gap", trimmed, _ENCODE(Gap(from_=start, to=trimmed)))])
        start = trimmed
    while start < upto:
        found, start = await tenant.read(partial(log.happenings, after=start, upto=upto))
        messages: list[bytes] = []
        for happening in found:
            if happening.seq <= upto:
                messages.extend(_messages(tenant, client, happening))
        if messages:
            await write(messages)
    return start


def _messages(tenant: Tenant, client: Client, happening: Any) -> list[bytes]:
    """The matches of a logged record for one client; the last one carries the position."""
    wanted = []
    for subscription, score in happening.hits:
        if client.subscriptions is not None and subscription not in client.subscriptions:
            continue
        options = tenant.route_of(subscription)
        silent = options is not None and (
            options.type == "none"
            or (options.digest is not None and happening.digest is None)
            or (options.track is not None and subscription not in happening.notices)
        )
        if not silent:
            wanted.append((subscription, score))
    made = []
    for number, (subscription, score) in enumerate(wanted, 1):
        data = encode_match(happening, subscription, score, tenant.describe(subscription))
        made.append(client.frame("match", happening.seq if number == len(wanted) else None, data))
    return made


# WebSockets


async def serve_websocket(request: Request, broker: Broker, receive: Receive, send: Send) -> None:
    """Serve a WebSocket that has been authenticated, until the client goes."""
    asked = read_query(request)
    hub = broker.hubs[request.tenant.name]
    _check(asked, request.tenant, hub)
    await receive()  # websocket.connect
    await send({"type": "websocket.accept"})
    broker.metrics.streams.labels("websocket").inc()
    client = Client(asked.subscriptions, json_frame, shed=asked.shed)
    counter = broker.metrics.deliveries.labels("websocket", "delivered")
    loop = asyncio.get_running_loop()

    async def write(messages: list[bytes]) -> None:
        client.sending_since = loop.time()
        for message in messages:
            await send({"type": "websocket.send", "text": message.decode()})
        client.quiet_since, client.sending_since = client.sending_since, None
        counter.inc(len(messages))

    async def bounded(messages: list[bytes]) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await write(messages)

    if asked.consumer is not None:
        hub.count += 1
        try:
            await _consume(request.tenant, hub, f"stream:{asked.consumer}", receive, bounded, broker)
        except (Ended, TimeoutError, ConnectionError):
            pass
        finally:
            hub.count -= 1
            broker.metrics.streams.labels("websocket").dec()
        return
    hub.add(client)
    gone = asyncio.create_task(_until_gone(receive, client))
    try:
        await _stream(request.tenant, hub, client, asked, write, gone, broker)
        await send({"type": "websocket.close", "code": 1013 if client.overflown else 1001})
    except (Ended, ConnectionError):
        pass
    except asyncio.CancelledError:
        if client.sending_since is None:
            raise
    finally:
        _finish(broker, hub, client, gone, "websocket")


class _Told(msgspec.Struct, forbid_unknown_fields=True):
    """What the client of a durable consumer says."""

    ack: list[str] = []
    nack: list[str] = []
    delay: float | None = None


async def _consume(tenant: Tenant, hub: Hub, consumer: str, receive: Receive, write: Write, broker: Broker) -> None:
    """Deliver what waits for a durable consumer, at most WINDOW at a time without acknowledgement."""
    in_flight: set[str] = set()
    woken = hub.consumer(consumer)
    listening = asyncio.create_task(_listen(tenant, consumer, receive, in_flight, woken, write))
    try:
        while not broker.stopping.is_set() and not listening.done():
            woken.clear()
            if len(in_flight) < WINDOW:
                entries, shed = await tenant.call(tenant.pull, consumer, WINDOW - len(in_flight), LEASE)
                made = [entry.delivery(tenant.describe(entry.subscription)) for entry in entries]
                in_flight.update(delivery.id for delivery in made)
                told = [json_frame("shed", None, _ENCODE(one)) for one in shed_view(shed)]
                messages = told + [json_frame("match", None, _ENCODE(delivery)) for delivery in made]
                if messages:
                    await write(messages)
                    continue
            try:
                async with asyncio.timeout(1.0):  # leases may end
                    await woken.wait()
            except TimeoutError:
                in_flight = await _still_leased(tenant, consumer, in_flight)
        if listening.done():
            listening.result()
    finally:
        listening.cancel()
        if in_flight and not broker.stopping.is_set():
            with suppress(MatchwoodError):  # the lease ends by itself
                await tenant.call(tenant.give_back, consumer, in_flight, 0.0)


async def _still_leased(tenant: Tenant, consumer: str, in_flight: set[str]) -> set[str]:
    """Those of the deliveries that wait for an acknowledgement and are not due again."""
    if not in_flight:
        return in_flight
    sql = "SELECT subscription || '@' || seq FROM outbox WHERE consumer = ? AND due > ?"
    now = tenant._now()
    leased = await tenant.read(lambda journal: {row[0] for row in journal.connection.execute(sql, (consumer, now))})
    in_flight &= leased
    return in_flight


async def _listen(
    tenant: Tenant, consumer: str, receive: Receive, in_flight: set[str], woken: asyncio.Event, write: Write
) -> None:
    """Take acknowledgements until the client goes."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            woken.set()
            raise Ended
        try:
            told = msgspec.json.decode(message.get("text") or message.get("bytes") or b"", type=_Told)
            if told.ack:
                await tenant.call(tenant.acknowledge, consumer, told.ack)
            if told.nack:
                await tenant.call(tenant.give_back, consumer, told.nack, told.delay)
            in_flight.difference_update(told.ack, told.nack)
        except (msgspec.MsgspecError, MatchwoodError) as error:
            await write([json_frame("error", None, _ENCODE(str(error)))])
        woken.set()
