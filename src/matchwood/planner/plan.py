"""A plan: the structure for one mode of matching, with the reasons.

`rules.toml` lists the contenders; `make_plan` times them on a sample (`trial`) and takes the cheapest. Statistics of the data
alone do not predict the winner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from matchwood.encode.arrays import Events, Rows
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.planner.rules import RULES, Rules
from matchwood.planner.sample import generated_events, sample_rows
from matchwood.planner.statistics import Statistics
from matchwood.planner.trial import Estimate, Task, cheapest, run_trials
from matchwood.planner.uses import Uses
from matchwood.structures import Index, make_index

AUTO = "auto"
"""The name that leaves the choice of the index to the planner."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The structure for one mode of matching, and the reasons; `str` gives a line for each reason."""

    index: str
    mode: Mode
    rows: int
    reasons: tuple[str, ...]
    estimates: tuple[Estimate, ...] = ()
    from_real_events: bool = False
    """Was it made from events that were matched, not from generated ones?"""

    def __str__(self) -> str:
        use = "relaxed matching" if self.mode is Mode.ANY else "matching"
        return "\n".join([f"{self.index} for {use} of {self.rows:,} rows", *(f"  {line}" for line in self.reasons)])

    def because(self, line: str) -> Plan:
        """The same plan with one more reason."""
        return replace(self, reasons=(*self.reasons, line))

    def to_json(self) -> dict[str, Any]:
        """For saving. Without the estimates, which the reasons contain."""
        saved = {"index": self.index, "mode": str(self.mode), "rows": self.rows, "reasons": list(self.reasons)}
        return {**saved, "seen": self.from_real_events}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Plan:
        """The plan that `to_json` wrote."""
        reasons = tuple(map(str, saved["reasons"]))
        return cls(
            str(saved["index"]), Mode(saved["mode"]), int(saved["rows"]), reasons, from_real_events=bool(saved["seen"])
        )


def first_plan(mode: Mode, rows: int, rules: Rules = RULES) -> Plan:
    """The plan for few rows, without a trial."""
    return Plan("scan", mode, rows, (f"fewer than {rules.min_rows:,} rows: a scan takes microseconds",))


def make_plan(
    task: Task,
    *,
    from_real_events: bool,
    current: str | None = None,
    rules: Rules = RULES,
    name_of: Callable[[int], str] = str,
) -> Plan:
    """The plan for the task. `from_real_events`: its events were matched, not generated. `current`: the structure in use."""
    if task.total < rules.min_rows:
        return first_plan(task.mode, task.total, rules)
    statistics = Statistics.of(task.rows, task.events)
    names = {use.name for use in task.uses.shares(task.mode)}
    contenders = [
        c
        for c in rules.contenders
        if names & set(c.uses) and c.predicates[0] <= statistics.predicates <= c.predicates[1]
    ]
    estimates = run_trials(contenders, task, rules.trial)
    changes = task.uses.changes_per_event()
    best = cheapest(estimates, changes)
    fastest = best
    if current in estimates and estimates[current].handicapped(changes) <= rules.replan.gain * best.cost(changes):
        best = estimates[current]
    ranked = sorted(estimates.values(), key=lambda e: e.cost(changes))
    reasons = [
        f"expected: {_figure(best, changes)} in the index, without the call and the reading of the event; "
        f"about {best.hits:,.1f} hits, {best.bytes / 1e6:,.0f} MB",
        "others: " + "; ".join(f"{e.index} {_figure(e, changes)}" for e in ranked if e.index != best.index),
        f"timed on {best.tried:,} rows and {task.events.size} "
        + ("of the latest events" if from_real_events else "events generated from the subscriptions"),
        f"uses: {_uses(task)}",
        statistics.line(name_of),
    ]
    if best.parts:
        shares = ", ".join(f"{share:.0%} in {part}" for part, share in best.parts.items())
        reasons.insert(1, f"divided by kind of row: {shares}")
    if ranked[0].margin > 1.0 and ranked[0].index not in (best.index, fastest.index):
        reasons.append(f"not divided: {ranked[0].index} is less than {ranked[0].margin - 1:.0%} faster")
    if fastest.index != best.index:
        reasons.append(f"not replaced: {fastest.index} is less than {rules.replan.gain - 1:.0%} faster")
    return Plan(best.index, task.mode, task.total, tuple(reasons), tuple(ranked), from_real_events)


def planned_index(
    rows: Rows, events: Events | None = None, *, mode: Mode | str = Mode.ALL, rules: Rules = RULES
) -> tuple[Index, Plan]:
    """An index of these rows, of the structure that is fastest in the mode, and the plan. Without events, some are generated."""
    sample = sample_rows(rows, rules.trial.sample_of(rows.size))
    timed = generated_events(sample, rules.trial.events) if events is None else events
    plan = make_plan(
        Task(sample, timed, rows.size, mode_of(mode), Uses()), from_real_events=events is not None, rules=rules
    )
    index = make_index(plan.index)
    index.insert(rows)
    return index, plan


def _figure(estimate: Estimate, changes: float) -> str:
    extra = f" + {estimate.change:.0f} us per change" if changes else ""
    return f"{estimate.event:,.1f} us per event{extra}"


def _uses(task: Task) -> str:
    shares = ", ".join(
        f"{use.name} {share:.0%}" + (f" (k = {task.uses.k})" if use.best else "")
        for use, share in task.uses.shares(task.mode).items()
    )
    return f"{shares}; {task.uses.changes_per_event():.2g} changes per event"
