"""Conditions on strings of other systems: what they become, and what that says about single values, lists and absent fields."""

from __future__ import annotations

import re
from typing import Any

import pytest

from matchwood import Engine
from matchwood.convert import from_cesql, from_elasticsearch, from_eventbridge, from_mongodb
from matchwood.lang.parser import parse

READERS = {
    "eventbridge": from_eventbridge,
    "mongodb": from_mongodb,
    "elasticsearch": from_elasticsearch,
    "cesql": from_cesql,
}
CASES: list[tuple[str, Any, str, list[Any], list[Any]]] = [
    ("eventbridge", {"a": [{"prefix": "x%"}]}, r"a LIKE 'x\%%'", ["x%y", ["b", "x%"]], ["xy", None, []]),
    ("eventbridge", {"a": [{"suffix": ".png"}]}, "a LIKE '%.png'", ["b.png"], ["b.pngx", None]),
    ("eventbridge", {"a": [{"wildcard": "a*\\*b"}]}, r"a LIKE 'a%*b'", ["axx*b", "a*b"], ["axb"]),
    ("eventbridge", {"a": [{"equals-ignore-case": "Oslo"}]}, "CASEI(a) = CASEI('oslo')", ["OSLO"], ["Oslo2", None]),
    ("eventbridge", {"a": [{"prefix": {"equals-ignore-case": "Os"}}]}, "CASEI(a) LIKE CASEI('os%')", ["OSLO"], ["bo"]),
    ("eventbridge", {"a": ["z", {"prefix": "x"}]}, "a = 'z' OR a LIKE 'x%'", ["z", "xy"], ["y"]),
    (
        "eventbridge",
        {"a": [{"anything-but": {"prefix": "x"}}]},
        "a IS NOT NULL AND (NOT (ALL(a) LIKE 'x%') OR a IS NULL)",
        ["y", ["x", "y"]],
        ["x", ["x", "xy"], None],
    ),
    ("eventbridge", {"a": [{"cidr": "10.0.0.0/24"}]}, "CIDR(a, '10.0.0.0/24')", ["10.0.0.9"], ["10.0.1.0", "x"]),
    ("mongodb", {"a": {"$regex": "^x.*y$"}}, "REGEX(a, '^x.*y$')", ["xzy"], ["x", None]),
    ("mongodb", {"a": re.compile("X", re.IGNORECASE)}, "REGEX(a, '(?i)X')", ["axb", ["q", "X"]], ["b"]),
    ("mongodb", {"a": {"$not": {"$regex": "x"}}}, "NOT (REGEX(a, 'x')) OR a IS NULL", ["y", None], ["x", ["y", "x"]]),
    (
        "mongodb",
        {"$and": [{"a": {"$regex": "x"}}, {"a": {"$regex": "y"}}]},
        "REGEX(ANY(a), 'x') AND REGEX(ANY(a), 'y')",
        ["xy", ["x", "y"]],
        ["x"],
    ),
    ("elasticsearch", {"prefix": {"a": "x"}}, "a LIKE 'x%'", ["xy"], ["yx"]),
    ("elasticsearch", {"wildcard": {"a": {"value": "x?_*", "boost": 2}}}, r"a LIKE 'x_\_%' ^2.0", ["xa_b"], ["xab"]),
    (
        "elasticsearch",
        {"prefix": {"a": {"value": "Xy", "case_insensitive": True}}},
        "CASEI(a) LIKE CASEI('xy%')",
        ["XYZ"],
        ["x"],
    ),
    (
        "elasticsearch",
        {"term": {"a": {"value": "Xy", "case_insensitive": True}}},
        "CASEI(a) = CASEI('xy')",
        ["XY"],
        ["x"],
    ),
    (
        "elasticsearch",
        {"bool": {"must_not": {"prefix": {"a": "x"}}}},
        "a NOT LIKE 'x%' ^0.0 OR a IS NULL ^0.0",
        ["y", None],
        ["x", ["y", "x"]],
    ),
    ("cesql", "a LIKE 'x%_\\_'", r"a LIKE 'x%_\_'", ["xab_", "xa_"], ["x_", "y"]),
    ("cesql", "a NOT LIKE 'x%'", "a NOT LIKE 'x%'", ["y"], ["x", None]),
]


@pytest.mark.parametrize(("language", "condition", "text", "held", "not_held"), CASES, ids=lambda case: str(case)[:40])
def test_a_condition_on_a_string_keeps_its_meaning(
    language: str, condition: Any, text: str, held: list[Any], not_held: list[Any]
) -> None:
    tree = READERS[language](condition)
    assert tree == parse(text), str(tree)
    engine = Engine(index="scan")
    engine.subscribe(tree)
    for value in held:
        assert engine.match({"a": value}), value
    for value in not_held:
        assert not engine.match({"a": value}), value
