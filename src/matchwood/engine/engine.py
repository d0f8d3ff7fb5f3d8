"""Engine: the public facade. Subscriptions and events in, ranked matches out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Matches, Rows
from matchwood.encode.checks import check_rows
from matchwood.encode.objects import encode_events
from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.covers import Reduction
from matchwood.engine.explanation import Explanation, explain_rows
from matchwood.engine.forking import LostLock, watch_forks
from matchwood.engine.ids import event_id, is_id, subscription_id
from matchwood.engine.live import Live, LiveMatch, SubscriptionId
from matchwood.engine.reading import Reader, Source
from matchwood.engine.results import Match, Subscription, described, listed
from matchwood.engine.saving import load_engine, save_engine
from matchwood.engine.subscriptions import Subscriptions
from matchwood.engine.undo import Change, Undo, undo_change
from matchwood.errors import MatchwoodError, QueryError, SubscriptionError
from matchwood.lang.evaluate import Combine, Mode
from matchwood.lang.event import Event
from matchwood.lang.expression import Expression
from matchwood.lang.rows import MAX_ROWS
from matchwood.planner import AUTO, Plan, Planned
from matchwood.planner.background import Lock
from matchwood.schema import Point, Schema, describe, instant_key
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.scoring import scoring as make_scoring
from matchwood.structures import Index, LiveEvents, Stats, make_index
from matchwood.structures.base import AxisShape


class Engine:
    """Subscriptions that events are matched against, best match first.

    `schema` is a `Schema`, a mapping from attribute to type, or None to learn types from the data; `engine.schema` is the schema
    to encode tables and arrays for this engine with. `index` names the structure behind the engine; with "auto" the engine
    chooses it by timing, and chooses again when the workload changes (`plan`). `scoring` is "sum" (the default), "max", or a
    function (score, weight) -> score that is monotone and never lowers a score. `max_rows` limits the normal form of an
    expression.

    Thread safety: calls may come from several threads. Each holds one lock, a batch for its whole duration.
    A call that raises has changed nothing. Every call first removes subscriptions that have expired.

    >>> engine = Engine()
    >>> adult = engine.subscribe("age >= 18 ^0.4 AND plan IN ('pro', 'trial') ^0.6")
    >>> senior = engine.subscribe("age >= 65", priority=2)
    >>> engine.match({"age": 70, "plan": "pro"})
    [Match(id=1, score=3.0), Match(id=0, score=1.0)]
    """

    def __init__(
        self,
        schema: Schema | Mapping[str, str] | None = None,
        *,
        index: str = AUTO,
        index_options: Mapping[str, Any] | None = None,
        scoring: str | Combine | None = None,
        clock: Clock = system_clock,
        max_rows: int = MAX_ROWS,
    ) -> None:
        self.schema = schema if isinstance(schema, Schema) else Schema(schema)
        self._lock: Lock = RLock()
        self._subscriptions = Subscriptions(self._make_index(index, index_options or {}))
        self._live = Live(LiveEvents(like=self._axes))
        self._scoring = make_scoring(scoring)
        self._clock = clock
        self._reader = Reader(self.schema, max_rows)
        self._undo: Undo | None = None  # of the current change, or of one that was interrupted
        watch_forks(self)

    # subscriptions

    def subscribe(
        self,
        expression: Source,
        *,
        id: int | None = None,
        priority: float = 0.0,
        place: Point | tuple[float, float] | None = None,
        radius: float | None = None,
        until: datetime | str | None = None,
    ) -> SubscriptionId:
        """Add a subscription and return its id: an int whose `live` lists the live events that match, best first.

        `place` and `radius` (metres) add the condition, of weight 1, that the place of the event lies in that circle. At `until`
        the subscription is gone. Without `id` it gets the number after the largest id so far. Cost: that of an insert into the
        index.

        >>> engine = Engine()
        >>> engine.subscribe("price < 30", id=7, place=(10.75, 59.91), radius=500)
        7
        """
        with self._lock:
            self._expire()
            id_ = self._subscriptions.new_id() if id is None else subscription_id(id)
            self._subscriptions.check_free(id_)
            instant = self._instant(id_, until)
            with Change(self) as change:
                rows = self._reader.subscription(
                    id_, expression, priority=priority, place=place, radius=radius, until=instant
                )
                self._subscriptions.insert(rows, change)
                live = self._live_matches(rows, None, Mode.ALL, until=instant)
            return SubscriptionId(id_, live)

    def subscribe_many(self, expressions: Iterable[Source], *, progress: Callable[[int], None] | None = None) -> Int64s:
        """Add several subscriptions, all or none; return their ids in order. `progress` is called with the number read so far.

        Cost: reading each expression, then one bulk insert.

        >>> Engine().subscribe_many(["age > 18", "age > 21"]).tolist()
        [0, 1]
        """
        if isinstance(expressions, str | Mapping | Expression):
            raise SubscriptionError(f"expected several expressions, got one: {describe(expressions)}; use subscribe")
        with self._lock:
            self._expire()
            with Change(self) as change:
                ids, rows = self._reader.subscriptions(expressions, self._subscriptions.new_id(), progress)
                self._subscriptions.insert(rows, change)
            return ids

    def subscribe_rows(self, rows: Rows) -> None:
        """Add subscriptions that are arrays already (from a table or a generator), with their `until` if they have one.

        Rows that another schema has encoded are refused with a `SchemaError`, unless the schema of this engine extends that one.
        Rows made by hand have no schema: their dimensions and keys are assumed to be those of this engine. Cost: one bulk insert.

        >>> from matchwood.encode.json_lines import read_json_subscriptions
        >>> engine = Engine()
        >>> engine.subscribe_rows(read_json_subscriptions(['{"id": 4, "expression": "age > 18"}'], engine.schema).rows)
        >>> engine.ids().tolist()
        [4]
        """
        with self._lock:
            self._expire()
            self._reader.check_schema(rows, "rows")
            check_rows(rows, self.schema.dimensions)
            if rows.until is not None and (rows.until < np.inf).any():
                self._subscriptions.check_can_expire()
            with Change(self) as change:
                self._subscriptions.insert(rows, change)

    def unsubscribe(self, id: int) -> None:
        """Remove a subscription; `UnknownSubscriptionError` if there is none of this id. Cost: that of a delete.

        >>> engine = Engine()
        >>> engine.unsubscribe(engine.subscribe("age > 18"))
        >>> len(engine)
        0
        """
        self.unsubscribe_many([id])

    def unsubscribe_many(self, ids: Iterable[int]) -> None:
        """Remove subscriptions, all or (if one is unknown) none. Cost: one bulk delete.

        >>> engine = Engine()
        >>> engine.unsubscribe_many(engine.subscribe_many(["age > 18", "age > 21"]))
        """
        with self._lock:
            self._expire()
            removed = np.array([subscription_id(id_) for id_ in ids], dtype=np.int64)
            with Change(self) as change:
                self._subscriptions.delete(removed, change)

    def update(
        self,
        id: int,
        expression: Source,
        *,
        priority: float = 0.0,
        place: Point | tuple[float, float] | None = None,
        radius: float | None = None,
        until: datetime | str | None = None,
    ) -> None:
        """Replace a subscription as a whole: what is not passed gets the default of `subscribe`. Cost: that of an update.

        >>> engine = Engine()
        >>> engine.update(engine.subscribe("age > 18", priority=2), "age > 21")
        >>> engine.subscription(0)
        Subscription(id=0, expression='age > 21', priority=0.0, until=None)
        """
        with self._lock:
            self._expire()
            id_ = subscription_id(id)
            before = self._subscriptions.rows_of(id_)
            instant = self._instant(id_, until)
            with Change(self) as change:
                rows = self._reader.subscription(
                    id_, expression, priority=priority, place=place, radius=radius, until=instant
                )
                self._subscriptions.replace(before, rows, change)

    def move(self, id: int, place: Point | tuple[float, float]) -> None:
        """Move the centre of a subscription's condition on `place`; everything else stays.

        A circle keeps its radius. A box (a square is kept as its box) keeps its sides in degrees. A move that would cut a box
        at a pole is refused, and so is one of a condition without a single centre. Cost: that of an update, less if the index
        finds the subscription in the same bucket as before.

        >>> engine = Engine()
        >>> engine.move(engine.subscribe("TRUE", place=(10.75, 59.91), radius=500), (10.80, 59.95))
        >>> engine.subscription(0).expression
        'DWITHIN(place, POINT(10.8 59.95), 500.0 m)'
        """
        with self._lock:
            self._expire()
            before = self._subscriptions.rows_of(subscription_id(id))
            rows = self._reader.moved(before, place)
            with Change(self) as change:
                self._subscriptions.replace(before, rows, change)

    def subscription(self, id: int) -> Subscription:
        """The subscription of an id: its normal form as text, priority and expiry. O(its predicates).

        >>> engine = Engine()
        >>> engine.subscription(engine.subscribe("NOT (age < 18 OR vip = TRUE)")).expression
        'age >= 18 AND vip = FALSE'
        """
        with self._lock:
            self._expire()
            return described(self._subscriptions.rows_of(subscription_id(id)), self.schema)

    def ids(self) -> Int64s:
        """The ids of all subscriptions, ascending. O(n log n).

        >>> engine = Engine()
        >>> _ = engine.subscribe("age > 18", id=7)
        >>> engine.ids().tolist()
        [7]
        """
        with self._lock:
            self._expire()
            return self._index.store.ids()

    def __len__(self) -> int:
        """The number of subscriptions. O(1)."""
        with self._lock:
            self._expire()
            return len(self._subscriptions)

    def __contains__(self, id: object) -> bool:
        """Is there a subscription of this id? O(1)."""
        if not is_id(id):
            return False
        with self._lock:
            self._expire()
            return self._subscriptions.knows(subscription_id(id))

    # matching

    def match(self, event: Event | Mapping[str, object], *, mode: Mode | str = Mode.ALL) -> list[Match]:
        """All subscriptions that match the event: best score first, then smallest id.

        In mode "any" one predicate that holds is enough (relaxed matching). Cost: that of the index, and sorting the matches.

        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18 ^2", "age > 21"])
        >>> engine.match({"age": 30})
        [Match(id=0, score=2.0), Match(id=1, score=1.0)]
        """
        return listed(self.match_many([event], mode=mode))

    def match_many(
        self,
        events: Events | Iterable[Event | Mapping[str, object]],
        *,
        mode: Mode | str = Mode.ALL,
        ordered: bool = True,
    ) -> Matches:
        """The matches of a batch of events as arrays; with `ordered=False` those of an event in any order, which is faster.

        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18", "age > 21"])
        >>> engine.match_many([{"age": 20}, {"age": 30}]).ids.tolist()
        [0, 0, 1]
        """
        with self._lock:
            self._expire()
            return self._all_matches(self._reader.events(events), mode, ordered=ordered)

    def top_k(self, event: Event | Mapping[str, object], k: int, *, mode: Mode | str = Mode.ALL) -> list[Match]:
        """The k best matches of the event: best score first, then smallest id. Exact. Cost: that of the index.

        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18 ^2", "age > 21"])
        >>> engine.top_k({"age": 30}, k=1)
        [Match(id=0, score=2.0)]
        """
        return listed(self.top_k_many([event], k, mode=mode))

    def top_k_many(
        self, events: Events | Iterable[Event | Mapping[str, object]], k: int, *, mode: Mode | str = Mode.ALL
    ) -> Matches:
        """The k best matches of each event of a batch as arrays, best first.

        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18 ^2", "age > 21"])
        >>> engine.top_k_many([{"age": 20}, {"age": 30}], k=1).ids.tolist()
        [0, 0]
        """
        with self._lock:
            self._expire()
            return self._best_matches(self._reader.events(events), k, mode)

    def explain(self, event: Event | Mapping[str, object], id: int, *, mode: Mode | str = Mode.ALL) -> Explanation:
        """Which predicates of a subscription hold for the event, and what each adds to the score. O(predicates).

        >>> engine = Engine()
        >>> print(engine.explain({"age": 70}, engine.subscribe("age >= 18 ^0.4 AND plan IN ('pro', 'trial') ^0.6")))
        subscription 0 does not match
            +0.4  age >= 18 ^0.4   (event: 70)
              no  plan IN ('pro', 'trial') ^0.6   (event: NULL)
        """
        with self._lock:
            self._expire()
            rows = self._subscriptions.rows_of(subscription_id(id))
            return explain_rows(rows, event, self.schema, mode=mode, combine=self._scoring.combine)

    # live events

    def publish(
        self,
        event: Event | Mapping[str, object],
        *,
        until: datetime | str | None = None,
        k: int | None = None,
        mode: Mode | str = Mode.ALL,
    ) -> list[Match]:
        """Match an event (all matches, or the k best) and, if it has an `until`, keep it for subscriptions that come before then.

        The event is kept under its own id, or the next number. At `until` it is gone; one whose `until` has passed is not kept.
        Cost: that of `match`, and an insert into the live events.

        >>> from datetime import UTC, datetime
        >>> from matchwood.engine.clock import ManualClock
        >>> clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        >>> engine = Engine(clock=clock)
        >>> engine.publish({"price": 20}, until="2026-01-01T00:01:00Z")
        []
        >>> engine.subscribe("price < 30").live
        [LiveMatch(event=0, score=1.0)]
        >>> clock.advance(minutes=1)
        >>> engine.subscribe("price < 40").live
        []
        """
        event = event if isinstance(event, Event) else Event(event)
        ends = event.until if until is None else until
        with self._lock:
            self._expire()
            now = instant_key(self._clock())
            instant = -np.inf if ends is None else instant_key(ends)
            is_live = instant > now
            if event.id is not None:
                event_id(event.id)
            id_ = self._live.new_id(event.id, now) if is_live else None
            with Change(self) as change:
                arrays = encode_events([event], self.schema, register=is_live)
                matches = self._all_matches(arrays, mode) if k is None else self._best_matches(arrays, k, mode)
                if id_ is not None:
                    change.adds_event(id_)
                    self._live.add(arrays, id_, instant)
            return listed(matches)

    def live(self, id: int, *, k: int | None = None, mode: Mode | str = Mode.ALL) -> list[LiveMatch]:
        """The live events that match a subscription (all, or the k best): best score first, then smallest id.

        >>> engine = Engine()
        >>> id_ = engine.subscribe("price < 30")
        >>> _ = engine.publish({"price": 20}, until="9999-01-01")
        >>> engine.live(id_)
        [LiveMatch(event=0, score=1.0)]
        """
        with self._lock:
            self._expire()
            return self._live_matches(self._subscriptions.rows_of(subscription_id(id)), k, mode)

    def retract(self, event_id: int) -> None:
        """Remove a live event before its `until`; `EventError` if it is not alive. Cost: that of a delete.

        >>> engine = Engine()
        >>> _ = engine.publish({"price": 20}, until="9999-01-01")
        >>> engine.retract(0)
        >>> engine.subscribe("price < 30").live
        []
        """
        with self._lock:
            self._expire()
            self._live.remove(event_id, instant_key(self._clock()))

    # covering

    def covers(self, expression: Source) -> Int64s:
        """The subscriptions that cover the expression, ascending: each matches every event that matches the expression.

        Exact for an expression of one row. For one of several rows, a subscription that covers it only with several of its own
        rows together is missed. The first call of `covers`, `covered_by` or `reduce` builds an index of covers, which is kept up
        to date from then on.

        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18", "age > 21"])
        >>> engine.covers("age > 20").tolist()
        [0]
        """
        with self._lock:
            self._expire()
            with self.schema.tentatively():
                return self._subscriptions.covers.covering(self._reader.query(expression))

    def covered_by(self, expression: Source) -> Int64s:
        """The subscriptions that the expression covers, ascending. See `covers`.

        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18", "age > 21"])
        >>> engine.covered_by("age > 20").tolist()
        [1]
        """
        with self._lock:
            self._expire()
            with self.schema.tentatively():
                return self._subscriptions.covers.covered_by(self._reader.query(expression))

    def reduce(self, *, progress: Callable[[int, int], None] | None = None) -> Reduction:
        """A smallest set of subscriptions that covers all, and for each other subscription one of the set that covers it.

        `progress` is called with the number examined so far and the number of all. Cost: about one search for each subscription.

        >>> engine = Engine()
        >>> ids = engine.subscribe_many(["age > 18", "age > 21", "age > 21 AND plan = 'pro'"])
        >>> engine.reduce()
        Reduction(kept=array([0]), cover={1: 0, 2: 0})
        """
        with self._lock:
            self._expire()
            return self._subscriptions.covers.reduce(progress)

    # the index

    @property
    def index(self) -> str:
        """The name of the structure in use."""
        return self._index.name

    def stats(self) -> Stats:
        """Size of the index and work done by it.

        >>> engine = Engine(index="scan")
        >>> _ = engine.subscribe("age > 18 OR plan = 'pro'")
        >>> engine.stats().rows
        2
        """
        with self._lock:
            self._settle()
            return self._index.stats()

    def plan(self) -> str:
        """Which structure is in use, why, and which others were timed, as text.

        >>> print(Engine(index="vcr").plan())
        vcr: fixed by Engine(index='vcr')
        """
        with self._lock:
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
        with self._lock:
            self._expire()
            save_engine(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        scoring: str | Combine | None = None,
        clock: Clock = system_clock,
        max_rows: int = MAX_ROWS,
        verify: bool = True,
    ) -> Engine:
        """The engine that `save` wrote to `path`. Files are mapped; `verify` reads them once to compare checksums.

        Scoring, clock and `max_rows` are not saved: pass them again. O(bytes), without `verify` O(arrays).
        """

        def made(schema: Schema) -> Engine:
            return cls(schema, scoring=scoring, clock=clock, max_rows=max_rows)

        return load_engine(made, path, verify=verify)

    # inside

    @property
    def _index(self) -> Index | Planned:
        return self._subscriptions.index

    def _make_index(self, index: str, options: Mapping[str, Any]) -> Index | Planned:
        if index != AUTO:
            return make_index(index, **options)
        if options:
            raise QueryError(f"index_options need the name of an index; with {AUTO!r} the engine chooses them itself")
        return self._planned()

    def _planned(self, index: Index | None = None, plan: Plan | None = None) -> Planned:
        return Planned(self._lock, index=index, plan=plan, name_of=lambda dim: self.schema.of_dimension(dim).name)

    def _axes(self) -> list[AxisShape]:
        """The axes of the index, if it has any, for the live events to share."""
        return self._index.axes()

    def _best_matches(self, events: Events, k: int, mode: Mode | str) -> Matches:
        return self._index.top_k(events, k, mode=mode, combine=self._scoring.compiled)

    def _all_matches(self, events: Events, mode: Mode | str, *, ordered: bool = True) -> Matches:
        matches = self._index.match(events, mode=mode, combine=self._scoring.compiled)
        if ordered:
            order_hits(matches.offsets, matches.ids, matches.scores)
        return matches

    def _live_matches(
        self, rows: Rows, k: int | None, mode: Mode | str, *, until: float | None = None
    ) -> list[LiveMatch]:
        """The live events that match the one subscription in `rows`; none if it expires at `until` and that has passed."""
        if not len(self._live):
            return []
        now = instant_key(self._clock())
        if until is not None and until <= now:
            return []
        return self._live.match(rows, now, k=k, mode=mode, combine=self._scoring.compiled)

    def _instant(self, id_: int, until: datetime | str | None) -> float | None:
        """The key of a subscription's `until`."""
        if until is None:
            return None
        try:
            self._subscriptions.check_can_expire()
            return instant_key(until)
        except MatchwoodError as error:
            raise error.about(f"subscription {id_}") from None

    def _expire(self) -> None:
        """Remove what has expired. O(1) if there is nothing."""
        self._settle()
        if not self._subscriptions.expiry and not self._live.expiry:
            return
        now = instant_key(self._clock())
        self._live.expire(now)
        due = self._subscriptions.expiry.due(now)
        if len(due):
            with Change(self) as change:
                self._subscriptions.delete(due, change)

    def _settle(self) -> None:
        """Undo a change that was interrupted, if it could not be undone then."""
        if self._undo is not None:
            undo_change(self)

    def _after_fork(self, *, whole: bool) -> None:
        """In a new process. Not `whole`: another thread was inside a call, and its lock can never be released here."""
        if not whole:
            self._lock = LostLock()
        if isinstance(self._index, Planned):
            self._index.after_fork(self._lock)
