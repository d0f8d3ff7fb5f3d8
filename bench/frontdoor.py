"""The front door: what a user's own calls cost at the public API, from the first import to single calls on large engines.

    first answers    wall seconds and peak memory of a fresh process with an empty kernel cache: import, text subscriptions, one
                     match; and again with what the first has left in the cache. `tree_peak_mb` counts its child processes too,
                     which compile. From a prebuilt wheel as well, if MATCHWOOD_BENCH_WHEEL names one
    imports          seconds and peak memory of `import matchwood` and of `from matchwood import Engine`
    single calls     microseconds of processor time of `match` and `top_k` of a dict, `subscribe`, `publish`, `move`, ...
    NDJSON           microseconds an event from bytes to arrays
    rectangles       `match_many` with thousands of hits an event, ordered and not
    two threads      how many times more `top_k` calls and `match_many` events two cores answer
    ads              single calls on an ad workload, beside two indexes written by hand (`ads_by_hand`) with the same answers

Calls that this version lacks are left out, with a line that says so.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.ads import Campaigns, impressions, types
from bench.ads_by_hand import ByHand, NumpyBitsets, RoaringSets
from bench.objects import as_mappings
from bench.report import Report
from matchwood import Engine
from matchwood.encode.json_lines import read_json_events
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.schema import Schema
from matchwood.workloads import VCR, City

FRONT = "front door"
ROUNDS = 7
WHEEL = "MATCHWOOD_BENCH_WHEEL"
UNTIL = "2100-01-01T00:00:00Z"
SIZES = {
    "quick": {"cold": 10_000, "subscribed": 10_000, "rectangles": 256_000, "city": 100_000, "ads": 50_000},
    "paper": {"cold": 10_000, "subscribed": 100_000, "rectangles": 256_000, "city": 1_000_000, "ads": 500_000},
}


def run(preset: str, report: Report) -> None:
    """One part for each block of the list above."""
    size = SIZES[preset]
    report.part("first answers", partial(first_answers, report, size["cold"]))
    report.part("imports", partial(imports, report))
    report.part("single calls", partial(single_calls, report))
    report.part("changes", partial(changes, report, size["subscribed"]))
    report.part("NDJSON", partial(ndjson, report))
    report.part("rectangles", partial(rectangles, report, size["rectangles"]))
    report.part("two threads", partial(two_threads, report, size["city"]))
    report.part("ads", partial(ads, report, size["ads"]))


# timing


def cpu_us(call: Callable[[Any], object], arguments: Sequence[Any], *, rounds: int = ROUNDS) -> tuple[float, float]:
    """Microseconds of this thread's processor time for each call, median of the rounds, and their spread."""
    each = []
    for _ in range(rounds):
        start = time.thread_time()
        for argument in arguments:
            call(argument)
        each.append(1e6 * (time.thread_time() - start) / len(arguments))
    return statistics.median(each), max(each) - min(each)


def cpu_us_once(call: Callable[[Any], object], arguments: Sequence[Any], *, parts: int = 5) -> tuple[float, float]:
    """As `cpu_us`, for calls that cannot be repeated with the same argument: the rounds are parts of the arguments."""
    size = len(arguments) // parts
    found = [cpu_us(call, arguments[i * size : (i + 1) * size], rounds=1)[0] for i in range(parts)]
    return statistics.median(found), max(found) - min(found)


def note(report: Report, metric: str, found: tuple[float, float], n: int, **more: Any) -> None:
    """Add a figure of the engine's own calls."""
    value, spread = found
    report.row(workload=FRONT, system="Engine", n=n, metric=metric, value=value, spread=spread, **more)


def has(method: str) -> bool:
    """Does this version's engine have the method?"""
    if not hasattr(Engine, method):
        print(f"{method} is left out: this version has no Engine.{method}", file=sys.stderr)
    return hasattr(Engine, method)


# first answers


def first_answers(report: Report, size: int) -> None:
    """From source, and from the wheel that the environment names."""
    record_cold(report, "from source", size, None)
    wheel = os.environ.get(WHEEL)
    if wheel is None:
        print(f"the prebuilt wheel is left out: {WHEEL} names none", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        record_cold(report, "from wheel", size, folder)


def record_cold(report: Report, system: str, size: int, folder: str | None) -> None:
    """The figures of a process with an empty cache, and of a second one that finds what the first has compiled."""
    with tempfile.TemporaryDirectory() as cache:
        for prefix in ("", "warm_"):
            for metric, value in in_fresh_process(size, cache, folder).items():
                report.row(workload=FRONT, system=system, n=size, metric=prefix + metric, value=value)


def in_fresh_process(size: int, cache: str, folder: str | None) -> dict[str, float]:
    """The figures of a new interpreter with this kernel cache; `folder` has the package to import, if not the installed one."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    if folder is not None:
        environment["PYTHONPATH"] = folder
    command = [sys.executable, str(Path(__file__).with_name("frontdoor_cold.py")), str(size)]
    peak = 0.0
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, tree_mb(process.pid))
            time.sleep(0.05)
        assert process.stdout is not None
        figures: dict[str, float] = json.loads(process.stdout.read())
    return {**figures, "tree_peak_mb": peak}


def tree_mb(pid: int) -> float:
    """The resident memory of a process and its children; 0 for one that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6 + sum(tree_mb(int(child)) for child in children)


def imports(report: Report) -> None:
    """Wall and processor seconds, peak memory and private memory of importing: medians of five processes.

    The rest of the peak is pages of shared libraries, which processes share.
    """
    statements = {
        "import numba": "import numba",
        "import matchwood": "import matchwood",
        "import Engine": "from matchwood import Engine",
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for system, statement in statements.items():
        script = (
            "import time; wall, cpu = time.perf_counter(), time.process_time()\n"
            f"{statement}\n"
            "print(time.perf_counter() - wall, time.process_time() - cpu)\n"
            "status = dict(line.split(':') for line in open('/proc/self/status'))\n"
            "print(*(int(status[name].split()[0]) / 1000 for name in ('VmHWM', 'RssAnon')))"
        )
        runs = []
        for _ in range(6):  # the first compiles bytecode
            done = subprocess.run(
                [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            runs.append([float(word) for word in done.stdout.split()])
        for metric, values in zip(
            ("wall_s", "cpu_s", "peak_mb", "private_mb"), zip(*runs[1:], strict=True), strict=True
        ):
            report.row(workload="imports", system=system, n=1, metric=metric, value=statistics.median(values))


# single calls


ATTRIBUTES = 15
UNASKED = 20


def single_calls(report: Report) -> None:
    """`match` and `top_k` of a dict on a small index with few hits, without and with attributes that no subscription names."""
    n = 1_000
    engine = Engine(index="scan")
    engine.subscribe_many(small_subscription(i) for i in range(n))
    plain = [small_event(i) for i in range(200)]
    wide = [{**event, **{f"unasked_{j}": j * 1.5 for j in range(UNASKED)}} for event in plain]
    hits = sum(len(engine.match(event)) for event in plain) / len(plain)
    report.workload(FRONT, subscriptions=n, attributes=ATTRIBUTES, unasked=UNASKED, hits_per_event=hits)
    calls: dict[str, Callable[[Any], object]] = {"match": engine.match, "top_k": lambda event: engine.top_k(event, 5)}
    for name, call in calls.items():
        for events in (plain, wide):
            for event in events:
                call(event)
        note(report, f"{name}_us", cpu_us(call, plain), n)
        note(report, f"{name}_with_unasked_us", cpu_us(call, wide), n)


def small_subscription(i: int) -> str:
    """Three conditions on the attributes of `small_event`, which few events meet."""
    first, second, third = ((i + shift) % ATTRIBUTES for shift in (0, 4, 9))
    return f"a{first} BETWEEN {i % 90} AND {i % 90 + 5} AND a{second} > {50 + i % 50} AND a{third} < {i % 50}"


def small_event(i: int) -> dict[str, object]:
    """A value for each of fifteen attributes."""
    return {f"a{j}": float((i * 31 + j * 17) % 100) for j in range(ATTRIBUTES)}


def changes(report: Report, n: int) -> None:
    """Subscribe, publish, move and re-rank on an engine of n subscriptions, half of them with a place."""
    engine = Engine({"place": "point"}, index="mo-tree")
    start = time.thread_time()
    engine.subscribe_many(known_shape(i) for i in range(n))
    note(report, "subscribe_many_us", (1e6 * (time.thread_time() - start) / n, 0.0), n)
    engine.match(offer(0))
    for i in range(50):
        engine.subscribe(known_shape(n + i))
    note(report, "subscribe_us", cpu_us_once(engine.subscribe, [known_shape(2 * n + i) for i in range(1_000)]), n)
    placed = [int(engine.subscribe("price < 90", place=spot(i), radius=500.0)) for i in range(1_000)]
    moves = [(id_, spot(i + 3)) for i, id_ in enumerate(placed)]
    engine.move(*moves[0])
    note(report, "move_us", cpu_us_once(lambda move: engine.move(*move), moves), n)
    if has("move_many"):
        ids, places = [id_ for id_, _ in moves], [spot(i + 5) for i in range(len(moves))]
        engine.move_many(ids, places)  # type: ignore[attr-defined]
        each = cpu_us(lambda shift: engine.move_many(ids, [spot(i + shift) for i in range(len(ids))]), [7])  # type: ignore[attr-defined]
        note(report, "move_many_us", (each[0] / len(ids), each[1] / len(ids)), n)
    if has("set_priority"):
        engine.set_priority(0, 1.0)  # type: ignore[attr-defined]
        note(report, "set_priority_us", cpu_us(lambda i: engine.set_priority(i, i * 0.5), range(1_000)), n)  # type: ignore[attr-defined]
    engine.update(0, known_shape(0), priority=2.0)
    updates = cpu_us_once(lambda i: engine.update(i, known_shape(i), priority=3.0), range(1, 1_001))
    note(report, "update_us", updates, n)
    engine.publish(offer(0), until=UNTIL)
    if has("ready"):
        engine.ready(600)  # until then live events are in plain arrays
    for i in range(50):
        engine.publish(offer(i), until=UNTIL)
    note(report, "publish_us", cpu_us_once(lambda i: engine.publish(offer(i), until=UNTIL), range(1_000)), n)
    if has("publish_many"):
        batch = [offer(i) for i in range(1_000)]
        engine.publish_many(batch[:10], until=UNTIL)  # type: ignore[attr-defined]
        each = cpu_us(lambda events: engine.publish_many(events, until=UNTIL), [batch], rounds=1)  # type: ignore[attr-defined]
        note(report, "publish_many_us", (each[0] / len(batch), 0.0), n)


def known_shape(i: int) -> str:
    """A text that differs from others in its constants only."""
    return f"age BETWEEN {i % 70} AND {i % 70 + 8} AND price < {i % 97} AND city = 'c{i % 300}' AND plan IN ('a', 'p{i % 5}')"


def offer(i: int) -> dict[str, object]:
    """An event for `known_shape`, with few hits."""
    return {"age": i % 80, "price": 60 + i % 40, "city": f"c{i % 300}", "plan": f"p{i % 5}", "place": spot(i)}


def spot(i: int) -> tuple[float, float]:
    """A place in a city."""
    return (10.6 + (i * 37 % 1000) * 4e-4, 59.8 + (i * 91 % 1000) * 2e-4)


# bulk


def ndjson(report: Report) -> None:
    """From bytes to arrays, in batches of 100 and 2,000 lines; the schema knows the attributes."""
    schema = Schema({**{f"a{j}": "number" for j in range(4)}, "city": "string"})
    for size in (100, 2_000):
        lines = [json.dumps({"id": i, "values": ndjson_values(i)}) for i in range(size)]
        data = "\n".join(lines).encode()
        found = read_json_events(data.splitlines(), schema)
        assert found.events.size == size
        value, spread = cpu_us(lambda data: read_json_events(data.splitlines(), schema), [data] * max(1, 2_000 // size))
        note(report, f"ndjson_{size}_us_per_event", (value / size, spread / size), size)


def ndjson_values(i: int) -> dict[str, object]:
    """Five values."""
    return {**{f"a{j}": (i * 7 + j) % 100 / 4 for j in range(4)}, "city": f"c{i % 40}"}


def rectangles(report: Report, n: int) -> None:
    """`match_many` of 500 points on rectangles with priorities, thousands of hits each. Processor time of the process."""
    workload = VCR.preset("moderate-90-10", size=n)
    rows = workload.subscriptions()
    rows = rows._replace(priority=np.random.default_rng(3).random(rows.size))
    engine = Engine(workload.schema(), index="vcr")
    engine.subscribe_rows(rows)
    events = workload.events(500)
    hits = len(engine.match_many(events, ordered=False).ids) / events.size
    report.workload("rectangles", **workload.parameters(), hits_per_event=hits)
    for metric, ordered in (("unordered_us_per_event", False), ("ordered_us_per_event", True)):
        each = []
        for _ in range(15):  # the first ones pay for pages that the system hands out
            start = time.process_time()
            engine.match_many(events, ordered=ordered)
            each.append(1e6 * (time.process_time() - start) / events.size)
        report.row(
            workload="rectangles",
            system="Engine",
            n=n,
            metric=metric,
            value=statistics.median(each),
            spread=max(each) - min(each),
        )


def two_threads(report: Report, n: int) -> None:
    """`top_k` from two threads, and `top_k_many` of a list, against `top_k` from one; `match_many` with two cores against one.

    Needs two idle cores. Single calls share the interpreter's lock (docs/operations.md, threads and processes).
    """
    city = City(size=n, source="synthetic")
    report.workload("city", **city.parameters())
    engine = Engine(city.schema(), index="mo-tree")
    engine.subscribe_rows(city.subscriptions())
    events = list(as_mappings(city.events(400), city.schema()))
    top = partial(engine.top_k, k=10)
    alone = elapsed([events], top)
    speedups = {
        "top_k_two_threads_speedup": 2 * alone / elapsed([events, events], top),
        "top_k_many_speedup": alone / elapsed([[events]], partial(engine.top_k_many, k=10)),
    }
    for metric, speedup in speedups.items():
        report.row(workload="city", system="Engine", n=n, metric=metric, value=speedup)
    batch = city.events(2_000, batch=1)
    engine.match_many(batch)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("match_many on two cores is left out: this process has one", file=sys.stderr)
        return
    seconds = {}
    for count in (1, 2):
        pin(cores[:count])
        engine.match_many(batch)
        seconds[count] = min(wall(lambda: engine.match_many(batch)) for _ in range(5))
    pin(cores)
    report.row(
        workload="city", system="Engine", n=n, metric="match_many_two_cores_speedup", value=seconds[1] / seconds[2]
    )


def pin(cores: Iterable[int]) -> None:
    """Let every thread of this process run on these cores only."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def elapsed(work: list[list[Any]], call: Callable[[Any], object]) -> float:
    """Wall seconds of as many threads as there are lists of arguments; the least of five rounds."""

    def each(arguments: list[Any]) -> None:
        for argument in arguments:
            call(argument)

    def together() -> None:
        threads = [threading.Thread(target=each, args=(arguments,)) for arguments in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together()
    return min(wall(together) for _ in range(5))


def wall(call: Callable[[], object]) -> float:
    """Wall seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# ads


def ads(report: Report, n: int) -> None:
    """Single calls on campaigns: all matches, the ten best; build time and memory. Rivals are compared with the engine first."""
    campaigns = Campaigns(n)
    events = impressions(100)
    start = time.perf_counter()
    engine = Engine(types(), index="auto")
    engine.subscribe_rows(encode_subscription_table(campaigns.table(), engine.schema).rows)
    engine.match_many(impressions(300, seed=9))
    built = time.perf_counter() - start
    engine.replan()
    hits = sum(len(engine.match(event)) for event in events) / len(events)
    report.workload("ads", size=n, seed=campaigns.seed, hits_per_event=hits, index=engine.index, plan=engine.plan())
    figures = {"Engine": (engine_calls(engine), built, engine.stats().bytes)}
    for kind in (NumpyBitsets, RoaringSets):
        try:
            start = time.perf_counter()
            rival: ByHand = kind(campaigns)
        except ImportError as error:
            print(f"{kind.name} is left out: {error}", file=sys.stderr)
            continue
        seconds = time.perf_counter() - start
        verify(engine, rival, events[:30])
        calls = {"match": rival.match, "top_10": partial(rival.top_k, k=10)}
        figures[rival.name] = (calls, seconds, rival.nbytes)
    for system, (calls, seconds, size) in figures.items():
        for metric, call in calls.items():
            value, spread = cpu_us(call, events)
            ours = report.value(workload="ads", system="Engine", metric=f"{metric}_us")
            report.row(
                workload="ads",
                system=system,
                n=n,
                metric=f"{metric}_us",
                value=value,
                spread=spread,
                baseline=None if ours is None else "Engine",
                ratio=None if ours is None else ours / value,
                verified=len(figures) > 1,
            )
        report.row(workload="ads", system=system, n=n, metric="build_s", value=seconds)
        report.row(workload="ads", system=system, n=n, metric="mb", value=size / 1e6)


def engine_calls(engine: Engine) -> dict[str, Callable[[Any], object]]:
    """The engine's calls by the name of their metric."""
    return {"match": engine.match, "top_10": partial(engine.top_k, k=10)}


def verify(engine: Engine, rival: ByHand, events: Sequence[dict[str, Any]]) -> None:
    """Exit unless the rival finds what the engine finds, in the same order."""
    for event in events:
        ours = [match.id for match in engine.match(event)]
        best = [match.id for match in engine.top_k(event, 10)]
        if rival.match(event).tolist() != ours or rival.top_k(event, 10).tolist() != best:
            raise SystemExit(f"{rival.name} and the engine differ on {event}")
