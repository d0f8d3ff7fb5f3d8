"""Match, inside a worker: batches of events to batches of matches. `match` passes these callables to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from matchwood.encode.arrays import Events, Int64s, Matches
from matchwood.errors import QueryError
from matchwood.lang.evaluate import Mode
from matchwood.spark.batches import (
    ROUTED_EVENTS,
    read_events,
    split_by_first,
    with_columns,
    write_matches,
    write_ranked,
)
from matchwood.spark.merge import choose_events, gather
from matchwood.spark.places import Place
from matchwood.spark.shard_cache import compile_once, mapped_shard
from matchwood.spark.sharding import Sharding
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.scoring import NAMES, SUM
from matchwood.store.scoring import scoring as make_scoring
from matchwood.structures import Index

MAX_HITS = 1 << 20
"""Approximate number of matches in one Arrow batch; events with many matches are answered in smaller slices."""
FIRST_SLICE = 2_048
"""Events of the first slice, before the number of matches per event is known."""
MAX_EVENTS = 1 << 16
"""Approximate number of events in one query of an index. Larger queries than Spark's batches of 10,000 are faster per event."""


class Answering(Protocol):
    """Matches events."""

    def of(self, events: Events) -> Matches:
        """The matches of a slice of events, in rank order."""
        ...


@dataclass(frozen=True)
class Matching:
    """Events against all shards of a version in one task; each event visits the shards that can hold a match.

    `shards` maps a shard to its folder; `at` is the instant, in microseconds, at which subscriptions must be alive; `scoring` is
    the name of one, which every worker compiles for itself.
    """

    shards: Mapping[int, Place]
    sharding: Sharding
    k: int | None
    mode: str
    at: float | None = None
    ranked: bool = False
    scoring: str = SUM.name

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of matches, in rank order; each event's are adjacent."""
        write = write_ranked if self.ranked else write_matches
        read = map(read_events, gathered(batches))
        for ids, matches in answered(self, ((batch.ids, batch.events) for batch in read)):
            yield write(ids, matches)

    def of(self, events: Events) -> Matches:
        """The matches of a slice of events, in rank order."""
        return matches_of(events, self)

    def index_of(self, shard: int) -> Index:
        """The index of a shard, mapped by this process at the first call."""
        return mapped_shard(self.shards[shard]).at(self.at).index


@dataclass(frozen=True)
class Routing:
    """Each event once for every shard that it visits, with the number of the shard as first column."""

    sharding: Sharding
    mode: str
    known: frozenset[int]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            _, _, events = read_events(batch)
            visits = self.sharding.visits(events, self.mode)
            event, shard = np.nonzero(visits)
            exists = np.isin(shard, list(self.known))  # a shard without subscriptions has no folder
            yield with_columns([shard[exists]], batch.take(pa.array(event[exists])), ROUTED_EVENTS)


@dataclass(frozen=True)
class RoutedMatching:
    """Routed events against the shard that each was sent to."""

    shards: Mapping[int, Place]
    k: int | None
    mode: str
    at: float | None = None
    scoring: str = SUM.name

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of ranked lists, one record per event and shard."""
        for batch in gathered(batches):
            for shard, part in split_by_first(batch):
                routed = read_events(part)
                only = {0: self.shards[shard]}
                one = Matching(only, Sharding(), self.k, self.mode, self.at, scoring=self.scoring)
                for ids, matches in answered(one, [(routed.ids, routed.events)]):
                    yield write_ranked(ids, matches)


class Sharded(Protocol):
    """What `matches_of` needs to know: the shards, how they are divided, and the query."""

    @property
    def shards(self) -> Mapping[int, Place]: ...
    @property
    def sharding(self) -> Sharding: ...
    @property
    def k(self) -> int | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def at(self) -> float | None: ...
    @property
    def scoring(self) -> str: ...

    def index_of(self, shard: int) -> Index:
        """The index of a shard."""
        ...


def matches_of(events: Events, query: Sharded, overlay: Index | None = None) -> Matches:
    """The matches of events in the shards that each visits, and in an overlay that all visit; in rank order."""
    sharding, k = query.sharding, query.k
    visits = sharding.visits(events, query.mode)
    owners: list[Int64s] = []
    parts: list[Matches] = []
    for shard in sorted(query.shards):
        if shard == 1 and sharding.kind == "cover" and query.mode == Mode.ALL and query.at is None and parts:
            # Not at an instant: the cover may have expired before the covered.
            visits[:, 1] = np.diff(parts[0].offsets) > 0
        if visits[:, shard].any():
            owners.append(np.flatnonzero(visits[:, shard]))
            chosen = choose_events(events, visits[:, shard])
            parts.append(found_in(query.index_of(shard), chosen, k, query.mode, query.scoring))
    if overlay is not None and len(overlay):
        owners.append(np.arange(events.size))
        parts.append(found_in(overlay, events, k, query.mode, query.scoring))
    if len(parts) == 1 and len(owners[0]) == events.size and sharding.kind != "space":
        if k is None:
            order_hits(parts[0].offsets, parts[0].ids, parts[0].scores)
        return parts[0]
    return gather(events.size, owners, parts, k=k, copies=sharding.kind == "space")


def found_in(index: Index, events: Events, k: int | None, mode: str, scoring: str = SUM.name) -> Matches:
    """The matches of events in one index: the k best in rank order, or all in no order."""
    combine = make_scoring(scoring).compiled
    if combine is not None:
        compile_once(index.name, scoring=True)
    if k is None:
        return index.match(events, mode=mode, combine=combine)
    return index.top_k(events, k, mode=mode, combine=combine)


def named_scoring(scoring: object) -> str:
    """The name of a scoring; `QueryError` for anything else, a function too: a manifest could not say what made its scores."""
    if isinstance(scoring, str) and scoring in NAMES:
        return scoring
    known = ", ".join(map(repr, NAMES))
    raise QueryError(
        f"expected the name of a scoring, {known}, got {scoring!r}; a function of your own works in process: Engine(scoring=...)"
    )


def gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches, concatenated to at most `MAX_EVENTS` records. O(bytes)."""
    held: list[Any] = []
    for batch in batches:
        if sum(part.num_rows for part in held) + batch.num_rows > MAX_EVENTS and held:
            yield pa.concat_batches(held)
            held = []
        held.append(batch)
    if held:
        yield pa.concat_batches(held)


def answered(matching: Answering, batches: Iterable[tuple[Int64s, Events]]) -> Iterator[tuple[Int64s, Matches]]:
    """Ids of events and their matches, in slices of about `MAX_HITS` matches, estimated from the slice before."""
    size = FIRST_SLICE
    for ids, events in batches:
        start = 0
        while start < events.size:
            stop = min(start + size, events.size)
            matches = matching.of(events.take(start, stop))
            yield ids[start:stop], matches
            per_event = len(matches.ids) / (stop - start)
            size = int(np.clip(MAX_HITS / max(per_event, 1e-9), 1, MAX_EVENTS))
            start = stop
