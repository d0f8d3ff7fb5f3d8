"""Compiling ahead in another process: once a machine, stopped when nobody waits, done without where it cannot be."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba.core import config
from numba.core.dispatcher import Dispatcher

from bench.objects import as_mappings
from matchwood import Engine
from matchwood.lang.evaluate import Mode
from matchwood.planner import RULES, compiling, warm
from matchwood.planner.background import Stopped
from matchwood.planner.compiling import compile_ahead, stamp
from matchwood.planner.exercise import COVER_UPDATES, COVERED, COVERS, LIVE, exercise
from matchwood.planner.trial import Task, run_trials
from matchwood.planner.uses import Use, Uses
from matchwood.structures import INDEXES, Capability, make_index
from matchwood.workloads import City

Started = Callable[[list[str]], "subprocess.Popen[bytes] | None"]


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and compiling ahead as it is outside the tests."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(compiling.VARIABLE, raising=False)
    return tmp_path


def instead(code: str, begun: list[subprocess.Popen[bytes]]) -> Started:
    """A process that runs this code, in place of the one that compiles."""

    def started(arguments: list[str]) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([sys.executable, "-c", code, *arguments]))
        return begun[-1]

    return started


def test_a_process_is_started_only_for_what_has_no_stamp(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def started(arguments: list[str]) -> None:
        assert "--nice" in arguments
        asked.append([word for word in arguments[1:] if word != "--nice"])
        path = stamp(arguments[-1], scoring="--scoring" in arguments)
        assert path is not None
        path.touch()

    monkeypatch.setattr(compiling, "_started", started)
    compile_ahead(["scan", "vcr"], lambda: None)
    compile_ahead(["vcr", "mo-tree"], lambda: None)
    compile_ahead(["scan", "vcr", "mo-tree"], lambda: None)
    assert asked == [["scan"], ["vcr"], ["mo-tree"]]
    compile_ahead(["scan"], lambda: None, scoring=True)
    assert asked[3] == ["--scoring", "scan"]


def test_a_process_that_fails_is_not_started_again(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(compiling, "_started", instead("raise SystemExit(1)", begun))
    for _ in range(3):
        compile_ahead(["scan"], lambda: None)
    assert len(begun) == 1


def test_a_process_is_killed_when_nobody_waits_for_it(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(compiling, "_started", instead("import time; time.sleep(60)", begun))

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        compile_ahead(["scan"], stop)
    assert begun[0].returncode is not None


@pytest.mark.parametrize("executable", ["", "/usr/bin/uwsgi", "/opt/app/app", "/no/such/python3"])
def test_without_an_interpreter_to_start_the_thread_compiles(
    executable: str, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    compile_ahead(["scan"], lambda: None)
    stamp = compiling.stamp("scan")
    assert stamp is not None
    assert not stamp.exists()


def test_without_a_cache_or_when_told_so_the_thread_compiles(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_started", lambda _: pytest.fail("started"))
    with monkeypatch.context() as without:
        without.setattr(compiling, "cache_folder", lambda *_: None)
        compile_ahead(["scan"], lambda: None)
    monkeypatch.setenv(compiling.VARIABLE, "0")
    compile_ahead(["scan"], lambda: None)


def test_the_process_finds_the_modules_of_this_one(fresh: Path) -> None:
    process = compiling._started(["--help"])
    assert process is not None
    assert process.wait() == 0


def test_two_processes_do_not_compile_the_same(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(warm, "exercise", lambda name, *, scoring: warmed.append(name))
    for _ in range(2):
        warm.compile_to_disk("scan")
    assert warmed == ["scan"]
    path = stamp("scan")
    assert path is not None
    assert path.exists()


def versions() -> set[str]:
    """The compiled versions of our kernels that are loaded."""
    modules = [module for name, module in sys.modules.items() if name.startswith("matchwood.") and ".kernels." in name]
    kernels = [k for module in modules for k in vars(module).values() if isinstance(k, Dispatcher)]
    return {
        f"{kernel.py_func.__module__}.{kernel.py_func.__name__}{sig}" for kernel in kernels for sig in kernel.overloads
    }


def called_beyond(name: str) -> set[str]:
    """The kernels that a trial and an exchange of the structure call, and its exercise does not."""
    exercise(name)
    city = City.preset("quick", size=20_000)
    rows, events = city.subscriptions(), city.events(256)
    warmed = versions()
    contenders = [c for c in RULES.contenders if c.index == name]
    for mode in [Mode.ALL, Mode.ANY] if Capability.ANY in INDEXES[name].capabilities else [Mode.ALL]:
        uses = Uses({Use(mode, best=False): 1, Use(mode, best=True): 1}, changed=1)
        assert run_trials(contenders, Task(rows, events, rows.size, mode, uses), RULES.trial)
    index, ids = make_index(name), np.unique(rows.ids)
    index.insert(rows)
    for count in (1, 2, 100, len(ids)):
        some = index.store.extract(index.store.slots_of(ids[:count]))
        index.update(some)
        index.match(events)
        index.delete(ids[:count])
        index.insert(some)
        index.top_k(events.take(0, 1), 5)
    return versions() - warmed


@pytest.mark.parametrize(
    "name",
    ["scan", "vcr", *(pytest.param(n, marks=pytest.mark.stress) for n in ("be-star-tree", "mo-tree", "ranked"))],
)
def test_after_warming_a_trial_and_an_exchange_call_no_other_kernel(name: str) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as fresh_process:
        assert fresh_process.apply(called_beyond, (name,)) == set()


def called_beyond_part(part: str) -> set[str]:
    """The kernels that an engine calls for live events or covers, and the exercises of these parts do not."""
    parts = [LIVE] if part == LIVE else [COVERS, COVERED, COVER_UPDATES]
    for each in ("scan", *parts):
        exercise(each)
    warmed = versions()
    engine, city = Engine(City.preset("mixed").schema(), index="scan"), City.preset("mixed", size=3_000)
    engine.subscribe_rows(city.subscriptions())
    expression = engine.subscription(7).expression
    if part == LIVE:
        for event in as_mappings(city.events(600), city.schema()):
            engine.publish(event, until="9999-01-01")
        engine.subscribe(expression)
        for mode in ("all", "any"):
            engine.live(0, k=3, mode=mode)
        engine.retract(0)
    else:
        engine.covers(expression)
        engine.covered_by(expression)
        engine.unsubscribe_many(range(1_000))
        engine.subscribe(expression)
        engine.reduce()
    return versions() - warmed


@pytest.mark.parametrize("part", [LIVE, COVERS])
def test_after_their_exercises_live_events_and_covers_call_no_other_kernel(part: str) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as fresh_process:
        assert fresh_process.apply(called_beyond_part, (part,)) == set()
