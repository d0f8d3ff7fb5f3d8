"""Spatial shards: events routed to them, every task mapping all of them, and one shard; and places that most events fall into."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from bench.report import side_by_side
from bench.spark_setup import INDEX, K, Setup, drain, opened
from bench.spark_world import DIMS, SEED, Shape, sum_here, sum_there, write_event_table, write_subscription_table
from matchwood.encode.arrays import Events, make_events

ROUTED = "6 intervals, small places"
PLACES = Shape(place=0.02, other=0.45)
HOT = 0.8
"""The share of events that fall into one small place."""
HOT_PLACE = (0.40, 0.45)
"""Its range of both coordinates: inside one or two of the cells."""


def routed(setup: Setup) -> None:
    """Compare spatial shards, with events routed and with every task mapping all shards, with one shard."""
    from matchwood.spark.index_stage import build_index
    from matchwood.spark.match_stage import match_events

    spark, n = setup.session(), setup.sizes["routed"]
    shards, table = setup.sizes["shards"], setup.event_table(spark, n)
    start = time.perf_counter()
    spread = spread_index(setup)
    setup.row(f"{INDEX}, {shards} shards", "build_and_publish_s", time.perf_counter() - start, workload=ROUTED)
    copies = spread.counts["subscriptions"] / setup.sizes["subscriptions"]
    setup.row(f"{INDEX}, {shards} shards", "copies_per_subscription", copies, workload=ROUTED)
    lake = setup.lakes["places"]
    one = build_index(spark.read.parquet(str(setup.folder / "placed")), lake, lake.codebook(), index=INDEX)
    calls = {
        "one shard": lambda k: match_events(table, one, k=k),
        f"{shards} shards, all in every task": lambda k: match_events(table, spread, k=k, route=False),
        f"{shards} shards, events routed": lambda k: match_events(table, spread, k=k, route=True),
    }
    here = opened(one)
    for k, what in ((None, "all"), (K, f"top-{K}")):
        truth = sum_here(here, setup.events.take(0, n), k)
        for system, call in calls.items():
            assert sum_there(call(k)) == truth, f"{system}, {what}: differs from the index in this process"
        times = side_by_side({s: partial(drain, call(k)) for s, call in calls.items()}, repeats=3)
        for system, timing in times.items():
            ratio = times["one shard"].median / timing.median
            setup.row(f"{system}, {what}", "us_per_event", timing.median / n * 1e6, n=n, workload=ROUTED,
                      baseline="one shard", ratio=ratio, verified=True, spread=timing.spread / n * 1e6)  # fmt: skip
    skewed(setup, spread, here)


def spread_index(setup: Setup) -> Any:
    """Build an index of subscriptions with small places, in spatial shards, in the lake "places"."""
    from matchwood.spark.index_stage import build_index

    lake = setup.new_lake("places", {"place": "point", **{f"d{d}": "number" for d in range(2, DIMS)}})
    write_subscription_table(PLACES.subscriptions(setup.sizes["subscriptions"]), setup.folder / "placed")
    subscriptions = setup.session().read.parquet(str(setup.folder / "placed"))
    return build_index(subscriptions, lake, lake.codebook(), index=INDEX, shards=setup.sizes["shards"], by="space")


def skewed(setup: Setup, spread: Any, here: Any) -> None:
    """Route events of which most fall into one place, with adaptive execution on and off, and the same events unrouted."""
    from matchwood.spark.match_stage import match_events

    spark, n, shards = setup.session(), setup.sizes["routed"], setup.sizes["shards"]
    events = hot_events(setup.events.take(0, n))
    truth = sum_here(here, events, K)
    write_event_table(events, setup.folder / "hot")
    table = spark.read.parquet(str(setup.folder / "hot"))

    def run(route: bool, adaptive: bool) -> None:
        spark.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
        drain(match_events(table, spread, k=K, route=route))

    calls = {
        "all in every task": partial(run, False, True),
        "events routed": partial(run, True, True),
        "events routed, not adaptive": partial(run, True, False),
    }
    was = spark.conf.get("spark.sql.adaptive.enabled")
    try:
        for system, call in calls.items():
            call()
            found = sum_there(match_events(table, spread, k=K, route=system != "all in every task"))
            assert found == truth, f"{system}, hot place: differs from the index in this process"
        times = side_by_side(calls, repeats=3)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", was)
    base = times["all in every task"].median
    for system, timing in times.items():
        setup.row(f"{shards} shards, {system}, hot place", "us_per_event", timing.median / n * 1e6, n=n, workload=ROUTED,
                  baseline="all in every task", ratio=base / timing.median, verified=True,
                  spread=timing.spread / n * 1e6)  # fmt: skip


def hot_events(events: Events) -> Events:
    """The events, of which a share is moved to the hot place."""
    values = events.lo.reshape(-1, DIMS).copy()
    is_hot = np.random.default_rng(SEED + 2).random(len(values)) < HOT
    low, high = HOT_PLACE
    values[is_hot, :2] = low + values[is_hot, :2] * (high - low)
    flat = values.ravel()
    return make_events(events.offsets, events.dims, flat, flat)
