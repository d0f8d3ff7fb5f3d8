"""Match: events against a version of the index, all matches or the k best of each, exactly.

    fits        every task maps all shards and visits, for each batch, those it can hit; nothing is shuffled
    does not    events are routed to shards, sorted so that a task maps few of them (a shard that many events visit is
                spread over several tasks), and the lists that come back are merged by event

Both give the same records. Order within an event is by score descending, then subscription id ascending; `rank` says it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from matchwood.errors import QueryError
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.schema import instant_key
from matchwood.spark import columns
from matchwood.spark.index_stage import IndexVersion
from matchwood.spark.match_worker import Matching, RoutedMatching, Routing
from matchwood.spark.merge import Merging
from matchwood.structures import Capability

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FITS = 8 << 30
"""Bytes of an index that a machine is taken to hold in its page cache."""


def match(
    events: DataFrame,
    index: IndexVersion,
    *,
    k: int | None = None,
    mode: str = Mode.ALL,
    at: datetime | str | None = None,
    route: bool | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """(event_id, subscription_id, score, rank) of every match, or of the k best of each event. Lazy.

    `at`: subscriptions whose `until` is not later are left out; None takes all. `route`: send events to the shards rather than
    map all shards in every task; None decides by size. `tasks`: spread the events over that many tasks first, where their
    partitions are few or uneven.
    """
    matching = planned(events, index, k, mode, at)
    table = events.select(*columns.EVENTS.names)
    if not (index.bytes > FITS if route is None else route) or index.sharding.kind in ("one", "cover"):
        if tasks is not None:
            table = table.repartition(tasks)
        return table.mapInArrow(matching, columns.MATCHES)
    lists = routed(table, matching, tasks)
    alone = index.sharding.kind == "space" and index.sharding.wide not in index.shards and matching.mode == Mode.ALL
    if not alone:
        lists = lists.repartition("event_id")
    merging = Merging(k, copies=index.sharding.kind == "space")
    return lists.sortWithinPartitions("event_id").mapInArrow(merging, columns.MATCHES)


def routed(events: DataFrame, matching: Matching, tasks: int | None) -> DataFrame:
    """Ranked lists, one record an event and shard; a range of (shard, event) each task, so that hot shards are split."""
    routing = Routing(matching.sharding, matching.mode, frozenset(matching.shards))
    spread = events.mapInArrow(routing, columns.ROUTED_EVENTS)
    spread = (
        spread.repartitionByRange("shard", "id") if tasks is None else spread.repartitionByRange(tasks, "shard", "id")
    )
    matching_there = RoutedMatching(matching.shards, matching.k, matching.mode, matching.at)
    return spread.mapInArrow(matching_there, columns.RANKED)


def planned(events: DataFrame, index: IndexVersion, k: int | None, mode: str, at: datetime | str | None) -> Matching:
    """What the workers are told, once it is sure that they can do it."""
    columns.check(events, columns.EVENTS, "events")
    index.codebook.check_events(events)
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise QueryError(f"expected k to be a whole number >= 1, got {k!r}")
    if k is not None:
        index.demand(Capability.TOP_K)
    if mode_of(mode) is Mode.ANY:
        index.demand(Capability.ANY)
    instant = None if at is None else instant_key(at)
    return Matching(index.paths(), index.sharding, k, str(mode_of(mode)), instant)
