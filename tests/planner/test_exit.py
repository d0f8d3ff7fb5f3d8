"""A process may end at any moment of the planner's work: quickly, quietly, and with the code that it was given."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.planner.scripts import Machine

SOON = 30.0
"""Seconds within which a process has ended; one kernel alone may take longer to compile."""
AT_WORK = "engine = engine_at_work(); await_work(engine); time.sleep({pause}); print(time.time(), flush=True)\n"
IN_A_THREAD, IN_A_PROCESS = False, True


def settles(condition: Callable[[], bool]) -> bool:
    """Does it come true soon?"""
    until = time.monotonic() + SOON
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("ahead", [IN_A_THREAD, IN_A_PROCESS])
@pytest.mark.parametrize(
    ("ending", "code", "complaint"),
    [("pass", 0, ""), ("sys.exit(3)", 3, ""), ("raise ValueError('end')", 1, "ValueError: end")],
)
def test_a_script_ends_as_it_says_while_the_planner_compiles(
    machine: Machine, ahead: bool, ending: str, code: int, complaint: str
) -> None:
    done = machine.run(AT_WORK.format(pause=0.3) + ending, ahead=ahead)
    assert (done.code, done.errors.strip().splitlines()[-1:]) == (code, [complaint] if complaint else [])
    assert done.lasted < SOON
    assert machine.compilers() == []


@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("ahead", [IN_A_THREAD, IN_A_PROCESS])
def test_ctrl_c_ends_a_script_and_a_second_one_its_wait_for_the_planner(machine: Machine, ahead: bool) -> None:
    # A shell that runs the tests in the background lets its children ignore the signal.
    script = f"signal.signal(signal.SIGINT, signal.default_int_handler)\n{AT_WORK.format(pause=0.3)}time.sleep(60)"
    with machine.start(script, ahead=ahead) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(SOON) in (1, -signal.SIGINT)  # not SIGABRT, not SIGSEGV
    assert machine.compilers() == []


@pytest.mark.xdist_group("machine")
def test_the_end_waits_for_the_step_at_hand_and_for_no_other(machine: Machine) -> None:
    steps = """
engine = engine_at_work(4000)
def planning(task, **_):
    begun.set()
    time.sleep(0.5)
    print("the first step is done", time.time(), flush=True)
    task.check()
    time.sleep(60)
engine._index._planning, begun = planning, threading.Event()
threading.Thread(target=engine.replan, daemon=True).start()
begun.wait()
"""
    done = machine.run(steps, ahead=False)
    assert (done.code, done.errors) == (0, "")
    assert "the first step is done" in done.out
    assert done.lasted < SOON


@pytest.mark.xdist_group("machine")
def test_an_engine_is_used_while_the_interpreter_ends(machine: Machine) -> None:
    last = "import atexit; atexit.register(lambda: [found(engine, 7) for _ in range(300)]); print(time.time())"
    done = machine.run(
        "engine = engine_at_work(4000)\n" + last + "\nengine.subscribe_many(['y > 1'] * 200)", ahead=False
    )
    assert (done.code, done.errors) == (0, "")
    assert done.lasted < SOON


@pytest.mark.xdist_group("machine")
def test_a_call_of_a_daemon_that_never_returns_does_not_keep_the_process(machine: Machine) -> None:
    stuck = (
        "def never():\n    yield 'x > 1'\n    threading.Event().wait()\n"
        "threading.Thread(target=lambda: engine.subscribe_many(never()), daemon=True).start()\n"
        "time.sleep(0.2); print(time.time(), flush=True)"
    )
    done = machine.run(AT_WORK.format(pause=0) + stuck)
    assert (done.code, done.errors) == (0, "")
    assert done.lasted < SOON


@pytest.mark.xdist_group("machine")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by /proc")
def test_the_process_that_compiles_ends_when_the_one_it_compiles_for_is_killed(machine: Machine) -> None:
    with machine.start(AT_WORK.format(pause=0) + "time.sleep(60)") as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert settles(lambda: len(machine.compilers()) == 1)
        os.kill(process.pid, signal.SIGKILL)
    assert settles(lambda: machine.compilers() == [])


@pytest.mark.stress
@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("ahead", [IN_A_THREAD, IN_A_PROCESS])
@pytest.mark.parametrize("pause", [0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
def test_a_script_ends_at_any_moment(machine: Machine, ahead: bool, pause: float) -> None:
    for _ in range(3):
        done = machine.run(AT_WORK.format(pause=pause), ahead=ahead)
        assert (done.code, done.errors) == (0, "")
        assert done.lasted < SOON
        assert machine.compilers() == []
