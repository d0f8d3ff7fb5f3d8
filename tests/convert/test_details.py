"""Single facts about each language that random conditions do not reach: dates, places, weights, names."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from matchwood import Engine, ManualClock
from matchwood.convert import READERS, from_elasticsearch
from matchwood.lang.parser import parse
from tests.convert.oracle import matches, score

CONVERTED: list[tuple[str, Any, str]] = [
    ("eventbridge", {"n": [{"anything-but": [1, 2]}]}, "NOT (ALL(n) IN (1, 2))"),
    ("eventbridge", {"detail": {"a b": ["x"]}}, "\"detail.a b\" = 'x'"),
    ("mongodb", {"t": {"$gt": {"$date": "2026-01-31T12:00:00Z"}}}, "t > TIMESTAMP('2026-01-31T12:00:00Z')"),
    ("mongodb", {"t": {"$date": {"$numberLong": "0"}}}, "t = TIMESTAMP('1970-01-01T00:00:00Z')"),
    ("mongodb", {"p": {"$geoWithin": {"$box": [[1, 2], [3, 4]]}}}, "BBOX(p, 1, 2, 3, 4)"),
    ("mongodb", {"n": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, "n > 1 AND n < 5 ^0"),
    ("mongodb", {}, "TRUE"),
    ("mongodb", {"n": {"$in": []}}, "FALSE"),
    ("elasticsearch", {"range": {"t": {"lte": "2026-01-31"}}}, "t < TIMESTAMP('2026-02-01T00:00:00Z')"),
    ("elasticsearch", {"range": {"t": {"gt": "2026-01-31"}}}, "t >= TIMESTAMP('2026-02-01T00:00:00Z')"),
    ("elasticsearch", {"geo_distance": {"distance": "12km", "p": "59.5,10"}}, "DWITHIN(p, POINT(10 59.5), 12000 m)"),
    (
        "elasticsearch",
        {"geo_bounding_box": {"p": {"top_left": {"lat": 4, "lon": 1}, "bottom_right": [3, 2]}}},
        "BBOX(p, 1, 2, 3, 4)",
    ),
    ("elasticsearch", {"bool": {"boost": 2, "must": {"term": {"n": {"value": 1, "boost": 3}}}}}, "n = 1 ^6"),
    ("elasticsearch", {"bool": {}}, "TRUE"),
    ("cesql", "subject = \"it's\" OR subject = 'a\\'b'", "subject = 'it''s' OR subject = 'a''b'"),
    ("cesql", "-3 < n", "n > -3"),
    ("cesql", "type = 'a' OR n = 1", "type = 'a' OR n = 1"),
]


@pytest.mark.parametrize(("language", "condition", "text"), CONVERTED, ids=[f"{a} {b}" for a, b, _ in CONVERTED])
def test_a_condition_becomes_this_text(language: str, condition: Any, text: str) -> None:
    assert READERS[language](condition) == parse(text)


def test_distances_of_mongodb_keep_their_angle() -> None:
    near = {"$nearSphere": {"$geometry": {"type": "Point", "coordinates": [1, 2]}, "$maxDistance": 6_378_100}}
    one_radian = {"$geoWithin": {"$centerSphere": [[1, 2], 1]}}
    radii = [READERS["mongodb"]({"p": condition}).radius for condition in (near, one_radian)]  # type: ignore[attr-defined]
    assert math.isclose(*radii)


def test_optional_clauses_add_to_the_score_and_filters_do_not() -> None:
    query = {
        "bool": {
            "filter": [{"term": {"s": "a"}}],
            "should": [{"term": {"n": {"value": 1, "boost": 3}}}, {"term": {"m": 2}}],
        }
    }
    expression = READERS["elasticsearch"](query)
    assert score(expression, {"s": "a"}) == 0.0
    assert score(expression, {"s": "a", "n": 1}) == 3.0
    assert score(expression, {"s": "a", "n": 1, "m": 2}) == 4.0
    assert score(expression, {"n": 1, "m": 2}) is None


def test_two_ranges_may_be_met_by_two_elements_but_each_by_one() -> None:
    query = {"bool": {"must": [{"range": {"n": {"gt": 1, "lt": 3}}}, {"range": {"n": {"gt": 3, "lt": 5}}}]}}
    expression = READERS["elasticsearch"](query)
    assert matches(expression, [{"n": [2, 4]}, {"n": [2, 3]}, {"n": 2}, {"n": [0, 2, 6]}]) == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("ends", "text", "minutes"),
    [
        ({"gte": "now-1h"}, "AGE(seen) <= 3600", {60, 59, 0, -5}),
        ({"lt": "now-1h"}, "AGE(seen) > 3600", {61, 1500}),
        ({"gt": "now-1d", "lte": "now-1h"}, "AGE(seen) >= 3600 AND AGE(seen) < 86400 ^0.0", {60, 61}),
        ({"lte": "now+5m-1m"}, "AGE(seen) >= -240", {1500, 61, 60, 59, 0}),
        ({"gt": "now", "boost": 2}, "AGE(seen) < 0 ^2.0", {-5}),
    ],
)
def test_date_math_of_elasticsearch_is_an_age(ends: dict[str, Any], text: str, minutes: set[int]) -> None:
    tree = from_elasticsearch({"range": {"seen": ends}})
    assert str(tree) == text
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    engine = Engine(clock=ManualClock(now))
    engine.subscribe(tree)
    found = {m for m in (1500, 61, 60, 59, 0, -5) if engine.match({"seen": now - timedelta(minutes=m)})}
    assert found == minutes
