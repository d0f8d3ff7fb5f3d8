"""The contents of the report of the demo: bounded samples and sums of the tables of a lake, collected on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as fn

from matchwood.encode.objects import decode_rows
from matchwood.engine.explanation import Explanation
from matchwood.lang.describe import describe_rows, describe_value
from matchwood.lang.evaluate import judge
from matchwood.schema import Schema
from matchwood.spark.batches import read_subscriptions
from matchwood.spark.evaluate_worker import keyed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from matchwood.spark.index_stage import IndexVersion
    from matchwood.spark.lake import Lake

MAP_EVENTS = 6_000
"""Events that a map shows."""


class Ranked(NamedTuple):
    """An offer with its ranked searches: (rank, id, score, search, why)."""

    id: int
    facts: str
    hits: list[tuple[int, int, float, str, str]]


def gather(spark: SparkSession, lake: Lake, index: IndexVersion, shown: int) -> dict[str, Any]:
    """Collect what the report shows."""
    schema = index.codebook.schema()
    events, matches = lake.read(spark, "events"), lake.read(spark, "matches")
    per_event = matches.groupBy("event_id").agg(fn.count("*").alias("hits"), fn.max("score").alias("best"))
    lon, lat = (
        fn.expr(f"element_at(lo, cast(array_position(dims, {dim}) as int))") for dim in schema.find("place").dims
    )
    placed = events.filter(fn.expr(f"array_contains(dims, {schema.find('place').dims[0]})"))
    dots = (
        placed.select("id", lon.alias("lon"), lat.alias("lat"))
        .join(per_event, fn.col("id") == fn.col("event_id"), "left")
        .orderBy(fn.xxhash64("id"))
        .limit(MAP_EVENTS)
        .toArrow()
    )
    sums = per_event.agg(fn.count("*").alias("matched"), fn.sum("hits").alias("matches")).first()
    assert sums is not None
    best = per_event.orderBy(fn.desc("hits"), fn.desc("best"), "event_id").limit(shown).collect()
    return {
        "events": events.count(),
        "matched": int(sums["matched"]),
        "matches": int(sums["matches"] or 0),
        "dots": dots,
        "ranked": [_ranked(spark, lake, schema, int(row["event_id"])) for row in best],
        "attributes": [row.asDict() for row in lake.read(spark, "attributes").orderBy("dimension").collect()],
        "subscriptions": lake.manifest("subscriptions").counts["records"],
    }


def _ranked(spark: SparkSession, lake: Lake, schema: Schema, event_id: int) -> Ranked:
    (record,) = lake.read(spark, "events").filter(fn.col("id") == event_id).toArrow().to_batches()
    ((_, keys),) = keyed(record, schema)
    facts = ", ".join(f"{name} {describe_value(name, value, schema)}" for name, value in keys.values.items())
    hits = lake.read(spark, "matches").filter(fn.col("event_id") == event_id).orderBy("rank").collect()
    wanted = lake.read(spark, "weighed").filter(fn.col("id").isin([row["subscription_id"] for row in hits])).toArrow()
    subscriptions = {}
    for batch in wanted.to_batches():
        for i in range(batch.num_rows):
            found = read_subscriptions(batch.slice(i, 1)).rows
            subscriptions[int(found.ids[0])] = (float(found.priority[0]), decode_rows(found, schema))
    shown = []
    for row in hits:
        priority, rows = subscriptions[row["subscription_id"]]
        verdict = judge(rows, keys, priority=priority)
        why = str(Explanation(row["subscription_id"], priority, verdict, schema))
        text = describe_rows(tuple(rows), schema)
        shown.append((row["rank"], row["subscription_id"], row["score"], text, why))
    return Ranked(event_id, facts, shown)
