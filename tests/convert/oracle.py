"""What Matchwood says about an expression and an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matchwood.errors import NeverMatchesError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.expression import Expression
from matchwood.lang.rows import normalise
from matchwood.schema import Schema

TYPES = {"n": "number", "m": "number", "s": "string", "b": "bool", "o.n": "number", "p": "point", "t": "timestamp"}


def matches(expression: Expression, events: Sequence[Mapping[str, object]]) -> list[bool]:
    """For each event, does it match?"""
    schema = Schema(TYPES)
    try:
        rows = normalise(expression, schema)
    except NeverMatchesError:
        return [False] * len(events)
    return [judge(rows, event_keys(event, schema)).matched for event in events]


def score(expression: Expression, event: Mapping[str, object]) -> float | None:
    schema = Schema(TYPES)
    return judge(normalise(expression, schema), event_keys(event, schema)).score
