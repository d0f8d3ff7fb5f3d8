"""The work of `matchwood match`: subscribe a table, match another batch by batch, write the matches and the rejects."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TextIO

from matchwood.cli.codes import REJECTED
from matchwood.cli.match_output import Ids, opened, sink
from matchwood.cli.progress import Progress
from matchwood.encode.rejects import EncodedEvents, EncodedSubscriptions, Reject
from matchwood.encode.tables import file_format, read_subscriptions, stream_events
from matchwood.engine import Engine
from matchwood.engine.clock import ManualClock, system_clock
from matchwood.errors import StorageError
from matchwood.lang.instants import instant
from matchwood.schema import Schema

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
"""The time of the clock with `--include-expired`: nothing has expired."""

MAX_SHOWN = 10
"""Rejects shown on standard error; `--rejects` writes all."""


def match_tables(options: argparse.Namespace) -> int:
    """Subscribe, match the events batch by batch, write the matches; return the exit code."""
    schema = Schema(_declared(options.schema))
    chosen = {} if options.index is None else {"index": options.index}
    engine = Engine(schema, scoring=options.scoring, clock=ManualClock(_now(options)), **chosen)
    file_format(options.events)  # a wrong name is an error before the work, not after
    with Rejects(options.rejects) as rejects, sink(options.out) as out:
        subscriptions = _subscriptions(options, schema)
        rejects.add("subscription", subscriptions.rejects)
        engine.subscribe_rows(subscriptions.rows)
        expired = len(subscriptions.ids) - len(engine)
        names = Ids(subscriptions.names)
        matched = hits = 0
        for part in _events(options.events, schema):
            rejects.add("event", part.rejects)
            if options.top_k is None:
                found = engine.match_many(part.events, mode=options.mode)
            else:
                found = engine.top_k_many(part.events, options.top_k, mode=options.mode)
            out.write(_event_ids(part), names, found)
            matched, hits = matched + part.events.size, hits + len(found.ids)
        rejects.report()
    left_out = f" ({expired:,} more have expired)" if expired else ""
    print(
        f"{matched:,} events, {len(engine):,} subscriptions{left_out}, index {engine.index!r}: {hits:,} matches",
        file=sys.stderr,
    )
    return REJECTED if rejects.count else 0


def _now(options: argparse.Namespace) -> datetime:
    """One instant for the whole run: what expires meanwhile is matched with all events or with none."""
    if options.include_expired:
        return BEFORE_ALL
    return system_clock() if options.at is None else instant(options.at)


def _subscriptions(options: argparse.Namespace, schema: Schema) -> EncodedSubscriptions:
    with Progress("reading subscriptions") as bar:
        return read_subscriptions(options.subscriptions, schema, ignore=options.ignore, progress=bar.at)


def _events(path: Path, schema: Schema) -> Iterator[EncodedEvents]:
    with Progress("matching events") as bar:
        yield from stream_events(path, schema, progress=bar.at)


def _event_ids(part: EncodedEvents) -> list[int | str]:
    """The id of each event; the position of one without."""
    given = part.ids.tolist() if part.names is None else part.names
    return [
        position if id_ in (None, -1) else id_ for id_, position in zip(given, part.positions.tolist(), strict=True)
    ]


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


class Rejects(AbstractContextManager["Rejects"]):
    """Counts rejects, shows the first ones, and writes all to a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = opened(path) if path is not None else None
        self.count = 0

    def add(self, kind: str, rejects: tuple[Reject, ...]) -> None:
        """Count and show the rejects of a part."""
        for reject in rejects:
            self.count += 1
            if self.count <= MAX_SHOWN:
                print(f"rejected {kind}, {reject.where}: {reject.reason}", file=sys.stderr)
            if self._file is not None:
                record = {"kind": kind, "where": reject.where, "id": reject.id, "reason": reject.reason}
                print(json.dumps({**record, "content": reject.content}, default=str), file=self._file)

    def report(self) -> None:
        """Tell how many were not shown."""
        if self.count > MAX_SHOWN:
            print(f"and {self.count - MAX_SHOWN:,} more rejects; --rejects FILE writes all", file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
