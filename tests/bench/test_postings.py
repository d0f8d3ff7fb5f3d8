"""The benchmark of equality and lists: rivals agree with Scan, and figures come out of every part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench import postings
from bench.inverted import inverted
from bench.inverted_by_hand import ByHand, DuckTables, NumpyBitsets, RoaringSets
from bench.objects import as_mappings
from bench.report import Report
from matchwood import Engine
from matchwood.encode.arrays import ABSENT, INTERVAL, JOINED, MORE, make_events, make_rows
from matchwood.schema import Schema
from matchwood.workloads import Keywords, Routing, Targeting, Workload

WORKLOADS = [Targeting(size=1_500), Routing(size=4_000), Keywords(size=1_500, vocabulary=600, stop_words=10)]


def answers(workload: Workload, count: int) -> tuple[list[list[int]], Any]:
    """What Scan finds, best first, and the events as mappings."""
    engine = Engine(workload.schema(), index="scan")
    engine.subscribe_rows(workload.subscriptions())
    found = engine.match_many(workload.events(count))
    return [found.of(e)[0].tolist() for e in range(count)], list(as_mappings(workload.events(count), workload.schema()))


@pytest.mark.parametrize("kind", [RoaringSets, NumpyBitsets])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w).__name__)
def test_an_index_by_hand_finds_what_scan_finds_best_first(workload: Workload, kind: type[ByHand]) -> None:
    index = kind(inverted(workload.subscriptions()), workload.schema())
    expected, events = answers(workload, 25)
    assert max(map(len, expected)) > 4
    for event, want in zip(events, expected, strict=True):
        assert index.match(event).tolist() == want
        assert index.top_k(event, 4).tolist() == want[:4]
    assert index.nbytes > 0


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w).__name__)
def test_tables_by_hand_find_what_scan_finds_best_first(workload: Workload) -> None:
    found_events, ids = DuckTables(inverted(workload.subscriptions())).match_many(workload.events(25))
    expected, _ = answers(workload, 25)
    assert [ids[found_events == e].tolist() for e in range(25)] == expected


def test_an_index_by_hand_knows_absence_exclusion_and_lists() -> None:
    schema = Schema({"a": "number", "b": "number"}, learn=False)
    # a IN (1, 3) AND b IS NULL; a = 1 AND b != 5; b BETWEEN 2 AND 6
    dims, kinds = [0, 0, 1, 0, 1, 1, 1], [INTERVAL, MORE, ABSENT, INTERVAL, INTERVAL, MORE, INTERVAL]
    lo = [1.0, 3.0, np.nan, 1.0, -np.inf, np.nextafter(5.0, 6.0), 2.0]
    hi = [1.0, 3.0, np.nan, 1.0, np.nextafter(5.0, 4.0), np.inf, 6.0]
    rows = make_rows([0, 1, 2], [0.0, 1.0, 2.0], [0, 3, 6, 7], dims, kinds, lo, hi, np.zeros(7))
    index = NumpyBitsets(inverted(rows), schema)
    for event, want in (
        ({"a": 1.0}, [0]),
        ({"a": 1.0, "b": 5.0}, [2]),
        ({"a": 1.0, "b": 6.0}, [2, 1]),
        ({"a": [1.0, 3.0]}, [0]),
        ({"b": 1.0}, []),
    ):
        assert index.match(event).tolist() == want


def test_an_inverted_file_refuses_what_it_cannot_hold() -> None:
    place = make_rows([0], [0.0], [0, 2], [0, 1], [INTERVAL, JOINED], [1.0, 2.0], [1.5, 2.5], [0.0, 0.0])
    with pytest.raises(SystemExit, match="without places"):
        inverted(place)
    several = make_rows([0], [0.0], [0, 2], [0, 0], [INTERVAL, MORE], [1.0, 4.0], [2.0, 5.0], [0.0, 0.0])
    with pytest.raises(SystemExit, match="single ranges"):
        inverted(several)


def test_mappings_have_strings_lists_and_points() -> None:
    schema = Schema({"tag": "string", "spot": "point", "n": "number"}, learn=False)
    tag = schema.find("tag")
    assert tag.symbols is not None
    tag.symbols.code("x"), tag.symbols.code("y")
    keys = [0.0, 1.0, 10.0, 59.0, 7.0, 1.0]
    events = make_events([0, 5, 6], [0, 0, 1, 2, 3, 0], keys, keys)
    first = {"tag": ["x", "y"], "spot": (10.0, 59.0), "n": 7.0}
    assert list(as_mappings(events, schema)) == [first, {"tag": "y"}]


def test_a_rival_that_differs_ends_the_run() -> None:
    workload = Targeting(size=1_000)
    expected, events = answers(workload, 10)
    batch = postings.Batch(workload.events(10), events)
    other = NumpyBitsets(inverted(Targeting(size=1_000, seed=9).subscriptions()), workload.schema())
    with pytest.raises(SystemExit, match="NumPy bitsets and scan differ"):
        postings.verify_rival(other, batch, expected)
    engine = Engine(workload.schema(), index="scan")
    engine.subscribe_rows(workload.subscriptions())
    with pytest.raises(SystemExit, match="scan and scan differ on event 0"):
        postings.verify_engine("scan", engine, batch, [[-1]], [[0.0]])


def test_every_part_gives_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "cold", lambda report, size: None)
    monkeypatch.setattr(postings, "KINDS", {postings.ADS: Targeting})
    monkeypatch.setattr(postings, "SIZES", {"quick": 2_000})
    monkeypatch.setattr(postings, "CHANGED", 50)
    monkeypatch.setattr(postings, "TIMED", 40)
    monkeypatch.setattr(postings, "EFFORTS", {"quick": postings.Effort(0.001, 1)})
    report = Report("quick")
    postings.run("quick", report)
    found = {(row.system, row.metric) for row in report.rows}
    both = ("us_per_event", "us_per_event_ordered", "us_per_event_top_5", "match_us", "match_arrays_us", "top_5_us")
    for system in ("postings", "auto", "pyroaring", "NumPy bitsets"):
        assert {(system, metric) for metric in both} <= found
    assert ("DuckDB", "us_per_event") in found
    changed = ("insert", "bulk_insert", "delete", "bulk_delete", "update", "set_priority", "subscribe", "build")
    changed += ("index_insert", "index_delete")
    assert {("postings", f"{metric}_us") for metric in changed} <= found
    assert all(row.verified for row in report.rows if row.metric in both)
