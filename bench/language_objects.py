"""Conditions on the objects of a list: the engine beside a plain loop over conditions and objects.

A subscription asks for one object with a stock number, at least a quantity, and less than a price; an event has ten objects.
Metrics, in processor time:

    us_per_event     all matches of a batch of mappings (`match_many`)
    match_us         single calls with a mapping
    subscribe_us     a subscription from its text, one after the other

Before anything is timed, the answers are compared with those of the loop.
"""

from __future__ import annotations

import random
import time
from functools import partial
from typing import Any, NamedTuple

from bench.language_patterns import cpu_us
from bench.report import Report
from matchwood import Engine

WORKLOAD = "L4 objects in lists"
SIZES = {"quick": 5_000, "paper": 100_000}
EVENTS = {"quick": 100, "paper": 1_000}
COMPARED = 20
OBJECTS = 10
STOCK = 5
"""Conditions for each stock number."""


class Wanted(NamedTuple):
    """A subscription."""

    sku: str
    quantity: int
    price: int

    @property
    def expression(self) -> str:
        return f"ANY(items, sku = '{self.sku}' AND qty >= {self.quantity} AND price < {self.price})"

    def holds(self, event: dict[str, Any]) -> bool:
        return any(
            item["sku"] == self.sku and item["qty"] >= self.quantity and item["price"] < self.price
            for item in event["items"]
        )


def run(preset: str, report: Report) -> None:
    """One part."""
    report.part(f"objects in lists, {SIZES[preset]:,}", partial(measure, preset, report))


def made(size: int, events: int) -> tuple[list[Wanted], list[dict[str, Any]]]:
    """Subscriptions and events, seeded."""
    rng = random.Random(1)

    def sku() -> str:
        return f"s{rng.randrange(size // STOCK)}"

    wanted = [Wanted(sku(), rng.randrange(1, 20), rng.randrange(5, 500)) for _ in range(size)]
    values = [
        {
            "order": number,
            "items": [
                {"sku": sku(), "qty": rng.randrange(1, 20), "price": rng.uniform(5, 500)} for _ in range(OBJECTS)
            ],
        }
        for number in range(events)
    ]
    return wanted, values


def measure(preset: str, report: Report) -> None:
    """The engine and the loop on one workload."""
    size = SIZES[preset]
    wanted, events = made(size, EVENTS[preset])
    report.workload(f"{WORKLOAD}, {size:,}", size=size, events=len(events), objects=OBJECTS, seed=1)
    start = time.process_time()
    engine = Engine()
    for one in wanted:
        engine.subscribe(one.expression)
    subscribing = (time.process_time() - start) / size * 1e6
    for event in events[:COMPARED]:
        expected = [number for number, one in enumerate(wanted) if one.holds(event)]
        answer = sorted(int(match.id) for match in engine.match(event))
        if answer != expected:
            raise SystemExit(f"the engine answers {answer}, expected {expected}")
    engine.match_many(events)
    engine.replan()  # now, so that no trial runs beside what is timed
    record = partial(report.row, workload=WORKLOAD, n=size, verified=True)
    loop = cpu_us(lambda: [[one.holds(event) for one in wanted] for event in events[:3]], 3)
    record(system="loop", metric="us_per_event", value=loop)
    batch = cpu_us(lambda: engine.match_many(events), len(events))
    record(system="auto", metric="us_per_event", value=batch, baseline="loop", ratio=loop / batch)
    single = cpu_us(lambda: [engine.match(event) for event in events], len(events))
    record(system="auto", metric="match_us", value=single, baseline="loop", ratio=loop / single)
    record(system="auto", metric="subscribe_us", value=subscribing)
