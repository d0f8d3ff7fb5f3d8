"""No route shows or changes anything of another tenant. Every probe is made from the table of routes.

For each route there is a victim, who owns everything that a request can name, and a spy of another tenant, whose key has every
scope. The spy sends the request that names what the victim owns. Then the victim sends it, which must succeed: a probe that
nobody could make proves nothing. A new route, or a new field of a request, fails here until somebody says what it names.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import pytest

from matchwood.broker.route_table import ROUTES, Route
from tests.broker.service import Service, service
from tests.broker.test_service import send

MARK = "classified"
NUMBER = itertools.count()
HARMLESS = set(
    "k max wait lease limits delay limit until since priority radius metadata paused enabled ordered retries".split()
)
HARMLESS |= set("closed note If-Match If-None-Match shed from after all Last-Event-ID".split())
"""Fields and parameters that name nothing."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Service]:
    with service() as made:
        yield made


class Victim:
    """A tenant that has one of everything. `named` is what a request can name of it."""

    def __init__(self, broker: Service) -> None:
        self.broker, self.tenant = broker, f"victim{next(NUMBER)}"
        self.key = key_of(broker, self.tenant)
        self.ask("PUT", "/v1/schema", {"attributes": {"a": "number", MARK: "string"}})
        self.ask("PUT", "/v1/hooks/loot", {"url": f"http://127.0.0.1:1/{MARK}", "enabled": False})
        deliveries = [
            {"consumer": "loot"},
            {"type": "webhook", "hook": "loot"},
            {"consumer": "digested", "digest": DAILY},
        ]
        for id_, delivery in zip(["loot", "hooked", "digested"], deliveries, strict=True):
            self.ask(
                "POST", "/v1/subscriptions", {"id": id_, "expression": "a > 0", "metadata": MARK, "delivery": delivery}
            )
        self.seq = self.ask("POST", "/v1/events?id=loot&until=9999-01-01", {"a": 1, MARK: MARK})["seq"]
        dead = {"url": f"http://127.0.0.1:1/{MARK}", "enabled": False}
        self.ask("PUT", "/v1/hooks/gone", dead)
        self.ask(
            "POST",
            "/v1/subscriptions",
            {"id": "dying", "expression": "a > 5", "delivery": {"type": "webhook", "hook": "gone"}},
        )
        self.ask("POST", "/v1/events", {"a": 9, MARK: MARK})
        self.ask("DELETE", "/v1/hooks/gone")
        [letter] = self.ask("GET", "/v1/dead")["dead"]
        self.named: dict[str, Any] = {
            "id": "loot",
            "name": "loot",
            "seq": self.seq,
            "subscription": "loot",
            "consumer": "gone",  # of the dead letter
            "numbers": [letter["number"]],
            "ids": [f"loot@{self.seq}"],
            "event": {"a": 1},
            "expression": "a > 0",
            "attributes": {"a": "number"},
            "url": "http://127.0.0.1:1/other",
            "place": None,
            "delivery": {"consumer": "loot"},
            "scopes": ["admin"],
            "tenant": self.tenant,
            "wait": "matched",
        }

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = send(self.broker, method, path, body, key=self.key)
        assert status < 300, (method, path, answer)
        return answer

    def everything(self) -> str:
        """What the tenant has, in one text."""
        paths = [
            "/v1/subscriptions",
            "/v1/events",
            "/v1/dead",
            "/v1/hooks",
            "/v1/schema",
            "/v1/subscriptions/loot/live",
        ]
        found = [self.ask("GET", path) for path in paths]
        found.append([{**one, "lag": 0} for one in self.ask("GET", "/v1/consumers")["consumers"]])
        found.append({**self.ask("GET", "/v1/status"), "index": ""})
        return json.dumps(found, sort_keys=True)


DAILY = {"max": 3, "period": 86400}
ALTERNATIVES = {"/v1/explain": {"seq", "subscription"}, "/v1/dead/replay": {"numbers"}, "/v1/dead/discard": {"numbers"}}
"""Requests of which only some fields can be given together."""
ONCE = {"/v1/events": {"id"}, "/v1/stream": {"subscription"}}
"""Parameters that cannot be given with the others, or would make the request another one."""
FOR_ADMINISTRATORS = ("/v1/keys", "/v1/tenants")
"""Of the tenant `default` alone: victims are refused as well."""


def key_of(broker: Service, tenant: str) -> str:
    assert send(broker, "PUT", f"/v1/tenants/{tenant}", {})[0] == 201
    with broker.client() as admin:
        return str(admin.keys.make(["admin", "publish", "subscribe", "manage", "federate"], tenant=tenant).key)


def request_of(route: Route, named: dict[str, Any]) -> tuple[str, Any]:
    """The path and the body that name what is there."""
    path, query = route.path, []
    for param in route.params:
        if param.place == "path":
            path = path.replace("{" + param.name + "}", quote(str(named[param.name]), safe=""))
        elif param.name not in HARMLESS and param.name not in ONCE.get(route.path, ()):
            query.append(f"{param.name}={quote(str(named[param.name]))}")
    assert "{" not in path, f"{route.path}: a variable is not among the parameters"
    types = [one for kind, one in route.request.items() if kind == "application/json"]
    body: Any = None
    if types and isinstance(types[0], type) and issubclass(types[0], msgspec.Struct):
        body = {}
        for field in msgspec.structs.fields(types[0]):
            name = field.encode_name
            if name in ALTERNATIVES.get(route.path, {name}) and name not in HARMLESS:
                if types[0].__name__ == "TenantSettings":
                    continue  # numbers
                body[name] = named[name]
        body = {name: value for name, value in body.items() if value is not None}
    elif types:
        body = {"a": 1}
    return path + ("?" + "&".join(query) if query else ""), body


PROBED = [route for route in ROUTES if route.scope is not None and route.path != "/v1/stream"]


@pytest.mark.parametrize("route", PROBED, ids=lambda route: route.operation)
def test_a_request_that_names_what_another_tenant_has_shows_and_changes_nothing_of_it(
    route: Route, broker: Service
) -> None:
    victim = Victim(broker)
    spy = key_of(broker, f"spy{next(NUMBER)}")
    path, body = request_of(route, victim.named)
    before = victim.everything()
    assert MARK in before
    status, answer = send(broker, route.method, path, body, key=spy)
    assert status < 500
    text = answer.decode() if isinstance(answer, bytes) else json.dumps(answer)
    assert MARK not in text
    assert victim.tenant not in text or status == 403
    if route.path.startswith(FOR_ADMINISTRATORS):
        assert status == 403
    elif "{id}" in route.path or "{seq}" in route.path:
        assert status == 404 or (route.method == "PUT" and status == 201), answer
    assert victim.everything() == before
    # the same request is a real one
    status, answer = send(broker, route.method, path, body, key=victim.key)
    assert status == 403 if route.path.startswith(FOR_ADMINISTRATORS) else status < 300 or status == 409, (
        path,
        body,
        answer,
    )


def test_the_streams_of_a_tenant_show_nothing_of_another(broker: Service) -> None:
    victim = Victim(broker)
    spy = key_of(broker, f"spy{next(NUMBER)}")
    assert send(broker, "GET", "/v1/stream?subscription=loot", key=spy)[0] == 404

    async def listen() -> list[str]:
        heard: list[str] = []
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {spy}"}) as session:

            async def read(query: str) -> None:
                async with session.ws_connect(f"{broker.url}/v1/stream?{query}") as ws:
                    while True:
                        heard.append(await ws.receive_str())

            async def events() -> None:
                async with session.get(f"{broker.url}/v1/stream?all=1&from=0") as answer:
                    while line := await answer.content.readline():
                        heard.append(line.decode())

            tasks = [asyncio.ensure_future(one) for one in (read("all=1&from=0"), read("consumer=loot"), events())]
            await asyncio.sleep(0.3)
            await asyncio.to_thread(victim.ask, "POST", "/v1/events", {"a": 3, MARK: MARK})
            await asyncio.sleep(0.5)
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return heard

    heard = asyncio.run(listen())
    assert any("position" in line for line in heard)
    assert MARK not in "".join(heard)


def test_the_metrics_name_no_tenant_and_nothing_of_one(broker: Service) -> None:
    victim = Victim(broker)
    text = send(broker, "GET", "/metrics", key="")[1].decode()
    assert MARK not in text
    assert "loot" not in text
    assert victim.tenant not in text
