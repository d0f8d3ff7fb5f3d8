"""The work of `matchwood verify`: journals and snapshots are read, and the engine recovered from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from matchwood.cli.codes import REJECTED
from matchwood.engine import Engine
from matchwood.engine.clock import system_clock
from matchwood.engine.journal import Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.recovery import recover, snapshots
from matchwood.errors import MatchwoodError, StorageError
from matchwood.schema import Schema


class Verified(NamedTuple):
    """What one journal holds, and what is wrong with it."""

    last: int
    subscriptions: int
    snapshots: int
    problems: tuple[str, ...]


def verify_folder(folder: Path) -> int:
    """Print a line for each journal in the folder; return the exit code."""
    code = 0
    for name, path in _journals(folder):
        found = verified(path)
        state = "ok" if not found.problems else f"{len(found.problems)} problems"
        print(
            f"{name}: {state}; {found.last:,} records, {found.subscriptions:,} subscriptions, {found.snapshots} snapshots"
        )
        for problem in found.problems:
            print(f"  {problem}")
            code = REJECTED
    return code


def verified(folder: Path) -> Verified:
    """Read everything in the folder of one engine. O(bytes)."""
    journal = Journal(folder, read_only=True)
    try:
        problems = journal.check()
        found = snapshots(folder)
        for seq, path in found:
            try:
                Engine.load(path)
            except MatchwoodError as error:
                if path.exists():  # a broker that runs may have removed it
                    problems.append(f"snapshot {seq}: {error}")
        count = 0
        try:
            engine, _ = recover(folder, journal, _made)
            count = len(engine)
        except MatchwoodError as error:
            problems.append(f"the engine cannot be recovered: {error}")
        return Verified(journal.last, count, len(found), tuple(problems))
    finally:
        journal.close()


def _journals(folder: Path) -> Iterator[tuple[str, Path]]:
    tenants = sorted((folder / "tenants").glob("*/journal.db"))
    if tenants:
        yield from ((path.parent.name, path.parent) for path in tenants)
    elif (folder / "journal.db").exists():
        yield folder.name, folder
    else:
        raise StorageError(f"{folder} has no journal; name the folder of `matchwood serve --data` or of `Engine.open`")


def _made(schema: Schema, ids: str) -> Engine:
    return Engine(schema, ids=ids, index="scan", clock=RecordClock(system_clock))
