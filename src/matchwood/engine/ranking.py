"""The matches of one event, best first: a sequence over arrays.

Thousands of subscriptions may match an event, and to make an object for each takes longer than to find them. So a `Ranking` has
arrays, and makes a `Match` when one is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from matchwood.encode.arrays import Float64s
from matchwood.engine.ids import Id


class Match(NamedTuple):
    """A subscription that matches an event."""

    id: Id
    score: float


class MatchWithMetadata(NamedTuple):
    """A subscription that matches an event, with its metadata (None if it has none)."""

    id: Id
    score: float
    metadata: object


M = TypeVar("M", Match, MatchWithMetadata)


class Ranking(Sequence[M]):
    """The matches of one event, best first. To be read only; it stays as it is when the engine changes.

    It is a sequence: it has a length, is indexed, sliced (O(1)) and iterated over, prints as a list of matches, and equals one.
    `ids` and `scores` are the same as arrays, without an object for each match. Where a list is required (to append to, for
    JSON), make one: `list(ranking)`.

    >>> from matchwood import Engine
    >>> engine = Engine()
    >>> _ = engine.subscribe_many(["age > 18 ^2", "age > 21"])
    >>> found = engine.match({"age": 30})
    >>> found
    [Match(id=0, score=2.0), Match(id=1, score=1.0)]
    >>> len(found), found[0].id, found.ids.tolist(), found.scores.tolist()
    (2, 0, [0, 1], [2.0, 1.0])
    """

    __slots__ = ("_ids", "_metadata", "_scores")

    def __init__(self, ids: np.ndarray[Any, Any], scores: Float64s, metadata: tuple[object, ...] | None = None) -> None:
        self._ids, self._scores, self._metadata = ids, scores, metadata

    @property
    def ids(self) -> np.ndarray[Any, Any]:
        """The ids of the matches: an array of int64, or of strings if the ids of the engine are strings."""
        self._ids.flags.writeable = False
        return self._ids

    @property
    def scores(self) -> Float64s:
        """The scores of the matches."""
        self._scores.flags.writeable = False
        return self._scores

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> M: ...
    @overload
    def __getitem__(self, at: slice) -> Ranking[M]: ...
    def __getitem__(self, at: int | slice) -> Any:
        metadata = self._metadata
        if isinstance(at, slice):
            return Ranking(self._ids[at], self._scores[at], None if metadata is None else metadata[at])
        id_, score = self._ids.item(at), self._scores.item(at)
        return Match(id_, score) if metadata is None else MatchWithMetadata(id_, score, metadata[at])

    def __iter__(self) -> Iterator[M]:
        kind: Any = Match if self._metadata is None else MatchWithMetadata
        columns: list[Sequence[object]] = [self._ids.tolist(), self._scores.tolist()]
        if self._metadata is not None:
            columns.append(self._metadata)
        # `Match._make` without the call of a Python function for each match.
        return map(tuple.__new__, repeat(kind), zip(*columns, strict=True))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Ranking):
            same = np.array_equal(self._ids, other._ids) and np.array_equal(self._scores, other._scores)
            return same and self._metadata == other._metadata
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of lists

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Ranking, (self._ids, self._scores, self._metadata)
