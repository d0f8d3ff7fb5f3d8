"""Matching of plain tables, inside a worker: raw events to matches with the ids and columns that the tables have.

Inside, subscriptions are numbered by the order of their ids: the number of a subscription is its partition (of a table that is
sorted by id) times 2^33, plus its position there. So ties go to the lower id, whatever the type of the ids. The files
`names/PARTITION.arrow` hold the ids, and other columns of the table, by position; workers map them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchwood.encode.arrays import Int64s, Matches
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.rejects import Reject
from matchwood.errors import EventError
from matchwood.spark import task
from matchwood.spark.ingest_worker import PARTITION, Encoding, encode_batches, written_rejects
from matchwood.spark.match_worker import Matching, answered, gathered
from matchwood.spark.places import LocalPlace, Place

ID = "_id"
"""The column of the ids of a table of subscriptions while it is numbered."""
OWN = "_kept_"
"""The prefix of columns that are kept for the result, so that they are not taken for conditions."""
MAX_NAMES = 4
"""Tables of ids that a worker keeps open."""

_names: OrderedDict[str, Names] = OrderedDict()


@dataclass(frozen=True)
class Numbering:
    """Numbers and encodes a partition of a table that is sorted by id, and writes the file of its ids."""

    encoding: Encoding
    names: Place

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        partition = task.partition()
        parts: list[Any] = []
        refused: list[Reject] = []
        numbered = self._numbered(batches, partition * PARTITION, parts, refused)
        yield from encode_batches(self.encoding, numbered, partition=partition)
        if refused:
            yield written_rejects(tuple(refused), "subscriptions")
        if parts:
            table = pa.Table.from_batches(parts).combine_chunks()
            target = pa.BufferOutputStream()
            with pa.ipc.new_file(target, table.schema) as file:
                file.write_table(table)
            (self.names / f"{partition:05}.arrow").write(target.getvalue().to_pybytes())

    def _numbered(self, batches: Iterable[Any], first: int, parts: list[Any], refused: list[Reject]) -> Iterator[Any]:
        """The batches with numbers as ids, without records that have no id or that of the record before."""
        last = None
        for batch in batches:
            ids = batch.column(batch.schema.get_field_index(ID))
            kept = [name for name in batch.schema.names if name == ID or name.startswith(OWN)]
            parts.append(batch.select(kept))
            numbers = first + np.arange(batch.num_rows)
            absent, again = ids.is_null().to_numpy(zero_copy_only=False), _repeated(ids, last)
            for i in np.flatnonzero(absent | again).tolist():
                reason = "the id is null" if absent[i] else "another record has the same id"
                refused.append(Reject(i, "", int(numbers[i]), reason, ""))
            rest = batch.select([name for name in batch.schema.names if name not in kept])
            whole = pa.RecordBatch.from_arrays([pa.array(numbers), *rest.columns], names=["id", *rest.schema.names])
            yield whole.filter(pa.array(~(absent | again))) if (absent | again).any() else whole
            first, last = first + batch.num_rows, ids[-1] if batch.num_rows else last


def _repeated(ids: Any, last: Any) -> Any:
    """Which ids of a sorted column equal the one before; `last` is the one before the first."""
    if not len(ids):
        return np.zeros(0, np.bool_)
    same = pc.equal(ids[1:], ids[:-1]).fill_null(False).to_numpy(zero_copy_only=False)
    begins = last is not None and last.is_valid and ids[0].is_valid and last.as_py() == ids[0].as_py()
    return np.concatenate([[begins], same])


class Names:
    """The ids and kept columns of numbered subscriptions."""

    def __init__(self, folder: Place) -> None:
        self._tables = {int(name.partition(".")[0]): _mapped(folder / name) for name in folder.names()}

    def take(self, numbers: Int64s) -> list[Any]:
        """The columns of these subscriptions, in this order. O(numbers log partitions)."""
        partition, position = numbers // PARTITION, numbers % PARTITION
        found = np.unique(partition)
        if len(found) == 1:
            return [_whole(column) for column in self._tables[int(found[0])].take(pa.array(position)).columns]
        order = np.argsort(partition, kind="stable")
        runs = np.split(order, np.flatnonzero(np.diff(partition[order])) + 1)
        parts = [self._tables[int(partition[run[0]])].take(pa.array(position[run])) for run in runs if len(run)]
        back = np.empty(len(numbers), np.int64)
        back[order] = np.arange(len(numbers))
        if not parts:
            return [_whole(column) for column in next(iter(self._tables.values())).slice(0, 0).columns]
        return [_whole(column) for column in pa.concat_tables(parts).take(pa.array(back)).columns]

    def id_of(self, number: int) -> Any:
        """The id of a subscription."""
        return self.take(np.array([number]))[0][0].as_py()


def _mapped(file: Place) -> Any:
    source = pa.memory_map(str(file)) if isinstance(file, LocalPlace) else pa.BufferReader(file.read())
    return pa.ipc.open_file(source).read_all()


def _whole(column: Any) -> Any:
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def names_of(folder: Place) -> Names:
    """The names in a folder, opened by this process at the first call."""
    key = str(folder)
    if key not in _names:
        _names[key] = Names(folder)
        while len(_names) > MAX_NAMES:
            _names.popitem(last=False)
    _names.move_to_end(key)
    return _names[key]


@dataclass(frozen=True)
class DirectMatching:
    """Raw events, with a column for each attribute, against an index.

    The result has the columns of `schema`: event_id, subscription_id, score, rank, the columns of the event and those of the
    subscription. `names` is None if the numbers of subscriptions are their ids. With `per_subscription` only the best k of each
    subscription in a batch are returned, with any rank. With `skip` a bad event is left out; otherwise it raises.
    """

    matching: Matching
    codebook: str
    id: str
    columns: tuple[str, ...]
    names: Place | None
    schema: Any
    per_subscription: int | None = None
    skip: bool = False

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        encoder = EventEncoder(Encoding("events", self.codebook).opened(), form="wide", learn=False)
        done = 0
        for batch in gathered(batches):
            part = encoder.encode(_attributes(batch, self.id))
            if part.rejects and not self.skip:
                raise EventError(_described(part.rejects[0], batch, self.id, done))
            for at, matches in answered(self.matching, [(part.positions - done, part.events)]):
                if len(matches.ids):
                    yield self._written(batch, at, matches)
            done += batch.num_rows

    def _written(self, batch: Any, at: Int64s, matches: Matches) -> Any:
        counts = np.diff(matches.offsets)
        record = np.repeat(at, counts)
        rank = np.arange(1, len(record) + 1) - np.repeat(matches.offsets[:-1], counts)
        numbers, scores = matches.ids, matches.scores
        if self.per_subscription is not None:
            best = _best(numbers, scores, batch.column(self.id).take(pa.array(record)), self.per_subscription)
            record, rank, numbers, scores = record[best], rank[best], numbers[best], scores[best]
        rows = pa.array(record)
        own = [pa.array(numbers)] if self.names is None else names_of(self.names).take(numbers)
        events = [batch.column(name).take(rows) for name in (self.id, *self.columns)]
        arrays = [events[0], own[0], pa.array(scores), pa.array(rank.astype(np.int32)), *events[1:], *own[1:]]
        typed = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=self.schema)


def _best(numbers: Int64s, scores: Any, ids: Any, k: int) -> Int64s:
    """The positions of the k best events of each subscription: by descending score, then ascending id."""
    table = pa.table({"number": numbers, "score": scores, "id": ids})
    keys = [("number", "ascending"), ("score", "descending"), ("id", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys).to_numpy()
    first = np.flatnonzero(np.concatenate([[True], np.diff(numbers[order]) != 0]))
    place = np.arange(len(order)) - np.repeat(first, np.diff(np.concatenate([first, [len(order)]])))
    chosen: Int64s = order[place < k]
    return chosen


def _attributes(batch: Any, id_column: str) -> Any:
    """The batch without the column of ids, unless it is called otherwise and may be an attribute."""
    return batch.select([name for name in batch.schema.names if name not in ("id", id_column)])


def _described(reject: Reject, batch: Any, id_column: str, done: int) -> str:
    id_ = batch.column(id_column)[reject.position - done].as_py()
    return f"event {id_!r}: {reject.reason}; correct it, or leave bad events out with errors='skip'"
