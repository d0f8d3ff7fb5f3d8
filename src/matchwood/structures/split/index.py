"""Split: one set of subscriptions divided by kind over three structures, whose answers are merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Matches, Rows, concatenate_rows
from matchwood.encode.picking import pick_rows
from matchwood.errors import UnknownSubscriptionError
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.reading import Slots
from matchwood.store.storage import write_folder
from matchwood.structures.base import EVERYTHING, AxisShape, Capability, Index, Query, Stats
from matchwood.structures.mo_tree.index import MOTree
from matchwood.structures.parallel import Pace
from matchwood.structures.postings.index import PostingsIndex
from matchwood.structures.scan.index import Scan
from matchwood.structures.split.kernels.divide import POINTS, RANGES, REST, SHARE
from matchwood.structures.split.kernels.merge import join_hits, merge_best
from matchwood.structures.split.plan import parts_of, planned_shares
from matchwood.structures.split.store import SplitStore
from matchwood.structures.stored import StoredIndex

PARTS: dict[int, type[StoredIndex]] = {POINTS: PostingsIndex, RANGES: MOTree, REST: Scan}
REPLAN = 4  # an index that has outgrown its plan this many times is divided anew
SMALL = 64  # none is divided anew below


class Layout(NamedTuple):
    """The parts, and the plan by which subscriptions were divided. Replaced as a whole."""

    parts: tuple[StoredIndex, ...]
    shares: np.ndarray
    planned_for: int


class SplitIndex(Index):
    """Rows with a selective value go to `postings`, those with ranges and places to `mo-tree`, what neither filters to `scan`.

    Each part is a complete index with a store of its own, and holds other subscriptions (`kernels.divide` says which). So the
    answers of the parts have no subscription in common: all matches are joined, the k best merged (`kernels.merge`).
    The plan, a share of events for each dimension (`plan`), is made when the index is first filled and when it has outgrown it.
    Invariant: every subscription is in one part, with all its rows (`check`).
    Cost: that of the parts, and 1.5 ns a hit. A single call costs a few microseconds more for each part that has rows.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7, 8], [0.0, 0.0], [0, 1, 2], [0, 1], [0, 0], [5.0, 18.0], [5.0, 36.0], [0.5, 0.9])
    >>> split = SplitIndex.build(rows)
    >>> split.stats().details["rows_in_postings"], split.stats().details["rows_in_mo_tree"]
    (1.0, 1.0)
    >>> split.top_k(make_events([0, 2], [0, 1], [5.0, 20.0], [5.0, 20.0]), 5).ids.tolist()
    [8, 7]
    """

    name: ClassVar[str] = "split"
    store: SplitStore
    capabilities = EVERYTHING - {Capability.ANY}

    def __init__(self) -> None:
        super().__init__()
        self._layout = Layout(tuple(kind() for kind in PARTS.values()), np.zeros(0, SHARE), 0)
        self._removing: Int64s | None = None
        self.store = SplitStore(lambda: [part.store for part in self._layout.parts], lambda: self._removing)

    # changes

    def _add(self, rows: Rows) -> None:
        if len(self) + rows.size > REPLAN * max(self._layout.planned_for, SMALL) or not self._layout.planned_for:
            self._layout = _laid_out(concatenate_rows([self.store.extract_all(), rows]))
            return
        for part, some in self._divided(rows):
            part.insert(some)

    def _remove(self, ids: Int64s) -> None:
        """The removal has happened once it is noted; `repair` completes it after an exception."""
        known = self.store.knows(ids)
        if not known.all():
            raise UnknownSubscriptionError(f"subscription {ids[~known][0]} is not there")
        self._removing = ids
        self._complete_removal()

    def _complete_removal(self) -> None:
        ids = self._removing
        if ids is not None:
            for part in self._layout.parts:
                part.delete(ids[part.store.knows(ids)])
            self._removing = None

    def _replace(self, ids: Int64s, rows: Rows) -> None:
        """In place in its part, or moved to another."""
        self.store.slots_of(ids)  # all are known
        divided = self._divided(rows)
        for part, some in divided:
            stays = part.store.knows(some.ids)
            moving = pick_rows(some, np.flatnonzero(~stays))
            for other in self._layout.parts:
                gone = np.unique(moving.ids)
                other.delete(gone[other.store.knows(gone)])
            part.update(pick_rows(some, np.flatnonzero(stays)))
            part.insert(moving)

    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        for part, at, local in self._at(slots):
            part._set_priority(local, priorities[at])

    def _move_circles(self, slots: Slots, lon: Float64s, lat: Float64s) -> None:
        for part, at, local in self._at(slots):
            part._move_circles(local, lon[at], lat[at])

    def restore(self, ids: Int64s, rows: Rows | None) -> None:
        """As `Index.restore`."""
        self.repair()
        if rows is not None:
            divided = {id(part): some for part, some in self._divided(rows)}
            for part in self._layout.parts:
                part.restore(ids, divided.get(id(part), pick_rows(rows, np.zeros(0, np.int64))))

    @property
    def whole(self) -> bool:
        """As `Index.whole`."""
        return self._removing is None and all(part.whole for part in self._layout.parts)

    def repair(self) -> None:
        """As `Index.repair`: parts repair themselves, and a removal that has begun is completed."""
        for part in self._layout.parts:
            part.repair()
        self._complete_removal()

    def _divided(self, rows: Rows) -> list[tuple[StoredIndex, Rows]]:
        """The parts that these rows belong to, and which of them."""
        parts = parts_of(rows, self._layout.shares)
        found = [(part, np.flatnonzero(parts == p)) for p, part in enumerate(self._layout.parts)]
        return [(part, rows if len(mine) == rows.size else pick_rows(rows, mine)) for part, mine in found if len(mine)]

    def _at(self, slots: Slots) -> Iterator[tuple[StoredIndex, Int64s, Slots]]:
        """The parts that have some of these slots: which of them, and the slots there."""
        part_of = {id(part.store): part for part in self._layout.parts}
        for store, at, local in self.store.divided(slots):
            yield part_of[id(store)], at, local

    # answers

    def _answered(self, query: Query, pace: Pace, *, ordered: bool, threads: int) -> Matches:
        """The answers of all parts that have rows, merged."""
        live = [part for part in self._layout.parts if len(part)] or [self._layout.parts[0]]
        found = None
        for part in live:
            own = (part._top_k_pace if query.k else part._match_pace)[query.mode]
            more = part._answered(query, own, ordered=ordered and len(live) == 1, threads=threads)
            found = more if found is None else _merged(found, more, query.k)
        assert found is not None
        if ordered and len(live) > 1:
            order_hits(found.offsets, found.ids, found.scores)
        return found

    def axes(self) -> list[AxisShape]:
        """As `Index.axes`, of the part for ranges."""
        return self._layout.parts[RANGES].axes()

    def parts(self) -> dict[str, int]:
        """As `Index.parts`."""
        return {part.name: len(part) for part in self._layout.parts if len(part)}

    def stats(self) -> Stats:
        """As `Index.stats`: the sums of all parts."""
        self.repair()
        each = [part.stats() for part in self._layout.parts]
        details = {f"rows_in_{part.name.replace('-', '_')}": float(len(part)) for part in self._layout.parts}
        return Stats(
            sum(s.rows for s in each),
            sum(s.nodes for s in each),
            sum(s.bytes for s in each),
            max(s.events for s in each),
            sum(s.candidates for s in each),
            details,
        )

    def reset_counters(self) -> None:
        """As `Index.reset_counters`."""
        for part in self._layout.parts:
            part.reset_counters()

    def _check(self) -> None:
        for part in self._layout.parts:
            part.check()

    # saving

    def save(self, path: str | Path) -> None:
        """As `Index.save`: a folder for each part."""
        self.repair()
        parts, shares, planned_for = self._layout

        def save_parts(folder: Path) -> None:
            for part in parts:
                part.save(folder / part.name)

        about = {"index": self.name, "parameters": {}, "planned_for": planned_for}
        write_folder(Path(path), "index", about, {"shares": shares}, also=save_parts)

    @classmethod
    def _loaded(cls, path: Path, about: Mapping[str, Any], arrays: dict[str, np.ndarray], *, verify: bool) -> Self:
        index = cls()
        parts = tuple(kind.load(path / kind.name, verify=verify) for kind in PARTS.values())
        index._layout = Layout(parts, arrays["shares"], int(about["planned_for"]))
        return index


def _laid_out(rows: Rows) -> Layout:
    """New parts of these rows."""
    shares = planned_shares(rows)
    parts = tuple(kind() for kind in PARTS.values())
    numbers = parts_of(rows, shares)
    for p, part in enumerate(parts):
        part.insert(pick_rows(rows, np.flatnonzero(numbers == p)))
    return Layout(parts, shares, rows.size)


def _merged(a: Matches, b: Matches, k: int) -> Matches:
    """The hits of both: all of them (k = 0), or the k best."""
    if not len(b.ids):
        return a
    ids, scores = np.empty(len(a.ids) + len(b.ids), np.int64), np.empty(len(a.ids) + len(b.ids))
    if k == 0:
        joined = Matches(a.offsets + b.offsets, ids, scores)
        join_hits(a, b, joined)
        return joined
    merged = Matches(np.zeros(len(a.offsets), np.int64), ids, scores)
    n = int(merge_best(a, b, k, merged))
    return Matches(merged.offsets, ids[:n], scores[:n])
