"""Marketplace: shares of the kinds, the shape of rows and events, and that the seed decides everything."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood import Engine
from matchwood.encode.arrays import INTERVAL, JOINED
from matchwood.workloads import Marketplace, WorkloadError, measure
from matchwood.workloads.marketplace import LAT, LON, PRICE, PRODUCT, SELLER, TAGS


def test_the_seed_decides_everything_and_batches_differ() -> None:
    one, same, other = Marketplace(size=500), Marketplace(size=500), Marketplace(size=500, seed=2)
    for a, b in zip(one.subscriptions(), same.subscriptions(), strict=True):
        assert np.array_equal(a, b)
    assert not np.array_equal(one.subscriptions().priority, other.subscriptions().priority)
    assert not np.array_equal(one.events(9).lo, one.events(9, batch=1).lo)
    assert np.array_equal(one.events(9).lo, Marketplace(size=7).events(9).lo)


def test_half_the_searches_are_local_three_tenths_exact_and_the_others_tagged() -> None:
    rows = Marketplace(size=20_000).subscriptions()
    heads = rows.kinds == INTERVAL
    shares = {dim: float((rows.dims[heads] == dim).mean() * heads.sum() / rows.size) for dim in range(7)}
    assert shares[LON] == pytest.approx(0.5, abs=0.02)
    assert shares[PRODUCT] + shares[SELLER] == pytest.approx(0.3, abs=0.02)
    assert shares[TAGS] == pytest.approx(0.2, abs=0.02)
    assert shares[PRICE] == pytest.approx(0.75, abs=0.02)
    assert (rows.kinds[rows.dims == LAT] == JOINED).all()
    assert (np.diff(rows.offsets) > 0).all()


def test_offers_have_a_list_of_tags_and_match_about_a_hundredth_of_the_searches() -> None:
    market = Marketplace(size=5000)
    events = market.events(50)
    tags = np.bincount(np.repeat(np.arange(50), np.diff(events.offsets))[events.dims == TAGS], minlength=50)
    assert tags.min() >= 3
    assert tags.max() <= 12
    assert 0.003 < measure(market.subscriptions(), events).probability < 0.03


def test_an_engine_of_its_schema_takes_the_searches() -> None:
    market = Marketplace(size=300)
    engine = Engine(market.schema(), index="split")
    engine.subscribe_rows(market.subscriptions())
    assert len(engine) == 300
    assert "DWITHIN" not in engine.subscription(0).expression


@pytest.mark.parametrize("bad", [{"local": 0.9, "exact": 0.2}, {"products": 70_000}, {"event_tags": (0, 3)}])
def test_impossible_parameters_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(WorkloadError):
        Marketplace(**bad)  # type: ignore[arg-type]
