"""Routes of events that are kept: reading them, and asking what would match."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from matchwood.broker import log
from matchwood.broker import types as t
from matchwood.broker.commands import check_expression, instant_text
from matchwood.broker.http import Answer, Request
from matchwood.broker.publishing import hits as hits_of
from matchwood.broker.routes.parameters import MAX_PAGE, PAGE
from matchwood.broker.tenant import Tenant
from matchwood.engine import Engine
from matchwood.errors import MatchwoodError, NotFoundError, RequestError
from matchwood.lang.json_values import of_json
from matchwood.schema import Schema, instant_key

EXAMINED = 50_000
"""Events that one replay examines."""


async def list_events(request: Request) -> Answer:
    """GET /v1/events"""
    query = request.query("after", "limit")
    limit = request.whole(query, "limit", PAGE, 1, MAX_PAGE) or PAGE
    after = request.whole(query, "after", 0, 0, 2**62) or 0
    tenant: Tenant = request.tenant
    found, trimmed = await tenant.read(lambda journal: (log.events(journal, after, limit), journal.trimmed))
    events = [
        t.StoredEvent(
            seq=one.seq,
            time=instant_text(one.time) or "",
            data=one.event.data,
            id=one.event.id,
            until=instant_text(one.event.until),
            matches=one.event.hits,
        )
        for one in found
    ]
    following = events[-1].seq if len(events) == limit else None
    return Answer(200, t.EventPage(events=events, oldest=trimmed + 1, next=following))


async def retract_event(request: Request) -> Answer:
    """DELETE /v1/events/SEQ"""
    request.query()
    seq = request.path["seq"]
    if not seq.isascii() or not seq.isdigit() or len(seq) > 18:
        raise RequestError(f"expected the number of an event, got {seq[:50]!r}")
    try:
        await request.tenant.call(request.tenant.retract, int(seq))
    except MatchwoodError as error:
        raise NotFoundError(str(error)) from None
    return Answer(204)


async def match(request: Request) -> Answer:
    """POST /v1/match"""
    request.query()
    asked = await request.decoded(t.MatchQuestion)
    tenant: Tenant = request.tenant
    limit = tenant.limits.hits
    most = limit + 1 if asked.k is None else min(asked.k, limit)
    event = {name: of_json(value) for name, value in asked.event.items()}
    found = await asyncio.to_thread(tenant.engine.top_k, event, most)
    pairs = [(str(hit.id), hit.score) for hit in found]
    answer = t.MatchAnswer(matches=hits_of(tenant, pairs[:limit]), truncated=asked.k is None and len(pairs) > limit)
    return Answer(200, answer)


def _probe(tenant: Tenant, expression: Any, **given: Any) -> Engine:
    """An engine with one subscription, "it", and the types and the scoring of the tenant."""
    check_expression(expression)
    attributes = tenant.engine.schema.attributes
    types = {name: attribute.declared for name, attribute in attributes.items() if attribute.declared}
    schema = Schema(types, learn=tenant.engine.schema.learn)
    engine = Engine(schema, ids="str", index="scan", scoring=tenant.engine.scoring, on_bad_value="absent")
    engine.subscribe(expression, id="it", **given)
    return engine


async def explain(request: Request) -> Answer:
    """POST /v1/explain"""
    request.query()
    asked = await request.decoded(t.ExplainQuestion)
    tenant: Tenant = request.tenant
    if (asked.event is None) == (asked.seq is None) or (asked.subscription is None) == (asked.expression is None):
        raise RequestError("expected one of `event` and `seq`, and one of `subscription` and `expression`")
    values = asked.event
    if asked.seq is not None:
        seq = asked.seq
        known = await tenant.read(lambda journal: log.event(journal, seq))
        if known is None:
            raise NotFoundError(f"event {asked.seq} is not retained")
        values = msgspec.json.decode(known.event.data, type=dict[str, Any])
    event = {name: of_json(value) for name, value in (values or {}).items()}

    def run() -> Any:
        if asked.subscription is not None:
            return tenant.engine.explain(event, asked.subscription)
        return _probe(tenant, asked.expression).explain(event, "it")

    found = await asyncio.to_thread(run)
    return Answer(200, t.ExplainAnswer(matched=found.matched, text=str(found), score=found.score))


async def replay(request: Request) -> Answer:
    """POST /v1/replay"""
    request.query()
    asked = await request.decoded(t.ReplayQuestion)
    tenant: Tenant = request.tenant
    if asked.since is not None and asked.after is not None:
        raise RequestError("expected `since` or `after`, not both")
    since = None if asked.since is None else int(instant_key(asked.since))
    place = None if asked.place is None else (asked.place[0], asked.place[1])
    engine = await asyncio.to_thread(
        _probe, tenant, asked.expression, priority=asked.priority, place=place, radius=asked.radius
    )

    def run(journal: Any) -> t.ReplayAnswer:
        after = asked.after or 0
        if since is not None:
            after = log.position_at(journal, since)
        found: list[t.ReplayHit] = []
        examined = 0
        while examined < EXAMINED:
            page = log.events(journal, after, 1000)
            for one in page:
                if since is None or one.time >= since:
                    found.extend(_replayed(engine, one))
            examined += len(page)
            if len(page) < 1000:
                after = -1
                break
            after = page[-1].seq
        if asked.k is not None:
            found = sorted(found, key=lambda hit: (-hit.score, hit.seq))[: asked.k]
        return t.ReplayAnswer(hits=found[: MAX_PAGE * 10], examined=examined, next=None if after < 0 else after)

    return Answer(200, await tenant.read(run))


def _replayed(engine: Engine, one: log.Logged) -> list[t.ReplayHit]:
    found = engine.match(bytes(one.event.data))
    time = instant_text(one.time) or ""
    return [t.ReplayHit(seq=one.seq, score=hit.score, time=time, data=one.event.data, id=one.event.id) for hit in found]
