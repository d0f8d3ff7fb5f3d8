"""Results of bulk encoding: the arrays of the good records, and every bad record with the reason and its original content.

    records read = encoded + rejected, always

With `on_error="collect"` a bad record does not stop the others; with `on_error="raise"` the first one raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows, concatenate_events, concatenate_rows
from matchwood.errors import MatchwoodError, QueryError

NO_ID = -1
"""The id of an event that has none."""
METADATA = "metadata"
"""The column, or the key in JSON, of the metadata of a subscription."""

ON_ERROR = ("collect", "raise")

Bools = NDArray[np.bool_]

Progress = Callable[[int, int], None]
"""`progress(done_records, all_records)`, called after each batch."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that could not be encoded.

    `position` counts the records of the input from 0 (for JSON lines, the lines); `where` is for messages: "subs.jsonl, line 3".
    """

    position: int
    where: str
    id: int | str | None
    reason: str
    content: object


@dataclass(frozen=True, slots=True)
class EncodedSubscriptions:
    """Subscriptions as rows. `ids`, `positions` and `until` have one item for each subscription, in the order of the input.

    `rows` has one or more rows for each, in the same order. `until` is in microseconds since the epoch, inf for never.

    If the ids are strings, `names` holds them, one for each subscription, and `ids` numbers the subscriptions from 0; otherwise
    `names` is None. `metadata` has the metadata of each subscription (any JSON value, None for none), or is None if there are
    none in the input.
    """

    rows: Rows
    ids: Int64s
    positions: Int64s
    until: Float64s
    rejects: tuple[Reject, ...] = ()
    names: list[str] | None = None
    metadata: list[Any] | None = None

    @property
    def read(self) -> int:
        """The number of records read, good and bad."""
        return len(self.ids) + len(self.rejects)

    @classmethod
    def concatenate(cls, parts: Sequence[EncodedSubscriptions]) -> EncodedSubscriptions:
        """The concatenation of all parts. O(entries)."""
        names = _joined_lists([(len(part.ids), part.names) for part in parts])
        metadata = _joined_lists([(len(part.ids), part.metadata) for part in parts])
        return cls(concatenate_rows([part.rows for part in parts]), *_joined(parts), names=names, metadata=metadata)


@dataclass(frozen=True, slots=True)
class EncodedEvents:
    """Events as arrays. `ids` (-1 for none), `positions` and `until` have one item for each event.

    `until` is in microseconds since the epoch, inf for none. If the ids are strings, `names` holds them (None for none), and
    `ids` numbers the events that have one from 0.
    """

    events: Events
    ids: Int64s
    positions: Int64s
    until: Float64s
    rejects: tuple[Reject, ...] = ()
    names: list[str | None] | None = None

    @property
    def read(self) -> int:
        """The number of records read, good and bad."""
        return len(self.ids) + len(self.rejects)

    @classmethod
    def concatenate(cls, parts: Sequence[EncodedEvents]) -> EncodedEvents:
        """The concatenation of all parts. O(entries)."""
        names = _joined_lists([(len(part.ids), part.names) for part in parts])
        return cls(concatenate_events([part.events for part in parts]), *_joined(parts), names=names)


class Faults:
    """The first error of each bad record of a batch, by its index in the batch."""

    def __init__(self) -> None:
        self.errors: dict[int, MatchwoodError] = {}

    def add(self, record: int, error: MatchwoodError) -> None:
        """Record an error; only the first of a record counts."""
        self.errors.setdefault(int(record), error)

    def add_each(self, records: Iterable[int] | Int64s, error_of: Callable[[int], MatchwoodError]) -> None:
        """Record an error for each of the records, `error_of(i)` for the i-th of them. O(records)."""
        for place, record in enumerate(records):
            if int(record) not in self.errors:
                self.errors[int(record)] = error_of(place)

    def good(self, n: int) -> Bools:
        """Which of the n records of the batch have no error."""
        good = np.ones(n, np.bool_)
        good[list(self.errors)] = False
        return good

    def rejects(
        self,
        on_error: str,
        *,
        position_of: Callable[[int], int],
        where_of: Callable[[int], str],
        id_of: Callable[[int], int | str | None],
        content_of: Callable[[int], object],
    ) -> tuple[Reject, ...]:
        """The bad records in order; with `on_error="raise"` the error of the first is raised, with its place."""
        bad = sorted(self.errors)
        if bad and on_error == "raise":
            raise self.errors[bad[0]].about(where_of(bad[0]))
        return tuple(
            Reject(position_of(i), where_of(i), id_of(i), str(self.errors[i].args[0]), content_of(i)) for i in bad
        )


class SeenIds:
    """The ids accepted so far, as sorted runs of increasing length: O(log n) per lookup and insert, amortised; 8 bytes per id."""

    def __init__(self) -> None:
        self._runs: list[Int64s] = []

    def repeated(self, ids: Int64s) -> Bools:
        """Which of these ids were accepted before, or occur earlier in the array; the others are accepted now."""
        repeated = np.ones(len(ids), np.bool_)
        distinct, first = np.unique(ids, return_index=True)
        known = np.zeros(len(distinct), np.bool_)
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            known |= run[place] == distinct
        repeated[first[~known]] = False
        if not known.all():
            self._runs.append(distinct[~known])
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs.append(np.sort(np.concatenate([self._runs.pop(), self._runs.pop()])))
        return repeated


def checked_on_error(on_error: str) -> str:
    """`on_error`; `QueryError` if it is not one of `ON_ERROR`."""
    if on_error not in ON_ERROR:
        raise QueryError(f"on_error: expected 'collect' or 'raise', got {on_error!r}")
    return on_error


def _joined(
    parts: Sequence[EncodedSubscriptions] | Sequence[EncodedEvents],
) -> tuple[Int64s, Int64s, Float64s, tuple[Reject, ...]]:
    ids = np.concatenate([np.zeros(0, np.int64), *(part.ids for part in parts)])
    positions = np.concatenate([np.zeros(0, np.int64), *(part.positions for part in parts)])
    until = np.concatenate([np.zeros(0), *(part.until for part in parts)])
    return ids, positions, until, tuple(reject for part in parts for reject in part.rejects)


def _joined_lists(parts: Sequence[tuple[int, Sequence[Any] | None]]) -> list[Any] | None:
    """The items of all parts, of which each has a length; None for those of a part that has no list. None if no part has one."""
    if all(items is None for _, items in parts):
        return None
    return [item for length, items in parts for item in (items if items is not None else [None] * length)]
