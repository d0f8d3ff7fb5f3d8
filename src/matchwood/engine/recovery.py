"""A durable engine from disk: the newest valid snapshot and the records after it, or the tables of what is there now.

`replaying` says how records are applied.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from matchwood.engine.engine import Engine
from matchwood.engine.journal import Journal
from matchwood.engine.records import Kept
from matchwood.engine.replaying import Replaying, clock_of, keep, subscribe, trusting
from matchwood.engine.saving import load_engine
from matchwood.engine.tables import Stored
from matchwood.errors import MatchwoodError, StorageError
from matchwood.schema import Schema

LOG = logging.getLogger("matchwood")
SNAPSHOTS = "snapshots"

Make = Callable[[Schema, str], Engine]
"""Makes an empty engine for a schema and a kind of ids; its clock is a `RecordClock`."""


def snapshots(folder: Path) -> list[tuple[int, Path]]:
    """The snapshots in a folder, newest first, by the number of their last record."""
    found = [path for path in (folder / SNAPSHOTS).glob("*") if path.name.isdigit()]
    return sorted(((int(path.name), path) for path in found), reverse=True)


def recover(folder: Path, journal: Journal, make: Make) -> tuple[Engine, int]:
    """The engine as of the last record, and the number of that record. O(bytes + records since the snapshot)."""
    journal.connection.execute("BEGIN")  # one state, while another process writes
    try:
        journal.refresh()
        return _recover(folder, journal, make)
    finally:
        journal.connection.execute("COMMIT")


def _recover(folder: Path, journal: Journal, make: Make) -> tuple[Engine, int]:
    for seq, path in snapshots(folder):
        if not journal.trimmed_changes <= seq <= journal.last:
            continue
        try:
            engine = load_engine(make, path, verify=True)
        except MatchwoodError as error:
            LOG.warning("snapshot %s is not used: %s", path, error)
            continue
        return engine, replay(engine, journal, seq)
    try:
        return rebuild(journal, make)
    except (json.JSONDecodeError, msgspec.MsgspecError) as error:
        raise StorageError(f"{journal.path} is damaged: {error}; restore a backup") from None


def replay(engine: Engine, journal: Journal, after: int) -> int:
    """Apply the records after a number; return the number of the last one applied."""
    if journal.trimmed_changes > after:
        raise StorageError(f"{journal.path}: records after {after} have been removed; open the folder again")
    trimmed = journal.trimmed
    replaying = Replaying(engine)
    for chunk in journal.chunks(after, changes_only=True):
        if chunk.first > max(after, trimmed) + 1:
            raise StorageError(
                f"{journal.path}: records {after + 1} to {chunk.first - 1} are missing; restore a backup"
            )
        replaying.take(chunk)
        after = chunk.last
    replaying.finish()
    return max(after, trimmed)


def rebuild(journal: Journal, make: Make) -> tuple[Engine, int]:
    """The engine from the tables of what is there now."""
    about, state = (json.loads(journal.meta(key) or "{}") for key in ("schema", "state"))
    schema = Schema(about.get("types", {}), learn=about.get("learn", True))
    engine = make(schema, journal.meta("ids") or "int")
    with trusting(engine), clock_of(engine).frozen(state.get("time", 0)):
        execute = journal.connection.execute
        alive = "until IS NULL OR until > ?"
        rows = execute(f"SELECT body FROM subscriptions WHERE {alive} ORDER BY position", (state.get("time", 0),))
        bodies = [row[0] for row in rows]
        stored = [msgspec.json.decode(body, type=Stored) for body in bodies]
        subscribe(engine, [one.record for one in stored])
        for one in stored:
            if one.paused:
                Engine.pause(engine, one.record.id)
        kept = [row[0] for row in execute("SELECT body FROM live ORDER BY number")]
        keep(engine, [msgspec.json.decode(body, type=Kept) for body in kept])
    engine._subscriptions.next_id = max(engine._subscriptions.next_id, state.get("next_id", 0))
    engine._live.next_id = max(engine._live.next_id, state.get("next_event", 0))
    return engine, journal.last
