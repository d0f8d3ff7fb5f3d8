"""The routes but for events and streams: one function each, named in `app`."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET

from matchwood.broker import hooks as hook_store
from matchwood.broker import log, outbox
from matchwood.broker import types as t
from matchwood.broker.asyncapi import asyncapi
from matchwood.broker.commands import Conditions, check_expression, instant_text, stored
from matchwood.broker.http import Answer, Request
from matchwood.broker.openapi import openapi
from matchwood.broker.publishing import hits as hits_of
from matchwood.broker.tenant import Tenant
from matchwood.encode.json_values import of_json
from matchwood.engine import Engine
from matchwood.engine.tables import Stored
from matchwood.errors import MatchwoodError, NotFoundError, RequestError, TooLargeError, UnknownSubscriptionError
from matchwood.schema import Schema, instant_key

PAGE = 100
MAX_PAGE = 1000
EXAMINED = 50_000
"""Events that one replay examines."""
BULK = 10_000
"""Subscriptions of one request, at most."""


# subscriptions


def _arguments(new: t.NewSubscription) -> dict[str, Any]:
    """The arguments of `Engine.subscribe` but for the id."""
    check_expression(new.expression)
    return {
        "expression": new.expression,
        "priority": new.priority,
        "place": None if new.place is None else (new.place[0], new.place[1]),
        "radius": new.radius,
        "until": new.until,
        "metadata": new.metadata,
    }


def _checked_id(id_: str) -> str:
    if not 0 < len(id_) <= 200 or not id_.isprintable():
        raise RequestError(f"expected an id of 1 to 200 printable characters, got {id_[:50]!r}")
    return id_


def _view(found: Stored, revision: int) -> t.SubscriptionView:
    record = found.record
    options = t.DeliveryOptions() if record.about is None else msgspec.convert(record.about, t.DeliveryOptions)
    return t.SubscriptionView(
        id=str(record.id),
        expression=record.expression,
        revision=revision,
        priority=record.priority,
        place=record.place,
        radius=record.radius,
        until=instant_text(record.until),
        metadata=record.metadata,
        delivery=options,
        paused=found.paused,
    )


async def _viewed(tenant: Tenant, id_: str) -> t.SubscriptionView:
    found = await tenant.read(lambda journal: stored(journal.connection, id_))
    if found is None or id_ not in tenant.engine:
        raise UnknownSubscriptionError(f"subscription {id_!r} is not there")
    return _view(*found)


def _tagged(status: int, view: t.SubscriptionView) -> Answer:
    return Answer(status, view, ((b"etag", b'"%d"' % view.revision),))


def _conditions(request: Request) -> Conditions:
    given = request.headers.get(b"if-match")
    absent = request.headers.get(b"if-none-match", b"").strip() == b"*"
    if given is None or given.strip() == b"*":
        return Conditions(absent=absent)
    text = given.strip().removeprefix(b"W/").strip(b'"')
    if not text.isdigit() or len(text) > 18:
        raise RequestError(f"If-Match: expected a revision, got {given[:50].decode('latin-1')!r}")
    return Conditions(int(text), absent)


def _live(found: list[tuple[int, float]]) -> list[t.LiveHit]:
    return [t.LiveHit(seq=seq, score=score) for seq, score in found]


async def subscribe(request: Request) -> Answer:
    """POST /v1/subscriptions"""
    request.query()
    tenant: Tenant = request.tenant
    if request.headers.get(b"content-type", b"").startswith(b"application/x-ndjson"):
        return await _subscribe_many(request, tenant)
    new = await request.decoded(t.NewSubscription)
    given = _arguments(new)
    if new.id is not None:
        given["id"] = _checked_id(new.id)
    id_, _, live = await tenant.call(tenant.subscribe, given, new.delivery)
    view = await _viewed(tenant, id_)
    view.live = _live(live)
    return _tagged(201, view)


async def _subscribe_many(request: Request, tenant: Tenant) -> Answer:
    body = await request.body()
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) > BULK:
        raise TooLargeError(f"the batch has {len(lines):,} subscriptions, the limit is {BULK:,}; send several requests")
    several: list[Any] = []
    for line in lines:
        try:
            new = msgspec.json.decode(line, type=t.NewSubscription)
            given = _arguments(new)
            if new.id is not None:
                given["id"] = _checked_id(new.id)
            several.append((given, new.delivery))
        except msgspec.MsgspecError as error:
            several.append(RequestError(f"the line cannot be used: {error}"))
        except MatchwoodError as error:
            several.append(error)
    ids, seq, rejected = await tenant.call(tenant.subscribe_many, several)
    return Answer(200, t.BulkAnswer(ids=ids, seq=seq, rejected=rejected))


async def list_subscriptions(request: Request) -> Answer:
    """GET /v1/subscriptions"""
    query = request.query("after", "limit")
    limit = request.whole(query, "limit", PAGE, 1, MAX_PAGE)
    after = request.whole(query, "after", 0, 0, 2**62)
    tenant: Tenant = request.tenant
    sql = "SELECT position, body, revision FROM subscriptions WHERE position > ? ORDER BY position LIMIT ?"
    rows = await tenant.read(lambda journal: list(journal.connection.execute(sql, (after, limit))))
    views = [_view(msgspec.json.decode(body, type=Stored), revision) for _, body, revision in rows]
    following = str(rows[-1][0]) if len(rows) == limit else None
    page = t.SubscriptionPage(subscriptions=[view for view in views if view.id in tenant.engine], next=following)
    return Answer(200, page)


async def get_subscription(request: Request) -> Answer:
    """GET /v1/subscriptions/ID"""
    request.query()
    return _tagged(200, await _viewed(request.tenant, request.path["id"]))


async def put_subscription(request: Request) -> Answer:
    """PUT /v1/subscriptions/ID"""
    request.query()
    tenant: Tenant = request.tenant
    id_ = _checked_id(request.path["id"])
    new = await request.decoded(t.NewSubscription)
    if new.id not in (None, id_):
        raise RequestError(f"the body has the id {new.id!r}, the path {id_!r}")
    made, _, live = await tenant.call(tenant.replace, id_, _arguments(new), new.delivery, _conditions(request))
    view = await _viewed(tenant, id_)
    if made:
        view.live = _live(live)
    return _tagged(201 if made else 200, view)


async def patch_subscription(request: Request) -> Answer:
    """PATCH /v1/subscriptions/ID"""
    request.query()
    tenant: Tenant = request.tenant
    id_ = request.path["id"]
    patch = await request.decoded(t.SubscriptionPatch)
    changes: dict[str, Any] = {}
    for name in ("expression", "priority", "radius", "until", "metadata", "delivery", "paused"):
        value = getattr(patch, name)
        if value is not UNSET:
            changes[name] = value
    if "expression" in changes:
        check_expression(changes["expression"])
    if patch.place is not UNSET:
        changes["place" if "expression" in changes else "moved"] = (patch.place[0], patch.place[1])
    if not changes:
        raise RequestError("nothing is to be changed")
    await tenant.call(tenant.change, id_, changes, _conditions(request))
    return _tagged(200, await _viewed(tenant, id_))


async def delete_subscription(request: Request) -> Answer:
    """DELETE /v1/subscriptions/ID"""
    request.query()
    await request.tenant.call(request.tenant.unsubscribe, request.path["id"], _conditions(request))
    return Answer(204)


async def live_of(request: Request) -> Answer:
    """GET /v1/subscriptions/ID/live"""
    query = request.query("k")
    k = request.whole(query, "k", 100, 1, 10_000)
    found = await asyncio.to_thread(request.tenant.engine.live, request.path["id"], k=k)
    return Answer(200, t.LiveAnswer(live=[t.LiveHit(seq=hit.event, score=hit.score) for hit in found]))


# events


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
    """An engine with one subscription, "it", and the types of the tenant."""
    check_expression(expression)
    attributes = tenant.engine.schema.attributes
    types = {name: attribute.declared for name, attribute in attributes.items() if attribute.declared}
    engine = Engine(Schema(types, learn=tenant.engine.schema.learn), ids="str", index="scan", on_bad_value="absent")
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


# consumers and dead letters


async def list_consumers(request: Request) -> Answer:
    """GET /v1/consumers"""
    request.query()
    return Answer(200, t.ConsumerPage(consumers=await asyncio.to_thread(request.tenant.consumer_views)))


def _consumer(request: Request) -> str:
    name = request.path["name"]
    try:
        return "stream:" + msgspec.convert(name, t.Name)
    except msgspec.MsgspecError as error:
        raise RequestError(f"consumer {name[:50]!r}: {error}") from None


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
    found = await request.tenant.read(lambda journal: outbox.dead_letters(journal.connection, consumer, after, limit))
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
    return Answer(200, t.DeadPage(dead=letters, next=letters[-1].number if len(letters) == limit else None))


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


# hooks


async def list_hooks(request: Request) -> Answer:
    """GET /v1/hooks"""
    request.query()
    found = await request.tenant.read(lambda journal: hook_store.hooks(journal.connection))
    return Answer(200, t.HookPage(hooks=[hook.view() for hook in found]))


def _name(request: Request) -> str:
    name = request.path["name"]
    try:
        return msgspec.convert(name, t.Name)
    except msgspec.MsgspecError as error:
        raise RequestError(f"name {name[:50]!r}: {error}") from None


async def put_hook(request: Request) -> Answer:
    """PUT /v1/hooks/NAME"""
    request.query()
    new = await request.decoded(t.NewHook)
    hooks = request.broker.hooks[request.tenant.name]
    hook, secret = await request.tenant.call(hooks.put, _name(request), new.url, new.enabled)
    return Answer(200 if secret is None else 201, hook.view(secret))


async def rotate_hook(request: Request) -> Answer:
    """POST /v1/hooks/NAME/rotate"""
    request.query()
    hooks = request.broker.hooks[request.tenant.name]
    hook, secret = await request.tenant.call(hooks.rotate, _name(request))
    return Answer(200, hook.view(secret))


async def delete_hook(request: Request) -> Answer:
    """DELETE /v1/hooks/NAME"""
    request.query()
    await request.tenant.call(request.broker.hooks[request.tenant.name].remove, _name(request))
    return Answer(204)


# administration


def _schema(tenant: Tenant) -> t.SchemaView:
    attributes = tenant.engine.schema.attributes
    types = {name: attribute.declared for name, attribute in attributes.items() if attribute.declared}
    return t.SchemaView(attributes=types, closed=not tenant.engine.schema.learn)


async def get_schema(request: Request) -> Answer:
    """GET /v1/schema"""
    request.query()
    return Answer(200, _schema(request.tenant))


async def put_schema(request: Request) -> Answer:
    """PUT /v1/schema"""
    request.query()
    asked = await request.decoded(t.SchemaView)
    if len(asked.attributes) > 1000:
        raise RequestError(f"expected at most 1,000 attributes at once, got {len(asked.attributes):,}")
    await request.tenant.call(request.tenant.declare, asked.attributes, asked.closed)
    return Answer(200, _schema(request.tenant))


async def status(request: Request) -> Answer:
    """GET /v1/status"""
    request.query()
    tenant: Tenant = request.tenant
    trimmed = await tenant.read(lambda journal: journal.trimmed)
    view = t.StatusView(
        tenant=tenant.name,
        seq=tenant.last,
        subscriptions=len(tenant.engine),
        live_events=len(tenant.engine._live),
        index=tenant.engine.index,
        oldest=trimmed + 1,
        snapshot=tenant.engine._snapshotting.last or None,
        streams=request.broker.hubs[tenant.name].count,
        state="ready" if tenant.problem is None else "failed",
        problem=tenant.problem,
    )
    return Answer(200, view)


async def snapshot(request: Request) -> Answer:
    """POST /v1/snapshot"""
    request.query()
    return Answer(200, t.SnapshotAnswer(seq=await request.tenant.snapshot()))


def _key_view(key: Any, secret: Any = None) -> t.KeyView:
    shown = None if secret is None else secret.reveal()
    return t.KeyView(id=key.id, tenant=key.tenant, scopes=sorted(key.scopes), note=key.note, key=shown)


async def list_keys(request: Request) -> Answer:
    """GET /v1/keys"""
    request.query()
    request.broker.check_administrator(request.key)
    return Answer(200, t.KeyPage(keys=[_key_view(key) for key in request.broker.keys if key.revoked is None]))


async def new_key(request: Request) -> Answer:
    """POST /v1/keys"""
    request.query()
    request.broker.check_administrator(request.key)
    asked = await request.decoded(t.NewKey)
    return Answer(201, _key_view(*request.broker.new_key(asked.tenant, asked.scopes, asked.note)))


async def rotate_key(request: Request) -> Answer:
    """POST /v1/keys/ID/rotate"""
    request.query()
    request.broker.check_administrator(request.key)
    return Answer(200, _key_view(*request.broker.rotate_key(request.path["id"])))


async def delete_key(request: Request) -> Answer:
    """DELETE /v1/keys/ID"""
    request.query()
    request.broker.check_administrator(request.key)
    request.broker.revoke_key(request.path["id"])
    return Answer(204)


async def list_tenants(request: Request) -> Answer:
    """GET /v1/tenants"""
    request.query()
    request.broker.check_administrator(request.key)
    tenants = sorted(request.broker.tenants.items())
    return Answer(
        200, t.TenantPage(tenants=[t.TenantView(name=name, limits=tenant.limits) for name, tenant in tenants])
    )


async def put_tenant(request: Request) -> Answer:
    """PUT /v1/tenants/NAME"""
    request.query()
    request.broker.check_administrator(request.key)
    limits = await request.decoded(t.TenantLimits)
    made = await request.broker.set_tenant(_name(request), limits)
    return Answer(201 if made else 200, t.TenantView(name=request.path["name"], limits=limits))


async def healthz(request: Request) -> Answer:
    """GET /healthz"""
    return Answer(200, b"ok\n", ((b"content-type", b"text/plain"),))


async def readyz(request: Request) -> Answer:
    """GET /readyz"""
    problems = request.broker.problems()
    if problems or request.broker.stopping.is_set():
        text = "\n".join(f"{name}: {problem}" for name, problem in problems.items()) or "stopping"
        return Answer(503, f"{text}\n".encode(), ((b"content-type", b"text/plain"),))
    return Answer(200, b"ready\n", ((b"content-type", b"text/plain"),))


async def metrics(request: Request) -> Answer:
    """GET /metrics"""
    accept = request.headers.get(b"accept", b"").decode("latin-1")
    content_type, body = await asyncio.to_thread(request.broker.metrics.text, accept)
    return Answer(200, body, ((b"content-type", content_type.encode()),))


async def openapi_document(request: Request) -> Answer:
    """GET /openapi.json"""
    return Answer(200, openapi())


async def asyncapi_document(request: Request) -> Answer:
    """GET /asyncapi.json"""
    return Answer(200, asyncapi())
