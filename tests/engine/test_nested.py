"""Conditions on lists of objects in an engine: live events, restarts, saved folders, reclaiming, threads and tables."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchwood import Engine, Event, Point, Range
from matchwood.encode.elements import MATCHERS, Judge
from matchwood.encode.json_lines import read_json_subscriptions
from matchwood.errors import MatchwoodError, NeverMatchesError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.rows import normalise
from matchwood.planner.elements import ElementIndex
from matchwood.schema import Schema
from tests.nested_worlds import LATER, a_tree, an_event, met
from tests.worlds import examples, ranked

ORDER = {"order": 7, "items": [{"sku": "a", "qty": 3, "price": 9.5}, {"sku": "b", "qty": 1}]}


def an_engine(rng: np.random.Generator, count: int) -> tuple[Engine, dict[int, Any]]:
    engine, trees = Engine(), {}
    while len(trees) < count:
        tree = a_tree(rng)
        try:
            trees[int(engine.subscribe(tree))] = tree
        except NeverMatchesError:
            continue
    return engine, trees


@pytest.mark.parametrize("seed", range(examples(8)))
@pytest.mark.parametrize("matcher", MATCHERS, ids=lambda matcher: matcher.__name__)
def test_an_engine_finds_what_the_trees_say_while_they_come_and_go(
    seed: int, matcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matchwood.encode.elements.MATCHERS", [matcher])
    rng = np.random.default_rng([seed, 22])
    engine, trees = an_engine(rng, 20)
    for step in range(25):
        event = an_event(rng)
        found = engine.match(event)
        assert {match.id for match in found} == {id_ for id_, tree in trees.items() if met(tree, event)}
        for match in found[:2]:
            assert engine.explain(event, match.id).score == match.score
        if step % 3 == 0:
            gone = int(rng.choice(list(trees)))
            engine.unsubscribe(gone)
            del trees[gone]
        tree = a_tree(rng)
        try:
            trees[int(engine.subscribe(tree))] = tree
        except NeverMatchesError:
            continue


def test_many_conditions_are_found_by_a_structure_as_by_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(23)
    events = [an_event(rng) for _ in range(20)]
    found = []
    for rows in (8, 10**9):
        monkeypatch.setattr("matchwood.planner.elements.FEWEST", rows)
        engine, _ = an_engine(np.random.default_rng(24), 60)
        found.append([engine.match(event) for event in events])
        (hidden,) = engine.schema.find("items").derived
        assert (hidden.tester.index._matcher._index.name == "scan") is (rows > 8)
    assert found[0] == found[1]
    assert any(found[0])


def test_batches_and_tables_find_what_single_events_find() -> None:
    rng = np.random.default_rng(25)
    engine, _ = an_engine(rng, 60)
    engine.subscribe_many(["items.sku = 'a' AND items.qty >= 2", "items.user.age IS NULL", "items.parts.sku = 'b'"])
    events = [json.loads(json.dumps(an_event(rng)).replace("user.age", "age_of_user")) for _ in range(60)]
    one_by_one = [[(m.id, m.score) for m in engine.match(event)] for event in events]
    assert any(one_by_one)
    assert ranked(engine.match_many(events)) == one_by_one  # type: ignore[arg-type]
    lines = b"\n".join(json.dumps(event).encode() for event in events)
    assert ranked(engine.match_many(lines)) == one_by_one  # type: ignore[arg-type]
    listed = [{**event, "items": _listed(event.get("items"))} for event in events]
    table = pa.Table.from_pylist(listed)
    assert ranked(engine.match_many(table)) == one_by_one  # type: ignore[arg-type]
    assert ranked(engine.match_many(table.to_pandas())) == one_by_one  # type: ignore[arg-type]


def _listed(items: Any) -> Any:
    return [items] if isinstance(items, dict) else items


@pytest.mark.parametrize("seed", range(examples(6)))
def test_live_events_are_found_by_conditions_that_come_later(seed: int) -> None:
    rng = np.random.default_rng([seed, 26])
    engine = Engine()
    events = []
    for number in range(12):
        if number == 5:
            engine.subscribe("ANY(items, sku = 'a') AND more IS NULL")
        event = Event(an_event(rng), {"items": 2.0} if number % 3 else {})
        events.append(event)
        engine.publish(event, until=LATER)
    for number in range(25):
        tree = a_tree(rng)
        if number == 12:
            engine.retract(3)
        try:
            found = engine.subscribe(tree)
        except NeverMatchesError:
            continue
        rows, schema = normalise(tree, engine.schema), engine.schema
        scores = {at: judge(rows, event_keys(event, schema)).score for at, event in enumerate(events)}
        expected = {at: s for at, s in scores.items() if s is not None and (at != 3 or number < 12)}
        assert {hit.event: hit.score for hit in found.live} == expected, str(tree)
        assert engine.live(found) == found.live


def test_live_events_are_found_by_dotted_names_that_come_later() -> None:
    engine = Engine()
    engine.publish(ORDER, until=LATER)
    assert engine.subscribe("ANY(items, sku = 'a')").live
    assert engine.subscribe("items.sku = 'b' AND items.qty >= 3").live
    assert engine.subscribe("ALL(items, qty >= 1) OR ANY(items, sku = 'z')").live
    assert not engine.subscribe("ALL(items, qty >= 2) OR ANY(items, sku = 'z')").live


def test_elements_that_look_like_values_are_elements() -> None:
    engine = Engine()
    engine.subscribe("ANY(items, min = 1 AND max = 5)")
    engine.subscribe("ANY(items, timestamp >= TIMESTAMP('2026-01-01T00:00:00Z'))")
    engine.subscribe("ANY(items, lon > 10)")
    for event in (
        {"items": [{"min": 1, "max": 5}, {"timestamp": "2026-01-02T00:00:00Z"}, {"lon": 10.5, "lat": 2.5}]},
        {"items": [Range(1, 5), {"timestamp": "2026-01-02T00:00:00Z"}, Point(10.5, 2.5)]},
    ):
        assert [match.id for match in engine.match(event)] == [0, 1, 2]
    text = '{"items": [{"min": 1, "max": 5}, {"timestamp": "2026-01-02T00:00:00Z"}, {"lon": 10.5, "lat": 2.5}]}'
    assert [match.id for match in engine.match(text)] == [0, 1, 2]
    engine.publish(text, until=LATER)
    assert engine.subscribe("ANY(items, max = 5 AND min < 2)").live


def test_a_durable_engine_and_its_follower_keep_conditions(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    with Engine.open(folder, schema={"items[].release": "version"}) as engine:
        engine.publish({"items": [{"sku": "alphabet", "release": "1.10"}], "late": [{"x": 1}]}, until=LATER)
        engine.subscribe("ANY(items, sku LIKE 'alpha%' AND release > '1.9')")
        engine.subscribe("ANY(items, CASEI(sku) LIKE '%BET') AND NOT ANY(items, qty = 3)")
        with Engine.open(folder, mode="follow") as follower:
            assert len(follower.match({"items": [{"sku": "alphabet", "release": "2"}]})) == 2
        engine.snapshot()
        engine.subscribe("ALL(items, sku LIKE '%ha%')")
        engine.publish({"items": [{"sku": "z"}]}, until=LATER)
    with Engine.open(folder) as engine:
        assert sorted(m.id for m in engine.match({"items": [{"sku": "ALPHABET"}]})) == [1]
        assert sorted(m.id for m in engine.match({"items": [{"sku": "alphabet", "release": "1.9.1"}]})) == [0, 1, 2]
        assert [hit.event for hit in engine.subscribe("ANY(items, sku LIKE 'al%t')").live] == [0]
        assert [hit.event for hit in engine.subscribe("ANY(late, x = 1)").live] == [0]
        assert [hit.event for hit in engine.subscribe("NOT ANY(items, sku = 'alphabet')").live] == [1]


def test_a_saved_engine_keeps_conditions(tmp_path: Path) -> None:
    engine = Engine()
    engine.subscribe("ANY(items, sku = 'a' AND qty >= 2)")
    engine.publish(ORDER, until=LATER)
    engine.save(tmp_path / "saved")
    again = Engine.load(tmp_path / "saved")
    assert [m.id for m in again.match(ORDER)] == [0]
    assert [hit.event for hit in again.live(0)] == [0]
    assert [hit.event for hit in again.subscribe("ANY(items, sku = 'b' AND qty < 2)").live] == [0]
    schema = pickle.loads(pickle.dumps(again.schema))
    assert schema.difference(again.schema) is None


class Counting(ElementIndex):
    """Counts the conditions that it is given one by one, and those that it takes from arrays."""

    added = restored = 0

    def add(self, conditions: Any) -> None:
        Counting.added += len(conditions)
        super().add(conditions)

    def restore(self, rows: Any) -> bool:
        Counting.restored += len(np.unique(rows.ids))
        return super().restore(rows)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    monkeypatch.setattr("matchwood.encode.elements.MATCHERS", [Counting])
    monkeypatch.setattr(Counting, "added", 0)
    monkeypatch.setattr(Counting, "restored", 0)
    return Counting


@pytest.mark.parametrize("call", ["subscribe_many", "subscribe_rows", "subscribe_table"])
def test_many_conditions_are_indexed_by_the_call_that_brings_them(call: str, counting: type[Counting]) -> None:
    texts = [f"ANY(items, sku = 's{number}')" for number in range(20)]
    engine = Engine()
    if call == "subscribe_many":
        engine.subscribe_many(texts)
    elif call == "subscribe_rows":
        lines = [json.dumps({"id": number, "expression": text}) for number, text in enumerate(texts)]
        engine.subscribe_rows(read_json_subscriptions(lines, engine.schema).rows)
    else:
        engine.subscribe_table(pa.table({"id": list(range(20)), "expression": texts}))
    assert counting.added == 20
    assert [match.id for match in engine.match({"items": [{"sku": "s7"}]})] == [7]
    assert counting.added == 20


@pytest.mark.parametrize("matcher", [Judge, Counting], ids=lambda matcher: matcher.__name__)
@pytest.mark.parametrize("seed", range(examples(6)))
def test_a_loaded_engine_has_its_conditions_indexed(
    seed: int, matcher: Any, tmp_path: Path, counting: type[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matchwood.encode.elements.MATCHERS", [matcher])
    rng = np.random.default_rng([seed, 31])
    engine, trees = an_engine(rng, 30)
    for id_ in list(trees)[::4]:
        engine.unsubscribe(id_)
        del trees[id_]
    engine.save(tmp_path / "saved")
    counting.added = 0
    again = Engine.load(tmp_path / "saved")
    if matcher is counting:
        assert counting.added == 0
        assert counting.restored > 0
    for step in range(12):
        event = an_event(rng)
        assert {match.id for match in again.match(event)} == {id_ for id_, tree in trees.items() if met(tree, event)}
        if step % 3 == 2:  # it goes on as any engine does
            tree = a_tree(rng)
            try:
                trees[int(again.subscribe(tree))] = tree
            except NeverMatchesError:
                continue


def test_a_folder_without_indexed_conditions_is_loaded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matchwood.engine.saving.condition_arrays", lambda schema: {})
    engine = Engine()
    engine.subscribe("ALL(items, qty >= 2)")
    engine.save(tmp_path / "saved")
    again = Engine.load(tmp_path / "saved")
    assert [match.id for match in again.match({"items": [{"qty": 2}, {"qty": 3}]})] == [0]
    assert not again.match({"items": [{"qty": 2}, {"qty": 1}]})


def test_conditions_and_elements_that_are_gone_are_reclaimed() -> None:
    engine = Engine()
    for number in range(50):
        engine.publish({"items": [{"sku": f"live {number}"}]}, until=LATER)
    ids = engine.subscribe_many([f"ANY(items, sku = 'word {i}')" for i in range(6_000)])
    assert engine.match({"items": [{"sku": "word 17"}]})
    for number in range(49):
        engine.retract(number)
    engine.unsubscribe_many(ids[:-1])
    (hidden,) = engine.schema.find("items").derived
    assert len(hidden.symbols.codes) < 6_000  # type: ignore[union-attr]
    assert len(engine.schema.find("items[].sku").symbols.codes) < 6_000  # type: ignore[union-attr]
    assert len(engine.schema.find("items").symbols.codes) == 1  # type: ignore[union-attr]
    assert engine.match({"items": [{"sku": "word 5999"}]}) == [(5999, 1.0)]
    assert not engine.match({"items": [{"sku": "word 17"}]})
    again = engine.subscribe("ANY(items, sku = 'word 17')")
    assert [match.id for match in engine.match({"items": [{"sku": "word 17"}]})] == [again]
    assert [hit.event for hit in engine.subscribe("ANY(items, sku = 'live 49')").live] == [49]


def test_a_condition_of_a_refused_subscription_is_forgotten_and_can_come_again() -> None:
    engine = Engine()
    engine.subscribe("ANY(items, sku = 'a') AND x > 1")
    for _ in range(2):
        with pytest.raises(MatchwoodError):
            engine.subscribe("ANY(items, new = 'b') AND x = 'text'")
        assert [m.id for m in engine.match({"items": [{"sku": "a", "new": "b"}], "x": 2})] == [0]
        assert "items[].new" not in engine.schema
    engine.subscribe("ANY(items, other = 1)")
    engine.subscribe("ANY(items, new = 'b')")
    assert [m.id for m in engine.match({"items": [{"new": "b"}]})] == [2]


def test_values_of_the_wrong_type_in_elements_are_refused_or_absent() -> None:
    engine = Engine({"items[].qty": "number"})
    engine.subscribe("ANY(items, sku = 'a' AND qty >= 2)")
    with pytest.raises(MatchwoodError, match=r"items\[\]\.qty.*expected a number, got 'many'"):
        engine.match({"items": [{"sku": "a", "qty": "many"}]})
    assert list(engine.match_many([{"items": [{"qty": "x"}]}, ORDER]).rejected) == [0]
    lenient = Engine({"items[].qty": "number"}, on_bad_value="absent")
    lenient.subscribe("ANY(items, sku = 'a' AND qty IS NULL)")
    assert lenient.match({"items": [{"sku": "a", "qty": "many"}]})
    assert not lenient.match({"items": [3]})
    assert {name: bad.count for name, bad in lenient.bad_values.items()} == {"items[].qty": 1, "items": 1}


def test_several_threads_match_while_conditions_come() -> None:
    engine = Engine()
    engine.subscribe("ANY(items, sku = 'a')")

    def match(_: int) -> bool:
        return engine.match(ORDER)[0].id == 0

    with ThreadPoolExecutor(4) as pool:
        found = pool.map(match, range(200))
        for number in range(100):
            engine.subscribe(f"ANY(items, sku = 'x{number}' AND qty > {number})")
        assert all(found)


def test_an_explanation_shows_the_conditions() -> None:
    engine = Engine()
    id_ = engine.subscribe("ANY(items, sku = 'a' AND qty >= 5) AND ANY(items, sku = 'b') ^2")
    text = str(engine.explain(ORDER, id_))
    assert "ANY(items, qty >= 5 AND sku = 'a')" in text
    assert "event: ANY(it, sku = 'b')" in text
    assert (
        engine.subscription(id_).expression == "ANY(items, sku = 'b') ^3.0 AND ANY(items, qty >= 5 AND sku = 'a') ^0.0"
    )


def test_the_definition_is_used_without_a_planner() -> None:
    assert MATCHERS[0] is Judge
    assert Schema({"items": "objects"}).find("items").declared == "objects"
