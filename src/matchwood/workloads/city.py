"""City: squares around pick-ups, events at hot spots, content attributes by Zipf popularity (MO-Tree 6.1, Table 4).

    subscription  a square around a random pick-up (one point predicate: longitude, then latitude joined to it),
                  and K_s - 2 content predicates, each the segment between two uniform keys of [0, 1)
    event         a hot spot drawn by its number of pick-ups, 13 to 18 content attributes with uniform keys, and `until`

Places are the real pick-ups of New York if the data folder has them, and a seeded city otherwise (`streets`). Those of the
paper, from Shanghai, are not public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from matchwood.encode.arrays import INTERVAL, JOINED, Events, Float64s, Rows, make_events, make_rows
from matchwood.errors import WorkloadError
from matchwood.schema import Schema
from matchwood.workloads import streets
from matchwood.workloads.data import find, read
from matchwood.workloads.draw import UNUSED, ascending, offsets_of, pick, pick_distinct, zipf
from matchwood.workloads.streets import Hotspots
from matchwood.workloads.workload import Part, Workload, require

PICKUPS, HOTSPOTS = "uber_nyc_2014q2", "uber_hotspots_10k"
_MICROSECONDS = 1_000_000
_PLACE = 2  # dimensions of the point attribute, which come first


@dataclass(frozen=True, kw_only=True)
class City(Workload):
    """Parameters of MO-Tree Table 4. As there, longitude and latitude count as two attributes and two predicates."""

    attributes: int = 20
    """M."""
    predicates: tuple[int, int] = (6, 6)
    """K_s, minimum and maximum."""
    event_attributes: tuple[int, int] = (15, 20)
    """K_e, minimum and maximum."""
    skew: float = 1.0
    """Zipf exponent of the popularity of content attributes."""
    half_width: tuple[float, float] = (0.0005, 0.02)
    """Of a square, in degrees."""
    half_width_law: Literal["log-uniform", "uniform"] = "log-uniform"
    lifetime: tuple[float, float] = (60.0, 21_600.0)
    """Seconds from an event's publication to its `until`, log-uniform."""
    rate: float = 100.0
    """Average number of events per second."""
    start: float = 1_396_310_400.0
    """Publication starts here, in seconds since 1970: 1 April 2014, when the pick-ups begin."""
    spots: int = 10_000
    """Hot spots of the seeded city; the real ones are 10,000."""
    source: Literal["auto", "real", "synthetic"] = "auto"
    """`auto` uses the real places if both files are found."""
    data: Path | None = None
    """The data folder; None looks for it (see `data.data_folder`)."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "k6": {},
        **{f"k{k}": {"predicates": (k, k)} for k in (4, 8, 10)},
        "mixed": {"predicates": (4, 10)},
        # 0.5 to 2 km, a degree of latitude being 111.2 km
        "paper-radius": {"half_width": (0.0045, 0.018), "half_width_law": "uniform"},
        **{f"skew-{skew}": {"skew": skew} for skew in (0.0, 0.25, 0.5, 0.75)},
        "synthetic": {"source": "synthetic"},
        "quick": {"size": 20_000, "source": "synthetic"},
    }

    def __post_init__(self) -> None:
        for name in ("predicates", "event_attributes"):
            least, greatest = getattr(self, name)
            require(
                _PLACE <= least <= greatest <= self.attributes,
                f"{name} must be a range within {_PLACE} .. {self.attributes}, got {(least, greatest)}",
            )
        for name in ("half_width", "lifetime"):
            least, greatest = getattr(self, name)
            require(0 < least <= greatest, f"{name} must be a range of positive numbers, got {(least, greatest)}")

    @property
    def content(self) -> int:
        """The number of attributes except the place."""
        return self.attributes - _PLACE

    @property
    def is_real(self) -> bool:
        """Whether places come from the data folder."""
        found = self.source != "synthetic" and all(find(name, self.data) is not None for name in (PICKUPS, HOTSPOTS))
        if self.source == "real" and not found:
            raise WorkloadError(
                f"source is 'real', but {PICKUPS}.parquet and {HOTSPOTS}.parquet were not both found; use source='auto'"
            )
        return found

    def schema(self) -> Schema:
        return Schema({"place": "point", **{f"c{n:02}": "number" for n in range(1, self.content + 1)}}, learn=False)

    def subscriptions(self) -> Rows:
        """Squares and content predicates; attributes are ascending, with the place first. About 3 s per million.

        Weights are uniform in [0, 1); the paper has none.
        """
        rng = self._stream(Part.SUBSCRIPTIONS)
        lon, lat = self._centres(rng)
        half = self._half_widths(rng)
        sizes = rng.integers(self.predicates[0] - _PLACE, self.predicates[1] - _PLACE + 1, size=self.size)
        most = self.predicates[1] - _PLACE
        content = ascending(pick_distinct(rng, self.popularity(), self.size, most), sizes)
        ends = rng.random((2, *content.shape))
        dims = np.concatenate([np.tile(np.arange(_PLACE, dtype=np.uint16), (self.size, 1)), _shifted(content)], axis=1)
        lo = np.concatenate([np.stack([lon - half, lat - half], axis=1), ends.min(axis=0)], axis=1)
        hi = np.concatenate([np.stack([lon + half, lat + half], axis=1), ends.max(axis=0)], axis=1)
        weight = self._stream(Part.WEIGHTS).random(dims.shape)
        weight[:, 1] = 0.0  # a joined latitude belongs to the predicate that its longitude heads
        used = dims != UNUSED
        kinds = np.where(np.arange(dims.shape[1]) == 1, JOINED, INTERVAL).astype(np.uint8)
        columns = (dims, np.broadcast_to(kinds, dims.shape), lo, hi, weight)
        offsets = offsets_of(used.sum(axis=1))
        return make_rows(np.arange(self.size), np.zeros(self.size), offsets, *(column[used] for column in columns))

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Events at hot spots, attributes ascending with the place first."""
        rng = self._stream(Part.EVENTS, batch)
        spots = self.hotspots()
        spot = pick(rng, spots.pickups.astype(np.float64), count)
        sizes = rng.integers(self.event_attributes[0] - _PLACE, self.event_attributes[1] - _PLACE + 1, size=count)
        content = ascending(pick_distinct(rng, self.popularity(), count, self.event_attributes[1] - _PLACE), sizes)
        dims = np.concatenate([np.tile(np.arange(_PLACE, dtype=np.uint16), (count, 1)), _shifted(content)], axis=1)
        place = np.stack([spots.lon[spot], spots.lat[spot]], axis=1)
        keys = np.concatenate([place, rng.random(content.shape)], axis=1)
        used = dims != UNUSED
        return make_events(offsets_of(used.sum(axis=1)), dims[used], keys[used], keys[used])

    def times(self, count: int, *, batch: int = 0) -> tuple[Float64s, Float64s]:
        """When each event of the batch is published (ascending) and its `until` (exclusive), in microseconds of 1970."""
        rng = self._stream(Part.TIMES, batch)
        published = self.start + np.cumsum(rng.standard_exponential(count) / self.rate)
        alive = _log_uniform(rng, self.lifetime, count)
        return np.floor(published * _MICROSECONDS), np.floor((published + alive) * _MICROSECONDS)

    def popularity(self) -> Float64s:
        """The share of each content attribute; c01 is the most popular."""
        return zipf(self.content, self.skew)

    def hotspots(self) -> Hotspots:
        """Where events happen, real or seeded."""
        if not self.is_real:
            return streets.hotspots(self._stream(Part.STRUCTURE), self.spots)
        table = read(HOTSPOTS, ("lon", "lat", "n_pickups"), self.data)
        lon, lat, pickups = (table[name].to_numpy() for name in ("lon", "lat", "n_pickups"))
        return Hotspots(lon.astype(np.float64), lat.astype(np.float64), pickups.astype(np.int64))

    def _centres(self, rng: np.random.Generator) -> tuple[Float64s, Float64s]:
        if not self.is_real:
            return streets.pickups(rng, self.size)
        table = read(PICKUPS, ("lon", "lat"), self.data)
        chosen = rng.integers(table.num_rows, size=self.size)
        return table["lon"].to_numpy()[chosen], table["lat"].to_numpy()[chosen]

    def _half_widths(self, rng: np.random.Generator) -> Float64s:
        if self.half_width_law == "uniform":
            return rng.uniform(*self.half_width, size=self.size)
        return _log_uniform(rng, self.half_width, self.size)


def _log_uniform(rng: np.random.Generator, ends: tuple[float, float], count: int) -> Float64s:
    return np.asarray(np.exp(rng.uniform(np.log(ends[0]), np.log(ends[1]), size=count)))


def _shifted(content: np.ndarray) -> np.ndarray:
    """Content attributes as dimensions, which follow those of the place."""
    return np.where(content == UNUSED, np.uint16(UNUSED), content + np.uint16(_PLACE)).astype(np.uint16)
