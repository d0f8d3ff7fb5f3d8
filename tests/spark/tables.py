"""Small worlds as DataFrames, and what comes out of the pipeline as plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from matchwood.spark.batches import EventBatch, SubscriptionBatch, write_events, write_subscriptions
from matchwood.spark.codebook import Codebook
from tests.worlds import World

Ranked = dict[int, list[tuple[int, float]]]


def subscription_table(world: World, until: dict[int, float] | None = None) -> pa.Table:
    ids = np.array(list(world.subscriptions), np.int64)
    ends = np.array([(until or {}).get(int(id_), np.inf) for id_ in ids])
    return pa.Table.from_batches([write_subscriptions(SubscriptionBatch(ids, ends, world.rows()))])


def event_table(world: World, until: list[float] | None = None) -> pa.Table:
    events = world.event_arrays()
    ends = np.full(events.size, np.inf) if until is None else np.array(until)
    return pa.Table.from_batches([write_events(EventBatch(np.arange(events.size), ends, events))])


def frames(spark: Any, world: World, **options: Any) -> tuple[Any, Any, Codebook]:
    """(subscriptions, events, codebook) of a world."""
    codebook = Codebook.declare(world.schema)
    tables = subscription_table(world, options.get("until")), event_table(world, options.get("event_until"))
    subscriptions, events = (codebook.mark(spark.createDataFrame(table).repartition(3)) for table in tables)
    return subscriptions, events, codebook


def ranked(matches: Any) -> Ranked:
    """event -> [(subscription, score)] in rank order; the ranks must count from 1 without a gap."""
    found: dict[int, list[tuple[int, int, float]]] = {}
    for row in matches.collect():
        found.setdefault(row["event_id"], []).append((row["rank"], row["subscription_id"], row["score"]))
    for hits in found.values():
        hits.sort()
        assert [rank for rank, _, _ in hits] == list(range(1, len(hits) + 1))
    return {event: [(id_, score) for _, id_, score in hits] for event, hits in found.items()}


def expected(world: World, **options: Any) -> Ranked:
    """What the oracle says."""
    return {event: hits for event, hits in enumerate(world.expected(**options)) if hits}
