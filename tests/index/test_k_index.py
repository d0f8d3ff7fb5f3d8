"""What the k-index promises beyond the contract: cells, skipping, and leaving out what cannot reach the k-th score."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import make_events, make_rows
from matchwood.errors import UnsupportedError
from matchwood.structures import KIndex, Scan
from matchwood.workloads import BEGen
from tests.worlds import listed, ranked


@pytest.mark.parametrize("law", ["uniform", "zipf"])
@pytest.mark.parametrize("spread", [0, 3])
def test_agrees_with_scan_on_rows_of_one_size_and_of_many(law: str, spread: int) -> None:
    workload = BEGen.preset(law, size=4000, dimensions=60, size_spread=spread, match_probability=0.01)
    rows, events = workload.subscriptions(), workload.events(60)
    index, scan = KIndex.build(rows), Scan.build(rows)
    assert ranked(index.match(events)) == ranked(scan.match(events))
    for k in (1, 5, 500):
        assert listed(index.top_k(events, k)) == listed(scan.top_k(events, k))
    some = events.take(0, 4)
    assert ranked(index.match(some, mode="any")) == ranked(scan.match(some, mode="any"))
    assert listed(index.top_k(some, 7, mode="any")) == listed(scan.top_k(some, 7, mode="any"))


def test_check_holds_and_notices_a_row_in_the_wrong_list() -> None:
    index = KIndex.build(BEGen(size=300, dimensions=30, match_probability=0.02).subscriptions())
    index.check()
    postings = index._postings.postings
    postings[5] = (int(postings[5]) + 1) % 300
    with pytest.raises(AssertionError, match="list"):
        index.check()


def test_few_keys_are_enumerated_and_wide_intervals_do_not_blow_the_lists_up() -> None:
    n = 2000
    lo = np.arange(n) % 10
    narrow = make_rows(range(n), np.zeros(n), range(n + 1), np.zeros(n), np.zeros(n), lo, lo, np.ones(n))
    index = KIndex.build(narrow)
    assert index.stats().nodes >= 10
    index.match(make_events([0, 1], [0], [3.0], [3.0]))
    assert index.stats().candidates == n / 10
    wide = narrow._replace(lo=np.linspace(0, 400, n), hi=np.linspace(600, 1000, n))
    assert KIndex.build(wide).stats().details["postings"] <= 8 * n


def test_only_rows_in_enough_lists_are_verified() -> None:
    workload = BEGen(size=5000, match_probability=0.01)
    index, events = KIndex.build(workload.subscriptions()), workload.events(50)
    hits = index.match(events)
    assert index.stats().candidates < 1.2 * len(hits.ids)


def test_top_1_verifies_fewer_rows_than_all() -> None:
    workload = BEGen.preset("zipf", size=5000, match_probability=0.02)
    index, events = KIndex.build(workload.subscriptions()), workload.events(50)
    index.match(events)
    everything = index.stats().candidates
    index.reset_counters()
    index.top_k(events, 1)
    assert index.stats().candidates < everything


def test_it_is_static_and_says_so() -> None:
    rows = BEGen(size=50, match_probability=0.1).subscriptions()
    index = KIndex.build(rows.take(0, 40))
    with pytest.raises(UnsupportedError, match="k-index"):
        index.insert(rows.take(40, 50))
    with pytest.raises(UnsupportedError, match="k-index"):
        index.delete(np.array([3]))
