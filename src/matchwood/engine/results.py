"""What an engine returns: the matches of one event or a batch, and descriptions of subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.arrays import Int64s, Matches, Rows
from matchwood.encode.objects import decode_rows
from matchwood.engine.ids import Id, Names
from matchwood.engine.ranking import Ranking
from matchwood.engine.reading import ReadEvents
from matchwood.errors import MatchwoodError
from matchwood.lang.describe import describe_rows
from matchwood.schema import Attribute, Schema, Type


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


def ranking(matches: Matches, names: Names | None, metadata: Mapping[int, object] | None = None) -> Ranking[Any]:
    """The matches of one event; each with its metadata, if any is given. O(1) if ids are numbers and there is no metadata."""
    ids, scores = matches.ids, matches.scores
    told = None if metadata is None else tuple(map(metadata.get, ids.tolist()))
    return Ranking(ids if names is None else names.texts(ids), scores, told)


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
