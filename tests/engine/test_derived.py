"""Derived attributes in every encoder, in live events, in saved folders and in journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from matchwood import Engine, Event
from matchwood.encode.arrays import Events
from matchwood.encode.event_columns import FEWEST, plain_events
from matchwood.encode.events import encode_events
from matchwood.encode.json_lines import read_json_events
from matchwood.encode.tables import read_events
from matchwood.errors import MatchwoodError
from matchwood.lang.evaluate import rank
from matchwood.lang.event import event_keys
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from tests.worlds import ranked

LATER = "9999-01-01"
TEXTS = [
    "CASEI(city) = 'OSLO'",
    "CASEI(city) != 'oslo' ^0.5 AND n > 1",
    "CASEI(ACCENTI(city)) IN ('evry', 'bodø')",
    "ACCENTI(user.name) = 'Zoe' ^2 OR n = 0",
    "city = 'oslo' AND CASEI(city) = 'oslo'",
    "CASEI(user.name) IS NULL",
]
CITIES = ["Oslo", "OSLO", "oslo", "Évry", "evry", "ÉVRY", "Bodø", "", None, "x"]
NAMES = ["Zoë", "ZOE", None, "zoe", "Zoe"]


def keys_by_event(events: Events) -> list[dict[int, list[float]]]:
    found: list[dict[int, list[float]]] = [{} for _ in range(events.size)]
    for event in range(events.size):
        for entry in range(events.offsets[event], events.offsets[event + 1]):
            found[event].setdefault(int(events.dims[entry]), []).append(float(events.lo[entry]))
    return found


def a_schema() -> Schema:
    schema = Schema()
    for text in TEXTS:
        normalise(parse(text), schema)
    return schema


def scalar_events(count: int = 60) -> list[dict[str, Any]]:
    return [
        {"city": CITIES[i % len(CITIES)], "n": i % 3, "user.name": NAMES[i % len(NAMES)], "other": i}
        for i in range(count)
    ]


def test_all_encoders_make_the_same_keys() -> None:
    schema, events = a_schema(), scalar_events()
    expected = keys_by_event(encode_events(events, schema))
    columns = plain_events(events, schema)
    assert columns is not None
    assert len(events) >= FEWEST
    assert keys_by_event(columns) == expected
    table = pa.table({name: [event[name] for event in events] for name in events[0]})
    assert keys_by_event(read_events(table, schema).events) == expected
    lines = [json.dumps({"values": event}) for event in events]
    assert keys_by_event(read_json_events(lines, schema).events) == expected


def test_lists_are_united_in_all_encoders() -> None:
    schema = a_schema()
    lists = [["Oslo", "OSLO", "x"], ["Évry", None], [], None, ["évry", "EVRY", "oslo", "b"]]
    expected = keys_by_event(encode_events([{"city": value} for value in lists], schema))
    table = pa.table({"city": pa.array(lists, pa.list_(pa.string()))})
    assert keys_by_event(read_events(table, schema).events) == expected
    values = [
        [{"attribute": "city", "values": value, "text": None}, {"attribute": "city", "values": None, "text": "Oslo"}]
        for value in lists
    ]
    both = [{"city": [*(value or []), "Oslo"]} for value in lists]
    listed = pa.table({"values": values})
    assert keys_by_event(read_events(listed, schema).events) == keys_by_event(encode_events(both, schema))


@pytest.mark.parametrize("as_table", [False, True])
def test_the_engine_agrees_with_the_oracle(as_table: bool) -> None:
    engine = Engine()
    ids = engine.subscribe_many(TEXTS)
    events = scalar_events()
    schema = engine.schema
    rows = [(int(id_), 0.0, normalise(parse(text), schema)) for id_, text in zip(ids, TEXTS, strict=True)]
    expected = [rank(rows, event_keys(event, schema)) for event in events]
    assert any(expected)
    given: Any = pa.table({name: [event[name] for event in events] for name in events[0]}) if as_table else events
    assert ranked(engine.match_many(given)) == expected  # type: ignore[arg-type]
    if not as_table:
        assert [[(m.id, m.score) for m in engine.match(event)] for event in events] == expected


def test_a_function_that_comes_later_is_computed_for_live_events() -> None:
    engine = Engine()
    engine.subscribe("city = 'x'")
    engine.publish(Event({"city": "OSLO", "name": "Zoë"}, weights={"city": 3.0}), until=LATER)
    engine.publish({"city": ["a", "Oslo"]}, until=LATER)
    engine.publish({"n": 1}, until=LATER)
    assert engine.subscribe("CASEI(city) = 'oslo'").live == [(0, 3.0), (1, 1.0)]
    assert engine.subscribe("CASEI(ACCENTI(name)) = 'zoe'").live == [(0, 1.0)]
    assert engine.subscribe("CASEI(city) != 'oslo'").live == []
    engine.publish({"city": "oslO"}, until=LATER)
    assert [found.event for found in engine.subscribe("CASEI(city) = 'oslo'").live] == [0, 1, 3]


def test_a_refused_subscription_leaves_live_events_as_they_were() -> None:
    engine = Engine()
    engine.subscribe("city = 'x'", id=7)
    engine.publish({"city": "OSLO"}, until=LATER)
    with pytest.raises(MatchwoodError):
        engine.subscribe("CASEI(city) = 'oslo'", id=7)
    assert engine.schema.find("city").derived == ()
    assert [found.event for found in engine.subscribe("CASEI(city) = 'oslo'").live] == [0]


def test_a_saved_engine_goes_on(tmp_path: Path) -> None:
    engine = Engine()
    engine.subscribe_many(TEXTS)
    engine.publish({"city": "OSLO"}, until=LATER)
    engine.save(tmp_path / "saved")
    again = Engine.load(tmp_path / "saved")
    assert ranked(again.match_many(scalar_events())) == ranked(engine.match_many(scalar_events()))  # type: ignore[arg-type]
    assert [found.event for found in again.subscribe("CASEI(city) = 'oslo'").live] == [0]


def test_a_durable_engine_restarts_with_its_functions(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "engine") as engine:
        engine.publish({"city": "OSLO"}, until=LATER)
        engine.subscribe("CASEI(city) = 'oslo'")
    with Engine.open(tmp_path / "engine") as engine:
        assert engine.match({"city": "oSLO"}) == [(0, 1.0)]
        assert [found.event for found in engine.live(0)] == [0]


def test_strings_of_derived_attributes_are_reclaimed() -> None:
    engine = Engine()
    ids = engine.subscribe_many([f"CASEI(city) = 'City {i}'" for i in range(6_000)])
    engine.unsubscribe_many(ids[:-1])
    (derived,) = engine.schema.find("city").derived
    assert derived.symbols is not None
    assert len(derived.symbols.codes) < 6_000
    assert engine.match({"city": "CITY 5999"}) == [(5999, 1.0)]
