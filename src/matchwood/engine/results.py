"""What an engine gives back: matches, and what it knows of a subscription."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from matchwood.encode.arrays import Matches
from matchwood.schema import Schema, Type


class Match(NamedTuple):
    """One subscription that an event matches."""

    id: int
    score: float


class Subscription(NamedTuple):
    """What the engine knows of a subscription; `expression` is its normal form as text."""

    id: int
    expression: str
    priority: float
    until: datetime | None


def listed(matches: Matches) -> list[Match]:
    """The matches of one event as objects."""
    return list(map(Match._make, zip(matches.ids.tolist(), matches.scores.tolist(), strict=True)))


def instant_of(key: float) -> datetime:
    """The instant of an expiry's key."""
    schema = Schema({"until": Type.TIMESTAMP})
    value = schema.value(schema.find("until"), key)
    assert isinstance(value, datetime)
    return value
