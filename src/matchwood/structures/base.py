"""What an index is: the protocol that one contract suite, one benchmark and one Spark job use for all of them.

An index holds rows (conjunctions), grouped by subscription id, and answers batches of events. Arrays go in, arrays come out; a
single event is a batch of one. `Index` does what all share: the exact row store, the checks of arguments, the growing of
results, saving, and repair after an exception. A structure adds its own state and six methods: `_insert`, `_delete`, `_answer`,
`_check`, `_arrays` and `_restore`.

Threads: one writer, and no reader while it writes; the engine's lock sees to that. Readers (`match`, `top_k`) may run at the same
time: each takes a scratch of its own (`structures.scratch`). After an interrupted change the first of them repairs the index, so
that call must be alone: see `whole`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows
from matchwood.errors import MatchwoodError, QueryError, StorageError, SubscriptionError, UnsupportedError
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.store.collecting import Part
from matchwood.store.kernels.candidates import VERIFIED
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.verify import ALL, ANY
from matchwood.store.row_store import RowStore, Slots
from matchwood.store.storage import read_folder, write_folder
from matchwood.structures.parallel import Batch, Pace
from matchwood.structures.repair import Repairable
from matchwood.structures.scratch import Scratch, ScratchPool, new_values


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


class Index(Repairable):
    """A set of rows that answers events. See the module's text; `name` is what users choose it by."""

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
    _takes_ranges: ClassVar[bool] = True
    _keeps_priorities: ClassVar[bool] = True
    """Does the structure keep anything that depends on priorities, as bounds of scores do? Otherwise the store alone changes."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._takes_ranges = Capability.RANGE_EVENTS in cls.capabilities

    def __init__(self) -> None:
        self.store = RowStore()
        self._scratches = ScratchPool()
        self._match_pace, self._top_k_pace = (Pace(), Pace()), (Pace(), Pace())  # by mode

    # implemented by each structure

    @abstractmethod
    def _insert(self, slots: Slots) -> None:
        """Insert rows that have just been put into the store."""

    @abstractmethod
    def _delete(self, slots: Slots) -> None:
        """Delete rows that are still in the store."""

    @abstractmethod
    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        """Answer events[first:] into `out` and `ends`; return the first event not done, because out is full, or their number.

        `scratch` has been prepared (`_prepare`). Nothing else may be written.
        """

    @abstractmethod
    def _check(self) -> None:
        """Verify the structure's own invariants; the store has been checked."""

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """The structure's own state, for saving."""

    @abstractmethod
    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take the state that `_arrays` gave; the store and the parameters are in place."""

    def _refuse(self, rows: Rows) -> None:
        """Raise `SubscriptionError` if the structure cannot hold these rows as well; nothing has changed yet."""

    def _parameters(self) -> dict[str, Any]:
        """The keyword arguments that make an index like this one."""
        return {}

    def _nodes(self) -> int:
        """How many nodes (or blocks, cells, lists) the structure has."""
        return 1

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
        self._refuse(rows)
        self.store.check_new(rows)
        with self._changing():
            self._insert(self.store.put(rows))

    def delete(self, ids: Int64s) -> None:
        """Remove subscriptions with all their rows, all or (if one is not known) none."""
        self.repair()
        ids = np.ascontiguousarray(ids, np.int64)
        if not len(ids):
            return
        self._demand(Capability.UPDATES)
        if len(ids) > 1 and len(np.unique(ids)) != len(ids):
            raise SubscriptionError("a subscription is named twice in one delete")
        slots = self.store.slots_of(ids)
        with self._changing():
            self._delete(slots)
            self.store.remove(ids)

    def update(self, rows: Rows) -> None:
        """Replace the rows of subscriptions, all or (if one is not known) none."""
        self.repair()
        ids = rows.ids[np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])] if rows.size else rows.ids
        self.store.check_shapes(rows)
        self._refuse(rows)
        self.delete(ids)
        self.insert(rows)

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
        if len(ids) > 1 and len(np.unique(ids)) != len(ids):
            raise SubscriptionError("a subscription is named twice in one change of priorities")
        slots = self.store.slots_of(ids)
        self._set_priority(slots, self.store.by_row(slots, priorities))

    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        """Change the priorities of these rows, in the structure as well if it keeps something that depends on them."""
        if not self._keeps_priorities:
            self.store.set_priorities(slots, priorities)
            return
        with self._changing():
            self._delete(slots)
            self.store.set_priorities(slots, priorities)
            self._insert(slots)

    def move_circles(self, ids: Int64s, lon: Float64s, lat: Float64s) -> None:
        """Move the circles of subscriptions, one for each row; `RowStore.centres` has said that they can be. As an update."""
        self.repair()
        self._demand(Capability.UPDATES)
        if len(ids):
            self._move_circles(self.store.slots_of(ids), lon, lat)

    def _move_circles(self, slots: Slots, lon: Float64s, lat: Float64s) -> None:
        with self._changing():
            self._delete(slots)
            self.store.move_circles(slots, lon, lat)
            self._insert(slots)

    def restore(self, ids: Int64s, rows: Rows | None) -> None:
        """Undo a change of these subscriptions that an exception interrupted: they get the given rows, or none.

        With None for the rows they keep what the store holds of them.
        """
        if rows is None:
            self.repair()
            return
        known = np.unique(ids[self.store.knows(ids)])
        if self._whole and Capability.UPDATES in self.capabilities:
            self.delete(known)
            self.insert(rows)
            return
        self._whole = False
        self.store.remove(known)
        self.store.put(rows)
        self.repair()

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

    def stats(self) -> Stats:
        """Size, and work since the last `reset_counters`."""
        self.repair()
        bytes_ = self.store.nbytes + sum(array.nbytes for array in self._arrays().values())
        candidates = int(self._scratches.counts[VERIFIED])
        return Stats(len(self.store), self._nodes(), bytes_, self._scratches.events, candidates, self._details())

    def reset_counters(self) -> None:
        """Start counting events and candidates from zero."""
        self._scratches.reset()

    def save(self, path: str | Path) -> None:
        """Write the index to a new folder that `load` can map. O(bytes)."""
        self.repair()
        arrays = {f"store_{name}": array for name, array in self.store.arrays().items()}
        about = {"index": self.name, "parameters": self._parameters()}
        write_folder(Path(path), "index", about, {**arrays, **self._arrays()})

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Self:
        """The index saved at `path`, mapped into memory; changes stay in this process. `verify` as for `read_folder`."""
        about, arrays = read_folder(Path(path), "index", verify=verify)
        if about.get("index") != cls.name:
            raise StorageError(f"{path}: expected a saved {cls.name!r} index, got {about.get('index')!r}")
        try:
            index = cls(**about["parameters"])
            prefix = "store_"
            index.store = RowStore.of_arrays(
                {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            )
            index._restore({name: array for name, array in arrays.items() if not name.startswith(prefix)})
        except (LookupError, TypeError, ValueError, AttributeError, MatchwoodError) as error:
            raise StorageError(f"{path}: the saved index is incomplete: {error!r}") from None
        return index

    def __len__(self) -> int:
        """How many rows the index holds."""
        return len(self.store)

    def _rebuilt(self) -> Self:
        index = type(self)(**self._parameters())
        index.store = self.store
        if len(self.store):
            index._insert(self.store.live_slots())
        return index

    def _details(self) -> dict[str, float]:
        """Further figures of the structure for `stats`."""
        return {}

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

    def _answered(self, query: Query, pace: Pace, *, ordered: bool, threads: int) -> Matches:
        """The hits of all events."""
        if query.events.size == 1:
            scratch = self._scratches.take()
            try:
                return self._part(scratch, query, None, ordered=ordered).matches()
            finally:
                self._scratches.give_back(scratch)

        def answer(scratch: Scratch, events: Events, limit: int | None) -> Part:
            return self._part(scratch, query._replace(events=events), limit, ordered=ordered)

        def order_of(events: Events) -> Int64s | None:
            return self._order(query._replace(events=events))

        return Batch(self._scratches, answer, order_of, pace, threads).answered(query.events)

    def _part(self, scratch: Scratch, query: Query, limit: int | None, *, ordered: bool) -> Part:
        """The hits of all events, or of the first ones if there are more than `limit`, in the buffer of the scratch."""
        self._prepare(scratch)
        run = partial(self._answer, scratch, query)
        part = scratch.results.fill(run, query.events.size, least=query.k, limit=limit)
        scratch.work.events += part.queries
        if ordered:
            order_hits(part.offsets, part.ids, part.scores)
        return part

    def _order(self, query: Query) -> Int64s | None:
        """The order in which the events are best answered; None for the order of the batch."""
        return None

    def _prepare(self, scratch: Scratch) -> None:
        """Make a scratch as large as the store requires."""
        if len(scratch.values) < self.store.dimensions:
            scratch.values = new_values(self.store.dimensions)
        if len(scratch.seen) < self.store.slots:
            scratch.seen = np.zeros(len(self.store.state.rows), np.uint32)


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
