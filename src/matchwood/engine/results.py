"""What an engine returns: matches, and descriptions of subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import repeat
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Int64s, Matches, Rows
from matchwood.encode.objects import decode_rows
from matchwood.engine.ids import Id, Names
from matchwood.engine.reading import ReadEvents
from matchwood.errors import MatchwoodError
from matchwood.lang.describe import describe_rows
from matchwood.schema import Attribute, Schema, Type


class Match(NamedTuple):
    """A subscription that matches an event."""

    id: Id
    score: float


class MatchWithMetadata(NamedTuple):
    """A subscription that matches an event, with its metadata (None if it has none)."""

    id: Id
    score: float
    metadata: object


class BatchMatches(Matches):
    """The matches of a batch of events: event e owns ids and scores offsets[e]:offsets[e+1].

    Events that could not be used have no matches and are listed in `rejected`, by their position in the batch. `ids` is an array
    of int64, or of strings if the ids of the engine are strings.
    """

    rejected: Mapping[int, MatchwoodError] = {}
    event_ids: Int64s | None = None
    """Of `publish_many`: the id that each event is kept under, -1 if it is not kept."""


class Subscription(NamedTuple):
    """A subscription as the engine holds it; `expression` is its normal form as text."""

    id: Id
    expression: str
    priority: float
    until: datetime | None
    metadata: object = None
    paused: bool = False


def listed(matches: Matches, names: Names | None) -> list[Match]:
    """The matches of one event as objects."""
    ids = matches.ids.tolist() if names is None else [names.text(id_) for id_ in matches.ids.tolist()]
    # `Match._make` without the call of a Python function for each match.
    return list(map(tuple.__new__, repeat(Match), zip(ids, matches.scores.tolist(), strict=True)))


def with_metadata(matches: Matches, names: Names | None, metadata: Mapping[int, object]) -> list[MatchWithMetadata]:
    """The matches of one event as objects with metadata."""
    found = listed(matches, names)
    numbers = matches.ids.tolist()
    return [MatchWithMetadata(*match, metadata.get(id_)) for match, id_ in zip(found, numbers, strict=True)]


def batch(matches: Matches, names: Names | None, read: ReadEvents | None = None) -> BatchMatches:
    """The matches of a batch as users see them; `read` says which events of it could not be used."""
    offsets = matches.offsets
    if read is not None and read.rejected:
        sizes = np.zeros(read.total + 1, np.int64)
        sizes[1 + read.positions()] = np.diff(offsets)
        offsets = np.cumsum(sizes)
    made = BatchMatches(offsets, matches.ids if names is None else names.texts(matches.ids), matches.scores)
    if read is not None and read.rejected:
        made.rejected = read.rejected
    return made


def described(rows: Rows, schema: Schema, names: Names | None, *, metadata: object, paused: bool) -> Subscription:
    """The subscription that has these rows. O(predicates)."""
    until = None if rows.until is None or np.isinf(rows.until[0]) else moment(float(rows.until[0]), schema)
    text = describe_rows(tuple(decode_rows(rows, schema)), schema)
    number = int(rows.ids[0])
    return Subscription(
        number if names is None else names.text(number), text, float(rows.priority[0]), until, metadata, paused
    )


def moment(key: float, schema: Schema) -> datetime:
    """The instant that has this key."""
    value = schema.value(Attribute("until", Type.TIMESTAMP, ()), key)
    assert isinstance(value, datetime)
    return value
