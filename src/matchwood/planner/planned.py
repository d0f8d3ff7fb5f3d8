"""Planned: the index of an engine that chooses its structures itself, and changes them while it works.

It stands where an `Index` would and answers the same calls. Inside, one structure for each mode of matching in use, often the
same for both.
A plan is made when many rows come at once, and again, in the background, when `watch` sees a reason. A new structure is
built beside the old one from chunks of rows; what changes meanwhile is noted by id and brought over; the exchange happens under
the engine's lock. So every answer comes from a structure that holds exactly the rows of that moment.
The background compiles nothing while it holds the lock: what is called under it was called on the new structure before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Matches, Rows, concatenate_rows, make_events
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.planner.background import Background, Lock
from matchwood.planner.compiling import compile_ahead
from matchwood.planner.plan import Plan, first_plan, make_plan
from matchwood.planner.rules import RULES, Rules
from matchwood.planner.sample import exercise_copying, fewer_rows, made_up, some_rows
from matchwood.planner.trial import Task
from matchwood.planner.uses import Use
from matchwood.planner.watch import Reason, Watch
from matchwood.store.row_store import RowStore
from matchwood.structures import Capability, Index, Stats, make_index
from matchwood.structures.base import AxisShape

CHUNK = 1 << 16
"""Subscriptions copied at a time for a new structure: the lock is held for some 30 ms."""
LAST = 4096
"""So many changed subscriptions are brought over under the lock, in the moment of the exchange."""
ROUNDS = 8
FEW = 256
"""So many subscriptions are more than a structure takes in one by one."""

Planning = Callable[..., Plan]


class Planned:
    """See the module's text. All methods but `replan` are called with `lock` held."""

    def __init__(
        self,
        lock: Lock,
        *,
        index: Index | None = None,
        plan: Plan | None = None,
        rules: Rules = RULES,
        planning: Planning = make_plan,
        named: Callable[[int], str] = str,
    ) -> None:
        self._lock = lock
        self._rules, self._planning, self._named = rules, planning, named
        self._parts: dict[Mode, Index] = {Mode.ALL: make_index("scan") if index is None else index}
        self._plans: dict[Mode, Plan] = {Mode.ALL: plan or first_plan(Mode.ALL, 0, rules)}
        self._watch = Watch(rules)
        if index is not None:
            # A saved plan from real events stands: processes that map one folder would each try, and rebuild, otherwise.
            self._watch.planned(len(index), from_real_events=self._plans[Mode.ALL].seen)
        self._combine: object = None
        self._touched: list[Int64s] | None = None  # ids changed since a new structure was begun
        self._generation = 0
        self._background = Background()
        self._problem: Exception | None = None

    # as an index

    @property
    def store(self) -> RowStore:
        return self._parts[Mode.ALL].store

    @property
    def name(self) -> str:
        """The structure that matches now."""
        return self._parts[Mode.ALL].name

    def insert(self, rows: Rows) -> None:
        """As `Index.insert`; a load of far more rows than there are is planned first."""
        few = rows.size < self._rules.least_rows or rows.size <= self._rules.replan.growth * len(self.store)
        if few or self._touched is not None:
            self._change(rows.ids, lambda index: index.insert(rows))
        else:
            self._load(rows)

    def delete(self, ids: Int64s) -> None:
        """As `Index.delete`."""
        self._change(np.asarray(ids, np.int64), lambda index: index.delete(ids))

    def update(self, rows: Rows) -> None:
        """As `Index.update`."""
        self._change(rows.ids, lambda index: index.update(rows))

    def restore(self, ids: Int64s, rows: Rows | None) -> None:
        """As `Index.restore`, of all structures: they become what the first is."""
        self._touch(ids)
        first, *others = self._structures()
        first.restore(ids, rows)
        there = first.store.extract(first.store.slots_of(np.unique(ids[first.store.knows(ids)])))
        for index in others:
            index.restore(ids, there)

    def match(self, events: Events, *, mode: Mode | str = Mode.ALL, combine: object = None) -> Matches:
        """As `Index.match`."""
        asked = mode_of(mode)
        found = self._for(asked).match(events, mode=asked, combine=combine)
        self._saw(Use(asked, best=False), events, None, combine)
        return found

    def top_k(self, events: Events, k: int, *, mode: Mode | str = Mode.ALL, combine: object = None) -> Matches:
        """As `Index.top_k`."""
        asked = mode_of(mode)
        found = self._for(asked).top_k(events, k, mode=asked, combine=combine)
        self._saw(Use(asked, best=True), events, k, combine)
        return found

    def stats(self) -> Stats:
        """As `Index.stats`; bytes of all structures."""
        first, *others = (index.stats() for index in self._structures())
        return replace(first, bytes=first.bytes + sum(other.bytes for other in others))

    def axes(self) -> list[AxisShape]:
        """As `Index.axes`, of the structure for matching wholly."""
        return self._parts[Mode.ALL].axes()

    def check(self) -> None:
        """As `Index.check`, of all structures; they hold the same subscriptions."""
        ids = self.store.ids()
        for index in self._structures():
            index.check()
            assert np.array_equal(index.store.ids(), ids), f"{index.name} and {self.name} hold other subscriptions"

    def save(self, path: str | Path) -> None:
        """As `Index.save`: the structure for matching wholly. One for relaxed matching is made again when it is asked for."""
        self._parts[Mode.ALL].save(path)

    # planning

    def plan(self) -> list[Plan]:
        """The plan of each mode in use."""
        plans = [self._plans[mode] for mode in Mode if mode in self._plans]
        if self._problem is not None:
            plans = [plan.because(f"planning failed lately: {self._problem!r}") for plan in plans]
        return plans

    def replan(self) -> None:
        """Plan now, wait for it, and raise what went wrong. The lock must not be held."""
        self.wait()
        with self._lock:
            self._start(Reason("asked for"))
        self.wait()
        if self._problem is not None:
            raise self._problem

    def wait(self) -> None:
        """Return when no plan is being made. The lock must not be held."""
        self._background.wait()

    def after_fork(self, lock: Lock) -> None:
        """In a process that was forked: go on without the thread, which is not here, and what it was building; with this lock."""
        self._lock = lock
        self._background, self._touched, self._problem = Background(), None, None

    # inside

    def _structures(self) -> list[Index]:
        return list({id(index): index for index in self._parts.values()}.values())

    def _change(self, ids: Int64s, change: Callable[[Index], None]) -> None:
        """Change these subscriptions in all structures. If a later one refuses, the engine restores the first (`restore`)."""
        self._touch(ids)  # before: a change that is cut short has touched them too
        for index in self._structures():
            change(index)
        self._watch.changed(len(ids))
        self._look()

    def _touch(self, ids: Int64s) -> None:
        if self._touched is not None:
            self._touched.append(np.array(ids, np.int64))

    def _for(self, mode: Mode) -> Index:
        index = self._parts.get(mode)
        if index is not None:
            return index
        whole = self._parts[Mode.ALL]
        if Capability.ANY in whole.capabilities:
            return whole
        index = make_index("scan")
        index.insert(whole.store.extract_all())
        self._parts[mode] = index
        self._plans[mode] = Plan("scan", mode, len(index), ("until a structure for this mode has been chosen",))
        return index

    def _saw(self, use: Use, events: Events, k: int | None, combine: object) -> None:
        self._combine = combine
        self._watch.matched(use, events, k)
        self._look()

    def _look(self) -> None:
        if self._background.running:
            return
        stats = self._parts[Mode.ALL].stats() if self._watch.due() else None
        reason = self._watch.reason(len(self.store), stats)
        if reason is not None:
            self._start(reason)

    def _start(self, reason: Reason) -> None:
        if not self._background.running:
            try:
                self._background.start(partial(self._work, reason))
            except RuntimeError as error:  # no thread can be started: what stands serves on
                self._problem = error

    def _load(self, rows: Rows) -> None:
        """Plan for the rows that come, and build the structure from them."""
        here = self.store.extract_all()
        sample = fewer_rows(rows, self._rules.trial.sample_of(rows.size))
        plan = self._planned(Mode.ALL, sample, len(here.ids) + rows.size, None)
        index = make_index(plan.index)
        index.insert(rows)
        index.insert(here)
        relaxed = self._parts.get(Mode.ANY)
        if relaxed is not None:
            relaxed.insert(rows)
        self._parts[Mode.ALL], self._plans[Mode.ALL] = index, plan.because(f"made when {rows.size:,} rows came at once")
        self._generation += 1
        self._watch.planned(len(index), from_real_events=self._watch.events() is not None)

    def _work(self, reason: Reason) -> None:
        """In the background: plan each mode in use and build what is missing."""
        try:
            exercise_copying()
            with self._held():
                modes, generation = self._watch.uses.modes(), self._generation
                if Mode.ANY not in modes:
                    self._parts.pop(Mode.ANY, None)
                    self._plans.pop(Mode.ANY, None)
            for mode in modes:
                self._plan_mode(mode, reason, generation)
            self._problem = None
        except Exception as error:
            self._problem = error
        finally:
            with self._held():
                self._touched = None
                self._watch.planned(len(self.store), from_real_events=self._watch.events() is not None)

    def _plan_mode(self, mode: Mode, reason: Reason, generation: int) -> None:
        with self._held():
            total = len(self.store)
            sample = some_rows(self.store, self._rules.trial.sample_of(total) if total >= self._rules.least_rows else 0)
            standing = self._parts.get(mode, self._parts[Mode.ALL]).name
        steps: dict[str, Callable[..., None]] = {"prepare": self._compile_ahead, "check": self._background.check}
        plan = self._planned(mode, sample, total, standing, **steps).because(f"looked at because: {reason.text}")
        shared = mode is Mode.ANY and plan.index == self._parts[Mode.ALL].name
        stands = plan.index == standing and not reason.stale and (mode is Mode.ALL or mode in self._parts)
        built = None if shared or stands else self._rebuilt(plan.index, generation, mode)
        with self._held():
            if built is None and not shared and not stands:
                return  # another load has overtaken this plan
            if built is not None:
                self._bring_over(built, self._take_touched())
                self._parts[mode] = built
                self._touched = None
            elif shared:
                self._parts.pop(mode, None)
            self._plans[mode] = plan

    def _planned(
        self, mode: Mode, sample: Rows, total: int, standing: str | None, **steps: Callable[..., None]
    ) -> Plan:
        with self._held():
            uses, events = self._watch.uses, self._watch.events()
            uses = replace(uses, events=dict(uses.events))
        seen = events is not None
        if events is None:
            events = made_up(sample, self._rules.trial.events)
        task = Task(sample, events, total, mode, uses, self._combine, **steps)
        return self._planning(task, seen=seen, standing=standing, rules=self._rules, named=self._named)

    def _compile_ahead(self, names: Iterable[str]) -> None:
        compile_ahead(names, self._background.check, scoring=self._combine is not None)

    def _held(self) -> AbstractContextManager[object]:
        """The lock; in the background it is waited for no longer than the background is to work."""
        return self._background.holding(self._lock)

    def _rebuilt(self, name: str, generation: int, mode: Mode) -> Index | None:
        """A new structure with the rows of some moment since it was begun; those touched later are in `_touched`."""
        self._compile_ahead([name])
        with self._held():
            if self._generation != generation:
                return None
            self._touched = []
            ids = self.store.ids()
        parts = [self._rows_of(ids[start : start + CHUNK]) for start in range(0, len(ids), CHUNK)]
        index = make_index(name)
        index.insert(concatenate_rows(parts))
        self._exercise(index, ids, mode)
        for _ in range(ROUNDS):
            self._background.check()
            with self._held():
                if sum(map(len, self._touched or ())) <= LAST:
                    break
                touched = self._take_touched()
            self._bring_over(index, touched)
        return index

    def _take_touched(self) -> Int64s:
        """The ids noted so far, each once; noting starts afresh."""
        touched, self._touched = self._touched or [], []
        return np.unique(np.concatenate([np.zeros(0, np.int64), *touched]))

    def _rows_of(self, ids: Int64s) -> Rows:
        with self._held():
            return self.store.extract(self.store.slots_of(ids[self.store.knows(ids)]))

    def _exercise(self, index: Index, ids: Int64s, mode: Mode) -> None:
        """Change a few subscriptions of a new structure, and match, so that the kernels for it are loaded before the exchange."""
        no_event = make_events([0, 0], [], [], [])
        for count in (1, 2, FEW):
            self._background.check()
            self._bring_over(index, ids[:count])
            index.match(no_event, mode=mode, combine=self._combine)
        index.reset_counters()

    def _bring_over(self, index: Index, ids: Int64s) -> None:
        """Make these subscriptions in a new structure what they are in the standing one."""
        rows = self._rows_of(ids)
        index.delete(ids[index.store.knows(ids)])
        index.insert(rows)

    def to_json(self) -> dict[str, Any]:
        """The plan for matching wholly, for saving."""
        return self._plans[Mode.ALL].to_json()
