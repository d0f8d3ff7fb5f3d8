"""The ASGI application: finds the route, checks the key, answers; every error is a problem document.

It is plain ASGI. A framework costs more than everything else that a small request needs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

from matchwood.broker import publishing, streams
from matchwood.broker.broker import Broker
from matchwood.broker.commands import Publish
from matchwood.broker.http import Answer, Receive, Request, Scope, Send, of_problem, respond
from matchwood.broker.keys import Scope as KeyScope
from matchwood.broker.keys import redacted
from matchwood.broker.problems import problem_of, problem_of_status
from matchwood.broker.route_table import ROUTES
from matchwood.broker.routes import administration, consumers, events, hooks, live, subscriptions
from matchwood.errors import MatchwoodError

LOG = logging.getLogger("matchwood.broker")

Handler = Callable[[Request], Awaitable[Answer]]
HANDLERS: dict[tuple[str, str], Handler] = {
    ("POST", "/v1/subscriptions"): subscriptions.subscribe,
    ("GET", "/v1/subscriptions"): subscriptions.list_subscriptions,
    ("GET", "/v1/subscriptions/{id}"): subscriptions.get_subscription,
    ("PUT", "/v1/subscriptions/{id}"): subscriptions.put_subscription,
    ("PATCH", "/v1/subscriptions/{id}"): subscriptions.patch_subscription,
    ("DELETE", "/v1/subscriptions/{id}"): subscriptions.delete_subscription,
    ("GET", "/v1/subscriptions/{id}/live"): subscriptions.live_of,
    ("GET", "/v1/subscriptions/{id}/inside"): subscriptions.inside,
    ("POST", "/v1/events"): publishing.publish,
    ("GET", "/v1/events"): events.list_events,
    ("DELETE", "/v1/events/{seq}"): events.retract_event,
    ("POST", "/v1/match"): events.match,
    ("POST", "/v1/explain"): events.explain,
    ("POST", "/v1/replay"): events.replay,
    ("GET", "/v1/consumers"): consumers.list_consumers,
    ("POST", "/v1/consumers/{name}/pull"): consumers.pull,
    ("POST", "/v1/consumers/{name}/ack"): consumers.acknowledge,
    ("POST", "/v1/consumers/{name}/nack"): consumers.give_back,
    ("GET", "/v1/dead"): consumers.list_dead,
    ("POST", "/v1/dead/replay"): consumers.replay_dead,
    ("POST", "/v1/dead/discard"): consumers.discard_dead,
    ("GET", "/v1/hooks"): hooks.list_hooks,
    ("PUT", "/v1/hooks/{name}"): hooks.put_hook,
    ("POST", "/v1/hooks/{name}/rotate"): hooks.rotate_hook,
    ("DELETE", "/v1/hooks/{name}"): hooks.delete_hook,
    ("GET", "/v1/schema"): administration.get_schema,
    ("PUT", "/v1/schema"): administration.put_schema,
    ("GET", "/v1/status"): administration.status,
    ("POST", "/v1/snapshot"): administration.snapshot,
    ("GET", "/v1/keys"): administration.list_keys,
    ("POST", "/v1/keys"): administration.new_key,
    ("POST", "/v1/keys/{id}/rotate"): administration.rotate_key,
    ("DELETE", "/v1/keys/{id}"): administration.delete_key,
    ("GET", "/v1/tenants"): administration.list_tenants,
    ("PUT", "/v1/tenants/{name}"): administration.put_tenant,
    ("GET", "/live"): live.live_page,
    ("GET", "/healthz"): administration.healthz,
    ("GET", "/readyz"): administration.readyz,
    ("GET", "/metrics"): administration.metrics,
    ("GET", "/openapi.json"): administration.openapi_document,
    ("GET", "/asyncapi.json"): administration.asyncapi_document,
}
"""The function of each route; `/v1/stream` is apart, since it has no single answer."""

_STREAM = "/v1/stream"


class _Found:
    """A route with all that a request needs."""

    __slots__ = ("counts", "handler", "label", "scope", "variables")

    def __init__(self, label: str, handler: Handler, scope: KeyScope | None, variables: dict[int, str]) -> None:
        self.label, self.handler, self.scope, self.variables = label, handler, scope, variables
        self.counts: dict[int, Any] = {}


class App:
    """See the module's text. The broker is opened by the server's lifespan messages."""

    def __init__(self, broker: Callable[[], Broker], started: Callable[[Broker, Any], None] | None = None) -> None:
        self._make, self._started = broker, started
        self.broker: Broker
        scopes = {(route.method, route.path): route.scope for route in ROUTES}
        self._plain: dict[tuple[str, str], _Found] = {}
        self._variable: dict[tuple[str, int], list[tuple[list[str], _Found]]] = {}
        self._methods: dict[str, set[str]] = {}
        for (method, path), handler in HANDLERS.items():
            parts = path.split("/")
            variables = {at: part[1:-1] for at, part in enumerate(parts) if part.startswith("{")}
            found = _Found(f"{method} {path}", handler, scopes[method, path], variables)
            if variables:
                self._variable.setdefault((method, len(parts)), []).append((parts, found))
            else:
                self._plain[method, path] = found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    self.broker = self._make()
                    secret = await self.broker.open()
                    if self._started is not None:
                        self._started(self.broker, secret)
                except Exception as error:
                    LOG.error("the broker cannot start: %s", error)
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.broker.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _find(self, method: str, scope: Scope) -> tuple[_Found, dict[str, str]] | None:
        path = scope["path"]
        found = self._plain.get((method, path))
        if found is not None:
            return found, {}
        raw = scope.get("raw_path") or path.encode()
        parts = [unquote(part) for part in raw.decode("latin-1").split("?")[0].split("/")]
        for pattern, route in self._variable.get((method, len(parts)), ()):
            if all(at in route.variables or part == parts[at] for at, part in enumerate(pattern)):
                return route, {name: parts[at] for at, name in route.variables.items()}
        return None

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        found = self._find("GET" if method == "HEAD" else method, scope)  # the server leaves out the body
        label = "other"
        try:
            if found is not None:
                route, variables = found
                label = route.label
                request = self._request(scope, receive, variables, route.scope)
                answer = await route.handler(request)
            elif method == "GET" and scope["path"] == _STREAM:
                label = "GET /v1/stream"
                request = self._request(scope, receive, {}, KeyScope.SUBSCRIBE)
                await streams.serve_sse(request, self.broker, receive, send)
                return
            else:
                answer = self._nowhere(method, scope)
        except MatchwoodError as error:
            answer = of_problem(problem_of(error))
        except ConnectionResetError:  # the client has gone
            return
        except Exception as error:
            LOG.exception("%s failed", label)
            answer = of_problem(problem_of(error))
        self._count(label, answer.status, None if found is None else found[0].counts)
        await respond(send, answer)

    def _count(self, label: str, status: int, counts: dict[int, Any] | None) -> None:
        if status >= 500:
            LOG.error("%s answered %d", redacted(label), status)
        if counts is None:
            self.broker.metrics.requests.labels(label, str(status)).inc()
            return
        counter = counts.get(status)
        if counter is None:
            counter = counts[status] = self.broker.metrics.requests.labels(label, str(status))
        counter.inc()

    def publish_whole(self, head: Scope, body: bytes, done: Callable[[Answer], None]) -> None:
        """`POST /v1/events` of a request that is there as a whole: `done` gets its answer, now or later, in the loop."""
        route = self._plain["POST", "/v1/events"]

        def answered(make: Callable[[], Answer]) -> None:
            try:
                answer = make()
            except MatchwoodError as error:
                answer = of_problem(problem_of(error))
            except Exception as error:
                LOG.exception("%s failed", route.label)
                answer = of_problem(problem_of(error))
            self._count(route.label, answer.status, route.counts)
            done(answer)

        try:
            request = self._request(head, _never, {}, route.scope)
            asked = publishing.read(request, body)
            events, tenant = asked.readable(), request.tenant
            if events:
                tenant.submit(Publish(events, asked.k, lambda found: answered(partial(_answer, tenant, asked, found))))
                return
        except Exception as error:
            answered(partial(_raise, error))
        else:
            answered(partial(_answer, tenant, asked, []))

    def _request(self, scope: Scope, receive: Receive, path: dict[str, str], needed: KeyScope | None) -> Request:
        request = Request(scope, receive, path)
        request.broker = self.broker
        if needed is not None:
            key = self.broker.authenticate(request.headers.get(b"authorization"), needed)
            request.key, request.tenant = key, self.broker.tenants[key.tenant]
        return request

    def _nowhere(self, method: str, scope: Scope) -> Answer:
        """404, or 405 if the path has other methods."""
        others = [other for other in ("GET", "POST", "PUT", "PATCH", "DELETE") if self._find(other, scope) is not None]
        if scope["path"] == _STREAM:
            others = ["GET"]
        if not others:
            return of_problem(problem_of_status(404, "there is no such route; GET /openapi.json lists them"))
        answer = of_problem(problem_of_status(405, f"{method} is not offered here; use {', '.join(others)}"))
        return answer._replace(headers=(*answer.headers, (b"allow", ", ".join(others).encode())))

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] != _STREAM:
                raise RequestErrorAt(404)
            scope["method"] = "GET"
            request = self._request(scope, receive, {}, KeyScope.SUBSCRIBE)
            await streams.serve_websocket(request, self.broker, receive, send)
        except RequestErrorAt as error:
            await self._refuse(scope, send, of_problem(problem_of_status(error.status, "WebSockets are at /v1/stream")))
        except MatchwoodError as error:
            await self._refuse(scope, send, of_problem(problem_of(error)))

    async def _refuse(self, scope: Scope, send: Send, answer: Answer) -> None:
        """Refuse a WebSocket, with a body if the server can send one."""
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = list(answer.headers)
        await send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": answer.body})


def _answer(tenant: Any, asked: publishing.Asked, found: Any) -> Answer:
    return _raise(found) if isinstance(found, BaseException) else publishing.answer(tenant, asked, found)


def _raise(error: BaseException) -> Answer:
    raise error


async def _never() -> Any:
    """The body of a request that is there as a whole is not received."""
    raise AssertionError


class RequestErrorAt(Exception):  # noqa: N818
    """A status without an exception of ours."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status
