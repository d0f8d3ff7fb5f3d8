"""`matchwood demo --local`: the city in this process, without Spark."""

from __future__ import annotations

import argparse
import time

import numpy as np

from matchwood.cli.compiling import compile_parts
from matchwood.cli.demo_city import offers_of, saved_searches
from matchwood.cli.progress import Progress
from matchwood.encode.arrays import Matches
from matchwood.engine import Engine
from matchwood.lang.event import Event
from matchwood.structures import INDEXES
from matchwood.workloads import City

CHUNK = 200


def run(options: argparse.Namespace) -> None:
    """Make the city, subscribe the searches, rank the offers, show one of them."""
    city = City(size=options.subscriptions, source="synthetic", seed=options.seed)
    print(
        f"A synthetic city: {options.subscriptions:,} saved searches, {options.events:,} offers, index {options.index!r}.\n"
    )
    if options.index in INDEXES:
        compile_parts(["scan", options.index])
    engine = Engine({"place": "point"}, index=options.index)
    texts = saved_searches(city, np.random.default_rng(options.seed))
    with Progress("reading saved searches", len(texts)) as bar:
        engine.subscribe_many(texts, progress=bar.at)
    offers = offers_of(city, options.events, np.random.default_rng(options.seed + 1))
    engine.top_k(offers[0], options.k)  # loads the kernels
    counts = rank_all(engine, offers, options.k)
    best = int(np.argmax(counts))
    show(engine, offers[best], options.k)
    measure(engine, offers, options.k, counts)


def rank_all(engine: Engine, offers: list[Event], k: int) -> np.ndarray:
    """Rank every offer; return the number of matches of each, at most k."""
    counts = []
    with Progress(f"ranking offers, best {k} of each", len(offers)) as bar:
        for first in range(0, len(offers), CHUNK):
            matches: Matches = engine.top_k_many(offers[first : first + CHUNK], k)
            counts.append(np.diff(matches.offsets))
            bar.at(first + CHUNK)
    return np.concatenate(counts)


def show(engine: Engine, offer: Event, k: int) -> None:
    """Print the ranked matches of one offer, and the explanation of the best."""
    assert offer.place is not None
    facts = ", ".join(f"{name} {value}" for name, value in offer.values.items())
    print(f"\nOffer {offer.id}: {facts}, at {offer.place[0]:.4f} {offer.place[1]:.4f}\n")
    matches = engine.top_k(offer, k)
    if not matches:
        print("No search matches.")
        return
    print("rank        id   score  saved search")
    for rank, match in enumerate(matches, 1):
        print(f"{rank:>4}  {match.id:>8}  {match.score:>6.3f}  {engine.subscription(match.id).expression}")
    print("\nExplanation of the first match:\n")
    print(engine.explain(offer, matches[0].id))


def measure(engine: Engine, offers: list[Event], k: int, counts: np.ndarray) -> None:
    """Print the throughput of one thread, with events as Python objects."""
    sample = offers[:1000]
    engine.match_many(sample[:1])  # loads the kernels
    start = time.perf_counter()
    matches = engine.match_many(sample)
    middle = time.perf_counter()
    engine.top_k_many(sample, k)
    end = time.perf_counter()
    print(f"\n{len(engine):,} subscriptions, {len(matches.ids) / len(sample):.1f} matches per offer, one thread:")
    for label, seconds in (("all matches, ranked", middle - start), (f"the best {k}", end - middle)):
        print(
            f"  {label:<20} {len(sample) / seconds:>9,.0f} offers/s   {seconds / len(sample) * 1e6:>7,.0f} us per offer"
        )
    print(f"{int((counts > 0).sum()):,} of {len(counts):,} offers have a match.")
