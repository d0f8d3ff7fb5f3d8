"""Match, inside a worker: batches of events to batches of matches. Plain functions; `match` hands them to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from matchwood.encode.arrays import Events, Int64s, Matches
from matchwood.lang.evaluate import Mode
from matchwood.spark.batches import ROUTED_EVENTS, read_events, with_shard, write_matches, write_ranked
from matchwood.spark.merge import choose_events, gather
from matchwood.spark.resident import Resident, resident
from matchwood.spark.sharding import Sharding
from matchwood.store.kernels.ordering import order_hits

MOST_HITS = 1 << 20
"""Matches that are put into one Arrow batch, about; events with many are handed on in smaller slices."""
FIRST_SLICE = 2_048
EVENTS_AT_ONCE = 1 << 16
"""Events that an index is asked at once, about. In batches of 10,000, as they come, the k best took a tenth longer."""


class Answering(Protocol):
    """What matches a few events."""

    def of(self, events: Events) -> Matches:
        """The matches of a few events, in rank order."""
        ...


@dataclass(frozen=True)
class Matching:
    """Events against the shards of a version, all of them in this task: each batch visits the shards it can hit.

    `shards` maps a shard to its folder; `at` is the instant, in microseconds, at which subscriptions must be alive.
    """

    shards: Mapping[int, str]
    sharding: Sharding
    k: int | None
    mode: str
    at: float | None = None
    ranked: bool = False

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of matches, in rank order; each event's are adjacent."""
        write = write_ranked if self.ranked else write_matches
        read = map(read_events, gathered(batches))
        for ids, matches in answered(self, ((batch.ids, batch.events) for batch in read)):
            yield write(ids, matches)

    def of(self, events: Events) -> Matches:
        """The matches of a few events, in rank order."""
        if self.sharding.kind == "one":
            found = [self._one(folder, events) for folder in self.shards.values()]
            return found[0] if found else _nothing(events.size)
        visits = self.sharding.visits(events, self.mode)
        owners: list[Int64s] = []
        parts: list[Matches] = []
        for shard, folder in sorted(self.shards.items()):
            if shard == 1 and self.sharding.kind == "cover" and self.mode == Mode.ALL and self.at is None and parts:
                visits[:, 1] = np.diff(parts[0].offsets) > 0  # not at an instant: a cover may have expired before
            if visits[:, shard].any():
                owners.append(np.flatnonzero(visits[:, shard]))
                parts.append(self._found(folder, choose_events(events, visits[:, shard])))
        return gather(events.size, owners, parts, k=self.k, copies=self.sharding.kind == "space")

    def _one(self, folder: str, events: Events) -> Matches:
        found = self._found(folder, events)
        if self.k is None:
            order_hits(found.offsets, found.ids, found.scores)
        return found

    def _found(self, folder: str, events: Events) -> Matches:
        return found_in(resident(folder).at(self.at), events, self.k, self.mode)


@dataclass(frozen=True)
class Routing:
    """Events with the number of a shard before them, once for every shard they must visit."""

    sharding: Sharding
    mode: str
    known: frozenset[int]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            _, _, events = read_events(batch)
            visits = self.sharding.visits(events, self.mode)
            event, shard = np.nonzero(visits)
            there = np.isin(shard, list(self.known))  # a shard without subscriptions has no folder
            yield with_shard(shard[there], batch.take(pa.array(event[there])), ROUTED_EVENTS)


@dataclass(frozen=True)
class RoutedMatching:
    """Events that were routed: each batch holds runs of events of one shard."""

    shards: Mapping[int, str]
    k: int | None
    mode: str
    at: float | None = None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of ranked lists, one record an event and shard."""
        for batch in batches:
            shard = batch.column(0).to_numpy(zero_copy_only=False)
            for number in np.unique(shard).tolist():
                run = read_events(batch.filter(pa.array(shard == number)))
                one = Matching({number: self.shards[number]}, Sharding(), self.k, self.mode, self.at)
                for ids, matches in answered(one, [(run.ids, run.events)]):
                    yield write_ranked(ids, matches)


def found_in(shard: Resident, events: Events, k: int | None, mode: str) -> Matches:
    """The matches of events in one shard: the k best in rank order, or all in no order."""
    index = shard.index
    return index.match(events, mode=mode) if k is None else index.top_k(events, k, mode=mode)


def gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches, put together to `EVENTS_AT_ONCE` at most: an index answers many events at once faster. O(bytes)."""
    held: list[Any] = []
    for batch in batches:
        if sum(part.num_rows for part in held) + batch.num_rows > EVENTS_AT_ONCE and held:
            yield pa.concat_batches(held)
            held = []
        held.append(batch)
    if held:
        yield pa.concat_batches(held)


def answered(matching: Answering, batches: Iterable[tuple[Int64s, Events]]) -> Iterator[tuple[Int64s, Matches]]:
    """Ids of events and their matches, about `MOST_HITS` at a time: how many events follows the matches seen so far."""
    size = FIRST_SLICE
    for ids, events in batches:
        start = 0
        while start < events.size:
            stop = min(start + size, events.size)
            matches = matching.of(events.take(start, stop))
            yield ids[start:stop], matches
            per_event = len(matches.ids) / (stop - start)
            size = int(np.clip(MOST_HITS / max(per_event, 1e-9), 1, EVENTS_AT_ONCE))
            start = stop


def _nothing(size: int) -> Matches:
    return Matches(np.zeros(size + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
