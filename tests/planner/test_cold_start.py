"""A new machine: engines answer at once with what is compiled, and get their structures while they serve."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config

from matchwood import Engine
from matchwood.engine import live
from matchwood.jit import prebuilt
from matchwood.planner import RULES, Planned, compiling, planned, planned_events, preparing
from matchwood.planner.background import Stopped
from matchwood.planner.exercise import COVER_UPDATES, COVERS, LIVE
from matchwood.planner.preparing import SCAN, Preparing
from matchwood.structures import LiveEvents
from matchwood.structures.live.plain import PlainEvents
from matchwood.workloads import City
from tests.worlds import TYPES, a_world, ranked, seeded_dice

COLD = """
import json, sys, threading
from dataclasses import replace
from numba.core import event
compiled = []
class Log(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        compiled.append([threading.current_thread().name, function.__module__])
    def on_end(self, event):
        pass
event.register("numba:compile", Log())
from matchwood import Engine
from matchwood.planner import RULES
engine = Engine()
few = tuple(c for c in RULES.contenders if c.index in ("scan", "vcr"))
engine._index._rules = replace(RULES, contenders=few)  # the others take half a minute more
events = [{"x": i, "city": f"c{i % 7}"} for i in range(0, 3000, 10)]
def answers():
    found = [engine.match(event) for event in events]
    best = [engine.top_k(event, 3) for event in events]
    assert best == [hits[:3] for hits in found]
    return [[(hit.id, hit.score) for hit in hits] for hits in found]
engine.subscribe_many(f"x BETWEEN {i % 3000} AND {i % 3000 + 2} AND city = 'c{i % 7}' ^0.5" for i in range(10_000))
cold, first = answers(), engine.index
changed = engine.subscribe("x = 30")
engine.update(changed, "x = 40 ^3")
engine.publish(events[4], until="9999-01-01")
other = engine.subscribe("x BETWEEN 35 AND 45")
live = other.live
engine.unsubscribe_many([changed, other])
in_calls = [module for thread, module in compiled if thread == "MainThread"]
assert engine._index.wait(200)
warm = answers()
print(json.dumps([first, engine.index, cold == warm, sorted(set(in_calls)), [hit.event for hit in live], compiled]))
"""


def run(script: str, **environment: str) -> Any:
    """What a script in a process of its own prints last, as JSON."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "MATCHWOOD_"))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.xdist_group("machine")
def test_a_load_on_an_empty_cache_compiles_only_the_scan_and_is_exchanged_later(tmp_path: Path) -> None:
    first, last, is_same, in_calls, live, compiled = run(COLD, NUMBA_CACHE_DIR=str(tmp_path))
    assert (first, last, is_same, live) == ("scan", "vcr", True, [0])
    parts = {".".join(module.split(".")[1:3]) for module in in_calls if module.startswith("matchwood.structures")}
    assert parts <= {"structures.scan"}  # none if the child process was faster
    assert {module.split(".")[1] for module in in_calls if module.startswith("matchwood")} <= {
        "structures",
        "store",
        "geo",
        "decay",
    }
    assert not [entry for entry in compiled if "vcr" in entry[1]], "compiled by this process"


PREBUILT = """
import json
from numba.core import compiler
def refuse(*arguments, **options):
    raise AssertionError(f"compiled {arguments[2]}")
compiler.compile_extra = refuse
from matchwood import Engine
engine = Engine()
ids = engine.subscribe_many(["age >= 18 ^2", "age >= 65 AND plan = 'pro'"])
found = [[hit.id for hit in engine.match({"age": 70, "plan": "pro"})], engine.top_k({"age": 70}, 1)[0].id]
engine.update(ids[0], "age < 18")
engine.unsubscribe(ids[1])
print(json.dumps([*found, len(engine.match({"age": 70})), engine.ready(0)]))
"""


@pytest.mark.skipif(not prebuilt.has_level(), reason=f"this processor is not {prebuilt.LEVEL}")
def test_with_kernels_that_came_compiled_an_engine_answers_where_compiling_fails(tmp_path: Path) -> None:
    built, empty = tmp_path / "built", tmp_path / "empty"
    level = {"NUMBA_CPU_NAME": prebuilt.LEVEL, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(built)}
    subprocess.run([sys.executable, "-m", "matchwood.planner.warm", "scan"], env={**os.environ, **level}, check=True)
    ready = {"NUMBA_CACHE_DIR": str(empty), prebuilt.VARIABLE: str(built / "matchwood")}
    assert run(PREBUILT, **ready) == [[0, 1], 0, 0, True]
    assert not list(empty.rglob("*.kernel"))
    with pytest.raises(AssertionError, match="compiled <function"):
        run(PREBUILT, **ready, MATCHWOOD_COMPILE_AHEAD="0", NUMBA_CPU_NAME="generic")


# loads


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The structures that count as compiled when rows are loaded."""
    names: set[str] = set()
    monkeypatch.setattr(planned, "is_compiled", lambda name, *, scoring: name in names)
    return names


CITY = City.preset("quick", size=6_000)


def loaded(compiled: set[str], *names: str) -> Planned:
    """An index of the city; `names` are compiled when it is loaded, and `scan` and `vcr` compete."""
    compiled |= set(names)
    few = tuple(replace(c, predicates=(0.0, np.inf)) for c in RULES.contenders if c.index in (SCAN, "vcr"))
    index = Planned(threading.RLock(), rules=replace(RULES, contenders=few))
    with index._lock:
        index.insert(CITY.subscriptions())
    return index


def test_a_load_waits_for_no_structure_that_is_not_compiled(compiled: set[str]) -> None:
    index = loaded(compiled, SCAN)
    with index._lock:
        assert (index.name, len(index.store)) == (SCAN, 6_000)
        before = ranked(index.match(CITY.events(20)))
    assert index.wait(250)
    assert "the rows went from 0 to 6,000" in str(index.plan()[0])
    assert "vcr" in str(index.plan()[0])
    with index._lock:
        assert ranked(index.match(CITY.events(20))) == before
        index.check()


def test_a_load_is_planned_at_once_if_everything_is_compiled(compiled: set[str]) -> None:
    index = loaded(compiled, SCAN, "vcr")
    assert "6,000 rows were inserted at once" in str(index.plan()[0])
    assert not index._background.running


def test_a_load_is_planned_among_the_structures_that_are_compiled_and_again_among_all(compiled: set[str]) -> None:
    compiled |= {SCAN, "vcr"}
    timed: list[list[str]] = []

    def planning(task: Any, **_: Any) -> Any:
        timed.append(list(task.prepare([SCAN, "vcr", "be-star-tree"])))
        return planned.Plan(timed[-1][-1], task.mode, task.total, ("the last",))

    index = Planned(threading.RLock(), planning=planning)
    with index._lock:
        index.insert(CITY.subscriptions())
        assert (index.name, timed) == ("vcr", [[SCAN, "vcr"]])
    assert index.wait(250)
    assert (index.name, timed[1:]) == ("be-star-tree", [[SCAN, "vcr", "be-star-tree"]])
    assert "not every structure was compiled" in str(index.plan()[0])
    index.check()


def test_a_plan_without_a_structure_that_was_not_compiled_is_made_again(
    compiled: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is available once it was compiled: `vcr` after the first plan."""
    made: list[str] = []
    monkeypatch.setattr(planned, "is_available", lambda name, *, scoring: name in {SCAN, *made})
    monkeypatch.setattr(planned, "compile_ahead", lambda names, check, *, scoring: made.extend(names))
    few = tuple(c for c in RULES.contenders if c.index in (SCAN, "vcr", "mo-tree"))
    timed: list[list[str]] = []
    index = loaded(compiled, SCAN)
    index.wait()
    index._rules = replace(RULES, contenders=few)

    def noting(task: Any, **options: Any) -> Any:
        names = list(task.prepare([c.index for c in few]))
        timed.append(names)
        return planned.Plan(names[-1], task.mode, task.total, ("the last",))

    made.clear()
    index._planning = noting
    index.replan()
    assert timed == [[SCAN, "mo-tree"], [SCAN, "mo-tree", "vcr"]]
    assert index.name == "vcr"
    assert "one more structure has been compiled" in str(index.plan()[0])


def test_a_loaded_engine_whose_structure_is_not_compiled_answers_by_a_scan_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(CITY.schema())
    index = engine._index
    assert isinstance(index, Planned)
    index._planning = lambda task, **_: planned.Plan("vcr", task.mode, task.total, ("always",))
    engine.subscribe_rows(CITY.subscriptions())
    engine.unsubscribe(3)
    engine.save(tmp_path / "saved")
    monkeypatch.setattr(planned, "is_available", lambda name, **_: name == SCAN)
    monkeypatch.setattr(planned, "prepare_first_calls", lambda: None)
    again = Engine.load(tmp_path / "saved")
    assert (engine.index, again.index) == ("vcr", SCAN)
    assert planned.NOT_COMPILED in again.plan()
    monkeypatch.undo()
    events = CITY.events(30)
    for _ in range(2):  # the first match starts the planner
        assert ranked(again.match_many(events)) == ranked(engine.match_many(events))
        assert again.ready(timeout=250)
    assert "the rows went from 0 to 5,999" in again.plan()
    assert 3 not in again


# preparing


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that were compiled and those that were exercised, in order, without doing either."""
    done: list[str] = []
    monkeypatch.setattr(preparing, "compile_ahead", lambda names, check: done.extend(f"compile {n}" for n in names))
    monkeypatch.setattr(preparing, "exercise", lambda name, *, rows: done.append(f"load {name}"))
    return done


def test_parts_are_prepared_once_and_in_order(prepared: list[str]) -> None:
    new = Preparing()
    new.want(SCAN, LIVE, COVERS)
    new.want(LIVE)
    assert new.wait(20)
    new.want(SCAN)
    assert new.wait(20)
    assert prepared == ["compile scan", "load scan", "compile live-events", "load live-events", "compile covers"]
    assert new.loaded == {SCAN, LIVE, COVERS}


def test_planners_come_before_all_parts_but_the_scan(prepared: list[str]) -> None:
    new = Preparing()
    with new.planning():
        new.want(SCAN, LIVE)
        assert not new.wait(0.3)
        assert prepared == ["compile scan", "load scan"]
    assert new.wait(20)
    assert prepared[2:] == ["compile live-events", "load live-events"]


def test_a_part_that_cannot_be_compiled_is_reported_and_the_next_one_prepared(
    prepared: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(names: list[str], check: object) -> None:
        if names == [SCAN]:
            raise MemoryError("no room")

    monkeypatch.setattr(preparing, "compile_ahead", broken)
    new = Preparing()
    new.want(SCAN, LIVE)
    assert new.wait(20)
    assert prepared == ["load live-events"]
    assert "cannot compile scan ahead: MemoryError('no room')" in caplog.text


def test_nothing_is_prepared_on_a_machine_where_everything_is_compiled(
    prepared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "PREPARING", Preparing())
    monkeypatch.setattr(preparing, "is_available", lambda name: True)
    preparing.prepare_first_calls()
    assert preparing.PREPARING.wait(0)
    assert prepared == []
    monkeypatch.setattr(preparing, "is_available", lambda name: False)
    preparing.prepare_first_calls()
    assert preparing.PREPARING.wait(20)
    assert prepared[0] == "compile scan"


# calls that wait


def test_a_call_that_waits_says_so_and_has_its_parts_compiled_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def started(arguments: list[str]) -> subprocess.Popen[bytes]:
        assert "--nice" not in arguments
        path = compiling.stamp(arguments[-1])
        wait = "import sys, time, pathlib; time.sleep(1); pathlib.Path(sys.argv[1]).touch()"
        begun.append(subprocess.Popen([sys.executable, "-c", wait, str(path)]))
        return begun[-1]

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(compiling.VARIABLE, raising=False)
    monkeypatch.setattr(compiling, "_started", started)
    with caplog.at_level(logging.WARNING, "matchwood"):
        compiling.compile_now([COVERS, COVER_UPDATES], "the search for covers")
        assert "waiting a few seconds while the search for covers is compiled" in caplog.text
        assert len(begun) == 2
        caplog.clear()
        compiling.compile_now([COVERS, COVER_UPDATES], "the search for covers")
    assert (caplog.text, len(begun)) == ("", 2)
    assert compiling.is_compiled(COVERS)


def test_an_exception_ends_the_processes_that_a_call_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def started(arguments: list[str]) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return begun[-1]

    def stop() -> None:
        raise Stopped

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "_started", started)
    with pytest.raises(Stopped):
        compiling._compile({COVERS: [], COVER_UPDATES: []}, stop)
    assert [process.returncode for process in begun] == [-9, -9]


# live events


@pytest.fixture
def kernels_of_live_events(monkeypatch: pytest.MonkeyPatch) -> Preparing:
    """As on a machine where they are not compiled, until the test adds `LIVE` to `loaded`."""
    waiting = Preparing()
    monkeypatch.setattr(waiting, "want", lambda *names: None)
    monkeypatch.setattr(planned_events, "PREPARING", waiting)
    monkeypatch.setattr(planned_events, "is_available", lambda name: False)
    return waiting


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scoring", ["sum", "max"])
def test_live_events_are_right_before_and_after_their_kernels_come(
    seed: int, scoring: str, kernels_of_live_events: Preparing
) -> None:
    """The same calls in an engine whose live events begin in plain arrays and in one whose kernels are compiled."""
    world = a_world(seeded_dice(seed), 60, 30)
    late, told = Engine(TYPES, scoring=scoring), Engine(TYPES, scoring=scoring)
    told._live._events = LiveEvents()  # type: ignore[assignment]
    assert isinstance(late._live._events, planned_events.PlannedEvents)
    found = 0
    for step, (id_, (priority, expression, _)) in enumerate(world.subscriptions.items()):
        if step == 40:
            assert isinstance(late._live._events._plain, PlainEvents)
            kernels_of_live_events.loaded |= {LIVE}
        mode, event = ("all", "any")[step % 2], world.events[step % len(world.events)]
        for engine in (late, told):
            engine.publish(event, until="9999-01-01" if step % 3 else "2000-01-01")
            engine.subscribe(expression, id=id_, priority=priority)
        mine, theirs = (engine.live(id_, k=(None, 2)[step % 2], mode=mode) for engine in (late, told))
        assert mine == theirs
        assert late.live(id_) == told.live(id_)
        found += len(mine)
        if step % 7 == 1:
            for engine in (late, told):
                engine.retract(engine._live.next_id - 1)
    assert found > 20
    assert late._live._events._plain is None
    late._live._events._events.check()


def test_plain_live_events_refuse_what_others_refuse(kernels_of_live_events: Preparing) -> None:
    events = planned_events.PlannedEvents(LiveEvents())
    world = a_world(seeded_dice(3), 4, 3)
    arrays, ids = world.event_arrays(), np.arange(3)
    assert not events.knows(ids).any()
    events.insert(arrays, ids, np.array([1.0, 2.0, 3.0]))
    with pytest.raises(live.EventError, match="event 0 is there already"):
        events.insert(arrays, ids, np.full(3, 9.0))
    with pytest.raises(live.EventError, match="event 7 is not there"):
        events.delete(np.array([0, 7]))
    assert events.until(np.array([2, 5])).tolist() == [3.0, -np.inf]
    events.delete(ids[:1])
    assert events.knows(ids).tolist() == [False, True, True]


def test_an_engine_with_plain_live_events_is_saved_whole(
    tmp_path: Path, kernels_of_live_events: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    monkeypatch.setattr(planned_events, "compile_now", lambda names, what: waited.extend(names))
    engine = Engine()
    engine.publish({"price": 20}, until="9999-01-01")
    engine.save(tmp_path / "saved")
    assert set(waited) == {LIVE}
    waited.clear()
    again = Engine.load(tmp_path / "saved")
    assert waited == [LIVE]
    assert again.subscribe("price < 30").live == engine.subscribe("price < 30").live != []


def test_ready_waits_for_the_planner_and_for_what_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, go = Engine(), threading.Event()
    index = engine._index
    assert isinstance(index, Planned)
    monkeypatch.setattr(index, "_work", lambda reason: go.wait(20))
    index._start(planned.Reason("a test"))
    assert not engine.ready(timeout=0.1)
    go.set()
    assert engine.ready(timeout=20)


# what has no slower path


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The parts that engines wait for, and whether for a scoring function."""
    found: list[tuple[str, bool]] = []

    def compile_now(names: list[str], what: str, *, scoring: bool = False) -> None:
        found.extend((name, scoring) for name in names)

    monkeypatch.setattr("matchwood.engine.core.compile_now", compile_now)
    monkeypatch.setattr(planned_events, "compile_now", compile_now)
    return found


def test_an_engine_waits_for_a_fixed_index_and_for_a_scoring_function_when_it_is_made(
    tmp_path: Path, waits: list[tuple[str, bool]]
) -> None:
    Engine()
    Engine(index="scan")
    assert waits == []
    fixed = Engine(index="mo-tree")
    fixed.subscribe("age > 18")
    fixed.save(tmp_path / "fixed")
    assert waits == [("mo-tree", False)]
    Engine(scoring="max")
    Engine(index="vcr", scoring="max")
    assert waits[1:] == [("scan", True), ("vcr", True)]
    Engine.load(tmp_path / "fixed")
    assert waits[3:] == [("mo-tree", False)]


def test_live_events_wait_for_a_scoring_function(waits: list[tuple[str, bool]]) -> None:
    engine = Engine(scoring="max")
    engine.publish({"price": 20}, until="9999-01-01")
    waits.clear()
    assert len(engine.subscribe("price < 30 ^2").live) == 1
    assert waits == [(LIVE, True)]


def test_other_calls_go_on_while_a_save_waits_for_the_kernels_of_live_events(
    tmp_path: Path, kernels_of_live_events: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, waiting, go_on = Engine(), threading.Event(), threading.Event()

    def compile_now(names: list[str], what: str) -> None:
        waiting.set()
        assert go_on.wait(20)

    monkeypatch.setattr(planned_events, "compile_now", compile_now)
    engine.publish({"price": 20}, until="9999-01-01")
    saving = threading.Thread(target=engine.save, args=(tmp_path / "saved",))
    saving.start()
    assert waiting.wait(20)
    other = threading.Thread(target=engine.subscribe, args=("price < 30",))
    other.start()
    other.join(20)
    assert not other.is_alive(), "a change waits for the compiler"
    go_on.set()
    saving.join(20)
    assert len(Engine.load(tmp_path / "saved")) == 1
