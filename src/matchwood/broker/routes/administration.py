"""Routes of the schema, keys, tenants and the state of the broker."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from matchwood.broker import types as t
from matchwood.broker.asyncapi import asyncapi
from matchwood.broker.http import Answer, Request
from matchwood.broker.openapi import openapi
from matchwood.broker.routes.parameters import name_of
from matchwood.broker.tenant import Tenant
from matchwood.errors import RequestError


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
        live_events=tenant.engine.live_count,
        index=tenant.engine.index,
        oldest=trimmed + 1,
        snapshot=tenant.engine.snapshots.last or None,
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
    return Answer(200, t.TenantPage(tenants=[_tenant_view(tenant) for _, tenant in tenants]))


def _tenant_view(tenant: Tenant) -> t.TenantView:
    scoring = msgspec.convert(tenant.engine.scoring, t.ScoringName)
    return t.TenantView(name=tenant.name, limits=tenant.limits, scoring=scoring)


async def put_tenant(request: Request) -> Answer:
    """PUT /v1/tenants/NAME"""
    request.query()
    request.broker.check_administrator(request.key)
    asked = await request.decoded(t.TenantSettings)
    name, limits = name_of(request), msgspec.convert(asked, t.TenantLimits, from_attributes=True)
    made = await request.broker.set_tenant(name, limits, asked.scoring)
    return Answer(201 if made else 200, _tenant_view(request.broker.tenants[name]))


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
