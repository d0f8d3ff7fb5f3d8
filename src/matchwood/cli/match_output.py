"""Where `matchwood match` writes its matches: JSON lines, or a Parquet file."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, Self, TextIO

import numpy as np

from matchwood.encode.arrays import Int64s, Matches
from matchwood.encode.tables import FORMATS
from matchwood.errors import QueryError, StorageError

COLUMNS = ("event_id", "subscription_id", "score", "rank")


class Ids:
    """The ids of subscriptions as their table has them."""

    def __init__(self, names: list[str] | None) -> None:
        self._names = names

    @property
    def are_strings(self) -> bool:
        return self._names is not None

    def of(self, ids: Int64s) -> list[Any]:
        """The ids of an answer."""
        return ids.tolist() if self._names is None else [self._names[id_] for id_ in ids.tolist()]


class Sink(Protocol):
    """A context in which matches are written."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...

    def write(self, events: list[int | str], names: Ids, matches: Matches) -> None:
        """Write the matches of a batch, whose events have these ids."""


class _Lines:
    """Matches as JSON lines."""

    def __init__(self, file: AbstractContextManager[TextIO]) -> None:
        self._context = file

    def __enter__(self) -> Self:
        self._file = self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def write(self, events: list[int | str], names: Ids, matches: Matches) -> None:
        for values in zip(*_columns(events, names, matches), strict=True):
            self._file.write(json.dumps(dict(zip(COLUMNS, values, strict=True))) + "\n")


class _Parquet:
    """Matches as a Parquet file. The first batch decides whether ids are integers or strings."""

    def __init__(self, path: Path) -> None:
        from matchwood.encode.arrow import pa

        self._pa = pa
        self._path = path
        self._schema: Any = None
        self._writer: Any = None

    def __enter__(self) -> Self:
        if not self._path.parent.is_dir():
            raise StorageError(f"{self._path}: cannot be written: there is no folder {self._path.parent}")
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if self._writer is None and kind is None:
            self._open([], Ids(None))
        if self._writer is not None:
            self._writer.close()

    def write(self, events: list[int | str], names: Ids, matches: Matches) -> None:
        if self._writer is None:
            self._open(events, names)
        elif self._schema.field("event_id").type == self._pa.int64() and _has_strings(events):
            raise StorageError(
                f"{self._path}: the first events have no id or a number, a later one has a string; write .jsonl instead"
            )
        arrays = [
            self._pa.array([*map(str, column)] if self._pa.types.is_string(field.type) else column, field.type)
            for column, field in zip(_columns(events, names, matches), self._schema, strict=True)
        ]
        self._writer.write_table(self._pa.table(arrays, schema=self._schema))

    def _open(self, events: list[int | str], names: Ids) -> None:
        import pyarrow.parquet as pq

        pa = self._pa
        ids = [pa.string() if strings else pa.int64() for strings in (_has_strings(events), names.are_strings)]
        self._schema = pa.schema(list(zip(COLUMNS, (*ids, pa.float64(), pa.int32()), strict=True)))
        try:
            self._writer = pq.ParquetWriter(self._path, self._schema)
        except OSError as error:
            raise StorageError(f"{self._path}: cannot be written: {error}") from None


def sink(path: Path | None) -> Sink:
    """The output of a path; standard output without one."""
    if path is None:
        return _Lines(nullcontext(sys.stdout))
    if path.suffix.lower() == ".parquet":
        return _Parquet(path)
    if FORMATS.get(path.suffix.lower()) != "json":
        raise QueryError(f"{path}: expected a name that ends in .parquet or .jsonl")
    return _Lines(opened(path))


def opened(path: Path) -> TextIO:
    """A text file to write."""
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None


def _has_strings(ids: list[int | str]) -> bool:
    return any(isinstance(id_, str) for id_ in ids)


def _columns(events: list[int | str], names: Ids, matches: Matches) -> list[list[Any]]:
    counts = np.diff(matches.offsets)
    rank = np.arange(len(matches.ids)) - np.repeat(matches.offsets[:-1], counts) + 1
    by_hit = [id_ for id_, count in zip(events, counts.tolist(), strict=True) for _ in range(count)]
    return [by_hit, names.of(matches.ids), matches.scores.tolist(), rank.tolist()]
