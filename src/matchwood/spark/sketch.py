"""Sketch: statistics of one dimension, of bounded size, that can be computed by partition and merged in any order.

    sample     the intervals with the lowest hashes of their records: a uniform sample that does not depend on the partitions
    distinct   the lowest hashes of values, from which the number of distinct values is estimated (exact while they are few)

A merge takes the lowest of both. It is associative and commutative, and its result equals that of one pass over everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Float64s, Int64s

SIZE = 1_024
"""Items of a sketch. Errors are about 1.5 % of the mass for quantiles and 3 % for distinct counts."""
_SPAN = 2.0**64

UInt64s = NDArray[np.uint64]


def _hashes() -> UInt64s:
    return np.zeros(0, np.uint64)


def _floats() -> Float64s:
    return np.zeros(0)


@dataclass
class Sketch:
    """`count` records have the dimension, with `parts` intervals or values in total."""

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
        """The estimated number of distinct values; exact below SIZE."""
        if len(self.distinct) < SIZE:
            return float(len(self.distinct))
        return (SIZE - 1) / (float(self.distinct[-1]) / _SPAN)

    def _lowest(self) -> Sketch:
        order = np.lexsort((self.hi, self.lo, self.key))[:SIZE]
        distinct = np.unique(self.distinct)[:SIZE]
        return Sketch(self.count, self.parts, self.key[order], self.lo[order], self.hi[order], distinct)


def quantiles(values: Float64s, shares: Float64s) -> Float64s:
    """The quantiles of the finite values of a sample; empty for an empty sample."""
    finite = values[np.isfinite(values)]
    return np.quantile(finite, shares) if len(finite) else np.zeros(0)


def selectivity(intervals: Sketch, values: Sketch) -> float | None:
    """The share of pairs of an interval and a value in which the value is inside; None without samples."""
    if not len(intervals.lo) or not len(values.lo):
        return None
    at = np.sort(values.lo)
    inside = np.searchsorted(at, intervals.hi, "right") - np.searchsorted(at, intervals.lo, "left")
    return float(np.maximum(inside, 0).mean() / len(at))


def hashed(values: UInt64s) -> UInt64s:
    """The finalizer of SplitMix64, a hash in which every input bit affects every output bit. O(n)."""
    mixed = values.copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed
