"""Routing: rules over the fields of JSON messages, each 2 to 5 predicates: IN, NOT IN, and ranges of numbers.

    subscription  distinct fields, all equally popular; a coded field has `IN` 1 to 3 values or `NOT IN` 1 to 3, a number a range
    event         a value of every field: codes by a Zipf law, numbers uniform in [0, 1)

A rule of exclusions alone would match nearly every message, so at least one predicate of a rule is not `NOT IN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import INTERVAL, MORE, Events, Float64s, Int64s, Rows, make_rows
from matchwood.schema import Schema
from matchwood.workloads.columns import Bools, after, before, bids
from matchwood.workloads.draw import UNUSED, ascending, fixed_events, offsets_of, pick, pick_distinct, zipf
from matchwood.workloads.workload import Part, Workload, require


@dataclass(frozen=True, kw_only=True)
class Routing(Workload):
    """Rules. Codes are numbers 0, 1, 2, ... by descending popularity."""

    size: int = 100_000
    coded: int = 40
    """Fields with codes; their dimensions come first."""
    numbers: int = 10
    """Fields with numbers."""
    cardinality: tuple[int, int] = (1_000, 100_000)
    """Values of a coded field, log-uniform."""
    skew: float = 1.0
    predicates: tuple[int, int] = (2, 5)
    values: int = 3
    """Maximum number of values of an `IN` or `NOT IN`."""
    exclusion: float = 0.15
    """The share of `NOT IN` among the predicates on coded fields, before a rule of exclusions alone gets an `IN`."""
    width: tuple[float, float] = (0.01, 0.2)
    """Of a range, as a share of the numbers."""
    weight: float = 0.0
    """Of every predicate; with 0 the score is the priority."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "100k": {},
        "1m": {"size": 1_000_000},
        "quick": {"size": 20_000},
    }

    def __post_init__(self) -> None:
        require(
            1 <= self.predicates[0] <= self.predicates[1] <= self.coded + self.numbers,
            f"predicates must be a range within 1 to {self.coded + self.numbers}, got {self.predicates}",
        )
        require(self.values >= 1, f"values must be at least 1, got {self.values}")
        require(0 < self.width[0] <= self.width[1] <= 1, f"width must be shares in (0, 1], got {self.width}")

    def schema(self) -> Schema:
        """`c00`, `c01`, ... and `n00`, `n01`, ..., all numbers."""
        names = [*(f"c{n:02}" for n in range(self.coded)), *(f"n{n:02}" for n in range(self.numbers))]
        return Schema(dict.fromkeys(names, "number"), learn=False)

    def cardinalities(self) -> Int64s:
        """The number of values of each coded field."""
        low, high = np.log(self.cardinality)
        return np.exp(self._stream(Part.STRUCTURE).uniform(low, high, self.coded)).astype(np.int64)

    def subscriptions(self) -> Rows:
        """Rules; fields are ascending. About 5 s per million."""
        rng = self._stream(Part.SUBSCRIPTIONS)
        sizes = rng.integers(self.predicates[0], self.predicates[1] + 1, self.size)
        chosen = pick_distinct(rng, zipf(self.coded + self.numbers, 0), self.size, self.predicates[1])
        fields = ascending(chosen, sizes)
        used = fields != UNUSED
        excludes = used & (fields < self.coded) & (rng.random(fields.shape) < self.exclusion)
        excludes[:, 0] &= ~(excludes | ~used).all(axis=1)
        lo, hi = self._sets(rng, fields[used].astype(np.int64), excludes[used])
        here = ~np.isnan(lo)
        owner, place = np.nonzero(here)
        dims, heads = fields[used][owner], place == 0
        row = np.nonzero(used)[0][owner]
        kinds, weight = np.where(heads, INTERVAL, MORE), np.where(heads, self.weight, 0.0)
        offsets = offsets_of(np.bincount(row, minlength=self.size))
        priority = bids(self._stream(Part.WEIGHTS), self.size)
        return make_rows(np.arange(self.size), priority, offsets, dims, kinds, lo[here], hi[here], weight)

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Messages; a value of every field."""
        rng = self._stream(Part.EVENTS, batch)
        coded = [pick(rng, zipf(int(values), self.skew), count) for values in self.cardinalities()]
        return fixed_events(np.column_stack([*coded, rng.random((count, self.numbers))]))

    def _sets(self, rng: np.random.Generator, fields: Int64s, excludes: Bools) -> tuple[Float64s, Float64s]:
        """The intervals of each predicate, ascending from the left, NaN beyond the last."""
        width = self.values + 1
        lo, hi = np.full((len(fields), width), np.nan), np.full((len(fields), width), np.nan)
        keys = self._keys(rng, fields)
        listed = (fields < self.coded) & ~excludes
        lo[listed, :-1] = hi[listed, :-1] = keys[listed]
        excluded = keys[excludes]
        count = (~np.isnan(excluded)).sum(axis=1)
        lo[excludes] = np.column_stack([np.full(len(excluded), -np.inf), after(excluded)])
        gaps = np.column_stack([before(excluded), np.full(len(excluded), np.nan)])
        gaps[np.arange(len(gaps)), count] = np.inf
        hi[excludes] = gaps
        ranged = np.flatnonzero(fields >= self.coded)
        span = rng.uniform(*self.width, size=len(ranged))
        lo[ranged, 0] = rng.random(len(ranged)) * (1 - span)
        hi[ranged, 0] = lo[ranged, 0] + span
        return lo, hi

    def _keys(self, rng: np.random.Generator, fields: Int64s) -> Float64s:
        """1 to `values` different codes of each predicate on a coded field, ascending from the left, then NaN."""
        keys = np.full((len(fields), self.values), np.nan)
        for field, values in enumerate(self.cardinalities()):
            here = np.flatnonzero(fields == field)
            keys[here] = pick(rng, zipf(int(values), self.skew), (len(here), self.values))
        keys[np.arange(self.values) >= rng.integers(1, self.values + 1, len(fields))[:, None]] = np.nan
        keys.sort(axis=1)
        keys[:, 1:][keys[:, 1:] == keys[:, :-1]] = np.nan
        keys.sort(axis=1)
        return keys
