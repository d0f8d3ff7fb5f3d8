"""Sharding: which subscriptions go to which shard, and which shards an event must visit. Plain functions of arrays.

    one     everything in shard 0
    hash    by the id's hash; every event visits every shard
    cover   those that none covers in shard 0, the covered in shard 1: an event that hits none of the first, in mode `all`,
            hits none of the second
    space   the plane is cut into cells of equally many subscriptions (a k-d tree, by data); a subscription goes to every cell its
            box meets. Those that meet too many, or have no box at all, go to one more shard, `wide`. An event visits the cell
            of its place, and `wide`

Space is exact for mode `all`: a row that asks for a box cannot match an event outside it. In mode `any` another predicate of
the row may hold, so every shard is visited; a subscription that was copied is then found several times, with the same score,
and the merge drops the copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import ABSENT, CIRCLE, Events, Float64s, Int64s, Rows
from matchwood.errors import QueryError
from matchwood.lang.evaluate import Mode

MOST_COPIES = 4
"""A subscription that meets more cells than this is put into `wide`, where it is stored once, and so is one without a box."""


class Boxes(NamedTuple):
    """Closed boxes; unbounded sides are infinite, an empty box (of an event without a place) has west > east."""

    west: Float64s
    east: Float64s
    south: Float64s
    north: Float64s


@dataclass(frozen=True)
class Sharding:
    """How subscriptions are spread. `cells` are (west, east, south, north), half-open, of the spatial shards."""

    kind: Literal["one", "hash", "space", "cover"] = "one"
    shards: int = 1
    dims: tuple[int, int] | None = None
    cells: tuple[tuple[float, float, float, float], ...] = ()

    @property
    def wide(self) -> int:
        """The number of the shard of those that meet too many cells."""
        return len(self.cells)

    def of_rows(self, rows: Rows) -> tuple[Int64s, Int64s]:
        """(subscription's place in `rows`, shard) of every copy; for `space`. O(subscriptions x cells)."""
        boxes = subscription_boxes(rows, self._place())
        meets = self._meets(boxes)
        wide = (meets.sum(axis=1) > MOST_COPIES) | (np.isneginf(boxes.west) & np.isposinf(boxes.east))
        meets[wide] = False
        subscription, shard = np.nonzero(meets)
        return np.concatenate([subscription, np.flatnonzero(wide)]), np.concatenate(
            [shard, np.full(int(wide.sum()), self.wide)]
        )

    def visits(self, events: Events, mode: Mode | str) -> NDArray[np.bool_]:
        """Which of the shards (columns) each event (rows) must visit. O(events x shards)."""
        if self.kind != "space" or Mode(mode) is Mode.ANY:
            return np.ones((events.size, self.shards), np.bool_)
        visits = np.ones((events.size, self.shards), np.bool_)
        visits[:, : self.wide] = self._meets(event_boxes(events, self._place()))
        return visits

    def to_json(self) -> dict[str, Any]:
        """For a manifest; infinite sides as text."""
        cells = [[str(side) for side in cell] for cell in self.cells]
        return {"kind": self.kind, "shards": self.shards, "dims": self.dims and list(self.dims), "cells": cells}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Sharding:
        """What `to_json` described."""
        cells = tuple((float(w), float(e), float(s), float(n)) for w, e, s, n in saved["cells"])
        dims = saved["dims"]
        return cls(saved["kind"], int(saved["shards"]), (int(dims[0]), int(dims[1])) if dims else None, cells)

    def _place(self) -> tuple[int, int]:
        assert self.dims is not None
        return self.dims

    def _meets(self, boxes: Boxes) -> NDArray[np.bool_]:
        west, east, south, north = (np.array(side) for side in zip(*self.cells, strict=True))
        meets: NDArray[np.bool_] = (boxes.west[:, None] < east) & (boxes.east[:, None] >= west)
        meets &= (boxes.south[:, None] < north) & (boxes.north[:, None] >= south)
        meets &= (boxes.west <= boxes.east)[:, None]
        return meets


def spatial(dims: tuple[int, int], lon: Float64s, lat: Float64s, cells: int) -> Sharding:
    """Cells that hold equally many of these places, cut in turn along the axis on which they spread more. O(n log cells)."""
    if cells < 1:
        raise QueryError(f"expected at least one cell, got {cells}")
    found: list[tuple[float, float, float, float]] = []
    _cut(np.stack([lon, lat]), cells, [-np.inf, np.inf, -np.inf, np.inf], found)
    return Sharding("space", len(found) + 1, dims, tuple(found))


def subscription_boxes(rows: Rows, dims: tuple[int, int]) -> Boxes:
    """The box of each subscription: the hull of its rows' boxes, everything if one of them has none. O(entries)."""
    heads = np.flatnonzero(np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])) if rows.size else np.zeros(0, int)
    of_row = np.repeat(np.arange(rows.size), np.diff(rows.offsets))
    sides: list[Float64s] = []
    for dim in dims:
        speaks = (rows.dims == dim) & (rows.kinds != CIRCLE) & (rows.kinds != ABSENT)
        lo, hi = np.full(rows.size, np.inf), np.full(rows.size, -np.inf)
        np.minimum.at(lo, of_row[speaks], rows.lo[speaks])
        np.maximum.at(hi, of_row[speaks], rows.hi[speaks])
        silent = lo > hi
        lo[silent], hi[silent] = -np.inf, np.inf
        sides += [np.minimum.reduceat(lo, heads), np.maximum.reduceat(hi, heads)] if rows.size else [lo, hi]
    return Boxes(*sides)


def event_boxes(events: Events, dims: tuple[int, int]) -> Boxes:
    """The box of each event's place; empty where there is none. O(entries)."""
    of_event = np.repeat(np.arange(events.size), np.diff(events.offsets))
    sides: list[Float64s] = []
    for dim in dims:
        speaks = events.dims == dim
        lo, hi = np.full(events.size, np.inf), np.full(events.size, -np.inf)
        np.minimum.at(lo, of_event[speaks], events.lo[speaks])
        np.maximum.at(hi, of_event[speaks], events.hi[speaks])
        sides += [lo, hi]
    return Boxes(*sides)


def centres(boxes: Boxes) -> tuple[Float64s, Float64s]:
    """The centres of the bounded boxes."""
    bounded = np.isfinite(boxes.west) & np.isfinite(boxes.east) & np.isfinite(boxes.south) & np.isfinite(boxes.north)
    west, east, south, north = (side[bounded] for side in boxes)
    return (west + east) / 2, (south + north) / 2


def _cut(places: Float64s, cells: int, box: list[float], found: list[tuple[float, float, float, float]]) -> None:
    """Split the box until it is `cells` cells; places of one coordinate cannot be split and give fewer."""
    if cells > 1 and places.shape[1] > 1:
        spread = places.max(axis=1) - places.min(axis=1)
        axis = int(np.argmax(spread))
        left_cells = cells // 2
        at = float(np.quantile(places[axis], left_cells / cells))
        left = places[axis] < at
        if spread[axis] > 0.0 and left.any() and not left.all():
            lower, upper = list(box), list(box)
            lower[2 * axis + 1] = upper[2 * axis] = at
            _cut(places[:, left], left_cells, lower, found)
            _cut(places[:, ~left], cells - left_cells, upper, found)
            return
    found.append((box[0], box[1], box[2], box[3]))
