"""An expression that is written in another language matches there what it matches here, and reads back with the same meaning."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from matchwood.convert import READERS, WRITERS
from matchwood.errors import ConversionError, TooComplexError
from matchwood.lang.parser import parse
from tests.convert import evaluators, worlds
from tests.convert.oracle import matches

EXPRESSIONS = 250
EVENTS = 20


def a_text(random: Random, depth: int = 2) -> str:
    """An expression of the language, over the attributes of the events."""
    if depth and random.random() < 0.5:
        joined = f" {random.choice(['AND', 'OR'])} ".join(a_text(random, depth - 1) for _ in range(2))
        return f"{random.choice(['', 'NOT '])}({joined})"
    name = random.choice(["n", "m", "s", "b"])
    value = {"s": f"'{random.choice('abc')}'", "b": random.choice(["TRUE", "FALSE"])}.get(
        name, str(random.randrange(6))
    )
    choices = [f"{name} = {value}", f"{name} != {value}", f"{name} IS NULL", f"{name} IS NOT NULL"]
    choices += [f"{name} IN ({value})", f"{name} NOT IN ({value})", f"A_CONTAINS({name}, ({value}))"]
    if name in "nm":
        sign = random.choice(["<", "<=", ">", ">="])
        choices += [f"{name} {sign} {value}", f"ANY({name}) {sign} {value}", f"ALL({name}) {sign} {value}"]
        choices += [f"{name} BETWEEN 1 AND {value}", f"{name} NOT BETWEEN 1 AND {value}"]
    return random.choice(choices)


@pytest.mark.parametrize("language", ["mongodb", "elasticsearch", "cesql"])
def test_a_written_expression_keeps_its_meaning(language: str) -> None:
    random = Random(language)
    evaluate: Any = {"mongodb": evaluators.mongodb, "elasticsearch": evaluators.elasticsearch}.get(language)
    kept = 0
    for _ in range(EXPRESSIONS):
        expression = parse(a_text(random))
        events = [worlds.an_event(random, lists=language != "cesql") for _ in range(EVENTS)]
        try:
            written = WRITERS[language](expression)
        except ConversionError:
            continue
        again = READERS[language](written)
        try:
            read = matches(again, events)
        except TooComplexError:
            continue
        kept += 1
        expected = matches(expression, events)
        assert read == expected, (str(expression), written)
        if evaluate is not None:
            assert [evaluate(plain(written), event) for event in events] == expected, (str(expression), written)
    assert kept > EXPRESSIONS // 3


def plain(query: Any) -> Any:
    """The query as the evaluators read it: without options."""
    if isinstance(query, list):
        return [plain(item) for item in query]
    if not isinstance(query, dict):
        return query
    if set(query) <= {"value", "boost"} and "value" in query:
        return query["value"]
    return {key: plain(value) for key, value in query.items() if key != "boost"}


@pytest.mark.parametrize(
    ("language", "text", "message"),
    [
        ("mongodb", "x BETWEEN 1 AND 2", "x BETWEEN 1 AND 2, which one value of a list has to meet, cannot be written"),
        ("mongodb", "x > 1 AND x < 5", "conditions on one value of a list, 'x',"),
        ("mongodb", "A_COUNT(x, (1, 2)) = 1", "cannot be written in MongoDB"),
        ("elasticsearch", "ANY(x) != 1", "a test for some other value of a list"),
        ("elasticsearch", "DWITHIN(p, POINT(1 2), 5 m, SQUARE)", "cannot be written in Elasticsearch"),
        ("mongodb", "x < INF", "an infinite number cannot be written in MongoDB"),
        ("mongodb", '"x.0" = 1', "the name 'x.0', an operator or a position, cannot be written"),
        ("elasticsearch", "boost = 1", "the name 'boost', an option there, cannot be written"),
        ("cesql", "x = 1.5", "the constant 1.5 cannot be written in CloudEvents SQL"),
        ("cesql", "user.age = 1", "the name 'user.age' cannot be written in CloudEvents SQL"),
    ],
)
def test_what_a_language_cannot_say_is_refused_by_name(language: str, text: str, message: str) -> None:
    with pytest.raises(ConversionError) as raised:
        WRITERS[language](parse(text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("mongodb", "BBOX(p, 1, 2, 3, 4)"),
        ("mongodb", "t > TIMESTAMP('2026-01-31T12:00:00Z')"),
        ("elasticsearch", "BBOX(p, 170, 2, -170, 4)"),
        ("elasticsearch", "DWITHIN(p, POINT(1.5 2.0), 1000.1234567890123 m) ^2"),
        ("elasticsearch", "t > TIMESTAMP('2026-01-31T12:00:00Z') ^3"),
    ],
)
def test_places_and_times_come_back_as_they_were(language: str, text: str) -> None:
    assert READERS[language](WRITERS[language](parse(text))) == parse(text)


@pytest.mark.parametrize("radius", [5e-324, 1e-300, 12500.0, 1e30, 1.7e308])
def test_every_radius_that_is_written_for_elasticsearch_is_read_again(radius: float) -> None:
    condition = parse(f"DWITHIN(p, POINT(1 2), {radius!r} m)")
    assert READERS["elasticsearch"](WRITERS["elasticsearch"](condition)) == condition
