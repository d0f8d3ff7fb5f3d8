"""The benchmark of the front door: rivals agree with the oracle, and figures come out of every part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import frontdoor
from bench.ads import CHOICES, IDLE, SPANS, Campaigns, impressions, types
from bench.ads_by_hand import NumpyBitsets, RoaringSets
from bench.report import Report
from matchwood import Engine
from matchwood.encode.tables import read_subscriptions


def plainly_matching(campaigns: Campaigns, event: dict[str, Any]) -> list[int]:
    """The matching campaigns, best first, by a loop over the columns."""
    found = []
    for i in range(campaigns.size):
        listed = {
            name: lists.codes[lists.offsets[i] : lists.offsets[i + 1]].tolist()
            for name, lists in campaigns.chosen.items()
        }
        in_lists = all(not codes or event[name] in [f"{name}-{c}" for c in codes] for name, codes in listed.items())
        if in_lists and all(campaigns.lo[name][i] <= event[name] <= campaigns.hi[name][i] for name in SPANS):
            found.append(i)
    totals = campaigns.bid + campaigns.predicates
    return sorted(found, key=lambda i: (-totals[i], i))


@pytest.mark.parametrize("kind", [NumpyBitsets, RoaringSets])
def test_an_index_by_hand_finds_what_a_loop_finds_best_first(kind: Any) -> None:
    if kind is RoaringSets:
        pytest.importorskip("pyroaring")
    campaigns = Campaigns(3_000, seed=3)
    index = kind(campaigns)
    sizes = []
    for event in impressions(25, seed=4):
        expected = plainly_matching(campaigns, event)
        sizes.append(len(expected))
        assert index.match(event).tolist() == expected
        assert index.top_k(event, 4).tolist() == expected[:4]
    assert max(sizes) > 4
    stranger = {**impressions(1)[0], **dict.fromkeys(CHOICES, "never seen")}
    assert index.match(stranger).tolist() == plainly_matching(campaigns, stranger)
    assert index.nbytes > 0


def test_the_first_words_of_the_bitsets_are_enough_only_if_they_hold_k() -> None:
    campaigns = Campaigns(150_000, seed=5)
    index = NumpyBitsets(campaigns)
    assert campaigns.size > 64 * NumpyBitsets.FIRST_WORDS
    for event in impressions(10, seed=6):
        for k in (1, 10, 1_000_000):
            assert index.top_k(event, k).tolist() == index.match(event).tolist()[:k]


def test_the_engine_finds_in_the_table_what_a_loop_finds_in_the_columns() -> None:
    campaigns = Campaigns(2_000, seed=1)
    engine = Engine(types(), index="scan")
    encoded = read_subscriptions(campaigns.table(), engine.schema)
    assert encoded.rejects == ()
    engine.subscribe_rows(encoded.rows)
    for event in impressions(20, seed=2):
        found = engine.match(event)
        assert [match.id for match in found] == plainly_matching(campaigns, event)
        if found:
            best = found[0].id
            assert found[0].score == pytest.approx(campaigns.bid[best] + campaigns.predicates[best])


def test_campaigns_and_impressions_are_seeded_and_of_the_promised_shape() -> None:
    campaigns, again = Campaigns(500), Campaigns(500)
    assert campaigns.table().equals(again.table())
    for name, lists in campaigns.chosen.items():
        counts = np.diff(lists.offsets)
        assert counts.max() <= CHOICES[name].most
        assert lists.codes.max() < CHOICES[name].values
    (event,) = impressions(1)
    assert len(event) == 15
    assert set(event) == {*types(), *IDLE}


def test_a_rival_that_differs_ends_the_run() -> None:
    campaigns = Campaigns(1_000)
    engine = Engine(types(), index="scan")
    engine.subscribe_rows(read_subscriptions(campaigns.table(), engine.schema).rows)
    events = impressions(10)
    frontdoor.verify(engine, NumpyBitsets(campaigns), events)
    with pytest.raises(SystemExit, match="NumPy bitsets and the engine differ"):
        frontdoor.verify(engine, NumpyBitsets(Campaigns(1_000, seed=99)), events)


def test_every_part_in_this_process_gives_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontdoor, "first_answers", lambda report, size: None)
    small = {"cold": 10, "subscribed": 200, "rectangles": 400, "city": 500, "ads": 500}
    monkeypatch.setattr(frontdoor, "SIZES", {"quick": small})
    report = Report("quick")
    frontdoor.run("quick", report)
    found = {(row.workload, row.metric) for row in report.rows if row.system == "Engine"}
    calls = ("match", "top_k", "match_with_unasked", "subscribe", "subscribe_many", "move", "update", "publish")
    assert {("front door", f"{call}_us") for call in calls} <= found
    assert {("front door", f"ndjson_{size}_us_per_event") for size in (100, 2_000)} <= found
    assert {("rectangles", f"{order}_us_per_event") for order in ("ordered", "unordered")} <= found
    assert {("ads", metric) for metric in ("match_us", "top_10_us", "build_s", "mb")} <= found
    assert ("city", "top_k_two_threads_speedup") in found
    assert ("city", "top_k_many_speedup") in found
    assert {row.system for row in report.rows if row.workload == "imports"} >= {"import matchwood", "import Engine"}
    rivals = [row for row in report.rows if row.system == "NumPy bitsets" and row.metric == "top_10_us"]
    assert rivals[0].verified
    assert rivals[0].ratio is not None


def test_a_first_answer_is_measured_in_a_process_of_its_own() -> None:
    cache = os.environ.get(
        "NUMBA_CACHE_DIR", str(Path.home() / ".cache")
    )  # that of the other tests: nothing is compiled
    figures = frontdoor.in_fresh_process(20, cache, None)
    assert figures["first_answer_s"] >= figures["import_s"] > 0
    assert figures["tree_peak_mb"] > 20
