"""What both halves of the MO-Tree experiment share: numbers of changes, timing and comparing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from bench.report import median_time

ROUNDS = 5  # of changes and their undoing
CHANGES = {"mo-tree": 500, "tama": 50, "op-index": 50, "beq-tree": 500, "r-star-tree": 200}
"""How many changes are made one by one: fewer where one costs a tenth of a millisecond or more."""

Answer = list[tuple[int, float]]
"""Ids and scores of the matches of one event or subscription."""
Steps = dict[str, Callable[[], object]]
"""What is timed, by metric or name."""
About = dict[str, Any]
"""The columns that the rows of one system have in common."""


def costs(steps: Steps, count: int) -> dict[str, float]:
    """Microseconds for each of `count` changes at each step: medians of several rounds, each of which ends as it began."""
    rounds = [{name: median_time(step, 1) for name, step in steps.items()} for _ in range(ROUNDS)]
    return {name: median(times[name] for times in rounds) / count * 1e6 for name in steps}


def each(change: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Make the changes one by one."""
    for item in items:
        change(item)


def compare_answers(truth: list[Answer], found: list[Answer], problem: str) -> None:
    """Raise `AssertionError` unless the answers found are the first of the true ones."""
    if truth[: len(found)] != found:
        raise AssertionError(problem)
