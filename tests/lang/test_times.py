"""Parts of instants in time zones (HOUR, WEEKDAY, ...) and ages: against Python's calendar, in every encoder and every index."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from matchwood import Engine, Event, ManualClock, Range, Schema, attr, parse
from matchwood.encode.arrays import Events
from matchwood.encode.event_columns import plain_events
from matchwood.encode.events import encode_events
from matchwood.encode.json_lines import read_json_events
from matchwood.encode.tables import read_events
from matchwood.errors import ExpressionError, ParseError, SchemaError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.expression import Expression
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.rows import normalise
from matchwood.schema.calendar import part_of
from matchwood.schema.durations import seconds_of
from matchwood.schema.keys import instant_key
from matchwood.structures import INDEXES

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "+05:30",
    "UTC",
)
TEXTS = (
    "HOUR(t, 'Europe/Berlin') BETWEEN 9 AND 16 AND WEEKDAY(t, 'Europe/Berlin') NOT IN ('SAT', 'SUN') ^0.5",
    "WEEKDAY(t, 'Asia/Tokyo') = 'MON'",
    "TIME(t, 'America/New_York') < '09:30' OR TIME(t, 'America/New_York') >= '16:00'",
    "MONTH(t) IN ('mar', 10) ^2 AND DAY(t) > 20",
    "NOT (YEAR(t, '+05:30') = 2026)",
    "HOUR(t) IS NULL AND t IS NOT NULL",
    "AGE(t) < '1 d'",
    "AGE(t) > '1 d' AND t > DATE('2026-03-01')",
    "NOT (AGE(t, seen) BETWEEN 0 AND 'PT6H' ^3)",
    "AGE(t, seen) >= 0 AND HOUR(seen) < 12",
)


def moments() -> st.SearchStrategy[datetime]:
    """Instants of any time, and around the days on which clocks change."""
    any_time = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
    changes = st.sampled_from(
        [datetime(2026, 3, 29, 1), datetime(2026, 10, 25, 1), datetime(2026, 4, 4, 15), datetime(2026, 3, 8, 7)]
    )
    near = st.tuples(changes, st.integers(-7200, 7200)).map(
        lambda pair: pair[0].replace(tzinfo=UTC) + timedelta(seconds=pair[1])
    )
    return any_time | near


@given(moments(), st.sampled_from(ZONES))
@example(datetime(2026, 3, 29, 0, 59, 59, 999_999, tzinfo=UTC), "Europe/Berlin")
@example(datetime(1890, 1, 1, 0, 0, 1, tzinfo=UTC), "Europe/Berlin")
@example(datetime(1, 1, 1, tzinfo=UTC), "+05:30")
def test_parts_are_those_of_the_calendar_in_the_zone(moment: datetime, zone: str) -> None:
    if zone == "+05:30":
        local = (moment + timedelta(hours=5, minutes=30)).replace(tzinfo=None)
    else:
        local = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    seconds = (local - local.replace(hour=0, minute=0, second=0, microsecond=0)) / timedelta(seconds=1)
    expected = {
        "HOUR": local.hour,
        "WEEKDAY": local.isoweekday(),
        "TIME": seconds,
        "DAY": local.day,
        "MONTH": local.month,
        "YEAR": local.year,
    }
    key = instant_key(moment)
    assert {part: part_of(part, zone)(key) for part in expected} == expected


def test_an_instant_outside_the_calendar_has_no_parts() -> None:
    for key in (float("inf"), -float("inf"), 9e17, -9e17, instant_key(datetime(9999, 12, 31, 23, tzinfo=UTC))):
        assert part_of("HOUR", "Asia/Tokyo")(key) is None


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (attr("t").hour("Europe/Berlin") > 9, "HOUR(t, 'Europe/Berlin') > 9"),
        (
            attr("my t", weight=2).weekday("Asia/Tokyo").is_in(["MON", 2]),
            "WEEKDAY(\"my t\", 'Asia/Tokyo') IN ('Monday', 2) ^2",
        ),
        (attr("t").time_of_day().between("09:30", "17:00:00.5"), "TIME(t) BETWEEN 34200 AND 61200.5"),
        (attr("t").day() == 1, "DAY(t) = 1"),
        (attr("t").month() == "december", "MONTH(t) = 12"),
        (attr("t").year("+02:00") >= 2026, "YEAR(t, '+02:00') >= 2026"),
        (attr("t").age() < "90 min", "AGE(t) < 'PT1H30M'"),
        (attr("a b").age("c d") <= "-1.5 s", 'AGE("a b", "c d") <= -1.5'),
        (attr("t").age("it's").is_not_null(), 'AGE(t, "it\'s") IS NOT NULL'),
    ],
)
def test_text_python_and_json_make_the_same_tree(tree: Expression, text: str) -> None:
    assert tree == parse(text) == parse(str(tree)) == from_json(to_json(tree))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HOUR(t, 'Berlin') > 3", "unknown time zone 'Berlin'"),
        ("HOUR(t, '../x') > 3", "unknown time zone"),
        ("HOUR(t, '..') > 3", "unknown time zone"),
        ("HOUR(t, 'Europe') > 3", "unknown time zone"),
        ("HOUR(t, '+99:00') > 3", "unknown time zone"),
        ("HOUR(t, 5) > 3", "expected a string in single quotes as the second argument of HOUR"),
        ("HOUR(t) = 'nine'", "expected a number for HOUR"),
        ("WEEKDAY(t) = 'Mo'", "a name such as 'MON'"),
        ("TIME(t) < '25:00'", "a time such as '09:30'"),
        ("AGE(t) < '1 month'", "months and years have no fixed length"),
        ("AGE(t) < 'P'", "expected a duration"),
        ("AGE(t, 'seen') < 5", "expected the name of an attribute"),
        ("HOUR('2026-01-01') < 5", "HOUR of a constant"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


def test_a_wrong_argument_in_json_is_refused_with_its_place() -> None:
    with pytest.raises(ExpressionError, match=r"\$.args\[0\]: unknown time zone"):
        from_json({"op": ">", "args": [{"op": "hour", "args": [{"property": "t"}, "Berlin"]}, 3]})
    with pytest.raises(ExpressionError, match="expected a property and at most a second one"):
        from_json({"op": ">", "args": [{"op": "age", "args": [{"property": "t"}, "seen"]}, 3]})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT0.5S", 0.5), ("P1DT2H", 93_600), ("2 weeks", 1_209_600), ("-5m", -300), ("P1W", 604_800), ("250 ms", 0.25)],
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


def a_schema() -> Schema:
    schema = Schema()
    for text in TEXTS:
        normalise(parse(text), schema)
    return schema


def some_events(count: int, *, plain: bool = False, seed: int = 3) -> list[dict[str, Any]]:
    draw = random.Random(seed)

    def moment() -> datetime:
        return NOW + timedelta(seconds=draw.randint(-12_000_000, 5_000))

    def value() -> Any:
        several: list[Any] = [None] if plain else [None, [moment(), moment()], Range(NOW - timedelta(days=2), NOW)]
        return draw.choice([moment(), moment(), moment(), moment(), *several])

    return [{"t": value(), "seen": value()} for _ in range(count)]


def keys_by_event(events: Events) -> list[dict[int, list[tuple[float, float, float]]]]:
    found: list[dict[int, list[tuple[float, float, float]]]] = [{} for _ in range(events.size)]
    for event in range(events.size):
        for at in range(events.offsets[event], events.offsets[event + 1]):
            entry = float(events.lo[at]), float(events.hi[at]), float(events.weight[at])
            found[event].setdefault(int(events.dims[at]), []).append(entry)
    return found


def expected_keys(event: dict[str, Any], schema: Schema) -> dict[int, list[tuple[float, float, float]]]:
    keys = event_keys(event, schema)
    found = {schema.find(name).dims[0]: value for name, value in keys.values.items()}
    return {dim: [(lo, hi, 1.0) for lo, hi in value.parts] for dim, value in found.items()}  # type: ignore[union-attr]


def test_all_encoders_make_the_keys_of_the_oracle() -> None:
    schema, events = a_schema(), some_events(60, plain=True)
    expected = [expected_keys(event, schema) for event in events]
    assert any(len(keys) > 6 for keys in expected)
    assert keys_by_event(encode_events(events, schema)) == expected
    plain = plain_events(events, schema)
    assert plain is None or keys_by_event(plain) == expected
    column = {name: pa.array([event[name] for event in events], pa.timestamp("us", "UTC")) for name in ("t", "seen")}
    assert keys_by_event(read_events(pa.table(column), schema).events) == expected
    texts = [{name: value.isoformat() for name, value in event.items() if value} for event in events]
    lines = [json.dumps({"values": event}) for event in texts]
    assert keys_by_event(read_json_events(lines, schema).events) == expected
    assert keys_by_event(encode_events(texts, schema)) == expected
    statements = [
        [{"attribute": n, "lo_time": value, "hi_time": value} for n, value in event.items() if value]
        for event in events
    ]
    time = pa.timestamp("us", "UTC")
    kind = pa.list_(pa.struct([("attribute", pa.string()), ("lo_time", time), ("hi_time", time)]))
    listed = read_events(pa.table({"values": pa.array(statements, kind)}), schema)
    assert not listed.rejects
    assert keys_by_event(listed.events) == expected


def test_lists_and_ranges_have_the_keys_of_the_oracle() -> None:
    schema, events = a_schema(), some_events(60)
    assert keys_by_event(encode_events(events, schema)) == [expected_keys(event, schema) for event in events]


@pytest.mark.parametrize("index", [*INDEXES, "auto"])
def test_every_index_answers_as_the_oracle_does(index: str) -> None:
    engine = Engine(index=index, clock=ManualClock(NOW))
    engine.subscribe_many(TEXTS)
    rows = [normalise(parse(text), engine.schema) for text in TEXTS]
    matched = set()
    for event in some_events(40, seed=5):
        keys = event_keys(event, engine.schema, now=instant_key(NOW))
        expected = {i: score for i, own in enumerate(rows) if (score := judge(own, keys).score) is not None}
        assert {match.id: match.score for match in engine.match(event)} == expected
        matched |= expected.keys()
    assert len(matched) == len(TEXTS)


def test_a_batch_and_a_table_have_the_ages_of_single_events() -> None:
    engine = Engine(clock=ManualClock(NOW))
    engine.subscribe_many(TEXTS)
    events = some_events(60, plain=True, seed=6)
    table = pa.table({name: pa.array([e[name] for e in events], pa.timestamp("us", "UTC")) for name in ("t", "seen")})
    single = [[match.id for match in engine.match(event)] for event in events]
    for form in (events, table):
        found = engine.match_many(form)
        assert [found.ids[a:b].tolist() for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)] == single


def test_the_age_of_a_live_event_grows_with_the_clock() -> None:
    clock = ManualClock(NOW)
    engine = Engine(clock=clock)
    fresh = engine.subscribe("AGE(t) < '1 h' ^2 AND t IS NOT NULL")
    engine.publish(Event({"t": NOW - timedelta(minutes=30)}, weights={"t": 3.0}), until=NOW + timedelta(days=9))
    assert engine.live(fresh) == [(0, 9.0)]
    clock.advance(minutes=30, seconds=-1)
    assert engine.live(fresh) == [(0, 9.0)]
    clock.advance(seconds=1)
    assert engine.live(fresh) == []
    assert engine.subscribe("AGE(t) BETWEEN '1 h' AND 3600").live == [(0, 3.0)]
    assert engine.subscribe("AGE(t) > 3600").live == []
    assert engine.subscribe("NOT (AGE(t) > 3600) AND AGE(t) != 5").live == [(0, 3.0 + 3.0)]
    assert engine.subscribe("AGE(t) IS NULL").live == []


@given(st.integers(0, 10**12), st.floats(-1e7, 1e7), st.sampled_from(["<", "<=", ">", ">=", "=", "!="]))
def test_a_live_query_asks_for_the_instants_that_the_age_means(micros: int, bound: float, operator: str) -> None:
    arriving, live = (Engine(index="scan", clock=ManualClock(NOW)) for _ in range(2))
    event = {"t": NOW - timedelta(microseconds=micros)}
    live.publish(event, until=NOW + timedelta(days=1))
    for value in (bound, micros / 1e6):
        text = f"AGE(t) {operator} {value!r}"
        assert bool(live.subscribe(text).live) == (arriving.subscribe(text) in {m.id for m in arriving.match(event)})


def test_a_function_that_comes_later_is_computed_for_live_events() -> None:
    engine = Engine(clock=ManualClock(NOW))
    engine.publish({"t": "2026-05-01T07:00:00Z", "seen": "2026-05-01T07:01:00Z"}, until="2026-06-01")
    assert engine.subscribe("HOUR(t, 'Europe/Berlin') = 9").live == [(0, 1.0)]
    assert engine.subscribe("AGE(t, seen) = '1 min'").live == [(0, 1.0)]
    assert engine.subscribe("AGE(t, never) IS NULL").live == [(0, 1.0)]


def test_a_durable_engine_has_the_same_answers_after_it_is_opened_again(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    texts = ["AGE(t) < '1 h'", "HOUR(t, 'Asia/Tokyo') = 20", "AGE(t, seen) = 60"]
    with Engine.open(tmp_path / "e", clock=clock) as engine:
        ids = engine.subscribe_many(texts)
        engine.publish({"t": NOW - timedelta(minutes=30), "seen": NOW - timedelta(minutes=29)}, until="2026-06-01")
        before = [engine.live(id_) for id_ in ids]
        assert before == [[(0, 1.0)]] * 3
    with Engine.open(tmp_path / "e", clock=clock) as engine:
        assert [engine.live(id_) for id_ in ids] == before
        engine.snapshot()
    clock.advance(hours=1)
    with Engine.open(tmp_path / "e", clock=clock) as engine:
        assert [engine.live(id_) for id_ in ids] == [[], *before[1:]]


def test_without_a_clock_only_ages_of_two_attributes_are_accepted() -> None:
    schema = Schema()
    schema.has_clock = False
    normalise(parse("AGE(t, seen) < 5"), schema)
    with pytest.raises(SchemaError, match="name a second attribute"):
        normalise(parse("AGE(t) < 5"), schema)
