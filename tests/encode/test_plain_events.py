"""Plain events take a short way to arrays; it leads where the long way leads, whatever the record."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matchwood.encode import json_lines
from matchwood.encode.plain_events import plain_event
from matchwood.schema import Schema

NAMES = ("n", "s", "b", "t", "place", "new")
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.floats(),
    st.integers(-(2**60), 2**60),
    st.sampled_from(["x", "y", "z", "2026-01-01"]),
    st.booleans(),
    st.none(),
    st.lists(st.integers(0, 3), max_size=2),
    st.fixed_dictionaries({"min": st.integers(0, 3)}),
    st.fixed_dictionaries({"lon": st.integers(0, 3), "lat": st.integers(0, 3)}),
)
RECORDS = st.fixed_dictionaries(
    {"id": st.integers(0, 10**6), "values": st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)},
    optional={
        "place": st.lists(st.one_of(st.floats(-200, 200), st.integers(-200, 200)), min_size=1, max_size=3),
        "weights": st.fixed_dictionaries({"n": st.floats(0, 2)}),
    },
)


def schema() -> Schema:
    known = Schema({"n": "number", "s": "string", "b": "bool", "t": "timestamp", "place": "point"})
    known.key(known.find("s"), "x")
    return known


@given(st.lists(RECORDS, max_size=8))
def test_the_short_way_leads_where_the_long_way_leads(records: list[dict[str, Any]]) -> None:
    lines = [json.dumps(record) for record in records]
    short = json_lines.read_json_events(lines, schema())
    original = json_lines.plain_event
    json_lines.plain_event = lambda record, schema: None
    try:
        long = json_lines.read_json_events(lines, schema())
    finally:
        json_lines.plain_event = original
    for name in ("ids", "positions", "until"):
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name))
    for ours, theirs in zip(short.events, long.events, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
    assert short.rejects == long.rejects


def test_a_plain_record_takes_the_short_way() -> None:
    record = {"id": 1, "values": {"n": 3, "s": "unseen", "b": True}, "place": [1.0, 2.0]}
    found = plain_event(record, schema())
    assert found is not None
    assert found.keys == [3.0, -1.0, 1.0, 1.0, 2.0]
