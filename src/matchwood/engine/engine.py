"""Engine: the facade. Subscriptions in, events in, ranked matches out; any index behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Matches, Rows
from matchwood.encode.checks import check_events, check_rows
from matchwood.encode.objects import RowsBuilder, decode_rows, encode_events
from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.covers import Covers, Reduction
from matchwood.engine.expiry import Expiry
from matchwood.engine.explanation import Explanation
from matchwood.engine.forking import LostLock, watch_forks
from matchwood.engine.live import MAX_ID, Live, LiveMatch, SubscriptionId, checked_event_id
from matchwood.engine.reading import Reader, Source
from matchwood.engine.results import Match, Subscription, instant_of, listed
from matchwood.engine.saving import load_engine, save_engine
from matchwood.engine.undo import Change, Undo, take_back
from matchwood.errors import (
    DuplicateSubscriptionError,
    EventError,
    MatchwoodError,
    QueryError,
    SchemaError,
    SubscriptionError,
    UnsupportedError,
)
from matchwood.lang.describe import describe_rows
from matchwood.lang.evaluate import Combine, Mode, judge
from matchwood.lang.event import PLACE, Event, event_keys
from matchwood.lang.expression import Expression
from matchwood.lang.moving import moved
from matchwood.lang.rows import MAX_ROWS
from matchwood.planner import AUTO, Plan, Planned
from matchwood.planner.background import Lock
from matchwood.schema import Point, Schema, describe, instant_key, point_of
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.scoring import scoring as make_scoring
from matchwood.structures import Capability, Index, LiveEvents, Stats, make_index
from matchwood.structures.base import AxisShape


class Engine:
    """Standing subscriptions that events are matched against, best first.

    `schema` is a `Schema`, a mapping name -> type, or None to learn types from the data. `index` names the structure behind the
    engine; "auto" lets the engine choose by what it holds and what it is asked, and choose again when that changes (`plan`).
    `scoring` is "sum" (the default), "max", or a function (score, weight) -> score that is monotone and never lowers a score.
    `engine.schema` is the schema that tables and arrays for this engine are encoded with.
    Calls may come from several threads: one lock is held for a call (for a batch, the whole batch).

    >>> engine = Engine()
    >>> adult = engine.subscribe("age >= 18 ^0.4 AND plan IN ('pro', 'trial') ^0.6")
    >>> senior = engine.subscribe("age >= 65", priority=2)
    >>> engine.match({"age": 70, "plan": "pro"})
    [Match(id=1, score=3.0), Match(id=0, score=1.0)]
    >>> engine.top_k({"age": 70, "plan": "pro"}, k=1)
    [Match(id=1, score=3.0)]
    >>> print(engine.explain({"age": 70}, adult))
    subscription 0 does not match
        +0.4  age >= 18 ^0.4   (event: 70)
          no  plan IN ('pro', 'trial') ^0.6   (event: NULL)
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
        self._index: Index | Planned = self._made(index, index_options or {})
        self._scoring = make_scoring(scoring)
        self._clock = clock
        self._reader = Reader(self.schema, max_rows)
        self._covers = Covers(lambda: self._index.store)
        self._expiry = Expiry()
        self._live = Live(LiveEvents(like=self._axes))
        self._next_id = 0
        self._undo: Undo | None = None  # of the change under way, or of one that was cut short
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
        """Register a subscription and return its id (a new one unless given). Cost: that of the index's insert.

        `place` and `radius` (metres) add the condition, of weight 1, that the event's place lies in that circle. From `until` on
        the subscription is gone. The id returned is an int; its `live` lists the live events that match, best first.
        """
        with self._lock:
            self._settle()
            id_ = self._new_id() if id is None else self._checked_id(id)
            self._check_unknown(id_)
            expiry = self._instant_of(id_, until)
            with Change(self) as change:
                rows = self._reader.arrays(id_, expression, priority=priority, place=place, radius=radius)
                self._insert(rows, change)
                self._expiry.note(id_, expiry)
                live = self._live_matches(rows, None, Mode.ALL, until=expiry)
            return SubscriptionId(id_, live)

    def subscribe_many(self, expressions: Iterable[Source], *, progress: Callable[[int], None] | None = None) -> Int64s:
        """Register many at once, all or none; return their ids in order. `progress` is told how many have been read."""
        if isinstance(expressions, str | Mapping | Expression):
            raise SubscriptionError(f"expected several expressions, got one: {describe(expressions)}; use subscribe")
        with self._lock:
            self._settle()
            with Change(self) as change:
                builder = RowsBuilder(self.schema)
                first = self._new_id()
                count = 0
                for expression in expressions:
                    builder.add(first + count, 0.0, self._reader.rows(expression, f"subscription {first + count}"))
                    count += 1
                    if progress is not None and count % 1024 == 0:
                        progress(count)
                self._insert(builder.build(), change)
            return np.arange(first, first + count)

    def subscribe_rows(self, rows: Rows) -> None:
        """Register subscriptions that are arrays already (from a table, a generator), with their `until` if they have one.

        Rows that another schema encoded are refused with a `SchemaError`, unless this engine's schema extends that one. Rows made
        by hand bear no schema: that their dimensions and keys are those of this engine's is taken on trust.
        """
        with self._lock:
            self._expire()
            self._check_schema(rows, "rows")
            check_rows(rows, self.schema.dimensions)
            if rows.until is not None and (rows.until < np.inf).any():
                self._check_can_expire()
            with Change(self) as change:
                self._insert(rows, change)
                if rows.until is not None:
                    self._expiry.note_many(rows.ids, rows.until)

    def unsubscribe(self, id: int) -> None:
        """Remove a subscription."""
        self.unsubscribe_many([id])

    def unsubscribe_many(self, ids: Iterable[int]) -> None:
        """Remove subscriptions, all or (if one is not known) none."""
        with self._lock:
            self._expire()
            doomed = np.array([self._checked_id(id_) for id_ in ids], dtype=np.int64)
            with Change(self) as change:
                self._delete(doomed, change)

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
        """Replace a subscription; everything is given anew, as in `subscribe`."""
        with self._lock:
            self._expire()
            id_ = self._checked_id(id)
            before = self._rows_at(id_)
            expiry = self._instant_of(id_, until)
            with Change(self) as change:
                rows = self._reader.arrays(id_, expression, priority=priority, place=place, radius=radius)
                self._replace(before, rows, change)
                self._expiry.note(id_, expiry)

    def move(self, id: int, place: Point | tuple[float, float]) -> None:
        """A subscriber has moved: put the centre of its condition on `place` there; everything else stays.

        A circle keeps its radius; a box, and a square is kept as its box, keeps its sides in degrees. A move that would cut a box
        at a pole is refused, and so is one of a condition without a single centre.

        Cheap where the index finds the subscription in the same bucket as before.
        """
        with self._lock:
            self._expire()
            id_ = self._checked_id(id)
            before = self._rows_at(id_)
            try:
                there = moved(decode_rows(before, self.schema), PLACE, point_of(place))
            except MatchwoodError as error:
                raise error.about(f"subscription {id_}") from None
            builder = RowsBuilder(self.schema)
            builder.add(id_, float(before.priority[0]), there)
            with Change(self) as change:
                self._replace(before, builder.build(), change)

    def subscription(self, id: int) -> Subscription:
        """What is registered under an id."""
        with self._lock:
            self._expire()
            id_ = self._checked_id(id)
            rows = self._rows_at(id_)
            until = self._expiry.of(id_)
            instant = None if until is None else instant_of(until)
            text = describe_rows(tuple(decode_rows(rows, self.schema)), self.schema)
            return Subscription(id_, text, float(rows.priority[0]), instant)

    def ids(self) -> Int64s:
        """The ids of all subscriptions, ascending."""
        with self._lock:
            self._expire()
            return self._index.store.ids()

    def __len__(self) -> int:
        """How many subscriptions there are."""
        with self._lock:
            self._expire()
            return self._index.store.subscriptions

    def __contains__(self, id: object) -> bool:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id <= MAX_ID:
            return False
        with self._lock:
            self._expire()
            return bool(self._index.store.knows(np.array([id], np.int64))[0])

    # matching

    def match(self, event: Event | Mapping[str, object], *, mode: Mode | str = Mode.ALL) -> list[Match]:
        """Every subscription that the event matches: best score first, then smallest id."""
        return listed(self.match_many([event], mode=mode))

    def match_many(
        self,
        events: Events | Iterable[Event | Mapping[str, object]],
        *,
        mode: Mode | str = Mode.ALL,
        ordered: bool = True,
    ) -> Matches:
        """The matches of a batch as arrays; without `ordered` those of an event come in no particular order, and faster."""
        with self._lock:
            self._expire()
            return self._matched(self._encoded(events), mode, ordered=ordered)

    def top_k(self, event: Event | Mapping[str, object], k: int, *, mode: Mode | str = Mode.ALL) -> list[Match]:
        """The k best subscriptions for the event: best score first, then smallest id."""
        return listed(self.top_k_many([event], k, mode=mode))

    def top_k_many(
        self, events: Events | Iterable[Event | Mapping[str, object]], k: int, *, mode: Mode | str = Mode.ALL
    ) -> Matches:
        """The k best of each event of a batch, as arrays, best first."""
        with self._lock:
            self._expire()
            return self._best(self._encoded(events), k, mode)

    def explain(self, event: Event | Mapping[str, object], id: int, *, mode: Mode | str = Mode.ALL) -> Explanation:
        """Which predicates of a subscription hold for the event, which do not, and what each adds to the score."""
        with self._lock:
            self._expire()
            id_ = self._checked_id(id)
            rows = self._rows_at(id_)
            try:
                with self.schema.tentatively():
                    keys = event_keys(event, self.schema)
            except MatchwoodError as error:
                known = event.id if isinstance(event, Event) else None
                raise error.about("the event" if known is None else f"event {known}") from None
            priority = float(rows.priority[0])
            decoded = decode_rows(rows, self.schema)
            verdict = judge(decoded, keys, priority=priority, mode=mode, combine=self._scoring.combine)
            return Explanation(id_, priority, verdict, self.schema)

    # live events

    def publish(
        self,
        event: Event | Mapping[str, object],
        *,
        until: datetime | str | None = None,
        k: int | None = None,
        mode: Mode | str = Mode.ALL,
    ) -> list[Match]:
        """Match an event (all, or the k best) and, if it has an `until`, keep it alive for subscriptions that come before then.

        The event is kept under its own id, or the next number. At `until` it is gone; one whose `until` has passed is not kept.

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
            expiry = -np.inf if ends is None else instant_key(ends)
            is_kept = expiry > now
            id_ = self._live.new_id(event.id, now) if is_kept else event.id
            if id_ is not None:
                checked_event_id(id_)
            with Change(self) as change:
                arrays = encode_events([event], self.schema, register=is_kept)
                matches = self._matched(arrays, mode) if k is None else self._best(arrays, k, mode)
                if is_kept and id_ is not None:
                    change.keeps(id_)
                    self._live.keep(arrays, id_, expiry, now)
            return listed(matches)

    def live(self, id: int, *, k: int | None = None, mode: Mode | str = Mode.ALL) -> list[LiveMatch]:
        """The live events that a subscription matches (all, or the k best): best score first, then smallest id."""
        with self._lock:
            self._expire()
            slots = self._index.store.slots_of(np.array([self._checked_id(id)], np.int64))
            return self._live_matches(self._index.store.extract(slots), k, mode)

    def retract(self, event_id: int) -> None:
        """Take a live event back before its time."""
        with self._lock:
            self._settle()
            self._live.remove(event_id, instant_key(self._clock()))

    # covering

    def covers(self, expression: Source) -> Int64s:
        """The subscriptions that cover the expression, ascending: whatever event matches it matches each of them.

        The first call of this, `covered_by` or `reduce` makes an index of covers, which is then kept up to date. Exact for
        expressions of one alternative; of several, a cover that only all alternatives of a subscription together form is
        not seen.
        """
        with self._lock:
            self._expire()
            with self.schema.tentatively():
                return self._covers.covering(self._reader.query(expression))

    def covered_by(self, expression: Source) -> Int64s:
        """The subscriptions that the expression covers, ascending: whatever event matches one of them matches it."""
        with self._lock:
            self._expire()
            with self.schema.tentatively():
                return self._covers.covered_by(self._reader.query(expression))

    def reduce(self, *, progress: Callable[[int, int], None] | None = None) -> Reduction:
        """The smallest set of subscriptions that covers all of them, and for each other one a kept one that covers it.

        `progress` is told how many of how many have been looked at. About a search a subscription.

        >>> engine = Engine()
        >>> ids = engine.subscribe_many(["age > 18", "age > 21", "age > 21 AND plan = 'pro'"])
        >>> engine.reduce()
        Reduction(kept=array([0]), cover={1: 0, 2: 0})
        """
        with self._lock:
            self._expire()
            return self._covers.reduce(progress)

    def stats(self) -> Stats:
        """Size and work of the index."""
        with self._lock:
            self._settle()
            return self._index.stats()

    # the index

    @property
    def index(self) -> str:
        """The name of the index, of the one chosen if the engine chooses."""
        return self._index.name

    def plan(self) -> str:
        """Which structure is at work, why, and what else was tried: a line each.

        >>> print(Engine(index="vcr").plan())
        vcr, as the engine was told
        """
        with self._lock:
            if isinstance(self._index, Planned):
                return "\n".join(map(str, self._index.plan()))
            return f"{self._index.name}, as the engine was told"

    def replan(self) -> str:
        """Choose the structure anew, now, from the subscriptions there are and the latest events; return the plan.

        Other threads may match and change subscriptions meanwhile: the old structure serves until the new one is whole.
        """
        if not isinstance(self._index, Planned):
            raise QueryError(
                f"the engine was told to use {self._index.name!r}; make it with index='auto' to let it choose"
            )
        self._index.replan()
        return self.plan()

    # saving

    def save(self, path: str | Path) -> None:
        """Write everything to a new folder, whole or not at all. O(bytes)."""
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
        """The engine saved at `path`. Arrays are mapped; `verify` reads them once and checks their checksums.

        Scoring and clock are not saved: give them again.
        """

        def made(schema: Schema) -> Engine:
            return cls(schema, scoring=scoring, clock=clock, max_rows=max_rows)

        return load_engine(made, path, verify=verify)

    # inside

    def _after_fork(self, *, whole: bool) -> None:
        """In a process that was forked. Not `whole`: another thread was in the middle of a call, and the lock is lost with it."""
        if not whole:
            self._lock = LostLock()
        if isinstance(self._index, Planned):
            self._index.after_fork(self._lock)

    def _axes(self) -> list[AxisShape]:
        """The attributes that live events are divided by: those of the index, which may change; none, and they choose."""
        return self._index.axes()

    def _made(self, index: str, options: Mapping[str, Any]) -> Index | Planned:
        if index != AUTO:
            return make_index(index, **options)
        if options:
            raise QueryError(f"options go with the name of an index; with {AUTO!r} the engine chooses them")
        return self._planned()

    def _planned(self, index: Index | None = None, plan: Plan | None = None) -> Planned:
        return Planned(self._lock, index=index, plan=plan, named=lambda dim: self.schema.of_dimension(dim).name)

    def _encoded(self, events: Events | Iterable[Event | Mapping[str, object]]) -> Events:
        if isinstance(events, Events):
            self._check_schema(events, "events")
            check_events(events)
            return events if events.schema in (None, self.schema) else events.stamped(self.schema)
        if isinstance(events, Event | Mapping | str) or not isinstance(events, Iterable):
            raise EventError(f"expected several events, got {describe(events)}; for a single one use match or top_k")
        with self.schema.tentatively():
            return encode_events(events, self.schema)

    def _check_schema(self, arrays: Rows | Events, what: str) -> None:
        """Refuse arrays whose dimensions or keys mean something else here. O(1) if this engine's schema encoded them."""
        difference = None if arrays.schema is None else self.schema.difference(arrays.schema)
        if difference is not None:
            raise SchemaError(
                f"the {what} were encoded under another schema: {difference}; encode them with engine.schema"
            )

    def _matched(self, events: Events, mode: Mode | str, *, ordered: bool = True) -> Matches:
        matches = self._index.match(events, mode=mode, combine=self._scoring.compiled)
        if ordered:
            order_hits(matches.offsets, matches.ids, matches.scores)
        return matches

    def _best(self, events: Events, k: int, mode: Mode | str) -> Matches:
        return self._index.top_k(events, k, mode=mode, combine=self._scoring.compiled)

    def _insert(self, rows: Rows, change: Change) -> None:
        change.adds(rows.ids)
        self._index.insert(rows)
        self._covers.inserted(rows)
        if rows.size:
            self._next_id = max(self._next_id, int(rows.ids.max()) + 1)

    def _replace(self, before: Rows, rows: Rows, change: Change) -> None:
        change.replaces(before)
        self._index.update(rows)
        self._covers.updated(rows.ids[:1], rows)

    def _live_matches(
        self, rows: Rows, k: int | None, mode: Mode | str, *, until: float | None = None
    ) -> list[LiveMatch]:
        """The live events that the one subscription in `rows` matches; none if its own time, `until`, is over."""
        if not len(self._live):
            return []
        now = instant_key(self._clock())
        if until is not None and until <= now:
            return []
        return self._live.match(rows, now, k=k, mode=mode, combine=self._scoring.compiled)

    def _delete(self, ids: Int64s, change: Change) -> None:
        change.removes(ids)
        self._index.delete(ids)
        self._covers.deleted(ids)
        self._expiry.forget(ids.tolist())

    def _instant_of(self, id_: int, until: datetime | str | None) -> float | None:
        try:
            if until is not None:
                self._check_can_expire()
            return None if until is None else instant_key(until)
        except MatchwoodError as error:
            raise error.about(f"subscription {id_}") from None

    def _check_can_expire(self) -> None:
        if isinstance(self._index, Index) and Capability.UPDATES not in self._index.capabilities:
            raise UnsupportedError(
                f"index {self._index.name!r} cannot remove, so nothing in it can expire: leave out `until`"
            )

    def _rows_at(self, id_: int) -> Rows:
        slots = self._index.store.slots_of(np.array([id_], np.int64))
        return self._index.store.extract(slots)

    def _new_id(self) -> int:
        if self._next_id > MAX_ID:
            raise SubscriptionError(f"there is no id above {MAX_ID}, which is taken: give one that is free")
        return self._next_id

    def _checked_id(self, id_: object) -> int:
        if isinstance(id_, bool) or not isinstance(id_, int | np.integer) or not 0 <= id_ <= MAX_ID:
            raise SubscriptionError(f"expected an id that is a whole number from 0 to 2^63 - 1, got {describe(id_)}")
        return int(id_)

    def _check_unknown(self, id_: int) -> None:
        self._expire()
        if id_ in self:
            raise DuplicateSubscriptionError(
                f"subscription {id_} is there already; use update, or unsubscribe it first"
            )

    def _expire(self) -> None:
        """Remove the subscriptions whose time is over, and look at a few live events. O(log n) each, O(1) if there is none."""
        self._settle()
        if not self._expiry and not len(self._live):
            return
        now = instant_key(self._clock())
        self._live.sweep(now)
        if self._expiry.is_due(now):
            with Change(self) as change:
                self._delete(self._expiry.due(now), change)

    def _settle(self) -> None:
        """Take back a change that an exception cut short, if it could not be taken back then."""
        if self._undo is not None:
            take_back(self)
