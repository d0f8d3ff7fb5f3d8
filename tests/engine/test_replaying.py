"""Records that are applied together give the engine that they give one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from matchwood import Engine, ManualClock
from matchwood.engine import replaying
from matchwood.engine.journal import Changes, Chunk, Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.records import Happened, Kept, Retracted, Subscribed, Unsubscribed, Updated
from matchwood.engine.replaying import Replaying
from matchwood.errors import StorageError
from tests.engine.durable_world import START, answers, steps, take

ORIGIN = int(START.timestamp() * 1e6)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


def empty() -> Engine:
    return Engine(ids="str", index="scan", clock=RecordClock(lambda: datetime(1970, 1, 1, tzinfo=UTC)))


def applied(chunks: list[Chunk]) -> Engine:
    engine = empty()
    replaying_ = Replaying(engine)
    for chunk in chunks:
        replaying_.take(chunk)
    replaying_.finish()
    return engine


@pytest.mark.parametrize("seed", range(12))
def test_runs_of_records_are_applied_as_if_one_after_the_other(seed: int, tmp_path: Path) -> None:
    clock = ManualClock(START)
    with Engine.open(tmp_path, ids="str", clock=clock, index="scan", snapshot_every=None) as engine:
        for step in steps(seed, 150):
            take(engine, clock, step)
        seen = answers(engine)
        chunks = list(engine._group.journal.chunks(0))
    one_by_one = empty()
    for chunk in chunks:
        for number, record in enumerate(chunk.records, chunk.first):
            alone = Replaying(one_by_one)
            alone.take(Chunk(number, number, chunk.time, [record]))
            alone.finish()
    together = applied(chunks)
    assert answers(together) == answers(one_by_one)
    clock_of_last = together._clock
    assert clock_of_last() <= clock()
    together._clock = one_by_one._clock = clock  # what has expired since the last record
    assert answers(together) == answers(one_by_one) == seen


def chunks_of(*records: Any, seconds: float = 0.0) -> list[Chunk]:
    """A chunk for each record, `seconds` apart."""
    return [Chunk(n, n, ORIGIN + int(n * seconds * 1e6), [record]) for n, record in enumerate(records, 1)]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The calls that are made: the kind and number of their records."""
    made: list[tuple[str, int]] = []

    def counting(kind: Any, apply: Any) -> Any:
        def run(engine: Engine, records: list[Any]) -> None:
            made.append((kind.__name__, len(records)))
            apply(engine, records)

        return run

    calls = {kind: counting(kind, apply) for kind, apply in replaying._APPLY.items()}
    monkeypatch.setattr(replaying, "_APPLY", calls)
    return made


def test_records_of_one_kind_are_applied_by_one_call_across_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    added = [Subscribed(id=f"s{n}", expression=f"age > {n}") for n in range(4)]
    passing = Happened(data=b"{}")  # type: ignore[arg-type]
    changed = [Updated(id=f"s{n}", priority=2.0) for n in (0, 1, 0)]
    gone = [Unsubscribed(id=f"s{n}") for n in range(3)]
    engine = applied(chunks_of(*added[:2], passing, *added[2:], *changed, *gone, seconds=1.0))
    assert made == [("Subscribed", 4), ("Updated", 2), ("Updated", 1), ("Unsubscribed", 3)]
    assert engine.ids().tolist() == ["s3"]


def test_what_expires_between_two_records_has_gone_before_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    end = ORIGIN + 2_500_000
    engine = applied(
        chunks_of(
            Subscribed(id="a", expression="age > 1", until=end),
            Subscribed(id="b", expression="age > 2"),
            Subscribed(id="a", expression="age > 3"),  # at 3 s: of the id that has expired
            seconds=1.0,
        )
    )
    assert made == [("Subscribed", 2), ("Subscribed", 1)]
    assert engine.subscription("a").expression == "age > 3"


def test_a_subscription_that_has_expired_when_it_comes_leaves_its_id_free_in_the_same_transaction() -> None:
    past = ORIGIN - 1
    records = [Subscribed(id="a", expression=f"age > {n}", until=None if n == 2 else past) for n in range(3)]
    engine = applied([Chunk(1, 3, ORIGIN, list(records))])
    assert engine.subscription("a").expression == "age > 2"


def test_live_events_of_one_number_are_applied_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    end = ORIGIN + 10**9
    kept = [Kept(number=n, until=end, values={"age": age}) for n, age in ((1, 1), (2, 2), (1, 3))]
    engine = applied(chunks_of(*kept, Retracted(number=2), Subscribed(id="a", expression="age > 0")))
    assert made == [("Kept", 2), ("Kept", 1), ("Retracted", 1), ("Subscribed", 1)]
    assert [hit.event for hit in engine.live("a")] == [1]


def test_a_record_that_cannot_be_applied_is_named() -> None:
    with pytest.raises(StorageError, match=r"record 1 or one after it cannot be applied: .*'b'.* is not there"):
        applied(chunks_of(Unsubscribed(id="b"), Subscribed(id="a", expression="TRUE")))


def test_a_journal_says_which_chunks_change_the_engine(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    added, passing = Subscribed(id="a", expression="TRUE"), Happened(data=b"{}")  # type: ignore[arg-type]
    for records in ([added], [passing], [passing, added]):
        journal.write(records, ORIGIN)
    found = [row[0] for row in journal.connection.execute("SELECT changes FROM journal ORDER BY seq")]
    assert found == [Changes.ALL, Changes.NONE, Changes.SOME]
    assert [len(chunk.records) for chunk in journal.chunks(0, changes_only=True)] == [1, 0, 2]
    journal.close()
