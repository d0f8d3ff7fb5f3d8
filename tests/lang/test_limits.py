"""Limits: an expression from a stranger is read or refused within a bounded time; the refusal names the limit and the remedy."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from matchwood.errors import MatchwoodError, TooComplexError
from matchwood.lang.builder import attr
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema

LENGTH = 54_000
NINE = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(9))
MIXED = " AND ".join(f"(a{i} = 1 OR x != {i})" for i in range(9))
WEIGHTS = " AND ".join(f"(x != {i} ^{2**i} OR x != {-i} ^{3**i})" for i in range(9))
LARGE = {
    "a condition on each of many attributes, in 512 alternatives": f"{NINE} AND "
    + " AND ".join(f"x{i} = {i}" for i in range(LENGTH // 17)),
    "many conditions on one attribute, in 512 alternatives": f"{NINE} AND "
    + " AND ".join(f"x != {i}" for i in range(LENGTH // 17)),
    "many conditions on an attribute of the alternatives": f"{MIXED} AND "
    + " AND ".join(f"x != {i}" for i in range(LENGTH // 17)),
    "alternatives of many weights": f"{WEIGHTS} AND "
    + " AND ".join(f"(x != {i} OR x IS NULL)" for i in range(LENGTH // 30)),
    "sums of two weights": " AND ".join(f"(x != {i} ^1 OR x != {-i - 1} ^2)" for i in range(LENGTH // 36)),
    "lists in alternatives": " AND ".join(
        f"(a{k} = 1 OR x IN ({','.join(str(i) for i in range(0, 2700, 3))}))" for k in range(9)
    ),
    "outsides of boxes": " AND ".join(
        f"NOT (BBOX(p, {i % 170}, 0, {i % 170 + 1}, {i % 80 + 1}))" for i in range(LENGTH // 32)
    ),
    "alternatives in alternatives": "(a=1 OR (b = 1 AND " * 45
    + " OR ".join(f"b{i} = {i}" for i in range(900))
    + "))" * 45,
    "one attribute each": " OR ".join(f"a{i} = {i}" for i in range(LENGTH // 16)),
}
READ = {"alternatives in alternatives"}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_text_is_read_or_refused_within_seconds_of_cpu(name: str) -> None:
    start = time.process_time()
    with nullcontext() if name in READ else pytest.raises(TooComplexError, match=r"limit .*\(max_\w+\)"):
        normalise(parse(LARGE[name]), Schema())
    assert time.process_time() - start < 5.0  # 0.1 to 1 s; without limits up to minutes


def test_a_text_that_is_too_long_is_refused_with_limit_and_remedy() -> None:
    message = r"the text has 17 characters, the limit is 16 \(max_length\); split the subscription or raise the limit"
    with pytest.raises(TooComplexError, match=message):
        parse("a = 1 AND b = 123", limits=Limits(max_length=16))
    assert parse("a = 1 AND b = 12", limits=Limits(max_length=16)) == parse("a = 1 AND b = 12")


def test_too_many_values_are_refused_before_the_schema_learns_them() -> None:
    schema = Schema()
    with pytest.raises(TooComplexError, match=r"has 3 values and conditions, the limit is 2 \(max_entries\)"):
        normalise(parse("city IN ('a', 'b', 'c')"), schema, limits=Limits(max_entries=2))
    assert "city" not in schema
    with pytest.raises(TooComplexError, match="has 200,000 values and conditions, the limit is 100,000"):
        normalise(attr("n").is_in(range(200_000)), schema)
    assert len(normalise(attr("n").is_in(range(0, 200_000, 2)), schema, limits=DEFAULT_LIMITS)) == 1


def test_alternatives_times_predicates_are_entries() -> None:
    text = "(a = 1 OR b = 2) AND (c = 3 OR d = 4) AND e IN (1, 3, 5)"
    assert len(normalise(parse(text), Schema(), limits=Limits(max_entries=20))) == 4
    with pytest.raises(TooComplexError, match="has 20 values and conditions, the limit is 19"):
        normalise(parse(text), Schema(), limits=Limits(max_entries=19))


def test_a_refused_expression_is_an_error_of_matchwood() -> None:
    with pytest.raises(MatchwoodError):
        normalise(parse(LARGE["one attribute each"]), Schema())
