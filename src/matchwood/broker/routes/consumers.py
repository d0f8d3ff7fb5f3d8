"""Routes of durable consumers and of dead letters."""

from __future__ import annotations

import asyncio
from typing import Any

from matchwood.broker import outbox
from matchwood.broker import types as t
from matchwood.broker.commands import instant_text
from matchwood.broker.http import Answer, Request
from matchwood.broker.routes.parameters import MAX_PAGE, PAGE, name_of
from matchwood.broker.tenant import Tenant
from matchwood.engine.journal import Journal
from matchwood.errors import RequestError


async def list_consumers(request: Request) -> Answer:
    """GET /v1/consumers"""
    request.query()
    return Answer(200, t.ConsumerPage(consumers=await asyncio.to_thread(request.tenant.consumer_views)))


def _consumer(request: Request) -> str:
    return "stream:" + name_of(request, "consumer")


def shed_view(found: Any) -> list[t.Shed]:
    """What was shed, as users see it."""
    return [] if found is None else [t.Shed(count=found[0], below=found[1], from_=found[2], to=found[3])]


async def pull(request: Request) -> Answer:
    """POST /v1/consumers/NAME/pull"""
    request.query()
    asked = await request.decoded(t.PullQuestion)
    tenant: Tenant = request.tenant
    consumer = _consumer(request)
    loop = asyncio.get_running_loop()
    end = loop.time() + asked.wait
    woken = request.broker.hubs[tenant.name].consumer(consumer)
    gone = asyncio.create_task(request.gone())
    try:
        while True:
            woken.clear()
            entries, shed = await tenant.call(tenant.pull, consumer, asked.max, asked.lease)
            left = end - loop.time()
            if entries or shed or left <= 0 or gone.done() or request.broker.stopping.is_set():
                break
            waiting = asyncio.create_task(woken.wait())
            await asyncio.wait((waiting, gone), timeout=min(left, 1.0), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()  # leases may end meanwhile, so that the wait is short
            if gone.done():  # nothing is leased to a client that is not there
                raise ConnectionResetError
        if gone.done() and entries:
            ids = [outbox.delivery_id(entry.subscription, entry.seq) for entry in entries]
            await tenant.call(tenant.give_back, consumer, ids, 0.0)
    finally:
        gone.cancel()
    deliveries = [entry.delivery(tenant.describe(entry.subscription)) for entry in entries]
    return Answer(200, t.Deliveries(deliveries=deliveries, shed=shed_view(shed)))


async def acknowledge(request: Request) -> Answer:
    """POST /v1/consumers/NAME/ack"""
    request.query()
    asked = await request.decoded(t.Acks)
    tenant: Tenant = request.tenant
    return Answer(200, t.AckAnswer(settled=await tenant.call(tenant.acknowledge, _consumer(request), asked.ids)))


async def give_back(request: Request) -> Answer:
    """POST /v1/consumers/NAME/nack"""
    request.query()
    asked = await request.decoded(t.Nacks)
    tenant: Tenant = request.tenant
    settled = await tenant.call(tenant.give_back, _consumer(request), asked.ids, asked.delay)
    return Answer(200, t.AckAnswer(settled=settled))


async def list_dead(request: Request) -> Answer:
    """GET /v1/dead"""
    query = request.query("consumer", "after", "limit")
    limit = request.whole(query, "limit", PAGE, 1, MAX_PAGE) or PAGE
    after = request.whole(query, "after", 0, 0, 2**62) or 0
    consumer = query.get("consumer", [None])[-1]

    def read(journal: Journal) -> tuple[Any, int]:
        letters = outbox.dead_letters(journal.connection, consumer, after, limit)
        return letters, outbox.dropped_dead(journal.connection)

    found, dropped = await request.tenant.read(read)
    letters = [
        t.DeadLetter(
            number=entry.number,
            consumer=entry.consumer,
            delivery=entry.delivery(),
            attempts=entry.attempts,
            reason=reason,
            time=instant_text(time) or "",
        )
        for entry, reason, time in found
    ]
    following = letters[-1].number if len(letters) == limit else None
    return Answer(200, t.DeadPage(dead=letters, dropped=dropped, next=following))


async def _choose(request: Request, run: Any) -> Answer:
    request.query()
    asked = await request.decoded(t.DeadChoice)
    if (asked.numbers is None) == (asked.consumer is None):
        raise RequestError("expected one of `numbers` and `consumer`")
    return Answer(200, t.DeadAnswer(count=await request.tenant.call(run, asked.numbers, asked.consumer)))


async def replay_dead(request: Request) -> Answer:
    """POST /v1/dead/replay"""
    return await _choose(request, request.tenant.revive)


async def discard_dead(request: Request) -> Answer:
    """POST /v1/dead/discard"""
    return await _choose(request, request.tenant.discard)
