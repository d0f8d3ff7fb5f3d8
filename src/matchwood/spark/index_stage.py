"""Index: shards of subscriptions, built in executors and published together as a new version of the lake's `index`.

    assign    the shard of each subscription; for `space` workers compute boxes, for `hash` Spark computes the hash
    build     each shard in one task: arrays -> index -> folder of arrays that can be mapped
    publish   the driver checks that it can read the folders and writes the manifest, which names them

Each attempt of a task writes to its own folder, so retries and speculative tasks do not interfere. Folders that the manifest does
not name are never read.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as fn

from matchwood.encode.arrays import Rows, concatenate_rows
from matchwood.errors import QueryError, SchemaError, UnsupportedError
from matchwood.lang.event import PLACE
from matchwood.planner import AUTO, RULES, planned_index
from matchwood.schema import Schema, Type
from matchwood.spark import columns
from matchwood.spark.batches import (
    CENTRES,
    SHARDED_SUBSCRIPTIONS,
    SubscriptionBatch,
    read_subscriptions,
    split_by_first,
    with_columns,
)
from matchwood.spark.codebook import Codebook
from matchwood.spark.jobs import described
from matchwood.spark.lake import Lake, Manifest
from matchwood.spark.places import Place
from matchwood.spark.shard_cache import Release, check_shard, compile_once, save_shard
from matchwood.spark.sharding import Sharding, centres, spatial, subscription_boxes
from matchwood.structures import INDEXES, Capability, Index, make_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "index"
SAMPLE = 20_000
"""Places that are sampled to choose the cells."""


@dataclass(frozen=True)
class IndexVersion:
    """A published version of an index: everything that matching needs, without a session.

    `index` is the requested name (possibly "auto"), `structures` are the names of the structures that were built.
    """

    folder: Place
    version: int
    index: str
    sharding: Sharding
    shards: Mapping[int, str]
    codebook: Codebook
    counts: Mapping[str, float]
    structures: tuple[str, ...]

    def demand(self, capability: Capability) -> None:
        """Raise `UnsupportedError` unless the structures of all shards have this capability."""
        for name in self.structures:
            if capability not in INDEXES[name].capabilities:
                raise UnsupportedError(f"index {name!r} does not offer {capability}; 'scan' does")

    @property
    def bytes(self) -> int:
        """Size on disk, and in memory once all of it has been used."""
        return int(self.counts["bytes"])

    def paths(self) -> dict[int, Place]:
        """The folder of each shard."""
        return {shard: self.folder / name for shard, name in self.shards.items()}


def build_index(
    subscriptions: DataFrame,
    lake: Lake,
    codebook: Codebook,
    *,
    index: str = AUTO,
    options: Mapping[str, Any] | None = None,
    shards: int = 1,
    by: str = "auto",
    place: str = PLACE,
    covers: DataFrame | None = None,
    upstream: Mapping[str, int] | None = None,
) -> IndexVersion:
    """Build and publish a new version. Runs one job (two for `space`); one record per shard is sent to the driver.

    `index` names the structure; with "auto" a trial chooses one for each shard (for relaxed matching give
    `options={"mode": "any"}`). `by` is "hash", "space" (cells with equally many subscriptions, by the point attribute `place`)
    or "auto": space if the codebook has `place`, hash otherwise. `covers`, the result of `cover`, makes two shards instead:
    covered subscriptions are only searched for events that match one of the others.
    """
    columns.check(subscriptions, columns.SUBSCRIPTIONS, "subscriptions")
    codebook.check_subscriptions(subscriptions)
    empty = made_index(
        concatenate_rows([]), index, options or {}
    )  # a wrong name or option raises here, not in a worker
    if covers is None:
        sharding = plan_sharding(subscriptions, codebook.schema(), shards=shards, by=by, place=place)
    else:
        columns.check(covers, columns.COVERS, "covers")
        sharding, by = Sharding("cover", 2), "cover"
    with lake.new_version(NAME) as (version, folder):
        release = Release.here()
        building = Building(folder, index, dict(options or {}), release)
        with described(subscriptions.sparkSession, f"build index {index} in {sharding.shards} shards"):
            report = _assigned(subscriptions, sharding, covers).mapInArrow(building, columns.SHARDS).collect()
        names = {int(row["shard"]): str(row["folder"]) for row in report}
        for name in names.values():
            check_shard(folder / name, release)
        totals = {key: float(sum(row[key] for row in report)) for key in ("subscriptions", "rows", "bytes", "seconds")}
        details = {
            "index": index,
            "structures": sorted({str(row["structure"]) for row in report}) or [empty.name],
            "sharding": sharding.to_json(),
            "shards": {str(shard): name for shard, name in sorted(names.items())},
            "codebook": codebook.to_json(),
        }
        parameters = {"index": index, "options": dict(options or {}), "shards": shards, "by": by, "place": place}
        lake.publish(Manifest(NAME, version, parameters, totals, upstream or {}, details))
    return open_index(lake, version)


def open_index(lake: Lake, version: int | None = None) -> IndexVersion:
    """A version of the lake's index, by default the newest."""
    manifest = lake.manifest(NAME, version)
    details = manifest.details
    try:
        structures = tuple(str(name) for name in details["structures"])
        for name in structures:
            if name not in INDEXES:
                raise QueryError(f"index version {manifest.version}: unknown index {name!r}; build the index again")
        return IndexVersion(
            lake.folder(NAME, manifest.version),
            manifest.version,
            str(details["index"]),
            Sharding.from_json(details["sharding"]),
            {int(shard): str(name) for shard, name in details["shards"].items()},
            Codebook.from_json(details["codebook"]),
            manifest.counts,
            structures,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(
            f"index version {manifest.version}: the manifest is damaged: {error!r}; build the index again"
        ) from None


def plan_sharding(
    subscriptions: DataFrame, schema: Schema, *, shards: int, by: str = "auto", place: str = PLACE
) -> Sharding:
    """How to divide subscriptions among shards; for space it samples their places, which runs a job."""
    if shards < 1:
        raise QueryError(f"expected at least one shard, got {shards}")
    if by not in ("auto", "hash", "space"):
        raise QueryError(f"expected by to be 'auto', 'hash' or 'space', got {by!r}")
    attribute = schema.get(place)
    has_place = attribute is not None and attribute.type is Type.POINT
    if by == "space" and not has_place:
        raise SchemaError(f"attribute {place!r} is not a point, which by='space' needs; use by='hash'")
    if shards == 1:
        return Sharding()
    if by == "hash" or not has_place:
        return Sharding("hash", shards)
    assert attribute is not None
    dims = (attribute.dims[0], attribute.dims[1])
    places = subscriptions.mapInArrow(Centres(dims), columns.CENTRES).orderBy(fn.xxhash64("lon", "lat")).limit(SAMPLE)
    with described(subscriptions.sparkSession, "sample places to choose the cells"):
        found = places.toArrow()
    lon, lat = (found.column(name).to_numpy() for name in ("lon", "lat"))
    return spatial(dims, lon, lat, max(shards - 1, 1))


def made_index(rows: Rows, index: str, options: Mapping[str, Any]) -> Index:
    """An index of the rows: the named structure or, for "auto", the one that a trial chooses."""
    if index != AUTO:
        made = make_index(index, **options)
        made.insert(rows)
        return made
    if set(options) - {"mode"}:
        raise QueryError(f"index {AUTO!r} has one option, 'mode', got {', '.join(sorted(options))}")
    return planned_index(rows, **options)[0]


@dataclass(frozen=True)
class Centres:
    """The centres of the boxes of subscriptions that have a bounded box."""

    dims: tuple[int, int]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            lon, lat = centres(subscription_boxes(read_subscriptions(batch).rows, self.dims))
            yield pa.RecordBatch.from_arrays([pa.array(lon), pa.array(lat)], schema=CENTRES)


@dataclass(frozen=True)
class Assigning:
    """Each subscription once for every shard that stores it, with the number of the shard as first column; for `space`."""

    sharding: Sharding

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            at, shard = self.sharding.of_rows(read_subscriptions(batch).rows)
            yield with_columns([shard], batch.take(pa.array(at)), SHARDED_SUBSCRIPTIONS)


@dataclass(frozen=True)
class Building:
    """Builds the shards of a partition and saves them under `folder`.

    `release` is that of the driver; a worker with another release raises `StorageError`.
    """

    folder: Place
    index: str
    options: dict[str, Any]
    release: Release

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        self.release.check_here()
        parts: dict[int, list[SubscriptionBatch]] = {}
        for batch in batches:
            for shard, part in split_by_first(batch):
                parts.setdefault(shard, []).append(read_subscriptions(part))
        for shard in sorted(parts):
            yield self._build(shard, parts.pop(shard))

    def _build(self, shard: int, parts: list[SubscriptionBatch]) -> Any:
        start = time.perf_counter()
        rows = concatenate_rows([part.rows for part in parts])
        ids = np.concatenate([part.ids for part in parts])
        until = np.concatenate([part.until for part in parts])
        for part in [contender.index for contender in RULES.contenders] if self.index == AUTO else [self.index]:
            compile_once(part)
        built = made_index(rows, self.index, self.options)
        name = f"shard-{shard:05}-{uuid.uuid4().hex[:8]}"
        size = save_shard(self.folder / name, built, ids, until, {"shard": shard})
        seconds = time.perf_counter() - start
        record = (shard, name, built.name, len(ids), rows.size, size, seconds)
        arrays = [pa.array([value], field.type) for value, field in zip(record, _REPORT, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_REPORT)


_REPORT = columns.arrow_schema(columns.SHARDS)


def _assigned(subscriptions: DataFrame, sharding: Sharding, covers: DataFrame | None) -> DataFrame:
    """Subscriptions with their shard; a shard is in one partition."""
    table = subscriptions.select(*columns.SUBSCRIPTIONS.names)
    if sharding.kind == "space":
        spread = table.mapInArrow(Assigning(sharding), columns.SHARDED_SUBSCRIPTIONS)
    elif covers is not None:
        covered = covers.select("id", fn.lit(1).alias("_covered"))
        spread = table.join(covered, "id", "left").withColumn("shard", fn.coalesce("_covered", fn.lit(0)))
    elif sharding.kind == "hash":
        spread = table.withColumn("shard", fn.pmod(fn.xxhash64("id"), fn.lit(sharding.shards)).cast("int"))
    else:
        spread = table.withColumn("shard", fn.lit(0))
    spread = spread.select("shard", *table.columns)
    if sharding.shards == 1:
        return spread.repartition(1)
    if hasattr(spread, "repartitionById"):  # from Spark 4.1 on; hashing may put two shards into one task
        return spread.repartitionById(sharding.shards, fn.col("shard"))
    return spread.repartition(sharding.shards, "shard")
