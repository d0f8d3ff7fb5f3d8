"""Marketplace: saved searches of three kinds in one set, and offers that all of them look at.

    search   local    a square around a place, a price range, and in half of them a minimum of the seller's rating
             exact    product IN 1 to 3, or one seller; a maximum price in half of them
             tagged   tags any of 1 to 3, and a price range in half of them
    offer    a place, a price, the seller and their rating, a product and a list of tags

No paper has it: the papers' workloads have one kind of subscription each, and no single structure is good at all of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import JOINED, Events, Rows, make_events
from matchwood.schema import Schema
from matchwood.workloads import streets
from matchwood.workloads.columns import Bools, bids, in_column, range_column, rows_of_columns
from matchwood.workloads.draw import UNUSED, Uint16s, ascending, offsets_of, pick, pick_distinct, zipf
from matchwood.workloads.workload import Part, Workload, require

LON, LAT, PRICE, RATING, PRODUCT, SELLER, TAGS = range(7)
_RATINGS = 5.0


@dataclass(frozen=True, kw_only=True)
class Marketplace(Workload):
    """Saved searches of a marketplace. Codes of products, sellers and tags are numbers."""

    size: int = 100_000
    local: float = 0.5
    """Share of the searches that are local."""
    exact: float = 0.3
    """Share of those for a product or a seller; the others are for tags."""
    half_width: tuple[float, float] = (0.0005, 0.01)
    """Of a square, in degrees, log-uniform."""
    products: int = 20_000
    sellers: int = 50_000
    tags: int = 5_000
    skew: float = 0.8
    """Zipf exponent of the popularity of products, sellers and tags."""
    event_tags: tuple[int, int] = (3, 12)
    """Tags of an offer, minimum and maximum."""
    spots: int = 10_000
    """Places at which offers are made."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "100k": {},
        "1m": {"size": 1_000_000},
        "quick": {"size": 20_000},
    }

    def __post_init__(self) -> None:
        shares = self.local, self.exact
        require(
            min(shares) >= 0 and sum(shares) <= 1, f"local and exact must be shares of at most 1 together, got {shares}"
        )
        require(
            max(self.products, self.sellers, self.tags) < UNUSED and min(self.products, self.tags) >= 12,
            f"products, sellers and tags must be below {UNUSED}, products and tags at least 12",
        )
        require(
            1 <= self.event_tags[0] <= self.event_tags[1] <= self.tags,
            f"event_tags must be a range within 1 to {self.tags}, got {self.event_tags}",
        )

    def schema(self) -> Schema:
        """A place, and numbers."""
        names = ("price", "rating", "product", "seller", "tags")
        return Schema({"place": "point", **dict.fromkeys(names, "number")}, learn=False)

    def subscriptions(self) -> Rows:
        """Searches; attributes ascending, with the place first. The score of a match is a log-normal priority."""
        rng, n = self._stream(Part.SUBSCRIPTIONS), self.size
        kind = rng.random(n)
        is_local, is_tagged = kind < self.local, kind >= self.local + self.exact
        has_product = ~is_local & ~is_tagged & (rng.random(n) < 0.5)
        has_seller = ~is_local & ~is_tagged & ~has_product
        half = np.exp(rng.uniform(np.log(self.half_width[0]), np.log(self.half_width[1]), n))
        lon, lat = streets.pickups(rng, n)
        low, high = np.sort(self._prices(rng, 2 * n).reshape(2, n), axis=0)
        low[has_product | has_seller] = -np.inf
        has_price, is_strict = is_local | (rng.random(n) < 0.5), is_local & (rng.random(n) < 0.5)
        columns = [
            range_column(LON, is_local, lon - half, lon + half),
            range_column(LAT, is_local, lat - half, lat + half),
            range_column(PRICE, has_price, low, high),
            range_column(RATING, is_strict, np.round(_RATINGS * rng.random(n), 1), np.full(n, np.inf)),
            in_column(PRODUCT, self._lists(rng, has_product, self.products, 3)),
            in_column(SELLER, self._lists(rng, has_seller, self.sellers, 1)),
            in_column(TAGS, self._lists(rng, is_tagged, self.tags, 3)),
        ]
        rows = rows_of_columns(columns, bids(self._stream(Part.WEIGHTS), n), 0.0)
        rows.kinds[rows.dims == LAT] = JOINED
        return rows

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Offers; attributes ascending, tags as adjacent ascending keys."""
        rng = self._stream(Part.EVENTS, batch)
        spots = streets.hotspots(self._stream(Part.STRUCTURE), self.spots)
        spot = pick(rng, spots.pickups.astype(np.float64), count)
        single = [
            spots.lon[spot],
            spots.lat[spot],
            self._prices(rng, count),
            np.round(_RATINGS * rng.random(count), 1),
            pick(rng, zipf(self.products, self.skew), count),
            pick(rng, zipf(self.sellers, self.skew), count),
        ]
        sizes = rng.integers(self.event_tags[0], self.event_tags[1] + 1, count)
        tags = ascending(pick_distinct(rng, zipf(self.tags, self.skew), count, self.event_tags[1]), sizes)
        keys = np.column_stack([*single, tags]).astype(np.float64)
        dims = np.concatenate([np.arange(TAGS), np.full(tags.shape[1], TAGS)])
        used = np.ones(keys.shape, dtype=bool)
        used[:, TAGS:] = tags != UNUSED
        return make_events(
            offsets_of(used.sum(axis=1)), np.broadcast_to(dims, used.shape)[used], keys[used], keys[used]
        )

    def _prices(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return np.asarray(np.round(rng.lognormal(4.0, 1.2, count), 2))

    def _lists(self, rng: np.random.Generator, used: Bools, values: int, size: int) -> Uint16s:
        """One to `size` distinct values for those that use them, ascending."""
        found = np.full((self.size, size), UNUSED, dtype=np.uint16)
        count = int(used.sum())
        chosen = pick_distinct(rng, zipf(values, self.skew), count, size)
        found[used] = ascending(chosen, rng.integers(1, size + 1, count))
        return found
