"""What an engine returns: matches, and descriptions of subscriptions."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from matchwood.encode.arrays import Matches, Rows
from matchwood.encode.objects import decode_rows
from matchwood.lang.describe import describe_rows
from matchwood.schema import Attribute, Schema, Type


class Match(NamedTuple):
    """A subscription that matches an event."""

    id: int
    score: float


class Subscription(NamedTuple):
    """A subscription as the engine holds it; `expression` is its normal form as text."""

    id: int
    expression: str
    priority: float
    until: datetime | None


def listed(matches: Matches) -> list[Match]:
    """The matches of one event as objects."""
    return list(map(Match._make, zip(matches.ids.tolist(), matches.scores.tolist(), strict=True)))


def described(rows: Rows, schema: Schema) -> Subscription:
    """The subscription that has these rows. O(predicates)."""
    until = None
    if rows.until is not None:
        value = schema.value(Attribute("until", Type.TIMESTAMP, ()), float(rows.until[0]))
        assert isinstance(value, datetime)
        until = value
    text = describe_rows(tuple(decode_rows(rows, schema)), schema)
    return Subscription(int(rows.ids[0]), text, float(rows.priority[0]), until)
