"""Live events of a stream, inside a worker: columns in files, and an index of them in memory for subscriptions that come later.

A record has the columns of an event, encoded by a version of the codebook. If the event has an attribute or a string that the
codebook lacked, the record also has the event as a line of JSON; it is read again when the codebook has grown, and only then.

For each group of files a worker holds a `LiveState`, the engine's structure of live events, to which the files of each
micro-batch are added.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from matchwood.encode.ages import computed_events
from matchwood.encode.arrays import Events, Int64s, Matches, Rows, concatenate_rows, make_events
from matchwood.encode.derived import derived_events, merged_events
from matchwood.encode.rejects import EncodedEvents
from matchwood.planner.exercise import LIVE
from matchwood.schema import UNKNOWN_SYMBOL, Schema, Type
from matchwood.schema.functions import is_derived
from matchwood.schema.types import CODED
from matchwood.spark import columns
from matchwood.spark.batches import (
    EventBatch,
    first_rows,
    read_events,
    read_subscriptions,
    read_until,
    write_events,
    write_matches,
)
from matchwood.spark.expiring import Expiring
from matchwood.spark.lines import ContentOf, encode_event_lines
from matchwood.spark.merge import choose_events
from matchwood.spark.places import Place
from matchwood.spark.shard_cache import compile_once
from matchwood.spark.stream_files import cached_schema, known_dimensions, read_parquet
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.scoring import SUM
from matchwood.store.scoring import scoring as make_scoring
from matchwood.structures import LiveEvents

GROUPS = 4
"""Tasks that match new subscriptions with live events; each has the files of a group."""
LIVE_RECORDS = columns.arrow_schema(columns.LIVE)

_states: dict[str, LiveState] = {}


def live_records(part: EncodedEvents, chosen: Any, line_of: ContentOf, codebook: Place) -> Any:
    """The Arrow batch of the chosen events of a part; those that the codebook does not know entirely keep their line."""
    schema, known = cached_schema(codebook), known_dimensions(codebook)
    events = choose_events(part.events, chosen)
    unknown = _has_unknown(events, schema, known)
    batch = write_events(EventBatch(part.ids[chosen], part.until[chosen], _known(events, known)))
    at = part.positions[chosen].tolist()
    lines = [line_of(position) if more else None for position, more in zip(at, unknown.tolist(), strict=True)]
    version = np.full(len(at), version_of(codebook), np.int32)
    arrays = [*batch.columns, pa.array(lines, pa.string()), pa.array(version)]
    return pa.RecordBatch.from_arrays(arrays, schema=LIVE_RECORDS)


def version_of(codebook: Place) -> int:
    """The version of the codebook in a file."""
    return int(codebook.stem.removeprefix("v"))


def _has_unknown(events: Events, schema: Schema, known: int) -> Any:
    """Which events have an attribute, a string, or a list of objects, that the codebook lacks? It lacks all of the latter."""
    # What is derived from strings that the codebook has can be derived again.
    attributes = [schema.of_dimension(dim) for dim in range(known)]
    coded = [attribute.type in CODED and not is_derived(attribute.name) for attribute in attributes]
    has_codes = np.array([*coded, True], np.bool_)[np.minimum(events.dims, known)]
    entry = (events.dims >= known) | (has_codes & (events.lo == UNKNOWN_SYMBOL))
    owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
    return np.bincount(owner[entry], minlength=events.size) > 0


def _known(events: Events, known: int) -> Events:
    """The events without attributes that the codebook lacks: another worker gives their dimensions to others."""
    keep = events.dims < known
    if keep.all():
        return events
    before = np.concatenate([[0], np.cumsum(keep)])
    return make_events(before[events.offsets], *(column[keep] for column in events[1:]))


class LiveState:
    """The live events of a group of files, numbered in the order in which they were read."""

    def __init__(self) -> None:
        compile_once(LIVE)
        self._index = LiveEvents()
        self._files: list[str] = []
        self._ids = np.zeros(0, np.int64)
        self._expiring = Expiring()
        self._lines: dict[int, str] = {}
        self._codebook = 0

    def reaches(self, files: Sequence[Place], codebook: int, now: float) -> bool:
        """Can this state become the wanted one by reading further files and by expiry?"""
        wanted = [str(file) for file in files]
        return (
            wanted[: len(self._files)] == self._files and codebook >= self._codebook and now >= self._expiring.instant
        )

    def advance(self, files: Sequence[Place], codebook: Place, now: float) -> None:
        """Read the remaining files, learn what the codebook has learnt, and remove what has expired."""
        for file in files[len(self._files) :]:
            self._read(file, now)
            self._files.append(str(file))
        if version_of(codebook) > self._codebook:
            self._derive(cached_schema(codebook), known_dimensions(codebook))
            self._read_lines_again(cached_schema(codebook), known_dimensions(codebook))
            self._codebook = version_of(codebook)
        expired = self._expiring.due(now)
        if len(expired):
            self._index.delete(expired)
            for number in expired.tolist():
                self._lines.pop(number, None)

    def matches(
        self, rows: Rows, now: float, k: int | None, mode: str, scoring: str = SUM.name
    ) -> tuple[Int64s, Matches]:
        """The ids of the events that match one of these subscriptions, and the k best of each event, in rank order."""
        combine = make_scoring(scoring).compiled
        if combine is not None:
            compile_once(LIVE, scoring=True)
        found = self._index.match(rows, now, mode=mode, combine=combine)
        subscription = np.repeat(rows.ids[first_rows(rows)], np.diff(found.offsets))
        order = np.argsort(found.ids, kind="stable")
        numbers, starts = np.unique(found.ids[order], return_index=True)
        offsets = np.append(starts, len(order)).astype(np.int64)
        ids, scores = subscription[order].astype(np.int64), found.scores[order]
        order_hits(offsets, ids, scores)
        if k is not None:
            keep = np.arange(len(ids)) - np.repeat(offsets[:-1], np.diff(offsets)) < k
            offsets = np.concatenate([[0], np.cumsum(keep)])[offsets]
            ids, scores = ids[keep], scores[keep]
        return self._ids[numbers], Matches(offsets, ids, scores)

    def _read(self, file: Place, now: float) -> None:
        table = pq.read_table(pa.BufferReader(file.read()))
        for batch in table.combine_chunks().to_batches():
            read = read_events(batch)
            alive = read.until > now
            first = len(self._ids)
            numbers = first + np.flatnonzero(alive)
            self._index.insert(choose_events(read.events, alive), numbers, read.until[alive])
            self._ids = np.concatenate([self._ids, read.ids])
            self._expiring.add(numbers, read.until[alive])
            lines = batch.column(batch.schema.get_field_index("line"))
            for at in np.flatnonzero(pc.is_valid(lines).to_numpy(zero_copy_only=False) & alive).tolist():
                self._lines[first + at] = lines[at].as_py()
            written = batch.column(batch.schema.get_field_index("codebook"))
            if len(written):
                self._codebook = min(self._codebook or int(pc.max(written).as_py()), int(pc.min(written).as_py()))

    def _derive(self, schema: Schema, known: int) -> None:
        """Add what a later codebook derives from the events; those that have lines are read again as a whole."""
        sources = [a for a in schema.attributes.values() if a.derived and a.type is not Type.OBJECTS]
        numbers = np.setdiff1d(self._index.ids(), np.array(sorted(self._lines), np.int64))
        if not sources or not len(numbers):
            return
        until, events = self._index.until(numbers), self._index.extract(numbers)
        for source in sources:
            for attribute in source.derived:
                computed = _known(derived_events(events, source, attribute, register=False), known)
                events = merged_events(events, computed, np.unique(computed.dims).tolist())
        for age in schema.ages:
            if age.dims[0] < known:
                computed = computed_events(events, schema, age, register=False)
                events = merged_events(events, _known(computed, known), age.dims)
        self._index.delete(numbers)
        self._index.insert(events, numbers, until)

    def _read_lines_again(self, schema: Schema, known: int) -> None:
        """Encode the events that have unknown parts with a later codebook."""
        numbers = np.array(sorted(self._lines), np.int64)
        if not len(numbers):
            return
        until = self._index.until(numbers)
        texts = pa.RecordBatch.from_arrays([pa.array([self._lines[n] for n in numbers.tolist()])], names=["value"])
        for part, _ in encode_event_lines([texts], schema):
            again = numbers[part.positions]
            self._index.delete(again)
            self._index.insert(_known(part.events, known), again, until[part.positions])


@dataclass(frozen=True)
class LateMatching:
    """New subscriptions, those of a delta, with the live events of earlier micro-batches. A record of the input is a group."""

    folder: Place
    files: tuple[Place, ...]
    delta: Place
    codebook: Place
    now: float
    k: int | None
    mode: str
    scoring: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The matches of the groups."""
        rows = new_rows(self.delta, self.now)
        for batch in batches:
            for group in batch.column(0).to_pylist():
                if rows.size:
                    found = self._state(group).matches(rows, self.now, self.k, self.mode, self.scoring)
                    yield write_matches(*found)

    def _state(self, group: int) -> LiveState:
        files = [file for file in self.files if group_of(file) == group]
        key = f"{self.folder}#{group}"
        state = _states.get(key)
        if state is None or not state.reaches(files, version_of(self.codebook), self.now):
            state = _states[key] = LiveState()
        state.advance(files, self.codebook, self.now)
        return state


def group_of(file: Place) -> int:
    """The group of a file."""
    return zlib.crc32(file.name.encode()) % GROUPS


def new_rows(delta: Place, now: float) -> Rows:
    """The rows of the subscriptions of a delta that are alive at an instant."""
    table = read_parquet(delta / "data")
    new = table.filter(pc.not_equal(table.column("op"), "unsubscribe")).combine_chunks()
    alive = [batch.filter(pa.array(read_until(batch) > now)) for batch in new.to_batches()]
    return concatenate_rows([read_subscriptions(batch).rows for batch in alive])
