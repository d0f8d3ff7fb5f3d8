"""What an index is: the protocol that one contract suite, one benchmark and one Spark job use for all of them.

An index holds rows (conjunctions), grouped by subscription id, and answers batches of events. Arrays go in, arrays come out; a
single event is a batch of one. `Index` checks the arguments of every call; what happens then, subclasses say. A structure with
a row store of its own is a `structures.stored.StoredIndex`; an index over other indexes (`structures.split`) is not.

Threads: one writer, and no reader while it writes; the engine's lock sees to that. Readers (`match`, `top_k`) may run at the same
time: each takes a scratch of its own (`structures.scratch`). After an interrupted change the first of them repairs the index, so
that call must be alone: see `whole`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows
from matchwood.errors import MatchwoodError, QueryError, StorageError, SubscriptionError, UnsupportedError
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.store.kernels.verify import ALL, ANY
from matchwood.store.reading import ReadableStore, Slots
from matchwood.store.storage import read_folder
from matchwood.structures.parallel import Pace


class Capability(StrEnum):
    """What an index may be unable to do. The planner and the contract suite read these; `Index` refuses what is missing."""

    ANY = "relaxed matching"
    TOP_K = "top-k"
    SCORING = "scoring functions other than the sum"
    RANGE_EVENTS = "events whose values are ranges or lists"
    ABSENCE = "IS NULL"
    UPDATES = "insert and delete after the first insert"


EVERYTHING = frozenset(Capability)


@dataclass(frozen=True, slots=True)
class Stats:
    """Size and work: the papers' measures. `candidates` counts rows verified since the last `reset_counters`."""

    rows: int
    nodes: int
    bytes: int
    events: int
    candidates: int
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def candidates_per_event(self) -> float:
        return self.candidates / self.events if self.events else 0.0


class AxisShape(NamedTuple):
    """An attribute that a structure divides: live events in the same engine are divided alike."""

    dim: int
    slices: int
    is_layer: bool
    """Do its cells make up the buckets, rather than planes inside them?"""


class Query(NamedTuple):
    """A batch of events to answer, and how."""

    events: Events
    mode: int
    """`ALL` or `ANY` (`store.kernels.verify`)."""
    combine: object
    """A compiled scoring function; None for the sum."""
    k: int
    """The k best hits of each event, in rank order; 0 for every match, in any order."""


class Index(ABC):
    """A set of rows that answers events. See the module's text; `name` is what users choose it by."""

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
    _takes_ranges: ClassVar[bool] = True
    store: ReadableStore
    """The exact rows."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._takes_ranges = Capability.RANGE_EVENTS in cls.capabilities

    def __init__(self) -> None:
        self._match_pace, self._top_k_pace = (Pace(), Pace()), (Pace(), Pace())  # by mode

    # implemented by each index; arguments have been checked

    @abstractmethod
    def _add(self, rows: Rows) -> None:
        """Add the rows of new subscriptions, all or none."""

    @abstractmethod
    def _remove(self, ids: Int64s) -> None:
        """Remove subscriptions with all their rows, all or (if one is not known) none."""

    @abstractmethod
    def _replace(self, ids: Int64s, rows: Rows) -> None:
        """Replace the rows of these subscriptions, all or (if one is not known) none."""

    @abstractmethod
    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        """Change the priorities of these rows."""

    @abstractmethod
    def _move_circles(self, slots: Slots, lon: Float64s, lat: Float64s) -> None:
        """Move the circles of these rows."""

    @abstractmethod
    def _answered(self, query: Query, pace: Pace, *, ordered: bool, threads: int) -> Matches:
        """The hits of all events."""

    @abstractmethod
    def _check(self) -> None:
        """Verify the invariants of the index; the store has been checked."""

    @classmethod
    @abstractmethod
    def _loaded(cls, path: Path, about: Mapping[str, Any], arrays: dict[str, np.ndarray], *, verify: bool) -> Self:
        """The index of a saved folder, of which the manifest and the arrays have been read."""

    @abstractmethod
    def restore(self, ids: Int64s, rows: Rows | None) -> None:
        """Undo a change of these subscriptions that an exception interrupted: they get the given rows, or none.

        With None for the rows they keep what the store holds of them.
        """

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Is nothing left to `repair`? Otherwise the next call repairs the index, which may change its store too: that call
        must be the only one, even if it only reads."""

    @abstractmethod
    def repair(self) -> None:
        """Complete or undo what an interrupted change has left. O(1) if there is nothing."""

    @abstractmethod
    def stats(self) -> Stats:
        """Size, and work since the last `reset_counters`."""

    @abstractmethod
    def reset_counters(self) -> None:
        """Start counting events and candidates from zero."""

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the index to a new folder that `load` can map. O(bytes)."""

    # called by engines, planners and tests

    @classmethod
    def build(cls, rows: Rows, **parameters: Any) -> Self:
        """An index of these rows."""
        index = cls(**parameters)
        index.insert(rows)
        return index

    def insert(self, rows: Rows) -> None:
        """Add the rows of new subscriptions, all or (if an id is known already) none."""
        self.repair()
        if not rows.size:
            return
        if len(self.store):
            self._demand(Capability.UPDATES)
        self.store.check_new(rows)
        self._add(rows)

    def delete(self, ids: Int64s) -> None:
        """Remove subscriptions with all their rows, all or (if one is not known) none."""
        self.repair()
        ids = np.ascontiguousarray(ids, np.int64)
        if not len(ids):
            return
        self._demand(Capability.UPDATES)
        _refuse_twice(ids, "one delete")
        self._remove(ids)

    def update(self, rows: Rows) -> None:
        """Replace the rows of subscriptions, all or (if one is not known) none."""
        self.repair()
        if not rows.size:
            return
        self._demand(Capability.UPDATES)
        self.store.check_shapes(rows)
        ids = rows.ids[np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])]
        _refuse_twice(ids, "one update")
        self._replace(ids, rows)

    def set_priority(self, ids: Int64s, priorities: Float64s) -> None:
        """Change the priorities of subscriptions, all or (if one is not known) none. O(rows), or as an update.

        >>> from matchwood.encode.arrays import make_events, make_rows
        >>> from matchwood.structures import Scan
        >>> index = Scan.build(make_rows([7], [0.0], [0, 1], [0], [0], [18.0], [36.0], [0.5]))
        >>> index.set_priority([7], [2.0])
        >>> index.match(make_events([0, 1], [0], [20.0], [20.0])).scores.tolist()
        [2.5]
        """
        self.repair()
        ids, priorities = np.ascontiguousarray(ids, np.int64), np.ascontiguousarray(priorities, np.float64)
        if len(ids) != len(priorities):
            raise QueryError(f"expected a priority for each of {len(ids)} subscriptions, got {len(priorities)}")
        if not len(ids):
            return
        self._demand(Capability.UPDATES)
        if not all(map(math.isfinite, priorities.tolist())):
            bad = int(np.argmin(np.isfinite(priorities)))
            raise SubscriptionError(f"subscription {ids[bad]}: expected a finite priority, got {priorities[bad]}")
        _refuse_twice(ids, "one change of priorities")
        slots = self.store.slots_of(ids)
        self._set_priority(slots, self.store.by_row(slots, priorities))

    def move_circles(self, ids: Int64s, lon: Float64s, lat: Float64s) -> None:
        """Move the circles of subscriptions, one for each row; the store has said that they can be (`centres`). As an update."""
        self.repair()
        self._demand(Capability.UPDATES)
        if len(ids):
            self._move_circles(self.store.slots_of(ids), lon, lat)

    def match(
        self,
        events: Events,
        *,
        mode: Mode | str = Mode.ALL,
        combine: object = None,
        ordered: bool = False,
        threads: int = 1,
    ) -> Matches:
        """Every matching subscription of each event with its score, in no particular order.

        `ordered`: score descending, then id ascending. `threads`: how many may work on a large batch.
        """
        self.repair()
        checked = self._mode(events, mode, combine)
        pace = self._match_pace[checked]
        return self._answered(Query(events, checked, combine, 0), pace, ordered=ordered, threads=threads)

    def top_k(
        self, events: Events, k: int, *, mode: Mode | str = Mode.ALL, combine: object = None, threads: int = 1
    ) -> Matches:
        """The k best subscriptions of each event: score descending, then id ascending. `threads` as for `match`."""
        self.repair()
        check_k(k)
        self._demand(Capability.TOP_K)
        checked = self._mode(events, mode, combine)
        best = min(int(k), max(self.store.subscriptions, 1))
        pace = self._top_k_pace[checked]
        return self._answered(Query(events, checked, combine, best), pace, ordered=False, threads=threads)

    def axes(self) -> list[AxisShape]:
        """The attributes that the structure divides, most important first; none if it does not work that way."""
        return []

    def parts(self) -> dict[str, int]:
        """The rows of each structure over which the index has divided them; none if it is one structure."""
        return {}

    def check(self) -> None:
        """Walk the whole structure and raise AssertionError, saying where, if an invariant is broken."""
        self.repair()
        self.store.check()
        self._check()

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Self:
        """The index saved at `path`, mapped into memory; changes stay in this process. `verify` as for `read_folder`."""
        about, arrays = read_folder(Path(path), "index", verify=verify)
        if about.get("index") != cls.name:
            raise StorageError(f"{path}: expected a saved {cls.name!r} index, got {about.get('index')!r}")
        try:
            return cls._loaded(Path(path), about, arrays, verify=verify)
        except StorageError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, MatchwoodError) as error:
            raise StorageError(f"{path}: the saved index is incomplete: {error!r}") from None

    def __len__(self) -> int:
        """How many rows the index holds."""
        return len(self.store)

    def _mode(self, events: Events, mode: Mode | str, combine: object) -> int:
        relaxed = mode is not Mode.ALL and mode_of(mode) is Mode.ANY
        if relaxed:
            self._demand(Capability.ANY)
        if combine is not None:
            self._demand(Capability.SCORING)
        if not self._takes_ranges and has_ranges(events):
            self._demand(Capability.RANGE_EVENTS)
        return ANY if relaxed else ALL

    def _demand(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise UnsupportedError(f"index {self.name!r} does not offer {capability}; 'scan' does")


def check_k(k: object) -> None:
    """Refuse a k that is not a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise QueryError(f"expected k to be a whole number >= 1, got {k!r}")


def has_ranges(events: Events) -> bool:
    """Is any value of the batch a range or a list? O(entries)."""
    if (events.lo != events.hi).any():
        return True
    same = events.dims[1:] == events.dims[:-1]
    starts = events.offsets[1:-1]
    starts = starts[(starts > 0) & (starts < len(events.dims))]
    same[starts - 1] = False
    return bool(same.any())


def _refuse_twice(ids: Int64s, where: str) -> None:
    if len(ids) > 1 and len(np.unique(ids)) != len(ids):
        raise SubscriptionError(f"a subscription is named twice in {where}")
