"""Boxes around clustered points; narrow boxes have high scores (Ranked 4, Table 1).

A Zipfian generator places points on a grid of `cells` ** d cells: `regions` random boxes of a given volume share the
points by `skew_across`; within a box the cell at rank r from the middle has a share of r ** -`skew_within`. A point
is uniform in its cell, so keys lie in [0, 1). A subscription is [x - l, x + l] in every dimension, with a half-length
l of its own for each, and its score there is 1 - l.

The paper leaves two points open. Here half-lengths come from the same grid of `cells` steps of the unit interval, and ranks
within a region are taken for each dimension separately: for d = 1 as in the paper; for more, cells cannot be enumerated (100 **
8 / 20).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.schema import Schema
from matchwood.workloads.draw import fixed_events, fixed_rows, pick, zipf
from matchwood.workloads.workload import Part, Workload, require


@dataclass(frozen=True, kw_only=True)
class Ranked(Workload):
    """Parameters of Ranked Table 1, with its defaults."""

    dimensions: int = 1
    skew_length: float = 0.75
    """Higher values give shorter boxes, which overlap less."""
    regions: int = 10
    cells: int = 100
    volume: float = 1 / 20
    """The share of all cells in one region (minimum and maximum volume are equal in the paper)."""
    skew_across: float = 0.0
    skew_within: float = 1.0
    matching: Literal["relaxed", "exact"] = "relaxed"
    """`relaxed`: the score of a dimension is its predicate's weight. `exact`: their sum is the subscription's priority and
    weights are 0, since an exact match holds in all of them."""
    k: int = 20
    branching: int = 50
    warm_up: int = 100
    queries: int = 1000

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "table-1": {},
        **{f"d{d}": {"dimensions": d} for d in (1, 2, 3, 4, 8)},
        **{f"d{d}-exact": {"dimensions": d, "matching": "exact"} for d in (1, 2, 3, 4, 8)},
        **{f"overlap-{s}": {"dimensions": 4, "skew_length": s} for s in (0.0, 0.25, 0.5, 0.75, 1.0)},
        "quick": {"size": 20_000},
    }

    def __post_init__(self) -> None:
        require(self.dimensions >= 1, f"dimensions must be at least 1, got {self.dimensions}")
        require(self.regions >= 1 and self.cells >= 1, "regions and cells must be at least 1")
        require(0 < self.volume <= 1, f"volume must be a share of the space in (0, 1], got {self.volume}")

    def schema(self) -> Schema:
        return Schema({f"x{dim}": "number" for dim in range(self.dimensions)}, learn=False)

    def subscriptions(self) -> Rows:
        """Boxes in all dimensions, which are in ascending order. About 0.1 s per million and dimension."""
        rng = self._stream(Part.SUBSCRIPTIONS)
        middle = self._points(rng, self.size)
        steps = pick(rng, zipf(self.cells, self.skew_length), middle.shape)
        length = (steps + rng.random(middle.shape)) / self.cells
        score = 1 - length
        if self.matching == "relaxed":
            return fixed_rows(middle - length, middle + length, score)
        return fixed_rows(middle - length, middle + length, np.zeros_like(score), score.sum(axis=1))

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Points of the same generator as the centres of the subscriptions."""
        return fixed_events(self._points(self._stream(Part.EVENTS, batch), count))

    def boxes(self) -> tuple[Int64s, Int64s]:
        """First cell and number of cells of every region in every dimension.

        The logarithm of the volume is divided among the dimensions uniformly at random.
        """
        rng = self._stream(Part.STRUCTURE)
        shares = rng.dirichlet(np.ones(self.dimensions), size=self.regions)
        sides = np.clip(np.rint(self.cells * self.volume**shares), 1, self.cells).astype(np.int64)
        return rng.integers(0, self.cells - sides + 1), sides

    def _points(self, rng: np.random.Generator, count: int) -> Float64s:
        first, sides = self.boxes()
        region = pick(rng, zipf(self.regions, self.skew_across), count)
        points = np.empty((count, self.dimensions))
        for dim in range(self.dimensions):
            for here in range(self.regions):
                members = np.flatnonzero(region == here)
                side = int(sides[here, dim])
                rank = pick(rng, zipf(side, self.skew_within), len(members))
                cell = first[here, dim] + _from_middle(rank, side)
                points[members, dim] = (cell + rng.random(len(members))) / self.cells
        return points


def _from_middle(rank: Int64s, side: int) -> Int64s:
    """The cell of 0..side-1 at each rank from the middle: middle, one above, one below, two above, ..."""
    order = np.argsort(np.abs(np.arange(side) - (side - 1) / 2), kind="stable")
    return order[rank].astype(np.int64)
