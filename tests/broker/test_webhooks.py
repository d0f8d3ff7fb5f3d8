"""Webhooks against a real receiver on a loopback address."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from matchwood.broker.egress import Egress
from matchwood.broker.retries import Breakers, Schedule
from matchwood.broker.signatures import message_id, new_secret
from matchwood.broker.webhooks import Message, Outcome, Sender, Verdict
from tests.broker.receiver import Receiver, receiving

LOCAL = Egress.of(["127.0.0.0/8"], http=True)
SECRET = new_secret()
BODY = json.dumps({"seq": 7, "score": 1.5}).encode()


def message(url: str, **more: Any) -> Message:
    return Message(url, message_id("ann", 7), BODY, [SECRET], **more)


def run(*answers: Any, then: Callable[[Sender, Receiver], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    async def both() -> Any:
        async with receiving(*answers) as receiver, Sender(egress=LOCAL, **options) as sender:
            return await then(sender, receiver)

    return asyncio.run(both())


def sent(*answers: Any, failures: int = 0, **options: Any) -> tuple[Outcome, Receiver]:
    async def once(sender: Sender, receiver: Receiver) -> tuple[Outcome, Receiver]:
        return await sender.send(message(receiver.url, failures=failures)), receiver

    found: tuple[Outcome, Receiver] = run(*answers, then=once, **options)
    return found


def test_a_message_arrives_signed_and_whole() -> None:
    outcome, receiver = sent(web.Response(status=204))
    assert outcome.verdict is Verdict.DELIVERED
    assert outcome.status == 204
    [(headers, body)] = receiver.requests
    assert Webhook(SECRET.reveal()).verify(body, headers) == {"seq": 7, "score": 1.5}
    assert headers["webhook-id"] == "ann@7"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("matchwood/")


def test_each_attempt_has_the_same_id_and_its_own_timestamp() -> None:
    times = iter(range(1_000_000, 2_000_000, 100))

    async def twice(sender: Sender, receiver: Receiver) -> list[dict[str, str]]:
        for _ in range(2):
            await sender.send(message(receiver.url))
        return [headers for headers, _ in receiver.requests]

    first, second = run(then=twice, clock=lambda: float(next(times)))
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-timestamp"] != second["webhook-timestamp"]


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_any_other_status_is_tried_again_later(status: int) -> None:
    outcome, _ = sent(web.Response(status=status, text="not now"), schedule=Schedule(jitter=0.0))
    assert outcome[:4] == (Verdict.RETRY, f"the receiver answered {status}: not now", 5.0, status)


def test_after_the_last_retry_it_is_a_dead_letter() -> None:
    outcome, _ = sent(web.Response(status=500), failures=10)
    assert outcome.verdict is Verdict.EXHAUSTED
    assert outcome.reason == "the receiver answered 500 (attempt 11, the last)"


def test_retry_after_is_honoured() -> None:
    answer = web.Response(status=503, headers={"Retry-After": "600"})
    outcome, _ = sent(answer, schedule=Schedule(jitter=0.0))
    assert outcome.delay == 600.0


def test_gone_disables() -> None:
    outcome, _ = sent(web.Response(status=410))
    assert outcome.verdict is Verdict.DISABLED
    assert "410" in outcome.reason


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    async def elsewhere(sender: Sender, receiver: Receiver) -> tuple[Outcome, Receiver]:
        return await sender.send(message(receiver.url)), receiver

    answer = web.Response(status=status, headers={"Location": "http://169.254.169.254/latest/meta-data/"})
    outcome, receiver = run(answer, then=elsewhere)
    assert outcome.verdict is Verdict.RETRY
    assert "redirects are not followed" in outcome.reason
    assert len(receiver.requests) == 1


def test_without_permission_a_local_receiver_is_not_reached() -> None:
    async def refused() -> tuple[list[Outcome], Receiver]:
        async with receiving() as receiver, Sender(egress=Egress(http=True)) as sender:
            port = receiver.url.split(":")[2]
            urls = [
                receiver.url,
                f"http://localhost:{port}",
                f"http://2130706433:{port}",
                f"http://[::ffff:7f00:1]:{port}",
            ]
            return [await sender.send(message(url)) for url in urls], receiver

    outcomes, receiver = asyncio.run(refused())
    assert [outcome.verdict for outcome in outcomes] == [Verdict.RETRY] * 4
    assert all("is not public" in outcome.reason for outcome in outcomes), outcomes
    assert receiver.requests == []


def test_a_receiver_whose_certificate_nobody_has_signed_gets_nothing() -> None:
    async def unsigned() -> tuple[Outcome, Receiver]:
        async with receiving(tls=True) as receiver, Sender(egress=LOCAL) as sender:
            return await sender.send(message(receiver.url)), receiver

    outcome, receiver = asyncio.run(unsigned())
    assert outcome.verdict is Verdict.RETRY
    assert "certificate" in outcome.reason.lower()
    assert receiver.requests == []


def test_a_receiver_that_does_not_answer_is_given_up_in_time() -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    start = time.monotonic()
    outcome, _ = sent(never, timeout=0.2)
    assert outcome.verdict is Verdict.RETRY
    assert outcome.reason == "the receiver did not answer within 0.2 s"
    assert time.monotonic() - start < 5


def test_a_receiver_that_answers_without_end_is_cut_off() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=500)
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65536)

    outcome, _ = sent(endless, timeout=5.0)
    assert outcome.verdict is Verdict.RETRY
    assert len(outcome.reason) < 600


def test_nobody_listening_is_a_failure_with_a_reason() -> None:
    async def alone() -> Outcome:
        async with Sender(egress=LOCAL) as sender:
            return await sender.send(message("http://127.0.0.1:1/"))

    outcome = asyncio.run(alone())
    assert outcome.verdict is Verdict.RETRY
    assert "127.0.0.1:1" in outcome.reason


def test_a_url_that_is_no_longer_allowed_fails_without_a_connection() -> None:
    async def alone() -> Outcome:
        async with Sender() as sender:
            return await sender.send(message("http://example.org/"))

    assert "is not HTTPS" in asyncio.run(alone()).reason


def test_a_host_that_fails_is_left_alone_and_the_others_are_not() -> None:
    async def failing(sender: Sender, receiver: Receiver) -> tuple[list[Verdict], Outcome, int]:
        verdicts = [(await sender.send(message(receiver.url))).verdict for _ in range(5)]
        async with receiving() as other:
            return verdicts, await sender.send(message(other.url)), len(receiver.requests)

    breakers = Breakers(threshold=3, pause=60.0)
    verdicts, outcome, requests = run(web.Response(status=500), then=failing, breakers=breakers)
    assert verdicts == [Verdict.RETRY] * 3 + [Verdict.POSTPONED] * 2
    assert requests == 3
    assert outcome.verdict is Verdict.DELIVERED


def test_a_cancelled_attempt_frees_its_place_and_the_probe() -> None:
    async def cancelled(sender: Sender, receiver: Receiver) -> Outcome:
        receiver.pause = 30.0
        sender.breakers.failed(receiver.url.split("/")[2], 0.0)
        task = asyncio.create_task(sender.send(message(receiver.url)))
        while not receiver.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        receiver.pause = 0.0
        return await sender.send(message(receiver.url))

    outcome = run(then=cancelled, per_host=1, breakers=Breakers(threshold=1, pause=1.0))
    assert outcome.verdict is Verdict.DELIVERED


def test_attempts_at_one_host_and_in_all_are_bounded() -> None:
    async def many(sender: Sender, receiver: Receiver) -> tuple[int, int, list[Verdict]]:
        async with receiving() as other:
            receiver.pause = other.pause = 0.01
            messages = [message(receiver.url) for _ in range(40)] + [message(other.url) for _ in range(40)]
            outcomes = await asyncio.gather(*(sender.send(one) for one in messages))
            return receiver.most_at_once, other.most_at_once, [outcome.verdict for outcome in outcomes]

    most, most_other, verdicts = run(then=many, concurrency=8, per_host=5)
    assert set(verdicts) == {Verdict.DELIVERED}
    assert most <= 5
    assert most_other <= 5
    assert most > 1


def test_a_slow_host_does_not_stop_the_others() -> None:
    async def beside(sender: Sender, receiver: Receiver) -> float:
        receiver.pause = 30.0
        async with receiving() as fast:
            slow = [asyncio.create_task(sender.send(message(receiver.url))) for _ in range(50)]
            await asyncio.sleep(0.05)
            start = time.monotonic()
            assert (await sender.send(message(fast.url))).verdict is Verdict.DELIVERED
            took = time.monotonic() - start
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            return took

    assert run(then=beside, concurrency=10, per_host=5) < 5.0


def test_a_message_shows_no_secret() -> None:
    assert SECRET.reveal() not in repr(message("https://example.org"))


def test_a_sender_is_used_in_a_with_block() -> None:
    outcome = asyncio.run(Sender(egress=LOCAL).send(message("http://127.0.0.1:1/")))
    assert "async with Sender()" in outcome.reason
