"""Match subscriptions: new subscriptions against live events, the best events of each subscription first.

An event is alive before its `until`, or forever without one. This is `match` of the live events with an index of the new
subscriptions, ranked by subscription: descending score, then ascending event id.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from matchwood.schema import instant_key
from matchwood.spark import columns
from matchwood.spark.index_stage import IndexVersion
from matchwood.spark.match_stage import match_events
from matchwood.spark.merge import Merging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def live(events: DataFrame, at: datetime | str) -> DataFrame:
    """The events that are alive at an instant. Lazy."""
    columns.check(events, columns.EVENTS, "events")
    instant = fn.timestamp_micros(fn.lit(int(instant_key(at))))
    return events.filter(fn.col("until").isNull() | (fn.col("until") > instant))


def match_live_events(
    index: IndexVersion,
    events: DataFrame,
    *,
    at: datetime | str,
    k: int | None = None,
    mode: str = "all",
    scoring: str = "sum",
) -> DataFrame:
    """(subscription_id, event_id, score, rank) of the subscriptions of an index and the events alive at `at`. Lazy.

    The subscriptions are an index version: build one of the new subscriptions with `build_index`, if needed in a separate lake.
    """
    pairs = match_events(live(events, at), index, mode=mode, at=at, scoring=scoring)
    lists = pairs.select(
        fn.col("subscription_id").alias("event_id"),  # the merge groups by its first column
        fn.array("event_id").alias("subscription_ids"),
        fn.array("score").alias("scores"),
    )
    merged = (
        lists.repartition("event_id")
        .sortWithinPartitions("event_id")
        .mapInArrow(Merging(k, copies=False), columns.MATCHES)
    )
    return merged.select(
        fn.col("event_id").alias("subscription_id"), fn.col("subscription_id").alias("event_id"), "score", "rank"
    )
