"""Explain: what a match will do, before it does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matchwood.lang.evaluate import Mode, mode_of
from matchwood.spark.direct import SubscriptionIndex
from matchwood.spark.index_stage import IndexVersion
from matchwood.spark.match_stage import is_routed
from matchwood.spark.places import LocalPlace

if TYPE_CHECKING:
    from matchwood.spark.sharding import Sharding

MOVE_US = 4.0
"""Microseconds of a core to move an event through Spark (docs/performance.md)."""
VISIT_US = {"scan": 1e-3, "mo-tree": 2e-5, "vcr": 1.4e-4, "be-star-tree": 7e-5, "postings": 5e-5, "ranked": 3e-3}
"""Rough microseconds of a core for an event and each subscription of a shard, by structure (README, sizes of 10^5 to 10^6)."""


def explain(
    index: IndexVersion | SubscriptionIndex,
    *,
    events: int | None = None,
    k: int | None = None,
    mode: str = "all",
    route: bool | None = None,
) -> str:
    """What matching with an index will do: the index, the shards an event visits, shuffles, and a rough cost.

    `events` is their number, if known; the other options are those of the match. Nothing is run.
    """
    version = index.index if isinstance(index, SubscriptionIndex) else index
    sharding, routed = version.sharding, is_routed(version, route)
    count = int(version.counts["subscriptions"])
    lines = [
        f"index      {', '.join(version.structures)}: {count:,} subscriptions, {version.bytes / 1e6:,.1f} MB",
        f"at         {version.folder}",
        f"shards     {len(version.shards)}, {_described(sharding)}; an event visits {_visits(sharding, mode)}",
        f"answer     {'all matches' if k is None else f'the {k} best'} of each event, mode {mode_of(mode)}",
    ]
    if routed and sharding.kind == "space" and mode_of(mode) is Mode.ALL:
        lines.append(
            "plan       events are sent to the tasks of their cells, each of which maps few shards: one shuffle"
        )
    elif routed:
        lines.append("plan       events are sent to shards and the lists of matches merged by event: two shuffles")
    else:
        lines.append("plan       every task maps all shards; no shuffle")
    if not isinstance(version.folder, LocalPlace):
        lines.append("files      each machine downloads a shard when it first needs it, and keeps it in its cache")
    cost = MOVE_US + _visited(version, mode) * VISIT_US.get(version.structures[0], 20e-6)
    lines.append(f"cost       about {cost:,.0f} us of a core for each event, if few subscriptions match")
    if events is not None:
        lines.append(f"           {events:,} events: about {events * cost / 1e6:,.1f} s of a core")
    return "\n".join(lines)


def _described(sharding: Sharding) -> str:
    return {
        "one": "all subscriptions together",
        "hash": "by a hash of the id",
        "space": f"{len(sharding.cells)} cells of the plane and one for subscriptions without a place",
        "cover": "covered subscriptions apart",
    }[sharding.kind]


def _visits(sharding: Sharding, mode: str) -> str:
    if sharding.kind == "one":
        return "it"
    if mode_of(mode) is Mode.ANY or sharding.kind == "hash":
        return "all of them"
    if sharding.kind == "space":
        return "the cell of its place and the shard without places"
    return "the second if it matches in the first"


def _visited(version: IndexVersion, mode: str) -> float:
    """Subscriptions in the shards that an event visits."""
    count = version.counts["subscriptions"]
    is_spatial = version.sharding.kind == "space" and mode_of(mode) is not Mode.ANY
    return 2.0 * count / max(len(version.shards), 1) if is_spatial else count
