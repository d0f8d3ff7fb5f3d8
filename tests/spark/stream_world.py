"""A seeded stream: files of events and of changes of subscriptions, and what must come out of it whatever happens meanwhile."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from matchwood.engine import Engine
from matchwood.lang.event import Event

ITEMS = ("phone", "sofa", "bicycle", "desk")


def expression(dice: random.Random) -> str:
    text = f"item = '{dice.choice(ITEMS)}' ^{dice.choice((0.25, 0.5))} AND price <= {dice.randint(10, 100)}"
    return text if dice.random() < 0.7 else f"{text} OR colour = 'shade {dice.randint(0, 5)}'"


def write_base(path: Path, count: int, seed: int = 1) -> dict[int, str]:
    """The subscriptions that are there from the beginning, as JSON lines."""
    dice = random.Random(seed)
    base = {id_: expression(dice) for id_ in range(count)}
    path.write_text("".join(json.dumps({"id": id_, "expression": text}) + "\n" for id_, text in base.items()))
    return base


def events(number: int, count: int, *, seed: int = 7, alive: bool = False) -> list[dict[str, Any]]:
    """The events of file `number`; ids are unique over all files."""
    dice = random.Random(seed * 1000 + number)
    found = []
    for i in range(count):
        values: dict[str, Any] = {"item": dice.choice(ITEMS), "price": dice.randint(1, 120)}
        if dice.random() < 0.5:
            values["colour"] = f"shade {dice.randint(0, 9)}"
        record: dict[str, Any] = {"id": number * 100_000 + i, "values": values}
        if alive and dice.random() < 0.5:
            record["until"] = "2100-01-01T00:00:00Z"
        found.append(record)
    return found


def put(folder: Path, name: str, records: list[dict[str, Any]]) -> None:
    """A file of lines that appears at once, as a stream's source asks."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder.parent / f".{name}.tmp"
    temporary.write_text("".join(json.dumps(record) + "\n" for record in records))
    temporary.rename(folder / name)


def expected(
    subscriptions: dict[int, str], published: list[dict[str, Any]], k: int | None
) -> set[tuple[int, int, float]]:
    """(event, subscription, score) by the engine."""
    engine = Engine()
    for id_, text in subscriptions.items():
        engine.subscribe(text, id=id_)
    found = set()
    for record in published:
        event = Event(record["values"])
        for match in engine.match(event) if k is None else engine.top_k(event, k):
            found.add((record["id"], match.id, match.score))
    return found


def changes(number: int, count: int, known: int, *, seed: int = 9) -> list[dict[str, Any]]:
    """The changes of file `number`: new subscriptions, some with new strings, and updates and removals of the first `known`."""
    dice = random.Random(seed * 1000 + number)
    found: list[dict[str, Any]] = []
    for i in range(count):
        new = {"op": "subscribe", "id": 10_000 + number * 100 + i, "expression": expression(dice)}
        if dice.random() < 0.3:
            new["expression"] += f" OR colour = 'shade {dice.randint(6, 9)}'"
        found.append(new)
    for id_ in dice.sample(range(known), 4):
        op = dice.choice(("update", "unsubscribe"))
        found.append({"op": op, "id": id_, **({"expression": expression(dice)} if op == "update" else {})})
    return found


def files_of_batches(checkpoint: Path) -> list[tuple[list[Path], ...]]:
    """Which files each micro-batch took from each source, as Spark wrote it down."""
    logs: list[dict[int, list[Path]]] = []
    for source in sorted((checkpoint / "sources").iterdir(), key=lambda path: int(path.name)):
        taken: dict[int, set[Path]] = {}
        for log in source.glob("[0-9]*"):
            for line in log.read_text().splitlines()[1:]:
                entry = json.loads(line)
                taken.setdefault(entry["batchId"], set()).add(
                    Path(entry["path"].removeprefix("file:").replace("///", "/"))
                )
        logs.append({offset: sorted(paths) for offset, paths in taken.items()})
    batches = []
    before = [-1] * len(logs)
    for path in sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
        texts = path.read_text().splitlines()[2:]
        ends = [b if text == "-" else json.loads(text)["logOffset"] for text, b in zip(texts, before, strict=True)]
        spans = zip(logs, before, ends, strict=True)
        batches.append(tuple([p for o in range(b + 1, e + 1) for p in log.get(o, [])] for log, b, e in spans))
        before = ends
    return batches


def replayed(base: dict[int, str], batches: list[tuple[list[Path], ...]]) -> list[tuple[int, int, float]]:
    """What a stream of events (first source) and changes (second) must give, batch by batch, by the engine."""
    subscriptions, alive = dict(base), []
    found: list[tuple[int, int, float]] = []

    def read(paths: list[Path]) -> list[dict[str, Any]]:
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    for event_files, change_files in batches:
        changed = read(change_files)
        for change in changed:
            subscriptions.pop(change["id"], None)
            if change["op"] != "unsubscribe":
                subscriptions[change["id"]] = change["expression"]
        new = {c["id"]: c["expression"] for c in changed if c["op"] != "unsubscribe"}
        published = read(event_files)
        if new:
            found += expected(new, alive, None)
        found += expected(subscriptions, published, None)
        alive += [record for record in published if "until" in record]
    return sorted(found)
