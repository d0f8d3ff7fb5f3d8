"""Streaming, inside a worker: events to matches, against an index version and the changes since.

For each stream a worker holds the mapped shards, from which replaced and removed subscriptions are deleted, and an *overlay*: a
small index of new subscriptions. Deltas are applied in order, each once. A micro-batch that needs an earlier state, after a
restart, makes the worker start again from the index version.

A partition also writes files, named by micro-batch and partition so that a retry replaces them:

    rejects/BATCH/PARTITION.parquet   lines that are not valid events, with the reason
    live/BATCH/PARTITION.parquet      events with an `until`, encoded, for subscriptions that come later
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchwood.encode.arrays import Events, Int64s, Matches
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.rejects import NO_ID, EncodedEvents
from matchwood.spark import task
from matchwood.spark.batches import numpy_of, read_subscriptions, write_matches
from matchwood.spark.expiring import Expiring
from matchwood.spark.ingest_worker import content_text
from matchwood.spark.lines import NO_EVENT_ID, ContentOf, at_offset, encode_event_lines, with_ids
from matchwood.spark.live_worker import live_records
from matchwood.spark.match_worker import answered, matches_of
from matchwood.spark.places import Place
from matchwood.spark.shard_cache import MappedShard
from matchwood.spark.sharding import Sharding
from matchwood.spark.stream_files import cached_schema, read_parquet, write_parquet
from matchwood.store.scoring import SUM
from matchwood.structures import Index, make_index

OVERLAY = "scan"
"""The index of the overlay, which is small and changes often."""
_states: dict[str, StreamState] = {}


@dataclass(frozen=True)
class StreamOptions:
    """How a stream matches: the k best (None for all), the mode, the name of the scoring, and whether live events are stored and
    events are lines."""

    k: int | None
    mode: str
    keep_live: bool = True
    lines: bool = True
    scoring: str = SUM.name


@dataclass(frozen=True)
class StreamMatching:
    """The matching of a micro-batch. `deltas` are the folders of changes since the index version, in order."""

    folder: Place
    batch: int
    now: float
    codebook: Place
    shards: Mapping[int, Place]
    sharding: Sharding
    deltas: tuple[Place, ...]
    options: StreamOptions

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The matches of the events of a partition; live events and rejects are written to files."""
        files = PartitionFiles(self)
        valid = (files.add(part, line_of) for part, line_of in self._parts(batches))
        for ids, matches in answered(self, ((part.ids, part.events) for part in valid)):
            yield write_matches(ids, matches)
        files.write()

    def _parts(self, batches: Iterable[Any]) -> Iterator[tuple[EncodedEvents, ContentOf]]:
        """Encoded events, and the line of each by its position."""
        schema = cached_schema(self.codebook)
        if self.options.lines:
            yield from encode_event_lines(batches, schema)
            return
        encoder = EventEncoder(schema)
        done = 0
        for batch in batches:
            yield encoder.encode(batch), at_offset(partial(_line_of, batch), done)
            done += batch.num_rows

    def of(self, events: Events) -> Matches:
        """The matches of a slice of events, in rank order."""
        return matches_of(events, self, state_of(self).overlay)

    def index_of(self, shard: int) -> Index:
        """The index of a shard, without the subscriptions that have changed or expired."""
        return _states[str(self.folder)].shards[shard].index

    @property
    def k(self) -> int | None:
        """The number of matches of each event; None for all."""
        return self.options.k

    @property
    def mode(self) -> str:
        """The mode of matching."""
        return self.options.mode

    @property
    def scoring(self) -> str:
        """The name of the scoring."""
        return self.options.scoring

    @property
    def at(self) -> float:
        """The instant at which subscriptions must be alive."""
        return self.now


class StreamState:
    """The shards and the overlay of a stream in a worker, after some deltas and at an instant."""

    def __init__(self, shards: Mapping[int, Place]) -> None:
        self.folders = dict(shards)
        self.shards = {shard: MappedShard(folder) for shard, folder in shards.items()}
        self.overlay = make_index(OVERLAY)
        self._expiring = Expiring()
        self._applied: list[Place] = []
        self._now = -np.inf

    def reaches(self, wanted: StreamMatching) -> bool:
        """Can this state become the wanted one by applying further deltas and expiry?"""
        return (
            self.folders == dict(wanted.shards)
            and list(wanted.deltas[: len(self._applied)]) == self._applied
            and wanted.now >= self._now
        )

    def advance(self, wanted: StreamMatching) -> None:
        """Apply the remaining deltas and delete expired subscriptions."""
        for folder in wanted.deltas[len(self._applied) :]:
            self._apply(folder)
            self._applied.append(folder)
        self._now = wanted.now
        for shard in self.shards.values():
            shard.at(wanted.now)
        self._remove_from_overlay(self._expiring.due(wanted.now))

    def _apply(self, folder: Place) -> None:
        """Delete the subscriptions that a delta names and insert its new ones into the overlay."""
        table = read_parquet(folder / "data")
        ids = numpy_of(table.column("id").combine_chunks())
        for shard in self.shards.values():
            shard.remove(ids)
        self._remove_from_overlay(ids)
        self._expiring.discard(ids)
        new = table.filter(pc.not_equal(table.column("op"), "unsubscribe"))
        for part in (read_subscriptions(batch) for batch in new.combine_chunks().to_batches()):
            self.overlay.insert(part.rows)
            self._expiring.add(part.ids, part.until)

    def _remove_from_overlay(self, ids: Int64s) -> None:
        there = ids[self.overlay.store.knows(ids)]
        if len(there):
            self.overlay.delete(there)


class PartitionFiles:
    """The rejects and live events of a partition of a micro-batch."""

    def __init__(self, matching: StreamMatching) -> None:
        self._matching = matching
        self._rejects: list[tuple[str, str]] = []
        self._live: list[Any] = []

    def add(self, part: EncodedEvents, line_of: ContentOf) -> EncodedEvents:
        """Collect the rejects of a part and its events that live on; return the events that have an id."""
        self._rejects += [(reject.reason, content_text(reject.content)) for reject in part.rejects]
        good = part.ids != NO_ID
        for at in part.positions[~good].tolist():
            self._rejects.append((NO_EVENT_ID, line_of(at)))
        if self._matching.options.keep_live:
            alive = good & np.isfinite(part.until) & (part.until > self._matching.now)
            if alive.any():
                self._live.append(live_records(part, alive, line_of, self._matching.codebook))
        return with_ids(part)

    def write(self) -> None:
        """Write the files, and remove those of an earlier attempt that are empty now."""
        reasons = {"reason": [reason for reason, _ in self._rejects], "content": [text for _, text in self._rejects]}
        tables = {
            "rejects": pa.table(reasons) if self._rejects else None,
            "live": pa.Table.from_batches(self._live) if self._live else None,
        }
        for name, table in tables.items():
            folder = self._matching.folder / name / f"{self._matching.batch:09}"
            write_parquet(folder / f"{task.partition():05}.parquet", table)


def _line_of(batch: Any, position: int) -> str:
    """A record of a table as an equivalent line of JSON."""
    (record,) = batch.slice(position, 1).to_pylist()
    head = {name: record.pop(name) for name in ("id", "until", "weights", "place") if name in record}
    values = {name: value for name, value in record.items() if value is not None}
    given = {name: value for name, value in head.items() if value is not None}
    if isinstance(given.get("until"), datetime):
        given["until"] = given["until"].isoformat()
    return json.dumps({**given, "values": values}, default=_instant)


def _instant(value: object) -> object:
    return {"timestamp": value.isoformat()} if isinstance(value, datetime) else str(value)


def state_of(wanted: StreamMatching) -> StreamState:
    """The state of the stream in this worker, as the micro-batch needs it."""
    key = str(wanted.folder)
    state = _states.get(key)
    if state is None or not state.reaches(wanted):
        state = _states[key] = StreamState(wanted.shards)
    state.advance(wanted)
    return state
