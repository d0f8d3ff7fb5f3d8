"""The read-write lock of engines: who excludes whom, that nobody starves, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from matchwood.engine.locking import ReadWriteLock
from matchwood.errors import MatchwoodError

SOON = 0.05
LONG = 10.0


def in_thread(job: Callable[[], Any]) -> Callable[[], Any]:
    """Start the job in a thread; the result waits for it and gives what it returned."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(job()), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(LONG)
        assert found, "the thread has failed, or still waits"
        return found[0]

    return result


def can_write(lock: ReadWriteLock) -> bool:
    def take() -> bool:
        taken = lock.acquire(timeout=SOON)
        if taken:
            lock.release()
        return taken

    return bool(in_thread(take)())


def can_read(lock: ReadWriteLock) -> bool:
    def take() -> bool:
        taken = lock.acquire_read(timeout=SOON)
        if taken:
            lock.release_read()
        return taken

    return bool(in_thread(take)())


def assert_free(lock: ReadWriteLock) -> None:
    assert can_read(lock)
    assert can_write(lock)
    assert not lock._gate_closed
    assert not lock._line
    assert lock._passing == 0


@contextmanager
def held_elsewhere(hold: Callable[[], Any]) -> Iterator[None]:
    """Another thread holds the lock."""
    inside, leave = threading.Event(), threading.Event()

    def job() -> bool:
        with hold():
            inside.set()
            return leave.wait(LONG)

    done = in_thread(job)
    assert inside.wait(LONG)
    try:
        yield
    finally:
        leave.set()
        done()


def test_readers_share_it_and_writers_do_not() -> None:
    lock = ReadWriteLock()
    with held_elsewhere(lock.read):
        assert can_read(lock)
        assert not can_write(lock)
        with lock.read():
            assert can_read(lock)
    with held_elsewhere(lock.write):
        assert not can_read(lock)
        assert not can_write(lock)
    assert_free(lock)


def test_a_thread_that_holds_it_may_hold_it_again() -> None:
    lock = ReadWriteLock()
    with lock.write():
        with lock.write(), lock.read(), lock.read():
            assert lock._is_owned()
        assert not can_read(lock)
    with lock.read(), lock.read():
        assert not can_write(lock)
    assert_free(lock)


def test_a_reader_may_read_again_although_a_writer_waits() -> None:
    lock = ReadWriteLock()
    with lock.read():
        writing = in_thread(lambda: lock.acquire() and (lock.release() or "written"))
        while not lock._gate_closed:
            time.sleep(0.001)
        with lock.read():
            assert lock.acquire_read(blocking=False)
            lock.release_read()
    assert writing() == "written"
    assert_free(lock)


def test_a_reader_cannot_begin_to_write() -> None:
    lock = ReadWriteLock()
    with lock.read(), pytest.raises(MatchwoodError, match="within a call that reads"):
        lock.acquire()
    assert_free(lock)


def test_only_the_writer_releases_it() -> None:
    lock = ReadWriteLock()
    with pytest.raises(RuntimeError, match="not acquired"):
        lock.release()
    with held_elsewhere(lock.write), pytest.raises(RuntimeError, match="not acquired"):
        lock.release()
    assert_free(lock)


@pytest.mark.parametrize("held", ["read", "write"])
def test_waiting_ends_after_the_given_time(held: str) -> None:
    lock = ReadWriteLock()
    with held_elsewhere(getattr(lock, held)):
        began = time.monotonic()
        assert not lock.acquire(timeout=SOON)
        assert time.monotonic() - began >= SOON
        assert not lock.acquire(blocking=False)
        if held == "write":
            assert not lock.acquire_read(timeout=SOON)
            assert not lock.acquire_read(blocking=False)
        else:
            assert can_read(lock), "a writer that has given up still keeps readers out"
    assert_free(lock)


def test_those_who_wait_go_in_the_order_in_which_they_came() -> None:
    lock, order = ReadWriteLock(), []
    waiting = []

    def job(name: str, hold: Callable[[], Any]) -> bool:
        with hold():
            order.append(name)
            if name.startswith("r"):
                time.sleep(SOON)  # so that readers that go together are inside together
        return True

    with lock.write():
        for name, hold in [
            ("w1", lock.write),
            ("r1", lock.read),
            ("r2", lock.read),
            ("w2", lock.write),
            ("r3", lock.read),
        ]:
            waiting.append(in_thread(lambda name=name, hold=hold: job(name, hold)))
            while len(lock._line) < len(waiting):
                time.sleep(0.001)
    assert all(done() for done in waiting)
    assert order[0] == "w1"
    assert set(order[1:3]) == {"r1", "r2"}
    assert order[3:] == ["w2", "r3"]
    assert_free(lock)


@pytest.mark.parametrize(("readers", "writers"), [(3, 1), (1, 3), (2, 2)])
def test_nobody_starves_and_writers_are_alone(readers: int, writers: int) -> None:
    lock, stop = ReadWriteLock(), time.monotonic() + 1.0
    turns = [0] * (readers + writers)
    inside = {"readers": 0, "writers": 0}
    guard, wrong = threading.Lock(), []

    def work(number: int) -> bool:
        kind, hold = ("readers", lock.read) if number < readers else ("writers", lock.write)
        while time.monotonic() < stop:
            with hold():
                with guard:
                    inside[kind] += 1
                    if inside["writers"] > 1 or (inside["writers"] and inside["readers"]):
                        wrong.append(dict(inside))
                time.sleep(0.0005)  # others are to try
                with guard:
                    inside[kind] -= 1
                turns[number] += 1
        return True

    assert all(done() for done in [in_thread(lambda n=n: work(n)) for n in range(readers + writers)])
    assert not wrong
    assert min(turns) >= max(turns) / 20, f"turns by thread: {turns}"
    assert_free(lock)


def test_a_counter_changed_by_writers_is_seen_whole_by_readers() -> None:
    lock, pair, wrong = ReadWriteLock(), [0, 0], []
    stop = time.monotonic() + 0.5

    def write() -> bool:
        while time.monotonic() < stop:
            with lock.write():
                pair[0] += 1
                time.sleep(0)
                pair[1] += 1
        return True

    def read() -> bool:
        while time.monotonic() < stop:
            with lock.read():
                if pair[0] != pair[1]:
                    wrong.append(tuple(pair))
        return True

    assert all(done() for done in [in_thread(job) for job in (write, write, read, read, read)])
    assert not wrong
    assert pair[0] > 0
    assert_free(lock)


def test_threads_that_have_ended_leave_nothing_behind() -> None:
    lock = ReadWriteLock()
    for _ in range(20):
        assert can_read(lock)
    assert len(lock._own_locks) <= 1
    assert_free(lock)


class SignalError(Exception):
    """Raised by a signal, as Ctrl-C does."""


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise SignalError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("held", ["read", "write"])
@pytest.mark.parametrize("wanted", ["read", "write"])
def test_an_interrupted_wait_leaves_the_lock_as_it_was(held: str, wanted: str) -> None:
    lock = ReadWriteLock()
    if (held, wanted) == ("read", "read"):
        pytest.skip("readers do not wait for readers")
    with held_elsewhere(getattr(lock, held)):
        with pytest.raises(SignalError), interrupted_after(SOON), getattr(lock, wanted)():
            raise AssertionError("it was acquired")
        if held == "read":
            assert can_read(lock)
        assert not can_write(lock)
    assert_free(lock)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize(("other", "usable"), [("read", True), ("write", False), (None, True)])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_forgets_readers_and_notices_writers(other: str | None, usable: bool) -> None:
    lock = ReadWriteLock()

    def outcome() -> int:
        pid = os.fork()
        if pid == 0:
            try:
                whole = lock.reset_after_fork()
                free = whole and lock.acquire(timeout=1)
                os._exit(0 if whole and free else 1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    if other is None:
        with lock.write(), lock.read():
            assert outcome() == 0
    else:
        with held_elsewhere(getattr(lock, other)):
            assert outcome() == (0 if usable else 1)
    assert_free(lock)
