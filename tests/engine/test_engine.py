"""The facade: what a user can do with it, what it refuses, and that it says what the oracle says."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from matchwood import Engine, Event, ManualClock, Match, Point, Range, Ranking, Schema, attr, parse
from matchwood.encode.arrays import make_events, make_rows
from matchwood.encode.events import encode_events
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.engine.saving import load_engine
from matchwood.errors import (
    DuplicateSubscriptionError,
    EventError,
    ExpressionError,
    InexactValueError,
    MatchwoodError,
    NeverMatchesError,
    ParseError,
    QueryError,
    SchemaError,
    StorageError,
    SubscriptionError,
    TooComplexError,
    UnknownAttributeError,
    UnknownSubscriptionError,
    UnsupportedError,
    ValueTypeError,
)
from matchwood.lang.evaluate import judge, rank
from matchwood.lang.event import event_keys
from matchwood.lang.json_form import to_json
from matchwood.lang.limits import Limits
from matchwood.lang.rows import normalise
from matchwood.store.storage import signed
from matchwood.structures import INDEXES, Capability
from tests.worlds import TYPES, World, a_world, listed, seeded_dice, worlds

START = datetime(2026, 1, 1, tzinfo=UTC)
MOST = 2**63 - 1


@pytest.fixture
def engine() -> Engine:
    return Engine()


def engine_of(world: World, **options: Any) -> Engine:
    """An engine with the world's subscriptions, through the public API."""
    engine = Engine(TYPES, **options)
    for id_, (priority, expression, _) in world.subscriptions.items():
        engine.subscribe(expression, id=id_, priority=priority)
    return engine


# agreement


@given(worlds(subscriptions=6, events=3))
@settings(max_examples=40)
def test_an_engine_says_what_the_oracle_says(world: World) -> None:
    engine = engine_of(world)
    for mode in ("all", "any"):
        expected = world.expected(mode=mode)
        assert [engine.match(event, mode=mode) for event in world.events] == expected
        assert listed(engine.match_many(world.events, mode=mode)) == expected
        for k in (1, 3):
            assert [engine.top_k(event, k, mode=mode) for event in world.events] == [hits[:k] for hits in expected]


@pytest.mark.parametrize("index", ["auto", *sorted(INDEXES)])
def test_modes_weights_and_sets_of_values_mean_in_every_index_what_they_mean_to_the_oracle(index: str) -> None:
    engine = Engine({"seen": "timestamp"}, index=index)
    texts = [
        *("(x > 5 AND x < 3 AND y = 1) OR z = 2", "x > 5 ^2 AND y = 1 ^4 AND x < 10 ^3", "y IS NULL ^2 AND x = 1"),
        *(
            "vip != TRUE",
            "vip > FALSE ^3",
            "vip >= FALSE",
            "y = 1 AND NOT (vip = TRUE)",
            "x = 1 ^2 OR x = 2 ^2 OR x = 3",
        ),
        "seen > TIMESTAMP('2026-01-01T00:00:00Z') AND seen <= TIMESTAMP('2026-01-01T00:00:00.000001Z')",
        "seen NOT IN (TIMESTAMP('2026-01-01T00:00:00Z'), TIMESTAMP('2026-01-01T00:00:00.000001Z'))",
    ]
    engine.subscribe_many(texts)
    instants = Range(START, START + timedelta(microseconds=1))
    events: list[Any] = [{"x": x, "y": y} for x in (7, 20, [1, 2]) for y in (None, 1)]
    events += [{"vip": Range(*ends)} for ends in ((False, True), (True, None), (None, False))]
    events += [{"seen": instants}, {"seen": START}, Event({"z": 2, "x": 7}, weights={"x": 0.5, "y": 8.0})]
    subscriptions = [(id_, 0.0, normalise(parse(text), engine.schema)) for id_, text in enumerate(texts)]
    relaxed = index == "auto" or Capability.ANY in INDEXES[index].capabilities
    for mode in ("all", "any") if relaxed else ("all",):
        for event in events:
            expected = rank(subscriptions, event_keys(event, engine.schema), mode=mode)
            assert engine.match(event, mode=mode) == expected, (event, mode)


@pytest.mark.parametrize("seed", range(3))
def test_an_explanation_is_the_oracles_judgement_and_agrees_with_match(seed: int) -> None:
    world = a_world(seeded_dice(seed), 40, 6)
    engine = engine_of(world)
    for event in world.events:
        for mode in ("all", "any"):
            hits = dict(engine.match(event, mode=mode))
            keys = event_keys(event, engine.schema)
            for id_, (priority, expression, _) in world.subscriptions.items():
                found = engine.explain(event, id_, mode=mode)
                rows = normalise(expression, engine.schema)
                assert found.judgement == judge(rows, keys, priority=priority, mode=mode)
                assert (found.score if found.matched else None) == hits.get(id_)
                assert str(found).startswith(
                    f"subscription {id_} {'matches with' if id_ in hits else 'does not match'}"
                )


@pytest.mark.parametrize("seed", range(3))
def test_what_an_engine_tells_of_a_subscription_can_be_subscribed_again(seed: int) -> None:
    world = a_world(seeded_dice(seed), 60, 8)
    engine, again = engine_of(world), Engine(TYPES)
    for id_ in engine.ids().tolist():
        told = engine.subscription(id_)
        again.subscribe(told.expression, id=told.id, priority=told.priority)
    assert [again.match(event) for event in world.events] == [engine.match(event) for event in world.events]


# subscribing


def test_text_builder_and_json_are_one_subscription(engine: Engine) -> None:
    text = "age >= 18 ^0.4 AND plan IN ('pro', 'trial') ^0.6"
    built = ((attr("age") >= 18) ^ 0.4) & (attr("plan").is_in(["pro", "trial"]) ^ 0.6)
    for source in (text, built, parse(text), json.loads(json.dumps(to_json(built)))):
        engine.subscribe(source)
    assert engine.match({"age": 18, "plan": "pro"}) == [Match(id_, 1.0) for id_ in range(4)]
    assert len({engine.subscription(id_).expression for id_ in range(4)}) == 1


def test_matches_come_as_a_sequence_best_score_first_then_smallest_id(engine: Engine) -> None:
    for id_, priority in ((5, 1.0), (3, 2.0), (4, 2.0), (9, -1.0), (1, 1.0)):
        engine.subscribe("a = 1 ^0.5", id=id_, priority=priority)
    found = engine.match({"a": 1})
    assert found == [(3, 2.5), (4, 2.5), (1, 1.5), (5, 1.5), (9, -0.5)]
    assert isinstance(found, Ranking)
    assert isinstance(found, Sequence)
    assert all(type(hit) is Match and type(hit.id) is int and type(hit.score) is float for hit in found)
    assert engine.top_k({"a": 1}, 3) == found[:3]
    assert engine.match({"a": 2}) == []


def test_ids_are_handed_out_in_order_and_never_twice(engine: Engine) -> None:
    assert [engine.subscribe("a = 1") for _ in range(3)] == [0, 1, 2]
    assert engine.subscribe("a = 1", id=10) == 10
    assert engine.subscribe("a = 1", id=5) == 5
    engine.unsubscribe(10)
    assert engine.subscribe("a = 1") == 11
    assert engine.subscribe_many(["a = 1", "a = 2"]).tolist() == [12, 13]
    assert engine.subscribe("a = 1", id=np.int64(99)) == 99
    assert engine.ids().tolist() == [0, 1, 2, 5, 11, 12, 13, 99]
    assert len(engine) == 8


def test_a_refused_subscription_uses_up_no_id(engine: Engine) -> None:
    with pytest.raises(ParseError):
        engine.subscribe("a >")
    assert engine.subscribe("a = 1") == 0


def test_the_largest_id_is_an_id_but_has_no_successor(engine: Engine) -> None:
    engine.subscribe("a = 1", id=MOST)
    assert engine.match({"a": 1}) == [(MOST, 1.0)]
    with pytest.raises(SubscriptionError, match="largest id, 9223372036854775807, is in use"):
        engine.subscribe("a = 1")
    assert engine.subscribe("a = 1", id=4) == 4


@pytest.mark.parametrize("id_", [-1, 2**63, 1.0, "1", True, None, np.float64(1), math.nan])
def test_a_bad_id_is_refused(engine: Engine, id_: Any) -> None:
    calls = [lambda: engine.unsubscribe(id_), lambda: engine.update(id_, "a = 1"), lambda: engine.explain({}, id_)]
    calls += [lambda: engine.subscription(id_)] + (
        [lambda: engine.subscribe("a = 1", id=id_)] if id_ is not None else []
    )
    for call in calls:
        with pytest.raises(
            SubscriptionError, match="expected a subscription id that is a whole number from 0 to 2\\^63 - 1"
        ):
            call()
    assert id_ not in engine


def test_an_id_that_is_taken_is_refused_and_the_first_one_stays(engine: Engine) -> None:
    engine.subscribe("a = 1", id=7)
    with pytest.raises(DuplicateSubscriptionError, match="subscription 7 exists already; use update, or unsubscribe"):
        engine.subscribe("a = 2", id=7)
    assert engine.match({"a": [1, 2]}) == [(7, 1.0)]
    assert engine.match({"a": 2}) == []


def test_an_unknown_id_is_refused(engine: Engine) -> None:
    engine.subscribe("a = 1", id=7)
    for call in (
        engine.unsubscribe,
        engine.subscription,
        lambda id_: engine.explain({}, id_),
        lambda id_: engine.update(id_, "a = 1"),
    ):
        with pytest.raises(UnknownSubscriptionError, match="subscription 8 is not there"):
            call(8)
    with pytest.raises(UnknownSubscriptionError, match="subscription 8"):
        engine.unsubscribe_many([7, 8])
    with pytest.raises(SubscriptionError, match="twice"):
        engine.unsubscribe_many([7, 7])
    assert 7 in engine
    assert 8 not in engine
    assert 2**70 not in engine
    assert "7" not in engine


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_text_is_refused(engine: Engine, text: str) -> None:
    with pytest.raises(ParseError, match="subscription 0: "):
        engine.subscribe(text)


@pytest.mark.parametrize("source", [None, 5, ["a = 1"], b"a = 1"])
def test_what_is_no_expression_is_refused(engine: Engine, source: Any) -> None:
    with pytest.raises(ExpressionError, match="subscription 0: expected text, an expression or CQL2 JSON, got"):
        engine.subscribe(source)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a > 5 AND a < 3", "conditions on 'a' exclude each other"),
        ("FALSE", "always false"),
        ("a > INF", "leaves no value"),
    ],
)
def test_what_can_never_match_is_refused_with_the_reason(engine: Engine, text: str, reason: str) -> None:
    with pytest.raises(NeverMatchesError, match=f"subscription 3: no event can match: .*{reason}"):
        engine.subscribe(text, id=3)
    assert len(engine) == 0


def test_what_always_matches_is_allowed(engine: Engine) -> None:
    engine.subscribe("TRUE", priority=2.5)
    engine.subscribe("a IS NULL OR a IS NOT NULL ^2")
    assert engine.match({}) == [(0, 2.5), (1, 1.0)]
    assert engine.match({"a": 5, "b": 6}) == [(0, 2.5), (1, 2.0)]


def test_a_normal_form_past_the_limit_is_refused() -> None:
    engine = Engine(limits=Limits(max_rows=2))
    with pytest.raises(TooComplexError, match="subscription 0: the normal form has 4 rows, the limit is 2"):
        engine.subscribe("(a = 1 OR b = 1) AND (c = 1 OR d = 1)")


@pytest.mark.parametrize("priority", [math.inf, -math.inf, math.nan, "1", True, None, pytest.param(10**400, id="huge")])
def test_a_priority_is_a_finite_number(engine: Engine, priority: Any) -> None:
    with pytest.raises(SubscriptionError, match="subscription 0: expected a finite priority, got"):
        engine.subscribe("a = 1", priority=priority)


@pytest.mark.parametrize("priority", [3, -2.5, np.float32(1.5), np.int64(-7)])
def test_priorities_of_every_numeric_kind_are_taken(engine: Engine, priority: Any) -> None:
    engine.subscribe("a = 1", priority=priority)
    assert engine.match({"a": 1}) == [(0, float(priority) + 1.0)]
    assert engine.subscription(0).priority == float(priority)


def test_a_value_of_the_wrong_type_names_the_subscription_or_the_event() -> None:
    engine = Engine({"age": "number"})
    with pytest.raises(ValueTypeError, match="subscription 0: age = 'old': attribute 'age' is of type number"):
        engine.subscribe("age = 'old'")
    with pytest.raises(InexactValueError, match="subscription 0: attribute 'age': 9007199254740993"):
        engine.subscribe("age = 9007199254740993")
    engine.subscribe("age > 1")
    with pytest.raises(ValueTypeError, match="the event: attribute 'age': expected a number, got 'old'"):
        engine.match({"age": "old"})
    with pytest.raises(ValueTypeError, match="event 1: attribute 'age'"):
        raise engine.match_many([{"age": 1}, {"age": "old"}]).rejected[1]
    with pytest.raises(ValueTypeError, match="event 42: attribute 'age'"):
        engine.match(Event({"age": "old"}, id=42))
    with pytest.raises(ValueTypeError, match="the event: attribute 'age'"):
        engine.explain({"age": "old"}, 0)


def test_a_closed_schema_refuses_names_it_does_not_know() -> None:
    engine = Engine(Schema({"age": "number"}, learn=False))
    with pytest.raises(UnknownAttributeError, match="subscription 0: attribute 'height' is not in the schema"):
        engine.subscribe("height > 3")
    assert engine.match({"height": 3}) == []  # no subscription can ask for it


@pytest.mark.parametrize(
    "bad", ["new = 'x' AND new > 5", "new = 'x' AND age = 'y'", "new = 'x' AND other > 3 AND other < 2"]
)
def test_what_is_refused_teaches_the_schema_nothing(bad: str) -> None:
    engine = Engine({"age": "number"})
    before = engine.schema.to_json()
    for call in (
        lambda: engine.subscribe(bad),
        lambda: engine.subscribe_many(["fine > 1", bad]),
        lambda: engine.match({"new": "x", "age": "y"}),
    ):
        with pytest.raises(MatchwoodError):
            call()
        assert engine.schema.to_json() == before
    assert engine.subscribe("new > 5 AND fine = 'text'") == 0


# update, bulk, place


def test_an_update_changes_what_it_is_given_and_nothing_else(engine: Engine) -> None:
    end = START.replace(year=2999)
    engine.subscribe("a = 1 OR b = 1 ^2", priority=5, until=end, metadata={"x": 1})
    engine.update(0, "a = 2")
    assert engine.subscription(0) == (0, "a = 2", 5.0, end, {"x": 1}, False)
    assert engine.match({"a": 1, "b": 1}) == []
    assert engine.match({"a": 2}) == [(0, 6.0)]
    with pytest.raises(ParseError, match="subscription 0"):
        engine.update(0, "a =")
    engine.update(0, priority=0, until=None, metadata=None)
    assert engine.subscription(0) == (0, "a = 2", 0.0, None, None, False)
    assert engine.match({"a": 2}) == [(0, 1.0)]
    with pytest.raises(SubscriptionError, match="to move it, use move"):
        engine.update(0, place=(1.0, 2.0), radius=5)
    with pytest.raises(SubscriptionError, match=r"expected expression, metadata, .* got 'weight'"):
        engine.update_many({0: {"weight": 2}})


def test_bulk_subscriptions_are_all_or_none(engine: Engine) -> None:
    told: list[int] = []
    ids = engine.subscribe_many((f"a = {n}" for n in range(3000)), progress=told.append)
    assert ids.tolist() == list(range(3000))
    assert told == [1024, 2048]
    with pytest.raises(ParseError, match="subscription 3001"):
        engine.subscribe_many(["a = 1", "a ="])
    assert len(engine) == 3000
    engine.unsubscribe_many(ids[::2])
    assert engine.match({"a": [4, 5]}) == [(5, 1.0)]
    assert engine.subscribe_many([]).tolist() == []


@pytest.mark.parametrize("one", ["a = 1", attr("a") == 1, {"op": "=", "args": [{"property": "a"}, 1]}])
def test_a_single_expression_is_no_bulk(engine: Engine, one: Any) -> None:
    with pytest.raises(SubscriptionError, match="expected several expressions, got one"):
        engine.subscribe_many(one)


@pytest.mark.parametrize("events", [{"a": 1}, Event({"a": 1}), 5, None])
def test_a_single_event_is_no_batch(engine: Engine, events: Any) -> None:
    for call in (engine.match_many, lambda e: engine.top_k_many(e, 1)):
        with pytest.raises(EventError, match="expected several events, got"):
            call(events)


def test_rows_that_are_arrays_already_are_taken_and_checked() -> None:
    engine = Engine({"a": "number"})
    rows = make_rows([4], [1.5], [0, 1], [0], [0], [0.0], [9.0], [0.5])
    engine.subscribe_rows(rows)
    assert engine.match({"a": 4}) == [(4, 2.0)]
    assert engine.subscription(4).expression == "a BETWEEN 0 AND 9 ^0.5"
    assert engine.subscribe("a = 4") == 5
    with pytest.raises(SubscriptionError, match=r"row 0 \(subscription 6\): a dimension is not one of the schema's 1"):
        engine.subscribe_rows(make_rows([6], [0.0], [0, 1], [1], [0], [0.0], [9.0], [0.5]))
    with pytest.raises(SubscriptionError, match="first entry is not the head of a predicate"):
        engine.subscribe_rows(make_rows([6], [0.0], [0, 1], [0], [1], [0.0], [9.0], [0.5]))
    with pytest.raises(SubscriptionError, match="the schema's 0"):
        Engine().subscribe_rows(rows)
    assert len(engine) == 2


def test_arrays_of_another_schema_are_refused_with_what_differs() -> None:
    """The same attributes in another order: without the check every key would be read in the wrong column."""
    engine, other = Engine({"a": "number", "b": "number"}), Schema({"b": "number", "a": "number"})
    engine.subscribe("a = 1")
    events = encode_events([{"a": 1, "b": 2}], other)
    rows = encode_subscription_table(pa.table({"id": [7], "expression": ["a = 1"]}), other).rows
    reason = "under another schema: attribute 'b': expected dimension 1 .* got dimension 0 .*; encode them with engine.schema"
    for call in (engine.match_many, lambda e: engine.top_k_many(e, 1)):
        with pytest.raises(SchemaError, match=f"the events were encoded {reason}"):
            call(events)
    with pytest.raises(SchemaError, match=f"the rows were encoded {reason}"):
        engine.subscribe_rows(rows)
    assert len(engine) == 1
    assert listed(engine.match_many(encode_events([{"a": 1, "b": 2}], engine.schema))) == [[(0, 1.0)]]


def test_arrays_of_symbols_in_another_order_are_refused() -> None:
    engine, other = Engine(), Schema()
    engine.subscribe("city = 'Oslo'")
    rows = encode_subscription_table(pa.table({"id": [7], "expression": ["city = 'Bergen'"]}), other).rows
    with pytest.raises(SchemaError, match="attribute 'city': expected the code 0 for 'Oslo', got it for 'Bergen'"):
        engine.subscribe_rows(rows)


def test_arrays_of_a_schema_that_the_engines_extends_are_taken(tmp_path: Path) -> None:
    """An engine that was saved and loaded has a schema of its own, which goes on where the first one was."""
    first = Engine()
    first.subscribe("city = 'Oslo' AND age > 3")
    events = encode_events([{"city": "Oslo", "age": 4}], first.schema)
    first.save(tmp_path / "saved")
    second = Engine.load(tmp_path / "saved")
    second.subscribe("city = 'Bergen' OR level = 2")
    assert listed(second.match_many(events)) == [[(0, 2.0)]]
    with pytest.raises(SchemaError, match="attribute 'city': the string 'Bergen' is not known here"):
        first.match_many(encode_events([{"city": "Oslo"}], second.schema))


@pytest.mark.parametrize("seed", range(4))
def test_worlds_loaded_as_arrays_match_as_the_oracle_says_whatever_the_schema(seed: int) -> None:
    """Arrays of one engine handed to another: the right answer, or a refusal."""
    world, other = a_world(seeded_dice(seed), 30, 6), a_world(seeded_dice(seed + 50), 30, 6)
    for schema in (world.schema, other.schema, Schema.from_json(world.schema.to_json())):
        engine = Engine(schema)
        if not schema.extends(world.schema):
            with pytest.raises(SchemaError, match=r"encode them with engine\.schema"):
                engine.subscribe_rows(world.rows())
            continue
        engine.subscribe_rows(world.rows())
        assert listed(engine.match_many(world.event_arrays())) == world.expected()


def test_events_that_are_arrays_already_are_taken_and_checked() -> None:
    engine = Engine({"a": "number"})
    engine.subscribe("a >= 4")
    found = engine.match_many(make_events([0, 1, 2], [0, 0], [4.0, 3.0], [4.0, 3.0]))
    assert listed(found) == [[(0, 1.0)], []]
    with pytest.raises(EventError, match="event 0: a value is empty or NaN"):
        engine.match_many(make_events([0, 1], [0], [math.nan], [math.nan]))


def test_a_place_and_a_radius_add_the_circle(engine: Engine) -> None:
    engine.subscribe("price < 10", place=(-73.98, 40.75), radius=1000)
    engine.subscribe("price < 10", place=Point(-73.98, 40.75), radius=np.float32(3000))
    near, far = {"lon": -73.981, "lat": 40.751}, {"lon": -73.98, "lat": 40.77}
    assert engine.match({"price": 5, "place": near}) == [(0, 2.0), (1, 2.0)]
    assert engine.match(Event({"price": 5}, place=(-73.98, 40.77))) == [(1, 2.0)]
    assert engine.match({"price": 5, "place": far}) == [(1, 2.0)]
    assert engine.match({"price": 5}) == []
    assert "DWITHIN(place, POINT(-73.98 40.75), 1000.0 m)" in engine.subscription(0).expression


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"place": (1, 2)}, "a place needs a radius"),
        ({"radius": 5}, "a radius a place"),
        ({"place": (1, 95), "radius": 5}, "latitude in -90..90"),
        ({"place": (1, 2, 3), "radius": 5}, "expected a point"),
        ({"place": (1, 2), "radius": 0}, "expected a radius > 0"),
        ({"place": (1, 2), "radius": "wide"}, "expected a radius in metres"),
        ({"place": (1, 2), "radius": math.inf}, "expected a radius > 0"),
        ({"until": "soon"}, "expected a timestamp, got 'soon'"),
        ({"until": 5}, "expected a timestamp, got 5"),
    ],
)
def test_bad_options_are_refused_by_name(engine: Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MatchwoodError, match=f"subscription 0: .*{message}"):
        engine.subscribe("a = 1", **options)
    assert len(engine) == 0


# queries


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_a_bad_k_is_refused(engine: Engine, k: Any) -> None:
    with pytest.raises(QueryError, match="expected k to be a whole number >= 1, got"):
        engine.top_k({"a": 1}, k)


def test_a_k_beyond_all_subscriptions_gives_them_all(engine: Engine) -> None:
    engine.subscribe_many(["a = 1"] * 5)
    assert len(engine.top_k({"a": 1}, 10**30)) == 5
    assert Engine().top_k({"a": 1}, 3) == []


def test_a_bad_mode_index_or_scoring_is_refused(engine: Engine) -> None:
    with pytest.raises(QueryError, match="expected mode 'all' or 'any'"):
        engine.match({}, mode="some")
    with pytest.raises(QueryError, match=r"expected an index out of .*scan.*, got 'magic'"):
        Engine(index="magic")
    with pytest.raises(QueryError, match="expected scoring"):
        Engine(scoring="mean")


def test_unseen_strings_in_events_do_not_grow_the_symbols(engine: Engine) -> None:
    engine.subscribe("plan != 'pro'")
    symbols = engine.schema.find("plan").symbols
    assert symbols is not None
    for n in range(100):
        assert engine.match({"plan": f"p{n}"}) == [(0, 1.0)]
        assert engine.explain({"plan": f"p{n}"}, 0).matched
    assert list(symbols.codes) == ["pro"]
    assert engine.match({"plan": "pro"}) == []


def test_ranges_lists_and_weights_reach_the_match(engine: Engine) -> None:
    engine.subscribe("a BETWEEN 3 AND 5 ^2")
    assert engine.match(Event({"a": Range(5, 9)}, weights={"a": 0.5})) == [(0, 1.0)]
    assert engine.match({"a": [1, 4]}) == [(0, 2.0)]
    assert engine.match({"a": [1, 9]}) == []


def test_an_explanation_tells_what_held_what_failed_and_what_each_added(engine: Engine) -> None:
    id_ = engine.subscribe("age >= 18 ^0.4 AND city != 'Oslo' OR vip = TRUE ^3", priority=-1)
    found = engine.explain({"age": 70, "vip": False, "city": "Rome"}, id_)
    assert found.matched
    assert found.score == -1 + 0.4 + 1.0
    assert str(found).splitlines() == [
        "subscription 0 matches with score 0.4",
        "  alternative 1 of 2 holds, score 0.4",
        "    +0.4  age >= 18 ^0.4   (event: 70)",
        "      +1  city != 'Oslo'   (event: a string no subscription names)",
        "  alternative 2 of 2 fails",
        "      no  vip = TRUE ^3.0   (event: FALSE)",
        "  -1 priority",
    ]


# time


def test_a_subscription_is_gone_exactly_at_its_instant() -> None:
    clock = ManualClock(START)
    engine = Engine(clock=clock)
    engine.subscribe("a = 1", until=START + timedelta(seconds=1))
    engine.subscribe("a = 1", until="2026-01-01T00:00:02Z")
    engine.subscribe("a = 1")
    clock.advance(microseconds=999_999)
    assert engine.match({"a": 1}) == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert engine.subscription(0).until == START + timedelta(seconds=1)
    clock.advance(microseconds=1)
    assert engine.match({"a": 1}) == [(1, 1.0), (2, 1.0)]
    assert 0 not in engine
    clock.advance(seconds=1)
    assert listed(engine.top_k_many([{"a": 1}], 5)) == [[(2, 1.0)]]
    assert len(engine) == 1
    assert engine.ids().tolist() == [2]


@pytest.mark.parametrize("call", ["unsubscribe", "update", "explain", "subscription"])
def test_an_expired_subscription_is_unknown_to_every_call(call: str) -> None:
    clock = ManualClock(START)
    engine = Engine(clock=clock)
    engine.subscribe("a = 1", until=START + timedelta(seconds=1))
    clock.advance(seconds=1)
    arguments = {"unsubscribe": (0,), "update": (0, "a = 1"), "explain": ({}, 0), "subscription": (0,)}[call]
    with pytest.raises(UnknownSubscriptionError):
        getattr(engine, call)(*arguments)
    assert engine.subscribe("a = 1", id=0) == 0


def test_an_expired_id_may_be_taken_again_also_by_arrays() -> None:
    clock = ManualClock(START)
    engine = Engine({"a": "number"}, clock=clock)
    engine.subscribe("a = 1", id=4, until=START + timedelta(seconds=1))
    clock.advance(seconds=5)
    engine.subscribe_rows(make_rows([4], [0.0], [0, 1], [0], [0], [0.0], [9.0], [0.5]))
    assert engine.match({"a": 4}) == [(4, 0.5)]


@pytest.mark.parametrize("form", ["text", "wide", "list"])
def test_subscriptions_loaded_in_bulk_expire(form: str) -> None:
    clock, size = ManualClock(START), 500
    engine = Engine({"a": "number"}, clock=clock)
    days = np.random.default_rng(3).integers(-1, 20, size)  # 19: never
    until = [None if day == 19 else START + timedelta(days=int(day)) for day in days]
    said: dict[str, Any] = {
        "text": {"expression": ["a = 1 OR b = 2"] * size},
        "wide": {"a": [1] * size},
        "list": {"predicates": [[{"attribute": "a", "value": 1.0}]] * size},
    }[form]
    table = pa.table({"id": range(size), **said, "until": pa.array(until, pa.timestamp("us", "UTC"))})
    parts = [encode_subscription_table(table.slice(at, 200), engine.schema) for at in range(0, size, 200)]
    for part in parts:
        engine.subscribe_rows(part.rows)
    for today in range(20):
        alive = np.flatnonzero((days > today) | (days == 19))
        assert engine.ids().tolist() == alive.tolist()
        assert sorted(match.id for match in engine.match({"a": 1})) == alive.tolist()
        clock.advance(days=1)
    assert engine.subscription(int(alive[0])).until is None


def test_bulk_and_single_subscriptions_share_one_list_of_expiries(tmp_path: Path) -> None:
    clock = ManualClock(START)
    engine = Engine(clock=clock)
    for id_ in range(20):
        engine.subscribe("a = 1", id=id_, until=START + timedelta(seconds=id_ + 1))
    table = pa.table(
        {"id": [30], "a": [1], "until": pa.array([START + timedelta(seconds=5)], pa.timestamp("us", "UTC"))}
    )
    engine.subscribe_rows(encode_subscription_table(table, engine.schema).rows)
    assert engine.subscription(30).until == START + timedelta(seconds=5)
    engine.save(tmp_path / "saved")
    for served in (engine, Engine.load(tmp_path / "saved", clock=clock)):
        assert len(served) == 21
    clock.advance(seconds=5)
    for served in (engine, Engine.load(tmp_path / "saved", clock=clock)):
        assert served.ids().tolist() == list(range(5, 20))


def test_an_expiry_that_is_none_is_refused() -> None:
    engine = Engine({"a": "number"})
    rows = make_rows([6, 6], [0.0, 0.0], [0, 1, 2], [0, 0], [0, 0], [0.0, 1.0], [9.0, 9.0], [0.5, 0.5])
    for until, reason in (
        ([1.0], "expected 2 instants"),
        ([1.0, 2.0], "differs from the row before"),
        ([np.nan] * 2, "NaN"),
    ):
        with pytest.raises(SubscriptionError, match=reason):
            engine.subscribe_rows(rows.stamped(None, np.array(until)))
    assert len(engine) == 0


def test_a_new_until_counts_and_the_old_one_does_not() -> None:
    clock = ManualClock(START)
    engine = Engine(clock=clock)
    engine.subscribe("a = 1", id=0, until=START + timedelta(seconds=1))
    engine.update(0, "a = 1", until=START + timedelta(seconds=9))
    engine.subscribe("a = 1", id=1, until=START + timedelta(seconds=1))
    engine.update(1, "a = 1", until=None)
    engine.subscribe("a = 1", id=2, until=START + timedelta(seconds=1))
    engine.unsubscribe(2)
    engine.subscribe("a = 1", id=2, until=START + timedelta(seconds=5))
    clock.advance(seconds=2)
    assert engine.ids().tolist() == [0, 1, 2]
    clock.advance(seconds=3)
    assert engine.ids().tolist() == [0, 1]
    clock.advance(seconds=4)
    assert engine.ids().tolist() == [1]


def test_a_subscription_whose_time_is_over_already_never_matches() -> None:
    engine = Engine(clock=ManualClock(START))
    engine.subscribe("a = 1", until=START)
    assert engine.match({"a": 1}) == []
    assert len(engine) == 0


def test_updates_of_expiring_subscriptions_leave_no_growing_trail() -> None:
    engine = Engine(clock=ManualClock(START))
    engine.subscribe("a = 1", until=START + timedelta(days=1))
    for n in range(1500):
        engine.update(0, "a = 1", until=START + timedelta(days=2, seconds=n))
    assert len(engine._subscriptions.expiry) < 1024
    assert engine.subscription(0).until == START + timedelta(days=2, seconds=1499)


# saving


def test_a_saved_engine_comes_back_with_symbols_expiry_and_ids_and_goes_on(tmp_path: Path) -> None:
    clock = ManualClock(START)
    world = a_world(seeded_dice(7), 80, 8)
    engine = engine_of(world, clock=clock)
    short = engine.subscribe("plan = 'only here' AND age IS NULL", until=START + timedelta(seconds=5))
    long = engine.subscribe("plan = 'only here'", priority=30, until=START + timedelta(seconds=50))
    engine.save(tmp_path / "saved")
    for verify in (False, True):
        loaded = Engine.load(tmp_path / "saved", clock=clock, verify=verify)
        assert loaded.index == engine.index
        assert loaded.ids().tolist() == engine.ids().tolist()
        assert [loaded.match(event) for event in world.events] == [engine.match(event) for event in world.events]
        assert [loaded.subscription(i) for i in loaded.ids()] == [engine.subscription(i) for i in engine.ids()]
        assert loaded.match({"plan": "only here"})[0] == (long, 31.0)
        assert loaded.schema.to_json() == engine.schema.to_json()
    clock.advance(seconds=5)
    assert short not in loaded
    assert long in loaded
    assert loaded.subscribe("plan = 'new' AND fresh > 1") == long + 1
    assert (long + 1, 2.0) in loaded.match({"plan": "new", "fresh": 2})
    loaded.unsubscribe_many(list(world.subscriptions))
    assert loaded.ids().tolist() == [long, long + 1]
    loaded.save(tmp_path / "second")
    assert Engine.load(tmp_path / "second", clock=clock).ids().tolist() == [long, long + 1]
    assert len(Engine.load(tmp_path / "saved", clock=clock)) == len(world.subscriptions) + 1


def test_an_id_given_back_before_saving_is_not_handed_out_again(engine: Engine, tmp_path: Path) -> None:
    engine.subscribe_many(["a = 1"] * 3)
    engine.unsubscribe(2)
    engine.save(tmp_path / "saved")
    assert Engine.load(tmp_path / "saved").subscribe("a = 1") == 3


def test_an_empty_engine_can_be_saved(tmp_path: Path) -> None:
    Engine({"a": "number"}).save(tmp_path / "saved")
    loaded = Engine.load(str(tmp_path / "saved"))
    assert loaded.match({"a": 1}) == []
    assert loaded.subscribe("a = 1") == 0


def test_a_failed_save_leaves_nothing(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.subscribe("a = 1")

    def fail(path: Path) -> None:
        raise OSError("no more room")

    monkeypatch.setattr(engine._index, "save", fail)
    with pytest.raises(StorageError, match="no more room"):
        engine.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_engine_is_a_storage_error(engine: Engine, tmp_path: Path) -> None:
    engine.subscribe("plan = 'x'", until=START.replace(year=2999))
    with pytest.raises(StorageError, match="found none"):
        Engine.load(tmp_path / "nowhere")
    engine.save(tmp_path / "saved")
    with pytest.raises(StorageError, match="never overwritten"):
        engine.save(tmp_path / "saved")
    with pytest.raises(StorageError, match="expected a saved engine, got a saved 'index'"):
        Engine.load(tmp_path / "saved" / "index")
    manifest = tmp_path / "saved" / "manifest.json"
    whole = json.loads(manifest.read_text())
    damages: list[dict[str, Any]] = [
        {},
        {"schema": {}, "next_id": 1},
        {"schema": {"learn": True, "attributes": [{"name": "a", "type": "nonsense", "dims": [0]}]}, "next_id": 1},
        {"schema": {"learn": True, "attributes": [{"name": "a", "type": "number", "dims": [3]}]}, "next_id": 1},
        {**whole["about"], "next_id": "x"},
    ]
    for about in damages:
        manifest.write_text(signed({**whole, "about": about}))
        with pytest.raises(StorageError, match="incomplete"):
            Engine.load(tmp_path / "saved")


def test_a_mistake_in_our_own_code_is_not_taken_for_a_damaged_folder(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(*_: object) -> None:
        raise AttributeError("no such method")

    engine.save(tmp_path / "saved")
    with pytest.raises(TypeError, match="surprise"):
        load_engine(lambda schema, ids: Engine(schema, surprise=ids), tmp_path / "saved", verify=True)  # type: ignore[call-arg]
    monkeypatch.setattr("matchwood.engine.subscriptions.Subscriptions.set_arrays", mistaken)
    with pytest.raises(AttributeError, match="no such method"):
        Engine.load(tmp_path / "saved")


# threads


def test_readers_always_see_a_consistent_set_while_one_writes() -> None:
    """Pairs of subscriptions come and go together: whoever sees one of a pair without the other saw a half-made change."""
    engine = Engine()
    engine.subscribe_many(["a >= 0"] * 20)
    stop, problems, seen = threading.Event(), [], set()

    def write() -> None:
        try:
            for round_ in range(150):
                pair = engine.subscribe_many([f"a >= 0 ^{round_ % 5}", f"a >= 0 ^{round_ % 5}"])
                engine.unsubscribe_many(pair)
        except Exception as error:
            problems.append(error)
        finally:
            stop.set()

    def read() -> None:
        try:
            while not stop.is_set():
                found = engine.match({"a": 1})
                ids = [hit.id for hit in found]
                extra = sorted(id_ for id_ in ids if id_ >= 20)
                ordered = found == sorted(found, key=lambda hit: (-hit.score, hit.id))
                whole = len(set(ids)) == len(ids) and set(range(20)) <= set(ids)
                paired = not extra or (len(extra) == 2 and extra[0] % 2 == 0 and extra[1] == extra[0] + 1)
                if not (ordered and whole and paired):
                    problems.append(found)
                if found[:3] != engine.top_k({"a": 1}, 3) and len(engine) not in (20, 22):
                    problems.append("a length that never was")
                seen.add(len(found))
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)] + [threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert seen <= {20, 22}
    assert len(engine) == 20
    engine._index.check()


def test_an_unknown_index_or_option_is_refused_with_what_there_is() -> None:
    with pytest.raises(QueryError, match=r"an index out of .*scan"):
        Engine(index="telepathy")
    with pytest.raises(QueryError, match="index 'scan' has no option 'depth'; its options: none"):
        Engine(index="scan", index_options={"depth": 3})


def test_covering_questions_are_answered_and_kept_up_to_date() -> None:
    engine = Engine()
    adult, senior, pro = engine.subscribe_many(["age >= 18", "age >= 65", "age >= 65 AND plan = 'pro'"]).tolist()
    assert engine.covers("age BETWEEN 70 AND 80").tolist() == [adult, senior]
    assert engine.covered_by("age > 20").tolist() == [senior, pro]
    kept, cover = engine.reduce()
    assert (kept.tolist(), cover) == ([adult], {senior: adult, pro: adult})
    engine.unsubscribe(adult)
    assert engine.covers("age BETWEEN 70 AND 80").tolist() == [senior]
    engine.update(senior, "age >= 90")
    assert engine.covers("age BETWEEN 70 AND 80").tolist() == []
    everyone = engine.subscribe("TRUE")
    assert engine.reduce().cover == {senior: everyone, pro: everyone}
    with pytest.raises(MatchwoodError, match="the expression"):
        engine.covers("age >")


def test_an_engine_is_saved_at_a_path_or_a_file_uri_and_nowhere_else(tmp_path: Path) -> None:
    engine = Engine()
    id_ = engine.subscribe("age > 3")
    engine.save((tmp_path / "a b").as_uri())
    assert Engine.load((tmp_path / "a b").as_uri()).match({"age": 4}) == [(id_, 1.0)]
    for call in (engine.save, Engine.load):
        with pytest.raises(UnsupportedError, match="'s3'"):
            call("s3://bucket/engine")


def test_an_index_that_cannot_remove_refuses_what_would_expire() -> None:
    engine = Engine({"a": "number"}, index="k-index", clock=ManualClock(START))
    with pytest.raises(UnsupportedError, match="subscription 0: index 'k-index' cannot remove"):
        engine.subscribe("a = 1", until=START + timedelta(days=1))
    rows = make_rows([4], [0.0], [0, 1], [0], [0], [0.0], [9.0], [0.5]).stamped(engine.schema, np.array([1e6]))
    with pytest.raises(UnsupportedError, match="leave out `until`"):
        engine.subscribe_rows(rows)
    engine.subscribe_rows(rows.stamped(engine.schema, np.array([np.inf])))
    assert engine.match({"a": 4}) == [(4, 0.5)]


def test_json_true_is_an_expression_by_itself() -> None:
    engine = Engine()
    assert engine.match({"a": 1}) == [] == engine.match({})
    id_ = engine.subscribe(True)
    assert engine.match({"a": 1}) == engine.match({}) == [(id_, 0.0)]


def test_a_refused_change_keeps_the_index_of_covers() -> None:
    engine = Engine()
    engine.subscribe_many(["a > 1", "a > 2"])
    assert engine.covers("a > 3").tolist() == [0, 1]
    made = engine._subscriptions.covers._index
    with pytest.raises(UnknownSubscriptionError):
        engine.unsubscribe_many([0, 99])
    with pytest.raises(DuplicateSubscriptionError):
        engine.subscribe("a > 5", id=1)
    assert engine._subscriptions.covers._index is made
    assert engine.covers("a > 3").tolist() == [0, 1]
