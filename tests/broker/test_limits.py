"""What a tenant keeps is limited: dead letters, the matches of digests, the names of consumers."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from matchwood import ManualClock
from matchwood.broker import outbox
from matchwood.broker.commands import Conditions, Taken
from matchwood.broker.hub import Hub
from matchwood.broker.metrics import Metrics
from matchwood.broker.types import DeliveryOptions, Digest, TenantLimits
from tests.broker.service import memory_folder, service
from tests.broker.tenants import Direct, incoming
from tests.broker.test_service import send

START = datetime(2026, 1, 1, tzinfo=UTC)
DURABLE = DeliveryOptions(consumer="c")


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def bury(direct: Direct, clock: ManualClock) -> None:
    """Let what waits for the consumer become dead letters."""
    for _ in range(outbox.MAX_ATTEMPTS + 1):
        direct.call(direct.tenant.pull, "stream:c", 100, 1.0)
        clock.advance(seconds=2)


def dead(direct: Direct) -> list[int]:
    """The records of the dead letters, oldest first."""
    return [entry.seq for entry, _, _ in outbox.dead_letters(direct.tenant._connection, None, 0, 100)]


def test_the_oldest_dead_letters_are_dropped_and_counted(
    folder: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    limits = TenantLimits(dead=3)
    direct = Direct(folder, clock, limits)
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "a"}, DURABLE)
    seqs = [taken.seq for taken in direct.publish([incoming({"age": n}) for n in range(1, 6)])]  # type: ignore[union-attr]
    bury(direct, clock)
    assert dead(direct) == seqs[2:]
    assert outbox.dropped_dead(direct.tenant._connection) == 2
    assert direct.tenant._metrics.shed.labels("dead")._value.get() == 2
    assert "the oldest 2 were dropped" in caplog.text
    direct.close()
    direct = Direct(folder, clock, limits)
    assert direct.call(direct.tenant.revive, None, "c") == 3
    [taken] = direct.publish([incoming({"age": 9})])
    assert isinstance(taken, Taken)
    bury(direct, clock)
    assert dead(direct) == [*seqs[3:], taken.seq]
    assert outbox.dropped_dead(direct.tenant._connection) == 3
    assert direct.call(direct.tenant.discard, None, "c") == 3
    direct.publish([incoming({"age": 9})])
    bury(direct, clock)
    assert len(dead(direct)) == 1
    direct.close()


def test_a_list_of_dead_letters_says_how_many_were_dropped() -> None:
    with service() as broker:
        send(broker, "PUT", "/v1/tenants/default", {"dead": 1})
        send(broker, "PUT", "/v1/hooks/h", {"url": "http://127.0.0.1:9/", "retries": 5})
        delivery = {"type": "webhook", "hook": "h"}
        send(broker, "POST", "/v1/subscriptions", {"id": "a", "expression": "TRUE", "delivery": delivery})
        for _ in range(3):
            send(broker, "POST", "/v1/events", {"age": 1})
        assert "dropped" not in send(broker, "GET", "/v1/dead")[1]
        send(broker, "DELETE", "/v1/hooks/h")  # what waits for it becomes dead letters
        page = send(broker, "GET", "/v1/dead")[1]
        assert ([one["delivery"]["seq"] for one in page["dead"]], page["dropped"]) == ([4], 2)


def test_a_digest_keeps_its_best_matches_and_the_number_of_all(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    options = DeliveryOptions(consumer="c", digest=Digest(max=2, period=60.0))
    given = {"expression": " OR ".join(f"age = {n} ^{n}" for n in range(1, 10)), "id": "a"}
    direct.call(direct.tenant.subscribe, given, options)
    for age in (3, 1, 9, 2, 5, 4):
        direct.publish([incoming({"age": age})])
        clock.advance(seconds=1)
    connection = direct.tenant._connection
    assert connection.execute("SELECT count(*) FROM digests").get == 2
    assert connection.execute("SELECT count FROM periods").get == 6
    direct.tenant._trim()
    assert connection.execute("SELECT count(*) FROM payloads").get == 2
    direct.close()
    direct = Direct(folder, clock)
    clock.advance(seconds=54)  # the period began with the first match, which is not among the best
    direct.tenant._commit([])
    [entry], _ = direct.call(direct.tenant.pull, "stream:c", 10, 10.0)
    delivery = entry.delivery()
    assert [hit.event for hit in delivery.digest] == [{"age": 9}, {"age": 5}]
    assert delivery.left_out == 4
    assert direct.tenant._connection.execute("SELECT count(*) FROM periods").get == 0
    direct.close()


def test_the_digests_of_an_older_version_are_taken_over(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    options = DeliveryOptions(consumer="c", digest=Digest(max=2, period=60.0))
    direct.call(direct.tenant.subscribe, {"expression": "age > 0 ^1 OR age > 5 ^3", "id": "a"}, options)
    seqs = [direct.publish([incoming({"age": age})])[0].seq for age in (1, 2, 7)]  # type: ignore[union-attr]
    connection, opened = direct.tenant._connection, int(START.timestamp() * 1e6)
    with connection:
        connection.execute("DROP TABLE digests; DROP TABLE periods; DROP INDEX subscriptions_about")
        connection.execute("CREATE TABLE digests(subscription TEXT NOT NULL, seq INTEGER, score REAL, time INTEGER)")
        rows = [("a", seq, score, opened) for seq, score in zip(seqs, (1.0, 1.0, 4.0), strict=True)]
        connection.executemany("INSERT INTO digests VALUES(?, ?, ?, ?)", rows)
        connection.executemany(
            "INSERT OR IGNORE INTO payloads VALUES(?, ?, NULL, NULL)",
            [(seq, json.dumps({"age": age})) for seq, age in zip(seqs, (1, 2, 7), strict=True)],
        )
    direct.close()
    direct = Direct(folder, clock)
    clock.advance(seconds=61)
    direct.tenant._commit([])
    [entry], _ = direct.call(direct.tenant.pull, "stream:c", 10, 10.0)
    assert [hit.event for hit in entry.delivery().digest] == [{"age": 7}, {"age": 1}]
    assert entry.delivery().left_out == 1
    direct.close()


def test_a_removed_subscription_leaves_nothing_of_its_digest(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    options = DeliveryOptions(consumer="c", digest=Digest(max=2, period=60.0))
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "a"}, options)
    direct.publish([incoming({"age": 1})])
    direct.call(direct.tenant.unsubscribe, "a", Conditions())
    for table in ("digests", "periods"):
        assert direct.tenant._connection.execute(f"SELECT count(*) FROM {table}").get == 0
    direct.close()


def test_the_hub_forgets_the_names_of_consumers_that_nobody_waits_for(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    hub = Hub(direct.tenant, Metrics())

    async def wait() -> None:
        waiting = hub.consumer("stream:me")
        assert hub.consumer("stream:me") is waiting
        for number in range(1000):
            hub.consumer(f"stream:{number}")
        hub.committed([], {"stream:me", "stream:7"}, 1)
        assert waiting.is_set()
        gc.collect()
        assert list(hub._consumers) == ["stream:me"]

    asyncio.run(wait())
    gc.collect()
    assert not hub._consumers
    direct.close()
