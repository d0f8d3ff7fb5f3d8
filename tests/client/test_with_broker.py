"""The client, the verbs and the examples against a real broker in a child process, which is also killed."""

from __future__ import annotations

import asyncio
import json
import runpy
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from aiohttp import web

import matchwood
from matchwood import errors
from matchwood.cli.main import main
from matchwood.client.backoff import Backoff
from tests.broker.receiver import CERTIFICATE, receiving
from tests.broker.service import Service, memory_folder, service

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "broker").glob("*.py"))


@pytest.fixture(scope="module")
def broker() -> Iterator[Service]:
    with service() as made:
        yield made


@pytest.fixture
def environment(broker: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setenv("MATCHWOOD_URL", broker.url)
    monkeypatch.setenv("MATCHWOOD_KEY", broker.key or "")
    return broker


# examples


def test_the_examples_with_a_broker_are_these() -> None:
    assert [path.stem for path in EXAMPLES] == ["ad_server", "couriers", "property_alerts"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("environment")
def test_an_example_prints_what_it_says_also_the_second_time(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        said = runpy.run_path(str(path), run_name="__main__")["__doc__"].split("Prints:\n")[1]
        assert capsys.readouterr().out.strip() == dedent(said).strip()
    assert len(path.read_text().splitlines()) < 70


# the client


def test_calls_of_the_client_fit_the_service(environment: Service) -> None:
    async def body() -> None:
        async with matchwood.connect() as mw:
            await mw.declare({"amount": "number", "at": "timestamp"})
            assert (await mw.schema()).attributes["amount"] == "number"
            made = await mw.put("amount < 300", id="calls/1 é", priority=0.5, metadata={"to": "ann"})
            with pytest.raises(errors.ConflictError) as conflict:
                await mw.update("calls/1 é", priority=2.0, revision=made.revision + 1000)
            assert conflict.value.status == 412
            changed = await mw.update("calls/1 é", priority=2.0, revision=made.revision)
            assert (changed.priority, (await mw.get("calls/1 é")).revision) == (2.0, changed.revision)
            assert "calls/1 é" in [one.id async for one in mw.subscriptions()]
            [hit] = await mw.match({"amount": 1})
            assert (hit.subscription, hit.score, hit.metadata) == ("calls/1 é", 3.0, {"to": "ann"})
            told = await mw.explain({"amount": 500}, "calls/1 é")
            assert (told.matched, "(event: 500)" in told.text) == (False, True)
            assert (await mw.explain({"amount": 5}, expression="amount = 5")).matched
            published = await mw.publish({"amount": 5}, wait=True, until="2099-01-01T00:00:00Z")
            assert [one.subscription for one in published.matches or []] == ["calls/1 é"]
            assert [one.seq for one in await mw.live("calls/1 é")] == [published.seq]
            assert published.seq in [hit.seq for hit in (await mw.replay("amount = 5", after=0)).hits]
            assert published.seq in [event.seq async for event in mw.events()]
            await mw.retract(published.seq)
            assert await mw.live("calls/1 é") == []
            bulk = await mw.put_many([{"id": "b1", "expression": "amount < 1"}, {"id": "b2", "expression": "amount <"}])
            assert (bulk.ids, [one.position for one in bulk.rejected]) == (["b1", None], [1])
            assert (await mw.status()).subscriptions >= 2
            assert await mw.snapshot() > 0
            for name in ("calls/1 é", "b1"):
                await mw.remove(name)
            with pytest.raises(errors.UnknownSubscriptionError):
                await mw.remove("b1")

    asyncio.run(body())


def test_keys_have_scopes_and_are_rotated_and_revoked(environment: Service) -> None:
    async def body() -> None:
        async with matchwood.connect() as mw:
            made = await mw.keys.make(["publish"], note="test")
            assert made.key is not None
            async with matchwood.connect(key=made.key) as publisher:
                await publisher.publish({"a": 1})
                with pytest.raises(errors.ForbiddenError, match="lacks the scope 'manage'"):
                    await publisher.status()
            rotated = await mw.keys.rotate(made.id)
            for text in (made.key, rotated.key):
                async with matchwood.connect(key=text) as publisher:
                    await publisher.publish({"a": 1})
            await mw.keys.revoke(made.id)
            async with matchwood.connect(key=rotated.key) as publisher:
                with pytest.raises(errors.AuthenticationError):
                    await publisher.publish({"a": 1})
            shown = [key for key in await mw.keys.list() if key.id == made.id]
            assert all(key.key is None for key in shown)

    asyncio.run(body())


def test_probes_may_use_head_and_odd_numbers_are_refused(environment: Service) -> None:
    def status(method: str, path: str) -> int:
        request = urllib.request.Request(environment.url + path, method=method)
        request.add_header("Authorization", f"Bearer {environment.key}")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert answer.read() == b""
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert [status("HEAD", path) for path in ("/healthz", "/readyz", "/v1/status")] == [200] * 3
    assert status("DELETE", "/v1/events/%C2%B2") == 400  # a digit for Python, and no number


def test_dead_letters_are_found_and_replayed_by_the_name_of_the_webhook(environment: Service) -> None:
    async def body() -> None:
        async with receiving(web.Response(status=410), web.Response(status=204)) as receiver, matchwood.connect() as mw:
            await mw.hooks.put("gone", receiver.url)
            await mw.put("letter = 'x'", id="letters", delivery={"type": "webhook", "hook": "gone"})
            await mw.publish({"letter": "x"})
            dead: list[Any] = []
            while not dead:
                await asyncio.sleep(0.05)
                dead = [letter async for letter in mw.dead.list(consumer="gone")]
            assert "410 Gone" in dead[0].reason
            [hook] = [hook for hook in await mw.hooks.list() if hook.name == "gone"]
            assert not hook.enabled
            assert await mw.dead.replay(consumer="nobody") == 0
            await mw.hooks.put("gone", receiver.url)
            assert await mw.dead.replay(consumer="gone") == 1
            while len(receiver.requests) < 2:
                await asyncio.sleep(0.05)
            ids = [headers["webhook-id"] for headers, _ in receiver.requests]
            assert ids[0] == ids[1] == dead[0].delivery.id
            await mw.remove("letters")
            await mw.hooks.remove("gone")

    asyncio.run(asyncio.wait_for(body(), 30))


def test_a_digest_has_the_best_hits_of_its_period(environment: Service) -> None:
    async def body() -> None:
        async with matchwood.connect() as mw:
            async with mw.subscribe(
                "size > 0 ^0 AND rank = 1 ^5 OR size > 0", durable="digested", digest=(2, 1.0)
            ) as hits:
                await mw.publish_many([{"size": 1, "rank": rank} for rank in (0, 1, 0, 1, 1)])
                hit = await asyncio.wait_for(anext(hits), 20)  # type: ignore[arg-type]
                assert [one.score for one in hit.digest] == [5.0, 5.0]
                assert hit.left_out == 3
                await hit.ack()
            await mw.remove("digested")

    asyncio.run(body())


def test_objects_that_enter_and_leave_are_told_of_also_to_a_stream_that_comes_back(environment: Service) -> None:
    async def body() -> None:
        async with matchwood.connect() as mw:
            depot = {"expression": "S_WITHIN(place, POLYGON((0 0, 2 0, 2 2, 0 0)))", "id": "depot"}
            await mw.put({**depot, "delivery": {"track": {"object": "van"}}})
            at = (await mw.status()).seq
            for lon, lat in ((1.0, 0.5), (1.5, 0.5), (5.0, 5.0), (1.0, 0.5)):
                last = await mw.publish({"van": "v7", "place": {"lon": lon, "lat": lat}})
            assert [(one.object, one.since[:2]) for one in await mw.inside("depot")] == [("v7", "20")]
            async with mw.listen("depot", after=at) as hits:
                found = [await asyncio.wait_for(anext(hits), 20) for _ in range(3)]
            assert [(hit.track.kind, hit.track.object) for hit in found] == [
                ("enter", "v7"),
                ("exit", "v7"),
                ("enter", "v7"),
            ]
            assert found[-1].seq == last.seq
            assert found[1].event == {"van": "v7", "place": {"lon": 5.0, "lat": 5.0}}
            async with mw.subscribe("fast = TRUE", durable="fast", track={"object": "van", "on": ["exit"]}) as told:
                for fast in (True, True, False):
                    await mw.publish({"van": 3, "fast": fast})
                hit = await asyncio.wait_for(anext(told), 20)
                assert (hit.track.kind, hit.track.object) == ("exit", 3)
                await hit.ack()
            with pytest.raises(matchwood.errors.RequestError, match="track"):
                mw.subscribe("TRUE", track={"objects": "van"})
            await mw.remove("depot")
            await mw.remove("fast")

    asyncio.run(body())


@pytest.mark.usefixtures("environment")
def test_the_verbs_talk_to_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sub", "verb = 'pub'", "--durable", "verbs", "--timeout", "0.5"]) == 0
    assert main(["pub", "verb=pub", "n=7", "--wait"]) == 0
    assert json.loads(capsys.readouterr().out)["matches"][0]["subscription"] == "verbs"
    assert main(["sub", "verb = 'pub'", "--durable", "verbs", "-n", "1", "--timeout", "20"]) == 0
    assert json.loads(capsys.readouterr().out)["event"] == {"verb": "pub", "n": 7}
    assert main(["tail", "verbs", "--after", "0", "-n", "1", "--timeout", "20"]) == 0
    assert json.loads(capsys.readouterr().out)["subscription"] == "verbs"
    assert main(["explain", "verbs", "verb=sub"]) == 1
    assert main(["key", "make", "publish", "--note", "x"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("mw_")
    assert main(["hook", "put", "verbs", "http://127.0.0.1:1/"]) == 0
    assert capsys.readouterr().out.startswith("whsec_")
    assert main(["hook", "rotate", "verbs"]) == 0
    assert main(["hook", "list"]) == 0
    assert "whsec_" not in capsys.readouterr().out.splitlines()[-1]
    assert main(["hook", "remove", "verbs"]) == 0
    assert main(["dead", "list"]) == 0
    assert main(["snapshot"]) == 0
    assert main(["bench", "--seconds", "0.3", "--connections", "4"]) == 0
    assert "events/s" in capsys.readouterr().out
    assert main(["hook", "put", "bad", "https://10.0.0.1/"]) == 2
    assert "is not public" in capsys.readouterr().err


def test_verify_reads_the_data_of_a_broker_that_runs(environment: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(environment.folder)]) == 0
    assert capsys.readouterr().out.startswith("default: ok;")


def test_tls_by_flags_and_a_private_authority() -> None:
    async def body(url: str, key: str) -> None:
        async with matchwood.connect(url, key=key, cafile=str(CERTIFICATE)) as mw:
            await mw.put("n > 0", id="a")
            assert (await mw.publish({"n": 1})).matched == 1
        async with matchwood.connect(url, key=key, patience=0.0) as stranger:
            with pytest.raises(errors.ConnectionLostError, match="certificate"):
                await stranger.publish({"n": 1})

    with service("--tls-cert", str(CERTIFICATE)) as broker:
        asyncio.run(body(broker.url.replace("http:", "https:"), broker.key or ""))


# kill


def test_neither_publisher_nor_consumer_nor_stream_loses_anything_when_the_broker_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events go in while the broker is killed twice: each is acknowledged once, and reaches both kinds of subscriber."""
    monkeypatch.setattr(Backoff, "delay", lambda self, at_least=None: 0.05)
    count = 200
    with memory_folder() as folder:
        running = Service(folder / "data")

        def disturb() -> None:
            nonlocal running
            for _ in range(2):
                progress.wait(20)
                progress.clear()
                running.kill()
                running = running.again()

        progress = threading.Event()
        thread = threading.Thread(target=disturb)
        thread.start()
        published, durable, streamed = asyncio.run(
            asyncio.wait_for(_traffic(running.url, running.key or "", count, progress), 120)
        )
        thread.join(60)
        running.stop()
    assert len(set(published)) == count
    assert sorted(set(durable)) == list(range(count))
    assert streamed == list(range(count))


async def _traffic(url: str, key: str, count: int, progress: threading.Event) -> tuple[list[int], list[int], list[int]]:
    durable: list[int] = []
    streamed: list[int] = []

    async def consume(mw: Any, into: list[int], ready: asyncio.Event, **options: Any) -> None:
        async with mw.subscribe("n >= 0", **options) as hits:
            ready.set()
            async for hit in hits:
                into.append(hit.event["n"])
                await hit.ack()
                if len(set(into)) == count:
                    return

    async with matchwood.connect(url, key=key, patience=60) as mw:
        ready = [asyncio.Event(), asyncio.Event()]
        tasks = [
            asyncio.create_task(consume(mw, durable, ready[0], durable="me", lease=1.0)),
            asyncio.create_task(consume(mw, streamed, ready[1])),
        ]
        for event in ready:
            await event.wait()
        published = []
        for n in range(count):
            published.append((await mw.publish({"n": n})).seq)
            if n in (50, 130):
                progress.set()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
    return published, durable, streamed
