"""Watching an engine at work at next to no cost, and saying when its plan should be looked at again."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import NamedTuple

from matchwood.encode.arrays import Events, concatenate_events
from matchwood.planner.rules import Rules
from matchwood.planner.uses import Use, Uses
from matchwood.structures.base import Stats

SPARSE = 32
"""Once enough events have been kept, one batch in so many replaces older ones."""
FEW = 64
"""A change of more rows at once is a load, which says nothing about how often subscriptions change."""


class Reason(NamedTuple):
    """Why a plan should be made anew; `stale`: the structure does not fit its rows, even if it is chosen again."""

    text: str
    stale: bool = False


class Watch:
    """Counts what happens between two plans and keeps a few recent events. Held under the engine's lock."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.uses = Uses()
        self._recent: deque[Events] = deque()
        self._kept = 0
        self._calls = 0
        self._events = 0  # since the plan
        self._changed = 0  # rows, since the plan
        self._planned_rows = 0
        self._planned_uses = Uses()
        self._from_real_events = False
        self._look = rules.replan.first_look
        self._counters = (0, 0)
        self._rate: float | None = None

    def matched(self, use: Use, events: Events, k: int | None) -> None:
        """A batch has been matched. O(1) but for the few batches that are kept."""
        self._events += events.size
        self._calls += 1
        self.uses.count(use, events.size, k)
        wanted = self._rules.trial.events
        if events.size and (self._kept < wanted or self._calls % SPARSE == 0):
            start = (self._calls * 7919) % max(1, events.size - wanted + 1)
            part = events.take(start, min(start + wanted, events.size))
            self._recent.append(concatenate_events([part]))  # a copy: the caller's arrays are his own
            self._kept += part.size
            while self._kept - self._recent[0].size >= wanted:
                self._kept -= self._recent.popleft().size

    def changed(self, rows: int) -> None:
        """So many rows have been inserted, deleted or updated."""
        self._changed += rows
        if rows <= FEW and self.uses.total:
            self.uses.changed += rows

    def events(self) -> Events | None:
        """The latest events, if there have been enough."""
        return concatenate_events(list(self._recent)) if self._kept >= self._rules.trial.events else None

    def planned(self, rows: int, *, from_real_events: bool) -> None:
        """A plan has been made for that many rows."""
        self._planned_rows, self._from_real_events = rows, from_real_events
        self._events = self._changed = 0
        self._look = self._rules.replan.look if from_real_events else self._rules.replan.first_look
        self._planned_uses = replace(self.uses, events=dict(self.uses.events))
        self.uses.events = {use: n // 2 for use, n in self.uses.events.items() if n > 1}
        self.uses.changed //= 2
        self._counters, self._rate = (0, 0), None

    def reason(self, rows: int, stats: Stats | None = None) -> Reason | None:
        """Why to plan now, if there is a reason. O(1) unless a look is due, which asks for `stats`."""
        rules, before = self._rules.replan, self._planned_rows
        if max(rows, before) < self._rules.least_rows:
            return None
        if rows > rules.growth * before or rows * rules.growth < before:
            return Reason(f"from {before:,} to {rows:,} rows")
        if self._changed > before:
            return Reason(f"{self._changed:,} rows changed", stale=True)
        if self._events < self._look:
            return None
        if not self._from_real_events:
            return Reason("events have come in")
        return self._drift(stats) if stats is not None else None

    def due(self) -> bool:
        """Is it time to look at the structure's counters?"""
        return self._events >= self._look

    def _drift(self, stats: Stats) -> Reason | None:
        self._look *= 2
        moved = self._shifted()
        if moved > self._rules.replan.shift:
            return Reason(f"{moved:.0%} of the uses have shifted")
        events, candidates = stats.events - self._counters[0], stats.candidates - self._counters[1]
        self._counters = stats.events, stats.candidates
        rate = (candidates + 1) / max(events, 1) / max(stats.rows, 1)
        if self._rate is None:
            self._rate = rate
        bound = self._rules.replan.candidates
        if rate > bound * self._rate or rate * bound < self._rate:
            return Reason(f"candidates an event went to {rate / self._rate:.1f} times what they were", stale=True)
        return None

    def _shifted(self) -> float:
        """The share of events that are matched in another way than when the plan was made."""
        now, then = self.uses, self._planned_uses
        every = set(now.events) | set(then.events)
        ours, theirs = max(now.total, 1), max(then.total, 1)
        return 0.5 * sum(abs(now.events.get(use, 0) / ours - then.events.get(use, 0) / theirs) for use in every)
