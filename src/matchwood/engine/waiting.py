"""Values of live events that no subscription has named yet.

Events teach the schema nothing, so the type of such a value is not known when the event is published. The value waits here, as
JSON, until a subscription names its attribute; then it becomes part of the event in the index of live events. (One attribute at
a time: the first subscription that names an attribute pays for the live events that wait for it.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from matchwood.engine.ids import json_array, of_json_array
from matchwood.lang.event import PLACE, Event, checked_weights
from matchwood.lang.json_values import of_json, to_json
from matchwood.lang.nested import is_list_of_objects
from matchwood.schema import Schema


class WaitingValues(NamedTuple):
    """The values of one event that wait, as JSON, and their weights."""

    values: dict[str, Any]
    weights: dict[str, float]

    def event(self, names: Iterable[str]) -> Event:
        """An event of the values of these names."""
        return Event({name: of_json(self.values[name]) for name in names}, self.weights)


def waiting_values(event: Event | Mapping[str, object], schema: Schema) -> WaitingValues | None:
    """The values of an event that the schema has no type for; nested objects too, of which it may know a part. O(values)."""
    given = event.values if isinstance(event, Event) else event
    known, values = schema.attributes, {}
    for name, value in given.items():
        attribute = known.get(name)
        if attribute is None or attribute.type is None or is_list_of_objects(value):
            found = to_json(value)
            if found is not None:
                values[str(name)] = found
    if not isinstance(event, Event):
        return WaitingValues(values, {}) if values else None
    place = known.get(PLACE)
    if event.place is not None and (place is None or place.type is None):
        values[PLACE] = to_json(event.place)
    return WaitingValues(values, checked_weights(event.weights) if event.weights else {}) if values else None


class Waiting:
    """The waiting values of live events by event id. One writer."""

    def __init__(self) -> None:
        self._events: dict[int, WaitingValues] = {}
        self._names: Counter[str] = Counter()
        self._mark = 0  # the steps of the schema's learning that have been looked at

    def add(self, id_: int, values: WaitingValues | None) -> None:
        """Note the waiting values of an event; None for none. O(values)."""
        if values is not None:
            self._events[id_] = values
            self._names.update(values.values.keys())

    def discard(self, ids: Iterable[int]) -> None:
        """Forget the values of events that are gone. O(values)."""
        if not self._events:
            return
        for id_ in ids:
            values = self._events.pop(id_, None)
            if values is not None:
                self._names.subtract(values.values.keys())

    def learnt(self, schema: Schema) -> tuple[set[str], dict[int, Event]]:
        """The attributes learnt since the last call; and of each event that waits for one, these values as an event.

        O(attributes learnt), and O(waiting events) if any of them waits for one. Values stay here until `settle`.
        """
        mark = schema.mark()
        names = set(schema.learnt_since(self._mark)) if mark > self._mark else set()
        self._mark = mark
        if not self._events:
            return names, {}
        paths = {path for name in names for path in _paths(name) if self._names[path] > 0}
        found = {id_: paths & values.values.keys() for id_, values in self._events.items()} if paths else {}
        return names, {id_: self._events[id_].event(names) for id_, names in found.items() if names}

    def settle(self, ids: Iterable[int], schema: Schema) -> None:
        """Forget values that have become part of their events. A nested object stays: other values in it may still wait."""
        for id_ in ids:
            values = self._events[id_]
            for name in [n for n, value in values.values.items() if _is_settled(n, value, schema)]:
                del values.values[name]
                self._names[name] -= 1
            if not values.values:
                del self._events[id_]

    def forget_since(self, mark: int) -> None:
        """The schema has forgotten what it learnt since this mark: look again at what it learns after it."""
        self._mark = min(self._mark, mark)

    def values_of(self, ids: Iterable[int]) -> dict[int, WaitingValues]:
        """Copies of the values of these events, for `add`."""
        found = {id_: self._events[id_] for id_ in ids if id_ in self._events}
        return {id_: WaitingValues(dict(w.values), w.weights) for id_, w in found.items()}

    def array(self) -> np.ndarray:
        """Everything as the bytes of a JSON document, for saving."""
        return json_array({str(id_): values for id_, values in self._events.items()})

    @classmethod
    def of_array(cls, saved: np.ndarray, schema: Schema) -> Waiting:
        """What `array` gave."""
        waiting = cls()
        for id_, (values, weights) in of_json_array(saved).items():
            waiting.add(int(id_), WaitingValues(values, weights))
        waiting._mark = schema.mark()
        return waiting


def _paths(name: str) -> list[str]:
    """A dotted name and the paths of the objects that it lies in."""
    return [name, *(name[:at] for at, sign in enumerate(name) if sign == ".")]


def _is_settled(name: str, value: object, schema: Schema) -> bool:
    attribute = schema.get(name)
    return attribute is not None and attribute.type is not None and not _has_names(value)


def _has_names(value: object) -> bool:
    """Has the value names inside it, which a subscription may name later?"""
    return isinstance(value, dict) or is_list_of_objects(value)
