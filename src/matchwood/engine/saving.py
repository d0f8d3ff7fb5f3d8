"""Engines on disk: a folder with the index, the schema, the plan, expiry and live events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matchwood.encode.elements import condition_arrays, restore_conditions
from matchwood.engine.ids import Ids
from matchwood.engine.live import Live
from matchwood.errors import SchemaError, StorageError
from matchwood.planner import Plan, Planned
from matchwood.schema import Schema
from matchwood.store.locations import local_path
from matchwood.store.storage import read_folder, write_folder
from matchwood.structures import load_index

if TYPE_CHECKING:
    from matchwood.engine.engine import Engine


def save_engine(engine: Engine, path: str | Path) -> None:
    """Write everything to a new folder, completely or not at all. The caller holds the engine's lock. O(bytes)."""
    folder = local_path(path, "saved engine")
    index = engine._index
    subscriptions = engine._subscriptions
    arrays = {**subscriptions.arrays(), **engine._live.arrays(), **condition_arrays(engine.schema)}
    ids = Ids.INT if subscriptions.names is None else Ids.STR
    about: dict[str, Any] = {"schema": engine.schema.to_json(), "next_id": subscriptions.next_id, "ids": ids}
    if isinstance(index, Planned):
        about["plan"] = index.to_json()
    write_folder(folder, "engine", about, arrays, also=lambda inside: index.save(inside / "index"))


def load_engine(make: Callable[[Schema, str], Engine], path: str | Path, *, verify: bool) -> Engine:
    """Fill an engine, which `make` makes for the saved schema and kind of ids. O(bytes), without `verify` O(arrays)."""
    folder = local_path(path, "saved engine")
    about, arrays = read_folder(folder, "engine", verify=verify)
    with _reading_saved(folder):
        schema, ids, next_id = Schema.from_json(about["schema"]), str(about["ids"]), int(about["next_id"])
        plan = Plan.from_json(about["plan"]) if "plan" in about else None
    engine = make(schema, ids)
    index = load_index(folder / "index", verify=verify)
    subscriptions = engine._subscriptions
    subscriptions.index = index if plan is None else engine._planned(index, plan)
    engine._prepare_index(engine._scoring)
    subscriptions.next_id = next_id
    with _reading_saved(folder):
        subscriptions.set_arrays(arrays)
        engine._live = Live.of_arrays(arrays, engine.schema, like=engine._axes)
        restore_conditions(engine.schema, arrays)
    return engine


@contextmanager
def _reading_saved(folder: Path) -> Iterator[None]:
    """A block that reads what was saved, whose checksums were right: what it lacks, or what contradicts itself, is no engine."""
    try:
        yield
    except (LookupError, ValueError, SchemaError) as error:
        raise StorageError(f"{folder}: the saved engine is incomplete: {error!r}") from None
