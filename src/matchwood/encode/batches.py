"""The common part of the encoders of tables: they count records, remember accepted ids, and name rejected records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from matchwood.encode import heads
from matchwood.encode.arrays import Int64s
from matchwood.encode.rejects import Bools, Faults, Reject, SeenIds, checked_on_error
from matchwood.errors import MatchwoodError
from matchwood.schema import Schema

BATCH_ROWS = 65_536
"""Records encoded at a time: the columns of a batch stay in the caches, and streaming a file needs little memory."""

Progress = Callable[[int, int], None]
"""`progress(done_records, all_records)`, called after each batch."""

T = TypeVar("T")


class BatchEncoder:
    """Encodes one input batch by batch. One thread at a time, since the schema learns."""

    def __init__(self, schema: Schema, *, on_error: str, source: str | None, duplicate: type[MatchwoodError]) -> None:
        self._schema = schema
        self._on_error = checked_on_error(on_error)
        self._duplicate = duplicate
        self._seen = SeenIds()
        self._done = 0
        self.begin(source)

    def begin(self, source: str | None) -> None:
        """Begin a new file: errors name it and count its rows from 0."""
        self._prefix = f"{source}, " if source else ""
        self._first = self._done

    def _accept(self, ids: Int64s, faults: Faults) -> Bools:
        """Which records are good; one whose id an accepted record has is not. Records without an id are not compared."""
        named = np.flatnonzero(faults.good(len(ids)) & (ids != heads.NO_ID))
        repeated = named[self._seen.repeated(ids[named])]
        faults.add_each(repeated, lambda i: self._duplicate(f"an earlier record has the same id {ids[repeated[i]]}"))
        return faults.good(len(ids))

    def _close(self, batch: Any, ids: Int64s, good: Bools, faults: Faults) -> tuple[Int64s, tuple[Reject, ...]]:
        """The positions of the good records, and the rejects. Ends the batch."""
        rejects = faults.rejects(
            self._on_error,
            position_of=lambda i: self._done + i,
            where_of=lambda i: f"{self._prefix}row {self._done - self._first + i}",
            id_of=lambda i: None if ids[i] == heads.NO_ID else int(ids[i]),
            content_of=heads.record_content(batch),
        )
        positions = self._done + np.flatnonzero(good)
        self._done += batch.num_rows
        return positions, rejects


def batches_of(table: pa.Table | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The table in batches of at most `BATCH_ROWS`; an empty table is one empty batch, so that its columns are checked."""
    whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    if not whole.num_rows:
        yield pa.RecordBatch.from_arrays([pa.array([], f.type) for f in whole.schema], schema=whole.schema)
    yield from (batch for batch in whole.to_batches(max_chunksize=BATCH_ROWS) if batch.num_rows)


def encoded_parts(
    encode: Callable[[pa.RecordBatch], T], batches: Iterable[pa.RecordBatch], total: int, progress: Progress | None
) -> Iterator[T]:
    """Encode batch after batch; call `progress` after each."""
    done = 0
    for batch in batches:
        part = encode(batch)
        done += batch.num_rows
        if progress is not None:
            progress(done, total)
        yield part
