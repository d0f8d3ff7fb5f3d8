"""Match: events against a version of the index, all matches or the k best of each, exactly.

    local     the index fits the memory of a machine: every task maps all shards, and each event visits those it needs; no shuffle
    routed    it does not fit: events are sent to shards, sorted so that a task maps few of them (a shard that many events visit
              is divided among several tasks), and the lists of matches are merged by event

Both give the same records. The matches of an event are ordered by descending score, then ascending subscription id; `rank` is the
position.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from matchwood.lang.evaluate import Mode, mode_of
from matchwood.schema import instant_key
from matchwood.spark import columns
from matchwood.spark.index_stage import IndexVersion
from matchwood.spark.match_worker import Matching, RoutedMatching, Routing
from matchwood.spark.merge import Merging
from matchwood.structures import Capability
from matchwood.structures.base import check_k

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_LOCAL_BYTES = 8 << 30
"""Size of an index that is assumed to fit the page cache of a machine."""


def match_events(
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

    `at`: subscriptions that have expired at this instant are left out; None keeps all. `route`: send events to shards instead of
    mapping all shards in every task; None decides by the size of the index. `tasks`: repartition the events into this many tasks
    first, if their partitions are few or uneven.
    """
    matching = planned(events, index, k, mode, at)
    table = events.select(*columns.EVENTS.names)
    if not is_routed(index, route):
        if tasks is not None:
            table = table.repartition(tasks)
        return table.mapInArrow(matching, columns.MATCHES)
    lists = routed(table, matching, tasks)
    is_complete = (
        index.sharding.kind == "space" and index.sharding.wide not in index.shards and matching.mode == Mode.ALL
    )
    if not is_complete:
        lists = lists.repartition("event_id")
    merging = Merging(k, copies=index.sharding.kind == "space")
    return lists.sortWithinPartitions("event_id").mapInArrow(merging, columns.MATCHES)


def is_routed(index: IndexVersion, route: bool | None) -> bool:
    """Are events sent to shards? `route` is the wish of the caller; None decides by the size of the index."""
    wanted = index.bytes > MAX_LOCAL_BYTES if route is None else route
    return wanted and index.sharding.kind not in ("one", "cover")


def routed(events: DataFrame, matching: Matching, tasks: int | None) -> DataFrame:
    """Ranked lists, one record per event and shard. A task gets a range of (shard, event), so that hot shards are divided."""
    routing = Routing(matching.sharding, matching.mode, frozenset(matching.shards))
    spread = events.mapInArrow(routing, columns.ROUTED_EVENTS)
    spread = (
        spread.repartitionByRange("shard", "id") if tasks is None else spread.repartitionByRange(tasks, "shard", "id")
    )
    routed_matching = RoutedMatching(matching.shards, matching.k, matching.mode, matching.at)
    return spread.mapInArrow(routed_matching, columns.RANKED)


def planned(events: DataFrame, index: IndexVersion, k: int | None, mode: str, at: datetime | str | None) -> Matching:
    """The callable for the workers. Raises if the index cannot answer this query."""
    columns.check(events, columns.EVENTS, "events")
    index.codebook.check_events(events)
    if k is not None:
        check_k(k)
        index.demand(Capability.TOP_K)
    if mode_of(mode) is Mode.ANY:
        index.demand(Capability.ANY)
    instant = None if at is None else instant_key(at)
    return Matching(index.paths(), index.sharding, k, str(mode_of(mode)), instant)
