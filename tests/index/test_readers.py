"""Threads that read one index at the same time, and batches that are answered in parts by several of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from matchwood.encode.arrays import Events, Matches, concatenate_events, make_events, make_rows
from matchwood.errors import QueryError
from matchwood.jit.decorators import kernel
from matchwood.store import collecting
from matchwood.structures import Capability, LiveEvents, MOTree, Scan
from matchwood.structures import parallel as parts
from matchwood.structures import threads as pool
from matchwood.structures.threads import available_threads, run_parts
from tests.systems import SYSTEMS, make_system
from tests.worlds import World, a_world, listed, ranked, seeded_dice

READERS = 4
FOREVER = np.inf

readable = pytest.mark.parametrize("name", sorted(SYSTEMS))


def fitted(name: str, seed: int, subscriptions: int, events: int) -> World:
    """A world, without lists and ranges if the structure takes none. Nobody may change it."""
    return _world(seed, subscriptions, events, Capability.RANGE_EVENTS in SYSTEMS[name].capabilities)


@cache
def _world(seed: int, subscriptions: int, events: int, ranges: bool) -> World:
    world = a_world(seeded_dice(seed), subscriptions, events)
    if not ranges:
        points = world.event_arrays()
        world.events = [e for i, e in enumerate(world.events) if not _has_range(points.take(i, i + 1))]
    return world


@cache
def said(world: World, mode: str = "all") -> list[list[tuple[int, float]]]:
    """What the oracle says: most of the time of these tests, so it is asked once a world."""
    return world.expected(mode=mode)


def _has_range(event: Events) -> bool:
    return bool((event.lo != event.hi).any() or (event.dims[1:] == event.dims[:-1]).any())


def run_together(*jobs: Callable[[], None]) -> None:
    """Run the jobs in threads that begin at the same moment; raise what one of them raised."""
    start, errors = threading.Barrier(len(jobs)), []

    def run(job: Callable[[], None]) -> None:
        start.wait()
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def same(a: Matches, b: Matches) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@readable
def test_readers_get_the_answers_that_one_alone_gets(name: str) -> None:
    world = fitted(name, 3, 150, 24)
    index = SYSTEMS[name].build(world.rows())
    events, expected = world.event_arrays(), said(world)

    def reader(number: int) -> Callable[[], None]:
        def read() -> None:
            for turn in range(40):
                first = (number + turn) % events.size
                last = events.size if turn % 3 == 0 else first + 1
                part = events.take(first, last)
                assert ranked(index.match(part)) == expected[first:last]
                if Capability.TOP_K in index.capabilities:
                    assert listed(index.top_k(part, 2)) == [hits[:2] for hits in expected[first:last]]

        return read

    run_together(*(reader(number) for number in range(READERS)))
    index.check()


@readable
def test_readers_count_what_all_of_them_did(name: str) -> None:
    world = fitted(name, 4, 100, 20)
    index, events, rounds = SYSTEMS[name].build(world.rows()), world.event_arrays(), 25
    index.match(events)
    alone = index.stats()
    index.reset_counters()
    assert index.stats().events == index.stats().candidates == 0

    def read() -> None:
        for _ in range(rounds):
            index.match(events)

    run_together(*[read] * READERS)
    together = index.stats()
    assert together.events == READERS * rounds * alone.events
    assert together.candidates == READERS * rounds * alone.candidates


@readable
def test_readers_see_what_was_added_since_they_last_read(name: str) -> None:
    if Capability.UPDATES not in SYSTEMS[name].capabilities:
        pytest.skip("the index says that it is static")
    world = fitted(name, 5, 240, 12)
    index, ids, events = make_system(name), sorted(world.subscriptions), world.event_arrays()
    turn, added, all_ = threading.Barrier(READERS + 1), 0, said(world)
    steps = [1, 5, 6, 40, 41, 160, len(ids)]

    def read() -> None:
        for step in steps:
            turn.wait()
            expected = [[hit for hit in hits if hit[0] in ids[:step]] for hits in all_]
            assert ranked(index.match(events)) == expected
            turn.wait()

    def write() -> None:
        nonlocal added
        for step in steps:
            index.insert(world.rows(ids[added:step]))
            added = step
            turn.wait()
            turn.wait()

    def checked(job: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                job()
            except BaseException:
                turn.abort()
                raise

        return run

    run_together(checked(write), *[checked(read)] * READERS)
    index.check()


def test_readers_of_live_events_get_the_answers_that_one_alone_gets() -> None:
    world = a_world(seeded_dice(6), 60, 120)
    live, events = LiveEvents(), world.event_arrays()
    live.insert(events, np.arange(events.size), np.full(events.size, FOREVER))
    rows = world.rows()
    alone, best = ranked(live.match(rows, 0.0)), listed(live.match(rows, 0.0, k=2))
    candidates = live.candidates

    def read() -> None:
        for _ in range(20):
            assert ranked(live.match(rows, 0.0)) == alone
            assert listed(live.match(rows, 0.0, k=2)) == best

    run_together(*[read] * READERS)
    assert live.candidates == (1 + READERS * 20) * candidates


def test_the_first_of_several_readers_repairs_a_damaged_index(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(seeded_dice(7), 80, 10)
    index, repairs = Scan.build(world.rows()), []
    rebuilt = Scan._rebuilt

    def counted(damaged: Scan) -> Scan:
        repairs.append(1)
        return rebuilt(damaged)

    monkeypatch.setattr(Scan, "_rebuilt", counted)
    index._whole = False
    assert not index.whole

    def read() -> None:
        assert ranked(index.match(world.event_arrays())) == world.expected()

    run_together(*[read] * READERS)
    assert len(repairs) == 1
    assert index.whole


@kernel
def count_until(flag, beats, most):
    """Count until another thread sets the flag; how far that was."""
    for i in range(most):
        beats[0] = i  # what may be the flag, for all the compiler knows: so that is read again
        if flag[0] != 0:
            return i
    return most


def test_other_threads_run_while_a_kernel_runs() -> None:
    flag, beats, most, counted = np.zeros(1, np.int64), np.zeros(1, np.int64), 1 << 33, []
    count_until(flag, beats, 1)
    thread = threading.Thread(target=lambda: counted.append(count_until(flag, beats, most)))
    thread.start()
    while beats[0] == 0 and not counted:
        time.sleep(0.001)
    flag[0] = 1
    thread.join()
    assert 0 < counted[0] < most


# batches in parts


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several blocks and parts in a small batch, and threads to answer them, however many cores there are."""
    for name, value in {"PROBE": 3, "WHOLE": 5, "PART_HITS": 40, "BLOCK_HITS": 300, "PART_SECONDS": 0.0}.items():
        monkeypatch.setattr(parts, name, value)
    monkeypatch.setattr(collecting, "FIRST_ROOM", 16)
    monkeypatch.setenv(pool.VARIABLE, str(READERS))
    pool._forget_pool()
    yield
    pool._forget_pool()


@readable
@pytest.mark.parametrize("threads", [1, READERS])
@pytest.mark.usefixtures("_small_parts")
def test_a_batch_in_parts_has_the_answers_in_its_order(name: str, threads: int) -> None:
    world = fitted(name, 8, 150, 90)
    index = SYSTEMS[name].build(world.rows())
    events = concatenate_events([world.event_arrays()] * 3)
    for mode in ["all", "any"] if Capability.ANY in index.capabilities else ["all"]:
        expected = 3 * said(world, mode)
        for _ in range(3):  # at first nothing is known about the workload
            assert ranked(index.match(events, mode=mode, threads=threads)) == expected
            assert listed(index.match(events, mode=mode, threads=threads, ordered=True)) == expected
            if Capability.TOP_K in index.capabilities:
                best = index.top_k(events, 3, mode=mode, threads=threads)
                assert listed(best) == [hits[:3] for hits in expected]


@pytest.mark.usefixtures("_small_parts")
def test_batches_of_several_callers_share_the_threads() -> None:
    world = a_world(seeded_dice(9), 150, 60)
    index, events, expected = Scan.build(world.rows()), world.event_arrays(), world.expected()

    def read() -> None:
        for _ in range(10):
            assert ranked(index.match(events, threads=READERS)) == expected

    run_together(*[read] * READERS)


def test_a_large_batch_of_large_answers_is_whole() -> None:
    n = 3000
    rows = make_rows(
        np.arange(n), np.arange(n), np.arange(n + 1), np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n), np.zeros(n)
    )
    keys = np.where(np.arange(700) % 3 == 1, 2.0, 0.5)
    found = Scan.build(rows).match(make_events(np.arange(701), np.zeros(700), keys, keys), threads=2)
    sizes = np.where(keys < 1.0, n, 0)
    assert np.array_equal(found.offsets, np.concatenate([[0], np.cumsum(sizes)]))
    assert np.array_equal(np.sort(found.ids.reshape(-1, n), axis=1), np.tile(np.arange(n), (sizes.sum() // n, 1)))
    assert np.array_equal(found.scores, found.ids)
    assert len(found.ids.base if found.ids.base is not None else found.ids) == sizes.sum()


def test_the_buffer_stays_small_when_answers_become_large() -> None:
    n, many = 2000, 3000
    ids = np.arange(n)
    rows = make_rows(ids, ids, np.arange(n + 1), np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n), np.zeros(n))
    for index in (Scan.build(rows), MOTree.build(rows)):
        for key, hits in ((2.0, 0), (0.5, n)):  # at first events have no hits
            keys = np.full(many, key)
            found = index.match(make_events(np.arange(many + 1), np.zeros(many), keys, keys))
            assert (np.diff(found.offsets) == hits).all()
            assert found.ids.sum() == many * n * (n - 1) // 2 * (hits > 0)
        scratch = index._scratches.take()
        assert len(scratch.results._out.ids) <= 4 * parts.PART_HITS


def test_an_empty_batch_has_an_empty_answer() -> None:
    index = Scan.build(a_world(seeded_dice(1), 10, 1).rows())
    found = index.match(make_events([0], [], [], []), threads=READERS)
    assert found.offsets.tolist() == [0]
    assert not len(found.ids)
    assert not len(found.scores)


# threads


def test_all_parts_are_done_once_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pool.VARIABLE, str(READERS))
    pool._forget_pool()
    done, by, together = [], set(), threading.Barrier(READERS)

    def do(number: int) -> None:
        if number < READERS:
            together.wait(timeout=30)  # they are indeed done at the same time
        by.add(threading.get_ident())
        done.append(number)

    run_parts(do, 50, READERS)
    assert sorted(done) == list(range(50))
    assert len(by) == READERS
    pool._forget_pool()


@pytest.mark.parametrize("error", [ValueError("part 5"), KeyboardInterrupt()])
def test_an_exception_in_a_part_ends_the_batch_and_is_raised(error: BaseException) -> None:
    done: list[int] = []

    def do(number: int) -> None:
        if number == 5:
            raise error
        done.append(number)

    with pytest.raises(type(error)):
        run_parts(do, 10_000, READERS)
    assert len(done) < 10_000
    before = list(done)
    run_parts(lambda number: None, 10, READERS)
    assert done == before, "a thread went on after the batch had ended"


def test_the_number_of_threads_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pool.VARIABLE, raising=False)
    assert 1 <= available_threads() <= (os.cpu_count() or 1)
    monkeypatch.setenv(pool.VARIABLE, "3")
    assert available_threads() == 3
    for wrong in ("0", "-1", "many", ""):
        monkeypatch.setenv(pool.VARIABLE, wrong)
        with pytest.raises(QueryError, match="whole number"):
            available_threads()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.usefixtures("_small_parts")
def test_a_forked_process_answers_with_threads_of_its_own() -> None:
    world = a_world(seeded_dice(10), 100, 60)
    index, events, expected = Scan.build(world.rows()), world.event_arrays(), world.expected()
    assert ranked(index.match(events, threads=READERS)) == expected

    def forked() -> Any:
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if ranked(index.match(events, threads=READERS)) == expected else 1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert forked() == 0
    assert same(index.match(events), index.match(events))
