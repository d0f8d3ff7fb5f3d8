"""Routes of subscriptions."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET

from matchwood.broker import types as t
from matchwood.broker.commands import Conditions, check_expression, instant_text, stored
from matchwood.broker.http import Answer, Request
from matchwood.broker.routes.parameters import MAX_PAGE, PAGE
from matchwood.broker.tenant import Tenant
from matchwood.engine.tables import Stored
from matchwood.errors import MatchwoodError, RequestError, TooLargeError, UnknownSubscriptionError

BULK = 10_000
"""Subscriptions of one request, at most."""


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


async def inside(request: Request) -> Answer:
    """GET /v1/subscriptions/ID/inside"""
    query = request.query("limit")
    limit = request.whole(query, "limit", PAGE, 1, MAX_PAGE)
    id_ = request.path["id"]
    if id_ not in request.tenant.engine:
        raise UnknownSubscriptionError(f"subscription {id_!r} is not there")
    sql = "SELECT object, since FROM stays WHERE subscription = ? ORDER BY since, object LIMIT ?"
    rows = await request.tenant.read(lambda journal: list(journal.connection.execute(sql, (id_, limit))))
    found = [t.Inside(object=msgspec.json.decode(object_), since=instant_text(since) or "") for object_, since in rows]
    return Answer(200, t.InsideAnswer(inside=found))
