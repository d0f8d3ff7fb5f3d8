"""Cover: which subscriptions are covered by which, in groups that are searched independently.

In a group some subscriptions are *queries*, whose covers are searched, and all are possible covers. The group of a query contains
every possible cover of it:

    space        if there is a point attribute. A subscription is a query in the cell of the centre of its box and stored in every
                 cell that its box intersects. The box of a cover contains the boxes of what it covers, so it intersects their
                 cells. Subscriptions without a box, or that intersect many cells, are stored everywhere and are queries in one
                 separate group
    signature    otherwise. A row is stored in the group of its rarest attribute. A subscription is a query in the groups of all
                 attributes of its first row, since a cover of that row has predicates on some of them and no others

Each group is searched by `CoverIndex` (Covering IV). Chains of covers are then followed to their ends by joins, in a number of
rounds logarithmic in the length of the longest chain. `covering.exact` defines covering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as fn

from matchwood.covering.cover_index import CoverIndex
from matchwood.encode.arrays import ABSENT, INTERVAL, Int64s, Rows, concatenate_rows
from matchwood.lang.event import PLACE
from matchwood.spark import columns
from matchwood.spark.batches import read_subscriptions, split_by_first, with_columns
from matchwood.spark.codebook import Codebook
from matchwood.spark.index_stage import plan_sharding
from matchwood.spark.sharding import Sharding, subscription_boxes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUPED = columns.arrow_schema(columns.GROUPED)
_COVERS = columns.arrow_schema(columns.COVERS)


def cover(subscriptions: DataFrame, codebook: Codebook, *, groups: int = 8, place: str = PLACE) -> DataFrame:
    """(id, cover) of every covered subscription; the cover itself is not covered. Of equal subscriptions the smallest id covers.

    Runs jobs: one to plan the groups, and one for each round that follows chains. Spark stores the result (`localCheckpoint`).
    """
    columns.check(subscriptions, columns.SUBSCRIPTIONS, "subscriptions")
    table = subscriptions.select(*columns.SUBSCRIPTIONS.names)
    sharding = plan_sharding(table, codebook.schema(), shards=max(groups, 2), place=place)
    if sharding.kind == "space":
        grouping: SpaceGroups | SignatureGroups = SpaceGroups(sharding)
    else:
        grouping = SignatureGroups(_uses(table), groups)
    grouped = table.mapInArrow(grouping, columns.GROUPED)
    spread = (
        grouped.repartitionById(grouping.groups, fn.col("group"))
        if hasattr(grouped, "repartitionById")
        else (grouped.repartition(grouping.groups, "group"))
    )
    edges = spread.mapInArrow(Covering(), columns.COVERS).groupBy("id").agg(fn.min("cover").alias("cover"))
    return _followed(edges)


def reduced(subscriptions: DataFrame, covers: DataFrame) -> DataFrame:
    """The subscriptions that are not covered. Lazy."""
    return subscriptions.join(covers.select("id"), "id", "left_anti").select(*columns.SUBSCRIPTIONS.names)


@dataclass(frozen=True)
class SpaceGroups:
    """Groups by space: see the module."""

    sharding: Sharding

    @property
    def groups(self) -> int:
        return self.sharding.shards

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        assert self.sharding.dims is not None
        for batch in batches:
            rows = read_subscriptions(batch).rows
            at, cell = self.sharding.of_rows(rows)
            wide = cell == self.sharding.wide
            home = self._homes(rows)
            stored = np.concatenate([at[~wide], np.repeat(at[wide], self.groups)])
            group = np.concatenate([cell[~wide], np.tile(np.arange(self.groups), int(wide.sum()))])
            query_in = np.where(np.isin(np.arange(len(home)), at[wide]), self.sharding.wide, home)
            yield _grouped(batch, stored, group, query_in[stored] == group)

    def _homes(self, rows: Rows) -> Int64s:
        """The cell of the centre of each box; 0 without a box."""
        assert self.sharding.dims is not None
        boxes = subscription_boxes(rows, self.sharding.dims)
        with np.errstate(invalid="ignore"):
            lon, lat = (boxes.west + boxes.east) / 2, (boxes.south + boxes.north) / 2
        home = np.zeros(len(lon), np.int64)
        for number, (west, east, south, north) in enumerate(self.sharding.cells):
            home[(lon >= west) & (lon < east) & (lat >= south) & (lat < north)] = number
        return home


@dataclass(frozen=True)
class SignatureGroups:
    """Groups by signature: see the module. Rows without predicates cover everything and are stored in all groups."""

    uses: Mapping[int, int]
    groups: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = read_subscriptions(batch).rows
            entries: list[tuple[int, int, bool]] = []
            subscription = -1
            for r in range(rows.size):
                is_first = r == 0 or rows.ids[r] != rows.ids[r - 1]
                subscription += is_first
                dims = self._dims(rows, r)
                stored_in = (
                    [min(dims, key=lambda d: (self.uses.get(d, 0), d)) % self.groups] if dims else range(self.groups)
                )
                entries += [(subscription, group, False) for group in stored_in]
                if is_first:
                    entries += [(subscription, group, True) for group in ({d % self.groups for d in dims} or {0})]
            is_query: dict[tuple[int, int], bool] = {}
            for at, group, query in entries:
                is_query[at, group] = is_query.get((at, group), False) or query
            pairs = np.array(list(is_query), np.int64).reshape(-1, 2)
            yield _grouped(batch, pairs[:, 0], pairs[:, 1], np.array(list(is_query.values()), np.bool_))

    def _dims(self, rows: Rows, r: int) -> list[int]:
        span = slice(rows.offsets[r], rows.offsets[r + 1])
        heads = (rows.kinds[span] == INTERVAL) | (rows.kinds[span] == ABSENT)
        return [int(dim) for dim in rows.dims[span][heads]]


@dataclass(frozen=True)
class Covering:
    """One cover for each query, among all subscriptions of its group."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        parts: dict[int, list[Any]] = {}
        for batch in batches:
            for group, part in split_by_first(batch):
                parts.setdefault(group, []).append(part)
        for group in sorted(parts):
            yield self._search(parts.pop(group))

    def _search(self, batches: list[Any]) -> Any:
        index = CoverIndex()
        index.insert(concatenate_rows([read_subscriptions(batch).rows for batch in batches]))
        queries = [read_subscriptions(batch.filter(batch.column(1))) for batch in batches]
        ids = np.concatenate([part.ids for part in queries])
        found = index.covers_of(concatenate_rows([part.rows for part in queries]), k=1, before=ids)
        covered = np.diff(found.offsets) > 0
        return pa.RecordBatch.from_arrays([pa.array(ids[covered]), pa.array(found.ids)], schema=_COVERS)


def _uses(table: DataFrame) -> dict[int, int]:
    """The number of subscriptions that use each dimension. Sends one record per dimension to the driver."""
    named = table.select(fn.explode(fn.array_distinct("dims")).alias("dim"))
    return {int(row["dim"]): int(row["count"]) for row in named.groupBy("dim").count().collect()}


def _followed(edges: DataFrame) -> DataFrame:
    """Replaces covers by their own covers until none is covered; each round doubles the steps."""
    current = edges.localCheckpoint()
    while True:
        further = current.select(fn.col("id").alias("_id"), fn.col("cover").alias("_cover"))
        joined = current.join(further, current["cover"] == further["_id"], "left")
        after = joined.select(
            "id", fn.coalesce("_cover", "cover").alias("cover"), fn.col("_id").isNotNull().alias("moved")
        )
        after = after.localCheckpoint()
        if after.filter("moved").isEmpty():
            return after.select("id", "cover")
        current = after.select("id", "cover")


def _grouped(batch: Any, at: Int64s, group: Int64s, is_query: Any) -> Any:
    return with_columns([group, is_query], batch.take(pa.array(at)), _GROUPED)
