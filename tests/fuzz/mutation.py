"""Valid inputs, damaged: characters, bytes, JSON values and Python objects. Seeded, and fast enough for a million.

Hypothesis draws some hundred inputs a second and shrinks what it finds; `random.Random` makes tens of thousands. Both are used:
Hypothesis chooses seeds in the default suite, so that a failure is named by one number.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np

from matchwood.schema import Point, Range

FRAGMENTS = (
    *(
        "AND",
        "OR",
        "NOT",
        "BETWEEN",
        "IN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "INF",
        "-INF",
        "DWITHIN(",
        "LIKE",
        "CASEI(",
        "STARTS_WITH(",
        "REGEX(",
        "CIDR(",
        "'10.0.0.0/8'",
        "'a%_'",
        "BBOX(",
        "POINT(",
        "ANY(",
        "ANY(items,",
        "ALL(items,",
        "ALL(",
        "T_DURING(",
        "INTERVAL(",
        "'..'",
        "HOUR(",
        "WEEKDAY(",
        "'Asia/Tokyo'",
        "AGE(",
        "'PT1H'",
    ),
    *(
        "TIMESTAMP(",
        "DATE(",
        "'2026-03-01T00:00:00Z'",
        "'2026-13-41'",
        "km",
        "nmi",
        "SQUARE",
        "(",
        ")",
        ",",
        "^",
        "^-1",
    ),
    *(
        "^1e999",
        "=",
        "!=",
        "<>",
        "<",
        "<=",
        ">=",
        "==",
        "!",
        "&",
        "'",
        "''",
        '"',
        '""',
        ".",
        "..",
        "+",
        "-",
        "--",
        "\\",
    ),
    *(
        "0",
        "-0",
        "1e308",
        "1e309",
        "-1e309",
        "9007199254740993",
        "1" * 400,
        "1" * 5000,
        ".5",
        "5.",
        "1e",
        "0x1F",
        "NaN",
    ),
    *("\x00", "\ud800", "\u2028", "\ufeff", "名", "🜁", "\u0661", "\u00a0", "\t", "\n", "\r\n", " ", "{", "}", "[", "]"),
    *('{"op"', '"args"', '"property"', "null", "age", "place", "plan", "seen", "x" * 300, "(" * 150, "NOT " * 200),
)


def mutated_text(random: Random, text: str, other: str) -> str:
    """The text after up to four small damages; `other` is another valid text to take pieces from."""
    for _ in range(random.randrange(5)):
        at = random.randrange(len(text) + 1)
        end = min(len(text), at + random.choice((1, 1, 2, 4, 9, 40)))
        kind = random.randrange(7)
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:at] + random.choice(FRAGMENTS) + text[at:]
        elif kind == 2:
            text = text[:at] + random.choice(FRAGMENTS) + text[end:]
        elif kind == 3:
            text = text[:at] + text[at:end] * random.choice((2, 3, 50)) + text[end:]
        elif kind == 4:
            start = random.randrange(len(other) + 1)
            text = text[:at] + other[start : start + 20] + text[end:]
        elif kind == 5:
            text = text[:at]
        else:
            text = (
                text[:at]
                + chr(random.randrange(0x110000) if random.random() < 0.5 else random.randrange(128))
                + text[end:]
            )
    return text


def mutated_bytes(random: Random, data: bytes) -> bytes:
    """The bytes after one to three damages: a changed byte, a cut, a doubled or a removed piece."""
    for _ in range(1 + random.randrange(3)):
        if not data:
            return data
        at = random.randrange(len(data))
        kind = random.randrange(5)
        if kind <= 1:
            data = data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
        elif kind == 2:
            data = data[:at]
        elif kind == 3:
            data = data[:at] + data[at : at + 8] + data[at:]
        else:
            data = data[:at] + data[at + 1 + random.randrange(8) :]
    return data


ODD_JSON: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        1e308,
        math.inf,
        -math.inf,
        math.nan,
        2**53 + 1,
        10**400,
        10**5000,
        "",
        "x",
        "age",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"op": "="},
        {"property": "age"},
        {"property": 5},
        {"timestamp": "2026"},
        {"number": "inf"},
    ),
    *(
        {"min": 2, "max": 1},
        {"min": "a"},
        {"lon": 5},
        {"lon": 200, "lat": 0},
        {"coordinates": [1, 2, 3]},
        [1, "a"],
        "\ud800",
    ),
    *(
        {"date": 5},
        {"type": "Point", "coordinates": ["a", None]},
        {"bbox": [1, 2]},
        {"op": "not", "args": []},
        "and",
        "between",
    ),
)


def mutated_json(random: Random, value: Any, odd: tuple[Any, ...] = ODD_JSON) -> Any:
    """The value with some inner parts replaced, removed, doubled or moved to another key."""
    if random.random() < 0.08:
        return random.choice(odd)
    if isinstance(value, dict):
        items = {key: mutated_json(random, inner, odd) for key, inner in value.items()}
        if items and random.random() < 0.06:
            items.pop(random.choice(list(items)))
        if items and random.random() < 0.06:
            items[random.choice((*items, "weight", "op", "args", "", "shape", "prefix"))] = random.choice(odd)
        return items
    if isinstance(value, list | tuple):
        parts = [mutated_json(random, inner, odd) for inner in value]
        if parts and random.random() < 0.1:
            parts.insert(random.randrange(len(parts)), random.choice(parts))
        if parts and random.random() < 0.06:
            parts.pop(random.randrange(len(parts)))
        if random.random() < 0.003:
            for _ in range(random.choice((20, 150, 3000))):
                parts = [parts]
        return tuple(parts) if isinstance(value, tuple) and not hasattr(value, "_fields") else parts
    return value


class Refuses:
    """An object that raises wherever it is looked at."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


ODD_OBJECTS: tuple[Callable[[], Any], ...] = (
    *(lambda: None, lambda: object(), lambda: b"bytes", lambda: bytearray(3), lambda: {1, 2}, lambda: frozenset("ab")),
    *(
        lambda: iter([1, 2]),
        lambda: (n for n in (1, "a")),
        lambda: range(3),
        lambda: 1j,
        lambda: Decimal("NaN"),
        lambda: Decimal("sNaN"),
    ),
    *(
        lambda: Decimal("1e400"),
        lambda: Decimal("0.1"),
        lambda: 10**5000,
        lambda: math.nan,
        lambda: -math.inf,
        lambda: 5e-324,
    ),
    *(
        lambda: np.float32(0.1),
        lambda: np.int64(2**60 + 1),
        lambda: np.array(5),
        lambda: np.array([1, 2]),
        lambda: np.array([[1, 2]]),
    ),
    *(
        lambda: np.datetime64("NaT"),
        lambda: np.datetime64(1, "ns"),
        lambda: np.datetime64("2026-03-01"),
        lambda: np.timedelta64(3, "s"),
    ),
    *(
        lambda: np.str_("free"),
        lambda: np.bytes_(b"x"),
        lambda: np.bool_(True),
        lambda: np.array("x"),
        lambda: np.void(b"12"),
    ),
    *(
        lambda: dt.datetime.min,
        lambda: dt.datetime.max,
        lambda: dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-14))),
    ),
    *(
        lambda: dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14))),
        lambda: dt.date(1, 1, 1),
        lambda: dt.time(1),
    ),
    *(
        lambda: dt.timedelta(1),
        lambda: Point(math.nan, 1.0),
        lambda: Point(1.0, 500.0),
        lambda: Point(None, None),
        lambda: (None, 4),
    ),
    *(
        lambda: Range(3, 1),
        lambda: Range(None, None),
        lambda: Range("a", 3),
        lambda: Range(math.nan, 1),
        lambda: Range(Range(1, 2), 3),
    ),
    *(
        lambda: [Range(1, 2), 7, None],
        lambda: [[1], [2]],
        lambda: {"lon": "a", "lat": 4},
        lambda: {"coordinates": 7},
        lambda: {"lon": None},
    ),
    *(
        lambda: "",
        lambda: "\ud800",
        lambda: "x" * 10_000,
        lambda: True,
        lambda: ...,
        lambda: int,
        lambda: Refuses(),
        lambda: [Refuses()],
    ),
)


def mutated_values(random: Random, values: dict[str, Any]) -> dict[Any, Any]:
    """An event's values with some replaced by what no event should have, and odd names."""
    damaged: dict[Any, Any] = dict(values)
    for _ in range(1 + random.randrange(3)):
        name: Any = random.choice((*values, "place", "home", "new", "", "a b", "x" * 500))
        if random.random() < 0.03:
            name = random.choice((None, 5, ("a",), b"age", True))
        damaged[name] = random.choice(ODD_OBJECTS)()
    return damaged
