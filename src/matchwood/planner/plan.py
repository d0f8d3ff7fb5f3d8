"""A plan: which structure, and why, in words.

`make_plan` chooses for one mode of matching. Which contenders come into question stands in `rules.toml`; which of them wins is
tried on a sample (`trial`), since no figure of the data alone told the winners of our workloads apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from matchwood.encode.arrays import Events, Rows
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.planner.rules import RULES, Rules
from matchwood.planner.sample import fewer_rows, made_up
from matchwood.planner.statistics import Statistics
from matchwood.planner.trial import Estimate, Task, best_of, try_all
from matchwood.planner.uses import Uses
from matchwood.structures import Index, make_index

AUTO = "auto"
"""The name that leaves the choice of the index to the planner."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The structure for one mode of matching, and the reasons; `str` gives them a line each."""

    index: str
    mode: Mode
    rows: int
    reasons: tuple[str, ...]
    estimates: tuple[Estimate, ...] = ()
    seen: bool = False
    """Was it made from events that had come, rather than made up?"""

    def __str__(self) -> str:
        asked = "relaxed matching" if self.mode is Mode.ANY else "matching"
        return "\n".join([f"{self.index} for {asked} of {self.rows:,} rows", *(f"  {line}" for line in self.reasons)])

    def because(self, line: str) -> Plan:
        """The same plan with one more reason."""
        return replace(self, reasons=(*self.reasons, line))

    def to_json(self) -> dict[str, Any]:
        """For saving; estimates are told in the reasons."""
        told = {"index": self.index, "mode": str(self.mode), "rows": self.rows, "reasons": list(self.reasons)}
        return {**told, "seen": self.seen}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Plan:
        """What `to_json` gave."""
        reasons = tuple(map(str, saved["reasons"]))
        return cls(str(saved["index"]), Mode(saved["mode"]), int(saved["rows"]), reasons, seen=bool(saved["seen"]))


def first_plan(mode: Mode, rows: int, rules: Rules = RULES) -> Plan:
    """For few rows: nothing is tried."""
    return Plan(
        "scan", mode, rows, (f"fewer than {rules.least_rows:,} rows: looking at all of them takes microseconds",)
    )


def make_plan(
    task: Task, *, seen: bool, standing: str | None = None, rules: Rules = RULES, named: Callable[[int], str] = str
) -> Plan:
    """The plan for the task. `seen` tells that its events are real; `standing` is the structure that would have to make way."""
    if task.total < rules.least_rows:
        return first_plan(task.mode, task.total, rules)
    statistics = Statistics.of(task.rows, task.events)
    names = {use.name for use in task.uses.shares(task.mode)}
    contenders = [
        c
        for c in rules.contenders
        if names & set(c.uses) and c.predicates[0] <= statistics.predicates <= c.predicates[1]
    ]
    estimates = try_all(contenders, task, rules.trial)
    changes = task.uses.changes_per_event()
    best = best_of(estimates, changes)
    kept = None
    if standing in estimates and estimates[standing].cost(changes) <= rules.replan.gain * best.cost(changes):
        kept, best = best, estimates[standing]
    ranked = sorted(estimates.values(), key=lambda e: e.cost(changes))
    reasons = [
        f"expected {_figure(best, changes)}, about {best.hits:,.1f} hits, {best.bytes / 1e6:,.0f} MB",
        "against " + "; ".join(f"{e.index} {_figure(e, changes)}" for e in ranked if e.index != best.index),
        f"tried on {best.tried:,} rows and {task.events.size} events "
        + ("that came in lately" if seen else "made up from the subscriptions, since none had come yet"),
        f"uses: {_uses(task)}",
        statistics.line(named),
    ]
    if kept is not None and kept.index != best.index:
        reasons.append(f"it stays, since {kept.index} would not win {rules.replan.gain - 1:.0%}")
    return Plan(best.index, task.mode, task.total, tuple(reasons), tuple(ranked), seen)


def planned_index(
    rows: Rows, events: Events | None = None, *, mode: Mode | str = Mode.ALL, rules: Rules = RULES
) -> tuple[Index, Plan]:
    """A new index of these rows, of the structure that serves the mode best, and the plan. Without events they are made up."""
    sample = fewer_rows(rows, rules.trial.sample_of(rows.size))
    met = made_up(sample, rules.trial.events) if events is None else events
    plan = make_plan(Task(sample, met, rows.size, mode_of(mode), Uses()), seen=events is not None, rules=rules)
    index = make_index(plan.index)
    index.insert(rows)
    return index, plan


def _figure(estimate: Estimate, changes: float) -> str:
    extra = f" + {estimate.change:.0f} a change" if changes else ""
    return f"{estimate.event:,.1f} us an event{extra}"


def _uses(task: Task) -> str:
    shares = ", ".join(
        f"{use.name} {share:.0%}" + (f" (k = {task.uses.k})" if use.best else "")
        for use, share in task.uses.shares(task.mode).items()
    )
    return f"{shares}; {task.uses.changes_per_event():.2g} changes an event"
