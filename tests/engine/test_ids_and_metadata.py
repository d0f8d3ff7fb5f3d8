"""Ids that are strings, metadata, pausing, partial changes: all on every index that can change."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchwood import Engine, Event
from matchwood.engine.clock import ManualClock
from matchwood.engine.ids import Names, of_json_array
from matchwood.errors import (
    DuplicateSubscriptionError,
    EventError,
    MatchwoodError,
    QueryError,
    SchemaError,
    SubscriptionError,
    UnknownSubscriptionError,
)
from matchwood.lang.limits import Limits

START = datetime(2026, 3, 1, tzinfo=UTC)


# ids


def test_ids_may_be_strings_and_ties_go_to_the_earlier() -> None:
    engine = Engine(ids="str")
    assert engine.subscribe("a > 1", id="zebra") == "zebra"
    assert engine.subscribe("a > 1", id="ant") == "ant"
    assert engine.subscribe("a > 1", priority=1) == "2"
    assert engine.match({"a": 3}) == [("2", 2.0), ("zebra", 1.0), ("ant", 1.0)]
    assert engine.top_k_many([{"a": 3}, {"a": 0}], 2).ids.tolist() == ["2", "zebra"]
    assert engine.ids().tolist() == ["zebra", "ant", "2"]
    assert "ant" in engine
    assert "bee" not in engine
    assert 5 not in engine
    engine.unsubscribe("ant")
    assert "ant" not in engine
    assert engine.subscribe_many(["a > 2"] * 2, ids=["ant", "bee"]).tolist() == ["ant", "bee"]
    assert engine.subscription("bee").id == "bee"
    assert str(engine.explain({"a": 1}, "bee")).startswith("subscription bee does not match")
    assert engine.covers("a > 5").tolist() == ["zebra", "2", "ant", "bee"]
    assert set(engine.reduce().cover) == {"ant", "bee", "2"}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda e: e.subscribe("a > 1", id="x"), DuplicateSubscriptionError, "subscription 'x' exists already"),
        (lambda e: e.subscribe_many(["a > 1"] * 2, ids=["y", "y"]), DuplicateSubscriptionError, "'y' exists already"),
        (lambda e: e.subscribe_many(["a > 1"] * 2, ids=["y"]), SubscriptionError, "ids: expected one for each of 2"),
        (lambda e: e.subscribe("a > 1", id=5), SubscriptionError, "expected a subscription id that is a string, got 5"),
        (lambda e: e.subscribe("a >", id="new"), MatchwoodError, "subscription 'new': "),
        (lambda e: e.unsubscribe("y"), UnknownSubscriptionError, "subscription 'y' is not there"),
        (lambda e: e.update("y", "a > 1"), UnknownSubscriptionError, "subscription 'y' is not there"),
        (lambda e: e.match({}) and e.explain({}, 7), MatchwoodError, "that is a string"),
    ],
)
def test_bad_string_ids_are_refused_and_change_nothing(
    call: Callable[[Engine], object], error: type[Exception], message: str
) -> None:
    engine = Engine(ids=str)
    engine.subscribe("TRUE", id="x")
    with pytest.raises(error, match=message):
        call(engine)
    assert engine.ids().tolist() == ["x"]
    assert engine.subscribe("a > 1", id="new") == "new"


def test_the_kind_of_ids_is_checked() -> None:
    with pytest.raises(QueryError, match="expected ids 'int' or 'str', got 'uuid'"):
        Engine(ids="uuid")
    with pytest.raises(SchemaError, match=r"expected a Schema or a mapping from attribute to type, got \['age'\]"):
        Engine(["age"])  # type: ignore[arg-type]


def test_an_id_that_the_engine_makes_is_never_one_that_is_taken() -> None:
    engine = Engine(ids="str")
    engine.subscribe_many(["a > 1"] * 2, ids=["2", "4"])
    assert engine.subscribe_many(["a > 1"] * 3).tolist() == ["_2", "3", "_4"]
    assert engine.subscribe("a > 1") == "5"


# metadata


@pytest.mark.parametrize("seed", range(4))
def test_names_are_those_of_a_dictionary_while_most_ids_go(seed: int) -> None:
    draw = random.Random(seed)
    names, model, following = Names(), dict[int, str](), 0
    for _ in range(500):
        if not model or draw.random() < 0.6:
            new = range(following, following + draw.choice([1, 2, 40]))
            following = new.stop
            names.add([f"t{number}" for number in new], new)
            model.update((number, f"t{number}") for number in new)
        else:
            gone = draw.sample(sorted(model), max(1, int(len(model) * draw.choice([0.05, 0.5, 0.95]))))
            names.drop([*gone, gone[0], following + 10**9])
            for number in gone:
                del model[number]
        numbers = np.array(draw.sample(sorted(model), min(len(model), 20)), np.int64)
        assert names.texts(numbers).tolist() == [model[number] for number in numbers.tolist()]
        assert [names.number(names.text(number)) for number in numbers.tolist()] == numbers.tolist()
        saved = names.arrays()
        assert dict(zip(saved["name_numbers"].tolist(), of_json_array(saved["name_texts"]), strict=True)) == model
    again = Names.of_arrays(saved)
    assert again.texts(numbers).tolist() == names.texts(numbers).tolist()


def test_metadata_comes_back_with_matches() -> None:
    engine = Engine()
    engine.subscribe("a > 1", metadata={"owner": "Ada", "tags": [1, None]})
    engine.subscribe_many(["a > 2", "a > 3"], metadata=["x", None])
    assert engine.match({"a": 9}, metadata=True) == [
        (0, 1.0, {"owner": "Ada", "tags": [1, None]}),
        (1, 1.0, "x"),
        (2, 1.0, None),
    ]
    assert engine.top_k({"a": 9}, 1, metadata=True)[0].metadata == {"owner": "Ada", "tags": [1, None]}
    engine.update(1, metadata=None)
    engine.unsubscribe(0)
    engine.subscribe("a > 1", id=0)
    assert [match.metadata for match in engine.match({"a": 9}, metadata=True)] == [None] * 3
    for bad in (object(), {1: {2, 3}}, float("nan")):
        with pytest.raises(SubscriptionError, match="subscription 3: expected metadata that is a JSON value"):
            engine.subscribe("a > 1", metadata=bad)
    assert len(engine) == 3


# pausing and partial changes, against a model


class Model:
    """What an engine should hold: id -> (threshold, priority, until, metadata, paused)."""

    def __init__(self) -> None:
        self.held: dict[Any, list[Any]] = {}

    def matches(self, a: int, now: datetime) -> list[tuple[Any, float]]:
        found = [
            (id_, 1.0 + priority)
            for id_, (threshold, priority, until, _, paused) in self.held.items()
            if a > threshold and not paused and (until is None or now < until)
        ]
        return sorted(found, key=lambda match: (-match[1], match[0]))


@pytest.mark.parametrize("index", ["auto", "scan", "mo-tree", "be-star-tree", "vcr", "ranked"])
@pytest.mark.parametrize("seed", range(3))
def test_changes_in_any_order_leave_what_the_model_says(index: str, seed: int, tmp_path: Path) -> None:
    dice, clock, model = random.Random(seed), ManualClock(START), Model()
    engine = Engine({"a": "number"}, index=index, clock=clock)
    for step in range(120):
        now = clock()
        model.held = {id_: held for id_, held in model.held.items() if held[2] is None or now < held[2]}
        id_ = dice.choice([*model.held, None])
        what = dice.randrange(10)
        until = dice.choice([None, now + timedelta(minutes=dice.randrange(1, 60))])
        threshold, priority = dice.randrange(10), float(dice.randrange(3))
        if id_ is None or what == 0:
            new = engine.subscribe(f"a > {threshold}", priority=priority, until=until, metadata=step)
            model.held[int(new)] = [threshold, priority, until, step, False]
        elif what == 1:
            engine.unsubscribe(id_)
            del model.held[id_]
        elif what == 2:
            engine.set_priority(id_, priority)
            model.held[id_][1] = priority
        elif what == 3:
            engine.set_until(id_, until)
            model.held[id_][2] = until
        elif what in (4, 5):
            (engine.pause if what == 4 else engine.resume)(id_)
            model.held[id_][4] = what == 4
        elif what == 6:
            engine.update(id_, f"a > {threshold}")
            model.held[id_][0] = threshold
        elif what == 7:
            engine.update_many({i: {"priority": priority, "until": until, "metadata": step} for i in [*model.held][:3]})
            for i in [*model.held][:3]:
                model.held[i][1:4] = priority, until, step
        elif what == 8:
            clock.advance(minutes=dice.randrange(20))
            continue
        elif what == 9 and step % 3 == 0:
            engine.save(tmp_path / f"{index}-{step}")
            engine = Engine.load(tmp_path / f"{index}-{step}", clock=clock)
        engine._index.check()
        assert len(engine) == len(model.held)
        assert engine.ids().tolist() == sorted(model.held)
        a = dice.randrange(12)
        assert engine.match({"a": a}) == model.matches(a, now)
        assert engine.top_k({"a": a}, 2) == model.matches(a, now)[:2]
    for held in engine.subscriptions():
        threshold, priority, until, metadata, paused = model.held[held.id]
        assert held == (held.id, f"a > {threshold}", priority, until, metadata, paused)


def test_pausing_what_is_paused_or_unknown() -> None:
    engine = Engine()
    engine.subscribe("a > 1")
    engine.resume(0)
    engine.pause(0)
    engine.pause(0)
    with pytest.raises(DuplicateSubscriptionError):
        engine.subscribe("a > 1", id=0)
    with pytest.raises(DuplicateSubscriptionError, match="paused"):
        engine.subscribe_many(["a > 1"] * 2, ids=[5, 0])
    for call in (engine.pause, engine.resume, lambda id_: engine.set_until(id_, None)):
        with pytest.raises(UnknownSubscriptionError):
            call(9)
    with pytest.raises(UnknownSubscriptionError):
        engine.unsubscribe_many([0, 9])
    assert engine.ids().tolist() == [0]
    engine.move_many([], [])
    engine.unsubscribe(0)
    assert len(engine) == 0


def test_moves_in_bulk_are_those_one_by_one() -> None:
    dice = random.Random(5)
    sources = ["a > 1", "TRUE", "a > 1 OR b > 2"]
    singly, bulk = Engine(), Engine()
    where = [(dice.uniform(-179.99, 179.99), dice.uniform(-89, 89)) for _ in range(60)]
    for engine in (singly, bulk):
        engine.subscribe_many([sources[i % 3] for i in range(60)], place=where, radius=[500.0, 5e5, 20.0] * 20)
    for ids in (range(60), range(0, 60, 2), [7]):
        there = [(dice.uniform(-179, 179), dice.uniform(-80, 80)) for _ in ids]
        for id_, place in zip(ids, there, strict=True):
            rows = singly._reader.moved(singly._subscriptions.rows_of(id_), place)
            singly.unsubscribe(id_)
            singly.subscribe_rows(rows)
        bulk.move_many(list(ids), np.array(there) if len(there) > 30 else there)  # type: ignore[arg-type]
        ours, theirs = bulk._index.store.extract_all(), singly._index.store.extract_all()
        for column, other in zip(ours, theirs, strict=True):
            assert column.tobytes() == other.tobytes()
    with pytest.raises(SubscriptionError, match="named twice"):
        bulk.move_many([1, 1], [(0, 0), (1, 1)])
    with pytest.raises(SubscriptionError, match="expected a place for each of 2"):
        bulk.move_many([1, 2], [(0, 0)])


# events


def test_an_event_that_cannot_be_used_does_not_spoil_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine({"a": "number"})
    engine.subscribe_many(["a > 1", "a IS NULL", "TRUE"])
    found = engine.match_many([{"a": 5}, {"a": "x"}, 7, {}])  # type: ignore[list-item]
    assert found.offsets.tolist() == [0, 2, 2, 2, 4]
    assert found.ids.tolist() == [0, 2, 1, 2]
    assert [*found.rejected] == [1, 2]
    assert "2 events of a batch were rejected; the first: event 1: attribute 'a'" in caplog.text
    assert engine.match_many([{"a": 5}]).rejected == {}


def test_bad_values_may_be_absent_and_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine({"a": "number"}, on_bad_value="absent")
    engine.subscribe_many(["a > 1", "a IS NULL"])
    assert engine.match({"a": "x"}) == [(1, 1.0)]
    assert engine.match_many([{"a": "x"}, {"a": 3}]).ids.tolist() == [1, 0]
    assert engine.bad_values["a"].count == 2
    assert caplog.text.count("a bad value in an event") == 1
    assert "(event: NULL)" in str(engine.explain({"a": "x"}, 0))
    with pytest.raises(QueryError, match="expected on_bad_value 'absent' or 'raise', got 'drop'"):
        Engine(on_bad_value="drop")


def test_tables_of_events_follow_the_engine_in_bad_values() -> None:
    table = pa.table({"a": [3.0, 4.0, None], "s": ["x", "y", "z"]})
    strict, lenient = Engine(), Engine(on_bad_value="absent")
    for engine in (strict, lenient):
        engine.subscribe_many(["a > 1 AND a IS NOT NULL", "s = 5 OR s IS NULL", "a IS NULL"])
    with pytest.raises(SchemaError, match="column 's': expected number"):
        strict.match_many(table)
    found = lenient.match_many(table)
    assert found.offsets.tolist() == [0, 2, 4, 6]
    assert lenient.bad_values["s"].count > 0


def test_tables_of_subscriptions_have_the_limits_of_the_engine() -> None:
    engine = Engine(limits=Limits(max_entries=3, max_length=40))
    texts = [
        "a IN (1, 2, 3, 4)",
        "a IN (1, 2)",
        "a = 1 AND " * 5 + "b = 1",
        '{"op": "=", "args": [{"property": "a"}, 1]}',
    ]
    loaded = engine.subscribe_table(pa.table({"id": [1, 2, 3, 4], "expression": texts}))
    assert loaded.ids.tolist() == [2]
    assert ["max_entries" in r.reason or "max_length" in r.reason for r in loaded.rejects] == [True] * 3


def test_events_never_change_what_can_be_subscribed_to() -> None:
    engine = Engine()
    for i in range(300):
        engine.match({"zip": 12345, f"key {i}": i, "nested": {"a": object()}, "place": (1.0, 2.0)})
    assert len(engine.schema) == 0
    engine.subscribe("zip = '12345' AND DWITHIN(place, POINT(1 2), 5 m)")
    assert engine.match({"zip": "12345", "place": (1.0, 2.0)}) == [(0, 2.0)]


def test_values_of_live_events_wait_for_the_first_subscription_that_names_them(tmp_path: Path) -> None:
    engine = Engine(clock=ManualClock(START))
    later = START + timedelta(hours=1)
    events = [
        Event({"a": 1, "s": "x", "deep": {"er": [1, 2], "est": datetime(2026, 1, 1, tzinfo=UTC)}}, place=(1, 2)),
        Event({"a": "one", "s": 5, "deep": 3}, weights={"s": 0.5}),
        {"a": None, "s": "y"},
    ]
    assert engine.publish_many(events, until=later).event_ids.tolist() == [0, 1, 2]  # type: ignore[union-attr]
    assert engine.subscribe("a >= 1").live == [(0, 1.0)]
    assert engine.bad_values["a"].count == 1
    assert engine.subscribe("a IS NULL").live == [(1, 1.0), (2, 1.0)]
    engine.save(tmp_path / "engine")
    for held in (engine, Engine.load(tmp_path / "engine", clock=ManualClock(START))):
        assert held.subscribe("s = 'x' OR s = 'y' ^2").live == [(2, 2.0), (0, 1.0)]
        assert held.subscribe("deep.er = 2").live == [(0, 1.0)]
        assert held.subscribe("deep IS NOT NULL").live == [(0, 1.0), (1, 1.0)]
        assert held.subscribe("deep.est < TIMESTAMP('2026-02-01T00:00:00Z') AND deep.er = 1").live == [(0, 2.0)]
        assert held.subscribe("DWITHIN(place, POINT(1 2), 5 m)").live == [(0, 1.0)]
        held._live._events.check()
    engine.subscribe("unseen > 3")
    engine.retract(0)
    assert engine.subscribe("deep.er > 0").live == []


def test_a_live_event_may_be_replaced() -> None:
    engine = Engine(clock=ManualClock(START))
    later = START + timedelta(hours=1)
    engine.publish(Event({"a": 1}, id=4), until=later)
    with pytest.raises(EventError, match="event 4 is alive already"):
        engine.publish(Event({"a": 2}, id=4), until=later)
    engine.publish(Event({"a": 2}, id=4), until=later, replace=True)
    assert engine.subscribe("a BETWEEN 0 AND 9").live == [(4, 1.0)]
    assert engine.subscribe("a = 1").live == []
    found = engine.publish_many(
        [Event({"a": 5}, id=4), Event({"a": 6}, id=5), Event({"a": 7}, id=5), {"a": "x"}], until=later
    )
    assert sorted(found.rejected) == [0, 2, 3]
    assert found.event_ids is not None
    assert found.event_ids.tolist() == [-1, 5, -1, -1]
    assert found.offsets.tolist() == [0, 0, 1, 1, 1]
    with pytest.raises(EventError, match="expected an `until` for each of 1 events, got 2"):
        engine.publish_many([{}], until=[later, later])


# the rest


def test_pickling_is_by_reference_to_a_saved_folder(tmp_path: Path) -> None:
    engine = Engine()
    engine.subscribe("a > 1")
    for copied in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(MatchwoodError, match=r"call save\(PATH\)"):
            copied(engine)
    engine.save(tmp_path / "engine")
    again = pickle.loads(pickle.dumps(engine))
    assert again.match({"a": 2}) == [(0, 1.0)]
    assert copy.deepcopy(again).match({"a": 2}) == [(0, 1.0)]
    again.subscribe("a > 2")
    with pytest.raises(MatchwoodError, match=r"has changed since"):
        pickle.dumps(again)


def test_the_repr_helps() -> None:
    engine = Engine(index="scan")
    engine.subscribe_many(["a > 1"] * 1200)
    engine.publish({"a": 1}, until="9999-01-01")
    assert repr(engine) == "<Engine: 1,200 subscriptions, 1 live events, 1 attributes, index 'scan'>"
