"""Events to arrays: whatever the event, the arrays hold what `event_keys` says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.encode.arrays import Events
from matchwood.encode.checks import check_events
from matchwood.encode.events import EventReader, encode_events
from matchwood.errors import EventError, MatchwoodError
from matchwood.lang.bad_values import BadValues
from matchwood.lang.event import Event, event_keys
from matchwood.lang.json_values import of_json, to_json
from matchwood.schema import Point, Range, Schema

TYPES = {
    "n": "number",
    "s": "string",
    "b": "bool",
    "t": "timestamp",
    "place": "point",
    "in.n": "number",
    "in.deep.s": "string",
    "i": "id",
}
NAMES = ("n", "s", "i", "b", "t", "place", "presence", "in.n", "new")
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.floats(),
    st.integers(-(2**60), 2**60),
    st.sampled_from(["x", "y", "z", "2026-01-01"]),
    st.booleans(),
    st.none(),
    st.decimals(-5, 5, places=2),
    st.sampled_from([np.float64(2.5), np.int32(3), np.bool_(True), np.str_("x"), np.datetime64("2026-01-01")]),
    st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 2), b"x", object()]),
    st.builds(Point, st.integers(-200, 200), st.integers(-100, 100)),
    st.tuples(st.integers(-200, 200), st.floats(-100, 100)),
    st.builds(Range, st.integers(0, 3), st.integers(1, 4)),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["n", "deep", "lon", "lat", 5]), SCALARS, max_size=2),
    st.fixed_dictionaries({"deep": st.dictionaries(st.sampled_from(["s", "x"]), SCALARS, max_size=2)}),
)
DICTS = st.dictionaries(st.sampled_from([*NAMES, "in", 5]), VALUES, max_size=6)
EVENTS = st.one_of(
    DICTS,
    st.builds(
        Event,
        DICTS,
        weights=st.dictionaries(st.sampled_from(NAMES), st.floats(0, 2), max_size=3),
        place=st.one_of(st.none(), st.tuples(st.floats(-180, 180), st.floats(-90, 90))),
    ),
)


def schema() -> Schema:
    known = Schema(TYPES)
    known.find("presence")
    known.key(known.find("s"), "x")
    return known


def decoded(events: Events, e: int, schema: Schema) -> dict[str, Any]:
    """Of each attribute of an event its weight and its intervals, or its point."""
    found: dict[str, Any] = {}
    for i in range(int(events.offsets[e]), int(events.offsets[e + 1])):
        name = schema.of_dimension(int(events.dims[i])).name
        found.setdefault(name, (events.weight[i], []))[1].append((events.lo[i], events.hi[i]))
    return found


def said(call: Callable[[], object]) -> str:
    """The error of a call as text; none if there is none."""
    try:
        call()
    except MatchwoodError as error:
        return repr(error)
    return ""


def expected(event: Any, schema: Schema, bad: BadValues | None) -> dict[str, Any]:
    keys = event_keys(event, schema, bad=bad)
    return {
        name: (keys.weight(name), [(c, c) for c in value] if isinstance(value, Point) else list(value.parts))
        for name, value in keys.values.items()
    }


@given(st.lists(EVENTS, max_size=5), st.booleans())
def test_the_reader_agrees_with_the_reference(events: list[Any], is_lenient: bool) -> None:
    ours, theirs = schema(), schema()
    bad, counted = (BadValues(), BadValues()) if is_lenient else (None, None)
    reader, good = EventReader(ours, bad=bad), []
    for event in events:
        theirs_said = said(lambda: good.append(expected(event, theirs, counted)))  # noqa: B023
        assert said(lambda: reader.add(event)) == theirs_said  # noqa: B023
    arrays = reader.build()
    check_events(arrays)
    assert [decoded(arrays, e, ours) for e in range(arrays.size)] == good
    assert ours.to_json() == theirs.to_json() == schema().to_json()
    assert bad == counted


def test_the_last_event_can_be_removed() -> None:
    known = Schema({"n": "number"})
    reader = EventReader(known)
    reader.add(Event({"n": Range(1, 2)}, weights={"n": 0.5}))
    reader.add(Event({"n": [Range(3, 4), 7]}, weights={"n": 0.25}))
    reader.remove_last()
    reader.add({"n": 5})
    assert len(reader) == 2
    arrays = reader.take()
    assert [arrays.lo.tolist(), arrays.hi.tolist(), arrays.weight.tolist()] == [[1.0, 5.0], [2.0, 5.0], [0.5, 1.0]]
    assert reader.build().size == 0


def test_an_error_names_the_event() -> None:
    with pytest.raises(EventError, match="event 1: expected an Event or a mapping"):
        encode_events([{}, 5], Schema())  # type: ignore[list-item]


@given(VALUES)
def test_a_value_as_json_is_the_same_value(value: Any) -> None:
    """What waits as JSON is read later as if it had been read at once."""
    again = of_json(to_json(value))
    for name in TYPES:
        known = schema()
        try:
            now = event_keys({name: value}, known).values
        except MatchwoodError:
            continue  # what is refused at once may be refused or absent later
        assert event_keys({name: again}, known).values == now


def test_a_decimal_becomes_the_nearest_float() -> None:
    assert to_json(Decimal("2.5")) == 2.5


def test_events_that_are_stored_may_teach_the_schema() -> None:
    known = Schema()
    reader = EventReader(known, register=True, learn=True)
    values = {
        "n": [None, 2.5],
        "s": "x",
        "b": True,
        "t": date(2026, 1, 2),
        "p": {"lon": 1, "lat": 2},
        "r": Range(None, 3),
    }
    reader.add(Event({**values, "in": {"n": 4}, "none": None}, place=(3, 4)))
    reader.add({"n": 7, "s": "y"})
    assert {a.name: str(a.type) for a in known} == {
        "n": "number",
        "s": "string",
        "b": "bool",
        "t": "timestamp",
        "p": "point",
        "r": "number",
        "in.n": "number",
        "place": "point",
    }
    with pytest.raises(MatchwoodError, match="attribute 'odd': expected a number, string"):
        reader.add({"odd": 1j})
    arrays = reader.build()
    check_events(arrays)
    assert decoded(arrays, 1, known) == {"n": (1.0, [(7.0, 7.0)]), "s": (1.0, [(1.0, 1.0)])}


@pytest.mark.parametrize(
    "event",
    [
        {"user.age": 4, "user": {"age": 3}},
        {"user": {"age": 3}, "user.age": 4},
        {"user": {"age": [3, 4]}, "user.age": [5]},
        {"user": {"home": {"city": "Oslo"}, "home.city": "Bergen"}},
    ],
)
def test_an_attribute_of_a_nested_object_is_not_given_by_its_dotted_name_too(event: dict[str, object]) -> None:
    schema = Schema({"user.age": "number", "user.home.city": "string"})
    for read in (lambda: event_keys(event, schema), lambda: encode_events([event], schema)):
        with pytest.raises(EventError, match="is given twice"):
            read()
    reader = EventReader(schema)
    with pytest.raises(EventError, match="is given twice"):
        reader.add(event)
    reader.add({"user": {"age": 7}})
    assert reader.build().lo.tolist() == [7.0]
