"""`matchwood match SUBSCRIPTIONS EVENTS`: matches two tables in this process.

A table is Parquet (a file or a folder), CSV, or JSON lines, by the ending of its name (docs/encoding.md describes the forms).
Matches are records of event_id, subscription_id, score and rank: JSON lines on standard output, or the file of `--out`. The id of
an event without one is its position. Records that cannot be read are reported on standard error with the reason, and written to
the file of `--rejects`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from matchwood.cli.demo import positive
from matchwood.cli.progress import Progress
from matchwood.encode.arrays import Float64s, Int64s, Matches
from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.json_lines import read_json_subscriptions, stream_json_events
from matchwood.encode.parquet import read_subscriptions, stream_events
from matchwood.encode.rejects import EncodedEvents, EncodedSubscriptions, Reject
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.engine import Engine
from matchwood.engine.clock import ManualClock
from matchwood.errors import QueryError, StorageError
from matchwood.lang.expression import instant
from matchwood.schema import Schema

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
"""The time of the clock without `--at`: nothing has expired."""

MAX_SHOWN = 10
"""Rejects shown on standard error; `--rejects` writes all."""

FORMATS = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}
COLUMNS = ("event_id", "subscription_id", "score", "rank")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("match", help="match a table of events with a table of subscriptions")
    parser.add_argument("subscriptions", type=Path, help="Parquet, CSV or JSON lines")
    parser.add_argument("events", type=Path, help="Parquet, CSV or JSON lines")
    parser.add_argument("-k", "--top-k", type=positive, metavar="K", help="only the K best matches of each event")
    parser.add_argument("--mode", choices=["all", "any"], default="all", help="which predicates must hold")
    parser.add_argument("--index", metavar="NAME", help="the index to use (default: auto)")
    parser.add_argument(
        "--at", metavar="INSTANT", help="leave out subscriptions that have expired at this time (ISO 8601)"
    )
    parser.add_argument(
        "--schema", type=Path, metavar="FILE", help='types as JSON: {"age": "number", ...} (default: learnt)'
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="a .parquet or .jsonl file (default: standard output)")
    parser.add_argument(
        "--rejects", type=Path, metavar="FILE", help="write records that cannot be read to this file, as JSON lines"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Subscribe, match the events batch by batch, write the matches."""
    schema = Schema(_declared(options.schema))
    chosen = {} if options.index is None else {"index": options.index}
    clock = ManualClock(BEFORE_ALL if options.at is None else instant(options.at))
    engine = Engine(schema, clock=clock, **chosen)
    with _Rejects(options.rejects) as rejects, _sink(options.out) as sink:
        subscribed = _subscribe(engine, options, rejects)
        matched = hits = 0
        for part in _events(options.events, schema):
            rejects.add("event", part.rejects)
            if options.top_k is None:
                found = engine.match_many(part.events, mode=options.mode)
            else:
                found = engine.top_k_many(part.events, options.top_k, mode=options.mode)
            sink.write(np.where(part.ids >= 0, part.ids, part.positions), found)
            matched, hits = matched + part.events.size, hits + len(found.ids)
        rejects.report()
    print(
        f"{matched:,} events, {subscribed:,} subscriptions, index {engine.index!r}: {hits:,} matches", file=sys.stderr
    )


def _subscribe(engine: Engine, options: argparse.Namespace, rejects: _Rejects) -> int:
    encoded = _subscriptions(options.subscriptions, engine.schema)
    rejects.add("subscription", encoded.rejects)
    engine.subscribe_rows(encoded.rows)
    return len(engine)


def _subscriptions(path: Path, schema: Schema) -> EncodedSubscriptions:
    format_ = _format(path)
    with Progress("reading subscriptions", _records(path, format_)) as bar:
        if format_ == "csv":
            return encode_subscription_table(_csv(path), schema)
        read = read_json_subscriptions if format_ == "json" else read_subscriptions
        return read(path, schema, progress=lambda done, _: bar.at(done))


def _events(path: Path, schema: Schema) -> Iterator[EncodedEvents]:
    format_ = _format(path)
    with Progress("matching events", _records(path, format_)) as bar:
        if format_ == "csv":
            yield encode_event_table(_csv(path), schema)
        else:
            stream = stream_json_events if format_ == "json" else stream_events
            yield from stream(path, schema, progress=lambda done, _: bar.at(done))


def _format(path: Path) -> str:
    if path.is_dir():
        return "parquet"
    if path.suffix.lower() not in FORMATS:
        raise QueryError(f"{path}: expected a name that ends in {', '.join(FORMATS)}, or a folder of Parquet files")
    return FORMATS[path.suffix.lower()]


def _records(path: Path, format_: str) -> int:
    """The number of records, for the progress bar; 0 if the file cannot be read, which is reported later."""
    try:
        if format_ == "parquet":
            files = path.rglob("*.parquet") if path.is_dir() else [path]
            return sum(pq.read_metadata(file).num_rows for file in files)
        with path.open("rb") as file:
            return sum(1 for _ in file) - (format_ == "csv")
    except (pa.ArrowException, OSError):
        return 0


def _csv(path: Path) -> pa.Table:
    try:
        return csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{path}: not a readable CSV file: {error}") from None


def _declared(path: Path | None) -> dict[str, str] | None:
    if path is None:
        return None
    try:
        declared = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: not a schema in JSON: {error}") from None
    if not isinstance(declared, dict) or not all(isinstance(type_, str) for type_ in declared.values()):
        raise StorageError(f'{path}: expected {{"attribute": "type", ...}}')
    return declared


class _Rejects(AbstractContextManager["_Rejects"]):
    """Counts rejects, shows the first ones, and writes all to a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = _opened(path) if path is not None else None
        self._count = 0

    def add(self, kind: str, rejects: tuple[Reject, ...]) -> None:
        for reject in rejects:
            self._count += 1
            if self._count <= MAX_SHOWN:
                print(f"rejected {kind}, {reject.where}: {reject.reason}", file=sys.stderr)
            if self._file is not None:
                record = {"kind": kind, "where": reject.where, "id": reject.id, "reason": reject.reason}
                print(json.dumps({**record, "content": reject.content}, default=str), file=self._file)

    def report(self) -> None:
        if self._count > MAX_SHOWN:
            print(f"and {self._count - MAX_SHOWN:,} more rejects; --rejects FILE writes all", file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


class _Lines:
    """Matches as JSON lines."""

    def __init__(self, file: AbstractContextManager[TextIO]) -> None:
        self._context = file

    def __enter__(self) -> Self:
        self._file = self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def write(self, events: Int64s, matches: Matches) -> None:
        columns = [column.tolist() for column in _columns(events, matches)]
        for values in zip(*columns, strict=True):
            self._file.write(json.dumps(dict(zip(COLUMNS, values, strict=True))) + "\n")


class _Parquet:
    """Matches as a Parquet file."""

    SCHEMA = pa.schema(list(zip(COLUMNS, (pa.int64(), pa.int64(), pa.float64(), pa.int32()), strict=True)))

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        try:
            self._writer = pq.ParquetWriter(self._path, self.SCHEMA)
        except OSError as error:
            raise StorageError(f"{self._path}: cannot be written: {error}") from None
        return self

    def __exit__(self, *error: Any) -> None:
        self._writer.close()

    def write(self, events: Int64s, matches: Matches) -> None:
        self._writer.write_table(pa.table(list(_columns(events, matches)), schema=self.SCHEMA))


def _sink(path: Path | None) -> _Lines | _Parquet:
    if path is None:
        return _Lines(nullcontext(sys.stdout))
    if path.suffix.lower() == ".parquet":
        return _Parquet(path)
    if FORMATS.get(path.suffix.lower()) != "json":
        raise QueryError(f"{path}: expected a name that ends in .parquet or .jsonl")
    return _Lines(_opened(path))


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None


def _columns(events: Int64s, matches: Matches) -> tuple[Int64s, Int64s, Float64s, Int64s]:
    counts = np.diff(matches.offsets)
    rank = np.arange(len(matches.ids)) - np.repeat(matches.offsets[:-1], counts) + 1
    return np.repeat(events, counts), matches.ids, matches.scores, rank.astype(np.int32)
