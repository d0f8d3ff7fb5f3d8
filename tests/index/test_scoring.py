"""Scoring functions: the same number from Python and compiled, and a clear refusal of what cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from matchwood import Engine
from matchwood.errors import QueryError
from matchwood.store.scoring import SUM, scoring
from matchwood.structures import INDEXES
from tests.worlds import a_world, listed, ranked, seeded_dice


def capped(score: float, weight: float) -> float:
    return max(score, min(score + weight, 2.0))


def test_the_sum_is_the_default_and_needs_no_compiled_function() -> None:
    assert scoring(None) is scoring("sum") is SUM
    assert SUM.combine(0.1, 0.2) == 0.1 + 0.2
    assert SUM.compiled is None


@pytest.mark.parametrize("function", ["max", capped, lambda score, weight: score + math.sqrt(weight)])
def test_an_index_scores_with_the_function_as_the_oracle_does(function: Any) -> None:
    chosen = scoring(function)
    world = a_world(seeded_dice(4), 60, 8)
    index = INDEXES["scan"].build(world.rows())
    for mode in ("all", "any"):
        expected = world.expected(mode=mode, combine=chosen.combine)
        assert ranked(index.match(world.event_arrays(), mode=mode, combine=chosen.compiled)) == expected
        top = index.top_k(world.event_arrays(), 3, mode=mode, combine=chosen.compiled)
        assert listed(top) == [hits[:3] for hits in expected]


@pytest.mark.parametrize("function", ["mean", 5, ("sum",)])
def test_what_is_no_scoring_function_is_refused(function: Any) -> None:
    with pytest.raises(
        QueryError, match=r"expected scoring 'sum', 'max', 'priority' or a function \(score, weight\) -> score, got"
    ):
        scoring(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda score, weight: score - weight,
        lambda score, weight: weight,
        lambda score, weight: score * (1.0 + weight),  # lowers a negative score
        lambda score, weight: score + 1.0 / (1.0 + weight),
        lambda score, weight: math.nan,
    ],
)
def test_a_function_that_is_not_monotone_or_lowers_a_score_is_refused(
    function: Callable[[float, float], float],
) -> None:
    with pytest.raises(QueryError, match="a scoring function must be monotone"):
        scoring(function)


@pytest.mark.parametrize(
    "function",
    [
        max,
        lambda score: score,
        lambda score, weight: score + weight / 0,
        lambda score, weight: str(score),
        lambda score, weight: score + float(f"{weight}"),
        lambda score, weight: score + np.random.default_rng(1).random() * 0,
        dict,
    ],
)
def test_a_function_that_raises_or_cannot_be_compiled_is_refused_with_the_reason(function: Any) -> None:
    with pytest.raises(QueryError, match="scoring function cannot be used; write plain arithmetic on two floats: "):
        scoring(function)


def test_an_engine_scores_and_explains_with_its_function() -> None:
    engine = Engine(scoring="max")
    id_ = engine.subscribe("a = 1 ^0.5 AND b = 2 ^3", priority=1)
    event = {"a": 1, "b": 2}
    assert engine.match(event) == [(id_, 3.0)]
    assert engine.explain(event, id_).score == 3.0
