"""A converted condition matches what the plain evaluator of its own language matches: scalars, lists and missing attributes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from matchwood.convert.cesql import from_cesql
from matchwood.convert.elasticsearch import from_elasticsearch
from matchwood.convert.eventbridge import from_eventbridge
from matchwood.convert.mongodb import from_mongodb
from matchwood.errors import TooComplexError
from matchwood.lang.parser import parse
from tests.convert import evaluators, worlds
from tests.convert.oracle import matches

CONDITIONS = 150
EVENTS = 25


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("make", "convert", "evaluate"),
    [
        (worlds.an_eventbridge_pattern, from_eventbridge, evaluators.eventbridge),
        (worlds.a_mongodb_condition, from_mongodb, evaluators.mongodb),
        (worlds.an_elasticsearch_query, from_elasticsearch, evaluators.elasticsearch),
    ],
    ids=["eventbridge", "mongodb", "elasticsearch"],
)
def test_a_converted_condition_matches_what_its_language_matches(
    make: Callable[[Random], Any], convert: Callable[[Any], Any], evaluate: Callable[[Any, Any], bool], seed: int
) -> None:
    random = Random(seed)
    refused = 0
    for _ in range(CONDITIONS):
        condition = make(random)
        events = [worlds.an_event(random) for _ in range(EVENTS)]
        expression = convert(condition)
        assert parse(str(expression)) == expression
        try:
            found = matches(expression, events)
        except TooComplexError:
            refused += 1
            continue
        assert found == [evaluate(condition, event) for event in events], (condition, str(expression))
    assert refused <= CONDITIONS // 10


@pytest.mark.parametrize("seed", range(2))
def test_a_converted_filter_of_cesql_passes_what_cesql_passes(seed: int) -> None:
    random = Random(seed)
    for _ in range(CONDITIONS):
        tree = worlds.a_cesql_tree(random)
        events = [{**worlds.an_event(random, lists=False), "type": random.choice("abc")} for _ in range(EVENTS)]
        expression = from_cesql(evaluators.cesql_text(tree))
        expected = [evaluators.passes(tree, event) for event in events]
        assert matches(expression, events) == expected, (evaluators.cesql_text(tree), str(expression))
