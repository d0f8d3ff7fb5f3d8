"""A process may fork at any moment of the planner's work and of other threads' calls: both processes go on."""

from __future__ import annotations

import pytest

from tests.planner.scripts import Ended, Machine

pytestmark = pytest.mark.xdist_group("machine")


def assert_well(done: Ended) -> None:
    quiet = [line for line in done.errors.splitlines() if "multi-threaded, use of fork()" not in line]  # Python 3.12
    assert (done.code, [line for line in quiet if "os.fork()" not in line]) == (0, [])


def test_a_child_forked_while_the_planner_compiles_uses_the_engine(machine: Machine) -> None:
    script = """
engine = engine_at_work()
await_work(engine)
for _ in range(5):
    ended(in_a_child(lambda: use(engine)))
    use(engine)
    time.sleep(0.1)
assert engine._index._background.running
print(time.time())
"""
    assert_well(machine.run(script))


FORKS_OF_A_TRIAL = """
from matchwood.planner.watch import Reason
from matchwood.planner import Plan
def slowly(task, **_):
    for _ in range(200):
        task.check()
        time.sleep(0.001)
    return Plan("scan", task.mode, task.total, ("its turn",))
engine = engine_at_work(4000)
engine._index._planning = slowly
for turn in range(1, 5):
    with engine._lock:
        engine._index._start(Reason("test", stale=True))
    time.sleep(0.02 * turn)
    children = [in_a_child(lambda: (use(engine), engine.replan(), use(engine))) for _ in range(3)]
    use(engine)
    for child in children:
        ended(child)
engine._index.wait()
engine._index.check()
use(engine)
"""


def test_a_child_forked_while_a_structure_is_built_plans_by_itself(machine: Machine) -> None:
    assert_well(machine.run(FORKS_OF_A_TRIAL, ahead=False))


def test_a_child_that_ends_as_a_script_does_waits_for_nobody(machine: Machine) -> None:
    script = """
engine = engine_at_work()
await_work(engine)
child = os.fork()
use(engine)
if child:
    ended(child)
print(time.time(), flush=True)
"""
    done = machine.run(script)
    assert_well(done)
    assert done.lasted < 30


def test_children_forked_while_other_threads_match_and_subscribe_use_the_engines(machine: Machine) -> None:
    script = """
engines = [engine_at_work(4000), engine_at_work(4000)]
stop = threading.Event()
def busy(number):
    while not stop.is_set():
        new = engines[number % 2].subscribe("y > 3")
        engines[1 - number % 2].match({"x": number})
        engines[number % 2].unsubscribe(new)
def nested():  # an engine asked while another one takes subscriptions
    while not stop.is_set():
        for a, b in (engines, engines[::-1]):
            new = a.subscribe_many("z > 3" for _ in range(2) if found(b, 7))
            a.unsubscribe_many(new)
threads = [threading.Thread(target=busy, args=(n,)) for n in range(4)] + [threading.Thread(target=nested)]
for thread in threads:
    thread.start()
for _ in range(30):
    ended(in_a_child(lambda: [use(engine) for engine in engines] and Engine().subscribe("x > 3")))
stop.set()
for thread in threads:
    thread.join()
for engine in engines:
    use(engine)
    engine._index.check()
"""
    assert_well(machine.run(script, ahead=False))


def test_a_pool_of_forked_processes_shares_an_engine_whose_planner_works(machine: Machine) -> None:
    script = """
import multiprocessing
engine = engine_at_work()
await_work(engine)
def job(x):
    return found(engine, x)
context = multiprocessing.get_context("fork")
for _ in range(2):
    with context.Pool(2) as pool:
        assert pool.map(job, range(10, 60)) == [[x - 2, x - 1, x] for x in range(10, 60)]
        pool.close()
        pool.join()
use(engine)
"""
    assert_well(machine.run(script))


def test_an_engine_forked_in_the_middle_of_a_call_says_so(machine: Machine) -> None:
    script = """
from matchwood.engine import forking
forking.PATIENCE = 0.3
engine, other = engine_at_work(4000), Engine()
inside, go_on = threading.Event(), threading.Event()
def change():
    with engine._lock.write():
        inside.set()
        go_on.wait()
thread = threading.Thread(target=change)
thread.start()
inside.wait()
def work():
    other.subscribe("x > 1")
    for call in (lambda: engine.match({"x": 1}), lambda: engine.subscribe("x > 1"), engine.plan, engine.replan):
        try:
            call()
        except MatchwoodError as error:
            assert "forked while another thread was inside a call" in str(error)
        else:
            raise AssertionError("used")
    ended(in_a_child(lambda: other.match({"x": 2})))
ended(in_a_child(work))
go_on.set()
thread.join()
use(engine)
"""
    assert_well(machine.run(script, ahead=False))


def test_an_engine_forked_while_a_thread_reads_expressions_goes_on_without_them(machine: Machine) -> None:
    script = """
engine = engine_at_work(4000)
inside, go_on = threading.Event(), threading.Event()
def expressions():
    yield "x = 100.5 AND new = 5"
    inside.set()
    go_on.wait()
thread = threading.Thread(target=lambda: engine.subscribe_many(expressions()))
thread.start()
inside.wait()
def work():
    use(engine)
    assert "new" not in engine.schema
ended(in_a_child(work))
go_on.set()
thread.join()
assert [m.id for m in engine.match({"x": 100.5, "new": 5})] == [4000, 99, 100]
"""
    assert_well(machine.run(script, ahead=False))


def test_a_fork_inside_a_call_of_its_own_thread_goes_on_in_both_processes(machine: Machine) -> None:
    script = """
engine = engine_at_work(4000)
def expressions():
    yield "x = 1.5"
    ended(in_a_child(lambda: use(engine)))
    yield "x = 2.5"
assert engine.subscribe_many(expressions()).tolist() == [4000, 4001]
use(engine)
"""
    assert_well(machine.run(script, ahead=False))


@pytest.mark.stress
@pytest.mark.parametrize("ahead", [False, True])
def test_forks_in_a_loop_until_the_planner_is_done(machine: Machine, ahead: bool) -> None:
    script = """
engine = engine_at_work()
await_work(engine)
while engine._index._background.running:
    ended(in_a_child(lambda: use(engine), 280))
    use(engine)
    time.sleep(0.05)
engine._index.check()
use(engine)
"""
    assert_well(machine.run(script, ahead=ahead, timeout=290))
