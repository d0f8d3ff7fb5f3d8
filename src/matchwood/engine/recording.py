"""The calls that change a durable engine: each is made by `Engine`, and recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import numpy as np

from matchwood.encode.json_text import JsonText, json_event
from matchwood.engine.committing import GroupCommit
from matchwood.engine.engine import Engine
from matchwood.engine.ids import Id
from matchwood.engine.ranking import Match, Ranking
from matchwood.engine.reading import AnyEvent, Place, Source
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.recorded import instant, kept, moved, plain_id, repeatable, subscribed, updated
from matchwood.engine.records import Declared, Paused, Record, Resumed, Retracted, Subscribed, Unsubscribed, Updated
from matchwood.engine.replaying import declare
from matchwood.engine.results import BatchMatches
from matchwood.engine.subscribing import LoadedTable, column
from matchwood.engine.tables import schema_of, state_of
from matchwood.lang.event import Event
from matchwood.lang.expression import Expression

_COLUMNS = ("priority", "place", "radius", "until", "metadata")


class RecordingEngine(Engine):
    """An engine that records its changes. Arguments, results and errors are those of `Engine`."""

    _group: GroupCommit
    _schema_mark: int

    @contextmanager
    def _recording(self) -> Iterator[list[Record]]:
        """A block that changes the engine and appends the records of that. Left when they are on disk."""
        records: list[Record] = []
        assert isinstance(self._clock, RecordClock)
        with self._changes:
            self._group.check()
            with self._clock.frozen() as time:
                yield records
                if not records:
                    return
                schema = None
                if self.schema.mark() != self._schema_mark:
                    self._schema_mark, schema = self.schema.mark(), schema_of(self)
                seq = self._group.add(records, time, state_of(self, time), schema)
        self._group.wait(seq)
        self._is_durable(seq)

    def _is_durable(self, seq: int) -> None:
        """Called when the record of this number is on disk."""

    # subscriptions

    def subscribe(self, expression: Source, **given: Any) -> Any:
        """See `Engine.subscribe`."""
        with self._recording() as records:
            made = super().subscribe(expression, **given)
            records.append(subscribed(made, expression, **given))
        return made

    def subscribe_many(self, expressions: Iterable[Source], **given: Any) -> Any:
        """See `Engine.subscribe_many`."""
        if isinstance(expressions, str | Mapping | Expression) or not isinstance(expressions, Iterable):
            return super().subscribe_many(expressions, **given)  # which refuses it
        sources = list(expressions)
        columns = {name: column(name, given[name], len(sources)) for name in _COLUMNS if given.get(name) is not None}
        with self._recording() as records:
            made = super().subscribe_many(sources, **{**given, **columns})
            for at, id_ in enumerate(made.tolist()):
                about = {name: values[at] for name, values in columns.items()}
                records.append(subscribed(id_, sources[at], **about))
        return made

    def subscribe_rows(self, rows: Any) -> None:
        """See `Engine.subscribe_rows`. What is recorded is the normal form as text."""
        with self._recording() as records:
            super().subscribe_rows(rows)
            records.extend(self._as_recorded(np.unique(rows.ids).tolist()))

    def subscribe_table(self, source: object, **options: Any) -> LoadedTable:
        """See `Engine.subscribe_table`. What is recorded is the normal form as text."""
        with self._recording() as records:
            loaded = super().subscribe_table(source, **options)
            records.extend(self._as_recorded(loaded.ids.tolist()))
        return loaded

    def _as_recorded(self, ids: Iterable[Id]) -> Iterator[Subscribed]:
        for id_ in ids:
            known = self.subscription(id_)
            yield subscribed(id_, known.expression, priority=known.priority, until=known.until, metadata=known.metadata)

    def unsubscribe_many(self, ids: Iterable[Id]) -> None:
        """See `Engine.unsubscribe_many`."""
        given = list(ids) if isinstance(ids, Iterator) else ids
        with self._recording() as records:
            super().unsubscribe_many(given)
            records.extend(Unsubscribed(id=plain_id(id_)) for id_ in given)

    def update_many(self, changes: Mapping[Id, Mapping[str, Any]]) -> None:
        """See `Engine.update_many`."""
        with self._recording() as records:
            super().update_many(changes)
            records.extend(updated(id_, asked) for id_, asked in changes.items())

    def set_priority(self, id: Id, priority: float) -> None:
        """See `Engine.set_priority`."""
        with self._recording() as records:
            super().set_priority(id, priority)
            records.append(Updated(id=plain_id(id), priority=float(priority)))

    def set_until(self, id: Id, until: datetime | str | None) -> None:
        """See `Engine.set_until`."""
        with self._recording() as records:
            super().set_until(id, until)
            records.append(Updated(id=plain_id(id), until=instant(until)))

    def pause(self, id: Id) -> None:
        """See `Engine.pause`."""
        with self._recording() as records:
            super().pause(id)
            records.append(Paused(id=plain_id(id)))

    def resume(self, id: Id) -> None:
        """See `Engine.resume`."""
        with self._recording() as records:
            super().resume(id)
            records.append(Resumed(id=plain_id(id)))

    def move_many(self, ids: Iterable[Id], places: Iterable[Place]) -> None:
        """See `Engine.move_many`."""
        given: list[Any] = [list(one) if isinstance(one, Iterator) else one for one in (ids, places)]
        with self._recording() as records:
            super().move_many(*given)
            for id_, place in zip(*given, strict=True):
                records.append(moved(id_, place, self.subscription(id_).expression))

    # events

    def publish(self, event: AnyEvent, *, until: datetime | str | None = None, **given: Any) -> Ranking[Match]:
        """See `Engine.publish`. An event without `until` leaves no record."""
        found = self.publish_many([event], until=[until], **given)
        for error in found.rejected.values():
            raise error
        return Ranking(found.ids, found.scores)

    def publish_many(
        self,
        events: Iterable[AnyEvent],
        *,
        until: datetime | str | Iterable[datetime | str | None] | None = None,
        **given: Any,
    ) -> BatchMatches:
        """See `Engine.publish_many`. Events without `until` leave no record."""
        if isinstance(events, Event | Mapping | str | bytes) or not isinstance(events, Iterable):
            return super().publish_many(events, until=until, **given)  # which refuses it
        read = [repeatable(json_event(event) if isinstance(event, JsonText) else event) for event in events]
        each = list(until) if isinstance(until, Iterable) and not isinstance(until, str) else [until] * len(read)
        with self._recording() as records:
            found = super().publish_many(read, until=each, **given)
            assert found.event_ids is not None
            for at in np.flatnonzero(found.event_ids >= 0).tolist():
                records.append(kept(int(found.event_ids[at]), read[at], each[at]))
        return found

    def retract(self, event_id: int) -> None:
        """See `Engine.retract`."""
        with self._recording() as records:
            super().retract(event_id)
            records.append(Retracted(number=int(event_id)))

    def declare(self, attributes: Mapping[str, str], *, closed: bool = False) -> None:
        """Give attributes types, all or none; with `closed` no others are learnt from then on."""
        with self._recording() as records:
            record = Declared(attributes={str(n): str(t) for n, t in attributes.items()}, closed=closed)
            declare(self, record)
            records.append(record)
