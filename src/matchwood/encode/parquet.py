"""Parquet files of subscriptions and events, streamed: one batch of records is in memory at a time.

`stream_*` yields the encoded parts one by one; `read_*` concatenates them. A path is a file, or a folder whose files are read in
the order of their names (files that begin with "_" or "." are skipped).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

from matchwood.encode.arrow import pa
from matchwood.encode.batches import BATCH_ROWS, BatchEncoder, encoded_parts
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.rejects import EncodedEvents, EncodedSubscriptions, Progress
from matchwood.encode.subscription_tables import SubscriptionEncoder
from matchwood.errors import StorageError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.schema import Schema

T = TypeVar("T")


def stream_subscriptions(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    form: str | None = None,
    on_error: str = "collect",
    limits: Limits = DEFAULT_LIMITS,
    ignore: Collection[str] = (),
    engine_columns: bool = False,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
) -> Iterator[EncodedSubscriptions]:
    """The subscriptions of a Parquet file or folder, in parts of at most `batch_rows` records."""
    encoder = SubscriptionEncoder(
        schema, form=form, on_error=on_error, limits=limits, ignore=ignore, engine_columns=engine_columns
    )
    return _streamed(Path(path), encoder, encoder.encode, batch_rows, progress)


def stream_events(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    form: str | None = None,
    register: bool = False,
    learn: bool = True,
    bad: BadValues | None = None,
    on_error: str = "collect",
    engine_columns: bool = False,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
) -> Iterator[EncodedEvents]:
    """The events of a Parquet file or folder, in parts of at most `batch_rows` records."""
    encoder = EventEncoder(
        schema, form=form, register=register, learn=learn, bad=bad, on_error=on_error, engine_columns=engine_columns
    )
    return _streamed(Path(path), encoder, encoder.encode, batch_rows, progress)


def read_subscriptions(path: str | os.PathLike[str], schema: Schema, **options: Any) -> EncodedSubscriptions:
    """All subscriptions of a Parquet file or folder; options as for `stream_subscriptions`."""
    return EncodedSubscriptions.concatenate(list(stream_subscriptions(path, schema, **options)))


def read_events(path: str | os.PathLike[str], schema: Schema, **options: Any) -> EncodedEvents:
    """All events of a Parquet file or folder; options as for `stream_events`."""
    return EncodedEvents.concatenate(list(stream_events(path, schema, **options)))


def _streamed(
    path: Path,
    encoder: BatchEncoder,
    encode: Callable[[pa.RecordBatch], T],
    batch_rows: int,
    progress: Progress | None,
) -> Iterator[T]:
    files = _files(path)
    total = sum(_opened(file).metadata.num_rows for file in files)
    return encoded_parts(encode, _batches(files, encoder, batch_rows), total, progress)


def _batches(files: list[Path], encoder: BatchEncoder, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for file in files:
        encoder.begin(file.name)
        with _opened(file) as parquet:
            try:
                # One row group at a time: across several, Arrow cannot read a dictionary inside a list of structs.
                for group in range(parquet.num_row_groups):
                    yield from parquet.iter_batches(batch_size=batch_rows, row_groups=[group])
            except (pa.ArrowException, OSError) as error:
                raise StorageError(f"{file}: the Parquet file is damaged: {error}") from None


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith(("_", ".")))
        if not files:
            raise StorageError(f"{path}: no Parquet file in this folder")
        return files
    if not path.exists():
        raise StorageError(f"{path}: no such file or folder")
    return [path]


def _opened(file: Path) -> Any:
    import pyarrow.parquet as pq  # a tenth of a second, of use to files only

    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError, ValueError) as error:  # the name of a column may not be text
        raise StorageError(f"{file}: not a readable Parquet file: {error}") from None
