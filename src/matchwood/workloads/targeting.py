"""Targeting: campaigns of an ad server, and impressions with a list of interests.

    subscription  country IN, and each with its own share: device =, os IN, age BETWEEN, gender =, interests any of, hour IN, site
                  NOT IN; its priority is a log-normal bid
    event         one value of each attribute, and a list of interests

No paper has it: the papers' workloads are ranges, and this one is equality, IN-lists and membership in lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows, make_events
from matchwood.schema import Schema
from matchwood.workloads.columns import bids, in_column, not_in_column, range_column, rows_of_columns
from matchwood.workloads.draw import UNUSED, Uint16s, ascending, offsets_of, pick, pick_distinct, zipf
from matchwood.workloads.workload import Part, Workload, require

HOURS = 24
ATTRIBUTES = ("country", "device", "os", "age", "gender", "interests", "hour", "site")
STRINGS = ("country", "device", "os", "gender", "interests", "site")
COUNTRY, DEVICE, OS, AGE, GENDER, INTERESTS, HOUR, SITE = range(8)


@dataclass(frozen=True, kw_only=True)
class Targeting(Workload):
    """Campaigns. Shares are of the campaigns that have a predicate on an attribute; all have one on the country."""

    size: int = 100_000
    countries: int = 200
    country_skew: float = 0.7
    devices: int = 5
    systems: int = 8
    ages: tuple[int, int] = (18, 97)
    age_width: tuple[int, int] = (5, 60)
    """Years of an age range, minimum and maximum."""
    genders: int = 3
    interests: int = 5_000
    interest_skew: float = 1.0
    sites: int = 2_000
    event_interests: tuple[int, int] = (10, 50)
    device_share: float = 0.3
    system_share: float = 0.4
    age_share: float = 0.5
    gender_share: float = 0.2
    interest_share: float = 0.8
    hour_share: float = 0.4
    site_share: float = 0.1
    weight: float = 0.0
    """Of every predicate; with 0 the score is the bid."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "100k": {},
        "1m": {"size": 1_000_000},
        "quick": {"size": 20_000},
    }

    def __post_init__(self) -> None:
        require(self.countries >= 20, f"countries must be at least 20, got {self.countries}")
        require(self.systems >= 3, f"systems must be at least 3, got {self.systems}")
        require(
            max(self.interests, self.sites) < UNUSED and self.sites >= 10,
            f"interests and sites must be below {UNUSED}, sites at least 10",
        )
        require(
            1 <= self.event_interests[0] <= self.event_interests[1] <= self.interests,
            f"event_interests must be a range within 1 to {self.interests}, got {self.event_interests}",
        )

    def schema(self) -> Schema:
        """Strings and, for age and hour, numbers; every string is a symbol, so that codes are keys."""
        counts = (self.countries, self.devices, self.systems, self.genders, self.interests, self.sites)
        return Schema.from_json(_schema(counts))

    def subscriptions(self) -> Rows:
        """Campaigns; attributes in the order of the schema. About 10 s per million."""
        rng = self._stream(Part.SUBSCRIPTIONS)
        n = self.size
        age = rng.integers(self.ages[0], self.ages[1] + 1, n)
        last = np.minimum(age + rng.integers(self.age_width[0], self.age_width[1] + 1, n), self.ages[1])
        columns = [
            in_column(COUNTRY, self._lists(rng, 1.0, zipf(self.countries, self.country_skew), (1, 20))),
            in_column(DEVICE, self._lists(rng, self.device_share, zipf(self.devices, 0), (1, 1))),
            in_column(OS, self._lists(rng, self.system_share, zipf(self.systems, 0), (1, 3))),
            range_column(AGE, rng.random(n) < self.age_share, age.astype(np.float64), last.astype(np.float64)),
            in_column(GENDER, self._lists(rng, self.gender_share, zipf(self.genders, 0), (1, 1))),
            in_column(
                INTERESTS, self._lists(rng, self.interest_share, zipf(self.interests, self.interest_skew), (1, 5))
            ),
            in_column(HOUR, self._lists(rng, self.hour_share, zipf(HOURS, 0), (4, 19))),
            not_in_column(SITE, self._lists(rng, self.site_share, zipf(self.sites, 1), (1, 10))),
        ]
        return rows_of_columns(columns, bids(self._stream(Part.WEIGHTS), n), self.weight)

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Impressions; attributes in the order of the schema, interests as adjacent ascending keys."""
        rng = self._stream(Part.EVENTS, batch)
        single = [
            pick(rng, zipf(self.countries, self.country_skew), count),
            rng.integers(0, self.devices, count),
            rng.integers(0, self.systems, count),
            rng.integers(self.ages[0], self.ages[1] + 1, count),
            rng.integers(0, self.genders, count),
            rng.integers(0, HOURS, count),
            pick(rng, zipf(self.sites, 1), count),
        ]
        sizes = rng.integers(self.event_interests[0], self.event_interests[1] + 1, count)
        shares = zipf(self.interests, self.interest_skew)
        interests = ascending(pick_distinct(rng, shares, count, self.event_interests[1]), sizes)
        width = interests.shape[1]
        keys = np.column_stack([*single[:INTERESTS], interests, *single[INTERESTS:]]).astype(np.float64)
        dims = np.concatenate([np.arange(INTERESTS), np.full(width, INTERESTS), np.arange(INTERESTS + 1, SITE + 1)])
        used = np.ones(keys.shape, dtype=bool)
        used[:, INTERESTS : INTERESTS + width] = interests != UNUSED
        keys = keys[used]
        return make_events(offsets_of(used.sum(axis=1)), np.broadcast_to(dims, used.shape)[used], keys, keys)

    def _lists(self, rng: np.random.Generator, share: float, shares: Float64s, sizes: tuple[int, int]) -> Uint16s:
        """Distinct values for a share of the campaigns, ascending; a line without a predicate has none."""
        wanted: Int64s = rng.integers(sizes[0], sizes[1] + 1, self.size)
        used = rng.random(self.size) < share
        found = np.full((self.size, sizes[1]), UNUSED, dtype=np.uint16)
        found[used] = ascending(pick_distinct(rng, shares, int(used.sum()), sizes[1]), wanted[used])
        return found


@lru_cache(maxsize=8)
def _schema(counts: tuple[int, ...]) -> dict[str, Any]:
    """The schema as JSON: attributes in the order of the dimensions, `name-0`, `name-1`, ... as symbols."""
    of_string = dict(zip(STRINGS, counts, strict=True))
    schema = Schema(learn=False)
    for name in ATTRIBUTES:
        attribute = schema.declare(name, "string" if name in of_string else "number")
        if attribute.symbols is not None:
            for code in range(of_string[name]):
                attribute.symbols.code(f"{name}-{code}")
    return schema.to_json()
