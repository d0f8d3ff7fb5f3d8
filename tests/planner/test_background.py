"""The planner's thread: never two, stopped between steps, waited for."""

from __future__ import annotations

import threading
import time

import numba
import pytest

from matchwood.planner import background as module
from matchwood.planner.background import Background, Stopped


def test_jobs_are_done_one_at_a_time() -> None:
    background, go_on, done = Background(), threading.Event(), []

    def job() -> None:
        go_on.wait()
        done.append(1)

    for _ in range(3):
        background.start(job)
        assert background.running
    go_on.set()
    background.wait()
    assert (done, background.running) == ([1], False)
    background.start(lambda: done.append(2))
    background.wait()
    assert done == [1, 2]


@pytest.mark.parametrize("started", [True, False])
def test_an_interrupted_start_leaves_one_worker_or_none(started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    background, go_on, done = Background(), threading.Event(), []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if started:
            start(thread)
        raise KeyboardInterrupt

    def job() -> None:
        go_on.wait()
        done.append(1)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.start(job)
    monkeypatch.undo()
    background.start(job)
    go_on.set()
    background.wait()
    time.sleep(0.05)
    assert done == [1]


def test_a_job_ends_between_its_steps_when_it_is_stopped() -> None:
    background, steps = Background(), 0

    def job() -> None:
        nonlocal steps
        while True:
            background.check()
            steps += 1
            background.stop()

    background.start(job)
    background.wait()
    assert steps == 1


def test_a_job_that_waits_for_a_lock_ends_when_it_is_stopped() -> None:
    background, lock, got = Background(), threading.RLock(), []

    def job() -> None:
        with background.holding(lock):
            got.append(1)

    with lock:
        background.start(job)
        background.stop()
        background.wait()
    assert got == []
    with background.holding(lock):  # a lock that is free is had
        assert lock._is_owned()  # type: ignore[attr-defined]


def test_a_job_that_compiles_ends_between_two_passes_of_the_compiler() -> None:
    background, compiled = Background(), []

    @numba.njit
    def doubled(x):  # type: ignore[no-untyped-def]
        return x * 2

    def job() -> None:
        background.stop()
        doubled(1)
        compiled.append(1)

    background.start(job)
    background.wait()
    assert compiled == []
    assert doubled(3) == 6  # in another thread, and after the compiler was interrupted


def test_nothing_is_begun_while_the_interpreter_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    background = Background()
    monkeypatch.setattr(module, "_interpreter_ends", lambda: True)
    with pytest.raises(RuntimeError, match="ending"):
        background.start(lambda: None)
    with pytest.raises(Stopped):
        background.check()


def test_a_paced_job_rests_as_long_as_it_works() -> None:
    background = Background()
    check = background.paced()
    begin = time.thread_time()
    while time.thread_time() - begin < 0.05:
        pass
    start = time.monotonic()
    check()
    assert 0.04 < time.monotonic() - start < 10
    background.stop()
    with pytest.raises(Stopped):
        check()
