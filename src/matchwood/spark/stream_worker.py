"""Streaming, inside a worker: lines of events to matches, against an index version and the changes since.

A worker keeps, for a stream, the mapped shards without the subscriptions that have been replaced or removed, and an *overlay*: a
small index of those that are new. Changes are applied in order, each once; a micro-batch that asks for an earlier state (a
replay after a restart) makes the worker begin anew from the version.

What else a batch leaves behind goes into files named by batch and partition, so that a retry writes the same again:

    rejects/BATCH/PARTITION.parquet   lines that are no events, with their reason
    live/BATCH/PARTITION.parquet      lines of events that have an `until`, for subscriptions that come later
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from matchwood.encode.arrays import Events, Matches, concatenate_rows
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.heads import NO_ID
from matchwood.encode.json_lines import stream_json_events
from matchwood.encode.rejects import EncodedEvents
from matchwood.schema import Schema
from matchwood.spark.batches import read_subscriptions, write_matches
from matchwood.spark.codebook import Codebook
from matchwood.spark.ingest_worker import content_text
from matchwood.spark.match_worker import answered, found_in
from matchwood.spark.merge import choose_events, gather
from matchwood.spark.resident import Resident
from matchwood.spark.sharding import Sharding
from matchwood.store.kernels.ordering import order_hits
from matchwood.structures import make_index

OVERLAY = "scan"
"""The index of what is new since the version: small, and changed all the time."""
SPARE_DIMENSIONS = 1_000
"""Attributes that only events name may fill a schema by this many before it is opened anew."""

_states: dict[str, State] = {}
_schemas: dict[str, tuple[Schema, int]] = {}


@dataclass(frozen=True)
class StreamMatching:
    """A micro-batch: lines of events to matches. `deltas` are the folders of changes since the version, in order."""

    stream: str
    batch: int
    codebook: str
    shards: Mapping[int, str]
    sharding: Sharding
    deltas: tuple[str, ...]
    k: int | None
    mode: str
    now: float
    keep_live: bool = True
    lines: bool = True

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Matches of the events of a partition; those with `until`, and bad ones, are noted beside."""
        aside = Aside(self.stream, self.batch, _partition())
        named = (aside.note(part, line_at, self.now, self.keep_live) for part, line_at in self._parts(batches))
        for ids, matches in answered(self, ((part.ids, part.events) for part in named)):
            yield write_matches(ids, matches)
        aside.close()

    def _parts(self, batches: Iterable[Any]) -> Iterator[tuple[EncodedEvents, Callable[[int], str]]]:
        """Encoded events, and what gives the line of an event by its position."""
        schema = opened_schema(self.codebook)
        if not self.lines:
            encoder = EventEncoder(schema)
            done = 0
            for batch in batches:
                yield encoder.encode(batch), partial(_line_of, batch, done)
                done += batch.num_rows
            return
        read: list[str] = []

        def lines() -> Iterator[str]:
            for batch in batches:
                for line in batch.column(0).to_pylist():
                    read.append(line)
                    yield line

        done = 0
        for part in stream_json_events(lines(), schema):
            yield part, partial(_item, read, done)
            done += len(read)
            read.clear()

    def of(self, events: Events) -> Matches:
        """The matches of a few events, in rank order."""
        return state_of(self).matches(events, self)


class State:
    """What a worker knows of a stream: shards and overlay after some deltas, as of an instant."""

    def __init__(self, shards: Mapping[int, str]) -> None:
        self.shards = dict(shards)
        self._residents = {shard: Resident(folder) for shard, folder in shards.items()}
        self._overlay = make_index(OVERLAY)
        self._until: dict[int, float] = {}
        self._applied: list[str] = []
        self._now = -np.inf

    def reaches(self, wanted: StreamMatching) -> bool:
        """Can this state become the wanted one by going forward?"""
        return (
            self.shards == dict(wanted.shards)
            and list(wanted.deltas[: len(self._applied)]) == self._applied
            and wanted.now >= self._now
        )

    def advance(self, wanted: StreamMatching) -> None:
        """Apply the deltas not yet applied, and let go of what has expired."""
        for folder in wanted.deltas[len(self._applied) :]:
            self._apply(Path(folder))
            self._applied.append(folder)
        self._now = wanted.now
        for resident in self._residents.values():
            resident.at(wanted.now)
        gone = [id_ for id_, until in self._until.items() if until <= wanted.now]
        if gone:
            self._overlay.delete(np.array(gone, np.int64))
            for id_ in gone:
                del self._until[id_]

    def matches(self, events: Events, wanted: StreamMatching) -> Matches:
        """All matches, or the k best, in rank order."""
        visits = wanted.sharding.visits(events, wanted.mode)
        owners, parts = [], []
        for shard, resident in self._residents.items():
            if visits[:, shard].any():
                owners.append(np.flatnonzero(visits[:, shard]))
                chosen = choose_events(events, visits[:, shard])
                parts.append(found_in(resident, chosen, wanted.k, wanted.mode))
        if len(self._overlay):
            owners.append(np.arange(events.size))
            index = self._overlay
            found = (
                index.match(events, mode=wanted.mode)
                if wanted.k is None
                else index.top_k(events, wanted.k, mode=wanted.mode)
            )
            parts.append(found)
        if len(parts) == 1 and len(owners[0]) == events.size and wanted.sharding.kind != "space":
            if wanted.k is None:
                order_hits(parts[0].offsets, parts[0].ids, parts[0].scores)
            return parts[0]
        return gather(events.size, owners, parts, k=wanted.k, copies=wanted.sharding.kind == "space")

    def _apply(self, folder: Path) -> None:
        """Upserts go into the overlay; whatever a change names leaves the shards."""
        table = pq.read_table(folder / "data")
        ids = table.column("id").to_numpy()
        for resident in self._residents.values():
            resident.remove(ids)
        there = ids[self._overlay.store.knows(ids)]
        if len(there):
            self._overlay.delete(there)
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


class Aside:
    """The files that a partition of a micro-batch leaves beside its matches."""

    def __init__(self, stream: str, batch: int, partition: int) -> None:
        self._folders = {name: Path(stream) / name / f"{batch:09}" for name in ("rejects", "live")}
        self._file = f"{partition:05}.parquet"
        self._rejects: list[tuple[str, str]] = []
        self._live: list[tuple[str, float]] = []

    def note(self, part: EncodedEvents, line_at: Callable[[int], str], now: float, keep_live: bool) -> EncodedEvents:
        """Note what is bad or alive in a part; the events that have an id."""
        self._rejects += [(reject.reason, content_text(reject.content)) for reject in part.rejects]
        good = part.ids != NO_ID
        for at in part.positions[~good].tolist():
            self._rejects.append(("the event has no id, by which its matches are reported", line_at(at)))
        if keep_live:
            alive = good & np.isfinite(part.until) & (part.until > now)
            ends = zip(part.positions[alive].tolist(), part.until[alive].tolist(), strict=True)
            self._live += [(line_at(at), until) for at, until in ends]
        if good.all():
            return part
        return EncodedEvents(choose_events(part.events, good), part.ids[good], part.positions[good], part.until[good])

    def close(self) -> None:
        """Write what was noted."""
        for name, items, columns in (
            ("rejects", self._rejects, ("reason", "content")),
            ("live", self._live, ("value", "until")),
        ):
            path = self._folders[name] / self._file
            if items:
                path.parent.mkdir(parents=True, exist_ok=True)
                table = pa.table(
                    {column: list(values) for column, values in zip(columns, zip(*items, strict=True), strict=True)}
                )
                temporary = path.with_name(f".{path.name}.tmp")
                pq.write_table(table, temporary)
                temporary.rename(path)
            else:
                path.unlink(missing_ok=True)


def _item(items: list[str], first: int, position: int) -> str:
    return items[position - first]


def _line_of(batch: Any, first: int, position: int) -> str:
    """A record of a table as the line of JSON that says the same."""
    (record,) = batch.slice(position - first, 1).to_pylist()
    heads = {name: record.pop(name) for name in ("id", "until", "weights", "place") if name in record}
    values = {name: value for name, value in record.items() if value is not None}
    given = {name: value for name, value in heads.items() if value is not None}
    if isinstance(given.get("until"), datetime):
        given["until"] = given["until"].isoformat()
    return json.dumps({**given, "values": values}, default=_instant)


def _instant(value: object) -> object:
    return {"timestamp": value.isoformat()} if isinstance(value, datetime) else str(value)


def state_of(wanted: StreamMatching) -> State:
    """This worker's state of the stream, as the micro-batch wants it."""
    state = _states.get(wanted.stream)
    if state is None or not state.reaches(wanted):
        state = _states[wanted.stream] = State(wanted.shards)
    state.advance(wanted)
    return state


def opened_schema(path: str) -> Schema:
    """The schema of a stored codebook, kept open by this worker."""
    known = _schemas.get(path)
    if known is None or known[0].dimensions > known[1] + SPARE_DIMENSIONS:
        schema = Codebook.from_json(json.loads(Path(path).read_text(encoding="utf-8"))).schema()
        schema.learn = True
        known = _schemas[path] = (schema, schema.dimensions)
    return known[0]


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
