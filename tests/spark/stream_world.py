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
