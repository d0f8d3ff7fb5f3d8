"""The client against a broker in memory: batches, resumption, repetition, acknowledgement, and the errors of the engine."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

import matchwood
from matchwood import Event, Point, errors
from matchwood.broker.types import Gap
from matchwood.client import streaming
from matchwood.client.backoff import Backoff
from matchwood.client.client import Client, connect
from matchwood.client.publishing import MAX_BYTES, batches, encoded
from matchwood.client.streaming import EventReader
from tests.client.double import KEY, Double, serving, unavailable

Body = Callable[[Client, Double], Coroutine[Any, Any, Any]]


def run(body: Body, **options: Any) -> Any:
    async def both() -> Any:
        async with serving() as double, matchwood.connect(double.url, key=KEY, **options) as mw:
            return await asyncio.wait_for(body(mw, double), 20)

    return asyncio.run(both())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "delay", lambda self, at_least=None: max(0.01, at_least or 0.0))


# publishing


def test_an_event_is_published_and_the_ranking_returned() -> None:
    async def body(mw: Client, double: Double) -> None:
        await mw.put("price < 300", id="cheap", metadata={"to": "ann"})
        await mw.put("price < 3000", id="any", priority=2)
        published = await mw.publish({"price": 250}, wait=True)
        assert published.matched == 2
        assert [(hit.subscription, hit.score) for hit in published.matches or []] == [("any", 3.0), ("cheap", 1.0)]
        assert (await mw.publish({"price": 250}, k=1)).matched == 1

    run(body)


def test_events_that_are_published_together_go_together_and_each_gets_its_own_answer() -> None:
    async def body(mw: Client, double: Double) -> None:
        await mw.put("price < 50", id="cheap")
        answers = await asyncio.gather(*(mw.publish({"price": price}) for price in range(500)))
        assert [answer.matched for answer in answers] == [1] * 50 + [0] * 450
        assert [answer.seq for answer in answers] == sorted(answer.seq for answer in answers)
        assert sum(double.bodies) == 500
        assert len(double.bodies) <= 5

    run(body)


def test_one_bad_event_of_a_batch_fails_alone() -> None:
    async def body(mw: Client, double: Double) -> None:
        await mw.put("price < 50", id="cheap")
        calls = [mw.publish({"price": 1}), mw.publish({"price": "cheap"}), mw.publish({"price": 2})]
        one, bad, two = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(bad, errors.EventError)
        assert "expected a number, got 'cheap'" in str(bad)
        assert one.matched == two.matched == 1  # type: ignore[union-attr]

    run(body)


def test_publish_many_keeps_the_order_and_says_what_was_rejected() -> None:
    async def body(mw: Client, double: Double) -> None:
        await mw.put("price < 50", id="cheap")
        events = [{"price": price} for price in range(2500)]
        events[1700] = {"price": "x"}  # type: ignore[dict-item]
        answer = await mw.publish_many(events)
        assert double.bodies == [1000, 1000, 500]
        assert [position for position, event in enumerate(answer.events) if event is None] == [1700]
        assert [rejected.position for rejected in answer.rejected] == [1700]
        assert sum(event.matched for event in answer.events if event) == 50

    run(body)


@pytest.mark.parametrize("fault", ["reset", "lost"])
@pytest.mark.parametrize("count", [1, 20])
def test_an_event_whose_answer_is_lost_is_sent_again_and_published_once(fault: str, count: int) -> None:
    async def body(mw: Client, double: Double) -> None:
        await mw.put("price < 50", id="cheap")
        before = double.seq
        double.faults = [fault, fault]
        answers = await asyncio.gather(*(mw.publish({"price": 1}) for _ in range(count)))
        assert sorted(answer.seq for answer in answers) == list(range(before + 1, before + 1 + count))
        assert len(double.log) == count

    run(body)


def test_an_id_makes_a_second_event_a_duplicate() -> None:
    async def body(mw: Client, double: Double) -> None:
        first, second = await mw.publish({"price": 1}, id="a"), await mw.publish({"price": 1}, id="a")
        assert (second.seq, second.duplicate) == (first.seq, True)

    run(body)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"a": 1, "b": "x", "c": [1, 2]}, b'{"a":1,"b":"x","c":[1,2]}'),
        ({"at": datetime(2026, 5, 1, tzinfo=UTC)}, b'{"at":"2026-05-01T00:00:00Z"}'),
        ({"price": Decimal("12.30")}, b'{"price":12.30}'),
        ('{"a": 1}', b'{"a": 1}'),
        (b'{\n "a": 1\n}\n', b'{"a":1}'),
        (Event({"a": 1}, place=(10.0, 59.0)), b'{"a":1,"place":{"lon":10.0,"lat":59.0}}'),
        (Event({"a": 1}, place=Point(10.0, 59.0)), b'{"a":1,"place":{"lon":10.0,"lat":59.0}}'),
    ],
)
def test_events_become_one_line_of_json(event: Any, line: bytes) -> None:
    assert encoded(event) == line


@pytest.mark.parametrize("event", [Event({"a": 1}, weights={"a": 2}), Event({}, id=4), {"a": object()}, 5, ["a"]])
def test_what_is_no_event_for_a_broker_is_refused_before_it_is_sent(event: Any) -> None:
    with pytest.raises(errors.EventError):
        encoded(event)


def test_batches_respect_both_limits() -> None:
    lines = [b"x" * 300_000] * 5 + [b"y"] * 2500
    groups = list(batches(lines))
    assert [line for group in groups for line in group] == lines
    assert all(len(group) <= 1000 and sum(map(len, group)) + len(group) <= MAX_BYTES + 1 for group in groups)


# errors


def test_an_error_of_the_engine_arrives_as_itself_with_its_caret() -> None:
    async def body(mw: Client, double: Double) -> None:
        with pytest.raises(errors.ParseError) as refused:
            await mw.put("price <", id="a")
        assert str(refused.value).rstrip().endswith("^")
        assert refused.value.text == "price <"
        with pytest.raises(errors.UnknownSubscriptionError, match="there is no subscription 'b'"):
            await mw.get("b")
        with pytest.raises(errors.NotFoundError) as nothing:
            await mw.status()
        assert nothing.value.status == 404

    run(body)


def test_a_wrong_key_is_an_authentication_error_and_is_not_tried_again() -> None:
    async def body(mw: Client, double: Double) -> int:
        async with connect(double.url, key="mw_wrong") as other:
            with pytest.raises(errors.AuthenticationError, match="who are you"):
                await other.publish({})
        return len(double.requests)

    assert run(body) == 1


def test_a_broker_that_is_not_available_is_asked_again_when_it_says() -> None:
    async def body(mw: Client, double: Double) -> float:
        double.faults = [unavailable(0.2), errors.QuotaError("slowly")]
        start = asyncio.get_running_loop().time()
        await mw.publish({"a": 1})
        return asyncio.get_running_loop().time() - start

    assert run(body) >= 0.2


def test_patience_ends() -> None:
    async def body(mw: Client, double: Double) -> None:
        double.faults = [unavailable(1.0)] * 10
        with pytest.raises(errors.UnavailableError, match="the disk is full"):
            await mw.publish({"a": 1})

    run(body, patience=0.5)


def test_what_must_not_happen_twice_is_not_repeated() -> None:
    async def body(mw: Client, double: Double) -> None:
        double.faults = ["lost"]
        with pytest.raises(errors.ConnectionLostError, match="cannot be reached"):
            await mw.put("price < 300")
        assert len(double.specs) == 1

    run(body)


def test_nobody_at_the_address_is_a_lost_connection() -> None:
    async def body() -> None:
        async with connect("http://127.0.0.1:1", key=KEY, patience=0.1) as mw:
            with pytest.raises(errors.ConnectionLostError, match=r"http://127.0.0.1:1 cannot be reached"):
                await mw.status()

    asyncio.run(body())


def test_a_client_is_used_in_a_with_block_and_needs_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MATCHWOOD_URL", raising=False)
    with pytest.raises(errors.RequestError, match="which broker"):
        connect()
    for url in ("127.0.0.1:8080", "ftp://x", "http://u:p@x", "http://"):
        with pytest.raises(errors.RequestError, match="expected the URL of a broker"):
            connect(url)
    with pytest.raises(errors.RequestError, match=r"async with matchwood\.connect"):
        asyncio.run(connect("http://127.0.0.1:1").status())
    monkeypatch.setenv("MATCHWOOD_URL", "http://127.0.0.1:7")
    assert repr(connect()) == "<Client of http://127.0.0.1:7>"


def test_a_key_is_not_shown_and_plain_http_to_another_machine_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "matchwood.client"):
        client = connect("http://127.0.0.1:1", key=KEY)
        assert caplog.messages == []
        connect("http://broker.example", key=KEY)
    assert "without encryption" in caplog.text
    assert KEY not in repr(client) + repr(client._transport) + caplog.text


# subscriptions


def test_subscriptions_are_put_read_changed_listed_and_removed() -> None:
    async def body(mw: Client, double: Double) -> None:
        made = await mw.put("price < 300", id="a/b c", priority=1.5, metadata={"x": 1})
        assert (made.id, made.revision) == ("a/b c", 1)
        assert (await mw.update("a/b c", paused=True)).paused
        for name in "defgh":
            await mw.put({"expression": "price < 1", "id": name, "delivery": {"type": "none"}})
        assert [one.id async for one in mw.subscriptions()] == ["a/b c", *"defgh"]
        await mw.remove("a/b c")
        with pytest.raises(errors.UnknownSubscriptionError):
            await mw.get("a/b c")
        with pytest.raises(errors.RequestError, match="a subscription has no 'prio'"):
            await mw.put("price < 1", prio=4)
        with pytest.raises(errors.RequestError, match="a subscription has no 'prio'"):
            await mw.update("d", prio=4)

    run(body)


def test_matching_and_explaining_publish_nothing() -> None:
    async def body(mw: Client, double: Double) -> None:
        await mw.put("price < 300", id="a")
        assert [hit.subscription for hit in await mw.match({"price": 1})] == ["a"]
        assert "does not match" in (await mw.explain({"price": 1000}, "a")).text
        assert double.log == []

    run(body)


# streams


def test_a_subscription_without_durable_sees_events_and_ends_with_its_block() -> None:
    async def body(mw: Client, double: Double) -> list[float]:
        async with mw.subscribe("price < 300", metadata={"to": "me"}) as hits:
            await mw.publish_many([{"price": price} for price in (100, 500, 200)])
            found = []
            async for hit in hits:
                found.append(hit.event["price"])
                assert hit.metadata == {"to": "me"}
                await hit.ack()
                if len(found) == 2:
                    break
            assert len(double.specs) == 1
        assert double.specs == {}
        return found

    assert run(body) == [100, 200]


@pytest.mark.parametrize("last_only", [True, False])
def test_a_stream_that_breaks_off_resumes_without_loss_or_repetition(last_only: bool) -> None:
    async def body(mw: Client, double: Double) -> list[int]:
        double.ids_on_last_only = last_only
        found = []
        async with mw.subscribe("price >= 0") as hits:
            for price in range(20):
                await mw.publish({"price": price})
                if price % 4 == 0:
                    double.cut()
                    await asyncio.sleep(0)
            async for hit in hits:
                found.append(hit.event["price"])
                if len(found) % 7 == 0:
                    double.cut()
                if len(found) == 20:
                    break
        return found

    assert run(body) == list(range(20))


def test_a_break_between_the_matches_of_one_event_loses_none_and_repeats_none() -> None:
    async def body(mw: Client, double: Double) -> list[str]:
        for name in "abcd":
            await mw.put("price >= 0", id=name)
        async with mw.listen(after=double.seq) as hits:
            await mw.publish({"price": 1})
            first = await anext(hits)
            hits._source, broken = hits._hits(), hits._source  # type: ignore[attr-defined]  # a new connection
            await broken.aclose()
            return [first.subscription] + [(await anext(hits)).subscription for _ in range(3)]

    assert run(body) == ["a", "b", "c", "d"]


def test_a_gap_is_announced() -> None:
    async def body(mw: Client, double: Double) -> list[Any]:
        await mw.put("price >= 0", id="a")
        await mw.publish_many([{"price": 1}] * 5)
        double.oldest = 4
        notices: list[Any] = []
        async with mw.listen("a", after=1, on_notice=notices.append) as hits:
            hit = await anext(hits)
            assert hit.seq == 5
            assert hits.missed == 1
        return notices

    assert run(body) == [Gap(from_=1, to=4)]


def test_an_ephemeral_subscription_that_the_broker_forgot_is_made_again_and_the_gap_announced() -> None:
    async def body(mw: Client, double: Double) -> None:
        notices: list[Any] = []
        async with mw.subscribe("price >= 0", on_notice=notices.append) as hits:
            await mw.publish({"price": 1})
            assert (await anext(hits)).event == {"price": 1}
            [name] = double.specs
            double.drop(name)
            double.cut()
            waiting = asyncio.create_task(anext(hits))  # type: ignore[arg-type]
            while not notices:
                await asyncio.sleep(0.01)
            await mw.publish({"price": 2})
            assert (await waiting).event == {"price": 2}
            assert isinstance(notices[0], Gap)

    run(body)


def test_listening_to_a_subscription_that_does_not_exist_raises() -> None:
    async def body(mw: Client, double: Double) -> None:
        async with mw.listen("nobody") as hits:
            with pytest.raises(errors.UnknownSubscriptionError):
                await anext(hits)

    run(body)


def test_a_stream_that_is_silent_too_long_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SILENCE", 0.1)

    async def body(mw: Client, double: Double) -> None:
        async with mw.subscribe("price >= 0") as hits:
            waiting = asyncio.create_task(anext(hits))  # type: ignore[arg-type]
            while sum(path.startswith("/v1/stream") for _, path in double.requests) < 3:
                await asyncio.sleep(0.02)
            await mw.publish({"price": 1})
            assert (await waiting).event == {"price": 1}

    run(body)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_server_sent_events_are_read_wherever_they_are_cut(size: int, end: str) -> None:
    lines = [
        ": hello",
        "id: 3",
        "event: match",
        "data: {",
        "data:}",
        "",
        "data: é",
        "",
        "event: x",
        "",
        "id: 4",
        "data: z",
        "",
    ]
    raw = (end.join(lines) + end + "retry: 5" + end).encode()
    reader = EventReader()
    found = [event for start in range(0, len(raw), size) for event in reader.feed(raw[start : start + size])]
    assert found == [("match", "{\n}", "3"), ("message", "é", "3"), ("message", "z", "4")]


# durable consumers


def test_a_durable_consumer_gets_what_came_while_it_was_away_and_acknowledges() -> None:
    async def body(mw: Client, double: Double) -> None:
        async with mw.subscribe("price < 300", durable="me"):
            pass
        assert double.specs["me"]["delivery"]["consumer"] == "me"
        await mw.publish_many([{"price": price} for price in range(250)])
        seen = []
        async with mw.subscribe("price < 300", durable="me") as hits:
            async for hit in hits:
                seen.append(hit.event["price"])
                await hit.ack()
                if len(seen) == 250:
                    break
        assert seen == list(range(250))
        assert len(double.acked) == 250
        assert double.waiting["me"] == {}
        assert sum(path.endswith("/ack") for _, path in double.requests) < 100  # in groups

    run(body)


def test_what_was_not_acknowledged_is_given_back_at_the_end() -> None:
    async def body(mw: Client, double: Double) -> None:
        async with mw.subscribe("price >= 0", durable="me") as hits:
            await mw.publish_many([{"price": price} for price in range(5)])
            await (await anext(hits)).ack()
            second = await anext(hits)
            third = await anext(hits)
            await third.nack(delay=7.0)
        assert double.acked == ["me@2"]
        assert double.nacked == [(third.id, 7.0), ("me@5", 0.0), ("me@6", 0.0), (second.id, None)]

    run(body)


def test_acknowledgements_survive_a_broken_connection() -> None:
    async def body(mw: Client, double: Double) -> None:
        async with mw.subscribe("price >= 0", durable="me") as hits:
            await mw.publish({"price": 1})
            hit = await anext(hits)
            double.faults = ["reset", "lost", unavailable(0.01)]
            await hit.ack()
            await hits.flush()
        assert double.acked == [hit.id]

    run(body)


def test_an_acknowledgement_that_is_refused_is_raised() -> None:
    async def body(mw: Client, double: Double) -> None:
        async with mw.subscribe("price >= 0", durable="me") as hits:
            await mw.publish({"price": 1})
            hit = await anext(hits)
            double.faults = [errors.ForbiddenError("no longer")]
            await hit.ack()
            with pytest.raises(errors.ForbiddenError, match="no longer"):
                await hits.flush()
            hits._error = None  # type: ignore[attr-defined]

    run(body)


def test_pulling_goes_on_after_failures() -> None:
    async def body(mw: Client, double: Double) -> None:
        async with mw.consume("me") as hits:
            await mw.put("price >= 0", id="a", delivery={"consumer": "me"})
            await mw.publish({"price": 1})
            double.faults = ["reset", unavailable(0.01), "reset"]
            assert (await anext(hits)).event == {"price": 1}

    run(body, patience=0.0)


# without async


def test_the_synchronous_client_does_the_same() -> None:
    async def body(mw: Client, double: Double) -> None:
        await asyncio.to_thread(blocking, double.url)

    def blocking(url: str) -> None:
        with matchwood.connect_sync(url, key=KEY) as mw:
            assert repr(mw) == f"<SyncClient of {url}>"
            with mw.subscribe("price < 300", durable="me") as hits:
                mw.publish_many([{"price": price} for price in (100, 500, 200)])
                seen = []
                for hit in hits:
                    hit.ack()
                    seen.append(hit.event["price"])
                    if len(seen) == 2:
                        break
                hits.flush()
                assert hits.missed == 0
            assert seen == [100, 200]
            assert [one.id for one in mw.subscriptions()] == ["me"]
            with pytest.raises(errors.ParseError):
                mw.put("price <")
            with pytest.raises(errors.NotFoundError):
                mw.hooks.list()
            with mw.listen("me", after=0) as hits:
                assert next(iter(hits)).subscription == "me"
        for closed in (mw, matchwood.connect_sync(url)):
            with pytest.raises(errors.RequestError, match=r"with matchwood\.connect_sync"):
                closed.publish({"price": 1})

    run(body)


# imports


@pytest.mark.parametrize("module", ["aiohttp", "msgspec", "matchwood.client"])
def test_importing_matchwood_does_not_import(module: str) -> None:
    script = f"import sys, matchwood; matchwood.parse; raise SystemExit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_client_needs_no_compiler_and_names_its_extra() -> None:
    script = "import sys, matchwood; matchwood.connect('http://x'); raise SystemExit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    script = "import sys; sys.modules['aiohttp'] = None; import matchwood; matchwood.connect('http://x')"
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert "pip install 'matchwood[client]'" in done.stderr
