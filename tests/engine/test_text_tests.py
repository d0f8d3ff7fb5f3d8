"""Tests of strings in an engine: testers, live events, restarts, saved folders and reclaiming."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from matchwood import Engine, Event
from matchwood.errors import NeverMatchesError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.rows import normalise
from matchwood.patterns import Contains, Network, Ordered, Tester, read_test, written_test
from matchwood.patterns.networks import read_network
from matchwood.patterns.regex import finds, needed_literal
from matchwood.schema import Schema
from tests.text_worlds import a_leaf, a_text, a_tree
from tests.worlds import examples, ranked

LATER = "9999-01-01"


@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_tester_finds_the_tests_that_hold_while_they_come_and_go(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    tester, tests = Tester(), {}
    words = ["alphabet", "beta", "%", "", "10.0.0.1", "1.2.3", "é", "gamma ray", "alphabetical", "abab"]
    for code in range(80):
        leaf = a_leaf(rng, ("x",))
        test = leaf.test() if hasattr(leaf, "test") else Ordered("text", "<", a_text(rng, 2))
        if code % 7 == 0:
            test = Network(read_network(f"10.0.0.0/{rng.integers(8, 33)}" if code % 2 else f"::/{rng.integers(0, 97)}"))
        if code % 5 == 0:
            test = read_test(written_test(Ordered(*rng.choice([["text", ">="], ["version", "<="]]), "1.2")))
        tests[code] = test
        tester.add(code, test)
        if code % 3 == 0:
            gone = int(rng.choice(list(tests)))
            tester.remove(gone)
            del tests[gone]
        for text in [a_text(rng), str(rng.choice(words)) + a_text(rng, 2)]:
            assert tester.codes(text) == {code for code, test in tests.items() if test.holds(text)}
    assert all(read_test(written_test(test)) == test for test in tests.values())
    for code in list(tests):
        tester.remove(code)
    assert len(tester) == 0
    assert tester.codes("alphabet") == set()


@pytest.mark.parametrize("has_automata", [True, False])
def test_contained_texts_are_found_while_many_come_and_go(has_automata: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_automata:
        monkeypatch.setitem(sys.modules, "ahocorasick", None)
    rng = np.random.default_rng(9)
    texts = ["".join(rng.choice(list("abcé "), rng.integers(1, 9))) for _ in range(3_000)]
    tester, held = Tester(), dict[int, str]()
    for code, text in enumerate(texts):
        tester.add(code, Contains(text))
        held[code] = text
        if code % 3 == 0:
            gone = int(rng.choice(list(held)))
            tester.remove(gone)
            del held[gone]
        if code % 50 == 0:
            if tester.is_due:
                tester.build()
            value = "".join(rng.choice(list("abcé "), 20))
            assert tester.codes(value) == {number for number, text in held.items() if text in value}
    for code in list(held)[::-1]:
        tester.remove(code)
    assert tester.codes("abc") == set()


@pytest.mark.parametrize(
    "pattern",
    [
        "abc",
        "a+bc",
        "ab?c",
        "a(bc)d",
        "[^]x]ab",
        "[ab]cd",
        "ab{0}cd",
        r"a\.b",
        r"\dab",
        "a|b",
        "(?i)ab",
        "^abc$",
        "ab*",
        "a[bc]de?f",
    ],
)
def test_the_literal_of_a_regular_expression_is_in_every_match(pattern: str) -> None:
    rng = np.random.default_rng(1)
    literal = needed_literal(pattern)
    for _ in range(3_000):
        text = "".join(rng.choice(list("abcdefx].0"), rng.integers(0, 7)))
        assert literal in text or not finds(pattern, text)


def test_all_encoders_agree_on_tests() -> None:
    engine = Engine()
    rng = np.random.default_rng(5)
    for _ in range(60):
        try:
            engine.subscribe(a_tree(rng, ("x", "CASEI\x1fx")))
        except NeverMatchesError:
            continue
    texts = [a_text(rng) if i % 9 else None for i in range(80)]
    events = [{"x": text} for text in texts]
    one_by_one = [[(m.id, m.score) for m in engine.match(event)] for event in events]
    assert any(one_by_one)
    assert ranked(engine.match_many(events)) == one_by_one  # type: ignore[arg-type]
    assert ranked(engine.match_many(pa.table({"x": texts}))) == one_by_one  # type: ignore[arg-type]
    listed = pa.table({"values": [[{"attribute": "x", "text": text}] for text in texts]})
    assert ranked(engine.match_many(listed)) == one_by_one  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(examples(6)))
def test_live_events_are_found_by_tests_that_come_later(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    engine = Engine()
    engine.subscribe("x = 'known' AND CASEI(x) = 'known'")
    events = []
    for number in range(25):
        values = [a_text(rng, 4) for _ in range(rng.integers(1, 3))]
        event = Event({"x": values if rng.random() < 0.5 else values[0]}, {"x": 2.0} if number % 3 else {})
        events.append(event)
        engine.publish(event, until=LATER)
    for _ in range(25):
        tree = a_tree(rng, ("x", "CASEI\x1fx"))
        try:
            found = engine.subscribe(tree)
        except NeverMatchesError:
            continue
        rows, schema = normalise(tree, engine.schema), engine.schema
        scores = {at: judge(rows, event_keys(event, schema)).score for at, event in enumerate(events)}
        assert {hit.event: hit.score for hit in found.live} == {at: s for at, s in scores.items() if s is not None}
        assert engine.live(found) == found.live


def test_a_durable_engine_and_its_follower_keep_tests(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    with Engine.open(folder, schema={"v": "version"}) as engine:
        engine.publish({"x": "alphabet", "v": "1.10"}, until=LATER)
        engine.subscribe("x LIKE 'alpha%' AND v > '1.9'")
        engine.subscribe("CASEI(x) LIKE '%BET' AND NOT REGEX(x, 'q')")
        with Engine.open(folder, mode="follow") as follower:
            assert len(follower.match({"x": "alphabet", "v": "2"})) == 2
        engine.snapshot()
        engine.subscribe("x LIKE '%ha%'")
    with Engine.open(folder, schema={"v": "version"}) as engine:
        assert sorted(m.id for m in engine.match({"x": "ALPHABET"})) == [1]
        assert sorted(m.id for m in engine.match({"x": "alphabet", "v": "1.9.1"})) == [0, 1, 2]
        assert [hit.event for hit in engine.subscribe("x LIKE 'al%t'").live] == [0]


def test_a_saved_engine_keeps_tests(tmp_path: Path) -> None:
    engine = Engine(Schema({"name": "ordered string"}))
    engine.subscribe("x LIKE 'a%' AND x LIKE '%z'")
    engine.subscribe("name BETWEEN 'b' AND 'd'")
    engine.publish({"x": "abz"}, until=LATER)
    engine.save(tmp_path / "saved")
    again = Engine.load(tmp_path / "saved")
    assert [m.id for m in again.match({"x": "az", "name": "c"})] == [0, 1]
    assert [hit.event for hit in again.live(0)] == [0]
    assert [hit.event for hit in again.subscribe("x LIKE '%b%'").live] == [0]


def test_tests_of_subscriptions_that_are_gone_are_reclaimed() -> None:
    engine = Engine()
    ids = engine.subscribe_many([f"x LIKE '%word {i}%'" for i in range(6_000)])
    assert engine.match({"x": "a word 17"})
    engine.unsubscribe_many(ids[:-1])
    (hidden,) = engine.schema.find("x").derived
    assert len(hidden.symbols.codes) < 6_000  # type: ignore[union-attr]
    assert engine.match({"x": "word 5999"}) == [(5999, 1.0)]
    assert len(hidden.tester._tester) < 6_000


def test_an_update_and_a_move_keep_tests() -> None:
    engine = Engine()
    id_ = engine.subscribe("x LIKE 'a%'", place=(1.0, 2.0), radius=100)
    engine.move(id_, (3.0, 4.0))
    assert engine.match(Event({"x": "ab"}, place=(3.0, 4.0)))
    engine.update(id_, "x LIKE '%b'")
    assert not engine.match({"x": "a"})
    assert engine.match({"x": "b"})


def test_an_explanation_shows_the_tests() -> None:
    engine = Engine()
    id_ = engine.subscribe("x LIKE 'a%' AND x NOT LIKE '%z' ^2")
    text = str(engine.explain({"x": "az"}, id_))
    assert "x LIKE 'a%'" in text
    assert "no" in text
