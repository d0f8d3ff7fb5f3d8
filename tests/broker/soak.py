"""A broker at load for an hour: does it stay as it is? `make soak MINUTES=60`, or `python -m tests.broker.soak --minutes 60`.

A real service, on a real disk, has everything at once, at a rate that a part of one core can carry: subscriptions that come,
change, pause, expire and go, with strings never seen before; events alone and in batches, some of which stay alive; streams
that read, stall and come back to their position; durable consumers that acknowledge, give back and forget; webhooks that fail
now and then; digests; dead letters; snapshots. Every few seconds it is noted what the service uses. After a warm-up none of
that may grow.

Faults are noted too: answers that are not expected, webhooks of a subscription that do not come by `seq`, streams with gaps,
errors in the log, and what `matchwood verify` finds in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.broker.receiver import Receiver, receiving
from tests.broker.service import Service

STANDING = 3000
"""Subscriptions at any time."""
RETENTION = 120.0
"""Seconds; a warm-up takes longer than that."""
CITIES = 40
SAMPLE_SECONDS = 10.0


class Soak:
    """The load, and what is known of it."""

    def __init__(
        self, service: Service, session: aiohttp.ClientSession, rate: float, retention: float, seed: int
    ) -> None:
        self.service, self.session, self.rate, self.retention = service, session, rate, retention
        self.rng = random.Random(seed)
        self.ids: list[str] = []
        self.made = self.published = self.streamed = self.pulled = self.hooked = self.failed_hooks = 0
        self.last_hooked: dict[str, int] = {}
        self.faults: list[str] = []
        self.latencies: list[float] = []
        self.samples: list[dict[str, Any]] = []
        self.receiver: Receiver

    # requests

    async def ask(self, method: str, path: str, body: Any = None, *, text: str | None = None, expect: int = 0) -> Any:
        """The decoded answer; a 5xx, or a status other than the expected one, is a fault."""
        given: dict[str, Any] = {"json": body} if body is not None else {}
        if text is not None:
            given = {"data": text.encode(), "headers": {"Content-Type": "application/x-ndjson"}}
        async with self.session.request(method, f"{self.service.url}{path}", **given) as answer:
            content = await answer.read()
            if answer.status >= 500 or (expect and answer.status != expect):
                self.fault(f"{method} {path}: {answer.status} {content[:300]!r}")
            return json.loads(content) if content else None

    def fault(self, what: str) -> None:
        if len(self.faults) < 100:
            self.faults.append(what)
            print(what, file=sys.stderr, flush=True)

    def expression(self) -> str:
        draw = self.rng
        city = draw.randrange(CITIES)
        return draw.choice(
            [
                f"city = 'c{city}' AND price < {draw.randrange(50, 500)}",
                f"city = 'c{city}' ^2 OR user = 'u{draw.randrange(10**9)}'",  # a string that nobody has used before
                f"price BETWEEN {(low := draw.randrange(950))} AND {low + 15}",
                f"city IN ('c{city}', 'c{(city + 1) % CITIES}') AND kind LIKE 'k{draw.randrange(9)}%'",
            ]
        )

    def subscription(self) -> dict[str, Any]:
        self.made += 1
        draw, number = self.rng, self.made
        delivery: dict[str, Any] = draw.choice(
            [{}] * 6
            + [{"consumer": f"k{number % 4}"}] * 2
            + [{"type": "webhook", "hook": f"h{number % 3}"}]
            + [{"consumer": f"k{number % 4}", "digest": {"max": 3, "period": 20}}, {"type": "none"}]
        )
        made = {"id": f"s{number}", "expression": self.expression(), "delivery": delivery, "metadata": {"n": number}}
        made["priority"] = float(draw.randrange(5))
        if number % 5 == 0:
            made["place"], made["radius"] = [10 + draw.random() / 10, 59 + draw.random() / 10], 2000.0
        if number % 7 == 0:
            made["until"] = later(draw.randrange(20, 90))
        return made

    def event(self) -> dict[str, Any]:
        draw = self.rng
        made: dict[str, Any] = {"city": f"c{draw.randrange(CITIES)}", "price": draw.randrange(1000)}
        made["kind"] = f"k{draw.randrange(9)}{draw.randrange(10**6)}"
        made["user"] = f"u{draw.randrange(10**9)}"
        if draw.random() < 0.3:
            made["place"] = {"lon": 10 + draw.random() / 10, "lat": 59 + draw.random() / 10}
        made["text"] = "x" * draw.randrange(200)
        return made

    # what goes on all the time

    async def prepare(self) -> None:
        limits = {"retention": self.retention, "hits": 20, "waiting": 100_000}
        await self.ask("PUT", "/v1/tenants/default", limits, expect=200)
        types = {"city": "string", "price": "number", "kind": "string", "user": "string", "place": "point"}
        await self.ask("PUT", "/v1/schema", {"attributes": types}, expect=200)
        for number in range(3):
            await self.ask(
                "PUT", f"/v1/hooks/h{number}", {"url": self.receiver.url, "ordered": number != 2}, expect=201
            )
        while len(self.ids) < STANDING:
            await self.add(500)

    async def add(self, count: int) -> None:
        several = [self.subscription() for _ in range(count)]
        lines = "\n".join(json.dumps(one) for one in several)
        answer = await self.ask("POST", "/v1/subscriptions", text=lines, expect=200)
        if answer.get("rejected"):
            self.fault(f"rejected: {answer['rejected'][:2]}")
        self.ids += [one["id"] for one in several]

    async def publishing(self) -> None:
        """`rate` events a second, alone and in batches; now and then one that stays alive."""
        start, sent = time.monotonic(), 0
        while True:
            behind = (time.monotonic() - start) * self.rate - sent
            if behind < 1:
                await asyncio.sleep(0.01)
                continue
            if behind > self.rate * 5:  # the machine is busy: no backlog is built up
                start, sent = time.monotonic(), 0
                continue
            size = self.rng.choice([1, 1, 5, 20])
            sent += size
            begun = time.monotonic()
            if size == 1:
                live = f"&until={later(30)}" if self.rng.random() < 0.05 else ""
                await self.ask("POST", f"/v1/events?id=e{self.published}{live}", self.event(), expect=202)
            else:
                lines = "\n".join(json.dumps(self.event()) for _ in range(size))
                await self.ask("POST", "/v1/events", text=lines, expect=202)
            self.latencies.append(time.monotonic() - begun)
            self.published += size

    async def churning(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            draw = self.rng
            draw.shuffle(self.ids)
            gone, self.ids = self.ids[:20], self.ids[20:]
            for id_ in gone:
                await self.ask("DELETE", f"/v1/subscriptions/{id_}")  # 404: it had expired
            await self.add(max(STANDING - len(self.ids), 0))
            for id_ in self.ids[:10]:
                changes: dict[str, Any] = draw.choice(
                    [
                        {"expression": self.expression()},
                        {"priority": float(draw.randrange(9))},
                        {"paused": draw.random() < 0.5},
                        {"metadata": {"x": draw.random()}},
                        {"until": later(60)},
                    ]
                )
                await self.ask("PATCH", f"/v1/subscriptions/{id_}", changes)

    async def asking(self) -> None:
        """Questions that change nothing."""
        while True:
            await asyncio.sleep(0.5)
            one = self.rng.choice(self.ids)
            await self.ask("POST", "/v1/match", {"event": self.event(), "k": 5}, expect=200)
            await self.ask("POST", "/v1/explain", {"event": self.event(), "subscription": one})
            await self.ask("GET", f"/v1/subscriptions/{one}/live?k=3")
            await self.ask("GET", "/v1/subscriptions?limit=20", expect=200)
            await self.ask("POST", "/v1/replay", {"expression": self.expression(), "k": 3}, expect=200)

    async def streaming(self, *, stalls: bool) -> None:
        """A stream of everything that goes away and comes back to its position; or that stops reading."""
        position = None
        while True:
            headers = {} if position is None else {"Last-Event-ID": position}
            with suppress(aiohttp.ClientError, TimeoutError):
                url = f"{self.service.url}/v1/stream?all=1"
                async with asyncio.timeout(self.rng.uniform(5, 30)), self.session.get(url, headers=headers) as answer:
                    if stalls:
                        await asyncio.sleep(60)
                    async for line in answer.content:
                        if line.startswith(b"id: "):
                            position = line[4:].strip().decode()
                        elif line.startswith(b"event: match"):
                            self.streamed += 1
                        elif line.startswith(b"event: gap"):
                            self.fault("a stream that was away for seconds has a gap")

    async def consuming(self, name: str) -> None:
        """A durable consumer over HTTP: acknowledges most, gives some back, forgets some."""
        while True:
            await asyncio.sleep(0.3)
            asked = {"max": 500, "wait": 1, "lease": 5}
            answer = await self.ask("POST", f"/v1/consumers/{name}/pull", asked, expect=200)
            good, bad = [], []
            for one in answer["deliveries"]:
                luck = self.rng.random()
                (good if luck < 0.97 else bad if luck < 0.99 else []).append(one["id"])
            self.pulled += len(good)
            if good:
                await self.ask("POST", f"/v1/consumers/{name}/ack", {"ids": good}, expect=200)
            if bad:
                await self.ask("POST", f"/v1/consumers/{name}/nack", {"ids": bad, "delay": 1}, expect=200)

    async def listening(self, name: str) -> None:
        """A durable consumer over a WebSocket, which acknowledges twenty times a second, and reconnects."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with (
                    asyncio.timeout(20),
                    self.session.ws_connect(f"{self.service.url}/v1/stream?consumer={name}") as ws,
                ):
                    done: list[str] = []
                    acknowledging = asyncio.ensure_future(self.acknowledging(ws, done))
                    try:
                        async for message in ws:
                            if message.type is not aiohttp.WSMsgType.TEXT:
                                self.fault(f"a WebSocket ended: {message!r}")
                                break
                            told = json.loads(message.data)
                            if told["type"] == "match":
                                self.pulled += 1
                                done.append(told["data"]["id"])
                    finally:
                        acknowledging.cancel()

    async def acknowledging(self, ws: aiohttp.ClientWebSocketResponse, done: list[str]) -> None:
        while True:
            await asyncio.sleep(0.05)
            if done:
                ids = done[:]
                done.clear()
                await ws.send_json({"ack": ids})

    async def caring(self) -> None:
        while True:
            await asyncio.sleep(60)
            for consumer in ("k0", "k1", "k2", "k3", "h0", "h1", "h2"):
                await self.ask("POST", "/v1/dead/discard", {"consumer": consumer}, expect=200)
            await self.ask("POST", "/v1/snapshot", expect=200)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """A webhook arrives: by `seq`, or it is a repetition."""
        delivery = json.loads(await request.read())
        self.hooked += 1
        self.receiver.requests.clear()
        if int(delivery["subscription"][1:]) % 3 != 2:  # h2 is not ordered
            last = self.last_hooked.get(delivery["subscription"], 0)
            if delivery["seq"] < last:
                self.fault(f"webhook {delivery['id']} came after {last}")
            self.last_hooked[delivery["subscription"]] = delivery["seq"]
            if len(self.last_hooked) > 20_000:
                del self.last_hooked[next(iter(self.last_hooked))]
        if self.rng.random() < 0.005:
            self.failed_hooks += 1
            return web.Response(status=500)
        return web.Response(status=200)

    # watching

    async def sampling(self, start: float) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self.samples.append(await self.sample(start))
            print(json.dumps(self.samples[-1]), flush=True)

    async def sample(self, start: float) -> dict[str, Any]:
        process = Path("/proc") / str(self.service.process.pid)
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        stat = (process / "stat").read_text().rpartition(")")[2].split()
        tenant = self.service.folder / "tenants" / "default"
        latencies, self.latencies = sorted(self.latencies) or [0.0], []
        consumers = (await self.ask("GET", "/v1/consumers"))["consumers"]
        state = await self.ask("GET", "/v1/status")
        return {
            "seconds": round(time.monotonic() - start),
            "rss": int(status["VmRSS"].split()[0]) * 1024,
            "threads": int(status["Threads"]),
            "handles": len(list((process / "fd").iterdir())),
            "cpu": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
            "journal": (tenant / "journal.db").stat().st_size,
            "wal": (tenant / "journal.db-wal").stat().st_size,
            "snapshots": sum(path.stat().st_size for path in (tenant / "snapshots").rglob("*") if path.is_file()),
            "subscriptions": state["subscriptions"],
            "waiting": sum(one.get("waiting", 0) for one in consumers),
            "published": self.published,
            "streamed": self.streamed,
            "pulled": self.pulled,
            "hooked": self.hooked,
            "p50": round(latencies[len(latencies) // 2], 4),
            "p99": round(latencies[int(len(latencies) * 0.99)], 4),
            "faults": len(self.faults),
        }


def later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


GROWTH = {
    "rss": (0.05, 16 << 20),
    "handles": (0.1, 4),
    "threads": (0.1, 2),
    "journal": (0.2, 8 << 20),
    "waiting": (0.5, 500),
}
"""How much the median of the last quarter may exceed that of the second: a part of it, or an amount, whichever is more."""
WAL_BYTES = 128 << 20


def judge(samples: list[dict[str, Any]]) -> list[str]:
    """What has grown from the second quarter to the last."""
    quarter = max(len(samples) // 4, 1)
    found = []
    for name, (part, amount) in GROWTH.items():
        before, after = (
            statistics.median(sample[name] for sample in some)
            for some in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        if after > before + max(before * part, amount):
            found.append(f"{name} has grown from {before:,.0f} to {after:,.0f}")
    largest = max(sample["wal"] for sample in samples)
    if largest > WAL_BYTES:
        found.append(f"the write-ahead log reached {largest:,} bytes")
    return found


async def soak(service: Service, seconds: float, rate: float, retention: float = RETENTION, seed: int = 29) -> Soak:
    """Run the load for so long."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    headers = {"Authorization": f"Bearer {service.key}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        headers=headers, timeout=timeout, connector=connector, read_bufsize=4096
    ) as session:
        made = Soak(service, session, rate, retention, seed)
        async with receiving(made.receive) as receiver:
            made.receiver = receiver
            await made.prepare()
            work: list[Awaitable[None]] = [made.publishing(), made.churning(), made.asking(), made.caring()]
            work += [made.streaming(stalls=number == 0) for number in range(6)]
            work += [made.consuming("k0"), made.consuming("k1"), made.listening("k2"), made.listening("k3")]
            work.append(made.sampling(time.monotonic()))
            tasks = [asyncio.ensure_future(one) for one in work]
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                made.fault(f"a part of the load ended: {task.exception()!r}")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return made


def run(seconds: float, rate: float, retention: float = RETENTION, *, options: tuple[str, ...] = ()) -> list[str]:
    """Everything; returns what was wrong."""
    with tempfile.TemporaryDirectory(dir="build" if Path("build").is_dir() else None) as folder:
        service = Service(Path(folder).absolute() / "data", *options)
        try:
            made = asyncio.run(soak(service, seconds, rate, retention))
        finally:
            service.stop()
        problems = made.faults + judge(made.samples)
        if '"level": "error"' in service.logged():
            lines = [line for line in service.logged().splitlines() if '"level": "error"' in line]
            problems.append(f"the service logged {len(lines)} errors, such as {lines[0][:500]}")
        verified = service.verify()
        if verified:
            problems.append(verified)
    for name in ("rss", "handles", "threads", "journal", "wal", "snapshots", "waiting", "p50", "p99"):
        quarter = max(len(made.samples) // 4, 1)
        medians = [
            statistics.median(one[name] for one in made.samples[at : at + quarter])
            for at in range(0, len(made.samples), quarter)
        ]
        print(f"{name}: " + ", ".join(f"{median:,.4g}" for median in medians[:4]))
    last = made.samples[-1]
    print(
        f"{last['published']:,} events, {last['streamed']:,} streamed, {last['pulled']:,} pulled, {last['hooked']:,} by webhook"
    )
    print(f"{last['cpu'] / last['seconds']:.0%} of a core")
    return problems


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=100.0, help="events a second")
    given = parser.parse_args()
    problems = run(given.minutes * 60, given.rate, options=("--index", "auto"))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
