"""What has no counterpart is refused with its place and its name; nothing is dropped in silence."""

from __future__ import annotations

from typing import Any

import pytest

from matchwood.convert import READERS
from matchwood.errors import ConversionError, TooComplexError

REFUSED: list[tuple[str, Any, str]] = [
    ("eventbridge", {"a": [None]}, "$.a[0]: null is not a value"),
    ("eventbridge", {"a": [1, "x"]}, "'a' is compared with a number at"),
    ("eventbridge", {"a": []}, "$.a: expected at least one alternative"),
    ("eventbridge", {"a": 1}, "$.a: expected a list of alternatives"),
    ("eventbridge", {}, "$: an empty object"),
    ("eventbridge", {"a": [{"numeric": ["<", 1, ">", 5]}]}, "$.a[0].numeric: expected a lower and an upper end"),
    ("mongodb", {"$where": "this.a > 1"}, "$.$where: code is not supported"),
    ("mongodb", {"a": {"$not": {"$mod": [2, 0]}}}, "$.a.$not.$mod: arithmetic"),
    ("mongodb", {"$or": [{"a": 1}, {"a": {"$size": 2}}]}, "$.$or[1].a.$size: the length of a list"),
    ("mongodb", {"a": {"$type": "string"}}, "$.a.$type: an attribute has one type"),
    ("mongodb", {"a": [1, 2]}, "$.a: equality with a whole list"),
    ("mongodb", {"a": {"b": 1}}, "$.a: equality with an object"),
    ("mongodb", {"a.0": 1}, "$.a.0: positions in lists"),
    ("mongodb", {"a": {"$gt": "x"}}, "$.a.$gt: strings have no order"),
    ("eventbridge", {"a": [{"anything-but": {"prefix": ["x", "y"]}}]}, "$.a[0].anything-but.prefix: several patterns"),
    ("eventbridge", {"a": [{"cidr": "10.0.0.1/8"}]}, "$.a[0].cidr: attribute 'a': expected a network"),
    ("eventbridge", {"a": [{"prefix": 5}]}, "$.a[0].prefix: expected a string"),
    ("eventbridge", {"a": [{"wildcard": "x\\"}]}, "$.a[0].wildcard: the pattern ends in a backslash"),
    ("mongodb", {"a": {"$regex": "x", "$options": "x"}}, "$.a.$regex: the option 'x'"),
    ("mongodb", {"a": {"$regex": "(?=x)"}}, "$.a.$regex: attribute 'a': the regular expression"),
    ("mongodb", {"a": {"$options": "i"}}, "$.a.$options: it belongs to $regex"),
    ("elasticsearch", {"regexp": {"a": "x.*"}}, "$.regexp: only prefix and wildcard"),
    ("cesql", "a LIKE 5", "LIKE: expected a pattern that is a string"),
    ("mongodb", {"a": {"$elemMatch": {"b": {"$mod": [2, 1]}}}}, "$.a.$elemMatch.b.$mod: arithmetic"),
    ("mongodb", {"a": {"$all": [{"$elemMatch": {"b": 1}}, 3]}}, "$.a.$all: equality with an object"),
    ("mongodb", {"a": {"$gt": None}}, "$.a.$gt: null is not a value here"),
    ("mongodb", {"a": {"$geoWithin": {"$polygon": []}}}, "$.a.$geoWithin.$polygon: only $centerSphere and $box"),
    ("mongodb", {"a": {"$nearSphere": [1, 2]}}, "$.a.$nearSphere: without $maxDistance it only sorts"),
    ("mongodb", {"a": {"$foo": 1}}, "$.a.$foo: unknown operator"),
    ("elasticsearch", {"query": {"match": {"a": "x"}}}, "$.query.match: full text search"),
    ("elasticsearch", {"query_string": {"query": "x"}}, "$.query_string: full text search"),
    ("elasticsearch", {"script": {}}, "$.script: scripts"),
    ("elasticsearch", {"nested": {"path": "a"}}, "$.nested: expected a query"),
    ("elasticsearch", {"has_child": {"type": "a"}}, "$.has_child: other documents"),
    ("elasticsearch", {"nested": {"path": "a", "query": {"term": {"b": 1}}}}, "$.nested.query: expected fields of 'a'"),
    (
        "elasticsearch",
        {"nested": {"path": "a", "query": {"term": {"a.b": {"value": 1, "boost": 2}}}}},
        "$.nested.query: boosts inside",
    ),
    ("elasticsearch", {"range": {"a": {"gt": "now-1d/d"}}}, "$.range.a.gt: of date math, now with weeks"),
    ("elasticsearch", {"range": {"a": {"gt": "now-1M"}}}, "$.range.a.gt: of date math, now with weeks"),
    ("elasticsearch", {"range": {"a": {"gt": "now-1d", "lt": "2026-01-31"}}}, "$.range.a: one end is relative to now"),
    ("elasticsearch", {"range": {"a": {"gt": "2026-01-31||+1d"}}}, "$.range.a.gt: expected a number, 2026-01-31"),
    ("elasticsearch", {"range": {"a": {"gt": 1, "format": "x"}}}, "$.range.a.format: not supported"),
    ("elasticsearch", {"bool": {"should": [], "minimum_should_match": "75%"}}, "percentages are not supported"),
    ("elasticsearch", {"term": {"a": 1}, "terms": {}}, "$: expected an object with one query"),
    ("cesql", "a + 1 = 2", "position 2: +: arithmetic"),
    ("cesql", "a = 1 + 2", "position 6: +: arithmetic"),
    ("cesql", "LENGTH(a) > 2", "position 0: LENGTH(...): functions"),
    ("cesql", "a = UPPER('x')", "position 4: UPPER(...): functions"),
    ("cesql", "a = b", "position 4: comparing two attributes"),
    ("cesql", "a = 1 AND b = 2 OR c = 3", "position 16: OR after AND"),
    ("cesql", "NOT a = 1", "position 0: NOT before =: its precedence"),
    ("cesql", "a < 'x'", "position 0: <: CESQL orders integers only"),
    ("cesql", "a = 1 OR a = 'x'", "'a' is compared with values of two types"),
    ("cesql", "a = 'x", "position 4: this string is never closed"),
    ("cesql", "", "expected a condition, got the end of the filter"),
    ("cesql", 5, "expected the text of a filter"),
]


@pytest.mark.parametrize(("language", "condition", "message"), REFUSED, ids=[f"{a} {b}" for a, b, _ in REFUSED])
def test_what_has_no_counterpart_is_refused_by_name_and_place(language: str, condition: Any, message: str) -> None:
    with pytest.raises(ConversionError) as raised:
        READERS[language](condition)
    assert message in str(raised.value)


@pytest.mark.parametrize("language", ["eventbridge", "mongodb", "elasticsearch", "cesql"])
def test_deep_nesting_is_too_complex_and_not_a_crash(language: str) -> None:
    deep: Any = {"eventbridge": [1], "mongodb": {"a": 1}, "elasticsearch": {"match_all": {}}, "cesql": "a = 1"}[
        language
    ]
    for _ in range(500):
        if language == "eventbridge":
            deep = {"a": deep}
        elif language == "mongodb":
            deep = {"$and": [deep]}
        else:
            deep = {"bool": {"must": deep}} if language == "elasticsearch" else f"({deep})"
    with pytest.raises(TooComplexError, match="levels deep"):
        READERS[language](deep)


def test_an_integer_that_python_does_not_write_is_refused_as_well() -> None:
    condition = {"$and": [{"a": {"$elemMatch": {"$gt": 10**5000, "$lt": 10**5001}}}, {"a": 3}]}
    with pytest.raises(ConversionError, match="float64 cannot hold a number of thousands of digits exactly"):
        READERS["mongodb"](condition)
