"""Engine: the public facade. Subscriptions and events in, ranked matches out.

Its calls are in `subscribing`, `changing`, `matching`, `publishing` and `covering`; `core` has the state that they share.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matchwood.engine.changing import Changing
from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.covering import Covering
from matchwood.engine.ids import Id
from matchwood.engine.matching import Matching
from matchwood.engine.saving import load_engine, save_engine
from matchwood.engine.subscribing import Subscribing
from matchwood.engine.tracking import MAX_OBJECTS, Tracker
from matchwood.errors import MatchwoodError, QueryError
from matchwood.lang.evaluate import Combine, Mode
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.planner import AUTO, Planned
from matchwood.planner.preparing import PREPARING
from matchwood.schema import Schema
from matchwood.structures import Stats


class Engine(Subscribing, Changing, Matching, Covering):
    """Subscriptions that events are matched against, best match first.

    `schema` is a `Schema`, a mapping from attribute to type, or None to learn types from the subscriptions; `engine.schema` is
    the schema to encode tables and arrays for this engine with. Events teach it nothing. `index` names the structure behind the
    engine; with "auto" the engine chooses it by timing, and chooses again when the workload changes (`plan`). `ids` says what the
    ids of subscriptions are, "int" or "str". `scoring` is "sum" (the default), "max", "priority", or a function
    (score, weight) -> score that is monotone and never lowers a score. `on_bad_value` says what to do with a value in an event
    that its attribute cannot take: "raise" refuses the event; "absent" takes the attribute as absent, and counts and logs the
    value (`bad_values`). `limits` bounds the size of an expression, for subscriptions that strangers write.

    Thread safety: calls may come from several threads. Matching runs in parallel; changes come one at a time and exclude it for
    the moment of the change. A call that raises has changed nothing. Every call first removes subscriptions that have expired.

    >>> engine = Engine()
    >>> adult = engine.subscribe("age >= 18 ^0.4 AND plan IN ('pro', 'trial') ^0.6")
    >>> senior = engine.subscribe("age >= 65", priority=2)
    >>> engine.match({"age": 70, "plan": "pro"})
    [Match(id=1, score=3.0), Match(id=0, score=1.0)]
    >>> engine
    <Engine: 2 subscriptions, 0 live events, 2 attributes, index 'scan'>
    """

    def __init__(
        self,
        schema: Schema | Mapping[str, str] | None = None,
        *,
        index: str = AUTO,
        index_options: Mapping[str, Any] | None = None,
        ids: str | type = "int",
        scoring: str | Combine | None = None,
        on_bad_value: str = "raise",
        clock: Clock = system_clock,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(
            schema,
            index=index,
            index_options=index_options,
            ids=ids,
            scoring=scoring,
            on_bad_value=on_bad_value,
            clock=clock,
            limits=limits,
        )

    def __len__(self) -> int:
        """The number of subscriptions, paused ones included. O(1)."""
        with self._reading():
            return len(self._subscriptions)

    def __contains__(self, id: object) -> bool:
        """Is there a subscription of this id? O(1)."""
        with self._reading():
            try:
                number: Id = self._number(id)  # type: ignore[arg-type]
            except MatchwoodError:
                return False
            return self._subscriptions.knows(int(number))

    def __repr__(self) -> str:
        live, attributes = len(self._live), len(self.schema)
        return f"<Engine: {len(self):,} subscriptions, {live:,} live events, {attributes:,} attributes, index {self.index!r}>"

    def __reduce__(self) -> Any:
        """By reference to the folder that `save` wrote or `load` read, if nothing has changed since; otherwise an error."""
        if self._saved_at is None or self._scoring.compiled is not None:
            raise MatchwoodError(
                "an engine is pickled and copied by reference to a saved folder, and this one has none, or has changed since, or "
                "has its own scoring; call save(PATH) and pickle it then, or load(PATH) it in the other process"
            )
        return Engine.load, (self._saved_at,)

    # the index

    @property
    def index(self) -> str:
        """The name of the structure in use."""
        return self._index.name

    @property
    def scoring(self) -> str:
        """The name of the scoring: "sum", "max", "priority", or "function" for a function of your own."""
        return self._scoring.name

    def stats(self) -> Stats:
        """Size of the index and work done by it.

        >>> engine = Engine(index="scan")
        >>> _ = engine.subscribe("age > 18 OR plan = 'pro'")
        >>> engine.stats().rows
        2
        """
        with self._reading():
            return self._index.stats()

    def plan(self) -> str:
        """Which structure is in use, why, and which others were timed, as text.

        >>> print(Engine(index="vcr").plan())
        vcr: fixed by Engine(index='vcr')
        """
        with self._reading():
            if isinstance(self._index, Planned):
                return "\n".join(map(str, self._index.plan()))
            return f"{self._index.name}: fixed by Engine(index={self._index.name!r})"

    def replan(self) -> str:
        """Choose the structure again, now, from the current subscriptions and the latest events; return the new plan.

        Other threads may match and change subscriptions meanwhile: the old structure serves until the new one is complete.
        Cost: building the contenders on a sample, and the winner on all rows if it is a new one.

        >>> print(Engine().replan().splitlines()[0])
        scan for matching of 0 rows
        """
        if not isinstance(self._index, Planned):
            raise QueryError(
                f"cannot choose a structure: this engine was created with index={self._index.name!r}; use index='auto'"
            )
        self._index.replan()
        return self.plan()

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to compile and no plan is being made; False if that takes longer than `timeout` seconds.

        An engine answers at once, exactly, with what is compiled; this is for those who want the fastest structure first.

        >>> Engine(index="scan").ready(timeout=60)
        True
        """
        start = time.monotonic()
        planned = self._index
        if isinstance(planned, Planned) and not planned.wait(timeout):
            return False
        return PREPARING.wait(None if timeout is None else max(start + timeout - time.monotonic(), 0.0))

    # tracking

    def tracker(
        self,
        *,
        dwell: float | None = None,
        forget: float | None = None,
        max_objects: int = MAX_OBJECTS,
        mode: Mode | str = Mode.ALL,
    ) -> Tracker:
        """A tracker: which subscriptions an object has entered and left since its last event.

        `dwell` is after how many seconds a stay is reported as dwelling, `forget` after how many seconds of silence an object is
        forgotten, `max_objects` how many are followed at most; past that the one silent longest is forgotten. A tracker is
        kept in memory: see `Tracker.to_json` and `restore`.

        >>> engine = Engine()
        >>> _ = engine.subscribe("BBOX(place, 0, 0, 2, 2)")
        >>> tracker = engine.tracker(dwell=300)
        >>> [stay.id for stay in tracker.track("van", {"place": (1, 1)}).entered]
        [0]
        """
        return Tracker(self, dwell=dwell, forget=forget, max_objects=max_objects, mode=mode)

    # saving

    def save(self, path: str | Path) -> None:
        """Write everything to a new folder, completely or not at all. O(bytes).

        >>> from tempfile import TemporaryDirectory
        >>> engine = Engine()
        >>> _ = engine.subscribe("age > 18")
        >>> with TemporaryDirectory() as folder:
        ...     engine.save(f"{folder}/engine-1")
        ...     len(Engine.load(f"{folder}/engine-1"))
        1
        """
        self._live.prepare_saving()
        with self._changes:
            self._catch_up()
            with self._lock.read():
                save_engine(self, path)
                self._saved_at = str(Path(path).absolute())

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        scoring: str | Combine | None = None,
        on_bad_value: str = "raise",
        clock: Clock = system_clock,
        limits: Limits = DEFAULT_LIMITS,
        verify: bool = True,
    ) -> Engine:
        """The engine that `save` wrote to `path`. Files are mapped; `verify` reads them once to compare checksums.

        Scoring, `on_bad_value`, clock and `limits` are not saved: pass them again. O(bytes), without `verify` O(arrays).
        """

        def made(schema: Schema, ids: str) -> Engine:
            return cls(schema, ids=ids, scoring=scoring, on_bad_value=on_bad_value, clock=clock, limits=limits)

        engine = load_engine(made, path, verify=verify)
        engine._saved_at = str(Path(path).absolute())
        return engine

    @classmethod
    def open(cls, folder: str | Path, schema: Any = None, *, mode: str = "write", **options: Any) -> Any:
        """An engine whose changes are kept in `folder`: each survives a crash or a power cut once its call has returned.

        The folder is created if need be. `mode="write"` is for one process at a time; it takes the options of `Engine` (but for
        `index_options`) and `snapshot_every`, the number of changes between two snapshots. The folder keeps the name of its
        scoring and refuses another one while it has subscriptions; a function has to be passed each time. `mode="follow"` is
        for any number of processes that read: a change is visible there within 0.2 s, and the time to apply it. Both are to be
        closed.
        Needs the extra `durable`. Cost: that of loading the last snapshot, and the changes since.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with Engine.open(folder) as engine:
        ...         _ = engine.subscribe("age > 18")
        ...     with Engine.open(folder) as engine:
        ...         engine.match({"age": 20})
        [Match(id=0, score=1.0)]
        """
        if mode == "follow":
            from matchwood.engine.following import FollowingEngine

            if schema is not None:
                raise QueryError("an engine that follows has the schema of the folder; pass none")
            return FollowingEngine._open(folder, **options)
        if mode != "write":
            raise QueryError(f"expected the mode 'write' or 'follow', got {mode!r}")
        from matchwood.engine.durable import DurableEngine

        return DurableEngine._open(folder, schema, **options)
