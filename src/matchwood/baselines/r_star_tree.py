"""R*-tree of libspatialindex, by the `rtree` package: one dimension an attribute. A comparison system of the MO-Tree paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from matchwood.baselines.kernels.r_star_tree import Stabbed, verify_many
from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.errors import SubscriptionError, UnsupportedError
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.store.reading import Slots
from matchwood.structures.base import EVERYTHING, Capability, Query
from matchwood.structures.scratch import Scratch
from matchwood.structures.stored import StoredIndex

MARGIN = 1e-12  # more than the error of the logarithm


def _squashed(keys: Any) -> Any:
    """Keys mapped into [-1, 1], in their order up to rounding: libspatialindex fails on volumes that are not finite."""
    return np.sign(keys) * np.minimum(np.log1p(np.abs(keys)) / 710.0, 1.0)


def _everything(size: int) -> np.ndarray:
    return np.concatenate([np.full(size, -1.5), np.full(size, 1.5)])


class RStarTree(StoredIndex):
    """Rows as boxes, the whole domain where they have no predicate (as in the paper); hits of the box are verified exactly.

    The tree lives in libspatialindex and is not saved: loading builds it again. `dimensions` fixes its space. Insert and
    delete cost tens of microseconds a row; an event is one query, from Python. `rtree` is imported when the first index is made.
    """

    name = "r-star-tree"
    capabilities: ClassVar = EVERYTHING - {Capability.ANY}
    _keeps_priorities = False

    def __init__(self, *, dimensions: int = 20) -> None:
        super().__init__()
        self._dimensions = dimensions
        self._tree = self._new([])

    def _new(self, boxes: Any) -> Any:
        try:
            from rtree import index
        except ImportError:
            raise UnsupportedError("'r-star-tree' needs the package `rtree` (extra `bench`)") from None
        settings = index.Property(dimension=max(self._dimensions, 2), variant=index.RT_Star)
        return index.Index(boxes, properties=settings) if boxes else index.Index(properties=settings)

    def _boxes(self, slots: Slots) -> Iterator[tuple[int, np.ndarray]]:
        """Slot and box of each row: all lows, then all highs."""
        size = max(self._dimensions, 2)
        for slot in slots.tolist():
            box = _everything(size)
            row = self.store.state.rows[slot]
            for entry in self.store.state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]:
                if not entry["kind"] & (ABSENT | NARROWS):
                    dim = int(entry["dim"])
                    box[dim], box[size + dim] = _squashed(entry["lo"]) - MARGIN, _squashed(entry["hi"]) + MARGIN
            yield slot, box

    def _refuse(self, rows: Rows) -> None:
        named = int(rows.dims.max(initial=0)) + 1
        if named > self._dimensions:
            raise SubscriptionError(f"'r-star-tree' was made for {self._dimensions} dimensions, got {named}")

    def _insert(self, slots: Slots) -> None:
        if len(slots) == len(self.store):
            self._tree = self._new([(slot, tuple(box), None) for slot, box in self._boxes(slots)])
            return
        for slot, box in self._boxes(slots):
            self._tree.insert(slot, tuple(box))

    def _delete(self, slots: Slots) -> None:
        for slot, box in self._boxes(slots):
            self._tree.delete(slot, tuple(box))

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        slots, offsets = self._stabbed(query.events)
        own = {"values": scratch.values, "seen": scratch.seen, "candidates": scratch.work.counts}
        stabbed = Stabbed(slots=slots, offsets=offsets, **own)
        state = self.store.state
        return int(verify_many(stabbed, state, query.events, first, query.combine, query.k, out, ends))

    def _stabbed(self, events: Events) -> tuple[Slots, Int64s]:
        """The rows whose box meets the event's, event by event: a dimension it lacks is the whole domain."""
        size = max(self._dimensions, 2)
        found: list[list[int]] = []
        for e in range(events.size):
            box = _everything(size)
            span = slice(events.offsets[e], events.offsets[e + 1])
            dims = events.dims[span]
            known = dims < self._dimensions
            dims, lo, hi = dims[known], events.lo[span][known], events.hi[span][known]
            low, high = np.full(size, np.inf), np.full(size, -np.inf)
            np.minimum.at(low, dims, _squashed(lo))
            np.maximum.at(high, dims, _squashed(hi))
            box[dims], box[size + dims.astype(np.int64)] = low[dims], high[dims]
            found.append(list(self._tree.intersection(tuple(box))) if len(self.store) else [])
        offsets = np.concatenate([[0], np.cumsum([len(f) for f in found], dtype=np.int64)]).astype(np.int64)
        return np.concatenate([np.zeros(0, np.uint32), *(np.array(f, np.uint32) for f in found)]), offsets

    def _check(self) -> None:
        found = sorted(self._tree.intersection(tuple(_everything(max(self._dimensions, 2))))) if len(self.store) else []
        assert found == self.store.live_slots().tolist(), "the tree and the live rows differ"

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        slots = self.store.live_slots()
        if len(slots):
            self._insert(slots)

    def _parameters(self) -> dict[str, Any]:
        return {"dimensions": self._dimensions}
