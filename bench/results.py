"""The stored figures of experiments, looked up by name. The error for a missing one lists similar names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class MissingFigureError(LookupError):
    """An experiment lacks a figure that a claim or plot needs."""


@dataclass(frozen=True)
class Experiment:
    """The content of one NAME.json."""

    name: str
    preset: str
    environment: dict[str, Any]
    parts: dict[str, dict[str, Any]]
    rows: list[Row]

    def find(self, workload: str, system: str, metric: str, n: int | None = None) -> Row:
        """The latest row of this name, of the largest n unless one is given.

        `workload` may end in `*`, for names that depend on the available data.
        """
        found = [
            row
            for row in self.rows
            if row["system"] == system and row["metric"] == metric and _fits(row["workload"], workload)
        ]
        size = max((row["n"] for row in found), default=0) if n is None else n
        for row in reversed(found):
            if row["n"] == size:
                return row
        raise MissingFigureError(self._missing(workload, system, metric, n))

    def _missing(self, workload: str, system: str, metric: str, n: int | None) -> str:
        wanted = f"{workload} | {system} | {metric}"
        names = {f"{row['workload']} | {row['system']} | {row['metric']}" for row in self.rows}
        near = get_close_matches(wanted, names, 3, 0.5)
        size = "" if n is None else f" | n={n:,}"
        return f"{self.name}.json has no row {wanted}{size}; similar rows: {'; '.join(near) or 'none'}"


@dataclass(frozen=True)
class Results:
    """The experiments of a folder, by name."""

    experiments: dict[str, Experiment]

    @classmethod
    def load(cls, folder: Path, names: Iterable[str]) -> Results:
        """The experiments of these names that have a file in the folder."""
        return cls({name: _experiment(name, folder / f"{name}.json") for name in names if _exists(folder, name)})

    def __iter__(self) -> Iterator[Experiment]:
        return iter(self.experiments.values())

    def get(self, name: str) -> Experiment | None:
        """An experiment, or None if it has not been run."""
        return self.experiments.get(name)


def series(rows: list[Row], workload: str, system: str, metric: str) -> tuple[list[int], list[float]]:
    """The n and the values of one curve, by ascending n."""
    found = {
        row["n"]: row["value"]
        for row in rows
        if (row["workload"], row["system"], row["metric"]) == (workload, system, metric)
    }
    return sorted(found), [found[n] for n in sorted(found)]


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _exists(folder: Path, name: str) -> bool:
    return (folder / f"{name}.json").exists()


def _experiment(name: str, path: Path) -> Experiment:
    saved = json.loads(path.read_text(encoding="utf-8"))
    return Experiment(name, saved["preset"], saved["environment"], saved.get("parts", {}), saved["rows"])
