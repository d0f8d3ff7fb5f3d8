"""Rows in words: people read what they wrote, and what they read parses to the same rows."""

from __future__ import annotations

import math
from datetime import datetime

import pytest
from hypothesis import given, settings

from matchwood.lang.describe import describe_rows, describe_value
from matchwood.lang.event import event_keys
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Range, Schema
from tests.worlds import TYPES, World, a_world, seeded_dice, worlds

ALSO = {"a": "number", "p": "point", "t": "timestamp", "b": "bool"}


def described(text: str) -> str:
    schema = Schema({**TYPES, **ALSO})
    return describe_rows(normalise(parse(text), schema), schema)


def assert_round_trips(world: World) -> None:
    for _, expression, rows in world.subscriptions.values():
        text = describe_rows(rows, world.schema)
        assert set(normalise(parse(text), world.schema)) == set(rows), (str(expression), text)


@given(worlds(subscriptions=4, events=0))
@settings(max_examples=50)
def test_a_description_normalises_to_the_same_rows(world: World) -> None:
    assert_round_trips(world)


@pytest.mark.parametrize("seed", range(12))
def test_a_description_normalises_to_the_same_rows_on_larger_worlds(seed: int) -> None:
    assert_round_trips(a_world(seeded_dice(seed), 120, 0))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a < 18",
            "a > 18",
            "a <= 18",
            "a >= 18",
            "a = 18",
            "a != 18",
            "a < 0.1",
            "a > 1e+300",
            "a = INF",
            "a != -INF",
        ),
        *("a IN (1, 2)", "a NOT IN (1, 2)", "a BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2", "a IS NULL", "a IS NOT NULL"),
        *("plan = 'it''s'", "plan != ''", "plan NOT IN ('a', 'b')", "b = TRUE", "b = FALSE", "b IS NOT NULL"),
        *(
            "a < 18 ^0.4",
            "a IN (1, 2) ^0.0",
            "a IS NULL ^2.5",
            "a NOT BETWEEN 1 AND 2 ^3.0",
            "a BETWEEN 1 AND 2 ^1e-07",
        ),
        "t < TIMESTAMP('2026-03-01T00:00:00Z')",
        "t != TIMESTAMP('2026-03-01T00:00:00Z')",
        "t >= TIMESTAMP('2026-03-01T00:00:00.000002Z')",
        "t NOT IN (TIMESTAMP('2026-03-01T00:00:00Z'), TIMESTAMP('2026-03-02T00:00:00Z'))",
        "t = TIMESTAMP('2026-03-01T00:00:00Z')",
        "t < TIMESTAMP('0001-01-01T00:00:00Z')",
        "t > TIMESTAMP('9999-12-31T23:59:59Z')",
        "t BETWEEN TIMESTAMP('2026-03-01T00:00:00Z') AND TIMESTAMP('2026-03-02T00:00:00Z')",
        "DWITHIN(p, POINT(1.5 2.5), 1000.0 m)",
        "DWITHIN(p, POINT(1.5 2.5), 1000.0 m) ^0.5",
        "NOT (DWITHIN(p, POINT(1.5 2.5), 1000.0 m))",
        "BBOX(p, -74.1, 40.6, -73.8, 40.9)",
        "BBOX(p, 170.0, -10.0, -170.0, 10.0) ^2.0",
        "p IS NOT NULL",
        "p IS NULL",
        "TRUE",
    ],
)
def test_a_predicate_is_shown_as_it_was_written(text: str) -> None:
    assert described(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("NOT (a >= 18)", "NOT (a >= 18)"),
        ("ALL(a) < 18", "NOT (a >= 18)"),
        ("ALL(a) BETWEEN 1 AND 3", "ALL(a) BETWEEN 1 AND 3"),
        ("a > 1 AND a < 5", "a > 1 ^2.0 AND a < 5 ^0.0"),
        ("a > 1 ^0.5 AND a <= 5 ^0.5", "a > 1 AND a <= 5 ^0.0"),
        ("a >= 1 ^0.5 AND a <= 5 ^0.5", "a BETWEEN 1 AND 5"),
        ("a < 1 OR a = 3 OR a > 5", "(a < 1 OR a = 3 OR a > 5)"),
        ("a = 1 OR b = TRUE", "(a = 1) OR (b = TRUE)"),
        *[(text, "b = TRUE") for text in ("b > FALSE", "b >= TRUE", "b IN (TRUE)")],
        ("b NOT IN (FALSE)", "b != FALSE"),
        *[(text, "b IS NOT NULL") for text in ("b >= FALSE", "b IN (TRUE, FALSE)", "b BETWEEN FALSE AND TRUE")],
        ("t > TIMESTAMP('2026-03-01T00:00:00.000001Z')", "t >= TIMESTAMP('2026-03-01T00:00:00.000002Z')"),
        (
            "t > TIMESTAMP('2026-03-01') ^0.5 AND t < TIMESTAMP('2026-03-01T00:00:00.000002Z') ^0.5",
            "t = TIMESTAMP('2026-03-01T00:00:00.000001Z')",
        ),
        ("NOT (a BETWEEN 1 AND 2) AND plan = 'x'", "a NOT BETWEEN 1 AND 2 AND plan = 'x'"),
        ("a NOT BETWEEN 1 AND 2 AND a > 1 ^0 AND a != 7 ^0", "a > 2 AND a != 7 ^0.0 AND a NOT BETWEEN 1 AND 2 ^0.0"),
        (
            "NOT (BBOX(p, 0, 10, 1, 20))",
            "(NOT (BBOX(p, 0.0, -90.0, 1.0, 90.0))) OR (NOT (BBOX(p, -180.0, 10.0, 180.0, 20.0)))",
        ),
    ],
)
def test_other_ways_to_say_it_become_the_plainest(text: str, shown: str) -> None:
    assert described(text) == shown
    assert described(shown) == shown


def test_a_circle_within_a_box_tells_both() -> None:
    found = described("DWITHIN(p, POINT(1 1), 1 km) AND BBOX(p, 0, 0, 1, 1)")
    assert found.startswith("DWITHIN(p, POINT(1.0 1.0), 1000.0 m) ^2.0 AND BBOX(p, 0.99")
    assert found.endswith(", 1.0, 1.0) ^0.0")


def test_a_ring_tells_both_circles() -> None:
    text = "DWITHIN(p, POINT(1.0 1.0), 3000.0 m) ^1.5 AND NOT (DWITHIN(p, POINT(1.0 1.0), 1000.0 m ) ^0.0)"
    assert (
        described(text)
        == "DWITHIN(p, POINT(1.0 1.0), 3000.0 m) ^1.5 AND NOT (DWITHIN(p, POINT(1.0 1.0), 1000.0 m) ^0.0)"
    )


def test_the_values_of_events_are_shown_in_their_type() -> None:
    schema = Schema({**TYPES, **ALSO})
    schema.key(schema.find("plan"), "pro")
    event = {
        "a": [1, Range(2.5, math.inf)],
        "plan": ["pro", "unheard of"],
        "b": True,
        "t": datetime(2026, 3, 1),
        "p": (1, 2),
    }
    keys = event_keys(event, schema).values
    shown = {name: describe_value(name, keys.get(name), schema) for name in (*event, "age")}
    assert shown == {
        "a": "[1, 2.5 to INF]",
        "plan": "[a string no subscription names, 'pro']",
        "b": "TRUE",
        "t": "TIMESTAMP('2026-03-01T00:00:00Z')",
        "p": "POINT(1.0 2.0)",
        "age": "NULL",
    }
