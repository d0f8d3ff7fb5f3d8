"""What is fuzzed: each target makes one damaged input from a seed, hands it in, and judges what comes back.

A target returns how many inputs it made. It raises if anything but a `MatchwoodError` escapes, or if what was accepted is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

from matchwood.encode.checks import check_events, check_rows
from matchwood.encode.events import encode_events
from matchwood.encode.expressions import read_expression
from matchwood.encode.json_lines import read_json_events, read_json_subscriptions
from matchwood.encode.json_text import json_event
from matchwood.encode.objects import RowsBuilder
from matchwood.errors import MatchwoodError, NeverMatchesError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import Event, event_keys
from matchwood.lang.expression import Expression
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.limits import Limits
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from matchwood.schema.functions import conditions_of
from tests.encode.tables import json_value
from tests.fuzz import languages, network
from tests.fuzz.folders import a_damaged_folder
from tests.fuzz.foreign import foreign
from tests.fuzz.mutation import mutated_bytes, mutated_json, mutated_text, mutated_values
from tests.fuzz.tables import a_damaged_parquet_file, a_damaged_table
from tests.worlds import TYPES, an_event, an_expression, seeded_dice

LINES = 16


TIMED = (
    "T_DURING(INTERVAL(begun, ended), INTERVAL('2026-03-01T00:00:00Z', '..')) ^0.5",
    "NOT T_METBY(INTERVAL('2026-01-01', '2026-03-01'), seen) OR T_AFTER(seen, DATE('2026-03-01'))",
    "HOUR(seen, 'Europe/Berlin') BETWEEN 9 AND 17 AND WEEKDAY(seen, '+05:30') IN ('MON', 'TUE')",
    "AGE(seen) < '1 h' OR AGE(begun, \"ended\") >= 'PT5M' AND flag IS NOT TRUE",
)


NESTED = (
    "ANY(items, sku = 'a' AND qty >= 2) ^2 OR NOT ALL(items, qty BETWEEN 1 AND 3)",
    "ALL(items, CASEI(sku) LIKE 'a%' OR gift IS NULL) AND ANY(items, ANY(parts, size != 3 AND NOT REGEX(sku, 'b')))",
    "NOT ANY(items, HOUR(seen) > 9 OR DWITHIN(at, POINT(1 2), 1 km)) AND items.parts.size > 2",
)
ITEMS = [
    {"sku": "a", "qty": 2, "parts": [{"size": 3, "sku": "ab"}, {"size": 1}], "gift": True},
    {"sku": "Ab", "qty": 7, "seen": {"timestamp": "2026-03-01T10:00:00Z"}, "at": {"lon": 1, "lat": 2}},
]


@cache
def expressions() -> tuple[Expression, ...]:
    return tuple(an_expression(seeded_dice(seed)) for seed in range(400)) + tuple(map(parse, TIMED + NESTED)) * 10


@cache
def texts() -> tuple[str, ...]:
    return tuple(map(str, expressions()))


@cache
def trees() -> tuple[Any, ...]:
    return tuple(map(to_json, expressions()))


@cache
def events() -> tuple[Event, ...]:
    return tuple(an_event(seeded_dice(seed)) for seed in range(400))


@cache
def event_records() -> tuple[dict[str, Any], ...]:
    return tuple(
        {"values": {name: json_value(value) for name, value in event.values.items()}, "weights": dict(event.weights)}
        for event in events()
    )


def a_schema(random: Random) -> Schema:
    """Declared, so that types contradict; or learnt."""
    return Schema(TYPES) if random.random() < 0.7 else Schema()


def text(random: Random) -> int:
    """Damaged text: refused, or an expression that its own text and JSON give back."""
    source = mutated_text(random, random.choice(texts()), random.choice(texts()))
    try:
        found = parse(source)
    except MatchwoodError:
        return 1
    assert parse(str(found)) == found, source
    assert from_json(json.loads(json.dumps(to_json(found)))) == found, source
    use(found, random)
    return 1


def json_tree(random: Random) -> int:
    """A damaged tree of CQL2 JSON: refused, or an expression that its JSON gives back."""
    source = mutated_json(random, random.choice(trees()))
    try:
        found = from_json(source)
    except MatchwoodError:
        return 1
    assert from_json(to_json(found)) == found, source
    use(found, random)
    return 1


def json_text(random: Random) -> int:
    """The text of CQL2 JSON, damaged: the expression column of a table."""
    source = mutated_text(random, json.dumps(random.choice(trees())), random.choice(texts()))
    with suppress(MatchwoodError):
        use(read_expression(source), random)
    return 1


def use(expression: Expression, random: Random) -> None:
    """Rows, arrays and a judgement of an expression that was accepted."""
    schema = a_schema(random)
    try:
        rows = normalise(expression, schema, limits=Limits(max_rows=50))
    except MatchwoodError:
        return
    builder = RowsBuilder(schema)
    builder.add(1, 0.0, rows)
    check_rows(builder.build(), schema.dimensions)
    try:
        keys = event_keys(random.choice(events()), schema)
    except MatchwoodError:
        return
    judge(rows, keys)


def subscription_lines(random: Random) -> int:
    """Lines of subscriptions: each is accepted or named among the rejects."""
    lines = []
    for number in range(LINES):
        expression: Any = random.choice(texts()) if random.random() < 0.5 else random.choice(trees())
        record = {
            "id": number,
            "expression": expression,
            "priority": 0.5,
            "place": [1, 2],
            "radius": 5,
            "until": "2026-03-01",
        }
        for key in random.sample(["priority", "place", "radius", "until"], random.randrange(5)):
            record.pop(key)
        lines.append(damaged_line(random, record))
    schema = a_schema(random)
    encoded = read_json_subscriptions(lines, schema, limits=Limits(max_rows=50))
    check_rows(encoded.rows, schema.dimensions)
    assert_all_told(lines, encoded.positions.tolist(), encoded.rejects)
    return LINES


def event_lines(random: Random) -> int:
    """Lines of events: each is accepted or named among the rejects."""
    lines = []
    for number in range(LINES):
        record = {"id": number, **random.choice(event_records()), "place": [1, 2], "until": "2026-03-01T00:00:00Z"}
        for key in random.sample(["id", "weights", "place", "until"], random.randrange(5)):
            record.pop(key)
        lines.append(damaged_line(random, record))
    schema = a_schema(random)
    encoded = read_json_events(lines, schema, register=random.random() < 0.5)
    check_events(encoded.events)
    assert_all_told(lines, encoded.positions.tolist(), encoded.rejects)
    return LINES


def damaged_line(random: Random, record: Any) -> str | bytes:
    kind = random.random()
    if kind < 0.4:
        record = mutated_json(random, record)
    try:
        line = json.dumps(record)
    except (ValueError, RecursionError):  # a number of 5,000 digits, or nested too deeply: Python writes neither
        line = '{"id": ' + "1" * 5000 + "}"
    if kind < 0.4:
        return line
    if kind < 0.7:
        return mutated_text(random, line, json.dumps(random.choice(trees())))
    return mutated_bytes(random, line.encode())


def assert_all_told(lines: list[Any], accepted: list[int], rejects: Any) -> None:
    told = sorted([*accepted, *(reject.position for reject in rejects)])
    assert told == [at for at, line in enumerate(lines) if line.strip()]
    for reject in rejects:
        assert reject.reason
        assert isinstance(reject.content, str)


def lists_of_objects(random: Random) -> int:
    """Lists of objects, damaged: refused by the oracle and the encoder, or both find the same conditions."""
    schema = Schema()
    for text in NESTED:
        normalise(parse(text), schema)
    values: Any = {"items": mutated_json(random, ITEMS)}
    if random.random() < 0.3:
        try:
            values = json_event(json.dumps(values))
        except (MatchwoodError, ValueError, RecursionError):
            return 1
    keys, arrays, register = None, None, random.random() < 0.5
    with suppress(MatchwoodError):
        keys = event_keys(values, schema, register=register)
    with suppress(MatchwoodError):
        arrays = encode_events([values], schema, register=register)
    assert (keys is None) is (arrays is None), values
    if keys is None or arrays is None:
        return 1
    check_events(arrays)
    hidden: Any = schema.get(conditions_of("items"))
    expected: Any = keys.values.get(hidden.name)
    found = arrays.lo[arrays.dims == hidden.dims[0]].tolist()
    assert found == ([] if expected is None else [code for code, _ in expected.parts])
    return 1


def event_objects(random: Random) -> int:
    """Events as Python objects: refused, or values that arrays and the oracle agree on."""
    event = random.choice(events())
    values = mutated_values(random, dict(event.values))
    weights: Any = event.weights
    if random.random() < 0.2:
        weights = random.choice((None, 5, {"age": -1}, {"age": "x"}, {"age": float("nan")}, {None: 1.0}, [("age", 1)]))
    place: Any = random.choice((None, None, None, (1, 2), (None, 5), "x", {"lon": 1}, (1, 2, 3), 7))
    schema = a_schema(random)
    try:
        arrays = encode_events([Event(values, weights, place=place)], schema, register=random.random() < 0.5)
    except MatchwoodError:
        return 1
    check_events(arrays)
    assert arrays.size == 1
    try:
        rows = normalise(random.choice(expressions()), schema)
        judge(rows, event_keys(Event(dict(event.values)), schema))
    except NeverMatchesError:
        pass
    except MatchwoodError:
        assert not schema.get("age") or schema.learn  # a declared schema takes the corpus as it is
    return 1


Target = Callable[[Random], int]

TARGETS: dict[str, tuple[Target, int]] = {
    "text": (text, 105_000),
    "json trees": (json_tree, 110_000),
    "geometries": (languages.geometries, 40_000),
    "patterns": (languages.patterns, 30_000),
    "decays": (languages.decays, 30_000),
    "foreign conditions": (foreign, 40_000),
    "json text": (json_text, 100_000),
    "lines of subscriptions": (subscription_lines, 120_000),
    "lines of events": (event_lines, 120_000),
    "event objects": (event_objects, 100_000),
    "lists of objects": (lists_of_objects, 20_000),
    "arrow tables": (a_damaged_table, 35_000),
    "parquet files": (a_damaged_parquet_file, 10_000),
    "saved folders": (a_damaged_folder, 15_000),
    "cloud events": (network.cloud_events, 40_000),
    "authorization": (network.authorization, 20_000),
    "urls of webhooks": (network.hook_urls, 40_000),
    "wrapped addresses": (network.addresses, 5_000),
    "signed messages": (network.signatures, 20_000),
    "server-sent events": (network.server_events, 20_000),
}
"""Each with its share of the million."""
