"""The city of the demo: people with saved searches, and offers at its hot spots. Seeded."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Events
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
"""The items, each with a usual price."""
CONDITIONS = ("new", "good", "worn")


def saved_searches(city: City, rng: np.random.Generator) -> list[str]:
    """A search for each person: an item, a price, a circle around home, and often a condition or a rating, with weights."""
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


def _places(events: Events) -> list[Point]:
    """The places of events; their first two dimensions are longitude and latitude."""
    lon, lat = events.lo[events.dims == 0], events.lo[events.dims == 1]
    return [Point(x, y) for x, y in zip(lon.tolist(), lat.tolist(), strict=True)]
