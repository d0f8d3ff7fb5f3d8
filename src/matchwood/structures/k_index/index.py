"""k-index: inverted lists of conjunctions by size, the counting-based system that the BE*-Tree is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.store.reading import Slots
from matchwood.structures.base import EVERYTHING, Capability, Query
from matchwood.structures.k_index.kernels.layout import (
    LISTED,
    ROW_SHAPE,
    SIZE_BOUND,
    KPostings,
    describe_rows,
    fill_lists,
    spread_entries,
)
from matchwood.structures.k_index.kernels.match import CURSOR, NEAR, KIndexScratch, answer_events
from matchwood.structures.scratch import Scratch
from matchwood.structures.verifying import VerifyingIndex

MAX_CELLS = 4096
MAX_COPIES = 6.0
"""Postings a row may cost on average in one dimension; cells are made coarser until they keep to it."""


class KIndex(VerifyingIndex):
    """Posting lists by (dimension, cell of values), rows in the order of their size; a K-way intersection finds rows of size K.

    Layout: `kernels.layout`. Static, as in its paper: all rows are known in advance. Built in O(postings log); an event costs
    the postings of its lists, less what the intersection skips. Top-k leaves out sizes and rows by the largest
    weights of the lists. Relaxed matching is the union of the lists.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7], [0.0], [0, 1], [0], [0], [18.0], [36.0], [0.5])
    >>> index = KIndex.build(rows)
    >>> hits = index.match(make_events([0, 1, 2], [0, 0], [20.0, 40.0], [20.0, 40.0]))
    >>> hits.offsets.tolist(), hits.ids.tolist(), hits.scores.tolist()
    ([0, 1, 1], [7], [0.5])
    """

    name: ClassVar[str] = "k-index"
    capabilities = EVERYTHING - {Capability.UPDATES}

    def __init__(self) -> None:
        super().__init__()
        self._postings = KPostings(
            slots=np.zeros(0, np.uint32),
            sizes=np.zeros(2, np.int64),
            bounds=np.zeros(0),
            dimensions=np.zeros(1, np.int64),
            lists=np.zeros(1, np.int64),
            heaviest=np.zeros(0, np.float32),
            postings=np.zeros(0, np.uint32),
            absent=np.zeros(0, np.uint32),
            tops=np.zeros(1, SIZE_BOUND),
        )

    def _insert(self, slots: Slots) -> None:
        shapes, counts = np.zeros(len(slots), ROW_SHAPE), np.zeros(self.store.dimensions, np.int64)
        describe_rows(self.store.state, slots, shapes, counts)
        order = np.lexsort((shapes["key"], shapes["dim"], shapes["size"]))
        self.store.reorder(np.ascontiguousarray(slots[order]))
        shapes, slots = shapes[order], np.arange(len(slots), dtype=np.uint32)
        runs = _offsets(counts)
        listed = np.zeros(int(runs[-1]), LISTED)
        spread_entries(self.store.state, slots, runs[:-1].copy(), listed)
        by_dimension = [listed[start:end] for start, end in pairwise(runs.tolist())]
        cuts = [_cells(run["lo"], run["hi"]) for run in by_dimension]
        cells = [
            np.array([np.searchsorted(cut, run[end], side="right") for end in ("lo", "hi")])
            for run, cut in zip(by_dimension, cuts, strict=True)
        ]
        lists = _offsets(np.concatenate([np.zeros(0, np.int64), *map(_list_sizes, cells, cuts)]))
        sizes = _offsets(np.bincount(shapes["size"]))
        self._postings = KPostings(
            slots=slots,
            sizes=sizes,
            bounds=np.concatenate([np.zeros(0), *cuts]),
            dimensions=_offsets(np.array([len(cut) for cut in cuts], np.int64)),
            lists=lists,
            heaviest=np.zeros(len(lists) - 1, np.float32),
            postings=np.zeros(int(lists[-1]), np.uint32),
            absent=np.flatnonzero(shapes["absent"] >= 0).astype(np.uint32),
            tops=self._tops(sizes, shapes["absent"]),
        )
        places, first = lists[:-1].copy(), 0
        for run, cut, cell in zip(by_dimension, cuts, cells, strict=True):
            whole = first + len(cut) + 1
            fill_lists(self._postings, places, first, whole, cell, run)
            first = whole + 1

    def _delete(self, slots: Slots) -> None:
        self._demand(Capability.UPDATES)

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        lists, held = NEAR * int(np.diff(query.events.offsets).max(initial=0)) + 1, scratch.own
        if held is None or held.candidates is not scratch.buffer or len(held.cursors) < lists:
            cursors, heads = np.zeros(lists, CURSOR), np.zeros(lists, np.uint64)
            scratch.own = KIndexScratch(candidates=scratch.buffer, cursors=cursors, heads=heads)
        return int(answer_events(self._postings, self.store.state, scratch.own, query, first, out, ends))

    def _check(self) -> None:
        index = self._postings
        assert sorted(index.slots.tolist()) == self.store.live_slots().tolist(), "ordinals and live rows differ"
        expected: dict[int, list[int]] = {}
        for ordinal, slot in enumerate(index.slots.tolist()):
            boxes = self._boxes(slot)
            size = int(np.searchsorted(index.sizes, ordinal, side="right")) - 1
            assert size == len(boxes), f"slot {slot} of {len(boxes)} dimensions is counted as of size {size}"
            for dim, (low, high) in boxes.items():
                cells = index.bounds[index.dimensions[dim] : index.dimensions[dim + 1]]
                first = int(index.dimensions[dim]) + 2 * dim
                spans = np.searchsorted(cells, [low, high], side="right")
                for list_ in [*range(first + int(spans[0]), first + int(spans[1]) + 1), first + len(cells) + 1]:
                    expected.setdefault(list_, []).append(ordinal)
        for list_ in range(len(index.lists) - 1):
            held = index.postings[index.lists[list_] : index.lists[list_ + 1]].tolist()
            assert held == expected.get(list_, []), f"list {list_} holds other rows than meet its cell"

    def _boxes(self, slot: int) -> dict[int, tuple[float, float]]:
        row = self.store.state.rows[slot]
        boxes: dict[int, tuple[float, float]] = {}
        for entry in self.store.state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]:
            if not entry["kind"] & (ABSENT | NARROWS):
                boxes.setdefault(int(entry["dim"]), (float(entry["lo"]), float(entry["hi"])))
        return boxes

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._postings._asdict()

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._postings = KPostings(**saved)

    def _nodes(self) -> int:
        return len(self._postings.lists) - 1

    def _details(self) -> dict[str, float]:
        postings = float(len(self._postings.postings))
        return {"postings": postings, "postings_read": self._visited, **self._tests()}

    def _tops(self, sizes: Int64s, absent: Float64s) -> np.ndarray:
        priority = self.store.state.rows["priority"][: len(absent)]
        tops = np.zeros(len(sizes) - 1, SIZE_BOUND)
        for size, (start, end) in enumerate(pairwise(sizes.tolist())):
            tops[size] = priority[start:end].max(initial=-np.inf), absent[start:end].max(initial=0.0)
        return tops


def _offsets(sizes: Int64s) -> Int64s:
    """Where runs of these sizes begin, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _cells(lo: Float64s, hi: Float64s) -> Float64s:
    """The bounds between the cells of one dimension: every key if there are few, else quantiles, as fine as copies allow."""
    with np.errstate(over="ignore"):  # what lies above the largest key is infinite, and dropped
        keys = np.unique(np.concatenate([lo, np.nextafter(hi, np.inf)]))
    keys = keys[np.isfinite(keys)]
    number = min(MAX_CELLS, len(keys))
    while number > 0:
        bounds = keys[np.unique(np.linspace(0, len(keys) - 1, number).astype(np.int64))]
        spans = np.searchsorted(bounds, hi, side="right") - np.searchsorted(bounds, lo, side="right") + 1
        if spans.mean() <= MAX_COPIES:
            return np.asarray(bounds)
        number //= 2
    return np.zeros(0)


def _list_sizes(cells: Int64s, cut: Float64s) -> Int64s:
    """How many rows each list of a dimension gets; the last is that of the whole dimension."""
    changes = np.bincount(cells[0], minlength=len(cut) + 2) - np.bincount(cells[1] + 1, minlength=len(cut) + 2)
    counts = np.cumsum(changes)
    counts[len(cut) + 1] = cells.shape[1]
    return counts
