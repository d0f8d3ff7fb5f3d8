"""Conditions on lists of objects: MongoDB's `$elemMatch`, Elasticsearch's `nested`, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchwood import Engine
from matchwood.convert import from_elasticsearch, from_mongodb, to_cesql, to_elasticsearch, to_mongodb
from matchwood.errors import ConversionError, NeverMatchesError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.expression import Expression
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from tests.nested_worlds import an_event, met

READERS = {"mongodb": from_mongodb, "elasticsearch": from_elasticsearch}
WRITERS: dict[str, Any] = {"mongodb": to_mongodb, "elasticsearch": to_elasticsearch}
ANY_A = "ANY(items, sku = 'a' AND qty >= 2)"

CASES: list[tuple[str, Any, str]] = [
    ("mongodb", {"items": {"$elemMatch": {"sku": "a", "qty": {"$gte": 2}}}}, ANY_A),
    ("mongodb", {"items": {"$not": {"$elemMatch": {"sku": "a"}}}}, "NOT ANY(items, sku = 'a') OR items IS NULL"),
    ("mongodb", {"items": {"$elemMatch": {"$or": [{"a": 1}, {"b": 2}]}}}, "ANY(items, a = 1 OR b = 2)"),
    ("mongodb", {"items": {"$elemMatch": {"sku": {"$ne": "a"}}}}, "ANY(items, sku != 'a' OR sku IS NULL)"),
    ("mongodb", {"items": {"$elemMatch": {"n": {"$elemMatch": {"$gt": 1, "$lt": 5}}}}}, "ANY(items, n > 1 AND n < 5)"),
    (
        "mongodb",
        {"items": {"$all": [{"$elemMatch": {"a": 1}}, {"$elemMatch": {"parts": {"$elemMatch": {"b": 2}}}}]}},
        "ANY(items, a = 1) AND ANY(items, ANY(parts, b = 2))",
    ),
    (
        "elasticsearch",
        {
            "nested": {
                "path": "items",
                "query": {
                    "bool": {"must": [{"term": {"items.sku": "a"}}], "filter": [{"range": {"items.qty": {"gte": 2}}}]}
                },
            }
        },
        ANY_A,
    ),
    (
        "elasticsearch",
        {"bool": {"must_not": {"nested": {"path": "items", "query": {"term": {"items.sku": "a"}}}}}},
        "NOT (ANY(items, sku = 'a') ^0) OR items IS NULL ^0",
    ),
    (
        "elasticsearch",
        {
            "nested": {
                "path": "items",
                "score_mode": "max",
                "boost": 2,
                "query": {"nested": {"path": "items.parts", "query": {"term": {"items.parts.sku": "b"}}}},
            }
        },
        "ANY(items, ANY(parts, sku = 'b')) ^2",
    ),
]


@pytest.mark.parametrize(("language", "condition", "text"), CASES, ids=lambda case: str(case)[:40])
def test_a_condition_on_objects_keeps_its_meaning(language: str, condition: Any, text: str) -> None:
    assert READERS[language](condition) == parse(text)


@pytest.mark.parametrize("language", list(READERS))
def test_what_is_written_reads_back_with_the_same_meaning(language: str) -> None:
    texts = [
        ANY_A,
        f"NOT {ANY_A}",
        "ALL(items, qty >= 1)",
        "NOT ALL(items, qty >= 1 OR sku IS NULL)",
        "ANY(items, sku != 'a') AND n > 1 OR ALL(items, NOT (qty < 2))",
        "ANY(items, ANY(parts, sku = 'b' AND qty < 3) OR ALL(parts, qty > 1))",
        "ANY(more, user.age IN (1, 2)) AND NOT ANY(items, sku IN ('a', 'b') AND gift IS NULL)",
    ]
    rng = np.random.default_rng(3)
    events = [an_event(rng) for _ in range(120)]
    for text in texts:
        tree = parse(text)
        again = READERS[language](WRITERS[language](tree))
        assert [_holds(again, event) for event in events] == [met(tree, event) for event in events], str(again)


def _holds(tree: Expression, event: dict[str, Any]) -> bool:
    schema = Schema()
    try:
        rows = normalise(tree, schema)
    except NeverMatchesError:
        return False
    return judge(rows, event_keys(event, schema)).matched


def test_what_is_written_is_what_they_write() -> None:
    assert to_mongodb(parse(ANY_A)) == {
        "items": {"$elemMatch": {"$and": [{"sku": {"$eq": "a"}}, {"qty": {"$gte": 2}}]}}
    }
    assert to_elasticsearch(parse("ANY(items, sku = 'a') ^2")) == {
        "nested": {"path": "items", "query": {"term": {"items.sku": {"value": "a"}}}, "boost": 2.0}
    }
    with pytest.raises(ConversionError, match="a condition on a list of objects cannot be written in CloudEvents SQL"):
        to_cesql(parse("ANY(items, sku = 'a')"))


def test_a_converted_filter_can_be_subscribed() -> None:
    engine = Engine(index="scan")
    engine.subscribe(from_mongodb({"order.items": {"$elemMatch": {"sku": "a", "qty": {"$gte": 2}}}}))
    assert engine.match({"order": {"items": [{"sku": "b", "qty": 3}, {"sku": "a", "qty": 2}]}})
    assert not engine.match({"order": {"items": [{"sku": "b", "qty": 3}, {"sku": "a", "qty": 1}]}})
