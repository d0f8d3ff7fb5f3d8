"""Index: subscriptions to shards, built in executors, visible all at once as a new version of the lake's `index`.

    assign    which shard; for `space` a worker computes boxes, for `hash` Spark does it itself
    build     each shard in one task: arrays -> index -> folder of mapped arrays
    publish   the manifest names the folders that count, once the driver has seen that it can read them

An attempt of a task writes to a folder of its own, so retries and speculative tasks never meet; those that the manifest
does not name are never read.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as fn

from matchwood.encode.arrays import Rows, concatenate_rows
from matchwood.errors import QueryError, SchemaError, UnsupportedError
from matchwood.lang.event import PLACE
from matchwood.planner import AUTO, planned_index
from matchwood.schema import Schema, Type
from matchwood.spark import columns
from matchwood.spark.batches import CENTRES, SHARDED_SUBSCRIPTIONS, SubscriptionBatch, read_subscriptions, with_shard
from matchwood.spark.codebook import Codebook
from matchwood.spark.lake import Lake, Manifest
from matchwood.spark.resident import Release, check_shard, folder_bytes, save_shard
from matchwood.spark.sharding import Sharding, centres, spatial, subscription_boxes
from matchwood.structures import INDEXES, Capability, Index, make_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "index"
SAMPLE = 20_000
"""Places that decide where the cells are cut."""


@dataclass(frozen=True)
class IndexVersion:
    """A whole version of an index: everything that matching needs to know, without a session.

    `index` is the name that was asked for, `structures` are those that were built.
    """

    folder: str
    version: int
    index: str
    sharding: Sharding
    shards: Mapping[int, str]
    codebook: Codebook
    counts: Mapping[str, float]
    structures: tuple[str, ...]

    def demand(self, capability: Capability) -> None:
        """Raise `UnsupportedError` unless every structure that the shards were built as offers this."""
        for name in self.structures:
            if capability not in INDEXES[name].capabilities:
                raise UnsupportedError(f"index {name!r} does not offer {capability}; 'scan' does")

    @property
    def bytes(self) -> int:
        """On disk, hence in memory once all of it is mapped and used."""
        return int(self.counts["bytes"])

    def paths(self) -> dict[int, str]:
        """The folder of each shard."""
        return {shard: str(Path(self.folder) / name) for shard, name in self.shards.items()}


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
    """Build and publish a new version. Runs one job (two for `space`); what comes to the driver is one record a shard.

    `index` names the structure; "auto" tries, for each shard, which serves its subscriptions best (for relaxed matching with
    `options={"mode": "any"}`). `by` is "hash", "space" (cells of equally many subscriptions around the point attribute `place`),
    or "auto": space where the codebook knows `place`, hash otherwise. With one shard there is nothing to choose. `covers` (of
    `cover`) makes two shards instead, one of those that none covers: an event that hits none of them need not look at the others.
    """
    columns.check(subscriptions, columns.SUBSCRIPTIONS, "subscriptions")
    codebook.check_subscriptions(subscriptions)
    empty = made_index(
        concatenate_rows([]), index, options or {}
    )  # a bad name or option is an error here, not in a worker
    if covers is None:
        sharding = plan_sharding(subscriptions, codebook.schema(), shards=shards, by=by, place=place)
    else:
        columns.check(covers, columns.COVERS, "covers")
        sharding, by = Sharding("cover", 2), "cover"
    with lake.new_version(NAME) as (version, folder):
        release = Release.here()
        building = Building(str(folder), index, dict(options or {}), release)
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
    """A version of the lake's index, by default the newest whole one."""
    manifest = lake.manifest(NAME, version)
    details = manifest.details
    try:
        structures = tuple(str(name) for name in details["structures"])
        for name in structures:
            if name not in INDEXES:
                raise QueryError(f"version {manifest.version} holds an index {name!r} that is not known here")
        return IndexVersion(
            str(lake.folder(NAME, manifest.version)),
            manifest.version,
            str(details["index"]),
            Sharding.from_json(details["sharding"]),
            {int(shard): str(name) for shard, name in details["shards"].items()},
            Codebook.from_json(details["codebook"]),
            manifest.counts,
            structures,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"the manifest of index version {manifest.version} is of another schema: {error!r}") from None


def plan_sharding(
    subscriptions: DataFrame, schema: Schema, *, shards: int, by: str = "auto", place: str = PLACE
) -> Sharding:
    """How to spread subscriptions over that many shards; for space their places are sampled, which runs a job."""
    if shards < 1:
        raise QueryError(f"expected at least one shard, got {shards}")
    if by not in ("auto", "hash", "space"):
        raise QueryError(f"expected by to be 'auto', 'hash' or 'space', got {by!r}")
    attribute = schema.get(place)
    placed = attribute is not None and attribute.type is Type.POINT
    if by == "space" and not placed:
        raise SchemaError(f"attribute {place!r} is no point, so subscriptions cannot be spread by it; use by='hash'")
    if shards == 1:
        return Sharding()
    if by == "hash" or not placed:
        return Sharding("hash", shards)
    assert attribute is not None
    dims = (attribute.dims[0], attribute.dims[1])
    found = (
        subscriptions.mapInArrow(Centres(dims), columns.CENTRES)
        .orderBy(fn.xxhash64("lon", "lat"))
        .limit(SAMPLE)
        .toArrow()
    )
    lon, lat = (found.column(name).to_numpy() for name in ("lon", "lat"))
    return spatial(dims, lon, lat, max(shards - 1, 1))


def made_index(rows: Rows, index: str, options: Mapping[str, Any]) -> Index:
    """An index of the rows, of that structure or, for "auto", of the one that serves them best."""
    if index != AUTO:
        made = make_index(index, **options)
        made.insert(rows)
        return made
    if set(options) - {"mode"}:
        raise QueryError(f"index {AUTO!r} has one option, 'mode', got {', '.join(sorted(options))}")
    return planned_index(rows, **options)[0]


@dataclass(frozen=True)
class Centres:
    """The centres of the boxes of subscriptions that have one."""

    dims: tuple[int, int]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            lon, lat = centres(subscription_boxes(read_subscriptions(batch).rows, self.dims))
            yield pa.RecordBatch.from_arrays([pa.array(lon), pa.array(lat)], schema=CENTRES)


@dataclass(frozen=True)
class Assigning:
    """Subscriptions with the number of a shard before them, once for every copy; by space."""

    sharding: Sharding

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            at, shard = self.sharding.of_rows(read_subscriptions(batch).rows)
            yield with_shard(shard, batch.take(pa.array(at)), SHARDED_SUBSCRIPTIONS)


@dataclass(frozen=True)
class Building:
    """Build the shards of a partition: their subscriptions are gathered, indexed and saved under `folder`.

    `release` is the driver's; a worker that runs another refuses.
    """

    folder: str
    index: str
    options: dict[str, Any]
    release: Release

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        self.release.check_here()
        parts: dict[int, list[SubscriptionBatch]] = {}
        for batch in batches:
            shard = batch.column(0).to_numpy(zero_copy_only=False)
            if len(shard) and (shard == shard[0]).all():
                parts.setdefault(int(shard[0]), []).append(read_subscriptions(batch))
                continue
            for number in np.unique(shard).tolist():
                chosen = batch.filter(pa.array(shard == number))
                parts.setdefault(number, []).append(read_subscriptions(chosen))
        for number in sorted(parts):
            yield self._build(number, parts.pop(number))

    def _build(self, shard: int, parts: list[SubscriptionBatch]) -> Any:
        start = time.perf_counter()
        rows = concatenate_rows([part.rows for part in parts])
        ids = np.concatenate([part.ids for part in parts])
        until = np.concatenate([part.until for part in parts])
        built = made_index(rows, self.index, self.options)
        name = f"shard-{shard:05}-{uuid.uuid4().hex[:8]}"
        path = Path(self.folder) / name
        save_shard(path, built, ids, until, {"shard": shard})
        seconds = time.perf_counter() - start
        record = (shard, name, built.name, len(ids), rows.size, folder_bytes(path), seconds)
        arrays = [pa.array([value], field.type) for value, field in zip(record, _REPORT, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_REPORT)


_REPORT = columns.arrow_schema(columns.SHARDS)


def _assigned(subscriptions: DataFrame, sharding: Sharding, covers: DataFrame | None) -> DataFrame:
    """Subscriptions with their shard, each shard whole in one partition."""
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
    if hasattr(spread, "repartitionById"):  # Spark 4.1: no two shards in one task by an accident of hashing
        return spread.repartitionById(sharding.shards, fn.col("shard"))
    return spread.repartition(sharding.shards, "shard")
