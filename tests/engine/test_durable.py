"""`Engine.open`: what was acknowledged is there again, whatever happens; and nothing else is."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from matchwood import Engine, ManualClock
from matchwood.engine.comparing import shape_of
from matchwood.engine.journal import Journal
from matchwood.engine.recovery import snapshots
from matchwood.engine.snapshotting import write_snapshot
from matchwood.engine.wal import commits_after_damage
from matchwood.errors import JournalError, QueryError, StorageError
from matchwood.store.scoring import NAMES
from tests.engine.durable_world import START, Trap, answers, kill, set_trap, steps, take, trapped
from tests.scorings import TYPES, a_scored_world, judged


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: what is tested is the order of writes and kills, not the disk."""
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


def opened(folder: Path, clock: ManualClock, **options: object) -> Engine:
    return Engine.open(folder, ids="str", clock=clock, index="scan", **options)


def model(seed: int, count: int) -> tuple[Engine, ManualClock]:
    """A plain engine after `count` steps."""
    clock = ManualClock(START)
    engine = Engine(ids="str", clock=clock, index="scan")
    for step in steps(seed, count):
        take(engine, clock, step)
    return engine, clock


@pytest.mark.parametrize("seed", range(8))
def test_an_engine_that_is_opened_again_is_the_same_engine(seed: int, tmp_path: Path) -> None:
    clock = ManualClock(START)
    engine = opened(tmp_path, clock)
    for number, step in enumerate(steps(seed, 80)):
        take(engine, clock, step)
        if number % 20 == 10:
            engine.close()
            if number % 40 == 10:
                write_snapshot(tmp_path)
            engine = opened(tmp_path, clock)
    expected, _ = model(seed, 80)
    assert answers(engine) == answers(expected)
    assert engine.verify().problems == ()
    engine.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_rebuild_from_the_tables_gives_the_same_engine(seed: int, tmp_path: Path) -> None:
    clock = ManualClock(START)
    with opened(tmp_path, clock) as engine:
        for step in steps(seed, 80):
            take(engine, clock, step)
        seen = answers(engine)
        with engine._group.alone() as journal:
            journal.trim(journal.last, 2**62)
    with opened(tmp_path, clock) as engine:
        assert engine.seq > 0
        assert answers(engine)[:3] == seen[:3]


def test_records_after_a_snapshot_are_applied_to_it_and_the_rest_is_removed(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with opened(tmp_path, clock) as engine:
        for step in steps(3, 40):
            take(engine, clock, step)
        seq = engine.snapshot()
        assert seq == engine.seq == snapshots(tmp_path)[0][0]
        for step in steps(4, 40):
            take(engine, clock, step)
        clock.advance(minutes=5)
        engine.compact()
        engine.subscribe("age > 1", id="last")
        seen = answers(engine)
        assert engine._group.journal.trimmed == engine.seq - 1
    with opened(tmp_path, clock) as engine:
        assert answers(engine) == seen


def test_records_are_applied_at_their_own_times(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with opened(tmp_path, clock) as engine:
        engine.subscribe("age > 1", id="prolonged", until="2026-01-01T00:00:10Z")
        write_snapshot(tmp_path)
        clock.advance(seconds=5)
        engine.set_until("prolonged", "2026-01-01T01:00:00Z")
        engine.publish({"age": 2}, until="2026-01-01T00:00:20Z")
        assert len(engine.subscribe("age > 0", id="late", until="2026-01-01T00:00:30Z").live) == 1
    clock.advance(minutes=1)
    with opened(tmp_path, clock) as engine:
        assert engine.ids().tolist() == ["prolonged"]
        assert engine.subscribe("age > 0", id="late").live == []


def test_snapshots_that_are_started_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine:
        engine.subscribe_many([f"price < {n}" for n in range(100)])
        with ThreadPoolExecutor(3) as pool:
            assert [job.result() for job in [pool.submit(engine.snapshot) for _ in range(3)]] == [engine.seq] * 3
        assert not engine.verify().problems


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("(a = 1 AND b = 2) OR (c = 3 AND d = 4)", "(d = 4 AND c = 3) OR (a = 1 AND b = 2)", True),
        ("(a = 1 AND b = 2) OR (c = 3 AND d = 4)", "(a = 1 AND c = 3) OR (b = 2 AND d = 4)", False),
        ("a IN ('x', 'y') ^2", "a IN ('y', 'x') ^2", True),
        ("a IN ('x', 'y') ^2", "a IN ('x', 'y') ^3", False),
        ("a IN ('x', 'y')", "a NOT IN ('x', 'y')", False),
        ("NOT (a > 1 AND b > 1)", "NOT (a > 1) AND b > 1", False),
        ("a = 1", "a = 2", False),
        ("TRUE", "FALSE", False),
    ],
)
def test_verify_tells_groupings_apart_and_not_orders(one: str, other: str, equal: bool) -> None:
    assert (shape_of(one) == shape_of(other)) is equal


def test_verify_says_that_a_grouping_on_disk_differs(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine:
        engine.subscribe("(a = 1 AND b = 2) OR (c = 3 AND d = 4)", id=7)
        other = "(a = 1 AND c = 3) OR (b = 2 AND d = 4)"
        connection = engine._group.journal.connection
        body = connection.execute("SELECT body FROM subscriptions").get
        changed = body.replace("(a = 1 AND b = 2) OR (c = 3 AND d = 4)", other)
        assert changed != body
        with connection:
            connection.execute("UPDATE subscriptions SET body = ?", (changed,))
            connection.execute("DELETE FROM journal")
            connection.execute("INSERT OR REPLACE INTO meta VALUES('trimmed', 1), ('trimmed_changes', 1), ('last', 1)")
        [problem] = engine.verify().problems
        assert problem.startswith("subscription 7 is ")


def test_a_damaged_snapshot_is_left_aside(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with opened(tmp_path, clock) as engine:
        for step in steps(5, 40):
            take(engine, clock, step)
        engine.snapshot()
        seen = answers(engine)
    victim = next(path for path in sorted(snapshots(tmp_path)[0][1].rglob("*.npy")) if path.stat().st_size > 200)
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    with opened(tmp_path, clock) as engine:
        assert answers(engine) == seen


def test_a_backup_is_an_engine_of_that_moment(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with opened(tmp_path / "a", clock) as engine:
        engine.subscribe("age > 1", id="one")
        engine.backup(tmp_path / "b")
        engine.subscribe("age > 2", id="two")
        with pytest.raises(StorageError, match="exists already"):
            engine.backup(tmp_path / "b")
    with opened(tmp_path / "b", clock) as engine:
        assert engine.ids().tolist() == ["one"]


def test_only_one_process_writes_and_others_follow(tmp_path: Path) -> None:
    script = (
        "import sys, time; from matchwood import Engine\n"
        f"engine = Engine.open({str(tmp_path)!r}, mode='follow', index='scan'); print('ready', flush=True)\n"
        "while len(engine) < 2: time.sleep(0.002)\n"
        "print(time.time(), engine.match({'age': 5}), flush=True)"
    )
    with Engine.open(tmp_path, index="scan") as engine:
        engine.subscribe("age > 1")
        with pytest.raises(StorageError, match="open for writing in another process"):
            Engine.open(tmp_path)
        follower = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert follower.stdout is not None
        assert follower.stdout.readline() == "ready\n"
        engine.subscribe("age > 2", priority=1)
        acknowledged = time.time()
        seen, _, found = follower.stdout.readline().partition(" ")
        assert found.strip() == "[Match(id=1, score=2.0), Match(id=0, score=1.0)]"
        assert float(seen) - acknowledged < 1.0  # 0.2 s is promised, on a quiet machine
        assert follower.wait() == 0
        follower.stdout.close()
    with Engine.open(tmp_path, mode="follow") as reader, pytest.raises(QueryError, match="cannot be changed"):
        reader.unsubscribe(0)


@pytest.mark.parametrize("scoring", NAMES)
def test_a_folder_keeps_its_scoring(scoring: str, tmp_path: Path) -> None:
    texts, priorities, events = a_scored_world(3, 20, 8)
    expected = judged(texts, priorities, events, scoring)

    def answers_of(engine: Engine) -> list[list[tuple[int, float]]]:
        assert engine.scoring == scoring
        return [[(hit.id, hit.score) for hit in engine.match(event)] for event in events]

    with Engine.open(tmp_path / "one", TYPES, index="scan", scoring=scoring) as engine:
        engine.subscribe_many(texts, priority=priorities)
        assert answers_of(engine) == expected
        engine.snapshot()
        engine.backup(tmp_path / "two")
        with Engine.open(tmp_path / "one", mode="follow", index="scan") as reader:
            assert answers_of(reader) == expected
    for folder in (tmp_path / "one", tmp_path / "two"):
        with Engine.open(folder, index="scan") as engine:
            assert answers_of(engine) == expected
            assert not engine.verify().problems
        for other in set(NAMES) - {scoring}:
            with pytest.raises(QueryError, match=f"the scoring of this folder is '{scoring}', got '{other}'; open it"):
                Engine.open(folder, index="scan", scoring=other)
        with Engine.open(folder, index="scan", scoring=scoring) as engine:
            assert answers_of(engine) == expected


def test_a_folder_without_subscriptions_takes_another_scoring_and_followers_too(tmp_path: Path) -> None:
    Engine.open(tmp_path, index="scan").close()
    with Engine.open(tmp_path, mode="follow", index="scan") as reader:
        assert reader.scoring == "sum"
        with Engine.open(tmp_path, index="scan", scoring="priority") as engine:
            engine.subscribe("a = 1 ^5", priority=2)
            assert engine.match({"a": 1})[0].score == 2.0
            reader.catch_up()
            assert (reader.scoring, reader.match({"a": 1})[0].score) == ("priority", 2.0)


def test_a_scoring_function_has_to_be_passed_again(tmp_path: Path) -> None:
    def larger(score: float, weight: float) -> float:
        return max(score, weight)

    with Engine.open(tmp_path, index="scan", scoring=larger) as engine:
        engine.subscribe("a = 1 ^5", priority=2)
        assert engine.scoring == "function"
    with pytest.raises(QueryError, match="the scoring is a function, which is not stored; pass scoring=FUNCTION"):
        Engine.open(tmp_path, index="scan")
    with pytest.raises(QueryError, match="the scoring is a function, which is not stored"):
        Engine.open(tmp_path, mode="follow", index="scan")
    with pytest.raises(QueryError, match="this folder is 'function', got 'sum'; pass the function"):
        Engine.open(tmp_path, index="scan", scoring="sum")
    with Engine.open(tmp_path, index="scan", scoring=larger) as engine:
        assert engine.match({"a": 1})[0].score == 5.0


def test_a_folder_that_has_noted_no_scoring_keeps_the_one_it_is_opened_with(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine:
        engine.subscribe("a = 1 ^5", priority=2)
        engine._group.journal.connection.execute("DELETE FROM meta WHERE key = 'scoring'")
    with Engine.open(tmp_path, index="scan", scoring="max") as engine:
        assert engine.match({"a": 1})[0].score == 5.0
    with Engine.open(tmp_path, index="scan") as engine:
        assert engine.scoring == "max"


def test_calls_of_several_threads_share_commits(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine:
        commits = 0

        def count(_: object = None) -> bool:
            nonlocal commits
            commits += 1
            return False

        engine._group.journal.connection.set_commit_hook(count)

        def subscribe(first: int) -> None:
            for number in range(20):
                engine.subscribe("age > 1", id=first + number)

        threads = [threading.Thread(target=subscribe, args=(100 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(engine) == engine.seq == 160
        assert commits < 160


def test_a_snapshot_does_not_hold_up_calls(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan", snapshot_every=1000) as engine:
        engine.subscribe_many([f"age > {n}" for n in range(2000)])  # starts one
        longest = 0.0
        while not snapshots(tmp_path):
            start = time.thread_time()
            engine.match({"age": 3})
            longest = max(longest, time.thread_time() - start)
            time.sleep(0.01)
        assert longest < 0.05


def test_a_table_and_rows_are_recorded_as_text(tmp_path: Path) -> None:
    from matchwood.encode.json_lines import read_json_subscriptions

    lines = tmp_path / "s.jsonl"
    lines.write_text(json.dumps({"id": 7, "expression": "age > 3 ^0.5 OR plan = 'a'", "priority": 2}))
    with Engine.open(tmp_path / "e", index="scan") as engine:
        engine.subscribe_table(lines)
        engine.subscribe_rows(read_json_subscriptions(['{"id": 8, "expression": "age < 3"}'], engine.schema).rows)
        seen = answers(engine)
    with Engine.open(tmp_path / "e", index="scan") as engine:
        assert answers(engine) == seen
        assert engine.verify().problems == ()


# what goes wrong


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_change_that_the_disk_refuses_is_not_acknowledged_and_none_after_it(operation: str, tmp_path: Path) -> None:
    def refuse() -> None:
        error = apsw.IOError("a broken disk")
        error.extendedresult = apsw.SQLITE_IOERR_FSYNC if operation == "sync" else apsw.SQLITE_IOERR_WRITE
        raise error

    clock = ManualClock(START)
    with opened(tmp_path, clock) as engine:
        engine.subscribe("age > 1", id="before")
    trap = Trap(operation, "-wal", {"write": 31, "sync": 3}[operation], refuse)
    with trapped(trap):
        engine = opened(tmp_path, clock)
        with pytest.raises(JournalError, match="refuses"):  # noqa: PT012
            for number in range(20):
                engine.subscribe("age > 2", id=f"n{number}")
        acknowledged = {f"n{n}" for n in range(number)}
        with pytest.raises(JournalError, match="refuses changes"):
            engine.subscribe("age > 3", id="after")
        assert trap.left <= 0
        engine.close()
    with opened(tmp_path, clock) as engine:
        found = set(engine.ids().tolist())
        assert {"before", *acknowledged} <= found <= {"before", *acknowledged, f"n{number}"}
        engine.subscribe("age > 3", id="after")


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting a small tmpfs needs privileges")
    try:
        count = 0
        engine = Engine.open(mount, index="scan")
        with pytest.raises(JournalError, match="disk is full"):  # noqa: PT012
            while True:
                engine.subscribe("age > 1", metadata="x" * 5000)
                count += 1
        with pytest.raises(JournalError):
            engine.subscribe("age > 1")
        engine.close()
        with Engine.open(mount, mode="follow") as reader:
            assert len(reader) == count > 10
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_is_refused_or_changes_nothing(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    clock = ManualClock(START)
    path = tmp_path / "journal.db"
    with opened(tmp_path, clock) as engine:
        for step in steps(seed, 20):
            take(engine, clock, step)
        seen = answers(engine)
        files = {name: (tmp_path / name).read_bytes() for name in ("journal.db", "journal.db-wal")}
    suffix = rng.choice(["", "-wal"])
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    data = bytearray(files[f"journal.db{suffix}"])
    wal = files["journal.db-wal"]
    end = len(data) if suffix == "" else len(wal) * 3 // 4  # the last transaction cannot be told from a torn one
    data[rng.randrange(end)] ^= 1 << rng.randrange(8)
    path.with_name(f"journal.db{suffix}").write_bytes(data)
    try:
        with opened(tmp_path, clock) as engine:
            found, problems = answers(engine), engine.verify().problems
    except StorageError:
        return
    assert found == seen or problems


def test_a_torn_tail_loses_only_the_torn_transaction(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with opened(tmp_path / "a", clock) as engine:
        sizes = []
        for number in range(6):
            engine.subscribe("age > 1", id=f"n{number}")
            sizes.append((tmp_path / "a" / "journal.db-wal").stat().st_size)
        files = {name: (tmp_path / "a" / name).read_bytes() for name in ("journal.db", "journal.db-wal")}
    for cut in range(sizes[3] + 1, sizes[4], 997):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "journal.db").write_bytes(files["journal.db"])
        (folder / "journal.db-wal").write_bytes(files["journal.db-wal"][:cut])
        with opened(folder, clock) as engine:
            assert engine.ids().tolist() == [f"n{n}" for n in range(4)]


def test_damage_in_the_middle_of_the_log_is_told_from_a_torn_tail(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine:
        for _ in range(5):
            engine.subscribe("age > 1")
        data = bytearray((tmp_path / "journal.db-wal").read_bytes())
    assert commits_after_damage(bytes(data)) == 0
    data[len(data) // 2] ^= 4
    assert commits_after_damage(bytes(data)) > 1


def test_a_newer_record_is_refused_by_its_version(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine:
        engine.subscribe("age > 1")
        write_snapshot(tmp_path)
        engine.subscribe("age > 2")
        engine._group.journal.connection.execute("UPDATE journal SET version = 99")
    with pytest.raises(StorageError, match="version 99"):
        Engine.open(tmp_path)


def test_a_snapshot_of_another_format_is_rebuilt_from_text(tmp_path: Path) -> None:
    with Engine.open(tmp_path, index="scan") as engine:
        engine.subscribe("age > 1")
        write_snapshot(tmp_path)
    manifest = snapshots(tmp_path)[0][1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": ', '"version": 9'))
    with Engine.open(tmp_path, index="scan") as engine:
        assert len(engine.match({"age": 2})) == 1


def test_another_database_is_refused(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "journal.db"))
    connection.execute("CREATE TABLE other(a)")
    connection.close()
    with pytest.raises(StorageError, match="not a journal of Matchwood"):
        Journal(tmp_path)


POINTS = [
    (operation, suffix, after)
    for operation, suffix in [("write", "-wal"), ("sync", "-wal"), ("write", ".db"), ("sync", ".db")]
    for after in (False, True)
] + [("rename", "", False), ("rename", "", True)]  # of a snapshot


def kill_at_rename(*, after: bool) -> None:
    """Kill this process when a folder is renamed, which makes it a snapshot: before that, or after."""
    rename = Path.rename

    def killing(path: Path, target: Path) -> Path:
        if after:
            rename(path, target)
        kill()
        return path

    Path.rename = killing  # type: ignore[assignment, method-assign]


def killed_run(folder: Path, seed: int, point: tuple[str, str, bool] | None, nth: int) -> tuple[int, bool]:
    """Run steps in a child that is killed at a point, or at a random time.

    Returns how many steps it acknowledged, and whether it was killed: some runs end before.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # the child never returns
        os.close(reading)
        try:
            if point is not None and point[0] == "rename":
                kill_at_rename(after=point[2])
            elif point is not None:
                trap = Trap(point[0], point[1], nth, kill, after=point[2])
                set_trap(trap)
            clock = ManualClock(START)
            engine = opened(folder, clock, snapshot_every=None)
            os.write(writing, b"o")
            engine._group.journal.connection.pragma("wal_autocheckpoint", 20)
            for number, step in enumerate(steps(seed, 60)):
                take(engine, clock, step)
                os.write(writing, b".")
                if number == 30 and (seed % 2 or (point and point[0] == "rename")):
                    write_snapshot(folder)
        except BaseException:
            os._exit(7)
        os._exit(0)
    os.close(writing)
    if point is None:
        time.sleep(random.Random(seed).random() * 0.15)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return said.count(b"."), status == signal.SIGKILL


def check_killed(folder: Path, seed: int, point: tuple[str, str, bool] | None, nth: int) -> bool:
    """Kill a run and look; return whether it was killed."""
    acknowledged, killed = killed_run(folder, seed, point, nth)
    possible = []
    for count in (acknowledged, min(acknowledged + 1, 60)):
        expected, clock = model(seed, count)
        possible.append((answers(expected), clock))
    if not (folder / "journal.db").exists():
        assert acknowledged == 0
        return killed
    found = []
    for _, clock in possible:
        with opened(folder, clock) as engine:
            found.append(answers(engine))
            assert engine.verify().problems == ()
    assert any(one == two for one, (two, _) in zip(found, possible, strict=True))
    return killed


def nth_of(seed: int, point: tuple[str, str, bool] | None) -> int:
    """Which time the kill comes: most runs come there so often."""
    often = {("write", "-wal"): 200, ("sync", "-wal"): 50, ("write", ".db"): 30, ("sync", ".db"): 6}
    return 1 + random.Random(seed).randrange(often.get(point[:2], 1) if point else 1)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(map(str, point)))
def test_a_run_is_killed_at_each_point(point: tuple[str, str, bool], tmp_path: Path) -> None:
    assert check_killed(tmp_path, 1, point, 1)


@pytest.mark.parametrize("number", range(16))
def test_a_kill_loses_nothing_acknowledged_and_invents_nothing(number: int, tmp_path: Path) -> None:
    point = POINTS[number % len(POINTS)] if number % 3 else None
    check_killed(tmp_path, number, point, nth_of(number, point))


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_a_thousand_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """KILLS says how many, KILLS_FROM with which seed to begin: so that a campaign can be made in portions."""
    number, left = int(os.environ.get("KILLS_FROM", "1000")), int(os.environ.get("KILLS", "1000"))
    kills: Counter[str] = Counter()
    while kills.total() < left:
        folder = tmp_path / str(number)
        folder.mkdir()
        point = POINTS[number % len(POINTS)] if number % 3 else None
        name = "at a random time" if point is None else f"{'after' if point[2] else 'before'} {point[0]} {point[1]}"
        kills[name] += check_killed(folder, number, point, nth_of(number, point))
        shutil.rmtree(folder)
        number += 1
    print(f"\nan engine was killed {kills.total()} times: {dict(sorted(kills.items()))}")


FOLLOWER = """
import sys, time
from matchwood import Engine
engine = Engine.open(sys.argv[1], mode="follow", index="scan")
print("ready", flush=True)
for line in sys.stdin:  # a number to wait for: the age that a subscription is the only one to match
    end = time.monotonic() + 30
    while not engine.match({"age": int(line)}) and time.monotonic() < end:
        assert engine.problem is None, engine.problem
        time.sleep(0.002)
    engine.catch_up()  # else the thread may be between its changes and `seq`
    print(engine.seq, len(engine), sorted(engine.ids().tolist()) == list(range(len(engine))), flush=True)
"""

WRITER = """
import sys
from pathlib import Path
from matchwood import Engine
from matchwood.engine.snapshotting import write_snapshot
engine = Engine.open(sys.argv[1], index="scan", snapshot_every=None)
number = len(engine)
while True:
    engine.subscribe(f"age = {number}", id=number)
    print(number, flush=True)
    number += 1
    if number % 25 == 0:
        with engine._group.alone() as journal:
            journal.checkpoint()
        write_snapshot(Path(sys.argv[1]))
"""


def numbers_of_a_killed_writer(folder: Path, seconds: float) -> list[int]:
    """What a writer acknowledged before it was killed."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(seconds)
        writer.kill()
        return [int(number) for number in writer.stdout.read().split()]


def test_a_follower_goes_on_while_the_writer_is_killed_and_started_again(tmp_path: Path) -> None:
    """It sees everything that was acknowledged, whole changes only, and never stops, also across checkpoints and snapshots."""
    rng = random.Random(6)
    Engine.open(tmp_path, index="scan").close()
    command, last = [sys.executable, "-c", FOLLOWER, str(tmp_path)], -1
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdin is not None
        assert follower.stdout is not None
        assert follower.stdout.readline() == "ready\n"
        for _ in range(4):
            acknowledged = numbers_of_a_killed_writer(tmp_path, rng.random() * 0.8)
            if acknowledged:
                last = acknowledged[-1]
                print(last, file=follower.stdin, flush=True)
                seq, count, whole = follower.stdout.readline().split()
                assert (int(count) > last, whole) == (True, "True")
                assert int(seq) == int(count)
        follower.stdin.close()
        assert follower.wait() == 0
    assert last > 25  # there was a checkpoint
    with Engine.open(tmp_path, index="scan") as engine:
        assert len(engine) > last
        assert engine.verify().problems == ()
