"""The record of each change of an engine, made of what the user gave."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from matchwood.engine.changing import UNCHANGED, Unchanged
from matchwood.engine.ids import Id
from matchwood.engine.reading import Place
from matchwood.engine.records import Kept, Moved, Subscribed, Updated, expression_text, place_pair
from matchwood.lang.event import Event
from matchwood.lang.json_values import to_json
from matchwood.schema import instant_key


def plain_id(id_: Any) -> int | str:
    """An id as it is recorded."""
    return str(id_) if isinstance(id_, str) else int(id_)


def instant(until: object) -> int | None:
    """An instant as it is recorded: in microseconds since 1970."""
    return None if until is None else int(instant_key(until))


def subscribed(id_: Any, source: object, **given: Any) -> Subscribed:
    """A subscription was added; `given` are the arguments of `subscribe`."""
    return Subscribed(
        id=plain_id(id_),
        expression=expression_text(source),
        priority=float(given.get("priority") or 0.0),
        place=place_pair(given.get("place")),
        radius=_metres(given.get("radius")),
        until=instant(given.get("until")),
        metadata=given.get("metadata"),
    )


def _metres(radius: Any) -> float | None:
    return None if radius is None else float(radius)


def updated(id_: Id, asked: Mapping[str, Any]) -> Updated:
    """A subscription was changed; `asked` are the arguments of `update`."""
    changes = {n: v for n, v in asked.items() if v is not UNCHANGED and not isinstance(v, Unchanged)}
    made: dict[str, Any] = {}
    if "expression" in changes:
        made["expression"] = expression_text(changes["expression"])
        made["place"] = place_pair(changes.get("place"))
        made["radius"] = _metres(changes.get("radius"))
    if "priority" in changes:
        made["priority"] = float(changes["priority"])
    if "until" in changes:
        made["until"] = instant(changes["until"])
    if "metadata" in changes:
        made["metadata"] = changes["metadata"]
    return Updated(id=plain_id(id_), **made)


def repeatable(event: Event | Mapping[str, object]) -> Event | Mapping[str, object]:
    """An event whose values can be read twice."""
    values = event.values if isinstance(event, Event) else event
    if not isinstance(values, Mapping) or not any(isinstance(value, Iterator) for value in values.values()):
        return event
    read = {name: tuple(value) if isinstance(value, Iterator) else value for name, value in values.items()}
    return dataclasses.replace(event, values=read) if isinstance(event, Event) else read


def moved(id_: Id, place: Place, expression: str) -> Moved:
    """A subscription was moved to a place; its normal form is this now."""
    pair = place_pair(tuple(place) if isinstance(place, np.ndarray) else place)
    assert pair is not None
    return Moved(id=plain_id(id_), place=pair, expression=expression)


def kept(number: int, event: Event | Mapping[str, object], until: object) -> Kept:
    """An event is alive under this number, until an instant that is given or its own."""
    weights: dict[str, float] = {}
    values: dict[str, Any]
    if isinstance(event, Event):
        values = {str(name): to_json(value) for name, value in event.values.items()}
        if event.place is not None:
            lon, lat = place_pair(event.place) or (0.0, 0.0)
            values["place"] = {"lon": lon, "lat": lat}
        weights = {str(name): float(weight) for name, weight in event.weights.items()}
        until = event.until if until is None else until
    else:
        values = {str(name): to_json(value) for name, value in event.items()}
    end = instant(until)
    assert end is not None
    return Kept(number=number, until=end, values=values, weights=weights)
