"""Streaming, inside a worker: events to matches, against an index version and the changes since.

For each stream a worker holds the mapped shards, from which replaced and removed subscriptions are deleted, and an *overlay*: a
small index of new subscriptions. Deltas are applied in order, each once. A micro-batch that needs an earlier state, after a
restart, makes the worker start again from the index version.

A partition also writes files, named by micro-batch and partition so that a retry replaces them:

    rejects/BATCH/PARTITION.parquet   lines that are not valid events, with the reason
    live/BATCH/PARTITION.parquet      lines of events with an `until`, for subscriptions that come later
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
import pyarrow.parquet as pq

from matchwood.encode.arrays import Events, Matches, concatenate_rows
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.rejects import NO_ID, EncodedEvents
from matchwood.schema import Schema
from matchwood.spark import task
from matchwood.spark.batches import read_subscriptions, write_matches
from matchwood.spark.codebook import Codebook
from matchwood.spark.ingest_worker import content_text
from matchwood.spark.lines import NO_EVENT_ID, ContentOf, at_offset, encode_event_lines, with_ids
from matchwood.spark.match_worker import answered, found_in
from matchwood.spark.merge import choose_events, gather
from matchwood.spark.places import Place
from matchwood.spark.shard_cache import MappedShard
from matchwood.spark.sharding import Sharding
from matchwood.store.kernels.ordering import order_hits
from matchwood.structures import make_index

OVERLAY = "scan"
"""The index of the overlay, which is small and changes often."""
MAX_NEW_DIMENSIONS = 1_000
"""A cached schema is read again when events have added this many dimensions that no subscription uses."""

_states: dict[str, StreamState] = {}
_schemas: dict[str, tuple[Schema, int]] = {}


@dataclass(frozen=True)
class StreamOptions:
    """How a stream matches: the k best (None for all), the mode, and whether live events are stored and events are lines."""

    k: int | None
    mode: str
    keep_live: bool = True
    lines: bool = True


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
        files = PartitionFiles(self.folder, self.batch, task.partition())
        alive_after = self.now if self.options.keep_live else np.inf
        valid = (files.add(part, line_of, alive_after) for part, line_of in self._parts(batches))
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
        return state_of(self).matches(events, self)


class StreamState:
    """The shards and the overlay of a stream in a worker, after some deltas and at an instant."""

    def __init__(self, shards: Mapping[int, Place]) -> None:
        self.folders = dict(shards)
        self._shards = {shard: MappedShard(folder) for shard, folder in shards.items()}
        self._overlay = make_index(OVERLAY)
        self._until: dict[int, float] = {}
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
        for shard in self._shards.values():
            shard.at(wanted.now)
        expired = [id_ for id_, until in self._until.items() if until <= wanted.now]
        if expired:
            self._overlay.delete(np.array(expired, np.int64))
            for id_ in expired:
                del self._until[id_]

    def matches(self, events: Events, wanted: StreamMatching) -> Matches:
        """All matches, or the k best, in rank order."""
        k, mode = wanted.options.k, wanted.options.mode
        visits = wanted.sharding.visits(events, mode)
        owners, parts = [], []
        for number, shard in self._shards.items():
            if visits[:, number].any():
                owners.append(np.flatnonzero(visits[:, number]))
                chosen = choose_events(events, visits[:, number])
                parts.append(found_in(shard.index, chosen, k, mode))
        if len(self._overlay):
            owners.append(np.arange(events.size))
            parts.append(found_in(self._overlay, events, k, mode))
        if len(parts) == 1 and len(owners[0]) == events.size and wanted.sharding.kind != "space":
            if k is None:
                order_hits(parts[0].offsets, parts[0].ids, parts[0].scores)
            return parts[0]
        return gather(events.size, owners, parts, k=k, copies=wanted.sharding.kind == "space")

    def _apply(self, folder: Place) -> None:
        """Delete the subscriptions that a delta names and insert its new ones into the overlay."""
        table = read_parquet(folder / "data")
        ids = table.column("id").to_numpy()
        for shard in self._shards.values():
            shard.remove(ids)
        replaced = ids[self._overlay.store.knows(ids)]
        if len(replaced):
            self._overlay.delete(replaced)
        for id_ in ids.tolist():
            self._until.pop(id_, None)
        new = table.filter(pa.compute.not_equal(table.column("op"), "unsubscribe")).drop_columns(["op"])
        parts = [read_subscriptions(batch) for batch in new.combine_chunks().to_batches()]
        rows = concatenate_rows([part.rows for part in parts])
        if rows.size:
            self._overlay.insert(rows)
        for part in parts:
            ends = zip(part.ids.tolist(), part.until.tolist(), strict=True)
            self._until.update((id_, until) for id_, until in ends if np.isfinite(until))


class PartitionFiles:
    """The rejects and live events of a partition of a micro-batch."""

    def __init__(self, folder: Place, batch: int, partition: int) -> None:
        self._folders = {name: folder / name / f"{batch:09}" for name in ("rejects", "live")}
        self._file = f"{partition:05}.parquet"
        self._rejects: list[tuple[str, str]] = []
        self._live: list[tuple[str, float]] = []

    def add(self, part: EncodedEvents, line_of: ContentOf, alive_after: float) -> EncodedEvents:
        """Collect the rejects of a part and its events that expire after an instant; return the events that have an id."""
        self._rejects += [(reject.reason, content_text(reject.content)) for reject in part.rejects]
        good = part.ids != NO_ID
        for at in part.positions[~good].tolist():
            self._rejects.append((NO_EVENT_ID, line_of(at)))
        alive = good & np.isfinite(part.until) & (part.until > alive_after)
        ends = zip(part.positions[alive].tolist(), part.until[alive].tolist(), strict=True)
        self._live += [(line_of(at), until) for at, until in ends]
        return with_ids(part)

    def write(self) -> None:
        """Write the files, and remove those of an earlier attempt that are empty now."""
        for name, items, columns in (
            ("rejects", self._rejects, ("reason", "content")),
            ("live", self._live, ("value", "until")),
        ):
            path = self._folders[name] / self._file
            if items:
                table = pa.table(
                    {column: list(values) for column, values in zip(columns, zip(*items, strict=True), strict=True)}
                )
                content = pa.BufferOutputStream()
                pq.write_table(table, content)
                path.write(content.getvalue().to_pybytes())
            else:
                path.remove()


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


def cached_schema(place: Place) -> Schema:
    """The schema of a stored codebook, cached by this worker."""
    path = str(place)
    known = _schemas.get(path)
    if known is None or known[0].dimensions > known[1] + MAX_NEW_DIMENSIONS:
        schema = Codebook.from_json(json.loads(place.text())).schema()
        schema.learn = True
        known = _schemas[path] = (schema, schema.dimensions)
    return known[0]


def read_parquet(folder: Place) -> Any:
    """The table that Spark wrote to a folder."""
    files = [folder / name for name in folder.names() if name.endswith(".parquet")]
    return pa.concat_tables(pq.read_table(pa.BufferReader(file.read())) for file in files)
