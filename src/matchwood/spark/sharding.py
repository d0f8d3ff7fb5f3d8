"""Sharding: which subscriptions are stored in which shard, and which shards an event visits. Functions of arrays.

    one     one shard
    hash    by a hash of the id; every event visits every shard
    cover   subscriptions that no other covers in shard 0, the covered ones in shard 1. In mode `all` an event that matches
    nothing
            in shard 0 matches nothing in shard 1
    space   a k-d tree divides the plane into cells of equally many subscriptions. A subscription is stored in every cell that its
            box intersects. Those that intersect many cells, or have no box, are stored once, in the additional shard `wide`. An
            event visits the cell of its place, and `wide`

Sharding by space is exact in mode `all`: a row with a box cannot match an event outside the box. In mode `any` another
predicate of the row may hold, so events visit every shard. A subscription that is stored several times is then found several
times, with the same score, and the merge removes the duplicates.
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
from matchwood.spark.batches import first_rows

Box = tuple[float, float, float, float]
"""West, east, south, north; half-open."""
WEST, SOUTH = 0, 2
"""The lower sides of a `Box`; each upper side follows."""
MAX_COPIES = 4
"""A subscription that intersects more cells than this is stored in `wide` instead."""


class Boxes(NamedTuple):
    """Closed boxes; unbounded sides are infinite, an empty box (of an event without a place) has west > east."""

    west: Float64s
    east: Float64s
    south: Float64s
    north: Float64s


@dataclass(frozen=True)
class Sharding:
    """How subscriptions are divided among shards. `cells` are (west, east, south, north), half-open, of the spatial shards."""

    kind: Literal["one", "hash", "space", "cover"] = "one"
    shards: int = 1
    dims: tuple[int, int] | None = None
    cells: tuple[Box, ...] = ()

    @property
    def wide(self) -> int:
        """The number of the shard `wide`."""
        return len(self.cells)

    def of_rows(self, rows: Rows) -> tuple[Int64s, Int64s]:
        """(subscription's position in `rows`, shard) of every copy; for `space`. O(subscriptions x cells)."""
        boxes = subscription_boxes(rows, self._place())
        intersects = self._intersects(boxes)
        wide = (intersects.sum(axis=1) > MAX_COPIES) | (np.isneginf(boxes.west) & np.isposinf(boxes.east))
        intersects[wide] = False
        subscription, shard = np.nonzero(intersects)
        return np.concatenate([subscription, np.flatnonzero(wide)]), np.concatenate(
            [shard, np.full(int(wide.sum()), self.wide)]
        )

    def visits(self, events: Events, mode: Mode | str) -> NDArray[np.bool_]:
        """Which shards (columns) each event (rows) visits. O(events x shards)."""
        if self.kind != "space" or Mode(mode) is Mode.ANY:
            return np.ones((events.size, self.shards), np.bool_)
        visits = np.ones((events.size, self.shards), np.bool_)
        visits[:, : self.wide] = self._intersects(event_boxes(events, self._place()))
        return visits

    def to_json(self) -> dict[str, Any]:
        """As JSON, for a manifest; sides are texts, since JSON has no infinity."""
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

    def _intersects(self, boxes: Boxes) -> NDArray[np.bool_]:
        west, east, south, north = (np.array(side) for side in zip(*self.cells, strict=True))
        intersects: NDArray[np.bool_] = (boxes.west[:, None] < east) & (boxes.east[:, None] >= west)
        intersects &= (boxes.south[:, None] < north) & (boxes.north[:, None] >= south)
        intersects &= (boxes.west <= boxes.east)[:, None]
        return intersects


def spatial(dims: tuple[int, int], lon: Float64s, lat: Float64s, cells: int) -> Sharding:
    """Cells with equally many of these places each, divided along the axis on which they spread more. O(n log cells)."""
    if cells < 1:
        raise QueryError(f"expected at least one cell, got {cells}")
    found: list[tuple[float, float, float, float]] = []
    _cut(np.stack([lon, lat]), cells, [-np.inf, np.inf, -np.inf, np.inf], found)
    return Sharding("space", len(found) + 1, dims, tuple(found))


def subscription_boxes(rows: Rows, dims: tuple[int, int]) -> Boxes:
    """The box of each subscription: the hull of the boxes of its rows, unbounded if one of them has none. O(entries)."""
    heads = first_rows(rows)
    of_row = np.repeat(np.arange(rows.size), np.diff(rows.offsets))
    sides: list[Float64s] = []
    for dim in dims:
        is_bound = (rows.dims == dim) & (rows.kinds < CIRCLE) & (rows.kinds != ABSENT)
        lo, hi = np.full(rows.size, np.inf), np.full(rows.size, -np.inf)
        np.minimum.at(lo, of_row[is_bound], rows.lo[is_bound])
        np.maximum.at(hi, of_row[is_bound], rows.hi[is_bound])
        unbounded = lo > hi
        lo[unbounded], hi[unbounded] = -np.inf, np.inf
        sides += [np.minimum.reduceat(lo, heads), np.maximum.reduceat(hi, heads)] if rows.size else [lo, hi]
    return Boxes(*sides)


def event_boxes(events: Events, dims: tuple[int, int]) -> Boxes:
    """The box of the place of each event; empty without a place. O(entries)."""
    of_event = np.repeat(np.arange(events.size), np.diff(events.offsets))
    sides: list[Float64s] = []
    for dim in dims:
        is_bound = events.dims == dim
        lo, hi = np.full(events.size, np.inf), np.full(events.size, -np.inf)
        np.minimum.at(lo, of_event[is_bound], events.lo[is_bound])
        np.maximum.at(hi, of_event[is_bound], events.hi[is_bound])
        sides += [lo, hi]
    return Boxes(*sides)


def centres(boxes: Boxes) -> tuple[Float64s, Float64s]:
    """The centres of the bounded boxes."""
    bounded = np.isfinite(boxes.west) & np.isfinite(boxes.east) & np.isfinite(boxes.south) & np.isfinite(boxes.north)
    west, east, south, north = (side[bounded] for side in boxes)
    return (west + east) / 2, (south + north) / 2


def _cut(places: Float64s, cells: int, box: list[float], found: list[tuple[float, float, float, float]]) -> None:
    """Divide the box into `cells` cells, or fewer if places with equal coordinates cannot be separated."""
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
