"""A broker in memory for tests of the client: the routes it uses, and faults on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from matchwood import Engine
from matchwood.broker.problems import CONTENT_TYPE, problem_of
from matchwood.errors import (
    AuthenticationError,
    MatchwoodError,
    NotFoundError,
    UnavailableError,
    UnknownSubscriptionError,
)

KEY = "mw_0123456789_" + "A" * 43


class Double:
    """`faults` are used by the next requests: "reset" (nothing happens), "lost" (it happens, without an answer), or an error."""

    def __init__(self) -> None:
        self.engine = Engine(ids="str", index="scan")
        self.seq = 0
        self.specs: dict[str, dict[str, Any]] = {}
        self.revisions: dict[str, int] = {}
        self.log: list[dict[str, Any]] = []  # deliveries by seq
        self.by_id: dict[str, int] = {}
        self.waiting: dict[str, dict[str, dict[str, Any]]] = {}
        self.leased: set[str] = set()
        self.acked: list[str] = []
        self.nacked: list[tuple[str, float | None]] = []
        self.faults: list[str | MatchwoodError] = []
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[int] = []
        self.changed = asyncio.Event()
        self.streams: set[asyncio.Task[Any]] = set()
        self.oldest = 0
        self.ids_on_last_only = True
        self.url = ""

    # requests

    @web.middleware
    async def handle(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        fault = self.faults.pop(0) if self.faults else None
        if fault == "reset":
            request.transport.close()  # type: ignore[union-attr]
            return web.Response()
        try:
            if isinstance(fault, MatchwoodError):
                raise fault
            if request.headers.get("Authorization") != f"Bearer {KEY}":
                raise AuthenticationError("who are you?")
            answer = await handler(request)
        except MatchwoodError as error:
            problem = problem_of(error)
            return web.json_response(
                problem.to_json(), status=problem.status, headers=dict(problem.headers), content_type=CONTENT_TYPE
            )
        if fault == "lost":
            request.transport.close()  # type: ignore[union-attr]
        return answer

    def next(self) -> int:
        self.seq += 1
        return self.seq

    async def put(self, request: web.Request) -> web.Response:
        spec = await request.json()
        id_ = request.match_info.get("id") or spec.pop("id", None) or f"made-{self.seq}"
        options = {name: spec[name] for name in ("priority", "until", "metadata", "place", "radius") if name in spec}
        if id_ in self.specs:
            self.engine.unsubscribe(id_)
        self.engine.subscribe(spec["expression"], id=id_, **options)
        self.specs[id_], self.revisions[id_] = spec, self.next()
        return web.json_response(self.view(id_), status=201)

    def view(self, id_: str) -> dict[str, Any]:
        if id_ not in self.specs:
            raise UnknownSubscriptionError(f"there is no subscription {id_!r}")
        return {"id": id_, "revision": self.revisions[id_], **self.specs[id_]}

    async def patch(self, request: web.Request) -> web.Response:
        id_ = request.match_info["id"]
        self.view(id_)
        self.specs[id_] |= await request.json()
        self.revisions[id_] = self.next()
        return web.json_response(self.view(id_))

    async def get(self, request: web.Request) -> web.Response:
        return web.json_response(self.view(request.match_info["id"]))

    async def pages(self, request: web.Request) -> web.Response:
        names = sorted(self.specs)
        after = request.query.get("after")
        left = [name for name in names if after is None or name > after]
        page = [self.view(name) for name in left[:2]]
        return web.json_response({"subscriptions": page, "next": left[1] if len(left) > 2 else None})

    async def delete(self, request: web.Request) -> web.Response:
        id_ = request.match_info["id"]
        self.view(id_)
        self.drop(id_)
        return web.Response(status=204)

    def drop(self, id_: str) -> None:
        self.engine.unsubscribe(id_)
        del self.specs[id_], self.revisions[id_]

    async def events(self, request: web.Request) -> web.Response:
        body = await request.read()
        many = request.content_type == "application/x-ndjson"
        lines = body.splitlines() if many else [body]
        self.bodies.append(len(lines))
        given = request.query.get("id")
        answers: list[dict[str, Any] | None] = []
        rejected = []
        for position, line in enumerate(lines):
            id_ = None if given is None else f"{given}#{position}" if many else given
            try:
                answers.append(self.publish(json.loads(line), id_, request.query))
            except MatchwoodError as error:
                if not many:
                    raise
                answers.append(None)
                rejected.append({"position": position, "problem": str(error)})
        self.changed.set()
        self.changed = asyncio.Event()
        return web.json_response({"events": answers, "rejected": rejected} if many else answers[0], status=202)

    def publish(self, event: dict[str, Any], id_: str | None, query: Any) -> dict[str, Any]:
        if id_ is not None and id_ in self.by_id:
            return {"seq": self.by_id[id_], "id": id_, "duplicate": True}
        k = query.get("k")
        hits = self.engine.top_k(event, int(k)) if k else self.engine.match(event)
        seq = self.next()
        if id_ is not None:
            self.by_id[id_] = seq
        for hit in hits:
            delivery = {
                "id": f"{hit.id}@{seq}",
                "subscription": hit.id,
                "seq": seq,
                "score": hit.score,
                "event": event,
                "metadata": self.specs[str(hit.id)].get("metadata"),
                "event_id": id_,
            }
            self.log.append(delivery)
            consumer = self.specs[str(hit.id)].get("delivery", {}).get("consumer")
            if consumer:
                self.waiting.setdefault(consumer, {})[delivery["id"]] = delivery
        answer: dict[str, Any] = {"seq": seq, "matched": len(hits), "id": id_}
        if query.get("wait"):
            answer["matches"] = [{"subscription": hit.id, "score": hit.score} for hit in hits]
        return answer

    async def match(self, request: web.Request) -> web.Response:
        asked = await request.json()
        hits = self.engine.match(asked["event"])
        return web.json_response({"matches": [{"subscription": hit.id, "score": hit.score} for hit in hits]})

    async def explain(self, request: web.Request) -> web.Response:
        asked = await request.json()
        told = self.engine.explain(asked["event"], asked["subscription"])
        return web.json_response({"matched": told.matched, "text": str(told), "score": told.score})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        names = set(request.query.getall("subscription", []))
        for name in names:
            self.view(name)
        position = int(request.query.get("from", self.seq))
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self.streams.add(task)
        try:
            if position < self.oldest:
                gap = json.dumps({"from": position, "to": self.oldest})
                await answer.write(f"id: {self.oldest}\nevent: gap\ndata: {gap}\n\n".encode())
                position = self.oldest
            while True:
                found = [
                    one for one in self.log if one["seq"] > position and (not names or one["subscription"] in names)
                ]
                for place, one in enumerate(found):
                    last = place + 1 == len(found) or found[place + 1]["seq"] != one["seq"]
                    head = f"id: {one['seq']}\n" if last or not self.ids_on_last_only else ""
                    await answer.write(f"{head}event: match\ndata: {json.dumps(one)}\n\n".encode())
                    position = one["seq"] if last else position
                changed = self.changed
                await changed.wait()
        except asyncio.CancelledError:
            request.transport.close()  # type: ignore[union-attr]
            raise
        finally:
            self.streams.discard(task)

    def cut(self) -> None:
        """Break off every stream."""
        for task in list(self.streams):
            task.cancel()

    async def pull(self, request: web.Request) -> web.Response:
        asked = await request.json()
        waiting = self.waiting.setdefault(request.match_info["name"], {})
        for _ in range(2):
            found = [one for one in waiting.values() if one["id"] not in self.leased][: asked.get("max", 100)]
            if found:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), min(asked.get("wait", 0), 0.2))
        self.leased |= {one["id"] for one in found}
        return web.json_response({"deliveries": found})

    async def ack(self, request: web.Request) -> web.Response:
        ids = (await request.json())["ids"]
        waiting = self.waiting.setdefault(request.match_info["name"], {})
        settled = [waiting.pop(id_) for id_ in ids if id_ in waiting]
        self.acked += [one["id"] for one in settled]
        return web.json_response({"settled": len(settled)})

    async def nack(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.nacked += [(id_, asked.get("delay")) for id_ in asked["ids"]]
        self.leased -= set(asked["ids"])
        return web.json_response({"settled": len(asked["ids"])})

    async def nothing(self, request: web.Request) -> web.Response:
        raise NotFoundError(f"there is nothing at {request.path}")


@asynccontextmanager
async def serving() -> AsyncIterator[Double]:
    """A double that runs until the block ends."""
    double = Double()
    app = web.Application(middlewares=[double.handle])
    app.add_routes(
        [
            web.post("/v1/subscriptions", double.put),
            web.get("/v1/subscriptions", double.pages),
            web.put("/v1/subscriptions/{id}", double.put),
            web.patch("/v1/subscriptions/{id}", double.patch),
            web.get("/v1/subscriptions/{id}", double.get),
            web.delete("/v1/subscriptions/{id}", double.delete),
            web.post("/v1/events", double.events),
            web.post("/v1/match", double.match),
            web.post("/v1/explain", double.explain),
            web.get("/v1/stream", double.stream),
            web.post("/v1/consumers/{name}/pull", double.pull),
            web.post("/v1/consumers/{name}/ack", double.ack),
            web.post("/v1/consumers/{name}/nack", double.nack),
            web.route("*", "/{path:.*}", double.nothing),
        ]
    )
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    double.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield double
    finally:
        double.cut()
        await runner.cleanup()


def unavailable(seconds: float) -> UnavailableError:
    """A refusal that names when to come again."""
    error = UnavailableError("the disk is full; nothing was written")
    error.retry_after = seconds
    return error
