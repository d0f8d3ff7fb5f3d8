"""Saved indexes, engines and covers, damaged on disk: a `StorageError`, whichever byte of whichever file it is."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from matchwood.covering import ALL, CoverIndex
from matchwood.engine import Engine
from matchwood.engine.clock import ManualClock
from matchwood.errors import StorageError
from matchwood.schema import Range
from matchwood.store.storage import MANIFEST, signed
from matchwood.structures import Capability
from tests.fuzz.mutation import mutated_bytes, mutated_json
from tests.systems import SYSTEMS
from tests.worlds import World, a_world, listed, ranked, seeded_dice

START = datetime(2026, 3, 1, tzinfo=UTC)


class Saved(NamedTuple):
    """A folder, its files with what they held, and how it is loaded and asked."""

    folder: Path
    files: dict[Path, bytes]
    ask: Callable[[Path], Any]
    answers: Any


@cache
def home() -> Path:
    """One temporary folder a process, removed at its end."""
    home = Path(tempfile.mkdtemp(prefix="matchwood-fuzz-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _small_world(name: str) -> World:
    world = a_world(seeded_dice(6), 8, 4)
    if Capability.RANGE_EVENTS not in SYSTEMS[name].capabilities:
        world.events = [e for e in world.events if not any(isinstance(v, list | Range) for v in e.values.values())]
    if Capability.ABSENCE not in SYSTEMS[name].capabilities:
        world.subscriptions = {i: s for i, s in world.subscriptions.items() if "Absent" not in repr(s[2])}
    return world


def _saved(folder: Path, ask: Callable[[Path], Any]) -> Saved:
    files = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return Saved(folder, files, ask, ask(folder))


@cache
def saved_index(name: str) -> Saved:
    """A small index of that name."""
    world = _small_world(name)
    folder = home() / f"index-{name}"
    SYSTEMS[name].build(world.rows()).save(folder)
    events = world.event_arrays()

    def ask(path: Path) -> Any:
        index = SYSTEMS[name].load(path)
        return ranked(index.match(events)), len(index), index.store.ids().tolist()

    return _saved(folder, ask)


@cache
def saved_engine() -> Saved:
    """A small engine with strings, expiring subscriptions and live events."""
    clock = ManualClock(START)
    engine = Engine(clock=clock)
    engine.subscribe("plan = 'free' ^0.5 AND age >= 18", until=START + timedelta(days=1))
    engine.subscribe("plan IN ('pro', 'trial') OR age < 7", priority=2)
    engine.subscribe("price < 30", place=(-74.0, 40.7), radius=900.0)
    engine.publish({"price": 20, "age": 30, "plan": "pro"}, until=START + timedelta(hours=1))
    engine.publish({"price": [1, 2], "plan": "free"}, until=START + timedelta(hours=2))
    folder = home() / "engine"
    engine.save(folder)
    asked: list[dict[str, Any]] = [
        {"plan": "free", "age": 20},
        {"plan": "trial"},
        {"price": 5, "place": {"lon": -74.0, "lat": 40.7}},
    ]

    def ask(path: Path) -> Any:
        loaded = Engine.load(path, clock=ManualClock(START))
        hits = listed(loaded.match_many(asked))
        return hits, [loaded.subscription(i) for i in loaded.ids()], [loaded.live(i) for i in loaded.ids()]

    return _saved(folder, ask)


@cache
def saved_covers() -> Saved:
    """A small index of covers."""
    rows = a_world(seeded_dice(6), 12, 0).rows()
    index = CoverIndex(overflow=4)
    index.insert(rows)
    folder = home() / "covers"
    index.save(folder)

    def ask(path: Path) -> Any:
        loaded = CoverIndex.load(path)
        return loaded.covers_of(rows, k=ALL).ids.tolist(), loaded.covered_by(rows).ids.tolist(), len(loaded)

    return _saved(folder, ask)


def saved(random: Random) -> Saved:
    names = sorted(SYSTEMS)
    at = random.randrange(len(names) + 4)
    return saved_index(names[at]) if at < len(names) else saved_covers() if at == len(names) else saved_engine()


def assert_told_or_same(kept: Saved) -> bool:
    """Load and ask: is it refused? What is not refused answers as before."""
    try:
        answers = kept.ask(kept.folder)
    except StorageError:
        return True
    assert answers == kept.answers, "a damaged folder gave another answer"
    return False


def restore(kept: Saved, changed: list[Path]) -> None:
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(kept.files[path])


def a_damaged_folder(random: Random) -> int:
    """One file changed byte by byte, cut, removed, swapped with another or taken from another folder."""
    kept = saved(random)
    paths = list(kept.files)
    victim = random.choice(paths) if random.random() < 0.7 else kept.folder / MANIFEST
    kind = random.randrange(10)
    changed = [victim]
    if kind < 5:
        victim.write_bytes(mutated_bytes(random, kept.files[victim]))
    elif kind == 5:
        victim.unlink()
    elif kind == 6:
        other = random.choice(paths)
        victim.write_bytes(kept.files[other])
        other.write_bytes(kept.files[victim])
        changed.append(other)
    elif kind == 7:
        foreign = saved(random)
        same = [path for path in foreign.files if path.name == victim.name]
        victim.write_bytes(foreign.files[random.choice(same or list(foreign.files))])
    elif kind == 8:
        victim.write_bytes(random.randbytes(random.randrange(300)))
    else:
        _forge(random, kept)
        changed = [kept.folder / MANIFEST]
    forged = kind == 9  # with a checksum that fits
    damaged = any(not path.is_file() or path.read_bytes() != kept.files[path] for path in changed)
    try:
        told = assert_told_or_same(kept)
        assert told or forged or not damaged, f"{victim} is damaged and was loaded"
    finally:
        restore(kept, changed)
    return 1


def _forge(random: Random, kept: Saved) -> None:
    """A manifest whose parameters or schema were edited by hand, with a checksum that fits. Arrays stay as they are."""
    manifest = kept.folder / MANIFEST
    content = json.loads(kept.files[manifest])
    damaged = {
        **content,
        **{key: mutated_json(random, content[key]) for key in ("arrays", "folders", "format", "version", "kind")},
    }
    try:
        manifest.write_text(signed(damaged))
    except (ValueError, RecursionError):  # Python writes no number of 5,000 digits and nothing nested too deeply
        manifest.write_text("{}")
