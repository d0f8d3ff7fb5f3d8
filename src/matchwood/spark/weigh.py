"""Weigh: predicate weights by inverse frequency (BE*-Tree VII-C), or as given by attribute.

    inv(attribute)   uses of the rarest attribute / uses of this one: 1 for the rarest, small for popular ones
    weight           normal distribution with mean 0.8 inv and deviation 0.05 inv, at most inv

The paper prints the maximum of inv and the draw, which is nearly always inv; we use the minimum, as the workloads do. Draws
come from a hash of seed, subscription and dimension, so that weights do not depend on partitions or order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from matchwood.encode.arrays import ABSENT, GRADE, INTERVAL, Float64s, Int64s, Rows
from matchwood.errors import QueryError, SchemaError
from matchwood.spark import columns
from matchwood.spark.batches import read_subscriptions, write_subscriptions
from matchwood.spark.codebook import Codebook, stamp_of
from matchwood.spark.sketch import hashed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AROUND, DEVIATION = 0.8, 0.05


def inverse_frequencies(attributes: DataFrame) -> dict[str, float]:
    """inv of each attribute that a subscription uses, from a profile. Collects one record per dimension."""
    columns.check(attributes, columns.ATTRIBUTES, "attributes")
    rows = attributes.select("attribute", "subscriptions").collect()
    uses: dict[str, int] = {}
    for row in rows:
        uses[row["attribute"]] = max(uses.get(row["attribute"], 0), int(row["subscriptions"]))
    fewest = min((count for count in uses.values() if count), default=1)
    return {name: fewest / count for name, count in uses.items() if count}


def weigh(
    subscriptions: DataFrame,
    codebook: Codebook,
    weights: Mapping[str, float],
    *,
    deviation: float = 0.0,
    around: float = 1.0,
    seed: int = 1,
) -> DataFrame:
    """Subscriptions with the weight of each predicate replaced by that of its attribute in `weights`, if it has one. Lazy.

    With a `deviation` weights are drawn: normal with mean `around` times the given weight, at least 0 and at most the given one.
    `weigh(s, book, inverse_frequencies(p), around=AROUND, deviation=DEVIATION)` gives the weights of the paper.
    """
    columns.check(subscriptions, columns.SUBSCRIPTIONS, "subscriptions")
    schema = codebook.schema()
    by_dimension = np.full(schema.dimensions, np.nan)
    for name, weight in weights.items():
        attribute = schema.get(name)
        if attribute is None:
            raise SchemaError(f"weights: attribute {name!r} is not used by any subscription; remove it")
        if not (0.0 <= weight < np.inf):
            raise QueryError(f"attribute {name!r}: expected a finite weight >= 0, got {weight!r}")
        by_dimension[attribute.dims[0]] = weight
    weighing = Weighing(by_dimension.tobytes(), around, deviation, seed)
    table = subscriptions.select(*columns.SUBSCRIPTIONS.names).mapInArrow(weighing, columns.SUBSCRIPTIONS)
    stamped = stamp_of(subscriptions)
    return table if stamped is None else table.withMetadata("dims", dict(subscriptions.schema["dims"].metadata))


@dataclass(frozen=True)
class Weighing:
    """Replaces the weights of a partition of subscriptions."""

    by_dimension: bytes
    around: float
    deviation: float
    seed: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        given = np.frombuffer(self.by_dimension)
        for batch in batches:
            read = read_subscriptions(batch)
            rows = read.rows
            weight = rows.weight.copy()
            heads = np.flatnonzero((rows.kinds == INTERVAL) | (rows.kinds == ABSENT))
            dims = rows.dims[heads].astype(np.int64)
            heads, dims = heads[~np.isnan(given[dims])], dims[~np.isnan(given[dims])]
            owner = np.repeat(rows.ids, np.diff(rows.offsets))[heads]
            top = given[dims]
            drawn = top * (self.around + self.deviation * normal(owner, dims, self.seed))
            weight[heads] = np.clip(drawn, 0.0, top)
            _share_with_grades(rows, heads, weight)
            yield write_subscriptions(read._replace(rows=rows._replace(weight=weight)))


def _share_with_grades(rows: Rows, heads: Int64s, weight: Float64s) -> None:
    """Divide the new weights of graded predicates among them and their grades as the old ones were. O(entries)."""
    grades = np.flatnonzero(rows.kinds == GRADE)
    if not len(grades) or not len(heads):
        return
    every = np.flatnonzero((rows.kinds == INTERVAL) | (rows.kinds == ABSENT))
    mine = every[np.searchsorted(every, grades, "right") - 1]
    weighed = np.isin(mine, heads)
    grades, mine = grades[weighed], mine[weighed]
    total = rows.weight.copy()
    np.add.at(total, mine, rows.weight[grades])
    owners = np.unique(mine)
    given = weight[owners]
    share = np.divide(given, total[owners], out=np.zeros(len(owners)), where=total[owners] > 0.0)
    weight[grades] = rows.weight[grades] * share[np.searchsorted(owners, mine)]
    # Where nothing was weighed before, all of it counts in full.
    weight[owners] = np.where(total[owners] > 0.0, rows.weight[owners] * share, given)


def normal(ids: Int64s, dims: Int64s, seed: int) -> Float64s:
    """A standard normal number for each pair of id and dimension, by the Box-Muller transform of hashes. O(n)."""
    key = hashed(ids.astype(np.uint64)) + dims.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    draws = [hashed(hashed(key + np.uint64(seed)) + np.uint64(part)) for part in (1, 2)]
    u, v = (((draw >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53 for draw in draws)
    return np.asarray(np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v))
