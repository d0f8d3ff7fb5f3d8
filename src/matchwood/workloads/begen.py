"""BEGen: Boolean expressions over many sparse dimensions, with a chosen match probability (BE*-Tree VII, Table III).

Random subscriptions would match almost nothing: of 400 attributes, a random set of 8 is almost never contained in a random set
of 15. So matches are planted through *targets*:

    target        `core` attributes drawn by popularity, each with a value of one of its clusters
    event         the core attributes of a target plus others; with probability `drift` a core value is replaced by another one
                  of its cluster
    subscription  with probability `planted`: some core attributes of a target, with a range of a few keys around each value;
                  otherwise: attributes by popularity, with ranges around cluster values

A planted subscription does not match an event of its target in which one of its values has drifted, so events of one target match
different subscriptions, and non-matches fail narrowly. With T targets, p = planted x affinity / T, where
affinity = (1 - drift) ** size. The number of targets is the largest that keeps `planted` at most `max_planted`. `verify`
measures the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.errors import WorkloadError
from matchwood.schema import Schema
from matchwood.workloads.draw import UNUSED, Uint16s, around, ascending, events_of, pick_distinct, rows_of, zipf
from matchwood.workloads.selectivity import Selectivity
from matchwood.workloads.workload import Part, Workload, require

Distribution = Literal["uniform", "zipf"]

_SWEEPS: dict[str, tuple[int, list[dict[str, Any]]]] = {
    "size": (1_000_000, [{"size": n} for n in (100_000, 250_000, 500_000, 750_000, 1_000_000)]),
    "dimensions": (1_000_000, [{"dimensions": n} for n in (50, 100, 200, 400, 800, 1400)]),
    "cardinality": (100_000, [{"cardinality": 2500 * 10**n} for n in range(6)]),
    "clusters": (100_000, [{"clusters": n} for n in (2, 4, 10, 26, None)]),
    "cluster_size": (100_000, [{"cluster_size": 25 * 2**n} for n in range(6)]),
    "sizes": (
        100_000,
        [{"subscription_size": s, "event_size": e} for s, e in ((5, 13), (8, 15), (16, 25), (33, 43), (66, 81))],
    ),
    "match_probability": (1_000_000, [{"match_probability": p} for p in (0.0001, 0.001, 0.01, 0.05, 0.09)]),
}


class Structure(NamedTuple):
    """What subscriptions and events share."""

    popularity: Float64s  # share of each dimension
    centres: Float64s  # dimensions x clusters; no columns if values are not clustered
    core: Uint16s  # targets x core, ascending
    cluster: Int64s  # targets x core: the cluster of each core value
    value: Float64s  # targets x core


@dataclass(frozen=True, kw_only=True)
class BEGen(Workload):
    """Parameters of BE*-Tree Table III; the defaults are those of its first column at the largest size."""

    dimensions: int = 400
    cardinality: int = 250_000_000
    clusters: int | None = 4
    """Cluster centres of each dimension; None draws values from the whole domain ("N/A" in the paper)."""
    cluster_size: int = 100
    """The largest distance of a value from its centre."""
    subscription_size: int = 8
    event_size: int = 15
    size_spread: int = 0
    """Sizes are uniform within this distance of the average; the paper gives averages only."""
    match_probability: float = 0.001
    distribution: Distribution = "uniform"
    """The distribution of the popularity of attributes."""
    skew: float = 1.0
    """Exponent of the Zipf popularity (not given in the paper)."""
    range_size: tuple[int, int] = (2, 8)
    """Minimum and maximum number of keys of a range ("a handful" in the paper)."""
    affinity: float = 0.65
    """Probability that a subscription of the average size matches an event of its own target."""
    max_planted: float = 0.8
    weights: Literal["capped", "printed"] = "capped"
    """`printed` is the formula of the paper, max(inv, N(0.8 inv, 0.05 inv)), which is inv except in 3 of 100,000 draws.
    `capped` takes the minimum instead, which gives normally distributed weights."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "uniform": {},
        "zipf": {"distribution": "zipf"},
        **{
            f"{law}-match-{percent}%": {"distribution": law, "match_probability": float(percent) / 100}
            for law in ("uniform", "zipf")
            for percent in ("0.01", "0.1", "1", "5", "9")
        },
        "quick-uniform": {"size": 20_000},
        "quick-zipf": {"size": 20_000, "distribution": "zipf"},
    }

    def __post_init__(self) -> None:
        smallest, largest = self.subscription_size - self.size_spread, self.subscription_size + self.size_spread
        require(smallest >= 1, f"size_spread {self.size_spread} gives subscriptions of {smallest} predicates; lower it")
        require(
            largest <= self.event_size - self.size_spread,
            f"subscriptions of up to {largest} predicates do not fit events of {self.event_size - self.size_spread}",
        )
        require(
            self.event_size + self.size_spread <= self.dimensions < UNUSED,
            f"events of {self.event_size + self.size_spread} attributes need as many dimensions, got {self.dimensions}",
        )
        require(
            1 <= self.range_size[0] <= self.range_size[1] <= self.cardinality,
            f"range_size must be a range within 1 .. {self.cardinality}, got {self.range_size}",
        )
        require(
            0 < self.match_probability <= self.max_planted * self._hit_rate(),
            f"match_probability {self.match_probability} cannot be reached; with this affinity and max_planted it can be "
            f"at most {self.max_planted * self._hit_rate():.3f}",
        )

    @classmethod
    def sweep(cls, column: str, **changes: Any) -> Iterator[BEGen]:
        """The workloads of one column of Table III at the size of the paper, each with `changes` applied."""
        if column not in _SWEEPS:
            raise WorkloadError(f"Table III has no column {column!r}; it has {', '.join(_SWEEPS)}")
        size, steps = _SWEEPS[column]
        for step in steps:
            yield cls(**{"size": size, **step, **changes})

    @property
    def core(self) -> int:
        """Attributes of a target: half way between the largest subscription and the smallest event."""
        largest, smallest = self.subscription_size + self.size_spread, self.event_size - self.size_spread
        return largest + (smallest - largest) // 2

    @property
    def drift(self) -> float:
        """The probability that a core value of an event is replaced."""
        return float(1 - self.affinity ** (1 / self.subscription_size))

    @property
    def targets(self) -> int:
        return max(1, int(self.max_planted * self._hit_rate() / self.match_probability))

    @property
    def planted(self) -> float:
        """The share of subscriptions that belong to a target."""
        return self.match_probability * self.targets / self._hit_rate()

    def schema(self) -> Schema:
        return Schema({f"a{dim:04}": "number" for dim in range(self.dimensions)}, learn=False)

    def subscriptions(self) -> Rows:
        """Subscriptions with weights by inverse frequency of their attributes (BE*-Tree VII-C). About 3 s a million."""
        rng, structure = self._stream(Part.SUBSCRIPTIONS), self.structure()
        sizes = around(rng, self.subscription_size, self.size_spread, self.size)
        planted = rng.random(self.size) < self.planted
        dims, values = self._stray(rng, structure, sizes)
        dims[planted], values[planted] = self._planted(rng, structure, sizes[planted])
        lo, hi = self._ranges(rng, values)
        return rows_of(dims, lo, hi, self._weights(dims))

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Events of uniformly drawn targets; attributes are in ascending order."""
        rng, structure = self._stream(Part.EVENTS, batch), self.structure()
        target = rng.integers(self.targets, size=count)
        core, values = structure.core[target], structure.value[target]
        drifted = self._drifted(rng, count)
        fresh = self._values(rng, structure, core, structure.cluster[target])
        values = np.where(drifted, fresh, values)
        extra = self._others(rng, structure, core, around(rng, self.event_size, self.size_spread, count) - self.core)
        extra_values = self._values(rng, structure, extra, self._clusters(rng, extra.shape))
        dims = np.concatenate([core, extra], axis=1)
        order = np.argsort(dims, axis=1, kind="stable")
        values = np.concatenate([values, extra_values], axis=1)
        return events_of(np.take_along_axis(dims, order, 1), np.take_along_axis(values, order, 1))

    def verify(self, *, tolerance: float = 0.05, events: int = 1000, rows: Rows | None = None) -> Selectivity:
        """Measure the match probability and raise `WorkloadError` if it is off by more than `tolerance` (relative).

        The sample of 1,000 events has a standard error below 1 %. Some seconds for a million subscriptions.
        """
        found = self.selectivity(events=events, rows=rows)
        if abs(found.probability / self.match_probability - 1) > tolerance:
            raise WorkloadError(
                f"expected a match probability of {self.match_probability:.4%} within {tolerance:.0%}, found {found}; "
                "wide ranges in narrow clusters, or very few dimensions, cause accidental matches"
            )
        return found

    def popularity(self) -> Float64s:
        """The share of each dimension among drawn attributes."""
        return self.structure().popularity

    def structure(self) -> Structure:
        """Popularity, cluster centres and targets; the same whatever `size` is."""
        rng = self._stream(Part.STRUCTURE)
        popularity = zipf(self.dimensions, self.skew if self.distribution == "zipf" else 0.0)
        popularity = popularity[rng.permutation(self.dimensions)]
        centres = rng.integers(self.cardinality, size=(self.dimensions, self.clusters or 0)).astype(np.float64)
        core = np.sort(self._cores(rng, popularity), axis=1)
        cluster = self._clusters(rng, core.shape)
        bare = Structure(popularity, centres, core, cluster, np.empty(0))
        return bare._replace(value=self._values(rng, bare, core, cluster))

    def _cores(self, rng: np.random.Generator, popularity: Float64s) -> Uint16s:
        """The attributes of each target. Uniform ones are taken from shuffled permutations, so that few targets are balanced
        too."""
        if self.distribution == "zipf":
            return pick_distinct(rng, popularity, self.targets, self.core)
        cores = self.dimensions // self.core
        permutations = np.tile(np.arange(self.dimensions, dtype=np.uint16), (-(-self.targets // cores), 1))
        shuffled = rng.permuted(permutations, axis=1)[:, : cores * self.core]
        return shuffled.reshape(-1, self.core)[: self.targets]

    def _hit_rate(self) -> float:
        """The probability that a subscription matches an event of its target; a drifted value may still be in range."""
        width = sum(self.range_size) / 2
        domain = self.cardinality if self.clusters is None else min(self.cardinality, 2 * self.cluster_size + 1)
        holds = 1 - self.drift * (1 - min(1.0, width / domain))
        sizes = range(self.subscription_size - self.size_spread, self.subscription_size + self.size_spread + 1)
        return sum(holds**size for size in sizes) / len(sizes)

    def _stray(self, rng: np.random.Generator, structure: Structure, sizes: Int64s) -> tuple[Uint16s, Float64s]:
        """Attributes and values of subscriptions that belong to no target."""
        most = self.subscription_size + self.size_spread
        dims = ascending(pick_distinct(rng, structure.popularity, len(sizes), most), sizes)
        return dims, self._values(rng, structure, dims, self._clusters(rng, dims.shape))

    def _planted(self, rng: np.random.Generator, structure: Structure, sizes: Int64s) -> tuple[Uint16s, Float64s]:
        """Attributes and values of subscriptions that take some of a target's core."""
        most = self.subscription_size + self.size_spread
        target = rng.integers(self.targets, size=len(sizes))
        places = ascending(pick_distinct(rng, zipf(self.core, 0.0), len(sizes), most), sizes)
        used, at = places != UNUSED, np.minimum(places, self.core - 1)
        dims = np.where(used, structure.core[target[:, None], at], np.uint16(UNUSED))
        return dims, structure.value[target[:, None], at]

    def _drifted(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Which core values of each event are replaced: each with probability `drift`, independently within an event.

        Their number is drawn by stratified sampling over the batch. This keeps the distribution for a single event and lowers
        the error of the match probability of a batch.
        """
        drawn = np.arange(self.core + 1)
        chances = [comb(self.core, n) * self.drift**n * (1 - self.drift) ** (self.core - n) for n in drawn.tolist()]
        strata = (rng.permutation(count) + rng.random(count)) / max(count, 1)
        number = np.minimum(np.searchsorted(np.cumsum(chances), strata, side="right"), self.core)
        order = np.argsort(rng.random((count, self.core)), axis=1)
        return np.asarray(order < number[:, None])

    def _others(self, rng: np.random.Generator, structure: Structure, core: Uint16s, sizes: Int64s) -> Uint16s:
        """`sizes[e]` attributes outside the core of event e, drawn by popularity."""
        most = int(sizes.max(initial=0))
        chosen = np.full((len(core), most), UNUSED, dtype=np.uint16)
        step = max(1, 4_000_000 // self.dimensions)
        for start in range(0, len(core), step):
            part = slice(start, start + step)
            clocks = rng.standard_exponential((len(core[part]), self.dimensions)) / structure.popularity
            np.put_along_axis(clocks, core[part].astype(np.int64), np.inf, axis=1)
            nearest = np.argpartition(clocks, max(most - 1, 0), axis=1)[:, :most]
            order = np.argsort(np.take_along_axis(clocks, nearest, 1), axis=1)
            chosen[part] = np.take_along_axis(nearest, order, 1)
        return ascending(chosen, sizes)

    def _clusters(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Int64s:
        return rng.integers(max(1, self.clusters or 1), size=shape)

    def _values(self, rng: np.random.Generator, structure: Structure, dims: Uint16s, cluster: Int64s) -> Float64s:
        """A key for each attribute: near the centre of its cluster, or anywhere if values are not clustered."""
        if not self.clusters:
            return rng.integers(self.cardinality, size=dims.shape).astype(np.float64)
        centre = structure.centres[np.minimum(dims, self.dimensions - 1), cluster]
        shifted = centre + rng.integers(-self.cluster_size, self.cluster_size + 1, size=dims.shape)
        return np.clip(shifted, 0, self.cardinality - 1)

    def _ranges(self, rng: np.random.Generator, values: Float64s) -> tuple[Float64s, Float64s]:
        """A closed range of a few keys around each value, at a random position in it."""
        width = rng.integers(self.range_size[0], self.range_size[1] + 1, size=values.shape)
        lo = values - np.floor(rng.random(values.shape) * width)
        return np.maximum(lo, 0), np.minimum(lo + width - 1, self.cardinality - 1)

    def _weights(self, dims: Uint16s) -> Float64s:
        """Normal with mean 0.8 times the inverse frequency of the attribute, which is 1 for the rarest attribute."""
        uses = np.bincount(dims[dims != UNUSED], minlength=UNUSED + 1)
        inverse = uses[uses > 0].min(initial=self.size or 1) / np.maximum(uses, 1)
        top = inverse[dims]
        drawn = self._stream(Part.WEIGHTS).normal(0.8 * top, 0.05 * top)
        return np.asarray(np.maximum(drawn, top) if self.weights == "printed" else np.clip(drawn, 0, top))
