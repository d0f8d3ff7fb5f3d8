"""Evaluate, inside a worker: the judgement of the oracle on a few events, and the rows that an index verifies for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from matchwood.encode.arrays import Events
from matchwood.encode.objects import decode_rows
from matchwood.lang.evaluate import judge
from matchwood.lang.event import EventKeys
from matchwood.lang.intervals import IntervalSet
from matchwood.schema import Point, Schema, Type
from matchwood.spark import columns
from matchwood.spark.batches import first_rows, read_events, read_subscriptions
from matchwood.spark.match_worker import Matching
from matchwood.spark.shard_cache import mapped_shard
from matchwood.store.scoring import scoring as make_scoring

_PAIRS = columns.arrow_schema(columns.PAIRS)
_WORK = columns.arrow_schema(columns.WORK)


@dataclass(frozen=True)
class Judging:
    """Every pair of a given event and a subscription of the partition that matches according to the oracle, with its score."""

    schema: str
    events: bytes
    mode: str
    scoring: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        schema = Schema.from_json(json.loads(self.schema))
        with pa.ipc.open_stream(self.events) as stream:
            table = stream.read_all()
        sample = [(e, keys) for batch in table.to_batches() for e, keys in keyed(batch, schema)]
        combine = make_scoring(self.scoring).combine
        for batch in batches:
            found = [
                {"event_id": event, "subscription_id": id_, "score": score}
                for id_, priority, rows in _subscriptions(batch, schema)
                for event, keys in sample
                if (score := judge(rows, keys, priority=priority, mode=self.mode, combine=combine).score) is not None
            ]
            yield pa.RecordBatch.from_pylist(found, schema=_PAIRS)


@dataclass(frozen=True)
class Counting:
    """The numbers of events, matches and verified rows of a partition."""

    matching: Matching

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            _, _, events = read_events(batch)
            before = self._candidates()
            matches = self.matching.of(events)
            figures = (events.size, len(matches.ids), self._candidates() - before)
            yield pa.RecordBatch.from_arrays([pa.array([figure]) for figure in figures], schema=_WORK)

    def _candidates(self) -> int:
        return sum(mapped_shard(folder).index.stats().candidates for folder in self.matching.shards.values())


def keyed(batch: Any, schema: Schema) -> Iterator[tuple[int, EventKeys]]:
    """The ids and keys of the events of a batch, for the oracle."""
    ids, _, events = read_events(batch)
    for e, id_ in enumerate(ids.tolist()):
        yield id_, event_of(events.take(e, e + 1), schema)


def event_of(event: Events, schema: Schema) -> EventKeys:
    """The keys of a batch of one event, decoded from its arrays."""
    values: dict[str, Any] = {}
    weights: dict[str, float] = {}
    parts: dict[int, list[tuple[float, float]]] = {}
    for dim, lo, hi, weight in zip(*(column.tolist() for column in event[1:]), strict=True):
        if dim < schema.dimensions:
            parts.setdefault(dim, []).append((lo, hi))
            weights.setdefault(schema.of_dimension(dim).name, weight)
    for dim, intervals in parts.items():
        attribute = schema.of_dimension(dim)
        if attribute.type is not Type.POINT:
            values[attribute.name] = IntervalSet.of(intervals)
        elif dim == attribute.dims[0]:
            values[attribute.name] = Point(intervals[0][0], parts[attribute.dims[1]][0][0])
    return EventKeys(values, weights)


def _subscriptions(batch: Any, schema: Schema) -> Iterator[tuple[int, float, Any]]:
    rows = read_subscriptions(batch).rows
    decoded = decode_rows(rows, schema)
    heads = first_rows(rows).tolist()
    for start, stop in zip(heads, [*heads[1:], rows.size], strict=True):
        yield int(rows.ids[start]), float(rows.priority[start]), decoded[start:stop]
