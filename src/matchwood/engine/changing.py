"""The calls of an engine that change its subscriptions: a part of one, or many at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import numpy as np

from matchwood.encode.arrays import Int64s, Rows, concatenate_rows
from matchwood.engine.core import EngineCore
from matchwood.engine.ids import Id, shown_id
from matchwood.engine.metadata import checked_metadata
from matchwood.engine.moving import coordinates, moved_rows
from matchwood.engine.reading import Described, Place, Source, checked_priority
from matchwood.errors import SubscriptionError
from matchwood.lang.event import PLACE
from matchwood.schema import Type, describe


class Unchanged(Enum):
    """The default of an argument of `update`: leave it as it is."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


class Changing(EngineCore):
    """Subscriptions changed. Writers: one at a time."""

    def update(
        self,
        id: Id,
        expression: Source | Unchanged = UNCHANGED,
        *,
        priority: float | Unchanged = UNCHANGED,
        place: Place | None = None,
        radius: float | None = None,
        until: datetime | str | Unchanged | None = UNCHANGED,
        metadata: object = UNCHANGED,
    ) -> None:
        """Change a subscription; what is not passed stays as it is. Cost: that of an update of the index.

        `place` and `radius` are part of the expression: with a new one, pass them again. `until=None` and `metadata=None` remove
        these.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.update(engine.subscribe("age > 18", priority=2), "age > 21")
        >>> engine.subscription(0)
        Subscription(id=0, expression='age > 21', priority=2.0, until=None, metadata=None, paused=False)
        """
        one = {"expression": expression, "priority": priority, "place": place, "radius": radius}
        self.update_many({id: {**one, "until": until, "metadata": metadata}})

    def update_many(self, changes: Mapping[Id, Mapping[str, Any]]) -> None:
        """Change several subscriptions, all or none: for each id the arguments of `update`. Cost: one bulk update.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> ids = engine.subscribe_many(["age > 18", "age > 21"])
        >>> engine.update_many({0: {"priority": 2.0}, 1: {"expression": "age > 30"}})
        >>> [s.expression for s in engine.subscriptions()]
        ['age > 18', 'age > 30']
        """
        if not isinstance(changes, Mapping):
            raise SubscriptionError(f"expected a mapping from id to what changes, got {describe(changes)}")
        with self._changes, self._changing() as change:
            numbers = [self._number(id_) for id_ in changes]
            before = [self._subscriptions.rows_of(number) for number in numbers]
            subjects = [f"subscription {shown_id(id_)}" for id_ in changes]
            rows = [
                self._updated(old, asked, subject)
                for old, asked, subject in zip(before, changes.values(), subjects, strict=True)
            ]
            metadata = {
                number: asked["metadata"]
                for number, asked in zip(numbers, changes.values(), strict=True)
                if asked.get("metadata", UNCHANGED) is not UNCHANGED
            }
            for number, subject in zip(numbers, subjects, strict=True):
                if metadata.get(number) is not None:
                    metadata[number] = checked_metadata(metadata[number], subject)
            self._replace(numbers, before, rows, change, metadata)
        with self._changes:
            self._reclaim(len(numbers))

    def set_priority(self, id: Id, priority: float) -> None:
        """Change the priority of a subscription.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.set_priority(engine.subscribe("age > 18"), 2.5)
        >>> engine.match({"age": 20})
        [Match(id=0, score=3.5)]
        """
        with self._changes, self._changing() as change:
            number = self._number(id)
            checked = checked_priority(priority, f"subscription {id}")
            with self._lock.write():
                self._subscriptions.set_priority(number, checked, change)

    def set_until(self, id: Id, until: datetime | str | None) -> None:
        """Change when a subscription expires; None for never. O(log n)."""
        with self._changes, self._changing():
            number = self._number(id)
            self._subscriptions.rows_of(number)
            instant = self._instant(until, lambda: f"subscription {id}")
            with self._lock.write():
                self._subscriptions.set_until(number, instant)

    def pause(self, id: Id) -> None:
        """Keep a subscription without matching it, until `resume`. Nothing happens if it is paused. Cost: that of a delete.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.pause(engine.subscribe("age > 18"))
        >>> engine.match({"age": 20}), len(engine)
        ([], 1)
        """
        with self._changes, self._changing() as change:
            number = self._number(id)
            if number not in self._subscriptions.paused:
                with self._lock.write():
                    self._subscriptions.pause(number, change)

    def resume(self, id: Id) -> None:
        """Match a paused subscription again. Nothing happens if it is not paused. Cost: that of an insert."""
        with self._changes, self._changing() as change:
            number = self._number(id)
            if number in self._subscriptions.paused:
                with self._lock.write():
                    self._subscriptions.resume(number, change)
            else:
                self._subscriptions.rows_of(number)

    def move(self, id: Id, place: Place) -> None:
        """Move the centre of a subscription's condition on `place`; everything else stays.

        A circle keeps its radius. A box (a square is kept as its box) keeps its sides in degrees. A move that would cut a box
        at a pole is refused, and so is one of a condition without a single centre. Cost: that of an update, less if the index
        finds the subscription in the same bucket as before.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.move(engine.subscribe("TRUE", place=(10.75, 59.91), radius=500), (10.80, 59.95))
        >>> engine.subscription(0).expression
        'DWITHIN(place, POINT(10.8 59.95), 500.0 m)'
        """
        self.move_many([id], [place])

    def move_many(self, ids: Iterable[Id], places: Iterable[Place]) -> None:
        """As `move` for several subscriptions, all or none; `places` may be an array of two columns. Cost: one bulk update.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> ids = engine.subscribe_many(["TRUE"] * 2, place=[(10.75, 59.91), (10.8, 59.9)], radius=500)
        >>> engine.move_many(ids, [(10.76, 59.91), (10.8, 59.95)])
        """
        all_: Any = places
        if type(places) is not list and not isinstance(places, np.ndarray):
            if not isinstance(places, Iterable):
                raise SubscriptionError(f"expected a place for each subscription, got {describe(places)}")
            all_ = list(places)
        with self._changes, self._changing() as change:
            numbers = self._numbers(ids)
            if len(numbers) > 1 and len(np.unique(numbers)) != len(numbers):
                raise SubscriptionError("a subscription is named twice in one move_many")
            if len(numbers) != len(all_):
                raise SubscriptionError(f"expected a place for each of {len(numbers)} subscriptions, got {len(all_)}")
            lon, lat = coordinates(all_)
            attribute = self.schema.get(PLACE)
            if attribute is not None and attribute.type is Type.POINT:
                with self._lock.write():
                    if self._subscriptions.move_circles(numbers, attribute.dims[0], lon, lat, change):
                        return
            before, rows = moved_rows(self._subscriptions, numbers, lon, lat, self._reader)
            with self._lock.write():
                self._subscriptions.replace(numbers, before, rows, change)

    # inside

    def _updated(self, before: Rows, asked: Mapping[str, Any], subject: str) -> Rows:
        """The rows of a subscription with what is asked for changed."""
        if not isinstance(asked, Mapping):
            remedy = 'write {"expression": ...} for a new expression'
            raise SubscriptionError(f"{subject}: expected the arguments of update, got {describe(asked)}; {remedy}")
        known = {"expression", "priority", "place", "radius", "until", "metadata"}
        if not known.issuperset(asked):
            raise SubscriptionError(
                f"{subject}: expected {', '.join(sorted(known))}, got {sorted(set(asked) - known)[0]!r}"
            )
        source, priority, until = (asked.get(name, UNCHANGED) for name in ("expression", "priority", "until"))
        place, radius = asked.get("place"), asked.get("radius")
        end = math.inf if before.until is None else float(before.until[0])
        if until is not UNCHANGED:
            instant = self._instant(until, lambda: subject)
            end = math.inf if instant is None else instant
        value = float(before.priority[0]) if priority is UNCHANGED else priority
        if source is UNCHANGED:
            if place is not None or radius is not None:
                raise SubscriptionError(f"{subject}: a new place needs the expression as well; to move it, use move")
            rows = before._replace(priority=np.full(before.size, checked_priority(value, subject)))
            return rows.stamped(rows.schema, None if end == math.inf else np.full(rows.size, end))
        about = Described(source, value, place, radius, end)
        return self._reader.subscription(int(before.ids[0]), about, subject)

    def _replace(
        self, numbers: list[int], before: list[Rows], rows: list[Rows], change: Any, metadata: dict[int, object]
    ) -> None:
        old, new = (all_[0] if len(all_) == 1 else concatenate_rows(all_) for all_ in (before, rows))
        ids: Int64s = np.array(numbers, np.int64)
        with self._lock.write():
            self._subscriptions.replace(ids, old, new, change)
            for number, value in metadata.items():
                if value is None:
                    self._subscriptions.metadata.pop(number, None)
                else:
                    self._subscriptions.metadata[number] = value
            self._live.settle(self.schema, self.bad_values)
