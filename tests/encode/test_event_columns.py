"""Plain events read by columns: the same keys as read one by one, or left to that."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood import Engine
from matchwood.encode.arrays import Events
from matchwood.encode.checks import check_events
from matchwood.encode.event_columns import FEWEST, plain_events
from matchwood.encode.events import encode_events
from matchwood.encode.json_lines import read_json_events
from matchwood.errors import MatchwoodError
from matchwood.schema import Schema

TYPES = {"n": "number", "s": "string", "b": "bool", "place": "point", "in.n": "number", "t": "timestamp", "i": "id"}
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "n": st.one_of(st.sampled_from([None, -0.0, math.nan]), st.floats(), st.integers(-(2**53), 2**53)),
    "s": st.sampled_from(["x", "y", "new", None]),
    "b": st.sampled_from([True, False, None]),
    "place": st.one_of(
        st.tuples(st.floats(-180, 180), st.floats(-90, 90)),
        st.fixed_dictionaries({"lon": st.floats(-180, 180), "lat": st.floats(-90, 90)}),
    ),
    "unknown": st.sampled_from([1, [2], {"n": 3}]),
}
ODD: dict[str, list[Any]] = {
    "n": [True, "x", 2**53 + 1, -(2**60), [1, 2], {"lo": 1}, np.float64(2.0)],
    "s": [5, ["x", "y"], b"x"],
    "b": [1, "true"],
    "place": [
        (1, 2),
        (500.0, 0.0),
        [1.0, 2.0],
        {"lon": 1, "lat": 2.0},
        {"lon": 1.0, "lat": 2.0, "z": 0.0},
        {"lon": 1.0},
        {"lon": 200.0, "lat": 2.0},
        {"lon": 1.0, "lat": math.nan},
    ],
    "in": [{"n": 3}, {"n": "x"}, 7],
    "t": ["2026-01-01T00:00:00Z", "x", 5],
    "i": [7, 2**60, "x"],
}


def a_schema() -> Schema:
    schema = Schema(TYPES)
    encode_events([{"s": "x"}], schema, register=True)
    return schema


def some(values: dict[str, Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """A few events, each repeated so that there are enough."""
    always = {name: values[name] for name in ("n", "s")}
    one = st.fixed_dictionaries(always, optional={name: values[name] for name in values.keys() - always.keys()})
    return st.lists(one, min_size=1, max_size=5).map(lambda events: (events * FEWEST)[: FEWEST + 3])


def entries(events: Events) -> list[list[tuple[float, ...]]]:
    """The entries of each event by dimension: their order has no meaning."""
    bounds = events.offsets.tolist()
    table = list(zip(*(column.tolist() for column in events[1:]), strict=True))
    assert not any(math.copysign(1.0, entry[1]) < 0 and entry[1] == 0 for entry in table), "a negative zero"
    return [sorted(table[a:b], key=lambda entry: entry[0]) for a, b in pairwise(bounds)]


@pytest.mark.parametrize("register", [False, True])
@given(events=some(PLAIN))
def test_plain_events_have_the_keys_they_have_one_by_one(register: bool, events: list[dict[str, Any]]) -> None:
    schema, other = a_schema(), a_schema()
    if register:  # codes are given in the order of the events, so that both schemas have the same
        for each in (schema, other):
            encode_events([{"s": text} for text in ("x", "y", "new")], each, register=True)
    found = plain_events(events, schema, register=register)
    assert found is not None
    check_events(found)
    assert found.schema is schema
    assert entries(found) == entries(encode_events(events, other, register=register))


@given(events=some({name: st.one_of(PLAIN.get(name, st.none()), st.sampled_from(ODD[name])) for name in ODD}))
def test_other_events_are_read_one_by_one_or_have_the_same_keys(events: list[dict[str, Any]]) -> None:
    found = plain_events(events, a_schema())
    if found is not None:
        assert entries(found) == entries(encode_events(events, a_schema()))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ODD.items() for value in values])
def test_a_single_odd_value_leaves_the_batch_to_be_read_one_by_one(name: str, value: object) -> None:
    events: list[dict[str, Any]] = [{"n": i, "s": "x"} for i in range(FEWEST)]
    assert plain_events(events, a_schema()) is not None
    events[7][name] = value
    assert plain_events(events, a_schema()) is None


@pytest.mark.parametrize("value", ODD["place"])
def test_an_odd_place_among_plain_ones_leaves_the_batch_to_be_read_one_by_one(value: object) -> None:
    events: list[dict[str, Any]] = [{"place": {"lon": 10.0 + i, "lat": -90.0}} for i in range(FEWEST)]
    assert plain_events(events, a_schema()) is not None
    events[7]["place"] = value
    assert plain_events(events, a_schema()) is None


@pytest.mark.parametrize("name", sorted(ODD))
def test_a_batch_with_odd_values_gives_what_its_events_give_alone(name: str) -> None:
    """At the engine, strict and lenient: matches, rejected events and counts of bad values."""
    events: list[dict[str, Any]] = [{"n": i % 5, "s": "xy"[i % 2], "b": i % 3 == 0} for i in range(FEWEST)]
    for position, value in enumerate(ODD[name]):
        events[4 * position][name] = value
    for on_bad_value in ("raise", "absent"):
        engine = Engine(TYPES, index="scan", on_bad_value=on_bad_value)
        engine.subscribe_many(["n > 2", "s = 'x' AND b = TRUE", "in.n = 3", "i = 7", "t IS NOT NULL", "place IS NULL"])
        batch = engine.match_many(events)
        counted = {attribute: bad.count for attribute, bad in engine.bad_values.items()}
        for position, event in enumerate(events):
            try:
                alone = [tuple(match) for match in engine.match(event)]
            except MatchwoodError:
                assert position in batch.rejected
                alone = []
            ids, scores = batch.of(position)
            assert list(zip(ids.tolist(), scores.tolist(), strict=True)) == alone
        twice = {attribute: bad.count for attribute, bad in engine.bad_values.items()}
        assert twice == {attribute: 2 * count for attribute, count in counted.items()}


def test_events_of_different_attributes_are_read_one_by_one() -> None:
    schema = Schema({f"a{i}": "number" for i in range(FEWEST)})
    assert plain_events([{f"a{i}": i} for i in range(FEWEST)], schema) is None


def test_symbols_are_numbered_in_the_order_of_the_events() -> None:
    schema = Schema({"s": "string"})
    found = plain_events([{"s": f"text {i % 40}"} for i in range(80)], schema, register=True)
    assert found is not None
    assert found.lo.tolist() == [float(i % 40) for i in range(80)]


def test_json_lines_of_plain_events_keep_ids_positions_and_rejects() -> None:
    lines = [json.dumps({"id": 3 * i, "values": {"n": i, "s": "x"}}) for i in range(100)]
    schema = a_schema()
    good = read_json_events(lines, schema)
    assert good.ids.tolist() == [3 * i for i in range(100)]
    assert good.positions.tolist() == list(range(100))
    assert good.events.lo[0::2].tolist() == [float(i) for i in range(100)]
    for odd in (
        '{"id": 3, "values": {}}',
        '{"id": 7, "values": 5}',
        "{",
        '{"id": 7, "valeus": {}}',
        '{"values": {"n": "x"}}',
    ):
        found = read_json_events([*lines, odd], schema)
        assert found.ids.tolist() == good.ids.tolist()
        assert [reject.position for reject in found.rejects] == [100]
    parts = read_json_events([*lines, lines[5]], schema, batch_lines=50)
    assert [reject.position for reject in parts.rejects] == [100]
    assert "same id 15" in parts.rejects[0].reason
