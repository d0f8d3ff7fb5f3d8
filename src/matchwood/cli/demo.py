"""`matchwood demo`: a seeded city of people with saved searches, offers that come in, and who should hear of them first."""

from __future__ import annotations

import argparse
import time

import numpy as np

from matchwood.cli.progress import Progress
from matchwood.encode.arrays import Events, Matches
from matchwood.engine import Engine
from matchwood.lang.event import Event
from matchwood.schema import Point
from matchwood.workloads import City

GOODS = {
    "phone": 600,
    "bicycle": 400,
    "sofa": 500,
    "flat": 2600,
    "guitar": 350,
    "camera": 700,
    "desk": 150,
    "piano": 3000,
}
"""What is offered, and a usual price."""
CONDITIONS = ("new", "good", "worn")
CHUNK = 200


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("demo", help="match offers with saved searches in a seeded city")
    parser.add_argument("--subscriptions", type=_positive, default=100_000, metavar="N")
    parser.add_argument("--events", type=_positive, default=5_000, metavar="N")
    parser.add_argument("-k", type=_positive, default=10, help="how many of the best matches an event keeps")
    parser.add_argument("--index", default="scan", help="the index to use")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Make the city, register the searches, rank the offers, show one of them."""
    city = City(size=options.subscriptions, source="synthetic", seed=options.seed)
    print(
        f"A seeded city: {options.subscriptions:,} saved searches, {options.events:,} offers, index {options.index!r}.\n"
    )
    engine = Engine({"place": "point"}, index=options.index)
    texts = saved_searches(city, np.random.default_rng(options.seed))
    with Progress("reading saved searches", len(texts)) as bar:
        engine.subscribe_many(texts, progress=bar.at)
    offers = offers_of(city, options.events, np.random.default_rng(options.seed + 1))
    engine.top_k(offers[0], options.k)  # compiles, or loads what was compiled before
    counts = rank_all(engine, offers, options.k)
    best = int(np.argmax(counts))
    show(engine, offers[best], options.k)
    measure(engine, offers, options.k, counts)


def saved_searches(city: City, rng: np.random.Generator) -> list[str]:
    """One search a person: a thing, a price, around home, and often a condition or a rating; weights say what matters."""
    rows = city.subscriptions()
    lon, lat = (rows.lo + rows.hi)[rows.offsets[:-1]] / 2, (rows.lo + rows.hi)[rows.offsets[:-1] + 1] / 2
    goods = rng.choice(list(GOODS), size=city.size)
    factor = np.round(rng.lognormal(0.0, 0.5, city.size), 2)
    radius = np.round(rng.lognormal(0.0, 0.7, city.size), 2) + 0.1
    weights = np.round(rng.random((city.size, 3)), 2)
    extra = rng.integers(0, 4, city.size)
    searches = []
    for i in range(city.size):
        text = (
            f"item = '{goods[i]}' AND price <= {round(GOODS[goods[i]] * factor[i])} ^{weights[i, 0]}"
            f" AND DWITHIN(place, POINT({lon[i]:.5f} {lat[i]:.5f}), {radius[i]:.2f} km) ^{weights[i, 1]}"
        )
        if extra[i] == 1:
            text += f" AND condition IN ('new', 'good') ^{weights[i, 2]}"
        elif extra[i] == 2:
            text += f" AND seller_rating >= {3 + weights[i, 0]:.1f} ^{weights[i, 2]}"
        elif extra[i] == 3:
            text += f" AND condition != 'worn' AND (delivery = TRUE ^{weights[i, 2]} OR seller_rating > 4.5)"
        searches.append(text)
    return searches


def offers_of(city: City, count: int, rng: np.random.Generator) -> list[Event]:
    """Offers at the hot spots of the city."""
    places = _places(city.events(count))
    offers = []
    for i, place in enumerate(places):
        item = str(rng.choice(list(GOODS)))
        values: dict[str, object] = {
            "item": item,
            "price": round(float(GOODS[item] * rng.lognormal(-0.2, 0.5))),
            "condition": str(rng.choice(CONDITIONS)),
            "seller_rating": round(float(rng.uniform(2.5, 5.0)), 1),
        }
        if rng.random() < 0.7:
            values["delivery"] = bool(rng.random() < 0.5)
        offers.append(Event(values, id=i, place=place))
    return offers


def rank_all(engine: Engine, offers: list[Event], k: int) -> np.ndarray:
    """Rank every offer, with a bar; return how many matches each has, at most k."""
    counts = []
    with Progress(f"ranking offers, best {k} of each", len(offers)) as bar:
        for first in range(0, len(offers), CHUNK):
            matches: Matches = engine.top_k_many(offers[first : first + CHUNK], k)
            counts.append(np.diff(matches.offsets))
            bar.at(first + CHUNK)
    return np.concatenate(counts)


def show(engine: Engine, offer: Event, k: int) -> None:
    """The ranked table of one offer, and why the best is the best."""
    assert offer.place is not None
    facts = ", ".join(f"{name} {value}" for name, value in offer.values.items())
    print(f"\nOffer {offer.id}: {facts}, at {offer.place[0]:.4f} {offer.place[1]:.4f}\n")
    matches = engine.top_k(offer, k)
    if not matches:
        print("Nobody is looking for it.")
        return
    print("rank        id   score  saved search")
    for rank, match in enumerate(matches, 1):
        print(f"{rank:>4}  {match.id:>8}  {match.score:>6.3f}  {engine.subscription(match.id).expression}")
    print("\nWhy the first one:\n")
    print(engine.explain(offer, matches[0].id))


def measure(engine: Engine, offers: list[Event], k: int, counts: np.ndarray) -> None:
    """Throughput on one thread, events as Python objects."""
    sample = offers[:1000]
    engine.match_many(sample[:1])  # compiles, or loads what was compiled before
    start = time.perf_counter()
    matches = engine.match_many(sample)
    middle = time.perf_counter()
    engine.top_k_many(sample, k)
    end = time.perf_counter()
    print(f"\n{len(engine):,} subscriptions, {len(matches.ids) / len(sample):.1f} matches an offer, one thread:")
    for label, seconds in (("all matches, ranked", middle - start), (f"the best {k}", end - middle)):
        print(
            f"  {label:<20} {len(sample) / seconds:>9,.0f} offers/s   {seconds / len(sample) * 1e6:>7,.0f} us an offer"
        )
    print(f"{int((counts > 0).sum()):,} of {len(counts):,} offers found somebody.")


def _places(events: Events) -> list[Point]:
    """Where the city's events happen: their first two dimensions are longitude and latitude."""
    lon, lat = events.lo[events.dims == 0], events.lo[events.dims == 1]
    return [Point(x, y) for x, y in zip(lon.tolist(), lat.tolist(), strict=True)]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number >= 1, got {text}")
    return number
