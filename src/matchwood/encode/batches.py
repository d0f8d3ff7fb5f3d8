"""The common part of the encoders of tables: they count records, remember accepted ids, and name rejected records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from matchwood.encode import heads
from matchwood.encode.arrays import Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import is_text, texts_of
from matchwood.encode.rejects import NO_ID, Bools, Faults, Progress, Reject, SeenIds, checked_on_error
from matchwood.errors import MatchwoodError, SchemaError, SubscriptionError
from matchwood.schema import Schema

BATCH_ROWS = 65_536
"""Records encoded at a time: the columns of a batch stay in the caches, and streaming a file needs little memory."""

T = TypeVar("T")


class BatchEncoder:
    """Encodes one input batch by batch. One thread at a time, since the schema learns.

    With `engine_columns` ids may be strings and subscriptions may have metadata: an engine keeps both, the tables of the Spark
    pipeline have no column for them.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        on_error: str,
        source: str | None,
        duplicate: type[MatchwoodError],
        engine_columns: bool,
    ) -> None:
        self._schema = schema
        self._engine_columns = engine_columns
        self._id_kind: str | None = None
        self._numbers: dict[str, int] = {}  # of ids that are strings, in order of appearance
        self._names: list[str] = []  # by these numbers
        self._accepted = 0  # subscriptions or events whose id is a string
        self._on_error = checked_on_error(on_error)
        self._duplicate = duplicate
        self._seen = SeenIds()
        self._done = 0
        self.begin(source)

    def begin(self, source: str | None) -> None:
        """Begin a new file: errors name it and count its rows from 0."""
        self._prefix = f"{source}, " if source else ""
        self._first = self._done

    def _read_ids(self, batch: Any, faults: Faults, *, required: bool) -> Int64s:
        """The ids, NO_ID for none; of strings the numbers in `_names`."""
        array = heads.column(batch, "id")
        if array is None or pa.types.is_null(array.type):
            return heads.read_ids(batch, faults, required=required)
        if self._engine_columns and not is_text(array.type) and not pa.types.is_integer(array.type):
            raise SchemaError(f"column 'id': expected integers or strings, got the Arrow type {array.type}")
        if not self._engine_columns or not is_text(array.type):
            self._check_kind("integers")
            return heads.read_ids(batch, faults, required=required)
        self._check_kind("strings")
        codes, texts = texts_of(array)
        if required:
            faults.add_each(np.flatnonzero(codes < 0), lambda _: SubscriptionError("the id is null"))
        numbers = [self._number_of(text) for text in texts]
        return np.array([*numbers, NO_ID], np.int64)[codes]

    def _number_of(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number

    def _check_kind(self, kind: str) -> None:
        if self._id_kind not in (None, kind):
            raise SchemaError(f"column 'id': expected {self._id_kind} as in the batches before, got {kind}")
        self._id_kind = kind

    def _id_of(self, number: int) -> int | str | None:
        """An id as the table has it."""
        if number == NO_ID:
            return None
        return self._names[number] if self._names else number

    def _renumbered(self, ids: Int64s, good: Bools) -> tuple[Int64s, list[Any] | None]:
        """If the ids are strings, the good records numbered from 0, over all batches, and their ids; else the ids and None."""
        if self._id_kind != "strings":
            return ids, None
        names = [self._id_of(number) for number in ids[good].tolist()]
        named = np.flatnonzero(good & (ids != NO_ID))
        numbered = np.full(len(ids), NO_ID)
        numbered[named] = np.arange(self._accepted, self._accepted + len(named))
        self._accepted += len(named)
        return numbered, names

    def _accept(self, ids: Int64s, faults: Faults) -> Bools:
        """Which records are good; one whose id an accepted record has is not. Records without an id are not compared."""
        named = np.flatnonzero(faults.good(len(ids)) & (ids != NO_ID))
        repeated = named[self._seen.repeated(ids[named])]
        faults.add_each(
            repeated,
            lambda i: self._duplicate(f"an earlier record has the same id {self._id_of(int(ids[repeated[i]]))!r}"),
        )
        return faults.good(len(ids))

    def _close(self, batch: Any, ids: Int64s, good: Bools, faults: Faults) -> tuple[Int64s, tuple[Reject, ...]]:
        """The positions of the good records, and the rejects. Ends the batch."""
        rejects = faults.rejects(
            self._on_error,
            position_of=lambda i: self._done + i,
            where_of=lambda i: f"{self._prefix}row {self._done - self._first + i}",
            id_of=lambda i: self._id_of(int(ids[i])),
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
            progress(done, max(done, total))
        yield part
