"""Scan against the same scan in C++, and the way into the arrays: parsing, normalising, encoding, single calls."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cpp_scan import CppScan
from bench.report import Report, side_by_side, timed
from matchwood import Engine
from matchwood.encode.arrays import Events, Rows
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from matchwood.structures import Scan
from matchwood.workloads import BEGen, City, Workload

WARM_UP = 300
"""Events before timing."""


def run(preset: str, report: Report) -> None:
    """Sizes: `quick` 200,000 subscriptions, `paper` 1,000,000."""
    size = 200_000 if preset == "quick" else 1_000_000
    for workload in (BEGen(size=size), BEGen.preset("zipf", size=size), City(size=size)):
        name, events = _name(workload), 50 if preset == "quick" else 100
        report.part(f"against C++, {name}", partial(scan_against_cpp, name, workload, report, events=events))
    report.part("language", partial(language, report, count=10_000 if preset == "quick" else 50_000))
    report.part("Arrow", partial(arrow, report, size=size))
    report.part("single calls", partial(single_calls, report))


def scan_against_cpp(name: str, workload: Workload, report: Report, *, events: int) -> None:
    """Match-all by both on the same rows and events; the answers must be equal to the bit."""
    with report.step(f"{name}: making {workload.size:,} subscriptions"):
        rows = workload.subscriptions()
    report.workload(name, **workload.parameters())
    build = timed(lambda: Scan.build(rows), repeats=3)
    scan = Scan.build(rows)
    scan.match(workload.events(WARM_UP))
    batch = workload.events(events)
    scan.reset_counters()
    scan.match(batch)
    candidates = scan.stats().candidates_per_event
    calls: dict[str, Any] = {
        "scan": lambda: scan.match(batch),
        "scan top-10": lambda: scan.top_k(batch, 10),
        "scan any, top-10": lambda: scan.top_k(batch.take(0, 3), 10, mode="any"),
    }
    verified = False
    if CppScan.available():
        cpp = CppScan(rows, scan)
        calls["C++ scan"] = lambda: cpp.match(batch)
        verify(scan, cpp, batch)
        verified = True
    times = side_by_side(calls)
    for system, time in times.items():
        number = 3 if "any" in system else events
        ratio = times["C++ scan"].median / time.median if verified and system == "scan" else None
        report.row(
            workload=name,
            system=system,
            n=rows.size,
            metric="us_per_event",
            value=time.median / number * 1e6,
            baseline="C++ scan" if ratio is not None else None,
            ratio=ratio,
            verified=verified and system in ("scan", "C++ scan"),
            spread=time.spread / number * 1e6,
        )
    stats = scan.stats()
    common = {"workload": name, "system": "scan", "n": rows.size}
    report.row(**common, metric="candidates_per_event", value=candidates)
    report.row(**common, metric="build_s", value=build.median, spread=build.spread)
    report.row(**common, metric="bytes", value=stats.bytes, baseline="encoded rows", ratio=rows.nbytes / stats.bytes)


def verify(scan: Scan, cpp: CppScan, events: Events) -> None:
    """Raise unless both give the same ids and scores."""
    ours, theirs = scan.match(events), cpp.match(events)
    for e, (their_ids, their_scores) in enumerate(theirs):
        ids, scores = ours.of(e)
        mine, other = np.argsort(ids), np.argsort(their_ids)
        if not (np.array_equal(ids[mine], their_ids[other]) and np.array_equal(scores[mine], their_scores[other])):
            raise AssertionError(f"event {e}: Scan and the C++ scan disagree")


def language(report: Report, *, count: int) -> None:
    """Expressions of six predicates and fifty shapes: parsed, and parsed and normalised."""
    texts = six_predicates(count, seed=7)
    report.workload("six predicates", count=count, shapes=50, seed=7)
    parse(texts[0])
    time = timed(lambda: [parse(text) for text in texts], repeats=3)
    report.row(workload="six predicates", system="parse", n=count, metric="per_second", value=count / time.median)
    schema = Schema()
    time = timed(lambda: [normalise(parse(text), schema) for text in texts], repeats=3)
    report.row(
        workload="six predicates", system="parse+normalise", n=count, metric="per_second", value=count / time.median
    )


def six_predicates(count: int, *, seed: int) -> list[str]:
    """Texts of six predicates joined by AND, of fifty shapes, every constant fresh."""
    rng = random.Random(seed)
    forms = ("{a} = {x}", "{a} <= {x}", "{a} > {x} ^0.5", "{a} BETWEEN {x} AND {y}", "{a} IN ({x}, {y})", "{a} = '{w}'")
    shapes = []
    for _ in range(50):
        kinds = [rng.choice(forms) for _ in range(6)]
        shapes.append([kind.replace("{a}", f"{'s' if 'w' in kind else 'n'}{i}") for i, kind in enumerate(kinds)])
    texts = []
    for _ in range(count):
        low = rng.randrange(10_000)
        parts = (p.format(x=low, y=low + rng.randrange(1, 500), w=f"w{rng.randrange(50)}") for p in rng.choice(shapes))
        texts.append(" AND ".join(parts))
    return texts


def arrow(report: Report, *, size: int) -> None:
    """An Arrow table, one row a subscription with eight predicates as a list of structs, into arrays."""
    rows = BEGen(size=size).subscriptions()
    table = list_table(rows)
    time = timed(lambda: encode_subscription_table(table, Schema()), repeats=3)
    encoded = encode_subscription_table(table, Schema())
    if encoded.rejects or not np.array_equal(encoded.rows.lo, rows.lo):
        raise AssertionError("the table did not come back as the rows it was made of")
    common = {"workload": "Arrow list form, 8 predicates", "system": "encode", "n": size, "verified": True}
    report.row(**common, metric="seconds", value=time.median, spread=time.spread)


def list_table(rows: Rows) -> pa.Table:
    """Rows of plain intervals as an Arrow table of the list form."""
    names = pa.array([f"a{dim:03}" for dim in range(int(rows.dims.max()) + 1)])
    attribute = pa.DictionaryArray.from_arrays(pa.array(rows.dims.astype(np.int32)), names)
    fields = {"attribute": attribute, "lo": rows.lo, "hi": rows.hi, "weight": rows.weight}
    predicates = pa.StructArray.from_arrays([pa.array(column) for column in fields.values()], names=list(fields))
    lists = pa.ListArray.from_arrays(pa.array(rows.offsets.astype(np.int32)), predicates)
    return pa.table({"id": rows.ids, "priority": rows.priority, "predicates": lists})


def single_calls(report: Report) -> None:
    """What one call costs through the Python API, with an index so small that matching is nothing."""
    engine = Engine()
    engine.subscribe("a0 >= 0 AND a1 <= 5 AND a2 = 3")
    event = {f"a{i}": 3 for i in range(15)}
    rounds = 300
    ids: list[int] = []
    calls = {
        "match": lambda: [engine.match(event) for _ in range(rounds)],
        "top_k": lambda: [engine.top_k(event, 10) for _ in range(rounds)],
        "subscribe": lambda: ids.extend(engine.subscribe(f"a0 < {i} AND a1 > 7 AND a2 = 1") for i in range(rounds)),
        "unsubscribe": lambda: [engine.unsubscribe(ids.pop()) for _ in range(rounds)],
    }
    for name, time in side_by_side(calls).items():
        value = time.median / rounds * 1e6
        report.row(workload="single calls", system=f"Engine.{name}", n=1, metric="us_per_call", value=value)


def _name(workload: Workload) -> str:
    if isinstance(workload, BEGen):
        return f"BEGen {workload.distribution}"
    return f"city, {'real' if isinstance(workload, City) and workload.is_real else 'seeded'} places"
