"""Graded top-k beside plain top-k: the same subscriptions with and without DECAY, in the same structures.

nearest     circles of 200 m to 5 km around places of a city, and a price; places and prices of offers
cheapest    a category, a largest price and a smallest rating; the price and the rating are graded

Each with one weight for all subscriptions, as people write "nearest first", and with weights that differ, where plain top-k finds
its ten best by their weights alone. Metric: microseconds of processor time per event for the ten best of a batch (`top_k_many`),
the least of the rounds, in which plain and graded alternate. Answers are compared with those of Scan first, and a sample with
the definition of the language. The ratio is plain / graded: 0.67 is half as slow again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.report import Report
from matchwood import Engine, Event
from matchwood.encode.arrays import Events, Matches
from matchwood.encode.events import encode_events

SIZES = {"quick": 5_000, "paper": 100_000}
EVENTS = {"quick": 100, "paper": 1_000}
ROUNDS = 7
COMPARED = 10
K = 10
CATEGORIES = 40
SYSTEMS = ("auto", "mo-tree", "be-star-tree", "scan")


def run(preset: str, report: Report) -> None:
    """One part for each workload."""
    for name, make in (("L3 nearest", nearest), ("L3 cheapest", cheapest)):
        for weights, spread in (("one weight", 0.0), ("weights differ", 4.0)):
            workload = f"{name}, {weights}"
            report.part(f"graded, {workload}", partial(measure, preset, report, workload, partial(make, spread)))


def nearest(spread: float, rng: random.Random, graded: bool) -> tuple[Callable[[], str], Callable[[], Event]]:
    """Texts of circles, and events at places."""
    decay = " DECAY" if graded else ""

    def text() -> str:
        lon, lat = rng.gauss(-73.97, 0.05), rng.gauss(40.75, 0.05)
        radius = round(200 * 25 ** rng.random())
        weight, price = round(rng.uniform(1, 1 + spread), 2), rng.randrange(50, 1000)
        return f"DWITHIN(place, POINT({lon:.6f} {lat:.6f}), {radius} m) ^{weight}{decay} AND price <= {price} ^0"

    def event() -> Event:
        place = {"lon": rng.gauss(-73.97, 0.05), "lat": rng.gauss(40.75, 0.05)}
        return Event({"place": place, "price": rng.randrange(1, 1000)})

    return text, event


def cheapest(spread: float, rng: random.Random, graded: bool) -> tuple[Callable[[], str], Callable[[], Event]]:
    """Texts of a category, a price and a rating, and events."""

    def text() -> str:
        price, rating = rng.randrange(50, 1000), round(rng.uniform(1, 4), 1)
        weight = round(rng.uniform(1, 1 + spread), 2)
        line = f" DECAY(LINEAR, ORIGIN 0, SCALE {price})" if graded else ""
        power = " DECAY(EXP, ORIGIN 5, SCALE 1)" if graded else ""
        category = f"category = 'c{rng.randrange(CATEGORIES)}' ^0"
        return f"{category} AND price <= {price} ^{weight}{line} AND rating >= {rating}{power}"

    def event() -> Event:
        category = f"c{rng.randrange(CATEGORIES)}"
        return Event({"category": category, "price": rng.randrange(1, 1000), "rating": round(rng.uniform(1, 5), 1)})

    return text, event


def measure(preset: str, report: Report, name: str, make: Callable[..., Any]) -> None:
    """Every system on one workload, plain and graded."""
    size, count = SIZES[preset], EVENTS[preset]
    for system in SYSTEMS:
        calls: dict[bool, Callable[[Events], Matches]] = {}
        batches: dict[bool, Events] = {}
        for graded in (False, True):
            text, event = make(random.Random(1), graded)
            texts = [text() for _ in range(size)]
            events = [event() for _ in range(count)]
            engine = Engine(index=system)
            engine.subscribe_many(texts)
            batches[graded] = encode_events(events, engine.schema)
            calls[graded] = partial(engine.top_k_many, k=K)
            if system == "auto":
                calls[graded](batches[graded])
                engine.replan()
            check(engine, texts, events, batches[graded])
        values = timed(calls, batches)
        for graded, value in values.items():
            report.row(
                workload=name,
                system=f"{system}, {'graded' if graded else 'plain'}",
                n=size,
                metric=f"us_per_event_top_{K}",
                value=1e6 * value,
                baseline=f"{system}, plain" if graded else None,
                ratio=values[False] / value if graded else None,
                verified=True,
            )
    report.workload(name, size=size, events=count, k=K, seed=1)


def check(engine: Engine, texts: list[str], events: list[Event], batch: Events) -> None:
    """Exit unless the first answers are those of Scan, and their scores those of the definition."""
    truth = Engine(engine.schema, index="scan")
    truth.subscribe_many(texts)
    few = batch.take(0, COMPARED)
    found, expected = engine.top_k_many(few, K), truth.top_k_many(few, K)
    if not (np.array_equal(found.ids, expected.ids) and np.array_equal(found.scores, expected.scores)):
        raise SystemExit("the ten best differ from those of scan")
    for position in range(2):
        for id_, score in zip(*(part.tolist() for part in found.of(position)), strict=True):
            if engine.explain(events[position], id_).score != score:
                raise SystemExit(f"the score of subscription {id_} differs from the definition")


def timed(calls: dict[bool, Callable[[Events], Matches]], batches: dict[bool, Events]) -> dict[bool, float]:
    """Seconds per event of each call, the least of the rounds."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for graded, call in calls.items():
            start = time.process_time()
            call(batches[graded])
            least[graded] = min(least[graded], (time.process_time() - start) / batches[graded].size)
    return least
