"""Kafka for real, in and out, with kills in between; `make kafka` runs it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.service import Service, memory_folder
from tests.spark.test_kafka import jars, servers  # noqa: F401

pytestmark = pytest.mark.kafka


def produce(where: str, topic: str, values: list[bytes]) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=where) as producer:
            sent = [await producer.send(topic, value) for value in values]
            await asyncio.gather(*sent)

    asyncio.run(run())


def consumed(where: str, topic: str, count: int) -> list[Any]:
    from aiokafka import AIOKafkaConsumer

    async def run() -> list[Any]:
        options = {"bootstrap_servers": where, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **options) as consumer:
            found: list[Any] = []
            end = time.monotonic() + 30
            while len({one["id"] for one in found}) < count and time.monotonic() < end:
                batch = await consumer.getmany(timeout_ms=500)
                found += [json.loads(one.value) for all_ in batch.values() for one in all_]
            return found

    return asyncio.run(run())


def until(ready: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_events_of_a_topic_are_published_once_and_deliveries_arrive_in_another(
    servers: str,  # noqa: F811
    request: pytest.FixtureRequest,
) -> None:
    events = [json.dumps({"number": n, "price": n % 400}).encode() for n in range(3000)]
    produce(servers, "in", events[:1000])
    with memory_folder() as folder:
        broker = Service(folder / "data", "--kafka-servers", servers, "--from-kafka", "in")
        request.addfinalizer(lambda: broker.kill() if broker.process.poll() is None else None)
        with broker.client() as client:
            client.put("price < 100", id="s", delivery={"type": "kafka", "topic": "out"})
        produce(servers, "in", [*events[1000:2000], b"nonsense"])
        for part in range(2):
            time.sleep(0.4)
            broker.kill()
            if part == 0:
                produce(servers, "in", events[2000:])
            broker = broker.again()
        with broker.client() as client:

            def numbers() -> list[int]:
                return [event.data["number"] for event in client.events()]

            until(lambda: len(numbers()) >= 3000)
            time.sleep(1.0)
            assert sorted(numbers()) == list(range(3000))
            [letter] = list(client.dead.list())
            assert "not a JSON object" in letter.reason
            matched = {f"s@{event.seq}" for event in client.events() if event.matches}
            until(lambda: not any(view.waiting for view in client.consumers()))
        found = consumed(servers, "out", len(matched))
        assert {one["id"] for one in found} == matched
        assert all(one["event"]["price"] < 100 for one in found)
        broker.stop()
