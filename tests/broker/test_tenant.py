"""A tenant in single situations; `test_tenant_machine` has all of them in any order."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from matchwood import ManualClock
from matchwood.broker import log, outbox
from matchwood.broker.commands import Command, Conditions, Publish, Taken
from matchwood.broker.types import DeliveryOptions, Digest, TenantLimits
from matchwood.errors import (
    ConflictError,
    JournalError,
    MatchwoodError,
    UnknownSubscriptionError,
)
from tests.broker.service import memory_folder
from tests.broker.tenants import Direct, incoming
from tests.engine.durable_world import Trap, trapped

START = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = Conditions()


def micro(clock: ManualClock, seconds: float = 0.0) -> int:
    return int((clock() + timedelta(seconds=seconds)).timestamp() * 1e6)


@pytest.fixture
def folder() -> Any:
    with memory_folder() as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def test_a_digest_has_the_best_matches_of_its_period_also_after_a_restart(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    options = DeliveryOptions(consumer="c", digest=Digest(max=2, period=60.0))
    direct.call(direct.tenant.subscribe, {"expression": "age > 0 ^1 OR age > 5 ^3 OR age > 7 ^4", "id": "a"}, options)
    for age in (1, 9, 6):
        [taken] = direct.publish([incoming({"age": age})])
        assert isinstance(taken, Taken)
        assert taken.hits
    assert direct.call(direct.tenant.pull, "stream:c", 10, 10.0)[0] == []
    direct.close()
    direct = Direct(folder, clock)
    clock.advance(seconds=61)
    direct.tenant._commit([])
    [entry], _ = direct.call(direct.tenant.pull, "stream:c", 10, 10.0)
    delivery = entry.delivery()
    assert [(hit.event, hit.score) for hit in delivery.digest] == [({"age": 9}, 4.0), ({"age": 6}, 3.0)]
    assert delivery.left_out == 1
    assert direct.streamed[-1].digest is not None
    direct.close()


def test_a_scoring_is_chosen_while_there_are_no_subscriptions_and_kept(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    tenant = direct.tenant
    direct.publish([incoming({"age": 1, "plan": "a"}, until=micro(clock, 60))])
    direct.call(tenant.choose_scoring, tenant.engine.prepared_scoring("priority"))
    given = {"expression": "age > 0 ^5", "priority": 2.0}
    _, _, live = direct.call(tenant.subscribe, {**given, "id": "a"}, DeliveryOptions())
    assert [score for _, score in live] == [2.0]
    with pytest.raises(ConflictError, match="the 1 subscriptions of tenant 't' are scored by 'priority'; remove"):
        direct.call(tenant.choose_scoring, tenant.engine.prepared_scoring("max"))
    direct.call(tenant.choose_scoring, tenant.engine.prepared_scoring("priority"))
    direct.close()
    direct = Direct(folder, clock)
    tenant = direct.tenant
    assert tenant.engine.scoring == "priority"
    taken = direct.publish([incoming({"age": 1})])[0]
    assert isinstance(taken, Taken)
    assert list(taken.hits) == [("a", 2.0)]
    direct.call(tenant.unsubscribe, "a", NOTHING)
    direct.call(tenant.choose_scoring, tenant.engine.prepared_scoring("max"))
    direct.call(tenant.subscribe, {**given, "id": "b"}, DeliveryOptions())
    taken = direct.publish([incoming({"age": 1})])[0]
    assert isinstance(taken, Taken)
    assert list(taken.hits) == [("b", 5.0)]
    direct.close()


def test_put_leaves_a_paused_subscription_paused_also_after_a_restart(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "a"}, DeliveryOptions())
    direct.call(direct.tenant.change, "a", {"paused": True}, NOTHING)
    for _ in range(2):
        direct.call(direct.tenant.replace, "a", {"expression": "age > 1"}, DeliveryOptions(), NOTHING)
        assert direct.call(direct.tenant.stored, "a")[0].paused
        assert direct.publish([incoming({"age": 5})])[0].hits == []  # type: ignore[union-attr]
        direct.close()
        direct = Direct(folder, clock)
    direct.call(direct.tenant.change, "a", {"paused": False}, NOTHING)
    assert direct.publish([incoming({"age": 5})])[0].hits == [("a", 1.0)]  # type: ignore[union-attr]
    assert direct.publish([incoming({"age": 1})])[0].hits == []  # type: ignore[union-attr]
    direct.close()


def test_a_full_outbox_sheds_the_lowest_scores_and_tells_the_consumer(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock, TenantLimits(waiting=10))
    for number in range(4):
        given = {"expression": "age > 0", "id": f"s{number}", "priority": float(number)}
        direct.call(direct.tenant.subscribe, given, DeliveryOptions(consumer="c"))
    shed_in_answer = [direct.publish([incoming({"age": 1})])[0].truncated for _ in range(6)]  # type: ignore[union-attr]
    entries, shed = direct.call(direct.tenant.pull, "stream:c", 100, 10.0)
    assert len(entries) <= 10
    assert shed is not None
    count, below, _, _ = shed
    assert count + len(entries) == 24
    assert any(shed_in_answer)
    assert below == 4.0  # when there was no room at all
    assert direct.call(direct.tenant.pull, "stream:c", 100, 10.0) == ([], None)
    direct.close()


def test_what_nobody_acknowledges_becomes_a_dead_letter_and_can_be_delivered_again(
    folder: Path, clock: ManualClock
) -> None:
    direct = Direct(folder, clock)
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "s"}, DeliveryOptions(consumer="c"))
    direct.publish([incoming({"age": 1})])
    attempts = 0
    while True:
        entries, _ = direct.call(direct.tenant.pull, "stream:c", 1, 10.0)
        if not entries:
            break
        attempts += 1
        assert entries[0].attempts == attempts
        clock.advance(seconds=11)
    assert attempts == 10
    [(entry, reason, _)] = outbox.dead_letters(direct.tenant._connection, "stream:c", 0, 10)
    assert "not acknowledged after 10" in reason
    assert direct.call(direct.tenant.revive, [entry.number], None) == 1
    [again], _ = direct.call(direct.tenant.pull, "stream:c", 1, 10.0)
    assert bytes(again.delivery().event) == b'{"age":1}'
    assert direct.call(direct.tenant.acknowledge, "stream:c", ["s@2"]) == 1
    direct.close()


def test_records_that_are_too_old_are_removed_and_a_restart_does_not_need_them(
    folder: Path, clock: ManualClock
) -> None:
    direct = Direct(folder, clock, TenantLimits(retention=60.0))
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "s"}, DeliveryOptions())
    direct.publish([incoming({"age": 1}, "old")])
    clock.advance(seconds=100)
    direct.tenant._trim()
    direct.publish([incoming({"age": 2}, "new")])
    assert direct.publish([incoming({"age": 1}, "old")])[0].duplicate is False  # type: ignore[union-attr]
    assert [one.seq for one in log.events(direct.tenant._journal, 0, 10)] == [3, 4]
    direct.close()
    direct = Direct(folder, clock, TenantLimits(retention=60.0))
    assert [hit.id for hit in direct.tenant.engine.match({"age": 2})] == ["s"]
    assert direct.publish([incoming({"age": 1}, "new")])[0].duplicate is True  # type: ignore[union-attr]
    direct.close()


def test_a_full_disk_refuses_and_the_tenant_goes_on_when_there_is_room(folder: Path, clock: ManualClock) -> None:
    mount = folder / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting a small tmpfs needs privileges")
    try:
        direct = Direct(mount / "t", clock)
        direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "s"}, DeliveryOptions())
        count = 0
        with pytest.raises(JournalError, match="disk is full"):  # noqa: PT012
            while True:
                direct.publish([incoming({"age": 1, "text": "x" * 20_000}, f"e{count}")])
                count += 1
        subprocess.run(["mount", "-o", "remount,size=8m", str(mount)], check=True)
        assert direct.publish([incoming({"age": 1}, f"e{count}")])[0].duplicate is False  # type: ignore[union-attr]
        assert direct.tenant.problem is None
        assert len(log.events(direct.tenant._journal, 0, 10_000)) == count + 1
        direct.close()
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_after_a_failed_fsync_every_change_is_refused(folder: Path, clock: ManualClock) -> None:
    def refuse() -> None:
        error = apsw.IOError("a broken disk")
        error.extendedresult = apsw.SQLITE_IOERR_FSYNC
        raise error

    direct = Direct(folder, clock)
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "s"}, DeliveryOptions())
    direct.close()
    with trapped(Trap("sync", "-wal", 3, refuse)):
        direct = Direct(folder, clock)
        acknowledged = 0
        with pytest.raises(JournalError):  # noqa: PT012
            while True:
                direct.publish([incoming({"age": 1})])
                acknowledged += 1
        with pytest.raises(JournalError, match="refuses"):
            direct.publish([incoming({"age": 1})])
        assert direct.tenant.problem is not None
        direct.close()
    direct = Direct(folder, clock)
    assert acknowledged <= len(log.events(direct.tenant._journal, 0, 100)) <= acknowledged + 1
    direct.close()


def test_errors_of_one_command_leave_the_others_of_its_group(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    tenant = direct.tenant
    results: list[Any] = []
    tenant._commit(
        [
            Command(tenant.subscribe, ({"expression": "age > 0", "id": "a"}, DeliveryOptions()), results.append),
            Command(tenant.subscribe, ({"expression": "age >", "id": "b"}, DeliveryOptions()), results.append),
            Publish([incoming({"age": 1})], None, results.append),
            Publish([incoming({"age": "old"}), incoming({"age": 2})], None, results.append),
            Command(tenant.unsubscribe, ("b", NOTHING), results.append),
        ]
    )
    assert results[0][:2] == ("a", 1)
    assert isinstance(results[1], MatchwoodError)
    assert [taken.hits for taken in results[2]] == [[("a", 1.0)]]
    assert "event 0: attribute 'age'" in str(results[3][0])
    assert results[3][1].hits == [("a", 1.0)]
    assert isinstance(results[4], UnknownSubscriptionError)
    direct.close()


def test_several_subscriptions_are_added_at_once_or_as_far_as_they_can_be(folder: Path, clock: ManualClock) -> None:
    direct = Direct(folder, clock)
    tenant = direct.tenant
    defaults = {"priority": 0.0, "place": None, "radius": None, "until": None, "metadata": None}

    def one(id_: str, expression: str = "age > 0", options: DeliveryOptions | None = None) -> Any:
        return {**defaults, "expression": expression, "id": id_}, options or DeliveryOptions()

    durable = DeliveryOptions(consumer="c")
    assert direct.call(tenant.subscribe_many, [one("a"), one("b", options=durable)]) == (["a", "b"], 2, [])
    ids, _, rejected = direct.call(tenant.subscribe_many, [one("c"), one("a"), one("d", "age >"), one("e")])
    assert ids == ["c", None, None, "e"]
    assert [reject.position for reject in rejected] == [1, 2]
    direct.close()
    direct = Direct(folder, clock)
    [taken] = direct.publish([incoming({"age": 1})])
    assert isinstance(taken, Taken)
    assert [id_ for id_, _ in taken.hits] == ["a", "b", "c", "e"]
    assert [entry.subscription for entry in direct.call(direct.tenant.pull, "stream:c", 9, 9.0)[0]] == ["b"]
    direct.close()


DIGEST = DeliveryOptions(consumer="c", digest=Digest(max=2, period=3600.0))


def digests_of(direct: Direct) -> list[list[int]]:
    """The events of the digests that the consumer gets now."""
    entries, _ = direct.call(direct.tenant.pull, "stream:c", 10, 10.0)
    return [[hit.event["age"] for hit in entry.delivery().digest] for entry in entries]


@pytest.mark.parametrize("restart", [False, True])
def test_what_an_expired_subscription_has_gathered_is_delivered_and_nothing_of_it_is_kept(
    restart: bool, folder: Path, clock: ManualClock
) -> None:
    direct = Direct(folder, clock)
    until = START + timedelta(seconds=30)
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "a", "until": until}, DIGEST)
    direct.publish([incoming({"age": 7})])
    clock.advance(seconds=200)
    if restart:
        direct.close()
        direct = Direct(folder, clock)
    for _ in range(2):
        direct.tenant._commit([])
        direct.tenant._trim()
        clock.advance(seconds=10)
    assert digests_of(direct) == [[7]]
    assert direct.tenant._routes == {}
    assert direct.tenant._connection.execute("SELECT count(*) FROM digests").get == 0
    direct.close()


@pytest.mark.parametrize("options", [DeliveryOptions(), DeliveryOptions(consumer="d"), DeliveryOptions(type="none")])
def test_what_a_digest_has_gathered_is_delivered_when_the_delivery_changes(
    options: DeliveryOptions, folder: Path, clock: ManualClock
) -> None:
    direct = Direct(folder, clock)
    tenant = direct.tenant
    direct.call(tenant.subscribe, {"expression": "age > 0", "id": "a"}, DIGEST)
    direct.publish([incoming({"age": 7})])
    direct.call(tenant.change, "a", {"priority": 2.0}, NOTHING)  # changes nothing of the delivery
    direct.call(tenant.replace, "a", {"expression": "age > 1"}, DIGEST, NOTHING)
    assert digests_of(direct) == []
    direct.call(tenant.change, "a", {"delivery": options}, NOTHING)
    assert digests_of(direct) == [[7]]
    direct.close()


def test_a_new_subscription_does_not_get_what_an_expired_one_of_its_id_has_gathered(
    folder: Path, clock: ManualClock
) -> None:
    direct = Direct(folder, clock)
    given = {"expression": "age > 0", "id": "a", "until": START + timedelta(seconds=30)}
    direct.call(direct.tenant.subscribe, given, DIGEST)
    direct.publish([incoming({"age": 7})])
    clock.advance(seconds=31)
    direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "a"}, DIGEST)
    direct.publish([incoming({"age": 8})])
    clock.advance(seconds=3601)
    direct.tenant._commit([])
    assert digests_of(direct) == [[7], [8]]
    direct.close()
