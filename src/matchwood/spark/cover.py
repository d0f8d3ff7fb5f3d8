"""Cover: which subscriptions are covered by which, found in groups that need not know of each other.

A group holds every possible cover of those that ask in it:

    space        where there is a point attribute: a subscription asks in the cell of its box's centre and answers in every
                 cell its box meets. A cover's box holds the boxes of those it covers, so it meets their cells. Subscriptions
                 without a box, or with one that meets many cells, answer everywhere and ask in a group of their own
    signature    elsewhere: a row answers in the group of its rarest attribute, and a subscription asks in the groups of all
                 attributes of its first row, since a cover of that row asks for some of them and no others

Each group is searched by `CoverIndex` (Covering IV); chains of covers are then followed to their ends by joins, in as many
rounds as the logarithm of the longest chain. Covering is what `covering.exact` says.
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
from matchwood.spark.batches import read_subscriptions
from matchwood.spark.codebook import Codebook
from matchwood.spark.index_stage import plan_sharding
from matchwood.spark.sharding import Sharding, subscription_boxes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUPED = columns.arrow_schema(columns.GROUPED)
_COVERS = columns.arrow_schema(columns.COVERS)


def cover(subscriptions: DataFrame, codebook: Codebook, *, groups: int = 8, place: str = PLACE) -> DataFrame:
    """(id, cover) of every covered subscription; the cover is covered by none. Equals are covered by the smallest id among them.

    Runs jobs: one to plan groups, and the rounds that follow chains; the result is held by Spark (`localCheckpoint`).
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
    """The subscriptions that none covers. Lazy."""
    return subscriptions.join(covers.select("id"), "id", "left_anti").select(*columns.SUBSCRIPTIONS.names)


@dataclass(frozen=True)
class SpaceGroups:
    """Subscriptions in the cells their boxes meet; they ask in that of the centre."""

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
            answers_at = np.concatenate([at[~wide], np.repeat(at[wide], self.groups)])
            group = np.concatenate([cell[~wide], np.tile(np.arange(self.groups), int(wide.sum()))])
            asks_in = np.where(np.isin(np.arange(len(home)), at[wide]), self.sharding.wide, home)
            yield _grouped(batch, answers_at, group, asks_in[answers_at] == group)

    def _homes(self, rows: Rows) -> Int64s:
        """The cell of the centre of each box; any, of one without."""
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
    """Subscriptions in the groups of their rows' rarest dimensions; they ask in those of all dimensions of their first row.

    Rows without any predicate cover everything, so they answer everywhere.
    """

    uses: Mapping[int, int]
    groups: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = read_subscriptions(batch).rows
            places: list[tuple[int, int, bool]] = []
            subscription = -1
            for r in range(rows.size):
                is_first = r == 0 or rows.ids[r] != rows.ids[r - 1]
                subscription += is_first
                dims = self._dims(rows, r)
                answers = (
                    [min(dims, key=lambda d: (self.uses.get(d, 0), d)) % self.groups] if dims else range(self.groups)
                )
                places += [(subscription, group, False) for group in answers]
                if is_first:
                    places += [(subscription, group, True) for group in ({d % self.groups for d in dims} or {0})]
            asks: dict[tuple[int, int], bool] = {}
            for at, group, ask in places:
                asks[at, group] = asks.get((at, group), False) or ask
            pairs = np.array(list(asks), np.int64).reshape(-1, 2)
            yield _grouped(batch, pairs[:, 0], pairs[:, 1], np.array(list(asks.values()), np.bool_))

    def _dims(self, rows: Rows, r: int) -> list[int]:
        span = slice(rows.offsets[r], rows.offsets[r + 1])
        heads = (rows.kinds[span] == INTERVAL) | (rows.kinds[span] == ABSENT)
        return [int(dim) for dim in rows.dims[span][heads]]


@dataclass(frozen=True)
class Covering:
    """One cover of each subscription that asks, among all of its group."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        parts: dict[int, list[Any]] = {}
        for batch in batches:
            group = batch.column(0).to_numpy(zero_copy_only=False)
            for number in np.unique(group).tolist():
                parts.setdefault(number, []).append(batch.filter(pa.array(group == number)))
        for number in sorted(parts):
            yield self._search(parts.pop(number))

    def _search(self, batches: list[Any]) -> Any:
        index = CoverIndex()
        index.insert(concatenate_rows([read_subscriptions(batch).rows for batch in batches]))
        asking = [read_subscriptions(batch.filter(batch.column(1))) for batch in batches]
        ids = np.concatenate([part.ids for part in asking])
        found = index.covers_of(concatenate_rows([part.rows for part in asking]), k=1, before=ids)
        covered = np.diff(found.offsets) > 0
        return pa.RecordBatch.from_arrays([pa.array(ids[covered]), pa.array(found.ids)], schema=_COVERS)


def _uses(table: DataFrame) -> dict[int, int]:
    """How many subscriptions name each dimension. One record a dimension comes to the driver."""
    named = table.select(fn.explode(fn.array_distinct("dims")).alias("dim"))
    return {int(row["dim"]): int(row["count"]) for row in named.groupBy("dim").count().collect()}


def _followed(edges: DataFrame) -> DataFrame:
    """Covers of covers, to the end: each round doubles the steps."""
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


def _grouped(batch: Any, at: Int64s, group: Int64s, asks: Any) -> Any:
    arrays = [pa.array(group.astype(np.int32)), pa.array(asks), *batch.take(pa.array(at)).columns]
    arrays = [a if a.type == field.type else a.cast(field.type) for a, field in zip(arrays, _GROUPED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_GROUPED)
