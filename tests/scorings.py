"""Subscriptions with priorities and weights, and what the oracle says of them under each named scoring."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from matchwood.lang.evaluate import rank
from matchwood.lang.event import Event, event_keys
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema

FUNCTIONS: dict[str, Callable[[float, float], float]] = {
    "sum": lambda score, weight: score + weight,
    "max": max,
    "priority": lambda score, weight: score,
}
"""The definitions, apart from those under test."""

TYPES = {"age": "number", "plan": "string"}


def a_scored_world(seed: int, subscriptions: int, events: int) -> tuple[list[str], list[float], list[dict[str, Any]]]:
    """Texts, their priorities, and events: with ties, negative priorities, alternatives and absent attributes."""
    draw = random.Random(seed)

    def condition(name: str) -> str:
        weight = draw.choice(["", " ^0.25", " ^2", " ^3"])
        if name == "age":
            return f"age {draw.choice(['<', '>='])} {draw.randrange(20, 80, 20)}{weight}"
        return f"plan {draw.choice(['=', '<>'])} '{draw.choice(['free', 'pro'])}'{weight}"

    texts = [
        f" {draw.choice(['AND', 'OR'])} ".join(map(condition, draw.sample([*TYPES], draw.choice([1, 2]))))
        for _ in range(subscriptions)
    ]
    priorities = [draw.choice([-1.5, 0.0, 0.0, 0.5, 2.5]) for _ in texts]
    made: list[dict[str, Any]] = []
    for _ in range(events):
        values = {"age": draw.randrange(90), "plan": draw.choice(["free", "pro", "trial"])}
        made.append({name: value for name, value in values.items() if draw.random() < 0.8})
    return texts, priorities, made


def judged(
    texts: list[str],
    priorities: list[float],
    events: list[dict[str, Any]],
    scoring: str,
    *,
    k: int | None = None,
    mode: str = "all",
) -> list[list[tuple[int, float]]]:
    """(position of the subscription, score) of the matches of each event, best first, by the oracle."""
    schema = Schema(TYPES)
    subscriptions = [
        (at, priority, normalise(parse(text), schema))
        for at, (text, priority) in enumerate(zip(texts, priorities, strict=True))
    ]
    keys = [event_keys(Event(event), schema) for event in events]
    return [rank(subscriptions, one, k=k, mode=mode, combine=FUNCTIONS[scoring]) for one in keys]
