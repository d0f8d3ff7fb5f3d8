"""The plan of an MO-Tree: which attributes are layers, which cells they have, which slices divide every axis.

`planned` chooses from a sample of the rows and compares alternatives by the work that the sample predicts. Ticks and slices are
quantiles, so that cells are filled evenly. `paper` is the configuration of MO-Tree 6.1: six layers, four levels of uniform cells
each, widths by the optimisation of section 5 (`width`), no slices.

Attributes are selected by the three guidelines of MO-Tree 4.2 as one number, the share of rows that an event is expected to lose
on the attribute: popularity times (1 - mean share of the domain, in quantiles, that an interval takes). Quantiles make the third
guideline, uniformity, hold by construction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from matchwood.encode.arrays import Float64s
from matchwood.store.kernels.rows import ABSENT, NARROWS, SET, WORDS
from matchwood.store.reading import Slots
from matchwood.store.row_store import RowStore
from matchwood.structures.mo_tree.kernels import layout as kernel
from matchwood.structures.mo_tree.kernels.layout import TreeCount
from matchwood.structures.mo_tree.width import cell_widths

TICKS = 1024  # of a layer
MAX_AXES = 32
MAX_LAYERS = 8  # a request has 8 bits for the slices of each
MAX_SLICES = 62  # a word holds them and a null bit
MAX_BUCKETS = 1 << 21
SAMPLE = 16_384
SET_ENDS = 64  # ends of the intervals of a set that are looked at
BUCKETS_PER_SAMPLED_ROW = 0.25  # of more, the sample cannot tell how many hold rows
EVENTS = 96  # sampled rows whose centres stand for events when alternatives are compared
LINE_NS, BUCKET_NS, NUMBER_NS = 5.0, 25.0, 1.5  # a line of a plane, a bucket entered, a combination of cells looked up


@dataclass(frozen=True, slots=True)
class Level:
    """`cells` cells of one width, the first at tick 0 and the last at the end; widths and strides in ticks."""

    cells: int
    width: float
    stride: float


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """An attribute: its cuts, its slices and, if it is a layer, its levels, narrow to wide, the last the whole domain."""

    dim: int
    cuts: Float64s
    slices: int
    levels: tuple[Level, ...] = ()
    disjoint: int = 0
    """Cells of a layer of live events, which has two more: for values that span several, for events without the attribute."""

    @property
    def size(self) -> int:
        """How many cells the layer has; 0 if the axis is not a layer."""
        return self.disjoint + 2 if self.disjoint else sum(level.cells for level in self.levels)

    @property
    def ticks(self) -> int:
        return len(self.cuts) + 1

    def cells(self) -> np.ndarray:
        """First tick and width of every cell of the layer, level by level, or disjoint, spanning and null cells."""
        if self.disjoint:
            found = np.zeros(self.size, kernel.TREE_CELL)
            ends = -(-np.arange(self.disjoint + 1) * self.ticks // self.disjoint)  # as `structures.live` divides ticks
            found["first"][: self.disjoint], found["width"][: self.disjoint] = ends[:-1], np.diff(ends)
            found["width"][self.disjoint :] = self.ticks
            return found
        cells = [(round(j * level.stride), level.width) for level in self.levels for j in range(level.cells)]
        found = np.zeros(len(cells), kernel.TREE_CELL)
        found["first"] = [min(first, self.ticks - 1) for first, _ in cells]
        found["width"] = [max(1, int(np.ceil(width))) for _, width in cells]
        return found


@dataclass(frozen=True, slots=True)
class TreePlan:
    """Axes, the layers first. `rows` is how many rows, or live events, it was made for."""

    axes: tuple[AxisPlan, ...]
    rows: int

    @property
    def layers(self) -> int:
        return sum(bool(axis.size) for axis in self.axes)

    @property
    def buckets(self) -> int:
        return int(np.prod([axis.size for axis in self.axes if axis.size], initial=1))

    def arrays(self) -> dict[str, np.ndarray]:
        """axes, axis_of, cuts, levels, cells and counts of `kernels.layout.Tree`."""
        axes = np.zeros(len(self.axes), kernel.AXIS)
        cells, levels = [np.zeros(0, kernel.TREE_CELL)], [np.zeros(0, kernel.LEVEL)]
        cuts = plane = first_cell = first_level = 0
        radix, whole = self.buckets, 0
        for record, axis in zip(axes, self.axes, strict=True):
            record["dim"], record["slices"], record["plane"] = axis.dim, axis.slices, plane
            record["first_cut"], record["cuts"] = cuts, len(axis.cuts)
            cuts += len(axis.cuts)
            plane += axis.slices + 1 if axis.slices else 0
            if not axis.size:
                continue
            cells.append(axis.cells())
            cells[-1]["scale"] = kernel.scale_of(axis.slices, cells[-1]["width"].astype(np.int64))
            levels.append(
                np.array([(v.width, v.stride or 1.0, f, v.cells) for f, v in _with_first(axis.levels)], kernel.LEVEL)
            )
            radix //= axis.size
            record["first_level"], record["levels"] = first_level, len(axis.levels)
            record["first_cell"], record["cells"], record["radix"] = first_cell, axis.size, radix
            whole += radix * (axis.size - 1)
            first_cell += axis.size
            first_level += len(axis.levels)
        axis_of = np.full(max((axis.dim for axis in self.axes), default=-1) + 1, kernel.NO_AXIS, np.uint16)
        axis_of[axes["dim"]] = np.arange(len(axes))
        counts = np.zeros(kernel.COUNTS, np.int64)
        counts[TreeCount.FREE_REGIONS :] = int(kernel.NO_REGION)
        counts[TreeCount.FREE_NODE] = int(kernel.NONE)
        counts[TreeCount.LAYERS], counts[TreeCount.AXES] = self.layers, len(axes)
        counts[TreeCount.SLICED] = len(axes) if plane else 0
        counts[TreeCount.PLANES], counts[TreeCount.WHOLE] = plane, whole
        return {
            "axes": axes,
            "axis_of": axis_of,
            "cuts": np.concatenate([np.zeros(0), *(axis.cuts for axis in self.axes)]),
            "levels": np.concatenate(levels),
            "cells": np.concatenate(cells),
            "counts": counts,
        }


@dataclass(frozen=True, slots=True)
class Column:
    """What the sample says about one dimension: which sampled rows constrain it, and with which hulls."""

    dim: int
    rows: np.ndarray
    lo: Float64s
    hi: Float64s
    ends: Float64s  # finite ends, those of the intervals of a set too, ascending
    popularity: float
    width: float  # mean share of the domain, in quantiles

    @property
    def filtered(self) -> float:
        """The share of rows that an event is expected to lose on this dimension."""
        return self.popularity * (1.0 - self.width)

    def cuts(self, parts: int) -> Float64s:
        """At most parts - 1 cuts: at every key if there are so few, a slice for each; else they divide the ends evenly."""
        keys = np.unique(self.ends)
        if len(keys) <= parts:
            return keys[1:]
        at = (np.arange(1, parts) * len(self.ends)) // parts
        return np.unique(self.ends[at])


def columns_of(store: RowStore, slots: Slots) -> tuple[list[Column], int]:
    """The dimensions of a sample of rows, those that filter most first, and the size of the sample."""
    step = max(1, len(slots) // SAMPLE)
    rows = store.state.rows[slots[::step]]
    starts, counts = rows["start"].astype(np.int64), rows["count"].astype(np.int64)
    owner = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = store.state.entries[starts[owner] + within]
    usable = (entries["kind"] & (ABSENT | NARROWS)) == 0
    entries, owner = entries[usable], owner[usable]
    set_ends, set_dims = _ends_of_sets(store, entries, starts[owner])
    columns = []
    for dim in np.unique(entries["dim"]):
        mine = entries["dim"] == dim
        lo, hi = entries["lo"][mine], entries["hi"][mine]
        ends = np.sort(np.concatenate([lo, hi, set_ends[set_dims == dim]]))
        ends = ends[np.isfinite(ends)]
        inside = np.searchsorted(ends, hi, side="right") - np.searchsorted(ends, lo, side="left")
        width = float(np.mean(inside) / max(len(ends), 1))
        columns.append(Column(int(dim), owner[mine], lo, hi, ends, float(mine.sum()) / len(rows), min(width, 1.0)))
    columns.sort(key=lambda column: -column.filtered)
    return columns, len(rows)


def _ends_of_sets(store: RowStore, entries: np.ndarray, starts: np.ndarray) -> tuple[Float64s, np.ndarray]:
    """Ends of intervals of the sets among main entries of rows that start there, evenly drawn from long ones, and their
    dimensions."""
    sets = (entries["kind"] & SET) != 0
    words = store.state.entries.view(np.float64)
    first = WORDS * (starts[sets] + entries["more"][sets])
    number = words[first]  # negative where the intervals are points, of which one word is kept
    count = np.where(number < 0, -number, 2 * number).astype(np.int64)
    taken = np.minimum(count, SET_ENDS)
    owner = np.repeat(np.arange(len(first)), taken)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(taken) - taken, taken)
    return words[first[owner] + 1 + within * count[owner] // taken[owner]], entries["dim"][sets][owner]


def planned(store: RowStore, slots: Slots, *, bytes_per_row: int, layers: int | None) -> TreePlan:
    """The cheapest plan found for these rows. `bytes_per_row` bounds the planes; `layers` fixes the height."""
    columns, sampled = columns_of(store, slots)
    columns = [column for column in columns[:MAX_AXES] if len(column.ends)]
    slices = _slices(columns, 8 * bytes_per_row)
    best: tuple[AxisPlan, ...] = ()
    if layers != 0 and columns:
        best = _best_layers(columns, sampled, len(slots), layers)
    chosen = {axis.dim for axis in best}
    axes = [AxisPlan(axis.dim, axis.cuts, _of(slices, columns, axis.dim), axis.levels) for axis in best]
    for column, parts in zip(columns, slices, strict=True):
        if column.dim not in chosen:
            cuts = column.cuts(parts)
            axes.append(AxisPlan(column.dim, cuts, len(cuts) + 1))
    return TreePlan(tuple(axes), len(slots))


def paper(
    store: RowStore, slots: Slots, *, height: int = 6, levels: int = 4, eta: float = 6.5, ticks: int = 1000
) -> TreePlan:
    """MO-Tree 6.1: the most popular attributes, uniform ticks, cells of the widths that section 5 gives, no slices."""
    columns, _ = columns_of(store, slots)
    columns = [c for c in sorted(columns, key=lambda c: (-c.popularity, c.dim)) if len(c.ends)][:height]
    widths = cell_widths(levels, eta)
    axes = []
    parts = np.arange(1, ticks) / ticks
    for column in columns:
        low, high = column.ends[0], column.ends[-1]
        cuts = np.unique(low * (1.0 - parts) + high * parts)  # high - low may be past float64
        size = len(cuts) + 1
        cells = [levels - i for i in range(levels)]
        made = tuple(Level(c, w * size, (1.0 - w) * size / max(c - 1, 1)) for c, w in zip(cells, widths, strict=True))
        axes.append(AxisPlan(column.dim, cuts, 0, made))
    return TreePlan(tuple(axes), len(slots))


def _slices(columns: Sequence[Column], planes: int) -> list[int]:
    """Slices by the square root of popularity: that keeps the fewest rows by rounding (sum of popularity / slices)."""
    if not columns:
        return []
    share = np.sqrt([column.popularity for column in columns])
    wanted = share / share.sum() * max(planes - len(columns), 4 * len(columns))
    return [int(min(max(4, round(w)), MAX_SLICES)) for w in wanted]


def _of(slices: list[int], columns: Sequence[Column], dim: int) -> int:
    return next(parts for parts, column in zip(slices, columns, strict=True) if column.dim == dim)


def _best_layers(columns: Sequence[Column], sampled: int, rows: int, layers: int | None) -> tuple[AxisPlan, ...]:
    """Layers and their levels that cost the least on the sample."""
    scale = rows / max(sampled, 1)
    best: tuple[AxisPlan, ...] = ()
    least = rows / kernel.LINE_ROWS * len(columns) * LINE_NS + BUCKET_NS if layers is None else np.inf
    max_buckets = min(MAX_BUCKETS, max(64, rows), max(64, int(sampled * BUCKETS_PER_SAMPLED_ROW)))
    heights = (1, 2, 3) if layers is None else (min(layers, len(columns), MAX_LAYERS),)
    for height in heights:
        chosen = columns[:height]
        for quantiles in ((0.9,), (0.35, 0.78, 0.96), (0.25, 0.5, 0.75, 0.95)):
            for strides in (6, 12, 24, 48):
                axes = tuple(_layer(column, quantiles, strides) for column in chosen)
                if TreePlan(axes, rows).buckets > max_buckets:
                    break
                cost = _cost(axes, chosen, sampled, scale, len(columns))
                if cost < least:
                    best, least = axes, cost
    return best


def _layer(column: Column, quantiles: Sequence[float], strides: int) -> AxisPlan:
    """Levels for intervals up to these quantiles of the widths, cells a stride of 1 / strides of the domain apart."""
    cuts = column.cuts(TICKS)
    ticks = len(cuts) + 1
    begin, end = (np.searchsorted(cuts, keys, side="right") for keys in (column.lo, column.hi))
    stride = max(1.0, ticks / strides)
    levels: list[Level] = []
    for fits in np.unique(np.quantile(end - begin + 1, quantiles)):
        width = float(np.ceil(fits + stride))
        if width < 0.9 * ticks and (not levels or width > 1.2 * levels[-1].width):
            cells = int(np.ceil((ticks - width) / stride)) + 1
            levels.append(Level(cells, width, (ticks - width) / (cells - 1)))
    return AxisPlan(column.dim, cuts, 0, (*levels, Level(1, float(ticks), float(ticks))))


def _cost(axes: Sequence[AxisPlan], columns: Sequence[Column], sampled: int, scale: float, planes: int) -> float:
    """Nanoseconds an event is expected to take: the centres of sampled rows stand for events."""
    number = np.zeros(sampled, np.int64)
    events = np.arange(0, sampled, max(1, sampled // EVENTS))
    stabs: list[np.ndarray] = []
    for axis, column in zip(axes, columns, strict=True):
        cells = axis.cells()
        begin = np.searchsorted(axis.cuts, column.lo, side="right")
        end = np.searchsorted(axis.cuts, column.hi, side="right")
        number *= len(cells)
        cell = np.full(sampled, len(cells) - 1)
        cell[column.rows] = _fitted(axis, cells, begin, end)
        number += cell
        centre = np.zeros(sampled, np.int64)
        centre[:] = axis.ticks // 2
        centre[column.rows] = (begin + end) // 2
        at = centre[events][:, None]
        stabs.append((cells["first"] <= at) & (at < cells["first"] + cells["width"]))
    used, counts = np.unique(number, return_counts=True)
    visited = np.ones((len(events), len(used)), bool)
    rest = used.copy()
    combinations = np.ones(len(events))
    for stabbed in reversed(stabs):
        visited &= stabbed[:, rest % stabbed.shape[1]]
        rest //= stabbed.shape[1]
        combinations *= stabbed.sum(axis=1)
    lines = np.ceil(counts * scale / kernel.LINE_ROWS + 0.25)
    spent = visited @ (lines * (planes + 1) * LINE_NS + BUCKET_NS)
    return float(np.mean(spent + combinations * NUMBER_NS))


def _fitted(axis: AxisPlan, cells: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The cell of each interval of ticks, as `kernels.layout.cell_for` finds it."""
    found = np.full(len(begin), len(cells) - 1)
    open_ = np.ones(len(begin), bool)
    for first, level in _with_first(axis.levels[:-1]):
        nearest = np.floor((0.5 * (begin + end + 1) - 0.5 * level.width) / level.stride + 0.5).astype(np.int64)
        cell = first + np.clip(nearest, 0, level.cells - 1)
        fits = open_ & (end - begin + 1 <= level.width)
        fits &= (cells["first"][cell] <= begin) & (end < cells["first"][cell] + cells["width"][cell])
        found[fits] = cell[fits]
        open_ &= ~fits
    return found


def _with_first(levels: Sequence[Level]) -> Iterator[tuple[int, Level]]:
    first = 0
    for level in levels:
        yield first, level
        first += level.cells
