"""Sketch: bounded statistics of one dimension that can be taken apart by partitions and put together again, in any order.

    sample     the intervals whose records hash lowest: a uniform sample that does not depend on how records were partitioned
    distinct   the lowest hashes of values: their number tells how many there are (exact while they are few)

Merging is taking the lowest of both, so it is associative, commutative and gives the same as one pass over everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Float64s, Int64s

SIZE = 1_024
"""Items kept: quantiles are then off by about 1.5 % of the mass, distinct counts by about 3 %."""
_SPAN = 2.0**64

UInt64s = NDArray[np.uint64]


def _hashes() -> UInt64s:
    return np.zeros(0, np.uint64)


def _floats() -> Float64s:
    return np.zeros(0)


@dataclass
class Sketch:
    """`count` records name the dimension, with `parts` intervals or values in all."""

    count: int = 0
    parts: int = 0
    key: UInt64s = field(default_factory=_hashes)
    lo: Float64s = field(default_factory=_floats)
    hi: Float64s = field(default_factory=_floats)
    distinct: UInt64s = field(default_factory=_hashes)

    @classmethod
    def of(cls, records: Int64s, dim: int, lo: Float64s, hi: Float64s, values: Float64s) -> Sketch:
        """The sketch of intervals, each with the id of its record; `values` are what is counted as distinct. O(n log n)."""
        key = hashed(records.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(dim + 1))
        first = np.unique(records)
        whole = cls(len(first), len(records), key, lo, hi, hashed((values + 0.0).view(np.uint64)))
        return whole._lowest()

    def merged(self, other: Sketch) -> Sketch:
        """The sketch of both. O(SIZE log SIZE)."""
        return Sketch(
            self.count + other.count,
            self.parts + other.parts,
            np.concatenate([self.key, other.key]),
            np.concatenate([self.lo, other.lo]),
            np.concatenate([self.hi, other.hi]),
            np.concatenate([self.distinct, other.distinct]),
        )._lowest()

    @property
    def different(self) -> float:
        """About how many different values there are; exact below SIZE."""
        if len(self.distinct) < SIZE:
            return float(len(self.distinct))
        return (SIZE - 1) / (float(self.distinct[-1]) / _SPAN)

    def _lowest(self) -> Sketch:
        order = np.lexsort((self.hi, self.lo, self.key))[:SIZE]
        distinct = np.unique(self.distinct)[:SIZE]
        return Sketch(self.count, self.parts, self.key[order], self.lo[order], self.hi[order], distinct)


def quantiles(values: Float64s, shares: Float64s) -> Float64s:
    """The values below which these shares of the sample lie; none of an empty sample."""
    finite = values[np.isfinite(values)]
    return np.quantile(finite, shares) if len(finite) else np.zeros(0)


def selectivity(intervals: Sketch, values: Sketch) -> float | None:
    """How likely a value of an event that has the dimension falls into an interval of a subscription that asks for it."""
    if not len(intervals.lo) or not len(values.lo):
        return None
    at = np.sort(values.lo)
    inside = np.searchsorted(at, intervals.hi, "right") - np.searchsorted(at, intervals.lo, "left")
    return float(np.maximum(inside, 0).mean() / len(at))


def hashed(values: UInt64s) -> UInt64s:
    """SplitMix64's finisher: every bit of the input moves every bit of the output. O(n)."""
    mixed = values.copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed
