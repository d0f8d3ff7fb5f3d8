"""k-index: inverted lists of conjunctions by size, the counting-based system that the BE*-Tree is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import ABSENT, CIRCLE
from matchwood.store.row_store import Slots
from matchwood.structures.base import EVERYTHING, Capability
from matchwood.structures.k_index.kernels import match as kernel
from matchwood.structures.k_index.kernels.match import Postings, Scratch
from matchwood.structures.tally import Tallied, new_keys

MOST_CELLS = 4096
COPIES = 6.0
"""Postings a row may cost on average in one dimension; cells are made coarser until they keep to it."""


class KIndex(Tallied):
    """Posting lists by (dimension, cell of values), rows in the order of their size; a K-way intersection finds rows of size K.

    Layout: `kernels.match`. Static, as in its paper: all rows are known in advance. Built in O(postings log); an event costs
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
        no_u4 = np.zeros(0, np.uint32)
        self._postings = Postings(
            no_u4,
            np.zeros(2, np.int64),
            np.zeros(0),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(0, np.float32),
            no_u4,
            no_u4,
            np.zeros(1, kernel.BOUND),
        )
        self._found = np.zeros(kernel.FOUND + 1, np.uint32)
        self._counters = np.zeros(2, np.int64)
        self._keys = new_keys(0)

    def _insert(self, slots: Slots) -> None:
        sizes, absent = self._order_rows(slots)
        slots = np.arange(len(slots), dtype=np.uint32)
        store, dimensions = self.store.state, self.store.dimensions
        counts = np.zeros(dimensions, np.int64)
        kernel.count_dimensions(store, slots, counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        total = int(starts[-1])
        ordinals, lo, hi, weight = np.zeros(total, np.uint32), np.zeros(total), np.zeros(total), np.zeros(total)
        kernel.spread_entries(store, slots, starts[:-1].copy(), ordinals, lo, hi, weight)
        runs = [slice(int(a), int(b)) for a, b in pairwise(starts)]
        cuts = [_cells(lo[run], hi[run]) for run in runs]
        lists, heaviest, postings = _fill(runs, cuts, ordinals, lo, hi, weight)
        bounds = np.concatenate([np.zeros(0), *cuts])
        places = np.concatenate([[0], np.cumsum([len(cut) for cut in cuts])]).astype(np.int64)
        asking = np.flatnonzero(absent >= 0).astype(np.uint32)
        tops = self._tops(sizes, absent)
        self._postings = Postings(slots, sizes, bounds, places, lists, heaviest, postings, asking, tops)

    def _delete(self, slots: Slots) -> None:
        self._demand(Capability.UPDATES)

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        state = self._postings, self.store.state, self._scratch(events)
        return int(kernel.match_many(*state, events, first, how, combine, out, ends))

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        state = self._postings, self.store.state, self._scratch(events)
        return int(kernel.top_many(*state, events, first, how, combine, k, out, ends))

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
            if not entry["kind"] & (ABSENT | CIRCLE):
                boxes.setdefault(int(entry["dim"]), (float(entry["lo"]), float(entry["hi"])))
        return boxes

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._postings._asdict()

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._postings = Postings(*(saved[name] for name in Postings._fields))

    def _nodes(self) -> int:
        return len(self._postings.lists) - 1

    def _details(self) -> dict[str, float]:
        sizes = {"postings": float(len(self._postings.postings)), "postings_read": float(self._counters[1])}
        return {**sizes, **self._tests()}

    def reset_counters(self) -> None:
        super().reset_counters()
        self._counters[:] = 0

    def _order_rows(self, slots: Slots) -> tuple[Int64s, Float64s]:
        """Lay the store out by size, then by first dimension and key; return the first ordinal of each size and the
        absence weights by ordinal, -1 for rows that ask for none."""
        n = len(slots)
        size, dim, key, absent = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        kernel.describe_rows(self.store.state, slots, size, dim, key, absent)
        order = np.lexsort((key, dim, size))
        self.store.reorder(np.ascontiguousarray(slots[order]))
        sizes = np.concatenate([[0], np.cumsum(np.bincount(size))]).astype(np.int64)
        return sizes, absent[order]

    def _tops(self, sizes: Int64s, absent: Float64s) -> np.ndarray:
        priority = self.store.state.rows["priority"][: len(absent)]
        tops = np.zeros(len(sizes) - 1, kernel.BOUND)
        for size in range(len(tops)):
            run = slice(int(sizes[size]), int(sizes[size + 1]))
            tops[size] = priority[run].max(initial=-np.inf), absent[run].max(initial=0.0)
        return tops

    def _scratch(self, events: Events) -> Scratch:
        lists = kernel.NEAR * int(np.diff(events.offsets).max(initial=0)) + 1
        heads, places = np.zeros(lists, np.uint64), np.zeros((2, lists), np.int64)
        buffers = self._values, self._seen, self._found, heads, places[0], places[1], np.zeros(lists), self._counters
        return Scratch(*buffers, self._keys, self._tally)

    def _prepare(self) -> None:
        super()._prepare()
        if len(self._keys) < self.store.dimensions:
            self._keys = new_keys(self.store.dimensions)
        self._candidates = self._counters[:1]


def _cells(lo: Float64s, hi: Float64s) -> Float64s:
    """The bounds between the cells of one dimension: every key if there are few, else quantiles, as fine as COPIES allows."""
    with np.errstate(over="ignore"):  # what lies above the largest key is infinite, and dropped
        keys = np.unique(np.concatenate([lo, np.nextafter(hi, np.inf)]))
    keys = keys[np.isfinite(keys)]
    number = min(MOST_CELLS, len(keys))
    while number > 0:
        bounds = keys[np.unique(np.linspace(0, len(keys) - 1, number).astype(np.int64))]
        spans = np.searchsorted(bounds, hi, side="right") - np.searchsorted(bounds, lo, side="right") + 1
        if spans.mean() <= COPIES:
            return np.asarray(bounds)
        number //= 2
    return np.zeros(0)


def _fill(
    runs: list[slice], cuts: list[Float64s], ordinals: np.ndarray, lo: Float64s, hi: Float64s, weight: Float64s
) -> tuple[Int64s, np.ndarray, np.ndarray]:
    """The lists of all dimensions: where each begins, its largest weight, and the postings."""
    spans, sizes = [], []
    for run, cut in zip(runs, cuts, strict=True):
        first = np.searchsorted(cut, lo[run], side="right")
        last = np.searchsorted(cut, hi[run], side="right")
        spans.append((first, last))
        changes = np.bincount(first, minlength=len(cut) + 2)
        changes -= np.bincount(last + 1, minlength=len(cut) + 2)
        counts = np.cumsum(changes)
        counts[len(cut) + 1] = len(first)
        sizes.append(counts)
    lists = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes]))]).astype(np.int64)
    heaviest, postings = np.zeros(len(lists) - 1, np.float32), np.zeros(int(lists[-1]), np.uint32)
    places, first_list = lists[:-1].copy(), 0
    for run, cut, (first, last) in zip(runs, cuts, spans, strict=True):
        whole = first_list + len(cut) + 1
        kernel.fill_lists(places, first_list, whole, first, last, ordinals[run], weight[run], postings, heaviest)
        first_list = whole + 1
    return lists, heaviest, postings
