"""Watch: counts the uses of an engine, keeps a sample of recent events, and says when to plan again."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, concatenate_events
from matchwood.planner.rules import Rules
from matchwood.planner.uses import Use, Uses
from matchwood.structures.base import Stats

SAMPLE_EVERY = 32
"""Once there are enough recent events, one batch in so many replaces the oldest."""
MAX_SINGLE_CHANGES = 64
"""A change of more rows at once is a load, and does not count as a change between events."""


class Reason(NamedTuple):
    """Why to plan again, as a clause.

    `stale`: rebuild the structure even if the same one is chosen. `urgent`: a caller waits for it.
    """

    text: str
    stale: bool = False
    urgent: bool = False


class Watch:
    """Counts what happens between two plans and keeps a few recent events. Used under the engine's lock."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.uses = Uses()
        self._recent: deque[Events] = deque()
        self._recent_size = 0
        self._calls = 0
        self._events = 0  # since the plan
        self._changed = 0  # rows, since the plan
        self._planned_rows = 0
        self._planned_uses = Uses()
        self._from_real_events = False
        self._next_review = rules.replan.first_review
        self._counters = (0, 0)
        self._rate: float | None = None

    def matched(self, use: Use, events: Events, k: int | None) -> bool:
        """Record a batch that was matched; is it time to look for a `reason` to plan? O(1), unless the batch is kept."""
        size = events.size
        self._events += size
        self._calls += 1
        self.uses.count(use, size, k)
        sampled = self._calls % SAMPLE_EVERY
        if size and (not sampled or self._recent_size < self._rules.trial.events):
            self._keep(events)
        return sampled == 1 or self._events >= self._next_review

    def _keep(self, events: Events) -> None:
        """Keep a part of a batch, in place of the oldest if there are enough."""
        wanted = self._rules.trial.events
        start = (self._calls * 7919) % max(1, events.size - wanted + 1)
        part = events.take(start, min(start + wanted, events.size))
        copies: dict[str, np.ndarray] = {name: column.copy() for name, column in part._asdict().items()}
        self._recent.append(part._replace(**copies))  # the caller may change its arrays
        self._recent_size += part.size
        while self._recent_size - self._recent[0].size >= wanted:
            self._recent_size -= self._recent.popleft().size

    def changed(self, rows: int) -> None:
        """Record rows that were inserted, deleted or updated."""
        self._changed += rows
        if rows <= MAX_SINGLE_CHANGES and self.uses.total:
            self.uses.changed += rows

    def events(self) -> Events | None:
        """The latest events; None while there are too few."""
        return concatenate_events(list(self._recent)) if self._recent_size >= self._rules.trial.events else None

    def planned(self, rows: int, *, from_real_events: bool) -> None:
        """Record that a plan was made for that many rows."""
        self._planned_rows, self._from_real_events = rows, from_real_events
        self._events = self._changed = 0
        self._next_review = self._rules.replan.review if from_real_events else self._rules.replan.first_review
        self._planned_uses = replace(self.uses, events=dict(self.uses.events))
        self.uses.events = {use: n // 2 for use, n in self.uses.events.items() if n > 1}
        self.uses.changed //= 2
        self._counters, self._rate = (0, 0), None

    def reason(self, rows: int, stats: Stats | None = None) -> Reason | None:
        """The reason to plan now, None if there is none. O(1); when a review is due (`due`), pass `stats`."""
        rules, before = self._rules.replan, self._planned_rows
        if max(rows, before) < self._rules.min_rows:
            return None
        if rows > rules.growth * before or rows * rules.growth < before:
            return Reason(f"the rows went from {before:,} to {rows:,}")
        if self._changed > before:
            return Reason(f"{self._changed:,} rows changed", stale=True)
        if self._events < self._next_review:
            return None
        if not self._from_real_events:
            return Reason("events have been matched since the first plan")
        return self._drift(stats) if stats is not None else None

    def due(self) -> bool:
        """Is it time to compare the structure's counters?"""
        return self._events >= self._next_review

    def _drift(self, stats: Stats) -> Reason | None:
        self._next_review *= 2
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
            return Reason(f"candidates per event are {rate / self._rate:.1f} times what they were", stale=True)
        return None

    def _shifted(self) -> float:
        """The share of events that are matched in another way than when the plan was made."""
        now, then = self.uses, self._planned_uses
        every = set(now.events) | set(then.events)
        ours, theirs = max(now.total, 1), max(then.total, 1)
        return 0.5 * sum(abs(now.events.get(use, 0) / ours - then.events.get(use, 0) / theirs) for use in every)
