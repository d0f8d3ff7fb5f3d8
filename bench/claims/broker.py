"""The broker: our targets, and PostgreSQL that holds the same subscriptions."""

from __future__ import annotations

from bench.broker import BROKER, POSTGRES, SIZES
from bench.claims.forms import Chapter, Claim, Figure, Rival, Section, Target, at, at_least, at_most, scaled

KEPT = SIZES["paper"]["kept"]


def each(rate: Figure) -> Figure:
    """Microseconds an event, from events a second."""
    return lambda experiment: 1e6 / rate(experiment)


def against_postgres(what: str, workload: str, target: Target) -> Claim:
    """Events a second beside those of PostgreSQL, which is compared by the time of an event."""
    ours, theirs = (at(workload, system, "events a second") for system in (BROKER, POSTGRES))
    return Claim(what, ours, "/s", target=target, rival=Rival(POSTGRES, each(theirs), each(ours)))


def figure(what: str, workload: str, metric: str, unit: str, target: Target | None = None, why: str = "") -> Claim:
    """A figure of the broker alone."""
    return Claim(what, at(workload, BROKER, metric), unit, target=target, why=why)


CHAPTER = Chapter(
    "broker",
    "The broker",
    "`python -m bench broker`. `matchwood serve` on one core, the load on the other, real sockets, wall time. An event counts "
    "when its answer has come, which says that it is on disk. PostgreSQL holds the same subscriptions in a table with a GiST "
    "index, is asked for the ten best of each event and stores it with them, with as many connections and as large transactions.",
    [
        Section(
            "Publishing",
            "",
            [
                against_postgres("one event a request, 64 connections, 1,000 circles", "single", at_least(15_000)),
                figure("the same, median of a request", "single", "p50 ms", "ms", at_most(5)),
                figure("the same, 99th percentile", "single", "p99 ms", "ms", at_most(30)),
                against_postgres("batches of 100 events, 100,000 ranked circles, k = 10", "batches", at_least(60_000)),
                figure("the same, processor time of an event", "batches", "processor us an event", "µs"),
            ],
        ),
        Section(
            "Delivery",
            "",
            [
                figure(
                    "1,000 streams, 10 matches a second each: processor time of a delivery",
                    "streams",
                    "processor us a delivery",
                    "µs",
                    at_most(15),
                ),
                figure("the same, 99th percentile of the delay", "streams", "p99 ms", "ms", at_most(30)),
                figure("webhooks", "webhooks", "deliveries a second", "/s", at_least(3_000)),
            ],
        ),
        Section(
            "Recovery",
            "",
            [
                figure(
                    f"{KEPT:,} subscriptions and {KEPT // 10:,} changes, killed and started: until the first answer",
                    "recovery",
                    "seconds",
                    "s",
                    at_most(10),
                ),
            ],
        ),
        Section(
            "The load",
            "",
            [
                Claim(
                    f"share of its own core that the load has used, {what}",
                    scaled(at(workload, BROKER, "load's share of its core"), 100),
                    "%",
                )
                for workload, what in (
                    ("single", "one event a request"),
                    ("batches", "batches"),
                    ("streams", "streams"),
                )
            ],
            differs="Near 100 % it is the load that is measured, not the broker.",
        ),
    ],
)
