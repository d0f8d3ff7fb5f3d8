"""Claims: a statement of a paper or a target, with the query that finds our figure.

Claims contain no measured numbers; those are looked up in the rows of an experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.results import Experiment, MissingFigureError

Figure = Callable[[Experiment], float]
"""A query: one number from the rows of an experiment, or `MissingFigureError`."""


def at(workload: str, system: str, metric: str = "us_per_event", n: int | None = None) -> Figure:
    """The value of one row, of the largest n unless one is given."""
    return lambda experiment: float(experiment.find(workload, system, metric, n)["value"])


def times(slower: Figure, faster: Figure) -> Figure:
    """The first divided by the second."""
    return lambda experiment: slower(experiment) / faster(experiment)


def beside(workload: str, system: str, other: str, metric: str = "us_per_event") -> tuple[Figure, Figure]:
    """Two systems at the largest n that the first has been run with."""

    def second(experiment: Experiment) -> float:
        n = experiment.find(workload, system, metric)["n"]
        return float(experiment.find(workload, other, metric, n)["value"])

    return at(workload, system, metric), second


def saved(before: Figure, after: Figure) -> Figure:
    """The saving of the second compared with the first, in percent."""
    return lambda experiment: 100.0 * (1.0 - after(experiment) / before(experiment))


def more(than: Figure, value: Figure) -> Figure:
    """The excess of the second over the first, in percent."""
    return lambda experiment: 100.0 * (value(experiment) / than(experiment) - 1.0)


def scaled(value: Figure, factor: float) -> Figure:
    """The value times a factor, to change the unit."""
    return lambda experiment: factor * value(experiment)


def total(*values: Figure) -> Figure:
    """The sum."""
    return lambda experiment: sum(value(experiment) for value in values)


def largest(*values: Figure) -> Figure:
    """The largest of several."""
    return lambda experiment: max(value(experiment) for value in values)


def least(*values: Figure) -> Figure:
    """The least of several."""
    return lambda experiment: min(value(experiment) for value in values)


def choice(figures: Mapping[float, Figure]) -> Figure:
    """The parameter with the least figure."""
    return lambda experiment: min(figures, key=lambda parameter: figures[parameter](experiment))


def worst_over_best(system: str, prefix: str = "us_per_event") -> Figure:
    """Over all workloads and metrics with that prefix: the largest ratio of a system to the best of the others."""
    return lambda experiment: max(
        values[system] / min(value for other, value in values.items() if other != system)
        for values in side_by_side(experiment, prefix, system)
    )


def worst_over(system: str, other: str, prefix: str = "us_per_event") -> Figure:
    """As `worst_over_best`, for the ratio to one other system."""
    return lambda experiment: max(
        values[system] / values[other] for values in side_by_side(experiment, prefix, system) if other in values
    )


def side_by_side(experiment: Experiment, prefix: str, system: str) -> list[dict[str, float]]:
    """The values of all systems for each workload, n and metric that include this system and another."""
    groups: dict[tuple[str, int, str], dict[str, float]] = {}
    for row in experiment.rows:
        if row["metric"].startswith(prefix):
            groups.setdefault((row["workload"], row["n"], row["metric"]), {})[row["system"]] = float(row["value"])
    found = [values for values in groups.values() if system in values and len(values) > 1]
    if not found:
        raise MissingFigureError(f"{experiment.name}.json has no {prefix} of {system} together with another system")
    return found


@dataclass(frozen=True)
class Target:
    """A lower or an upper bound."""

    bound: float
    least: bool

    def met(self, value: float) -> bool:
        """Does the value reach the target?"""
        return value >= self.bound if self.least else value <= self.bound


def at_least(bound: float) -> Target:
    """A lower bound."""
    return Target(bound, True)


def at_most(bound: float) -> Target:
    """An upper bound."""
    return Target(bound, False)


@dataclass(frozen=True)
class Rival:
    """The strongest competitor that ran on the same data: its figure, and ours of the same kind. Less is better."""

    name: str
    figure: Figure
    ours: Figure
    unit: str = "µs"
    decimals: int | None = None


@dataclass(frozen=True)
class Claim:
    """One line of a section. `why` is shown only if the target is missed or the competitor is better."""

    what: str
    ours: Figure
    unit: str
    paper: str = ""
    target: Target | None = None
    rival: Rival | None = None
    why: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of our figures. Less is better, and with `bold` the best of a line is bold.

    A missing figure leaves its cell empty (not every system ran at every size). A line without figures is left out.
    """

    head: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Figure]]]
    bold: bool = True


def by_system(
    head: str,
    lines: Sequence[tuple[str, str, int | None]],
    systems: Sequence[tuple[str, str]],
    *,
    metric: str = "us_per_event",
    bold: bool = True,
) -> Grid:
    """A line for each (label, workload, n), a column for each (system, label)."""
    cells = [(label, [at(workload, system, metric, n) for system, _ in systems]) for label, workload, n in lines]
    return Grid(head, [label for _, label in systems], cells, bold)


def by_metric(
    head: str, lines: Sequence[tuple[str, str, str]], metrics: Sequence[tuple[str, str, float]], *, bold: bool = False
) -> Grid:
    """A line for each (label, workload, system), a column for each (metric, label, factor)."""
    cells = [
        (label, [scaled(at(workload, system, metric), factor) for metric, _, factor in metrics])
        for label, workload, system in lines
    ]
    return Grid(head, [label for _, label, _ in metrics], cells, bold)


def everything(prefix: str) -> Callable[[Experiment], list[Grid]]:
    """Every workload and every system, in the order of the rows: a table for each metric with that prefix."""

    def grids(experiment: Experiment) -> list[Grid]:
        rows = [row for row in experiment.rows if row["metric"].startswith(prefix)]
        return [_table(metric, rows) for metric in dict.fromkeys(row["metric"] for row in rows)]

    return grids


def over_best(head: str, system: str, prefix: str) -> Callable[[Experiment], list[Grid]]:
    """The ratio of a system to the best of the others: a line for each workload, a column for each metric with that prefix."""

    def grids(experiment: Experiment) -> list[Grid]:
        rows = [row for row in experiment.rows if row["metric"].startswith(prefix)]
        metrics = list(dict.fromkeys(row["metric"] for row in rows))
        lines = [
            (f"{workload}, {n:,}", [_over_best(system, workload, n, metric) for metric in metrics])
            for workload, n in dict.fromkeys((row["workload"], row["n"]) for row in rows)
        ]
        columns = [_spoken(metric).removeprefix("µs an event").strip() or "all matches" for metric in metrics]
        return [Grid(head, columns, lines, bold=False)]

    return grids


def _over_best(system: str, workload: str, n: int, metric: str) -> Figure:
    def ratio(experiment: Experiment) -> float:
        mine = float(experiment.find(workload, system, metric, n)["value"])
        return mine / min(
            float(row["value"])
            for row in experiment.rows
            if (row["workload"], row["n"], row["metric"]) == (workload, n, metric) and row["system"] != system
        )

    return ratio


def _spoken(metric: str) -> str:
    return metric.replace("us_per_event", "µs an event").replace("_", " ")


def _table(metric: str, rows: list[dict[str, Any]]) -> Grid:
    mine = [row for row in rows if row["metric"] == metric]
    systems = [(system, f"`{system}`") for system in dict.fromkeys(row["system"] for row in mine)]
    lines = dict.fromkeys((row["workload"], row["n"]) for row in mine)
    return by_system(
        _spoken(metric), [(f"{workload}, {n:,}", workload, n) for workload, n in lines], systems, metric=metric
    )


@dataclass(frozen=True)
class Section:
    """A figure or a table of a paper: its statement, our results, and a remark on differences (`differs`).

    `differs` may refer to `numbers` in braces, which are looked up.
    """

    title: str
    paper: str
    claims: Sequence[Claim] = ()
    plots: Sequence[tuple[str, str]] = ()
    grids: Sequence[Grid | Callable[[Experiment], list[Grid]]] = ()
    differs: str = ""
    numbers: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Chapter:
    """An experiment: `python -m bench NAME`."""

    experiment: str
    title: str
    about: str
    sections: Sequence[Section]
