"""Engines that follow a folder whose writer has removed records before they were read: they read the newest snapshot."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from matchwood import Engine, ManualClock
from matchwood.engine.snapshotting import write_snapshot
from matchwood.errors import StorageError
from tests.engine.durable_world import START, answers, steps, take


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


def compact(folder: Path, engine: Engine) -> None:
    """As `Engine.compact`, in this process: a new one takes a second to start."""
    write_snapshot(folder)
    with engine._group.alone() as journal:
        journal.trim(journal.last, 2**62)


@pytest.mark.parametrize("index", ["scan", "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_a_follower_that_was_held_up_while_the_writer_compacted_reads_the_snapshot(
    seed: int, index: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(START)
    with Engine.open(tmp_path, ids="str", clock=clock, index=index, snapshot_every=None) as engine:
        for step in steps(seed, 40):
            take(engine, clock, step)
        with Engine.open(tmp_path, mode="follow", index=index, clock=clock) as reader:
            for round_ in range(3):
                with reader._reading_disk:
                    for step in steps(seed + 10 * round_ + 1, 40):
                        take(engine, clock, step)
                    engine.subscribe("fresh > 1", id=f"round {round_}", metadata={"round": round_})
                    compact(tmp_path, engine)
                    engine.subscribe("fresh > 2", id=f"after {round_}", priority=2)
                clock.advance(seconds=5)  # what expires is gone a second later
                reader.catch_up()
                reader.catch_up()
                assert reader.problem is None
                assert reader.seq == engine.seq
                assert answers(reader)[0] == answers(engine)[0]
                assert reader.match({"fresh": 3}, metadata=True) == engine.match({"fresh": 3}, metadata=True)
                assert [reader.live(id_) for id_ in reader.ids()] == [engine.live(id_) for id_ in engine.ids()]
                reader._index.check()
    assert "is read again from its newest snapshot" in caplog.text


def test_what_cannot_be_read_anywhere_ends_the_following_and_is_said(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine, Engine.open(tmp_path, mode="follow", index="scan") as reader:
        with reader._reading_disk:
            engine.subscribe("age > 1")
            engine._group.journal.connection.execute("UPDATE journal SET version = 99")
            engine._group.journal.connection.execute("UPDATE meta SET value = '{' WHERE key = 'state'")
            engine._group.journal.connection.execute("UPDATE subscriptions SET body = '{'")
        reader._thread.join(10)
        assert reader.problem is not None
        with pytest.raises(StorageError):
            reader.catch_up()
        assert len(reader) == 0  # it goes on answering as of the last record that it has read


@pytest.mark.parametrize("index", ["scan", "auto"])
def test_readers_go_on_while_the_engine_is_read_again(index: str, tmp_path: Path) -> None:
    """Each answer is that of a moment: the first subscriptions, all of them; and later answers are of later moments."""
    wrong: list[str] = []
    rounds, last = 12, [0, 0, 0]
    stop = threading.Event()

    def read(number: int) -> None:
        event = {"plan": "b", "age": 5}
        while not stop.is_set():
            found = sorted(reader.match(event).ids.tolist())
            if found != list(range(len(found))) or len(found) < last[number]:
                wrong.append(f"{last[number]} subscriptions, and then {found}")
            last[number] = len(found)

    with Engine.open(tmp_path, index=index, snapshot_every=None) as engine:
        engine.subscribe("other = 'a'")  # gives `a` the first code, in the first schema alone
        engine.unsubscribe(0)
        engine.subscribe("plan = 'b'", id=0)
        with Engine.open(tmp_path, mode="follow", index=index) as reader:
            threads = [threading.Thread(target=read, args=(number,)) for number in range(len(last))]
            for thread in threads:
                thread.start()
            for round_ in range(rounds):
                with reader._reading_disk:
                    engine.subscribe_many([f"plan IN ('b', 'c{round_}') AND age < {6 + n}" for n in range(5)])
                    compact(tmp_path, engine)
                end = time.monotonic() + 20
                while reader.seq < engine.seq and time.monotonic() < end:
                    time.sleep(0.01)
            stop.set()
            for thread in threads:
                thread.join()
            assert reader.problem is None
            assert len(reader) == 1 + 5 * rounds
    assert wrong == []
    assert min(last) > 0


def test_an_event_that_was_read_under_the_old_schema_is_read_again(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan", snapshot_every=None) as engine:
        engine.subscribe("plan = 'b'", id=0)  # 'b' has the first code
        with Engine.open(tmp_path, mode="follow", index="scan") as reader:
            read_event = reader._reader.event

            def held_up(event: dict[str, str]) -> object:
                arrays = read_event(event)
                with reader._reading_disk:
                    engine.subscribe("plan = 'a'", id=1)
                    engine.unsubscribe(0)
                    engine.subscribe("plan = 'b'", id=2)  # in the snapshot 'a' has the first code
                    compact(tmp_path, engine)
                reader.catch_up()
                return arrays

            reader._reader.event = held_up  # type: ignore[assignment, method-assign]
            assert reader.match({"plan": "b"}).ids.tolist() == [2]
