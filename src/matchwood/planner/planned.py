"""Planned: an index that chooses its structures itself, and replaces them while it serves.

It has the methods of an `Index`. Inside it has a structure for each mode of matching in use, often one for both.
A plan is made when many rows are inserted at once, and again, in the background, when `watch` sees a reason. A new structure is
built beside the old one (`copying`); the exchange happens under the engine's lock. So every answer comes from a structure that
holds exactly the rows of that moment.
The background thread compiles nothing while it holds the lock: what it calls then, it has called on the new structure before.

No call of a user compiles a structure. Rows are inserted into what is compiled, at first a `scan`; the background has the others
compiled by another process (`compiling`) and makes a new plan as soon as there is one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows, make_events
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.planner.background import Background, Lock
from matchwood.planner.compiling import compile_ahead, is_available, is_compiled
from matchwood.planner.copying import Copying
from matchwood.planner.plan import Plan, first_plan, make_plan
from matchwood.planner.preparing import PREPARING, SCAN, prepare_first_calls
from matchwood.planner.rules import RULES, Rules
from matchwood.planner.sample import exercise_copying, generated_events, sample_rows, sample_store
from matchwood.planner.trial import Task
from matchwood.planner.uses import USES, Use
from matchwood.planner.watch import Reason, Watch
from matchwood.store.reading import ReadableStore
from matchwood.structures import Capability, Index, Stats, make_index
from matchwood.structures.base import AxisShape

EXERCISED = 256
"""Subscriptions changed at once to load the kernels for bulk changes: more than a structure inserts one by one."""

NOT_COMPILED = "temporary, until another structure is compiled, which happens in the background"
"""The reason of the plan meanwhile."""

Planning = Callable[..., Plan]


class _NotCompiledError(Exception):
    """No contender but `scan` is compiled."""


class Planned:
    """See the module. All methods but `replan` and `wait` are called with `lock` held, by readers for reading."""

    def __init__(
        self,
        lock: Lock,
        *,
        index: Index | None = None,
        plan: Plan | None = None,
        rules: Rules = RULES,
        planning: Planning = make_plan,
        name_of: Callable[[int], str] = str,
    ) -> None:
        self._lock = lock
        self._rules, self._planning, self._name_of = rules, planning, name_of
        self._indexes: dict[Mode, Index] = {Mode.ALL: make_index(SCAN) if index is None else index}
        self._plans: dict[Mode, Plan] = {Mode.ALL: plan or first_plan(Mode.ALL, 0, rules)}
        self._watch = Watch(rules)
        if index is not None and not is_available(index.name):
            prepare_first_calls()
            self._indexes[Mode.ALL] = make_index(SCAN)
            self._indexes[Mode.ALL].insert(index.store.extract_all())
            self._plans[Mode.ALL] = Plan(SCAN, Mode.ALL, len(index), (NOT_COMPILED,))
        elif index is not None:
            # A saved plan from real events is kept. Otherwise each process that maps the folder would plan and rebuild.
            self._watch.planned(len(index), from_real_events=self._plans[Mode.ALL].from_real_events)
        self._combine: object = None
        self._generation = 0
        self._background = Background()
        self._copying = Copying(lambda: self.store, self._held, lambda: self._background.check())
        self._problem: Exception | None = None
        self._counting, self._making = RLock(), RLock()  # between readers
        self._missing = False  # did a plan of the background lack a contender that is not compiled?

    # as an index

    @property
    def store(self) -> ReadableStore:
        return self._indexes[Mode.ALL].store

    @property
    def name(self) -> str:
        """The name of the structure in use for mode `all`."""
        return self._indexes[Mode.ALL].name

    def insert(self, rows: Rows) -> None:
        """As `Index.insert`; if far more rows come than there are, a plan is made first."""
        if not len(self.store):
            prepare_first_calls()
        is_small = rows.size < self._rules.min_rows or rows.size <= self._rules.replan.growth * len(self.store)
        if is_small or self._copying.is_active:
            self._change(rows.ids, lambda index: index.insert(rows))
        else:
            self._load(rows)

    def delete(self, ids: Int64s) -> None:
        """As `Index.delete`."""
        self._change(np.asarray(ids, np.int64), lambda index: index.delete(ids))

    def update(self, rows: Rows) -> None:
        """As `Index.update`."""
        self._change(rows.ids, lambda index: index.update(rows))

    def set_priority(self, ids: Int64s, priorities: Float64s) -> None:
        """As `Index.set_priority`."""
        self._change(ids, lambda index: index.set_priority(ids, priorities))

    def move_circles(self, ids: Int64s, lon: Float64s, lat: Float64s) -> None:
        """As `Index.move_circles`."""
        self._change(ids, lambda index: index.move_circles(ids, lon, lat))

    def restore(self, ids: Int64s, rows: Rows | None) -> None:
        """As `Index.restore`, for all structures: the others follow the first."""
        self._copying.note(ids)
        first, *others = self._structures()
        first.restore(ids, rows)
        restored = first.store.extract(first.store.slots_of(np.unique(ids[first.store.knows(ids)])))
        for index in others:
            index.restore(ids, restored)

    def match(
        self,
        events: Events,
        *,
        mode: Mode | str = Mode.ALL,
        combine: object = None,
        ordered: bool = False,
        threads: int = 1,
    ) -> Matches:
        """As `Index.match`."""
        checked = mode_of(mode)
        index = self._index_for(checked)
        found = index.match(events, mode=checked, combine=combine, ordered=ordered, threads=threads)
        self._record(USES[checked, False], events, None, combine)
        return found

    def top_k(
        self, events: Events, k: int, *, mode: Mode | str = Mode.ALL, combine: object = None, threads: int = 1
    ) -> Matches:
        """As `Index.top_k`."""
        checked = mode_of(mode)
        found = self._index_for(checked).top_k(events, k, mode=checked, combine=combine, threads=threads)
        self._record(USES[checked, True], events, k, combine)
        return found

    def stats(self) -> Stats:
        """As `Index.stats`, with the bytes of all structures."""
        first, *others = (index.stats() for index in self._structures())
        return replace(first, bytes=first.bytes + sum(other.bytes for other in others))

    def axes(self) -> list[AxisShape]:
        """As `Index.axes`, of the structure for mode `all`."""
        return self._indexes[Mode.ALL].axes()

    def check(self) -> None:
        """As `Index.check`, of all structures, which must hold the same subscriptions."""
        ids = self.store.ids()
        for index in self._structures():
            index.check()
            assert np.array_equal(index.store.ids(), ids), f"{index.name} and {self.name} hold different subscriptions"

    def save(self, path: str | Path) -> None:
        """As `Index.save`, of the structure for mode `all`. One for mode `any` is built again when it is needed."""
        self._indexes[Mode.ALL].save(path)

    # planning

    def plan(self) -> list[Plan]:
        """The plan of each mode in use."""
        rows = len(self.store)
        plans = [self._plans[mode] for mode in Mode if mode in self._plans]
        if rows < self._rules.min_rows:  # no new plan is made while there are few
            plans = [replace(plan, rows=rows) for plan in plans]
        if self._problem is not None:
            plans = [plan.because(f"the latest planning failed: {self._problem!r}") for plan in plans]
        return plans

    def replan(self) -> None:
        """Plan now and wait for it; raises if planning fails. The caller must not hold the lock."""
        self.wait()
        with self._lock:
            self._start(Reason("replan() was called", urgent=True))
        self.wait()
        if self._problem is not None:
            raise self._problem

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no plan is being made; False if that takes longer. The caller must not hold the lock."""
        return self._background.wait(timeout)

    def after_fork(self, lock: Lock) -> None:
        """In a forked process: continue with this lock, without the thread and what it was building."""
        self._lock = lock
        self._background, self._problem = Background(), None
        self._counting, self._making = RLock(), RLock()
        self._copying.end()

    # inside

    def _structures(self) -> list[Index]:
        return list({id(index): index for index in list(self._indexes.values())}.values())

    def _change(self, ids: Int64s, change: Callable[[Index], None]) -> None:
        """Change these subscriptions in all structures. If a later one refuses, the engine restores the first (`restore`)."""
        self._copying.note(ids)  # before the change, in case it is interrupted
        for index in self._structures():
            change(index)
        self._watch.changed(len(ids))
        self._review()

    def _index_for(self, mode: Mode) -> Index:
        index = self._indexes.get(mode)
        if index is not None:
            return index
        for_all = self._indexes[Mode.ALL]
        if Capability.ANY in for_all.capabilities:
            return for_all
        with self._making:
            if mode not in self._indexes:
                index = make_index(SCAN)
                index.insert(for_all.store.extract_all())
                why = "temporary, until a structure for this mode is chosen"
                self._indexes[mode], self._plans[mode] = index, Plan(SCAN, mode, len(index), (why,))
            return self._indexes[mode]

    def _record(self, use: Use, events: Events, k: int | None, combine: object) -> None:
        """Count what was matched. Readers run at once: one that finds another counting leaves it at that."""
        if not self._counting.acquire(blocking=False):
            return
        try:
            self._combine = combine
            if self._watch.matched(use, events, k):
                self._review()
        finally:
            self._counting.release()

    def _review(self) -> None:
        if self._background.running:
            return
        rows = len(self.store)
        stats = self._indexes[Mode.ALL].stats() if rows >= self._rules.min_rows and self._watch.due() else None
        reason = self._watch.reason(rows, stats)
        if reason is not None:
            self._start(reason)

    def _start(self, reason: Reason) -> None:
        if not self._background.running:
            try:
                self._background.start(partial(self._work, reason))
            except RuntimeError as error:  # no thread can be started: the current structure goes on serving
                self._problem = error

    def _load(self, rows: Rows) -> None:
        """Plan for the rows that are inserted, and build the structure from them and those that are there.

        If no contender but `scan` is compiled, insert the rows and leave the plan to the background.
        """
        left_out: list[str] = []
        sample = sample_rows(rows, self._rules.trial.sample_of(rows.size))
        ready = partial(self._compiled_ones, left_out=left_out)
        try:
            plan = self._planned(Mode.ALL, sample, len(self.store) + rows.size, None, prepare=ready)
        except _NotCompiledError:
            self._change(rows.ids, lambda index: index.insert(rows))
            self._plans[Mode.ALL] = Plan(self.name, Mode.ALL, len(self.store), (NOT_COMPILED,))
            return
        present = self.store.extract_all()
        index = make_index(plan.index)
        index.insert(rows)
        index.insert(present)
        relaxed = self._indexes.get(Mode.ANY)
        if relaxed is not None:
            relaxed.insert(rows)
        self._indexes[Mode.ALL], self._plans[Mode.ALL] = (
            index,
            plan.because(f"chosen when {rows.size:,} rows were inserted at once"),
        )
        self._generation += 1
        self._watch.planned(len(index), from_real_events=self._watch.events() is not None)
        if left_out:
            self._start(Reason("not every structure was compiled when rows were inserted"))

    def _compiled_ones(self, names: Iterable[str], left_out: list[str]) -> list[str]:
        """Those of the contenders that are compiled; the others are left out. Raises if only `scan` is compiled."""
        names = list(names)
        compiled = [name for name in names if is_compiled(name, scoring=self._combine is not None)]
        left_out += [name for name in names if name not in compiled]
        if left_out and set(compiled) <= {SCAN}:
            raise _NotCompiledError
        return compiled

    def _work(self, reason: Reason) -> None:
        """In the background: plan each mode in use and build the structures that are missing."""
        total = 0
        try:
            with PREPARING.planning():
                self._compile_ahead([SCAN])
                exercise_copying()
                while True:
                    self._missing = False
                    total = self._plan_modes(reason)
                    if not self._missing:
                        break
                    reason = Reason("one more structure has been compiled")
            self._problem = None
        except Exception as error:
            self._problem = error
        finally:
            with self._held():
                self._copying.end()
                self._watch.planned(total or len(self.store), from_real_events=self._watch.events() is not None)

    def _plan_modes(self, reason: Reason) -> int:
        """Plan each mode in use; return the number of rows at the beginning."""
        with self._held():
            total = len(self.store)
            modes, generation = self._watch.uses.modes(), self._generation
            if Mode.ANY not in modes:
                self._indexes.pop(Mode.ANY, None)
                self._plans.pop(Mode.ANY, None)
        for mode in modes:
            self._plan_mode(mode, reason, generation)
        return total

    def _plan_mode(self, mode: Mode, reason: Reason, generation: int) -> None:
        with self._held():
            total = len(self.store)
            sample = sample_store(
                self.store, self._rules.trial.sample_of(total) if total >= self._rules.min_rows else 0
            )
            current = self._indexes.get(mode, self._indexes[Mode.ALL]).name
        check = self._background.check if reason.urgent else self._background.paced()
        steps: dict[str, Callable[..., Any]] = {"prepare": self._available_ones, "check": check}
        plan = self._planned(mode, sample, total, current, **steps).because(f"chosen because {reason.text}")
        shared = mode is Mode.ANY and plan.index == self._indexes[Mode.ALL].name
        unchanged = plan.index == current and not reason.stale and (mode is Mode.ALL or mode in self._indexes)
        built = None if shared or unchanged else self._built(plan.index, generation, mode)
        with self._held():
            if built is None and not shared and not unchanged:
                return  # rows were loaded meanwhile, with a plan of their own
            if built is not None:
                self._copying.finish(built)
                self._indexes[mode] = built
            elif shared:
                self._indexes.pop(mode, None)
            self._plans[mode] = plan

    def _available_ones(self, names: Iterable[str]) -> list[str]:
        """Have the first of the contenders compiled that is not; return all that are."""
        names, scoring = list(names), self._combine is not None
        missing = [name for name in names if not is_available(name, scoring=scoring)]
        self._compile_ahead(missing[:1])
        self._missing = self._missing or len(missing) > 1
        return [name for name in names if name not in missing[1:]]

    def _planned(self, mode: Mode, sample: Rows, total: int, current: str | None, **steps: Callable[..., Any]) -> Plan:
        with self._held():
            uses, events = self._watch.uses, self._watch.events()
            uses = replace(uses, events=dict(uses.events))
        from_real_events = events is not None
        if events is None:
            events = generated_events(sample, self._rules.trial.events)
        task = Task(sample, events, total, mode, uses, self._combine, **steps)
        about: dict[str, Any] = {"from_real_events": from_real_events, "current": current}
        return self._planning(task, **about, rules=self._rules, name_of=self._name_of)

    def _compile_ahead(self, names: Iterable[str]) -> None:
        compile_ahead(names, self._background.check, scoring=self._combine is not None)

    def _held(self) -> AbstractContextManager[object]:
        """The lock, acquired so that waiting for it ends when the background is to stop."""
        return self._background.holding(self._lock)

    def _built(self, name: str, generation: int, mode: Mode) -> Index | None:
        """A new structure with the rows of a recent moment; the copying knows what has changed since then. None if overtaken."""
        self._compile_ahead([name])
        with self._held():
            if self._generation != generation:
                return None
            ids = self._copying.begin()
        index = make_index(name)
        index.insert(self._copying.rows(ids))
        self._exercise(index, ids, mode)
        self._copying.catch_up(index)
        return index

    def _exercise(self, index: Index, ids: Int64s, mode: Mode) -> None:
        """Change a few subscriptions of a new structure, and match, so that its kernels are loaded before the exchange."""
        no_event = make_events([0, 0], [], [], [])
        for count in (1, 2, EXERCISED):
            self._background.check()
            self._copying.copy_over(index, ids[:count])
            index.match(no_event, mode=mode, combine=self._combine)
        index.reset_counters()

    def to_json(self) -> dict[str, Any]:
        """The plan for mode `all`, for saving."""
        return self._plans[Mode.ALL].to_json()
