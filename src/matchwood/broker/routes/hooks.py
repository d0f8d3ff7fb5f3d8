"""Routes of webhooks."""

from __future__ import annotations

from matchwood.broker import hooks as hook_store
from matchwood.broker import types as t
from matchwood.broker.http import Answer, Request
from matchwood.broker.routes.parameters import name_of


async def list_hooks(request: Request) -> Answer:
    """GET /v1/hooks"""
    request.query()
    found = await request.tenant.read(lambda journal: hook_store.hooks(journal.connection))
    return Answer(200, t.HookPage(hooks=[hook.view() for hook in found]))


async def put_hook(request: Request) -> Answer:
    """PUT /v1/hooks/NAME"""
    request.query()
    new = await request.decoded(t.NewHook)
    hooks = request.broker.hooks[request.tenant.name]
    hook, secret = await request.tenant.call(hooks.put, name_of(request), new)
    return Answer(200 if secret is None else 201, hook.view(secret))


async def rotate_hook(request: Request) -> Answer:
    """POST /v1/hooks/NAME/rotate"""
    request.query()
    hooks = request.broker.hooks[request.tenant.name]
    hook, secret = await request.tenant.call(hooks.rotate, name_of(request))
    return Answer(200, hook.view(secret))


async def delete_hook(request: Request) -> Answer:
    """DELETE /v1/hooks/NAME"""
    request.query()
    await request.tenant.call(request.broker.hooks[request.tenant.name].remove, name_of(request))
    return Answer(204)
