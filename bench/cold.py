"""What a cold start costs: compiling the kernels of each structure in a fresh process with an empty kernel cache.

    first_answer_s   wall seconds from the import of Matchwood to the first answer; generating the workload is not included
    compile_cpu_s    processor seconds of compiling everything that the calls below need
    kernels          functions compiled for calls from Python
    compilations     functions compiled in all, helpers and subroutines of the kernels included

Systems are every index by name, `auto`, live events and covering. Engines hold the subscriptions of the city workload. An index
is used through `Engine`: matching (all matches and the best, one event and several, both modes) and changes (one and several).
Live events and covering are measured in an engine with the index `scan` that has been used already, so that only their own
kernels count; their first answer is the seconds from their first call on.

`texts` is the first minute of a new user: `Engine()`, subscriptions as text, one match, with all defaults. `texts, prebuilt` is
the same with the kernels of `make wheel`, which are compiled first and not counted.

`auto` is measured twice. The first answer is taken with the defaults, where another process compiles. The other figures are taken
with MATCHWOOD_COMPILE_AHEAD=0, where the engine's own process compiles what the planner tries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from numba.core import event as numba_events

from bench.report import Report

if TYPE_CHECKING:
    from matchwood import Engine
    from matchwood.workloads import City

AUTO, LIVE, COVERING = "auto", "live events", "covering"
TEXTS, PREBUILT = "texts", "texts, prebuilt"
SIZES = {"quick": 2_000, "paper": 10_000}
QUICK = ("scan",)
"""The systems of the preset `quick`; compiling all of them takes minutes."""
UNTIL = "2100-01-01T00:00:00Z"

Figures = dict[str, float]


def run(preset: str, report: Report) -> None:
    """One part for each system."""
    for system in systems(preset):
        report.part(system, partial(record, report, system, SIZES[preset]))


def systems(preset: str) -> list[str]:
    """The names of what is measured."""
    from matchwood.structures import INDEXES

    known = [*INDEXES, LIVE, COVERING, AUTO, TEXTS, PREBUILT]
    return [name for name in known if preset != "quick" or name in QUICK]


def record(report: Report, system: str, size: int) -> None:
    """Measure one system and add its figures to the report."""
    if system == PREBUILT:
        with tempfile.TemporaryDirectory() as folder:
            figures = in_fresh_process(TEXTS, size, MATCHWOOD_KERNELS=prebuilt_kernels(folder))
    elif system == TEXTS:
        figures = in_fresh_process(TEXTS, size)
    else:
        figures = in_fresh_process(system, size, MATCHWOOD_COMPILE_AHEAD="0")
    if system == AUTO:
        figures |= in_fresh_process(system, size, "--only-first-answer")
    for metric, value in figures.items():
        report.row(workload="city-mixed", system=system, n=size, metric=metric, value=value)


def in_fresh_process(system: str, size: int, *options: str, **environment: str) -> Figures:
    """The figures of a new interpreter whose kernel cache is an empty folder."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "bench.cold", system, str(size), *options],
            env={**os.environ, **environment, "NUMBA_CACHE_DIR": cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    figures: Figures = json.loads(done.stdout)
    return figures


def prebuilt_kernels(folder: str) -> str:
    """Compile the kernels of `Engine()` for the processor level of wheels; the folder that holds them."""
    level = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": folder}
    environment = {**os.environ, **level, "MATCHWOOD_KERNELS": "0"}
    subprocess.run(
        [sys.executable, "-m", "matchwood.cli.main", "warm"], env=environment, stdout=subprocess.DEVNULL, check=True
    )
    return f"{folder}/matchwood"


class Compilations(numba_events.Listener):  # type: ignore[misc]
    """Counts what Numba compiles. A helper is compiled while the kernel that calls it is: only the outermost time is added."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self.reset()

    def reset(self) -> None:
        """Start counting anew."""
        self.seconds, self.kernels, self.compilations = 0.0, 0, 0

    def on_start(self, event: Any) -> None:
        """Numba begins to compile a function."""
        self._open().append(time.thread_time())

    def on_end(self, event: Any) -> None:
        """Numba has compiled a function."""
        start = self._open().pop()
        self.compilations += 1
        if not self._open():
            self.kernels += 1
            self.seconds += time.thread_time() - start

    def figures(self) -> Figures:
        """What has been counted, by metric."""
        return {"compile_cpu_s": self.seconds, "kernels": self.kernels, "compilations": self.compilations}

    def _open(self) -> list[float]:
        """When the compilations under way in this thread began, the outermost first."""
        started: list[float] = self._thread.__dict__.setdefault("started", [])
        return started


# inside the fresh process


def measure(system: str, size: int, *, only_first_answer: bool = False) -> Figures:
    """Use one system from the first import on."""
    counted = Compilations()
    numba_events.register("numba:compile", counted)
    start = time.perf_counter()
    from matchwood import Engine

    imported = time.perf_counter() - start
    if system == TEXTS:
        return {"first_answer_s": imported + first_text_answer(Engine(), size), **counted.figures()}
    from bench.objects import as_mappings
    from matchwood.workloads import City

    city = City.preset("mixed", size=size, source="synthetic")
    rows, event = city.subscriptions(), next(as_mappings(city.events(1), city.schema()))
    start = time.perf_counter()
    engine = Engine(city.schema(), index="scan" if system in PARTS else system)
    engine.subscribe_rows(rows)
    engine.match(event)
    first_answer = imported + time.perf_counter() - start
    if only_first_answer:
        return {"first_answer_s": first_answer}
    use_index(engine, city)
    if system == AUTO:
        engine.replan()
        use_index(engine, city)
    if system in PARTS:
        part = PARTS[system]
        counted.reset()
        start = time.perf_counter()
        part.first_answer(engine, event)
        first_answer = time.perf_counter() - start
        part.use(engine, city)
    return {"first_answer_s": first_answer, **counted.figures()}


def first_text_answer(engine: Engine, size: int) -> float:
    """Seconds until subscriptions as text have been added and an event has been matched."""
    texts = [
        f"price BETWEEN {i % 900} AND {i % 900 + 50} AND city = 'c{i % 40}' AND age >= {i % 70}" for i in range(size)
    ]
    start = time.perf_counter()
    engine.subscribe_many(texts)
    found = engine.match({"price": 100, "city": "c3", "age": 80})
    seconds = time.perf_counter() - start
    expected = [i for i in range(size) if i % 40 == 3 and i % 900 <= 100 <= i % 900 + 50]
    assert sorted(match.id for match in found) == expected
    return seconds


def use_index(engine: Engine, city: City) -> None:
    """Match and change subscriptions, one and several at a time, and leave them as they were."""
    from matchwood.structures import INDEXES, Capability

    offers = INDEXES[engine.index].capabilities
    events, rows = city.events(300, batch=1), city.subscriptions()
    for mode in ["all", "any"] if Capability.ANY in offers else ["all"]:
        for some in (events, events.take(0, 1)):
            engine.match_many(some, mode=mode)
            if Capability.TOP_K in offers:
                engine.top_k_many(some, 10, mode=mode)
    if Capability.UPDATES in offers:
        for part in (rows.take(0, min(200, rows.size)), rows.take(0, 1)):
            engine.unsubscribe_many(part.ids)
            engine.subscribe_rows(part)
            engine.match_many(events)
        engine.update(0, engine.subscription(0).expression)
        engine.match_many(events)
    engine.stats()


def first_live(engine: Engine, event: Mapping[str, object]) -> None:
    """Publish an event and ask for the live events of a subscription."""
    engine.publish(event, until=UNTIL)
    engine.live(0)


def use_live_events(engine: Engine, city: City) -> None:
    """Publish events and match subscriptions against them."""
    from bench.objects import as_mappings

    for number, event in enumerate(as_mappings(city.events(city.size, batch=2), city.schema())):
        engine.publish(event, until=UNTIL)
        if number % 1_000 == 0:
            engine.live(0)
    for k in (None, 10):
        engine.live(0, k=k)
        engine.live(0, k=k, mode="any")
    engine.retract(0)
    engine.subscribe(engine.subscription(0).expression)


def first_cover(engine: Engine, event: Mapping[str, object]) -> None:
    """Find the subscriptions that cover one."""
    engine.covers(engine.subscription(0).expression)


def use_covering(engine: Engine, city: City) -> None:
    """Find what covers and what is covered, the smallest set that covers all, and change subscriptions."""
    expression = engine.subscription(0).expression
    engine.covered_by(expression)
    engine.reduce()
    engine.unsubscribe(0)
    engine.subscribe(expression, id=0)
    engine.covers(expression)


class Part(NamedTuple):
    """A part of an engine beside its index."""

    first_answer: Callable[[Engine, Mapping[str, object]], None]
    use: Callable[[Engine, City], None]


PARTS = {LIVE: Part(first_live, use_live_events), COVERING: Part(first_cover, use_covering)}


def main(words: list[str]) -> None:
    """Measure in this process and print the figures as JSON."""
    system, size, *options = words
    print(json.dumps(measure(system, int(size), only_first_answer=bool(options))))


if __name__ == "__main__":
    main(sys.argv[1:])
