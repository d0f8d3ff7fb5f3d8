"""Trials: each contender is built on a sample of the rows and timed on a sample of the events.

Times are processor times of this thread, the least of some repetitions, so that other work on the machine does not decide. They
are extrapolated to all rows from two sample sizes, linearly unless the rules say otherwise: matches, and the work for them, grow
with the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.lang.evaluate import Mode
from matchwood.planner.rules import Contender, Trial
from matchwood.planner.sample import sample_rows
from matchwood.planner.uses import Use, Uses
from matchwood.structures import INDEXES, Capability, Index, make_index


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected cost of a structure with all rows: microseconds per event and per change, and bytes."""

    index: str
    event: float
    change: float
    bytes: int
    hits: float
    tried: int
    """The size of the largest sample that it was timed on."""
    margin: float = 1.0
    """See `rules.Contender`."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The share of the rows in each structure that the contender divides them over."""

    def cost(self, changes_per_event: float) -> float:
        """Microseconds per event, with the changes that come with it."""
        return self.event + changes_per_event * self.change

    def handicapped(self, changes_per_event: float) -> float:
        """The cost by which it is compared with the others."""
        return self.margin * self.cost(changes_per_event)


def _compile_on_call(names: Iterable[str]) -> Iterable[str]:
    """Time all, and prepare nothing: kernels are compiled when they are called."""
    return names


def _never_stop() -> None:
    """Let the trial run to its end."""


@dataclass(frozen=True, slots=True)
class Task:
    """What contenders are timed on: sampled rows and events, the uses of one mode, and the number of all rows."""

    rows: Rows
    events: Events
    total: int
    mode: Mode
    uses: Uses
    combine: object = None
    prepare: Callable[[Iterable[str]], Iterable[str]] = _compile_on_call
    """Called with the names of the contenders; returns those that are timed now."""
    check: Callable[[], None] = _never_stop
    """Called between the steps of the trial; may raise to end it."""


@dataclass(frozen=True, slots=True)
class _Run:
    rows: int
    event: float
    change: float
    bytes: int
    hits: float
    parts: Mapping[str, float] = field(default_factory=dict)


def is_capable(name: str, task: Task) -> bool:
    """Does the structure support the task, and changes?"""
    offers = INDEXES[name].capabilities
    needed = {Capability.UPDATES, Capability.RANGE_EVENTS, Capability.ABSENCE, Capability.TOP_K}
    if task.mode is Mode.ANY:
        needed.add(Capability.ANY)
    if task.combine is not None:
        needed.add(Capability.SCORING)
    return needed <= offers


def run_trials(contenders: Iterable[Contender], task: Task, rules: Trial) -> dict[str, Estimate]:
    """The estimates of the capable contenders. Those that are far slower than the best on a quarter of the sample stay there."""
    capable = {contender.index: contender for contender in contenders if is_capable(contender.index, task)}
    changes = task.uses.changes_per_event()
    names = list(task.prepare(capable))
    small = sample_rows(task.rows, max(task.rows.size // 4, 1))
    first = {name: run for name in names if (run := _run(name, small, task, rules)) is not None}
    least = min((run.event + changes * run.change for run in first.values()), default=0.0)
    close = [n for n, run in first.items() if run.event + changes * run.change <= rules.drop_factor * least]
    second = {name: _run(name, task.rows, task, rules) for name in close} if small.size < task.rows.size else {}
    return {name: _extrapolated(capable[name], task.total, run, second.get(name)) for name, run in first.items()}


def _run(name: str, rows: Rows, task: Task, rules: Trial) -> _Run | None:
    """The measurements of a structure; None if it would divide the rows and all are of one kind."""
    task.check()
    index = make_index(name)
    index.insert(rows)
    if len(index.parts()) == 1:
        return None
    seconds = hits = 0.0
    for use, share in task.uses.shares(task.mode).items():
        spent, found = _matched(index, task, use, rules)
        seconds += share * spent
        hits = max(hits, found)
    change = _changed(index, rows, rules.changes) if task.uses.changed else 0.0
    parts = {part: size / max(rows.size, 1) for part, size in index.parts().items()}
    return _Run(rows.size, 1e6 * seconds, 1e6 * change, index.stats().bytes, hits, parts)


def _matched(index: Index, task: Task, use: Use, rules: Trial) -> tuple[float, float]:
    """Seconds and hits per event.

    The first part of the events loads the kernels and lets the structure adapt. The others are timed: again and again where that
    takes a moment only, since what is too short to be timed well is extrapolated to all rows. Of each part the least counts.
    """
    parts = max(min(rules.rounds + 1, task.events.size), 1)
    edges = np.linspace(0, task.events.size, parts + 1).astype(int).tolist()
    warm, *timed = list(pairwise(edges))
    seconds, hits = _timed(index, task, use, warm)
    if not timed:
        return seconds, hits
    least = dict.fromkeys(timed, np.inf)
    spent = 0.0
    while spent < rules.min_seconds:
        for part in timed:
            seconds, found = _timed(index, task, use, part)
            least[part], hits = min(least[part], seconds), max(hits, found)
            spent += seconds * (part[1] - part[0])
            if spent > rules.max_seconds:
                break
    return float(np.mean([seconds for seconds in least.values() if seconds < np.inf])), hits


def _timed(index: Index, task: Task, use: Use, part: tuple[int, int]) -> tuple[float, float]:
    """Seconds and hits per event of a part of the events."""
    task.check()
    events = task.events.take(*part)
    start = time.thread_time()
    if use.best:
        found = index.top_k(events, task.uses.k, mode=use.mode, combine=task.combine)
    else:
        found = index.match(events, mode=use.mode, combine=task.combine)
    took, size = time.thread_time() - start, max(part[1] - part[0], 1)
    return took / size, len(found.ids) / size


def _changed(index: Index, rows: Rows, count: int) -> float:
    """Seconds to delete a subscription and insert it again, one by one."""
    few = sample_rows(rows, min(count, rows.size))
    starts = np.flatnonzero(np.concatenate([[True], few.ids[1:] != few.ids[:-1]]))
    singles = [few.take(int(a), int(b)) for a, b in zip(starts, [*starts[1:], few.size], strict=True)]
    least = np.inf
    for single in singles:
        start = time.thread_time()
        index.delete(single.ids[:1])
        index.insert(single)
        least = min(least, time.thread_time() - start)
    return float(least)


def _extrapolated(contender: Contender, total: int, small: _Run, large: _Run | None) -> Estimate:
    last = large or small
    scale = total / max(last.rows, 1)
    event = last.event * scale  # only one sample size: assume proportional growth
    if large is not None and contender.growth == "power":
        exponent = np.log(max(large.event, 1e-9) / max(small.event, 1e-9)) / np.log(large.rows / small.rows)
        event = large.event * float((total / large.rows) ** np.clip(exponent, 0.0, 1.0))
    elif large is not None:
        slope = max(large.event - small.event, 0.0) / (large.rows - small.rows)
        event = large.event + slope * (total - large.rows)
    elif total <= last.rows:
        event = last.event
    figures = event, last.change, int(last.bytes * scale), last.hits * scale, last.rows
    return Estimate(contender.index, *figures, contender.margin, last.parts)


def cheapest(estimates: Mapping[str, Estimate], changes_per_event: float) -> Estimate:
    """The estimate of the lowest cost, where some must win by a margin."""
    return min(estimates.values(), key=lambda estimate: (estimate.handicapped(changes_per_event), estimate.index))
