"""The stages on a lake: each reads published versions, writes a new one and records in its manifest which versions it used.

The stages of the other modules work on DataFrames; these functions add the versions of a lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as fn

from matchwood.errors import StorageError
from matchwood.spark import columns, ingest
from matchwood.spark.codebook import Codebook
from matchwood.spark.cover import cover
from matchwood.spark.evaluate import Evaluation, evaluate
from matchwood.spark.index_stage import IndexVersion, build_index, open_index
from matchwood.spark.ingest_worker import Kind
from matchwood.spark.jobs import described, warn_about_session
from matchwood.spark.lake import Lake, Manifest, write_counted
from matchwood.spark.live_stage import match_live_events
from matchwood.spark.match_stage import match_events
from matchwood.spark.places import Place
from matchwood.spark.profile import profile
from matchwood.spark.weigh import AROUND, DEVIATION, inverse_frequencies, weigh

STAGED = "_staged"
"""The folder of a version for what is removed before the version is published."""

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from matchwood.schema import Schema


def ingest_table(
    lake: Lake,
    raw: DataFrame,
    kind: Kind,
    *,
    form: str | None = None,
    source: str = "DataFrame",
    schema: Schema | Mapping[str, str] | None = None,
) -> Manifest:
    """Encode raw records as a version of `subscriptions` or `events` and one of `rejects`, and extend the codebook.

    `schema` declares attributes that the codebook lacks. Several ingests may run at once. Raises `StorageError`, and publishes
    nothing, unless every record that was read was either written or rejected.
    """
    known = lake.codebook()
    codebook = Codebook.declare(schema) if known is None else known.declaring(schema)
    spark = raw.sparkSession
    warn_about_session(spark)
    with described(spark, f"learn names and strings of {kind}"):
        codebook = lake.merge_codebook(ingest.learn(raw, codebook, kind, form=form))
    with described(spark, f"ingest {kind}"), lake.new_version(kind) as (version, folder):
        counts, rejects = _written(raw, codebook, kind, folder, form, source)
        upstream: dict[str, int] = {kind: version}
        refused = lake.write("rejects", rejects, parameters={"source": source}, upstream=upstream)
        (folder / STAGED).remove()
        counts["rejected"] = refused.counts["records"]
        if counts["read"] != counts["records"] + counts["rejected"]:
            raise StorageError(
                f"{source}: {counts['read']:.0f} records were read, but {counts['records']:.0f} kept and "
                f"{counts['rejected']:.0f} rejected"
            )
        parameters = {"source": source, "form": form, "codebook": codebook.version}
        return lake.publish(
            Manifest(kind, version, parameters, counts, {"rejects": refused.version}, {"codebook": codebook.stamp})
        )


def _written(
    raw: DataFrame, codebook: Codebook, kind: Kind, folder: Place, form: str | None, source: str
) -> tuple[dict[str, float], DataFrame]:
    """Write the good records; (their counts, the bad records). Raw records are encoded once; if ids are repeated, the encoded
    ones are copied without them."""
    spark, staged, data = raw.sparkSession, folder / STAGED, folder / "data"
    seen = Observation()
    observed = raw.observe(seen, fn.count(fn.lit(1)).alias("records"))
    kept = write_counted(ingest.separate(observed, codebook, kind, staged / "rejects", form=form), data)
    rejects = ingest.separated_rejects(spark, staged / "rejects", source)
    stored = spark.read.parquet(data.read_by_spark)
    if ingest.has_repeated_ids(stored):
        distinct, repeated = staged / "distinct", staged / "repeated"
        good, again = ingest.split(ingest.located(stored), kind, source)
        write_counted(again, repeated)
        write_counted(good, distinct)
        data.remove()
        kept = write_counted(codebook.mark(spark.read.parquet(distinct.read_by_spark)), data)
        rejects = rejects.unionByName(spark.read.parquet(repeated.read_by_spark))
    return {"read": float(seen.get["records"]), "records": float(kept)}, rejects


def index_table(
    lake: Lake,
    spark: SparkSession,
    *,
    table: str = "subscriptions",
    version: int | None = None,
    covered: bool = False,
    **options: Any,
) -> IndexVersion:
    """A new version of the index of a version of a table of subscriptions, by default the newest; `covered` uses table
    `covers`."""
    manifest = lake.manifest(table, version)
    subscriptions = lake.read(spark, table, manifest.version)
    if covered:
        options["covers"] = lake.read(spark, "covers")
    return build_index(subscriptions, lake, known_codebook(lake), upstream={table: manifest.version}, **options)


def match_table(
    lake: Lake,
    spark: SparkSession,
    *,
    version: int | None = None,
    index: int | None = None,
    k: int | None = None,
    mode: str = "all",
    scoring: str = "sum",
    **options: Any,
) -> Manifest:
    """A new version of `matches`: a version of `events` against one of the index, by default the newest of both."""
    manifest, chosen = lake.manifest("events", version), open_index(lake, index)
    warn_about_session(spark)
    what = f"match events version {manifest.version} with index version {chosen.version}"
    with lake.lease("index", chosen.version), described(spark, what):
        events = lake.read(spark, "events", manifest.version)
        found = match_events(events, chosen, k=k, mode=mode, scoring=scoring, **options)
        return lake.write(
            "matches",
            found.select(*columns.MATCHES.names),
            parameters={
                "k": k,
                "mode": mode,
                "scoring": scoring,
                **{name: str(value) for name, value in options.items()},
            },
            upstream={"events": manifest.version, "index": chosen.version},
        )


def match_subscriptions_table(
    lake: Lake,
    spark: SparkSession,
    *,
    at: str,
    index: int | None = None,
    k: int | None = None,
    mode: str = "all",
    scoring: str = "sum",
) -> Manifest:
    """A new version of `matches_of_subscriptions`: the subscriptions of an index version against the newest live events."""
    chosen, events = open_index(lake, index), lake.latest("events")
    what = f"match subscriptions of index version {chosen.version} with events version {events}"
    with lake.lease("index", chosen.version), described(spark, what):
        found = match_live_events(chosen, lake.read(spark, "events", events), at=at, k=k, mode=mode, scoring=scoring)
        upstream = {"events": events, "index": chosen.version}
        parameters = {"at": at, "k": k, "mode": mode, "scoring": scoring}
        return lake.write("matches_of_subscriptions", found, parameters=parameters, upstream=upstream)


def evaluate_table(lake: Lake, spark: SparkSession, **sample: Any) -> Evaluation:
    """Compare the newest matches with the oracle; `sample` holds options of `evaluate`."""
    made = lake.manifest("matches")
    index = lake.manifest("index", made.upstream["index"])
    with described(spark, f"compare matches version {made.version} with the oracle"):
        return _evaluated(lake, spark, made, index, sample)


def _evaluated(
    lake: Lake, spark: SparkSession, made: Manifest, index: Manifest, sample: Mapping[str, Any]
) -> Evaluation:
    table = next(name for name in ("weighed", "subscriptions") if name in index.upstream)
    return evaluate(
        lake.read(spark, "matches", made.version),
        lake.read(spark, table, index.upstream[table]),
        lake.read(spark, "events", made.upstream["events"]),
        open_index(lake, index.version),
        k=made.parameters["k"],
        mode=made.parameters["mode"],
        scoring=made.parameters.get("scoring", "sum"),
        **sample,
    )


def cover_table(lake: Lake, spark: SparkSession, *, table: str = "subscriptions", groups: int = 8) -> Manifest:
    """A new version of `covers`: the covered ones of the newest subscriptions, and their covers."""
    version = lake.latest(table)
    covers = cover(lake.read(spark, table, version), known_codebook(lake), groups=groups)
    with described(spark, f"cover {table} version {version}"):
        return lake.write("covers", covers, parameters={"groups": groups}, upstream={table: version})


def profile_tables(lake: Lake, spark: SparkSession) -> Manifest:
    """A new version of `attributes`: the statistics of the newest subscriptions and, if there are any, events."""
    codebook = known_codebook(lake)
    versions = {name: lake.latest(name) for name in ("subscriptions", "events") if lake.versions(name)}
    if "subscriptions" not in versions:
        raise StorageError(f"{lake.root}: the lake has no subscriptions; ingest some first")
    events = lake.read(spark, "events", versions["events"]) if "events" in versions else None
    table = profile(lake.read(spark, "subscriptions", versions["subscriptions"]), events, codebook)
    with described(spark, "profile"):
        return lake.write("attributes", table, upstream=versions)


def weigh_table(
    lake: Lake, spark: SparkSession, *, weights: Mapping[str, float] | None = None, seed: int = 1
) -> Manifest:
    """A new version of `weighed`: the newest subscriptions with given weights, or by inverse frequency from a profile."""
    version = lake.latest("subscriptions")
    upstream = {"subscriptions": version}
    drawn: dict[str, Any] = {}
    if weights is None:
        upstream["attributes"] = lake.latest("attributes")
        weights = inverse_frequencies(lake.read(spark, "attributes", upstream["attributes"]))
        drawn = {"around": AROUND, "deviation": DEVIATION, "seed": seed}
    table = weigh(lake.read(spark, "subscriptions", version), known_codebook(lake), weights, **drawn)
    with described(spark, f"weigh subscriptions version {version}"):
        return lake.write("weighed", table, parameters={"weights": dict(weights), **drawn}, upstream=upstream)


def known_codebook(lake: Lake) -> Codebook:
    """The codebook of a lake. Raises `StorageError` if it has none."""
    codebook = lake.codebook()
    if codebook is None:
        raise StorageError(f"{lake.root}: the lake has no codebook; ingest subscriptions first")
    return codebook
