"""Webhooks of a tenant, from the outbox to a real receiver: in order by subscription, and nobody waits for another's failure."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from matchwood.broker import hooks as hooks_module
from matchwood.broker import outbox
from matchwood.broker.egress import Egress
from matchwood.broker.hooks import Hooks
from matchwood.broker.hub import Hub
from matchwood.broker.metrics import Metrics
from matchwood.broker.retries import Breakers, Schedule
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import DeliveryOptions, NewHook, TenantLimits
from matchwood.broker.webhooks import Sender
from matchwood.engine.journal import Journal
from tests.broker.receiver import Receiver, receiving
from tests.broker.service import memory_folder
from tests.broker.tenants import incoming

LOCAL = Egress.of(["127.0.0.0/8"], http=True)


class Sending:
    """A tenant with its thread and its webhooks; retries come after milliseconds."""

    def __init__(self, tenant: Tenant, hooks: Hooks) -> None:
        self.tenant, self.hooks = tenant, hooks

    async def hook(self, name: str, url: str, **more: Any) -> None:
        await self.tenant.call(self.hooks.put, name, NewHook(url=url, **more))

    async def subscribe(self, id_: str, hook: str, expression: str = "TRUE") -> None:
        options = DeliveryOptions(type="webhook", hook=hook)
        await self.tenant.call(self.tenant.subscribe, {"id": id_, "expression": expression}, options)

    async def publish(self, *events: dict[str, Any]) -> list[int]:
        return [taken.seq for taken in await self.tenant.publish([incoming(event) for event in events], None)]

    async def waiting(self) -> int:
        return int(
            await self.tenant.read(lambda journal: journal.connection.execute("SELECT count(*) FROM outbox").get)
        )

    async def dead(self) -> list[tuple[outbox.Entry, str]]:
        found = await self.tenant.read(lambda journal: outbox.dead_letters(journal.connection, None, 0, 1000))
        return [(entry, reason) for entry, reason, _ in found]

    async def settled(self) -> None:
        for _ in range(1500):
            if await self.waiting() == 0:
                assert self.tenant._waiting == 0
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{await self.waiting()} deliveries wait")


@asynccontextmanager
async def sending(folder: Path, *, breakers: Breakers | None = None) -> AsyncIterator[Sending]:
    metrics = Metrics()
    tenant = Tenant("t", folder, TenantLimits(), metrics, index="scan")
    hub = Hub(tenant, metrics)
    tenant.on_commit = hub.committed
    tenant.start(asyncio.get_running_loop())
    hooks = Hooks(tenant, hub, LOCAL, metrics)
    schedule = Schedule(delays=(0.02,) * 10)
    hooks._sender = Sender(egress=LOCAL, schedule=schedule, breakers=breakers or Breakers(threshold=10**9))
    await hooks.start()
    try:
        yield Sending(tenant, hooks)
    finally:
        await hooks.stop()
        await asyncio.to_thread(tenant.stop)


def run(
    work: Callable[[Sending, Receiver], Any],
    answer: Callable[[web.Request], Any] | web.Response | None = None,
    **more: Any,
) -> None:
    async def both() -> None:
        with memory_folder() as folder:
            given = [] if answer is None else [answer]
            async with receiving(*given) as receiver, sending(folder, **more) as made:
                await work(made, receiver)

    asyncio.run(both())


def arrived(receiver: Receiver) -> dict[str, list[int]]:
    """The numbers in the order in which they arrived, by subscription; each time that they did."""
    found: dict[str, list[int]] = {}
    for _, body in receiver.requests:
        delivery = json.loads(body)
        found.setdefault(delivery["subscription"], []).append(delivery["seq"])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_subscription_gets_its_matches_by_seq_whatever_fails(seed: int) -> None:
    rng = random.Random(seed)

    async def moody(_: web.Request) -> web.Response:
        await asyncio.sleep(rng.random() * 0.004)
        return web.Response(status=rng.choice([200, 200, 200, 500]))

    async def work(it: Sending, receiver: Receiver) -> None:
        await it.hook("h", receiver.url, retries=10)
        for number in range(8):
            await it.subscribe(f"s{number}", "h", f"age > {number}")
        seqs = []
        for _ in range(6):
            batch = [{"age": age} for age in range(10)]
            seqs += zip(await it.publish(*batch), range(10), strict=True)
            await asyncio.sleep(0.02)
        await it.settled()
        assert await it.dead() == []
        for number in range(8):
            once = list(dict.fromkeys(arrived(receiver)[f"s{number}"]))  # the first time that each came
            assert once == [seq for seq, age in seqs if age > number]
            # what fails is repeated before the next one comes
            assert arrived(receiver)[f"s{number}"] == sorted(arrived(receiver)[f"s{number}"])
        assert receiver.most_at_once > 1  # but the subscriptions are served side by side

    run(work, moody)


def test_a_delivery_that_always_fails_holds_its_line_up_to_a_limit_and_no_other_line() -> None:
    async def picky(request: web.Request) -> web.Response:
        delivery = json.loads(await request.read())
        return web.Response(status=422 if (delivery["subscription"], delivery["event"]["n"]) == ("s", 1) else 200)

    async def work(it: Sending, receiver: Receiver) -> None:
        await it.hook("h", receiver.url, retries=3)
        await it.subscribe("s", "h")
        await it.subscribe("t", "h")
        seqs = await it.publish(*({"n": n} for n in range(4)))
        await it.settled()
        assert arrived(receiver) == {"s": [seqs[0], *[seqs[1]] * 4, seqs[2], seqs[3]], "t": seqs}
        last_of_t = max(n for n, (_, body) in enumerate(receiver.requests) if json.loads(body)["subscription"] == "t")
        assert last_of_t < len(receiver.requests) - 2
        [(letter, reason)] = await it.dead()
        assert (letter.subscription, letter.seq, letter.attempts) == ("s", seqs[1], 4)
        assert "422" in reason

    run(work, picky)


def test_a_hook_that_does_not_ask_for_order_gets_one_subscription_side_by_side() -> None:
    async def work(it: Sending, receiver: Receiver) -> None:
        receiver.pause = 0.05
        await it.hook("h", receiver.url, ordered=False)
        await it.subscribe("s", "h")
        seqs = await it.publish(*({"n": n} for n in range(40)))
        await it.settled()
        assert sorted(arrived(receiver)["s"]) == seqs
        assert receiver.most_at_once > 5

    run(work)


def test_an_ordered_hook_has_one_delivery_of_a_subscription_in_flight() -> None:
    async def work(it: Sending, receiver: Receiver) -> None:
        receiver.pause = 0.005
        await it.hook("h", receiver.url)
        await it.subscribe("s", "h")
        for n in range(30):
            await it.publish({"n": n})
        await it.settled()
        assert receiver.most_at_once == 1
        assert arrived(receiver)["s"] == sorted(arrived(receiver)["s"])
        assert len(arrived(receiver)["s"]) == 30

    run(work)


def test_a_hook_that_is_down_or_slow_does_not_delay_another() -> None:
    async def work(it: Sending, receiver: Receiver) -> None:
        async with receiving() as slow:
            slow.pause = 30.0
            await it.hook("slow", slow.url)
            await it.hook("down", "http://127.0.0.1:1/")
            await it.hook("fast", receiver.url)
            for number in range(100):
                for hook in ("slow", "down", "fast"):
                    await it.subscribe(f"{hook}{number}", hook)
            for n in range(3):
                await it.publish({"n": n})
            async with asyncio.timeout(10):
                while len(receiver.requests) < 300:
                    await asyncio.sleep(0.01)
        assert all(seqs == sorted(seqs) and len(seqs) == 3 for seqs in arrived(receiver).values())

    run(work)


def test_a_pause_of_the_host_is_no_failure_of_the_deliveries() -> None:
    answers = [503, 503, 503]

    async def recovering(_: web.Request) -> web.Response:
        return web.Response(status=answers.pop() if answers else 200)

    async def work(it: Sending, receiver: Receiver) -> None:
        await it.hook("h", receiver.url, retries=3)
        for number in range(5):
            await it.subscribe(f"s{number}", "h")
        await it.publish({"n": 0})
        await it.publish({"n": 1})
        await it.settled()
        assert await it.dead() == []
        assert all(list(dict.fromkeys(seqs)) == sorted(set(seqs)) for seqs in arrived(receiver).values())

    run(work, recovering, breakers=Breakers(threshold=2, pause=0.1))


def test_what_waits_for_a_disabled_hook_is_sent_once_it_is_enabled_and_dropped_when_it_is_removed() -> None:
    async def work(it: Sending, receiver: Receiver) -> None:
        await it.hook("h", receiver.url, enabled=False)
        await it.hook("gone", receiver.url, enabled=False)
        await it.subscribe("s", "h")
        await it.subscribe("t", "gone")
        seqs = await it.publish(*({"n": n} for n in range(3)))
        await asyncio.sleep(0.1)
        assert receiver.requests == []
        await it.hook("h", receiver.url)
        await it.tenant.call(it.hooks.remove, "gone")
        await it.settled()
        assert arrived(receiver) == {"s": seqs}
        assert [(letter.subscription, reason) for letter, reason in await it.dead()] == [
            ("t", "the hook was removed")
        ] * 3

    run(work)


def test_after_a_restart_what_was_in_flight_is_repeated_at_once_and_in_order() -> None:
    async def both() -> None:
        with memory_folder() as folder:
            async with receiving() as receiver:
                receiver.pause = 30.0
                async with sending(folder) as it:
                    await it.hook("h", receiver.url)
                    await it.subscribe("s", "h")
                    seqs = await it.publish(*({"n": n} for n in range(5)))
                    while not receiver.requests:
                        await asyncio.sleep(0.01)
                receiver.pause = 0.0
                async with sending(folder) as it:
                    await it.settled()
                assert arrived(receiver)["s"] == [seqs[0], *seqs]

    asyncio.run(both())


def test_a_folder_of_an_older_version_gets_the_new_columns(tmp_path: Path) -> None:
    line = "outbox_line ON outbox(consumer, subscription, seq)"
    old = outbox.TABLES.replace(line, "outbox_delivery ON outbox(consumer, seq, subscription)")
    old = old.replace(",\n    ordered INTEGER NOT NULL DEFAULT 1, retries INTEGER NOT NULL DEFAULT 6", "")
    assert "ordered" not in old
    journal = Journal(tmp_path, tables=old)
    connection = journal.connection
    connection.execute("INSERT INTO hooks VALUES('h', 'https://example.org/', 1, NULL, '[]')")
    for _ in range(2):
        outbox.upgrade(connection)
        assert [(hook.ordered, hook.retries) for hook in hooks_module.hooks(connection)] == [(True, 6)]
    assert connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'outbox_%' ORDER BY 1").fetchall() == [
        ("outbox_due",),
        ("outbox_line",),
    ]
    journal.close()
