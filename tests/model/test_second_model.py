"""The engine against a second model, written from the documents: random worlds, every form, every call, to the last bit.

`MODEL_SEEDS` says how many seeds an index `make stress` takes. A failure prints how to run its seed alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from matchwood import Engine, Match, parse
from tests.model.run import FIXED, INDEXES, DisagreementError, Run

SEEDS = 20
CROWDS = ("vcr", "be-star-tree", "mo-tree", "postings", "ranked", "k-index")
STRESS_SEEDS = int(os.environ.get("MODEL_SEEDS", "500"))


def agree(index: str, seeds: range, **size: int) -> None:
    for seed in seeds:
        Run(index, seed, **size).run()


@pytest.mark.parametrize("index", INDEXES)
def test_engine_says_what_the_documents_say(index: str) -> None:
    agree(index, range(SEEDS))


@pytest.mark.parametrize("index", CROWDS)
def test_engine_says_it_of_hundreds_of_subscriptions_too(index: str) -> None:
    agree(index, range(2), crowd=300, steps=30)


def test_answers_stay_the_same_whatever_index_the_engine_chooses() -> None:
    run = Run("auto", 0)
    run.subscribe_many(size=300, copies=15)
    run.replan()
    for call in (run.match, run.match_batch, run.subscribe, run.update, run.unsubscribe, run.explain, run.publish):
        for _ in range(3):
            call()
    run.save_and_load()
    run.match()


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("index", INDEXES)
def test_engine_says_what_the_documents_say_in_many_worlds(index: str) -> None:
    agree(index, range(10_000, 10_000 + STRESS_SEEDS))


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("index", INDEXES)
def test_engine_says_it_of_many_crowds_too(index: str) -> None:
    agree(index, range(20_000, 20_000 + STRESS_SEEDS // 20), crowd=500, steps=40)


# The model itself: a wrong engine must not pass.


def _drop_a_match(answer: list[Match]) -> list[Match]:
    return answer[:-1] if len(answer) > 3 else answer


def _score_a_bit_off(answer: list[Match]) -> list[Match]:
    return [Match(id, score * (1 + 2**-52)) if score == 2 else Match(id, score) for id, score in answer]


def _break_ties_by_the_larger_id(answer: list[Match]) -> list[Match]:
    return sorted(answer, key=lambda m: (-m.score, -m.id))


@pytest.mark.parametrize("wrong", [_drop_a_match, _score_a_bit_off, _break_ties_by_the_larger_id])
def test_a_wrong_answer_is_noticed(
    wrong: Callable[[list[Match]], list[Match]], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Engine.match
    monkeypatch.setattr(Engine, "match", lambda self, event, **how: wrong(right(self, event, **how)))
    assert _noticed()


def test_a_comparison_that_includes_its_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Engine.subscribe

    def subscribe(self: Engine, source: Any, **terms: Any) -> Any:
        return right(self, source.replace(" < ", " <= ") if isinstance(source, str) else source, **terms)

    monkeypatch.setattr(Engine, "subscribe", subscribe)
    assert _noticed()


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (" LIKE '%", " LIKE '_"),
        ("A_CONTAINS(", "A_OVERLAPS("),
        ("A_CONTAINEDBY(", "A_OVERLAPS("),
        ("A_COUNT(", "A_OVERLAPS("),
        ("S_DISJOINT(", "S_TOUCHES("),
        ("OFFSET 2.0", "OFFSET 0.0"),
        *(
            pytest.param(said, taken, marks=pytest.mark.stress)
            for said, taken in (
                ("ALL(", "ANY("),
                ("STARTS_WITH(", "ENDS_WITH("),
                ("STARTS_WITH(", "CONTAINS("),
                ("T_AFTER(", "T_BEFORE("),
                ("S_WITHIN(", "S_INTERSECTS("),
                ("T_AFTER(", "T_INTERSECTS("),
                ("TO 0.5", "TO 0.0"),
            )
        ),
    ],
)
def test_a_condition_that_is_taken_for_another_is_noticed(
    said: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = Engine.subscribe, 0

    def subscribe(self: Engine, source: Any, **terms: Any) -> Any:
        nonlocal wrong
        text = str(parse(source)) if isinstance(source, str) else ""
        if said == "A_COUNT(" and said in text:
            text = re.sub(r"A_COUNT\((.*?\))\) \S+ \d+", r"A_OVERLAPS(\1)", text)
            wrong += 1
            return right(self, text, **terms)
        wrong += said in text
        return right(self, text.replace(said, taken) if said in text else source, **terms)

    monkeypatch.setattr(Engine, "subscribe", subscribe)
    assert _noticed(200), f"{wrong} subscriptions were told wrongly"


def test_an_update_that_does_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "update", lambda self, id, expression, **terms: None)
    assert _noticed()


def test_a_live_event_that_outlives_its_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Engine.publish
    monkeypatch.setattr(
        Engine,
        "publish",
        lambda self, event, *, until=None, **how: right(self, event, until=until and "2030-01-01T00:00:00Z", **how),
    )
    assert _noticed()


def _noticed(seeds: int = SEEDS) -> bool:
    try:
        agree("scan", range(seeds))
    except DisagreementError:
        return True
    return False


def test_runs_are_a_function_of_their_seed() -> None:
    first, second = Run("scan", 3), Run("scan", 3)
    for run in (first, second):
        run.load_crowd()
    assert first.log == second.log
    assert first.model.ids() == second.model.ids()


def test_every_index_that_can_be_named_is_tested() -> None:
    from matchwood.structures import INDEXES as NAMED

    assert set(INDEXES) == {"auto", *NAMED}
    assert set(NAMED) >= FIXED
