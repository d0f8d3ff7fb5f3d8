from __future__ import annotations

from time import perf_counter

import pytest

from matchwood.workloads import VCR, BEGen, City, Covering, Keywords, Ranked, Routing, Targeting, Workload

MILLION = {
    "begen-uniform": BEGen(),
    "begen-zipf": BEGen.preset("zipf"),
    "ranked-d8": Ranked.preset("d8"),
    "covering-d16": Covering.preset("d16", size=1_180_000),
    "vcr": VCR.preset("large-90-1", size=1_000_000),
    "city-k10": City.preset("k10"),
    "targeting": Targeting.preset("1m"),
    "routing": Routing.preset("1m"),
    "keywords": Keywords.preset("1m"),
}


@pytest.mark.stress
@pytest.mark.parametrize("workload", MILLION.values(), ids=MILLION.keys())
def test_a_million_subscriptions_take_less_than_ten_seconds(workload: Workload) -> None:
    start = perf_counter()
    rows = workload.subscriptions()
    assert perf_counter() - start < 10
    assert rows.size >= 1_000_000
    if isinstance(workload, BEGen):
        workload.verify(rows=rows)
