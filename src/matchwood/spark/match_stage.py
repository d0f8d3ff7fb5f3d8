"""Match: events against a version of the index, all matches or the k best of each, exactly.

    local     the index fits the memory of a machine: every task maps all shards, and each event visits those it needs; no shuffle
    by place  it does not fit, and the shards are cells of the plane: events are ordered by their cell, so that a task maps few
              shards (a cell that many events fall into is divided among several tasks); one shuffle
    routed    it does not fit otherwise: events are sent to all shards, in the same way, and the lists of matches are merged by
              event; two shuffles

All give the same records. The matches of an event are ordered by descending score, then ascending subscription id; `rank` is the
position.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from matchwood.lang.evaluate import Mode, mode_of
from matchwood.schema import instant_key
from matchwood.spark import columns
from matchwood.spark.index_stage import IndexVersion
from matchwood.spark.match_worker import Matching, RoutedMatching, Routing, named_scoring
from matchwood.spark.merge import Merging
from matchwood.spark.sharding import SOUTH, WEST, Box, Sharding
from matchwood.structures import Capability
from matchwood.structures.base import check_k

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    scoring: str = "sum",
) -> DataFrame:
    """(event_id, subscription_id, score, rank) of every match, or of the k best of each event. Lazy.

    `at`: subscriptions that have expired at this instant are left out; None keeps all. `route`: send events to shards instead of
    mapping all shards in every task; None decides by the size of the index. `tasks`: repartition the events into this many tasks
    first, if their partitions are few or uneven. `scoring`: the name of a scoring, as in `Engine(scoring=...)`.
    """
    matching = planned(events, index, k, mode, at, scoring)
    table = events.select(*columns.EVENTS.names)
    if not is_routed(index, route):
        if tasks is not None:
            table = table.repartition(tasks)
        return table.mapInArrow(matching, columns.MATCHES)
    if index.sharding.kind == "space" and matching.mode == Mode.ALL:
        return by_place(table, index.sharding, tasks).mapInArrow(matching, columns.MATCHES)
    merging = Merging(k, copies=index.sharding.kind == "space")
    lists = routed(table, matching, tasks).repartition("event_id").sortWithinPartitions("event_id")
    return lists.mapInArrow(merging, columns.MATCHES)


def is_routed(index: IndexVersion, route: bool | None) -> bool:
    """Are events sent to shards? `route` is the wish of the caller; None decides by the size of the index."""
    wanted = index.bytes > MAX_LOCAL_BYTES if route is None else route
    return wanted and index.sharding.kind not in ("one", "cover")


def by_place(events: DataFrame, sharding: Sharding, tasks: int | None) -> DataFrame:
    """The events in ranges of the cell that their place is in, so that a task maps few shards; hot cells are divided.

    A task answers for all shards that its events visit: this decides where an event is answered, and not what is found.
    """
    assert sharding.dims is not None
    lon, lat = (fn.expr(f"get(lo, cast(array_position(dims, {dim}) AS int) - 1)") for dim in sharding.dims)
    cell = _cell(list(enumerate(sharding.cells)), lon, lat)
    return events.repartitionByRange(cell, "id") if tasks is None else events.repartitionByRange(tasks, cell, "id")


def _cell(cells: Sequence[tuple[int, Box]], lon: Column, lat: Column) -> Column:
    """The number of the cell of a place, by comparisons along the cuts that made the cells. O(log cells) for each event."""
    cuts = [(side, box[side]) for _, box in cells for side in (WEST, SOUTH)]
    best: tuple[list[tuple[int, Box]], list[tuple[int, Box]], int, float] | None = None
    for side, at in dict.fromkeys(cuts):
        below = [cell for cell in cells if cell[1][side + 1] <= at]
        above = [cell for cell in cells if cell[1][side] >= at]
        is_cut = len(below) + len(above) == len(cells) and below and above
        if is_cut and (best is None or min(len(below), len(above)) > min(len(best[0]), len(best[1]))):
            best = below, above, side, at
    if best is None:
        return fn.lit(cells[0][0])
    below, above, side, at = best
    return fn.when((lon if side == WEST else lat) < at, _cell(below, lon, lat)).otherwise(_cell(above, lon, lat))


def routed(events: DataFrame, matching: Matching, tasks: int | None) -> DataFrame:
    """Ranked lists, one record per event and shard. A task gets a range of (shard, event), so that large shards are divided."""
    routing = Routing(matching.sharding, matching.mode, frozenset(matching.shards))
    spread = events.mapInArrow(routing, columns.ROUTED_EVENTS)
    spread = (
        spread.repartitionByRange("shard", "id") if tasks is None else spread.repartitionByRange(tasks, "shard", "id")
    )
    routed_matching = RoutedMatching(matching.shards, matching.k, matching.mode, matching.at, matching.scoring)
    return spread.mapInArrow(routed_matching, columns.RANKED)


def planned(
    events: DataFrame,
    index: IndexVersion,
    k: int | None,
    mode: str,
    at: datetime | str | None,
    scoring: str = "sum",
) -> Matching:
    """The callable for the workers. Raises if the index cannot answer this query."""
    columns.check(events, columns.EVENTS, "events")
    index.codebook.check_events(events)
    if k is not None:
        check_k(k)
        index.demand(Capability.TOP_K)
    if mode_of(mode) is Mode.ANY:
        index.demand(Capability.ANY)
    instant = None if at is None else instant_key(at)
    return Matching(index.paths(), index.sharding, k, str(mode_of(mode)), instant, scoring=named_scoring(scoring))
