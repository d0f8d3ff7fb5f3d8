"""The protocol of scored interval indexes: intervals with scores, stabbed by points or ranges, best first.

One protocol for the five structures of Ranked 2 and 3. A structure may hold several dimensions at once, each with
trees of its own in shared arrays: that is what the multi-dimensional index walks. Used alone it has one.
One writer, no reader at the same time; a change invalidates iterators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Matches
from matchwood.errors import QueryError, SubscriptionError
from matchwood.store.collecting import new_out
from matchwood.structures.ranked.kernels import stab as kernel
from matchwood.structures.ranked.kernels.layout import FRAME, ITEM, LEVELS, RANK, STREAMS, Cursors, Forest
from matchwood.structures.ranked.parts import Entries


class ScoredIntervals(ABC):
    """Scored closed intervals, in one or several dimensions, stabbed best first. See the module's text."""

    name: ClassVar[str]

    def __init__(self, *, branching: int = 32, dimensions: int = 1) -> None:
        if not 2 <= branching <= kernel.MAX_BRANCHING:
            raise QueryError(f"expected a branching factor between 2 and {kernel.MAX_BRANCHING}, got {branching}")
        self.branching = branching
        self.dimensions = dimensions
        self.visits = np.zeros(LEVELS + 1, np.int64)
        """Blocks opened by level, and (last) entries tested, since it was last set to zero."""
        self._cursor = new_cursors(1, 256, self.visits)

    # what a structure adds

    @property
    @abstractmethod
    def state(self) -> Forest:
        """The arrays that kernels walk."""

    @abstractmethod
    def insert(self, lo: object, hi: object, score: object, ids: object, *, dim: int = 0) -> None:
        """Add intervals whose ids are new to the dimension."""

    @abstractmethod
    def add(self, entries: Entries, dim: int) -> None:
        """`insert` without any check: for an owner that knows that the ids are new."""

    @abstractmethod
    def widen(self, dimensions: int) -> None:
        """Make room for further dimensions."""

    @abstractmethod
    def delete(self, lo: object, hi: object, score: object, ids: object, *, dim: int = 0) -> None:
        """Remove intervals, given as they are stored."""

    @abstractmethod
    def rescore(self, lo: object, hi: object, score: object, ids: object, new: object, *, dim: int = 0) -> None:
        """Change the scores of intervals, given as they are stored."""

    @abstractmethod
    def check(self) -> None:
        """Verify every invariant; AssertionError says where one is broken. For tests: O(n) and more, in Python."""

    @abstractmethod
    def intervals(self, dim: int = 0) -> Entries:
        """All intervals of a dimension, in no particular order. O(n)."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """All state, for saving; `restore` takes it back."""

    @abstractmethod
    def restore(self, saved: Mapping[str, np.ndarray]) -> None: ...

    @abstractmethod
    def size(self, dim: int = 0) -> int:
        """How many intervals the dimension has."""

    @property
    @abstractmethod
    def nodes(self) -> int:
        """How many nodes and blocks there are."""

    # what all share

    @classmethod
    def build(cls, lo: object, hi: object, score: object, ids: object = None, *, branching: int = 32) -> Self:
        """A structure of these intervals; ids default to 0, 1, 2, ... O(n log n)."""
        structure = cls(branching=branching)
        structure.insert(lo, hi, score, np.arange(np.size(np.asarray(lo))) if ids is None else ids)
        return structure

    def __len__(self) -> int:
        return sum(self.size(dim) for dim in range(self.dimensions))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def stab(self, first: float, last: float | None = None, *, dim: int = 0) -> Iterator[tuple[int, float]]:
        """(id, score) of the intervals that hold the point `first` (or meet [first, last]), best first, one at a time."""
        last = first if last is None else last
        room, given = 256, 0
        while True:
            cursor = new_cursors(1, room, self.visits)
            status = (
                0 if kernel.begin_stab(self.state, cursor, dim, float(first), float(last)) else int(kernel.CURSOR_FULL)
            )
            seen, chunk = 0, 16
            while status == 0:
                ids, scores = np.empty(chunk, np.int64), np.empty(chunk)
                n, status = kernel.continue_stab(self.state, cursor, ids, scores)
                fresh = max(given - seen, 0)
                yield from zip(ids[fresh:n].tolist(), scores[fresh:n].tolist(), strict=True)
                seen += n
                given = max(given, seen)
                chunk = min(2 * chunk, 4096)
            if status == int(kernel.NO_HIT):
                return
            room *= 4  # begin again with a larger cursor, and skip the hits that have been yielded

    def top_k(self, first: object, k: int, last: object = None, *, dim: int = 0) -> Matches:
        """The k best of each query (points, or ranges if `last` is given): score descending, then id ascending."""
        first = np.atleast_1d(np.asarray(first, np.float64))
        last = first if last is None else np.atleast_1d(np.asarray(last, np.float64))
        queries = np.ascontiguousarray(np.stack([first, last], axis=1))
        k = min(int(k), max(self.size(dim), 1))
        out, ends = new_out(k * len(queries)), np.zeros(len(queries), np.int64)
        done = 0
        while (done := kernel.stab_many(self.state, self._cursor, dim, queries, done, k, out, ends)) < len(queries):
            self._cursor = new_cursors(1, 4 * len(self._cursor.heap), self.visits)
        n = int(ends[-1]) if len(ends) else 0
        return Matches(np.concatenate([np.zeros(1, np.int64), ends]), out.ids[:n], out.scores[:n])


def new_cursors(count: int, room: int, visits: Int64s) -> Cursors:
    """Cursors for `count` stabs at a time, with `room` items each."""
    heap = np.zeros(count * room, RANK)
    heap["item"] = np.arange(len(heap))
    frames = np.zeros(count * STREAMS * LEVELS, FRAME)
    return Cursors(
        items=np.zeros(len(heap), ITEM),
        heap=heap,
        sizes=np.zeros(count, np.int64),
        query=np.zeros((count, 2)),
        frames=frames,
        visits=visits,
    )


def entries_of(lo: object, hi: object, score: object, ids: object) -> Entries:
    """Intervals as arrays; refuses NaN, empty intervals, and ids that are negative or given twice."""
    columns: list[Float64s] = [np.ascontiguousarray(np.atleast_1d(column), np.float64) for column in (lo, hi, score)]  # type: ignore[call-overload]
    links: Int64s = np.ascontiguousarray(np.atleast_1d(ids), np.int64)  # type: ignore[call-overload]
    entries = Entries(columns[0], columns[1], columns[2], links)
    if not all(len(column) == len(links) for column in columns):
        raise SubscriptionError("expected lo, hi, score and ids of one length")
    bad = ~(entries.lo <= entries.hi) | np.isnan(entries.score)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        given = f"[{entries.lo[at]}, {entries.hi[at]}] with score {entries.score[at]}"
        raise SubscriptionError(f"interval {links[at]}: expected lo <= hi and a score, got {given}")
    if len(links) and links.min() < 0:
        raise SubscriptionError(f"expected ids that are not negative, got {links.min()}")
    return entries
