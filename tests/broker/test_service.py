"""The service for real: a child process, sockets, SQLite files, webhook receivers, kills."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from matchwood.broker.app import HANDLERS
from matchwood.broker.route_table import ROUTES
from matchwood.broker.signatures import verify
from matchwood.errors import (
    AuthenticationError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ParseError,
    TooLargeError,
    UnknownSubscriptionError,
    ValueTypeError,
)
from tests.broker.receiver import receiving
from tests.broker.service import Service, memory_folder, service
from tests.scorings import TYPES, a_scored_world, judged


@pytest.fixture(scope="module")
def broker() -> Iterator[Service]:
    with service() as made:
        yield made


@pytest.fixture
def mw(broker: Service) -> Iterator[Any]:
    """A client of a new tenant, whose admin key has this tenant's scopes."""
    name = f"t{time.monotonic_ns()}"
    assert send(broker, "PUT", f"/v1/tenants/{name}", {})[0] == 201
    with broker.client() as admin:
        key = admin.keys.make(["publish", "subscribe", "manage"], tenant=name).key
    with broker.client(key) as client:
        client.key = key
        yield client


def send(
    broker: Service, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str
) -> tuple[int, Any]:
    """A plain request; returns status and decoded body."""
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {key or broker.key}", "Content-Type": "application/json"}
    given.update({name.replace("_", "-"): value for name, value in headers.items()})
    if key == "":
        del given["Authorization"]
    connection.request(method, path, content, given)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text and "json" in (answer.getheader("content-type") or "") else text


def test_every_route_of_the_table_is_served_and_no_other() -> None:
    table = {(route.method, route.path) for route in ROUTES}
    assert table - {("GET", "/v1/stream")} == set(HANDLERS)


def test_the_first_start_prints_one_key_and_stores_only_its_hash() -> None:
    with memory_folder() as folder:
        first = Service(folder / "data")
        key = first.key
        assert key is not None
        assert first.printed.count(key) == 2  # by itself, and in the line to paste
        assert send(first, "GET", "/v1/status")[1]["subscriptions"] == 0
        first.stop()
        second = first.again()
        assert "mw_" not in second.printed
        assert send(second, "GET", "/v1/status")[0] == 200
        second.stop()
        secret = key.rpartition("_")[2]
        kept = b"".join(path.read_bytes() for path in (folder / "data").rglob("*") if path.is_file())
        assert secret.encode() not in kept
        assert secret not in first.logged()


def test_an_event_is_ranked_and_explained(mw: Any) -> None:
    mw.put("price < 300 ^0.5", id="cheap", metadata={"owner": "Ada"})
    mw.put("item = 'phone'", id="phones", priority=2)
    found = mw.publish({"item": "phone", "price": 250}, wait=True)
    assert [(hit.subscription, hit.score, hit.metadata) for hit in found.matches] == [
        ("phones", 3.0, None),
        ("cheap", 0.5, {"owner": "Ada"}),
    ]
    assert [hit.subscription for hit in mw.publish({"item": "phone", "price": 1}, k=1, wait=True).matches] == ["phones"]
    assert [hit.subscription for hit in mw.match({"price": 1})] == ["cheap"]
    assert "price < 300" in mw.explain({"price": 400}, "cheap").text
    assert mw.explain(found.seq, expression="price < 100").matched is False
    assert [hit.seq for hit in mw.replay("price < 300").hits] == [found.seq, found.seq + 1]
    assert next((event.seq, event.data["price"]) for event in mw.events()) == (found.seq, 250)


def test_a_tenant_scores_by_the_name_it_was_made_with_also_after_a_restart() -> None:
    texts, priorities, events = a_scored_world(5, 12, 6)
    ids = [f"s{number:02}" for number in range(len(texts))]
    keys: dict[str, str] = {}

    def check(broker: Service, scoring: str) -> None:
        expected = [[(ids[at], score) for at, score in hits] for hits in judged(texts, priorities, events, scoring)]
        with broker.client(keys[scoring]) as mw:
            for event, hits in zip(events, expected, strict=True):
                assert [(hit.subscription, hit.score) for hit in mw.match(event)] == hits
                found = mw.publish(event, wait=True)
                assert [(hit.subscription, hit.score) for hit in found.matches] == hits
                for id_, score in hits[:2]:
                    at = ids.index(id_)
                    assert mw.explain(event, id_).score == score
                    asked = {"expression": texts[at], "priority": priorities[at], "after": found.seq - 1}
                    replayed = send(broker, "POST", "/v1/replay", asked, key=keys[scoring])[1]
                    assert [(hit["seq"], hit["score"]) for hit in replayed["hits"]] == [(found.seq, score)]
        tenants = {one["name"]: one["scoring"] for one in send(broker, "GET", "/v1/tenants")[1]["tenants"]}
        assert tenants == {"default": "sum", **{f"by-{name}": name for name in keys}}

    with memory_folder() as folder:
        first = Service(folder / "data")
        for scoring in ("max", "priority"):
            path = f"/v1/tenants/by-{scoring}"
            assert send(first, "PUT", path, {"scoring": "mean"})[0] == 400
            made = send(first, "PUT", path, {"scoring": "sum"})
            assert (made[0], made[1]["scoring"]) == (201, "sum")
            changed = send(first, "PUT", path, {"scoring": scoring})  # without subscriptions
            assert (changed[0], changed[1]["scoring"]) == (200, scoring)
            with first.client() as admin:
                keys[scoring] = str(admin.keys.make(["publish", "subscribe", "manage"], tenant=f"by-{scoring}").key)
            with first.client(keys[scoring]) as mw:
                mw.declare(TYPES)
                for id_, text, priority in zip(ids, texts, priorities, strict=True):
                    mw.put(text, id=id_, priority=priority)
        for scoring in keys:
            check(first, scoring)
        refused = send(first, "PUT", "/v1/tenants/by-max", {"scoring": "sum", "hits": 7})
        assert refused[0] == 409
        assert refused[1]["detail"].startswith("the 12 subscriptions of tenant 'by-max' are scored by 'max'; remove")
        kept = send(first, "PUT", "/v1/tenants/by-max", {"hits": 77})
        assert (kept[1]["scoring"], kept[1]["limits"]) == ("max", {"hits": 77})
        first.stop()
        second = first.again()
        for scoring in keys:
            check(second, scoring)
        second.stop()


def test_a_live_event_finds_later_subscriptions_until_it_is_retracted(mw: Any) -> None:
    seq = mw.publish({"price": 20}, until="9999-01-01").seq
    view = mw.put("price < 30", id="late")
    assert [(hit.seq, hit.score) for hit in view.live] == [(seq, 1.0)]
    assert [hit.seq for hit in mw.live("late")] == [seq]
    mw.retract(seq)
    assert mw.live("late") == []
    with pytest.raises(NotFoundError):
        mw.retract(seq)


def test_objects_in_lists_are_matched_one_by_one(mw: Any) -> None:
    order = {"order": 7, "items": [{"sku": "a", "qty": 3}, {"sku": "b", "qty": 1}]}
    mw.put("ANY(items, sku = 'a' AND qty >= 2)", id="two")
    mw.put("ANY(items, sku = 'b' AND qty >= 2)", id="never")
    found = mw.publish(order, until="9999-01-01", wait=True)
    assert [hit.subscription for hit in found.matches] == ["two"]
    assert [hit.seq for hit in mw.put("ALL(items, qty >= 1) AND items.sku = 'b'", id="late").live] == [found.seq]
    assert mw.explain(found.seq, expression="ANY(items, new = 1)").matched is False
    assert [hit.seq for hit in mw.replay("ANY(items, sku = 'b' AND qty < 2)").hits] == [found.seq]
    assert [hit.subscription for hit in mw.match(order)] == ["late", "two"]


def test_an_event_of_the_same_id_is_published_once(mw: Any, broker: Service) -> None:
    first = mw.publish({"price": 1}, id="a")
    second = mw.publish({"price": 1}, id="a")
    assert (second.seq, second.duplicate) == (first.seq, True)
    cloud = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "offer", "data": {"price": 250}}
    kind = "application/cloudevents-batch+json"
    status, answer = send(broker, "POST", "/v1/events", [cloud, cloud, {"id": "8"}], key=mw.key, content_type=kind)
    assert status == 202
    assert [one and one.get("duplicate", False) for one in answer["events"]] == [False, True, None]
    assert answer["rejected"][0]["position"] == 2


def test_a_batch_takes_what_it_can_and_names_the_rest(mw: Any, broker: Service) -> None:
    mw.put("price < 300", id="s")
    lines = b'{"price": 1}\n{"price": "cheap"}\nnonsense\n{"price": 2}\n'
    kind = "application/x-ndjson"
    status, answer = send(broker, "POST", "/v1/events?wait=matched", lines, key=mw.key, content_type=kind)
    assert status == 202
    assert [None if one is None else len(one["matches"]) for one in answer["events"]] == [1, None, None, 1]
    assert [one["position"] for one in answer["rejected"]] == [1, 2]
    assert "event 1: attribute 'price': expected a number" in answer["rejected"][0]["problem"]
    bulk = mw.put_many([{"expression": "price > 1"}, {"expression": "price >"}, {"id": "s", "expression": "TRUE"}])
    assert [id_ is None for id_ in bulk.ids] == [False, True, True]


def test_a_change_can_depend_on_the_revision(mw: Any) -> None:
    view = mw.put("price < 300", id="s")
    changed = mw.update("s", priority=2.0, revision=view.revision)
    assert changed.revision > view.revision
    with pytest.raises(ConflictError, match="has revision"):
        mw.update("s", priority=3.0, revision=view.revision)
    assert mw.get("s").priority == 2.0
    mw.update("s", paused=True)
    assert mw.match({"price": 1}) == []
    mw.remove("s")
    with pytest.raises(UnknownSubscriptionError):
        mw.get("s")


def test_errors_are_problems_with_the_words_of_the_engine(mw: Any, broker: Service) -> None:
    with pytest.raises(ParseError, match=r"(?s)price >.*\^"):
        mw.put("price >", id="s")
    mw.put("price > 1", id="s")
    with pytest.raises(ValueTypeError, match="attribute 'price': expected a number, got 'cheap'"):
        mw.publish({"price": "cheap"})
    status, problem = send(broker, "POST", "/v1/subscriptions", {"expresion": "price > 1"}, key=mw.key)
    assert status == 400
    assert "expresion" in problem["detail"]
    assert send(broker, "GET", "/v1/nothing")[0] == 404
    assert send(broker, "DELETE", "/v1/events")[0] == 405


def test_everything_a_stranger_sends_is_limited(mw: Any, broker: Service) -> None:
    with pytest.raises(TooLargeError):
        mw.put(" OR ".join(f"price = {n}" for n in range(1000)), id="s")
    assert send(broker, "POST", "/v1/events", b'{"a": "' + b"x" * (1 << 20) + b'"}', key=mw.key)[0] == 413
    lines = b'{"a": 1}\n' * 1002
    assert send(broker, "POST", "/v1/events", lines, key=mw.key, content_type="application/x-ndjson")[0] == 413
    assert send(broker, "POST", "/v1/events?k=0", {"a": 1}, key=mw.key)[0] == 400
    tenant = mw.status().tenant
    assert send(broker, "PUT", f"/v1/tenants/{tenant}", {"subscriptions": 3, "hits": 2})[0] == 200
    for number in range(3):
        mw.put("TRUE", id=f"s{number}")
    assert send(broker, "POST", "/v1/subscriptions", {"expression": "TRUE"}, key=mw.key)[0] == 429
    found = mw.publish({"a": 1}, wait=True)
    assert (len(found.matches), found.truncated) == (2, True)


def test_a_closed_schema_refuses_new_attributes(mw: Any, broker: Service) -> None:
    mw.declare({"price": "number"}, closed=True)
    status, problem = send(broker, "POST", "/v1/subscriptions", {"expression": "colour = 'red'"}, key=mw.key)
    assert status == 422
    assert "not in the schema" in problem["detail"]


# streams


class Sse:
    """A stream over a plain socket."""

    def __init__(self, broker: Service, path: str, key: str, **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.port), timeout=20)
        lines = [f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.file = self.socket.makefile("rb")

    def next(self) -> tuple[str, str | None, Any]:
        """Kind, position and data of the next message."""
        kind = position = None
        while True:
            line = self.file.readline().strip()
            if line.startswith(b"event:"):
                kind = line[6:].strip().decode()
            elif line.startswith(b"id:"):
                position = line[3:].strip().decode()
            elif line.startswith(b"data:") and kind is not None:
                return kind, position, json.loads(line[5:])

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def test_a_stream_goes_on_from_its_position_and_misses_nothing(mw: Any, broker: Service) -> None:
    mw.put("price < 300", id="s", metadata=1)
    mw.put("price > 0", id="t")
    stream = Sse(broker, "/v1/stream?subscription=s", mw.key)
    assert stream.next()[0] == "position"
    first = mw.publish({"price": 1}).seq
    kind, position, delivery = stream.next()
    assert (kind, position, delivery["id"], delivery["metadata"]) == ("match", str(first), f"s@{first}", 1)
    stream.close()
    missed = [mw.publish({"price": n}).seq for n in (2, 3)]
    again = Sse(broker, "/v1/stream?subscription=s", mw.key, last_event_id=position)
    assert [again.next()[2]["seq"] for _ in missed] == missed
    later = mw.publish({"price": 4}).seq
    seen = [again.next() for _ in range(2)]
    assert [one[0] for one in seen] == ["position", "match"]
    assert seen[1][2]["seq"] == later
    again.close()
    everything = Sse(broker, "/v1/stream?all=1&from=0", mw.key)
    kinds = [everything.next() for _ in range(8)]
    assert [(one[2]["subscription"], one[1] is not None) for one in kinds[:2]] == [("s", False), ("t", True)]
    everything.close()
    assert send(broker, "GET", "/v1/stream?subscription=unknown", key=mw.key)[0] == 404


def test_a_websocket_carries_a_durable_consumer_and_repeats_what_was_not_acknowledged(mw: Any, broker: Service) -> None:
    mw.put("price < 300", id="s", delivery={"consumer": "c"})
    seqs = [mw.publish({"price": n}).seq for n in range(3)]
    url = f"{broker.url}/v1/stream?consumer=c"

    async def consume(count: int, acknowledge: int) -> list[str]:
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {mw.key}"}) as session,
            session.ws_connect(url) as ws,
        ):
            ids = []
            for _ in range(count):
                message = await asyncio.wait_for(ws.receive_json(), 10)
                assert message["type"] == "match"
                ids.append(message["data"]["id"])
            await ws.send_json({"ack": ids[:acknowledge]})
            await asyncio.sleep(0.3)
            return ids

    assert asyncio.run(consume(3, 1)) == [f"s@{seq}" for seq in seqs]
    assert asyncio.run(consume(2, 2)) == [f"s@{seq}" for seq in seqs[1:]]
    time.sleep(0.2)
    assert [(one.name, one.waiting) for one in mw.consumers()] == []


def test_a_client_that_does_not_read_is_cut_off_and_the_others_go_on(mw: Any, broker: Service) -> None:
    mw.put("price < 300", id="s")
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect(("127.0.0.1", broker.port))
    stalled.sendall(
        f"GET /v1/stream?subscription=s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {mw.key}\r\n\r\n".encode()
    )
    reading = Sse(broker, "/v1/stream?subscription=s", mw.key)
    reading.next()
    half = Sse(broker, "/v1/stream?subscription=s", mw.key)
    half.next()
    half.socket.shutdown(socket.SHUT_WR)  # a client that has closed its side
    counts = []
    reader = threading.Thread(target=lambda: counts.extend(reading.next()[2]["seq"] for _ in range(1600)), daemon=True)
    reader.start()
    for _ in range(30):  # more than the buffers of both kernels and the broker's limit take
        mw.publish_many([{"price": 1, "text": "x" * 10_000}] * 50)
    mw.publish_many([{"price": 1}] * 100)
    reader.join(60)
    assert len(counts) == 1600
    assert counts == sorted(counts)
    # what the stalled one still gets is bounded and ends; it can go on from its position
    stalled.settimeout(20)
    received, end, tail = 0, time.monotonic() + 40, b""
    while not tail.endswith(b"0\r\n\r\n") and time.monotonic() < end:
        piece = stalled.recv(1 << 20)
        if not piece:
            break
        received, tail = received + len(piece), (tail + piece)[-5:]
    assert received < 12_000_000
    assert time.monotonic() < end
    stalled.close()
    reading.close()
    half.close()


def test_a_slow_stream_that_asked_for_it_loses_the_lowest_scores_and_is_told() -> None:
    from matchwood.broker.hub import Client, sse_frame

    async def run() -> list[bytes]:
        client = Client(None, sse_frame, shed=True, limit=1000)
        for seq in range(100):
            client.put(seq, float(seq % 10), b"x" * 100)
        assert not client.overflown
        return await client.take()

    notice, *rest = asyncio.run(run())
    assert json.loads(notice.split(b"data: ")[1])["count"] == 90
    assert len(rest) == 10


# webhooks


def test_a_webhook_is_signed_repeated_and_disabled_by_410(mw: Any) -> None:
    async def run() -> None:
        async with receiving(web.Response(status=503), web.Response(status=200)) as receiver:
            loop = asyncio.get_running_loop()

            def prepare() -> str:
                hook = mw.hooks.put("shop", receiver.url)
                mw.put("price < 300", id="s", delivery={"type": "webhook", "hook": "shop"}, metadata={"a": 1})
                mw.publish({"price": 1}, id="e")
                return str(hook.secret)

            secret = await loop.run_in_executor(None, prepare)
            await until(lambda: len(receiver.requests) >= 2, 15)
            headers, body = receiver.requests[1]
            assert verify([secret], headers, body, now=time.time()) == "s@2"
            delivery = json.loads(body)
            assert (delivery["event"], delivery["metadata"], delivery["attempt"]) == ({"price": 1}, {"a": 1}, 2)
            assert await loop.run_in_executor(None, lambda: mw.hooks.list()[0].secret) is None
            receiver.answers[:] = [web.Response(status=410)]
            await loop.run_in_executor(None, lambda: mw.publish({"price": 2}))
            await until(lambda: len(receiver.requests) >= 3, 15)
            for _ in range(100):
                hook = (await loop.run_in_executor(None, mw.hooks.list))[0]
                if not hook.enabled:
                    break
                await asyncio.sleep(0.05)
            assert not hook.enabled
            assert "410" in hook.reason
            [letter] = await loop.run_in_executor(None, lambda: list(mw.dead.list()))
            receiver.answers[:] = [web.Response(status=200)]

            def revive() -> None:
                mw.hooks.put("shop", receiver.url)
                assert mw.dead.replay(numbers=[letter.number]) == 1

            await loop.run_in_executor(None, revive)
            await until(lambda: len(receiver.requests) >= 4, 15)
            assert json.loads(receiver.requests[3][1])["event"] == {"price": 2}

    asyncio.run(run())


async def until(ready: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)


def test_a_digest_comes_as_one_delivery(mw: Any, broker: Service) -> None:
    mw.put("price < 300 ^1 OR price < 5 ^7", id="s", delivery={"digest": {"max": 2, "period": 0.5}})
    stream = Sse(broker, "/v1/stream?subscription=s", mw.key)
    stream.next()
    for price in (100, 1, 200, 300):
        mw.publish({"price": price})
    kind, _, delivery = stream.next()
    assert kind == "match"
    assert [(hit["event"]["price"], hit["score"]) for hit in delivery["digest"]] == [(1, 7.0), (100, 1.0)]
    assert delivery["left_out"] == 1
    stream.close()


# security


def paths(route: Any, **names: str) -> str:
    path = str(route.path)
    for name, value in names.items():
        path = path.replace("{" + name + "}", value)
    return path


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.scope is not None], ids=lambda route: route.operation
)
def test_every_route_needs_a_key_with_its_scope(route: Any, broker: Service) -> None:
    path = paths(route, id="a", name="a", seq="1")
    body = {} if route.method in ("POST", "PUT", "PATCH") else None
    assert send(broker, route.method, path, body, key="")[0] == 401
    assert send(broker, route.method, path, body, key="mw_0123456789_" + "A" * 43)[0] == 401
    other = "publish" if route.scope != "publish" else "federate"
    assert send(broker, route.method, path, body, key=scoped(broker, other))[0] == 403


_KEYS: dict[tuple[str, str], str] = {}


def scoped(broker: Service, scope: str) -> str:
    if (broker.url, scope) not in _KEYS:
        with broker.client() as admin:
            _KEYS[broker.url, scope] = admin.keys.make([scope]).key
    return _KEYS[broker.url, scope]


def test_a_revoked_key_is_refused_at_once(broker: Service) -> None:
    with broker.client() as admin:
        made = admin.keys.make(["publish"])
        with broker.client(made.key) as client:
            client.publish({"a": 1})
            admin.keys.revoke(made.id)
            with pytest.raises(AuthenticationError, match="revoked"):
                client.publish({"a": 1})
        with broker.client(scoped(broker, "publish")) as client, pytest.raises(ForbiddenError, match="lacks the scope"):
            client.put("TRUE")


def test_no_secret_is_logged(broker: Service, mw: Any) -> None:
    send(broker, "GET", f"/v1/nothing?key={mw.key}", key=mw.key)
    assert mw.key.rpartition("_")[2] not in broker.logged()


# life


def test_metrics_health_and_documents_need_no_key(broker: Service, mw: Any) -> None:
    mw.publish({"a": 1})
    assert send(broker, "GET", "/healthz", key="")[0] == 200
    assert send(broker, "GET", "/readyz", key="")[0] == 200
    text = send(broker, "GET", "/metrics", key="")[1].decode()
    assert 'matchwood_events_total{outcome="accepted"}' in text
    assert "matchwood_commit_seconds_bucket" in text
    assert send(broker, "GET", "/openapi.json", key="")[1]["openapi"].startswith("3.1")
    assert send(broker, "GET", "/asyncapi.json", key="")[0] == 200
