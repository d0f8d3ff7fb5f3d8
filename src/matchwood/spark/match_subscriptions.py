"""Match subscriptions: the way back. New subscriptions against events that are alive, each subscription's best events first.

An event with `until` is alive before that instant; one without is alive always. It is the forward match of the live events with an
index of the new subscriptions, ranked by subscription: score descending, then event id ascending.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from matchwood.schema import instant_key
from matchwood.spark import columns
from matchwood.spark.index_stage import IndexVersion
from matchwood.spark.match import match
from matchwood.spark.merge import Merging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def live(events: DataFrame, at: datetime | str) -> DataFrame:
    """The events that are alive at an instant. Lazy."""
    columns.check(events, columns.EVENTS, "events")
    instant = F.timestamp_micros(F.lit(int(instant_key(at))))
    return events.filter(F.col("until").isNull() | (F.col("until") > instant))


def match_subscriptions(
    index: IndexVersion, events: DataFrame, *, at: datetime | str, k: int | None = None, mode: str = "all"
) -> DataFrame:
    """(subscription_id, event_id, score, rank) of the subscriptions of an index and the events alive at `at`. Lazy.

    The subscriptions are an index version: build one of the new ones with `build_index`, in a lake of their own if need be.
    """
    pairs = match(live(events, at), index, mode=mode, at=at)
    lists = pairs.select(
        F.col("subscription_id").alias("event_id"),  # the merge ranks by its first column: here the subscription
        F.array("event_id").alias("subscription_ids"),
        F.array("score").alias("scores"),
    )
    merged = (
        lists.repartition("event_id")
        .sortWithinPartitions("event_id")
        .mapInArrow(Merging(k, copies=False), columns.MATCHES)
    )
    return merged.select(
        F.col("event_id").alias("subscription_id"), F.col("subscription_id").alias("event_id"), "score", "rank"
    )
