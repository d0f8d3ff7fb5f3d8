"""The calls of an engine about live events: events kept for subscriptions that come later."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.encode.json_text import JsonText, json_event
from matchwood.encode.live_rows import rows_for_live, without_tests
from matchwood.encode.picking import pick_events
from matchwood.engine.aging import at_instant
from matchwood.engine.core import EngineCore
from matchwood.engine.ids import Id, event_id
from matchwood.engine.live import LiveMatch
from matchwood.engine.matching import log_rejected
from matchwood.engine.ranking import Match, Ranking
from matchwood.engine.reading import AnyEvent, ReadEvents
from matchwood.engine.results import BatchMatches, batch
from matchwood.engine.waiting import waiting_values
from matchwood.errors import EventError, MatchwoodError
from matchwood.lang.evaluate import Mode
from matchwood.lang.event import Event
from matchwood.schema import instant_key

NOT_KEPT = -1


class Publishing(EngineCore):
    """Live events in, matches out."""

    def publish(
        self,
        event: AnyEvent,
        *,
        until: datetime | str | None = None,
        k: int | None = None,
        mode: Mode | str = Mode.ALL,
        replace: bool = False,
    ) -> Ranking[Match]:
        """Match an event (all matches, or the k best) and, if it has an `until`, keep it for subscriptions that come before then.

        The event is kept under its own id, or the next number. At `until` it is gone; one whose `until` has passed is not kept.
        With `replace` it takes the place of a live event of the same id, if there is one. Its values for attributes that no
        subscription has named yet are kept as well. Cost: that of `match`, and an insert into the live events.

        >>> from datetime import UTC, datetime
        >>> from matchwood import Engine
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
        given = json_event(event) if isinstance(event, JsonText) else event
        found = self._published([given], [until], k, mode, replace=replace)
        for error in found.rejected.values():
            raise error
        return Ranking(found.ids, found.scores)

    def publish_many(
        self,
        events: Iterable[AnyEvent],
        *,
        until: datetime | str | Iterable[datetime | str | None] | None = None,
        k: int | None = None,
        mode: Mode | str = Mode.ALL,
        replace: bool = False,
    ) -> BatchMatches:
        """As `publish` for a batch; `until` is one for all events, or one for each. All usable events are kept, or none.

        `rejected` of the result has the errors of the others by position, and `event_ids` the id that each event is kept under.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.publish_many([{"price": 20}, {"price": 40}], until="9999-01-01").event_ids.tolist()
        [0, 1]
        >>> engine.subscribe("price < 30").live
        [LiveMatch(event=0, score=1.0)]
        """
        if isinstance(events, Event | Mapping | str | bytes) or not isinstance(events, Iterable):
            raise EventError("expected several events; for a single one use publish")
        given = [json_event(event) if isinstance(event, JsonText) else event for event in events]
        each = list(until) if isinstance(until, Iterable) and not isinstance(until, str) else [until] * len(given)
        if len(each) != len(given):
            raise EventError(f"expected an `until` for each of {len(given)} events, got {len(each)}")
        found = self._published(given, each, k, mode, replace=replace)
        log_rejected(found.rejected)
        return found

    def live(self, id: Id, *, k: int | None = None, mode: Mode | str = Mode.ALL) -> list[LiveMatch]:
        """The live events that match a subscription (all, or the k best): best score first, then smallest id.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> id_ = engine.subscribe("price < 30")
        >>> _ = engine.publish({"price": 20}, until="9999-01-01")
        >>> engine.live(id_)
        [LiveMatch(event=0, score=1.0)]
        """
        with self._changes:
            self._catch_up()
            with self._lock.read():
                return self._live_matches(self._subscriptions.rows_of(self._number(id)), k, mode)

    def retract(self, event_id: int) -> None:
        """Remove a live event before its `until`; `EventError` if it is not alive. Cost: that of a delete.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.publish({"price": 20}, until="9999-01-01")
        >>> engine.retract(0)
        >>> engine.subscribe("price < 30").live
        []
        """
        with self._changes:
            self._catch_up()
            with self._lock.write():
                self._saved_at = None
                self._live.remove(event_id, instant_key(self._clock()))

    # inside

    def _published(
        self,
        events: list[Event | Mapping[str, object]],
        until: list[datetime | str | None],
        k: int | None,
        mode: Mode | str,
        *,
        replace: bool,
    ) -> BatchMatches:
        with self._changes, self._changing() as change:
            now = instant_key(self._clock())
            ids, ends, wrong = self._kept_as(events, until, now, replace=replace)
            read = self._reader.events(events, register=max(ids, default=NOT_KEPT) != NOT_KEPT)
            read.rejected.update(wrong)
            arrays, good = read.arrays, None
            if read.rejected:
                arrays, good = self._usable(events, read)
                for at in read.rejected:
                    ids[at] = NOT_KEPT
            with self._lock.read():
                found = self._found(arrays, k, mode)
                result = batch(found, self._subscriptions.names, read)
            event_ids, instants = np.array(ids, np.int64), np.array(ends, np.float64)
            kept = [at for at, id_ in enumerate(ids) if id_ != NOT_KEPT]
            if kept:
                waiting = [waiting_values(events[at], self.schema) for at in kept]
                if len(kept) < arrays.size:
                    arrays = pick_events(arrays, np.array(kept) if good is None else np.searchsorted(good, kept))
                all_kept = len(kept) == len(ids)
                numbers = event_ids if all_kept else event_ids[kept]
                with self._lock.write():
                    change.adds_events(self._live.unknown(numbers))
                    self._live.add(
                        without_tests(arrays, self.schema), numbers, instants if all_kept else instants[kept], waiting
                    )
        result.event_ids = event_ids
        return result

    def _kept_as(
        self,
        events: list[Event | Mapping[str, object]],
        until: list[datetime | str | None],
        now: float,
        *,
        replace: bool,
    ) -> tuple[list[int], list[float], dict[int, MatchwoodError]]:
        """The id that each event is to be kept under, NOT_KEPT for none, its `until`, and the errors."""
        ids, ends = [NOT_KEPT] * len(events), [-math.inf] * len(events)
        wrong: dict[int, MatchwoodError] = {}
        taken, following = set(), self._live.next_id
        for position, (event, end) in enumerate(zip(events, until, strict=True)):
            given = None
            if isinstance(event, Event):
                given, end = event.id, event.until if end is None else end
            try:
                number = following if given is None else event_id(given)
                if end is not None:
                    ends[position] = instant_key(end)
                if ends[position] > now:
                    self._live.check_id(number, now, replace=replace)
                    if number in taken:
                        raise EventError(f"event id {number} is given twice in the batch")
                    ids[position] = number
                    taken.add(number)
                    following = max(following, number + 1)
            except MatchwoodError as error:
                wrong[position] = error.about(f"event {position}") if len(events) > 1 else error
        return ids, ends, wrong

    def _usable(self, events: list[Event | Mapping[str, object]], read: ReadEvents) -> tuple[Events, Int64s]:
        """The arrays of the events that are not rejected, and their positions."""
        good = read.positions()
        return self._reader.events([events[at] for at in good.tolist()], register=True).arrays, good

    def _live_matches(
        self, rows: Rows, k: int | None, mode: Mode | str, *, until: float | None = None
    ) -> list[LiveMatch]:
        """The live events that match the one subscription in `rows`; none if it expires at `until` and that has passed."""
        if not len(self._live):
            return []
        now = instant_key(self._clock())
        if until is not None and until <= now:
            return []
        if self.schema.ages:
            rows = at_instant(rows, self.schema, now)
        return (
            self._live.match(rows_for_live(rows, self.schema), now, k=k, mode=mode, combine=self._scoring.compiled)
            if rows.size
            else []
        )
