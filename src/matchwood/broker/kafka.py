"""Kafka, in and out. Needs the extra `kafka`.

In: the events of a topic are published, and the offsets after them are stored in the transaction of their effects. A
restart goes on at these offsets, so nothing is lost or doubled; no consumer group is involved. A message that is no
event is noted as a dead letter of `input:TOPIC`, with its partition and offset.

Out: deliveries to `kafka:TOPIC` are produced with `acks=all`, with the delivery id as key: at least once. A tenant other than the
default one may write to topics that begin with its name and a dot.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from matchwood.broker import outbox
from matchwood.broker.commands import Incoming, Publish
from matchwood.broker.hub import Hub
from matchwood.broker.metrics import Metrics
from matchwood.broker.publishing import incoming
from matchwood.broker.tenant import Tenant
from matchwood.errors import MatchwoodError, MissingExtraError

try:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.errors import KafkaError
except ImportError as error:
    raise MissingExtraError(
        f"Kafka needs aiokafka, which cannot be imported ({error}); install it with: pip install 'matchwood[broker,kafka]'"
    ) from None

LOG = logging.getLogger("matchwood.broker")
GROUP = 1000
LEASE = 60.0
PAUSE = 2.0
LOOK_SECONDS = 30.0

Read = tuple[int, int, bytes]
"""Partition, offset and value of a message."""


class Source:
    """Publishes the events of a topic to a tenant."""

    def __init__(self, tenant: Tenant, servers: str, topic: str) -> None:
        self._tenant, self._servers, self._topic = tenant, servers, topic
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except (KafkaError, OSError, MatchwoodError) as error:
                LOG.error("reading topic %s pauses: %s", self._topic, error)
                await asyncio.sleep(PAUSE)

    async def _follow(self) -> None:
        """Read from the stored offsets on, until something fails."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers, group_id=None, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            assigned: set[int] = set()
            look = 0.0
            while True:
                if time.monotonic() >= look:  # for partitions that were added
                    look = time.monotonic() + LOOK_SECONDS
                    parts = await self._parts(consumer)
                    if parts - assigned:
                        await self._assign(consumer, parts)
                        assigned = parts
                found = await consumer.getmany(timeout_ms=200, max_records=GROUP)
                messages = [(one.partition, one.offset, one.value or b"") for all_ in found.values() for one in all_]
                if messages:
                    await self._tenant.call(self._publish, messages)
        finally:
            await consumer.stop()

    async def _parts(self, consumer: Any) -> set[int]:
        """The partitions of the topic, once there are some."""
        while True:
            topics = await consumer._client.fetch_all_metadata()
            parts = topics.partitions_for_topic(self._topic)
            if parts:
                return set(parts)
            await asyncio.sleep(0.5)

    async def _assign(self, consumer: Any, parts: set[int]) -> None:
        sql = "SELECT part, next FROM offsets WHERE topic = ?"
        stored = await self._tenant.read(lambda journal: dict(journal.connection.execute(sql, (self._topic,))))
        wanted = [TopicPartition(self._topic, part) for part in sorted(parts)]
        consumer.assign(wanted)
        for partition in wanted:
            if partition.partition in stored:
                consumer.seek(partition, stored[partition.partition])
            else:
                await consumer.seek_to_beginning(partition)

    def _publish(self, messages: Sequence[Read]) -> None:
        """In the thread and the transaction of the tenant: publish, and store the offsets after the messages."""
        tenant = self._tenant
        events: list[Incoming] = []
        at: list[Read] = []
        for message in messages:
            try:
                events.append(incoming(message[2], None, None))
                at.append(message)
            except MatchwoodError as error:
                self._bury(message, str(error))
        if events:
            [results] = tenant._publish_batch([Publish(events, None, lambda _: None)])
            for message, result in zip(at, results, strict=True):
                if isinstance(result, MatchwoodError):
                    self._bury(message, str(result))
        following = {part: offset + 1 for part, offset, _ in messages}
        rows = [(self._topic, part, offset) for part, offset in following.items()]
        tenant._connection.executemany("INSERT OR REPLACE INTO offsets VALUES(?, ?, ?)", rows)

    def _bury(self, message: Read, reason: str) -> None:
        part, offset, value = message
        text = f"partition {part}, offset {offset}: {reason}; it began with {value[:100]!r}"
        self._tenant._connection.execute(
            "INSERT INTO dead(consumer, subscription, seq, score, attempts, reason, time) VALUES(?, '', 0, 0, 1, ?, ?)",
            (f"input:{self._topic}", text, self._tenant._time),
        )
        self._tenant._died(1)


class Sink:
    """Produces the deliveries of one tenant."""

    def __init__(self, tenant: Tenant, hub: Hub, servers: str, metrics: Metrics) -> None:
        self._tenant, self._servers, self._metrics = tenant, servers, metrics
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        hub.on_woken(self._wake)

    def _wake(self, consumers: set[str]) -> None:
        if any(consumer.startswith("kafka:") for consumer in consumers):
            self._woken.set()

    def start(self) -> None:
        """Begin to produce."""
        self._woken.set()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Produce no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            producer = AIOKafkaProducer(bootstrap_servers=self._servers, acks="all", enable_idempotence=True)
            try:
                await producer.start()
                await self._produce(producer)
            except (KafkaError, OSError, MatchwoodError) as error:
                LOG.error("writing to Kafka pauses: %s", error)
                self._metrics.deliveries.labels("kafka", "failed").inc()
                await asyncio.sleep(PAUSE)
            finally:
                await producer.stop()

    async def _produce(self, producer: Any) -> None:
        while True:
            self._woken.clear()
            entries: list[outbox.Entry] = await self._tenant.call(self._lease)
            if not entries:
                try:
                    async with asyncio.timeout(PAUSE):
                        await self._woken.wait()
                except TimeoutError:
                    pass
                continue
            sent = []
            for entry in entries:
                delivery = entry.delivery(self._tenant.describe(entry.subscription))
                topic, value = entry.consumer.partition(":")[2], msgspec.json.encode(delivery)
                sent.append(await producer.send(topic, value, key=delivery.id.encode()))
            await asyncio.gather(*sent)
            await self._tenant.call(self._settle, entries)
            self._metrics.deliveries.labels("kafka", "delivered").inc(len(entries))

    def _lease(self) -> list[outbox.Entry]:
        tenant = self._tenant
        sql = "SELECT DISTINCT consumer FROM outbox WHERE consumer >= 'kafka:' AND consumer < 'kafka;'"
        names: Any = tenant._connection.execute(sql).fetchall()
        until = tenant._time + int(LEASE * 1e6)
        return [
            entry
            for (name,) in names
            for entry in outbox.lease(tenant._connection, str(name), tenant._time, until, GROUP)
        ]

    def _settle(self, entries: list[outbox.Entry]) -> None:
        for entry in entries:
            self._tenant.delivered(entry.consumer, [entry])
